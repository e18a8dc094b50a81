"""Grids that turn integrals over a column into sums: its levels, its counts, or Gauss points in panels."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pymc_spn.laws.column_laws import ColumnLaw, JoinedLaw
from pymc_spn.leaves.kernel_forms import LOGARITHM, NOT_NEGATIVE

TAIL = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2)  # panels beyond the bulk end at these quantiles
BULK = 0.02
NODES = 6  # Gauss points of a panel
FEW_PANELS = 12  # of the bulk, of the coarsest grid
MISPLACED = 1e-8  # mass of the leaves that the points of a grid may have in the wrong place, and nats that it may cost
MOST_PANELS = 600  # of a column: of two, the points of one times those of the other are held
ROUNDS = 60  # of halving panels
ROUNDED = 4.0  # mass that rounding of points may misplace, as a multiple of their spacing between quartiles
MOST_COUNTS = 4_000  # values of a count column that are summed
WIDE_COUNTS = 1_000  # values of a column whose rounded Gaussian leaves have long tails: beyond so many tails are cut
LARGEST_CUT = 1e-4  # mass of what is cut there
NO_MASS = 1e-100  # of a panel: where another density underflows it is no sign that this one excludes it
GRID_DRAWS = 8  # draws whose mixture places a grid
BLOCK_VALUES = 2_000_000  # densities of leaves held at a time (16 MB)
LARGEST = 1e290  # where the grid of a column with log-normal leaves ends, whose quantiles may be beyond all numbers


class Grid(NamedTuple):
    """Points and weights that turn integrals or sums over a column into sums, and the ends beyond which it has none."""

    x: np.ndarray
    weight: np.ndarray
    ends: tuple[float, float] | None = None


def grid_of(
    law: ColumnLaw | JoinedLaw,
    name: str,
    n_levels: int,
    is_density: bool,
    n_panels: int,
    tail_panels: int = 1,
    jumps: Sequence[float] = (),
) -> Grid:
    """Grid of a column: its levels, its counts, or Gauss points between quantiles of the law.

    Panels end at ``jumps``, where the density may jump: at the ends of the cases of a union.

    The bulk has ``n_panels`` panels, each step from one quantile of `TAIL` to the next or to the bulk ``tail_panels``.
    They are halved where their points misplace mass, the finer the more panels there are. With log-normal leaves, long
    panels have their points in the logs of values.

    Raises
    ------
    ValueError
        If a count column has too many values.
    """
    if n_levels:
        return Grid(np.arange(float(n_levels)), np.ones(n_levels))
    tails = np.array(TAIL)
    if not is_density:
        first, last = law.quantile(np.array([tails[0], 1.0 - tails[0]]))
        if last - first >= MOST_COUNTS:
            for tail in tails[(tails > tails[0]) & (tails <= LARGEST_CUT)].tolist():
                low, high = law.quantile(np.array([tail, 1.0 - tail]))
                if high - low < WIDE_COUNTS:
                    x = np.arange(low, high + 1.0)
                    return Grid(x, np.ones(x.size), (float(low) - 1.0, float(high)))
            raise ValueError(
                f"column {name!r} takes {last - first + 1:g} counts, more than the {MOST_COUNTS} that are summed: use "
                f"method=\"monte-carlo\"; or fit it as a number, with kinds={{{name!r}: 'real'}}"
            )
        x = np.arange(first, last + 1.0)
        return Grid(x, np.ones(x.size), (float(first) - 1.0, float(last)))
    ends = np.append(tails, BULK)
    if tail_panels > 1:
        steps = np.arange((ends.size - 1) * tail_panels + 1) / tail_panels
        ends = np.append(np.exp(np.interp(steps[:-1], np.arange(ends.size), np.log(ends))), BULK)
    middle = np.linspace(BULK, 1.0 - BULK, n_panels + 1)
    cuts = law.quantile(np.concatenate([ends[:-1], middle, 1.0 - ends[-2::-1]]))
    has_logs = law.has(LOGARITHM)
    if has_logs:
        cuts = np.clip(np.where((cuts > 0.0) & (cuts < 1.0 / LARGEST), 1.0 / LARGEST, cuts), -LARGEST, LARGEST)
    inner = [x for x in jumps if cuts[0] < x < cuts[-1]]
    if inner:
        cuts = np.unique(np.append(cuts, inner))
    if (has_logs or law.has(NOT_NEGATIVE)) and cuts[0] < 0.0 < cuts[-1]:
        cuts = np.sort(np.append(cuts, 0.0))  # where the density jumps
    if has_logs and cuts[0] <= 0.0 < cuts[-1]:
        smaller = cuts[cuts > 0.0][0] * 10.0 ** -np.geomspace(1.0, 280.0, n_panels)
        cuts = np.sort(np.append(cuts, smaller[smaller >= 1.0 / LARGEST]))
    log_from = 0.0 if has_logs else np.inf
    quartiles = law.quantile(np.array([0.25, 0.75]))
    spacing = float(np.spacing(np.abs(quartiles).max()))
    rounded = min(ROUNDED * spacing / max(float(np.ptp(quartiles)), spacing), 1.0)
    largest = MISPLACED * (FEW_PANELS / n_panels) ** 2
    lost = rounded if rounded > largest else 0.0  # of a narrow column far from 0 finer panels misplace as much

    def misplaced(start: np.ndarray, middle: np.ndarray, end: np.ndarray) -> np.ndarray:
        return _misplaced(law, start, end, log_from)

    halved = halved_panels(cuts, log_from, misplaced, max(largest, lost), MOST_PANELS)[0]
    return gauss_points(halved, log_from)


def _misplaced(law: ColumnLaw | JoinedLaw, start: np.ndarray, end: np.ndarray, log_from: float) -> np.ndarray:
    """By how much mass the points of panels (X,) differ from what the leaves have there, averaged with their shares."""
    if isinstance(law, JoinedLaw):
        parts = zip(law.weights[:, 0], law.laws, strict=True)
        return np.sum([w * _misplaced(part, start, end, log_from) for w, part in parts], axis=0)
    out = np.empty(start.size)
    step = max(1, BLOCK_VALUES // (NODES * law.share.size))
    for k in range(0, start.size, step):
        ends = start[k : k + step], end[k : k + step]
        x, weight = panel_points(*ends, log_from)
        with np.errstate(divide="ignore"):
            mass = np.exp(law.leaf_log_density(x.ravel()) + np.log(weight.ravel())).reshape(-1, *x.shape).sum(axis=-1)
        below, upto = (law.leaf_cdf(one) for one in ends)
        out[k : k + step] = law.share @ np.abs(mass - (upto - below))
    return out


def gauss_points(cuts: np.ndarray, log_from: float) -> Grid:
    """Gauss points in the panels between ascending cuts, see `panel_points`."""
    x, weight = panel_points(cuts[:-1], cuts[1:], log_from)
    return Grid(x.ravel(), weight.ravel(), (float(cuts[0]), float(cuts[-1])))


def panel_points(start: np.ndarray, end: np.ndarray, log_from: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points and weights (n, `NODES`) of panels, of long ones beyond ``log_from`` in the logs of values."""
    t, w = np.polynomial.legendre.leggauss(NODES)
    long = is_long(start, end, log_from)
    start, end = (np.where(long, np.log(np.where(long, np.abs(cut), 1.0)), cut) for cut in (start, end))
    mirrored = long & (start > end)
    start, end = np.where(mirrored, end, start), np.where(mirrored, start, end)
    x = start[:, None] + 0.5 * (end - start)[:, None] * (t + 1.0)
    weight = 0.5 * (end - start)[:, None] * w
    x[long] = np.exp(x[long])
    weight[long] *= x[long]
    x[mirrored] = -x[mirrored]
    return x, weight


