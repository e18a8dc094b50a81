"""Leaves from expected statistics: the maximisation step, in closed form except for gamma, beta and Weibull leaves.

The prior of a leaf is conjugate: ``rows`` observations more, with the average statistics of the leaf's column. For
levels, one row that is spread over all of them is added, so that none is impossible. The prior keeps scales and rates
within bounds, since without it the likelihood of a Gaussian leaf has none. Observations of a Laplace leaf's prior lie
at the column's median, but as far again from every place as the column's values do on average from there. The prior of
a Weibull leaf is one of its shape. Numbers of trials, the first parameters of negative binomial leaves, uniform,
triangular and hypergeometric leaves and distributions of SciPy are given and stay. The ends of uniform ones can be
learned (`fit_ends`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from pymc_spn.leaves.explicit_leaves import EXPLICIT, FITS, LEAF_FAMILIES
from pymc_spn.leaves.kernel_forms import QUADRATIC
from pymc_spn.leaves.leaf_statistics import is_count
from pymc_spn.leaves.validation import column_name
from pymc_spn.tables import Column

FITTED = (*(name for name in FITS if not EXPLICIT[name].is_flat), "categorical")
WITH_ENDS = tuple(name for name in FITS if EXPLICIT[name].is_flat)  # kept, unless their ends are to be learned
IN_PART = {name: fit.kept for name, fit in FITS.items() if fit.kept}  # of which the first parameter is kept
BY_ROWS = tuple(name for name, fit in FITS.items() if fit.of_rows is not None)  # for which all rows are needed
MAX_LEVELS = 100_000  # of a column without a schema; each leaf holds a number for each


def is_kept(family: str) -> bool:
    """Whether leaves of a family stay as they are given."""
    return LEAF_FAMILIES[family].stays_as_given or LEAF_FAMILIES[family].kernels is None


def is_centred(family: str) -> bool:
    """Whether statistics are taken about the present parameters, a mean and a standard deviation."""
    kernels = LEAF_FAMILIES[family].kernels
    return kernels is not None and kernels.form == QUADRATIC


def needs_a_start(family: str) -> bool:
    """Whether leaves have parameters that rows do not tell."""
    return family in IN_PART or is_kept(family)


class Pooled(NamedTuple):
    """Average statistics of the columns of one family's leaves, a row for each leaf.

    Parameters
    ----------
    mean, variance : (n,) float64
        As `Fit.averages` of the family has them.
    levels : (n, K) float64
        Shares of the levels; K = 0 except for categorical leaves.
    """

    mean: np.ndarray
    variance: np.ndarray
    levels: np.ndarray


def pool(
    circuit: Any, values: np.ndarray, kept: Mapping[str, np.ndarray] | None = None, learn_ends: bool = False
) -> dict[str, Pooled]:
    """Average statistics by fitted family, over the cells that it can take; `kept` by leaves of those in `IN_PART`.

    Uniform leaves are among these families where their ends are learned.

    Raises
    ------
    ValueError
        If a family is not among `FITTED` or `KEPT`, a column has no value that its leaves can take, or the average
        gives no valid leaf. Examples are a constant column under a scale, and counts that are all 0.
    """
    pooled = {}
    for family in circuit.families:
        leaves = circuit.leaves_of(family)
        with_ends = family in WITH_ENDS and learn_ends
        if leaves.size == 0 or (is_kept(family) and not with_ends):
            continue
        if family not in FITTED and not with_ends:
            known = ", ".join((*FITTED, *(name for name in LEAF_FAMILIES if is_kept(name))))
            raise ValueError(f"circuit has {family} leaves; expectation maximisation takes {known}")
        own = (kept or {}).get(family, np.full(leaves.size, np.inf))
        kinds = list(zip(circuit.leaf_column[leaves].tolist(), own.tolist(), strict=True))
        found = {(d, n): _of_column(circuit, family, d, values[:, d], n) for d, n in dict.fromkeys(kinds)}
        levels = np.zeros((leaves.size, max(f.levels.size for f in found.values())))
        for row, kind in zip(levels, kinds, strict=True):
            row[: found[kind].levels.size] = found[kind].levels
        mean, variance = (np.array([getattr(found[kind], m) for kind in kinds]) for m in ("mean", "variance"))
        pooled[family] = Pooled(mean, variance, levels)
    return pooled


def _of_column(circuit: Any, family: str, d: int, x: np.ndarray, kept: float) -> Pooled:
    """Average statistics of one column under a family, with the parameter that is kept; without the axis of leaves."""
    fit = FITS.get(family)
    u = x[possible(family, x)]
    if fit is not None and fit.is_bounded_by_kept:
        u = u[u <= kept]
    if u.size == 0:
        raise ValueError(f"observed: column {circuit.names[d]!r} has no value that its {family} leaves can take")
    if fit is None:
        n_levels = _n_levels(circuit.columns[d], u)
        shares = (np.bincount(u.astype(np.int64), minlength=n_levels) + 1.0 / n_levels) / (u.size + 1.0)
        return Pooled(np.array(np.nan), np.array(np.nan), shares)
    mean, variance = fit.averages(u, kept)
    problem = EXPLICIT[family].problem(fit.leaves(np.atleast_1d(mean), np.atleast_1d(variance)))
    if problem is not None:
        raise ValueError(
            f"observed: column {circuit.names[d]!r} has {fit.said.format(mean, variance)}, from which no {family} leaf "
            f"can be made: {problem[1]}"
        )
    return Pooled(np.asarray(mean), np.asarray(variance), np.empty(0))


def possible(family: str, x: np.ndarray) -> np.ndarray:
    """Whether leaves of a family can take each value; NaN is none."""
    fit = FITS.get(family)
    return is_count(x) if fit is None else fit.can_take(x)


def _n_levels(column: Any, codes: np.ndarray) -> int:
    """Levels of a column: the declared ones, or up to the highest code."""
    if isinstance(column, Column) and column.levels is not None:
        return len(column.levels)
    if codes.max() >= MAX_LEVELS:
        raise ValueError(
            f"observed: column {column_name(column)!r} has categorical leaves and must hold codes of levels below "
            f"{MAX_LEVELS}, got {codes.max():g}"
        )
    return int(codes.max()) + 1


def updated(
    family: str, own: np.ndarray, moments: np.ndarray, level_flow: np.ndarray, pooled: Pooled, rows: float
) -> np.ndarray:
    """Leaf parameters (n, p) of largest posterior density given the expected statistics.

    Parameters
    ----------
    family : str
        Among `FITTED`, not among `BY_ROWS`.
    own : (n, p) float64
        Parameters with which the statistics were taken; kept by leaves without any row, real or of the prior.
    moments : (3, n) float64
        As in `expected_statistics`.
    level_flow : (n, K) float64
        As in `expected_statistics`; of categorical leaves.
    pooled : Pooled
    rows : float
        Observations that the prior is worth.
    """
    fit = FITS.get(family)
    if fit is None:
        total = level_flow + rows * pooled.levels
        n = total.sum(axis=1, keepdims=True)
        return np.where(n > 0, total / np.where(n > 0, n, 1.0), own)
    found = fit.leaves(*fit.best(own, moments, rows, pooled.mean, pooled.variance))
    return np.where((moments[0] + rows > 0)[:, None], found, own)


def recentred(moments: np.ndarray, own: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Moments (3, n) of leaves with a scale, taken about their parameters ``own``, about those that are ``new``."""
    mass, total, squares = moments
    ratio, shift = own[:, 1] / new[:, 1], (own[:, 0] - new[:, 0]) / new[:, 1]
    return np.array(
        [mass, ratio * total + shift * mass, ratio * (ratio * squares + 2.0 * shift * total) + shift * shift * mass]
    )


def log_prior(family: str, own: np.ndarray, pooled: Pooled) -> float:
    """Expected log density, in nats, of one observation of the prior under each leaf, summed over the leaves.

    Without what the leaves of a column share, and what stays: log x! of counts, binomial coefficients, and the Jacobian
    of the log.
    """
    fit = FITS.get(family)
    if fit is None:
        return float(xlogy(pooled.levels, own).sum())
    return float(fit.log_prior(own, pooled.mean, pooled.variance).sum())
