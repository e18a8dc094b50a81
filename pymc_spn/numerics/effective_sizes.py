"""Effective sample sizes of many averages over chains at once."""

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

BLOCK_VALUES = 1_000_000  # values whose errors are taken at a time (8 MB)


def mean_errors(values: np.ndarray) -> np.ndarray:
    """Standard errors (...) of means over draws (chain, draw, ...), NaN where they are not defined.

    Those of ``array_stats.mcse(method="mean")``.
    """
    flat = values.reshape(*values.shape[:2], -1)
    out = np.empty(flat.shape[2])
    step = max(1, BLOCK_VALUES // max(flat.shape[0] * flat.shape[1], 1))
    for start in range(0, out.size, step):
        part = flat[:, :, start : start + step].astype(np.float64)
        with np.errstate(all="ignore"):
            out[start : start + step] = part.std(axis=(0, 1), ddof=1) / np.sqrt(effective_sizes(part))
    return out.reshape(values.shape[2:])


def effective_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sample sizes (M,) of means over draws (chain, draw, M), NaN where they are not defined.

    What ``array_stats.ess(method="mean")`` of arviz_stats has for each column, which takes them one by one, a fifth of
    a millisecond to a millisecond each. Answers about whole tables have as many errors as cells.

    References
    ----------
    Vehtari et al. (2021), Rank-normalization, folding, and localization, doi:10.1214/20-BA1221, section 3; Geyer
    (1992), Practical Markov chain Monte Carlo, doi:10.1214/ss/1177011137, section 3.3.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    halves = np.ascontiguousarray(np.moveaxis(halves, 2, 0))  # (M, 2 chains, half)
    size = halves.shape[1] * half
    constant = np.ptp(halves, axis=(1, 2)) < np.finfo(np.float64).resolution
    with np.errstate(all="ignore"):  # what is not defined is NaN
        mean = halves.mean(axis=2)
        length = next_fast_len(2 * half, real=True)
        spectrum = rfft(halves - mean[:, :, None], n=length, axis=2)
        power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)  # of the chains together
        within = irfft(power, n=length, axis=1)[:, :half] / half  # (M, half), autocovariances
        variance = within[:, 0] * half / (half - 1.0)
        rho = 1.0 - (variance[:, None] - within) / (within[:, 0] + mean.var(axis=1, ddof=1))[:, None]
    rho[:, 0] = 1.0
    n_pairs = max((half - 3) // 2, 0) + 1
    pairs = rho[:, : 2 * n_pairs].reshape(len(rho), n_pairs, 2).sum(axis=2)
    stops = ~(pairs > 0.0)
    stops[:, -1] = True
    last = stops.argmax(axis=1)  # pairs before it are positive, and made to fall
    falling = np.minimum.accumulate(pairs, axis=1)
    each = np.arange(len(rho))
    summed = np.where(np.arange(n_pairs) < last[:, None], falling, 0.0).sum(axis=1)
    even = rho[each, 2 * last]
    tau = 2.0 * summed - 1.0 + np.where((even > 0.0) | (pairs[each, last] >= 0.0), even, 0.0)
    ess = size / np.maximum(tau, 1.0 / np.log10(size))
    return np.where(constant, size, np.where(np.isnan(rho).any(axis=1), np.nan, ess))
