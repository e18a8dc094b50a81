"""What each cell of a row contributes to its log density: Shapley values over the cells that are known."""

from collections.abc import Callable, Mapping
from math import factorial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, relative
from pymc_spn.laws.law import Law
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.draw_averages import log_average, shortest_interval
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import pandas_frame, single_row

if TYPE_CHECKING:
    import xarray as xr

EXACT_COLUMNS = 10  # columns whose subsets are all visited for Shapley values
PERMUTATIONS = 200
BLOCK_ROWS = 10_000  # subsets of a row that are held as rows at a time


def explain(
    self: AskedLaw,
    row: "pd.Series | Mapping[str, object] | pd.DataFrame",
    target: str | None = None,
    prob: float = 0.94,
    n_permutations: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> "xr.Dataset":
    """Calculate what each cell contributes to the log density of its row.

    Parameters
    ----------
    row : mapping, Series or DataFrame (of pandas, polars or pyarrow) of one row
        Missing cells are left out.
    target : str, optional
        Explain log p(target's value | other cells) instead of log p(row).
    prob : float
        Mass of the highest density intervals.
    n_permutations : int, optional
        Number of random orders for the Shapley values, each used forwards and backwards. By default all subsets
        are visited for up to 10 columns; for more columns, 200 orders are drawn.
    random_seed : int, Generator or None
        Seed of the orders.
    progressbar : bool
        Whether to show a progress bar if the answer takes long.

    Returns
    -------
    Dataset
        Over ``column``. ``log_ratio`` is the loss when the cell is taken out: log v(all) - log v(all but the cell).
        ``shapley`` is the average of that over all orders in which cells become known. The values add up to ``total``
        less ``baseline``. ``hdi`` is the interval of the Shapley values over draws, each with weights and leaf
        parameters drawn. Marginals are exact: nothing is imputed for the cells left out.

    Examples
    --------
    >>> list(post.explain(df.iloc[0]).data_vars)
    ['log_ratio', 'shapley', 'hdi', 'total', 'baseline']
    """
    import xarray as xr

    check_prob(prob)
    law, values = self._law, _one_row(self, row)
    features = [d for d in range(values.size) if not np.isnan(values[d])]
    goal = None
    if target is not None:
        goal = self._number("target", target)
        if goal not in features:
            raise ValueError(f"row must hold a value of the target {target!r}, it is missing")
        features.remove(goal)
    if not features:
        raise ValueError("row must hold at least one observed cell besides the target")
    m = len(features)
    if n_permutations is None and m <= EXACT_COLUMNS:
        coalitions = _all_subsets(m)
        orders = 0
    else:
        orders = PERMUTATIONS if n_permutations is None else n_permutations
        if isinstance(orders, bool) or not isinstance(orders, int | np.integer) or orders < 2:
            raise ValueError(f"n_permutations must be an integer of at least 2, got {quoted(n_permutations)}")
        coalitions = _some_orders(m, int(orders), np.random.default_rng(random_seed))
    with counted("Taking cells out of the row", progressbar):
        mixture, each = _worths(law, values, features, goal, coalitions.subsets)
        if self._drawn is not self:
            each = _worths(self._drawn._law, values, features, goal, coalitions.subsets)[1]
    full, nothing = len(coalitions.subsets) - 1, 0
    gains = coalitions.gains(mixture)
    own = np.array([coalitions.gains(worth).mean(axis=0) for worth in each])
    weight = relative(law)
    weight = weight / weight.sum()
    bounds = np.array([shortest_interval(own[:, i], weight, prob) for i in range(m)])
    note = "no mcse_chain: hdi says how far the draws disagree"
    attrs = self._attrs(mcse_chain_note=note, **self._cell_mark(), **self._weight_mark(law))
    marked = dict(attrs)
    if orders:
        error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
        marked = self._attrs(**(attrs | {"exactness": "monte-carlo", "mcse": error}))
    return xr.Dataset(
        {
            "log_ratio": ("column", mixture[full] - mixture[coalitions.all_but_one], attrs),
            "shapley": ("column", gains.mean(axis=0), marked),
            "hdi": (("column", "bound"), bounds, {**marked, "prob": prob}),
            "total": ((), mixture[full], attrs),
            "baseline": ((), mixture[nothing], attrs),
        },
        {"column": [self.columns[d].name for d in features], "bound": ["lower", "upper"]},
        {k: marked[k] for k in ("exactness", "learner", "tolerance") if k in marked}
        | ({} if goal is None else {"target": self.columns[goal].name}),
    )


def _one_row(self: AskedLaw, row: Any) -> np.ndarray:
    """Values (D,) of a row that is possible."""
    row = single_row(pandas_frame(row, "row"))
    if not isinstance(row, pd.DataFrame):
        raise TypeError(f"row must be a mapping, a Series or a DataFrame of one row, got {type(row).__name__}")
    if len(row) != 1:
        raise ValueError(f"row must hold one row, got {len(row)}")
    values = self._table(row).values
    if (self._law.log_density(values, cells=True)[:, 0] + self._law.log_weights).max() == -np.inf:
        self._law.refuse_row("row", values[0])
    return values[0]


def _worths(
    law: Law, values: np.ndarray, features: list[int], goal: int | None, subsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log v of subsets (K, m) of the features, under the mixture (K,) and under each draw (S, K)."""
    base = np.zeros((law.n_circuits, len(subsets)))
    logs = np.empty(base.shape)
    for start in range(0, len(subsets), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        rows = np.full((len(subsets[part]), values.size), np.nan)
        rows[:, features] = np.where(subsets[part], values[features], np.nan)
        logs[:, part] = law.log_density(rows, cells=True)
        if goal is not None:
            base[:, part] = logs[:, part]
            rows[:, goal] = values[goal]
            logs[:, part] = law.log_density(rows, cells=True)
    with np.errstate(invalid="ignore"):
        return log_average(law.log_weights, logs) - log_average(law.log_weights, base), logs - base


class _Coalitions(NamedTuple):
    """Subsets of m features whose worth gives the Shapley values."""

    subsets: np.ndarray  # (K, m) bool, the empty one first and the full one last
    all_but_one: np.ndarray  # (m,) numbers of the subsets that lack one feature
    gains: Callable[[np.ndarray], np.ndarray]  # (n, m) from worths (K,): their average is the Shapley values


def _all_subsets(m: int) -> _Coalitions:
    """All subsets, with one row of gains, which are the Shapley values."""
    number = np.arange(2**m)
    subsets = (number[:, None] >> np.arange(m)) & 1 == 1
    size = subsets.sum(axis=1)
    with_it = np.array([factorial(max(k - 1, 0)) * factorial(m - k) / factorial(m) for k in range(m + 1)])
    without = np.array([factorial(k) * factorial(max(m - k - 1, 0)) / factorial(m) for k in range(m + 1)])
    coefficient = np.where(subsets, with_it[size][:, None], -without[size][:, None]).T
    return _Coalitions(subsets, 2**m - 1 - 2 ** np.arange(m), lambda worth: (coefficient @ worth)[None])


def _some_orders(m: int, n: int, rng: np.random.Generator) -> _Coalitions:
    """Subsets along random orders and their reverses, with a row of gains for each order, both ways averaged."""
    orders = np.array([rng.permutation(m) for _ in range(n)])
    orders = np.concatenate([orders, orders[:, ::-1]])
    place = np.argsort(orders, axis=1)  # (2n, m) of each feature in the order
    along = (place[:, None] <= np.arange(m)[:, None]).reshape(-1, m)  # what is known after each step
    ends = np.zeros((1, m), np.bool_), ~np.eye(m, dtype=np.bool_)
    subsets, number = np.unique(np.concatenate([*ends, along]), axis=0, return_inverse=True)
    number = number.ravel()
    after = np.take_along_axis(number[m + 1 :].reshape(2 * n, m), place, axis=1)
    before = np.concatenate([np.full((2 * n, 1), number[0]), number[m + 1 :].reshape(2 * n, m)[:, :-1]], axis=1)
    before = np.take_along_axis(before, place, axis=1)

    def gains(worth: np.ndarray) -> np.ndarray:
        both = worth[after] - worth[before]
        return 0.5 * (both[:n] + both[n:])

    return _Coalitions(subsets, number[1 : m + 1], gains)
