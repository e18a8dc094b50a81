"""Questions whose answer is an integral of a log density: entropy, divergence, mutual information."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pymc_spn.answers.asked_law import AskedLaw, Given, Known, names_of, of_each_draw
from pymc_spn.answers.event_questions import known_union
from pymc_spn.answers.pair_questions import informations_of_levels, simulated_informations
from pymc_spn.answers.sums import (
    MOST_STATES,
    influence,
    log_mixture,
    n_states,
    shares_of_circuits,
    simulated,
    states_of,
    with_columns,
)
from pymc_spn.events.events import Events, Likelihood, both_or_none
from pymc_spn.events.unions import both_unions, log_union
from pymc_spn.laws.law import Law
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.draw_averages import relative_weights
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import EventLike

if TYPE_CHECKING:
    import xarray as xr

SIMULATED = 10_000
METHODS = ("auto", "enumeration", "quadrature", "monte-carlo")
OF_LEVELS = f'method="enumeration" needs binary or categorical columns with at most {MOST_STATES} combinations'


def shares_of_cells(first: Any, second: Any, both: Any) -> np.ndarray:
    """Probabilities (4, ..) of both events, of each alone and of neither, from those of each and of both together."""
    first, second, both = (np.asarray(p, np.float64) for p in (first, second, both))
    return np.maximum(np.stack([both, first - both, second - both, 1.0 - first - second + both]), 0.0)


def log_ratios(cells: np.ndarray) -> np.ndarray:
    """Logs (4,) of each cell's probability over the product of its margins, 0 where it has none."""
    table = cells.reshape(2, 2) / cells.sum()  # second event in columns: both, first alone; second alone, neither
    away = np.array([[1.0, -1.0], [-1.0, 1.0]]) * (table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0])
    with np.errstate(divide="ignore", invalid="ignore"):  # each cell is the product of its margins and this
        ratio = np.log1p(np.maximum(away / (table.sum(axis=1, keepdims=True) * table.sum(axis=0)), -1.0))
    return np.where(table > 0.0, ratio, 0.0).ravel()


def information_of_cells(cells: np.ndarray) -> float:
    """Mutual information in nats from the probabilities (4,) of `shares_of_cells`."""
    return max(float(cells @ log_ratios(cells) / cells.sum()), 0.0)


def refuse_density(argument: str, column: str, point: float) -> NoReturn:
    """Refuse an event at a point that has a density, and so probability zero."""
    raise ValueError(
        f"{argument}: column {column!r} cannot be at a point, {point:g}, where it has a density; give an interval"
    )


def refuse_likelihoods(argument: str, column: str) -> NoReturn:
    """Refuse soft evidence in the place of an event."""
    raise ValueError(f"{argument}: column {column!r} has likelihoods, which are not an event; give a set")


def entropy(
    self: AskedLaw,
    columns: str | Sequence[str] | None = None,
    given: Given = None,
    method: str = "auto",
    n: int = SIMULATED,
    random_seed: int | np.random.Generator | None = None,
) -> "xr.DataArray":
    """Calculate the entropy in nats, differential in columns that have densities.

    The entropy is that of the mixture over draws.

    Parameters
    ----------
    columns : str or list of str, optional
        By default all columns that are not given at a value.
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    method : {"auto", "enumeration", "quadrature", "monte-carlo"}
        "auto" enumerates if all columns have levels, else takes quadrature for one column and Monte Carlo for several.
    n : int
        Number of rows that Monte Carlo simulates, at least 2.
    random_seed : int, Generator or None
        Seed of these rows.

    Returns
    -------
    DataArray
        A scalar, marked exact, numerical or monte-carlo (``mcse``). The ``tolerance`` of quadrature is measured. It is
        the change of the answer when the panels of the grid are doubled, plus an allowance for the mass beyond the
        grid. It is infinite if the tails of log-normal leaves are so long that no entropy exists (one degree of freedom
        or less, a ``leaf_shape`` of 1/2 or less).

    Examples
    --------
    >>> bool(post.entropy(["job"]).item() < np.log(2) + 1e-9)
    True
    """
    law = _law_asked(self, "entropy", columns, self._known(given))
    method = _method(method, law)
    attrs = self._weight_mark(law)
    if method == "enumeration":
        p, each, weight = states_of(law, range(len(law.columns)))
        surprise = -np.log(np.where(p > 0.0, p, 1.0))
        value = float(p @ surprise)
        error = self._error(weight * (each @ surprise - value))
        return self._labelled("entropy", value, {}, False, **attrs, **error)
    if method == "quadrature":
        found = law.entropy_of_column(0)
        attrs |= _mark(law, found.tolerance) | self._error(found.influence)
        return self._labelled("entropy", found.value, {}, False, **attrs)
    rows = _simulated_rows(law, n, random_seed)
    return _finite_mean(self, "entropy", law, rows, -log_mixture(law, rows), attrs)


