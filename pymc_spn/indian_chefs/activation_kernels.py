"""Draws of hidden activations given graph and parameters, one unit at a time, for all data.

A hidden unit enters the likelihood of a child i linearly through its output u. So all children together act through two
numbers of a datum: log lik(u) = B u - A u^2 / 2. Here A = sum_i rho_i w_i^2 and B = sum_i rho_i w_i r_i, r_i the
child's residual without the unit. A candidate costs two exponentials whatever the number of children.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

BLOCK = 128  # data worked on together, so that the scratch space stays in the first cache
HALF_WIDTH = 5.0  # strata cover this many standard deviations of a unit round its mean


class BeliefNetwork(NamedTuple):
    """State of one belief network; a row for each node slot, observed nodes first.

    Parameters
    ----------
    parents : (K, K) uint8
        ``parents[k, i]`` is 1 where k is a parent of i; the array of the graph's state itself.
    weights : (K, K) float64
        Like `parents`; 0 where there is no edge.
    biases, precisions : (K,) float64
    activations, outputs, residuals : (K, N) float64
        a, what children read of it, and a minus its mean given the parents. The output is sigmoid(a) in a nonlinear
        network and a itself, the same array, in a linear one. A sigmoid network has its binary values as outputs, and
        activations 0, so that residuals are the negative logits.
    """

    parents: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    precisions: np.ndarray
    activations: np.ndarray
    outputs: np.ndarray
    residuals: np.ndarray


def empty_network(parents: np.ndarray, n_data: int, is_linear: bool) -> BeliefNetwork:
    """A network without weights round the parents of a graph's state."""
    k = len(parents)
    a, u, e = (np.zeros((k, n_data)) for _ in range(3))
    return BeliefNetwork(parents, np.zeros((k, k)), np.zeros(k), np.ones(k), a, a if is_linear else u, e)


@bare_kernel
def fill_residuals(n_nodes, network):
    """Residuals of all active slots: a_i - b_i - sum_k w_ki u_k."""
    residuals = network.residuals
    n = residuals.shape[1]
    for i in range(n_nodes):
        for j in range(n):
            residuals[i, j] = network.activations[i, j] - network.biases[i]
        for k in range(n_nodes):
            if network.parents[k, i]:
                w = network.weights[k, i]
                for j in range(n):
                    residuals[i, j] -= w * network.outputs[k, j]


@bare_kernel
def move_unit(source, target, n_nodes, network):
    """Move all of a slot but its edges to another, and clear its weights."""
    if source != target:
        network.biases[target] = network.biases[source]
        network.precisions[target] = network.precisions[source]
        for j in range(network.residuals.shape[1]):
            network.activations[target, j] = network.activations[source, j]
            network.outputs[target, j] = network.outputs[source, j]
            network.residuals[target, j] = network.residuals[source, j]
        for i in range(n_nodes):
            network.weights[target, i] = network.weights[source, i]
        for i in range(n_nodes):
            network.weights[i, target] = network.weights[i, source]
        network.weights[target, target] = 0.0
    for i in range(n_nodes):
        network.weights[source, i] = 0.0
        network.weights[i, source] = 0.0


class ActivationWork(NamedTuple):
    """Scratch space for one unit.

    Parameters
    ----------
    slope : (N,) float64
        B of the module docstring.
    mean : (N,) float64
        Of the unit given its parents.
    points, weights, trials : (G, BLOCK) float64
        Standardised candidates, weights relative to exp(largest), outputs.
    largest, total : (BLOCK,) float64
    """

    slope: np.ndarray
    mean: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    trials: np.ndarray
    largest: np.ndarray
    total: np.ndarray


def activation_work(n_data: int, n_strata: int) -> ActivationWork:
    """Buffers for `n_data` data and `n_strata` candidates of each."""
    grids, rows = np.zeros((3, n_strata, BLOCK)), np.zeros((2, BLOCK))
    return ActivationWork(np.zeros(n_data), np.zeros(n_data), *grids, *rows)


@bare_called_kernel
def children_terms(unit, n_nodes, parents, network, heat, slope):
    """A, and B into `slope`, of the children of a unit; see the module docstring."""
    n = slope.size
    u = network.outputs[unit]
    curvature = 0.0
    for j in range(n):
        slope[j] = 0.0
    for i in range(n_nodes):
        if parents[unit, i]:
            w = network.weights[unit, i]
            e = network.residuals[i]
            scale = heat[i] * network.precisions[i] * w
            curvature += scale * w
            for j in range(n):
                slope[j] += scale * (e[j] + w * u[j])
    return curvature


@bare_called_kernel
def tell_children(unit, n_nodes, parents, network, change):
    """Bring the residuals of a unit's children up to date after a change (N,) of its outputs."""
    for i in range(n_nodes):
        if parents[unit, i]:
            w = network.weights[unit, i]
            e = network.residuals[i]
            for j in range(change.size):
                e[j] -= w * change[j]


