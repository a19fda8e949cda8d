"""Who is heard where vehicles compute and drive unequally fast: the arena's study "mixed vehicles", from its schedules.

    python benchmarks/heard.py

Half of the vehicles take 0.1 s + Exp(0.1 s) for a step, the others 0.4 s + Exp(0.4 s); speeds are 20 ± 5 m/s. For each
algorithm: the share of the visits, uploads, local steps, and of how far the model moved, that belongs to the slow
computers and to the slowest and the fastest third of the drivers. Means ± sd over five seeds of 2,500 s. Nothing is
trained: who uploads when, and what the rule makes of it, is known before. Takes ten seconds.
"""

from collections import defaultdict

import numpy as np

from mobfl.experiments.arena import Wanted
from mobfl.experiments.heard import by_class, by_speed, shares
from mobfl.experiments.replay import Replay
from mobfl.experiments.sweep_file import load_sweep
from mobfl.servers.names import server_of

SHOWN = ("slow computer", "slowest third", "fastest third")
COLUMNS = ("visits", "uploads", "local_steps", "moved")


def main() -> None:
    found = defaultdict[tuple[str, str], list[list[float]]](list)
    for asked in Wanted(studies=["mixed"], seeds=range(1, 6)).of(load_sweep("arena", generated=True)).requests:
        replay = Replay(asked.scenario, server_of(asked.plan, asked.rule, asked.scenario, None), asked.seed)
        for groups in (by_class(replay), by_speed(replay)):
            assert groups is not None
            for share in shares(replay, groups):
                found[share.group, asked.label].append([getattr(share, column) for column in COLUMNS])
    for group in SHOWN:
        print(f"\n| {group} | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
        for (own, label), values in found.items():
            if own == group:
                means, spreads = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
                cells = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in zip(means, spreads, strict=True)]
                print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
