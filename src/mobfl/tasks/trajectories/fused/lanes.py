"""LaneGCN's lane convolution: a node's own features and those of its neighbours, each relation through its matrix.

Of a block of nodes and a relation, what the nodes take in is summed first and multiplied afterwards; nodes that have no
such neighbour are left out of the product.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mobfl.tasks.products import ROUND, add_outer, multiply, multiply_rows
from mobfl.tasks.trajectories.fused.blocks import BLOCK, Part
from mobfl.tasks.trajectories.fused.linear import Norm, arrays
from mobfl.tasks.trajectories.fused.residual import residual, residual_back
from mobfl.tasks.trajectories.lane_graph import KINDS
from mobfl.tasks.vectors import (
    ADD,
    LANES,
    ONE,
    SET,
    address,
    after,
    entry,
    get,
    index,
    kernel,
    load,
    plus,
    put,
    store,
)


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
        gathered = torch.empty_like(nodes)
        turned = matrices.detach().transpose(1, 2).contiguous()
        _forward(*arrays(nodes, turned), *part.spans, part.entries, *_work(nodes), gathered.numpy())
        out, context.kept, saved = residual(channels, gathered, nodes, others, part.spans)
        context.save_for_backward(nodes, matrices, *saved)
        context.part = part
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        nodes, matrices, *saved = context.saved_tensors
        part: Part = context.part
        by_gathered, by_nodes, *by_others = residual_back(slopes, context.kept, tuple(saved), part.spans)
        by_matrices = torch.zeros_like(matrices)
        _backward(
            *arrays(by_gathered, nodes, matrices.contiguous()),
            *part.spans,
            part.entries,
            *_work(nodes),
            *arrays(by_nodes, by_matrices),
        )
        return None, None, by_nodes, by_matrices.transpose(1, 2), *by_others


def _work(nodes: Tensor) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Room for sums and products of a block's rows, and for lists of offsets, of which the last is 0, width, …"""
    lists = np.zeros((3, BLOCK + ROUND), np.int64)
    lists[2] = np.arange(BLOCK + ROUND) * nodes.shape[1]
    return nodes.new_zeros(2, BLOCK + ROUND, nodes.shape[1]).numpy(), lists


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
def _forward(nodes, matrices, firsts, counts, tables, rooms, lists, out):
    width, x, w, y = nodes.shape[1], address(nodes), address(matrices), address(out)
    entries = _addresses(tables)
    lefts, rows, _ = work = (address(lists), address(lists[1]), address(rooms))
    filler = (address(rooms[1]) - y) // 4
    for block in range(len(firsts)):
        count, at = np.intp(counts[block]), firsts[block] * width
        multiply(after(x, at), width, ONE, w, after(y, at), (count, width, width), SET)
        for kind in range(1, KINDS):
            bucket, matrix = block * KINDS + kind, after(w, kind * width * width)
            begin, end = span = _takers(entries, bucket, count)
            if end > begin:
                _find(entries, bucket, span, at, filler, x, width, work)
                multiply_rows((x, lefts), matrix, (y, rows), (end - begin, width, width), ADD)


@entry
def _backward(slopes, nodes, matrices, firsts, counts, tables, rooms, lists, by_nodes, by_matrices):
    width, x, w, dy = nodes.shape[1], address(nodes), address(matrices), address(slopes)
    dx, dw, entries = address(by_nodes), address(by_matrices), _addresses(tables)
    lefts, rows, _ = work = (address(lists), address(lists[1]), address(rooms))
    products, in_order = address(rooms[1]), address(lists[2])
    for block in range(len(firsts)):
        count, at = np.intp(counts[block]), firsts[block] * width
        multiply(after(x, at), ONE, width, after(dy, at), dw, (width, width, count), ADD)
        multiply(after(dy, at), width, ONE, w, after(dx, at), (count, width, width), ADD)
        for kind in range(1, KINDS):
            bucket, matrix = block * KINDS + kind, kind * width * width
            begin, end = span = _takers(entries, bucket, count)
            if end > begin:
                _find(entries, bucket, span, at, at, x, width, work)
                size = (end - begin, width, width)
                add_outer((x, lefts), (dy, rows), after(dw, matrix), (width, width, end - begin))
                multiply_rows((dy, rows), after(w, matrix), (products, in_order), size, SET)
                _scatter(products, width, entries, bucket, span, dx)
