"""Parallel tempering of nonlinear Gaussian belief networks: chains whose observed nodes' likelihoods have a power."""

from typing import Any

import numpy as np

from pymc_spn.indian_chefs.cascading_kernels import CascadePrior, make_cascade
from pymc_spn.indian_chefs.graph_state import GraphState
from pymc_spn.indian_chefs.network_chain import NetworkChain, rates_of
from pymc_spn.indian_chefs.network_sweep import REFUSED, TALLY_NAMES
from pymc_spn.indian_chefs.process import HYPERPARAMETERS
from pymc_spn.indian_chefs.regression_kernels import LOG_2PI
from pymc_spn.numerics.quoted_values import quoted


def check_powers(powers: Any) -> np.ndarray:
    """(T,) float64 powers of a likelihood: descending from 1, positive.

    Raises
    ------
    ValueError
        If they are not.
    """
    values = np.array(powers, np.float64)
    is_ladder = values.ndim == 1 and values.size > 0 and values[0] == 1.0 and (np.diff(values) < 0.0).all()
    if not is_ladder or not values[-1] > 0.0:
        raise ValueError(f"powers must descend from 1 and be positive; got {quoted(powers)}")
    return values


class TemperedChains:
    """Chains of one model at several powers of the likelihood, which exchange states.

    Each leaves prior x likelihood^power of its own, and exchanges between neighbours the product of them: the chain of
    power 1 samples the posterior. Hyperparameters belong to it alone: they are drawn given its graph. The others keep a
    reference in their place, since a law that moved with them would no longer be the one that their states have.

    Parameters
    ----------
    chains : sequence of NetworkChain
        With the same data, started.
    powers : sequence of float
        Of the likelihood of the observed nodes; descending from 1 to the hottest, positive.

    Raises
    ------
    ValueError
        If the powers are not those, or not one for each chain.
    """

    def __init__(self, chains: Any, powers: Any) -> None:
        self.chains: list[NetworkChain] = list(chains)
        self.powers = check_powers(powers)
        if len(self.powers) != len(self.chains):
            raise ValueError(f"powers must hold one number for each of {len(self.chains)} chains; got {quoted(powers)}")
        self.set_heat(1.0)
        self.refused = np.zeros(2, np.int64)
        self.tried = np.zeros(max(0, len(self.chains) - 1), np.int64)
        self.accepted = np.zeros_like(self.tried)
        self.reference: Any = None
        self._followed = 0

    @property
    def cold(self) -> NetworkChain:
        """The chain of power 1."""
        return self.chains[0]

    def follow(self, graph_prior: Any) -> None:
        """Move the reference towards hyperparameters, whose later draws count for more; for draws that are not kept."""
        self._followed += 1
        old, share = self.reference or graph_prior, 2.0 / (self._followed + 1.0)
        if isinstance(graph_prior, CascadePrior):
            pairs = zip(old[:2], graph_prior[:2], strict=True)
            masses, concentrations = (a ** (1.0 - share) * b**share for a, b in pairs)
            self.reference = make_cascade(masses, concentrations, bool(graph_prior.passes_layers))
            return
        means = {h: getattr(old, h) ** (1.0 - share) * getattr(graph_prior, h) ** share for h in HYPERPARAMETERS}
        self.reference = graph_prior._replace(**means)

    def sweep(self, rng: np.random.Generator, graph_prior: Any) -> None:
        """One sweep of every chain, then exchanges of every other pair of neighbours.

        Parameters
        ----------
        rng : Generator
        graph_prior : GraphPrior or CascadePrior
            Of the cold chain; the first is the reference of the others, unless there is one.
        """
        before = self.cold.tally[REFUSED].copy()
        if self.reference is None:
            self.reference = graph_prior
        for j, chain in enumerate(self.chains):
            chain.sweep(rng, self.reference if j else graph_prior)
        self.refused += self.cold.tally[REFUSED] - before
        first = int(rng.integers(max(1, min(2, len(self.chains) - 1))))
        for j in range(first, len(self.chains) - 1, 2):
            hot, cold = self.chains[j + 1], self.chains[j]
            gain = self.log_likelihood(hot) - self.log_likelihood(cold)
            log_ratio = self._factor * (self.powers[j] - self.powers[j + 1]) * gain
            if j == 0:
                log_ratio += hot.log_graph(graph_prior) - hot.log_graph(self.reference)
                log_ratio += cold.log_graph(self.reference) - cold.log_graph(graph_prior)
            self.tried[j] += 1
            if log_ratio > -rng.standard_exponential():
                self.accepted[j] += 1
                self.chains[j], self.chains[j + 1] = hot, cold
                hot.set_heat(self._factor * self.powers[j])
                cold.set_heat(self._factor * self.powers[j + 1])

    @property
    def state(self) -> GraphState:
        """Graph of the cold chain."""
        return self.cold.state

    def parameters(self) -> dict[str, np.ndarray]:
        """Of the cold chain, see `NetworkChain.parameters`."""
        return self.cold.parameters()

    def log_network(self) -> float:
        """Of the cold chain, see `NetworkChain.log_network`."""
        return self.cold.log_network()

    def log_data(self, rng: np.random.Generator) -> float:
        """Of the cold chain, see `NetworkChain.log_data`."""
        return self.cold.log_data(rng)

    def set_heat(self, power: float) -> None:
        """Multiply all powers by a number; 1 for the posterior."""
        self._factor = power
        for chain, own in zip(self.chains, self.powers, strict=True):
            chain.set_heat(own * power)

    def counts(self) -> np.ndarray:
        """Tally of all chains (births refused: of the cold one), then exchanges tried and accepted of each pair."""
        tally = np.sum([chain.tally for chain in self.chains], axis=0)
        tally[REFUSED] = self.refused
        return np.vstack([tally, np.column_stack([self.tried, self.accepted])])

    def rates_since(self, before: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        """As `NetworkChain.rates_since`, over all chains, with the share of accepted exchanges of each pair, (T - 1,).

        It is NaN for a pair that was not tried.
        """
        change = self.counts() - before
        tried, accepted = change[len(TALLY_NAMES) :].T
        rates, births = rates_of(change[: len(TALLY_NAMES)], 1.0)
        shares = np.where(tried > 0, accepted / np.maximum(tried, 1), np.nan)
        return rates | {"powers_exchanged": shares}, births

    @staticmethod
    def log_likelihood(chain: NetworkChain) -> float:
        """Of the observed nodes given all else, in nats (of activations)."""
        d, n = chain.n_observed, len(chain.data)
        rho, squares = chain.network.precisions[:d], (chain.network.residuals[:d] ** 2).sum(1)
        return float(0.5 * (n * (np.log(rho) - LOG_2PI) - rho * squares).sum())
