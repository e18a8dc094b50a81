"""Questions about events: probabilities, conditions and marginals, new rows, the most probable one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, Given, Known, names_of, of_each_draw
from pymc_spn.answers.reference_rows import on_grid_rows
from pymc_spn.events.events import Events, both_or_none, points_of
from pymc_spn.events.unions import both_unions, log_union
from pymc_spn.maxima.most_probable import NO_AVERAGE, MostProbable, marked_row, most_probable
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.draw_averages import effective_draws, log_average, relative_weights
from pymc_spn.numerics.marks import SIMULATION
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import decode
from pymc_spn.tables.frame_kinds import frame_of_kind
from pymc_spn.tables.inputs import EventLike
from pymc_spn.tables.table import kind_of_columns

if TYPE_CHECKING:
    import xarray as xr

ROWS_NOTE = {"mcse_chain_note": "no mcse_chain: rows are no averages; the queries have those of averages over rows"}


@of_each_draw
def probability(
    self: AskedLaw,
    event: EventLike,
    given: Given = None,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate the probability of an event, or its density at a point.

    At a point of a continuous column, ``attrs["quantity"]`` says that it is a density, and in which unit.

    Parameters
    ----------
    event : mapping of column name to value, (low, high), list of intervals or set, sequence of mappings, or str
        All entries of a mapping must hold. In a list of intervals, one must hold. A sequence of mappings is their
        union: one must hold (by inclusion and exclusion). In a single mapping, a column of levels or counts may have a
        dict from values to likelihoods, 0 for the others (soft evidence). The answer is then the expected likelihood.
        A list or array of values is a set, as for ``isin``; a `pandas.Interval` or a slice is an interval.
        Text is described below.
    given : the same, optional
        What is known. In a sequence, one of the events holds, and it is not known which.
    per_draw : bool
        Whether to return each draw's own conditional probability, unweighted.
    interval : float, optional
        Posterior probability of a central interval, such as 0.9. The answer then has a first dimension ``estimate``:
        mean, lower and upper. The interval is the uncertainty of the answer, not of a new value.

    Returns
    -------
    DataArray
        A scalar, or (chain, draw).

    Raises
    ------
    TypeError, ValueError
        If a column is unknown, or the event is one that it cannot have (such as being missing). If `given` has
        probability zero. If a union names a point of a continuous column (a density) or holds likelihoods, or events
        overlap in more than 10,000 ways. If likelihoods are for a continuous column, negative, infinite or all 0. If
        text cannot be read or solved.

    Notes
    -----
    Text is written as for ``DataFrame.query``: ``"x**2 < 4 and (job == 'nurse' or not 20 <= age < 30)"``.
    It may hold ``< <= > >= == !=``, ``in`` and ``not in`` a list, ``and or not`` (or ``& | ~``, every comparison in
    parentheses). Names that are not identifiers are in backticks. One side of a comparison is an expression in one
    column, the other a constant; levels of ordered categories have ``<`` and ``>``. The expression has numbers, ``+ - *
    / **``, abs, sqrt, exp, log, log10 and log2. It holds the column once, or is a polynomial. It is solved for
    intervals, exact up to rounding. Values are those of NumPy: where an expression is undefined, a comparison is false
    and its negation true. For a continuous column ``x != 3`` always holds and ``x == 3`` is a point, with a density.

    Examples
    --------
    >>> post.probability({"age": (None, 45)}).round(1).item()
    0.5
    >>> post.probability("age > 45", given={"job": "clerk"}).item() > 0.7
    True
    """
    found = _asked_event(self, event, given)
    with np.errstate(invalid="ignore"):  # draws in which what is given cannot be
        each = np.exp(found.log_joint - found.log_base)
    if per_draw:
        return self._labelled("probability", each, {}, True, **found.numerical)
    answer = float(np.exp(found.log_answer))
    error = self._error(found.weight * (np.where(found.weight > 0.0, each, 0.0) - answer))
    return self._labelled("probability", answer, {}, False, **found.mark, **error, **found.numerical)


