"""The second half of LaneGCN's graph layers: norm, ReLU, linear, norm, what the layer was given, ReLU.

Memory bounds it: what the way back needs is computed again where that is quicker than to keep it.
"""

from typing import Any, NamedTuple

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
    number,
    plus,
    positive,
    put_number,
    store,
    where_positive,
)

FOUND = 4  # numbers that are kept of a row: both norms' moments


class Half(NamedTuple):
    """The parameters of a second half as entries are given them; `layer_of` makes addresses of it."""

    matrix: NDArray[np.float32]
    turned: NDArray[np.float32]
    norms: NDArray[np.float32]  # (4, width): weights and biases of both
    channels: NDArray[np.float32]
    share: np.float32

    @classmethod
    def of(cls, channels: int, matrix: Tensor, norms: Tensor) -> "Half":
        own, its_turn, both_norms = arrays(matrix.contiguous(), turned(matrix), norms)
        return cls(own, its_turn, both_norms, channels_of(channels, norms.shape[1]), np.float32(1 / channels))


def stacked(parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The matrix, and the four rows of both norms, of (weight, bias, matrix, output weight, output bias)."""
    weight, bias, matrix, output_weight, output_bias = parameters
    return matrix, torch.stack([weight, bias, output_weight, output_bias]).detach()


def work_of(rows: Tensor, most: int = ROWS) -> NDArray[np.float32]:
    """Room for what a span of so many rows at most needs while it is worked on."""
    return rows.new_empty(3, most, rows.shape[1]).numpy()


def normed_residual(
    gathered: Tensor, given: Tensor, norm: Norm, matrix: Tensor, output_norm: Norm, channels: int
) -> Tensor:
    """ReLU(norm₂(ReLU(norm(gathered)) · matrixᵀ) + given)."""
    return _NormedResidual.apply(channels, gathered, given, *norm, matrix, *output_norm)  # type: ignore[no-untyped-call]


class _NormedResidual(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, channels: int, gathered: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
        matrix, norms = stacked(parameters)
        out, found = torch.empty_like(gathered), gathered.new_empty(len(gathered), FOUND)
        _forward(*arrays(gathered, given), Half.of(channels, matrix, norms), work_of(gathered), *arrays(found, out))
        context.save_for_backward(gathered, found, out, matrix, norms)
        context.channels = channels
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gathered, found, out, matrix, norms = context.saved_tensors
        by_gathered, by_given = torch.empty_like(gathered), torch.empty_like(gathered)
        by_matrix, by_norms = torch.zeros_like(matrix), torch.zeros_like(norms)
        _backward(
            *arrays(slopes.contiguous(), gathered, found, out),
            Half.of(context.channels, matrix, norms),
            work_of(gathered),
            *arrays(by_gathered, by_given, by_matrix, by_norms),
        )
        return None, by_gathered, by_given, *by_parameters(by_matrix, by_norms)


def by_parameters(by_matrix: Tensor, by_norms: Tensor) -> tuple[Tensor, ...]:
    """Gradients in the order in which the layer was given its parameters."""
    return by_norms[0], by_norms[1], by_matrix.t(), by_norms[2], by_norms[3]


@kernel
def layer_of(half):
    """Addresses: of the matrix, of its transpose, of both norms' weights and biases, and of the channels that count."""
    matrix, turned_matrix, norms, channels, share = half
    norm, output_norm = (address(norms), address(norms[1])), (address(norms[2]), address(norms[3]))
    return address(matrix), address(turned_matrix), norm, output_norm, (address(channels), len(channels)), share


@kernel
def work_in(rooms):
    """Addresses: of rows that went through the first norm and ReLU, of their products, and of pairs of sums."""
    return address(rooms), address(rooms[1]), address(rooms[2])


@kernel
def _pair(pairs, at):
    return number(pairs, at), number(pairs, at + 1)


@kernel
def _put_pair(pairs, at, pair):
    put_number(pairs, at, pair[0])
    put_number(pairs, at + 1, pair[1])


@kernel
def residual_rows(span, width, places, layer, work):
    """Sets a span's rows of out; `places` are addresses of what was gathered, was given, is found, and of out."""
    (first, count), (g, x, found, y) = span, places
    (_, w, norm, output_norm, marks, share), (active, products, _) = layer, work
    for i in range(count):
        _put_pair(found, FOUND * (first + i), moments(g, (first + i) * width, width, marks, share))
    for i in range(count):
        own = _pair(found, FOUND * (first + i))
        normalise(g, (first + i) * width, width, own, norm, active, i * width, ADD)
    multiply(active, width, ONE, w, products, (count, width, width), SET)
    for i in range(count):
        _put_pair(found, FOUND * (first + i) + 2, moments(products, i * width, width, marks, share))
    for i in range(count):
        at, own = (first + i) * width, _pair(found, FOUND * (first + i) + 2)
        normalise(products, i * width, width, own, output_norm, y, at, SET)
        for c in range(at, at + width, LANES):
            store(y, c, positive(plus(load(y, c), load(x, c))))


@kernel
def active_slopes(span, width, out, slopes, by_given):
    """Writes the span's slopes where its rows of out are positive, from `by_given` on."""
    first, count = span
    for c in range(0, count * width, LANES):
        store(by_given, c, where_positive(load(out, first * width + c), load(slopes, first * width + c)))


@kernel
def residual_rows_back(span, width, places, layer, slopes, work):
    """Writes a span's gradient of what was gathered, and adds up those of the parameters.

    `places` are addresses of what was gathered and found; `slopes` of the span's active slopes, of its gradient, and of
    those of the matrix and of both norms.
    """
    (first, count), (g, found), (active, products, sums) = span, places, work
    (matrix, w, norm, output_norm, _, share), (dy, dg, dw, by_norm, by_output_norm) = layer, slopes
    size = (count, width, width)
    for i in range(count):
        own = _pair(found, FOUND * (first + i))
        normalise(g, (first + i) * width, width, own, norm, active, i * width, ADD)
    multiply(active, width, ONE, w, products, size, SET)
    for i in range(count):
        at, own = i * width, _pair(found, FOUND * (first + i) + 2)
        _put_pair(sums, 2 * i, slope_sums(products, at, width, own, share, output_norm, dy, at, by_output_norm))
    for i in range(count):
        at, own = i * width, _pair(found, FOUND * (first + i) + 2)
        normalise_back(products, at, width, own, _pair(sums, 2 * i), output_norm, dy, at, products, at)
    multiply(active, ONE, width, products, dw, (width, width, count), ADD)
    multiply(products, width, ONE, matrix, dg, size, SET)
    for c in range(0, count * width, LANES):
        store(dg, c, where_positive(load(active, c), load(dg, c)))
    for i in range(count):
        at, own = (first + i) * width, _pair(found, FOUND * (first + i))
        _put_pair(sums, 2 * i, slope_sums(g, at, width, own, share, norm, dg, i * width, by_norm))
    for i in range(count):
        at, own = (first + i) * width, _pair(found, FOUND * (first + i))
        normalise_back(g, at, width, own, _pair(sums, 2 * i), norm, dg, i * width, dg, i * width)


@entry
def _forward(gathered, given, half, rooms, found, out):
    width, layer, work = gathered.shape[1], layer_of(half), work_in(rooms)
    places = address(gathered), address(given), address(found), address(out)
    for first in range(0, len(gathered), ROWS):
        residual_rows((first, min(ROWS, len(gathered) - first)), width, places, layer, work)


@entry
def _backward(slopes, gathered, found, out, half, rooms, by_gathered, by_given, by_matrix, by_norms):
    width, layer, work = gathered.shape[1], layer_of(half), work_in(rooms)
    places, y, dy = (address(gathered), address(found)), address(out), address(slopes)
    by_layer = address(by_matrix), address(by_norms), address(by_norms[2])
    for first in range(0, len(gathered), ROWS):
        span, at = (first, min(ROWS, len(gathered) - first)), first * width
        dx, dg = after(address(by_given), at), after(address(by_gathered), at)
        active_slopes(span, width, y, dy, dx)
        residual_rows_back(span, width, places, layer, (dx, dg, *by_layer), work)
