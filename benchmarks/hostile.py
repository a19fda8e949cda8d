"""What hostile vehicles do to a model, rule by rule: its loss after 50 rounds with none, one or more of them.

    python benchmarks/hostile.py [RESULTS.jsonl]

A net of two layers tells ten classes of points in 20 dimensions apart, each class two overlapping clusters. In every
round new vehicles pass, each with 64 samples whose labels have proportions of their own (Dirichlet, α = 1), and take 5
steps of SGD on batches of 16. Vehicles, codec, rules and the look before adoption are the library's; no traffic is
needed. The held-out samples of the rule `heldout` are none of those that the loss is told on. A cell is the mean over
seeds with half the width of its 95 % interval (Student's t); all rules and attacks have the same vehicles, samples and
batches, so cells are paired. Honest training must learn, and the default rule must then give the mean's very bits, else
the table says nothing. With a file, cells that it holds are not computed again.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from mobfl import Kpi, Pool, Scenario, SgdTerms, Upload
from mobfl.learning.codecs import Codec, Sending, codec_named, encoded
from mobfl.learning.heldout import Soundness, spread
from mobfl.learning.local.sgd import Sgd
from mobfl.learning.rules import GUARDED_MEAN, merge, rule_named
from mobfl.learning.task import Integers
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights

SEEDS, ROUNDS, STEPS, RATE = (1, 2, 3), 50, 5, 0.1
SAMPLES, LIE = 64, 10_000
RULES = (
    "mean",
    GUARDED_MEAN,
    "median",
    "clip+median",
    "trimmed:share=0.2",
    "krum:share=0.2",
    "krum:share=0.2,keep=3",
    "clip+cap+heldout+mean",
)
ROAD = Scenario.from_dict(
    {"training": {"samples_per_vehicle": SAMPLES, "batch_size": 16, "split": "dirichlet", "dirichlet_alpha": 1.0}}
)


# The task -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    inputs: NDArray[np.float32]
    labels: Integers


class SmallNet:
    """Inputs → 24 → 10 with ReLU and cross-entropy, in NumPy: a local step takes tens of microseconds."""

    name = "small net"
    kpis: Sequence[Kpi] = ()
    baselines: Mapping[str, Mapping[str, float]] = {}
    record: Mapping[str, Any] = {}

    def __init__(self, train: Data, heldout: Data, validation: Data) -> None:
        self.train, self.heldout, self.validation = train, heldout, validation
        self.pool = Pool(train.labels)

    def initial_weights(self, seed: int) -> Weights:
        random, width = np.random.default_rng(seed), self.train.inputs.shape[1]
        shapes = {"hidden.weight": (width, 24), "hidden.bias": (24,), "out.weight": (24, 10), "out.bias": (10,)}
        scale = {"hidden.weight": np.sqrt(2 / width), "out.weight": np.sqrt(2 / 24)}
        return {
            name: (scale.get(name, 0.0) * random.standard_normal(shape)).astype(np.float32)
            for name, shape in shapes.items()
        }

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        new = {name: values.copy() for name, values in model.items()}
        for batch in batches:
            for name, slope in self.gradient(new, batch).items():
                new[name] -= np.float32(terms.learning_rate) * slope
        return new

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        x, y = self.train.inputs[batch], self.train.labels[batch]
        hidden = np.maximum(x @ model["hidden.weight"] + model["hidden.bias"], 0)
        d = _softmax(hidden @ model["out.weight"] + model["out.bias"])
        d[np.arange(len(y)), y] -= 1
        d /= len(y)
        back = (d @ model["out.weight"].T) * (hidden > 0)
        return {
            "hidden.weight": x.T @ back,
            "hidden.bias": back.sum(axis=0),
            "out.weight": hidden.T @ d,
            "out.bias": d.sum(axis=0),
        }

    def evaluate(self, model: Weights) -> dict[str, float]:
        return {"loss": _loss(model, self.validation)}

    def heldout_loss(self, model: Weights, samples: int) -> float:
        some = spread(len(self.heldout.labels), samples)
        return _loss(model, Data(self.heldout.inputs[some], self.heldout.labels[some]))


def _softmax(outputs: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _loss(model: Weights, data: Data) -> float:
    with np.errstate(all="ignore"):  # a spoilt model may overflow: that is what is measured
        hidden = np.maximum(data.inputs @ model["hidden.weight"] + model["hidden.bias"], 0)
        outputs = (hidden @ model["out.weight"] + model["out.bias"]).astype(np.float64)
        whole = np.log(np.exp(outputs - outputs.max(axis=1, keepdims=True)).sum(axis=1)) + outputs.max(axis=1)
        return float((whole - outputs[np.arange(len(outputs)), data.labels]).mean())


def tasks() -> tuple[SmallNet, SmallNet]:
    """The honest one, and one whose training labels are turned round."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((10, 2, 20)) * 1.2
    train, heldout, validation = (_points(random, centres, count) for count in (6000, 200, 2000))
    honest, liar = (SmallNet(each, heldout, validation) for each in (train, Data(train.inputs, 9 - train.labels)))
    liar.pool = honest.pool  # he holds what he would hold
    return honest, liar


def _points(random: np.random.Generator, centres: NDArray[np.float64], count: int) -> Data:
    labels, cluster = random.integers(10, size=count), random.integers(2, size=count)
    points = centres[labels, cluster] + 1.5 * random.standard_normal((count, centres.shape[2]))
    return Data(points.astype(np.float32), labels)


# What hostile vehicles send -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """What a hostile vehicle knows: its honest upload, the one on turned labels, the first model, its own draws."""

    honest: Upload
    flipped: Upload
    first: Weights
    random: np.random.Generator


