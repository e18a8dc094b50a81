"""Entropy of columns and divergence between posteriors: exact, by quadrature, as bounds, or by simulation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.queries.dependence_answers import MOST_STATES, SIMULATED, DependenceAnswers
from pymc_spn.circuits.queries.draw_averages import chain_error, relative_weights
from pymc_spn.circuits.queries.draw_laws import Grid, divergence, information
from pymc_spn.circuits.queries.events import Events, holds, points_of, spread_of
from pymc_spn.circuits.queries.information_bounds import divergence_bound, entropy_bounds

if TYPE_CHECKING:
    import xarray as xr

METHODS = ("auto", "enumeration", "quadrature", "bounds", "monte-carlo")
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
PANELS = 24


class InformationAnswers(DependenceAnswers):
    """Queries whose answer is an integral of a log density."""

    def entropy(
        self,
        columns: str | Sequence[str] | None = None,
        given: Mapping[str, Any] | None = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Entropy in nats of the mixture over draws: of masses in discrete columns, differential in others.

        Parameters
        ----------
        columns : str or list of str, optional
            By default all that are not given at a value.
        given : mapping, optional
        method : {"auto", "enumeration", "quadrature", "bounds", "monte-carlo"}
            Enumeration where all columns have levels, quadrature for one column, else bounds; Monte Carlo on
            request, with `n` simulated rows.

        Returns
        -------
        DataArray
            A scalar, or with bounds ("lower", "upper") along ``bound``. The bounds hold up to the quadrature of
            single leaves (``tolerance``).
        """
        known = self._given(given)
        asked = self._asked(columns, known, "entropy")
        method = self._method(method, asked)
        attrs = self._draw_weights(known)
        if method == "enumeration":
            p, each, weight = self._states_table(asked, known)
            surprise = -np.log(np.where(p > 0.0, p, 1.0))
            value = float(p @ surprise)
            error = chain_error(weight * (each @ surprise - value), self._n_chains)
            return self._labelled("entropy", value, {}, False, **attrs, **error)
        if method == "quadrature":
            value, tolerance = self._refined(asked, known, lambda grids: self._entropy_on(asked[0], known, grids))
            return self._labelled("entropy", value, {}, False, **self._mark(asked, tolerance), **attrs)
        if method == "monte-carlo":
            logs = self._log_given(self._simulated_rows(known, n, random_seed), asked, known)
            attrs |= {"exactness": "monte-carlo", "mcse": float(logs.std(ddof=1) / np.sqrt(logs.size))}
            return self._labelled("entropy", -float(logs.mean()), {}, False, **attrs)
        low, high = self._entropy_bounds(asked, known)
        attrs |= {"exactness": "bound", "tolerance": 1e-6}
        return self._labelled("entropy", np.array([low, high]), {"bound": ["lower", "upper"]}, False, **attrs)

    def kl(
        self,
        other: "InformationAnswers",
        columns: str | Sequence[str] | None = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Kullback-Leibler divergence in nats of another posterior's predictive from this one's, KL(this || other).

        Parameters
        ----------
        other : SPNPosterior
            With the same columns; for example the same posterior under another condition.
        columns, method, n, random_seed
            As for `entropy`. The lower bound is the largest divergence of one column, the upper one follows the
            chain rule down the network; it is infinite between posteriors of different samplings.

        Returns
        -------
        DataArray
            A scalar, or ("lower", "upper") along ``bound``.
        """
        if not isinstance(other, InformationAnswers):
            raise TypeError(f"other must be an SPNPosterior, got {type(other).__name__}")
        asked = self._asked(columns, self._evidence, "kl")
        theirs = {c.name: d for c, d in zip(other.columns, other._kept, strict=True)}
        for d in asked:
            column = self._schema.columns[d]
            if column.name not in theirs or other._schema.columns[theirs[column.name]] != column:
                raise ValueError(f"other must have the column {column.name!r} of the same kind and levels")
        matched = [theirs[self._schema.columns[d].name] for d in asked]
        method = self._method(method, asked)
        attrs = {**self._draw_weights()}
        if method == "enumeration":
            p, q = self._states_table(asked, self._evidence)[0], other._states_table(matched, other._evidence)[0]
            return self._labelled("kl", divergence(p, q), {}, False, **attrs)
        if method == "quadrature":
            value, tolerance = self._refined(
                asked, self._evidence, lambda grids: self._divergence_on(other, asked[0], matched[0], grids)
            )
            tolerance = 0.0 if np.isinf(value) else tolerance
            return self._labelled("kl", value, {}, False, **self._mark(asked, tolerance), **attrs)
        if method == "monte-carlo":
            rows = self._simulated_rows(self._evidence, n, random_seed)
            there = np.full((len(rows), len(other._schema.columns)), np.nan)
            there[:, matched] = rows[:, asked]
            ratio = self._log_given(rows, asked, self._evidence) - other._log_given(there, matched, other._evidence)
            attrs |= {"exactness": "monte-carlo", "mcse": float(ratio.std(ddof=1) / np.sqrt(ratio.size))}
            return self._labelled("kl", float(ratio.mean()), {}, False, **attrs)
        singles = [
            self._divergence_on(other, d, e, self._grids([d], self._evidence, PANELS))
            for d, e in zip(asked, matched, strict=True)
        ]
        bounds = np.array([max(singles), self._divergence_bound(other, asked)])
        attrs |= {"exactness": "bound", "tolerance": 1e-6}
        return self._labelled("kl", bounds, {"bound": ["lower", "upper"]}, False, **attrs)

    # ---- below the surface

    def _asked(self, columns: Any, known: Events, query: str) -> list[int]:
        if columns is None:
            asked = [d for d in self._kept if d not in points_of(known)]
        else:
            names = [columns] if isinstance(columns, str) else list(columns)
            asked = list(dict.fromkeys(self._column_number("columns", name) for name in names))
        if not asked:
            raise ValueError(f"{query} needs at least one column that is not known")
        self._refuse_given(query, asked, known)
        return asked

    def _method(self, method: str, asked: Sequence[int]) -> str:
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}")
        n_states = self._n_states(asked)
        if method == "auto":
            return "enumeration" if n_states <= MOST_STATES else "quadrature" if len(asked) == 1 else "bounds"
        if method == "enumeration" and n_states > MOST_STATES:
            raise ValueError(
                f'method="enumeration" needs binary or categorical columns with at most {MOST_STATES} combinations'
            )
        if method == "quadrature" and len(asked) > 1:
            raise ValueError('method="quadrature" is for a single column')
        return method

    def _density_on(self, d: int, known: Events, grid: Grid) -> np.ndarray:
        """Density (X,) of one column under the mixture over draws."""
        weight = relative_weights(self._log_of(known) + self._log_weights)
        total = np.zeros(grid.x.size)
        for s in np.flatnonzero(weight > 0.0):
            laws = self._laws(int(s), known)
            total += weight[s] * laws.single(d, laws.on_grid(d, grid))
        return total / weight.sum()

    def _entropy_on(self, d: int, known: Events, grids: dict[int, Grid]) -> float:
        p = self._density_on(d, known, grids[d])
        inside = p > 0.0
        return -float(np.sum((grids[d].weight * p)[inside] * np.log(p[inside])))

    def _divergence_on(self, other: "InformationAnswers", d: int, e: int, grids: dict[int, Grid]) -> float:
        grid = grids[d]
        p, q = self._density_on(d, self._evidence, grid), other._density_on(e, other._evidence, grid)
        inside = p > 0.0
        if np.any(q[inside] <= 0.0):
            return np.inf
        # mass of the other beyond the grid is not scaled away: it is part of the divergence
        return max(float(np.sum((grid.weight * p)[inside] * np.log(p[inside] / q[inside]))), 0.0)

    def _log_given(self, rows: np.ndarray, asked: Sequence[int], known: Events) -> np.ndarray:
        """Log density (M,) of some columns of rows given what is known."""
        known_only = self._row(known)[None]
        both = self._log_mixture(self._with_columns(rows, asked, known), known)
        for d, event in spread_of(known).items():
            if d in asked:
                both = np.where(holds(event, rows[:, d]), both, -np.inf)
        return both - float(self._log_mixture(known_only, known)[0])

    def _entropy_bounds(self, asked: Sequence[int], known: Events) -> tuple[float, float]:
        weight = relative_weights(self._log_of(known) + self._log_weights)
        weight = weight / weight.sum()
        grids = self._grids(asked, known, PANELS)
        low = high = 0.0
        for s in np.flatnonzero(weight > 0.0):
            bounds = entropy_bounds(self._laws(int(s), known), grids)
            low += weight[s] * bounds[0]
            high += weight[s] * bounds[1]
        used = weight[weight > 0.0]
        high -= float(used @ np.log(used))  # which draw it is
        singles = [self._entropy_on(d, known, grids) for d in asked]
        return low, min(high, sum(singles) - self._tree_information(asked, known, grids))

    def _tree_information(self, asked: Sequence[int], known: Events, grids: dict[int, Grid]) -> float:
        """Largest sum of mutual informations along a tree: sum H_i less it bounds the joint entropy (Chow and Liu)."""
        if len(asked) > PAIRED:
            return 0.0
        outside, total = set(asked[1:]), 0.0
        best = {d: self._pair_information(asked[0], d, known, grids) for d in outside}
        while outside:
            new = max(outside, key=lambda d: best[d])
            total += best[new]
            outside.remove(new)
            for d in outside:
                best[d] = max(best[d], self._pair_information(new, d, known, grids))
        return total

    def _pair_information(self, a: int, b: int, known: Events, grids: dict[int, Grid]) -> float:
        return information(self._joint(a, b, known, grids), grids[a], grids[b])

    def _divergence_bound(self, other: "InformationAnswers", asked: Sequence[int]) -> float:
        """By convexity: the divergence of the draws' weights, and the mean divergence within draws."""
        if other._states is not self._states:
            return float("inf")
        p = relative_weights(self._log_evidence() + self._log_weights)
        q = relative_weights(other._log_evidence() + other._log_weights)
        if np.any((p > 0.0) & (q <= 0.0)):
            return float("inf")
        within = sum(
            p[s]
            / p.sum()
            * divergence_bound(self._laws(int(s), self._evidence), other._laws(int(s), other._evidence), set(asked))
            for s in np.flatnonzero(p > 0.0)
        )
        return float(within + divergence(p, q))