def is_long(start: np.ndarray, end: np.ndarray, log_from: float) -> np.ndarray:
    """Whether panels reach from beyond ``log_from``, on either side, to more than twice as far."""
    near, far = np.minimum(np.abs(start), np.abs(end)), np.maximum(np.abs(start), np.abs(end))
    return (np.sign(start) == np.sign(end)) & (near > 0.0) & (near >= log_from) & (far > 2.0 * near)


def middles(start: np.ndarray, end: np.ndarray, log_from: float) -> np.ndarray:
    """Middles of panels, of long ones in logs there."""
    long = is_long(start, end, log_from)
    roots = np.sqrt(np.where(long, np.abs(start), 1.0)) * np.sqrt(np.where(long, np.abs(end), 1.0))
    return np.where(long, np.sign(end) * roots, 0.5 * start + 0.5 * end)


def halved_panels(
    cuts: np.ndarray,
    log_from: float,
    errors: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    largest_error: float,
    most_panels: int,
) -> tuple[np.ndarray, float]:
    """Ends of panels, halved where their errors are large, and what errors are left.

    Between quantiles a panel may reach from one group of rows over a gap to the next one, at whatever levels.

    Parameters
    ----------
    cuts : (n + 1,) float64
        Ends of the first panels, ascending.
    log_from : float
        See `panel_points`.
    errors : function
        Of starts, middles and ends (X,) of panels.
    largest_error : float
        Of all panels together, were their errors independent.
    most_panels : int
    """
    start, end = cuts[:-1], cuts[1:]
    edges, off, n_panels = [cuts], 0.0, start.size
    for _ in range(ROUNDS):
        middle = middles(start, end, log_from)
        error = errors(start, middle, end)
        halved = (error > 0.25 * largest_error / np.sqrt(n_panels)) & (middle > start) & (middle < end)
        n_panels += int(halved.sum())
        if n_panels > most_panels:
            halved[:] = False
        off += float(error[~halved].sum())
        if not halved.any():
            break
        edges.append(middle[halved])
        start, end = (
            np.concatenate([start[halved], middle[halved]]),
            np.concatenate([middle[halved], end[halved]]),
        )
    return np.unique(np.concatenate(edges)), off