def kl(
    self: AskedLaw,
    other: AskedLaw,
    columns: str | Sequence[str] | None = None,
    method: str = "auto",
    n: int = SIMULATED,
    random_seed: int | np.random.Generator | None = None,
) -> "xr.DataArray":
    """Calculate the Kullback-Leibler divergence in nats, KL(this || other).

    Parameters
    ----------
    other : posterior, fit or circuit with parameters
        With the same columns; for example the same posterior under another condition.
    columns, method, n, random_seed
        As for `entropy`. Simulation finds an infinite divergence if a simulated row shows it.

    Returns
    -------
    DataArray
        A scalar, marked as for `entropy`. ``mcse_chain`` is the error over the draws of both posteriors, taken jointly
        if these are the same draws.

    Examples
    --------
    >>> post.marginal(["job"]).kl(fit.marginal(["job"])).item() < 0.1
    True
    """
    if not isinstance(other, AskedLaw):
        raise TypeError(f"other must be a posterior, a fit or a circuit with parameters, got {type(other).__name__}")
    law = _law_asked(self, "kl", columns, Known(self._law, {}))
    theirs = {c.name: d for d, c in enumerate(other.columns)}
    for column, is_density in zip(law.columns, law.is_density.tolist(), strict=True):
        name = column.name
        if name not in theirs:
            raise ValueError(f"other must have the column {name!r}; its columns are {quoted(list(theirs))}")
        if is_density != other._law.is_density[theirs[name]]:
            raise ValueError(f"other must have masses in the column {name!r} where this has, or densities")
        levels = other.columns[theirs[name]].levels
        if column.levels is not None and levels is not None and column.levels != levels:
            raise ValueError(
                f"other must have the levels {column.levels} in the column {name!r}, in this order; got {levels}"
            )
    places = sorted(theirs[c.name] for c in law.columns)
    other_law = other._law.of(places)
    number = {c.name: d for d, c in enumerate(other_law.columns)}
    matched = [number[c.name] for c in law.columns]
    is_same = law.is_same(other_law)
    method = _method(method, law)
    attrs = self._weight_mark(law)

    def error(own: np.ndarray, of_other: np.ndarray) -> dict[str, Any]:
        """Over the draws of this law and of the other one: together where these are the same draws."""
        if is_same:
            return self._error(own + of_other)
        errors = [self._error(own), other._error(of_other)]
        noted = [e for e in errors if "mcse_chain" not in e]
        return noted[0] if noted else {"mcse_chain": float(np.hypot(*(e["mcse_chain"] for e in errors)))}

    if method == "enumeration":
        p, own, weight = states_of(law, range(len(law.columns)))
        q, theirs_own, their_weight = states_of(other_law, matched, [len(c.levels or ()) for c in law.columns])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(p > 0.0, np.log(p / q), 0.0)
            value = max(float(np.where(p > 0.0, p * ratio, 0.0).sum()), 0.0)
            slope = np.where(p > 0.0, p / q, 0.0)
            found = error(weight * (own @ ratio - value), their_weight * (1.0 - theirs_own @ slope))
        return self._labelled("kl", value, {}, False, **attrs, **found)
    if method == "quadrature":
        of_column, of_other = law.divergence_of_column(0, other_law, 0)
        attrs |= _mark(law, of_column.tolerance) | error(of_column.influence, of_other)
        return self._labelled("kl", of_column.value, {}, False, **attrs)
    rows = _simulated_rows(law, n, random_seed)
    there = np.empty((len(rows), len(matched)))
    there[:, matched] = rows
    ratio = log_mixture(law, rows) - log_mixture(other_law, there)
    value, mark = _simulated_mean(ratio)
    with np.errstate(invalid="ignore"):
        own = influence(law, rows, ratio)
    slope = -shares_of_circuits(other_law, there)
    if is_same:  # of mean 0, and with the noise of the same rows
        slope += shares_of_circuits(law, rows)
    attrs |= mark | error(own, slope)
    return self._labelled("kl", value, {}, False, **attrs)


