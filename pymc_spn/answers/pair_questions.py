"""How columns depend on each other: mutual information of every pair, with its uncertainty over the circuits."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.asked_law import AskedLaw, Given
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.draw_averages import even_choice, relative_weights
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.weighted_intervals import shortest_interval

if TYPE_CHECKING:
    import xarray as xr


def dependence(
    self: AskedLaw,
    given: Given = None,
    prob: float = 0.94,
    threshold: float = 0.01,
    per_draw: bool = False,
    max_draws: int | None = 200,
    progressbar: bool = True,
) -> "xr.Dataset | xr.DataArray":
    """Mutual information of every pair of columns, with its uncertainty over draws.

    Parameters
    ----------
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    prob : float
        Mass of the highest density interval.
    threshold : float
        In nats, of ``p_dependent``.
    per_draw : bool
        Whether each draw's table is wanted; all draws are then used.
    max_draws : int or None
        Draws that are used, evenly spaced; None for all.
    progressbar : bool
        Whether a bar shows how far the answer is, if it lasts.

    Returns
    -------
    Dataset
        ``mutual_information`` (column, other), the mean of the draws' own; ``hdi`` (column, other, bound);
        ``p_dependent`` (column, other), the probability that it exceeds the threshold. The diagonal is NaN:
        a continuous column has infinite information about itself.

    Examples
    --------
    >>> list(post.dependence(max_draws=5).data_vars)
    ['mutual_information', 'hdi', 'p_dependent']
    """
    self = self._each_draw(per_draw)
    import xarray as xr

    check_prob(prob)
    if not threshold >= 0.0:
        raise ValueError(f"threshold must be at least 0, got {quoted(threshold)}")
    law = self._known(given).law
    if len(law.columns) < 2:
        raise ValueError("dependence needs at least two columns that are not known")
    n_chains = len(law.marks.chains)
    used = np.arange(law.n_circuits)
    if max_draws is not None and not per_draw:
        if isinstance(max_draws, bool) or not isinstance(max_draws, int | np.integer) or max_draws < 1:
            raise ValueError(f"max_draws must be an integer of at least 1 or None, got {quoted(max_draws)}")
        length = law.n_circuits // n_chains  # alike in every chain
        within = even_choice(length, max_draws // n_chains)
        used = (np.arange(n_chains)[:, None] * length + within).ravel()
    side = len(law.columns)
    refuse_memory(
        f"dependence of {side:,} columns in {used.size:,} draws",
        4.0 * used.size * side * (side - 1) + 40.0 * side**2,
        "ask post.marginal([...]) of some columns, or lower max_draws",
    )
    with counted("Comparing pairs of columns", progressbar):
        tables, tolerance = law.informations(used)
    names = [column.name for column in law.columns]
    coords = {"column": names, "other": names}
    attrs: dict[str, Any] = {"exactness": "exact"}
    if any(column.levels is None for column in law.columns):
        attrs = {"exactness": "numerical", "tolerance": tolerance}
    if per_draw:
        return self._labelled("mutual_information", _both_ways(tables, side, np.nan), coords, True, **attrs)
    weight = relative_weights(law.log_weights[used])
    weight = weight / weight.sum()
    mean = weight @ tables
    bounds = np.array([shortest_interval(each, weight, prob) for each in tables.T])
    above = np.where(np.isnan(mean), np.nan, weight @ (tables > threshold))
    labels = {**coords, "bound": ["lower", "upper"]}
    error = self._error(used.size * weight[:, None] * np.nan_to_num(tables - mean))
    if "mcse_chain" in error:
        error["mcse_chain"] = _both_ways(error["mcse_chain"], side, 0.0)
    mean, above = _both_ways(mean, side, np.nan), _both_ways(above, side, np.nan)
    bounds = np.moveaxis(_both_ways(bounds.T, side, np.nan), 0, 2)
    attrs = self._attrs(
        **attrs, **self._weight_mark(law), **self._draws_mark(used.size), n_draws=int(used.size), **error
    )
    disagree = {k: v for k, v in attrs.items() if not k.startswith("mcse_chain")}
    disagree = self._attrs(**disagree, mcse_chain_note="no mcse_chain: it is that of mutual_information")
    return xr.Dataset(
        {
            "mutual_information": (("column", "other"), mean, attrs),
            "hdi": (("column", "other", "bound"), bounds, {**disagree, "prob": prob}),
            "p_dependent": (("column", "other"), above, {**disagree, "threshold": threshold}),
        },
        labels,
        {k: attrs[k] for k in ("exactness", "learner", "tolerance") if k in attrs},
    )


def _both_ways(pairs: np.ndarray, side: int, diagonal: float) -> np.ndarray:
    """Tables (..., D, D) of what is known of all pairs (..., D (D - 1) / 2)."""
    table = np.full((*pairs.shape[:-1], side, side), diagonal)
    first, second = np.triu_indices(side, 1)
    table[..., first, second] = table[..., second, first] = pairs
    return table
