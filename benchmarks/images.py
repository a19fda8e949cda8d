"""How well the task `images` can be learnt by one who holds all samples: the mark for federated runs.

    python benchmarks/images.py                                                              # generated pictures
    python benchmarks/images.py --rate 0.1 --momentum 0 --steps 600 --every 100              # without momentum
    python benchmarks/images.py CIFAR_FOLDER --steps 6000 --every 500 --decay 0.05           # CIFAR-10

Plain steps through `task.local_steps` on one thread; momentum begins again at every look.
"""

import argparse
from pathlib import Path

import numpy as np

from mobfl import SgdTerms, TaskRequest, build_task


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "data", nargs="?", type=Path, help="a folder with data_batch_*.bin; without it, generated pictures"
    )
    for name, default in (("width", 16), ("steps", 1200), ("every", 200), ("batch", 64), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, value in (("rate", 0.05), ("momentum", 0.9), ("decay", 1.0)):
        parser.add_argument(f"--{name}", type=float, default=value)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    task = build_task("images", TaskRequest({"width": asked.width}, asked.data))
    model, random = task.initial_weights(asked.seed), np.random.default_rng(asked.seed)
    start = task.evaluate(model)
    print(f"{len(task.pool)} training samples, baselines {dict(task.baselines)}, at the start {start['accuracy']:.3f}")
    for done in range(0, asked.steps, asked.every):
        batches = np.stack([random.choice(len(task.pool), asked.batch, replace=False) for _ in range(asked.every)])
        rate = asked.rate * asked.decay ** (done / asked.steps)
        model = task.local_steps(model, batches, SgdTerms(rate, asked.momentum))
        print(f"{done + asked.every:6d} steps: accuracy {task.evaluate(model)['accuracy']:.3f}", flush=True)
    assert task.evaluate(model)["accuracy"] > 2 * start["accuracy"], "it must have learnt"


if __name__ == "__main__":
    main()
