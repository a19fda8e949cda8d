"""Normalisation over the channels of a row (GroupNorm with one group, as in LaneGCN), there and back.

Sums over a row are waited for. So kernels find those of many rows first, which overlap, and then use them.
"""

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.vectors import (
    LANES,
    fused,
    kernel,
    load,
    minus,
    plus,
    positive,
    spread,
    store,
    times,
    total,
)

_EPS = np.float32(1e-5)
_ZERO, _ONE = np.float32(0), np.float32(1)


def channels_of(channels: int, width: int) -> NDArray[np.float32]:
    """One for each channel of a row, and zeros up to its width: only channels count in a norm."""
    return (np.arange(width) < channels).astype(np.float32)


@kernel
def moments(rows, at, width, channels, share):
    """Mean and inverse standard deviation of the channels of the row that begins at element `at`.

    `share` is the part of a number in the mean. `channels` is the address of their ones and zeros, and how many
    they are; the row may be several times as long.
    """
    place, marks = channels
    sums = spread(_ZERO)
    for c in range(at, at + width, LANES):
        sums = plus(sums, load(rows, c))
    mean = total(sums) * share
    squares, mark = spread(_ZERO), 0
    for c in range(at, at + width, LANES):
        off = times(minus(load(rows, c), spread(mean)), load(place, mark))
        squares = fused(off, off, squares)
        mark = mark + LANES if mark + LANES < marks else 0
    return mean, _ONE / np.sqrt(total(squares) * share + _EPS)


@kernel
def normalise(rows, at, width, found, norm, out, out_at, activated):
    """Writes a row's normalised values, through ReLU if `activated`; found: its moments, norm: weights and biases."""
    (mean, inverse_sd), (weight, bias) = found, norm
    for c in range(0, width, LANES):
        value = times(minus(load(rows, at + c), spread(mean)), spread(inverse_sd))
        value = fused(value, load(weight, c), load(bias, c))
        store(out, out_at + c, positive(value) if activated else value)


@kernel
def slope_sums(rows, at, width, found, share, norm, slopes, slopes_at, norm_slopes):
    """The mean of a normalised row's gradient, and its mean along the row; adds up what weights and biases get."""
    (mean, inverse_sd), (weight, _) = found, norm
    levels = along = spread(_ZERO)
    for c in range(0, width, LANES):
        slope = load(slopes, slopes_at + c)
        value = times(minus(load(rows, at + c), spread(mean)), spread(inverse_sd))
        store(norm_slopes, c, fused(slope, value, load(norm_slopes, c)))
        store(norm_slopes, width + c, plus(slope, load(norm_slopes, width + c)))
        slope = times(slope, load(weight, c))
        levels, along = plus(levels, slope), fused(slope, value, along)
    return total(levels) * share, total(along) * share


@kernel
def normalise_back(rows, at, width, found, sums, norm, slopes, slopes_at, out, out_at):
    """Writes the gradient of a row from that of its normalised values: less its mean and its part along the row.

    Slopes and out may be the same.
    """
    (mean, inverse_sd), (level, tilt), (weight, _) = found, sums, norm
    for c in range(0, width, LANES):
        value = times(minus(load(rows, at + c), spread(mean)), spread(inverse_sd))
        slope = minus(times(load(slopes, slopes_at + c), load(weight, c)), fused(value, spread(tilt), spread(level)))
        store(out, out_at + c, times(slope, spread(inverse_sd)))
