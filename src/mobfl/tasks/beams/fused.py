"""Lidar2D's forward pass, backward pass and SGD steps fused into Numba kernels: the fast way on a CPU.

PyTorch's kernels do not suit five channels. Here a feature map is one flat array per channel, its rows two numbers
apart, so that a 3×3 tap is the same array read from another offset and every inner loop runs over a whole map. What
a strided convolution reads is stored as phases (even and odd rows and columns), so its taps are contiguous as well.
Batch norm and PReLU are applied where a map is written for the next convolution. The gaps between the rows of a map
serve as its padding, and are zero wherever a gradient is summed.

All of it stands in one file, for Numba's cache notices changes of the entry's own file only.

The reference is `model.Lidar2D`, whose parameters `layout` brings into the order used here. The interpreter's lock is
released, so vehicles train in parallel threads, each with a workspace of its own.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.np.unsafe.ndarray import to_fixed_tuple
from numpy.typing import NDArray

from mobfl.tasks.beams.layout import (
    BATCH_NORM_EPS,
    BATCH_NORM_MOMENTUM,
    BLOCKS,
    CHANNELS,
    CLASSES,
    FEATURES,
    HIDDEN,
    HIDDEN_BIAS,
    HIDDEN_WEIGHTS,
    INPUT_SIZES,
    INPUTS,
    OUTPUT_BIAS,
    OUTPUT_WEIGHTS,
    SIZES,
    STARTS,
    STRIDES,
)

Floats = NDArray[np.float32]

_ZERO, _ONE = np.float32(0), np.float32(1)
_LAST = BLOCKS - 1
_PRODUCTS = 9 * CHANNELS
# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning, for they must be noticed.
_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
}
# Two entries are compiled as a whole. Were their parts called, the linker would take a part's code from whichever
# entry came first, compiled or from the cache, and the last bits would depend on that.
_entry = njit(cache=True, **_OPTIONS)
_kernel = njit(forceinline=True, **_OPTIONS)


class Workspace(NamedTuple):
    """What one thread needs for batches of one size. Paddings and gaps are zero at first and stay zero."""

    maps: tuple[Floats, ...]  # per block (sample, channel, place): the convolution's output, before batch norm
    map_slopes: tuple[Floats, ...]  # of the same shape: the loss's gradient with respect to batch norm's output
    phases: tuple[Floats, ...]  # per block (channel, phase, place): one sample's input of the convolution
    padded: tuple[Floats, ...]  # per block (channel, place): gradient of its output, at its input's resolution
    packed: Floats  # (channel, place): the same at the output's resolution, where a stride makes them differ
    back: Floats  # (channel, place): gradient with respect to a convolution's input
    features: Floats
    feature_slopes: Floats
    hidden: Floats
    outputs: Floats


class Norms(NamedTuple):
    """Batch norm and PReLU of all blocks, (block, channel) each: u = scale·(z − mean) + shift, times leak if u < 0."""

    mean: Floats
    inverse_sd: Floats
    scale: Floats
    shift: Floats
    leak: Floats


def workspace(batch_size: int, stacked: int = 1) -> Workspace:
    """For batches of this size, or for predictions with maps of so many samples stacked one below the other."""

    def buffer(*shape: int) -> Floats:
        return np.zeros(shape, np.float32)

    def rows(height: int) -> int:
        return height if stacked == 1 else stacked * (height + 2)

    def padded(size: tuple[int, int]) -> int:
        return (rows(size[0]) + 2) * (size[1] + 2) + 2

    def maps() -> tuple[Floats, ...]:
        return tuple(buffer(batch_size, CHANNELS, rows(h) * (w + 2)) for h, w in SIZES)

    longest = max(rows(h) * (w + 2) for h, w in SIZES)
    phases = [down * across for down, across in STRIDES]
    return Workspace(
        maps(),
        maps() if stacked == 1 else (),
        tuple(buffer(CHANNELS, count, padded(size)) for size, count in zip(SIZES, phases, strict=True)),
        tuple(buffer(CHANNELS, padded(size)) for size in INPUT_SIZES) if stacked == 1 else (),
        buffer(CHANNELS, longest),
        buffer(CHANNELS, longest),
        *(buffer(width) for width in (FEATURES, FEATURES, HIDDEN, CLASSES)),
    )


@_entry
def local_sgd(parameters, running, grids, targets, batches, rates, correction, loss_weight, work, gradient):
    """Takes one SGD step (Eq. 1) per row of `batches`, which names samples; changes parameters and running moments.

    `rates` are the learning rate, the momentum and the strength of the pull towards the parameters at the start; the
    correction, if it is not empty, is added to every gradient. `running` is batch norm's (2, block, channel) running
    means and variances. The loss is `loss_weight` times the mean cross-entropy; `gradient` ends as the last step's.
    """
    learning_rate, momentum, proximal = rates
    velocity = np.zeros_like(parameters)
    start = parameters.copy()
    for batch in batches:
        gradient[:] = _ZERO
        norms = _forward(grids, batch, parameters, running, work)
        sums = _head(targets, batch, parameters, norms, loss_weight, work, gradient)
        for block in range(_LAST, -1, -1):
            _backward(block, grids, batch, parameters, norms, sums, work, gradient)
        if proximal != _ZERO:
            for i in range(len(parameters)):
                gradient[i] += proximal * (parameters[i] - start[i])
        if len(correction):
            for i in range(len(parameters)):
                gradient[i] += correction[i]
        for i in range(len(parameters)):
            velocity[i] = momentum * velocity[i] + gradient[i]
            parameters[i] -= learning_rate * velocity[i]


@_entry
def predict(parameters, running, grids, work, outputs):
    """Fills the outputs (sample, class), batch norm using the running moments."""
    norms = _norms(parameters)
    for block in range(BLOCKS):
        _set_norms(norms, block, running[0, block], running[1, block], _norm_weights(parameters, block))
    # A call costs as much as a small map's convolution: some samples are stacked and share the calls.
    stacked = work.maps[0].shape[2] // _stride_of(SIZES[0])
    for first in range(0, len(grids), stacked):
        some = grids[first : first + stacked]
        for block in range(BLOCKS):
            weights, bias = _convolution(parameters, block)
            height, width = SIZES[block]
            for n in range(len(some)):
                _write_input(block, some[n], work, 0, n, norms)
            tall = (stacked * (height + 2), width)
            _convolve(work.phases[block], weights, bias, STRIDES[block], tall, work.maps[block][0])
        for n in range(len(some)):
            _flatten(work.maps[_LAST][0], n * _stride_of(SIZES[_LAST]), norms, work.features)
            _dense(work.features, parameters, work.hidden, outputs[first + n])


# Parameters -----------------------------------------------------------------------------------------------------------


@_kernel
def _convolution(parameters, block):
    """A block's weights as (input, output, tap), and its bias."""
    start, inputs = STARTS[block], INPUTS[block]
    end = start + CHANNELS * inputs * 9
    weights = parameters[start:end].reshape((CHANNELS, inputs, 9)).transpose((1, 0, 2)).copy()
    return weights, parameters[end : end + CHANNELS]


