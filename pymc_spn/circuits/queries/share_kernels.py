"""How a row spreads over the children of sum nodes, given what is known of it: in one region, or down to one column."""

import math

import numpy as np

from pymc_spn.circuits.gibbs.occupancy import FRESH, free_entry_mass, free_mass
from pymc_spn.circuits.queries.predictive_kernels import evaluate_row, prior_slot_mass, relative_value
from pymc_spn.numerics.kernel_options import bare_kernel, kernel


@bare_kernel
def node_shares(net, r, node, logs, out):
    """Add to ``out`` the probability of each child of a sum node given what `evaluate_row` has seen.

    Parameters
    ----------
    net : Network
        As `evaluate_row` left it.
    r, node : int
        Region, and number of the node in it; FRESH for an unoccupied node.
    logs : bool
        What `evaluate_row` returned.
    out : (top + 1,) float64
        Children by slot; the last entry stands for all unoccupied children of an inner region and is not used
        in a univariate one, where an unoccupied leaf is its prior slot.
    """
    d = net.column[r]
    begin = net.begin[r]
    last = out.size - 1
    if node == FRESH or net.node_first[net.node_begin[r] + node] < 0:
        # also a node whose rows are all missing below: it has no children yet
        if d < 0:
            out[last] = 1.0
            return
        total = 0.0
        for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
            total += prior_slot_mass(net, r, d, e, FRESH, logs)
        for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
            out[e - net.entry_ptr[d]] += prior_slot_mass(net, r, d, e, FRESH, logs) / total
        return
    k = net.node_begin[r] + node
    total = net.node_count[k] + net.mass[r]
    if not net.missing[r] and not logs:
        total *= net.node_value[k]
    slot = net.node_first[k]
    while slot >= 0:
        i = begin + slot
        out[slot] += net.weight[i] * relative_value(net, r, i, k, logs) / total
        slot = net.following[i]
    if d < 0:
        share = free_mass(net, r, node) / total
        if not net.missing[r]:
            value = net.empty_value[r]
            share *= math.exp(value - net.node_value[k]) if logs else value
        out[last] += share
        return
    for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
        local = e - net.entry_ptr[d]
        out[local] += free_entry_mass(net, d, e, node) * relative_value(net, r, begin + local, k, logs) / total


@kernel
def all_shares(net, y, event, event_log):
    """Probability of each child of each sum node, given what is known of one row; see `node_shares`.

    Parameters
    ----------
    net : Network
    y : (D,) float64
        Coded row, NaN where there is no point.
    event, event_log
        As in `evaluate_row`.

    Returns
    -------
    flat : float64
        Of each region, one after the other, an array (nodes + 1, children + 1) by rows. The last row is that of
        an unoccupied node; rows of slots that are not in use are the same.
    """
    logs = evaluate_row(net, y, event, event_log)[1]
    total = 0
    for r in range(net.parent.size):
        n_nodes = net.top[net.parent[r]] if r > 0 else 1
        total += (n_nodes + 1) * (net.top[r] + 1)
    flat = np.zeros(total)
    at = 0
    for r in range(net.parent.size):
        n_nodes = net.top[net.parent[r]] if r > 0 else 1
        width = net.top[r] + 1
        for node in range(n_nodes + 1):
            node_shares(net, r, node if node < n_nodes else FRESH, logs, flat[at : at + width])
            at += width
    return flat


@kernel
def column_shares(net, y, event, event_log, path, log_density, out):
    """Probability of each leaf of one column for rows, given what is known of each.

    Parameters
    ----------
    net : Network
    y : (M, D) float64
        Coded rows, NaN where there is no point.
    event, event_log
        As in `evaluate_row`.
    path : (k,) int64
        Regions from the root down to the one that holds the column alone.
    log_density : (M,) float64
        Out: log predictive of each row in coded units.
    out : (M, top) float64
        Out: probabilities of the leaf slots.
    """
    widest = 0
    for r in path:
        widest = max(widest, net.top[r] + 1)
    above = np.zeros(widest)
    below = np.zeros(widest)
    child = np.zeros(widest)
    for n in range(y.shape[0]):
        log_density[n], logs = evaluate_row(net, y[n], event, event_log)
        above[:] = 0.0
        above[0] = 1.0
        n_nodes = 1
        for r in path:
            m = net.top[r] + 1
            below[:m] = 0.0
            for node in range(n_nodes + 1 if r > 0 else 1):
                if above[node] == 0.0:
                    continue
                child[:m] = 0.0
                node_shares(net, r, FRESH if node == n_nodes else node, logs, child[:m])
                for i in range(m):
                    below[i] += above[node] * child[i]
            above[:m] = below[:m]
            above[m:] = 0.0
            n_nodes = net.top[r]
        for i in range(out.shape[1]):
            out[n, i] = above[i]
