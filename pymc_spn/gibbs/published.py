"""Kernel B: the published top-down sampler, with a state of every row at all S sum nodes.

Yokoi and Sato (2024), Algorithm 1. A candidate for all S states comes from the other rows' counts (equation 10). It is
accepted by the ratio of the leaves' predictives (equation 13). Both leave out the row itself. Only the 2D - 1 states on
a row's tree enter the acceptance. The others integrate out, and they are what makes a sweep cost N x S in time and in
memory. The draw in equation 10 is made from the counts of a node, which is the same and faster than picking a row to
copy from.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.explicit_layout import (
    child_shares,
    edges_of_digits,
    explicit_layout,
    follow,
    nodes_below,
    reached_digits,
)
from pymc_spn.gibbs.leaf_kernels import (
    add_value,
    install_priors,
    log_predictive,
    log_predictive_without,
    refresh_leaf,
    refresh_leaves,
)
from pymc_spn.gibbs.network import build_palette, empty_leaves
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.statistics import entry_priors
from pymc_spn.numerics.elementary import float_bits
from pymc_spn.numerics.gamma_draws import log_dirichlet
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

REFRESH = 100  # sweeps after which all statistics are recomputed from the data, which ends rounding drift
BLOCK = 256  # rows at a time
_HALF = np.int64((1 << 26) - 1)


class States(NamedTuple):
    """States of all rows at all sum nodes, and their counts, in groups of regions of equal width and mass.

    Inside a group of M nodes of width C the cumulative weight of digit c stands at ``bound[bound_begin + c M + node]``.
    It counts rows with a digit of at most c, plus these children's prior mass. The last digit needs none.
    """

    digit: np.ndarray  # (N, S) smallest signed integers
    candidate: np.ndarray  # (S,)
    random: np.ndarray  # (S/2 + 1,) uniforms, of which each serves two nodes
    place: np.ndarray  # (R,) first node of the region
    group_ptr: np.ndarray  # (G+1,) nodes of group g
    group_width: np.ndarray  # (G,)
    group_mass: np.ndarray  # (G,) concentration
    bound_begin: np.ndarray  # (G,)
    bound: np.ndarray  # cumulative weights
    prior_bound: np.ndarray  # the same without data


class PublishedSampler:
    """One chain of the published top-down algorithm.

    Parameters
    ----------
    structure : RegionTree
        Finite `n_children` in all regions.
    compiled : CompiledPalette
    coded : (N, D) float64
        Table in the units of the palette, NaN where missing.
    memory_limit : int
        Bytes that the N x S states may take.

    Raises
    ------
    ValueError
        If a region has infinitely many children or the states do not fit.
    """

    def __init__(self, structure, compiled, coded, memory_limit=2**31):
        self.compiled, self.coded = compiled, place_columns(structure, coded)
        self.layout = explicit_layout(structure, compiled, coded, "published")
        self.dtype = np.int8 if self.layout.width.max() <= 127 else np.int16
        n_nodes = int(self.layout.n_nodes.sum())
        needed = n_nodes * len(coded) * np.dtype(self.dtype).itemsize
        if needed > memory_limit:
            raise ValueError(
                f"kernel 'published' keeps the states of {len(coded):,} rows at {n_nodes:,} sum nodes, "
                f"which takes {needed:,} bytes; memory_limit is {memory_limit:,}"
            )
        self.palette, self.leaves = make_leaves(self.layout, compiled, len(coded))
        self.states = make_states(self.layout, len(coded), self.dtype)
        self.trees = np.zeros((len(coded), structure.n_regions), np.int32)
        self.is_started = False
        self.n_sweeps = 0

    def set_table(self, placed):
        """Take a coded table (N, P) for the present one."""
        self.coded, self.n_sweeps = placed, 0  # statistics are made again

    def set_hyperparameters(self, concentration, leaf_scale, leaf_shape, precision_ratio):
        """Install concentrations (2,) and the leaf hyperparameters (D,) each."""
        self.set_priors(concentration, entry_priors(self.compiled, leaf_scale, leaf_shape, precision_ratio))

    def set_priors(self, concentration, prior):
        """Install concentrations (2,) and the prior parameters (E, 4) of palette entries, in coded units."""
        states = self.states
        bound = np.empty_like(states.bound)
        self.shares = child_shares(self.layout, self.compiled, concentration)
        for r, share in enumerate(self.shares):
            g = int(np.searchsorted(states.group_ptr, states.place[r], side="right")) - 1
            size = states.group_ptr[g + 1] - states.group_ptr[g]
            rows = bound[states.bound_begin[g] :][: size * (share.size - 1)].reshape(share.size - 1, size)
            first = states.place[r] - states.group_ptr[g]
            rows[:, first : first + self.layout.n_nodes[r]] = np.cumsum(share)[:-1, None]
            states.group_mass[g] = share.sum()
        states.bound[:] = self._whole_counts() + bound
        states.prior_bound[:] = bound
        install_priors(self.palette, np.asarray(prior, np.float64))
        self._refresh_leaves()

    def _refresh_leaves(self):
        """Predictives of all leaves, empty ones included."""
        refresh_leaves(self.palette, self.leaves, np.ones(self.leaves.entry.size, np.bool_))

    def _whole_counts(self):
        """Cumulative counts without the prior masses, and without the rounding that these brought in."""
        return np.rint(self.states.bound - self.states.prior_bound)

    def set_digits(self, digits):
        """Start from the trees of digits (N, R); what they hold off the trees is ignored.

        States off the trees are drawn when the next sweep begins, from their conditional given the trees.
        (Uniform ones would hold the weights that they imply near uniform for a long time.)
        """
        self.trees[:] = reached_digits(self.layout, digits)
        self.is_started = False

    def digits(self):
        """Digits (N, R) of the current trees, -1 where a region is wholly missing or not reached."""
        layout, taken = self.layout, np.empty_like(self.trees, np.int64)
        for r in range(taken.shape[1]) if self.is_started else ():
            node = nodes_below(layout, r, taken[:, layout.parent[r]]) if r > 0 else np.zeros(len(taken), np.int64)
            digit = np.take_along_axis(self.states.digit, self.states.place[r] + np.maximum(node, 0)[:, None], 1)[:, 0]
            taken[:, r] = np.where(node >= 0, node * layout.width[r] + digit, -1)
            self.trees[:, r] = np.where((node >= 0) & ~layout.missing[:, r], digit, -1)
        return self.trees.copy()

    def _start(self, rng):
        """States on the trees as they are, all others from weights drawn given the trees. Fills the counts."""
        layout, states = self.layout, self.states
        for r, (edge, share) in enumerate(zip(edges_of_digits(layout, self.trees), self.shares, strict=True)):
            rows, width = np.flatnonzero(edge >= 0), share.size
            counts = np.bincount(edge[rows], minlength=layout.n_nodes[r] * width).reshape(-1, width)
            weight = np.exp(log_dirichlet(rng, counts + share)).cumsum(axis=1)[:, :-1]
            own = states.digit[:, states.place[r] : states.place[r] + layout.n_nodes[r]]
            for first in range(0, len(own), BLOCK):
                block = own[first : first + BLOCK]
                block[:] = (rng.random((*block.shape, 1)) >= weight).sum(axis=2)
            own[rows, edge[rows] // width] = edge[rows] % width
        for g, width in enumerate(states.group_width):
            own = states.digit[:, states.group_ptr[g] : states.group_ptr[g + 1]]
            rows = slice(states.bound_begin[g], states.bound_begin[g] + (width - 1) * own.shape[1])
            below = [(own <= c).sum(axis=0) for c in range(width - 1)]
            states.bound[rows] = states.prior_bound[rows] + np.ravel(below)

    def sweep(self, rng):
        """One candidate for every row.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        float
            Fraction of rows whose candidate was accepted.
        """
        if not self.is_started:
            self._start(rng)
            self.is_started = True
            self.n_sweeps = 0
        if self.n_sweeps % REFRESH == 0:
            self.states.bound[:] = self._whole_counts() + self.states.prior_bound
            rebuild_leaves(self.palette, self.leaves, self.layout, self.coded, self.states.digit, self.states.place)
            self._refresh_leaves()
        self.n_sweeps += 1
        accepted = published_sweep(rng, self.states, self.palette, self.leaves, self.layout, self.coded)
        return accepted / max(len(self.coded), 1)


def make_states(layout, n_rows, dtype):
    """States with room for every sum node; regions of one width and one concentration make up a group."""
    group_of = {}
    for r, (width, d) in enumerate(zip(layout.width.tolist(), layout.column.tolist(), strict=True)):
        group_of.setdefault((width, d >= 0), []).append(r)
    place = np.zeros(layout.width.size, np.int64)
    group_ptr, bound_begin = [0], [0]
    for (width, _), regions in group_of.items():
        top = group_ptr[-1]
        for r in regions:
            place[r] = top
            top += layout.n_nodes[r]
        bound_begin.append(bound_begin[-1] + (width - 1) * (top - group_ptr[-1]))
        group_ptr.append(int(top))
    return States(
        digit=np.zeros((n_rows, group_ptr[-1]), dtype),
        candidate=np.zeros(group_ptr[-1], dtype),
        random=np.zeros(group_ptr[-1] // 2 + 1),
        place=place,
        group_ptr=np.array(group_ptr, np.int64),
        group_width=np.array([width for width, _ in group_of], np.int64),
        group_mass=np.zeros(len(group_of)),
        bound_begin=np.array(bound_begin[:-1], np.int64),
        bound=np.zeros(int(bound_begin[-1])),
        prior_bound=np.zeros(int(bound_begin[-1])),
    )


@kernel
def published_sweep(rng, states, palette, leaves, layout, y):
    """Algorithm 1 for every row; returns the number of accepted candidates.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : States
    palette, leaves
        From `make_leaves`.
    layout : ExplicitLayout
    y : (N, P) float64
    """
    child = np.empty(layout.parent.size, np.int64)
    old = np.empty(y.shape[1], np.int64)
    new = np.empty(y.shape[1], np.int64)
    uniform = np.empty(2 * states.random.size)
    accepted = 0
    unchecked = np.zeros(1, np.int64)
    for n in range(y.shape[0]):
        if must_stop_after(10 * states.digit.shape[1], unchecked):
            return accepted
        current = states.digit[n]
        propose_states(rng, states, current, y.shape[0] - 1.0, uniform)
        read_leaves(current, layout, states.place, palette, leaves, child, old)
        read_leaves(states.candidate, layout, states.place, palette, leaves, child, new)
        log_ratio = 0.0
        for d in range(y.shape[1]):
            if old[d] != new[d] and not layout.missing[n, layout.leaf_region[d]]:
                if new[d] >= 0:
                    log_ratio += log_predictive(palette, leaves, d, new[d], y[n, d])
                if old[d] >= 0:
                    log_ratio -= log_predictive_without(palette, leaves, d, old[d], y[n, d])
        if log_ratio < 0.0 and rng.random() >= math.exp(log_ratio):
            continue
        accepted += 1
        for d in range(y.shape[1]):
            if old[d] != new[d] and not layout.missing[n, layout.leaf_region[d]]:
                if old[d] >= 0:
                    move_value(palette, leaves, d, old[d], y[n, d], -1)
                if new[d] >= 0:
                    move_value(palette, leaves, d, new[d], y[n, d], 1)
        for g in range(states.group_width.size):
            first = states.group_ptr[g]
            last = states.group_ptr[g + 1]
            move_counts(
                states.bound[states.bound_begin[g] :],
                states.group_width[g],
                current[first:last],
                states.candidate[first:last],
            )
    return accepted


@inner_kernel
def propose_states(rng, states, current, n_others, uniform):
    """Candidate for all sum nodes from the other rows' counts plus prior mass, each draw good to 2**-26."""
    half = states.random.size
    for i in range(half):
        states.random[i] = 1.0 + rng.random()
    for i in range(half):
        bits = float_bits(states.random[i])
        uniform[i] = ((bits & _HALF) + 0.5) / (1 << 26)
        uniform[half + i] = (((bits >> 26) & _HALF) + 0.5) / (1 << 26)
    for g in range(states.group_width.size):
        first = states.group_ptr[g]
        last = states.group_ptr[g + 1]
        propose_group(
            uniform[first:last],
            n_others + states.group_mass[g],
            states.bound[states.bound_begin[g] :],
            states.group_width[g],
            current[first:last],
            states.candidate[first:last],
        )


