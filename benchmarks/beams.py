"""How good Lidar2D gets at beam selection: trained centrally, and by the vehicles that pass.

    python benchmarks/beams.py ../shared/data/raymobtime/s010.npz

Central: plain SGD with the paper's step and batch, epochs over the whole training set, ordinary cross-entropy.
Federated: MOB-FL's plan on the paper's road for T_A = 10,000 s, the same loss. Both are judged on the same samples,
by their best epoch or round as well as by the model with the least loss and the last one, for ordinary cross-entropy
overfits long before T_A. Takes a quarter of an hour. Without an argument, generated data.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from mobfl import Job, SgdTerms, TaskRequest, build_task, load_scenario, plan, train
from mobfl.learning.task import Task

EPOCHS, SEEDS = 30, (1, 2, 3)
ROAD = load_scenario("paper").with_values({"training.loss_scale": "sample"})
TOPS = ("top_1", "top_5", "top_10")

Scores = list[dict[str, float]]


def central(task: Task, seed: int) -> Scores:
    """The scores after every epoch."""
    random, model, scores = np.random.default_rng(seed), task.initial_weights(seed), Scores()
    batch = ROAD.training.batch_size
    for _ in range(EPOCHS):
        order = random.permutation(len(task.pool))[: len(task.pool) // batch * batch].reshape(-1, batch)
        model = task.local_steps(model, order, SgdTerms(ROAD.training.learning_rate))
        scores.append(task.evaluate(model))
    return scores


def federated(task: Task, seed: int) -> Scores:
    """The scores after every round."""
    with tempfile.TemporaryDirectory() as folder:
        columns = train(Job(task, ROAD, plan(ROAD), seed), Path(folder) / "run", workers=2).columns
    return [{name: float(columns[name][k]) for name in ("loss", *TOPS)} for k in range(len(columns["loss"]))]


def show(name: str, seed: int, scores: Scores) -> None:
    best = {k: max(each[k] for each in scores) for k in TOPS}
    least = min(scores, key=lambda each: each["loss"])
    for what, chosen in (("best", best), ("least loss", least), ("last", scores[-1])):
        tops = "  ".join(f"{chosen[k]:.4f}" for k in TOPS)
        print(f"{name:10} seed {seed}  {what:10}  top-1/5/10  {tops}", flush=True)


def main() -> None:
    task = build_task("beams", TaskRequest(data=Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    print("data:", task.record["data"], "floor:", task.baselines["commonest beams"])
    for seed in SEEDS:
        show("central", seed, central(task, seed))
    for seed in SEEDS:
        show("federated", seed, federated(task, seed))


if __name__ == "__main__":
    main()
