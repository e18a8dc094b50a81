"""Weights of several predictive densities by stacking."""

import numpy as np


def stack(densities: np.ndarray, gap: float = 1e-4) -> np.ndarray:
    """Weights (K,) that maximise the mean log of the weighted density, by EM; the problem is concave.

    Parameters
    ----------
    densities : (N, K) float64
        Of each row by each of K predictives that have not seen it; each row may have a scale of its own.
    gap : float
        What is left to gain at most, in nats a row: the log of the largest mean ratio of one density to the mixture.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions,
    doi:10.1214/17-BA1091, equation (4) with the logarithmic score.
    """
    relative = densities / densities.max(1, keepdims=True)
    shares = np.full(densities.shape[1], 1.0 / densities.shape[1])
    for _ in range(20_000):
        ratio = (1.0 / (relative @ shares)) @ relative / len(relative)
        if np.log(ratio.max()) < gap:
            break
        shares = shares * ratio
    return shares / shares.sum()