@bare_called_kernel
def _draw_strata(rng, first, size, deviation, curvature, current, work):
    """Candidates of a block of data, one in each stratum, with their weights; the sum of these in `total`.

    Parameters
    ----------
    first, size : int
        The block.
    deviation, curvature : float
    current : (N,) float64
        Standardised current values: each takes the place of the candidate in its stratum.
    work : ActivationWork
        Mean and slope are set; out: points, trials, weights, total.
    """
    n_strata = work.points.shape[0]
    width = 2.0 * HALF_WIDTH / n_strata
    for g in range(n_strata):
        for j in range(size):
            work.points[g, j] = -HALF_WIDTH + (g + rng.random()) * width
    for j in range(size):
        z = current[first + j]
        if abs(z) < HALF_WIDTH:
            work.points[min(int((z + HALF_WIDTH) / width), n_strata - 1), j] = z
    for j in range(size):
        work.largest[j] = -np.inf
        work.total[j] = 0.0
    for g in range(n_strata):
        points, trials, weights = work.points[g], work.trials[g], work.weights[g]
        for j in range(size):
            z = points[j]
            u = 1.0 / (1.0 + fast_exp(min(-work.mean[first + j] - deviation * z, 700.0)))
            trials[j] = u
            weights[j] = -0.5 * z * z + u * (work.slope[first + j] - 0.5 * curvature * u)
            work.largest[j] = max(work.largest[j], weights[j])
    for g in range(n_strata):
        weights = work.weights[g]
        for j in range(size):
            weights[j] = fast_exp(weights[j] - work.largest[j])
            work.total[j] += weights[j]


@bare_called_kernel
def _pick(rng, j, work):
    """Number of a candidate of datum j of the block, by its weight."""
    n_strata = work.points.shape[0]
    left = rng.random() * work.total[j]
    for g in range(n_strata - 1):
        left -= work.weights[g, j]
        if left < 0.0:
            return g
    return n_strata - 1


@bare_kernel
def redraw_unit(rng, unit, n_nodes, network, heat, work):
    """Stratified conditional importance resampling of one hidden unit in all data.

    The current value is kept as the candidate of its own stratum and one candidate is chosen by its weight: exact
    whatever the number of strata. A datum whose value lies outside the strata is left as it is.

    Parameters
    ----------
    rng : numpy.random.Generator
    unit : int
    n_nodes : int
    network : BeliefNetwork
        In and out; residuals are kept up to date.
    heat : (K,) float64
    work : ActivationWork

    Returns
    -------
    int
        Number of data whose value changed.
    """
    a, u, e = network.activations[unit], network.outputs[unit], network.residuals[unit]
    n = a.size
    root = math.sqrt(network.precisions[unit])
    curvature = children_terms(unit, n_nodes, network.parents, network, heat, work.slope)
    for j in range(n):
        work.mean[j] = a[j] - e[j]
        e[j] *= root  # standardised, for now
    moved = 0
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        _draw_strata(rng, first, size, 1.0 / root, curvature, e, work)
        for j in range(size):
            old = u[first + j]
            if abs(e[first + j]) < HALF_WIDTH:
                g = _pick(rng, j, work)
                z = work.points[g, j]
                if z != e[first + j]:
                    moved += 1
                    e[first + j] = z
                    a[first + j] = work.mean[first + j] + z / root
                    u[first + j] = work.trials[g, j]
            work.slope[first + j] = u[first + j] - old
    for j in range(n):
        e[j] = a[j] - work.mean[j]
    tell_children(unit, n_nodes, network.parents, network, work.slope)
    return moved


@bare_kernel
def walk_unit(rng, unit, n_nodes, network, heat, work):
    """One Metropolis step of a hidden unit in each datum, its length log-uniform over two decades below its deviation.

    Arguments are those of `redraw_unit`.
    """
    a, u, e = network.activations[unit], network.outputs[unit], network.residuals[unit]
    n = a.size
    rho = network.precisions[unit]
    deviation = 1.0 / math.sqrt(rho)
    curvature = children_terms(unit, n_nodes, network.parents, network, heat, work.slope)
    for j in range(n):
        work.mean[j] = deviation * fast_exp(-2.0 * math.log(10.0) * rng.random()) * rng.standard_normal()
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        for j in range(size):
            work.total[j] = fast_log(1.0 - rng.random())
        for j in range(size):
            step = work.mean[first + j]
            old = u[first + j]
            new = 1.0 / (1.0 + fast_exp(min(-a[first + j] - step, 700.0)))
            log_ratio = (new - old) * (work.slope[first + j] - 0.5 * curvature * (new + old))
            log_ratio -= 0.5 * rho * step * (2.0 * e[first + j] + step)
            accepted = work.total[j] < log_ratio
            taken = step if accepted else 0.0
            work.slope[first + j] = new - old if accepted else 0.0
            a[first + j] += taken
            e[first + j] += taken
            u[first + j] = new if accepted else old
    tell_children(unit, n_nodes, network.parents, network, work.slope)
