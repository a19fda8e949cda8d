"""A run's schedule again, without its training: who uploaded when, after how many steps, and what that moved.

For rules that are linear in the uploads the training can be left out: each upload advances a number by its local steps
from whatever version it started from, and the server's own rule makes of these numbers what it would make of weights.
In rounds of one H the number is the count of valid local steps, which g predicts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, MobflError
from mobfl.experiments.runs import Run
from mobfl.learning.holdings import sample_count
from mobfl.learning.rules.chain import merge
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.rng import classes_of, generator, stream
from mobfl.runs.job import training_site
from mobfl.scenario import Scenario
from mobfl.servers.names import AnyPlan, plan_name, server_of
from mobfl.servers.server import SHORTHANDS, Server
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, ServerStep, delays_s, server_steps

Array = NDArray[np.float64]
Groups = Callable[[np.uint64], int]
"""Which group a vehicle is in, by its key: a whole number from 0 on."""

_NAME = "w"
_PARTS = 3  # whose columns must add up; what a median says of two parts of a whole always does
_SAME = 1e-4  # relative: models are single precision


@dataclass(frozen=True)
class Advance:
    """How far the server's model was after every step, in effective local steps: a column per group of vehicles."""

    end_s: Array
    steps: Array  # (server steps, groups)

    def until(self, at_s: float) -> Array:
        """By group, in the model that there was then."""
        ended = int(np.searchsorted(self.end_s, at_s, side="right"))
        return self.steps[ended - 1] if ended else np.zeros(self.steps.shape[1])

    @property
    def total(self) -> float:
        """At the end, of all groups."""
        return float(self.until(np.inf).sum())


@dataclass(frozen=True)
class Replay:
    """The server steps of a run on Poisson traffic."""

    scenario: Scenario
    server: Server
    seed: int
    most: int | None = None  # server steps, of a run that ended before T_A

    @classmethod
    def of(cls, run: Run, plan: str = "", rule: str = "") -> "Replay":
        """Of a finished run; with the words that it was asked for, if they are known.

        Raises:
            InputError: It cannot be replayed, or its schedule is no longer what it was.
        """
        told = run.description
        if run.scenario.is_city:
            raise InputError("its stations have models of their own")
        if told["trace"] is not None:
            raise InputError("its traffic is not in its folder")
        given: AnyPlan = plan or _plan_of(told["plan"])
        asked = rule or (None if plan else told.get("rule"))
        server, uploads = server_of(given, asked, run.scenario, None), run.history.columns["uploads"]
        found = cls(run.scenario, server, int(told["seed"]), len(uploads))
        if found.uploads.tolist() != uploads.tolist():
            raise InputError("its uploads are not those that today's schedule has")
        return found

    @cached_property
    def _site(self) -> Site:
        """Its traffic comes once, for `steps`."""
        return training_site(self.scenario, self.seed, None)

    @cached_property
    def steps(self) -> list[ServerStep]:
        return list(islice(server_steps(self.server.fresh().schedule, self._site), self.most))

    @property
    def uploads(self) -> NDArray[np.int64]:
        """How many every server step had."""
        return np.array([len(step.uploads) for step in self.steps], np.int64)

    def advance(self, groups: Groups = lambda _: 0, count: int = 1) -> Advance:
        """How far the model moved by whom: the columns add up where the rule is linear."""
        rule = self.server.fresh().rule
        model: Weights = {_NAME: np.zeros(count, np.float32)}
        state, versions, rows = rule.init(model), {0: model}, list[Array]()
        for step in self.steps:
            uploads = [self._upload(step, each, versions[each.version], groups) for each in step.uploads]
            state, model, _ = merge(rule, state, model, uploads)
            needed = step.still_in_use
            versions = {n: each for n, each in versions.items() if n in needed} | {step.number + 1: model}
            rows.append(model[_NAME].astype(np.float64))
        ends = np.array([step.end_s for step in self.steps])
        return Advance(ends, np.array(rows).reshape(len(ends), count))

    def _upload(self, step: ServerStep, mine: Contribution, base: Weights, groups: Groups) -> Upload:
        weights = base[_NAME].copy()
        weights[groups(mine.key)] += mine.local_steps
        stale, delays = step.number - mine.version, delays_s(mine, self._site)
        return Upload({_NAME: weights}, self._samples(mine.key), base, stale, mine.local_steps, *delays)

    def _samples(self, key: np.uint64) -> int:
        """D_m, as the vehicle draws it when it trains."""
        classes = self.scenario.classes
        kind = classes_of(stream(self.seed, "class"), np.array([key]), [each.share for each in classes])[0]
        return sample_count(generator(stream(self.seed, "samples"), key), classes[kind].training)

    def effective_steps(self) -> Advance:
        """How far the model moved.

        Raises:
            InputError: The rule is not linear in the uploads, so that this number would tell nothing.
        """
        try:
            whole, parts = self.advance(), self.advance(lambda key: int(key) % _PARTS, _PARTS)
        except (MobflError, ValueError, KeyError) as error:
            raise InputError(f"the rule {self.server.rule} needs more than numbers: {error}") from None
        if not np.allclose(whole.steps[:, 0], parts.steps.sum(axis=1), rtol=_SAME, atol=_SAME):
            raise InputError(f"the rule {self.server.rule} is not linear in the uploads")
        return whole


def _plan_of(description: Mapping[str, Any]) -> AnyPlan:
    """The plan of a run.json, to the last digit."""
    if description["policy"] == "rounds":
        return int(description["local_steps"]), float(description["round_s"])
    if description["policy"] == "anytime":
        given = ",".join(f"{key}={description[key]}" for key in ("knows", "error") if key in description)
        return f"anytime:{description['round_s']!r},{given}"
    if description["policy"] in SHORTHANDS:  # run.json has their rule beside
        return f"async:{description['local_steps']},uploads={description.get('buffer', 1)}"
    return plan_name(description)
