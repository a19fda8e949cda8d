"""From samples of all vehicles to the crossings of all sections, in one pass: the compiled tracker and its memory."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility import geometry, tracking
from mobfl.mobility.clocks import SNAPSHOTS, Codes, Lanes
from mobfl.mobility.crossings import CUT_END, CUT_START, GAP_AFTER, GAP_BEFORE, Crossings, named
from mobfl.mobility.geometry import Shapes
from mobfl.mobility.samples import Array, Ints, Rows
from mobfl.mobility.sections import Box, Chain, Circle, Edge, Section, Tentative
from mobfl.mobility.tracks import Tracks

_ROOM = 1 << 14  # crossings, presences and samples of tracks that are kept before they are put aside
_MOST_CELLS = 1 << 16


class Follower:
    """Takes samples, in order for each vehicle, and gives the crossings of every section."""

    def __init__(
        self, sections: Mapping[str, Section], vehicles: Codes, lanes: Lanes, keep_tracks: bool = False
    ) -> None:
        self.sections, self.codes, self.lanes = sections, vehicles, lanes
        self.clock = SNAPSHOTS
        self._shapes = _shapes(list(sections.values()), lanes)
        room = _ROOM + 8 * len(sections)
        self._found, self._log = np.zeros(room, tracking.CROSSING), np.zeros(room, tracking.LOGGED_SAMPLE)
        self._presences, self._vehicles = np.zeros(room, tracking.PRESENCE), np.zeros(0, geometry.VEHICLE)
        self._presences["next"] = np.append(np.arange(1, room), -1)
        self._now = np.zeros(1, geometry.SAMPLE)
        self._counters = np.zeros(tracking.KEEP + 1, np.int64)
        self._counters[tracking.KEEP] = keep_tracks
        self._ended, self._logged = list[Any](), list[Any]()
        self._first_s, self._last_s = math.inf, -math.inf

    def see(self, rows: Rows) -> None:
        """The next samples; OutOfOrderError if one is earlier than the vehicle's last."""
        if not len(rows.vehicle):
            return
        self._first_s = min(self._first_s, float(rows.time_s.min()))
        self._last_s = max(self._last_s, float(rows.time_s.max()))
        self._make_room_for(len(self.codes))
        at, why = 0, tracking.FULL
        while why == tracking.FULL:
            at, why = tracking.follow(
                self._shapes, self._vehicles, self._presences, self._counters, self._log, self._found,
                self._now, rows, at,
                self.clock.most_steps, self.clock.gap_s,
            )  # fmt: skip
            self._put_aside()
        if why == tracking.BACKWARDS:
            raise OutOfOrderError(at)

    def _make_room_for(self, vehicles: int) -> None:
        have = len(self._vehicles)
        if vehicles > have:
            more = np.zeros(max(vehicles, 2 * have) - have, geometry.VEHICLE)
            more["step"], more["head"] = -1, -1
            self._vehicles = np.concatenate([self._vehicles, more])

    def _put_aside(self) -> None:
        """What has ended, so that there is room for more."""
        found, logged = self._counters[tracking.FOUND], self._counters[tracking.LOGGED]
        self._ended.append(self._found[:found].copy())
        self._logged.append(self._log[:logged].copy())
        self._counters[[tracking.FOUND, tracking.LOGGED]] = 0
        have = len(self._presences)
        if self._counters[tracking.THERE] + len(self.sections) >= have:
            self._presences = np.concatenate([self._presences, np.zeros(have, tracking.PRESENCE)])
            self._presences["next"][have:] = np.append(np.arange(have + 1, 2 * have), self._counters[tracking.FREE])
            self._counters[tracking.FREE] = have

    def finish(self) -> dict[str, Crossings]:
        """The crossings of all that were seen; who is still there left where it was last seen."""
        tentative = isinstance(self.sections, Tentative)
        if not tentative:
            self.lanes.check()
        vehicles, snapshots = self._vehicles.view(np.recarray), self.clock.most_steps < SNAPSHOTS.most_steps + 1
        for v in np.flatnonzero(vehicles.step >= 0):
            if self._counters[tracking.FOUND] + len(self.sections) > len(self._found):
                self._put_aside()
            when = vehicles.step[v] + 1 if snapshots else -tracking.BEFORE
            order = tracking.BEFORE + vehicles.since[v]
            tracking.lose(self._vehicles, self._presences, self._counters, self._found, v, when, order)
        self._put_aside()
        found = np.concatenate(self._ended).view(np.recarray)
        by_section = np.argsort(found.section, kind="stable")
        ends = np.searchsorted(found.section[by_section], np.arange(len(self.sections) + 1))
        tracks = self._tracks(len(found.visit)) if self._counters[tracking.KEEP] else None
        names, made = list(self.codes), dict[str, Crossings]()
        for s, name in enumerate(self.sections):
            rows = by_section[ends[s] : ends[s + 1]]
            of_section = found[rows]
            if tentative and _is_coarse(of_section):
                of_section = found[rows[:0]]
            _check_sampling(name, of_section)
            made[name] = self._crossings(of_section, names, tracks)
        return made

    def _crossings(self, found: Any, names: list[Any], tracks: Tracks | None) -> Crossings:
        found = found[np.lexsort((found.order, found.when, found.enter_s))]
        kept = None if tracks is None else tracks.take(found.visit)
        who = named([names[v] for v in found.vehicle.tolist()])
        return Crossings(who, np.array(found.enter_s), np.array(found.leave_s), kept, self._cut(found))

    def _cut(self, found: Any) -> Any:
        """Of each crossing, which of its ends the recording or a gap has cut off."""
        near_s, loses = self.clock.near_s, self.clock.loses
        cut = np.zeros(len(found.marks), np.int8)
        for flag, at_end, code, lost in (
            (tracking.FOUND_INSIDE, found.enter_s <= self._first_s + near_s, CUT_START, GAP_BEFORE),
            (tracking.LOST_INSIDE, found.leave_s >= self._last_s - near_s, CUT_END, GAP_AFTER),
        ):
            there = (found.marks & flag) != 0
            cut[there & at_end] |= code
            cut[there & ~at_end] |= lost if loses else 0
        return cut if cut.any() else None

    def _tracks(self, visits: int) -> Tracks:
        log = np.concatenate(self._logged).view(np.recarray)
        order = np.argsort(log.visit, kind="stable")
        first = np.searchsorted(log.visit[order], np.arange(visits + 1))
        return Tracks(first, *(np.array(column[order]) for column in (log.time_s, log.x, log.y, log.way_m)))


