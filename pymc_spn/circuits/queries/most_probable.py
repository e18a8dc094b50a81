"""The most probable completion of a row, with an upper bound on what any completion can reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from pymc_spn.circuits.leaves.families import LogNormal
from pymc_spn.circuits.queries.box_kernels import NOTHING
from pymc_spn.circuits.queries.box_search import BoxResult, search
from pymc_spn.circuits.queries.column_laws import law_of_column
from pymc_spn.circuits.queries.conditioned_draws import ConditionedDraws
from pymc_spn.circuits.queries.draw_averages import relative_weights
from pymc_spn.circuits.queries.events import Events, Interval, points_of, read_events, spread_of
from pymc_spn.circuits.queries.tapes import tape_of_circuit, tape_of_draws
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.tables import Column, decode

if TYPE_CHECKING:
    import xarray as xr

TOLERANCE = 1e-6  # nats
BULK = 1e-3  # quantile of a column with log-normal leaves below which its density is not searched
FEWEST_BOXES, MOST_BOXES = 500, 100_000
NODE_BOXES = 50_000_000  # nodes times boxes


@dataclass(frozen=True, eq=False)
class MostProbable:
    """A row of high density and a bound that no row exceeds.

    Parameters
    ----------
    value : DataFrame
        One row, columns as in the data.
    log_density : DataArray
        Its log density (log mass in discrete columns) given what is known, in nats.
    upper_bound : DataArray
        No row has a larger one.
    certified : bool
        Whether the two differ by at most the tolerance, so that the row is a most probable one.
    n_boxes : int
        Boxes that the search looked at.
    """

    value: pd.DataFrame
    log_density: "xr.DataArray"
    upper_bound: "xr.DataArray"
    certified: bool
    n_boxes: int


class ModeAnswers(ConditionedDraws):
    """The most probable completion under the mixture over draws."""

    def mpe(
        self,
        given: Mapping[str, Any] | None = None,
        tolerance: float = TOLERANCE,
        max_boxes: int | None = None,
        max_draws: int | None = None,
    ) -> MostProbable:
        """The most probable values of the columns that are not known, certified where the search finishes.

        A best-first search over boxes: see `box_search`. Its cost grows with the number of draws, and steeply
        with the number of continuous columns; where it stops at `max_boxes` the answer is the best row found
        and a bound on what it may miss.

        The density of a column with log-normal leaves grows without bound towards 0, on next to no mass. Values
        below its quantile at 0.001 are left out, unless an interval that begins above 0 is given for the column.

        Parameters
        ----------
        given : mapping, optional
        tolerance : float
            Gap in nats at which the search is done.
        max_boxes : int, optional
            By default within 500 and 100,000, fewer for larger networks.
        max_draws : int, optional
            Use that many draws, evenly spaced, instead of all; the answer is then that of their mixture.

        Returns
        -------
        MostProbable
        """
        tolerance, max_boxes = _checked_limits(tolerance, max_boxes)
        known = self._given(given)
        self._log_of(known)
        points, columns = points_of(known), self._schema.columns
        asked = [d for d in self._kept if d not in points]
        if not asked:
            raise ValueError("given: every column is given at a value, there is nothing to complete")
        unasked = {d: known.get(d) for d in range(len(columns)) if d not in points and d not in self._kept}
        weights = self._log_weights.copy()
        if max_draws is not None:
            if isinstance(max_draws, bool) or not isinstance(max_draws, int | np.integer) or max_draws < 1:
                raise ValueError(f"max_draws must be an integer of at least 1, got {max_draws!r}")
            used = np.unique(np.linspace(0, weights.size - 1, min(max_draws, weights.size)).round().astype(np.int64))
            weights = np.where(np.isin(np.arange(weights.size), used), weights, -np.inf)
        # before the evidence: the constants of the tape weight the draws by it
        tape = tape_of_draws(self._states, points, unasked, weights)
        discrete = np.array([not d for d in self._states.compiled.is_density])
        inside = {d: e for d, e in spread_of(known).items() if d in asked}
        for d in asked:
            if any(isinstance(e, LogNormal) for e in self._schema.palette[d]):
                event: Any = inside.get(d, Interval(0.0, np.inf))
                if event.low <= 0.0:
                    law = law_of_column(self._states, d, self._row(known), spread_of(known))
                    least = law.mixed(relative_weights(weights + self._log_of(known))).quantile(np.array([BULK]))[0]
                    inside[d] = Interval(float(least), event.high)
        found = search(
            tape, _allowed(inside, discrete, columns), discrete, tolerance, _box_limit(max_boxes, tape.kind.size)
        )
        log_known = float(logsumexp(weights + self._log_of(known)) - logsumexp(weights))
        row = self._row(known)
        row[asked] = found.x[asked]
        kept = list(self._kept)
        return _answer(found, log_known, row[kept], [columns[d] for d in kept], tolerance, self._draw_weights(known))


def most_probable(
    circuit: Circuit,
    log_weights: np.ndarray,
    leaf_parameters: Mapping[str, np.ndarray],
    given: Mapping[str, Any] | None = None,
    tolerance: float = TOLERANCE,
    max_boxes: int | None = None,
) -> MostProbable:
    """The most probable completion of a row under an explicit circuit, certified where the search finishes.

    Parameters
    ----------
    circuit : Circuit
    log_weights, leaf_parameters
        As for `Circuit.log_density`.
    given : mapping of column name to value, (low, high) or set, optional
        Where the circuit's columns are names only, values are numbers, levels their codes.
    tolerance, max_boxes
        As for `SPNPosterior.mpe`.

    Returns
    -------
    MostProbable
    """
    tolerance, max_boxes = _checked_limits(tolerance, max_boxes)
    columns = tuple(c if isinstance(c, Column) else _column_of(circuit, d) for d, c in enumerate(circuit.columns))
    circuit.log_density(np.full((1, len(columns)), np.nan), log_weights, leaf_parameters)  # checks them
    by_family = circuit.leaf_family[circuit.leaves]
    discrete = np.zeros(len(columns), np.bool_)
    masses = [
        f for f, name in enumerate(circuit.families) if name in ("poisson", "bernoulli", "categorical", "geometric")
    ]
    for d in range(len(columns)):
        discrete[d] = np.isin(by_family[circuit.leaf_column[circuit.leaves] == d], masses).any()
    known = read_events("given", given, columns, range(len(columns)), ~discrete)
    points, inside = points_of(known), spread_of(known)
    if len(points) == len(columns):
        raise ValueError("given: every column is given at a value, there is nothing to complete")
    tape = tape_of_circuit(circuit, log_weights, leaf_parameters, points)
    found = search(
        tape, _allowed(inside, discrete, columns), discrete, tolerance, _box_limit(max_boxes, tape.kind.size)
    )
    if found.log_density <= 0.5 * NOTHING:
        raise ValueError(f"given: {dict(given or {})} has density zero under the circuit")
    log_known = 0.0
    if points:
        row = np.full((1, len(columns)), np.nan)
        for d, x in points.items():
            row[0, d] = x
        log_known = float(circuit.log_density(row, log_weights, leaf_parameters)[0])
    row = found.x.copy()
    for d, x in points.items():
        row[d] = x
    return _answer(found, log_known, row, columns, tolerance, {})


def _column_of(circuit: Circuit, d: int) -> Column:
    return Column(circuit.names[d], "real", None, "float64")


def _checked_limits(tolerance: Any, max_boxes: Any) -> tuple[float, int | None]:
    if not (isinstance(tolerance, int | float) and 0 < tolerance < np.inf):
        raise ValueError(f"tolerance must be positive and finite, got {tolerance!r}")
    if max_boxes is not None and (
        isinstance(max_boxes, bool) or not isinstance(max_boxes, int | np.integer) or max_boxes < 1
    ):
        raise ValueError(f"max_boxes must be an integer of at least 1, got {max_boxes!r}")
    return float(tolerance), None if max_boxes is None else int(max_boxes)


def _box_limit(max_boxes: int | None, n_nodes: int) -> int:
    return min(MOST_BOXES, max(FEWEST_BOXES, NODE_BOXES // n_nodes)) if max_boxes is None else int(max_boxes)


def _allowed(inside: Events, discrete: np.ndarray, columns: Any) -> dict[int, list[tuple[float, float]]]:
    """Closed intervals of each restricted column, with integer ends where it is discrete.

    Values that a column's kind excludes are no completions, though a Gaussian leaf may give them mass.
    """
    least = {"positive": float(np.finfo(np.float64).tiny), "count": 0.0}
    out = {d: [(least[c.kind], np.inf)] for d, c in enumerate(columns) if c.kind in least}
    for d, event in inside.items():
        if isinstance(event, Interval):
            low, high = (np.ceil(event.low), np.floor(event.high)) if discrete[d] else event
            out[d] = [(max(float(low), least.get(columns[d].kind, -np.inf)), float(high))]
            continue
        assert isinstance(event, frozenset)
        runs: list[tuple[float, float]] = []
        for x in sorted(event):
            if runs and x == runs[-1][1] + 1.0:
                runs[-1] = (runs[-1][0], x)
            else:
                runs.append((x, x))
        out[d] = runs
    return out


def _answer(
    found: BoxResult, log_known: float, row: np.ndarray, columns: Any, tolerance: float, attrs: dict[str, Any]
) -> MostProbable:
    import xarray as xr

    gap = found.upper_bound - found.log_density
    certified = bool(gap <= tolerance)
    mark = {"exactness": "numerical", "tolerance": tolerance} if certified else {"exactness": "bound", "gap": gap}
    return MostProbable(
        decode(row[None], columns),
        xr.DataArray(found.log_density - log_known, name="log_density", attrs={**mark, **attrs}),
        xr.DataArray(found.upper_bound - log_known, name="upper_bound", attrs={**mark, **attrs, "exactness": "bound"}),
        certified,
        found.n_boxes,
    )
