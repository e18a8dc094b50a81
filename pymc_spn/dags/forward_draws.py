"""Exact independent draws of `DagOrder` and `DagPartition`, from the arrays that their random variables hold."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.dags import draw_kernels, lattice_kernels, partition_sum_kernels
from pymc_spn.dags.prefix_lattice import PrefixLattice

MOST_PREFIXES = 1 << 20  # of the order's exact sums: twenty variables, or more in tiers
MOST_IN_PARTITION = 11  # 3^d states, time 4^d: a second
_KEPT = 4  # models whose sums are remembered

_remembered: list[tuple[str, tuple[np.ndarray, ...], Any]] = []


def draw_positions(
    rng: np.random.Generator, lookup: np.ndarray, offsets: np.ndarray, log_sums: np.ndarray, must_precede: np.ndarray
) -> np.ndarray:
    """(d,) int64: positions of the variables in an order from the order-modular posterior.

    Raises
    ------
    ValueError
        If the orders have too many prefixes for exact sums.
    """
    arrays = lookup, offsets, log_sums, must_precede
    lattice, from_source = _sums("order", arrays, _order_sums)
    order = np.empty((1, must_precede.size), np.int64)
    draw_kernels.draw_orders(rng, lattice.ptr, lattice.source, lattice.variable, from_source, order)
    return np.argsort(order[0])


def draw_blocks(
    rng: np.random.Generator,
    lookup: np.ndarray,
    offsets: np.ndarray,
    log_sums: np.ndarray,
    ranked: np.ndarray,
    log_scores: np.ndarray,
) -> np.ndarray:
    """(d,) int64: block numbers of an ordered partition from the structure-modular posterior.

    Raises
    ------
    ValueError
        If there are too many variables for exact sums.
    """
    arrays = lookup, offsets, log_sums, ranked, log_scores
    sums = _sums("partition", arrays, _partition_sums)
    out = np.empty(offsets.size - 1, np.int64)
    partition_sum_kernels.draw_partition(rng, out.size, *arrays, sums, out)
    return out


def _sums(kind: str, arrays: tuple[np.ndarray, ...], make: Callable[..., Any]) -> Any:
    """Sums of the same arrays are made once: a forward sampler asks again for every draw."""
    for name, known, found in _remembered:
        if name == kind and all(a is b or np.array_equal(a, b) for a, b in zip(known, arrays, strict=True)):
            return found
    found = make(*arrays)
    _remembered.append((kind, arrays, found))
    del _remembered[:-_KEPT]
    return found


def _order_sums(lookup: Any, offsets: Any, log_sums: Any, must_precede: Any) -> tuple[PrefixLattice, np.ndarray]:
    d = must_precede.size
    if np.any(must_precede):
        lattice = PrefixLattice.closed_under(must_precede, MOST_PREFIXES)
    else:
        lattice = PrefixLattice.all_prefixes(d) if 1 << d <= MOST_PREFIXES else None
    if lattice is None:
        raise ValueError(
            f"ps.DagOrder: independent forward draws sum over all prefixes of orders, and {d} variables have more than "
            f"{MOST_PREFIXES:,}; draw by pm.sample, or from ps.DagPosterior.from_scores(scores), which samples orders"
        )
    index, log_weights = np.empty(lattice.n_edges, np.int32), np.empty(lattice.n_edges)
    lattice_kernels.edge_indices(lattice.masks, lattice.ptr, lattice.source, lattice.variable, lookup, index)
    lattice_kernels.gather(offsets, log_sums, np.ones(d), lattice.variable, index, log_weights)
    sums, from_source = np.empty(lattice.n_prefixes), np.empty(lattice.n_edges)
    lattice_kernels.log_forward(lattice.ptr, lattice.source, log_weights, sums)
    lattice_kernels.log_shares(lattice.ptr, lattice.source, log_weights, sums, from_source)
    return lattice, from_source


def _partition_sums(lookup: Any, offsets: Any, log_sums: Any, ranked: Any, log_scores: Any) -> np.ndarray:
    d = offsets.size - 1
    if d > MOST_IN_PARTITION:
        raise ValueError(
            f"ps.DagPartition: independent forward draws sum over all ordered partitions, at most {MOST_IN_PARTITION} "
            f"variables, got {d}; draw by pm.sample, or reweight draws of ps.OrderSPN by its structure_modular"
        )
    sums = np.full(3**d, -np.inf)
    partition_sum_kernels.partition_sums(d, lookup, offsets, log_sums, ranked, log_scores, sums)
    return sums
