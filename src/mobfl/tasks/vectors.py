"""Sixteen single-precision numbers at once inside Numba kernels.

Numba leaves it to LLVM to find vectors in loops. It does not in loops over the 16 or 32 channels of LaneGCN, and in
those over Lidar2D's maps it takes long to. Here they are written down: a `Vector` is loaded, added, multiplied and
stored as a whole. Every operation and its order are then given, so bits depend neither on how a kernel was optimised
nor on what it was inlined into.

Numba's cache of an entry notices changes of the entry's own file only: delete `__pycache__` after editing this one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16
# As arguments: for Python's own constants Numba would compile a function again and again.
ADD, SET = np.bool_(True), np.bool_(False)
ZERO, ONE = np.intp(0), np.intp(1)
# Nothing is reordered: bits are those of the operations as they are written.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_PART: dict[str, Any] = _OPTIONS | {"no_cpython_wrapper": True}  # Python never calls it
kernel = njit(**_PART)
entry = njit(cache=True, **_OPTIONS)
FLOAT, INTEGER, ALIGN = ir.FloatType(), ir.IntType(32), 4  # bytes: of a single number
LLVM_VECTOR = ir.VectorType(FLOAT, LANES)


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"float32x{LANES}")


VECTOR = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, LLVM_VECTOR)  # type: ignore[no-untyped-call]


def keep_compact(builder: Any) -> None:
    """Of the function that is being built: its loops are short, and unrolled they would only take longer to compile."""
    builder.function.attributes.add("optsize")


def pointer(builder: Any, address: Any, at: Any, what: ir.Type = LLVM_VECTOR) -> Any:
    """To the number that stands `at` numbers after an address."""
    keep_compact(builder)
    return builder.inttoptr(builder.add(address, builder.mul(at, at.type(4))), what.as_pointer())


def offset(builder: Any, address: Any, at: Any) -> Any:
    """The 64-bit integer that stands `at` integers after an address."""
    place = builder.add(address, builder.mul(at, at.type(8)))
    return builder.load(builder.inttoptr(place, address.type.as_pointer()))


def spread_out(builder: Any, number: Any) -> Any:
    """A vector of one number."""
    one = builder.insert_element(ir.Constant(LLVM_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(LLVM_VECTOR, ir.Undefined), lanes)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once wherever the processor can."""
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(LLVM_VECTOR, [LLVM_VECTOR] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    return builder.call(function, [a, b, c])


def _operation(build: Callable[..., Any], *kinds: Any, gives: Any = VECTOR) -> Any:
    """An intrinsic of vectors and numbers: what `build` makes of a builder and their values."""

    typed = gives(*kinds), lambda context, builder, signature, values: build(builder, *values)
    definitions: dict[int, Callable[..., Any]] = {  # Numba counts the arguments
        1: lambda typing, a: typed,
        2: lambda typing, a, b: typed,
        3: lambda typing, a, b, c: typed,
    }
    return intrinsic(definitions[len(kinds)])


def _maximum(builder: Any, a: Any, zero: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<=", a, zero), zero, a)  # NaN stays


def _minimum(builder: Any, a: Any, zero: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">=", a, zero), zero, a)  # NaN stays


def _halves(builder: Any, a: Any) -> Any:
    """The sum of all lanes, of halves again and again: always in this order."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        nothing = ir.Constant(a.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(
                a, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
            )
            for start in (0, lanes)
        )
        a = builder.fadd(low, high)
    return builder.extract_element(a, ir.Constant(ir.IntType(32), 0))


def _where(sign: str) -> Callable[..., Any]:
    def build(builder: Any, test: Any, a: Any) -> Any:
        zero = ir.Constant(LLVM_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(sign, test, zero), a, zero)

    return build


def _of_two(lanes: list[int]) -> Callable[..., Any]:
    """The lanes with these numbers, those of the second vector counted after the first's."""
    chosen = ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes)
    return lambda builder, a, b: builder.shuffle_vector(a, b, chosen)


def _bytes(builder: Any, address: Any, at: Any) -> Any:
    keep_compact(builder)
    integers = ir.VectorType(ir.IntType(8), LANES)
    place = builder.inttoptr(builder.add(address, at), integers.as_pointer())
    return builder.sitofp(builder.load(place, align=1), LLVM_VECTOR)


