"""Orders drawn by Markov chains until the edges of all chains agree; draws of graphs, and the most probable one."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.dags import lattice_kernels, order_gibbs_kernels, order_mcmc_kernels
from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.constraints import closure
from pymc_spn.dags.labelled_answers import Evidence, joined
from pymc_spn.dags.leaf_tables import LeafTables
from pymc_spn.dags.mcmc_chain import POWERS, random_start, run_chain
from pymc_spn.dags.parent_set_scores import edges_given_orders, places_of_orders
from pymc_spn.dags.prefix_lattice import OrderPaths
from pymc_spn.numerics.answer_steps import Counter, each
from pymc_spn.numerics.chain_mixing import r_hat_and_size
from pymc_spn.numerics.cluster_clients import worked_out
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.read_only_views import read_only_view

STARTS = 10  # random orders, of which each chain takes the one from which the best graph is climbed to
SETTLE = 64  # sweeps of each chain from there
ENOUGH = 1.02  # R-hat of edges at which no further round is run
ROUNDS = (False, 1), (False, 2), (True, 1), (True, 2), (True, 4)  # whether with replicas, and sweeps an order
STUCK = 1e6  # R-hat of chains that each stay where they are, but for rounding
RARE = 0.01  # edges that are less probable than this, or nearer to certain, have no say in R-hat
LEAST_SHARE = 0.1  # of the orders that must count after weighting; below, orders are drawn anew


def must_stand_before(tables: LeafTables) -> np.ndarray | None:
    """(d, d) bool: what stands before each variable, by the tiers and the present edges; None if that is a cycle."""
    before = tables.scores.must_precede.copy()
    for i, present in enumerate(tables.present):
        before[i, bits_of(present)] = True
    before = closure(before)
    return None if before.diagonal().any() else before


class SharedByOrders(NamedTuple):
    """What all chains read: `OrderPaths` of the local scores, and what stands before each variable."""

    slots: np.ndarray
    offsets: np.ndarray
    sums: np.ndarray  # (P, .) log sums of leaves, times the power of each replica
    maxima: np.ndarray
    before: np.ndarray


class RelocationChain(NamedTuple):
    """The state of a chain of orders: its own in the first row, those of its replicas below."""

    rng: np.random.Generator
    states: np.ndarray  # (P, d)
    n_draws: int


def settled(chain: RelocationChain, tables: SharedByOrders) -> RelocationChain:
    """The chain after its first sweeps, from a start of its own."""
    starts = (random_start(chain.rng, tables.before) for _ in range(STARTS))
    states = best_climbed(starts, tables.slots, tables.offsets, tables.maxima, tables.before)[0][None]
    after, _ = drawn_on(chain._replace(states=states, n_draws=1), tables, SETTLE)
    return after._replace(n_draws=chain.n_draws)


def best_climbed(
    starts: Iterable[np.ndarray], slots: np.ndarray, offsets: np.ndarray, maxima: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, float]:
    """The best order that moves of single variables lead to from some orders, which are lost, and its log weight."""
    found = [(order_gibbs_kernels.climb(order, slots, offsets, maxima, before), order) for order in starts]
    weight, order = max(found, key=lambda pair: pair[0])
    return order, weight


def drawn_on(chain: RelocationChain, tables: SharedByOrders, thin: int) -> tuple[RelocationChain, np.ndarray]:
    """The chain after its draws, and these (n, d); with its replicas if the tables have sums for them."""
    states, arrays = chain.states.copy(), (tables.slots, tables.offsets, tables.sums, tables.before)
    orders = run_chain(chain.rng, states, chain.n_draws, thin, arrays)
    return chain._replace(states=states), orders


def draw_orders(
    leaves: LeafTables,
    n_chains: int,
    n_draws: int,
    rng: np.random.Generator,
    progressbar: bool,
    client: Any = None,
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Orders (chain, draw, d), their log weights and how the chains have mixed; see `OrderPaths`.

    Relocation Gibbs from starts of their own: the best graph that is climbed to from some random orders. A round leaves
    out what was before it. After the second, chains exchange their orders with replicas of flatter weights. It ends
    with the first round after which R-hat of the edges is at most 1.02. Chains run in threads, or on the workers of a
    `distributed.Client`, with the same bits.

    Raises
    ------
    ValueError
        If no order was found in which every variable has a possible parent set.
    """
    scores, before = leaves.scores, must_stand_before(leaves)
    nothing = "scores: no order was found in which every variable has a possible parent set"
    if before is None:
        raise ValueError(nothing)
    tables = SharedByOrders(scores.slots, scores.offsets, leaves.flat_log_sums()[None], leaves.flat_maxima(), before)
    chains = [RelocationChain(own, np.empty((1, scores.d), np.int64), n_draws) for own in rng.spawn(n_chains)]
    left = n_chains * sum(thin * (POWERS.size if tempered else 1) for tempered, thin in ROUNDS)
    with counted("Drawing orders", progressbar) as bar:
        bar.expect(left)
        chains = list(worked_out(client, settled, chains, tables, advance=lambda _: None))
        for tempered, thin in ROUNDS:
            if tempered and len(tables.sums) == 1:
                tables = tables._replace(sums=read_only_view(POWERS[:, None] * tables.sums))
                chains = [c._replace(states=np.repeat(c.states, POWERS.size, axis=0)) for c in chains]
            steps = thin * (POWERS.size if tempered else 1)
            advance = partial(_advance, bar, steps)
            found = list(worked_out(client, drawn_on, chains, tables, thin, advance=advance))
            left -= steps * n_chains
            chains, orders = [chain for chain, _ in found], np.stack([one for _, one in found])
            log_weights, mixing = mixing_of(leaves, orders)
            if n_chains == 1 or not mixing[0] > ENOUGH:
                break
        bar.advance(left)  # rounds that were not needed
    if not (log_weights > -np.inf).all():
        raise ValueError(nothing)
    return orders, log_weights, mixing


