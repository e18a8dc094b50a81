"""One draw given what is known of a row: how it spreads over regions, the law of a column, two columns on a grid."""

from typing import Any

import numpy as np

from pymc_spn.laws.column_grids import Grid
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.leaves.elliptical_kernels import add_pair_densities
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.networks.records import share_kernels
from pymc_spn.networks.records.joint_events import KnownOfDraws, column_given, known_in, nodes_of
from pymc_spn.networks.records.joint_predictives import JointColumn
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.share_kernels import all_shares, regions_of

KEPT_BYTES = 64_000_000  # densities below parts of regions, kept for the next pair of columns


class DrawLaws:
    """Conditional laws of one draw.

    Parameters
    ----------
    states : RecordedStates
    s : int
        Number of the draw.
    known : KnownOfDraws
        A row and events.
    """

    def __init__(self, states: RecordedStates, s: int, known: KnownOfDraws) -> None:
        self.states, self.tree, self.events, self._s = states, states.structure, known.events, s
        self.net = net = states.network(s)
        coded = known.coded(s, net)[0]
        self.share = shares_of(net, coded, *states.event_logs(s, net, known.events))
        self._columns, self._place = states.column_leaves(s, net)
        self._row = known.row
        self._several: dict[int, JointColumn] = {}
        self._node_weights: dict[int, np.ndarray] = {}  # of the leaves over several columns that hold a column
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
            parts = net.tree.parts[net.tree.part_ptr[r] : net.tree.part_ptr[r + 1]].tolist()
            own = np.append(net.edges.split[net.edges.begin[r] : net.edges.begin[r] + net.edges.top[r]], 0)
            groups = [
                (own == s, [q for q in parts if net.tree.split[q] == s]) for s in range(int(net.tree.n_splits[r]))
            ]
            self._parts[r] = [group for group in groups if group[1]]  # leaves over several columns have no parts
            if net.tree.n_splits[r] == 1:
                self._parts[r] = [(np.ones(int(net.edges.top[r]) + 1, np.bool_), parts)]
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
        out = np.zeros((int(net.edges.top[r]) + 1, self.leaves(d).leaves.family.size))
        if net.tree.column[r] >= 0:
            at = np.arange(int(net.edges.top[r]))
            out[at, self._first_leaf(r, d) + at] = 1.0
        else:
            slots, several = self.several_at(r, d)
            for slot, leaf in zip(slots.tolist(), several.tolist(), strict=True):
                weights = self._node_weights[d][leaf]
                first = out.shape[1] - self._node_weights[d].size + leaf * weights.size
                out[slot, first : first + weights.size] = weights
            for which, parts in self.parts_of(r):
                q = next(q for q in parts if self.holds(q, d))
                if net.tree.column[q] >= 0:  # its children are the leaves
                    first, n = self._first_leaf(q, d), int(net.edges.top[q])
                    out[which, first : first + n] = self.share[q][which, :n]
                else:
                    out[which] = self.share[q][which] @ self.below(q, d)
        self._below[r, d] = out
        return out

    def _first_leaf(self, r: int, d: int) -> int:
        """Where the leaves of a univariate region stand among those of its column."""
        regions = self.net.tree.leaf_region[self.net.palette.source == d]
        return int(np.sum(self.net.edges.top[regions[: int(np.flatnonzero(regions == r)[0])]]))

    def leaves(self, d: int) -> ColumnLaw:
        """The leaves of a column at all its places, then those over several, with their probabilities left at 1."""
        if d not in self._leaves:
            leaves = self._columns.leaves(self._place, d)
            several = self.several(d)
            if several.circuit.size:
                every = np.arange(several.circuit.size)
                own, self._node_weights[d] = column_given(several, d, every, 0 * every, self._row[None], self.events)
                leaves = Leaves(*(np.concatenate(both) for both in zip(leaves, own, strict=True)))
            one = np.ones(leaves.family.size)
            self._leaves[d] = ColumnLaw(leaves, one, np.zeros(1, np.int64), self.events.get(d))
        return self._leaves[d]

    def several(self, d: int) -> JointColumn:
        """The leaves over several columns that hold a column."""
        if d not in self._several:
            self._several[d] = self.states.joint_leaves.column(d).of_network(self._s)
        return self._several[d]

    def several_at(self, r: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Slots of a region in which leaves over several columns are, and their numbers among those of `several`."""
        joints = self.net.joints
        if joints is None or joints.split[r] < 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        held = [q for q in self.states.joint_leaves.regions if self.holds(q, d)]
        found, k = self.several(d), held.index(r)
        leaves = np.flatnonzero(found.kind == k)
        before = sum(int(self.net.edges.top[q]) for q in held[:k])
        return found.slots[leaves] - before, leaves

    def place(self, d: int) -> tuple[int, np.ndarray]:
        """Column at a place, and which of the column's leaves stand there."""
        net = self.net
        c = int(net.palette.source[d])
        return c, self._first_leaf(int(net.tree.leaf_region[d]), c) + np.arange(
            int(net.edges.top[net.tree.leaf_region[d]])
        )

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
        first, second, of_several = self._pairs(a, b, on_a, on_b)
        return first.T @ second + of_several

    def factors(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matrices (k, X) and (k, Y): the first one transposed times the second one has the joint masses."""
        first, second, of_several = self._pairs(a, b, on_a, on_b)
        if not of_several.any():
            return first, second
        return np.eye(len(of_several)), first.T @ second + of_several

    def _pairs(self, a: int, b: int, on_a: np.ndarray, on_b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of children that part the columns, and joint masses (X, Y) of leaves over several columns."""
        first, second = [np.zeros((0, on_a.shape[1]))], [np.zeros((0, on_b.shape[1]))]
        of_several: list[tuple[np.ndarray, np.ndarray]] = []
        waiting = [(0, self.share[0][0])]
        while waiting:
            r, reach = waiting.pop()
            slots, leaves = self.several_at(r, a)
            if reach[slots].any():
                of_several.append(self._pair_of_several(a, b, reach[slots], leaves))
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
        density = np.zeros((on_a.shape[1], on_b.shape[1]))
        if of_several:
            weights, leaves_of_pair = map(np.concatenate, zip(*of_several, strict=True))
            grids = self._on_grid[a][0], self._on_grid[b][0]
            masses = np.outer(grids[0].weight, grids[1].weight)
            if a in self.events or b in self.events:  # of each leaf within them
                for k in range(weights.size):
                    own = np.zeros(density.shape)
                    add_pair_densities(np.ones(1), leaves_of_pair[k : k + 1], grids[0].x, grids[1].x, own)
                    own *= masses
                    density += own * (weights[k] / own.sum())
            else:
                add_pair_densities(weights, leaves_of_pair, grids[0].x, grids[1].x, density)
                density *= masses
        return np.concatenate(first), np.concatenate(second), density

    def _pair_of_several(self, a: int, b: int, weight: np.ndarray, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (n,) and parameters (n, 7) of two columns in leaves over several of one region."""
        found = self.several(a)
        columns, _, family, parameters = found.regions[found.kind[leaves[0]]]
        asked, d = [columns.tolist().index(c) for c in (a, b)], columns.size
        own, row = parameters[found.number[leaves]], self._row[columns]
        rest = {c: event for c, event in self.events.items() if c not in (a, b)}
        places = known_in(columns, rest)
        if not places and np.isnan(np.delete(row, asked)).all():
            scale = [1 + d + i * d + j for i in asked for j in asked]
            return weight, own[:, [0, *(1 + i for i in asked), *scale]]
        rows, nodes = np.repeat(row[None], len(own), axis=0), np.ones((len(own), 1))
        if places:
            ends = np.array([rest[int(columns[j])] for j in places])
            rows, nodes = nodes_of(family, own, rows, places, ends)
            rows, own = rows.reshape(-1, d), np.repeat(own, nodes.shape[1], axis=0)
        weight = (weight[:, None] * nodes).ravel()
        some = weight > 0.0
        return weight[some], family.columns_of_rows(own[some], rows[some], asked)[1]

    def _given_children(self, q: int, d: int, which: np.ndarray, on_d: np.ndarray) -> np.ndarray:
        """Masses (k, X) of a column on its grid, below part q, given each of the children that have this part."""
        known, found = self._given_child.get((q, d), (None, None))
        if known is on_d and found is not None:
            return found
        n = int(self.net.edges.top[q])
        if self.net.tree.column[q] >= 0:
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
    flat = all_shares(*net, y, event, event_log)
    above = np.where(net.tree.parent >= 0, net.edges.top[net.tree.parent], 1)
    shapes = [(int(n) + 1, int(m) + 1) for n, m in zip(above, net.edges.top, strict=True)]
    ends = np.cumsum([n * m for n, m in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def law_of_column(states: RecordedStates, d: int, known: KnownOfDraws) -> ColumnLaw:
    """Law of a column given a row and events; an event of the column itself stays in the law."""
    row, events = known.row, known.events
    path, several = share_kernels.regions_of(states.structure, d), states.joint_leaves.column(d)
    families, parameters, shares, draws = [], [], [], []
    of_several = np.zeros(several.circuit.size)
    for s in range(states.n_draws):
        net = states.network(s)
        columns, k = states.column_leaves(s, net)
        leaves = columns.leaves(k, d)
        share, log = np.zeros((1, leaves.family.size)), np.empty(1)
        slots = np.zeros((1, int(several.n_slots[s])))
        given = states.event_logs(s, net, events)
        share_kernels.column_shares(*net, known.coded(s, net), *given, path, log, share, slots)
        used, own = share[0] > 0.0, slice(several.begin[s], several.begin[s + 1])
        of_several[own] = slots[0, several.slots[own]]
        families.append(leaves.family[used])
        parameters.append(leaves.parameters[used])
        shares.append(share[0, used])
        draws.append(np.full(shares[-1].size, s))
    used = np.flatnonzero(of_several > 0.0)
    if used.size:
        leaves, weights = column_given(several, d, used, 0 * used, row[None], events)
        families.append(leaves.family)
        parameters.append(leaves.parameters)
        shares.append((of_several[used, None] * weights).ravel())
        draws.append(np.repeat(several.circuit[used], weights.shape[1]))
    draw = np.concatenate(draws)
    order = np.argsort(draw, kind="stable")
    return ColumnLaw(
        Leaves(np.concatenate(families)[order], np.concatenate(parameters)[order]),
        np.concatenate(shares)[order],
        np.searchsorted(draw[order], np.arange(states.n_draws)),
        events.get(d),
    )
