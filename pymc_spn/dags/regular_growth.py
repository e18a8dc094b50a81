"""Growing a `RegularTree` with an oracle that says which splits carry the posterior, and how much of it they hold."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.dags import order_gibbs_kernels, regular_kernels
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.mcmc_chain import ranked_sets
from pymc_spn.dags.regular_tree import RegularTree
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES, CoverageWarning

ORACLES = {
    "random": regular_kernels.RANDOM,
    "order_mcmc": regular_kernels.ORDER_MCMC,
    "partition_mcmc": regular_kernels.PARTITION_MCMC,
    "dibs": regular_kernels.GIVEN_ORDERS,
}
MOST_NODES = 50_000_000
_ENUMERATED = 4  # scopes up to this size are enumerated, as in the paper
_STEPS_OF_A_LEVEL = 32  # of the progress bar
CHAINS, SETTLE, STATES, THIN = 40, 48, 5, 4  # of the Gibbs orders that measure every support


def grow(
    scores: LocalScores,
    expansion_factors: Sequence[int],
    oracle: str,
    rng: np.random.Generator,
    data: Any = None,
    dibs: dict[str, Any] | None = None,
    progressbar: bool = False,
) -> RegularTree:
    """A tree with given numbers of splits; see `OrderSPN.regular`."""
    d = scores.d
    if oracle not in ORACLES:
        raise ValueError(f"oracle must be one of {list(ORACLES)}, got {quoted(oracle)}")
    factors = _factors(expansion_factors, d)
    orders = np.empty((0, d), np.int64)
    if oracle == "dibs":
        from pymc_spn.dags.dibs_oracle import dibs_orders

        orders = dibs_orders(scores, data, rng, dibs or {})
    elif data is not None or dibs is not None:
        raise ValueError(f'data and dibs belong to oracle="dibs", not to {oracle!r}')
    _probe(scores, rng)
    ranked = ranked_sets(scores)
    before, scope = np.zeros(1, np.int64), np.array([-1 if d == 64 else (1 << d) - 1], np.int64)
    all_before, all_scope, all_counts = [before], [scope], []
    with ProgressBar("Splitting variables", len(factors) * _STEPS_OF_A_LEVEL, progressbar) as bar:
        for factor in factors:
            counts, splits = np.empty(before.size, np.int64), np.zeros((before.size, factor), np.int64)
            ends = np.linspace(0, before.size, _STEPS_OF_A_LEVEL + 1).astype(np.int64)
            for part in map(slice, ends[:-1], ends[1:]):  # the bar moves between parts; the draws are those of one call
                regular_kernels.split_level(
                    rng, before[part], scope[part], factor, ORACLES[oracle], _ENUMERATED, orders, scores.candidates,
                    scores.lookup, scores.offsets, scores.log_sums, ranked, scores.log_scores, scores.precede_sets,
                    counts[part], splits[part],
                )  # fmt: skip
                bar.advance()
            all_counts.append(counts)
            owner = np.repeat(np.arange(before.size), counts)
            chosen = splits[np.arange(factor) < counts[:, None]]
            before, scope = (
                np.column_stack([before[owner], before[owner] | chosen]).ravel(),
                np.column_stack([chosen, scope[owner] & ~chosen]).ravel(),
            )
            all_before.append(before)
            all_scope.append(scope)
    all_counts.append(np.zeros(before.size, np.int64))
    ptr = np.concatenate([[0], np.cumsum(np.concatenate(all_counts))])
    return RegularTree(scores.names, np.concatenate(all_before), np.concatenate(all_scope), ptr)


def _factors(expansion_factors: Any, d: int) -> list[int]:
    """One factor for each level of halving."""
    levels = max(d - 1, 0).bit_length()
    if isinstance(expansion_factors, str) or not isinstance(expansion_factors, Sequence | np.ndarray):
        raise TypeError(f"expansion_factors must be a sequence of integers, got {quoted(expansion_factors)}")
    factors = list(expansion_factors)
    for place, k in enumerate(factors):
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"expansion_factors[{place}] must be an integer of at least 1, got {quoted(k)}")
    if d < 2 or len(factors) != levels:
        raise ValueError(
            f"expansion_factors must have one entry for each of the {levels} levels of {d} variables, got {factors}"
        )
    nodes = 1.0
    for k in factors:
        nodes *= 2 * float(k)
    if nodes > MOST_NODES:
        raise ValueError(
            f"expansion_factors {factors} give up to {nodes:.3g} nodes, more than {MOST_NODES:,}; use smaller factors"
        )
    return [int(k) for k in factors]


def _probe(scores: LocalScores, rng: np.random.Generator) -> None:
    """Refuse scores without any graph, before an oracle meets them."""
    from pymc_spn.dags.mcmc_chain import OrderChain

    OrderChain(scores).start(rng)


def measure[P: Any](post: P, rng: np.random.Generator) -> P:
    """The posterior with the coverage of its support, and a warning where that is below one half.

    Coverage is the share of Gibbs orders inside: chains of their own, some states of each. The error is that between
    chains, at least that of independent orders, and never zero.
    """
    scores, d = post.scores, post.scores.d
    arrays = scores.slots, scores.offsets, scores.log_sums, scores.must_precede
    starts, orders = np.empty((CHAINS, d), np.int64), np.empty((CHAINS, STATES, d), np.int64)
    order_gibbs_kernels.independent_orders(rng, SETTLE, *arrays, starts)
    for chain, start in zip(orders, starts, strict=True):
        order_gibbs_kernels.chain_of_orders(rng, start, THIN, *arrays, chain)
    inside = post._holds(orders.reshape(-1, d)).reshape(CHAINS, STATES).mean(axis=1)
    share = float(inside.mean())
    smoothed = (CHAINS * share + 0.5) / (CHAINS + 1) if share in (0.0, 1.0) else share
    n = CHAINS if share in (0.0, 1.0) else CHAINS * STATES
    error = max(float(inside.std(ddof=1)) / math.sqrt(CHAINS), math.sqrt(smoothed * (1.0 - smoothed) / n))
    post._measured = share, error
    if share < 0.5:
        warnings.warn(
            f"the support of this OrderSPN holds {share:.3f} ± {error:.3f} of the posterior over orders. Its answers "
            "can be far from the posterior's, and too certain: take larger expansion_factors, or use ps.DagOrder and "
            "pm.sample, which can reach all orders",
            CoverageWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return post
