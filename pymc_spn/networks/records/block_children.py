"""Children of sum nodes over several columns in blocks of rows: products of parts, leaves over all columns."""

import math

from pymc_spn.networks.records.leaf_tables import LOG2_E, leaf_end
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import bare_called_kernel
from pymc_spn.numerics.lanes import LANES, load, mul, splat, store

ABSENT, BY_VALUE, BY_TABLE = range(3)  # how the leaves of a column are evaluated: not, row by row, once for each value
LOG_2 = math.log(2.0)


@bare_called_kernel
def evaluate_child(pack, r, edge, e, rows, group, n, scratch):
    """Value of edge e of such a region, after `shift_of_joints`: of a product, or of a leaf over all columns."""
    joint = pack.edge_joint[edge + e]
    if joint < 0:
        for g in range(n):
            store(scratch.child, g, product_of_parts(pack, r, edge, e, -1, n, g, scratch))
        return
    value_of_joint(rows.joint_log[joint, group * LANES : (group + n) * LANES], n, scratch)


@bare_called_kernel
def value_of_joint(logs, n, scratch):
    """Value of a leaf over all columns of a region from its logs, after `shift_of_joints`."""
    for i in range(n * LANES):
        scratch.child[i] = fast_exp(logs[i] - scratch.joint_shift[i] * LOG_2)


@bare_called_kernel
def shift_of_joints(pack, r, rows, n, scratch):
    """What the leaves over all columns of a region are divided by."""
    block = n * LANES
    scratch.joint_shift[:block] = 0.0
    for j in range(pack.joint_ptr[r], pack.joint_ptr[r + 1]):
        c = pack.joint_column[j]
        if rows.mode[c] != ABSENT:
            own = scratch.column_shift[c * block : (c + 1) * block]
            for i in range(block):
                scratch.joint_shift[i] += own[i]


@bare_called_kernel
def raise_shifts(pack, s, rows, group, n, keep, scratch):
    """`joint_leaves.raise_shifts` of the rows of a block; values of column ``keep`` are divided, too."""
    block = n * LANES
    excess = scratch.highest[:block]
    for r in range(pack.tree.parent.size):
        n_known = 0
        for j in range(pack.joint_ptr[r], pack.joint_ptr[r + 1]):
            n_known += rows.mode[pack.joint_column[j]] != ABSENT
        if n_known == 0:
            continue
        shift_of_joints(pack, r, rows, n, scratch)
        excess[:] = 0.0
        for e in range(pack.edge_first[s, r], pack.edge_first[s, r] + pack.top[s, r]):
            if pack.edge_joint[e] >= 0:
                logs = rows.joint_log[pack.edge_joint[e], group * LANES : group * LANES + block]
                for i in range(block):
                    excess[i] = max(excess[i], logs[i] * LOG2_E - scratch.joint_shift[i])
        for i in range(block):
            scratch.shift[i] += excess[i]
            excess[i] /= n_known
            scratch.child[i] = fast_exp(-excess[i] * LOG_2)
        for j in range(pack.joint_ptr[r], pack.joint_ptr[r + 1]):
            c = pack.joint_column[j]
            if rows.mode[c] == ABSENT:
                continue
            for i in range(block):
                scratch.column_shift[c * block + i] += excess[i]
            first = pack.palette.place_ptr[c]
            if c == keep:
                divide(
                    scratch.kept[: (leaf_end(pack, s, c) - pack.leaf_first[s, first]) * block], scratch.child[:block]
                )
            for d in range(first, pack.palette.place_ptr[c + 1]):
                q = pack.tree.leaf_region[d]
                at = scratch.node_at[q] * block
                divide(scratch.empty_value[q * block : (q + 1) * block], scratch.child[:block])
                divide(scratch.node_value[at : at + pack.top[s, pack.tree.parent[q]] * block], scratch.child[:block])


@bare_called_kernel
def divide(values, by):
    """Multiply the values of rows, nodes or leaves one behind the other, by a number of each row."""
    for first in range(0, values.size, by.size):
        for i in range(by.size):
            values[first + i] *= by[i]


@bare_called_kernel
def product_of_parts(pack, r, edge, e, without, n, g, scratch):
    """Product of the sum nodes below edge e of a region, except for the one in a part; those of its own split."""
    value = splat(1.0)
    for j in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
        q = pack.tree.parts[j]
        if (
            q != without
            and not scratch.missing[q]
            and (pack.tree.n_splits[r] == 1 or pack.edge_split[edge + e] == pack.tree.split[q])
        ):
            value = mul(value, load(scratch.node_value, (scratch.node_at[q] + e) * n + g))
    return value


@bare_called_kernel
def product_of_unoccupied(pack, r, without, n, g, scratch):
    """The same of an unoccupied product, whose split does not matter: that of the first stands for all."""
    value = splat(1.0)
    for j in range(pack.tree.part_ptr[r], pack.tree.part_ptr[r + 1]):
        q = pack.tree.parts[j]
        if q != without and not scratch.missing[q] and pack.tree.split[q] == 0:
            value = mul(value, load(scratch.empty_value, q * n + g))
    return value
