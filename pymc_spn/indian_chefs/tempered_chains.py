"""Parallel tempering of nonlinear Gaussian belief networks: chains whose observed nodes' likelihoods have a power."""

from typing import Any

import numpy as np

from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.regression_kernels import LOG_2PI


class TemperedChains:
    """Chains of one model at several powers of the likelihood, which exchange states.

    Each leaves prior x likelihood^power of its own, and exchanges between neighbours the product of them: the chain of
    power 1 samples the posterior.

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
        self.powers = np.array(powers, np.float64)
        if self.powers.shape != (len(self.chains),) or not len(self.chains):
            raise ValueError(f"powers must hold one number for each of {len(self.chains)} chains; got {powers!r}")
        if self.powers[0] != 1.0 or not (np.diff(self.powers) < 0.0).all() or not self.powers[-1] > 0.0:
            raise ValueError(f"powers must descend from 1 and be positive; got {powers!r}")
        for chain, power in zip(self.chains, self.powers, strict=True):
            chain.set_heat(power)
        self.tried = np.zeros(max(0, len(self.chains) - 1), np.int64)
        self.accepted = np.zeros_like(self.tried)

    @property
    def cold(self) -> NetworkChain:
        """The chain of power 1."""
        return self.chains[0]

    def sweep(self, rng: np.random.Generator, graph_prior: Any) -> None:
        """One sweep of every chain, then exchanges of every other pair of neighbours."""
        for chain in self.chains:
            chain.sweep(rng, graph_prior)
        first = int(rng.integers(2))
        for j in range(first, len(self.chains) - 1, 2):
            hot, cold = self.chains[j + 1], self.chains[j]
            gain = self._log_likelihood(hot) - self._log_likelihood(cold)
            self.tried[j] += 1
            if (self.powers[j] - self.powers[j + 1]) * gain > -rng.standard_exponential():
                self.accepted[j] += 1
                self.chains[j], self.chains[j + 1] = hot, cold
                hot.set_heat(self.powers[j])
                cold.set_heat(self.powers[j + 1])

    @staticmethod
    def _log_likelihood(chain: NetworkChain) -> float:
        """Of the observed nodes given all else, in nats (of activations)."""
        d, n = chain.n_observed, len(chain.data)
        rho, squares = chain.network.precisions[:d], (chain.network.residuals[:d] ** 2).sum(1)
        return float(0.5 * (n * (np.log(rho) - LOG_2PI) - rho * squares).sum())
