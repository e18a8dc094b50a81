"""Leaves of the published sampler: all leaves of the explicit network, with statistics and predictives."""

import numpy as np

from pymc_spn.gibbs.explicit_layout import follow
from pymc_spn.gibbs.family_kernels import log_density_at, posterior_of
from pymc_spn.gibbs.leaf_kernels import add_value, install_priors, refresh_leaf
from pymc_spn.gibbs.network import build_palette, empty_leaves
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


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
def install_leaf_priors(palette, leaves, prior):
    """Copy the priors of the columns' entries and refresh the predictives of all leaves, empty ones included."""
    install_priors(palette, prior)
    refresh_leaves(palette, leaves)


@inner_kernel
def refresh_leaves(palette, leaves):
    """Predictives of all leaves from their statistics."""
    for d in range(leaves.begin.size):
        for i in range(leaves.begin[d], leaves.begin[d] + leaves.capacity[d]):
            refresh_leaf(palette, leaves, d, i, leaves.n_data[i])


@kernel
def rebuild_leaves(palette, leaves, layout, y, states, place):
    """Statistics and predictives of all leaves from the states of all rows."""
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
    refresh_leaves(palette, leaves)


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
