"""Who is heard: uploads, local steps and what they move the model by, by class of vehicles and by speed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.experiments.replay import Groups, Replay
from mobfl.rng import classes_of, stream
from mobfl.runs.job import training_site

_SPEEDS = ("slowest third", "middle third", "fastest third")


@dataclass(frozen=True)
class Share:
    """A group's share of visits, of uploads, of their local steps, and of how far the model moved."""

    group: str
    visits: float
    heard: float  # of its visits, those with at least one upload
    uploads: float
    local_steps: float
    moved: float


@dataclass(frozen=True)
class Grouping:
    """Vehicles in groups: their keys, and each one's group as its place in `names`."""

    names: Sequence[str]
    keys: NDArray[np.uint64]
    places: NDArray[np.int64]


def by_class(replay: Replay) -> Grouping:
    keys, _ = _visits(replay)
    classes = replay.scenario.classes
    places = classes_of(stream(replay.seed, "class"), keys, [each.share for each in classes])
    return Grouping([each.name for each in classes], keys, places.astype(np.int64))


def by_speed(replay: Replay) -> Grouping | None:
    """In thirds by how long they stay; None where all are equally fast."""
    keys, stays = _visits(replay)
    if len(keys) < len(_SPEEDS) or np.ptp(stays) <= 1e-9 * stays.max():
        return None
    ranks = stays.argsort(kind="stable").argsort(kind="stable")
    return Grouping(_SPEEDS, keys, (len(_SPEEDS) - 1) - ranks * len(_SPEEDS) // len(keys))


def _visits(replay: Replay) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Whoever enters after training began, so that the whole stay is known, and how long each stays."""
    site = training_site(replay.scenario, replay.seed, None)
    seen = [(each.key, each.leave_s - each.enter_s) for each in site.vehicles() if each.enter_s > 0]
    return np.array([key for key, _ in seen], np.uint64), np.array([stay for _, stay in seen])


def shares(replay: Replay, grouping: Grouping) -> list[Share]:
    """A row per group; vehicles of no group, who were there at the beginning, are left out."""
    count = len(grouping.names)
    place = dict(zip(grouping.keys.tolist(), grouping.places.tolist(), strict=True))
    sent = [(place.get(int(each.key), count), each) for step in replay.steps for each in step.uploads]
    heard = {(group, int(each.key)) for group, each in sent}
    visits = np.bincount(grouping.places, minlength=count).astype(float)
    columns = [
        visits / visits.sum(),
        np.bincount([group for group, _ in heard], minlength=count + 1)[:count] / np.maximum(visits, 1),
        _of_all(np.bincount([group for group, _ in sent], minlength=count + 1)[:count]),
        _of_all(np.bincount([group for group, _ in sent], [each.local_steps for _, each in sent], count + 1)[:count]),
        _moved(replay, lambda key: place.get(int(key), count), count),
    ]
    return [Share(name, *map(float, row)) for name, row in zip(grouping.names, zip(*columns, strict=True), strict=True)]


def _moved(replay: Replay, groups: Groups, count: int) -> NDArray[np.float64]:
    """Each group's part in how far the model moved; nan where the rule is not linear, so that there are no parts."""
    try:
        replay.effective_steps()
    except InputError:
        return np.full(count, np.nan)
    return _of_all(replay.advance(groups, count + 1).until(np.inf)[:count])


def _of_all(values: NDArray[np.generic]) -> NDArray[np.float64]:
    whole = np.asarray(values, np.float64)
    return whole / (whole.sum() or 1.0)
