"""Lidar2D's SGD steps and predictions: the two kernels that Python calls."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.beams.fused import places
from mobfl.tasks.beams.fused.convolutions import add_weight_slopes, convolve, gather, write_weight_slopes
from mobfl.tasks.beams.fused.dense import dense_back, dense_outputs, loss_slope, turn_weights
from mobfl.tasks.beams.fused.maps import (
    activate,
    activate_back,
    activate_in_phases,
    add_moments,
    fill_gaps,
    join_phases,
    normalise_back,
    write_grid,
)
from mobfl.tasks.beams.fused.places import FEATURE_PLACES, MOST_TAPS, SPAN, place_of
from mobfl.tasks.beams.layout import (
    BATCH_NORM_EPS,
    BATCH_NORM_MOMENTUM,
    BLOCKS,
    CHANNELS,
    CLASSES,
    GRID_SIZE,
    HIDDEN,
    PARAMETERS,
    STARTS,
)
from mobfl.tasks.vectors import LANES, address, after, entry, kernel, spread, store

Floats = NDArray[np.float32]

_ZERO = np.float32(0)
# As arguments: see `vectors.ONE`.
_LAST, _FIRST_SAMPLE = np.intp(BLOCKS - 1), np.intp(0)
_CELLS = GRID_SIZE[0] * GRID_SIZE[1]
_SLOT = CHANNELS * SPAN
_STARTS = np.array(STARTS)


class Dense(NamedTuple):
    """What the dense layers need for the samples of a batch."""

    features: Floats  # (sample, place)
    feature_slopes: Floats
    hidden: Floats
    hidden_slopes: Floats
    outputs: Floats
    by_place: Floats  # weights, see `turn_weights`
    by_unit: Floats
    last_by_unit: Floats
    place_slopes: Floats  # (place, unit)


class Tables(NamedTuple):
    """Where things stand."""

    places: places.Integers
    taps: places.Integers
    weights: places.Integers
    back_counts: places.Integers
    back_taps: places.Integers
    back_weights: places.Integers
    features: places.Integers


class Workspace(NamedTuple):
    """What one thread needs for batches of one size. Paddings are zero at first and stay zero."""

    tables: Tables
    maps: Floats  # per block (sample, channel, place): the convolution's output, before batch norm
    slopes: Floats  # (sample, channel, place): the loss's gradient with respect to batch norm's output
    read: Floats  # per block (channel, phase, place): one sample's padded input
    padded: Floats  # per block (channel, place): padded gradient of its output
    parts: Floats  # gradient of a convolution's input, by phases
    back: Floats  # (channel, place): the same as a map
    weights: Floats  # (block, tap · output)
    back_weights: Floats  # of one block: (phase of its input, tap · input)
    weight_slopes: Floats  # (tap, output, lane)
    norms: Floats  # (block, channel, 4): scale, shift, leak, mean
    inverse_sds: Floats  # (block, channel)
    moments: NDArray[np.float64]  # (channel, 2)
    sums: NDArray[np.float64]  # (channel, 3): what batch norm's weight and bias and the leak get
    origins: Floats  # (channel)
    levels: Floats
    tilts: Floats
    no_bias: Floats
    velocity: Floats
    start: Floats
    dense: Dense


def _buffer(*shape: int) -> Any:
    """Zeros that begin a line of the processor's cache."""
    size = int(np.prod(shape))
    room = np.zeros(size + 4 * LANES, np.float32)
    first = -room.ctypes.data // 4 % LANES
    return room[first : first + size].reshape(shape)


