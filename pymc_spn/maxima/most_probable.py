"""A most probable row: what an answer holds, its limits, and the values that completions may take."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.events.events import Events
from pymc_spn.leaves.intervals import Interval
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr, elided
from pymc_spn.numerics.marks import limited, scope_of
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr

TOLERANCE = 1e-6  # nats
LEAST_POSITIVE = float(np.finfo(np.float64).tiny)  # an interval that begins below it begins at 0
FEWEST_BOXES, MOST_BOXES = 500, 100_000
NODE_BOXES = 50_000_000  # nodes times boxes
NO_AVERAGE = {"mcse_chain_note": "no mcse_chain: a maximum is no average"}


@dataclass(frozen=True, eq=False, repr=False)
class MostProbable(NotebookRepr):
    """A row of high density and a bound that no completion exceeds.

    Parameters
    ----------
    value : DataFrame of one row
        Columns as in the data.
    log_density : DataArray, scalar
        Log density (log mass in discrete columns) of the completion given what is known, in nats.
    upper_bound : DataArray, scalar
        No completion has a larger one.
    certified : bool
        Whether the two differ by at most the tolerance, so that the row is a most probable one.
    n_boxes : int
        Boxes that the search looked at; 0 where it was not needed.

    Examples
    --------
    >>> best = law.mpe()
    >>> best.certified
    True
    """

    value: pd.DataFrame
    log_density: "xr.DataArray"
    upper_bound: "xr.DataArray"
    certified: bool
    n_boxes: int

    def _facts(self) -> Facts:
        gap = float(self.upper_bound) - float(self.log_density)
        facts = {"row": elided([f"{name}={cell}" for name, cell in self._cells()], most=6)}
        facts["density"] = f"log density {float(self.log_density):.4g} nats"
        facts["bound"] = "certified" if self.certified else f"not certified: at most {gap:.2g} nats below the largest"
        return Facts("MostProbable", facts)

    def _listed(self) -> Listed:
        return Listed(f"{self.value.shape[1]} columns", ("column", "value"), self._cells())

    def _cells(self) -> list[tuple[str, str]]:
        """Names and values, in few digits."""
        row = ((name, self.value[name].iloc[0]) for name in self.value)
        return [(str(name), f"{x:.4g}" if isinstance(x, float) else str(x)) for name, x in row]


def checked_limits(tolerance: Any, max_boxes: Any) -> tuple[float, int | None]:
    if not (isinstance(tolerance, int | float) and 0 < tolerance < np.inf):
        raise ValueError(f"tolerance must be positive and finite, got {quoted(tolerance)}")
    if max_boxes is not None and (
        isinstance(max_boxes, bool) or not isinstance(max_boxes, int | np.integer) or max_boxes < 1
    ):
        raise ValueError(f"max_boxes must be an integer of at least 1, got {quoted(max_boxes)}")
    return float(tolerance), None if max_boxes is None else int(max_boxes)


def box_limit(max_boxes: int | None, n_nodes: int) -> int:
    return min(MOST_BOXES, max(FEWEST_BOXES, NODE_BOXES // n_nodes)) if max_boxes is None else int(max_boxes)


def allowed_values(inside: Events, discrete: np.ndarray, columns: Any) -> dict[int, list[tuple[float, float]]]:
    """Closed intervals of each restricted column, with integer ends where it is discrete.

    Values that a column's kind excludes are no completions, though a Gaussian leaf may give them mass.
    """
    least = {"positive": LEAST_POSITIVE, "count": 0.0}
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


def marked_row(
    value: pd.DataFrame, log_density: float, gap: float, n_boxes: int, tolerance: float, attrs: dict[str, Any]
) -> MostProbable:
    """A row, its log density in nats and how far that may be from the largest one, labelled and marked."""
    import xarray as xr

    certified = bool(gap <= tolerance)
    scope, error = scope_of(attrs.get("exactness", "")), {"tolerance": tolerance} if certified else {"gap": gap}
    mark = attrs | {"exactness": limited("numerical" if certified else "bound", scope)} | error
    value.attrs = dict(mark)
    return MostProbable(
        value,
        xr.DataArray(log_density, name="log_density", attrs=mark),
        xr.DataArray(log_density + gap, name="upper_bound", attrs=mark | {"exactness": limited("bound", scope)}),
        certified,
        n_boxes,
    )
