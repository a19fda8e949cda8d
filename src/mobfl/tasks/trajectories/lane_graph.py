"""A map as the graph that LaneGCN reads: a node per piece of lane, and who precedes, follows or runs beside whom.

Built once per map. A scene takes the nodes around it, with the relations among them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from mobfl.tasks.trajectories.recordings import LEFT, RIGHT, UNKNOWN, LaneMap

SCALES = 6  # 1, 2, 4, … 32 pieces ahead and behind
RELATIONS = 2 * SCALES + 2  # predecessors and successors at every scale, left, right
KINDS = 1 + RELATIONS  # of what a node takes in: itself, or a neighbour
FAR = 127  # hops: so many or more, or no way at all
META = 4  # turns left, turns right, is controlled, lies in an intersection: 1, 0, or −1 for unknown
_BESIDE_M, _BESIDE_RAD = 6.0, np.pi / 4

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Relations:
    """What each of N nodes takes in: itself, and its neighbours in every relation.

    Node i's are taken[starts[i]:starts[i + 1]], each the number neighbour · 15 + k: relation k = 1 … 14, 0 for itself.
    """

    starts: NDArray[np.int32]
    taken: NDArray[np.int32]

    def among(self, chosen: Integers) -> "Relations":
        """The relations among these nodes, which are numbered again."""
        place = np.full(len(self.starts) - 1, -1, np.int32)
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        return Relations(*_among(self.starts, self.taken, chosen, place))

    def hops_from(self, nodes: NDArray[np.int32]) -> NDArray[np.int8]:
        """(N,): in how many layers of taking in neighbours each node reaches one of these, at most FAR."""
        return _hops(self.starts, self.taken, nodes)


@dataclass(frozen=True)
class LaneGraph:
    centres: Floats  # (N, 2) m, the middle of a piece
    directions: Floats  # (N, 2) m, from its start to its end
    meta: NDArray[np.int8]  # (N, 4)
    lane: Integers  # (N,) of the map
    relations: Relations

    def around(self, centre: Floats, rotation: Floats, range_m: float) -> Integers:
        """The nodes of all lanes that reach into the square of ± range around a point, in a rotated frame."""
        starts, low, high = self._lanes
        reach = 1.5 * range_m  # more than half the square's diagonal
        near = np.flatnonzero((low <= centre + reach).all(axis=1) & (high >= centre - reach).all(axis=1))
        counts = starts[near + 1] - starts[near]
        if not counts.sum():
            return np.empty(0, np.int64)
        firsts = np.cumsum(counts) - counts
        nodes = np.arange(counts.sum()) + np.repeat(starts[near] - firsts, counts)
        inside = (np.abs((self.centres[nodes] - centre) @ rotation.T) <= range_m).all(axis=1)
        return nodes[np.repeat(np.logical_or.reduceat(inside, firsts), counts)]

    @cached_property
    def _lanes(self) -> tuple[Integers, Floats, Floats]:
        """Where each lane's nodes begin, and the least and the greatest of their coordinates."""
        starts = np.append(np.flatnonzero(np.diff(self.lane, prepend=-1)), len(self.lane))
        low, high = (each.reduceat(self.centres, starts[:-1], axis=0) for each in (np.minimum, np.maximum))
        return starts, low, high


def lane_graph(lanes: LaneMap) -> LaneGraph:
    begins, ends = _pieces(lanes)
    lane = np.repeat(np.arange(len(lanes)), np.diff(lanes.offsets) - 1)
    centres, directions = (begins + ends) / 2, ends - begins
    before = _predecessors(lanes, lane)
    ahead = [sparse.csr_array(step.T) for step in before]
    beside = [_beside(lanes, neighbours, lane, centres, directions) for neighbours in (lanes.left, lanes.right)]
    meta = np.stack([_flag(lanes.turn, LEFT), _flag(lanes.turn, RIGHT), lanes.control, lanes.intersection], axis=1)
    return LaneGraph(centres, directions, meta.astype(np.int8)[lane], lane, _joined([*before, *ahead, *beside]))


def _pieces(lanes: LaneMap) -> tuple[Floats, Floats]:
    """Where the pieces begin and end: neighbouring points of one lane."""
    first = np.ones(len(lanes.points), bool)
    last = first.copy()
    first[lanes.offsets[1:] - 1] = False
    last[lanes.offsets[:-1]] = False
    return lanes.points[first], lanes.points[last]


def _flag(turn: NDArray[np.int8], side: int) -> NDArray[np.int8]:
    return np.where(turn == UNKNOWN, UNKNOWN, turn == side).astype(np.int8)


