"""`chow_liu_tree`: the tree of levels that is closest to a table, with its probabilities, as a circuit."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.density import log_density
from pymc_spn.circuits.fitted_circuit import CircuitFit
from pymc_spn.circuits.structures.circuit import LEAF, SUM, Circuit
from pymc_spn.circuits.structures.circuit_builders import Growing, grow_states, tree_of_dependence
from pymc_spn.tables import Column, Table
from pymc_spn.tables.column import LEVEL_KINDS


def chow_liu_tree(data: Any, *, prior_rows: float = 1.0, kinds: Mapping[str, str] | None = None) -> CircuitFit:
    """Tree-shaped distribution of columns of levels, each depending on one other, with its probabilities.

    The tree is the spanning tree of largest total mutual information, less the bias of its estimate where columns are
    independent, and rooted at its centre. Given a level of its parent, a column has the shares of the rows at that
    level, with `prior_rows` rows more that have the shares of the whole column; those have as many rows more, spread
    evenly over the levels. One estimate in closed form, without a posterior.

    Parameters
    ----------
    data : DataFrame, Table, dict or array
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

    References
    ----------
    Chow and Liu (1968), doi:10.1109/TIT.1968.1054142.
    """
    if isinstance(prior_rows, bool) or not isinstance(prior_rows, Real) or not 0.0 < float(prior_rows) < np.inf:
        raise ValueError(f"prior_rows must be a positive finite number, got {prior_rows!r}")
    table = Table.from_frame(data, kinds)
    for column in table.columns:
        if column.kind not in LEVEL_KINDS:
            raise ValueError(
                f"data must have columns of levels only, {column.name!r} is {column.kind}; "
                "hidden_chow_liu_tree takes numbers, too"
            )
    parent = tree_of_dependence(table, "mutual_information", np.random.default_rng(0))  # which draws nothing
    n_levels = [_n_levels(c) for c in table.columns]
    families = ["bernoulli" if c.kind == "binary" else "categorical" for c in table.columns]
    grown = Growing(table.columns, [[f] for f in families])
    sums = grow_states(grown, parent, n_levels)
    shares = {}  # by node, in the order of its children
    for d, above in parent.items():
        given = _conditional(table.values, n_levels, d, above, float(prior_rows))
        shares |= dict(zip(sums[d], given, strict=True))
    circuit = grown.circuit()
    # the circuit counts nodes and children from the other end
    order = range(len(grown.kind) - 1, -1, -1)
    weights = np.concatenate([shares[v][::-1] for v in order if grown.kind[v] == SUM])
    parameters = _leaves(grown, [v for v in order if grown.kind[v] == LEAF], n_levels)
    return _as_fit(circuit, np.log(weights), parameters, table.values)


def _n_levels(column: Column) -> int:
    return 2 if column.kind == "binary" else len(column.levels or ())


def _conditional(values: np.ndarray, n_levels: list[int], d: int, above: int | None, rows: float) -> np.ndarray:
    """Shares (levels of the parent, levels of d); one row for the root."""
    x = values[:, d]
    counts = np.bincount(x[~np.isnan(x)].astype(np.int64), minlength=n_levels[d])
    whole = (counts + rows / n_levels[d]) / (counts.sum() + rows)
    if above is None:
        return whole[None]
    both = ~np.isnan(x) & ~np.isnan(values[:, above])
    pairs = np.zeros((n_levels[above], n_levels[d]))
    np.add.at(pairs, (values[both, above].astype(np.int64), x[both].astype(np.int64)), 1.0)
    return (pairs + rows * whole) / (pairs.sum(axis=1, keepdims=True) + rows)


def _leaves(grown: Growing, leaves: list[int], n_levels: list[int]) -> dict[str, np.ndarray]:
    """Parameters of leaves that stand at one level each: the k-th leaf made for a column at level k."""
    made: dict[int, int] = {}
    level = {}
    for v in sorted(leaves):
        level[v] = made.get(grown.column[v], 0)
        made[grown.column[v]] = level[v] + 1
    parameters = {}
    for f, family in enumerate(grown.families):
        own = [v for v in leaves if grown.family[v] == f]
        if family == "bernoulli":
            parameters[family] = np.array([[float(level[v])] for v in own])
        else:
            wide = max(n_levels[grown.column[v]] for v in own)
            parameters[family] = np.eye(wide)[[level[v] for v in own]]
    return parameters


def _as_fit(
    circuit: Circuit, log_weights: np.ndarray, parameters: dict[str, np.ndarray], rows: np.ndarray
) -> CircuitFit:
    found = float(log_density(circuit, rows, log_weights, parameters).sum())
    objective = np.array([found])
    return CircuitFit(circuit, log_weights, parameters, found, objective, True, objective)
