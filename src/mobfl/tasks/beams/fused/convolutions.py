"""Convolutions of five channels' maps and their gradients, with all sums in registers."""

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mobfl.tasks.beams.fused.places import TAPS_AT_ONCE
from mobfl.tasks.beams.layout import CHANNELS
from mobfl.tasks.vectors import (
    ALIGN,
    FLOAT,
    LANES,
    LLVM_VECTOR,
    after,
    kernel,
    load,
    multiply_add,
    offset,
    pointer,
    spread_out,
    total,
)

_WIDE = llvm.get_host_cpu_features().get("avx512f", False)  # a vector is one register of 32, else two of 16
_VECTORS = 4 if _WIDE else 1  # of a map that are found at once
_GROUP = TAPS_AT_ONCE if _WIDE else 1
_CHUNK = 64  # vectors of each map whose products are summed together: they stay in the nearest cache
_ZERO = np.float32(0)


def _outputs(vectors: int) -> Any:
    """An intrinsic for some vectors of a convolution's five outputs."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        x, taps, count, weights, biases, out, span = given
        builder.function.attributes.add("noinline")  # one copy is enough
        tile = [(q, v) for q in range(CHANNELS) for v in range(vectors)]
        sums = {each: cgutils.alloca_once(builder, LLVM_VECTOR) for each in tile}  # type: ignore[no-untyped-call]
        for q in range(CHANNELS):
            bias = spread_out(builder, builder.load(pointer(builder, biases, x.type(q), FLOAT)))
            for v in range(vectors):
                builder.store(bias, sums[q, v])
        with cgutils.for_range(builder, count) as loop:
            place, row = offset(builder, taps, loop.index), builder.mul(loop.index, x.type(CHANNELS))
            read = [_load(builder, x, builder.add(place, x.type(v * LANES))) for v in range(vectors)]
            for q in range(CHANNELS):
                at = pointer(builder, weights, builder.add(row, x.type(q)), FLOAT)
                weight = spread_out(builder, builder.load(at))
                for v in range(vectors):
                    slot = sums[q, v]
                    builder.store(multiply_add(builder, weight, read[v], builder.load(slot)), slot)
        for q, v in tile:
            at = builder.add(builder.mul(span, x.type(q)), x.type(v * LANES))
            builder.store(builder.load(sums[q, v]), pointer(builder, out, at), align=ALIGN)
        return context.get_dummy_value()

    def tile(typing: Any, x: Any, taps: Any, count: Any, weights: Any, biases: Any, out: Any, span: Any) -> Any:
        return types.none(*[types.intp] * 7), code

    return intrinsic(tile)


def _products(group: int) -> Any:
    """An intrinsic that adds to vectors (tap, output) the products of some taps with the five outputs' gradients."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        x, taps, slopes, channel, sums, vectors = given
        builder.function.attributes.add("noinline")
        tile = [(t, q) for t in range(group) for q in range(CHANNELS)]
        found = {each: cgutils.alloca_once(builder, LLVM_VECTOR) for each in tile}  # type: ignore[no-untyped-call]
        for each in tile:
            builder.store(ir.Constant(LLVM_VECTOR, [0.0] * LANES), found[each])
        starts = [pointer(builder, x, offset(builder, taps, x.type(t)), FLOAT) for t in range(group)]
        ends = [pointer(builder, slopes, builder.mul(channel, x.type(q)), FLOAT) for q in range(CHANNELS)]
        with cgutils.for_range(builder, vectors) as loop:
            place = builder.mul(loop.index, x.type(LANES))
            d = [_vector_of(builder, end, place) for end in ends]
            for t in range(group):
                value = _vector_of(builder, starts[t], place)
                for q in range(CHANNELS):
                    slot = found[t, q]
                    builder.store(multiply_add(builder, value, d[q], builder.load(slot)), slot)
        for number, each in enumerate(tile):
            at = pointer(builder, sums, x.type(number * LANES))
            builder.store(builder.fadd(builder.load(at, align=ALIGN), builder.load(found[each])), at, align=ALIGN)
        return context.get_dummy_value()

    def tile(typing: Any, x: Any, taps: Any, slopes: Any, channel: Any, sums: Any, vectors: Any) -> Any:
        return types.none(*[types.intp] * 6), code

    return intrinsic(tile)


def _load(builder: Any, address: Any, at: Any) -> Any:
    return builder.load(pointer(builder, address, at), align=ALIGN)


def _vector_of(builder: Any, start: Any, place: Any) -> Any:
    at = builder.bitcast(builder.gep(start, [place]), LLVM_VECTOR.as_pointer())
    return builder.load(at, align=ALIGN)


_some, _one = _outputs(_VECTORS), _outputs(1)
_add_products = _products(_GROUP)


@kernel
def convolve(read, taps, count, weights, biases, out, span):
    """Five channels' maps, `span` numbers apart, from the taps of a padded input; weights are (tap, output)."""
    done, whole = 0, span - (_VECTORS - 1) * LANES
    while done < whole:
        _some(after(read, done), taps, count, weights, biases, after(out, done), span)
        done += _VECTORS * LANES
    while done < span:
        _one(after(read, done), taps, count, weights, biases, after(out, done), span)
        done += LANES


@kernel
def add_weight_slopes(read, taps, count, slopes, channel, span, sums):
    """Adds one sample's gradient of the weights to vectors (tap, output), whose lanes are summed at last.

    The list of taps goes on to a multiple of TAPS_AT_ONCE.
    """
    for first in range(0, span, _CHUNK * LANES):
        vectors = min(_CHUNK, (span - first) // LANES)
        for tap in range(0, count, _GROUP):
            into = after(sums, tap * CHANNELS * LANES)
            _add_products(after(read, first), taps + 8 * tap, after(slopes, first), channel, into, vectors)


@kernel
def write_weight_slopes(sums, count, places, gradient):
    """Sums the lanes of each weight's gradient, and puts it in the parameters' order."""
    for tap in range(count):
        for q in range(CHANNELS):
            gradient[places[tap, q]] = total(load(sums, (tap * CHANNELS + q) * LANES))


@kernel
def gather(parameters, places, count, weights):
    """The weights of so many taps, one after the other."""
    for tap in range(count):
        for q in range(CHANNELS):
            weights[tap * CHANNELS + q] = parameters[places[tap, q]]