def workspace(samples: int, training: bool = True) -> Workspace:
    """For batches of so many samples; or for predictions, of so many at a time."""
    kept = samples if training else 1
    table = places.places(kept)
    last = places.Place(*table[-1].tolist())
    back = places.back()
    dense = Dense(
        *(_buffer(samples + 1, FEATURE_PLACES), _buffer(samples + 1, FEATURE_PLACES)),
        *(_buffer(samples, HIDDEN), _buffer(samples, HIDDEN), _buffer(samples, CLASSES)),
        *(_buffer(FEATURE_PLACES, HIDDEN), _buffer(HIDDEN, FEATURE_PLACES), _buffer(HIDDEN, CLASSES)),
        _buffer(FEATURE_PLACES, HIDDEN),
    )
    return Workspace(
        Tables(table, places.taps(), places.weights(), back.counts, back.taps, back.weights, places.features()),
        _buffer(last.maps + kept * CHANNELS * last.span + 4 * LANES),
        _buffer(kept * _SLOT if training else 0),
        _buffer(places.READ_SIZE),
        _buffer(places.PADDED_SIZE),
        _buffer(4 * _SLOT),
        _buffer(_SLOT + 4 * LANES),
        _buffer(BLOCKS, MOST_TAPS * CHANNELS),
        _buffer(4, MOST_TAPS * CHANNELS),
        _buffer(MOST_TAPS * CHANNELS * LANES),
        _buffer(BLOCKS, CHANNELS, 4),
        _buffer(BLOCKS, CHANNELS),
        np.zeros((CHANNELS, 2)),
        np.zeros((CHANNELS, 3)),
        *(_buffer(CHANNELS), _buffer(CHANNELS), _buffer(CHANNELS), _buffer(CHANNELS)),
        *(_buffer(PARAMETERS), _buffer(PARAMETERS)),
        dense,
    )


@entry
def local_sgd(parameters, running, grids, targets, batches, rates, correction, loss_weight, work, gradient):
    """Takes one SGD step (Eq. 1) per row of `batches`, which names samples; changes parameters and running moments.

    `rates` are the learning rate, the momentum and the strength of the pull towards the parameters at the start; the
    correction, if it is not empty, is added to every gradient. `running` is batch norm's (2, block, channel) running
    means and variances. The loss is `loss_weight` times the mean cross-entropy; `gradient` ends as the last step's.
    """
    for i in range(len(parameters)):
        work.velocity[i], work.start[i] = _ZERO, parameters[i]
    for batch in batches:
        _gather_weights(parameters, work)
        for block in range(BLOCKS):
            _forward(block, grids, batch, parameters, running, work)
        _head(targets, batch, parameters, loss_weight, work, gradient)
        for block in range(_LAST, -1, -1):
            _backward(block, grids, batch, parameters, work, gradient)
        _move(parameters, rates, correction, work, gradient)


@entry
def predict(parameters, running, grids, work, outputs):
    """Fills the outputs (sample, class), batch norm using the running moments."""
    _gather_weights(parameters, work)
    for block in range(BLOCKS):
        for c in range(CHANNELS):
            _set_norm(block, c, running[0, block, c], running[1, block, c], parameters, work)
    ahead = len(work.dense.hidden)
    for first in range(0, len(grids), ahead):
        some = min(ahead, len(grids) - first)
        for n in range(some):
            for block in range(BLOCKS):
                _convolve_sample(block, grids, first + n, _FIRST_SAMPLE, parameters, work)
            _write_features(_FIRST_SAMPLE, n, work)
        dense_outputs(some, parameters, work.dense, after(address(outputs), first * CLASSES))


# Forwards -------------------------------------------------------------------------------------------------------------


@kernel
def _gather_weights(parameters, work):
    for block in range(BLOCKS):
        count = place_of(work.tables.places, block).taps
        gather(parameters, work.tables.weights[block], count, work.weights[block])
    turn_weights(parameters, work.tables.features, work.dense)


@kernel
def _set_norm(block, c, mean, variance, parameters, work):
    """From a channel's moments and batch norm's weight and bias and PReLU's leak, which end a block's parameters."""
    own = _STARTS[block + 1] - 3 * CHANNELS + c
    inverse_sd = np.float32(1.0 / np.sqrt(variance + BATCH_NORM_EPS))
    work.inverse_sds[block, c] = inverse_sd
    work.norms[block, c, 0] = parameters[own] * inverse_sd
    work.norms[block, c, 1] = parameters[own + CHANNELS]
    work.norms[block, c, 2] = parameters[own + 2 * CHANNELS]
    work.norms[block, c, 3] = mean


@kernel
def _norm_of(work, block, c):
    norms = work.norms
    return norms[block, c, 0], norms[block, c, 1], norms[block, c, 2], norms[block, c, 3]


