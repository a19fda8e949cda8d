"""Where stay-aware asynchronous training is safe: seconds to a loss over arrivals and damping, on a stand-in model.

    python benchmarks/damping.py

A network with one hidden layer of 32 tells ten overlapping clouds of points apart: brisk steps (learning rate 0.3) on
few samples, so that it falls apart where a server step is too long. The paper's road with other arrivals, two parts of
the stay, leaving known, 400 s, five seeds. A cell has the median of the seconds to an eighth of the initial loss, and
how many runs stopped by themselves as diverged; in brackets the median of the last loss. The last columns are MOB-FL's
plan and FedAsync with its H, on the same traffic.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import mobfl
from mobfl.files.json import read_json
from mobfl.learning.task import Integers
from mobfl.runs.folder import RUN

ARRIVALS = (0.03, 0.1, 0.5, 1.0)
RULES = {
    "1, p = 0": "damped:damping=1,staleness_power=0",
    "1, p = 0.5": "damped:damping=1,staleness_power=0.5",
    "0.6, p = 0.5": "damped:damping=0.6,staleness_power=0.5",
    "0.3, p = 0.5": "damped:damping=0.3,staleness_power=0.5",
    "0.6, p = 1": "damped:damping=0.6,staleness_power=1",
}
SEEDS = range(1, 6)
CLASSES, INPUTS, HIDDEN = 10, 16, 32


class Clouds:
    """Ten clouds of points that overlap, told apart by a network with one hidden layer."""

    name = "clouds"
    kpis: Sequence[mobfl.Kpi] = (mobfl.Kpi("accuracy"),)
    baselines: Mapping[str, Mapping[str, float]] = {}
    record: Mapping[str, Any] = {"samples": "generated"}

    def __init__(self, samples: int = 4000, held_out: int = 500) -> None:
        draw = np.random.default_rng(0)
        centres = draw.normal(0, 1, (CLASSES, INPUTS))
        self._labels = draw.integers(0, CLASSES, samples + held_out)
        self._points = (centres[self._labels] + draw.normal(0, 1, (len(self._labels), INPUTS))).astype(np.float32)
        self._held_out = samples
        self.pool = mobfl.Pool(self._labels[:samples], np.zeros(samples))

    def initial_weights(self, seed: int) -> mobfl.Weights:
        draw = np.random.default_rng(seed)
        shapes = {"in": (INPUTS, HIDDEN), "hidden": (HIDDEN,), "out": (HIDDEN, CLASSES), "last": (CLASSES,)}
        return {name: draw.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}

    def local_steps(self, model: mobfl.Weights, batches: Integers, terms: mobfl.SgdTerms) -> mobfl.Weights:
        now = dict(model)
        with np.errstate(all="ignore"):
            for batch in batches:
                slopes = _slopes(now, self._points[batch], self._labels[batch])
                now = {name: values - np.float32(terms.learning_rate) * slopes[name] for name, values in now.items()}
        return now

    def gradient(self, model: mobfl.Weights, batch: Integers) -> mobfl.Weights:
        return _slopes(model, self._points[batch], self._labels[batch])

    def evaluate(self, model: mobfl.Weights) -> dict[str, float]:
        points, labels = self._points[self._held_out :], self._labels[self._held_out :]
        with np.errstate(all="ignore"):
            chances, _ = _forward(model, points)
            loss = -np.log(np.maximum(chances[np.arange(len(labels)), labels], 1e-30)).mean()
        return {"loss": float(loss), "accuracy": float((chances.argmax(axis=1) == labels).mean())}


def _forward(model: mobfl.Weights, points: Any) -> tuple[Any, Any]:
    hidden = np.maximum(points @ model["in"] + model["hidden"], 0)
    scores = hidden @ model["out"] + model["last"]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True), hidden


def _slopes(model: mobfl.Weights, points: Any, labels: Any) -> dict[str, Any]:
    wrong, hidden = _forward(model, points)
    wrong[np.arange(len(labels)), labels] -= 1
    wrong /= len(labels)
    back = (wrong @ model["out"].T) * (hidden > 0)
    return {"in": points.T @ back, "hidden": back.sum(0), "out": hidden.T @ wrong, "last": wrong.sum(0)}


def road(arrivals_per_s: float) -> mobfl.Scenario:
    return mobfl.load_scenario("paper").with_values(
        {
            "traffic.arrivals_per_s": arrivals_per_s,
            "training.duration_s": 400.0,
            "training.learning_rate": 0.3,
            "training.batch_size": 16,
            "training.samples_per_vehicle": 64,
            "training.loss_scale": "sample",
        }
    )


def cell(task: Clouds, arrivals_per_s: float, plan: str, rule: str | None) -> str:
    """Seconds to an eighth of the initial loss, or how many diverged, and the last loss: medians over seeds."""
    times, losses, stopped = list[float](), list[float](), 0
    for seed in SEEDS:
        with TemporaryDirectory() as folder:
            job = mobfl.Job(task, road(arrivals_per_s), plan, seed, rule=rule)
            history = mobfl.train(job, Path(folder) / "run", checkpoint_s=1e9)
            stopped += "diverged" in read_json(Path(folder) / "run" / RUN, "a run")["results"]
        time_s = history.time_to("loss", history.initial["loss"] / 8)
        times.append(np.inf if time_s is None else time_s)
        losses.append(history.final("loss"))
    reached = f"{median(times):.0f} s" if np.isfinite(median(times)) else "never"
    told = f"{stopped}/{len(SEEDS)} diverged, " if stopped else ""
    return f"{told}{reached} ({median(losses):.2f})"


def table(arrivals: Sequence[float]) -> None:
    task = Clouds()
    print("| λ | " + " | ".join(RULES) + " | MOB-FL | FedAsync |")
    print("|---" * (3 + len(RULES)) + "|")
    for rate in arrivals:
        cells = [cell(task, rate, "stay-aware:2", f"clip+{rule}") for rule in RULES.values()]
        cells += [cell(task, rate, plan, None) for plan in ("mobfl", "fedasync")]
        print(f"| {rate:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    table([float(rate) for rate in sys.argv[1:]] or ARRIVALS)
