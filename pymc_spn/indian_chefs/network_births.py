"""Births and deaths of a hidden unit without parents: the likelihood's part of their ratios, and the network's changes.

The graph's part (where, which children, how likely the reverse) belongs to the process. A birth draws the unit's bias,
precision and weights from their priors, which cancel. What is left is the ratio of the likelihoods of its children:

* prior births draw its activations from their prior and compare likelihoods as they are;
* guided births shift each child's bias by -w sigmoid(b), multiply its precision by e^xi, xi ~ N(0.15, 0.4^2), and
  draw all activations by stratified importance resampling. The estimate of the children's likelihood with the unit
  integrated out takes the likelihood's place; a death runs the resampling conditionally on the current values. On the
  extended space of all candidates this is exact for any number of strata. Values more than five deviations from the
  mean are never born, so a unit that has one does not die this way;
* collapsed births draw activations from their prior and sum out the children's biases and weights, old and new.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import BLOCK, HALF_WIDTH, draw_strata, pick
from pymc_spn.indian_chefs.regression_kernels import draw_precision
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

LOG_STEP_MEAN, LOG_STEP_DEVIATION = 0.15, 0.4  # of the factor on children's precisions


class Newborn(NamedTuple):
    """A unit that is proposed, and its children as they would be.

    Parameters
    ----------
    own : (2,) float64
        Bias, precision.
    children : (K,) uint8
    weights : (K,) float64
        From the unit to each child.
    biases, precisions : (K,) float64
        Of the children, after the move.
    activations, outputs : (N,) float64
    """

    own: np.ndarray
    children: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    precisions: np.ndarray
    activations: np.ndarray
    outputs: np.ndarray


def empty_newborn(n_slots: int, n_data: int) -> Newborn:
    """Buffers."""
    k = n_slots
    return Newborn(
        np.zeros(2), np.zeros(k, np.uint8), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(n_data), np.zeros(n_data)
    )


@kernel
def draw_newborn(rng, n_nodes, prior, newborn):
    """Bias, precision and weights of a unit from their priors; its children are set already."""
    newborn.own[0] = rng.standard_normal() / math.sqrt(prior.bias_precision)
    newborn.own[1] = draw_precision(rng, 0.0, 0.0, prior)
    for i in range(n_nodes):
        newborn.weights[i] = 0.0
        if newborn.children[i]:
            newborn.weights[i] = rng.standard_normal() / math.sqrt(prior.weight_precision)


@kernel
def draw_prior_activations(rng, newborn):
    """Activations of a unit without parents from their prior."""
    deviation = 1.0 / math.sqrt(newborn.own[1])
    a, u = newborn.activations, newborn.outputs
    for j in range(a.size):
        a[j] = newborn.own[0] + deviation * rng.standard_normal()
    for j in range(a.size):
        u[j] = 1.0 / (1.0 + fast_exp(min(-a[j], 700.0)))


@inner_kernel
def step_children(rng, n_nodes, network, prior, newborn, direction):
    """Shift biases and scale precisions of a unit's children, forward for a birth (1), back for a death (-1).

    Returns
    -------
    float
        Log ratio of their priors, with the Jacobian of the change of precisions.
    """
    centre = 1.0 / (1.0 + math.exp(-min(max(newborn.own[0], -700.0), 700.0)))
    out = 0.0
    for i in range(n_nodes):
        if not newborn.children[i]:
            continue
        xi = direction * (LOG_STEP_MEAN + LOG_STEP_DEVIATION * rng.standard_normal())
        old, new = network.biases[i], network.biases[i] - direction * newborn.weights[i] * centre
        newborn.biases[i] = new
        newborn.precisions[i] = network.precisions[i] * math.exp(xi)
        out -= 0.5 * prior.bias_precision * (new * new - old * old)
        # the density's (shape - 1) xi and the Jacobian's xi
        out += prior.precision_shape * xi - prior.precision_rate * (newborn.precisions[i] - network.precisions[i])
    return out


@kernel
def log_likelihood_change(n_nodes, network, heat, newborn, direction):
    """Log likelihood of the children with the newborn's outputs minus that without; the reverse for a death.

    For a death `direction` is -1, and the newborn describes the unit that dies.
    """
    out = 0.0
    n = newborn.outputs.size
    for i in range(n_nodes):
        if newborn.children[i]:
            w = direction * newborn.weights[i]
            e = network.residuals[i]
            total = 0.0
            for j in range(n):
                change = w * newborn.outputs[j]
                total += change * (2.0 * e[j] - change)
            out += 0.5 * heat[i] * network.precisions[i] * total
    return out


@inner_kernel
def _guide(n_nodes, network, heat, newborn, with_unit, slope):
    """Slope and curvature of the unit's likelihood; log likelihood of children if the unit's output were 0.

    `with_unit` says whether the network's residuals contain the unit already (death) or not (birth); biases and
    precisions are the newborn's for a birth and the network's for a death.
    """
    n = slope.size
    curvature = 0.0
    base = 0.0
    for j in range(n):
        slope[j] = 0.0
    for i in range(n_nodes):
        if not newborn.children[i]:
            continue
        w = newborn.weights[i]
        rho = network.precisions[i] if with_unit else newborn.precisions[i]
        shift = 0.0 if with_unit else network.biases[i] - newborn.biases[i]
        weight = w if with_unit else 0.0
        e = network.residuals[i]
        square = 0.0
        for j in range(n):
            r = e[j] + shift + weight * newborn.outputs[j]
            slope[j] += heat[i] * rho * w * r
            square += r * r
        curvature += heat[i] * rho * w * w
        base += 0.5 * heat[i] * (n * math.log(rho) - rho * square)
    return curvature, base


@inner_kernel
def _children_log_likelihood(n_nodes, network, heat, newborn, is_new, extra):
    """Of the children without the unit, constants left out: as the network has them, or as they would be after death.

    `extra` is the weight with which the unit's output is given back to the residuals.
    """
    n = newborn.outputs.size
    out = 0.0
    for i in range(n_nodes):
        if not newborn.children[i]:
            continue
        rho = newborn.precisions[i] if is_new else network.precisions[i]
        shift = network.biases[i] - newborn.biases[i] if is_new else 0.0
        w = extra * newborn.weights[i]
        e = network.residuals[i]
        square = 0.0
        for j in range(n):
            r = e[j] + shift + w * newborn.outputs[j]
            square += r * r
        out += 0.5 * heat[i] * (n * math.log(rho) - rho * square)
    return out


@inner_kernel
def _resample(rng, newborn, curvature, is_conditional, standardised, work):
    """Activations by stratified resampling; log of the product of the estimates. `work.slope` is set already."""
    a, u = newborn.activations, newborn.outputs
    n = a.size
    deviation = 1.0 / math.sqrt(newborn.own[1])
    n_strata = work.points.shape[0]
    out = n * (math.log(2.0 * HALF_WIDTH / n_strata) - 0.5 * math.log(2.0 * math.pi))
    for j in range(n):
        work.mean[j] = newborn.own[0]
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        draw_strata(rng, first, size, work.mean, deviation, work.slope, curvature, standardised, is_conditional, work)
        for j in range(size):
            out += work.largest[j] + fast_log(work.total[j])
            if not is_conditional:
                g = pick(rng, j, work)
                a[first + j] = work.mean[first + j] + deviation * work.points[g, j]
                u[first + j] = work.trials[g, j]
    return out


@kernel
def guided_birth(rng, n_nodes, network, prior, heat, newborn, work):
    """Log ratio of a guided birth without the graph's part; the newborn gets its activations.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_nodes : int
    network : BeliefNetwork
    prior : NetworkPrior
    heat : (K,) float64
    newborn : Newborn
        Children set, parameters drawn by `draw_newborn`.
    work : ActivationWork
    """
    out = step_children(rng, n_nodes, network, prior, newborn, 1.0)
    out -= _children_log_likelihood(n_nodes, network, heat, newborn, False, 0.0)
    curvature, base = _guide(n_nodes, network, heat, newborn, False, work.slope)
    return out + base + _resample(rng, newborn, curvature, False, work.mean, work)


@kernel
def guided_death(rng, n_nodes, network, prior, heat, newborn, work):
    """Log ratio of a guided death without the graph's part; -inf if a value lies outside the strata.

    The newborn describes the unit that dies (`describe_unit`); its fields for the children get their new values.
    """
    root = math.sqrt(newborn.own[1])
    for j in range(newborn.activations.size):
        if not abs(newborn.activations[j] - newborn.own[0]) * root < HALF_WIDTH:
            return -np.inf
    out = step_children(rng, n_nodes, network, prior, newborn, -1.0)
    out += _children_log_likelihood(n_nodes, network, heat, newborn, True, 1.0)
    curvature, base = _guide(n_nodes, network, heat, newborn, True, work.slope)
    standardised = (newborn.activations - newborn.own[0]) * root
    return out - base - _resample(rng, newborn, curvature, True, standardised, work)


@kernel
def describe_unit(n_nodes, network, unit, newborn):
    """Copy a unit into a `Newborn`; the children's fields hold their current values."""
    newborn.own[0] = network.biases[unit]
    newborn.own[1] = network.precisions[unit]
    for i in range(n_nodes):
        newborn.children[i] = network.parents[unit, i]
        newborn.weights[i] = network.weights[unit, i]
        newborn.biases[i] = network.biases[i]
        newborn.precisions[i] = network.precisions[i]
    newborn.activations[:] = network.activations[unit]
    newborn.outputs[:] = network.outputs[unit]


