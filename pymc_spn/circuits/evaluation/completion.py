"""Rows completed by a circuit with given parameters: at random, in the best way, or by their moments."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.density import Evaluator, checked_dtype, compile_circuit
from pymc_spn.circuits.evaluation.gradient import log_densities_and_gradient
from pymc_spn.circuits.evaluation.node_values import sum_and_multiply
from pymc_spn.circuits.evaluation.parameters import (
    FlatParameters,
    check_support,
    checked_parameters,
    checked_values,
    checked_weights,
    flatten,
)
from pymc_spn.circuits.evaluation.row_draws import best_leaves, draw_leaves, logs_with_peaks
from pymc_spn.circuits.evaluation.row_moments import moments_of_rows
from pymc_spn.circuits.evaluation.wide_leaves import complete_leaves, logs_of_parts, moments_of_parts
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.family_codes import TABULATED
from pymc_spn.numerics.read_only_views import read_only_view

ROWS = 32  # at a time; the values of all nodes are held
POLISHING_STEPS = 200
CANDIDATES = 64  # values of one column that are tried at a time
CERTIFIED = 1e-6  # nats
STARTS = 16  # random trees whose modes are tried beside the best tree's
ENUMERATED = 4096  # completions that are all tried where the missing columns have only so many


class BestFound(NamedTuple):
    """Completed rows of large density, and how much larger any other could be.

    Parameters
    ----------
    values : (n, D) float64
    log_density : (n,) float64
        Of the completed row, observed cells included, in nats.
    upper_bound : (n,) float64
        No completion of the row has a larger log density.
    """

    values: np.ndarray
    log_density: np.ndarray
    upper_bound: np.ndarray


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
        self.flat: FlatParameters = flatten(circuit, self.parameters)
        self.layout, _, self.wide = compile_circuit(circuit)
        self._arrays = self.layout, *map(read_only_view, (self.log_weights, *self.flat))
        # leaves without kernels, in the order in which the layout reads their logs; parts of leaves stand behind them
        self._tabulated = np.flatnonzero((self.layout.leaf_code == TABULATED) & (self.wide.number < 0))

    def __getstate__(self) -> dict[str, Any]:
        """Without the forms, which are made again."""
        return {"circuit": self.circuit, "log_weights": self.log_weights, "leaf_parameters": self.parameters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @cached_property
    def evaluator(self) -> Evaluator:
        """For log densities of rows, of leaves that have kernels."""
        return Evaluator(self.circuit, self.log_weights, self.flat)

    @cached_property
    def blank_logs(self) -> np.ndarray:
        """Logs (V,) of the nodes where nothing is observed: 0 except for how far weights are from adding up to 1."""
        logs = np.zeros((self.layout.kind.size, 1))
        sum_and_multiply(self.layout, read_only_view(self.log_weights), logs, np.empty(1), np.empty(1))
        return logs[:, 0].copy()

    @property
    def is_tabulated(self) -> bool:
        """Whether NumPy works out the logs of some leaves."""
        return self._tabulated.size + self.wide.nodes.size > 0

    def inputs(self, values: np.ndarray) -> tuple[Any, ...]:
        """What the kernels read: layout, log weights, leaf parameters with their begins and widths, rows.

        Behind the columns of the rows stand the logs of the leaves without kernels.
        """
        if self.is_tabulated:
            own = (self.leaf_logs(k, values) for k in self._tabulated.tolist())
            values = np.column_stack([values, *own, *logs_of_parts(self, self.wide, values)])
        return *self._arrays, read_only_view(values)

    def leaf_logs(self, k: int, values: np.ndarray) -> np.ndarray:
        """Log densities (n,) of rows under one leaf, NaN where it has nothing to say."""
        family = self.circuit.families[self.layout.leaf_family[k]]
        own = self.parameters[family][self.layout.leaf_row[k]]
        return EXPLICIT[family].log_density(own, values[:, self.layout.leaf_column[k]])

    def log_density(self, values: Any, dtype: Any = np.float64) -> np.ndarray:
        """Log densities (n,) of rows; with leaves that have no kernels by all nodes."""
        if dtype is not np.float64:
            dtype = checked_dtype(dtype)
        values = self.values(values)
        if not self.is_tabulated:
            return self.evaluator.log_density(values, dtype)
        if dtype != np.float64:
            raise ValueError(
                "dtype must be float64 where leaves are distributions of SciPy or over several columns, got float32"
            )
        out = np.empty(len(values))
        logs_with_peaks(*self.inputs(values), np.zeros(self.layout.leaf_row.size), ROWS, out)
        return out

    def values(self, values: Any) -> np.ndarray:
        """Checked rows."""
        values = checked_values(self.circuit, values)
        if self.circuit.leaf_support is not None:
            check_support(self.circuit, values, self.parameters)
        return values

    def of_leaves(self, question: str) -> np.ndarray:
        """A number for each leaf of the layout: "mean", "variance" or "mode"; 0 for parts of leaves."""
        out = np.zeros(self.layout.leaf_row.size)
        for f, name in enumerate(self.circuit.families):
            if name in self.parameters and name in EXPLICIT:
                out[self.layout.leaf_family == f] = getattr(EXPLICIT[name], question)(self.parameters[name])
        return out

    def peaks(self, modes: np.ndarray) -> np.ndarray:
        """Largest log density of each leaf; infinite where there is none."""
        out = np.empty(modes.size)
        for f, name in enumerate(self.circuit.families):
            at = self.layout.leaf_family == f
            if name in self.parameters:
                out[at] = EXPLICIT[name].log_density(self.parameters[name], modes[at])
                if EXPLICIT[name].grows_at_zero:
                    out[at] = np.inf
        return out

    def draw_leaves(self, values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Leaf of every column (n, D) for each row, drawn, and log densities (n,) of what is observed."""
        leaf, out = np.empty(values.shape, np.int64), np.empty(len(values))
        draw_leaves(rng, *self.inputs(values), ROWS, leaf, out)
        return leaf, out

    def best_leaves(self, values: np.ndarray, peaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of the best tree, where missing cells count ``peaks`` (L,), and its log value."""
        leaf, out = np.empty(values.shape, np.int64), np.empty(len(values))
        best_leaves(*self.inputs(values), peaks, ROWS, leaf, out)
        return leaf, out


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


def best_found(given: Parameterised, values: np.ndarray, tolerance: float = CERTIFIED) -> BestFound:
    """Best completion found for each row, and a bound on all others.

    Starts are the best tree's modes (max-product) and those of random trees; each is improved column by column and
    then along the gradient, until the bound is within the tolerance. The bound puts every leaf of a missing column at
    its largest value. Where the missing columns have few joint levels, all completions are tried.
    """
    modes = given.of_leaves("mode")
    peaks = given.peaks(modes)
    evaluator = given.evaluator
    rng = np.random.default_rng(0)  # starts are random, the same for everyone
    leaf, logs = given.best_leaves(values, np.where(np.isinf(peaks), 0.0, peaks))
    refuse_impossible(logs)
    missing = np.isnan(values)
    best = np.where(missing, modes[leaf], values)
    bound = _upper_bound(given, values, peaks)
    found = evaluator.log_density(best)
    n_levels = _levels(given)
    for n in range(len(values)):
        columns = np.flatnonzero(missing[n])
        if columns.size == 0:
            bound[n] = found[n]
        elif bound[n] - found[n] > tolerance and np.prod(n_levels[columns]) <= ENUMERATED:
            rows = np.tile(values[n], (int(np.prod(n_levels[columns])), 1))
            rows[:, columns] = np.stack(np.unravel_index(np.arange(len(rows)), n_levels[columns].astype(int)), axis=1)
            logs = evaluator.log_density(rows)
            k = int(np.argmax(logs))
            best[n], found[n], bound[n] = rows[k], logs[k], logs[k]
        elif bound[n] - found[n] > tolerance:
            trees, _ = given.draw_leaves(np.tile(values[n], (STARTS, 1)), rng)
            rows = np.where(missing[n], modes[trees], values[n])
            logs = evaluator.log_density(rows)
            for k in (-1, *np.argsort(-logs)[:3]):
                row, log_p = (best[n], found[n]) if k < 0 else (rows[k], float(logs[k]))
                row, log_p = _climb(given, evaluator, row, log_p, columns, modes)
                if log_p > found[n]:
                    best[n], found[n] = row, log_p
    return BestFound(best, found, np.maximum(bound, found))


def _levels(given: Parameterised) -> np.ndarray:
    """Number of levels (D,) of each column, infinite where it has other than levels."""
    out = np.ones(len(given.circuit.columns))
    for f, name in enumerate(given.circuit.families):
        columns = given.layout.leaf_column[given.layout.leaf_family == f]
        levels = EXPLICIT[name].probabilities
        out[columns] = np.maximum(out[columns], np.inf if levels is None else max(2.0, float(given.flat.width[f])))
    return out


def _upper_bound(given: Parameterised, values: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    """Log of the circuit with each leaf of a missing cell at its largest value; sums stay sums."""
    open_ended = given.layout.leaf_column[np.isinf(peaks)]
    out, finite = np.empty(len(values)), np.where(np.isinf(peaks), 0.0, peaks)
    logs_with_peaks(*given.inputs(values), finite, ROWS, out)
    out[np.isnan(values[:, open_ended]).any(axis=1)] = np.inf
    return out


def _climb(
    given: Parameterised, evaluator: Evaluator, row: np.ndarray, log_p: float, missing: np.ndarray, modes: np.ndarray
) -> tuple[np.ndarray, float]:
    """A local maximum: best value of one column after the other, then along the gradient, until neither helps."""
    row = row.copy()
    while True:
        before = log_p
        for d in missing:
            tried = np.unique(modes[given.layout.leaf_column == d])
            for start in range(0, tried.size, CANDIDATES):
                rows = np.tile(row, (min(CANDIDATES, tried.size - start), 1))
                rows[:, d] = tried[start : start + CANDIDATES]
                logs = evaluator.log_density(rows)
                k = int(np.argmax(logs))
                if logs[k] > log_p:
                    row, log_p = rows[k].copy(), float(logs[k])
        row, log_p = _polish(given, evaluator, row, log_p, missing)
        if log_p - before < 1e-9:
            return row, log_p


def _polish(
    given: Parameterised, evaluator: Evaluator, row: np.ndarray, log_p: float, missing: np.ndarray
) -> tuple[np.ndarray, float]:
    """Quasi-Newton ascent in the missing columns that have densities."""
    from scipy.optimize import minimize

    is_density = np.ones(row.size, np.bool_)
    for k, f in enumerate(given.layout.leaf_family):
        is_density[given.layout.leaf_column[k]] &= EXPLICIT[given.circuit.families[f]].is_density
    free = missing[is_density[missing]]
    if free.size == 0:
        return row, log_p

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        rows = row[None].copy()
        rows[0, free] = x
        value, gradient = value_gradient(given, rows)
        return (-value[0], -gradient[0, free]) if np.isfinite(value[0]) else (np.inf, np.zeros(free.size))

    found = minimize(objective, row[free], jac=True, method="BFGS", options={"maxiter": POLISHING_STEPS, "gtol": 1e-9})
    candidate = row.copy()
    candidate[free] = found.x
    value = float(evaluator.log_density(candidate[None])[0])
    return (candidate, value) if value > log_p else (row, log_p)


def value_gradient(given: Parameterised, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (N,) and their derivatives (N, D) in the values."""
    out, slopes = np.empty(len(values)), np.zeros(values.shape)
    log_densities_and_gradient(
        *given.inputs(values), read_only_view(np.ones(len(values))), min(ROWS, max(len(values), 1)),
        np.zeros(given.log_weights.size), np.zeros(given.flat.theta.size), slopes, out,
    )  # fmt: skip
    return out, slopes
