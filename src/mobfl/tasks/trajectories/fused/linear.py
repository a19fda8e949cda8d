"""Linear layers of rows, with normalisation and ReLU: LaneGCN's `Linear` and the first layers of its point networks."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mobfl.tasks.products import multiply
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

Norm = tuple[Tensor, Tensor]
ROWS = 64  # that are worked on together: what they need stays in the nearest cache


def turned(matrix: Tensor) -> Tensor:
    """(inputs, outputs), each input's row contiguous."""
    return matrix.detach().t().contiguous()


def arrays(*tensors: Tensor) -> Any:
    return (tensor.detach().numpy() for tensor in tensors)


def linear(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows · matrixᵀ"""
    return _Linear.apply(rows, matrix)  # type: ignore[no-untyped-call]


def normed_linear(
    rows: Tensor, matrix: Tensor, norm: Norm, channels: int, activated: bool, more: Tensor | None = None
) -> Tensor:
    """The normalised product of rows with matrixᵀ, through ReLU if `activated`.

    `more` are further columns of the rows, which need no gradient.
    """
    more = rows.new_empty(len(rows), 0) if more is None else more
    return _NormedLinear.apply(rows, more, matrix, *norm, channels, activated)  # type: ignore[no-untyped-call]


def points(places: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """ReLU of places (rows, 2) · matrixᵀ + bias. Places get no gradient."""
    return _Points.apply(places, matrix, bias)  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, matrix: Tensor) -> Tensor:
        context.save_for_backward(rows, matrix)
        out = rows.new_empty(len(rows), len(matrix))
        _product(*arrays(rows, turned(matrix), out))
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor, Tensor]:
        rows, matrix = context.saved_tensors
        by_rows, by_matrix = torch.empty_like(rows), rows.new_zeros(rows.shape[1], len(matrix))
        _product(*arrays(slopes.contiguous(), matrix.contiguous(), by_rows))
        _outer(*arrays(rows, slopes.contiguous(), by_matrix))
        return by_rows, by_matrix.t()


class _NormedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        rows: Tensor,
        more: Tensor,
        matrix: Tensor,
        weight: Tensor,
        bias: Tensor,
        channels: int,
        activated: bool,
    ) -> Tensor:
        products, found = rows.new_empty(len(rows), len(matrix)), rows.new_empty(len(rows), 2)
        out, share = torch.empty_like(products), np.float32(1 / channels)
        _normed_linear(
            *arrays(rows, more, turned(matrix), weight, bias),
            channels_of(channels, len(matrix)),
            share,
            *arrays(products, found, out),
            activated,
        )
        context.save_for_backward(rows, more, matrix, weight, products, found, out)
        context.activated, context.share = activated, share
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        rows, more, matrix, weight, products, found, out = context.saved_tensors
        wide, extra = rows.shape[1], more.shape[1]
        by_rows = torch.empty_like(rows)
        by_matrix, by_norm = rows.new_zeros(wide + extra, len(matrix)), rows.new_zeros(2, len(matrix))
        square = matrix[:, :wide].contiguous()
        _normed_linear_back(
            *arrays(slopes.contiguous(), rows, more, square, weight, products, found, out),
            context.share,
            context.activated,
            *arrays(rows.new_empty(ROWS, len(matrix)), rows.new_empty(ROWS, 2), by_rows, by_matrix, by_norm),
        )
        return by_rows, None, by_matrix.t(), by_norm[0], by_norm[1], None, None


class _Points(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, places: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
        out = places.new_empty(len(places), len(matrix))
        _points(*arrays(places, turned(matrix), bias, out))
        context.save_for_backward(places, out)
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[None, Tensor, Tensor]:
        places, out = context.saved_tensors
        by_matrix, by_bias = out.new_zeros(2, out.shape[1]), out.new_zeros(out.shape[1])
        work = out.new_empty(ROWS, out.shape[1])
        _points_back(*arrays(slopes.contiguous(), places, out, work, by_matrix, by_bias))
        return None, by_matrix.t(), by_bias


@entry
def _product(left, right, out):
    size = (left.shape[0], right.shape[1], left.shape[1])
    multiply(address(left), left.shape[1], ONE, address(right), address(out), size, SET)


@entry
def _outer(left, right, out):
    """Adds leftᵀ · right."""
    inputs, outputs = out.shape
    a, b, o = address(left), address(right), address(out)
    for first in range(0, len(left), ROWS):
        size = (inputs, outputs, min(ROWS, len(left) - first))
        multiply(after(a, first * inputs), ONE, inputs, after(b, first * outputs), o, size, ADD)


@entry
def _normed_linear(rows, more, matrix, weight, bias, channels, share, products, found, out, activated):
    (inputs, extra), width, count = (rows.shape[1], more.shape[1]), matrix.shape[1], len(rows)
    x, also, w, h, y = address(rows), address(more), address(matrix), address(products), address(out)
    norm, marks = (address(weight), address(bias)), (address(channels), width)
    for first in range(0, count, ROWS):
        end, at = min(first + ROWS, count), first * width
        multiply(after(x, first * inputs), inputs, ONE, w, after(h, at), (end - first, width, inputs), SET)
        if extra:
            size = (end - first, width, extra)
            multiply(after(also, first * extra), extra, ONE, after(w, inputs * width), after(h, at), size, ADD)
        for r in range(first, end):
            found[r, 0], found[r, 1] = moments(h, r * width, width, marks, share)
        for r in range(first, end):
            normalise(h, r * width, width, (found[r, 0], found[r, 1]), norm, y, r * width, activated)


@entry
def _normed_linear_back(
    slopes, rows, more, matrix, weight, products, found, out, share, activated, work, sums, by_rows, by_matrix, by_norm
):
    (inputs, extra), width, count = (rows.shape[1], more.shape[1]), slopes.shape[1], len(rows)
    dy, x, also, w, h = address(slopes), address(rows), address(more), address(matrix), address(products)
    y, back, dx, dw = address(out), address(work), address(by_rows), address(by_matrix)
    norm, norm_slopes = (address(weight), address(weight)), address(by_norm)
    for first in range(0, count, ROWS):
        end = min(first + ROWS, count)
        for r in range(first, end):
            here, there = r * width, (r - first) * width
            for c in range(0, width, LANES):
                slope = load(dy, here + c)
                store(back, there + c, where_positive(load(y, here + c), slope) if activated else slope)
            own = (found[r, 0], found[r, 1])
            sums[r - first, 0], sums[r - first, 1] = slope_sums(
                h, here, width, own, share, norm, back, there, norm_slopes
            )
        for r in range(first, end):
            here, there, own = r * width, (r - first) * width, (found[r, 0], found[r, 1])
            sum_pair = (sums[r - first, 0], sums[r - first, 1])
            normalise_back(h, here, width, own, sum_pair, norm, back, there, back, there)
        multiply(back, width, ONE, w, after(dx, first * inputs), (end - first, inputs, width), SET)
        multiply(after(x, first * inputs), ONE, inputs, back, dw, (inputs, width, end - first), ADD)
        if extra:
            size = (extra, width, end - first)
            multiply(after(also, first * extra), ONE, extra, back, after(dw, inputs * width), size, ADD)


@entry
def _points(places, matrix, bias, out):
    axes, width, b, y = places.shape[1], out.shape[1], address(bias), address(out)
    multiply(address(places), axes, ONE, address(matrix), y, (len(places), width, axes), SET)
    for at in range(0, out.size, width):
        for c in range(0, width, LANES):
            store(y, at + c, positive(plus(load(y, at + c), load(b, c))))


@entry
def _points_back(slopes, places, out, work, by_matrix, by_bias):
    axes, width, count = places.shape[1], out.shape[1], len(places)
    dy, x, y, back = address(slopes), address(places), address(out), address(work)
    dw, db = address(by_matrix), address(by_bias)
    for first in range(0, count, ROWS):
        end = min(first + ROWS, count)
        for r in range(first, end):
            for c in range(0, width, LANES):
                slope = where_positive(load(y, r * width + c), load(dy, r * width + c))
                store(back, (r - first) * width + c, slope)
                store(db, c, plus(load(db, c), slope))
        multiply(after(x, first * axes), ONE, axes, back, dw, (axes, width, end - first), ADD)