@kernel
def _map_of(work, at, n):
    """Where sample n's maps of a block stand."""
    return after(address(work.maps), at.maps + n * CHANNELS * at.span)


@kernel
def _read_input(block, grids, sample, n, work):
    """A sample's input of a block where its convolution reads it: the grid, or the block before, activated."""
    at = place_of(work.tables.places, block)
    to = after(address(work.read), at.read)
    if block == 0:
        write_grid(address(grids) + sample * _CELLS, at, to)
        return
    before = place_of(work.tables.places, block - 1)
    z = _map_of(work, before, n)
    for c in range(CHANNELS):
        norm, source, target = _norm_of(work, block - 1, c), after(z, c * before.span), after(to, c * at.read_channel)
        if at.across == 1:
            inside = after(target, at.pitch + 1)
            activate(source, at.span, norm, inside)
            fill_gaps(inside, at, _ZERO)
        else:
            activate_in_phases(source, before, norm, at, target)


@kernel
def _convolve_sample(block, grids, sample, n, parameters, work):
    """A block's maps of one sample."""
    at = place_of(work.tables.places, block)
    _read_input(block, grids, sample, n, work)
    biases = after(address(parameters), _STARTS[block] + at.taps * CHANNELS)
    read, taps = after(address(work.read), at.read), address(work.tables.taps[block])
    convolve(read, taps, at.taps, address(work.weights[block]), biases, _map_of(work, at, n), at.span)