def _advance(bar: Counter, steps: int, _: RelocationChain) -> None:
    bar.advance(steps)


def mixing_of(tables: LeafTables, orders: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Log weights (chain * draw,) of orders, and how well the chains have mixed.

    That is the largest R-hat of the edges that are neither rare nor certain and of the log weight, and the effective
    number of orders by their log weights.
    """
    n_chains, n_draws, d = orders.shape
    scores, sums = tables.scores, tables.flat_log_sums()
    places = places_of_orders(scores, orders.reshape(-1, d))
    log_weights = sums[places].sum(axis=1)
    edges = edges_given_orders(scores, sums, places).reshape(n_chains, n_draws, -1)
    mean = edges.mean(axis=(0, 1))
    r_hat, _ = r_hat_and_size(edges[:, :, (mean > RARE) & (mean < 1.0 - RARE)], sized=False)
    (own,), (size,) = r_hat_and_size(log_weights.reshape(n_chains, n_draws, 1))
    found = np.append(r_hat, own)
    known = found[~np.isnan(found)]
    largest = float(known.max()) if known.size else float("nan")
    return log_weights, (np.inf if largest > STUCK else largest, float(size))


def drawn_anew(post: Any, evidence: Evidence, seed: int) -> Any:
    """The posterior under more evidence, by orders drawn under it, where few of the orders at hand would count.

    Evidence is added step by step, each as far as a tenth of the orders count. So the probability of all evidence is a
    product of known ones. Where no order allows a step, its probability is taken for that of half an
    order, and has no standard error.
    """
    while True:
        left = items(evidence, post.evidence)
        told = [post._reweighted(joined(post.evidence, one)) for one in left]
        probable = np.argsort([-p._log_total for p in told], kind="stable")
        best = told[probable[0]]
        seen = best._log_total > -np.inf
        for k in probable[1:]:
            more = post._reweighted(joined(best.evidence, left[k]))
            if more._share_that_counts < LEAST_SHARE:
                break
            best = more
        if not seen and not _is_possible(post._reweighted(evidence)):
            return post._reweighted(evidence)
        if best.evidence == evidence and best._share_that_counts >= LEAST_SHARE:
            return best
        n_chains, n_draws, _ = post._lattice.orders.shape
        rng = np.random.default_rng([seed, *(m for masks in best.evidence for m in masks)])
        try:
            orders, log_weights, mixing = draw_orders(best._leaf_tables, n_chains, n_draws, rng, False)
        except ValueError:  # no order was found
            return post._reweighted(evidence)
        log_total = best._log_total if seen else post._log_total - np.log(2.0 * n_chains * n_draws)
        error = best._log_total_error if seen else np.nan
        post = post._on(OrderPaths.of(orders, log_weights, mixing, log_total, error), best.evidence)
        if post.evidence == evidence:
            return post


def _is_possible(post: Any) -> bool:
    """Whether the evidence closes no circle and leaves every variable a parent set."""
    return post._leaf_tables.possible and must_stand_before(post._leaf_tables) is not None


def items(evidence: Evidence, known: Evidence) -> list[Evidence]:
    """Each present or absent edge that is not known yet, as evidence of its own."""
    found = []
    for kind in (0, 1):
        for child, (mask, old) in enumerate(zip(evidence[kind], known[kind], strict=True)):
            for parent in bits_of(mask & ~old):
                one = [[0] * len(evidence[0]), [0] * len(evidence[0])]
                one[kind][child] = 1 << parent
                found.append((tuple(one[0]), tuple(one[1])))
    return found


BEST = 50  # best sampled orders from which the most probable graph is searched


def draw(post: Any, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) orders and (n, d, d) graphs."""
    lattice, orders = post.lattice, np.empty((n, post.scores.d), np.int64)
    from_source = post._lattice_passes.from_source
    order_mcmc_kernels.draw_orders(rng, lattice.ptr, lattice.source, lattice.variable, from_source, orders)
    return orders, graphs_given_orders(post._leaf_tables, orders, rng)


def graphs_given_orders(tables: LeafTables, orders: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, d, d) bool: a graph given each order."""
    scores, flat = tables.scores, tables.flat_log_sums()
    graphs = np.zeros((len(orders), scores.d, scores.d), bool)
    for i in each(range(scores.d)):
        own = tables.ranked(i), tables.log_scores(i), flat[scores.offsets[i] : scores.offsets[i + 1]]
        order_mcmc_kernels.draw_parents(rng, i, orders, scores.slots, scores.candidates, *own, graphs)
    return graphs


def most_probable(post: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Order, graph and log weight of the most probable pair; of sampled orders, that of a search from the best ones."""
    scores, lattice, tables = post.scores, post.lattice, post._leaf_tables
    maxima = tables.flat_maxima()
    if isinstance(lattice, OrderPaths):
        order, log_weight = _climbed(tables, lattice.orders.reshape(-1, scores.d), maxima)
    else:
        weights, order = maxima[post._lattice_passes.places], np.empty(scores.d, np.int64)
        log_weight = lattice_kernels.best_chain(lattice.ptr, lattice.source, lattice.variable, weights, order)
    graph = np.zeros((scores.d, scores.d), bool)
    before = places_of_orders(scores, order[None])[0] - scores.offsets[:-1]
    for i, inside in enumerate(before.tolist()):
        ranked = tables.ranked(i)
        m = ranked[np.argmax(ranked & ~inside == 0)]  # the best set that stands before
        graph[scores.candidates[i, bits_of(int(m))], i] = True
    return order, graph, float(log_weight)


def _climbed(tables: Any, orders: np.ndarray, maxima: np.ndarray) -> tuple[np.ndarray, float]:
    """The best order that moves of single variables lead to from the best of some orders, and its log weight."""
    scores, precede = tables.scores, must_stand_before(tables)
    assert precede is not None  # orders were drawn
    weights = maxima[places_of_orders(scores, orders)].sum(axis=1)
    best = (orders[k].copy() for k in each(np.argsort(-weights, kind="stable")[:BEST].tolist()))
    return best_climbed(best, scores.slots, scores.offsets, maxima, precede)
