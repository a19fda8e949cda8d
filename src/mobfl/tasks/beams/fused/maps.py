"""Batch norm and PReLU of maps, there and back: u = scale·(z − mean) + shift, times leak if u < 0.

`norm` is (scale, shift, leak, mean) of a channel.
"""

import numpy as np

from mobfl.tasks.vectors import (
    LANES,
    ONE,
    after,
    evens,
    fused,
    kernel,
    load,
    load_bytes,
    minus,
    negative,
    odds,
    plus,
    put_number,
    put_pair,
    spread,
    store,
    times,
    total,
    where_negative,
    zip_first,
    zip_last,
)

_ZERO, _ONE = np.float32(0), np.float32(1)
_PAIR = 2 * LANES
_PART = 16 * LANES  # numbers whose sum is one number of the whole one


@kernel
def fill_gaps(values, at, number):
    """Of a channel's map: the gaps between its rows, and what is left of its last vector."""
    for gap in range(at.width, at.numbers, at.pitch):
        put_pair(values, gap, number)
    for p in range(at.numbers, at.span):
        put_number(values, p, number)


@kernel
def write_grid(grid, at, out):
    """A sample's grid, one byte a cell, as the padded map that begins at `out`. Its last bytes are read twice."""
    for row in range(at.height):
        source, target = grid + row * at.width, after(out, (row + 1) * at.pitch + 1)
        for j in range(0, at.width - LANES + 1, LANES):
            store(target, j, load_bytes(source, j))
        store(target, at.width - LANES, load_bytes(source, at.width - LANES))


@kernel
def activate(z, numbers, norm, out):
    scale, shift, leak, mean = norm
    less = leak - _ONE
    for p in range(0, numbers, LANES):
        u = fused(minus(load(z, p), spread(mean)), spread(scale), spread(shift))
        store(out, p, fused(negative(u), spread(less), u))


@kernel
def activate_in_phases(z, before, norm, at, out):
    """For a convolution that takes every second column, and every row or every second one."""
    scale, shift, leak, mean = norm
    less, half = leak - _ONE, before.width // 2
    for row in range(before.height):
        source, padded = after(z, row * before.pitch), row + 1
        target = after(out, padded % at.down * 2 * at.read_phase + padded // at.down * at.pitch)
        # With the padding's column counted, the first column is odd.
        odd, even = after(target, at.read_phase), after(target, ONE)
        for j in range(0, half, LANES):
            a = fused(minus(load(source, 2 * j), spread(mean)), spread(scale), spread(shift))
            b = fused(minus(load(source, 2 * j + LANES), spread(mean)), spread(scale), spread(shift))
            a, b = fused(negative(a), spread(less), a), fused(negative(b), spread(less), b)
            store(odd, j, evens(a, b))
            store(even, j, odds(a, b))
        # Two vectors of zeros cover what was written too much; the next row writes over the rest of them.
        for p in range(half, half + _PAIR, LANES):
            store(odd, p, spread(_ZERO))
            store(even, p, spread(_ZERO))


@kernel
def add_moments(z, at, origin, sums):
    """Adds to sums a map's sum and sum of squares about an origin, which fills its gaps.

    Summed by parts: most numbers are the same, and what rounding does to the same sum again and again adds up.
    """
    fill_gaps(z, at, origin)
    level = squares = spread(_ZERO)
    for first in range(0, at.span, _PART):
        part_level = part_squares = spread(_ZERO)
        for p in range(first, min(first + _PART, at.span), LANES):
            value = minus(load(z, p), spread(origin))
            part_level, part_squares = plus(part_level, value), fused(value, value, part_squares)
        level, squares = plus(level, part_level), plus(squares, part_squares)
    sums[0] += np.float64(total(level))
    sums[1] += np.float64(total(squares))


@kernel
def activate_back(slopes, z, numbers, norm, out, sums):
    """The gradient through PReLU; adds up what batch norm's weight and bias and the leak take from it."""
    scale, shift, leak, mean = norm
    less = leak - _ONE
    deviation = level = below = spread(_ZERO)
    for p in range(0, numbers, LANES):
        d, off = load(slopes, p), minus(load(z, p), spread(mean))
        u = fused(off, spread(scale), spread(shift))
        down = where_negative(u, d)
        y = fused(down, spread(less), d)
        store(out, p, y)
        deviation, level, below = fused(y, off, deviation), plus(level, y), fused(down, u, below)
    sums[0] += np.float64(total(deviation))
    sums[1] += np.float64(total(level))
    sums[2] += np.float64(total(below))


@kernel
def normalise_back(slopes, z, numbers, norm, out):
    """The gradient through batch norm: less its mean, and less its part along the deviation."""
    scale, level, tilt, mean = norm
    for p in range(0, numbers, LANES):
        y = minus(load(slopes, p), spread(level))
        y = minus(y, times(spread(tilt), minus(load(z, p), spread(mean))))
        store(out, p, times(spread(scale), y))


@kernel
def join_phases(parts, phase, at, before, out):
    """The gradient of a channel's map from those of its phases, `phase` numbers apart."""
    half = before.width // 2
    for row in range(before.height):
        target = after(out, row * before.pitch)
        source = after(parts, row % at.down * 2 * phase + row // at.down * at.pitch)
        for j in range(0, half, LANES):
            even, odd = load(source, j), load(source, phase + j)
            store(target, 2 * j, zip_first(even, odd))
            store(target, 2 * j + LANES, zip_last(even, odd))
        for p in range(before.width, before.width + _PAIR, LANES):
            store(target, p, spread(_ZERO))
