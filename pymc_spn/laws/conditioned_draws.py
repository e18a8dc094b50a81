"""Draws of the chain under a condition: which columns are asked, what is known, how much each draw counts."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.events.event_text import as_event
from pymc_spn.events.events import (
    Event,
    Events,
    Interval,
    both_or_none,
    describe,
    holds,
    intersect,
    points_of,
    read_events,
    refuse_point,
    spread_of,
)
from pymc_spn.events.unions import (
    LARGEST_UNION,
    alternatives,
    read_intervals,
    signed_intersections,
)
from pymc_spn.leaves.families import LogNormal
from pymc_spn.networks.records.draw_averages import attrs_of_finite, chain_error, effective_draws, relative_weights
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.rounded_cells import TOLERANCE as CELL_TOLERANCE
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.numerics.marks import GIVEN_DRAWS, limited
from pymc_spn.numerics.quoted_values import some
from pymc_spn.tables import Column, Table, describe_columns
from pymc_spn.tables.column import by_name

if TYPE_CHECKING:
    import xarray as xr


class ConditionedDraws:
    """What all queries of a posterior share.

    Parameters
    ----------
    states : RecordedStates
    kept : sequence of int, optional
        Columns that the answers are about, by default all.
    evidence : dict, optional
        Points and events that are known, by column number.
    log_weights : (S,) float64, optional
        Log weight of each draw before the evidence, by default equal.
    """

    def __init__(
        self,
        states: RecordedStates,
        kept: Sequence[int] | None = None,
        evidence: Events | None = None,
        log_weights: np.ndarray | None = None,
    ) -> None:
        self._states, self._schema = states, states.schema
        self._kept = tuple(range(len(self._schema.columns))) if kept is None else tuple(kept)
        self._evidence = evidence or {}
        self._log_weights = np.zeros(states.n_draws) if log_weights is None else log_weights
        self._known: np.ndarray | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the answers are about: not those marginalised or fixed at a value."""
        return tuple(self._schema.columns[d] for d in self._kept)

    @property
    def _read_as(self) -> str:
        """How many columns there are and how each was read, in words."""
        return f"{len(self._kept)} columns ({describe_columns(self.columns)})"

    @property
    def _left(self) -> tuple[Column, ...]:
        """`columns`, for answers about them, which need one at least."""
        if not self._kept:
            raise ValueError(f"no column is left to ask for: all are given, {self._in_words(self._evidence)}")
        return self.columns

    @property
    def name(self) -> str:
        """Name of the network in the model."""
        return self._schema.name

    @property
    def _n_chains(self) -> int:
        return len(self._states.record.chains)

    @property
    def _readable(self) -> tuple[tuple[Column, ...], list[bool]]:
        """Columns that text may name, and whether single values of each have probability zero."""
        return self.columns, [bool(self._states.compiled.is_density[d]) for d in self._kept]

    def _read(self, argument: str, given: Mapping[str, Any] | str | None, soft: bool = False) -> Events:
        event = as_event(argument, given, *self._readable)
        return read_events(argument, event, self._schema.columns, self._kept, self._states.compiled.is_density, soft)

    def _given(self, given: Mapping[str, Any] | str | None) -> Events:
        """The object's own evidence and what is given now."""
        return self._with_evidence(self._read("given", given))

    def _with_evidence(self, now: Events) -> Events:
        """The object's own evidence and an event, which must not contradict it."""
        known, clash = intersect(self._evidence, now)
        if clash is not None:
            self._contradiction("given", clash, now[clash])
        return known

    def _row(self, known: Events) -> np.ndarray:
        row = np.full(len(self._schema.columns), np.nan)
        for d, x in points_of(known).items():
            row[d] = x
        return row

    def _embed(self, table: Table, cells: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Rows (M, D) of all columns with the points of the evidence, and whether each is within it."""
        values = np.tile(self._row(self._evidence), (len(table.values), 1))
        values[:, list(self._kept)] = table.values
        return values, self._possible(values, cells)

    def _signed_events(self, argument: str, event: Any) -> list[tuple[float, Events]]:
        """Events whose probabilities with signs add up to that of the union that is asked, or given."""
        several = alternatives(argument, event, *self._readable)
        soft = len(several) == 1
        asked = [part for place, one in several.items() for part in self._disjoint_parts(place, one, soft)]
        return [(1.0, part) for part in asked] if soft else signed_intersections(argument, asked, both_or_none)

    def _disjoint_parts(self, place: str, event: Any, soft: bool) -> list[Events]:
        """Events that together say the same, with one interval where a column had a list of them."""
        event = by_name(place, event)
        by_level = {self._schema.columns[d].name for d in self._kept if self._schema.columns[d].levels is not None}
        lists = {}
        if isinstance(event, Mapping):
            lists = {n: what for n, what in event.items() if isinstance(what, list) and n not in by_level}
        rest = self._read(place, {n: what for n, what in event.items() if n not in lists} if lists else event, soft)
        for d, x in points_of(rest).items() if not soft else ():
            if self._states.compiled.is_density[d]:
                refuse_point(place, self._schema.columns[d].name, x)
        choices = []
        for name, what in lists.items():
            intervals = read_intervals(place, name, what, partial(self._ends, place, name))
            (d,) = (d for d in self._kept if self._schema.columns[d].name == name)
            choices.append([(d, Interval(*ends)) for ends in intervals])
        n = math.prod(len(intervals) for intervals in choices)
        if n > LARGEST_UNION:
            raise ValueError(f"{place}: lists of intervals of {list(lists)} make {n} events, at most {LARGEST_UNION}")
        return [rest | dict(parts) for parts in product(*choices)]

    def _ends(self, place: str, name: str, part: Any) -> Interval | None:
        """One interval of a column's list."""
        (event,) = self._read(place, {name: part}).values() or (None,)
        assert event is None or isinstance(event, Interval)
        return event

    def _signed_evidence(self, given: Any) -> list[tuple[float, Events]]:
        """The object's own evidence and what is given now, which may be a union, as signed events."""
        now = self._signed_events("given", {} if given is None else given)
        parts = [(sign, both) for sign, e in now if (both := both_or_none(self._evidence, e)) is not None]
        if not parts:
            first = now[0][1]
            clash = intersect(self._evidence, first)[1]
            assert clash is not None
            self._contradiction("given", clash, first[clash])
        return parts

    def _possible(self, values: np.ndarray, cells: bool = True) -> np.ndarray:
        """Whether each row (M,) is within the evidence; a cell is where a part of it is."""
        rounded = self._cells(values) if cells else None
        possible = np.ones(len(values), np.bool_) if rounded is None else rounded.possible.copy()
        for d, event in spread_of(self._evidence).items():
            if rounded is None or d not in rounded.columns or not self._states.compiled.is_density[d]:
                possible &= holds(event, values[:, d])
        return possible

    def _cells(self, values: np.ndarray) -> RoundedCells | None:
        """What the rounded columns of a user's rows (M, D) stand for; points of the evidence are exact values."""
        return self._states.cells_of(values, points_of(self._evidence), spread_of(self._evidence))

    def _log_rows(self, values: np.ndarray, cells: bool = True) -> np.ndarray:
        """Log density (S, M) of a user's rows together with the evidence, cells by mass over width."""
        return self._states.log_densities(values, spread_of(self._evidence), self._cells(values) if cells else None)

    def _log_rows_left_out(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`_log_rows`, and (S, M, D) without what the rows, or else the evidence, say of each column."""
        return self._states.log_densities_left_out(values, spread_of(self._evidence), self._cells(values))

    def _cell_mark(self, cells: bool = True) -> dict[str, Any]:
        """Attributes of answers from rows: masses of cells of rounded columns are integrals."""
        exact = points_of(self._evidence)
        rounded = cells and self._states.rounded is not None
        if rounded and any(d in self._kept and d not in exact for d in self._schema.rounded_columns):
            return {"exactness": "numerical", "tolerance": CELL_TOLERANCE}
        return {}

    def _log_of(self, known: Events, check: bool = True) -> np.ndarray:
        """Log probability (S,) of points and events under each draw."""
        if not known:
            return np.zeros(self._states.n_draws)
        logs = self._states.log_densities(self._row(known)[None], spread_of(known))[:, 0]
        if check and logs.max() == -np.inf:
            self._refuse("given", known)
        return logs

    def _log_evidence(self) -> np.ndarray:
        if self._known is None:
            self._known = self._log_of(self._evidence)
        return self._known

    def _refuse(self, where: str, known: Events) -> None:
        """Name the column that makes a condition impossible."""
        d = self._impossible_column(known)
        if d is not None:
            column = self._schema.columns[d]
            raise ValueError(
                f"{where}: column {column.name!r} cannot be {describe(column, known[d])}, "
                "its probability is zero under every draw"
            )
        raise ValueError(f"{where}: {self._in_words(known)} cannot occur together")

    def _impossible_column(self, known: Events) -> int | None:
        """The first column that alone makes a condition impossible under every draw; None if none does."""
        alone = (d for d, event in known.items() if self._log_of({d: event}, check=False).max() == -np.inf)
        return next(alone, None)

    def _warn_of_rows(self, impossible: np.ndarray, values: np.ndarray, index: Any, rest: str) -> None:
        """Name the rows whose density is zero under every draw, if there are any, and the column that makes it so."""
        if not impossible.any():
            return
        rows = index[impossible].tolist()
        row = values[int(np.argmax(impossible))]
        observed: Events = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
        d = self._impossible_column(observed)
        why = "" if d is None else f" (the first: column {self._schema.columns[d].name!r} is {row[d]:g})"
        warnings.warn(
            f"the density is zero under every draw in {len(rows):,} of {len(index):,} rows: {some(rows)}{why}. {rest}. "
            "Such cells are outside the support of the leaves or too far out for floating point: look for errors in "
            "them, or set them to missing",
            UserWarning,
            stacklevel=5,
        )

    def _refuse_row(self, where: str, row: np.ndarray) -> None:
        """Name the column that makes a row impossible."""
        observed: Events = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
        cells = self._cells(row[None])
        if cells is not None:
            low, high = (end[0].tolist() for end in cells.ends)
            for d, *ends in zip(cells.columns.tolist(), low, high, strict=True):
                if d in observed and self._states.compiled.is_density[d]:
                    observed[d] = Interval(*ends)
        for d, event in spread_of(self._evidence).items():
            if d in observed and intersect({d: event}, {d: observed[d]})[1] is not None:
                self._contradiction(where, d, observed[d])
        self._refuse(where, {**spread_of(self._evidence), **observed})

    def _contradiction(self, where: str, d: int, event: Event) -> None:
        column = self._schema.columns[d]
        raise ValueError(
            f"{where}: column {column.name!r} cannot be {describe(column, event)}: "
            f"the posterior is conditioned on it being {describe(column, self._evidence[d])}"
        )

    def _in_words(self, known: Events) -> str:
        columns = self._schema.columns
        return ", ".join(f"{columns[d].name!r} {describe(columns[d], e)}" for d, e in known.items())

    def _draw_weights(self, known: Events | None = None) -> dict[str, Any]:
        """The attribute draws_after_weighting where draws are weighted."""
        logs = self._log_evidence() if known is None else self._log_of(known)
        return self._weight_mark(logs, bool(self._evidence or known))

    def _weight_mark(self, logs: np.ndarray, is_known: bool) -> dict[str, Any]:
        """The attribute draws_after_weighting by the log probabilities (S,) of what is known, if anything is."""
        weighted = is_known or bool(np.any(self._log_weights))
        return {"draws_after_weighting": float(effective_draws(logs + self._log_weights))} if weighted else {}

    @property
    def _learner(self) -> str:
        """What the attribute ``learner`` of every answer says."""
        record = self._states.record
        return f"mcmc: {len(record.chains)} chains of {len(record.draws)} recorded draws"

    _scope = GIVEN_DRAWS

    def _attrs(self, **attrs: Any) -> dict[str, Any]:
        """Attributes of an answer: how exact it is (exact by default) and given what, its learner, and others."""
        mark = limited(attrs.pop("exactness", "exact"), self._scope)
        return {"exactness": mark, "learner": self._learner, **attrs}

    def _attrs_of_one(self, **attrs: Any) -> dict[str, Any]:
        """The same of an answer for each draw, or from one of them, which is not given the others."""
        return {"exactness": "exact", "learner": self._learner, **attrs}

    def _draw_error(self, influence: np.ndarray) -> dict[str, Any]:
        """Standard error over the draws of a mean of per-draw values (S, ...), as attributes."""
        return chain_error(influence, self._n_chains)

    def _heavy_tails(self, numbers: Sequence[int], known: Events, per_draw: bool = False) -> list[str]:
        """Names of the columns for whose mean a principal value stands in a draw that counts; see `SPNPosterior.mean`.

        With ``per_draw`` all draws count, otherwise those with some weight.
        """
        shapes = self._states.hyperparameters[HYPERPARAMETERS.index("leaf_shape")]
        shape = shapes.min(axis=0)
        if not per_draw and np.any(shape <= 0.5):
            shape = shapes[relative_weights(self._log_of(known) + self._log_weights) > 0.0].min(axis=0)
        skewed = [any(isinstance(e, LogNormal) for e in entries) for entries in self._schema.palette]
        gaussian = [d for d in self._schema.gaussian_columns if d in numbers and d not in known and not skewed[d]]
        return [self._schema.columns[d].name for d in gaussian if shape[d] <= 0.5]

    def _labelled(self, name: str, values: Any, coords: dict[str, Any], per_draw: bool, **attrs: Any) -> "xr.DataArray":
        import xarray as xr

        attrs = self._attrs_of_one(**attrs) if per_draw else self._attrs(**attrs_of_finite(values, attrs))
        if not per_draw:
            return xr.DataArray(values, coords, list(coords), name, attrs)
        record = self._states.record
        shape = (len(record.chains), len(record.draws))
        return xr.DataArray(
            np.reshape(values, shape + np.shape(values)[1:]),
            {"chain": record.chains, "draw": record.draws, **coords},
            ["chain", "draw", *coords],
            name,
            attrs,
        )

    @staticmethod
    def _joined_errors(errors: list[dict[str, Any]], n_rows: int, step: int) -> dict[str, Any]:
        """Errors of `chain_error` for all rows, from those of blocks of ``step``; NaN where a block has none."""
        found = {k * step: e["mcse_chain"] for k, e in enumerate(errors) if "mcse_chain" in e}
        if errors and not found:
            return errors[0]
        shape = next(iter(found.values())).shape[1:] if found else ()
        joined = np.full((n_rows, *shape), np.nan)
        for start, each in found.items():
            joined[start : start + step] = each
        return {"mcse_chain": joined}