@of_each_draw
def log_probability(
    self: AskedLaw,
    event: EventLike,
    given: Given = None,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate the log of `probability`, in nats, without underflow.

    Parameters
    ----------
    event, given, per_draw
        As for `probability`.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        A scalar, or (chain, draw); ``-inf`` where the event is impossible.

    Raises
    ------
    TypeError, ValueError
        As `probability`.

    Examples
    --------
    >>> post.log_probability({"job": "clerk"}).item() < 0
    True
    """
    found = _asked_event(self, event, given)
    with np.errstate(invalid="ignore"):  # draws in which what is given cannot be
        each = found.log_joint - found.log_base
    numerical = dict(found.numerical)
    if "tolerance" in numerical:
        with np.errstate(divide="ignore"):
            numerical["tolerance"] /= np.exp(found.log_answer)
    if per_draw:
        return self._labelled("log_probability", each, {}, True, **numerical)
    with np.errstate(over="ignore", invalid="ignore"):  # relative to the answer, which may be too small for a number
        ratio = np.where(found.weight > 0.0, np.exp(each - found.log_answer), 0.0)
    error = self._error(found.weight * (ratio - 1.0)) if found.log_answer > -np.inf else {}
    return self._labelled("log_probability", found.log_answer, {}, False, **found.mark, **error, **numerical)


class _AskedEvent(NamedTuple):
    """An event given another: logs under each circuit, weights of these given the other, the answer, its marks.

    The last ones are those of a probability that has no closed form.
    """

    log_joint: np.ndarray
    log_base: np.ndarray
    weight: np.ndarray
    log_answer: float
    mark: dict[str, Any]
    numerical: dict[str, Any]  # and whether it is a density


def _asked_event(self: AskedLaw, event: EventLike, given: Given) -> _AskedEvent:
    if event is None:
        raise TypeError("event must map column names to a value, (low, high) or a set, got None")
    law = self._law
    asked, (known, base, mark) = self._signed_events("event", event), known_union(self, given)
    both = list(both_unions(asked, known, both_or_none))
    log_joint = log_union(((sign, law.log_event(e)) for sign, e in both), base.shape)
    off = max((law.event_tolerance(e) for _, e in (*both, *known)), default=0.0)
    numerical = {"exactness": "numerical", "tolerance": off / float(np.exp(base.max()))} if off else {}
    told = points_of(known[0][1]) if known else {}
    at = [law.columns[d].name for d in points_of(asked[0][1]) if law.is_density[d] and d not in told] if asked else []
    if at:
        numerical["quantity"] = f"density, not probability: per unit of {', '.join(map(repr, at))}"
    answer = float(log_average(law.log_weights, log_joint) - log_average(law.log_weights, base))
    return _AskedEvent(log_joint, base, relative_weights(base + law.log_weights), answer, mark, numerical)


def known_union(self: AskedLaw, given: Given) -> tuple[list[tuple[float, Events]], np.ndarray, dict[str, Any]]:
    """What is given as signed events, its log probability (S,), and the marks of an answer given it."""
    law, known = self._law, self._signed_events("given", {} if given is None else given)
    base = log_union(((sign, law.log_event(e)) for sign, e in known), law.log_weights.shape)
    if (base + law.log_weights).max() == -np.inf:
        law.refuse("given", known[0][1])
    mark = self._weight_mark(law)
    if law.marks.has_error and any(e for _, e in known):
        mark = {"draws_after_weighting": float(effective_draws(base + law.log_weights))}
    return known, base, mark


def condition[Asked: AskedLaw](self: Asked, given: EventLike) -> Asked:
    """Return this object conditioned on part of a row or on an event.

    Columns fixed at a value leave the object; columns in an interval or a set stay. A union of events is cut into
    disjoint events, so that nothing is subtracted. The result answers all questions.

    Parameters
    ----------
    given : mapping of column name to value, (low, high), list of intervals or set, sequence of mappings, or str
        In a sequence, one event holds; in a list of intervals, one interval. Text as for `probability`.

    Raises
    ------
    TypeError
        If it is None or not a condition.
    ValueError
        If it names an unknown column or level, or has probability or density zero under every draw.

    Examples
    --------
    >>> adults = post.condition({"age": (50, None)})
    >>> adults.mean().sel(column="income").round(-1).item()
    50.0
    """
    if given is None:
        raise TypeError("given must map column names to a value, (low, high) or a set, or be text, got None")
    return self._of(self._known(given).law)


def marginal[Asked: AskedLaw](self: Asked, columns: str | Sequence[str]) -> Asked:
    """Return this object for some columns, with the others summed out.

    Parameters
    ----------
    columns : str or sequence of str
        In any order; the columns of the object keep their order.

    Returns
    -------
        Earlier conditions still hold, also on columns that are summed out.

    Raises
    ------
    TypeError
        If it is neither a name nor a sequence of names.
    ValueError
        If a name is not a column, or there are no names.

    Examples
    --------
    >>> [column.name for column in post.marginal(["age", "job"]).columns]
    ['age', 'job']
    """
    names = [c.name for c in self.columns]
    asked = names_of("columns", columns)
    for column in asked:
        if column not in names:
            raise ValueError(f"columns names {column!r}; the columns are {quoted(names)}")
    kept = [d for d, name in enumerate(names) if name in asked]
    if not kept:
        raise ValueError("columns must name at least one column, got none")
    return self._of(self._law.of(kept))


def sample(
    self: AskedLaw,
    n: int,
    given: Given = None,
    random_seed: int | np.random.Generator | None = None,
    *,
    npartitions: int | None = None,
    on_grid: bool = True,
) -> pd.DataFrame:
    """Draw rows from the predictive, given what is known.

    Columns given at a value hold it. Each row is an exact draw from the predictive of one draw of the chain, chosen by
    its weight, and then rounded as the training table is.

    Parameters
    ----------
    n : int
        Number of rows, at least 0.
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    random_seed : int or Generator, optional
        The same seed draws the same rows; a generator advances.
    npartitions : int, optional
        Return a dask DataFrame with this many partitions, which draws its rows where and when they are computed. Each
        partition has its own random stream, so the rows depend on `npartitions` but not on the scheduler.
    on_grid : bool
        Whether real numbers are rounded to the grid on which the training table records their column, if it has one.

    Returns
    -------
    DataFrame
        (n, D), with rows numbered from 0 and the columns and dtypes of the training table. Integers that a leaf of
        real numbers drew become float64. Its ``attrs`` hold the marks of an answer, and ``draws_after_weighting`` if a
        condition weights the draws. If the training table was one of polars or pyarrow, so is the result, without
        ``attrs``. With `npartitions` it is a dask DataFrame, whose integers are int64, or float64 where a leaf of real
        numbers may draw them.

    Raises
    ------
    TypeError, ValueError
        As for `condition`; or if `n` is not an integer of at least 0, or `npartitions` is not between 1 and `n`.
    ImportError
        With `npartitions`, if Dask is not installed.

    Examples
    --------
    >>> post.sample(3, given={"job": "nurse"}, random_seed=1)["job"].tolist()
    ['nurse', 'nurse', 'nurse']
    """
    if npartitions is not None:
        from pymc_spn.answers.dask_rows import lazy_sample

        return lazy_sample(self, n, given, random_seed, npartitions, on_grid)
    known, schema = self._known(given), self._schema
    count = checked_count("n", n, bytes_each=16.0 * len(schema))
    drawn = known.law.draw(count, np.random.default_rng(random_seed))
    rows = _filled(self, known, on_grid_rows(known.law, drawn) if on_grid else drawn)
    frame = decode(rows, schema)
    frame.attrs = self._attrs(exactness=SIMULATION, **ROWS_NOTE, **self._weight_mark(known.law))
    return frame_of_kind(frame, kind_of_columns(schema))


def mpe(
    self: AskedLaw,
    given: Given = None,
    max_draws: int | None = None,
    progressbar: bool = True,
) -> MostProbable:
    """Find the most probable values of the unknown columns.

    Ascents on the log density begin at the modes of the best induced trees. Where one ends, no change of a single
    column and no small step has a larger density: the answer is marked as a local maximum. The upper bound is the value
    of the mixture with each leaf at its largest. If the answer reaches it, or all rows are tried (columns of levels, at
    most 4,096 rows), no row is more probable.

    The density of a column with log-normal leaves grows without bound towards 0, although almost no mass is there.
    Values below the 0.001 quantile of its part above 0 are left out, unless you give an interval that begins above 0
    for the column.

    Parameters
    ----------
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    max_draws : int, optional
        Number of draws to use instead of all: evenly spaced, or by their weights in a stacked posterior. The answer is
        then that of their mixture.
    progressbar : bool
        Whether to show a progress bar if the search takes long.

    Returns
    -------
    object with
        ``value``, a DataFrame of one row; ``log_density``, a scalar DataArray, in nats; ``upper_bound``, the same, or
        None if some leaf has no largest density in closed form.

    Raises
    ------
    TypeError
        If `given` is not a condition.
    ValueError
        If `given` names an unknown column, leaves nothing to complete or has probability zero, or `max_draws` is below
        1.

    Examples
    --------
    >>> best = post.mpe(given={"age": 60.0}, max_draws=2)
    >>> best.value["job"].tolist()
    ['clerk']
    """
    known = self._known(given)
    if not known.law.columns:
        raise ValueError("given: every column is given at a value, there is nothing to complete")
    law = known.law if max_draws is None else known.law.fewer(checked_count("max_draws", max_draws, least=1))
    with counted("Searching for the most probable row", progressbar):
        found = most_probable(law)
    best = np.array([law.at_zero(d, x) for d, x in enumerate(found.row)])
    value = decode(_filled(self, known, best[None]), self.columns)
    n = int(np.count_nonzero(law.log_weights > -np.inf)) if max_draws is not None else law.n_circuits
    row = marked_row(value, found, self._attrs(**NO_AVERAGE, **self._weight_mark(law), **self._draws_mark(n)))
    return replace(row, value=frame_of_kind(value, kind_of_columns(self.columns)))


def _filled(self: AskedLaw, known: Known, rows: np.ndarray) -> np.ndarray:
    """Rows of all columns, from those that are at no value."""
    out = np.empty((len(rows), len(self.columns)))
    number = {c.name: d for d, c in enumerate(known.law.columns)}
    for d, column in enumerate(self.columns):
        out[:, d] = known.points[column.name] if column.name in known.points else rows[:, number[column.name]]
    return out
