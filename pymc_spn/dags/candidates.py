"""Which variables may be parents of each: all that knowledge allows, or the best few by the greedy rule."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.dags.constraints import Constraints
from pymc_spn.numerics.progress_bars import ProgressBar

FIRST = 10  # candidates that the greedy rule chooses by default
MOST = 16  # of which a default choice has at most, beside probable ones
LARGEST = 20  # of which it has at most with these
_TOGETHER = 6  # last candidates taken at once where every scan asks the data anew


def bits_of(mask: int) -> list[int]:
    """Positions of the set bits, ascending."""
    return [j for j in range(mask.bit_length()) if mask >> j & 1]


def choose_candidates(
    scorer: Any,
    constraints: Constraints,
    limits: Sequence[int],
    by_size: np.ndarray,
    by_edge: np.ndarray,
    names: Sequence[str],
    bar: ProgressBar,
) -> list[list[int]]:
    """Candidate parents of each variable, ascending: at most its limit.

    Starts from the required parents and adds one variable u at a time (Viinikka et al. 2020, arXiv:2010.00684,
    "greedy"). It is the one that reaches the highest score of any set S + u with S among the candidates so far. Only
    sets that hold the newest candidate are looked at: the others' best is remembered.
    """
    chosen = []
    for child, (allowed, most) in enumerate(zip(constraints.allowed, limits, strict=True)):
        required = np.flatnonzero(constraints.required[child]).tolist()
        if len(required) > most:
            raise ValueError(
                f"max_candidates = {most} leaves no room for the {len(required)} required parents of {names[child]!r}"
            )
        possible = np.flatnonzero(allowed).tolist()
        if len(possible) > most:
            possible = _greedy(scorer, child, required, possible, most, by_size, by_edge)
        chosen.append(sorted(possible))
        bar.advance()
    return chosen


def _greedy(scorer, child, required, possible, n_wanted, by_size, by_edge):
    held: list[int] = []
    others = [j for j in possible if j not in required]
    best = dict.fromkeys(others, -np.inf)
    base = list(required)
    while len(held) + len(required) < n_wanted:
        found = best_with_each(scorer, child, base, held[:-1], others, by_size, by_edge)
        for u, score in zip(others, found, strict=True):
            best[u] = max(best[u], float(score))
        missing = n_wanted - len(required) - len(held)
        ranked = sorted(others, key=lambda u: (-best[u], u))
        take = missing if not hasattr(scorer, "scan") and missing <= _TOGETHER else 1
        held += ranked[:take]
        others = [u for u in others if u not in held]
        base = [*required, held[-1]]
    return [*required, *held]


def best_with_each(scorer, child, base, free, others, by_size, by_edge):
    """(len(others),) best score, with the prior, of the base and each other, joined with any subset of `free`."""
    if hasattr(scorer, "scan"):
        return scorer.scan(child, base, free, others, by_size, by_edge)
    found = np.empty(len(others))
    for place, u in enumerate(others):
        table = scorer.table(child, [*base, u], free)
        found[place] = (table + subset_prior(child, [*base, u], free, by_size, by_edge)).max()
    return found


def subset_prior(
    child: int, base: Sequence[int], free: Sequence[int], by_size: np.ndarray, by_edge: np.ndarray
) -> np.ndarray:
    """(2^k,) log prior of the base joined with every subset of k free candidates."""
    sizes, edges = np.array([len(base)]), np.array([float(by_edge[child, list(base)].sum())])
    for j in free:
        sizes = np.concatenate([sizes, sizes + 1])
        edges = np.concatenate([edges, edges + by_edge[child, j]])
    return by_size[sizes] + edges


def require(table: np.ndarray, candidates: Sequence[int], required: np.ndarray) -> None:
    """Rule out the sets that lack a required parent."""
    for k, j in enumerate(candidates):
        if required[j]:
            table.reshape(-1, 2, 1 << k)[:, 0] = -np.inf
