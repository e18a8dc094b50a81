"""Entropy of columns and divergence between posteriors: exact, by quadrature, as bounds, or by simulation."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.column_answers import names_of
from pymc_spn.answers.dependence_answers import BLOCK_VALUES, MOST_STATES, SIMULATED, DependenceAnswers
from pymc_spn.answers.known_cases import Cases
from pymc_spn.events.event_information import (
    information_of_cells,
    log_ratios,
    refuse_density,
    refuse_likelihoods,
    shares_of_cells,
)
from pymc_spn.events.events import Events, both_or_none, holds, points_of, spread_of
from pymc_spn.events.unions import both_unions, groups_that_meet, log_union
from pymc_spn.laws.draw_laws import Grid, beyond_grid, divergence, information
from pymc_spn.laws.information_bounds import NO_MASS, divergence_bound, entropy_bounds, largest_tree
from pymc_spn.leaves.family_codes import LOG_NORMAL
from pymc_spn.networks.records.draw_averages import relative_weights
from pymc_spn.networks.records.leaf_predictives import Likelihood
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr

METHODS = ("auto", "enumeration", "quadrature", "bounds", "monte-carlo")
PAIRED = 16  # columns up to which an upper bound uses the dependence of pairs
PANELS = 24
BOUND_NOTE = {"mcse_chain_note": "no mcse_chain: bounds are of the mixture over these draws"}


class InformationAnswers(DependenceAnswers):
    """Queries whose answer is an integral of a log density."""

    def entropy(
        self,
        columns: str | Sequence[str] | None = None,
        given: Mapping[str, Any] | str | None = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Entropy in nats of the mixture over draws: of masses in discrete columns, differential in others.

        Parameters
        ----------
        columns : str or list of str, optional
            By default all that are not given at a value.
        given : mapping or str, optional
        method : {"auto", "enumeration", "quadrature", "bounds", "monte-carlo"}
            Enumeration where all columns have levels, quadrature for one column, else bounds; Monte Carlo on
            request.
        n : int
            Rows that Monte Carlo simulates, at least 2.
        random_seed : int, Generator or None
            Of these rows.

        Returns
        -------
        DataArray
            A scalar, or with bounds ("lower", "upper") along ``bound``. The bounds hold up to ``tolerance``, which is
            measured: what they change by when the panels of all grids are doubled, and an allowance for the mass beyond
            the grids, infinite where log-normal leaves have tails so long (one degree of freedom, a ``leaf_shape`` of
            1/2, and less) that no entropy exists. The upper bound is the smaller one of that of the network and of the
            sum of the single columns' entropies less pairwise mutual informations along a tree (up to 16 columns),
            these by quadrature, too.
        """
        return self._entropy(self._cases(given), columns, method, n, random_seed)

    def _entropy(self, known: Cases, columns: Any, method: str, n: int, random_seed: Any) -> "xr.DataArray":
        """See `entropy`."""
        asked = self._asked(columns, known, "entropy")
        method = self._method(method, asked)
        attrs = self._case_mark(known)
        if method == "enumeration":
            p, each, weight = self._states_table(asked, known)
            surprise = -np.log(np.where(p > 0.0, p, 1.0))
            value = float(p @ surprise)
            error = self._draw_error(weight * (each @ surprise - value))
            return self._labelled("entropy", value, {}, False, **attrs, **error)
        if method == "quadrature":
            value, error, tolerance = self._entropy_of_column(asked[0], known)
            return self._labelled("entropy", value, {}, False, **self._mark(asked, tolerance), **attrs, **error)
        if method == "monte-carlo":
            rows = self._simulated_rows(known, n, random_seed)
            logs = self._log_given(rows, asked, known)
            attrs |= {"exactness": "monte-carlo", "mcse": float(logs.std(ddof=1) / np.sqrt(logs.size))}
            attrs |= self._draw_error(self._influence(rows, asked, known, -logs))
            return self._labelled("entropy", -float(logs.mean()), {}, False, **attrs)
        bounds, tolerance = self._entropy_bounds(asked, known)
        attrs |= {"exactness": "bound", "tolerance": tolerance, **BOUND_NOTE}
        return self._labelled("entropy", bounds, {"bound": ["lower", "upper"]}, False, **attrs)

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
            chain rule down the network, between conditions on the same draws. Between posteriors of different samplings
            it is infinite, and "auto" simulates in place of bounds.

        Returns
        -------
        DataArray
            A scalar, or ("lower", "upper") along ``bound``; ``tolerance`` of the lower one is measured as for
            `entropy`, the upper one is in closed form. ``mcse_chain`` has the error over the draws of both posteriors,
            together where these are the same draws.
        """
        return self._kl([self._evidence], other, columns, method, n, random_seed)

    def _cases_of_other(self, other: Any) -> "tuple[InformationAnswers, Cases]":
        """A posterior, or the posterior behind a union, and what it is given."""
        if isinstance(other, InformationAnswers):
            return other, [other._evidence]
        if not hasattr(other, "_posterior_and_cases"):
            raise TypeError(f"other must be an SPNPosterior or a UnionPosterior, got {type(other).__name__}")
        return other._posterior_and_cases()

    def _kl(
        self, known: Cases, given_other: Any, columns: Any, method: str, n: int, random_seed: Any
    ) -> "xr.DataArray":
        """See `kl`."""
        other, their_known = self._cases_of_other(given_other)
        asked = self._asked(columns, known, "kl")
        theirs = {c.name: d for c, d in zip(other.columns, other._kept, strict=True)}
        for d in asked:
            column = self._schema.columns[d]
            if column.name not in theirs or other._schema.columns[theirs[column.name]] != column:
                raise ValueError(f"other must have the column {column.name!r} of the same kind and levels")
        matched = [theirs[self._schema.columns[d].name] for d in asked]
        # between samplings or given unions a bound from above would be infinite
        is_open = method == "auto" and (other._states is not self._states or len(known) + len(their_known) > 2)
        method = self._method(method, asked)
        method = "monte-carlo" if is_open and method == "bounds" else method
        attrs = {**self._case_mark(known)}
        if method == "enumeration":
            p, own, weight = self._states_table(asked, known)
            q, theirs_own, their_weight = other._states_table(matched, their_known)
            value = divergence(p, q)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(p > 0.0, np.log(p / q), 0.0)
                slope = np.where(p > 0.0, p / q, 0.0)
                error = self._two_errors(
                    other, weight * (own @ ratio - value), their_weight * (1.0 - theirs_own @ slope)
                )
            return self._labelled("kl", value, {}, False, **attrs, **error)
        if method == "quadrature":
            value, error, tolerance = self._divergence_of_column(known, other, their_known, asked[0], matched[0])
            return self._labelled("kl", value, {}, False, **self._mark(asked, tolerance), **attrs, **error)
        if method == "monte-carlo":
            rows = self._simulated_rows(known, n, random_seed)
            there = np.full((len(rows), len(other._schema.columns)), np.nan)
            there[:, matched] = rows[:, asked]
            ratio = self._log_given(rows, asked, known) - other._log_given(there, matched, their_known)
            attrs |= {"exactness": "monte-carlo", "mcse": float(ratio.std(ddof=1) / np.sqrt(ratio.size))}
            with np.errstate(invalid="ignore"):
                own = self._influence(rows, asked, known, ratio)
            slope = -other._shares_of_draws(there, matched, their_known)
            if other._states is self._states:  # of mean 0, and with the noise of the same rows
                slope += self._shares_of_draws(rows, asked, known)
            attrs |= self._two_errors(other, own, slope)
            return self._labelled("kl", float(ratio.mean()), {}, False, **attrs)
        pairs = zip(asked, matched, strict=True)
        singles = [self._divergence_of_column(known, other, their_known, d, e) for d, e in pairs]
        low, _, tolerance = max(singles, key=lambda single: single[0])
        bounds = np.array([low, self._divergence_bound(known, other, their_known, asked)])
        attrs |= {"exactness": "bound", "tolerance": tolerance, **BOUND_NOTE}
        return self._labelled("kl", bounds, {"bound": ["lower", "upper"]}, False, **attrs)

    def event_information(self, first: Any, second: Any, given: Any = None, per_draw: bool = False) -> "xr.DataArray":
        """Mutual information in nats of whether one event and whether another one holds.

        Parameters
        ----------
        first, second : mapping, sequence of mappings or str
            Events as for `SPNPosterior.probability`, without points of continuous columns and likelihoods.
        given : the same, optional
            What is known.
        per_draw : bool
            Whether each draw's own is wanted, unweighted.

        Returns
        -------
        DataArray
            A scalar, or (chain, draw); exact. The default is that of the mixture over draws.

        Raises
        ------
        TypeError, ValueError
            As `SPNPosterior.probability`; if an event is a point of a continuous column or soft evidence.
        """
        return self._event_information(first, second, self._signed_evidence(given), per_draw)

    def _event_information(
        self, first: Any, second: Any, known: list[tuple[float, Events]], per_draw: bool
    ) -> "xr.DataArray":
        """See `event_information`."""
        unions = [self._events_that_hold(argument, event) for argument, event in (("first", first), ("second", second))]
        base = log_union(((sign, self._log_of(e, check=False)) for sign, e in known), self._log_weights.shape)
        if base.max() == -np.inf:
            self._refuse("given", known[0][1])

        def p(union: Any) -> np.ndarray:
            joint = both_unions(union, known, both_or_none)
            logs = log_union(((sign, self._log_of(e, check=False)) for sign, e in joint), base.shape)
            return np.exp(logs - np.where(np.isfinite(base), base, 0.0))

        each = shares_of_cells(*(p(union) for union in (*unions, both_unions(unions[0], unions[1], both_or_none))))
        if per_draw:
            own = np.array([information_of_cells(cells) for cells in each.T])
            return self._labelled("mutual_information", own, {}, True)
        weight = relative_weights(base + self._log_weights)
        cells = each @ weight / weight.sum()
        value = information_of_cells(cells)
        error = self._draw_error(weight * (log_ratios(cells) @ each - value))
        mark = self._weight_mark(base, any(e for _, e in known))
        return self._labelled("mutual_information", value, {}, False, **mark, **error)

    # ---- below the surface

    def _events_that_hold(self, argument: str, event: Any) -> list[tuple[float, Events]]:
        """An event as signed events; only what is true or false of a row."""
        if event is None:
            raise TypeError(f"{argument} must map column names to a value, (low, high) or a set, or be text, got None")
        union = self._signed_events(argument, event)
        for _, one in union:
            for d, what in one.items():
                name = self._schema.columns[d].name
                if isinstance(what, float) and self._states.compiled.is_density[d]:
                    refuse_density(argument, name, what)
                if isinstance(what, Likelihood):
                    refuse_likelihoods(argument, name)
        return union

    def _asked(self, columns: Any, known: Cases, query: str) -> list[int]:
        if columns is None:
            asked = [d for d in self._kept if d not in points_of(known[0])]
        else:
            names = names_of("columns", columns)
            asked = list(dict.fromkeys(self._column_number("columns", name) for name in names))
        if not asked:
            raise ValueError(f"{query} needs at least one column that is not known")
        self._refuse_given(query, asked, known)
        return asked

    def _method(self, method: str, asked: Sequence[int]) -> str:
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {quoted(method)}")
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

    def _density_on(self, d: int, known: Cases, grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Density (X,) of one column under the mixture over draws, (S, X) under each, and the draws' weights (S,)."""
        weight = self._weights_of(known)
        each = np.zeros((weight.size, grid.x.size))
        for s, laws in self._laws(known):
            each[s] = laws.density(d, grid)
        return weight @ each / weight.sum(), each, weight

    def _entropy_of_column(self, d: int, known: Cases) -> tuple[float, dict[str, Any], float]:
        """Entropy of one column, its error over the draws, and its tolerance."""
        influence = grid = None

        def ask(grids: dict[int, Grid]) -> float:
            nonlocal influence, grid
            grid = grids[d]
            p, each, weight = self._density_on(d, known, grid)
            surprise = -np.log(np.where(p > 0.0, p, 1.0)) * grid.weight
            value = float(p @ surprise)
            influence = weight * (each @ surprise - value)
            return value

        value, change = self._refined([d], known, ask)
        assert influence is not None and grid is not None
        return value, self._draw_error(influence), change + self._beyond(d, known, grid)

    def _divergence_of_column(
        self, known: Cases, other: "InformationAnswers", their_known: Cases, d: int, e: int
    ) -> tuple[float, dict[str, Any], float]:
        """Divergence of one column, its error over the draws, and its tolerance."""
        influences: list[np.ndarray] = []
        last = None

        def ask(grids: dict[int, Grid]) -> float:
            nonlocal last
            grid = last = grids[d]
            p, each, weight = self._density_on(d, known, grid)
            q, theirs, their_weight = other._density_on(e, their_known, grid)
            inside = (p > 0.0) & ((q > 0.0) | (grid.weight * p > NO_MASS))
            if np.any(q[inside] <= 0.0):
                influences[:] = [np.full(weight.size, np.inf), np.zeros(their_weight.size)]
                return np.inf
            # mass of the other beyond the grid is not scaled away: it is part of the divergence
            ratio, slope = np.zeros(p.size), np.zeros(p.size)
            ratio[inside] = np.log(p[inside] / q[inside]) * grid.weight[inside]
            slope[inside] = p[inside] / q[inside] * grid.weight[inside]
            value = max(float(p @ ratio), 0.0)
            influences[:] = [weight * (each @ ratio - value), their_weight * (1.0 - theirs @ slope)]
            return value

        beside = [{d: case[e]} for case in their_known if e in case] if len(known) + len(their_known) > 2 else []
        value, change = self._refined([d], known, ask, beside)
        assert last is not None
        tolerance = 0.0 if np.isinf(value) else change + self._beyond(d, known, last, is_ratio=True)
        return value, self._two_errors(other, *influences), tolerance

    def _beyond(self, d: int, known: Cases, grid: Grid, is_ratio: bool = False) -> float:
        """`beyond_grid` of the column under all draws together."""
        law = self._law_of_cases(d, known).mixed(self._weights_of(known))
        has_logs = law.has(LOG_NORMAL) and not is_ratio
        return beyond_grid(lambda x: law.cdf(x)[0], grid, law.mean_log_beyond if has_logs else None)

    def _two_errors(self, other: "InformationAnswers", own: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
        """Error over the draws of this posterior and of another one: together where these are the same draws."""
        if other._states is self._states:
            return self._draw_error(own + theirs)
        errors = [self._draw_error(own), other._draw_error(theirs)]
        noted = [e for e in errors if "mcse_chain" not in e]
        return noted[0] if noted else {"mcse_chain": float(np.hypot(*(e["mcse_chain"] for e in errors)))}

    def _shares_of_draws(self, rows: np.ndarray, columns: Sequence[int], known: Cases) -> np.ndarray:
        """Each draw's (S,) weight times its density over the mixture's, averaged over rows of another law, about 1."""
        values = self._with_columns(rows, columns, known)
        total = np.zeros(self._states.n_draws)
        step = max(1, BLOCK_VALUES // total.size)
        for start in range(0, len(values), step):
            logs = self._log_joint(values[start : start + step], known)
            total += relative_weights(logs + self._log_weights[:, None]).sum(axis=1)
        return total / len(values) - self._weights_of(known)

    def _log_given(self, rows: np.ndarray, asked: Sequence[int], known: Cases) -> np.ndarray:
        """Log density (M,) of some columns of rows given what is known."""
        both = self._log_mixture(self._with_columns(rows, asked, known), known)
        for d, event in spread_of(known[0]).items() if len(known) == 1 else ():
            if d in asked:
                both = np.where(holds(event, rows[:, d]), both, -np.inf)
        return both - self._nothing_more(known)

    def _entropy_bounds(self, asked: Sequence[int], known: Cases) -> tuple[np.ndarray, float]:
        """Lower and upper bound, and how far they are measured to be off."""
        weight = self._weights_of(known)
        weight = weight / weight.sum() * self._shares_of_cases(known)  # of cases and draws
        panels = [(n, max(n // PANELS, 1)) for n in (PANELS // 2, PANELS, 2 * PANELS)]
        few, grids, fine = self._nested_grids(asked, known, panels)
        nested = np.zeros((2, 2))  # grids and fine ones; lower and upper
        for j, s in np.argwhere(weight > 0.0).tolist():
            laws = self._laws_of_case(s, known[j])
            nested += weight[j, s] * np.array([entropy_bounds(laws, g) for g in (grids, fine)])
        used = weight[weight > 0.0]
        nested[:, 1] -= float(used @ np.log(used))  # which case and draw it is
        if len(known) > 1:  # the columns tell cases apart that do not meet in them
            group = groups_that_meet([{d: e for d, e in case.items() if d in asked} for case in known])
            apart = np.bincount(group, weight.sum(axis=1))
            nested[:, 0] -= float(apart @ np.log(np.where(apart > 0.0, apart, 1.0)))
        tolerance = float(np.abs(nested[1] - nested[0]).max()) + sum(self._beyond(d, known, fine[d]) for d in asked)
        parts = [self._entropy_of_column(d, known) for d in asked]
        singles, off = sum(p[0] for p in parts), sum(p[2] for p in parts)
        # joint densities of pairs are dear: their panels are halved instead
        shared, rough = self._tree_informations(asked, known, grids, few)
        return np.array([nested[1, 0], min(nested[1, 1], singles - shared)]), float(
            max(tolerance, off + abs(shared - rough))
        )

    def _tree_informations(
        self, asked: Sequence[int], known: Cases, grids: dict[int, Grid], few: dict[int, Grid]
    ) -> tuple[float, float]:
        """Largest sum of mutual informations along a tree, on grids and on those with fewer panels.

        The sum of the columns' entropies less it bounds the joint entropy (Chow and Liu).
        """
        if len(asked) > PAIRED:
            return 0.0, 0.0
        pairs = list(combinations(sorted(asked), 2))
        moved = [pair for pair in pairs if any(self._has_panels(d) for d in pair)]
        found = self._pair_informations(pairs, known, grids)
        rough = found | self._pair_informations(moved, known, few)
        return _largest_tree(asked, found), _largest_tree(asked, rough)

    def _pair_informations(
        self, pairs: Sequence[tuple[int, int]], known: Cases, grids: dict[int, Grid]
    ) -> dict[tuple[int, int], float]:
        """Mutual information of pairs of columns under the mixture."""
        return {pair: information(mass) for pair, mass in zip(pairs, self._joints(pairs, known, grids), strict=True)}

    def _divergence_bound(
        self, known: Cases, other: "InformationAnswers", their_known: Cases, asked: Sequence[int]
    ) -> float:
        """By convexity: the divergence of the draws' weights, and the mean divergence within draws."""
        if other._states is not self._states or len(known) + len(their_known) > 2:
            return float("inf")
        p = self._weights_of(known)
        q = other._weights_of(their_known)
        if np.any((p > 0.0) & (q <= 0.0)):
            return float("inf")
        within = sum(
            p[s]
            / p.sum()
            * divergence_bound(
                self._laws_of_case(int(s), known[0]), other._laws_of_case(int(s), their_known[0]), set(asked)
            )
            for s in np.flatnonzero(p > 0.0)
        )
        return float(within + divergence(p, q))


def _largest_tree(columns: Sequence[int], of_pairs: dict[tuple[int, int], float]) -> float:
    """`largest_tree` from the information of each pair, the smaller number first."""
    return largest_tree(columns, lambda a, b: of_pairs[min(a, b), max(a, b)])
