"""What the vehicles of one server step do: each trains and sends, as often as its uploads are in the step, in order."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mobfl.learning.codecs import is_lossless
from mobfl.learning.rates import learning_rate
from mobfl.learning.turns import Memory, Turn, Turns
from mobfl.learning.uploads import Upload
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights
from mobfl.runs.adoption import Adoption
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


@dataclass(frozen=True)
class _Asked:
    """An upload that is asked for, with all that was downloaded for it."""

    place: int
    mine: Contribution
    staleness: int
    model: Weights
    down: Weights


class Visits:
    """Vehicles know nothing of each other, so those of one step can be computed side by side."""

    def __init__(self, job: Job, begun: Checkpoint) -> None:
        # As they were made, so that nothing goes from one run to the next.
        local, codec = deepcopy((job.local_training[0], job.upload_codec[0]))
        vehicles = Vehicles.of(job.task, job.scenario.classes, local, job.seed)
        self._turns = Turns.of(vehicles, codec, job.server.rule.along, job.seed)
        self._duration_s, self.costs = job.site.duration_s, Costs.of(job)
        self.memories = Memories(job, begun.memories, self._turns.remember)

    def of(self, step: ServerStep, adoption: Adoption) -> list[Callable[[], Visited]]:
        """A call for every vehicle, in the order of first uploads."""
        asked = defaultdict[np.uint64, list[_Asked]](list)
        for place, mine in enumerate(step.uploads):
            given = adoption.version(mine.version), adoption.along(mine.version)
            asked[mine.key].append(_Asked(place, mine, step.number - mine.version, *given))
        return [partial(self._visited, key, own, self.memories.of(key)) for key, own in asked.items()]

    def take_in(self, step: ServerStep, came: Sequence[Visited]) -> list[Upload]:
        """The uploads in the step's order."""
        self.memories.keep(step, {visit.key: visit.memory for visit in came})
        arrived = {place: upload for visit in came for place, upload in visit.arrived.items()}
        return [arrived[place] for place in range(len(step.uploads))]

    def _visited(self, key: np.uint64, asked: Iterable[_Asked], memory: Memory) -> Visited:
        arrived = dict[int, Upload]()
        for each in asked:
            turn = self._turn(each.mine)
            upload, of_rule = self._turns.trained(turn, each.model, each.down, memory)
            upload, of_codec = self._sent(turn, upload, memory, each.mine.share)
            trained_s, sent_s = delays_s(each.mine, self.costs.site)
            arrived[each.place] = replace(upload, staleness=each.staleness, compute_s=trained_s, upload_s=sent_s)
            memory = {**of_rule, **of_codec}
        return Visited(key, arrived, memory)

    def _turn(self, mine: Contribution) -> Turn:
        share = mine.download_s / self._duration_s
        rate = learning_rate(self._turns.vehicles.training_of(mine.key), share)
        return Turn(mine.key, mine.attempt, mine.local_steps, rate, self.costs.budget(mine.budget))

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
