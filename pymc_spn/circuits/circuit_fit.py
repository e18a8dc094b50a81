"""`fit_em`: parameters of a given circuit by expectation maximisation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any
from warnings import warn

import numpy as np

from pymc_spn.circuits.coded_rows import coded_rows
from pymc_spn.circuits.evaluation.completion import ROWS, Parameterised
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.expected_statistics import expected_statistics
from pymc_spn.circuits.evaluation.leaf_updates import (
    ON_LEVELS,
    WITH_A_SCALE,
    Pooled,
    log_prior,
    of_mean,
    pool,
    possible,
    updated,
)
from pymc_spn.circuits.evaluation.parameters import families_in_use
from pymc_spn.circuits.leaves.explicit_leaves import EXPLICIT
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.tree_arguments import is_int
from pymc_spn.numerics.progress_bars import ProgressBar


@dataclass(frozen=True, eq=False, repr=False)
class CircuitFit:
    """A circuit with the parameters that `fit_em` found: one estimate, without a posterior.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    log_likelihood : float
        Of all rows, in nats.
    objective : (steps + 1,) float64
        Log likelihood plus log prior, up to a constant, before each step and at the end, in nats; it never falls.
    converged : bool
        Whether the last step gained less than the tolerance.
    of_restarts : (restarts,) float64
        Last objective of each restart; this is the largest.
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]
    log_likelihood: float
    objective: np.ndarray
    converged: bool
    of_restarts: np.ndarray

    @property
    def parameters(self) -> dict[str, Any]:
        """`log_weights` and `leaf_parameters` by name: ``circuit.log_density(values, **fit.parameters)``."""
        return {"log_weights": self.log_weights, "leaf_parameters": self.leaf_parameters}

    def __repr__(self) -> str:
        end = "converged" if self.converged else "not converged"
        return (
            f"CircuitFit({self.circuit!r}, log likelihood {self.log_likelihood:.1f} nats, {end} after "
            f"{self.objective.size - 1} steps, best of {self.of_restarts.size})"
        )


def fit_em(
    circuit: Circuit,
    observed: Any,
    *,
    edge_prior_rows: float = 0.1,
    leaf_prior_rows: float = 1.0,
    start: tuple[Any, Mapping[str, Any]] | None = None,
    restarts: int = 3,
    max_steps: int = 500,
    tolerance: float = 1e-5,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> CircuitFit:
    """Weights and leaf parameters of largest posterior density for a given circuit, tree or graph.

    Each step takes the expected uses of every edge and the expected statistics of every leaf in one pass up and one
    down, and sets weights and leaves to the maximum given them. A local maximum, and one estimate: `SPN` and
    `CircuitDensity` give posteriors, for which it can be a start.

    Parameters
    ----------
    circuit : Circuit
        With leaves among Gaussian, log-normal, exponential, gamma, Poisson, geometric, Bernoulli and categorical, and
        without declared supports.
    observed : DataFrame, Table or (N, D) array
        As for `CircuitDensity`; NaN is missing and summed out.
    edge_prior_rows : float
        Prior of a sum's weights: Dirichlet with one plus this number for every edge. 0 for none.
    leaf_prior_rows : float
        Prior of a leaf: this number of observations more, with the average statistics of its column; where it is on
        levels, of the column and one row more that is spread over all of them, so that none becomes impossible. 0 for
        none, with leaves on levels only: scales would have no maximum, rates and probabilities one that is no leaf.
    start : tuple of log_weights and leaf_parameters, optional
        Where to begin, once; by default at random, `restarts` times: leaf i of a column halfway from the column's
        average to the i-th of the rows in a random order (Gaussian and log-normal leaves there, at the column's scale),
        weights uniform on the simplex.
    restarts : int
        Random starts; the one with the highest objective is kept.
    max_steps : int
        Steps of a restart at most.
    tolerance : float
        A restart ends when a step gains less than this, in nats a row.
    random_seed : int, Generator or None
        For the starts; the steps draw nothing.
    progressbar : bool
        Show a bar once it has taken a second. It counts steps, of which a restart that stands still leaves some out.

    Returns
    -------
    CircuitFit

    Raises
    ------
    ValueError, TypeError
        Rows that do not fit the circuit or have density zero under the start; leaves of other families; averages of a
        column of which no leaf can be made (a constant one has no scale); arguments out of range.

    Warns
    -----
    UserWarning
        If the restart that is kept still gained more than the tolerance in its last step.

    References
    ----------
    Poon and Domingos (2011), Sum-product networks: a new deep architecture, UAI, section 4. Peharz, Gens, Pernkopf
    and Domingos (2017), On the latent variable interpretation in sum-product networks, IEEE TPAMI 39(10), where
    the steps are shown to be those of expectation maximisation.
    """
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}")
    if circuit.leaf_support is not None:
        raise ValueError("circuit must not declare leaf_support: fit_em does not keep leaves within it")
    for name, count in (("restarts", restarts), ("max_steps", max_steps)):
        if not is_int(count) or count < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {count!r}")
    for name, number in (
        ("edge_prior_rows", edge_prior_rows), ("leaf_prior_rows", leaf_prior_rows), ("tolerance", tolerance),
    ):  # fmt: skip
        if isinstance(number, bool) or not isinstance(number, Real) or not 0.0 <= float(number) < np.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {number!r}")
    if tolerance == 0.0:
        raise ValueError("tolerance must be positive, got 0")
    others = [f for f in families_in_use(circuit) if f not in ON_LEVELS]
    if leaf_prior_rows == 0.0 and others:
        raise ValueError(
            f"leaf_prior_rows must be positive for {', '.join(others)} leaves: without a prior the likelihood has no "
            "maximum among them; got 0"
        )
    values, labels = coded_rows(circuit, observed)
    ascent = _Ascent(circuit, values, labels, pool(circuit, values), float(edge_prior_rows), float(leaf_prior_rows))
    rng = np.random.default_rng(random_seed)
    fits = []
    with ProgressBar(
        "Maximising the likelihood", max_steps * (1 if start is not None else restarts), progressbar
    ) as bar:
        for _ in range(1 if start is not None else restarts):
            given = _random_start(circuit, values, ascent.pooled, rng) if start is None else ascent.checked_start(start)
            fits.append(ascent.climb(given, max_steps, tolerance * len(values), bar))
    best = max(fits, key=lambda fit: fit.objective[-1])
    if not best.converged:
        gain = (best.objective[-1] - best.objective[-2]) / len(values)
        warn(
            f"fit_em: the last of {max_steps} steps still gained {gain:.2g} nats a row, more than the tolerance of "
            f"{tolerance:g}; raise max_steps",
            UserWarning,
            stacklevel=2,
        )
    return replace(best, of_restarts=np.array([fit.objective[-1] for fit in fits]))


