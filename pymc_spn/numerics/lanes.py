"""Eight float64 values as one LLVM vector: rows of a batch side by side, whatever the loop round them does.

A loop over eight rows inside a loop over table entries is too short for the vectoriser, whose checks for overlapping
arrays cost more than the work. Here the vector is a value of its own, so accumulators stay in registers. On machines
with narrower registers LLVM splits the vector.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_EXPONENT = 0x7FF0000000000000  # sign and mantissa masked out


class Lanes(types.Type):
    """Numba type of eight float64 values."""

    def __init__(self):
        super().__init__(name="Lanes")


lanes: Any = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    start = builder.mul(index, ir.Constant(index.type, LANES))
    return builder.bitcast(builder.gep(data, [start]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, index):
    """The ``index``-th group of eight of a contiguous float64 vector."""

    def codegen(context, builder, signature, args):
        loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]))
        loaded.align = 8
        return loaded

    return lanes(array, types.int64), codegen


@intrinsic
def store(typingctx, array, index, value):
    """Overwrite the ``index``-th group of eight of a contiguous float64 vector."""

    def codegen(context, builder, signature, args):
        stored = builder.store(args[2], _pointer(context, builder, signature.args[0], args[0], args[1]))
        stored.align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), codegen


@intrinsic
def splat(typingctx, value):
    """Eight times the same value."""

    def codegen(context, builder, signature, args):
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0))
        nowhere = ir.Constant(_VECTOR, ir.Undefined)
        return builder.shuffle_vector(first, nowhere, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    return lanes(types.float64), codegen


@intrinsic
def mul(typingctx, a, b):
    """a b."""
    return lanes(lanes, lanes), lambda context, builder, signature, args: builder.fmul(*args)


@intrinsic
def add(typingctx, a, b):
    """a + b."""
    return lanes(lanes, lanes), lambda context, builder, signature, args: builder.fadd(*args)


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a b + c, rounded once."""

    def codegen(context, builder, signature, args):
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f64"
        )
        return builder.call(fma, args)

    return lanes(lanes, lanes, lanes), codegen


@intrinsic
def larger(typingctx, a, b):
    """The larger of a and b; b where a is NaN."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def smaller(typingctx, a, b):
    """The smaller of a and b; b where a is NaN."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def smaller_positive(typingctx, a, b):
    """The smaller of a and b where a is positive, else b."""

    def codegen(context, builder, signature, args):
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        is_smaller = builder.fcmp_ordered("<", args[0], args[1])
        return builder.select(builder.and_(is_smaller, builder.fcmp_ordered(">", args[0], zero)), args[0], args[1])

    return lanes(lanes, lanes), codegen


@intrinsic
def unless_below(typingctx, a, b):
    """a, and 0 where it is smaller than b; NaN stays."""

    def codegen(context, builder, signature, args):
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), zero, args[0])

    return lanes(lanes, lanes), codegen


@intrinsic
def ratio(typingctx, a, b):
    """a / b, and 0 where b is 0."""

    def codegen(context, builder, signature, args):
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("!=", args[1], zero), builder.fdiv(*args), zero)

    return lanes(lanes, lanes), codegen


@intrinsic
def power_below(typingctx, a):
    """The largest power of two that is at most a, for positive normal a; 0 for 0."""

    def codegen(context, builder, signature, args):
        mask = ir.Constant(_BITS, [_EXPONENT] * LANES)
        return builder.bitcast(builder.and_(builder.bitcast(args[0], _BITS), mask), _VECTOR)

    return lanes(lanes), codegen


@intrinsic
def inverse_power(typingctx, a):
    """1 / a for a power of two; 2**1023 for 0."""

    def codegen(context, builder, signature, args):
        twice_bias = ir.Constant(_BITS, [2046 << 52] * LANES)
        return builder.bitcast(builder.sub(twice_bias, builder.bitcast(args[0], _BITS)), _VECTOR)

    return lanes(lanes), codegen


@intrinsic
def exponent_sum(typingctx, total, power):
    """``total`` + log2 of a power of two, for ``total`` held as float64."""

    def codegen(context, builder, signature, args):
        shift = ir.Constant(_BITS, [52] * LANES)
        bias = ir.Constant(_BITS, [1023] * LANES)
        exponent = builder.sub(builder.lshr(builder.bitcast(args[1], _BITS), shift), bias)
        return builder.fadd(args[0], builder.sitofp(exponent, _VECTOR))

    return lanes(lanes, lanes), codegen


def _pick(builder, value, source):
    """Lane l takes lane ``source[l]``; LANES and more stand for zero."""
    zero = ir.Constant(_VECTOR, [0.0] * LANES)
    return builder.shuffle_vector(value, zero, ir.Constant(ir.VectorType(ir.IntType(32), LANES), source))


def _sums_inside(builder, value, upward):
    """Sums over the subsets (or supersets) of each lane's number, whose three bits are three shuffles."""
    for bit in (1, 2, 4):
        source = [lane ^ bit if bool(lane & bit) != upward else LANES for lane in range(LANES)]
        value = builder.fadd(value, _pick(builder, value, source))
    return value


@intrinsic
def subset_sums_inside(typingctx, a):
    """Lane m becomes the sum over all lanes whose number is a subset of m, as bits."""
    return lanes(lanes), lambda context, builder, signature, args: _sums_inside(builder, args[0], False)


@intrinsic
def superset_sums_inside(typingctx, a):
    """Lane m becomes the sum over all lanes whose number is a superset of m, as bits."""
    return lanes(lanes), lambda context, builder, signature, args: _sums_inside(builder, args[0], True)


@intrinsic
def lane_sum(typingctx, a):
    """Sum of the eight lanes, pairwise."""

    def codegen(context, builder, signature, args):
        value = args[0]
        for step in (4, 2, 1):
            value = builder.fadd(value, _pick(builder, value, [lane ^ step for lane in range(LANES)]))
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float64(lanes), codegen


@intrinsic(prefer_literal=True)
def flip(typingctx, a, bit):
    """Lane m takes the lane whose number differs in one bit, a literal."""
    if isinstance(bit, types.IntegerLiteral):
        source = [lane ^ 1 << bit.literal_value for lane in range(LANES)]
        return lanes(lanes, bit), lambda context, builder, signature, args: _pick(builder, args[0], source)


@intrinsic(prefer_literal=True)
def widen(typingctx, a, half, bit, holds):
    """Four lanes (the lower ones or, with `half` 1, the upper ones) to the lanes whose number has a bit or has it not.

    Lane m takes the lane numbered m without the bit, the higher bits moved down; the other lanes are zero. All three
    are literals.
    """
    if all(isinstance(x, types.IntegerLiteral) for x in (half, bit, holds)):
        first, i = 4 * half.literal_value, bit.literal_value
        source = [
            first + (m & (1 << i) - 1 | m >> i + 1 << i) if m >> i & 1 == holds.literal_value else LANES
            for m in range(LANES)
        ]
        return lanes(lanes, half, bit, holds), lambda context, builder, signature, args: _pick(builder, args[0], source)


def groups(n_rows):
    """Number of groups of eight that hold ``n_rows`` rows."""
    return -(-n_rows // LANES)


def zeros(n):
    """(8 n,) float64 zeros: ``n`` groups."""
    return np.zeros(n * LANES)