class OutOfOrderError(Exception):
    """A vehicle's sample is earlier than the one before."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(row)


def _is_coarse(found: Any) -> bool:
    """Whether most crossings have no sample on the section."""
    return 2 * int((found.samples == 0).sum()) > len(found.samples)


def _check_sampling(name: str, found: Any) -> None:
    """That stays are told by samples on the section, not by what may have been between samples beside it."""
    if not _is_coarse(found):
        return
    unseen = found.samples == 0
    stay_s, every_s = float(np.median(found.leave_s - found.enter_s)), float(np.nanmedian(found.every_s))
    station = f" of {name!r}" if name else ""
    raise InputError(
        f"positions must come at least once in a stay, got one every {every_s:.3g} s for stays{station} of"
        f" {stay_s:.3g} s (medians; {unseen.sum()} of {len(unseen)} crossings have none inside): take a larger section"
    )


def _shapes(sections: list[Section], lanes: Lanes) -> Shapes:
    of = np.zeros(len(sections), geometry.SECTION)
    edges, areas = list[tuple[int, int]](), list[tuple[int, tuple[float, float, float, float]]]()
    for s, section in enumerate(sections):
        match section:
            case Circle(x, y, radius):
                of[s] = (geometry.CIRCLE, x, y, radius, 0.0, 0)
                areas.append((s, (x - radius, y - radius, x + radius, y + radius)))
            case Box(x0, y0, x1, y1):
                of[s] = (geometry.BOX, x0, y0, x1, y1, 0)
                areas.append((s, (x0, y0, x1, y1)))
            case Edge(_, low, high):
                of[s] = (geometry.ALONG, low, high, 0.0, 0.0, 0)
            case Chain():
                of[s] = (geometry.CHAIN, 0.0, math.inf, 0.0, 0.0, 0)
        edges += [(lanes.watched[edge], s) for edge in dict.fromkeys(section.edges)]
    edge_first, edge_sections = _lists(edges, len(lanes.watched))
    return Shapes(of, edge_first, edge_sections, *_grid(areas))


def _lists(pairs: list[tuple[int, int]], count: int) -> tuple[Ints, Ints]:
    """Values by their keys, one list after the other, and where each begins."""
    keys, values = np.array(pairs, np.int64).reshape(-1, 2).T
    order = np.argsort(keys, kind="stable")
    return np.searchsorted(keys[order], np.arange(count + 1)), values[order]


def _grid(areas: list[tuple[int, tuple[float, float, float, float]]]) -> tuple[Array, Ints, Ints, Ints]:
    """Cells about as large as the sections, and which sections touch each."""
    if not areas:
        return np.array([0.0, 0.0, 1.0, 1.0]), np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64)
    boxes = np.array([box for _, box in areas])
    low, high, sizes = boxes[:, :2].min(0), boxes[:, 2:].max(0), np.median(boxes[:, 2:] - boxes[:, :2], axis=0)
    most = math.isqrt(_MOST_CELLS)
    cells = np.clip(np.ceil((high - low) / sizes), 1, most).astype(np.int64)
    size = np.maximum((high - low) / cells, 1e-9)
    pairs = list[tuple[int, int]]()
    for (s, _), box in zip(areas, boxes, strict=True):
        first, last = (
            np.clip(((box[ends] - low) / size).astype(int), 0, cells - 1) for ends in (slice(2), slice(2, 4))
        )
        pairs += [(y * cells[0] + x, s) for y in range(first[1], last[1] + 1) for x in range(first[0], last[0] + 1)]
    return np.append(low, size), cells, *_lists(pairs, int(cells[0] * cells[1]))
