"""`chow_liu_tree`: the tree of levels that is closest to a table, with its probabilities, as a circuit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.structures.circuit import SUM
from pymc_spn.circuits.structures.circuit_builders import Growing, grow_states, tree_of_dependence
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, Table, read_table
from pymc_spn.tables.column import LEVEL_KINDS
from pymc_spn.tables.inputs import TableLike


def chow_liu_tree(data: TableLike, *, prior_rows: float = 1.0, kinds: Mapping[str, str] | None = None) -> CircuitFit:
    """Tree-shaped distribution of columns of levels, each depending on one other, with its probabilities.

    The tree is the spanning tree of largest total mutual information, less the bias of its estimate where columns are
    independent, and rooted at its centre. Given a level of its parent, a column has the shares of the rows at that
    level, with `prior_rows` rows more that have the shares of the whole column. The whole column has as many rows more,
    spread evenly over the levels. One estimate in closed form, without a posterior.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes, binary and categorical columns. Rows with a gap in one of two columns are left
        out of what these two say of each other; `fit_em` with ``leaf_prior_rows=0``, started here, sums gaps out.
    prior_rows : float
        Positive, so that no level becomes impossible.
    kinds : dict, optional
        As in `Table.from_frame`.

    Returns
    -------
    CircuitFit
        The circuit has a sum for each column and level of its parent; its leaves stand at one level each.

    Raises
    ------
    ValueError
        For columns of numbers, data that `Table.from_frame` refuses, and `prior_rows` that are not positive.

    Examples
    --------
    >>> jobs = pd.DataFrame({"job": full["job"], "old": full["age"] > 45})
    >>> found = ps.circuits.chow_liu_tree(jobs)
    >>> found.probability({"job": "clerk"}, given={"old": True}).round(1).item()
    0.9

    References
    ----------
    Chow and Liu (1968), doi:10.1109/TIT.1968.1054142.
    """
    rows = positive("prior_rows", prior_rows)
    table, n_levels = table_of_levels(data, kinds)
    parent = tree_of_dependence(table, "mutual_information", np.random.default_rng(0))  # which draws nothing
    grown = GrowingLevels(table.columns)
    sums = grow_states(grown, parent, n_levels)
    shares: dict[int, np.ndarray] = {}
    for d, above in parent.items():
        counts, pairs = _counts(table.values, n_levels, d, above)
        shares |= dict(zip(sums[d], shares_given_parent(counts, pairs, rows), strict=True))
    return grown.fit(shares, table.values)


def positive(name: str, value: Any) -> float:
    """The value, refused unless it is a positive finite number."""
    if not is_real(value) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {quoted(value)}")
    return float(value)


def table_of_levels(data: Any, kinds: Mapping[str, str] | None) -> tuple[Table, list[int]]:
    """The data coded, and how many levels each column has; columns of numbers are refused."""
    table = read_table(data, kinds)
    for column in table.columns:
        if column.kind not in LEVEL_KINDS:
            raise ValueError(
                f"data must have columns of levels only, {column.name!r} is {column.kind}; "
                "hidden_chow_liu_tree takes numbers, too"
            )
    return table, [2 if c.kind == "binary" else len(c.levels or ()) for c in table.columns]


def shares_given_parent(counts: np.ndarray, pairs: np.ndarray | None, rows: float) -> np.ndarray:
    """Shares of levels (levels of the parent, levels), one row without a parent, with prior rows as `chow_liu_tree`.

    Parameters
    ----------
    counts : (K,) float64
        Of the column.
    pairs : (levels of the parent, K) float64 or None
        Of the column with its parent.
    rows : float
        Prior rows.
    """
    whole = (counts + rows / counts.size) / (counts.sum() + rows)
    if pairs is None:
        return whole[None]
    return (pairs + rows * whole) / (pairs.sum(axis=1, keepdims=True) + rows)


def _counts(values: np.ndarray, n_levels: list[int], d: int, above: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    x = values[:, d]
    counts = np.bincount(x[~np.isnan(x)].astype(np.int64), minlength=n_levels[d]).astype(np.float64)
    if above is None:
        return counts, None
    both = ~np.isnan(x) & ~np.isnan(values[:, above])
    pairs = np.zeros((n_levels[above], n_levels[d]))
    np.add.at(pairs, (values[both, above].astype(np.int64), x[both].astype(np.int64)), 1.0)
    return counts, pairs


class GrowingLevels(Growing):
    """Nodes over columns of levels whose leaves stand at one level each: leaf k of a column at level k, made once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(columns, [["bernoulli" if c.kind == "binary" else "categorical"] for c in columns])
        self.made: dict[tuple[int, int], int] = {}

    def leaf(self, column: int, i: int) -> int:
        """The leaf of a column at level i."""
        if (column, i) not in self.made:
            self.made[column, i] = super().leaf(column, i)
        return self.made[column, i]

    def fit(
        self, shares: Mapping[int, np.ndarray], rows: np.ndarray, objective: np.ndarray | None = None
    ) -> CircuitFit:
        """The circuit with its weights and leaves, as a fit.

        Parameters
        ----------
        shares : mapping of int to (n_children,) float64
            Weights of each sum, in the order of its children.
        rows : (N, D) float64
            Whose log likelihood the fit has.
        objective : (steps + 1,) float64, optional
            By default that log likelihood.
        """
        circuit = self.circuit()
        # the circuit counts nodes and children from the other end
        order = range(len(self.kind) - 1, -1, -1)
        log_weights = np.log(np.concatenate([shares[v][::-1] for v in order if self.kind[v] == SUM]))
        level = {v: k for (_, k), v in self.made.items()}
        parameters = {}
        for f, family in enumerate(self.families):
            own = [v for v in order if self.family[v] == f]
            if family == "bernoulli":
                parameters[family] = np.array([[float(level[v])] for v in own])
            else:
                wide = max(len(self.columns[self.leaf_columns[v][0]].levels) for v in own)
                parameters[family] = np.eye(wide)[[level[v] for v in own]]
        found = float(Parameterised(circuit, log_weights, parameters).log_density(rows).sum())
        path = np.array([found]) if objective is None else objective
        return CircuitFit(circuit, log_weights, parameters, found, path, True, path[-1:])
