"""LaneGCN's lane convolution: a node's own features and those of its neighbours, each relation through its matrix.

Of a block of nodes and a relation, what the nodes take in is summed first and multiplied afterwards; nodes that have no
such neighbour are left out of the product. A block goes through the whole layer while it is in the nearest cache.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.products import ROUND, add_outer, multiply, multiply_rows
from mobfl.tasks.trajectories.fused.blocks import BLOCK, Part
from mobfl.tasks.trajectories.fused.linear import Norm, arrays
from mobfl.tasks.trajectories.fused.residual import (
    FOUND,
    Half,
    active_slopes,
    by_parameters,
    layer_of,
    residual_rows,
    residual_rows_back,
    stacked,
    work_in,
    work_of,
)
from mobfl.tasks.trajectories.lane_graph import KINDS
from mobfl.tasks.vectors import (
    ADD,
    LANES,
    ONE,
    SET,
    ZERO,
    address,
    after,
    entry,
    get,
    index,
    kernel,
    load,
    plus,
    put,
    spread,
    store,
)

_ZERO = np.float32(0)


def lane_convolution(
    nodes: Tensor, matrices: Tensor, norm: Norm, matrix: Tensor, output_norm: Norm, channels: int, part: Part
) -> Tensor:
    """(N, width): the layer's output for the nodes of `part`; other rows are not set.

    `matrices` (KINDS, width, width) have a row per output. Features of nodes that nobody of them takes in are not read.
    """
    parameters = matrices, *norm, matrix, *output_norm
    return _LaneConvolution.apply(channels, part, nodes, *parameters)  # type: ignore[no-untyped-call]


class _LaneConvolution(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, channels: int, part: Part, nodes: Tensor, matrices: Tensor, *others: Tensor) -> Tensor:
        matrix, norms = stacked(others)
        gathered, out, found = torch.empty_like(nodes), torch.empty_like(nodes), nodes.new_empty(len(nodes), FOUND)
        _forward(
            *arrays(nodes, matrices.transpose(1, 2).contiguous()),
            part,
            _work(nodes),
            (Half.of(channels, matrix, norms), work_of(nodes, BLOCK)),
            *arrays(gathered, found, out),
        )
        context.save_for_backward(nodes, matrices, gathered, found, out, matrix, norms)
        context.channels, context.part = channels, part
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        nodes, matrices, gathered, found, out, matrix, norms = context.saved_tensors
        by_nodes, by_matrices = torch.empty_like(nodes), torch.zeros_like(matrices)
        by_matrix, by_norms = torch.zeros_like(matrix), torch.zeros_like(norms)
        _backward(
            *arrays(slopes.contiguous(), nodes, matrices.contiguous()),
            context.part,
            _work(nodes),
            (Half.of(context.channels, matrix, norms), work_of(nodes, BLOCK)),
            *arrays(gathered, found, out, by_nodes, by_matrices, by_matrix, by_norms),
        )
        return None, None, by_nodes, by_matrices.transpose(1, 2), *by_parameters(by_matrix, by_norms)


def _work(nodes: Tensor) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Room for sums, products and two gradients of a block's rows, and for lists of offsets; the last is 0, width, …"""
    lists = np.zeros((3, BLOCK + ROUND), np.int64)
    lists[2] = np.arange(BLOCK + ROUND) * nodes.shape[1]
    return nodes.new_zeros(4, BLOCK + ROUND, nodes.shape[1]).numpy(), lists


@kernel
def _addresses(entries):
    bounds, rows, sources, more_bounds, more_rows, more_sources = entries
    return (
        address(bounds), address(rows), address(sources), address(more_bounds), address(more_rows),
        address(more_sources),
    )  # fmt: skip


@kernel
def _add_row(source, at, out, put, width):
    for c in range(0, width, LANES):
        store(out, put + c, plus(load(out, put + c), load(source, at + c)))


@kernel
def _copy_row(source, at, out, put, width):
    for c in range(0, width, LANES):
        store(out, put + c, load(source, at + c))


@kernel
def _takers(entries, bucket, count):
    """Which of the entries a block's first `count` rows have."""
    bounds, rows = entries[0], entries[1]
    begin, end = index(bounds, bucket), index(bounds, bucket + 1)
    if count < BLOCK:
        while end > begin and index(rows, end - 1) >= count:
            end -= 1
    return begin, end


