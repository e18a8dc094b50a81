"""Directed graphs: an order that they allow, and their equivalence classes."""

import numpy as np

from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def topological_order(graph, out):
    """Fill `out` with an order of the variables, smallest number first where free; False if there is a cycle.

    Parameters
    ----------
    graph : (d, d) bool
        Parents by children.
    out : (d,) int64
        Out.
    """
    d = out.size
    missing = np.zeros(d, np.int64)
    for i in range(d):
        for j in range(d):
            missing[i] += graph[j, i]
    for step in range(d):
        found = -1
        for i in range(d):
            if missing[i] == 0:
                found = i
                break
        if found < 0:
            return False
        out[step] = found
        missing[found] = -1  # placed
        for i in range(d):
            if graph[found, i]:
                missing[i] -= 1
    return True


@inner_kernel
def equivalence_class(graph, order, compelled):
    """Mark the edges that have the same direction in all graphs of a class.

    Children are looked at from first to last. What is known of the edges into the last parent settles all edges into
    the child.

    Parameters
    ----------
    graph : (d, d) bool
        Parents by children.
    order : (d,) int64
        A topological order.
    compelled : (d, d) bool
        Out.

    References
    ----------
    Chickering (1995), arXiv:1302.4938, figures 2 and 3.
    """
    d = order.size
    compelled[:] = False
    for y in order:
        x = -1  # the last of y's parents
        for i in order:
            if graph[i, y]:
                x = i
        if x < 0:
            continue
        whole = False  # whether all edges into y are compelled
        for z in range(d):
            if graph[z, y] and z != x and not graph[z, x]:
                whole = True
            if compelled[z, x]:
                compelled[z, y] = True
                if not graph[z, y]:
                    whole = True
        if whole:
            compelled[:, y] = graph[:, y]


@kernel
def equivalence_classes(graphs, out):
    """Completed partially directed graphs of many DAGs.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.
    out : (n, d, d) bool
        Out: True at [j, i] if j -> i or j - i.

    Returns
    -------
    int
        Number of the first graph that has a cycle, -1 if none has.
    """
    n, d = graphs.shape[0], graphs.shape[1]
    order = np.empty(d, np.int64)
    compelled = np.empty((d, d), np.bool_)
    unchecked = np.zeros(1, np.int64)
    for s in range(n):
        if must_stop_after(d * d * d, unchecked):
            return -1
        if not topological_order(graphs[s], order):
            return s
        equivalence_class(graphs[s], order, compelled)
        for i in range(d):
            for j in range(d):
                out[s, j, i] = graphs[s, j, i] or (graphs[s, i, j] and not compelled[i, j])
    return -1
