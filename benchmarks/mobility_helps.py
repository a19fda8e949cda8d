"""Do vehicles that move on between stations help, where data differ by district?

Five stations along a corridor, each with a district of its own (two of ten classes), and a cloud that averages their
models every few rounds. The task is generated pictures, or softmax regression on ten clusters of points, which is a
thousand times quicker and so has seeds enough. Vehicles that turn off behind their first station (a share of 1) against
vehicles of which half go on behind every station. As many join the road as turn off, so that every station has the
same number of visits either way. Same seeds, paired differences with 95 % intervals of Student's t.

A corridor has one direction, so the first district's vehicles reach every station and the last one's only the last. On
a ring (`--road ring`) vehicles come onto it at every station alike and leave at the latest after one turn: all
districts have the same part in it.

    python benchmarks/mobility_helps.py --task clusters --seeds 20 --out /tmp/mobility
    python benchmarks/mobility_helps.py --task clusters --seeds 20 --road ring --out /tmp/mobility-ring
    python benchmarks/mobility_helps.py --task images --seeds 6 --out /tmp/mobility-images
"""

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from mobfl import Crossings, Job, Kpi, Pool, Scenario, SgdTerms, TaskRequest, build_task, train

STATIONS = 5
NAMES = [f"station {place + 1}" for place in range(STATIONS)]
MOVING = {"stay": 1.0, "move on": 0.5}
PER_S, STAY_S, NEXT_S = 0.15, 20.0, 50.0  # visits to a station, and from entering it to leaving it and to the next
RING_PLAN = "24,11.776"  # the paper's; from recorded traffic every seed would have another
PICTURES = {"training_samples": 4000, "validation_samples": 1000, "width": 8}


class Clusters:
    """Softmax regression on points around ten centres: a convex problem, in NumPy."""

    name, kpis, baselines = "clusters", (Kpi("accuracy", leads=True),), {"guessing": {"accuracy": 0.1}}
    _CLASSES, _NUMBERS = 10, 20

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        centres = random.normal(size=(self._CLASSES, self._NUMBERS))
        (self._x, labels), (self._valid, self._truth) = (self._points(random, centres, n) for n in (4000, 1000))
        self._labels, self.pool, self.validation_pool = labels, Pool(labels), Pool(self._truth)
        self.record = {"data": "clusters"}

    def _points(self, random: np.random.Generator, centres: Any, count: int) -> tuple[Any, Any]:
        labels = random.integers(self._CLASSES, size=count)
        return centres[labels] + 1.5 * random.normal(size=(count, self._NUMBERS)), labels

    def initial_weights(self, seed: int) -> Any:  # noqa: ARG002
        return {"w": np.zeros((self._NUMBERS + 1, self._CLASSES), np.float32)}

    def gradient(self, model: Any, batch: Any) -> Any:
        x, slopes = self._with_one(self._x[batch]), self._chances(model, self._x[batch])
        slopes[np.arange(len(batch)), self._labels[batch]] -= 1
        return {"w": (x.T @ slopes / len(batch)).astype(np.float32)}

    def local_steps(self, model: Any, batches: Any, terms: SgdTerms) -> Any:
        w = model["w"]
        for batch in batches:
            w = (w - terms.learning_rate * self.gradient({"w": w}, batch)["w"]).astype(np.float32)
        return {"w": w}

    def evaluate(self, model: Any) -> dict[str, float]:
        return self.evaluate_on(model, np.arange(len(self._truth)))

    def evaluate_on(self, model: Any, samples: Any) -> dict[str, float]:
        chances, truth = self._chances(model, self._valid[samples]), self._truth[samples]
        loss = -np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-30)).mean()
        return {"loss": float(loss), "accuracy": float((chances.argmax(axis=1) == truth).mean())}

    def _chances(self, model: Any, x: Any) -> Any:
        scores = self._with_one(x) @ model["w"].astype(float)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def _with_one(self, x: Any) -> Any:
        return np.hstack([x, np.ones((len(x), 1))])


def scenario(turns_off: float, split: str, duration_s: float, every_rounds: int, road: str) -> Scenario:
    corridor = {"corridor": {"stations": STATIONS, "turns_off": turns_off}}
    ring = {"stations": [{"name": name} for name in NAMES]}
    return Scenario.from_dict(
        {
            **(corridor if road == "corridor" else ring),
            "cloud": {"every_rounds": every_rounds},
            "traffic": {"arrivals_per_s": PER_S},
            "training": {
                "duration_s": duration_s, "split": split, "batch_size": 32, "samples_per_vehicle": 256,
                "learning_rate": 0.05,
            },
        }
    )  # fmt: skip