def _predecessors(lanes: LaneMap, lane: Integers) -> list[sparse.csr_array]:
    """Who comes 1, 2, 4, … pieces before whom, as (node, node before) matrices."""
    nodes, firsts = len(lane), np.searchsorted(lane, np.arange(len(lanes)))
    lasts = np.searchsorted(lane, np.arange(len(lanes)), side="right") - 1
    within = np.flatnonzero(np.diff(lane) == 0)
    rows = np.concatenate([within + 1, firsts[lanes.successors[:, 1]]])
    columns = np.concatenate([within, lasts[lanes.successors[:, 0]]])
    step = sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(nodes, nodes))
    steps = [step]
    for _ in range(SCALES - 1):
        steps.append(sparse.csr_array(steps[-1] @ steps[-1]))
    return steps


def _beside(
    lanes: LaneMap, neighbours: Integers, lane: Integers, centres: Floats, directions: Floats
) -> sparse.csr_array:
    """For each node the nearest of the neighbouring lane, or of what comes before or after that, if it runs along."""
    counts = np.bincount(lanes.successors[:, 0], minlength=len(lanes))
    after = np.split(lanes.successors[np.argsort(lanes.successors[:, 0], kind="stable"), 1], np.cumsum(counts)[:-1])
    counts = np.bincount(lanes.successors[:, 1], minlength=len(lanes))
    before = np.split(lanes.successors[np.argsort(lanes.successors[:, 1], kind="stable"), 0], np.cumsum(counts)[:-1])
    starts = np.searchsorted(lane, np.arange(len(lanes) + 1))
    heading = np.arctan2(directions[:, 1], directions[:, 0])
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for one in np.flatnonzero(neighbours >= 0):
        other = neighbours[one]
        mine = np.arange(starts[one], starts[one + 1])
        lanes_there = (other, *before[other], *after[other])
        theirs = np.concatenate([np.arange(starts[each], starts[each + 1]) for each in lanes_there])
        distance = np.linalg.norm(centres[mine, None] - centres[None, theirs], axis=2)
        nearest = theirs[distance.argmin(axis=1)]
        turned = np.abs((heading[mine] - heading[nearest] + np.pi) % (2 * np.pi) - np.pi)
        good = (distance.min(axis=1) < _BESIDE_M) & (turned < _BESIDE_RAD)
        rows.append(mine[good])
        columns.append(nearest[good])
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.ones(len(row), bool), (row, column)), shape=(len(lane), len(lane)))


def _joined(matrices: list[sparse.csr_array]) -> Relations:
    """All relations in one table, node by node."""
    nodes = matrices[0].shape[0]
    parts = [sparse.eye_array(nodes, format="coo"), *(matrix.tocoo() for matrix in matrices)]
    node = np.concatenate([part.row for part in parts])
    taken = np.concatenate([part.col.astype(np.int64) * KINDS + k for k, part in enumerate(parts)])
    order = np.lexsort((taken % KINDS, node))
    starts = np.append(0, np.cumsum(np.bincount(node, minlength=nodes)))
    return Relations(starts.astype(np.int32), taken[order].astype(np.int32))


@njit(cache=True)
def _among(starts, taken, chosen, place):
    new_starts = np.zeros(len(chosen) + 1, np.int32)
    most = 0
    for node in chosen:
        most += starts[node + 1] - starts[node]
    kept = np.empty(most, np.int32)
    count = 0
    for i in range(len(chosen)):
        for j in range(starts[chosen[i]], starts[chosen[i] + 1]):
            neighbour = place[taken[j] // KINDS]
            if neighbour >= 0:
                kept[count] = neighbour * KINDS + taken[j] % KINDS
                count += 1
        new_starts[i + 1] = count
    return new_starts, kept[:count].copy()


@njit(cache=True)
def _hops(starts, taken, nodes):
    """A breadth-first search."""
    hops = np.full(len(starts) - 1, FAR, np.int8)
    queue = np.empty(len(hops), np.int32)
    found = 0
    for node in nodes:
        if hops[node] == FAR:
            hops[node] = 0
            queue[found] = node
            found += 1
    done = 0
    while done < found:
        node = queue[done]
        done += 1
        for j in range(starts[node], starts[node + 1]):
            neighbour = taken[j] // KINDS
            if hops[neighbour] == FAR and hops[node] + 1 < FAR:
                hops[neighbour] = hops[node] + 1
                queue[found] = neighbour
                found += 1
    return hops
