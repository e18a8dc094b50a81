"""Rubin's rules: one estimate, with its uncertainty, from the estimates of completed tables."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from pymc_spn.numerics.asked_numbers import check_prob, is_real
from pymc_spn.numerics.marks import GIVEN_TABLES, limited
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES

if TYPE_CHECKING:
    import xarray as xr

SHARED_MODEL = (
    "completed tables that share one model, or in which each row has its own draw, differ too little: errors pooled "
    "from them are too small. Use [one.impute(df) for one in post.draw_circuits(20)]"
)
RULE = "estimate must return estimates and their variances, or the covariance matrix of the estimates"


def pool_estimates(
    tables: Sequence[Any],
    estimate: Callable[[Any], tuple[Any, Any]],
    *,
    complete_dof: float = np.inf,
    prob: float = 0.95,
) -> "xr.Dataset":
    """Combine the estimates from completed tables by Rubin's rules.

    Let q be the estimates and u their variances in each of m tables. The pooled estimate is the mean of q. Its variance
    is T = W + (1 + 1/m) B, where W is the mean of u (within tables) and B the variance of q (between tables). These are
    equations 3.1.2 to 3.1.5 of Rubin (1987). Intervals are those of Student's t distribution with the degrees of
    freedom of Barnard and Rubin (1999), equations 3 to 5.

    The rules require that the tables differ in everything that is uncertain, including the model. Draw each table from
    its own circuit: ``[one.impute(df) for one in post.draw_circuits(20)]``. In the tables of `impute`, each row has its
    own draw, so B is too small if many cells are missing.

    Parameters
    ----------
    tables : sequence of m completed tables
        At least two; 20 or more for intervals. Each is given to `estimate` as it is.
    estimate : callable
        Takes a table and returns a pair: the estimates (K,), and their variances (K,) or covariance matrix (K, K). A
        Series or mapping names the estimates; a single number is allowed.
    complete_dof : float
        Degrees of freedom of the estimate in a table without gaps, such as N - K in a regression. Infinite for large
        tables.
    prob : float
        Probability of the intervals.

    Returns
    -------
    Dataset
        Over ``parameter``: ``estimate``, with ``attrs["mcse"]``, the error that comes from m being finite;
        ``std_error``, the root of ``total``; ``within``, ``between`` and ``total`` variances; ``dof``;
        ``fraction_missing``, the share of the information that the gaps cost, between 0 and 1; ``low`` and ``high``,
        the interval. If `estimate` returns covariance matrices, also ``covariance`` (parameter, parameter_other), by
        the same rule.

    Raises
    ------
    TypeError, ValueError
        If there are fewer than two tables or one has missing cells. If `estimate` returns other names in another table,
        numbers that are not finite, variances that are not positive, or a matrix that is not a covariance.

    Warns
    -----
    UserWarning
        If tables come from `impute` of a whole posterior, or several from one call.

    References
    ----------
    .. [1] Rubin (1987), Multiple Imputation for Nonresponse in Surveys, doi:10.1002/9780470316696.
    .. [2] Barnard and Rubin (1999), Small-sample degrees of freedom with multiple imputation, Biometrika 86,
       doi:10.1093/biomet/86.4.948.

    Examples
    --------
    >>> tables = [one.impute(df, random_seed=1) for one in post.draw_circuits(20, random_seed=1)]
    >>> def mean_age(table):
    ...     return {"age": table["age"].mean()}, table["age"].var() / len(table)
    >>> pooled = ps.pool_estimates(tables, mean_age, complete_dof=79)
    >>> pooled["estimate"].sel(parameter="age").round(0).item()
    45.0
    """
    import xarray as xr

    if isinstance(tables, str | Mapping) or not isinstance(tables, Sequence) or len(tables) < 2:
        got = len(tables) if isinstance(tables, list | tuple) else f"one {type(tables).__name__}"
        raise ValueError(
            "tables must be a list of at least two completed tables, such as "
            f"[one.impute(df) for one in post.draw_circuits(20)]; got {got}"
        )
    for k, table in enumerate(tables):
        if isinstance(table, pd.DataFrame) and (gaps := table.isna().any()).any():
            named = quoted(str(gaps.idxmax()))
            raise ValueError(f"tables must be completed: tables[{k}] has missing cells in column {named}")
    if any(isinstance(table, pd.DataFrame) and "pooling_note" in table.attrs for table in tables):
        warnings.warn(SHARED_MODEL, UserWarning, skip_file_prefixes=OWN_FILES)
    if not is_real(complete_dof) or not complete_dof > 0:
        raise ValueError(f"complete_dof must be a positive number, got {quoted(complete_dof)}")
    check_prob(prob)
    found = [_numbers(f"tables[{k}]", estimate(table)) for k, table in enumerate(tables)]
    names, m = found[0][0], len(found)
    labels = [str(name) if isinstance(name, tuple) else name for name in names]  # of a MultiIndex
    for k, (others, _, spread) in enumerate(found):
        if others != names or spread.shape != found[0][2].shape:
            raise ValueError(
                f"estimate must return the same parameters for all tables: {quoted(names)} in tables[0], "
                f"{quoted(others)} in tables[{k}]"
            )
    q, u = np.stack([one[1] for one in found]), np.mean([one[2] for one in found], axis=0)
    covariance = np.cov(q, rowvar=False, ddof=1).reshape(len(names), len(names))
    within, between = (u if u.ndim == 1 else np.diag(u)), np.diag(covariance)
    total = within + (1.0 + 1.0 / m) * between
    share = (1.0 + 1.0 / m) * between / total
    of_observed = np.zeros(len(names))  # inverse of the degrees of freedom that the observed cells leave
    if np.isfinite(complete_dof):
        of_observed = (complete_dof + 3.0) / ((complete_dof + 1.0) * complete_dof * (1.0 - share))
    with np.errstate(divide="ignore"):  # estimates that are the same in all tables
        dof = 1.0 / (share**2 / (m - 1.0) + of_observed)
    half = student.ppf(0.5 + prob / 2.0, dof) * np.sqrt(total)
    mean, mark = q.mean(axis=0), {"exactness": limited("exact", GIVEN_TABLES)}
    pooled = {
        "std_error": np.sqrt(total),
        "within": within,
        "between": between,
        "total": total,
        "dof": dof,
        "fraction_missing": share + (1.0 - share) * 2.0 / (dof + 3.0),
        "low": mean - half,
        "high": mean + half,
    }
    error = mark | {"mcse": np.sqrt(between / m)}
    answer = xr.Dataset(
        {"estimate": ("parameter", mean, error), **{k: ("parameter", v, mark) for k, v in pooled.items()}},
        {"parameter": labels},
        mark | {"n_tables": m, "prob": prob},
    )
    if u.ndim == 1:
        return answer
    both = ("parameter", "parameter_other"), u + (1.0 + 1.0 / m) * covariance, mark
    return answer.assign_coords(parameter_other=labels).assign(covariance=both)


def _numbers(place: str, returned: Any) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Names, estimates (K,) and variances (K,) or covariance matrix (K, K) that were estimated in one table."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = (
            f"{type(returned).__name__} of {len(returned)}" if isinstance(returned, list | tuple) else quoted(returned)
        )
        raise TypeError(f"{RULE}, as a pair (tuple of two); for {place} it returned {got}")
    q, u = (pd.Series(x) if isinstance(x, Mapping) else x for x in returned)
    names = list(q.index) if isinstance(q, pd.Series) else list(range(np.size(q)))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{RULE}, at least one and with distinct names; for {place} got {quoted(names)}")
    for labelled in (u.axes if isinstance(u, pd.Series | pd.DataFrame) else []) if isinstance(q, pd.Series) else []:
        if list(labelled) != names:
            raise ValueError(f"{RULE} in the same order; for {place} {quoted(names)} and {quoted(list(labelled))}")
    try:
        estimates, spread = np.asarray(q, np.float64).reshape(-1), np.asarray(u, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{RULE}; for {place} they are no numbers") from error
    spread = spread.reshape(-1) if spread.ndim < 2 else spread
    if spread.shape not in ((len(names),), (len(names), len(names))):
        raise ValueError(f"{RULE}; for {place} shapes are {estimates.shape} and {spread.shape}")
    variances = spread if spread.ndim == 1 else np.diag(spread)
    if spread.ndim == 2 and np.isfinite(spread).all():
        rounding = 1e-8 * np.abs(spread).max()  # of matrices that other libraries inverted
        if np.abs(spread - spread.T).max() > rounding or np.linalg.eigvalsh(spread)[0] < -rounding:
            raise ValueError(f"{RULE}; for {place} the matrix is no covariance: not symmetric or not positive")
    bad = ~(np.isfinite(estimates) & np.isfinite(variances) & (variances > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"estimates must be finite and their variances positive: {quoted(names[k])} in {place} has the estimate "
            f"{estimates[k]} and the variance {variances[k]}"
        )
    return names, estimates, spread