def around(turns_off: float, duration_s: float, seed: int) -> dict[str, Crossings]:
    """A ring in its steady state: Poisson arrivals at every station, of whom the rest goes on behind each."""
    random, turn_s = np.random.default_rng(seed), STATIONS * NEXT_S
    entering_per_s = PER_S / sum((1.0 - turns_off) ** np.arange(STATIONS))
    rows: dict[str, list[tuple[str, float, float]]] = {name: [] for name in NAMES}
    for first in range(STATIONS):
        count = random.poisson(entering_per_s * (turn_s + duration_s + STAY_S))
        enters_s = random.uniform(-turn_s, duration_s + STAY_S, count)
        passes = np.minimum(random.geometric(turns_off, count), STATIONS)
        for vehicle, (enter_s, stations) in enumerate(zip(enters_s.tolist(), passes.tolist(), strict=True)):
            for n in range(stations):
                own = f"{first}.{vehicle}", enter_s + n * NEXT_S, enter_s + n * NEXT_S + STAY_S
                if own[2] > 0:
                    rows[NAMES[(first + n) % STATIONS]].append(own)
    columns = {name: tuple(list(column) for column in zip(*each, strict=True)) for name, each in rows.items()}
    return {name: Crossings.sorted(vehicle, enter, leave) for name, (vehicle, enter, leave) in columns.items()}


def scores(folder: Path, visits: int) -> dict[str, float]:
    """Of the cloud's last model and of the stations' own, on all data; and how many uploads there were."""
    told = json.loads((folder / "run.json").read_text())["results"]["stations"]
    *stations, cloud = told
    names = [each["name"] for each in told]
    assert names[-1] == "cloud", "the cloud must have rows"
    assert len(names) == STATIONS + 1, "every station must have rows"
    uploads = sum(each["uploads"] for each in stations)
    assert uploads > 0, "somebody must have uploaded"
    return {
        "cloud accuracy": cloud["final"]["accuracy"],
        "cloud loss": cloud["final"]["loss"],
        "stations' accuracy": statistics.fmean(each["final"]["accuracy"] for each in stations),
        "stations' loss": statistics.fmean(each["final"]["loss"] for each in stations),
        "uploads": uploads,
        "visits": visits,
    }


def interval(differences: list[float]) -> tuple[float, float]:
    mean, n = statistics.fmean(differences), len(differences)
    half = student.ppf(0.975, n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return mean, half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=("clusters", "images"), default="clusters")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--duration", type=float, default=600.0)
    parser.add_argument("--every-rounds", type=int, default=5)
    parser.add_argument("--road", choices=("corridor", "ring"), default="corridor")
    parser.add_argument("--splits", nargs="+", default=["station", "route"])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    task: Any = Clusters() if asked.task == "clusters" else build_task("images", TaskRequest(PICTURES))
    for split in asked.splits:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in MOVING}
        for seed in range(1, asked.seeds + 1):
            for name, turns_off in MOVING.items():
                folder = asked.out / f"{split}-{name.replace(' ', '-')}-{seed}"
                city = scenario(turns_off, split, asked.duration, asked.every_rounds, asked.road)
                is_ring = asked.road == "ring"
                given = around(turns_off, asked.duration, seed) if is_ring else None
                job = Job(task, city, RING_PLAN if is_ring else "mobfl", seed, given)
                train(job, folder, resume=(folder / "run.json").exists())
                blocks = [block for each in job.stations for block in each.site.traffic]
                visits = sum(int((block.enter_s <= asked.duration).sum()) for block in blocks)
                found[name].append(scores(folder, visits))
                print(split, name, seed, json.dumps(found[name][-1]), flush=True)
        report(split, found)


def report(split: str, found: dict[str, list[dict[str, float]]]) -> None:
    print(f"\nsplit by {split}: mean of those who stay, of those who move on, difference with 95 % interval")
    for score in found["stay"][0]:
        stay, move = ([each[score] for each in found[name]] for name in MOVING)
        mean, half = interval([b - a for a, b in zip(stay, move, strict=True)])
        print(f"{score:20} {statistics.fmean(stay):9.4g} {statistics.fmean(move):9.4g} {mean:+9.4g} ± {half:.2g}")


if __name__ == "__main__":
    main()
