"""Relations of lanes in the order in which kernels read them, and each index once.

A scene's nodes stand together, ordered by their hops, and are cut into blocks. A block has, relation by relation, who
takes from whom. So a layer walks from block to block, its scene stays in the cache, and a block's neighbours in one
relation are multiplied by that relation's matrix together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.tasks.trajectories.lane_graph import KINDS, Relations

BLOCK = 64  # nodes; two of them at width 32 fill a quarter of the nearest cache
_KINDS = np.uint32(KINDS)
Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Blocks:
    """Who takes in whom. Of block b and relation k: rows i, bounds[j] ≤ i < bounds[j + 1] with j = KINDS·b + k.

    The i-th such row is row rows[i] of its block and takes in sources[i]; rows ascend. What a row takes in besides
    stands in `more`: the same bounds, which of the bucket's rows it is, and the source. A node's own features (k = 0)
    need no entry.
    """

    firsts: Integers  # (B,): the number of a block's first node
    ends: Integers  # (B,): where the nodes of a block's scene end
    hops: NDArray[np.int8]  # (N,), ascending within a scene
    bounds: Integers  # (KINDS · B + 1,)
    rows: Integers
    sources: Integers
    more_bounds: Integers  # (KINDS · B + 1,)
    more_rows: Integers
    more_sources: Integers

    def counts(self, hops: int) -> Integers:
        """(B,): how many of each block's nodes are within so many hops; they are its first ones."""
        within = np.append(0, np.cumsum(self.hops <= hops, dtype=np.int32)).astype(np.int32)
        return within[np.minimum(self.firsts + BLOCK, self.ends)] - within[self.firsts]

    def within(self, hops: int) -> "Part":
        return Part((self.firsts, self.counts(hops)), self.ends, self._entries)

    @property
    def _entries(self) -> tuple[Integers, Integers, Integers, Integers, Integers, Integers]:
        return self.bounds, self.rows, self.sources, self.more_bounds, self.more_rows, self.more_sources

    def edges(self) -> tuple[Integers, Integers, Integers]:
        """The same as a list: who takes, in which relation, from whom."""
        buckets = np.arange(len(self.bounds) - 1, dtype=np.int32)
        first, further = (np.repeat(buckets, np.diff(each)) for each in (self.bounds, self.more_bounds))
        rows = np.concatenate([self.rows, self.rows[self.bounds[further] + self.more_rows]])
        bucket = np.concatenate([first, further])
        sources = np.concatenate([self.sources, self.more_sources])
        return self.firsts[bucket // KINDS] + rows, bucket % KINDS, sources


class Part(NamedTuple):
    """The nodes that a layer computes: the first ones of each block; and who takes in whom."""

    spans: tuple[Integers, Integers]  # blocks' first nodes, and how many of their nodes
    ends: Integers  # where the nodes of blocks' scenes end
    entries: tuple[Integers, Integers, Integers, Integers, Integers, Integers]


def blocks_of(relations: Sequence[Relations], orders: Sequence[NDArray[np.int64]], hops: NDArray[np.int8]) -> Blocks:
    """Of the scenes' relations among the nodes that `orders` name, which may be fewer; `hops` are those nodes'."""
    sizes = [len(order) for order in orders]
    starts = np.append(0, np.cumsum(sizes)).astype(np.int32)
    firsts = [np.arange(start, start + size, BLOCK, dtype=np.int32) for start, size in zip(starts, sizes, strict=False)]
    ends = np.repeat(starts[1:], [len(each) for each in firsts])
    most = sum(len(each.taken) for each in relations)
    bounds, more_bounds = np.zeros((2, KINDS * len(ends) + 1), np.int32)
    rows, sources, more_rows, more_sources = np.empty((4, most), np.int32)
    block = 0
    for each, order, start, its in zip(relations, orders, starts, firsts, strict=False):
        place = np.full(len(each.starts) - 1, -1, np.int32)
        place[order] = np.arange(start, start + len(order), dtype=np.int32)
        _sort(
            (each.starts, each.taken, order, place),
            (bounds[KINDS * block :], rows, sources),
            (more_bounds[KINDS * block :], more_rows, more_sources),
        )
        block += len(its)
    return Blocks(
        np.concatenate([np.empty(0, np.int32), *firsts]),
        ends,
        hops,
        bounds,
        rows[: bounds[-1]],
        sources[: bounds[-1]],
        more_bounds,
        more_rows[: more_bounds[-1]],
        more_sources[: more_bounds[-1]],
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _sort(scene, once, more):
    """One scene's relations: a counting sort by block and relation. Bounds begin where the scene before has ended."""
    order = scene[2]
    (bounds, rows, sources), (more_bounds, more_rows, more_sources) = once, more
    buckets = (len(order) + BLOCK - 1) // BLOCK * KINDS
    for i in range(len(order)):
        _count(scene, i, bounds, more_bounds)
    for bucket in range(buckets):
        bounds[bucket + 1] += bounds[bucket]
        more_bounds[bucket + 1] += more_bounds[bucket]
    put, put_more = bounds[:buckets].copy(), more_bounds[:buckets].copy()
    starts, taken, _, place = scene
    for i in range(len(order)):
        last = 0
        for j in range(starts[order[i]], starts[order[i] + 1]):
            kind, neighbour = _told(taken[j])
            source = place[neighbour]
            if kind == 0 or source < 0:
                continue
            bucket = i // BLOCK * KINDS + kind
            if kind != last:
                at, last = put[bucket], kind
                rows[at], sources[at], put[bucket] = i % BLOCK, source, at + 1
            else:
                at = put_more[bucket]
                more_rows[at], more_sources[at] = put[bucket] - bounds[bucket] - 1, source
                put_more[bucket] = at + 1


@njit(nogil=True, error_model="numpy")
def _told(taken):
    """Relation and neighbour; of numbers without a sign, which are quicker to divide."""
    neighbour = np.uint32(taken) // _KINDS
    return np.intp(np.uint32(taken) - neighbour * _KINDS), np.intp(neighbour)


@njit(nogil=True, error_model="numpy")
def _count(scene, i, bounds, more_bounds):
    """What node i takes in, counted one bucket further."""
    starts, taken, order, place = scene
    last = 0
    for j in range(starts[order[i]], starts[order[i] + 1]):
        kind, neighbour = _told(taken[j])
        if kind == 0 or place[neighbour] < 0:
            continue
        if kind != last:
            bounds[i // BLOCK * KINDS + kind + 1] += 1
        else:
            more_bounds[i // BLOCK * KINDS + kind + 1] += 1
        last = kind