@of_each_draw
def mutual_information(
    self: AskedLaw,
    first: str | Sequence[str],
    second: str | Sequence[str],
    given: Given = None,
    per_draw: bool = False,
    method: str = "auto",
    n: int = SIMULATED,
    random_seed: int | np.random.Generator | None = None,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate the mutual information of two columns or groups, in nats.

    Parameters
    ----------
    first, second : str or list of str
        Without a common column.
    given : mapping, sequence of mappings or str, optional
        What is known, as for `condition`.
    per_draw : bool
        Whether to return each draw's own value; for single columns only.
    method : {"auto", "enumeration", "monte-carlo"}
        "auto" enumerates if all columns have levels, else takes Monte Carlo.
    n : int
        Number of rows that Monte Carlo simulates, at least 2.
    random_seed : int, Generator or None
        Seed of these rows.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        Marked exact or monte-carlo (``mcse``). The default is the value of the mixture over draws, in which
        disagreement between draws adds dependence.

    Examples
    --------
    >>> post.mutual_information("age", "job", n=1000, random_seed=1).item() > 0.1
    True
    """
    known = self._known(given)
    names = _groups(self, first, second)
    law = _law_asked(self, "mutual_information", [*names[0], *names[1]], known)
    number = {c.name: d for d, c in enumerate(law.columns)}
    groups = [[number[name] for name in group] for group in names]
    allowed = tuple(m for m in METHODS if m != "quadrature")
    if method not in allowed:
        raise ValueError(f"method must be one of {allowed}, got {quoted(method)}")
    are_few = n_states(law) <= MOST_STATES
    if method == "enumeration" and not are_few:
        raise ValueError(OF_LEVELS)
    is_exact = method != "monte-carlo" and are_few
    attrs = self._weight_mark(law)
    if per_draw:
        if not len(groups[0]) == len(groups[1]) == 1:
            raise ValueError("per_draw=True is for two single columns")
        pair, mark = (groups[0][0], groups[1][0]), {}
        if is_exact:
            each = informations_of_levels(law, *pair)
        else:
            found = simulated_informations(law, [pair], checked_count("n", n, least=2), random_seed)
            each, mark = (
                found.of_circuits[:, 0],
                {"exactness": "monte-carlo", "mcse": self._by_chain(found.errors_of_circuits[:, 0])},
            )
        return self._labelled("mutual_information", each, {}, True, **mark)
    if is_exact:
        p, each, weight = states_of(law, [*groups[0], *groups[1]])
        joint = p.reshape(int(np.prod([len(law.columns[d].levels or ()) for d in groups[0]])), -1)
        alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(joint > 0.0, np.log(joint / alone), 0.0).ravel()
        value = max(float(p @ ratio), 0.0)
        error = self._error(weight * (each @ ratio - value))
        return self._labelled("mutual_information", value, {}, False, **attrs, **error)
    rows = _simulated_rows(law, n, random_seed)
    both, one, other = (
        log_mixture(law, with_columns(rows, c)) for c in ([*groups[0], *groups[1]], groups[0], groups[1])
    )
    with np.errstate(invalid="ignore"):  # of a row that rounding has moved to an end, which is left out
        ratio = both - one - other
    return _finite_mean(self, "mutual_information", law, rows, ratio, attrs)


@of_each_draw
def event_information(
    self: AskedLaw,
    first: EventLike,
    second: EventLike,
    given: Given = None,
    per_draw: bool = False,
    *,
    interval: float | None = None,
) -> "xr.DataArray":
    """Calculate the mutual information in nats between two events.

    Parameters
    ----------
    first, second : mapping, sequence of mappings or str
        Events as for `probability`, without points of continuous columns and likelihoods.
    given : the same, optional
        What is known.
    per_draw : bool
        Whether to return each draw's own value, unweighted.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        A scalar, or (chain, draw); exact. The default is the value of the mixture over draws.

    Raises
    ------
    TypeError, ValueError
        As `probability`; if an event is a point of a continuous column or soft evidence.

    Examples
    --------
    >>> post.event_information({"age": (None, 45)}, {"job": "nurse"}).item() > 0.1
    True
    """
    unions = [_events_that_hold(self, argument, event) for argument, event in (("first", first), ("second", second))]
    law, (known, base, mark) = self._law, known_union(self, given)

    def p(union: Any) -> np.ndarray:
        joint = both_unions(union, known, both_or_none)
        logs = log_union(((sign, law.log_event(e)) for sign, e in joint), base.shape)
        return np.exp(logs - np.where(np.isfinite(base), base, 0.0))

    each = shares_of_cells(*(p(union) for union in (*unions, both_unions(unions[0], unions[1], both_or_none))))
    if per_draw:
        own = np.array([information_of_cells(cells) for cells in each.T])
        return self._labelled("mutual_information", own, {}, True)
    weight = relative_weights(base + law.log_weights)
    cells = each @ weight / weight.sum()
    value = information_of_cells(cells)
    error = self._error(weight * (log_ratios(cells) @ each - value))
    return self._labelled("mutual_information", value, {}, False, **mark, **error)


def _events_that_hold(self: AskedLaw, argument: str, event: Any) -> list[tuple[float, Events]]:
    """An event as signed events; only what is true or false of a row."""
    if event is None:
        raise TypeError(f"{argument} must map column names to a value, (low, high) or a set, or be text, got None")
    union = self._signed_events(argument, event)
    for _, one in union:
        for d, what in one.items():
            if isinstance(what, float) and self._law.is_density[d]:
                refuse_density(argument, self.columns[d].name, what)
            if isinstance(what, Likelihood):
                refuse_likelihoods(argument, self.columns[d].name)
    return union


def _law_asked(self: AskedLaw, query: str, columns: Any, known: Known) -> Law:
    """The law of the columns that are asked about."""
    law = known.law
    if columns is None:
        if not law.columns:
            raise ValueError(f"{query} needs at least one column that is not known")
        return law
    names = list(dict.fromkeys(names_of("columns", columns)))
    for name in names:
        if name in known.points:
            raise ValueError(f"{query}: column {name!r} is given at a value")
    asked = sorted(self._number("columns", name, known) for name in names)
    if not asked:
        raise ValueError(f"{query} needs at least one column that is not known")
    return law.of(asked)


def _groups(self: AskedLaw, first: Any, second: Any) -> list[list[str]]:
    """Names of two groups of columns, which have none in common."""
    groups = []
    for argument, names in (("first", first), ("second", second)):
        names = names_of(argument, names)
        if not names:
            raise ValueError(f"{argument} must name at least one column, got none")
        found = dict.fromkeys(self._number(argument, name) for name in names)
        groups.append([self.columns[d].name for d in found])
    both = [c.name for c in self.columns if c.name in groups[0] and c.name in groups[1]]
    if both:
        raise ValueError(f"first and second must differ, both name {both[0]!r}")
    return groups


def _method(method: str, law: Law) -> str:
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {quoted(method)}")
    are_few = n_states(law) <= MOST_STATES
    if method == "auto":
        return "enumeration" if are_few else "quadrature" if len(law.columns) == 1 else "monte-carlo"
    if method == "enumeration" and not are_few:
        raise ValueError(OF_LEVELS)
    if method == "quadrature" and len(law.columns) > 1:
        raise ValueError('method="quadrature" is for a single column')
    return method


def _mark(law: Law, tolerance: float) -> dict[str, Any]:
    if all(column.levels is not None for column in law.columns):
        return {"exactness": "exact"}
    return {"exactness": "numerical", "tolerance": tolerance}


def _simulated_mean(values: np.ndarray, left_out: int = 0) -> tuple[float, dict[str, Any]]:
    """Mean over simulated rows and its marks; infinite where a ratio of densities is."""
    if np.any(np.isposinf(values)):
        return float("inf"), {"exactness": "monte-carlo", "mcse": 0.0}
    mark = {"exactness": "monte-carlo", "mcse": float(values.std(ddof=1) / np.sqrt(values.size))}
    return float(values.mean()), mark | ({"left_out": left_out} if left_out else {})


def _finite_mean(
    self: AskedLaw, name: str, law: Law, rows: np.ndarray, values: np.ndarray, attrs: dict[str, Any]
) -> "xr.DataArray":
    """The mean over simulated rows, without those that rounding has moved to an end, where the density is zero."""
    some = np.isfinite(values)
    value, mark = _simulated_mean(values[some], int(np.sum(~some)))
    error = self._error(influence(law, rows[some], values[some]))
    return self._labelled(name, value, {}, False, **attrs, **mark, **error)


def _simulated_rows(law: Law, n: Any, random_seed: Any) -> np.ndarray:
    count = checked_count("n", n, least=2, bytes_each=16.0 * len(law.columns))
    return simulated(law, count, np.random.default_rng(random_seed))
