"""What leaf families share: constants of a column, sufficient statistics, conjugate parameters."""

from typing import Any, NamedTuple

import numpy as np


class LeafConstants(NamedTuple):
    """What a leaf prior takes from its column, frozen when the network is built.

    Parameters
    ----------
    mean, variance : float or array
        In the units of the column and their square; NaN where the family uses none.
    resolution : float or array
        Smallest step between recorded values, 0 for none.
    n_levels : int
        Levels of a binary or categorical column.
    """

    mean: Any = np.nan
    variance: Any = np.nan
    resolution: Any = 0.0
    n_levels: int = 0


class Moments(NamedTuple):
    """Sufficient statistics of a set of values, in the form that does not cancel.

    Parameters
    ----------
    n : array
        Number of values.
    mean : array
        Their mean, 0 if there are none.
    ssd : array
        Sum of squared deviations from the mean.
    log_base : array
        Sum of the parts of the log likelihood without parameters (Poisson: minus the sum of log x!).
    """

    n: Any
    mean: Any
    ssd: Any = 0.0
    log_base: Any = 0.0


class NormalGamma(NamedTuple):
    """tau ~ Gamma(a, rate b), x's mean ~ N(mu, 1 / (rho tau))."""

    mu: Any
    rho: Any
    a: Any
    b: Any


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


class GammaRate(NamedTuple):
    """rate ~ Gamma(alpha, rate beta)."""

    alpha: Any
    beta: Any


class DirichletLevels(NamedTuple):
    """probabilities ~ Dirichlet(alpha), levels on the last axis."""

    alpha: Any


def observed_values(family: str, values: Any) -> np.ndarray:
    """The values of a column without its missing cells; refused if none is left or one is infinite."""
    x = np.asarray(values, dtype=np.float64).ravel()
    x = x[~np.isnan(x)]
    if x.size == 0:
        raise ValueError(
            f"{family}: the column must have an observed value to take prior constants from, all are missing"
        )
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{family}: values must be finite, got {x[~np.isfinite(x)][0]}")
    return x


def moments(values: Any) -> Moments:
    """Moments along the last axis by two passes, NaN left out."""
    x = np.asarray(values, dtype=np.float64)
    seen = ~np.isnan(x)
    n = seen.sum(axis=-1).astype(np.float64)
    mean = np.where(seen, x, 0.0).sum(axis=-1) / np.maximum(n, 1.0)
    deviation = np.where(seen, x - mean[..., None], 0.0)
    mean = mean + deviation.sum(axis=-1) / np.maximum(n, 1.0)  # the second pass also mends the mean
    deviation = np.where(seen, x - mean[..., None], 0.0)
    return Moments(n, mean, (deviation**2).sum(axis=-1))


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


def require_where(family: str, rule: str, values: Any, allowed: np.ndarray) -> None:
    """Refuse values outside the support of a family, NaN excepted; names the first and its place."""
    x = np.asarray(values, dtype=np.float64)
    wrong = ~np.isnan(x) & ~allowed
    if np.any(wrong):
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = place[0] if x.ndim == 1 else place
        raise ValueError(f"{family}: values must be {rule}, got {x[place]} at position {where}")


def variance_of(x: np.ndarray) -> float:
    """Variance of numbers, 0 where they are equal: rounding of their mean would make a scale of its own."""
    return float(x.var()) if x.min() < x.max() else 0.0


def is_count(x: Any) -> np.ndarray:
    """Which values are 0, 1, 2, .."""
    x = np.asarray(x, dtype=np.float64)
    return (x >= 0) & (x == np.floor(x)) & np.isfinite(x)
