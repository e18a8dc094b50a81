"""Candidate parents grown from sampled graphs until no variable outside matters."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.candidates import LARGEST, MOST, best_with_each
from pymc_spn.dags.constraints import Constraints
from pymc_spn.dags.leaf_tables import LeafTables
from pymc_spn.dags.mcmc_chain import short_chains
from pymc_spn.dags.order_sample import graphs_given_orders
from pymc_spn.dags.parent_set_scores import edges_given_orders, pair_matrix, places_of_orders
from pymc_spn.dags.scores import warn
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.trust_warnings import CoverageWarning

if TYPE_CHECKING:
    from pymc_spn.dags.local_scores import LocalScores

ROUNDS = 6  # at most
MATTERS = 0.05  # probability from which a variable becomes a candidate
LIKELY = 0.2  # from which it may be one beyond the usual number, and is missed where there is no room
HARDLY = 0.002  # below which a candidate goes
CHAINS, SETTLE, DRAWS, THIN = 8, 64, 25, 2  # of the orders that each round looks at
SETS = 10  # most frequent drawn parent sets of each variable that are tried with others

type Scored = dict[tuple[int, tuple[int, ...]], np.ndarray]
"""Scores of a child (first) with some parents and each other variable."""


def grown(
    scores: "LocalScores",
    scorer: Any,
    constraints: Constraints,
    terms: tuple[np.ndarray, np.ndarray],
    remade: "Callable[[list[list[int]], LocalScores], LocalScores]",
    progressbar: bool,
) -> "LocalScores":
    """Scores with more candidates, or others, until none that is left out matters.

    Each round draws graphs by short chains, always the same for the same data, and looks for edges whose parent is not
    a candidate. `outside` of the result holds what probabilities these have in the last one.

    Parameters
    ----------
    scores : LocalScores
        With a few candidates of each variable.
    scorer
        That of `scores`.
    constraints : Constraints
    terms : pair of (d,) and (d, d) float64
        Log prior by number of parents, and by edge (child, parent).
    remade : callable
        Scores with other candidates, from their lists and the scores so far.
    progressbar : bool
    """
    rng, known = np.random.default_rng(0), np.full((scores.d, scores.d), np.nan)
    scored: Scored = {}  # rounds differ in few candidates and in few parent sets
    tables = LeafTables(scores)
    with ProgressBar("Looking for candidate parents", ROUNDS + 1, progressbar) as bar:
        for left in range(ROUNDS, -1, -1):
            orders = short_chains(scores, rng, CHAINS, SETTLE, DRAWS, THIN).reshape(-1, scores.d)
            graphs = graphs_given_orders(tables, orders, rng)
            edges = edges_given_orders(scores, scores.log_sums, places_of_orders(scores, orders))
            inside = pair_matrix(scores, edges.mean(axis=0))
            added, swapped = outside_probabilities(scores, scorer, constraints, terms, orders, graphs, scored)
            chosen = _next_candidates(scores, constraints, inside, np.maximum(added, swapped), known)
            bar.advance()
            if not left or all(c == scores.candidate_list(i) for i, c in enumerate(chosen)):
                break
            kept = {i: r for i, r in tables.known.items() if chosen[i] == scores.candidate_list(i)}
            scores = remade(chosen, scores)
            tables = LeafTables(scores, kept)
    if (worst := np.nanmax(np.where(scores.slots.T < 0, added, 0.0))) >= LIKELY:
        parent, child = np.argwhere((added == worst) & (scores.slots.T < 0))[0]
        warn(
            f"{scores.names[parent]!r} was left out of the {scores.n_candidates[child]} candidate parents of "
            f"{scores.names[child]!r}, but it is a parent with a probability of about {worst:.2g}. Answers lack such "
            "edges: raise max_candidates=",
            CoverageWarning,
        )
    return replace(scores, outside=np.where(constraints.allowed.T & (scores.slots.T < 0), added, np.nan))


def outside_probabilities(
    scores: "LocalScores",
    scorer: Any,
    constraints: Constraints,
    terms: tuple[np.ndarray, np.ndarray],
    orders: np.ndarray,
    graphs: np.ndarray,
    scored: Scored,
) -> tuple[np.ndarray, np.ndarray]:
    """(d, d) parents by children, twice: how probable edges are whose parent is not a candidate.

    In each drawn graph, the probability of the edge given the order and the child's other parents. The second is the
    probability that it takes the place of one of these, given that it or this one is there, for the most probable of
    them. Averages over the graphs; those with the child's most frequent parent sets stand for all.

    Parameters
    ----------
    scores, scorer, constraints, terms
        As in `grown`.
    orders : (n, d) int64
    graphs : (n, d, d) bool
        One drawn given each order.
    scored : dict
        (d,) scores of each child's parents and another variable, NaN where not asked yet; in and out.
    """

    def with_others(child: int, base: list[int], others: list[int]) -> np.ndarray:
        row = scored.setdefault((child, tuple(base)), np.full(scores.d, np.nan))
        if new := [j for j in others if np.isnan(row[j])]:
            row[new] = best_with_each(scorer, child, base, [], new, *terms)
        return row[others]

    place = np.argsort(orders, axis=1)
    added, swapped = np.zeros((2, scores.d, scores.d))
    for child in range(scores.d):
        outside = np.flatnonzero(constraints.allowed[child] & (scores.slots[child] < 0)).tolist()
        if not outside:
            continue
        rows = np.packbits(graphs[:, :, child], axis=1)
        rows = rows.view(f"V{rows.shape[1]}").ravel()  # which sort much faster than rows of bool
        _, first, which, times = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
        frequent = np.argsort(-times, kind="stable")[:SETS]
        for s in frequent:
            parents = np.flatnonzero(graphs[first[s], :, child]).tolist()
            index = scores.index_of_parents(child, sum(1 << j for j in parents))
            now = scores.log_scores[scores.offsets[child] + index]
            draws = np.flatnonzero(which == s)
            before = (place[np.ix_(draws, outside)] < place[draws, child][:, None]).sum(axis=0)
            bases = [[j for j in parents if j != p] for p in parents if not constraints.required[child, p]]
            with_each = [with_others(child, base, outside) for base in (parents, *bases)]
            against = np.exp(np.minimum(now - np.array(with_each), 700.0))
            added[outside, child] += before / (1.0 + against[0])
            if bases:
                swapped[outside, child] += before / (1.0 + against[1:].min(axis=0))
        added[outside, child] /= times[frequent].sum()
        swapped[outside, child] /= times[frequent].sum()
    return added, swapped


def _next_candidates(
    scores: "LocalScores", constraints: Constraints, inside: np.ndarray, outside: np.ndarray, known: np.ndarray
) -> list[list[int]]:
    """Candidates of each variable for the next round: those of now and of outside that matter most.

    An edge that is probable one way may be turned, so its child becomes a candidate of its parent. What has been a
    candidate once counts half by the probability that it had then.
    """
    is_inside = scores.slots.T >= 0
    known[is_inside] = inside[is_inside]
    again = np.where(np.isnan(known), outside, 0.5 * (outside + known))
    value = np.maximum(np.where(is_inside, inside, again), inside.T)
    found = []
    for child in range(scores.d):
        held = np.flatnonzero(constraints.required[child]).tolist()
        matters = value[:, child] >= np.where(is_inside[:, child], HARDLY, MATTERS)
        possible = np.flatnonzero(matters & constraints.allowed[child] & ~constraints.required[child]).tolist()
        wanted = sorted(possible, key=lambda j: -value[j, child])
        probable = sum(inside[j, child] >= LIKELY or outside[j, child] >= LIKELY for j in wanted)
        most = max(MOST, min(len(held) + probable, LARGEST), len(held) + 1)
        found.append(sorted([*held, *wanted][:most]))
    return found
