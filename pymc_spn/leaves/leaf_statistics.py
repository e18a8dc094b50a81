"""What leaf families share: posteriors of leaves over several columns, and checks of numbers."""

from typing import Any, NamedTuple

import numpy as np


class NormalInverseWishart(NamedTuple):
    """Sigma ~ inverse Wishart(psi, v), x's mean ~ N(mu, Sigma / k), of L leaves over d columns.

    Parameters
    ----------
    mu : (L, d) float64
    k : (L,) float64
    psi : (L, d, d) float64
    v : (L,) float64
        Above d - 1.
    """

    mu: np.ndarray
    k: np.ndarray
    psi: np.ndarray
    v: np.ndarray

    @classmethod
    def after(
        cls, n: Any, sums: np.ndarray, products: np.ndarray, psi0: np.ndarray, k0: Any, v0: Any, centre: Any = 0.0
    ) -> "NormalInverseWishart":
        """Posteriors after the rows of L leaves, under a prior around the centre from which values are counted.

        Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, equations 250 to 253.

        Parameters
        ----------
        n : (L,) array
            Number of rows.
        sums : (L, d) float64
            Of values less the centre.
        products : (L, d (d + 1) / 2) float64
            Sums of products of them: the lower triangle, one column after the other.
        psi0 : (d,) or (L, d) float64
            Diagonal of the prior's scale matrix.
        k0, v0 : float or (L,) float64
        centre : float or (d,) float64
            Of the prior.
        """
        d = sums.shape[1]
        k, v = k0 + np.asarray(n, np.float64), v0 + np.asarray(n, np.float64)
        column, row = np.triu_indices(d)  # a lower triangle by columns is the upper one by rows
        psi = np.empty((len(sums), d, d))
        psi[:, row, column] = psi[:, column, row] = products
        psi -= sums[:, :, None] * sums[:, None] / k[:, None, None]
        psi[:, np.arange(d), np.arange(d)] += psi0
        return cls(centre + sums / k[:, None], k, psi, v)


def require_positive(family: str, argument: str, value: Any) -> Any:
    """Refuse anything that is not positive and finite."""
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array > 0) & np.isfinite(array)):
        bad = array[~((array > 0) & np.isfinite(array))]
        raise ValueError(f"{family}: {argument} must be positive and finite, got {bad.flat[0]}")
    return value


def require_finite(family: str, argument: str, value: Any) -> Any:
    """Refuse NaN and infinities."""
    if not np.all(np.isfinite(np.asarray(value, dtype=np.float64))):
        raise ValueError(f"{family}: {argument} must be finite, got {value}")
    return value


def variance_of(x: np.ndarray) -> float:
    """Variance of numbers, 0 where they are equal: rounding of their mean would make a scale of its own."""
    return float(x.var()) if x.min() < x.max() else 0.0
