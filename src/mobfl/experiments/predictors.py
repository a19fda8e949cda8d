"""What predicts who is ahead: effective steps, what the plan promises, delivered steps, and what averaging is worth.

A pair is an algorithm in one setting, its mean over seeds: runs of one algorithm share what is promised. Studies that
differ by the density of traffic alone stand side by side, for the same steps on the same data should be worth the same.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mobfl.experiments.analysis import best_until, spearman
from mobfl.experiments.comparison import Contest
from mobfl.experiments.studies import Labelled
from mobfl.files.json import plain
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.rules import TIME_ROUNDING

Array = NDArray[np.float64]

NU = 2.0  # uploads: a round of so many is worth half of one with endlessly many
SHARES_OF_TIME = (0.125, 0.25, 0.5)  # of T_A, at which losses are looked at
MEASURES = ("effective steps", "g or v", "delivered steps", f"(H/T)·E[M/(M + {NU:g})]")


def steps_until(each: Labelled, at_s: float) -> dict[str, float]:
    """What could be said of a run without its losses: by measure, in steps until this instant; nan if unknown."""
    columns = each.history.columns
    ended = columns["end_s"] <= at_s * (1 + TIME_ROUNDING)
    merged = columns["uploads"] - columns["rejected"]
    delivered = columns["steps"] if "steps" in columns else columns["uploads"] * columns["local_steps"]
    values = (
        np.nan if isinstance(each.effective, str) else float(each.effective.until(at_s).sum()),
        np.nan if each.promised is None else each.promised * at_s,
        float(delivered[ended].sum()),
        float((columns["local_steps"] * merged / (merged + NU))[ended].sum()),
    )
    return dict(zip(MEASURES, values, strict=True))


def mean_steps_until(runs: Iterable[Labelled], at_s: float) -> dict[str, float]:
    measured = [steps_until(each, at_s) for each in runs]
    return {name: float(np.mean([each[name] for each in measured])) for name in MEASURES}


@dataclass(frozen=True)
class Entrant:
    """An algorithm in one study: means over its seeds."""

    study: str
    label: str
    runs: tuple[Labelled, ...]

    def merit_at(self, at_s: float) -> float:
        """−L_min(t)."""
        return -float(np.mean([best_until(each.history, "loss", at_s) for each in self.runs]))

    def speed_to(self, loss: float, duration_s: float) -> float:
        """Minus the mean time to this loss, T_A where it was not reached."""
        times = [each.history.time_to("loss", loss) for each in self.runs]
        return -float(np.mean([duration_s if time is None else time for time in times]))

    @property
    def unknown(self) -> str | None:
        """Why it has no effective steps."""
        return next((each.effective for each in self.runs if isinstance(each.effective, str)), None)


@dataclass(frozen=True)
class Field:
    """Entrants that met the same task, data and training, on traffic of any density."""

    title: str
    entrants: tuple[Entrant, ...]
    duration_s: float
    losses: tuple[float, ...]  # of the first study's targets

    @property
    def instants_s(self) -> list[float]:
        return [share * self.duration_s for share in SHARES_OF_TIME]

    @cached_property
    def measured(self) -> dict[float, dict[str, Array]]:
        """What was known of the entrants at the instants and at the end, by measure."""
        at = {
            t: [mean_steps_until(each.runs, t) for each in self.entrants] for t in (*self.instants_s, self.duration_s)
        }
        return {t: {name: np.array([each[name] for each in every]) for name in MEASURES} for t, every in at.items()}

    @cached_property
    def results(self) -> dict[str, tuple[float, Array]]:
        """By name: until when steps count for it, and for every entrant what came of it, more being better."""
        found = {merit_name(t): (t, np.array([each.merit_at(t) for each in self.entrants])) for t in self.instants_s}
        for loss in self.losses:
            speeds = np.array([each.speed_to(loss, self.duration_s) for each in self.entrants])
            found[f"−time to loss {loss:.4g}"] = self.duration_s, speeds
        return found

    @cached_property
    def correlations(self) -> dict[str, dict[str, tuple[Estimate, int]]]:
        """Spearman's rho by result and measure, and of how many pairs."""
        return {
            result: {name: _correlated(self.measured[at_s][name], values) for name in MEASURES}
            for result, (at_s, values) in self.results.items()
        }


def merit_name(at_s: float) -> str:
    return f"−L_min({at_s:g} s)"


def _correlated(steps: Array, values: Array) -> tuple[Estimate, int]:
    return spearman(steps, values), int((~np.isnan(steps) & ~np.isnan(values)).sum())


def fields_of(contests: Sequence[Contest]) -> list[Field]:
    """The contests' entrants, those of one task and training together."""
    alike = dict[str, list[Contest]]()
    for each in contests:
        alike.setdefault(_key(next(iter(each.baseline.values()))), []).append(each)
    return [_field(key, each) for key, each in alike.items()]


def _key(each: Labelled) -> str:
    """All that a run depends on but plan, parts, seed and the density of traffic."""
    run = each.run
    scenario = run.scenario.with_values({"traffic.arrivals_per_s": 1.0}).to_dict()
    return json.dumps([run.description["task"], run.description["data"], plain(scenario)], sort_keys=True, default=str)


def _field(key: str, contests: Sequence[Contest]) -> Field:
    """Each set of runs once: an algorithm may stand in several studies. Those with another training stay out."""
    studies = [each.study for each in contests]
    entrants = dict[frozenset[str], Entrant]()
    for study in studies:
        for label, runs in study.by_name.items():
            if all(_key(each) == key for each in runs.values()):
                names = frozenset(each.run.name for each in runs.values())
                entrants.setdefault(names, Entrant(study.title, label, tuple(runs.values())))
    losses = tuple(value for target, value in contests[0].targets if target.column == "loss")
    title = " and ".join(study.title for study in studies)
    return Field(title, tuple(entrants.values()), studies[0].scenario.training.duration_s, losses)
