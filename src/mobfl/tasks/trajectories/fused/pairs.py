"""The context of LaneGCN's attention: what who looks takes in of everyone it sees, pair by pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.products import multiply
from mobfl.tasks.trajectories.fused.linear import ROWS, Norm, arrays, turned
from mobfl.tasks.trajectories.fused.norms import channels_of, moments, normalise, normalise_back, slope_sums
from mobfl.tasks.vectors import (
    ADD,
    LANES,
    ONE,
    SET,
    address,
    after,
    entry,
    kernel,
    load,
    plus,
    store,
    where_positive,
)

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Parts:
    """What is known of a pair: by its distance (one row per pair), by who looks, by whom it sees (one row each)."""

    distance: Tensor
    query: Tensor
    seen: Tensor


def add_context(
    own: Tensor, parts: Parts, matrix: Tensor, norm: Norm, output: Tensor, channels: int, sides: tuple[Any, Any, Any]
) -> Tensor:
    """Adds ReLU(norm(distance · matrixᵀ + query + seen)) · outputᵀ of every pair to who looks, in `own` itself.

    `sides` are, for every pair, the row of who looks among `own`, its row among the queries, and the row of whom it
    sees.
    """
    return _Context.apply(  # type: ignore[no-untyped-call]
        own, parts.distance, parts.query, parts.seen, matrix, *norm, output, channels, sides
    )


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        own: Tensor,
        distance: Tensor,
        query: Tensor,
        seen: Tensor,
        matrix: Tensor,
        weight: Tensor,
        bias: Tensor,
        output: Tensor,
        channels: int,
        sides: tuple[Any, Any, Any],
    ) -> Tensor:
        mixed, found = torch.empty_like(distance), distance.new_empty(len(distance), 2)
        share = np.float32(1 / channels)
        _forward(
            *arrays(distance, query, seen, turned(matrix), weight, bias, turned(output)),
            channels_of(channels, own.shape[1]),
            share,
            sides,
            *arrays(_work(own), mixed, found, own),
        )
        context.mark_dirty(own)
        context.save_for_backward(distance, mixed, found, matrix, weight, bias, output)
        context.share, context.sides, context.counts = share, sides, (len(query), len(seen))
        return own

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        distance, mixed, found, matrix, weight, bias, output = context.saved_tensors
        slopes, width = slopes.contiguous(), slopes.shape[1]
        by_distance = torch.empty_like(distance)
        by_query, by_seen = (slopes.new_zeros(count, width) for count in context.counts)
        by_matrix, by_output, by_norm = torch.zeros_like(matrix), torch.zeros_like(output), slopes.new_zeros(2, width)
        _backward(
            *arrays(slopes, distance, mixed, found, matrix, weight, bias, output),
            context.share,
            context.sides,
            *arrays(
                _work(slopes), slopes.new_empty(ROWS, 2), by_distance, by_query, by_seen, by_matrix, by_output, by_norm
            ),
        )
        found_slopes = by_distance, by_query, by_seen, by_matrix.t(), by_norm[0], by_norm[1], by_output.t()
        return slopes, *found_slopes, None, None


def _work(rows: Tensor) -> Tensor:
    return rows.new_empty(3, ROWS, rows.shape[1])


@kernel
def _add_row(source, at, out, put, width):
    for c in range(0, width, LANES):
        store(out, put + c, plus(load(out, put + c), load(source, at + c)))


@entry
def _forward(distance, query, seen, matrix, weight, bias, output, channels, share, sides, work, mixed, found, out):
    width, pairs, active, messages = out.shape[1], len(distance), address(work), address(work[1])
    d, q, s, m, y = address(distance), address(query), address(seen), address(mixed), address(out)
    w, norm, v = address(matrix), (address(weight), address(bias)), address(output)
    marks, (lookers, queries, whom) = (address(channels), width), sides
    for first in range(0, pairs, ROWS):
        end, at = min(first + ROWS, pairs), first * width
        size = (end - first, width, width)
        multiply(after(d, at), width, ONE, w, after(m, at), size, SET)
        for p in range(first, end):
            _add_row(q, queries[p] * width, m, p * width, width)
            _add_row(s, whom[p] * width, m, p * width, width)
            found[p, 0], found[p, 1] = moments(m, p * width, width, marks, share)
        for p in range(first, end):
            normalise(m, p * width, width, (found[p, 0], found[p, 1]), norm, active, (p - first) * width, ADD)
        multiply(active, width, ONE, v, messages, size, SET)
        for p in range(first, end):
            _add_row(messages, (p - first) * width, y, lookers[p] * width, width)


@entry
def _backward(
    slopes, distance, mixed, found, matrix, weight, bias, output, share, sides, work, sums, by_distance, by_query,
    by_seen, by_matrix, by_output, by_norm,
):  # fmt: skip
    width, pairs = slopes.shape[1], len(distance)
    active, back, given = address(work), address(work[1]), address(work[2])
    dy, d, m, w, v = address(slopes), address(distance), address(mixed), address(matrix), address(output)
    norm, norm_slopes = (address(weight), address(bias)), address(by_norm)
    dd, dq, ds, dw, dv = (
        address(by_distance), address(by_query), address(by_seen), address(by_matrix), address(by_output),
    )  # fmt: skip
    lookers, queries, whom = sides
    for first in range(0, pairs, ROWS):
        end, at = min(first + ROWS, pairs), first * width
        size, outer = (end - first, width, width), (width, width, end - first)
        for p in range(first, end):
            there = (p - first) * width
            normalise(m, p * width, width, (found[p, 0], found[p, 1]), norm, active, there, ADD)
            for c in range(0, width, LANES):
                store(given, there + c, load(dy, lookers[p] * width + c))
        multiply(active, ONE, width, given, dv, outer, ADD)
        multiply(given, width, ONE, v, back, size, SET)
        for p in range(first, end):
            there, own = (p - first) * width, (found[p, 0], found[p, 1])
            for c in range(there, there + width, LANES):
                store(back, c, where_positive(load(active, c), load(back, c)))
            sums[p - first, 0], sums[p - first, 1] = slope_sums(
                m, p * width, width, own, share, norm, back, there, norm_slopes
            )
        for p in range(first, end):
            there, own = (p - first) * width, (found[p, 0], found[p, 1])
            sum_pair = (sums[p - first, 0], sums[p - first, 1])
            normalise_back(m, p * width, width, own, sum_pair, norm, back, there, back, there)
            _add_row(back, there, dq, queries[p] * width, width)
            _add_row(back, there, ds, whom[p] * width, width)
        multiply(after(d, at), ONE, width, back, dw, outer, ADD)
        multiply(back, width, ONE, w, after(dd, at), size, SET)
