"""Exponential, logarithm and gamma-function pieces which LLVM turns into vector code.

Numba calls libm for ``math.exp`` and ``math.log``, one value at a time, because the llvmlite wheels carry no
vector library. The functions here are polynomials and bit operations without branches, so a loop over them
becomes AVX code.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

_LOG2E = 1.4426950408889634
_LN2_HI = 6.93147180369123816490e-01  # low 32 bits zero: k * _LN2_HI is exact
_LN2_LO = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low bits
_ROUND_BITS = np.int64(np.float64(_ROUND).view(np.int64))
_SQRT_HALF_BITS = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
_ONE_BITS = np.int64(np.float64(1.0).view(np.int64))
_MANTISSA = np.int64((1 << 52) - 1)

# Contracting a * b + c keeps the rounding constant intact; reassociation would destroy it.
VECTOR_MATH = {"contract", "nsz"}


@intrinsic
def float_bits(typingctx, x):
    """Bits of a float64 as an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def bits_float(typingctx, x):
    """The float64 that has the bits of an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@njit(inline="always")
def larger(a, b):
    """The larger of two numbers; Numba compiles `max` once more for each set of options of its callers."""
    return b if b > a else a


@njit(inline="always", fastmath=VECTOR_MATH)
def fast_exp(x):
    """exp(x) to 3 ulp for x <= 700; arguments below -708 give about 3e-308 instead of a subnormal or zero."""
    x = max(x, -708.0)
    shifted = x * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = x - k * _LN2_HI
    r = r - k * _LN2_LO
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * bits_float((float_bits(shifted) - _ROUND_BITS + 1023) << 52)


@njit(inline="always", fastmath=VECTOR_MATH)
def exp_or_zero(x):
    """`fast_exp`, but 0 below -708 and of NaN: a share that is none must not be one of 3e-308."""
    return fast_exp(x) if x > -708.0 else 0.0


_LOG2E_32, _ROUND_32 = np.float32(_LOG2E), np.float32(12582912.0)  # 1.5 * 2**23
_LN2_HI_32, _LN2_LO_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_LOWEST_32, _ONE_32 = np.float32(-87.0), np.float32(1.0)
_E7, _E6, _E5 = np.float32(1 / 5040), np.float32(1 / 720), np.float32(1 / 120)
_E4, _E3, _E2 = np.float32(1 / 24), np.float32(1 / 6), np.float32(1 / 2)


@intrinsic
def times_power_of_two(typingctx, p, shifted):
    """p * 2**k in float32, where ``shifted`` is k plus the rounding constant; integers of Numba would widen."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(32)
        bits = builder.bitcast(args[1], word)
        exponent = builder.add(bits, ir.Constant(word, 127 - 0x4B400000))
        return builder.fmul(args[0], builder.bitcast(builder.shl(exponent, ir.Constant(word, 23)), ir.FloatType()))

    return types.float32(types.float32, types.float32), codegen


@njit(inline="always", fastmath=VECTOR_MATH)
def fast_exp32(x):
    """exp(x) of a float32 to 2 ulp for x <= 88; arguments below -87 give about 1.6e-38."""
    x = max(x, _LOWEST_32)
    shifted = x * _LOG2E_32 + _ROUND_32
    k = shifted - _ROUND_32
    r = x - k * _LN2_HI_32
    r = r - k * _LN2_LO_32
    p = _E7
    p = p * r + _E6
    p = p * r + _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + _ONE_32
    p = p * r + _ONE_32
    return times_power_of_two(p, shifted)


def exponential(x):
    """`fast_exp` or `fast_exp32`, by the type of the argument; for use in kernels that are compiled for both."""
    raise NotImplementedError("for compiled code")


@overload(exponential, jit_options={"fastmath": VECTOR_MATH, "error_model": "numpy"})
def _exponential(x):
    if x == types.float32:
        return lambda x: fast_exp32(x)
    return lambda x: fast_exp(x)


@njit(inline="always", fastmath=VECTOR_MATH)
def fast_log(x):
    """log(x) to 2 ulp for positive, normal, finite x; anything else gives garbage, not an error."""
    bits = float_bits(x)
    k = (bits - _SQRT_HALF_BITS) >> 52
    m = bits_float(bits - (k << 52))  # in [sqrt(1/2), sqrt(2))
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    # minimax coefficients of log(1+f) = f - f^2/2 + s (f^2/2 + R(z)), the classical fdlibm split
    r = 1.479819860511658591e-01
    r = r * z + 1.531383769920937332e-01
    r = r * z + 1.818357216161805012e-01
    r = r * z + 2.222219843214978396e-01
    r = r * z + 2.857142874366239149e-01
    r = r * z + 3.999999999940941908e-01
    r = r * z + 6.666666666666735130e-01
    r = r * z
    half = 0.5 * f * f
    kf = bits_float(k + _ROUND_BITS) - _ROUND  # int64 to float64 without a scalar conversion
    return kf * _LN2_HI - ((half - (s * (half + r) + kf * _LN2_LO)) - f)


@njit(inline="always", fastmath=VECTOR_MATH)
def fast_log1p(t):
    """log(1 + t) for t > -1, relative error a few ulp also for small t."""
    u = 1.0 + t
    return fast_log(u) + (t - (u - 1.0)) / u


@njit(inline="always")
def half_step_log_gamma(a):
    """lgamma(a + 1/2) - lgamma(a) for a > 0.

    Recurrence up to a >= 12, then the asymptotic series in 1/a (ratio of gamma functions, DLMF 5.11.13). The absolute
    error is below 1e-14 (below 2e-15 from a = 13 on). It is several times cheaper than two calls of lgamma.
    """
    num = 1.0
    den = 1.0
    while a < 12.0:
        num *= a
        den *= a + 0.5
        a += 1.0
    i = 1.0 / a
    i2 = i * i
    tail = -1.0 / 640 + i2 * (17.0 / 14336 + i2 * (-31.0 / 18432))
    series = i * (-1.0 / 8 + i2 * (1.0 / 192 + i2 * tail))
    return series + fast_log(math.sqrt(a) * num / den)


@njit(inline="always")
def digamma(x):
    """Derivative of lgamma for x > 0 to 2e-14: recurrence to 8, then the asymptotic series (DLMF 5.11.2)."""
    r = 0.0
    while x < 8.0:
        r -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    tail = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * 691 / 32760)))))
    return r + math.log(x) - 0.5 / x - tail
