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

from pymc_spn.gibbs.explicit_layout import child_shares, explicit_layout, follow, node_below, reached_digits
from pymc_spn.gibbs.family_kernels import log_density_at, posterior_of
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
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.numerics.elementary import float_bits
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

REFRESH = 100  # sweeps after which all statistics are recomputed from the data, which ends rounding drift
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
        for r, share in enumerate(child_shares(self.layout, self.compiled, concentration)):
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
        if self.is_started:
            read_trees(self.states.digit, self.layout, self.states.place, self.trees)
        return self.trees.copy()

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
            start_states(rng, self.states, self.layout, self.trees)
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
def read_trees(states, layout, place, trees):
    """Digits (N, R) along every row's tree."""
    child = np.empty(trees.shape[1], np.int64)
    for n in range(trees.shape[0]):
        for r in range(trees.shape[1]):
            node = follow(layout, r, child)
            trees[n, r] = -1
            child[r] = -1
            if node >= 0:
                digit = states[n, place[r] + node]
                child[r] = node * layout.width[r] + digit
                trees[n, r] = -1 if layout.missing[n, r] else digit


@kernel
def start_states(rng, states, layout, trees):
    """States on the trees as given, all others from weights drawn given the trees. Fills the counts."""
    n_rows = trees.shape[0]
    node = np.empty(trees.shape, np.int64)
    for n in range(n_rows):
        for r in range(trees.shape[1]):
            node[n, r] = 0
            if r > 0:
                above = layout.parent[r]
                edge = node[n, above] * layout.width[above] + max(trees[n, above], 0)
                node[n, r] = node_below(layout, r, edge) if node[n, above] >= 0 else -1
    states.bound[:] = states.prior_bound
    for r in range(trees.shape[1]):
        g = np.searchsorted(states.group_ptr, states.place[r], side="right") - 1
        size = states.group_ptr[g + 1] - states.group_ptr[g]
        width = layout.width[r]
        weight = np.zeros((layout.n_nodes[r], width))
        for n in range(n_rows):
            if trees[n, r] >= 0:
                weight[node[n, r], trees[n, r]] += 1.0
        for k in range(layout.n_nodes[r]):
            s = states.place[r] + k
            first = states.bound_begin[g] + s - states.group_ptr[g]
            below = 0.0
            for c in range(width):
                bound = states.prior_bound[first + c * size] if c < width - 1 else states.group_mass[g]
                weight[k, c] = log_gamma_draw(rng, weight[k, c] + bound - below)
                below = bound
            draw_weights(weight[k])
            for n in range(n_rows):
                digit = np.int64(trees[n, r])
                if digit < 0 or node[n, r] != k:
                    u = rng.random()
                    digit = 0
                    while digit < width - 1 and u >= weight[k, digit]:
                        digit += 1
                states.digit[n, s] = digit
                for c in range(digit, width - 1):
                    states.bound[first + c * size] += 1.0


@inner_kernel
def draw_weights(weight):
    """Turn the logs of gamma variates into cumulative Dirichlet weights, in place."""
    largest = weight.max()
    total = 0.0
    for c in range(weight.size):
        total += math.exp(weight[c] - largest)
        weight[c] = total
    for c in range(weight.size):
        weight[c] /= total


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
                i = old[d]
                if i < 0:
                    continue
                others = leaves.n_data[i] - 1
                if others > 0 and palette.family[leaves.entry[i]] == GAUSSIAN:
                    step = palette.half_step[palette.source[d], others]
                    cell = palette.cell_variance[d]
                    log_ratio -= student_without(
                        y[n, d], others, leaves.s1[i], leaves.s2[i], cell, step, palette.prior, leaves.entry[i]
                    )
                else:
                    log_ratio -= log_predictive_without(palette, leaves, d, i, y[n, d])
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
def student_without(y, n, s1, s2, cell, half_step, prior, e):
    """`log_predictive_without` of a Gaussian leaf that n other rows hold; with numbers as in `PaletteArrays`.

    A function of numbers: a call that hands over a tuple of arrays copies it, which costs more than the
    formula.
    """
    mean, rho, a, b = posterior_of(
        GAUSSIAN, float(n), s1 - y, s2 - y * y - cell, prior[e, 0], prior[e, 1], prior[e, 2], prior[e, 3]
    )
    return log_density_at(GAUSSIAN, y, 0.0, mean, rho, a, b, half_step, cell)


@inner_kernel
def move_value(palette, leaves, d, slot, y, step):
    leaves.n_data[slot] += step
    add_value(palette, leaves, d, slot, leaves.n_data[slot], y, float(step))
    refresh_leaf(palette, leaves, d, slot, leaves.n_data[slot])
