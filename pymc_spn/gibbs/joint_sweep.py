"""`exact_sweep` for networks with leaves over several columns, whose missing cells are part of the state."""

from pymc_spn.gibbs.exact import SAFE, draw_subtree, evaluate_regions, evaluate_regions_by_logs
from pymc_spn.gibbs.joint_leaves import (
    attach_joints,
    complete_row,
    copy_row,
    detach_joints,
    evaluate_joints,
)
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.gibbs.occupancy import attach, detach, mark_missing
from pymc_spn.numerics.kernel_options import bare_kernel


@bare_kernel
def joint_sweep(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, y, table, filled, slots, first):
    """`exact_sweep` of a network with leaves over several columns, whose missing cells are part of the state.

    Parameters
    ----------
    rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first
        As in `exact_sweep`.
    joints : Joints
    table : (N, D) float64
        The coded rows, NaN where missing.
    filled : (N, D) float64
        The same with the cells that were drawn, changed in place.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if edges.full[0]:
            return n, moved
        row = slots[n]
        mark_missing(tree, scratch, y[n])
        if scratch.missing[0]:
            continue
        for r in range(row.size):
            scratch.old[r] = row[r]
        copy_row(filled[n], joints.scratch.row)
        detach_joints(edges, joints, row)
        detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        evaluate_leaves(tree, palette, edges, leaves, scratch, y[n])
        evaluate_joints(tree, palette, edges, joints, scratch, y[n])
        evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints, 0)
        logs = not scratch.node_value[0] > SAFE
        if logs:
            evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, 0)
        draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, row, 0, logs, joints)
        copy_row(table[n], joints.scratch.row)
        complete_row(rng, edges, joints, row)
        copy_row(joints.scratch.row[: filled.shape[1]], filled[n])
        attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        attach_joints(edges, joints, row)
        changed = False
        for r in range(row.size):
            changed |= row[r] != scratch.old[r]
        moved += changed
    return y.shape[0], moved
