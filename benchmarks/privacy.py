"""What privacy costs: ε against the final loss, noise by noise, and plans for m uploads against the free one.

    python benchmarks/privacy.py

A network of 162 parameters on generated points, vehicles with 256 of them each, a street with two vehicles per second,
rounds planned for at least 20 uploads; three seeds, each of which is the same traffic for every noise.
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

import mobfl

SEEDS = (1, 2, 3)
NOISES = (0.0, 0.5, 1.0, 2.0, 4.0)
DENOMINATOR, CLIP = 25, 0.5
ROAD = mobfl.Scenario().with_values(
    {
        "traffic.arrivals_per_s": 2.0,
        "training.duration_s": 400.0,
        "training.batch_size": 32,
        "training.samples_per_vehicle": 256,
        "training.learning_rate": 0.3,
    }
)


def quadrants() -> mobfl.TorchTask:
    points = torch.randn(5000, 2, generator=torch.Generator().manual_seed(0))
    classes = (points[:, 0] * points[:, 1] > 0).long()
    return mobfl.TorchTask(
        nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)),
        nn.functional.cross_entropy,
        train=(points[:4000], classes[:4000]),
        validation=(points[4000:], classes[4000:]),
        kpis={"accuracy": lambda outputs, targets: outputs.argmax(1) == targets},
        name="quadrants",
    )


def trained(task: mobfl.TorchTask, noise: float, seed: int, plan: str) -> dict[str, Any]:
    rule = f"private:uploads={DENOMINATOR},clip={CLIP},noise={noise}" if noise else "mean"
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        mobfl.train(mobfl.Job(task, ROAD, plan, seed, rule=rule), out)
        results = json.loads((out / "run.json").read_text())["results"]
    assert results["rounds_with_uploads"] == results["rounds"] > 5
    assert bool(noise) == ("privacy" in results)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default="mobfl:least=20,prob=0.9")
    parser.add_argument("--noise", type=float, nargs="+", default=NOISES, help="0 is the mean without privacy")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    task = quadrants()
    print("noise  ε        most rounds  final loss: mean [each seed]     accuracy")
    for noise in asked.noise:
        runs = [trained(task, noise, seed, asked.plan) for seed in SEEDS]
        losses = [run["final"]["loss"] for run in runs]
        private = [run.get("privacy", {"epsilon": float("inf"), "most_rounds": 0}) for run in runs]
        told = max(each["epsilon"] for each in private), max(each["most_rounds"] for each in private)
        each = ", ".join(f"{loss:.3f}" for loss in losses)
        accuracy = mean(run["final"]["accuracy"] for run in runs)
        print(f"{noise:<6g} {told[0]:<8.3g} {told[1]:<12} {mean(losses):.3f} [{each}]   {accuracy:.3f}", flush=True)
    print("\nm of plan(least=LeastUploads(m, 0.9)): H, T, price")
    for road, name in ((mobfl.Scenario(), "the paper's road"), (ROAD, "two vehicles per second")):
        for uploads in (1, 2, 5, 10, 20, 50):
            best = mobfl.plan(road, least=mobfl.LeastUploads(uploads, 0.9))
            h, t, g = best.numbers
            print(f"{name}: m = {uploads:<3} H = {h:<3} T = {t:7.2f} s  g = {g:.4f}  price {best.price:.1%}")


if __name__ == "__main__":
    main()
