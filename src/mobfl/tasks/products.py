"""Products of small matrices inside Numba kernels, with all sums in registers, of rows wherever they stand.

A BLAS is made for large ones: at LaneGCN's widths its call costs as much as the product, and what it multiplies must be
laid out in memory first. All offsets are counted in numbers, from an address.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mobfl.tasks.vectors import (
    ALIGN,
    FLOAT,
    LANES,
    LLVM_VECTOR,
    after,
    kernel,
    multiply_add,
    offset,
    pointer,
    spread_out,
)

_WIDE = llvm.get_host_cpu_features().get("avx512f", False)  # a vector is one register of 32, else two of 16
_TALL, _VECTORS = (8, 2) if _WIDE else (4, 1)
_WIDE_COLUMNS = _VECTORS * LANES
ROUND = 4  # rows that are multiplied at once, at least

# Where the numbers of a tile stand, as code: of a row, a step, and a row of the result.
Place = Callable[[Any, Any], Any]


def _tile_code(builder: Any, rows: int, vectors: int, places: tuple[Any, Place, Place], steps: Any, keep: Any) -> None:
    """Multiplies a few rows by a few vectors of columns; adds to what stands in the result, if `keep`.

    `places` gives pointers: to the result's vectors; to the left number of a row and a step; to the right vectors of a
    step.
    """
    builder.function.attributes.add("noinline")  # one copy is enough
    out, left, right = places
    tile = [(row, vector) for row in range(rows) for vector in range(vectors)]
    sums = {each: cgutils.alloca_once(builder, LLVM_VECTOR) for each in tile}  # type: ignore[no-untyped-call]
    for each in tile:
        builder.store(ir.Constant(LLVM_VECTOR, [0.0] * LANES), sums[each])
    with builder.if_then(keep):
        for each in tile:
            builder.store(builder.load(out(*each), align=ALIGN), sums[each])
    with cgutils.for_range(builder, steps) as loop:
        columns = [builder.load(right(loop.index, vector), align=ALIGN) for vector in range(vectors)]
        for row in range(rows):
            number = spread_out(builder, builder.load(left(row, loop.index)))
            for vector in range(vectors):
                slot = sums[row, vector]
                builder.store(multiply_add(builder, number, columns[vector], builder.load(slot)), slot)
    for each in tile:
        builder.store(builder.load(sums[each]), out(*each), align=ALIGN)


def _at(builder: Any, address: Any, start: Any, *terms: tuple[Any, Any], what: ir.Type = LLVM_VECTOR) -> Any:
    """A pointer to start + Σ count · stride."""
    for count, stride in terms:
        start = builder.add(start, builder.mul(start.type(count) if isinstance(count, int) else count, stride))
    return pointer(builder, address, start, what)


def _strided(rows: int, vectors: int) -> Any:
    """An intrinsic for a tile of matrices whose rows and steps are equally far apart, the left one maybe transposed."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        left, left_row, left_step, right, out, columns, steps, keep = given
        lanes, start = columns.type(LANES), columns.type(0)
        places = (
            lambda row, vector: _at(builder, out, start, (row, columns), (vector, lanes)),
            lambda row, step: _at(builder, left, start, (row, left_row), (step, left_step), what=FLOAT),
            lambda step, vector: _at(builder, right, start, (step, columns), (vector, lanes)),
        )
        _tile_code(builder, rows, vectors, places, steps, keep)
        return context.get_dummy_value()

    def tile(
        typing: Any, left: Any, left_row: Any, left_step: Any, right: Any, out: Any, columns: Any, steps: Any, keep: Any
    ) -> Any:
        return types.none(*[types.intp] * 7, types.boolean), code

    return intrinsic(tile)


