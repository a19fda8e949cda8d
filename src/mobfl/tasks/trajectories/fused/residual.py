"""The second half of LaneGCN's graph layers: norm, ReLU, linear, norm, what the layer was given, ReLU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mobfl.tasks.products import multiply
from mobfl.tasks.trajectories.fused.blocks import Integers
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
    load,
    plus,
    positive,
    store,
    where_positive,
)

Spans = tuple[Integers, Integers]  # of rows that are worked on together: their first ones, and how many they are


def spans_of(rows: int) -> Spans:
    """All of so many rows."""
    firsts = np.arange(0, rows, ROWS, dtype=np.int32)
    return firsts, np.minimum(ROWS, rows - firsts).astype(np.int32)


def normed_residual(
    gathered: Tensor, given: Tensor, norm: Norm, matrix: Tensor, output_norm: Norm, channels: int
) -> Tensor:
    """ReLU(norm₂(ReLU(norm(gathered)) · matrixᵀ) + given)."""
    return _NormedResidual.apply(channels, gathered, given, *norm, matrix, *output_norm)  # type: ignore[no-untyped-call]


class _NormedResidual(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, channels: int, gathered: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
        context.spans = spans_of(len(gathered))
        out, context.kept, saved = residual(channels, gathered, given, parameters, context.spans)
        context.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        return None, *residual_back(slopes, context.kept, context.saved_tensors, context.spans)


def residual(
    channels: int, gathered: Tensor, given: Tensor, parameters: tuple[Tensor, ...], spans: Spans
) -> tuple[Tensor, np.float32, tuple[Tensor, ...]]:
    """The rows of these spans, others not being set; and what the way back needs."""
    weight, bias, matrix, output_weight, output_bias = parameters
    norms = torch.stack([weight, bias, output_weight, output_bias]).detach()
    products, out, found = torch.empty_like(gathered), torch.empty_like(gathered), gathered.new_empty(len(given), 4)
    share = np.float32(1 / channels)
    _forward(
        *arrays(gathered, given, turned(matrix), norms),
        channels_of(channels, gathered.shape[1]),
        share,
        spans,
        *arrays(_work(gathered), products, found, out),
    )
    return out, share, (gathered, products, found, out, norms, matrix)


def residual_back(slopes: Tensor, share: np.float32, saved: tuple[Tensor, ...], spans: Spans) -> tuple[Tensor, ...]:
    """Gradients of what was gathered (set in the spans' rows only), of what was given, and of the parameters."""
    gathered, products, found, out, norms, matrix = saved
    whole = int(spans[1].sum()) == len(gathered)
    by_gathered, by_given = torch.empty_like(gathered), (torch.empty_like if whole else torch.zeros_like)(gathered)
    by_matrix, by_norms = torch.zeros_like(matrix), torch.zeros_like(norms)
    _backward(
        *arrays(slopes.contiguous(), gathered, products, found, out, norms, matrix),
        share,
        spans,
        *arrays(_work(gathered), gathered.new_empty(ROWS, 2), by_gathered, by_given, by_matrix, by_norms),
    )
    return by_gathered, by_given, by_norms[0], by_norms[1], by_matrix.t(), by_norms[2], by_norms[3]


def _work(rows: Tensor) -> Tensor:
    return rows.new_empty(2, ROWS, rows.shape[1])


@entry
def _forward(gathered, given, matrix, norms, channels, share, spans, work, products, found, out):
    width, active, (firsts, counts) = gathered.shape[1], address(work), spans
    marks = (address(channels), width)
    g, x, w, h, y = address(gathered), address(given), address(matrix), address(products), address(out)
    norm, output_norm = (address(norms), address(norms[1])), (address(norms[2]), address(norms[3]))
    for span in range(len(firsts)):
        first = np.intp(firsts[span])
        end = first + counts[span]
        for r in range(first, end):
            found[r, 0], found[r, 1] = moments(g, r * width, width, marks, share)
        for r in range(first, end):
            normalise(g, r * width, width, (found[r, 0], found[r, 1]), norm, active, (r - first) * width, ADD)
        multiply(active, width, ONE, w, after(h, first * width), (end - first, width, width), SET)
        for r in range(first, end):
            found[r, 2], found[r, 3] = moments(h, r * width, width, marks, share)
        for r in range(first, end):
            normalise(h, r * width, width, (found[r, 2], found[r, 3]), output_norm, y, r * width, SET)
            for c in range(r * width, (r + 1) * width, LANES):
                store(y, c, positive(plus(load(y, c), load(x, c))))


@entry
def _backward(
    slopes, gathered, products, found, out, norms, matrix, share, spans, work, sums, by_gathered, by_given, by_matrix,
    by_norms,
):  # fmt: skip
    width, (firsts, counts) = gathered.shape[1], spans
    dy, g, h, y, w = address(slopes), address(gathered), address(products), address(out), address(matrix)
    dg, dx, dw = address(by_gathered), address(by_given), address(by_matrix)
    norm, output_norm = (address(norms), address(norms[1])), (address(norms[2]), address(norms[3]))
    norm_slopes, output_slopes, active, back = address(by_norms), address(by_norms[2]), address(work), address(work[1])
    for span in range(len(firsts)):
        first = np.intp(firsts[span])
        end = first + counts[span]
        for r in range(first, end):
            at, own = r * width, (found[r, 2], found[r, 3])
            for c in range(at, at + width, LANES):
                store(dx, c, where_positive(load(y, c), load(dy, c)))
            sums[r - first, 0], sums[r - first, 1] = slope_sums(
                h, at, width, own, share, output_norm, dx, at, output_slopes
            )
        for r in range(first, end):
            at, put, own = r * width, (r - first) * width, (found[r, 2], found[r, 3])
            sum_pair = (sums[r - first, 0], sums[r - first, 1])
            normalise_back(h, at, width, own, sum_pair, output_norm, dx, at, back, put)
            normalise(g, at, width, (found[r, 0], found[r, 1]), norm, active, put, ADD)
        multiply(active, ONE, width, back, dw, (width, width, end - first), ADD)
        multiply(back, width, ONE, w, after(dg, first * width), (end - first, width, width), SET)
        for r in range(first, end):
            at, put, own = r * width, (r - first) * width, (found[r, 0], found[r, 1])
            for c in range(0, width, LANES):
                store(dg, at + c, where_positive(load(active, put + c), load(dg, at + c)))
            sums[r - first, 0], sums[r - first, 1] = slope_sums(g, at, width, own, share, norm, dg, at, norm_slopes)
        for r in range(first, end):
            at, own = r * width, (found[r, 0], found[r, 1])
            normalise_back(g, at, width, own, (sums[r - first, 0], sums[r - first, 1]), norm, dg, at, dg, at)