@_kernel
def _norm_weights(parameters, block):
    """A block's batch norm weight and bias and its PReLU's leak, (3, channel)."""
    end = STARTS[block + 1]
    return parameters[end - 3 * CHANNELS : end].reshape((3, CHANNELS))


@_kernel
def _dense_weights(parameters):
    hidden = parameters[HIDDEN_WEIGHTS:HIDDEN_BIAS].reshape((HIDDEN, FEATURES))
    return hidden, parameters[OUTPUT_WEIGHTS:OUTPUT_BIAS].reshape((CLASSES, HIDDEN))


@_kernel
def _norms(parameters):
    leak = np.empty((BLOCKS, CHANNELS), np.float32)
    for block in range(BLOCKS):
        leak[block] = _norm_weights(parameters, block)[2]
    empty = np.zeros((4, BLOCKS, CHANNELS), np.float32)
    return Norms(empty[0], empty[1], empty[2], empty[3], leak)


@_kernel
def _set_norms(norms, block, means, variances, weights):
    for c in range(CHANNELS):
        norms.mean[block, c] = means[c]
        norms.inverse_sd[block, c] = 1.0 / np.sqrt(variances[c] + BATCH_NORM_EPS)
        norms.scale[block, c] = weights[0, c] * norms.inverse_sd[block, c]
        norms.shift[block, c] = weights[1, c]


# Convolutions ---------------------------------------------------------------------------------------------------------


