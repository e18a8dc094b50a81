"""One draw given what is known of a row: how it spreads over regions, and the joint law of two columns on a grid."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.gibbs.network import EXPONENTIAL
from pymc_spn.circuits.queries.column_laws import ColumnLaw, path_to
from pymc_spn.circuits.queries.events import Events
from pymc_spn.circuits.queries.leaf_predictives import leaves_of_column
from pymc_spn.circuits.queries.recorded_states import RecordedStates
from pymc_spn.circuits.queries.share_kernels import all_shares

TAIL = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2)  # panels beyond the bulk end at these quantiles
BULK = 0.02
NODES = 6  # Gauss points of a panel
MOST_COUNTS = 4_000  # values of a count column that are summed
GRID_DRAWS = 8  # draws whose mixture places a grid
GRID_HALVINGS = 44


class Grid(NamedTuple):
    """Points and weights that turn integrals or sums over a column into sums."""

    x: np.ndarray
    weight: np.ndarray


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
        coded = states.schema.code(row[None])[0]
        self.share = shares_of(net, coded, *states.event_logs(net, events))
        self._reach: dict[int, np.ndarray] = {}

    def reach(self, r: int) -> np.ndarray:
        """Probability (children + 1,) of each child of a region, over all its nodes."""
        if r not in self._reach:
            above = np.ones(1) if r == 0 else self.reach(int(self.tree.parent[r]))
            self._reach[r] = above @ self.share[r][: above.size]
        return self._reach[r]

    def below(self, r: int, d: int) -> np.ndarray:
        """Probability (children of r + 1, leaves of column d + 1) of each leaf given the child of region r."""
        path = path_to(self.tree, d).tolist()
        regions = path[path.index(r) + 1 :]
        out = self.share[regions[0]]
        for q in regions[1:]:
            out = out @ self.share[q]
        return out

    def leaves(self, d: int) -> ColumnLaw:
        """The leaves of a column with their probabilities."""
        leaves = leaves_of_column(self.net, self.states.compiled, d)
        share = self.reach(int(self.tree.leaf_region[d]))[: leaves.family.size]
        return ColumnLaw(leaves, share, np.zeros(1, np.int64), self.events.get(d))

    def on_grid(self, d: int, grid: Grid) -> np.ndarray:
        """Density or mass (leaves + 1, X) of each leaf of a column; the last row is no leaf."""
        law = self.leaves(d)
        out = np.zeros((law.share.size + 1, grid.x.size))
        used = law.share > 0.0
        small = ColumnLaw(type(law.leaves)(*(v[used] for v in law.leaves)), law.share[used], law.begin, law.event)
        out[:-1][used] = np.exp(small.leaf_log_density(grid.x))
        return out

    def pair(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> np.ndarray:
        """Joint density (X, Y) of two columns on their grids, from `on_grid`."""
        r = meeting_region(self.tree, a, b)
        first, second = self.below(r, a) @ on_a, self.below(r, b) @ on_b
        return (first * self.reach(r)[:, None]).T @ second

    def single(self, d: int, on_d: np.ndarray) -> np.ndarray:
        """Density (X,) of a column on its grid."""
        return self.reach(int(self.tree.leaf_region[d])) @ on_d


def shares_of(net: Any, y: np.ndarray, event: np.ndarray, event_log: np.ndarray) -> list[np.ndarray]:
    """The arrays of `all_shares`, one for each region."""
    flat = all_shares(net, y, event, event_log)
    above = np.where(net.parent >= 0, net.top[net.parent], 1)
    shapes = [(int(n) + 1, int(m) + 1) for n, m in zip(above, net.top, strict=True)]
    ends = np.cumsum([n * m for n, m in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def meeting_region(tree: Any, a: int, b: int) -> int:
    """Smallest region that holds both columns."""
    first, second = path_to(tree, a).tolist(), set(path_to(tree, b).tolist())
    return max(r for r in first if r in second)


def grid_of(law: ColumnLaw, name: str, n_levels: int, is_density: bool, n_panels: int) -> Grid:
    """Grid of a column: its levels, its counts, or Gauss points between quantiles of the law.

    Raises
    ------
    ValueError
        If a count column has too many values.
    """
    if n_levels:
        return Grid(np.arange(float(n_levels)), np.ones(n_levels))
    tails = np.array(TAIL)
    if not is_density:  # leaves that are densities stand on the unit grid then
        first, last = np.maximum(np.round(law.quantile(np.array([tails[0], 1.0 - tails[0]]))), 0.0)
        if last - first >= MOST_COUNTS:
            raise ValueError(
                f"column {name!r} takes {last - first + 1:g} counts, more than the {MOST_COUNTS} that are summed; "
                'ask with method="monte-carlo"'
            )
        x = np.arange(first, last + 1.0)
        return Grid(x, np.ones(x.size))
    middle = np.linspace(BULK, 1.0 - BULK, n_panels + 1)
    cuts = law.quantile(np.concatenate([tails, middle, 1.0 - tails[::-1]]), GRID_HALVINGS)
    if np.isin(law.leaves.family, EXPONENTIAL).any() and cuts[0] < 0.0 < cuts[-1]:
        cuts = np.sort(np.append(cuts, 0.0))  # where the density jumps
    t, w = np.polynomial.legendre.leggauss(NODES)
    start, length = cuts[:-1], np.diff(cuts)
    x = start[:, None] + 0.5 * length[:, None] * (t + 1.0)
    return Grid(x.ravel(), (0.5 * length[:, None] * w).ravel())


def information(joint: np.ndarray, first: Grid, second: Grid) -> float:
    """Mutual information in nats of a joint density on two grids; its own margins are used, so it is never negative."""
    mass = joint * first.weight[:, None] * second.weight[None, :]
    mass = mass / mass.sum()
    product = mass.sum(axis=1)[:, None] * mass.sum(axis=0)[None, :]
    inside = mass > 0.0
    return max(float(np.sum(mass[inside] * np.log(mass[inside] / product[inside]))), 0.0)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL divergence in nats of masses, each scaled to 1; infinite where q has none."""
    p, q = p / p.sum(), q / q.sum()
    inside = p > 0.0
    if np.any(q[inside] <= 0.0):
        return np.inf
    return max(float(np.sum(p[inside] * np.log(p[inside] / q[inside]))), 0.0)