@kernel
def _find(entries, bucket, span, start, filler, nodes, width, work):
    """Lists where the rows of a block stand, and where what each takes in: in the nodes, or summed in the work space.

    The lists are filled up to a whole tile.
    """
    begin, end = span
    sources, more_bounds, more_rows, more_sources = entries[2:]
    lefts, rows, sums = work
    for i in range(end - begin):
        put(lefts, i, index(sources, begin + i) * width)
        put(rows, i, start + index(entries[1], begin + i) * width)
    for i in range(end - begin, end - begin + ROUND):
        put(lefts, i, 0)
        put(rows, i, filler)
    last = -1
    for e in range(index(more_bounds, bucket), index(more_bounds, bucket + 1)):
        i = index(more_rows, e)
        if i >= end - begin:
            break
        if i != last:
            last = i
            _copy_row(nodes, get(lefts, i), sums, i * width, width)
            put(lefts, i, (sums - nodes) // 4 + i * width)
        _add_row(nodes, index(more_sources, e) * width, sums, i * width, width)


@kernel
def _scatter(products, width, entries, bucket, span, out):
    """A row's product is added to everything that the row took in."""
    begin, end = span
    sources, more_bounds, more_rows, more_sources = entries[2:]
    for e in range(begin, end):
        _add_row(products, (e - begin) * width, out, index(sources, e) * width, width)
    for e in range(index(more_bounds, bucket), index(more_bounds, bucket + 1)):
        i = index(more_rows, e)
        if i >= end - begin:
            break
        _add_row(products, i * width, out, index(more_sources, e) * width, width)


@entry
def _forward(nodes, matrices, part, rooms_and_lists, half, gathered, found, out):
    (firsts, counts), (rooms, lists), width = part.spans, rooms_and_lists, nodes.shape[1]
    x, w, g, y = address(nodes), address(matrices), address(gathered), address(out)
    entries, layer, residual_work = _addresses(part.entries), layer_of(half[0]), work_in(half[1])
    lefts, rows, _ = work = (address(lists), address(lists[1]), address(rooms))
    filler, places = (address(rooms[1]) - g) // 4, (g, x, address(found), y)
    for block in range(len(firsts)):
        first, count = np.intp(firsts[block]), np.intp(counts[block])
        at = first * width
        multiply(after(x, at), width, ONE, w, after(g, at), (count, width, width), SET)
        for kind in range(1, KINDS):
            bucket, matrix = block * KINDS + kind, after(w, kind * width * width)
            begin, end = span = _takers(entries, bucket, count)
            if end > begin:
                _find(entries, bucket, span, at, filler, x, width, work)
                multiply_rows((x, lefts), matrix, (g, rows), (end - begin, width, width), ADD)
        residual_rows((first, count), width, places, layer, residual_work)


@kernel
def _clear(place, numbers):
    for c in range(0, numbers, LANES):
        store(place, c, spread(_ZERO))


@entry
def _backward(
    slopes, nodes, matrices, part, rooms_and_lists, half, gathered, found, out, by_nodes, by_matrices, by_matrix,
    by_norms,
):  # fmt: skip
    (firsts, counts), ends, (rooms, lists), width = part.spans, part.ends, rooms_and_lists, nodes.shape[1]
    x, w, y, dy, dx, dw = (
        address(nodes), address(matrices), address(out), address(slopes), address(by_nodes), address(by_matrices),
    )  # fmt: skip
    entries, layer, residual_work = _addresses(part.entries), layer_of(half[0]), work_in(half[1])
    lefts, rows, _ = work = (address(lists), address(lists[1]), address(rooms))
    products, active, dg, in_order = address(rooms[1]), address(rooms[2]), address(rooms[3]), address(lists[2])
    places = address(gathered), address(found)
    by_layer = address(by_matrix), address(by_norms), address(by_norms[2])
    ready = 0  # the blocks whose gradients have been begun: a block adds to those of its whole scene
    for block in range(len(firsts)):
        while ready < len(firsts) and ends[ready] == ends[block]:
            first, count = np.intp(firsts[ready]), np.intp(counts[ready])
            active_slopes((first, count), width, y, dy, after(dx, first * width))
            _clear(after(dx, (first + count) * width), (min(BLOCK, ends[ready] - first) - count) * width)
            ready += 1
        first, count = np.intp(firsts[block]), np.intp(counts[block])
        span, at = (first, count), first * width
        active_slopes(span, width, y, dy, active)
        residual_rows_back(span, width, places, layer, (active, dg, *by_layer), residual_work)
        multiply(after(x, at), ONE, width, dg, dw, (width, width, count), ADD)
        multiply(dg, width, ONE, w, after(dx, at), (count, width, width), ADD)
        for kind in range(1, KINDS):
            bucket, matrix = block * KINDS + kind, kind * width * width
            begin, end = span = _takers(entries, bucket, count)
            if end > begin:
                _find(entries, bucket, span, ZERO, ZERO, x, width, work)
                size = (end - begin, width, width)
                add_outer((x, lefts), (dg, rows), after(dw, matrix), (width, width, end - begin))
                multiply_rows((dg, rows), after(w, matrix), (products, in_order), size, SET)
                _scatter(products, width, entries, bucket, span, dx)