@_kernel
def _tap(phases, t, stride, pitch, n):
    """What tap t = 3·row + column of a convolution reads."""
    row, column = t // 3, t % 3
    start = row // stride[0] * pitch + column // stride[1]
    return phases[row % stride[0] * stride[1] + column % stride[1], start : start + n]


@_kernel
def _taps(phases, stride, pitch, n):
    return (
        _tap(phases, 0, stride, pitch, n),
        _tap(phases, 1, stride, pitch, n),
        _tap(phases, 2, stride, pitch, n),
        _tap(phases, 3, stride, pitch, n),
        _tap(phases, 4, stride, pitch, n),
        _tap(phases, 5, stride, pitch, n),
        _tap(phases, 6, stride, pitch, n),
        _tap(phases, 7, stride, pitch, n),
        _tap(phases, 8, stride, pitch, n),
    )


@_kernel
def _rows(maps, start, n):
    """The channels' maps one by one: a slice of the array as a whole would not be known to be contiguous."""
    end = start + n
    return maps[0, start:end], maps[1, start:end], maps[2, start:end], maps[3, start:end], maps[4, start:end]


@_kernel
def _add_taps(out, x, weights):
    """Adds nine maps to five, weighted by the taps of each: 45 products of numbers that stay in registers."""
    o0, o1, o2, o3, o4 = out
    x0, x1, x2, x3, x4, x5, x6, x7, x8 = x
    v, w, y, z, t = weights[0:9], weights[9:18], weights[18:27], weights[27:36], weights[36:45]
    for p in range(len(o0)):
        a, b, c, d, e, f, g, h, i = x0[p], x1[p], x2[p], x3[p], x4[p], x5[p], x6[p], x7[p], x8[p]
        o0[p] += v[0] * a + v[1] * b + v[2] * c + v[3] * d + v[4] * e + v[5] * f + v[6] * g + v[7] * h + v[8] * i
        o1[p] += w[0] * a + w[1] * b + w[2] * c + w[3] * d + w[4] * e + w[5] * f + w[6] * g + w[7] * h + w[8] * i
        o2[p] += y[0] * a + y[1] * b + y[2] * c + y[3] * d + y[4] * e + y[5] * f + y[6] * g + y[7] * h + y[8] * i
        o3[p] += z[0] * a + z[1] * b + z[2] * c + z[3] * d + z[4] * e + z[5] * f + z[6] * g + z[7] * h + z[8] * i
        o4[p] += t[0] * a + t[1] * b + t[2] * c + t[3] * d + t[4] * e + t[5] * f + t[6] * g + t[7] * h + t[8] * i


@_kernel
def _convolve(phases, weights, bias, stride, size, out):
    """The convolution over all input channels, of which there are as many as `weights`."""
    pitch, n = size[1] + 2, size[0] * (size[1] + 2)
    for q in range(CHANNELS):
        out[q, :n] = bias[q]
    for c in range(len(weights)):
        products = to_fixed_tuple(weights[c].reshape(_PRODUCTS), _PRODUCTS)  # type: ignore[call-arg, var-annotated]
        _add_taps(_rows(out, 0, n), _taps(phases[c], stride, pitch, n), products)


@_kernel
def _clear_gaps(maps, size):
    height, width = size
    for c in range(CHANNELS):
        for gap in range(width, height * (width + 2), width + 2):
            maps[c][gap] = maps[c][gap + 1] = _ZERO


