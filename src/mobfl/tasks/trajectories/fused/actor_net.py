"""LaneGCN's network of actors: convolutions over time, each with its normalisation, and a feature pyramid.

An actor's steps lie one below the other, channels filled up to whole vectors, with a step of zeros before and after. So
what a convolution of three steps reads is a row of three steps' numbers, and the convolution a product of matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mobfl.tasks.products import multiply
from mobfl.tasks.trajectories.fused.linear import arrays
from mobfl.tasks.trajectories.fused.norms import channels_of, moments, normalise
from mobfl.tasks.vectors import (
    ADD,
    LANES,
    ONE,
    SET,
    ZERO,
    address,
    after,
    entry,
    fused,
    kernel,
    load,
    minus,
    plus,
    spread,
    store,
    times,
    total,
    where_positive,
)

if TYPE_CHECKING:
    from mobfl.tasks.trajectories.lanegcn import ActorNet, NormedConv, ResidualConv

_ZERO = np.float32(0)


def actor_net(net: ActorNet, steps: Tensor) -> Tensor:
    """(A, width filled up): actors' features from their steps (A, 3, 20)."""
    x = functional.pad(steps.transpose(1, 2), (0, -steps.shape[1] % LANES, 1, 1)).contiguous()
    levels, groups = [], list[Any](net.groups)
    for group in groups:
        for block in group:
            x = _residual(block, x)
        levels.append(x)
    out = _conv(net.lateral[-1], levels[-1])
    for lateral, level in zip(net.lateral[-2::-1], levels[-2::-1], strict=True):
        out = torch.matmul(_doubling(out.shape[1] - 2), out) + _conv(lateral, level)
    return _residual(net.output, out)[:, -2].contiguous()


def _residual(block: ResidualConv, x: Tensor) -> Tensor:
    same = isinstance(block.shortcut, torch.nn.Identity)
    return functional.relu(_conv(block.second, _conv(block.first, x)) + (x if same else _conv(block.shortcut, x)))


def _doubling(steps: int) -> Tensor:
    """The matrix (2·steps + 2, steps + 2) of linear interpolation to twice the steps; the zeros around stay."""
    inner = functional.interpolate(torch.eye(steps)[None], scale_factor=2, mode="linear", align_corners=False)[0]
    return functional.pad(inner.T, (1, 1, 1, 1))


def _conv(layer: NormedConv | Any, x: Tensor) -> Tensor:
    outputs, inputs, size = layer.conv.weight.shape
    lacking = (0, -outputs % LANES, 0, x.shape[2] - inputs)
    matrix = functional.pad(layer.conv.weight.permute(2, 1, 0), lacking).reshape(size * x.shape[2], -1)
    norm = (functional.pad(each, lacking[:2]) for each in (layer.norm.weight, layer.norm.bias))
    return _NormedConv.apply(x, matrix, *norm, outputs, layer.conv.stride[0], layer.activated)  # type: ignore[no-untyped-call]


