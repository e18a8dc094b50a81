"""Logs of gamma variates for many shapes at once: raw material of Dirichlet, gamma and normal-gamma draws.

Logs, because a gamma variate of a small shape underflows: at shape 0.001 half of all draws are below 1e-300.
"""

import math

import numpy as np

from pymc_spn.numerics.elementary import fast_log
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

_TINY = 1e-300  # stands for a proposal at or below zero, which the acceptance test then rejects


@kernel
def log_gamma_draw(rng, shape):
    """Log of one gamma variate with unit rate.

    Marsaglia and Tsang (2000), doi:10.1145/358407.358414; below one, Gamma(a) = Gamma(a + 1) U^(1/a).
    """
    boost = rng.standard_exponential() / shape if shape < 1.0 else 0.0
    return _log_gamma_above_one(rng, shape + 1.0 if shape < 1.0 else shape) - boost


@inner_kernel
def _log_gamma_above_one(rng, shape):
    d = shape - 1.0 / 3.0
    c = 1.0 / (3.0 * math.sqrt(d))
    while True:
        x = rng.standard_normal()
        t = max(1.0 + c * x, _TINY)
        log_v = 3.0 * math.log(t)
        if math.log(1.0 - rng.random()) < 0.5 * x * x + d * (1.0 + log_v - t * t * t):
            return math.log(d) + log_v


@kernel
def log_gamma_draws(rng, shape, out, normal, uniform, boost):
    """Logs of independent gamma variates with unit rate, several times faster than one by one.

    The first proposal of all variates is worked out in vector code; the one in twenty or fewer that it
    rejects are drawn again one by one.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : (n,) float64
        Positive.
    out : (n,) float64
        Out: the logs.
    normal, uniform, boost : (n,) float64
        Scratch space.
    """
    for i in range(shape.size):
        normal[i] = rng.standard_normal()
        uniform[i] = 1.0 - rng.random()
    for i in range(shape.size):
        boost[i] = 0.0
        if shape[i] < 1.0:
            boost[i] = rng.standard_exponential()
    for i in range(shape.size):
        a = shape[i]
        d = a + 2.0 / 3.0 if a < 1.0 else a - 1.0 / 3.0
        x = normal[i]
        t = max(1.0 + x / (3.0 * math.sqrt(d)), _TINY)
        log_v = 3.0 * fast_log(t)
        accepted = fast_log(uniform[i]) < 0.5 * x * x + d * (1.0 + log_v - t * t * t)
        out[i] = fast_log(d) + log_v - boost[i] / a if accepted else np.nan
    for i in range(shape.size):
        if math.isnan(out[i]):
            a = shape[i]
            out[i] = _log_gamma_above_one(rng, a + 1.0 if a < 1.0 else a) - boost[i] / a