spread = _operation(spread_out, types.float32)  # a vector of one number
plus = _operation(lambda builder, a, b: builder.fadd(a, b), VECTOR, VECTOR)
minus = _operation(lambda builder, a, b: builder.fsub(a, b), VECTOR, VECTOR)
times = _operation(lambda builder, a, b: builder.fmul(a, b), VECTOR, VECTOR)
fused = _operation(multiply_add, VECTOR, VECTOR, VECTOR)  # a·b + c
total = _operation(_halves, VECTOR, gives=types.float32)  # the sum of all lanes
positive = _operation(lambda builder, a: _maximum(builder, a, ir.Constant(LLVM_VECTOR, [0.0] * LANES)), VECTOR)  # ReLU
negative = _operation(lambda builder, a: _minimum(builder, a, ir.Constant(LLVM_VECTOR, [0.0] * LANES)), VECTOR)
where_positive = _operation(_where(">"), VECTOR, VECTOR)  # of a test and a vector: its lanes where the test's are so
where_negative = _operation(_where("<"), VECTOR, VECTOR)
# Of two vectors that follow each other: every second number; and the first and the last half of what alternates.
evens = _operation(_of_two(list(range(0, 2 * LANES, 2))), VECTOR, VECTOR)
odds = _operation(_of_two(list(range(1, 2 * LANES, 2))), VECTOR, VECTOR)
alternating = [lane + half for lane in range(LANES) for half in (0, LANES)]
zip_first = _operation(_of_two(alternating[:LANES]), VECTOR, VECTOR)
zip_last = _operation(_of_two(alternating[LANES:]), VECTOR, VECTOR)
load = _operation(
    lambda builder, address, at: builder.load(pointer(builder, address, at), align=ALIGN), types.intp, types.intp
)
load_bytes = _operation(_bytes, types.intp, types.intp)  # sixteen integers of a byte each, `at` bytes after an address
index = _operation(  # the integer that stands `at` integers after an address
    lambda builder, address, at: builder.sext(builder.load(pointer(builder, address, at, INTEGER)), address.type),
    types.intp,
    types.intp,
    gives=types.intp,
)


def _store(builder: Any, address: Any, at: Any, vector: Any) -> Any:
    builder.store(vector, pointer(builder, address, at), align=ALIGN)
    return ir.Constant(ir.IntType(8).as_pointer(), None)


def _put(builder: Any, address: Any, at: Any, value: Any) -> Any:
    place = builder.add(address, builder.mul(at, at.type(8)))
    builder.store(value, builder.inttoptr(place, address.type.as_pointer()))
    return ir.Constant(ir.IntType(8).as_pointer(), None)


def _put_pair(builder: Any, address: Any, at: Any, number: Any) -> Any:
    for which in (0, 1):
        builder.store(number, pointer(builder, address, builder.add(at, at.type(which)), FLOAT))
    return ir.Constant(ir.IntType(8).as_pointer(), None)


def _put_number(builder: Any, address: Any, at: Any, number: Any) -> Any:
    builder.store(number, pointer(builder, address, at, FLOAT))
    return ir.Constant(ir.IntType(8).as_pointer(), None)


put_number = _operation(_put_number, types.intp, types.intp, types.float32, gives=types.none)
put_pair = _operation(_put_pair, types.intp, types.intp, types.float32, gives=types.none)  # the same number twice
put = _operation(_put, types.intp, types.intp, types.intp, gives=types.none)  # into a list of offsets
number = _operation(  # the single number that stands `at` numbers after an address
    lambda builder, address, at: builder.load(pointer(builder, address, at, FLOAT)),
    types.intp,
    types.intp,
    gives=types.float32,
)
get = _operation(offset, types.intp, types.intp, gives=types.intp)  # from it
store = _operation(_store, types.intp, types.intp, VECTOR, gives=types.none)


@kernel
def address(array):
    """Where an array's numbers stand, four bytes each.

    Kernels pass addresses on: to pass an array counts references, atomically. So an entry is given its work space too:
    what it made itself would be freed when it is not named any more.
    """
    return np.intp(array.ctypes.data)


@kernel
def after(place, numbers):
    """The address so many numbers after another."""
    return place + 4 * numbers