@kernel
def _forward(block, grids, batch, parameters, running, work):
    """A block over a batch, with the batch's own moments, which also move the running ones."""
    at, moments = place_of(work.tables.places, block), work.moments
    for n in range(len(batch)):
        _convolve_sample(block, grids, batch[n], n, parameters, work)
        z = _map_of(work, at, n)
        for c in range(CHANNELS):
            # Most of a map is empty street: moments about one such place lose no digits.
            if n == 0:
                moments[c, 0], moments[c, 1] = 0.0, 0.0
                work.origins[c] = work.maps[at.maps + c * at.span + at.width // 2]
            add_moments(after(z, c * at.span), at, work.origins[c], moments[c])
    count = len(batch) * at.height * at.width
    for c in range(CHANNELS):
        off = moments[c, 0] / count
        mean, variance = work.origins[c] + off, moments[c, 1] / count - off * off
        if variance < 0.0:  # by rounding
            variance = 0.0
        _set_norm(block, c, np.float32(mean), np.float32(variance), parameters, work)
        running[0, block, c] += BATCH_NORM_MOMENTUM * (mean - running[0, block, c])
        running[1, block, c] += BATCH_NORM_MOMENTUM * (variance * count / (count - 1) - running[1, block, c])


@kernel
def _write_features(n, row, work):
    """The last block's maps of sample n, activated, as a row of features. What stands in gaps has no weight."""
    at = place_of(work.tables.places, _LAST)
    z, to = _map_of(work, at, n), after(address(work.dense.features), row * FEATURE_PLACES)
    for c in range(CHANNELS):
        activate(after(z, c * at.span), at.span, _norm_of(work, _LAST, c), after(to, c * at.span))


# Backwards ------------------------------------------------------------------------------------------------------------


@kernel
def _head(targets, batch, parameters, loss_weight, work, gradient):
    """The dense layers there and back over a batch, and back through the last activation."""
    samples, dense, at = len(batch), work.dense, place_of(work.tables.places, _LAST)
    for n in range(samples):
        _write_features(n, n, work)
    dense_outputs(samples, parameters, dense, address(dense.outputs))
    for n in range(samples):
        loss_slope(dense.outputs[n], targets[batch[n]], loss_weight / np.float32(samples))
    dense_back(samples, parameters, work.tables.features, dense, gradient)
    for c in range(CHANNELS):
        work.sums[c, 0] = work.sums[c, 1] = work.sums[c, 2] = 0.0
    for n in range(samples):
        slopes, z = after(address(dense.feature_slopes), n * FEATURE_PLACES), _map_of(work, at, n)
        _through_activation(_LAST, at, slopes, z, n, work)


@kernel
def _through_activation(block, at, slopes, z, n, work):
    """The gradient of a sample's maps before PReLU, given the one after it."""
    out = after(address(work.slopes), n * _SLOT)
    for c in range(CHANNELS):
        place, norm = c * at.span, _norm_of(work, block, c)
        activate_back(after(slopes, place), after(z, place), at.span, norm, after(out, place), work.sums[c])


@kernel
def _backward(block, grids, batch, parameters, work, gradient):
    """A block's gradient over a batch; `sums` come from the activation above and become the one's below."""
    tables, at = work.tables, place_of(work.tables.places, block)
    count = np.float64(len(batch) * at.height * at.width)
    own = _STARTS[block + 1] - 3 * CHANNELS
    for c in range(CHANNELS):
        sums, inverse_sd = work.sums[c], work.inverse_sds[block, c]
        work.levels[c] = sums[1] / count
        work.tilts[c] = sums[0] * inverse_sd * inverse_sd / count
        gradient[own + c] = sums[0] * inverse_sd
        gradient[own + CHANNELS + c], gradient[own + 2 * CHANNELS + c] = sums[1], sums[2]
        gradient[own - CHANNELS + c] = _ZERO  # the bias: batch norm takes every constant away
        sums[0] = sums[1] = sums[2] = 0.0
    if block > 0:
        for phase in range(at.down * at.across):
            where = tables.back_weights[block, phase]
            gather(parameters, where, tables.back_counts[block, phase], work.back_weights[phase])
    lanes = address(work.weight_slopes)
    for p in range(0, work.weight_slopes.size, LANES):
        store(lanes, p, spread(_ZERO))
    read, taps, d = after(address(work.read), at.read), address(tables.taps[block]), address(work.padded)
    for n in range(len(batch)):
        _through_norm(block, at, n, work)
        _read_input(block, grids, batch[n], n, work)
        add_weight_slopes(read, taps, at.taps, after(d, at.slope), at.slope_channel, at.span, lanes)
        if block > 0:
            _carry_back(block, at, n, work)
    write_weight_slopes(lanes, at.taps, tables.weights[block], gradient)


@kernel
def _through_norm(block, at, n, work):
    """A sample's gradient of a convolution's output, padded."""
    z, slopes = _map_of(work, at, n), after(address(work.slopes), n * _SLOT)
    for c in range(CHANNELS):
        norm = (work.norms[block, c, 0], work.levels[c], work.tilts[c], work.norms[block, c, 3])
        out = after(address(work.padded), at.slope + c * at.slope_channel)
        normalise_back(after(slopes, c * at.span), after(z, c * at.span), at.span, norm, out)
        fill_gaps(out, at, _ZERO)


@kernel
def _carry_back(block, at, n, work):
    """A sample's gradient of the block before, up to its batch norm."""
    tables, before = work.tables, place_of(work.tables.places, block - 1)
    d, phases, out = after(address(work.padded), at.slope), at.down * at.across, address(work.back)
    to = out if phases == 1 else address(work.parts)
    for phase in range(phases):
        taps, weights = address(tables.back_taps[block, phase]), address(work.back_weights[phase])
        into = after(to, phase * CHANNELS * at.span)
        count = tables.back_counts[block, phase]
        convolve(d, taps, count, weights, address(work.no_bias), into, at.span)
    for c in range(CHANNELS):
        target = after(out, c * before.span)
        if phases > 1:
            join_phases(after(to, c * at.span), CHANNELS * at.span, at, before, target)
        else:
            fill_gaps(target, before, _ZERO)
    _through_activation(block - 1, before, out, _map_of(work, before, n), n, work)


@kernel
def _move(parameters, rates, correction, work, gradient):
    """One step of SGD."""
    learning_rate, momentum, proximal = rates
    velocity, start = work.velocity, work.start
    if proximal != _ZERO:
        for i in range(len(parameters)):
            gradient[i] += proximal * (parameters[i] - start[i])
    if len(correction):
        for i in range(len(parameters)):
            gradient[i] += correction[i]
    for i in range(len(parameters)):
        velocity[i] = momentum * velocity[i] + gradient[i]
        parameters[i] -= learning_rate * velocity[i]
