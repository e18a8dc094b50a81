"""Children of sum nodes over several columns in blocks of rows: products of parts, leaves over all columns."""

import math

from pymc_spn.gibbs.joint_leaves import LARGEST_LOG_RATIO
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
        log = logs[i] - scratch.joint_shift[i] * LOG_2
        scratch.child[i] = fast_exp(log) if log <= LARGEST_LOG_RATIO else math.nan  # such rows are asked one by one


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
