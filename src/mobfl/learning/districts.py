"""Data that differ by place: every station has a district, and samples belong to districts.

Samples are put in order, along the road where they have places, else by their labels, and the order is cut into as many
equal parts as there are districts. `alike` is the dial from different to alike: that share of the samples is dealt to
districts at random instead. A vehicle gathered its samples in the district of the first station on its way (split
`station`), or in equal parts in all districts that it passes (`route`). Validation samples are cut the same way, so
that a model can be asked how good it is on a station's own data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.holdings import Random, sample_count
from mobfl.learning.task import Integers, Pool, Task
from mobfl.rng import generator, stream
from mobfl.scenario import Training

BY_DISTRICT = ("station", "route")


@dataclass(frozen=True)
class Districts:
    """Which training samples each district has, and which stations every vehicle passes.

    Args:
        samples: The training samples of each district.
        ways: The stations on each vehicle's way, in its order, by the vehicle's key.
    """

    samples: tuple[Integers, ...]
    ways: Mapping[int, tuple[int, ...]]

    def held(self, random: Random, vehicle: np.uint64, training: Training) -> Integers:
        """D_m samples of the districts that this vehicle knows; fewer where these have no more."""
        count, way = sample_count(random, training), self.ways[int(vehicle)]
        known = way[:1] if training.split == "station" else tuple(dict.fromkeys(way))
        shares = np.full(len(known), count // len(known)) + (np.arange(len(known)) < count % len(known))
        found = [
            random.choice(self.samples[place], min(int(share), len(self.samples[place])), replace=False)
            for place, share in zip(known, shares, strict=True)
        ]
        return np.concatenate(found)


def cut(column: NDArray[Any], districts: int, alike: float, random: Random) -> tuple[Integers, ...]:
    """The samples of each district, of a value for every sample."""
    # Equal values are put in any order, so that a district is no accident of the file's.
    order = np.lexsort([random.random(len(column)), column])
    district = np.empty(len(column), np.int64)
    district[order] = np.arange(len(column)) * districts // len(column)
    dealt = random.random(len(column)) < alike
    district[dealt] = random.integers(districts, size=int(dealt.sum()))
    return tuple(np.flatnonzero(district == place) for place in range(districts))


def cut_training(task: Task, districts: int, training: Training, seed: int) -> tuple[Integers, ...]:
    """The training samples of each district; raises where one has too few for a batch."""
    column = _column(task.pool, task.pool)
    if column is None:
        raise InputError(
            f"training.split must be one that needs no places or labels, of which this task has none, got"
            f" {training.split!r}"
        )
    parts = cut(column, districts, training.alike or 0.0, _random(seed, "districts"))
    least = min(map(len, parts))
    if least < training.batch_size:
        raise InputError(
            f"training.batch_size must be <= the {least} samples of the smallest of {districts} districts, got"
            f" {training.batch_size}"
        )
    return parts


def cut_validation(task: Task, districts: int, training: Training, seed: int) -> tuple[Integers, ...] | None:
    """The validation samples of each district; None where the task cannot be asked about some of them."""
    pool = getattr(task, "validation_pool", None)
    if not isinstance(pool, Pool) or not callable(getattr(task, "evaluate_on", None)):
        return None
    column = _column(task.pool, pool)
    if column is None:
        return None
    parts = cut(column, districts, training.alike or 0.0, _random(seed, "districts of validation"))
    return parts if all(map(len, parts)) else None


def _column(trained: Pool, pool: Pool) -> NDArray[Any] | None:
    """What a pool is put in order by: the same of training and validation samples."""
    return pool.places if trained.places is not None else pool.labels


def _random(seed: int, purpose: str) -> Random:
    return generator(stream(seed, purpose), np.uint64(0))
