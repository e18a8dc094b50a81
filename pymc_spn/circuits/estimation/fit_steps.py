"""Steps of expectation maximisation of one circuit on its rows, over all of them or over batches."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.estimation.fit_ends import best_ends
from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit
from pymc_spn.circuits.evaluation.completion import ROWS, Parameterised
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.expected_statistics import expected_statistics
from pymc_spn.circuits.evaluation.leaf_updates import (
    BY_ROWS,
    Pooled,
    is_centred,
    is_kept,
    log_prior,
    possible,
    recentred,
    updated,
)
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.leaves.explicit_leaves import EXPLICIT, FITS
from pymc_spn.numerics.progress_bars import ProgressBar

ROUNDING = 1e-11  # of an objective, a sum over the rows


class Expected(NamedTuple):
    """Expected statistics of rows: uses of the edges, moments and levels of the leaves, as in `expected_statistics`.

    ``row_flow`` has no columns where no leaves need all rows.
    """

    edge_flow: np.ndarray
    moments: np.ndarray
    level_flow: np.ndarray
    row_flow: np.ndarray


class Batches(NamedTuple):
    """Rows at a time in stepwise epochs, and how many of these; the k-th step size is (k + 2) ** -decay."""

    size: int
    epochs: int
    decay: float
    rng: np.random.Generator


class ExpectationMaximisation:
    """Expectation and maximisation of one circuit on its rows."""

    def __init__(
        self,
        circuit: Circuit,
        values: np.ndarray,
        labels: Sequence[Any],
        pooled: dict[str, Pooled],
        edge_rows: float,
        leaf_rows: float,
    ) -> None:
        """Ends of uniform leaves are learned where there are averages of these, as `pool` takes them."""
        self.circuit, self.values, self.labels, self.pooled = circuit, values, labels, pooled
        self.edge_rows, self.leaf_rows = edge_rows, leaf_rows
        self.layout = compile_circuit(circuit).layout
        by_rows = [circuit.leaf_column[circuit.leaves_of(name)] for name in BY_ROWS if name in pooled]
        self.ordered = {d: self.in_order(d) for d in np.unique(np.concatenate([*by_rows, np.empty(0, int)])).tolist()}
        self.no_place = np.full(self.layout.leaf_row.size, -1)
        self.row_place, n_placed = self.no_place.copy(), 0
        self.of_family = {}  # where their leaves stand in the uses of all rows
        for name in (f for f in BY_ROWS if f in pooled):
            is_own = self.layout.leaf_family == circuit.families.index(name)
            self.row_place[is_own] = n_placed + self.layout.leaf_row[is_own]
            self.of_family[name] = slice(n_placed, n_placed + int(is_own.sum()))
            n_placed += int(is_own.sum())
        uniform = circuit.leaf_column[circuit.leaves_of("uniform")] if "uniform" in pooled else np.empty(0, np.int64)
        self.columns_with_ends = np.unique(uniform).tolist()

    def in_order(self, d: int) -> np.ndarray:
        """Rows of a column's cells, by their values."""
        known = np.flatnonzero(~np.isnan(self.values[:, d]))
        return known[np.argsort(self.values[known, d], kind="stable")]

    def climb(
        self,
        start: tuple[Any, Mapping[str, Any]],
        max_steps: int,
        least_gain: float,
        bar: ProgressBar,
        batches: Batches | None = None,
    ) -> CircuitFit:
        """Steps from one start, after epochs in batches, until one gains less than `least_gain` nats; the best is kept.

        In exact arithmetic no step loses. One that loses more than that is the last, and is taken back.
        """
        at = Parameterised(self.circuit, *start)
        best, of_best = at, -np.inf
        objective: list[float] = []
        epochs = 0
        while True:
            log_likelihood, expected = self.expectation(at)
            objective.append(log_likelihood + self.log_prior(at))
            highest = max(objective)
            if objective[-1] >= highest - max(least_gain, ROUNDING * max(abs(highest), 1.0)):
                best, of_best = at, log_likelihood
            first = 2 if epochs else 1  # of the gains that are a step's alone
            is_last = len(objective) > first and objective[-1] - objective[-2] < least_gain
            if is_last or len(objective) + epochs > max_steps:
                return CircuitFit(
                    self.circuit, best.log_weights, best.parameters, of_best, np.array(objective),
                    is_last and best is at, np.array([highest]), epochs,
                )  # fmt: skip
            before, at = at, self.with_best_ends(self.maximum(at, expected))
            bar.advance()
            if batches is not None and len(objective) == 1:
                limited = batches._replace(epochs=min(batches.epochs, max_steps - 2))
                running = self.recentred(expected, before, at)
                at, epochs = self.through_batches(at, running, limited, least_gain, bar)

    def through_batches(
        self, at: Parameterised, running: Expected, batches: Batches, least_gain: float, bar: ProgressBar
    ) -> tuple[Parameterised, int]:
        """Stepwise epochs from the statistics of a step, until one gains too little; and their number."""
        n_batches, k, epochs, last = -(-len(self.values) // batches.size), 0, 0, -np.inf
        while epochs < batches.epochs:
            log_likelihood = 0.0
            for rows in np.array_split(batches.rng.permutation(len(self.values)), n_batches):
                seen, expected = self.expectation(at, rows)
                log_likelihood += seen
                at, running = self.step_of_batch(at, running, expected, (k + 2.0) ** -batches.decay, rows.size)
                k += 1
            bar.advance()
            epochs += 1
            if log_likelihood - last < least_gain:
                break
            last = log_likelihood
        return at, epochs

    def step_of_batch(
        self, at: Parameterised, running: Expected, expected: Expected, size: float, n_rows: int
    ) -> tuple[Parameterised, Expected]:
        """The maximum given running statistics, which move by `size` of the way to those of a batch of `n_rows`."""
        scale = len(self.values) / n_rows
        running = Expected(*(a + size * (scale * b - a) for a, b in zip(running, expected, strict=True)))
        best = self.maximum(at, running)
        return best, self.recentred(running, at, best)

    def expectation(
        self, at: Parameterised, rows: np.ndarray | None = None, row_place: np.ndarray | None = None
    ) -> tuple[float, Expected]:
        """Log likelihood and expected statistics of all rows, or of those at the places `rows`.

        Each row's use is kept of the leaves that have a `row_place` (L,), by default of those of `BY_ROWS`.
        """
        row_place = self.row_place if row_place is None else row_place
        values = self.values if rows is None else self.values[rows]
        edge_flow, moments = np.zeros(self.circuit.n_sum_edges), np.zeros((3, self.layout.leaf_row.size))
        level_flow, logs = np.zeros(at.flat.theta.size), np.empty(len(values))
        block = min(ROWS, len(values))
        n_placed = int(row_place.max(initial=-1)) + 1
        row_flow = np.empty((n_placed, len(values) if n_placed else 0))
        expected_statistics(
            *at.inputs(values), block, row_place, edge_flow, moments, level_flow, row_flow, logs,
        )  # fmt: skip
        if np.any(np.isneginf(logs)):
            row = int(np.argmax(np.isneginf(logs)))
            self.refuse_row(at, row if rows is None else int(rows[row]))
        return float(logs.sum()), Expected(edge_flow, moments, level_flow, row_flow)

    def maximum(self, at: Parameterised, expected: Expected) -> Parameterised:
        """Weights and leaves of largest posterior density given the expected statistics."""
        log_weights = self.best_weights(at.log_weights, expected.edge_flow)
        return Parameterised(self.circuit, log_weights, self.best_leaves(at, expected))

    def with_best_ends(self, at: Parameterised) -> Parameterised:
        """The ends of uniform leaves moved, column by column, to where the objective is larger; see `best_ends`.

        Leaves are as wide as the column while the rows' uses are taken, so that a leaf knows the rows beyond its ends.
        """
        for d in self.columns_with_ends:
            of_uniform = self.circuit.leaf_column[self.circuit.leaves_of("uniform")] == d
            pooled, ends = self.pooled["uniform"], at.parameters["uniform"].copy()
            wide = ends.copy()
            wide[of_uniform] = np.column_stack([pooled.mean, pooled.variance])[of_uniform]
            place, here = self.no_place.copy(), np.flatnonzero(self.layout.leaf_column == d)
            place[here] = np.arange(here.size)
            widened = Parameterised(self.circuit, at.log_weights, at.parameters | {"uniform": wide})
            flow = self.expectation(widened, row_place=place)[1].row_flow
            known = np.flatnonzero(~np.isnan(self.values[:, d]))
            known = known[np.argsort(self.values[known, d], kind="stable")]
            is_uniform = self.layout.leaf_family[here] == self.circuit.families.index("uniform")
            ends[of_uniform] = best_ends(
                self.values[known, d], flow[np.ix_(is_uniform, known)], flow[np.ix_(~is_uniform, known)].sum(axis=0),
                ends[of_uniform], self.leaf_rows,
            )  # fmt: skip
            at = Parameterised(self.circuit, at.log_weights, at.parameters | {"uniform": ends})
        return at

    def recentred(self, expected: Expected, before: Parameterised, after: Parameterised) -> Expected:
        """The statistics that were taken about the leaves before, about those after."""
        moments = expected.moments.copy()
        for f, name in enumerate(self.circuit.families):
            if is_centred(name) and name in before.parameters:
                of_family = self.layout.leaf_family == f
                moments[:, of_family] = recentred(
                    moments[:, of_family], before.parameters[name], after.parameters[name]
                )
        return expected._replace(moments=moments)

    def refuse_row(self, at: Parameterised, row: int) -> None:
        """Name a row of density zero, and the column that no leaf can take where there is one."""
        cells = np.full((len(self.circuit.columns),) * 2, np.nan)
        np.fill_diagonal(cells, self.values[row])
        alone = at.log_density(cells)
        where = ""
        if np.any(np.isneginf(alone)):
            d = int(np.argmax(np.isneginf(alone)))
            where = f", no leaf of column {self.circuit.names[d]!r} can take {cells[d, d]:g}"
        label = self.labels[row]
        label = label.item() if isinstance(label, np.generic) else label
        raise ValueError(f"observed: row {label!r} has density 0 under the start{where}")

    def log_prior(self, at: Parameterised) -> float:
        """Log prior density up to a constant."""
        total = self.edge_rows * float(at.log_weights.sum()) if self.edge_rows > 0.0 else 0.0
        if self.leaf_rows > 0.0:
            total += self.leaf_rows * sum(log_prior(f, at.parameters[f], self.pooled[f]) for f in self.pooled)
        return total

    def best_weights(self, log_weights: np.ndarray, edge_flow: np.ndarray) -> np.ndarray:
        """Log weights given the expected uses; a sum that no row reaches keeps its own where there is no prior."""
        uses = edge_flow + self.edge_rows
        total = np.bincount(self.circuit.edge_sum, weights=uses, minlength=self.circuit.n_nodes)[self.circuit.edge_sum]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0.0, np.log(uses / total), log_weights)

    def best_leaves(self, at: Parameterised, expected: Expected) -> dict[str, np.ndarray]:
        """Leaf parameters given the expected statistics."""
        found = {}
        for f, name in enumerate(self.circuit.families):
            if name not in at.parameters:
                continue
            own, begin = at.parameters[name], at.flat.begin[f]
            if is_kept(name):  # ends that are learned move on their own
                found[name] = own
                continue
            if name in BY_ROWS:
                found[name] = self.best_of_rows(name, own, expected.row_flow[self.of_family[name]])
                continue
            flow = expected.level_flow[begin : begin + own.size].reshape(own.shape)
            of_family = expected.moments[:, self.layout.leaf_family == f]
            found[name] = updated(name, own, of_family, flow, self.pooled[name], self.leaf_rows)
            problem = EXPLICIT[name].problem(found[name])
            if problem is not None:
                d = self.circuit.leaf_column[self.circuit.leaves_of(name)[problem[0]]]
                raise ValueError(
                    f"leaf_prior_rows={self.leaf_rows:g} is too small for the {name} leaves of column "
                    f"{self.circuit.names[d]!r}: {problem[1]}, got {found[name][problem[0]].tolist()}"
                )
        return found

    def best_of_rows(self, family: str, own: np.ndarray, row_flow: np.ndarray) -> np.ndarray:
        """Leaves (n, p) from the expected uses of every row; leaves without information keep their own."""
        columns, fit = self.circuit.leaf_column[self.circuit.leaves_of(family)], FITS[family]
        found, pooled = own.copy(), self.pooled[family]
        for k, d in enumerate(columns.tolist()):
            known = self.ordered[d]
            known = known[possible(family, self.values[known, d])]
            prior = self.leaf_rows, pooled.mean[k], pooled.variance[k]
            best = fit.of_rows(self.values[known, d], row_flow[k, known], *prior)
            if best is not None:
                found[k] = best
        return found
