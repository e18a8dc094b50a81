"""Answers about a factor graph given evidence: labelled, one row of evidence each."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.indexes import PandasIndex

from pymc_spn.factor_graphs import log_messages, maxima
from pymc_spn.factor_graphs.evidence import Evidence
from pymc_spn.factor_graphs.passes import Pass, over_rows, run
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.html_repr import Facts, NotebookRepr
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import row_labels
from pymc_spn.tables.inputs import Seed

if TYPE_CHECKING:
    from pymc_spn.factor_graphs.junction_tree import JunctionTree

EXACT = {"exactness": "exact"}
MOST_BELIEFS = 4_000_000  # marginals of variables held at a time for pairs of them
MOST_UNIFORMS = 4_000_000  # uniform numbers held at a time
ANSWERING = "Passing messages"  # what the bar says


class Inference(NotebookRepr):
    """What a factor graph says given evidence; made by `JunctionTree.infer`.

    All answers have a leading dimension ``row``, named like the rows of ``given``, unless that held scalars only.
    Where evidence is impossible, `log_z` and `log_evidence` are -inf, marginals are zero and not NaN, and queries that
    need a configuration raise and name the row.

    Examples
    --------
    >>> result = junction.infer(given={"wet": 1})
    >>> result.marginal("rain").round(3).values
    array([0.333, 0.667])
    """

    def __init__(self, tree: "JunctionTree", evidence: Evidence) -> None:
        self.tree = tree
        self.evidence = evidence
        self._potentials = tree.graph.potentials()[None]
        self._pass: Pass = self._run(marginals=True)
        self._rows = None if evidence.rows is None else _indexed(row_labels(evidence.rows).to_numpy(), "row")
        self._maxima: tuple[np.ndarray, ...] | None = None
        impossible = np.flatnonzero(self._pass.log_z == -np.inf)
        if impossible.size:
            names = ", ".join(evidence.row_name(int(i)) for i in impossible[:5])
            more = f" and {impossible.size - 5} more rows" if impossible.size > 5 else ""
            warnings.warn(
                f"{names}{more}: evidence of probability zero; log_z is -inf there and marginals are zero",
                UserWarning,
                skip_file_prefixes=OWN_FILES,
            )

    def _facts(self) -> Facts:
        return Facts("Inference", {"evidence": f"{self.evidence.n_rows} rows of evidence on {self.tree!r}"})

    def _run(self, **wanted: Any) -> Pass:
        e = self.evidence
        return run(self.tree.plan, self._potentials, e.codes, e.soft, e.n_rows, **wanted)

    def _over_rows(self, ask: Callable[..., None], part: slice = slice(None)) -> None:
        n, arrays = self.evidence.n_rows, self.tree.plan.arrays
        codes, soft = (x[part] if len(x) == n else x for x in (self.evidence.codes, self.evidence.soft))
        over_rows(ask, arrays, read_only_view(self._potentials), codes, soft, len(range(n)[part]))

    def _label(self, values: np.ndarray, dims: tuple[str, ...], coords: dict[str, Any], **attrs: Any) -> xr.DataArray:
        if "row" in dims and self._rows is not None:
            raise ValueError("a variable cannot be called 'row' if evidence has rows: give scalars, or rename it")
        if self._rows is None:
            return xr.DataArray(values[0], dims=dims, coords=coords, attrs=EXACT | attrs)
        # Indexes are made once: for a hundred marginals xarray's own would take longer than the inference.
        made = {"row": self._rows} | {name: self._index(name, tuple(labels)) for name, labels in coords.items()}
        variables = {name: variable for name, (_, variable) in made.items()}
        indexes = {name: index for name, (index, _) in made.items()}
        return xr.DataArray(values, dims=("row", *dims), coords=xr.Coordinates(variables, indexes), attrs=EXACT | attrs)

    def _index(self, name: str, labels: tuple[Any, ...]) -> Any:
        known = self.tree.indexes
        if (name, labels) not in known:
            known[name, labels] = _indexed(labels, name)
        return known[name, labels]

    def _states(self, name: str) -> tuple[int, tuple[Any, ...]]:
        (v,) = self.tree.graph.numbers((name,))
        return int(v), self.tree.graph.states[v]

    # -- sums -----------------------------------------------------------------------------------------

    @property
    def log_z(self) -> xr.DataArray:
        """Log of the sum over all configurations that agree with the evidence, soft evidence included.

        Examples
        --------
        >>> round(float(result.log_z), 3)
        -1.427
        """
        return self._label(self._pass.log_z, (), {})

    @property
    def log_evidence(self) -> xr.DataArray:
        """Log probability of the evidence: `log_z` less that without evidence, in nats.

        Raises
        ------
        ValueError
            If the graph allows no configuration at all.

        Examples
        --------
        >>> round(float(np.exp(result.log_evidence)), 3)
        0.24
        """
        if self.tree.log_z == -np.inf:
            raise ValueError("log_evidence: every configuration of the graph is impossible, so it has no distribution")
        return self._label(self._pass.log_z - self.tree.log_z, (), {})

    def marginal(self, name: str) -> xr.DataArray:
        """Probabilities of the states of a variable.

        Parameters
        ----------
        name : str

        Returns
        -------
        DataArray
            (row, states) float64, the last dimension named after the variable.

        Raises
        ------
        ValueError
            If there is no such variable.

        Examples
        --------
        >>> result.marginal("rain").round(3).values
        array([0.333, 0.667])
        """
        v, labels = self._states(name)
        start = self.tree.plan.arrays.state_start
        return self._label(self._pass.marginals[:, start[v] : start[v + 1]], (name,), {name: list(labels)})

    def marginals(self) -> dict[str, xr.DataArray]:
        """`marginal` of every variable.

        Examples
        --------
        >>> list(result.marginals())
        ['rain', 'wet']
        """
        return {name: self.marginal(name) for name in self.tree.graph.names}

    def pairwise(self, first: str, second: str) -> xr.DataArray:
        """Joint probabilities of two variables.

        Within a clique these are read off its beliefs; otherwise the one with fewer states is set to each in turn.

        Parameters
        ----------
        first, second : str

        Returns
        -------
        DataArray
            (row, states of the first, states of the second) float64, dimensions named after the variables.

        Raises
        ------
        ValueError
            If there are no such two variables.

        Examples
        --------
        >>> junction.infer().pairwise("rain", "wet").round(3).values
        array([[0.72, 0.08],
               [0.04, 0.16]])
        """
        (one, states), (other, other_states) = self._states(first), self._states(second)
        if one == other:
            raise ValueError(f"pairwise needs two different variables, got {quoted(first)} twice")
        names, coords = (first, second), {first: list(states), second: list(other_states)}
        clique = self._clique_with((one, other))
        if clique is not None:
            return self._label(self._clique_marginal(clique, (one, other)), names, coords)
        if len(states) > len(other_states):
            return self._label(self._clamped(other, one).transpose(0, 2, 1), names, coords)
        return self._label(self._clamped(one, other), names, coords)

    def _clamped(self, va: int, vb: int) -> np.ndarray:
        """(n_rows, states of a, states of b) of two variables. a is set to each of its states in turn, as many states
        in one run as there is room for."""
        e, start, n = self.evidence, self.tree.plan.arrays.state_start, self.evidence.n_rows
        of_a, of_b = slice(start[va], start[va + 1]), slice(start[vb], start[vb + 1])
        n_states = int(of_a.stop - of_a.start)
        codes = np.full((n, len(self.tree.graph.names)), -1, np.int32)
        if e.codes.size:
            codes[:] = e.codes
        observed = codes[:, va].copy()
        joint = np.zeros((n, n_states, int(of_b.stop - of_b.start)))
        block = max(1, MOST_BELIEFS // (n * int(start[-1])))
        for s in range(0, n_states, block):
            states = np.arange(s, min(s + block, n_states), dtype=np.int32)
            clamped = np.tile(codes, (states.size, 1))  # row i stands at i, n + i, ...: kernels read modulo n
            clamped[:, va] = np.repeat(states, n)
            found = run(self.tree.plan, self._potentials, clamped, e.soft, n * states.size, marginals=True).marginals
            joint[:, states] = found[:, of_b].reshape(states.size, n, -1).transpose(1, 0, 2)
            joint[:, states] *= np.where((observed[:, None] < 0) | (observed[:, None] == states), 1.0, 0.0)[..., None]
        return joint * self._pass.marginals[:, of_a, None]

    def factor_marginal(self, factor: int) -> xr.DataArray:
        """Joint probabilities of the variables of a factor.

        Parameters
        ----------
        factor : int
            In the order in which they were added, from 0.

        Returns
        -------
        DataArray
            (row, states of each variable of the factor) float64, dimensions named after the variables.

        Raises
        ------
        ValueError
            If there is no such factor.

        Examples
        --------
        >>> junction.infer().factor_marginal(0).round(3).values
        array([0.8, 0.2])
        """
        graph = self.tree.graph
        names = graph.scope_of(factor)
        if not names:
            return self._label(np.ones(self.evidence.n_rows) * (self._pass.log_z > -np.inf), (), {})
        variables = tuple(int(v) for v in graph.numbers(names))
        beliefs = self._clique_marginal(int(self.tree.plan.factor_clique[int(factor)]), variables)
        return self._label(
            beliefs, names, {name: list(graph.states[v]) for name, v in zip(names, variables, strict=True)}
        )

    def entropy(self, *, progressbar: bool = True) -> xr.DataArray:
        """Entropy of the distribution given the evidence.

        Parameters
        ----------
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row,) float64, in nats; 0 where the evidence is impossible.

        Examples
        --------
        >>> round(float(result.entropy()), 3)
        0.637
        """
        e, plan = self.evidence, self.tree.plan
        result = np.empty(e.n_rows)
        log_p = self._potentials[0]
        finite = np.where(np.isfinite(log_p), log_p, 0.0)
        with counted(ANSWERING, progressbar):
            for i in each(range(e.n_rows)):
                row = slice(i, i + 1)
                codes = e.codes[row] if len(e.codes) else e.codes
                soft = e.soft[row] if len(e.soft) > 1 else e.soft
                expected = float(run(plan, self._potentials, codes, soft, 1, gradient=True).gradient[0] @ finite)
                if len(soft):
                    expected += float(self._pass.marginals[i] @ np.where(np.isfinite(soft[0]), soft[0], 0.0))
                possible = self._pass.log_z[i] > -np.inf
                result[i] = max(self._pass.log_z[i] - expected, 0.0) if possible else 0.0
        return self._label(result, (), {}, unit="nats")

    def _clique_with(self, variables: tuple[int, ...]) -> int | None:
        plan = self.tree.plan
        for v in variables:
            c = int(plan.arrays.own_clique[v])
            if set(variables) <= set(plan.variables_of(c).tolist()):
                return c
        return None

    def _clique_marginal(self, clique: int, variables: tuple[int, ...]) -> np.ndarray:
        """(n_rows, states of each variable) from a clique's beliefs; one-state variables need not be in it."""
        axes, card = self.tree.plan.variables_of(clique).tolist(), self.tree.graph.card
        beliefs = self._run(keep=(clique,)).kept.reshape(-1, *card[axes])
        kept = [v for v in axes if v in variables]
        summed = beliefs.sum(axis=tuple(1 + i for i, v in enumerate(axes) if v not in kept))
        ordered = summed.transpose(0, *(1 + kept.index(v) for v in variables if v in axes))
        return ordered.reshape(-1, *card[list(variables)])

    # -- maxima ---------------------------------------------------------------------------------------

    def _maximise(self) -> tuple[np.ndarray, ...]:
        if self._maxima is None:
            n, arrays = self.evidence.n_rows, self.tree.plan.arrays
            value, count = np.empty(n), np.empty(n)
            states = np.empty((n, arrays.card.size), np.int32)
            best_with = np.empty((n, int(arrays.state_start[-1])))

            def ask(rows: slice, *inputs: Any) -> None:
                maxima.maximise_rows(arrays, *inputs, *(x[rows] for x in (value, states, count, best_with)))

            self._over_rows(ask)
            self._maxima = value, states, count, best_with
        return self._maxima

    def _refuse_impossible(self, query: str) -> None:
        for i in np.flatnonzero(self._pass.log_z == -np.inf).tolist():
            raise ValueError(f"{query}: {self.evidence.row_name(i)} has probability zero, so no configuration exists")

    def map(self, *, progressbar: bool = True) -> xr.Dataset:
        """Most probable configuration, by max-sum with backtracking.

        Parameters
        ----------
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        Dataset
            ``state`` (variable), labels, the first maximiser in declared order. ``log_value``, log of the product of
            all tables there. ``log_probability`` given the evidence. ``n_maximisers``, how many configurations tie (log
            values within 1e-12, relative), a float that is exact below 2**53.

        Raises
        ------
        ValueError
            If the evidence of a row is impossible.

        Examples
        --------
        >>> result.map()["state"].values
        array(['yes', 1], dtype=object)
        """
        self._refuse_impossible("map")
        with counted(ANSWERING, progressbar):
            value, states, count, _ = self._maximise()
        names = {"variable": list(self.tree.graph.names)}
        return xr.Dataset(
            {
                "state": self._label(self.tree.graph.labels(states), ("variable",), names),
                "log_value": self._label(value, (), {}),
                "log_probability": self._label(value - self._pass.log_z, (), {}),
                "n_maximisers": self._label(count, (), {}),
            },
            attrs=EXACT,
        )

    def max_marginal(self, name: str) -> xr.DataArray:
        """Log value of the best configuration with each state of a variable.

        Parameters
        ----------
        name : str

        Returns
        -------
        DataArray
            (row, states) float64, in nats; -inf where a state is impossible.

        Raises
        ------
        ValueError
            If there is no such variable.

        Examples
        --------
        >>> result.max_marginal("rain").round(3).values
        array([-2.526, -1.833])
        """
        v, labels = self._states(name)
        start = self.tree.plan.arrays.state_start
        return self._label(self._maximise()[3][:, start[v] : start[v + 1]], (name,), {name: list(labels)})

    def kbest(self, k: int, progressbar: bool = True) -> xr.Dataset:
        """The k most probable configurations, best first.

        Parameters
        ----------
        k : int
            At least 1.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        Dataset
            ``state`` (rank, variable), ``log_value`` and ``log_probability`` (rank). Beyond the number of possible
            configurations values are -inf and states None. Ties after the first stand in no particular order.

        Raises
        ------
        ValueError
            If `k` is not an integer of at least 1, or the evidence of a row is impossible.

        Examples
        --------
        >>> result.kbest(2)["state"].values
        array([['yes', 1],
               ['no', 1]], dtype=object)
        """
        k = checked_count("k", k, 1, (16.0 + 12.0 * len(self.tree.graph.names)) * self.evidence.n_rows)
        self._refuse_impossible("kbest")
        n, n_variables, arrays = self.evidence.n_rows, len(self.tree.graph.names), self.tree.plan.arrays
        value, states = np.empty((n, k)), np.empty((n, k, n_variables), np.int32)
        with counted(ANSWERING, progressbar):
            first = self._maximise()[1]
            self._over_rows(lambda r, *inputs: maxima.k_best_rows(arrays, *inputs, first[r], value[r], states[r]))
        coords: dict[str, Any] = {"rank": np.arange(k), "variable": list(self.tree.graph.names)}
        rank = {"rank": coords["rank"]}
        return xr.Dataset(
            {
                "state": self._label(self.tree.graph.labels(states), ("rank", "variable"), coords),
                "log_value": self._label(value, ("rank",), rank),
                "log_probability": self._label(value - self._pass.log_z[:, None], ("rank",), rank),
            },
            attrs=EXACT,
        )

    # -- draws ----------------------------------------------------------------------------------------

    def sample(self, n: int, random_seed: Seed | None = None, progressbar: bool = True) -> xr.DataArray:
        """Exact joint draws, as labels.

        Parameters
        ----------
        n : int
            Draws for each row of evidence.
        random_seed : int, Generator or None
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row, sample, variable), of the type of the labels.

        Raises
        ------
        ValueError
            If `n` is not an integer of at least 1, or the evidence of a row is impossible.

        Examples
        --------
        >>> result.sample(3, random_seed=1).dims
        ('sample', 'variable')
        """
        n = checked_count("n", n, 1, (8.0 + 12.0 * len(self.tree.graph.names)) * self.evidence.n_rows)
        self._refuse_impossible("sample")
        rng = np.random.default_rng(random_seed)
        with counted(ANSWERING, progressbar):
            states = _drawn_states(self, n, rng)
        coords: dict[str, Any] = {"sample": np.arange(n), "variable": list(self.tree.graph.names)}
        return self._label(self.tree.graph.labels(states), ("sample", "variable"), coords, exactness="exact simulation")


