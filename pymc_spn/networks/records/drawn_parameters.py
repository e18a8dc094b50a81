"""Weights and leaf parameters drawn given the assignment of a draw: Algorithm 2 of Yokoi and Sato (2024).

A network holds counts and sums of values, and every question integrates weights and parameters out. One draw of them
is written in the same form: the counts become weights in the proportions that were drawn, and each leaf gets the sums
that many values under its drawn parameters have. So all questions answer under the draw as they are.

The unoccupied children of a sum node are infinitely many, each with a weight and a law of its own. More rows are seated
by the urn, without values. Given these seats as well, weights and parameters have the same law as before, but little is
left to what is unoccupied then: it keeps its expected share and the prior predictive.
"""

from typing import Any

import numpy as np

from pymc_spn.gibbs.component_kinds import build_move
from pymc_spn.gibbs.family_kernels import posteriors
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, statistics_of
from pymc_spn.gibbs.network import enlarged_capacity, grown
from pymc_spn.gibbs.redraw import COUNT, redraw_rows
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.family_codes import BINOMIAL, CATEGORICAL, EXPONENTIAL, GEOMETRIC, POISSON
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_gaussian import drawn_means_and_roots
from pymc_spn.networks.variational.fitted_network import predictives, put_joint
from pymc_spn.numerics.gamma_draws import log_dirichlet

KNOWN = 10_000  # values after which the parameters of a leaf are as good as known: it is 1e-4 wider than under them
LEAST = 1e-12  # of a probability: kernels take logs
SEATS = 200, 1_000  # least and most rows that are seated; between these as many as there are


def draw_parameters(net: Any, structure: Any, compiled: Any, taken: np.ndarray, rng: np.random.Generator) -> Any:
    """A network under one draw of weights and leaf parameters, given the assignment that one holds.

    Parameters
    ----------
    net : Network
        With arrays of its own, which are written, and without holes, as it has been rebuilt.
    structure, compiled
        The region tree and the compiled columns of the network.
    taken : (E,) bool
        Palette entries whose centre was taken from their column.
    rng : numpy.random.Generator

    Returns
    -------
    Network
        To be asked and not to be changed.
    """
    tops = net.edges.top.copy()
    counts = [net.edges.n_data[begin : begin + top].copy() for begin, top in zip(net.edges.begin, tops, strict=True)]
    n_seats = int(np.clip(net.nodes.n_data[net.nodes.begin[0]], *SEATS))
    net = _seat_more(rng, net, structure, compiled, n_seats)
    n_leaves, rows = net.leaves.entry.size, np.zeros(net.edges.n_data.size)  # with values
    for begin, count in zip(net.edges.begin, counts, strict=True):
        rows[begin : begin + count.size] = count
    leaves = np.flatnonzero(net.edges.n_data[:n_leaves] > 0)
    entry = net.palette.entry_source[net.leaves.entry[leaves]]
    for e in np.unique(entry).tolist():
        _draw_leaves(net, leaves[entry == e], rows[leaves[entry == e]], bool(taken[e]), rng)
    for r in range(net.tree.parent.size):
        slots = slice(int(net.edges.begin[r]), int(net.edges.begin[r] + net.edges.top[r]))
        _draw_weights(net.edges, slots, rng)
        if net.joints is not None and net.joints.split[r] >= 0:
            is_joint = (net.edges.n_data[slots] > 0) & (net.edges.split[slots] == net.joints.split[r])
            _draw_joints(net, r, np.flatnonzero(is_joint), rows[slots][is_joint], rng)
    return net


def _seat_more(rng: np.random.Generator, net: Any, structure: Any, compiled: Any, n_rows: int) -> Any:
    """Seat rows by the urn whose values are not known; returns the network, which may have grown."""
    slots = np.zeros((n_rows, net.tree.parent.size), np.int32)
    places, columns = (np.zeros((n_rows, n)) for n in (net.tree.leaf_region.size, net.palette.place_ptr.size - 1))
    tables = places, columns, columns, slots
    move = None if net.joints is None else build_move(net.tree, net.joints, slots, places, columns, 0, 0.0)
    row = 0
    while True:
        row = redraw_rows(rng, *net, move, None, None, *tables, COUNT, row, n_rows)[0]
        if row == n_rows:
            net.edges.full[0] = False
            return net
        net = grown(net, structure, compiled, enlarged_capacity(net))


def _draw_weights(edges: Any, slots: slice, rng: np.random.Generator) -> None:
    """Shares of the occupied children of each sum node of a region, Dirichlet given that of the others."""
    node, mass = edges.node[slots], edges.weight[slots]
    drawn = rng.standard_gamma(mass)
    of_node = np.bincount(node, mass)
    with np.errstate(invalid="ignore"):  # of nodes without children
        scale = of_node / np.bincount(node, drawn)
    edges.weight[slots] = np.where(mass > 0.0, drawn * scale[node], 0.0)