def beyond_grid(
    cdf: Callable[[np.ndarray], np.ndarray],
    grid: Grid,
    mean_log_beyond: Callable[[tuple[float, float]], float] | None = None,
) -> float:
    """Allowance in nats for what a column with this distribution function has beyond its grid.

    A tail of mass m that begins at distance T and falls like 1 / x^(v + 1) adds -m log m + m (log(T / v) + 1 + 1/v)
    to the entropy. Ten times m (1 + |log m| + |log T|) is more for v of a quarter and above. Where log x falls like
    that (log-normal leaves), the mean of |log x| in the tail comes on top, which only the leaves know. How fast their
    masses fall where a grid happens to end does not tell their power. Without ``mean_log_beyond``, a function of both
    ends, that is left out: no leaf is log-normal, or it is a divergence, whose log ratio has no such term.
    """
    if grid.ends is None:
        return 0.0
    low, high = grid.ends
    of_logs, unresolved = 0.0, 0.0
    if mean_log_beyond is not None:
        positive = grid.x[grid.x > 0.0]
        if low <= 0.0 and positive.size:  # the panel that begins at 0 has no points in logs
            first_node = 0.5 * (1.0 + float(np.polynomial.legendre.leggauss(NODES)[0][0]))
            low = min(float(positive.min()) / first_node, high)
            at_0, upto_low = cdf(np.array([max(grid.ends[0], 0.0), low]))
            unresolved = max(float(upto_low - at_0), 0.0)
        of_logs = mean_log_beyond((low, high))
    below, upto = cdf(np.array(grid.ends))
    mass = max(float(below + 1.0 - upto) + unresolved, np.finfo(np.float64).eps)
    distance = max(0.5 * (grid.ends[1] - grid.ends[0]), np.finfo(np.float64).tiny)
    return 10.0 * mass * (1.0 + abs(float(np.log(mass))) + abs(float(np.log(distance)))) + of_logs