def _drawn_states(inference: Inference, n: int, rng: np.random.Generator) -> np.ndarray:
    """(rows, n, variables) int32: draws given each row of evidence of an `Inference`, as numbers of states."""
    n_rows, plan, n_variables = inference.evidence.n_rows, inference.tree.plan, len(inference.tree.graph.names)
    states = np.empty((n_rows, n, n_variables), np.int32)
    draws = max(1, min(n, MOST_UNIFORMS // plan.n_cliques))
    rows = max(1, MOST_UNIFORMS // (plan.n_cliques * draws))

    def draw(part: slice, uniforms: np.ndarray) -> np.ndarray:
        """States (rows, draws, variables) of a part of the rows from uniform numbers (rows, draws, cliques)."""
        found, log_z = np.empty((*uniforms.shape[:2], n_variables), np.int32), np.empty(len(uniforms))

        def ask(some: slice, *inputs: Any) -> None:
            log_messages.draw_rows(plan.arrays, *inputs, uniforms[some], found[some], log_z[some])

        inference._over_rows(ask, part)
        return found

    for i in each(range(0, n_rows, rows)):
        part = slice(i, min(i + rows, n_rows))
        for j in each(range(0, n, draws)):
            some = slice(j, min(j + draws, n))
            states[part, some] = draw(part, rng.random((part.stop - i, some.stop - j, plan.n_cliques)))
    return states


def _indexed(labels: Any, name: str) -> tuple[Any, Any]:
    """xarray's index over labels and its variable."""
    index = PandasIndex(pd.Index(labels), name)
    return index, index.create_variables()[name]
