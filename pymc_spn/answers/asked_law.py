"""What all questions share: the law that answers, what is read of a user's events and rows, labels and marks."""

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from pymc_spn.events.disjoint_events import disjoint_events
from pymc_spn.events.event_text import as_event, as_events
from pymc_spn.events.events import Events, Interval, both_or_none, points_of, read_events, refuse_point
from pymc_spn.events.unions import (
    LARGEST_UNION,
    alternatives,
    is_single_event,
    read_intervals,
    signed_intersections,
)
from pymc_spn.laws.law import Law
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.draw_averages import attrs_of_finite, chain_error, effective_draws, relative_weights
from pymc_spn.numerics.html_repr import NotebookRepr
from pymc_spn.numerics.marks import limited
from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import Column, Table, describe_columns
from pymc_spn.tables.column import as_name, by_name
from pymc_spn.tables.inputs import EventLike

if TYPE_CHECKING:
    import xarray as xr

type Given = EventLike | None


class Known(NamedTuple):
    """A law given what a question was told, and the columns that it knows to be at a value.

    Parameters
    ----------
    law : Law
    points : dict of str to float
        Codes by column.
    """

    law: Law
    points: dict[str, float]


class AskedLaw(NotebookRepr):
    """A law with the words of its columns.

    Parameters
    ----------
    law : Law
    """

    def __init__(self, law: Law) -> None:
        if not isinstance(law, Law):
            name = type(self).__name__
            way = f"ps.{name}.from_idata(idata)" if hasattr(type(self), "from_idata") else "what returns it"
            raise TypeError(f"{name} needs the law of its columns, got {type(law).__name__}. Make it by {way}")
        self._law = law

    def _of(self, law: Law) -> Self:
        """The same kind of object for another law of the same circuits."""
        return type(self)(law)

    def _each_draw(self, per_draw: bool) -> Self:
        """Who answers: an object with all circuits, if an answer of each of them is wanted."""
        return self

    @property
    def _drawn(self) -> Self:
        """Who answers under one draw of everything for each circuit: weights and leaf parameters, too."""
        return self

    def _shares_of_draws(self) -> np.ndarray | None:
        """Weights (S,) of the draws where they are not equal, before anything is known."""
        return None

    def _fewer_draws(self, n: int) -> Self:
        """Who answers from at most so many circuits, evenly spaced."""
        return self

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the answers, without those marginalised or fixed at a value.

        Examples
        --------
        >>> [column.name for column in post.columns]
        ['age', 'income', 'job']
        """
        return self._law.columns

    # ---- what is read

    @property
    def _schema(self) -> tuple[Column, ...]:
        """`columns`, for answers about them, which need one at least."""
        if not self.columns:
            raise ValueError(f"no column is left to ask for: all are given, {self._law.in_words()}")
        return self.columns

    def _number(self, argument: str, name: Any, known: Known | None = None) -> int:
        """Number of a column in the law."""
        law, points = (self._law, {}) if known is None else known
        asked, names = as_name(name), [c.name for c in law.columns]
        if isinstance(asked, str) and asked in points:
            raise ValueError(f"column {asked!r} is given at a value: it has no distribution left")
        if not isinstance(asked, str) or asked not in names:
            every = [c.name for c in self._schema]
            raise ValueError(f"{argument} must name one of the columns {quoted(every)}, got {quoted(name)}")
        return names.index(asked)

    def _numeric(self, argument: str, name: Any, known: Known | None = None) -> int:
        """The same of a column whose values have an order."""
        d = self._number(argument, name, known)
        if (self._law if known is None else known.law).columns[d].kind == "categorical":
            raise ValueError(f"{argument} must be numeric, {name!r} is categorical: its levels have no order")
        return d

    @property
    def _readable(self) -> tuple[tuple[Column, ...], list[bool]]:
        """Columns that text may name, and whether single values of each have probability zero."""
        return self.columns, self._law.is_density.tolist()

    def _table(self, rows: Any, unseen: str = "error", without: int | None = None) -> Table:
        """Rows of all columns, or of all but one, coded and checked by their schema."""
        return Table.from_frame(rows, schema=self._columns_but(without), unseen=unseen)

    def _columns_but(self, without: int | None) -> tuple[Column, ...]:
        """All columns but one, or all."""
        return tuple(column for d, column in enumerate(self._schema) if d != without)

    def _read(self, argument: str, event: Any, soft: bool = False) -> Events:
        """One event by the numbers of the columns."""
        columns, is_density = self._readable
        event = as_event(argument, event, columns, is_density)
        read = read_events(argument, event, columns, range(len(columns)), is_density, soft)
        for d, what in read.items():
            if isinstance(what, Likelihood) and self._law.has_density[d]:
                raise ValueError(
                    f"{argument}: column {columns[d].name!r} is continuous, likelihoods are for levels and counts"
                )
        return read

    def _signed_events(self, argument: str, event: Any) -> list[tuple[float, Events]]:
        """Events whose probabilities with signs add up to that of the union that is asked, or given."""
        several = alternatives(argument, event, *self._readable)
        soft = len(several) == 1
        asked = [part for place, one in several.items() for part in self._disjoint_parts(place, one, soft)]
        return [(1.0, part) for part in asked] if soft else signed_intersections(argument, asked, both_or_none)

    def _disjoint_parts(self, place: str, event: Any, soft: bool, points: bool = False) -> list[Events]:
        """Events that together say the same, with one interval where a column had a list of them."""
        event = by_name(place, event)
        by_level = {c.name for c in self.columns if c.levels is not None}
        lists = {}
        if isinstance(event, Mapping):
            lists = {n: what for n, what in event.items() if isinstance(what, list) and n not in by_level}
        rest = self._read(place, {n: what for n, what in event.items() if n not in lists} if lists else event, soft)
        for d, x in points_of(rest).items() if not (soft or points) else ():
            if self._law.has_density[d]:
                refuse_point(place, self.columns[d].name, x)
        choices = []
        for name, what in lists.items():
            intervals = read_intervals(place, name, what, partial(self._ends, place, name))
            (d,) = (d for d, c in enumerate(self.columns) if c.name == name)
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

    def _exclusive_events(self, given: Any) -> list[Events]:
        """What is given as disjoint events; points of densities only where it is a single one."""
        if given is None:  # of questions it says that nothing is known
            raise TypeError("given must map column names to a value, (low, high) or a set, or be text, got None")
        given = as_events("given", given, *self._readable)
        soft = self._law.takes_likelihoods
        if is_single_event(given):
            return [self._read("given", given, soft)]
        if isinstance(given, Mapping):  # lists of intervals, which are disjoint, beside what holds with each of them
            return self._disjoint_parts("given", given, soft, points=True)
        events: list[Events] = [
            {d: frozenset({e}) if isinstance(e, float) else e for d, e in part.items()}
            for place, one in alternatives("given", given, *self._readable).items()
            for part in self._disjoint_parts(place, one, soft=False)
        ]
        return disjoint_events("given", events, *self._readable)

    def _known(self, given: Given) -> Known:
        """The law given what a question is told: one event, or one of several."""
        if given is None:
            return Known(self._law, {})
        events = self._exclusive_events(given)
        if len(events) == 1:
            return Known(self._law.given(events[0]), self._points(events))
        log_weights = self._law.log_weights
        possible = [event for event in events if (self._law.log_event(event) + log_weights).max() > -np.inf]
        if not possible:
            words = self._law.in_words()
            raise ValueError(f"given: nothing of it can occur{f' where {words}' if words else ''}")
        parts = [part for event in possible for part in self._law.given(event).parts]
        return Known(parts[0] if len(parts) == 1 else parts[0].mixed(parts), self._points(events))

    def _points(self, events: list[Events]) -> dict[str, float]:
        """The columns that are at a value, which several events have in common."""
        return {self.columns[d].name: x for d, x in points_of(events[0]).items()}

    def _refuse_rows(self, impossible: np.ndarray, values: np.ndarray, index: pd.Index) -> None:
        """Name the first of the rows that are impossible, if any is, and the column that makes it so."""
        if impossible.any():
            m = int(np.argmax(impossible))
            self._law.refuse_row(f"row {index[m : m + 1].tolist()[0]!r}", values[m])

    def _warn_of_rows(self, impossible: np.ndarray, values: np.ndarray, index: Any, rest: str) -> None:
        """Name the rows whose density is zero under every circuit, if any, and the column that makes it so."""
        if not impossible.any():
            return
        rows = index[impossible].tolist()
        row = values[int(np.argmax(impossible))]
        observed: Events = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
        d, everywhere = self._law.impossible_column(observed), self._law.marks.everywhere
        why = "" if d is None else f" (the first: column {self.columns[d].name!r} is {row[d]:g})"
        warnings.warn(
            f"the density is zero {everywhere} in {len(rows):,} of {len(index):,} rows: {some(rows)}{why}. {rest}. "
            "Such cells are outside the support of the leaves, or too far from the data. Look for errors in them, or "
            "set them to missing",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )

    # ---- labels and marks

    @property
    def _read_as(self) -> str:
        """How many columns there are and how each was read, in words."""
        return f"{len(self.columns)} columns ({describe_columns(self.columns)})"

    def _attrs(self, per_draw: bool = False, /, **attrs: Any) -> dict[str, Any]:
        """Attributes of an answer: how exact it is (exact by default) and given what, its learner, and others.

        An answer for each draw is not given the others.
        """
        marks = self._law.marks
        mark = attrs.pop("exactness", "exact")
        off = max(attrs.pop("known_tolerance", 0.0), self._law.known_tolerance)
        if off > 0.0 and mark in ("exact", "numerical"):
            mark, attrs["tolerance"] = "numerical", max(attrs.get("tolerance", 0.0), off)
        if not per_draw or not marks.has_error:
            mark = limited(mark, marks.scope)
        if not marks.has_error:
            attrs = {k: v for k, v in attrs.items() if not k.startswith("mcse_chain")}
        named = {"learner": marks.learner, "draws": marks.used, "converged": marks.converged}
        return {"exactness": mark, **{k: v for k, v in named.items() if v is not None}, **attrs}

    def _labelled(
        self, name: str, values: Any, coords: dict[str, Any], per_draw: bool = False, **attrs: Any
    ) -> "xr.DataArray":
        """An answer over these coordinates, or with ``per_draw`` over chain, draw and these."""
        import xarray as xr

        attrs = self._attrs(per_draw, **(attrs if per_draw else attrs_of_finite(values, attrs)))
        if not per_draw:
            return xr.DataArray(values, coords, list(coords), name, attrs)
        marks = self._law.marks
        return xr.DataArray(
            np.reshape(values, (len(marks.chains), len(marks.draws), *np.shape(values)[1:])),
            {"chain": marks.chains, "draw": marks.draws, **coords},
            ["chain", "draw", *coords],
            name,
            attrs,
        )

    def _shaped(
        self, name: str, values: Any, coords: Any, per_draw: bool, scalar: bool, **attrs: Any
    ) -> "xr.DataArray":
        """As `_labelled`, the only coordinate dropped where one value was asked for."""
        if not scalar:
            return self._labelled(name, values, coords, per_draw, **attrs)
        answer = self._labelled(name, np.asarray(values)[..., 0], {}, per_draw, **attrs)
        return answer.assign_coords({k: np.ravel(v)[0] for k, v in coords.items()})

    def _with_interval(self, interval: float, ask: "Callable[..., xr.DataArray]", **options: Any) -> "xr.DataArray":
        """An answer and the ends of its central interval, from its values under one draw of everything each.

        Parameters
        ----------
        interval : float
            Posterior probability that the interval holds.
        ask : callable
            The question, a function of who answers.
        options
            What it is asked besides ``per_draw``.

        Returns
        -------
        DataArray
            With the dimension ``estimate`` in front: mean, lower, upper.
        """
        import xarray as xr

        check_prob(interval, "interval")
        if not self._law.marks.has_error:
            raise ValueError(
                f"interval needs draws of a posterior, and a {type(self).__name__} has one state: it says nothing of "
                "how sure its answers are. Sample ps.SPN with pm.sample"
            )
        answer = ask(self, **options)
        each = ask(self._drawn, per_draw=True, **options)
        values, weights = each.values.reshape(-1, *answer.shape), self._shares_of_draws()
        ends = [0.5 - 0.5 * interval, 0.5 + 0.5 * interval]
        if weights is None:
            lower, upper = np.nanquantile(values, ends, axis=0)  # draws in which what is given cannot be say nothing
        else:
            weights = np.broadcast_to(weights.reshape(-1, *(1,) * answer.ndim), values.shape)
            lower, upper = np.nanquantile(values, ends, axis=0, weights=weights, method="inverted_cdf")
        found = xr.concat(
            [answer, answer.copy(data=lower), answer.copy(data=upper)], "estimate", combine_attrs="override"
        )
        return found.assign_coords(estimate=["mean", "lower", "upper"]).assign_attrs(interval=float(interval))

    def _error(self, influence: np.ndarray) -> dict[str, Any]:
        """Standard error over the draws of a mean of per-draw values (S, ...), as attributes."""
        if not self._law.marks.has_error:
            return {"mcse_chain": np.zeros(influence.shape[1:])[()]}  # there is one state
        return chain_error(influence, len(self._law.marks.chains))

    def _weight_mark(self, law: Law) -> dict[str, Any]:
        """The attribute draws_after_weighting where draws are weighted; what `_attrs` is to know of the law."""
        mark: dict[str, Any] = {"known_tolerance": law.known_tolerance} if law.known_tolerance > 0.0 else {}
        if law.marks.has_error and law.is_weighted:
            mark["draws_after_weighting"] = float(effective_draws(law.log_weights))
        return mark

    def _cell_mark(self, cells: bool = True, tolerance: float = 0.0) -> dict[str, Any]:
        """Attributes of answers from rows, which may be numerical by a tolerance of their own, or since rows are cells.

        Masses of cells of rounded columns are integrals.
        """
        off = max(tolerance, (self._law.cell_tolerance or 0.0) if cells else 0.0)
        return {"exactness": "numerical", "tolerance": off} if off else {}

    def _by_chain(self, values: np.ndarray) -> np.ndarray:
        """Values (S, ...) of draws as (chain, draw, ...)."""
        return values.reshape(len(self._law.marks.chains), -1, *values.shape[1:])

    def _draws_mark(self, n: int) -> dict[str, Any]:
        """The attribute draws of an answer from n of the circuits."""
        marks, n_circuits = self._law.marks, self._law.n_circuits
        if not marks.has_error or n == n_circuits:
            return {}
        return {"draws": f"{n:,} of {marks.used.split(' of ')[1] if marks.used else f'{n_circuits:,}'}"}


def of_each_draw[**P, R](question: Callable[P, R]) -> Callable[P, R]:
    """Let a question with ``per_draw`` and ``interval`` be asked of all draws, and of one draw of everything each."""
    signature = inspect.signature(question)

    @wraps(question)
    def ask(*args: P.args, **named: P.kwargs) -> Any:
        try:
            options = dict(signature.bind(*args, **named).arguments)
        except TypeError:
            return question(*args, **named)  # Python says which argument
        post, interval = options.pop("self"), options.pop("interval", None)
        asked: Any = ask
        if interval is not None:
            options.pop("per_draw", None)
            return post._with_interval(interval, asked, **options)
        answered: Any = question
        return answered(post._each_draw(options.get("per_draw", False)), **options)

    return ask


def joined_errors(errors: list[dict[str, Any]], n_rows: int, step: int) -> dict[str, Any]:
    """Errors of `chain_error` for all rows, from those of blocks of ``step``; NaN where a block has none."""
    found = {k * step: e["mcse_chain"] for k, e in enumerate(errors) if "mcse_chain" in e}
    if errors and not found:
        return errors[0]
    shape = next(iter(found.values())).shape[1:] if found else ()
    joined = np.full((n_rows, *shape), np.nan)
    for start, each in found.items():
        joined[start : start + step] = each
    return {"mcse_chain": joined}


def relative(law: Law) -> np.ndarray:
    """Weights (S,) of the circuits, of mean 1."""
    return relative_weights(law.log_weights)


def names_of(argument: str, given: Any) -> list[Any]:
    """Names in a list of them, or a single one; events are not dropped for their columns' names."""
    if isinstance(as_name(given), str):
        return [as_name(given)]
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a list of names, got {quoted(given)}; what is known goes into given=")
    return [as_name(label) for label in given]
