"""Logs of gamma variates and of Dirichlet draws.

Logs, because a gamma variate of a small shape underflows: at shape 0.001 half of all draws are below 1e-300.
"""

import math

import numpy as np

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


def log_dirichlet(rng: np.random.Generator, mass: np.ndarray) -> np.ndarray:
    """Logs of Dirichlet draws over the last axis; small masses do not underflow, Gamma(a) = Gamma(a + 1) U^(1/a)."""
    logs = np.log(rng.standard_gamma(mass + 1.0)) + np.log1p(-rng.random(mass.shape)) / mass
    logs -= logs.max(axis=-1, keepdims=True)
    return logs - np.log(np.exp(logs).sum(axis=-1, keepdims=True))
