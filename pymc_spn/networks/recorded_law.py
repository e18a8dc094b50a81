"""Recorded draws, or the one state of a variational fit, as a tractable law: each draw is a circuit."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np
from scipy.special import logsumexp

from pymc_spn.events.events import (
    Event,
    Events,
    Interval,
    both_or_none,
    describe,
    holds,
    intersect,
    points_of,
    spread_of,
)
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.column_of_rows import ColumnOfRows
from pymc_spn.laws.grid_law import GridLaw
from pymc_spn.laws.law import BestTrees, Completed, Law, PairLogs
from pymc_spn.laws.mixed_law import MixedLaw
from pymc_spn.leaves.elliptical_boxes import TOLERANCE as BOX_TOLERANCE
from pymc_spn.leaves.kernel_forms import LOGARITHM
from pymc_spn.leaves.leaf_predictives import TOLERANCE, Leaves
from pymc_spn.maxima.row_boxes import RowBox
from pymc_spn.networks.recorded_rows import leaves_in_rows
from pymc_spn.networks.records.best_trees import best_trees
from pymc_spn.networks.records.draw_blocks import Asked
from pymc_spn.networks.records.draw_pairs import ColumnPairs
from pymc_spn.networks.records.imputed_rows import complete_rows
from pymc_spn.networks.records.multivariate_leaves import TOLERANCES, column_given, known_in
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.records.run_weights import members
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.numerics.draw_averages import choose_draws, effective_draws, fewer_draws, relative_weights

BLOCK_VALUES = 2_000_000  # per-draw log densities held at a time (16 MB)


class RecordedLaw(GridLaw):
    """Predictives of the recorded draws of a network, given what is known of a row.

    Parameters
    ----------
    states : RecordedStates
    kept : sequence of int, optional
        Columns of the network that are those of the law, by default all.
    evidence : dict, optional
        Points and events that are known, by column of the network; by default that values of columns whose
        distributions end at 0 are not below it.
    chosen : (S,) float64, optional
        Log weight of each draw before the evidence, by default equal.
    """

    def __init__(
        self,
        states: RecordedStates,
        kept: Sequence[int] | None = None,
        evidence: Events | None = None,
        chosen: np.ndarray | None = None,
    ) -> None:
        self.states, self.schema, self.marks = states, states.schema, states.marks
        self.kept = tuple(range(len(self.schema.columns))) if kept is None else tuple(kept)
        ends = {d: Interval(-width, np.inf) for d, width in self.schema.cut_at_zero.items()}
        self.evidence: Events = dict(ends) if evidence is None else evidence
        self.told = {d: e for d, e in self.evidence.items() if e != ends.get(d)}  # and not known of every row
        self.chosen = np.zeros(states.n_draws) if chosen is None else chosen
        own = list(self.kept)
        self.columns = tuple(self.schema.columns[d] for d in own)
        self.is_density = np.array(states.compiled.is_density)[own]
        self.resolution = np.array(self.schema.resolution, np.float64)[own]
        points = self.schema.grid_points or (0.0,) * len(self.schema.columns)
        self.grid_points = np.array(points, np.float64)[own]
        self.is_weighted = bool(self.told) or bool(np.any(self.chosen))
        rounded = states.rounded is not None and any(d in own for d in self.schema.rounded_columns)
        self.cell_tolerance = states.cell_tolerance if rounded else None
        self.known_tolerance = TOLERANCES[min(len(known_in(self.schema.joint_columns, spread_of(self.evidence))), 2)]

    @cached_property
    def log_known(self) -> np.ndarray:
        """Log probability (S,) of what is known under each draw."""
        return self._log_of(self.evidence)

    @cached_property
    def log_weights(self) -> np.ndarray:
        """See `Law`."""
        return self.chosen + self.log_known

    @property
    def zero_width(self) -> np.ndarray:
        """See `Law`."""
        return np.array([self.schema.zero_widths.get(d, np.nan) for d in self.kept])

    @property
    def is_as_sampled(self) -> bool:
        """Whether nothing is known and no column summed out, however draws are weighed."""
        return len(self.kept) == len(self.schema.columns) and not self.told

    def is_same(self, other: Law) -> bool:
        """See `Law`."""
        first = other.parts[0]
        return isinstance(first, RecordedLaw) and first.states is self.states

    def known(self, d: int) -> Event | None:
        """See `Law`."""
        return spread_of(self.evidence).get(self.kept[d])

    def in_words(self) -> str:
        """See `Law`."""
        return self._in_words(self.told)

    def _in_words(self, known: Events) -> str:
        columns = self.schema.columns
        return ", ".join(f"{columns[d].name!r} {describe(columns[d], e)}" for d, e in known.items())

    def _of_network(self, event: Events) -> Events:
        found, widths = {self.kept[d]: e for d, e in event.items()}, self.schema.zero_widths
        for d in widths.keys() & found.keys():
            found[d] = with_zero(found[d], widths[d])
        return found

    # ---- new laws

    def given(self, event: Events) -> "RecordedLaw":
        """See `Law`."""
        known, clash = intersect(self.evidence, self._of_network(event))
        law = (
            self
            if clash is not None
            else RecordedLaw(self.states, [d for d in self.kept if d not in points_of(known)], known, self.chosen)
        )
        if clash is not None or law.log_known.max() == -np.inf:
            self.refuse("given", event)
        return law

    def of(self, columns: Sequence[int]) -> "RecordedLaw":
        """See `Law`."""
        return RecordedLaw(self.states, [self.kept[d] for d in columns], self.evidence, self.chosen)

    def fewer(self, n: int) -> "RecordedLaw":
        """See `Law`: evenly spaced, or by the weights that chains have."""
        return RecordedLaw(self.states, self.kept, self.evidence, fewer_draws(self.chosen, n))

    def in_states(self, states: RecordedStates) -> "RecordedLaw":
        """The same law of more or fewer draws of the same chains; within a run all weigh the same."""
        old, new = members(self.states.record.runs), members(states.record.runs)
        chosen = np.zeros(states.n_draws)
        for run, here in new.items() if np.any(self.chosen) else ():
            chosen[here] = self.chosen[old[run][0]] + np.log(old[run].size / here.size)
        return RecordedLaw(states, self.kept, self.evidence, chosen)

    def mixed(self, parts: Sequence[Law]) -> MixedLaw:
        """See `Law`."""
        return MixedLaw(parts)

    # ---- densities and probabilities

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        """Rows (M, D) of all columns of the network, with the points that are known."""
        values = np.tile(self.row(self.evidence), (len(rows), 1))
        values[:, list(self.kept)] = rows
        return values

    def row(self, known: Events) -> np.ndarray:
        """Row (D,) of all columns of the network with these points."""
        row = np.full(len(self.schema.columns), np.nan)
        for d, x in points_of(known).items():
            row[d] = x
        return row

    def cells(self, values: np.ndarray) -> RoundedCells | None:
        """What the rounded columns of embedded rows stand for; points of the evidence are exact values."""
        return self.states.cells_of(values, points_of(self.evidence), spread_of(self.evidence))

    def log_density(self, rows: np.ndarray, cells: bool = False) -> np.ndarray:
        """See `Law`."""
        return self._log_density(self.embedded(rows), cells)

    def _log_density(self, values: np.ndarray, cells: bool) -> np.ndarray:
        rounded = self.cells(values) if cells else None
        logs = self.states.log_densities(values, spread_of(self.evidence), rounded)
        return self._less_known(logs, self._possible(values, rounded))

    def _less_known(self, logs: np.ndarray, possible: np.ndarray) -> np.ndarray:
        """Logs (S, M, ...) of rows together with the evidence, given it."""
        known = self.log_known.reshape(-1, *(1,) * (logs.ndim - 1))
        possible = possible.reshape(-1, *(1,) * (logs.ndim - 2)) & (known > -np.inf)
        return np.where(possible, logs - np.where(known > -np.inf, known, 0.0), -np.inf)

    def log_density_left_out(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Law`."""
        events = spread_of(self.evidence)
        if known_in(self.schema.joint_columns, events):
            return super().log_density_left_out(rows)
        values = self.embedded(rows)
        rounded = self.cells(values)
        possible = self._possible(values, rounded)
        logs, without = self.states.log_densities_left_out(values, events, rounded)
        without = self._less_known(without[:, :, list(self.kept)], possible)
        for k, d in enumerate(self.kept):
            if d in self.evidence:  # what is given of the column is still known
                seen = ~np.isnan(values[:, d])
                rest = values[seen]
                rest[:, d] = np.nan
                without[:, seen, k] = self._log_density(rest, True)
        return self._less_known(logs, possible), without

    def log_density_of_pairs(self, used: np.ndarray) -> Callable[[np.ndarray, np.ndarray], PairLogs]:
        """See `Law`."""
        events, kept = spread_of(self.evidence), list(self.kept)
        if known_in(self.schema.joint_columns, events):
            return super().log_density_of_pairs(used)
        wanted = np.isin(np.arange(len(self.schema.columns)), kept)
        pairs = ColumnPairs(self.states.blocks, used, Asked(self.row(self.evidence)[None], events), wanted)
        a, b = np.triu_indices(len(kept), 1)

        def ask(first: np.ndarray, second: np.ndarray) -> PairLogs:
            rows = self.embedded(first), self.embedded(second)
            one, two = (self.schema.log_jacobians(own)[:, kept] for own in rows)
            found = pairs.log_densities(*rows)
            return PairLogs(found.first + one, found.second + two, found.both + one[:, a] + two[:, b])

        return ask

    def log_event(self, event: Events) -> np.ndarray:
        """See `Law`."""
        both = both_or_none(self.evidence, self._of_network(event))
        if both is None:
            return np.full(self.n_circuits, -np.inf)
        return self._less_known(self._log_of(both)[:, None], np.ones(1, np.bool_))[:, 0]

    def _log_of(self, known: Events) -> np.ndarray:
        """Log probability (S,) of points and events of the network under each draw."""
        if not known:
            return np.zeros(self.states.n_draws)
        return self.states.log_densities(self.row(known)[None], spread_of(known))[:, 0]

    def possible(self, rows: np.ndarray, cells: bool = True) -> np.ndarray:
        """See `Law`: by what the law is given; a value below 0 where there was none has density zero instead."""
        values, told = self.embedded(rows), spread_of(self.told)
        rounded = self.states.cells_of(values, points_of(self.told), told) if cells else None
        return self._possible(values, rounded, told)

    def has_density_at(self, rows: np.ndarray) -> np.ndarray:
        """Whether each row (M,) is within what is known, which includes where columns end at 0."""
        values = self.embedded(rows)
        return self._possible(values, self.cells(values))

    def _possible(self, values: np.ndarray, rounded: RoundedCells | None, known: Events | None = None) -> np.ndarray:
        possible = np.ones(len(values), np.bool_) if rounded is None else rounded.possible.copy()
        for d, event in spread_of(self.evidence if known is None else known).items():
            if rounded is None or d not in rounded.columns or not self.states.compiled.is_density[d]:
                possible &= holds(event, values[:, d])
        return possible

    # ---- columns

    def column(self, d: int) -> ColumnLaw:
        """See `Law`."""
        states, d, row = self.states, self.kept[d], self.row(self.evidence)[None]
        events, several = spread_of(self.evidence), states.joint_leaves.column(d)
        leaves, begin = states.all_leaves(d)
        _, (shares,), (of_several,) = states.blocks.shares(Asked(row, events), d, begin, several)
        used, draw = shares > 0.0, np.repeat(np.arange(begin.size - 1), np.diff(begin))
        parts = [(*leaves.some(used), shares[used], draw[used])]
        used = np.flatnonzero(of_several > 0.0)
        if used.size:
            own, weights = column_given(several, d, used, 0 * used, row, events)
            share = of_several[used, None] * weights
            parts.append((*own, share.ravel(), np.repeat(several.circuit[used], weights.shape[1])))
        family, parameters, share, draw = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(draw, kind="stable")
        first = np.searchsorted(draw[order], np.arange(states.n_draws))
        return ColumnLaw(Leaves(family[order], parameters[order]), share[order], first, events.get(d))

    def column_of_rows(self, d: int, rows: np.ndarray) -> ColumnOfRows:
        """See `Law`."""
        return ColumnOfRows(leaves_in_rows(self, d, rows))

    def moments(self, columns: Sequence[int], covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `Law`."""
        asked = [self.kept[d] for d in columns]
        means, found = self.states.moments(self.row(self.evidence), spread_of(self.evidence), asked, covariance)
        if not covariance or asked == list(range(found.shape[1])):  # no copy, of many columns they are large
            return means[:, asked], found
        return means[:, asked], found[:, np.array(asked)[:, None], asked]

    def event_tolerance(self, event: Events) -> float:
        """See `Law`: several intervals of columns in leaves over several are by a quasi-Monte-Carlo rule."""
        asked = {**spread_of(self.evidence), **{self.kept[d]: e for d, e in event.items()}}
        return BOX_TOLERANCE if len(known_in(self.schema.joint_columns, asked)) > 1 else 0.0

    def moment_tolerance(self, columns: Sequence[int]) -> float:
        """See `Law`: of a column within an interval they are by quadrature."""
        return TOLERANCE if any(isinstance(self.known(d), Interval) for d in columns) else 0.0

    def centred(self, columns: Sequence[int], every: bool = False) -> list[str]:
        """See `Law`: where the learned leaf shape is 1/2 or less, unoccupied leaves count with their centre."""
        shapes = self.states.hyperparameters[HYPERPARAMETERS.index("leaf_shape")]
        shape = shapes.min(axis=0)
        if not every and np.any(shape <= 0.5):
            shape = shapes[relative_weights(self.log_weights) > 0.0].min(axis=0)
        skewed = self.schema.columns_reading(LOGARITHM)
        asked = {self.kept[d] for d in columns} - self.evidence.keys()
        gaussian = [d for d in self.schema.gaussian_columns if d in asked and not skewed[d]]
        return [self.schema.columns[d].name for d in gaussian if shape[d] <= 0.5]

    def asked(self, values: np.ndarray) -> Asked:
        """Embedded rows with what else is known of them."""
        return Asked(values, spread_of(self.evidence), self.cells(values))

    # ---- rows

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """See `Law`."""
        chosen = choose_draws(self.log_weights[:, None], n, rng)
        row = self.row(self.evidence)[None]
        return complete_rows(self.states, row, spread_of(self.evidence), chosen, rng)[:, 0, list(self.kept)]

    def complete(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Completed:
        """See `Law`."""
        values = self.embedded(rows)
        chosen, few, impossible = [np.empty((n, 0), np.int64)], np.inf, np.zeros(len(values), np.bool_)
        block = max(1, BLOCK_VALUES // self.n_circuits)
        for start in range(0, len(values), block):
            part = slice(start, start + block)
            logs = self._log_density(values[part], True) + self.log_weights[:, None]
            impossible[part] = ~np.isfinite(logs.max(axis=0))
            logs[:, impossible[part]] = self.chosen[:, None]
            chosen.append(choose_draws(logs, n, rng))
            few = min(few, float(effective_draws(logs).min()))
        asked = np.where(impossible[:, None], self.row(self.evidence), values)  # nothing follows from what cannot be
        of_rows = np.concatenate(chosen, axis=1)
        completed = complete_rows(self.states, asked, spread_of(self.evidence), of_rows, rng, self.cells(asked))
        completed[:, impossible] = values[impossible]
        return Completed(completed[:, :, list(self.kept)], impossible, few)

    # ---- the densest row

    @property
    def grows_at_zero(self) -> np.ndarray:
        """See `Law`: columns with log-normal leaves."""
        return self.schema.columns_reading(LOGARITHM)[list(self.kept)]

    def best_trees(self, box: RowBox) -> BestTrees:
        """See `Law`."""
        known = self.row(self.evidence), spread_of(self.evidence)
        found = best_trees(self.states, *known, self.kept, self.chosen, box)
        return found._replace(upper_bound=found.upper_bound - float(logsumexp(self.log_weights)))

    def thinned(self, n: int) -> "RecordedLaw":
        """See `Law`: draws evenly spaced in each chain, unless those of a run weigh differently."""
        if self.n_circuits <= 2 * n or any(
            np.ptp(self.chosen[own]) > 0.0 for own in members(self.states.record.runs).values()
        ):
            return self
        return self.in_states(self.states.some(-(-n // len(self.marks.chains))))

    # ---- refusals

    def refuse(self, where: str, event: Events) -> NoReturn:
        """See `Law`."""
        new = self._of_network(event)
        known, clash = intersect(self.evidence, new)
        columns = self.schema.columns
        for d, what in event.items():
            if isinstance(what, Interval) and what.high < 0.0 and not np.isnan(self.zero_width[d]):
                words = f"column {self.columns[d].name!r} cannot be {describe(self.columns[d], what)}"
                raise ValueError(f"{where}: {words}: no value in the training table is negative")
        if clash is not None:
            raise ValueError(
                f"{where}: column {columns[clash].name!r} cannot be {describe(columns[clash], new[clash])}: "
                f"the posterior is conditioned on it being {describe(columns[clash], self.evidence[clash])}"
            )
        for d, what in known.items():
            if self._log_of({d: what}).max() == -np.inf:
                raise ValueError(
                    f"{where}: column {columns[d].name!r} cannot be {describe(columns[d], what)}, "
                    f"its probability is zero {self.marks.everywhere}"
                )
        raise ValueError(f"{where}: {self._in_words(known)} cannot occur together")

    def refuse_row(self, where: str, row: np.ndarray) -> NoReturn:
        """See `Law`; recorded values of rounded columns stand for their cells."""
        observed: Events = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
        cells = self.cells(self.embedded(row[None]))
        if cells is not None:
            low, high = (end[0].tolist() for end in cells.ends)
            for d, *ends in zip(cells.columns.tolist(), low, high, strict=True):
                own = self.kept.index(d) if d in self.kept else -1
                if own in observed and self.states.compiled.is_density[d]:
                    observed[own] = Interval(*ends)
        for d, what in list(observed.items()):
            known = self.known(d)
            if known is not None and intersect({0: known}, {0: what})[1] is not None:
                self.refuse(where, {d: what})
        self.refuse(where, observed)

    def impossible_column(self, event: Events) -> int | None:
        """See `Law`; of columns by themselves, whatever else is known."""
        logs = ((d, self._log_of({self.kept[d]: e})) for d, e in event.items())
        return next((d for d, log in logs if log.max() == -np.inf), None)


def with_zero(event: Event, width: float) -> Event:
    """An event of a column whose distribution ends at 0; values within the width count as 0, all or none of them."""
    if not isinstance(event, Interval):
        return event
    low, high = event
    low, high = -np.inf if low <= 0.0 else max(low, width), -np.inf if high < 0.0 else max(high, width)
    return Interval(low, max(low, high)) if high > -np.inf else Interval(-np.inf, -np.inf)
