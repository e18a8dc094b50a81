"""One draw given what is known of a row: how it spreads over regions, and the joint law of two columns on a grid."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.events.events import Events
from pymc_spn.laws.column_laws import ColumnLaw, JoinedLaw
from pymc_spn.leaves.family_codes import EXPONENTIAL, LOG_NORMAL
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.share_kernels import all_shares, regions_of

TAIL = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2)  # panels beyond the bulk end at these quantiles
BULK = 0.02
NODES = 6  # Gauss points of a panel
FEW_PANELS = 12  # of the bulk, of the coarsest grid
MISPLACED = 1e-8  # mass of the leaves that the points of a grid may have in the wrong place, and nats that it may cost
MOST_PANELS = 600  # of a column: of two, the points of one times those of the other are held
ROUNDS = 60  # of halving panels
MOST_COUNTS = 4_000  # values of a count column that are summed
WIDE_COUNTS = 1_000  # values of a column whose rounded Gaussian leaves have long tails: beyond so many tails are cut
LARGEST_CUT = 1e-4  # mass of what is cut there
GRID_DRAWS = 8  # draws whose mixture places a grid
KEPT_BYTES = 64_000_000  # densities below parts of regions, kept for the next pair of columns
BLOCK_VALUES = 2_000_000  # densities of leaves held at a time (16 MB)
LARGEST = 1e290  # where the grid of a column with log-normal leaves ends, whose quantiles may be beyond all numbers


class Grid(NamedTuple):
    """Points and weights that turn integrals or sums over a column into sums, and the ends beyond which it has none."""

    x: np.ndarray
    weight: np.ndarray
    ends: tuple[float, float] | None = None
    cut: float = 0.0  # mass in the tails of whole numbers that are left out

    @property
    def cut_information(self) -> float:
        """Allowance in nats for what the tails that are left out say of another column."""
        return self.cut * (1.0 - float(np.log(self.cut))) if self.cut > 0.0 else 0.0


class DrawLaws:
    """Conditional laws of one draw.

    Parameters
    ----------
    states : RecordedStates
    s : int
        Number of the draw.
    row : (D,) float64
        Points that are known, NaN elsewhere.
    events : dict of int to event
        Intervals and sets that are known.
    """

    def __init__(self, states: RecordedStates, s: int, row: np.ndarray, events: Events) -> None:
        self.states, self.tree, self.events = states, states.structure, events
        self.net = net = states.network(s)
        coded = states.coded_rows(row[None])[0]
        self.share = shares_of(net, coded, *states.event_logs(s, net, events))
        self._columns, self._place = states.column_leaves(s, net)
        self._leaves: dict[int, ColumnLaw] = {}
        self._below: dict[tuple[int, int], np.ndarray] = {}
        self._regions: dict[int, frozenset[int]] = {}
        self._parts: dict[int, list[tuple[np.ndarray, list[int]]]] = {}
        self._on_grid: dict[int, tuple[Grid, np.ndarray]] = {}  # the last one of each column
        self._given_child: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._bytes = 0

    def parts_of(self, r: int) -> list[tuple[np.ndarray, list[int]]]:
        """Of each split of a region: which of its children have it, unoccupied ones with the first, and its parts."""
        if r not in self._parts:
            net = self.net
            parts = net.parts[net.part_ptr[r] : net.part_ptr[r + 1]].tolist()
            own = np.append(net.edge_split[net.begin[r] : net.begin[r] + net.top[r]], 0)
            self._parts[r] = [(own == s, [q for q in parts if net.split[q] == s]) for s in range(int(net.n_splits[r]))]
            if net.n_splits[r] == 1:
                self._parts[r] = [(np.ones(int(net.top[r]) + 1, np.bool_), parts)]
        return self._parts[r]

    def holds(self, r: int, d: int) -> bool:
        """Whether a region has the column."""
        if d not in self._regions:
            self._regions[d] = frozenset(regions_of(self.tree, d).tolist())
        return r in self._regions[d]

    def below(self, r: int, d: int) -> np.ndarray:
        """Probability (children of r + 1, leaves of column d) of each leaf given the child of region r."""
        if (r, d) in self._below:
            return self._below[r, d]
        net = self.net
        out = np.zeros((int(net.top[r]) + 1, self.leaves(d).leaves.family.size))
        if net.column[r] >= 0:
            at = np.arange(int(net.top[r]))
            out[at, self._first_leaf(r, d) + at] = 1.0
        else:
            for which, parts in self.parts_of(r):
                q = next(q for q in parts if self.holds(q, d))
                if net.column[q] >= 0:  # its children are the leaves
                    first, n = self._first_leaf(q, d), int(net.top[q])
                    out[which, first : first + n] = self.share[q][which, :n]
                else:
                    out[which] = self.share[q][which] @ self.below(q, d)
        self._below[r, d] = out
        return out

    def _first_leaf(self, r: int, d: int) -> int:
        """Where the leaves of a univariate region stand among those of its column."""
        regions = self.net.leaf_region[self.net.source == d]
        return int(np.sum(self.net.top[regions[: int(np.flatnonzero(regions == r)[0])]]))

    def leaves(self, d: int) -> ColumnLaw:
        """The leaves of a column at all its places, with their probabilities left at 1."""
        if d not in self._leaves:
            leaves = self._columns.leaves(self._place, d)
            one = np.ones(leaves.family.size)
            self._leaves[d] = ColumnLaw(leaves, one, np.zeros(1, np.int64), self.events.get(d))
        return self._leaves[d]

    def place(self, d: int) -> tuple[int, np.ndarray]:
        """Column at a place, and which of the column's leaves stand there."""
        net = self.net
        c = int(net.source[d])
        return c, self._first_leaf(int(net.leaf_region[d]), c) + np.arange(int(net.top[net.leaf_region[d]]))

    def on_grid(self, d: int, grid: Grid) -> np.ndarray:
        """Density or mass (leaves, X) of each leaf of a column that can be reached, 0 of the others."""
        if d in self._on_grid and self._on_grid[d][0] is grid:
            return self._on_grid[d][1]
        law = self.leaves(d)
        out = np.zeros((law.share.size, grid.x.size))
        reached = (self.share[0][0] @ self.below(0, d)) > 0.0
        some = type(law.leaves)(*(v[reached] for v in law.leaves))
        with np.errstate(over="ignore"):  # at the far points of log-normal leaves others have no density
            out[reached] = np.exp(ColumnLaw(some, law.share[reached], law.begin, law.event).leaf_log_density(grid.x))
        self._on_grid[d] = grid, out
        return out

    def masses(self, d: int, grid: Grid) -> np.ndarray:
        """Mass (leaves, X) that the points of a grid stand for: products of densities may be beyond all numbers."""
        return self.on_grid(d, grid) * grid.weight

    def pair(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> np.ndarray:
        """Joint masses (X, Y) of two columns on their grids, from `masses`."""
        first, second = self.factors(a, b, on_a, on_b)
        return first.T @ second

    def factors(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matrices (k, X) and (k, Y): the first one transposed times the second one has the joint masses."""
        first, second = [np.zeros((0, on_a.shape[1]))], [np.zeros((0, on_b.shape[1]))]
        waiting = [(0, self.share[0][0])]
        while waiting:
            r, reach = waiting.pop()
            for which, parts in self.parts_of(r):
                weight = reach[which]
                if not weight.any():
                    continue
                p, q = (next(part for part in parts if self.holds(part, d)) for d in (a, b))
                if p == q:
                    waiting.append((p, weight @ self.share[p][which]))
                    continue
                first.append(self._given_children(p, a, which, on_a) * weight[:, None])
                second.append(self._given_children(q, b, which, on_b))
        return np.concatenate(first), np.concatenate(second)

    def _given_children(self, q: int, d: int, which: np.ndarray, on_d: np.ndarray) -> np.ndarray:
        """Masses (k, X) of a column on its grid, below part q, given each of the children that have this part."""
        known, found = self._given_child.get((q, d), (None, None))
        if known is on_d and found is not None:
            return found
        n = int(self.net.top[q])
        if self.net.column[q] >= 0:
            first = self._first_leaf(q, d)
            found = self.share[q][which, :n] @ on_d[first : first + n]
        else:
            found = (self.share[q][which] @ self.below(q, d)) @ on_d
        if self._bytes + found.nbytes <= KEPT_BYTES:
            self._bytes += found.nbytes
            self._given_child[q, d] = on_d, found
        return found

    def single(self, d: int, on_d: np.ndarray) -> np.ndarray:
        """Density (X,) of a column on its grid."""
        return (self.share[0][0] @ self.below(0, d)) @ on_d


def shares_of(net: Any, y: np.ndarray, event: np.ndarray, event_log: np.ndarray) -> list[np.ndarray]:
    """The arrays of `all_shares`, one for each region."""
    flat = all_shares(net, y, event, event_log)
    above = np.where(net.parent >= 0, net.top[net.parent], 1)
    shapes = [(int(n) + 1, int(m) + 1) for n, m in zip(above, net.top, strict=True)]
    ends = np.cumsum([n * m for n, m in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


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
                    return Grid(x, np.ones(x.size), (float(low) - 1.0, float(high)), 2.0 * tail)
            raise ValueError(
                f"column {name!r} takes {last - first + 1:g} counts, more than the {MOST_COUNTS} that are summed; "
                f'ask about two columns with method="monte-carlo", about the others with marginal(), or make the '
                f"column a number before it is learned: kinds={{{name!r}: 'real'}}"
            )
        x = np.arange(first, last + 1.0)
        return Grid(x, np.ones(x.size), (float(first) - 1.0, float(last)))
    ends = np.append(tails, BULK)
    if tail_panels > 1:
        steps = np.arange((ends.size - 1) * tail_panels + 1) / tail_panels
        ends = np.append(np.exp(np.interp(steps[:-1], np.arange(ends.size), np.log(ends))), BULK)
    middle = np.linspace(BULK, 1.0 - BULK, n_panels + 1)
    cuts = law.quantile(np.concatenate([ends[:-1], middle, 1.0 - ends[-2::-1]]))
    has_logs = law.has(LOG_NORMAL)
    if has_logs:
        cuts = np.clip(np.where((cuts > 0.0) & (cuts < 1.0 / LARGEST), 1.0 / LARGEST, cuts), -LARGEST, LARGEST)
    inner = [x for x in jumps if cuts[0] < x < cuts[-1]]
    if inner:
        cuts = np.unique(np.append(cuts, inner))
    if (has_logs or law.has(EXPONENTIAL)) and cuts[0] < 0.0 < cuts[-1]:
        cuts = np.sort(np.append(cuts, 0.0))  # where the density jumps
    if has_logs and cuts[0] <= 0.0 < cuts[-1]:
        smaller = cuts[cuts > 0.0][0] * 10.0 ** -np.geomspace(1.0, 280.0, n_panels)
        cuts = np.sort(np.append(cuts, smaller[smaller >= 1.0 / LARGEST]))
    log_from = 0.0 if has_logs else np.inf
    largest = MISPLACED * (FEW_PANELS / n_panels) ** 2

    def misplaced(start: np.ndarray, middle: np.ndarray, end: np.ndarray) -> np.ndarray:
        return _misplaced(law, start, end, log_from)

    return gauss_points(halved_panels(cuts, log_from, misplaced, largest, MOST_PANELS)[0], log_from)


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
    to the entropy; ten times m (1 + |log m| + |log T|) is more for v of a quarter and above. Where log x falls like
    that (log-normal leaves), the mean of |log x| in the tail comes on top, which only the leaves know: how fast their
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


def information(mass: np.ndarray) -> float:
    """Mutual information in nats of a table of masses, scaled to 1; its own margins are used, so it is never negative.

    NaN where there are none.
    """
    total = mass.sum()
    if not 0.0 < total < np.inf:
        return np.nan
    mass = mass / total
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(mass) - np.log(mass.sum(axis=1))[:, None] - np.log(mass.sum(axis=0))
        return max(float(np.sum(np.where(mass > 0.0, mass * ratio, 0.0))), 0.0)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL divergence in nats of masses, each scaled to 1; infinite where q has none."""
    p, q = p / p.sum(), q / q.sum()
    inside = p > 0.0
    if np.any(q[inside] <= 0.0):
        return np.inf
    return max(float(np.sum(p[inside] * np.log(p[inside] / q[inside]))), 0.0)