@inner_kernel
def propose_group(uniform, total, bound, width, current, candidate):
    size = current.size
    candidate[:] = 0
    for c in range(width - 1):
        weight = bound[c * size : (c + 1) * size]
        for s in range(size):
            own = 1.0 if current[s] <= c else 0.0
            candidate[s] += 1 if uniform[s] * total >= weight[s] - own else 0


@inner_kernel
def move_counts(bound, width, current, candidate):
    """Take the row's old states out of the counts, put the new ones in, and make these its state."""
    size = current.size
    for c in range(width - 1):
        weight = bound[c * size : (c + 1) * size]
        for s in range(size):
            weight[s] += (1.0 if candidate[s] <= c else 0.0) - (1.0 if current[s] <= c else 0.0)
    for s in range(size):
        current[s] = candidate[s]


def make_leaves(layout, compiled, n_rows):
    """Palette of the places, and leaves with room for all edges of univariate regions.

    The slots of a place begin with its prior slots, one for each palette entry, as in `network`.
    """
    palette = build_palette(compiled, layout.source, layout.width[layout.leaf_region], n_rows)
    capacity = np.diff(palette.entry_ptr) + (layout.n_nodes * layout.width)[layout.leaf_region]
    begin = np.cumsum(capacity) - capacity
    entry = np.empty(int(capacity.sum()), np.int32)
    for d, r in enumerate(layout.leaf_region):
        first, last = palette.entry_ptr[d : d + 2]
        own = entry[begin[d] : begin[d] + capacity[d]]
        own[: last - first] = np.arange(first, last)
        own[last - first :] = np.tile(first + np.arange(layout.width[r]) % (last - first), layout.n_nodes[r])
    return palette, empty_leaves(begin, capacity, palette.n_levels, entry, np.zeros(entry.size, np.int32))