class _Ascent:
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
        self.circuit, self.values, self.labels, self.pooled = circuit, values, labels, pooled
        self.edge_rows, self.leaf_rows = edge_rows, leaf_rows
        self.layout = compile_circuit(circuit).layout

    def checked_start(self, start: Any) -> tuple[Any, Mapping[str, Any]]:
        """The user's start, if it is one: its values are checked where the climb begins."""
        if not isinstance(start, tuple) or len(start) != 2 or not isinstance(start[1], Mapping):
            raise TypeError(f"start must be a tuple of log_weights and leaf_parameters, a dict; got {start!r}")
        shape, wanted = np.shape(start[1].get("categorical", ())), self.pooled.get("categorical")
        if wanted is not None and shape[1:] and shape[1] != wanted.levels.shape[1]:
            raise ValueError(
                f"start: leaf_parameters['categorical'] must have {wanted.levels.shape[1]} levels, as the columns "
                f"have, got {shape[1]}"
            )
        return start

    def climb(
        self, start: tuple[Any, Mapping[str, Any]], max_steps: int, least_gain: float, bar: ProgressBar
    ) -> CircuitFit:
        """Steps from one start until one gains less than `least_gain` nats."""
        log_weights, leaf_parameters = start
        objective: list[float] = []
        while True:
            at = Parameterised(self.circuit, log_weights, leaf_parameters)
            log_likelihood, edge_flow, moments, level_flow = self.expectation(at)
            objective.append(log_likelihood + self.log_prior(at))
            converged = len(objective) > 1 and objective[-1] - objective[-2] < least_gain
            if converged or len(objective) > max_steps:
                of_restart = np.array(objective[-1:])
                return CircuitFit(
                    self.circuit, at.log_weights, at.parameters, log_likelihood, np.array(objective), converged,
                    of_restart,
                )  # fmt: skip
            log_weights = self.best_weights(at.log_weights, edge_flow)
            leaf_parameters = self.best_leaves(at, moments, level_flow)
            bar.advance()

    def expectation(self, at: Parameterised) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Log likelihood, flows along edges, moments and level flows of the leaves."""
        edge_flow, moments = np.zeros(self.circuit.n_sum_edges), np.zeros((3, self.layout.leaf_row.size))
        level_flow, logs = np.zeros(at.flat.theta.size), np.empty(len(self.values))
        block = min(ROWS, len(self.values))
        expected_statistics(
            self.layout, at.log_weights, *at.flat, self.values, block, edge_flow, moments, level_flow, logs
        )
        if np.any(np.isneginf(logs)):
            self.refuse_row(at, int(np.argmax(np.isneginf(logs))))
        return float(logs.sum()), edge_flow, moments, level_flow

    def refuse_row(self, at: Parameterised, row: int) -> None:
        """Name a row of density zero, and the column that no leaf can take where there is one."""
        cells = np.full((len(self.circuit.columns),) * 2, np.nan)
        np.fill_diagonal(cells, self.values[row])
        alone = self.circuit.log_density(cells, at.log_weights, at.parameters)
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
            total += self.leaf_rows * sum(log_prior(f, at.parameters[f], self.pooled[f]) for f in at.parameters)
        return total

    def best_weights(self, log_weights: np.ndarray, edge_flow: np.ndarray) -> np.ndarray:
        """Log weights given the expected uses; a sum that no row reaches keeps its own where there is no prior."""
        uses = edge_flow + self.edge_rows
        total = np.bincount(self.circuit.edge_sum, weights=uses, minlength=self.circuit.n_nodes)[self.circuit.edge_sum]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0.0, np.log(uses / total), log_weights)

    def best_leaves(self, at: Parameterised, moments: np.ndarray, level_flow: np.ndarray) -> dict[str, np.ndarray]:
        """Leaf parameters given the expected statistics."""
        found = {}
        for f, name in enumerate(self.circuit.families):
            if name not in at.parameters:
                continue
            own, begin = at.parameters[name], at.flat.begin[f]
            flow = level_flow[begin : begin + own.size].reshape(own.shape)
            of_family = moments[:, self.layout.leaf_family == f]
            found[name] = updated(name, own, of_family, flow, self.pooled[name], self.leaf_rows)
            problem = EXPLICIT[name].problem(found[name])
            if problem is not None:
                d = self.circuit.leaf_column[self.circuit.leaves_of(name)[problem[0]]]
                raise ValueError(
                    f"leaf_prior_rows={self.leaf_rows:g} is too small for the {name} leaves of column "
                    f"{self.circuit.names[d]!r}: {problem[1]}, got {found[name][problem[0]].tolist()}"
                )
        return found


def _random_start(
    circuit: Circuit, values: np.ndarray, pooled: dict[str, Pooled], rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log weights and leaf parameters; the i-th leaves of all columns look at the same row."""
    weights = rng.standard_exponential(circuit.n_sum_edges)
    total = np.bincount(circuit.edge_sum, weights=weights, minlength=circuit.n_nodes)
    rows = rng.permutation(len(values))
    leaves = circuit.leaves
    order = np.argsort(circuit.leaf_column[leaves], kind="stable")
    of_column = np.bincount(circuit.leaf_column[leaves], minlength=len(circuit.columns))
    rank = np.empty(leaves.size, np.int64)
    rank[order] = np.concatenate([np.arange(n) for n in of_column])
    cell = np.full(circuit.n_nodes, np.nan)
    cell[leaves] = values[rows[rank % len(values)], circuit.leaf_column[leaves]]
    parameters = {name: _near(name, cell[circuit.leaves_of(name)], at) for name, at in pooled.items()}
    return np.log(weights / total[circuit.edge_sum]), parameters


def _near(family: str, cell: np.ndarray, pooled: Pooled) -> np.ndarray:
    """Leaves (n, p) between the columns' averages and these cells; at the averages where there is no possible cell."""
    usable = possible(family, cell)
    if family == "categorical":
        at_cell = np.arange(pooled.levels.shape[1]) == np.where(usable, cell, 0)[:, None]
        return np.where(usable[:, None], 0.5 * (pooled.levels + at_cell), pooled.levels)
    if family in WITH_A_SCALE:
        u = np.log(np.where(usable, cell, 1.0)) if family == "log_normal" else cell
        return of_mean(family, np.where(usable, u, pooled.mean), pooled.variance)
    mean = np.where(usable, 0.5 * (pooled.mean + cell), pooled.mean)
    if family == "gamma":  # at the column's shape
        shape = of_mean(family, pooled.mean, pooled.variance)[:, 0]
        return np.column_stack([shape, shape / mean])
    return of_mean(family, mean, pooled.variance)
