"""What the vehicles of one server step do: each trains and sends, as often as its uploads are in the step, in order."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.codecs import is_lossless
from mobfl.learning.districts import Districts
from mobfl.learning.rates import learning_rate
from mobfl.learning.turns import Memory, Turn, Turns
from mobfl.learning.uploads import Upload
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights
from mobfl.runs.adoption import Adoption
from mobfl.runs.carried import Carried
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.costs import Costs
from mobfl.runs.job import Job
from mobfl.runs.memories import Memories
from mobfl.servers.steps import Contribution, ServerStep, delays_s


@dataclass(frozen=True)
class Visited:
    """What one vehicle sent in a step, and what it remembers afterwards."""

    key: np.uint64
    arrived: dict[int, Upload]  # as the server gets them, by their places in the step
    memory: Memory
    models: dict[int, Weights]  # as they were before they were sent


@dataclass(frozen=True)
class _Asked:
    """An upload that is asked for, with all that was downloaded for it."""

    place: int
    mine: Contribution
    staleness: int
    model: Weights
    down: Weights
    brought: Weights | None  # the model that the vehicle carries from another station


class Visits:
    """Vehicles know nothing of each other, so those of one step can be computed side by side.

    Args:
        job: One station's.
        begun: Where its model is.
        steps: All of its steps, to know what has to be remembered.
        districts: Where samples belong to places.
        carried: What vehicles bring from one station to the next, if they do.
    """

    def __init__(
        self,
        job: Job,
        begun: Checkpoint,
        steps: Iterable[ServerStep],
        districts: Districts | None = None,
        carried: Carried | None = None,
    ) -> None:
        # As they were made, so that nothing goes from one run to the next.
        local, codec = deepcopy((job.local_training[0], job.upload_codec[0]))
        vehicles = Vehicles.of(job.task, job.scenario.classes, local, job.seed, districts)
        self._turns = Turns.of(vehicles, codec, job.server.rule.along, job.seed)
        self.costs = Costs.of(job)
        self._duration_s, self._owners = self.costs.site.duration_s, self.costs.site.draws.owners
        self._carried = carried
        self.memories = Memories(steps, begun.memories, self._turns.remember)

    def of(self, step: ServerStep, adoption: Adoption) -> list[Callable[[], Visited]]:
        """A call for every vehicle, in the order of first uploads."""
        if self._carried is not None:
            self._carried.interrupt(step, adoption.version)
        asked = defaultdict[np.uint64, list[_Asked]](list)
        for place, mine in enumerate(step.uploads):
            brought = None if self._carried is None else self._carried.brought(mine)
            if mine.carried_by is not None:  # begun with another station's model
                given = _there(brought), adoption.along(step.number)
                asked[mine.key].append(_Asked(place, mine, 0, *given, brought))
                continue
            given = adoption.version(mine.version), adoption.along(mine.version)
            asked[mine.key].append(_Asked(place, mine, step.number - mine.version, *given, brought))
        return [partial(self._visited, key, own, self.memories.of(key)) for key, own in asked.items()]

    def take_in(self, step: ServerStep, came: Sequence[Visited]) -> list[Upload]:
        """The uploads in the step's order."""
        self.memories.keep(step, {visit.key: visit.memory for visit in came})
        arrived = {place: upload for visit in came for place, upload in visit.arrived.items()}
        if self._carried is not None:
            trained = {place: model for visit in came for place, model in visit.models.items()}
            self._carried.take_along((mine, trained[place]) for place, mine in enumerate(step.uploads))
        return [arrived[place] for place in range(len(step.uploads))]

    def _visited(self, key: np.uint64, asked: Iterable[_Asked], memory: Memory) -> Visited:
        arrived, models = dict[int, Upload](), dict[int, Weights]()
        for each in asked:
            turn = self._turn(each.mine)
            start = each.model if self._carried is None else self._carried.start(each.model, each.brought)
            upload, of_rule = self._turns.trained(turn, start, each.down, memory)
            upload, models[each.place] = replace(upload, base=each.model), upload.weights
            upload, of_codec = self._sent(turn, upload, memory, each.mine.share)
            trained_s, sent_s = delays_s(each.mine, self.costs.site)
            arrived[each.place] = replace(upload, staleness=each.staleness, compute_s=trained_s, upload_s=sent_s)
            memory = {**of_rule, **of_codec}
        return Visited(key, arrived, memory, models)

    def _turn(self, mine: Contribution) -> Turn:
        share, vehicle = mine.download_s / self._duration_s, mine.carried_by
        if vehicle is None:
            vehicle = self._owners.of(np.array([mine.key]))[0]
        rate = learning_rate(self._turns.vehicles.training_of(vehicle), share)
        return Turn(mine.key, mine.attempt, mine.local_steps, rate, self.costs.budget(mine.budget), vehicle)

    def _sent(self, turn: Turn, upload: Upload, memory: Memory, share: float) -> tuple[Upload, Memory]:
        """As it arrives: what decoding makes of its bytes, or of the share of them that came."""
        codec = self._turns.codec
        if is_lossless(codec):
            return upload, {}
        data, kept = self._turns.sent(turn, upload, memory)
        if share < 1:
            arrived: Any = codec
            return replace(upload, weights=arrived.decode_prefix(data[: int(share * len(data))], upload.base)), kept
        return replace(upload, weights=codec.decode(data, upload.base)), kept


def _there(model: Weights | None) -> Weights:
    """What was kept for it."""
    if model is None:
        raise InputError("the last checkpoint must come with the models that vehicles carry, got one missing")
    return model
