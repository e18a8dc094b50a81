"""Leaves of the published sampler: all leaves of the explicit network, with statistics and predictives."""

from typing import NamedTuple

import numpy as np

from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.networks.gibbs.explicit_layout import follow
from pymc_spn.networks.gibbs.family_kernels import is_located, log_density_at, posterior_of
from pymc_spn.networks.gibbs.leaf_kernels import add_value, refresh_leaf
from pymc_spn.networks.gibbs.network import spread
from pymc_spn.numerics.elementary import half_step_log_gamma
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


class Leaves(NamedTuple):
    """Statistics and predictives of all leaves, named as in `Network` so that `leaf_kernels` works on them.

    The slots of a univariate region begin with its prior slots, one for each palette entry.
    """

    leaf_region: np.ndarray
    source: np.ndarray
    begin: np.ndarray
    capacity: np.ndarray
    entry_ptr: np.ndarray
    entry_source: np.ndarray
    entry_family: np.ndarray
    offset: np.ndarray
    column_kind: np.ndarray
    cell_variance: np.ndarray
    prior: np.ndarray
    half_step: np.ndarray
    entry: np.ndarray
    edge_count: np.ndarray
    s1: np.ndarray
    s2: np.ndarray
    log_scale: np.ndarray
    power: np.ndarray
    centre: np.ndarray
    curvature: np.ndarray
    slope: np.ndarray
    level_begin: np.ndarray
    level_count: np.ndarray


def make_leaves(layout, palette, n_rows):
    """Leaves with room for all edges of univariate regions, behind the prior slots of each region."""
    n_columns = palette.n_levels.size
    palette, entry_source = spread(palette, layout.source)
    n_entries = np.diff(palette.entry_ptr)
    size = n_entries + (layout.n_nodes * layout.width)[layout.leaf_region]
    begin = np.cumsum(size) - size
    region_begin, capacity = np.zeros(layout.width.size, np.int64), np.zeros(layout.width.size, np.int64)
    region_begin[layout.leaf_region], capacity[layout.leaf_region] = begin, size
    entry = np.empty(int(size.sum()), np.int32)
    for d, r in enumerate(layout.leaf_region):
        first, last = palette.entry_ptr[d : d + 2]
        own = entry[begin[d] : begin[d] + size[d]]
        own[: last - first] = np.arange(first, last)
        own[last - first :] = np.tile(first + np.arange(layout.width[r]) % (last - first), layout.n_nodes[r])
    cells = palette.n_levels * size
    numbers = ("s1", "s2", "log_scale", "power", "centre", "curvature", "slope")
    return Leaves(
        leaf_region=layout.leaf_region,
        source=layout.source,
        begin=region_begin,
        capacity=capacity,
        entry_ptr=palette.entry_ptr,
        entry_source=entry_source,
        entry_family=palette.family,
        offset=palette.offset,
        column_kind=palette.column_kind,
        cell_variance=palette.cell_variance,
        prior=np.zeros((palette.family.size, 4)),
        half_step=np.zeros((n_columns, n_rows + 2)),
        entry=entry,
        edge_count=np.zeros(entry.size, np.int32),
        level_begin=np.cumsum(cells) - cells,
        level_count=np.zeros(int(cells.sum())),
        **{name: np.zeros(entry.size) for name in numbers},
    )


@kernel
def install_leaf_priors(leaves, prior):
    """Copy the priors of the columns' entries and refresh the predictives of all leaves, empty ones included."""
    for e in range(leaves.entry_source.size):
        leaves.prior[e] = prior[leaves.entry_source[e]]
    for d in range(leaves.leaf_region.size):
        c = leaves.source[d]
        for e in range(leaves.entry_ptr[d], leaves.entry_ptr[d + 1]):
            if d > 0 and leaves.source[d - 1] == c:
                break
            if is_located(leaves.entry_family[e]):
                for n in range(leaves.half_step.shape[1]):
                    leaves.half_step[c, n] = half_step_log_gamma(leaves.prior[e, 2] + 0.5 * n)
                break
        begin = leaves.begin[leaves.leaf_region[d]]
        for i in range(begin, begin + leaves.capacity[leaves.leaf_region[d]]):
            refresh_leaf(leaves, d, i, leaves.edge_count[i])


@kernel
def rebuild_leaves(leaves, layout, y, states, place):
    """Statistics and predictives of all leaves from the states of all rows."""
    leaves.edge_count[:] = 0
    leaves.s1[:] = 0.0
    leaves.s2[:] = 0.0
    leaves.level_count[:] = 0.0
    slots = np.empty(y.shape[1], np.int64)
    child = np.empty(layout.parent.size, np.int64)
    for n in range(y.shape[0]):
        read_leaves(states[n], layout, place, leaves, child, slots)
        for d in range(y.shape[1]):
            if slots[d] >= 0 and not layout.missing[n, leaves.leaf_region[d]]:
                leaves.edge_count[slots[d]] += 1
                add_value(leaves, d, slots[d], leaves.edge_count[slots[d]], y[n, d], 1.0)
    for d in range(y.shape[1]):
        begin = leaves.begin[leaves.leaf_region[d]]
        for i in range(begin, begin + leaves.capacity[leaves.leaf_region[d]]):
            refresh_leaf(leaves, d, i, leaves.edge_count[i])


@inner_kernel
def read_leaves(states, layout, place, leaves, child, slots):
    """Leaf slots (P,) at the end of the tree of one row's states (S,), -1 at places that it does not reach."""
    for r in range(child.size):
        node = follow(layout, r, child)
        child[r] = node * layout.width[r] + states[place[r] + node] if node >= 0 else -1
        d = layout.column[r]
        if d >= 0 and node < 0:
            slots[d] = -1
        elif d >= 0:
            slots[d] = leaves.begin[r] + leaves.entry_ptr[d + 1] - leaves.entry_ptr[d] + child[r]


@inner_kernel
def student_without(y, n, s1, s2, cell, half_step, prior, e):
    """`log_predictive_without` of a Gaussian leaf that n other rows hold; half_step and cell variance as in `Network`.

    A function of numbers: a call that hands over a tuple of arrays copies it, which costs more than the
    formula.
    """
    mean, rho, a, b = posterior_of(
        GAUSSIAN, float(n), s1 - y, s2 - y * y - cell, prior[e, 0], prior[e, 1], prior[e, 2], prior[e, 3]
    )
    return log_density_at(GAUSSIAN, y, 0.0, mean, rho, a, b, half_step, cell)


@inner_kernel
def move_value(leaves, d, slot, y, step):
    leaves.edge_count[slot] += step
    add_value(leaves, d, slot, leaves.edge_count[slot], y, float(step))
    refresh_leaf(leaves, d, slot, leaves.edge_count[slot])