@kernel
def keep_children(n_nodes, network, newborn):
    """Children's parameters of the newborn: as they are."""
    for i in range(n_nodes):
        newborn.biases[i] = network.biases[i]
        newborn.precisions[i] = network.precisions[i]


@kernel
def insert_unit(n_nodes, network, newborn):
    """Write a newborn into slot `n_nodes`; its edges are in the graph already."""
    k = n_nodes
    network.biases[k] = newborn.own[0]
    network.precisions[k] = newborn.own[1]
    network.activations[k] = newborn.activations
    network.outputs[k] = newborn.outputs
    for j in range(newborn.activations.size):
        network.residuals[k, j] = newborn.activations[j] - newborn.own[0]
    for i in range(n_nodes + 1):
        network.weights[i, k] = 0.0
        network.weights[k, i] = 0.0
    for i in range(n_nodes):
        if newborn.children[i]:
            w = newborn.weights[i]
            shift = network.biases[i] - newborn.biases[i]
            network.weights[k, i] = w
            network.biases[i] = newborn.biases[i]
            network.precisions[i] = newborn.precisions[i]
            e = network.residuals[i]
            for j in range(e.size):
                e[j] += shift - w * newborn.outputs[j]


@kernel
def remove_unit(n_nodes, network, unit, newborn):
    """Take a unit out of the network, children's parameters from `newborn`; the last slot moves into the hole.

    The graph is changed by its own function, before or after.
    """
    for i in range(n_nodes):
        if newborn.children[i]:
            w = newborn.weights[i]
            shift = network.biases[i] - newborn.biases[i]
            network.biases[i] = newborn.biases[i]
            network.precisions[i] = newborn.precisions[i]
            e = network.residuals[i]
            for j in range(e.size):
                e[j] += shift + w * newborn.outputs[j]
    last = n_nodes - 1
    if unit != last:
        network.biases[unit] = network.biases[last]
        network.precisions[unit] = network.precisions[last]
        network.activations[unit] = network.activations[last]
        network.outputs[unit] = network.outputs[last]
        network.residuals[unit] = network.residuals[last]
        for i in range(n_nodes):
            network.weights[unit, i] = network.weights[last, i]
        for i in range(n_nodes):
            network.weights[i, unit] = network.weights[i, last]
        network.weights[unit, unit] = 0.0
    for i in range(n_nodes):
        network.weights[last, i] = 0.0
        network.weights[i, last] = 0.0