def _draw_leaves(net: Any, leaves: np.ndarray, n: np.ndarray, taken: bool, rng: np.random.Generator) -> None:
    """Leaves of one entry of a column's palette, at all its places, with n values."""
    own, palette = net.leaves, net.palette
    code, prior = int(palette.family[own.entry[leaves[0]]]), palette.prior[own.entry[leaves[0]]]
    part, own.n_data[leaves] = PREDICTIVES[code], KNOWN
    if code == CATEGORICAL:
        d = np.searchsorted(own.begin, leaves, side="right") - 1
        k = palette.n_levels[d[0]]
        at = (own.level_begin[d] + leaves)[:, None] + own.capacity[d][:, None] * np.arange(k)
        alpha = prior[0] * palette.level_factor[palette.entry_source[own.entry[leaves[0]]], :k]
        told = (n * prior[1] / (n + prior[1])).sum()
        centre = np.exp(log_dirichlet(rng, alpha / prior[1] * told)) if taken and told > 0.0 else alpha / prior[1]
        p = part.draw_parameters(own.level_count[at] + prior[1] * centre, rng)
        own.level_count[at] = np.maximum(p, LEAST) * (KNOWN + prior[1]) - alpha
        return
    family, learned = np.full(leaves.size, code), np.empty((leaves.size, 4))

    def learn(n: np.ndarray, prior: np.ndarray) -> None:
        sums = own.s1[leaves], own.s2[leaves]
        posteriors(family, n, *sums, np.tile(prior, (leaves.size, 1)), learned)

    learn(n, prior)
    if taken:
        learn(n, _drawn_centre(code, n, learned, prior, rng))
    drawn = part.draw_parameters(learned, rng)
    own.s1[leaves], own.s2[leaves] = _sums_of(code, drawn, prior)
    learn(np.full(leaves.size, float(KNOWN)), prior)
    found = np.empty((leaves.size, 5))
    predictives(family, learned, found)
    own.log_scale[leaves], own.power[leaves], own.centre[leaves], own.curvature[leaves], own.slope[leaves] = found.T


def _drawn_centre(
    code: int, n: np.ndarray, learned: np.ndarray, prior: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The prior (4,) of the leaves of a column around a centre that is drawn.

    The sampler takes the column's mean for a centre that is not given, as if it were known. Where leaves are much like
    their prior this makes all of them certain. Here it is the unknown mean of leaf parameters. A leaf with n rows,
    whose prior is worth m, tells as much of it as n m / (n + m) rows do.
    """
    first, second = prior[:2]
    worth = {EXPONENTIAL: first, GEOMETRIC: first, BINOMIAL: (first + second) / max(prior[2], 1.0)}.get(code, second)
    rows = n * worth / (n + worth)
    total = rows.sum()
    if total == 0.0:  # all rows are in leaves over several columns
        return prior
    if code == EXPONENTIAL:
        return np.array([first, second * rng.standard_gamma(total) / total, *prior[2:]])
    if code == POISSON:
        shape = total * first / second
        return np.array([first * rng.standard_gamma(shape) / shape, *prior[1:]])
    if code == GEOMETRIC:  # the relative variance of a mean of numbers of failures is 1 / shape
        shape = total * second / (first + second)
        return np.array([first, second * rng.standard_gamma(shape) / shape, *prior[2:]])
    if code == BINOMIAL:
        p = rng.beta(*(total * prior[2] * prior[:2] / (first + second)))
        return np.array([p * (first + second), (1.0 - p) * (first + second), *prior[2:]])
    precision = (rows * learned[:, 2] / learned[:, 3]).sum()
    return np.array([first + rng.standard_normal() / np.sqrt(precision), *prior[1:]])


def _sums_of(code: int, drawn: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
    """Sums of `KNOWN` values after which the posteriors of leaves are about their drawn parameters (n, p)."""
    first, second = prior[:2]
    if code == EXPONENTIAL:
        return _less((first + KNOWN) / drawn[:, 0], second), 0.0
    if code == POISSON:
        return _less(drawn[:, 0] * (second + KNOWN), first), 0.0
    if code == GEOMETRIC:
        return _less((first + KNOWN) * (1.0 - drawn[:, 0]) / drawn[:, 0], second), 0.0
    if code == BINOMIAL:
        return _less(drawn[:, 1] * (first + second + KNOWN * drawn[:, 0]), first), 0.0
    mean, sd = drawn.T  # normal-gamma: equations 85 to 89 of Murphy (2007), solved for the sums
    shifted = (second + KNOWN) * (mean - first)
    s1 = shifted + KNOWN * first
    spread = 2.0 * ((prior[2] + 0.5 * KNOWN) * sd**2 - prior[3])
    return s1, spread + 2.0 * first * s1 - KNOWN * first**2 + shifted * (mean - first)


def _less(total: np.ndarray, prior: float) -> np.ndarray:
    """A total without what the prior is worth, to which this can be added again: it stays above 0 then."""
    return np.maximum(total, LEAST * prior) - prior


def _draw_joints(net: Any, r: int, slots: np.ndarray, n: np.ndarray, rng: np.random.Generator) -> None:
    """Leaves over all columns of a region, with n rows."""
    if slots.size == 0:
        return
    joints, first, last = net.joints, net.joints.column_ptr[r], net.joints.column_ptr[r + 1]
    d, psi0, (_, sums, products) = int(last - first), net.joints.psi0[first:last], statistics_of(net, r)
    held = (n > 0)[:, None]  # of a new leaf nothing is summed
    own = np.where(held, sums[slots], 0.0), np.where(held, products[slots], 0.0)
    learned = NormalInverseWishart.after(n, *own, psi0, PRECISION_RATIO, d + EXCESS)
    mean, root = drawn_means_and_roots(learned, rng)
    sums[slots] = (PRECISION_RATIO + KNOWN) * mean
    # the scale matrix of a predictive with v = d + EXCESS + KNOWN is that of the draw
    scatter = (EXCESS + KNOWN + 1.0) * (root @ np.swapaxes(root, 1, 2)) + sums[slots][:, :, None] * mean[:, None]
    scatter[:, np.arange(d), np.arange(d)] -= psi0
    column, row = np.triu_indices(d)
    products[slots] = scatter[:, row, column]
    net.edges.n_data[net.edges.begin[r] + slots] = KNOWN
    for slot in slots.tolist():
        put_joint(joints, r, slot, float(KNOWN))