class _NormedConv(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        x: Tensor,
        matrix: Tensor,
        weight: Tensor,
        bias: Tensor,
        channels: int,
        stride: int,
        activated: bool,
    ) -> Tensor:
        x, matrix = x.contiguous(), matrix.detach().contiguous()
        steps, width = (x.shape[1] - 2) // stride, matrix.shape[1]
        out, products = x.new_zeros(len(x), steps + 2, width), x.new_empty(len(x), steps, width)
        found, share = x.new_empty(len(x), 2), np.float32(1 / (channels * steps))
        marks = channels_of(channels, width)
        _forward(*arrays(x, matrix, weight, bias), marks, share, stride, activated, *arrays(products, found, out))
        context.save_for_backward(x, matrix, weight, products, found, out)
        context.rest = stride, share, activated
        return out

    @staticmethod
    def backward(context: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, matrix, weight, products, found, out = context.saved_tensors
        by_x, by_matrix, by_norm = torch.zeros_like(x), torch.zeros_like(matrix), x.new_zeros(2, len(weight))
        work = x.new_empty(products.shape[1], len(weight)), x.new_empty(products.shape[1], len(matrix))
        _backward(
            *arrays(slopes.contiguous(), x, matrix.t().contiguous(), weight, products, found, out),
            *context.rest,
            *arrays(*work, by_x, by_matrix, by_norm),
        )
        return by_x, by_matrix, by_norm[0], by_norm[1], None, None, None


@kernel
def _reach(x, taps, stride):
    """How many numbers an actor's steps are, how far apart what two outputs read, and where the first begins."""
    width = x.shape[2]
    return x.shape[1] * width, stride * width, 0 if taps == 3 * width else width


@entry
def _forward(x, matrix, weight, bias, channels, share, stride, activated, products, found, out):
    taps, width = matrix.shape
    count, steps = products.shape[0], products.shape[1]
    per_actor, apart, begin = _reach(x, taps, stride)
    norm, marks = (address(weight), address(bias)), (address(channels), width)
    for actor in range(count):
        h, y = after(address(products), actor * steps * width), after(address(out), actor * (steps + 2) * width)
        left = after(address(x), actor * per_actor + begin)
        multiply(left, apart, ONE, address(matrix), h, (steps, width, taps), SET)
        mean, inverse_sd = found[actor, 0], found[actor, 1] = moments(h, ZERO, steps * width, marks, share)
        for at in range(0, steps * width, width):
            normalise(h, at, width, (mean, inverse_sd), norm, y, at + width, activated)


@entry
def _backward(
    slopes, x, matrix, weight, products, found, out, stride, share, activated, back, rows, by_x, by_matrix, by_norm
):
    width, taps = matrix.shape
    count, steps = products.shape[0], products.shape[1]
    per_actor, apart, begin = _reach(x, taps, stride)
    for actor in range(count):
        h, padded = after(address(products), actor * steps * width), actor * (steps + 2) * width + width
        dy, y = after(address(slopes), padded), after(address(out), padded)
        for c in range(0, steps * width, LANES):
            slope = load(dy, c)
            store(address(back), c, where_positive(load(y, c), slope) if activated else slope)
        moments = (found[actor, 0], found[actor, 1])
        _normalise_back(h, (steps, width), moments, share, address(weight), address(back), address(by_norm))
        left, dx = after(address(x), actor * per_actor + begin), after(address(by_x), actor * per_actor + begin)
        multiply(left, ONE, apart, address(back), address(by_matrix), (taps, width, steps), ADD)
        multiply(address(back), width, ONE, address(matrix), address(rows), (steps, taps, width), SET)
        for step in range(steps):
            for c in range(0, taps, LANES):
                at = step * apart + c
                store(dx, at, plus(load(dx, at), load(address(rows), step * taps + c)))


@kernel
def _normalise_back(rows, size, found, share, weight, slopes, norm_slopes):
    """As for a row, but moments are those of all steps together; the gradient takes the place of `slopes`."""
    (steps, width), (mean, inverse_sd) = size, found
    levels = along = spread(_ZERO)
    for at in range(0, steps * width, width):
        for c in range(0, width, LANES):
            slope, value = (
                load(slopes, at + c),
                times(minus(load(rows, at + c), spread(mean)), spread(inverse_sd)),
            )
            store(norm_slopes, c, fused(slope, value, load(norm_slopes, c)))
            store(norm_slopes, width + c, plus(slope, load(norm_slopes, width + c)))
            slope = times(slope, load(weight, c))
            levels, along = plus(levels, slope), fused(slope, value, along)
            store(slopes, at + c, slope)
    level, tilt = spread(total(levels) * share), spread(total(along) * share)
    for c in range(0, steps * width, LANES):
        value = times(minus(load(rows, c), spread(mean)), spread(inverse_sd))
        store(slopes, c, times(minus(load(slopes, c), fused(value, tilt, level)), spread(inverse_sd)))
