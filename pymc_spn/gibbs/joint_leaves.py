"""Leaves over all columns of a region: one more kind of child of its sum nodes, besides products.

Take an infinite sum node over two or more real columns. A new child is a product of one of the region's splits, or a
leaf over all its columns. Each of these kinds has the same probability. The leaf has the number that follows those of
the splits: an edge with it leads to no region. The data decide which of them a child is. The value of an unoccupied
node is the mean over its kinds, and the kind of a new child is drawn in proportion to their terms.

The leaf is normal-inverse-Wishart (`leaves.normal_inverse_wishart`). Rows with different gaps are not jointly
conjugate, so the missing cells of a row in such a leaf are part of the state. A row is weighed by the marginal of what
is observed, and what is missing is then drawn given it. Together this is a draw from the joint conditional of both.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.normal_inverse_wishart import (
    LOG_PI,
    add_row,
    draw_missing_of_row,
    factorise,
    log_predictive_of_observed,
    log_predictive_of_row,
    log_scale_of,
    observed_first,
    scatter,
    triangle_size,
)
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.elementary import fast_log1p, larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, copied_kernel

PRECISION_RATIO = 0.05  # k0: rows that the prior is worth in the mean
EXCESS = 2.0  # v0 - d: the prior mean of the covariance matrix is diag(psi0) / (EXCESS - 1)
MOST_COLUMNS = 64  # of a leaf: a row that comes or goes costs their third power
_SEEN = np.arange(MOST_COLUMNS + 1.0)
# of a predictive without rows, by the number of observed columns, without the log determinant of the prior's scale
LOG_OF_NEW = (
    gammaln(0.5 * (EXCESS + 1.0 + _SEEN))
    - math.lgamma(0.5 * (EXCESS + 1.0))
    - 0.5 * _SEEN * (LOG_PI + math.log1p(1.0 / PRECISION_RATIO))
)


@array_group
class JointScratch(NamedTuple):
    """What the kernels work out for the current row."""

    row: np.ndarray  # (D,) with the cells that were drawn
    log_value: np.ndarray  # (J,) log predictive
    shift: np.ndarray  # (R,) of its columns together
    x: np.ndarray  # (d,) the row in the order of a region, from the centre of the prior
    z: np.ndarray  # (d,)
    floor: np.ndarray  # (d,)
    order: np.ndarray  # (d,)
    triangle: np.ndarray  # (t,)


@array_group
class Joints(NamedTuple):
    """Leaves over several columns of one network: R regions, K columns of the regions that have them, J slots."""

    is_open: np.ndarray  # (R,) bool, whether new ones may come
    split: np.ndarray  # (R,) number of the leaf among the splits of the region, -1 where it has none
    column_ptr: np.ndarray  # (R+1,) columns of region r: column[column_ptr[r]:column_ptr[r+1]], none without leaves
    column: np.ndarray  # (K,)
    centre: np.ndarray  # (K,) prior mean, coded
    psi0: np.ndarray  # (K,), see `set_psi0`
    half_log_psi0: np.ndarray  # (K,)
    slot_begin: np.ndarray  # (R,) first slot of the region
    sums_begin: np.ndarray  # (R,)
    products_begin: np.ndarray  # (R,)
    sums: np.ndarray  # of slot e of region r: sums[sums_begin[r] + e d:], d columns
    products: np.ndarray  # products[products_begin[r] + e t:], t = d (d + 1) / 2
    factor: np.ndarray  # likewise
    log_scale: np.ndarray  # (J,)
    n_rows: np.ndarray  # (J,) as the predictive sees them: fractional in a variational fit
    scratch: JointScratch


def n_kinds(structure, compiled):
    """Kinds (R,) of the children of sum nodes: palette entries, or splits and where there is one the leaf over all."""
    return structure.n_options(np.diff(compiled.entry_ptr)) + joint_regions(structure, compiled.is_joint)


def joint_regions(structure, is_joint):
    """(R,) bool, regions with leaves over all their columns: 2 to `MOST_COLUMNS`, all of (D,) bool, infinite width."""
    n_before = np.concatenate([[0], np.cumsum(is_joint[structure.order])])
    inside = n_before[structure.end] - n_before[structure.begin] == structure.size
    return inside & (structure.size > 1) & (structure.size <= MOST_COLUMNS) & (structure.n_children == 0)


def has_joints_below(structure, is_joint):
    """(R,) bool, whether a region or one below it has such leaves."""
    below = joint_regions(structure, is_joint)
    for r in range(structure.n_regions - 1, 0, -1):
        below[structure.parent[r]] |= below[r]
    return below


def build_joints(structure, compiled, capacity):
    """Empty leaves with room for as many of each region as it has slots (R,); None where no region has them."""
    has = joint_regions(structure, compiled.is_joint)
    if not has.any():
        return None
    columns = [np.sort(structure.order[a:b]) if h else np.zeros(0, np.int64) for a, b, h in
               zip(structure.begin, structure.end, has, strict=True)]  # fmt: skip
    size = np.array([c.size for c in columns])
    column = np.concatenate(columns).astype(np.int64)
    n_slots = np.where(has, capacity, 0)
    triangles = size * (size + 1) // 2
    return Joints(
        is_open=np.ones(has.size, np.bool_),
        split=np.where(has, structure.n_splits, -1),
        column_ptr=np.concatenate([[0], np.cumsum(size)]),
        column=column,
        centre=compiled.joint_constants[column, 0],
        psi0=np.ones(column.size),
        half_log_psi0=np.zeros(column.size),
        slot_begin=_starts(n_slots),
        sums_begin=_starts(n_slots * size),
        products_begin=_starts(n_slots * triangles),
        sums=np.zeros(int((n_slots * size).sum())),
        products=np.zeros(int((n_slots * triangles).sum())),
        factor=np.zeros(int((n_slots * triangles).sum())),
        log_scale=np.zeros(int(n_slots.sum())),
        n_rows=np.zeros(int(n_slots.sum())),
        scratch=build_joint_scratch(int(n_slots.sum()), has.size, compiled.is_joint.size, int(size.max())),
    )


def set_psi0(joints, psi0):
    """Install the prior's diagonal (K,); `refresh_joints` then works out what follows."""
    joints.psi0[:] = psi0
    joints.half_log_psi0[:] = 0.5 * np.log(psi0)


