"""Logarithm and exponential of `lanes`, in bits: the polynomials of `elementary`, for eight values at a time.

A loop of scalars is turned into vectors of half a register's width on machines with wide ones; these vectors are as
wide as the registers. The logarithm divides once, since what rounding takes from 1 + t joins the reduced argument.
"""

import math

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_spn.numerics.lanes import LANES, lanes

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_LOG2_E = 1.0 / math.log(2.0)
_ROUND = 6755399441055744.0  # as in `elementary`: adding it rounds to an integer held in the low bits
_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LOG_TERMS = (  # of R(z) in `elementary.fast_log`, the highest power first
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)
_EXP2_TERMS = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(12, -1, -1))


def _real(x):
    return ir.Constant(_VECTOR, [float(x)] * LANES)


def _whole(k):
    return ir.Constant(_BITS, [k] * LANES)


def _fused(builder, a, b, c):
    """a b + c, rounded once."""
    signature = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, f"llvm.fma.v{LANES}f64"), [a, b, c])


def _polynomial(builder, x, terms):
    value = _real(terms[0])
    for term in terms[1:]:
        value = _fused(builder, value, x, _real(term))
    return value


@intrinsic
def sub(typingctx, a, b):
    """a - b."""
    return lanes(lanes, lanes), lambda context, builder, signature, args: builder.fsub(*args)


def _log2(builder, u, lost):
    """log2 of positive, normal u and of what rounding has taken from it."""
    bits = builder.bitcast(u, _BITS)
    k = builder.ashr(builder.sub(bits, _whole(_SQRT_HALF_BITS)), _whole(52))
    exponent = builder.shl(k, _whole(52))
    m = builder.bitcast(builder.sub(bits, exponent), _VECTOR)  # in [sqrt(1/2), sqrt(2))
    f = builder.fsub(m, _real(1.0))
    per_m = builder.bitcast(builder.sub(_whole(1023 << 52), exponent), _VECTOR)
    f = _fused(builder, lost, per_m, f)
    s = builder.fdiv(f, builder.fadd(_real(2.0), f))
    z = builder.fmul(s, s)
    r = builder.fmul(_polynomial(builder, z, _LOG_TERMS), z)
    half = builder.fmul(builder.fmul(_real(0.5), f), f)
    log = builder.fsub(f, builder.fsub(half, builder.fmul(s, builder.fadd(half, r))))
    whole = builder.fsub(builder.bitcast(builder.add(k, _whole(_ROUND_BITS)), _VECTOR), _real(_ROUND))
    return _fused(builder, log, _real(_LOG2_E), whole)


@intrinsic
def log2_of_1_plus(typingctx, t):
    """log2(1 + t) for t > -1, relative error a few ulp also for small t."""

    def codegen(context, builder, signature, args):
        u = builder.fadd(_real(1.0), args[0])
        return _log2(builder, u, builder.fsub(args[0], builder.fsub(u, _real(1.0))))

    return lanes(lanes), codegen


@intrinsic
def power_of_2(typingctx, x):
    """2^x to 3 ulp for x below 1,023; arguments below -1,020 give about 9e-308."""

    def codegen(context, builder, signature, args):
        lowest = _real(-1020.0)
        x = builder.select(builder.fcmp_ordered(">", args[0], lowest), args[0], lowest)
        shifted = builder.fadd(x, _real(_ROUND))
        part = builder.fsub(x, builder.fsub(shifted, _real(_ROUND)))
        whole = builder.sub(builder.bitcast(shifted, _BITS), _whole(_ROUND_BITS - 1023))
        power = builder.bitcast(builder.shl(whole, _whole(52)), _VECTOR)
        return builder.fmul(_polynomial(builder, part, _EXP2_TERMS), power)

    return lanes(lanes), codegen


@intrinsic
def choose(typingctx, a, b, x, y):
    """x where a is less than b, else y."""

    def codegen(context, builder, signature, args):
        a, b, x, y = args
        return builder.select(builder.fcmp_ordered("<", a, b), x, y)

    return lanes(lanes, lanes, lanes, lanes), codegen
