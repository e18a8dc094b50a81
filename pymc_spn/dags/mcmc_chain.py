"""One Markov chain over orders or ordered partitions: what the step methods and the oracles drive."""

from typing import Any

import numpy as np

from pymc_spn.dags import order_gibbs_kernels, order_mcmc_kernels, partition_mcmc_graphs, partition_mcmc_kernels
from pymc_spn.dags.leaf_tables import descending
from pymc_spn.dags.parent_set_scores import ParentSetScores

POWERS = np.array([1.0, 0.85, 0.72, 0.61, 0.52, 0.44, 0.37, 0.3])  # of a chain and its replicas
_TRIALS = 100  # sweeps in search of a state with positive weight


def ranked_sets(scores: ParentSetScores) -> np.ndarray:
    """Flat like `log_scores`: subset indices of each variable by descending score."""
    out = np.empty(scores.log_scores.size, np.int32)
    for i in range(scores.d):
        part = slice(scores.offsets[i], scores.offsets[i + 1])
        out[part] = descending(scores.log_scores[part])
    out.flags.writeable = False
    return out


def random_start(rng: np.random.Generator, before: np.ndarray) -> np.ndarray:
    """(d,) a random order that keeps what stands before each variable."""
    order = np.empty(len(before), np.int64)
    order_gibbs_kernels.random_order(rng, np.arange(order.size), before, order)
    return order


def run_chain(rng: np.random.Generator, states: np.ndarray, n: int, thin: int, arrays: tuple[Any, ...]) -> np.ndarray:
    """(n, d) orders of a chain, with so many sweeps between them; its states, and those of replicas, change."""
    slots, offsets, sums, before = arrays
    orders = np.empty((n, states.shape[1]), np.int64)
    powers = POWERS[: len(sums)]
    order_gibbs_kernels.chain_of_orders(rng, states, powers, thin, slots, offsets, sums, before, orders)
    return orders


def short_chains(
    scores: ParentSetScores, rng: np.random.Generator, n_chains: int, settle: int, n_states: int, thin: int
) -> np.ndarray:
    """(chain, state, d) orders of chains from random starts: so many sweeps until they count, and between states."""
    arrays, starts = (scores.slots, scores.offsets, scores.log_sums[None], scores.must_precede), []
    for _ in range(n_chains):
        starts.append(random_start(rng, scores.must_precede)[None])
        run_chain(rng, starts[-1], 1, settle, arrays)
    return np.stack([run_chain(rng, start, n_states, thin, arrays) for start in starts])


class OrderChain:
    """Relocation Gibbs over orders.

    Parameters
    ----------
    scores : ParentSetScores
    """

    def __init__(self, scores: ParentSetScores):
        self.scores = scores
        self.ranked = ranked_sets(scores)
        self._arrays = scores.slots, scores.offsets, scores.log_sums, scores.must_precede
        self.order = np.arange(scores.d)
        self.parents = np.zeros(scores.d, np.int64)

    def start(self, rng: np.random.Generator) -> None:
        """A random order of positive weight.

        Raises
        ------
        ValueError
            If none is found.
        """
        self.order[:] = random_start(rng, self.scores.must_precede)
        for _ in range(_TRIALS):
            if self._weight_of_order() > -np.inf:
                return
            OrderChain.sweep(self, rng)
        raise ValueError("scores: no order was found in which every variable has a possible parent set")

    def sweep(self, rng: np.random.Generator) -> float:
        """d relocations; the share of variables whose position changed."""
        before = self.order.copy()
        slots, offsets, log_sums, precede = self._arrays
        run_chain(rng, self.order[None], 1, 1, (slots, offsets, log_sums[None], precede))
        return float(np.mean(before != self.order))

    @property
    def log_score(self) -> float:
        """Log weight of the order, parent sets summed out."""
        return self._weight_of_order()

    def _weight_of_order(self) -> float:
        return float(order_mcmc_kernels.positions_log_weight(np.argsort(self.order), *self._arrays))

    def draw_graph(self, rng: np.random.Generator) -> float:
        """Fill `parents` given the order; the graph's log score."""
        s = self.scores
        arrays = s.candidates, s.lookup, s.offsets, s.log_sums, self.ranked, s.log_scores
        return float(order_mcmc_kernels.draw_parents_of_order(rng, self.order, *arrays, self.parents, 0))

    @property
    def state(self) -> np.ndarray:
        """(d,) int64: position of each variable."""
        return np.argsort(self.order)

    @state.setter
    def state(self, positions: Any) -> None:
        if not order_mcmc_kernels.order_of_positions(np.asarray(positions, np.int64), self.order):
            raise ValueError(f"positions of an order must be 0 to {self.order.size - 1}, each once; got {positions}")

    def resting_state(self) -> np.ndarray:
        """A state of positive weight, always the same."""
        self.start(np.random.default_rng(0))
        return self.state


class PartitionChain(OrderChain):
    """Relocation Gibbs and exchanges over ordered partitions, and reversals of edges in a graph given the partition.

    Parameters
    ----------
    scores : ParentSetScores
    """

    def __init__(self, scores: ParentSetScores):
        super().__init__(scores)
        self.arrays = scores.lookup, scores.offsets, scores.log_sums, self.ranked, scores.log_scores
        self.parts = np.zeros(scores.d + 1, np.int64)
        self.n_parts = 0
        self._members = np.arange(scores.d)
        self._scratch = np.empty((6, scores.d + 2), np.complex128)

    def start(self, rng: np.random.Generator) -> None:
        """The levels of a graph drawn given a random order.

        Raises
        ------
        ValueError
            If no graph of positive weight is found.
        """
        super().start(rng)
        super().draw_graph(rng)
        self.n_parts = partition_mcmc_graphs.levels(self.parents, self.order, self.parts)

    @property
    def log_score(self) -> float:
        """Log weight of the partition, graphs summed out."""
        return float(partition_mcmc_kernels.partition_log_weight(self.parts, self.n_parts, 0, True, *self.arrays).real)

    def sweep(self, rng: np.random.Generator) -> float:
        """d relocations, exchanges and reversals of edges; the share of variables whose block changed."""
        before = self.state
        place = self.parts, self.n_parts, self._members, 0
        self.n_parts = partition_mcmc_kernels.sweep(rng, *place, *self.arrays, self._scratch)
        self.draw_graph(rng)
        arrays = self.scores.candidates, *self.arrays
        if partition_mcmc_graphs.reverse_edges(rng, self.scores.d, self.parents, *arrays):
            self.n_parts = partition_mcmc_graphs.levels(self.parents, self._members, self.parts)
        return float(np.mean(before != self.state))

    def draw_graph(self, rng: np.random.Generator) -> float:
        """Fill `parents` given the partition; the graph's log score."""
        return float(
            partition_mcmc_graphs.draw_parents(
                rng, self.parts, self.n_parts, self.scores.candidates, *self.arrays, self.parents
            )
        )

    @property
    def state(self) -> np.ndarray:
        """(d,) int64: block number of each variable."""
        out = np.empty(self.scores.d, np.int64)
        partition_mcmc_graphs.blocks_of_parts(self.parts, self.n_parts, out)
        return out

    @state.setter
    def state(self, blocks: Any) -> None:
        self.n_parts = partition_mcmc_graphs.parts_of_blocks(np.asarray(blocks, np.int64), self.parts)
        if self.n_parts == 0:
            raise ValueError(f"block numbers of a partition must be 0, 1, ... without a gap; got {blocks}")