def build_joint_scratch(n_slots, n_regions, n_columns, most_columns):
    """Scratch space with this much room."""
    return JointScratch(
        row=np.zeros(n_columns),
        log_value=np.zeros(n_slots),
        shift=np.zeros(n_regions),
        x=np.zeros(most_columns),
        z=np.zeros(most_columns),
        floor=np.zeros(most_columns),
        order=np.zeros(most_columns, np.int64),
        triangle=np.zeros(most_columns * (most_columns + 1) // 2),
    )


def statistics_of(net, r):
    """Rows (n,), sums (n, d) and sums of products (n, d (d + 1) / 2) of all slots of a region, as views."""
    joints, top, d = net.joints, int(net.edges.top[r]), int(np.diff(net.joints.column_ptr)[r])
    t = d * (d + 1) // 2
    return (
        joints.n_rows[joints.slot_begin[r] :][:top],
        joints.sums[joints.sums_begin[r] :][: top * d].reshape(top, d),
        joints.products[joints.products_begin[r] :][: top * t].reshape(top, t),
    )


def _starts(sizes):
    return np.cumsum(sizes) - sizes


@bare_called_kernel
def copy_row(source, target):
    for c in range(source.size):
        target[c] = source[c]


@copied_kernel
def is_joint_edge(edges, joints, r, slot):
    """Whether an edge is such a leaf."""
    return joints.split[r] >= 0 and edges.split[edges.begin[r] + slot] == joints.split[r]


@copied_kernel
def rows_of_joint(edges, joints, r, slot):
    """Rows in a leaf, 0 where it is unoccupied: then its statistics are not to be read."""
    is_occupied = edges.weight[edges.begin[r] + slot] > 0.0
    return joints.n_rows[joints.slot_begin[r] + slot] if is_occupied else 0.0


@copied_kernel
def gather(joints, r):
    """The current row in the order of a region's leaf; returns its number of columns."""
    first = joints.column_ptr[r]
    d = joints.column_ptr[r + 1] - first
    for j in range(d):
        joints.scratch.x[j] = joints.scratch.row[joints.column[first + j]] - joints.centre[first + j]
    return d


@bare_called_kernel
def refresh_joint(joints, r, slot, n):
    """Predictive of a leaf from its statistics."""
    first = joints.column_ptr[r]
    d = joints.column_ptr[r + 1] - first
    t = triangle_size(d)
    at = joints.products_begin[r] + slot * t
    from_sums = joints.sums_begin[r] + slot * d
    psi0 = joints.psi0[first : first + d]
    factor = joints.factor[at : at + t]
    k = PRECISION_RATIO + n
    scatter(d, k, joints.sums[from_sums : from_sums + d], joints.products[at : at + t], psi0, factor)
    half_log = factorise(d, d, factor, psi0)
    joints.log_scale[joints.slot_begin[r] + slot] = log_scale_of(d, d, k, d + EXCESS + n, half_log)
    joints.n_rows[joints.slot_begin[r] + slot] = n


@bare_called_kernel
def move_joint(joints, r, slot, n, sign):
    """Add the current row to a leaf or take it away; ``n`` rows are in it afterwards."""
    d = gather(joints, r)
    t = triangle_size(d)
    at = joints.products_begin[r] + slot * t
    from_sums = joints.sums_begin[r] + slot * d
    sums = joints.sums[from_sums : from_sums + d]
    products = joints.products[at : at + t]
    if n == 0 or (n == 1 and sign > 0.0):  # an empty leaf is exactly empty: no rounding is left behind
        sums[:] = 0.0
        products[:] = 0.0
    if n > 0:
        add_row(d, joints.scratch.x, sign, sums, products)


@bare_called_kernel
def move_joints(edges, joints, slots, sign):
    """Put the current row into its leaves over several columns (sign 1), after `occupancy.attach`, or take it out (-1).

    This comes before `occupancy.detach`.
    """
    for r in range(slots.size):
        if slots[r] >= 0 and is_joint_edge(edges, joints, r, slots[r]):
            n = edges.n_data[edges.begin[r] + slots[r]] - (sign < 0.0)
            move_joint(joints, r, slots[r], n, sign)
            if n > 0:
                refresh_joint(joints, r, slots[r], n)


@bare_kernel
def add_rows(edges, joints, filled, slots):
    """Add completed rows (N, D) to the sums of the leaves where they are assigned."""
    for n in range(slots.shape[0]):
        copy_row(filled[n], joints.scratch.row)
        for r in range(slots.shape[1]):
            if slots[n, r] >= 0 and is_joint_edge(edges, joints, r, slots[n, r]):
                move_joint(joints, r, slots[n, r], 2, 1.0)


@bare_kernel
def refresh_joints(edges, joints):
    """Predictives of all occupied leaves from their statistics."""
    for r in range(joints.split.size):
        if joints.split[r] < 0:
            continue
        for slot in range(edges.top[r]):
            n = edges.n_data[edges.begin[r] + slot]
            if n > 0 and is_joint_edge(edges, joints, r, slot):
                refresh_joint(joints, r, slot, n)


@bare_called_kernel
def log_of_new(joints, r, n_seen):
    """Log prior predictive of the observed columns, which `order` has first: a product of nothing in particular."""
    first = joints.column_ptr[r]
    square = 0.0
    half_log = 0.0
    for i in range(n_seen):
        j = joints.scratch.order[i]
        square += joints.scratch.x[j] * joints.scratch.x[j] / joints.psi0[first + j]
        half_log += joints.half_log_psi0[first + j]
    k = PRECISION_RATIO
    return LOG_OF_NEW[n_seen] - half_log - 0.5 * (EXCESS + 1.0 + n_seen) * fast_log1p(square * k / (k + 1.0))


@bare_called_kernel
def log_of_leaf(joints, r, slot, n, n_seen):
    """Log predictive of what is observed of the current row in an occupied leaf."""
    first = joints.column_ptr[r]
    d = joints.column_ptr[r + 1] - first
    t = triangle_size(d)
    at = joints.products_begin[r] + slot * t
    from_sums = joints.sums_begin[r] + slot * d
    sums = joints.sums[from_sums : from_sums + d]
    k = PRECISION_RATIO + n
    v = d + EXCESS + n
    if n_seen == d:
        log_scale = joints.log_scale[joints.slot_begin[r] + slot]
        return log_predictive_of_row(
            d, k, v, log_scale, sums, joints.factor[at : at + t], joints.scratch.x, joints.scratch.z
        )
    products = joints.products[at : at + t]
    psi0 = joints.psi0[first : first + d]
    scratch = joints.scratch.triangle[:t]
    return log_predictive_of_observed(
        d,
        n_seen,
        joints.scratch.order,
        k,
        v,
        sums,
        products,
        psi0,
        joints.scratch.x,
        scratch,
        joints.scratch.floor,
        joints.scratch.z,
    )


@bare_called_kernel
def evaluate_joints(tree, palette, edges, joints, scratch, y):
    """Log predictives of a coded row (P,) in all leaves over several columns; returns what `raise_shifts` does."""
    for r in range(joints.split.size):
        if joints.split[r] < 0 or scratch.missing[r]:
            continue
        first = joints.column_ptr[r]
        d = joints.column_ptr[r + 1] - first
        for j in range(d):
            joints.scratch.x[j] = y[palette.place_ptr[joints.column[first + j]]] - joints.centre[first + j]
        n_seen = observed_first(d, joints.scratch.x, joints.scratch.order)
        begin = joints.slot_begin[r]
        new = log_of_new(joints, r, n_seen) if joints.is_open[r] else -math.inf
        joints.scratch.log_value[begin + joints.split[r]] = new
        for slot in range(tree.n_prior[r], edges.top[r]):
            log_value = -math.inf
            if edges.weight[edges.begin[r] + slot] > 0.0 and is_joint_edge(edges, joints, r, slot):
                # of no rows what a variational fit leaves to new ones
                log_value = log_of_leaf(joints, r, slot, rows_of_joint(edges, joints, r, slot), n_seen)
            joints.scratch.log_value[begin + slot] = log_value
    return raise_shifts(tree, palette, edges, joints, scratch)


@bare_called_kernel
def take_joints(tree, palette, edges, joints, scratch, log_value):
    """As `evaluate_joints`, with the log values (J,) of the slots known."""
    copy_row(log_value, joints.scratch.log_value)
    return raise_shifts(tree, palette, edges, joints, scratch)


@bare_called_kernel
def raise_shifts(tree, palette, edges, joints, scratch):
    """Raise the shifts of columns until no leaf over several is above 1 and no product overflows; returns by how much.

    An induced tree has one leaf in each column still, and all leaves of a column are divided by the same.
    """
    raised = 0.0
    for r in range(joints.split.size):
        if joints.split[r] < 0 or scratch.missing[r]:
            continue
        excess = -math.inf
        for slot in range(edges.top[r]):
            if is_joint_edge(edges, joints, r, slot):
                excess = larger(excess, joints.scratch.log_value[joints.slot_begin[r] + slot])
        excess -= shift_of_region(joints, scratch, r)
        if excess <= 0.0:
            continue
        raised += excess
        n_known = 0
        for j in range(joints.column_ptr[r], joints.column_ptr[r + 1]):
            n_known += not scratch.missing[tree.leaf_region[palette.place_ptr[joints.column[j]]]]
        factor = math.exp(-excess / n_known)
        for j in range(joints.column_ptr[r], joints.column_ptr[r + 1]):
            c = joints.column[j]
            if scratch.missing[tree.leaf_region[palette.place_ptr[c]]]:
                continue
            scratch.column_shift[c] += excess / n_known
            for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                begin = edges.begin[tree.leaf_region[d]]
                for i in range(begin, begin + edges.top[tree.leaf_region[d]]):
                    scratch.edge_value[i] *= factor
    for r in range(joints.split.size):
        joints.scratch.shift[r] = shift_of_region(joints, scratch, r)
    return raised


@copied_kernel
def shift_of_region(joints, scratch, r):
    shift = 0.0
    for j in range(joints.column_ptr[r], joints.column_ptr[r + 1]):
        shift += scratch.column_shift[joints.column[j]]
    return shift


@copied_kernel
def complete_row(rng, edges, joints, slots):
    """Draw what is missing of the current row in the leaves to which it goes, the row being in none of them."""
    own = joints.scratch
    for r in range(slots.size):
        if slots[r] < 0 or not is_joint_edge(edges, joints, r, slots[r]):
            continue
        n_seen = draw_missing(rng, edges, joints, r, slots[r])
        first = joints.column_ptr[r]
        for i in range(n_seen, joints.column_ptr[r + 1] - first):
            j = own.order[i]
            drawn = np.float32(own.x[j] + joints.centre[first + j])  # as a record holds it
            own.row[joints.column[first + j]] = np.float64(drawn)


@bare_called_kernel
def draw_missing(rng, edges, joints, r, slot):
    """Draw the missing cells of the current row in a leaf into ``x``; returns how many are observed, `observed_first`.

    The leaf may be new.
    """
    own = joints.scratch
    d = gather(joints, r)
    n_seen = observed_first(d, own.x, own.order)
    if n_seen == d:
        return n_seen
    t = triangle_size(d)
    n = rows_of_joint(edges, joints, r, slot)
    sums = joints.sums[joints.sums_begin[r] + slot * d : joints.sums_begin[r] + (slot + 1) * d]
    if n == 0.0:
        sums[:] = 0.0
        joints.products[joints.products_begin[r] + slot * t : joints.products_begin[r] + (slot + 1) * t] = 0.0
    log_of_leaf(joints, r, slot, n, n_seen)
    k = PRECISION_RATIO + n
    v = d + EXCESS + n
    draw_missing_of_row(rng, d, n_seen, own.order, k, v, sums, own.triangle[:t], own.floor, own.z, own.x)
    return n_seen
