"""Inner products of leaves: the integral, or sum, of the product of two densities or masses of one column."""

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_integrals import log_integrals, log_sums


def log_inner_products(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[np.ndarray, float]:
    """Log of the integral (sum over values) of the product of two leaves, for all pairs.

    In closed form for two Gaussian, log-normal or exponential leaves, and Gaussian with exponential ones. So are two
    geometric or Poisson leaves, geometric ones with Poisson, binomial and negative binomial ones, and leaves with
    finitely many values. Others are by quadrature, or by sums until the rest is below the rounding.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`, both of densities or both of masses.
    p, q : (n, k) and (m, l) float64
        Parameters.

    Returns
    -------
    (n, m) float64 and float
        In nats, ``-inf`` where the supports do not meet and ``inf`` where the integral does not converge; and the
        largest relative error, 0 in closed form.
    """
    own, others = EXPLICIT[family], EXPLICIT[other]
    turned = family in others.inner_products and other not in own.inner_products
    if turned or (others.is_flat and not own.is_flat and other not in own.inner_products):
        logs, error = log_inner_products(other, q, family, p)
        return logs.T, error
    left, right = p[:, None, :], q[None, :, :]
    if other in own.inner_products:
        return own.inner_products[other](left, right), 0.0
    if own.is_flat:
        return log_interval(other, right, left[..., 0], left[..., 1]) - np.log(left[..., 1] - left[..., 0]), 0.0
    row, column = (i.ravel() for i in np.indices((len(p), len(q))))
    if own.is_density:
        logs = np.full(row.size, np.inf)
        finite = ~_diverges(own, p[row], others, q[column])
        pairs = p[row[finite]], q[column[finite]]
        logs[finite], error = log_integrals(family, pairs[0], other, pairs[1])
    else:
        n_values = min(np.inf if f.n_values is None else float(f.n_values(r)) for f, r in ((own, p), (others, q)))
        logs, error = log_sums(family, p[row], other, q[column], None if np.isinf(n_values) else int(n_values))
    return logs.reshape(len(p), len(q)), error


def _diverges(family: UnivariateFamily, p: np.ndarray, other: UnivariateFamily, q: np.ndarray) -> np.ndarray:
    """Pairs whose densities both grow too quickly towards 0.

    One without a bound there like 1 / (x |log x|^(v + 1)), others like a power of x.
    """
    if family.grows_at_zero or other.grows_at_zero:
        rest, theirs = (other, q) if family.grows_at_zero else (family, p)
        if rest.exponent_at_zero is not None:
            return rest.exponent_at_zero(theirs) < 1.0
        return np.full(len(p), rest.grows_at_zero)
    if family.exponent_at_zero is not None and other.exponent_at_zero is not None:
        return family.exponent_at_zero(p) + other.exponent_at_zero(q) <= 1.0
    return np.zeros(len(p), np.bool_)
