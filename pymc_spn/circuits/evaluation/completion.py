"""Rows completed by a circuit with given parameters: at random, or by their moments."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_passes import (
    draw_leaves,
    log_densities_of_rows,
    node_coefficients,
    sum_and_multiply,
)
from pymc_spn.circuits.evaluation.parameters import (
    FlatParameters,
    checked_parameters,
    checked_values,
    checked_weights,
    flatten,
)
from pymc_spn.circuits.evaluation.row_moments import moments_of_rows
from pymc_spn.circuits.evaluation.wide_leaves import complete_leaves, layout_of, moments_of_parts, shares_of_parts
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.family_codes import TABULATED
from pymc_spn.leaves.kernel_forms import LINEAR, REAL
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.read_only_views import read_only_view

ROWS = 32  # at a time; the values of all nodes are held
MOST = 128  # where all of these fit into the cache
CACHE = 256 * 1024  # bytes: half of a second-level cache


class RowMoments(NamedTuple):
    """Moments of a row's missing cells given its observed ones.

    Parameters
    ----------
    mean : (n, D) float64
        Observed cells hold their value; numbers, not codes, of ordinal columns, NaN for categorical ones.
    covariance : (n, D, D) float64
        0 for observed cells; NaN for categorical columns.
    """

    mean: np.ndarray
    covariance: np.ndarray


class Parameterised:
    """A circuit with checked parameters, in the forms that the passes below need."""

    def __init__(self, circuit: Any, log_weights: Any, leaf_parameters: Mapping[str, Any]) -> None:
        self.circuit = circuit
        self.log_weights = checked_weights(circuit, log_weights)
        self.parameters = checked_parameters(circuit, leaf_parameters)
        self.layout, self.wide = layout_of(circuit)
        self.flat: FlatParameters = flatten(circuit, self.parameters)
        leaves = node_coefficients(self.layout, *map(read_only_view, self.flat))
        self._arrays = self.layout, *map(read_only_view, (self.log_weights, np.exp(self.log_weights), *leaves))
        # leaves without kernels, in the order in which the layout reads their logs; parts of leaves stand behind them
        self._tabulated = np.flatnonzero((self.layout.leaf_code == TABULATED) & (self.wide.number < 0))

    def __getstate__(self) -> dict[str, Any]:
        """Without the forms, which are made again."""
        return {"circuit": self.circuit, "log_weights": self.log_weights, "leaf_parameters": self.parameters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def log_values(self, logs: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Log values (n,) of the root from logs (K, n) of leaves, whatever is known or asked of their columns.

        The leaves read their logs as columns of a table. ``place`` (L,) is the row of each leaf in the logs, or -1: it
        reads a column without values.
        """
        n_leaves, (n_given, n) = place.size, logs.shape
        inputs = {
            "leaf_form": np.full(n_leaves, LINEAR),
            "leaf_input": np.where(place >= 0, place, n_given),
            "input_column": np.arange(n_given + 1),
            "input_reading": np.full(n_given + 1, REAL),
        }
        layout = self.layout._replace(**{name: read_only_view(array) for name, array in inputs.items()})
        coefficients = read_only_view(np.repeat([[0.0], [1.0], [0.0], [0.0], [0.0]], n_leaves, axis=1))
        table, out = read_only_view(np.column_stack([logs.T, np.full(n, np.nan)])), np.empty(n)
        size = rows_at_a_time(layout.kind.size, n)
        log_densities_of_rows(layout, *self._arrays[1:3], coefficients, self._arrays[4], table, size, out)
        return out

    def node_logs(self, logs: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Logs (V,) of all nodes of the layout from those of the leaves (K, 1)."""
        out = np.zeros((self.layout.kind.size, 1))
        out[self.layout.node_of_leaf[place >= 0]] = logs[place[place >= 0]]
        sum_and_multiply(self.layout, self._arrays[1], out, np.empty(1), np.empty(1))
        return out[:, 0].copy()

    @property
    def is_tabulated(self) -> bool:
        """Whether NumPy works out the logs of some leaves."""
        return self._tabulated.size + self.wide.nodes.size > 0

    def inputs(self, values: np.ndarray) -> tuple[Any, ...]:
        """What the kernels read: layout, log weights, weights, coefficients and table of leaves, rows.

        Behind the columns of the rows stand the logs of the leaves without kernels.
        """
        if self.is_tabulated:
            own = (self.leaf_logs(k, values) for k in self._tabulated.tolist())
            values = np.column_stack([values, *own, *shares_of_parts(self, self.wide, values)])
        return *self._arrays, read_only_view(values)

    def leaf_logs(self, k: int, values: np.ndarray) -> np.ndarray:
        """Log densities (n,) of rows under one leaf, NaN where it has nothing to say."""
        family = self.circuit.families[self.layout.leaf_family[k]]
        own = self.parameters[family][self.layout.leaf_row[k]]
        return EXPLICIT[family].log_density(own, values[:, self.layout.leaf_column[k]])

    def log_density(self, values: Any) -> np.ndarray:
        """Log densities (n,) of rows."""
        values = self.values(values)
        out = np.empty(len(values))
        log_densities_of_rows(*self.inputs(values), rows_at_a_time(self.layout.kind.size, len(values)), out)
        return out

    def values(self, values: Any) -> np.ndarray:
        """Checked rows."""
        return checked_values(self.circuit, values)

    def of_leaves(self, question: str) -> np.ndarray:
        """A number for each leaf of the layout: "mean" or "variance"; 0 for parts of leaves."""
        out = np.zeros(self.layout.leaf_row.size)
        for f, name in enumerate(self.circuit.families):
            if name in self.parameters and name in EXPLICIT:
                out[self.layout.leaf_family == f] = getattr(EXPLICIT[name], question)(self.parameters[name])
        return out

    def draw_leaves(self, values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Leaf of every column (n, D) for each row, drawn, and log densities (n,) of what is observed."""
        leaf, out = np.empty(values.shape, np.int64), np.empty(len(values))
        draw_leaves(rng, *self.inputs(values), ROWS, leaf, out)
        return leaf, out


def rows_at_a_time(n_nodes: int, n_rows: int) -> int:
    """A multiple of eight, no more than there are rows."""
    size = min(max(CACHE // (8 * n_nodes), ROWS), MOST, n_rows + LANES - 1)
    return max(size // LANES, 1) * LANES


def refuse_impossible(logs: np.ndarray) -> None:
    """Name the first row that has density zero."""
    if np.any(np.isneginf(logs)):
        raise ValueError(f"values: row {int(np.argmax(np.isneginf(logs)))} has density 0 in its observed cells")


def complete(given: Parameterised, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows with their missing cells drawn from the circuit given the observed ones."""
    leaf, logs = given.draw_leaves(values, rng)
    refuse_impossible(logs)
    out = values.copy()
    missing = np.isnan(values)
    chosen = leaf[missing]
    drawn = np.full(chosen.size, np.nan)
    for f, name in enumerate(given.circuit.families):
        at = given.layout.leaf_family[chosen] == f
        if np.any(at) and name in EXPLICIT:
            drawn[at] = EXPLICIT[name].draw(given.parameters[name][given.layout.leaf_row[chosen[at]]], rng)
    out[missing] = drawn
    complete_leaves(given, given.wide, leaf, out, rng)
    return out


def moments(given: Parameterised, values: np.ndarray, covariance: bool) -> RowMoments:
    """Means and covariances of the missing cells given the observed ones."""
    n, n_columns = values.shape
    numeric = np.ones(n_columns, np.bool_)
    origin = [c.origin if getattr(c, "kind", "") in ("ordinal", "binary") else None for c in given.circuit.columns]
    for k, f in enumerate(given.layout.leaf_family):
        d, family = given.layout.leaf_column[k], LEAF_FAMILIES[given.circuit.families[f]]
        numeric[d] &= family.column_families[given.wide.place[k]].numeric or origin[d] is not None
    bits = given.circuit.scope_bits
    scope = np.stack([(bits[:, d >> 6] >> np.uint64(d & 63)) & np.uint64(1) for d in range(n_columns)], axis=1) > 0
    parts = np.concatenate([*given.wide.columns, np.empty(0, np.int64)])
    scope = np.concatenate([scope, np.arange(n_columns) == parts[:, None]])
    nodes, scope_column = np.nonzero(scope & numeric)
    scope_ptr = np.searchsorted(nodes, np.arange(len(scope) + 1))
    alike = np.lexsort(np.isnan(values).T)  # rows with the same gaps share the work
    of_parts = moments_of_parts(given, given.wide, values[alike], covariance)
    means, out = np.empty((n, n_columns)), np.empty(n)
    covs = np.empty((n, n_columns, n_columns) if covariance else (0, 0, 0))
    moments_of_rows(
        *given.inputs(values[alike]),
        scope_ptr,
        np.ascontiguousarray(scope_column),
        given.of_leaves("mean"),
        given.of_leaves("variance"),
        *of_parts,
        numeric,
        covariance,
        ROWS,
        means,
        covs,
        out,
    )
    back = np.argsort(alike)
    refuse_impossible(out[back])
    return RowMoments(means[back] + np.array([o or 0.0 for o in origin]), covs[back] if covariance else covs)