def _scaled(times: float) -> Callable[[Sent], Upload]:
    def send(sent: Sent) -> Upload:
        base = sent.honest.base
        return replace(
            sent.honest,
            weights={n: base[n] + np.float32(times) * (w - base[n]) for n, w in sent.honest.weights.items()},
        )

    return send


def _noise(sent: Sent) -> Upload:
    noisy = {
        name: (w + sent.random.standard_normal(w.shape)).astype(np.float32) for name, w in sent.honest.weights.items()
    }
    return replace(sent.honest, weights=noisy)


ATTACKS: dict[str, Callable[[Sent], Upload]] = {
    "sign flip": _scaled(-1.0),
    "change × 10": _scaled(10.0),
    "−5 × change": _scaled(-5.0),
    "noise (sd 1)": _noise,
    "label flip": lambda sent: sent.flipped,
    "first model again": lambda sent: replace(sent.honest, weights=sent.first),
    f"label flip, D_m = {LIE}": lambda sent: replace(sent.flipped, samples=LIE),
}
HONEST = "none hostile"


@dataclass(frozen=True)
class Setting:
    """So many vehicles in a round, the first of which are hostile; or one, and every so many-th is."""

    vehicles: int
    hostile: int
    at_once: bool = True

    @property
    def title(self) -> str:
        return f"{self.hostile} of {self.vehicles}" + ("" if self.at_once else ", one a round")

    def of_round(self, number: int) -> Iterator[tuple[np.uint64, bool]]:
        """Who uploads, and whether he is hostile."""
        for place in range(self.vehicles) if self.at_once else [number % self.vehicles]:
            yield np.uint64(number * self.vehicles + place), place < self.hostile


SETTINGS = (Setting(5, 1), Setting(5, 2), Setting(5, 1, at_once=False), Setting(50, 10))


def final_loss(setting: Setting, attack: str, rule: str, seed: int, honest: SmallNet, liar: SmallNet) -> float:
    chain = rule_named(rule).with_heldout(honest.heldout_loss)
    codec, sound = codec_named(None)[0], Soundness.of(honest, seed)
    fleets = [Vehicles.of(task, ROAD.classes, Sgd(), seed) for task in (honest, liar)]
    first = model = honest.initial_weights(seed)
    state = chain.init(model)
    for number in range(ROUNDS):
        uploads = list[Upload]()
        for key, hostile in setting.of_round(number):
            upload = fleets[0].train(key, 0, model, STEPS, RATE)
            if hostile and attack != HONEST:
                flipped = fleets[1].train(key, 0, model, STEPS, RATE)
                upload = ATTACKS[attack](Sent(upload, flipped, first, np.random.default_rng([seed, int(key)])))
            uploads.append(_travelled(codec, upload, np.random.default_rng([seed, number, int(key)])))
        state, model, _ = merge(chain, state, model, uploads, sound.holds)
    return honest.evaluate(model)["loss"]


def _travelled(codec: Codec, upload: Upload, random: np.random.Generator) -> Upload:
    data, _ = encoded(codec, upload.weights, upload.base, Sending(random, {}))
    return replace(upload, weights=codec.decode(data, upload.base))


# The table ------------------------------------------------------------------------------------------------------------


def cells() -> Iterator[tuple[Setting, str, str]]:
    for setting in SETTINGS:
        for attack in (HONEST, *ATTACKS):
            for rule in RULES:
                yield setting, attack, rule


def measured(kept: Path | None) -> dict[tuple[str, str, str], list[float]]:
    known = dict[tuple[str, str, str], list[float]]()
    if kept is not None and kept.exists():
        rows = [json.loads(line) for line in kept.read_text().splitlines()]
        known = {(row["setting"], row["attack"], row["rule"]): row["losses"] for row in rows}
    honest, liar = tasks()
    for setting, attack, rule in cells():
        key = (setting.title, attack, rule)
        if key not in known:
            known[key] = [final_loss(setting, attack, rule, seed, honest, liar) for seed in SEEDS]
            if kept is not None:
                with kept.open("a") as file:
                    file.write(
                        json.dumps({"setting": key[0], "attack": attack, "rule": rule, "losses": known[key]}) + "\n"
                    )
        print(*key, told(known[key]), sep=" | ", flush=True)
    check_learning(known, honest)
    return known


def check_learning(known: Mapping[tuple[str, str, str], list[float]], honest: SmallNet) -> None:
    """Honest training learns: what robust rules cost without an attack is a cell of its own."""
    for setting in SETTINGS:
        for seed, loss in zip(SEEDS, known[setting.title, HONEST, "mean"], strict=True):
            untrained = honest.evaluate(honest.initial_weights(seed))["loss"]
            assert loss < 0.7 * untrained, (setting.title, seed, loss, untrained)
        assert known[setting.title, HONEST, GUARDED_MEAN] == known[setting.title, HONEST, "mean"], "bit for bit"


def told(losses: Sequence[float]) -> str:
    if not np.isfinite(losses).all() or max(losses) > 99:
        return "> 99"
    half = student.ppf(0.975, len(losses) - 1) * np.std(losses, ddof=1) / np.sqrt(len(losses))
    return f"{np.mean(losses):.2f} ± {half:.2f}"


def main() -> None:
    known = measured(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    for setting in SETTINGS:
        print(f"\n**{setting.title}**\n\n| | " + " | ".join(f"`{rule}`" for rule in RULES) + " |")
        print("|---" * (len(RULES) + 1) + "|")
        for attack in (HONEST, *ATTACKS):
            print(f"| {attack} | " + " | ".join(told(known[setting.title, attack, rule]) for rule in RULES) + " |")


if __name__ == "__main__":
    main()
