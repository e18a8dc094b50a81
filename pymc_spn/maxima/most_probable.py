"""A most probable row: the search from the best induced trees, and what an answer holds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from pymc_spn.events.events import Events
from pymc_spn.events.unions import groups_that_meet
from pymc_spn.laws.law import Law
from pymc_spn.maxima.ascent import Peak, climb
from pymc_spn.maxima.row_boxes import row_box
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr, elided
from pymc_spn.numerics.marks import LOCAL_MAXIMUM, limited, scope_of

if TYPE_CHECKING:
    import xarray as xr

NO_AVERAGE = {"mcse_chain_note": "no mcse_chain: a maximum is no average"}
ENUMERATED = 4096  # rows that are all tried where columns have so few values
ROWS = 4096  # whose densities are asked for at a time
STARTS = 6  # trees that are climbed from
KEPT = 2  # ascents under fewer circuits that go on under all
PLACES, MORE_PLACES = 24, 256  # values of a continuous column that are tried in it besides; under one circuit
FEW = 64  # circuits under which ascents begin
ROUNDING = 1e-9  # nats


class Best(NamedTuple):
    """The densest row that a search found.

    Parameters
    ----------
    row : (D,) float64
    log_density : float
        Of the mixture over circuits, in nats.
    upper_bound : float
        No row has a larger one; infinite where no bound is known.
    """

    row: np.ndarray
    log_density: float
    upper_bound: float


def most_probable(law: Law) -> Best:
    """The densest row of a law, as far as ascents find it.

    The starts are modes of induced trees of large value, after de Campos (2011) and Conaty, Maua and de Campos (2017,
    https://proceedings.mlr.press/v68/conaty17a.html), who show that the maximum itself is hard to find.
    """
    if len(law.parts) == 1:
        return _of_part(law, law)
    weights = np.array([logsumexp(part.log_weights) for part in law.parts])
    weights -= logsumexp(weights)
    overlapping = groups_that_meet([_known_of(part) for part in law.parts])
    found = []
    for k, part in enumerate(law.parts):
        if np.sum(overlapping == overlapping[k]) > 1:  # the densities of parts add up
            found.append(_of_part(part, law))
        else:
            own = _of_part(part, part)
            found.append(own._replace(log_density=own.log_density + weights[k]))
    bounds = np.array([one.upper_bound for one in found]) + weights
    best = max(found, key=lambda one: one.log_density)
    upper = max(float(logsumexp(bounds[overlapping == k])) for k in np.unique(overlapping))
    return best._replace(upper_bound=max(upper, best.log_density))


def _known_of(part: Law) -> Events:
    known = {d: part.known(d) for d in range(len(part.columns))}
    return {d: event for d, event in known.items() if event is not None}


def _of_part(part: Law, whole: Law) -> Best:
    """The densest row of the box of one part under the density of all."""
    box = row_box(part)
    sizes = [np.inf if values is None else values.size for values in box.values]
    if np.prod(sizes) <= ENUMERATED:
        grid = np.meshgrid(*(values for values in box.values if values is not None), indexing="ij")
        rows = np.stack([x.ravel() for x in grid], axis=1)
        logs = whole.log_of_completions(rows)
        k = int(np.argmax(logs))
        return Best(rows[k], float(logs[k]), float(logs[k]))
    trees = part.best_trees(box)
    rows = np.unique(box.clipped(trees.rows), axis=0)
    places = []
    for d, own in enumerate(trees.places):
        if box.is_discrete[d]:
            places.append(np.unique(np.concatenate([rows[:, d], np.round(own)])))
        else:
            found = np.unique(np.concatenate([rows[:, d], own]))
            places.append(found[_spaced(found.size, PLACES if whole.n_circuits > 1 else MORE_PLACES)])
    few = whole.thinned(FEW)
    peaks = climb(_asked(few), _starts(few, rows, places), box, places)
    if few is not whole:
        peaks.sort(key=lambda peak: -peak.log_density)
        none = [x if box.is_discrete[d] else x[:0] for d, x in enumerate(places)]
        peaks = climb(_asked(whole), _distinct(peaks, KEPT), box, none)
    best = max(peaks, key=lambda peak: peak.log_density)
    return Best(best.row, best.log_density, max(trees.upper_bound, best.log_density))


def _asked(law: Law) -> Any:
    def log_density(rows: np.ndarray) -> np.ndarray:
        parts = [slice(at, at + ROWS) for at in range(0, len(rows), ROWS)]
        return np.concatenate([law.log_of_completions(rows[part]) for part in each(parts)])

    return log_density


def _spaced(n: int, most: int) -> np.ndarray:
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.int64)


def _starts(law: Law, rows: np.ndarray, places: list[np.ndarray]) -> list[Peak]:
    """Starts at the densest of some rows that differ."""
    logs = _asked(law)(rows)
    if not np.any(logs > -np.inf):  # no tree is within what is known of its columns together
        rows = law.draw(STARTS, np.random.default_rng(0))
        logs = _asked(law)(rows)
    spread = np.array([np.ptp(x) if x.size else 0.0 for x in places])
    step = 1e-4 * np.where(spread > 0.0, spread, np.maximum(np.abs(rows).max(axis=0), 1.0))
    order = np.argsort(-logs, kind="stable")
    return _distinct([Peak(rows[k], float(logs[k]), step, None) for k in order], STARTS)


def _distinct(peaks: list[Peak], n: int) -> list[Peak]:
    """The first peaks that are not next to one before, up to a number."""
    every = np.array([peak.row for peak in peaks])
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.maximum(np.ptp(every, axis=0), 1e-300)
    out: list[Peak] = []
    for peak in peaks:
        near = [np.all(np.abs(peak.row - other.row) <= 0.02 * spread) for other in out]
        if not any(near):
            out.append(peak)
        if len(out) == n:
            break
    return out


@dataclass(frozen=True, eq=False, repr=False)
class MostProbable(NotebookRepr):
    """A row of high density.

    Parameters
    ----------
    value : DataFrame of one row
        Columns as in the data.
    log_density : DataArray, scalar
        Log density (log mass in discrete columns) of the completion given what is known, in nats.
    upper_bound : DataArray, scalar, or None
        No completion has a larger one; None where no bound is known.
    """

    value: pd.DataFrame
    log_density: "xr.DataArray"
    upper_bound: "xr.DataArray | None"

    def _facts(self) -> Facts:
        facts = {"row": elided([f"{name}={cell}" for name, cell in self._cells()], most=6)}
        facts["density"] = f"log density {float(self.log_density):.4g} nats"
        if self.upper_bound is not None:
            gap = float(self.upper_bound - self.log_density)
            facts["bound"] = f"at most {gap:.2g} nats below the largest" if gap > 0.0 else "the largest"
        return Facts("MostProbable", facts)

    def _listed(self) -> Listed:
        return Listed(f"{self.value.shape[1]} columns", ("column", "value"), self._cells())

    def _cells(self) -> list[tuple[str, str]]:
        """Names and values, in few digits."""
        row = ((name, self.value[name].iloc[0]) for name in self.value)
        return [(str(name), f"{x:.4g}" if isinstance(x, float) else str(x)) for name, x in row]


def marked_row(value: pd.DataFrame, found: Best, attrs: dict[str, Any]) -> MostProbable:
    """A row and its log density, labelled and marked: as a local maximum, unless the bound is reached."""
    import xarray as xr

    scope, gap = scope_of(attrs.get("exactness", "")), found.upper_bound - found.log_density
    is_largest = gap <= ROUNDING * max(1.0, abs(found.log_density))
    gap = 0.0 if is_largest else gap
    rest = {"gap": gap} if np.isfinite(gap) else {}
    mark = attrs if is_largest else attrs | {"exactness": limited(LOCAL_MAXIMUM, scope)} | rest
    upper = None
    if rest:
        bound = attrs | {"exactness": limited("bound", scope)} | rest
        upper = xr.DataArray(found.log_density + gap, name="upper_bound", attrs=bound)
    value.attrs = dict(mark)
    return MostProbable(value, xr.DataArray(found.log_density, name="log_density", attrs=mark), upper)
