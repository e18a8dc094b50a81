"""Shared by the tests of the collapsed kernels: many sweeps in compiled code, and kernels with planted mistakes.

A sweep of a tiny problem takes 3 microseconds, of which `Sampler.sweep` makes 30 by compacting the network
every time. Here the loop over sweeps is compiled and compacts after every hundredth draw; in between, slots are
freed and used again.
"""

from functools import cache
from types import FunctionType

import numpy as np
from numba import njit

from pymc_spn.gibbs import exact as gibbs_exact
from pymc_spn.gibbs import frontier as gibbs_frontier
from pymc_spn.gibbs import induced_tree as gibbs_induced
from pymc_spn.gibbs.frontier import evaluate_below
from pymc_spn.gibbs.leaf_kernels import add_value, evaluate_leaves, log_predictive, refresh_leaf
from pymc_spn.gibbs.occupancy import write_digits
from tests.networks.tiny import tiny_sampler
from tests.reference import count_keys, independent_total_variation, total_variation

MODULES = {"exact": gibbs_exact, "frontier": gibbs_frontier, "induced_tree": gibbs_induced}
BETWEEN = 100  # draws between two compactions


def sweep_of(kernel):
    return getattr(MODULES[kernel], f"{kernel}_sweep")


def kernels_of(problem):
    """(kernel, frontier) of every valid choice on a problem."""
    below = [("frontier", size) for size in range(1, len(problem.palettes))]
    return [("exact", 0), ("induced_tree", 0), *below]


# ---- kernels with planted mistakes
def wrong_sweep(kernel, **replaced):
    """The kernel with other functions or constants under names of its module; what uses them is compiled anew."""
    module = MODULES[kernel]
    compiled = {name: f.py_func for name, f in vars(module).items() if hasattr(f, "py_func")}
    own = {name: f.__code__ for name, f in compiled.items() if f.__module__ == module.__name__}
    names = vars(module) | replaced  # one namespace: a stand-in reaches every function that uses its name
    touched = set(replaced)
    while more := {n for n, code in own.items() if n not in touched and touched & set(code.co_names)}:
        touched |= more
    for name in touched - set(replaced):
        names[name] = njit(error_model="numpy")(FunctionType(own[name], names))
    return names[f"{kernel}_sweep"]


@njit
def toggle(palette, leaves, d, slot, y, sign):
    """Put a value into a leaf, or take it out again, without telling the sum nodes."""
    leaves.n_data[slot] += np.int32(sign)
    add_value(palette, leaves, d, slot, leaves.n_data[slot], y, sign)
    refresh_leaf(palette, leaves, d, slot, leaves.n_data[slot])


@njit
def evaluate_leaves_with_own(tree, palette, edges, leaves, scratch, y):
    """Stand-in of `evaluate_leaves`: the leaves that the row just left still hold it."""
    for sign in (1.0, -1.0):
        for d in range(y.size):
            r = tree.leaf_region[d]
            slot = edges.begin[r] + scratch.old[r]
            if not scratch.missing[r] and (edges.n_data[slot] > 1 or sign > 0 < edges.n_data[slot]):
                toggle(palette, leaves, d, slot, y[d], sign)
        if sign > 0:
            shift = evaluate_leaves(tree, palette, edges, leaves, scratch, y)
    return shift


@njit
def evaluate_below_with_own(tree, palette, masses, edges, nodes, leaves, scratch, y, top_region, top_node, work):
    """Stand-in of `evaluate_below`: the leaves that the row just left still hold it."""
    value = 0.0
    for sign in (1.0, -1.0):
        for d in range(y.size):
            r = tree.leaf_region[d]
            slot = edges.begin[r] + scratch.old[r]
            if scratch.old[r] >= 0 and (edges.n_data[slot] > 1 or sign > 0 < edges.n_data[slot]):
                toggle(palette, leaves, d, slot, y[d], sign)
        if sign > 0:
            value = evaluate_below(tree, palette, masses, edges, nodes, leaves, scratch, y, top_region, top_node, work)
    return value


LEFT_IN_LEAF = {
    "exact": {"evaluate_leaves": evaluate_leaves_with_own},
    "frontier": {"evaluate_below": evaluate_below_with_own},
    "induced_tree": {"log_predictive_without": log_predictive},
}


# ---- chains
@cache
def compiled_loop(kernel, sweep):
    """Loop over sweeps that writes the digits of every `thin`-th state."""

    # inlined before compilation: as a function of its own the whole kernel would be optimised once more
    @njit(inline="always")
    def one(rng, net, y, slots, first, frontier, work):
        tree, palette, masses, edges, nodes, leaves, scratch, _ = net
        return sweep(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first)[0]

    @njit(inline="always")
    def one_with_frontier(rng, net, y, slots, first, frontier, work):
        tree, palette, masses, edges, nodes, leaves, scratch, _ = net
        return sweep(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first, frontier, work)[0]

    step = one_with_frontier if kernel == "frontier" else one

    @njit
    def loop(rng, net, y, slots, frontier, work, thin, at, out):
        draw, sweeps, row = at
        while draw < out.shape[0]:
            while sweeps < thin:
                row = step(rng, net, y, slots, row, frontier, work)
                if row < y.shape[0]:
                    return draw, sweeps, row  # a region ran full
                sweeps += 1
                row = 0
            write_digits(net.tree, net.palette, net.edges, net.nodes, net.leaves, slots, out[draw])
            draw += 1
            sweeps = 0
        return draw, sweeps, row

    return loop


def draw_digits(sampler, rng, kernel, frontier=0, draws=1000, thin=1, sweep=None):
    """Digits (draws, N, R) of every `thin`-th sweep of a chain that goes on from the sampler's state."""
    loop = compiled_loop(kernel, sweep or sweep_of(kernel))
    out = np.empty((draws, *sampler.slots.shape), np.int32)
    for begin in range(0, draws, BETWEEN):
        part, at = out[begin : begin + BETWEEN], (0, 0, 0)
        while at[0] < len(part):
            sampler.compact()
            state = (sampler.net, sampler.coded, sampler.slots)
            at = loop(rng, *state, frontier, sampler.work, thin, at, part)
    return out


def variation_ratio(problem, exact, kernel, frontier=0, draws=8000, thin=5, chains=None, seed=1, sweep=None):
    """Total variation to the exact posterior in units of what as many independent draws score.

    Both are means over several chains: with thirty states the total variation of independent draws themselves
    has a standard deviation of 15-20%, and one chain in a thousand comes out at 1.54 by chance alone. There are
    as many chains as bring it below 9%.
    """
    chains = max(4, 80 // (len(exact) - 1)) if chains is None else chains
    scores = []
    for rng in np.random.default_rng([seed, frontier]).spawn(chains):
        sampler = tiny_sampler(problem)
        draw_digits(sampler, rng, kernel, frontier, 20, 1, sweep)  # away from the start
        found = draw_digits(sampler, rng, kernel, frontier, draws, thin, sweep)
        scores.append(total_variation(count_keys(found, problem), exact))
    rng = np.random.default_rng(0)
    independent = [independent_total_variation(exact, draws, rng) for _ in range(200)]
    return float(np.mean(scores) / np.mean(independent))