@_kernel
def _add_products(x0, x1, x2, d, sums):
    """Adds to sums (output, tap) the products of three taps' maps with the five outputs' gradients."""
    d0, d1, d2, d3, d4 = d
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = e0 = e1 = e2 = f0 = f1 = f2 = _ZERO
    for p in range(len(x0)):
        x, y, z = x0[p], x1[p], x2[p]
        a, b, c, e, f = d0[p], d1[p], d2[p], d3[p], d4[p]
        a0, a1, a2 = a0 + a * x, a1 + a * y, a2 + a * z
        b0, b1, b2 = b0 + b * x, b1 + b * y, b2 + b * z
        c0, c1, c2 = c0 + c * x, c1 + c * y, c2 + c * z
        e0, e1, e2 = e0 + e * x, e1 + e * y, e2 + e * z
        f0, f1, f2 = f0 + f * x, f1 + f * y, f2 + f * z
    found = (a0, a1, a2, b0, b1, b2, c0, c1, c2, e0, e1, e2, f0, f1, f2)
    for i in range(15):
        sums[i // 3, i % 3] += found[i]


@_kernel
def _add_weight_slopes(phases, d, stride, pitch, slopes):
    """Adds one sample's gradient of the weights, (input, output, tap), given the output's."""
    for c in range(len(slopes)):
        x = _taps(phases[c], stride, pitch, len(d[0]))
        _add_products(x[0], x[1], x[2], d, slopes[c, :, 0:3])
        _add_products(x[3], x[4], x[5], d, slopes[c, :, 3:6])
        _add_products(x[6], x[7], x[8], d, slopes[c, :, 6:9])


@_kernel
def _pad(d, size, stride, padded):
    """Writes a strided convolution's output gradient at its input's resolution, zeros between."""
    height, width = size
    pitch = width * stride[1] + 2
    for c in range(CHANNELS):
        for row in range(height):
            target, source = padded[c, (row * stride[0] + 1) * pitch + 1 :], d[c][row * (width + 2) :]
            for j in range(width):
                target[j * stride[1]] = source[j]


@_kernel
def _one_phase(maps):
    return maps.reshape((CHANNELS, 1, maps.shape[1]))


@_kernel
def _turned(weights):
    """The weights that carry a gradient back: outputs become inputs, and the taps are read from the other end."""
    turned = np.empty((CHANNELS, CHANNELS, 9), np.float32)
    for c in range(len(weights)):
        turned[:, c] = weights[c, :, ::-1]
    return turned


# Forwards -------------------------------------------------------------------------------------------------------------


@_kernel
def _forward(grids, batch, parameters, running, work):
    """All blocks over a batch, with the batch's own moments, which also move the running ones."""
    norms = _norms(parameters)
    for block in range(BLOCKS):
        weights, bias = _convolution(parameters, block)
        sums = np.zeros((2, CHANNELS))
        # Most of a map is empty street: moments about one such place lose no digits.
        origin = np.empty(CHANNELS, np.float32)
        for n in range(len(batch)):
            z = work.maps[block][n]
            _write_input(block, grids[batch[n]], work, n, 0, norms)
            _convolve(work.phases[block], weights, bias, STRIDES[block], SIZES[block], z)
            if n == 0:
                origin[:] = z[:, SIZES[block][1] // 2]
            _add_moments(z, SIZES[block], origin, sums)
        count = len(batch) * SIZES[block][0] * SIZES[block][1]
        means = origin + sums[0] / count
        variances = np.maximum(sums[1] / count - (sums[0] / count) ** 2, 0.0)
        _set_norms(norms, block, means, variances, _norm_weights(parameters, block))
        for c in range(CHANNELS):
            running[0, block, c] += BATCH_NORM_MOMENTUM * (means[c] - running[0, block, c])
            running[1, block, c] += BATCH_NORM_MOMENTUM * (variances[c] * count / (count - 1) - running[1, block, c])
    return norms


@_kernel
def _stride_of(size):
    """How far stacked maps of this size are apart: their rows and two of padding."""
    return (size[0] + 2) * (size[1] + 2)


@_kernel
def _write_input(block, grid, work, n, level, norms):
    """Sample n's input of a block where its convolution reads it: the grid, or the block before, activated.

    `level` counts the samples stacked above it.
    """
    at = level * _stride_of(SIZES[block])
    if block == 0:
        _write_grid(grid, work.phases[0][0, 0, at:])
        return
    z, before = work.maps[block - 1][n], block - 1
    source = level * _stride_of(SIZES[before])
    for c in range(CHANNELS):
        norm = _norm_of(norms, before, c)
        if STRIDES[block][1] == 1:
            _activate(z[c, source:], norm, SIZES[before], work.phases[block][c, 0, at:])
        else:
            _activate_in_phases(z[c, source:], norm, SIZES[before], STRIDES[block], work.phases[block][c], at)


@_kernel
def _write_grid(grid, out):
    height, width = grid.shape
    for row in range(height):
        target, source = out[(row + 1) * (width + 2) + 1 :], grid[row]
        for j in range(width):
            target[j] = source[j]


@_kernel
def _activate(z, norm, size, out):
    scale, shift, leak, mean = norm
    height, width = size
    pitch = width + 2
    target = out[pitch + 1 : pitch + 1 + height * pitch]
    for p in range(len(target)):
        u = scale * (z[p] - mean) + shift
        target[p] = u + (leak - _ONE) * min(u, _ZERO)
    for gap in range(width, len(target), pitch):
        target[gap] = target[gap + 1] = _ZERO


@_kernel
def _activate_in_phases(z, norm, size, stride, out, at):
    """For a convolution that takes every second column, and every row or every second."""
    scale, shift, leak, mean = norm
    height, width = size
    pitch = width // 2 + 2
    for row in range(height):
        source = z[row * (width + 2) :]
        phase, start = (row + 1) % stride[0] * 2, at + (row + 1) // stride[0] * pitch
        # With the padding's column counted, the first column is odd.
        odd, even = out[phase + 1, start:], out[phase, start + 1 :]
        for j in range(width // 2):
            u, v = scale * (source[2 * j] - mean) + shift, scale * (source[2 * j + 1] - mean) + shift
            odd[j] = u + (leak - _ONE) * min(u, _ZERO)
            even[j] = v + (leak - _ONE) * min(v, _ZERO)


@_kernel
def _add_moments(z, size, origin, sums):
    height, width = size
    for c in range(CHANNELS):
        for row in range(height):
            total = square = _ZERO
            values = z[c, row * (width + 2) :]
            for j in range(width):
                value = values[j] - origin[c]
                total += value
                square += value * value
            sums[0, c] += total
            sums[1, c] += square


@_kernel
def _flatten(z, at, norms, features):
    """The last block's activated maps without the gaps."""
    height, width = SIZES[_LAST]
    f = 0
    for c in range(CHANNELS):
        scale, shift, leak, mean = _norm_of(norms, _LAST, c)
        for row in range(height):
            for j in range(width):
                u = scale * (z[c, at + row * (width + 2) + j] - mean) + shift
                features[f] = u + (leak - _ONE) * min(u, _ZERO)
                f += 1


@_kernel
def _dense(features, parameters, hidden, outputs):
    first, last = _dense_weights(parameters)
    for k in range(HIDDEN):
        total = parameters[HIDDEN_BIAS + k]
        for f in range(FEATURES):
            total += first[k, f] * features[f]
        hidden[k] = _ZERO if total <= _ZERO else total
    for k in range(CLASSES):
        total = parameters[OUTPUT_BIAS + k]
        for f in range(HIDDEN):
            total += last[k, f] * hidden[f]
        outputs[k] = total


# Backwards ------------------------------------------------------------------------------------------------------------


@_kernel
def _head(targets, batch, parameters, norms, loss_weight, work, gradient):
    """The dense layers there and back over a batch; returns the sums of the last activation's gradient."""
    sums = np.zeros((CHANNELS, 3))
    height, width = SIZES[_LAST]
    for n in range(len(batch)):
        z, out = work.maps[_LAST][n], work.map_slopes[_LAST][n]
        _flatten(z, 0, norms, work.features)
        _dense(work.features, parameters, work.hidden, work.outputs)
        _loss_slope(work.outputs, targets[batch[n]], loss_weight / np.float32(len(batch)))
        _dense_slopes(work, parameters, gradient)
        for c in range(CHANNELS):
            for row in range(height):
                f, p = (c * height + row) * width, row * (width + 2)
                d = work.feature_slopes[f : f + width]
                _through_activation(d, z[c, p : p + width], _norm_of(norms, _LAST, c), out[c, p : p + width], sums[c])
    return sums


@_kernel
def _loss_slope(outputs, target, weight):
    """Turns the outputs into the gradient of weight × cross-entropy with respect to them."""
    highest = outputs[0]
    for k in range(CLASSES):
        highest = max(highest, outputs[k])
    total = mass = _ZERO
    for k in range(CLASSES):
        outputs[k] = np.exp(outputs[k] - highest)
        total += outputs[k]
        mass += target[k]
    for k in range(CLASSES):
        outputs[k] = weight * (mass * outputs[k] / total - target[k])


@_kernel
def _dense_slopes(work, parameters, gradient):
    """Adds one sample's gradient of the dense layers, given the outputs', and finds the features'."""
    (first, last), (first_slopes, last_slopes) = _dense_weights(parameters), _dense_weights(gradient)
    features, hidden, d, back = work.features, work.hidden, work.outputs, work.feature_slopes
    hidden_slopes = np.zeros(HIDDEN, np.float32)
    for k in range(CLASSES):
        gradient[OUTPUT_BIAS + k] += d[k]
        for f in range(HIDDEN):
            last_slopes[k, f] += d[k] * hidden[f]
            hidden_slopes[f] += d[k] * last[k, f]
    back[:] = _ZERO
    for k in range(HIDDEN):
        slope = hidden_slopes[k]
        if hidden[k] != _ZERO:
            gradient[HIDDEN_BIAS + k] += slope
            for f in range(FEATURES):
                first_slopes[k, f] += slope * features[f]
                back[f] += slope * first[k, f]


@_kernel
def _norm_of(norms, block, c):
    return norms.scale[block, c], norms.shift[block, c], norms.leak[block, c], norms.mean[block, c]


@_kernel
def _through_activation(d, z, norm, out, sums):
    """The gradient through PReLU; adds up what batch norm's weight and bias and the leak take from it."""
    scale, shift, leak, mean = norm
    deviation = total = negative = _ZERO
    for p in range(len(d)):
        u = scale * (z[p] - mean) + shift
        below = d[p] if u < _ZERO else _ZERO
        y = d[p] + (leak - _ONE) * below
        out[p] = y
        deviation += y * (z[p] - mean)
        total += y
        negative += below * u
    sums[0] += deviation
    sums[1] += total
    sums[2] += negative


@_kernel
def _backward(block, grids, batch, parameters, norms, sums, work, gradient):
    """One block's gradient over a batch; `sums` come from the activation above and become the one's below."""
    size, stride, before = SIZES[block], STRIDES[block], max(block - 1, 0)
    in_size, pitch = INPUT_SIZES[block], size[1] + 2
    length, in_length = size[0] * pitch, in_size[0] * (in_size[1] + 2)
    plain = stride[1] == 1
    count = len(batch) * size[0] * size[1]
    tilt = (sums[:, 0] * norms.inverse_sd[block] ** 2 / count).astype(np.float32)
    level = (sums[:, 1] / count).astype(np.float32)
    _write_norm_slopes(block, sums, norms, gradient)
    sums[:] = 0.0
    weights, _ = _convolution(parameters, block)
    turned, no_bias, slopes = _turned(weights), np.zeros(CHANNELS, np.float32), np.zeros_like(weights)
    for n in range(len(batch)):
        # Without a stride the padded gradient holds the packed one: it is written once.
        d = _rows(work.padded[block], pitch + 1, length) if plain else _rows(work.packed, 0, length)
        for c in range(CHANNELS):
            norm = (norms.scale[block, c], level[c], tilt[c], norms.mean[block, c])
            _through_norm(work.map_slopes[block][n, c], work.maps[block][n, c], norm, d[c])
        _clear_gaps(d, size)
        _write_input(block, grids[batch[n]], work, n, 0, norms)
        _add_weight_slopes(work.phases[block], d, stride, pitch, slopes)
        if block == 0:
            continue
        if not plain:
            _pad(d, size, stride, work.padded[block])
        _convolve(_one_phase(work.padded[block]), turned, no_bias, (1, 1), in_size, work.back)
        _clear_gaps(_rows(work.back, 0, in_length), in_size)
        for c in range(CHANNELS):
            z, out = work.maps[before][n, c], work.map_slopes[before][n, c]
            _through_activation(work.back[c, :in_length], z, _norm_of(norms, before, c), out, sums[c])
    _write_weight_slopes(block, slopes, gradient)


@_kernel
def _through_norm(y, z, norm, out):
    """The gradient through batch norm: less its mean, and less its part along the deviation."""
    scale, level, tilt, mean = norm
    for p in range(len(out)):
        out[p] = scale * (y[p] - level - tilt * (z[p] - mean))


@_kernel
def _write_norm_slopes(block, sums, norms, gradient):
    slopes = _norm_weights(gradient, block)
    for c in range(CHANNELS):
        slopes[0, c] = sums[c, 0] * norms.inverse_sd[block, c]
        slopes[1, c] = sums[c, 1]
        slopes[2, c] = sums[c, 2]


@_kernel
def _write_weight_slopes(block, slopes, gradient):
    """Back into the parameters' order. The bias has no gradient: batch norm takes every constant away."""
    start, inputs = STARTS[block], len(slopes)
    target = gradient[start : start + CHANNELS * inputs * 9].reshape((CHANNELS, inputs, 9))
    for c in range(inputs):
        target[:, c] = slopes[c]