@kernel
def rebuild_leaves(palette, leaves, layout, y, states, place):
    """Statistics of all leaves from the states of all rows."""
    leaves.n_data[:] = 0
    leaves.s1[:] = 0.0
    leaves.s2[:] = 0.0
    leaves.level_count[:] = 0.0
    slots = np.empty(y.shape[1], np.int64)
    child = np.empty(layout.parent.size, np.int64)
    for n in range(y.shape[0]):
        read_leaves(states[n], layout, place, palette, leaves, child, slots)
        for d in range(y.shape[1]):
            if slots[d] >= 0 and not layout.missing[n, layout.leaf_region[d]]:
                leaves.n_data[slots[d]] += 1
                add_value(palette, leaves, d, slots[d], leaves.n_data[slots[d]], y[n, d], 1.0)


@inner_kernel
def read_leaves(states, layout, place, palette, leaves, child, slots):
    """Leaf slots (P,) at the end of the tree of one row's states (S,), -1 at places that it does not reach."""
    for r in range(child.size):
        node = follow(layout, r, child)
        child[r] = node * layout.width[r] + states[place[r] + node] if node >= 0 else -1
        d = layout.column[r]
        if d >= 0 and node < 0:
            slots[d] = -1
        elif d >= 0:
            slots[d] = leaves.begin[d] + palette.entry_ptr[d + 1] - palette.entry_ptr[d] + child[r]


@inner_kernel
def move_value(palette, leaves, d, slot, y, step):
    leaves.n_data[slot] += step
    add_value(palette, leaves, d, slot, leaves.n_data[slot], y, float(step))
    refresh_leaf(palette, leaves, d, slot, leaves.n_data[slot])
