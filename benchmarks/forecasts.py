"""How good LaneGCN gets when trained centrally, within a given time on this machine.

    python benchmarks/forecasts.py [ARGOVERSE_FOLDER] [--minutes 50] [--width 32] [--out MODEL.safetensors]

ARGOVERSE_FOLDER holds train, val and the maps; without it, the generated town. Adam, batches of 32, the step falling
along a cosine to the end of the time; two threads. Every epoch prints the benchmark's figures on the validation scenes,
beside constant velocity.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from mobfl import TaskRequest, build_task
from mobfl.learning.torch_steps import load, read
from mobfl.tasks.trajectories.lanegcn import LaneGCN
from mobfl.tasks.trajectories.task import TrajectoryTask

BATCH, RATE = 32, 1e-3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--minutes", type=float, default=50.0)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    task = build_task("trajectories", TaskRequest({"width": given.width}, given.data))
    assert isinstance(task, TrajectoryTask)
    floor = task.baselines["constant velocity"]["min_ade_6"]
    print({name: {k: round(v, 3) for k, v in each.items()} for name, each in task.baselines.items()}, flush=True)
    torch.set_num_threads(2)
    module = LaneGCN(given.width)
    load(module, task.initial_weights(0))
    optimiser = torch.optim.Adam(module.parameters(), lr=RATE)
    random, began, epoch, best = np.random.default_rng(0), time.monotonic(), 0, math.inf
    while (spent := time.monotonic() - began) < 60 * given.minutes:
        module.train()
        order = random.permutation(len(task.pool))
        for batch in torch.from_numpy(order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)):
            share = min((time.monotonic() - began) / (60 * given.minutes), 1.0)
            optimiser.param_groups[0]["lr"] = RATE * (0.01 + 0.99 * (1 + math.cos(math.pi * share)) / 2)
            optimiser.zero_grad()
            task.loss(module, batch).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        epoch += 1
        scores = task.evaluate(read(module))
        torch.set_num_threads(2)
        below = 1 - scores["min_ade_6"] / floor
        print(
            f"epoch {epoch}, {spent / 60:.1f} min:", {k: round(v, 3) for k, v in scores.items()}, f"{below:.1%} below"
        )
        if given.out is not None and scores["min_ade_6"] < best:
            best = scores["min_ade_6"]
            save_file(dict(read(module)), given.out)


if __name__ == "__main__":
    main()
