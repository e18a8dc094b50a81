"""Which prefixes a lattice should hold: beams guided by Gibbs orders, refined by what the lattice then knows."""

import math
from typing import Any

import numpy as np

from pymc_spn.dags import beam_kernels, order_gibbs_kernels, order_mcmc_kernels
from pymc_spn.dags.leaf_tables import LeafTables
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.passes import LatticePasses
from pymc_spn.dags.prefix_lattice import PrefixLattice
from pymc_spn.numerics.progress_bars import ProgressBar

SWEEPS = 64  # of d relocations from a random start to an order that counts as a draw
_REFERENCE_STARTS = 32
_OUTSIDERS = 100  # Gibbs orders that are looked at in each round of refinement
_SHORT = 32  # sweeps behind orders that only guide the search
_AT_ONCE = 64  # Gibbs orders between two looks at a progress bar


def gibbs_orders(
    scores: ParentSetScores, n: int, rng: np.random.Generator, sweeps: int = SWEEPS, progressbar: bool = False
) -> np.ndarray:
    """(n, d) orders, each the end of a relocation Gibbs chain of its own from a random start."""
    out = np.empty((n, scores.d), np.int64)
    arrays = scores.slots, scores.offsets, scores.log_sums, scores.must_precede
    with ProgressBar("Drawing Gibbs orders", n, progressbar) as bar:
        for start in range(0, n, _AT_ONCE):
            part = out[start : start + _AT_ONCE]
            order_gibbs_kernels.independent_orders(rng, sweeps, *arrays, part)
            bar.advance(len(part))
    return out


def order_log_weights(scores: ParentSetScores, orders: np.ndarray) -> np.ndarray:
    """Log weight of each order, parent sets summed out."""
    out = np.empty(len(orders))
    order_mcmc_kernels.order_log_weights(orders, scores.slots, scores.offsets, scores.log_sums, out)
    return out


def beam_width(d: int, n_prefixes: float) -> int:
    """Width at which the levels of a beam hold together about `n_prefixes` sets."""
    sizes = np.array([math.comb(d, k) for k in range(1, d)], float)
    low, high = 1, max(int(n_prefixes), 1)
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(sizes, middle).sum() + 2 <= n_prefixes:
            low = middle
        else:
            high = middle - 1
    return low


def passes_of(scores: ParentSetScores, lattice: PrefixLattice, tables: LeafTables) -> LatticePasses:
    """Passes over a lattice, with the subset index of every edge."""
    return LatticePasses(lattice, lattice.indices(scores), tables)


def search_steps(d: int, refine: int) -> int:
    """Steps that `search` counts: the levels of each beam, and as many for the lattice that is made of it."""
    return 2 * d * (refine + 1)


def search(
    tables: LeafTables,
    max_prefixes: int,
    refine: int,
    beam_factor: float,
    rng: np.random.Generator,
    bar: ProgressBar,
) -> PrefixLattice:
    """Prefixes of most posterior weight.

    A beam holds `beam_factor` times as many prefixes as wanted. Each round of refinement repeats it with the
    completions that the last lattice knows, and adds the prefixes of Gibbs orders that fell outside. At the end the
    prefixes are ranked by their posterior probability, and the best kept, always with those of one good order.
    """
    scores = tables.scores
    starts = gibbs_orders(scores, _REFERENCE_STARTS, rng, _SHORT)
    weights = order_log_weights(scores, starts)
    if not np.isfinite(weights.max()):
        raise ValueError("scores: no order was found in which every variable has a possible parent set")
    references = starts[np.argsort(-weights, kind="stable")[:1]]
    width = beam_width(scores.d, beam_factor * max_prefixes)
    known = np.zeros(16, np.int64), np.zeros(16)
    extra = [prefixes_of(references)]
    for round_number in range(refine + 1):
        found = _beam(scores, width, references, known, bar)
        lattice = PrefixLattice.of_prefixes(scores.d, np.concatenate([found, *extra]))
        passes = passes_of(scores, lattice, tables)
        bar.advance(scores.d)
        if round_number < refine:
            known = _remembered(lattice, passes)
            orders = gibbs_orders(scores, _OUTSIDERS, rng, _SHORT)
            extra.append(prefixes_of(orders[~lattice.holds(orders)]))
    if lattice.n_prefixes > max_prefixes:
        share = passes.prefix.copy()
        share[np.isin(lattice.masks, prefixes_of(references))] = np.inf  # the rest may hold no complete order
        best = np.argsort(-share, kind="stable")[: max_prefixes - 2]  # the empty set and the whole are added
        lattice = PrefixLattice.of_prefixes(scores.d, lattice.masks[best])
    return lattice


def prefixes_of(orders: np.ndarray) -> np.ndarray:
    """All prefixes of some orders, as bits."""
    return np.cumsum(np.left_shift(np.int64(1), np.asarray(orders, np.int64)), axis=-1).ravel()


def _beam(scores: ParentSetScores, width: int, references: np.ndarray, known: Any, bar: ProgressBar) -> np.ndarray:
    """Prefixes kept at every level; none if no order is possible."""
    held, sums = np.zeros(1, np.int64), np.zeros(1)
    levels = [held]
    keys, values = np.empty(0, np.int64), np.empty(0)
    for level in range(scores.d):
        room = 2 * held.size * (scores.d - level)
        if room > keys.size or 8 * room < keys.size:
            capacity = max(16, 1 << (room - 1).bit_length())
            keys, values = np.empty(capacity, np.int64), np.empty(capacity)
        held, sums = beam_kernels.beam_level(
            level,
            width,
            held,
            sums,
            references,
            scores.lookup,
            scores.offsets,
            scores.log_sums,
            scores.precede_sets,
            *known,
            keys,
            values,
        )
        if held.size == 0:
            return held
        levels.append(held)
        bar.advance()
    return np.concatenate(levels)


def _remembered(lattice: PrefixLattice, passes: LatticePasses) -> tuple[np.ndarray, np.ndarray]:
    log_completion = passes.log_completion
    good = np.isfinite(log_completion)
    size = 16
    while size < 2 * int(good.sum()):
        size *= 2
    known = np.zeros(size, np.int64), np.zeros(size)
    beam_kernels.remember(lattice.masks[good], log_completion[good], *known)
    return known
