"""The two dense layers there and back over a batch, on features that stand as they do in the last block's maps."""

import numpy as np

from mobfl.tasks.beams.fused.places import FEATURE_PLACES
from mobfl.tasks.beams.layout import CLASSES, FEATURES, HIDDEN, HIDDEN_BIAS, HIDDEN_WEIGHTS, OUTPUT_BIAS, OUTPUT_WEIGHTS
from mobfl.tasks.products import multiply
from mobfl.tasks.vectors import (
    LANES,
    ONE,
    SET,
    address,
    after,
    kernel,
    load,
    plus,
    positive,
    spread,
    store,
    where_positive,
)

_ZERO = np.float32(0)
# As arguments: see `vectors.ONE`.
_PLACES, _HIDDEN, _CLASSES = np.intp(FEATURE_PLACES), np.intp(HIDDEN), np.intp(CLASSES)
_HIDDEN_BIAS, _OUTPUT_WEIGHTS, _OUTPUT_BIAS = np.intp(HIDDEN_BIAS), np.intp(OUTPUT_WEIGHTS), np.intp(OUTPUT_BIAS)


@kernel
def turn_weights(parameters, features, dense):
    """The first layer's weights as (place, unit) and as (unit, place), zero in gaps; the second's as (unit, class)."""
    for place in range(FEATURE_PLACES):
        f = features[place]
        for k in range(HIDDEN):
            weight = parameters[HIDDEN_WEIGHTS + k * FEATURES + f] if f >= 0 else _ZERO
            dense.by_place[place, k] = weight
            dense.by_unit[k, place] = weight
    for c in range(CLASSES):
        for k in range(HIDDEN):
            dense.last_by_unit[k, c] = parameters[OUTPUT_WEIGHTS + c * HIDDEN + k]


@kernel
def dense_outputs(samples, parameters, dense, outputs):
    """The outputs (sample, class) of so many samples' features, written at an address."""
    hidden, p = address(dense.hidden), address(parameters)
    size = (samples, _HIDDEN, _PLACES)
    multiply(address(dense.features), _PLACES, ONE, address(dense.by_place), hidden, size, SET)
    for n in range(0, samples * _HIDDEN, LANES):
        store(hidden, n, positive(plus(load(hidden, n), load(p, _HIDDEN_BIAS + n % _HIDDEN))))
    size = (samples, _CLASSES, _HIDDEN)
    multiply(hidden, _HIDDEN, ONE, address(dense.last_by_unit), outputs, size, SET)
    for n in range(0, samples * _CLASSES, LANES):
        store(outputs, n, plus(load(outputs, n), load(p, _OUTPUT_BIAS + n % _CLASSES)))


@kernel
def loss_slope(outputs, target, weight):
    """Turns a sample's outputs into the gradient of weight × cross-entropy with respect to them."""
    highest = outputs[0]
    for k in range(CLASSES):
        highest = max(highest, outputs[k])
    whole = mass = _ZERO
    for k in range(CLASSES):
        outputs[k] = np.exp(outputs[k] - highest)
        whole += outputs[k]
        mass += target[k]
    for k in range(CLASSES):
        outputs[k] = weight * (mass * outputs[k] / whole - target[k])


@kernel
def dense_back(samples, parameters, features, dense, gradient):
    """Writes the dense layers' gradient, given the outputs', and finds the features'."""
    d, hidden, back, to = address(dense.outputs), address(dense.hidden), address(dense.hidden_slopes), address(gradient)
    multiply(d, ONE, _CLASSES, hidden, after(to, _OUTPUT_WEIGHTS), (_CLASSES, _HIDDEN, samples), SET)
    _add_rows(d, samples, _CLASSES, after(to, _OUTPUT_BIAS))
    last = after(address(parameters), _OUTPUT_WEIGHTS)
    multiply(d, _CLASSES, ONE, last, back, (samples, _HIDDEN, _CLASSES), SET)
    for n in range(0, samples * _HIDDEN, LANES):
        store(back, n, where_positive(load(hidden, n), load(back, n)))
    _add_rows(back, samples, _HIDDEN, after(to, _HIDDEN_BIAS))
    slopes, read = address(dense.place_slopes), address(dense.features)
    multiply(read, ONE, _PLACES, back, slopes, (_PLACES, _HIDDEN, samples), SET)
    for place in range(_PLACES):
        f = features[place]
        if f >= 0:
            for k in range(_HIDDEN):
                gradient[HIDDEN_WEIGHTS + k * FEATURES + f] = dense.place_slopes[place, k]
    size = (samples, _PLACES, _HIDDEN)
    multiply(back, _HIDDEN, ONE, address(dense.by_unit), address(dense.feature_slopes), size, SET)


@kernel
def _add_rows(rows, count, width, out):
    for c in range(0, width, LANES):
        whole = spread(_ZERO)
        for n in range(count):
            whole = plus(whole, load(rows, n * width + c))
        store(out, c, whole)
