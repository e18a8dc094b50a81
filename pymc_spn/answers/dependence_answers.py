"""How columns depend on each other: mutual information of two columns or of groups, and the table of all pairs."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.column_answers import ColumnAnswers, names_of
from pymc_spn.answers.known_cases import Cases
from pymc_spn.events.events import points_of
from pymc_spn.events.unions import ends_of
from pymc_spn.laws.draw_laws import (
    FEW_PANELS,
    GRID_DRAWS,
    MISPLACED,
    Grid,
    grid_of,
    information,
)
from pymc_spn.networks.records.draw_averages import chain_error, relative_weights
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.weighted_intervals import shortest_interval

if TYPE_CHECKING:
    import xarray as xr

MOST_PANELS = 96
CONVERGED = 1e-6  # nats by which halving the panels may change a mutual information
MOST_STATES = 20_000  # combinations of levels that are enumerated
SIMULATED = 10_000
BLOCK_VALUES = 20_000_000  # joint masses held at a time (160 MB)
METHODS = ("auto", "enumeration", "quadrature", "monte-carlo")


class DependenceAnswers(ColumnAnswers):
    """Queries about several columns at once."""

    def mutual_information(
        self,
        first: str | Sequence[str],
        second: str | Sequence[str],
        given: Mapping[str, Any] | str | None = None,
        per_draw: bool = False,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Mutual information of two columns, or of two groups of columns, in nats.

        Parameters
        ----------
        first, second : str or list of str
            Without a common column.
        given : mapping or str, optional
        per_draw : bool
            Whether each draw's own is wanted; of single columns only.
        method : {"auto", "enumeration", "quadrature", "monte-carlo"}
            Enumeration where all columns have levels, quadrature (or sums over counts) for two single columns,
            else Monte Carlo.
        n : int
            Rows that Monte Carlo simulates, at least 2.
        random_seed : int, Generator or None
            Of these rows.

        Returns
        -------
        DataArray
            Marked exact, numerical (``tolerance`` is the change when the panels are halved, and an allowance for mass
            that they misplace) or monte-carlo (``mcse``). The default is that of the mixture over draws, in which what
            the draws disagree about adds dependence.
        """
        return self._information(self._cases(given), first, second, per_draw, method, n, random_seed)

    def _information(
        self, known: Cases, first: Any, second: Any, per_draw: bool, method: str, n: int, random_seed: Any
    ) -> "xr.DataArray":
        """See `mutual_information`."""
        groups = self._groups(first, second)
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {quoted(method)}")
        self._refuse_given("mutual_information", [*groups[0], *groups[1]], known)
        single = len(groups[0]) == len(groups[1]) == 1
        n_states = self._n_states([*groups[0], *groups[1]])
        if method == "auto":
            method = "quadrature" if single else "enumeration" if n_states <= MOST_STATES else "monte-carlo"
            if single and n_states <= MOST_STATES:
                method = "enumeration"
        if method == "enumeration" and n_states > MOST_STATES:
            raise ValueError(
                f'method="enumeration" needs binary or categorical columns with at most {MOST_STATES} combinations'
            )
        if method == "quadrature" and not single:
            raise ValueError('method="quadrature" is for two single columns; give one name each')
        if per_draw and (not single or method == "monte-carlo"):
            raise ValueError("per_draw=True is for two single columns without Monte Carlo")
        if method == "monte-carlo":
            return self._simulated_information(groups, known, n, random_seed)
        if method == "enumeration" and not per_draw:
            return self._enumerated_information(groups, known)
        a, b = groups[0][0], groups[1][0]
        if per_draw:
            each, tolerance = self._information_of_draws(a, b, known)
            return self._labelled("mutual_information", each, {}, True, **self._mark([a, b], tolerance))
        (value, error), tolerance = self._information_of_mixture(a, b, known)
        attrs = self._mark([a, b], tolerance) | self._case_mark(known) | error
        return self._labelled("mutual_information", value, {}, False, **attrs)

    def dependence(
        self,
        given: Mapping[str, Any] | str | None = None,
        prob: float = 0.94,
        threshold: float = 0.01,
        per_draw: bool = False,
        max_draws: int | None = 200,
    ) -> "xr.Dataset | xr.DataArray":
        """Mutual information of every pair of columns, with its uncertainty over draws.

        Parameters
        ----------
        given : mapping or str, optional
        prob : float
            Mass of the highest density interval.
        threshold : float
            In nats, of ``p_dependent``.
        per_draw : bool
            Whether each draw's table is wanted; all draws are then used.
        max_draws : int or None
            Draws that are used, evenly spaced; None for all.

        Returns
        -------
        Dataset
            ``mutual_information`` (column, other), the mean of the draws' own; ``hdi`` (column, other, bound);
            ``p_dependent`` (column, other), the probability that it exceeds the threshold. The diagonal is NaN:
            a continuous column has infinite information about itself.
        """
        return self._dependence(self._cases(given), prob, threshold, per_draw, max_draws)

    def _dependence(
        self, known: Cases, prob: float, threshold: float, per_draw: bool, max_draws: int | None
    ) -> "xr.Dataset | xr.DataArray":
        """See `dependence`."""
        import xarray as xr

        check_prob(prob)
        if not threshold >= 0.0:
            raise ValueError(f"threshold must be at least 0, got {quoted(threshold)}")
        log_weights = self._log_of_cases(known) + self._log_weights
        asked = [d for d in self._kept if d not in points_of(known[0])]
        if len(asked) < 2:
            raise ValueError("dependence needs at least two columns that are not known")
        n_draws = self._states.n_draws
        used = np.arange(n_draws)
        if max_draws is not None and not per_draw:
            if isinstance(max_draws, bool) or not isinstance(max_draws, int | np.integer) or max_draws < 1:
                raise ValueError(f"max_draws must be an integer of at least 1 or None, got {quoted(max_draws)}")
            length = n_draws // self._n_chains  # alike in every chain
            each = min(max(1, max_draws // self._n_chains), length)
            within = np.linspace(0, length - 1, each).round().astype(np.int64)
            used = (np.arange(self._n_chains)[:, None] * length + within).ravel()
        n_pairs = len(asked) * (len(asked) - 1) // 2
        refuse_memory(
            f"dependence of {len(asked):,} columns in {used.size:,} draws",
            8.0 * used.size * n_pairs + 40.0 * len(asked) ** 2,
            "ask post.marginal([...]) of some columns, or lower max_draws",
        )
        grids, fine = self._nested_grids(asked, known, [(FEW_PANELS, 1), (2 * FEW_PANELS, 1)])
        tables, lost = self._tables(asked, known, used, grids)
        some = np.argsort(-lost, kind="stable")[:2]  # a few draws have placed the grids: of all, those that fit least
        checked = self._tables(asked, known, used[some], fine)[0]
        tolerance = float(np.nanmax(np.abs(checked - tables[some])))
        tolerance += MISPLACED if any(self._has_panels(d) for d in asked) else 0.0
        tolerance += sum(grid.cut_information for grid in grids.values())
        names = [self._schema.columns[d].name for d in asked]
        coords = {"column": names, "other": names}
        attrs, side = self._mark(asked, tolerance), len(asked)
        if per_draw:
            return self._labelled("mutual_information", _both_ways(tables, side, np.nan), coords, True, **attrs)
        weight = relative_weights(log_weights[used])
        weight = weight / weight.sum()
        mean = weight @ tables
        bounds = np.array([shortest_interval(each, weight, prob) for each in tables.T])
        above = np.where(np.isnan(mean), np.nan, weight @ (tables > threshold))
        labels = {**coords, "bound": ["lower", "upper"]}
        influence = used.size * weight[:, None] * np.nan_to_num(tables - mean)
        error = chain_error(influence, self._n_chains)
        if "mcse_chain" in error:
            error["mcse_chain"] = _both_ways(error["mcse_chain"], side, 0.0)
        mean, above = _both_ways(mean, side, np.nan), _both_ways(above, side, np.nan)
        bounds = np.moveaxis(_both_ways(bounds.T, side, np.nan), 0, 2)
        attrs = self._attrs(**attrs, **self._case_mark(known), n_draws=int(used.size), **error)
        disagree = {k: v for k, v in attrs.items() if not k.startswith("mcse_chain")}
        disagree = self._attrs(**disagree, mcse_chain_note="no mcse_chain: it is that of mutual_information")
        return xr.Dataset(
            {
                "mutual_information": (("column", "other"), mean, attrs),
                "hdi": (("column", "other", "bound"), bounds, {**disagree, "prob": prob}),
                "p_dependent": (("column", "other"), above, {**disagree, "threshold": threshold}),
            },
            labels,
            {k: attrs[k] for k in ("exactness", "learner", "tolerance") if k in attrs},
        )

    # ---- below the surface

    def _groups(self, first: Any, second: Any) -> list[list[int]]:
        groups = []
        for argument, names in (("first", first), ("second", second)):
            names = names_of(argument, names)
            if not names:
                raise ValueError(f"{argument} must name at least one column, got none")
            groups.append(list(dict.fromkeys(self._column_number(argument, name) for name in names)))
        both = set(groups[0]) & set(groups[1])
        if both:
            raise ValueError(f"first and second must differ, both name {self._schema.columns[min(both)].name!r}")
        return groups

    def _refuse_given(self, query: str, asked: Sequence[int], known: Cases) -> None:
        for d in asked:
            if d in points_of(known[0]):  # several cases have no points
                raise ValueError(f"{query}: column {self._schema.columns[d].name!r} is given at a value")

    def _n_states(self, asked: Sequence[int]) -> int:
        """Combinations of levels, or more than are enumerated where a column is a number."""
        n = 1
        for d in asked:
            levels = self._schema.columns[d].levels
            n *= MOST_STATES + 1 if levels is None else len(levels)
        return n

    def _mark(self, asked: Sequence[int], tolerance: float) -> dict[str, Any]:
        if all(self._schema.columns[d].levels is not None for d in asked):
            return {"exactness": "exact"}
        return {"exactness": "numerical", "tolerance": tolerance}

    def _grids(
        self, asked: Sequence[int], known: Cases, n_panels: int, tail_panels: int = 1, beside: Cases = ()
    ) -> dict[int, Grid]:
        """A grid for each column, placed by the mixture of a few draws; see `grid_of`."""
        return self._nested_grids(asked, known, [(n_panels, tail_panels)], beside)[0]

    def _nested_grids(
        self, asked: Sequence[int], known: Cases, panels: Sequence[tuple[int, int]], beside: Cases = ()
    ) -> list[dict[int, Grid]]:
        """For each number of panels in the bulk and in the tails a grid for each column: of one without, the same."""
        weight = self._weights_of(known)
        ranked = np.argsort(-weight, kind="stable")[: max(GRID_DRAWS, weight.size // 2)]
        few = np.sort(ranked[np.unique(np.linspace(0, ranked.size - 1, GRID_DRAWS).astype(np.int64))])
        grids: list[dict[int, Grid]] = [{} for _ in panels]
        for d in asked:
            law = self._law_of_cases(d, known).of_draws(few).mixed(weight[few])
            several = [case.get(d) for case in (*known, *beside)]
            jumps = [x for event in several for x in ends_of(event)] if len(several) > 1 else []
            column = self._schema.columns[d]
            is_density = bool(self._states.compiled.is_density[d])
            for nested, (n, tail) in zip(grids, panels, strict=True):
                if nested is grids[0] or self._has_panels(d):
                    nested[d] = grid_of(law, column.name, len(column.levels or ()), is_density, n, tail, jumps)
                else:
                    nested[d] = grids[0][d]
        return grids

    def _has_panels(self, d: int) -> bool:
        """Whether a column's grid depends on how many panels are asked for: levels and counts are summed."""
        return self._schema.columns[d].levels is None and bool(self._states.compiled.is_density[d])

    def _tables(
        self, asked: Sequence[int], known: Cases, used: np.ndarray, grids: dict[int, Grid]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mutual information (S, D (D - 1) / 2) of all pairs under each draw, and the mass (S,) that a grid misplaces.

        Pairs are in the order of `combinations`; the mass is that of the column with the most, NaN where none is.
        """
        pairs = list(combinations(asked, 2))
        out, lost = np.full((used.size, len(pairs)), np.nan), np.full(used.size, np.nan)
        shares = self._shares_of_cases(known)
        for k, s in enumerate(used):
            laws = self._laws_of(int(s), known, shares[:, s])
            if not laws.cases:
                continue  # what is known cannot be
            on = {d: laws.masses(d, grids[d]) for d in asked}
            for i, (a, b) in enumerate(pairs):
                out[k, i] = information(laws.pair(a, b, on[a], on[b]))
            found = [float(laws.single(d, on[d]).sum()) for d in asked]
            lost[k] = max(abs(mass - 1.0) for mass in found) if all(found) else np.nan  # what is known cannot be
        return out, lost

    def _joints(self, pairs: Sequence[tuple[int, int]], known: Cases, grids: dict[int, Grid]) -> Iterator[np.ndarray]:
        """Joint masses (X, Y) of pairs of columns on their grids under the mixture over draws, pair by pair.

        Draws are gone through once for as many pairs as there is room for: what a draw says of a column serves all.
        """
        weight = self._weights_of(known)
        sizes = np.array([grids[a].x.size * grids[b].x.size for a, b in pairs])
        start = 0
        while start < len(pairs):
            n = max(1, int(np.searchsorted(np.cumsum(sizes[start:]), BLOCK_VALUES, side="right")))
            block = pairs[start : start + n]
            totals = [np.zeros((grids[a].x.size, grids[b].x.size)) for a, b in block]
            for s, laws in self._laws(known):
                on = {d: laws.masses(d, grids[d]) for d in dict.fromkeys(d for pair in block for d in pair)}
                for (a, b), total in zip(block, totals, strict=True):
                    total += weight[s] * laws.pair(a, b, on[a], on[b])
            yield from (total / weight.sum() for total in totals)
            start += n

    def _joint(self, a: int, b: int, known: Cases, grids: dict[int, Grid]) -> np.ndarray:
        """Joint masses (X, Y) of two columns, see `_joints`."""
        return next(self._joints([(a, b)], known, grids))

    def _information_of_mixture(self, a: int, b: int, known: Cases) -> tuple[Any, float]:
        """Value with its error over draws, and the last change on finer grids."""
        last: dict[int, Grid] = {}

        def ask(grids: dict[int, Grid]) -> float:
            last.update(grids)
            return information(self._joint(a, b, known, grids))

        value, tolerance = self._refined([a, b], known, ask)
        mass = self._joint(a, b, known, last)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(mass / (mass.sum(axis=1, keepdims=True) * mass.sum(axis=0)))
        ratio = np.where(mass > 0.0, ratio, 0.0)
        weight = self._weights_of(known)
        own = np.zeros(weight.size)  # first order: each draw's mean of the mixture's log ratio
        for s, laws in self._laws(known):
            own[s] = np.sum(ratio * laws.pair(a, b, laws.masses(a, last[a]), laws.masses(b, last[b])))
        return (value, chain_error(weight * (own - value), self._n_chains)), tolerance

    def _information_of_draws(self, a: int, b: int, known: Cases) -> tuple[np.ndarray, float]:
        every = np.arange(self._states.n_draws)
        return self._refined([a, b], known, lambda grids: self._tables([a, b], known, every, grids)[0][:, 0])

    def _cut(self, asked: Sequence[int], known: Cases) -> float:
        """Allowance for the tails of whole numbers that are left out; of single columns `beyond_grid` has one."""
        whole = [d for d in asked if not self._has_panels(d)] if len(asked) > 1 else []
        return sum(grid.cut_information for grid in self._grids(whole, known, FEW_PANELS).values())

    def _refined(self, asked: Sequence[int], known: Cases, ask: Any, beside: Cases = ()) -> tuple[Any, float]:
        """An answer on finer and finer grids until it stays, and its last change with what the panels may misplace.

        Of single columns the panels in the tails are halved as well.
        """
        if not any(self._has_panels(d) for d in asked):
            return ask(self._grids(asked, known, FEW_PANELS, 1, beside)), self._cut(asked, known)
        n_panels = FEW_PANELS
        value = ask(self._grids(asked, known, n_panels))
        while True:
            n_panels *= 2
            tail_panels = n_panels // FEW_PANELS if len(asked) == 1 else 1
            finer = ask(self._grids(asked, known, n_panels, tail_panels, beside))
            with np.errstate(invalid="ignore"):  # both may be infinite
                change = float(np.max(np.where(finer == value, 0.0, np.abs(finer - value))))
            value = finer
            if change < CONVERGED or n_panels >= MOST_PANELS:
                return value, change + MISPLACED + self._cut(asked, known)

    def _simulated_information(self, groups: Any, known: Cases, n: int, random_seed: Any) -> "xr.DataArray":
        rows = self._simulated_rows(known, n, random_seed)
        both, one, other = (
            self._log_mixture(self._with_columns(rows, c, known), known)
            for c in ([*groups[0], *groups[1]], groups[0], groups[1])
        )
        ratio = both - one - other + self._nothing_more(known)
        attrs = {"exactness": "monte-carlo", "mcse": float(ratio.std(ddof=1) / np.sqrt(ratio.size))}
        influence = self._influence(rows, [*groups[0], *groups[1]], known, ratio)
        attrs |= self._case_mark(known) | self._draw_error(influence)
        return self._labelled("mutual_information", float(ratio.mean()), {}, False, **attrs)

    def _enumerated_information(self, groups: Any, known: Cases) -> "xr.DataArray":
        p, each, weight = self._states_table([*groups[0], *groups[1]], known)
        n_first = int(np.prod([len(self._schema.columns[d].levels or ()) for d in groups[0]]))
        joint = p.reshape(n_first, -1)
        alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(joint > 0.0, np.log(joint / alone), 0.0).ravel()
        value = max(float(p @ ratio), 0.0)
        error = chain_error(weight * (each @ ratio - value), self._n_chains)
        return self._labelled("mutual_information", value, {}, False, **self._case_mark(known), **error)


def _both_ways(pairs: np.ndarray, side: int, diagonal: float) -> np.ndarray:
    """Tables (..., D, D) of what is known of all pairs (..., D (D - 1) / 2)."""
    table = np.full((*pairs.shape[:-1], side, side), diagonal)
    first, second = np.triu_indices(side, 1)
    table[..., first, second] = table[..., second, first] = pairs
    return table