def _of_rows(rows: int, vectors: int) -> Any:
    """An intrinsic for a tile whose left rows and rows of the result stand where two lists of offsets say."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        left, lefts, right, out, outs, columns, steps, keep = given
        lanes, one, start = columns.type(LANES), columns.type(1), columns.type(0)
        starts = [offset(builder, lefts, columns.type(row)) for row in range(rows)]
        ends = [offset(builder, outs, columns.type(row)) for row in range(rows)]
        places = (
            lambda row, vector: _at(builder, out, ends[row], (vector, lanes)),
            lambda row, step: _at(builder, left, starts[row], (step, one), what=FLOAT),
            lambda step, vector: _at(builder, right, start, (step, columns), (vector, lanes)),
        )
        _tile_code(builder, rows, vectors, places, steps, keep)
        return context.get_dummy_value()

    def tile(
        typing: Any, left: Any, lefts: Any, right: Any, out: Any, outs: Any, columns: Any, steps: Any, keep: Any
    ) -> Any:
        return types.none(*[types.intp] * 7, types.boolean), code

    return intrinsic(tile)


def _of_steps(rows: int, vectors: int) -> Any:
    """An intrinsic for a tile of leftᵀ · right, whose rows stand where two lists of offsets say; it is added."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        left, lefts, right, rights, out, columns, steps = given
        lanes, one, start = columns.type(LANES), columns.type(1), columns.type(0)
        places = (
            lambda row, vector: _at(builder, out, start, (row, columns), (vector, lanes)),
            lambda row, step: _at(builder, left, offset(builder, lefts, step), (row, one), what=FLOAT),
            lambda step, vector: _at(builder, right, offset(builder, rights, step), (vector, lanes)),
        )
        _tile_code(builder, rows, vectors, places, steps, ir.Constant(ir.IntType(1), 1))
        return context.get_dummy_value()

    def tile(typing: Any, left: Any, lefts: Any, right: Any, rights: Any, out: Any, columns: Any, steps: Any) -> Any:
        return types.none(*[types.intp] * 7), code

    return intrinsic(tile)


_tall_wide, _tall, _flat_wide, _flat = (_strided(rows, vectors) for rows in (_TALL, 1) for vectors in (_VECTORS, 1))
_rows_tall_wide, _rows_tall, _rows_low_wide, _rows_low = (
    _of_rows(rows, vectors) for rows in (_TALL, ROUND) for vectors in (_VECTORS, 1)
)
_steps_wide, _steps = (_of_steps(_TALL, vectors) for vectors in (_VECTORS, 1))


@kernel
def multiply(left, left_row, left_step, right, out, size, keep):
    """out (rows, columns) = left (rows, steps) · right (steps, columns), or what stands there and that, if `keep`.

    `size` is rows, columns, steps; columns are a multiple of the lanes. Matrices are given by the address of their
    first number; left's element (i, j) stands i·left_row + j·left_step further on, so it may be read transposed.
    """
    rows, columns, steps = size
    for column in range(0, columns, _WIDE_COLUMNS):
        wide, row = columns - column >= _WIDE_COLUMNS, 0
        while row < rows:
            tall = rows - row >= _TALL
            a, b, o = after(left, row * left_row), after(right, column), after(out, row * columns + column)
            if tall and wide:
                _tall_wide(a, left_row, left_step, b, o, columns, steps, keep)
            elif tall:
                _tall(a, left_row, left_step, b, o, columns, steps, keep)
            elif wide:
                _flat_wide(a, left_row, left_step, b, o, columns, steps, keep)
            else:
                _flat(a, left_row, left_step, b, o, columns, steps, keep)
            row += _TALL if tall else 1


@kernel
def multiply_rows(left, right, out, size, keep):
    """The same for rows of left and of out that stand anywhere: given as (address, address of a list of offsets).

    The lists go on to a multiple of ROUND, with places that may be read and written.
    """
    rows, columns, steps = size
    (a, lefts), (o, outs) = left, out
    for column in range(0, columns, _WIDE_COLUMNS):
        wide, row = columns - column >= _WIDE_COLUMNS, 0
        b, c = after(right, column), after(o, column)
        while row < rows:
            tall = rows - row > _TALL - ROUND
            x, y = lefts + 8 * row, outs + 8 * row
            if tall and wide:
                _rows_tall_wide(a, x, b, c, y, columns, steps, keep)
            elif tall:
                _rows_tall(a, x, b, c, y, columns, steps, keep)
            elif wide:
                _rows_low_wide(a, x, b, c, y, columns, steps, keep)
            else:
                _rows_low(a, x, b, c, y, columns, steps, keep)
            row += _TALL if tall else ROUND


@kernel
def add_outer(left, right, out, size):
    """Adds leftᵀ · right to out (rows, columns); each step's rows stand where the lists of offsets say."""
    rows, columns, steps = size
    (a, lefts), (b, rights) = left, right
    for column in range(0, columns, _WIDE_COLUMNS):
        for row in range(0, rows, _TALL):
            o = after(out, row * columns + column)
            if columns - column >= _WIDE_COLUMNS:
                _steps_wide(after(a, row), lefts, after(b, column), rights, o, columns, steps)
            else:
                _steps(after(a, row), lefts, after(b, column), rights, o, columns, steps)
