"""Over-complete two-layer starts for a nonlinear Gaussian belief network, and a race between them.

Nothing here samples: it looks for a start by gradient ascent on the pooled likelihood. Exact sampling begins after it.
"""

from dataclasses import dataclass

import numpy as np

from pymc_spn.indian_chefs import warm_up_kernels as kernels
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior


@dataclass(frozen=True)
class RaceStage:
    """One stage of a race: the best `keep` starts take `steps` steps with pools of `pool` draws."""

    keep: int
    steps: int
    pool: int


DEFAULT_RACE = (RaceStage(8, 120, 700), RaceStage(3, 300, 1000), RaceStage(1, 1000, 2000))


@dataclass(frozen=True, eq=False)
class LayeredStart:
    """Parameters of a two-layer network.

    Parameters
    ----------
    parents : (n, n) uint8
        Observed nodes, lower layer, roots.
    reputations : (n,) float64
        0 for observed nodes, rank / (H + 1) for hidden ones in slot order.
    weights : (n, n) float64
    biases, precisions : (n,) float64
    score : float
        Pooled log likelihood a datum at the end of the race, in nats (of activations).
    """

    parents: np.ndarray
    reputations: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    precisions: np.ndarray
    score: float


def layered_parents(n_observed: int, n_lower: int, n_roots: int) -> np.ndarray:
    """(n, n) uint8: roots above all others, the lower layer above observed nodes, no edges inside a layer."""
    n = n_observed + n_lower + n_roots
    parents = np.zeros((n, n), np.uint8)
    parents[n_observed:, :n_observed] = 1
    parents[n_observed + n_lower :, n_observed : n_observed + n_lower] = 1
    return parents


def random_start(rng: np.random.Generator, data: np.ndarray, n_lower: int, n_roots: int) -> np.ndarray:
    """Weights, biases, log precisions (n + 2, n) at the noise scales where good networks are found.

    Roots are wide (rho = 0.1), the lower layer sharp (rho = 20) and fed by large weights with thresholds inside the
    range of the roots' outputs. Observed nodes begin with half the variance of the data.
    """
    d = data.shape[1]
    n = d + n_lower + n_roots
    parents = layered_parents(d, n_lower, n_roots).astype(bool)
    weights = np.where(parents, rng.standard_normal((n, n)), 0.0)
    lower, roots = slice(d, d + n_lower), slice(d + n_lower, n)
    weights[roots, lower] *= 6.0
    biases, rho = np.zeros(n), np.empty(n)
    inside = rng.uniform(0.1, 0.9, (n_roots, n_lower))
    biases[lower] = -(weights[roots, lower] * inside).sum(0)
    biases[:d] = data.mean(0) - 0.5 * weights[:, :d].sum(0)
    rho[:d] = 2.0 / np.maximum(data.var(0), 1e-6)  # a constant column has a precision to begin with, too
    rho[lower], rho[roots] = 20.0, 0.1
    return np.vstack([weights, biases, np.log(rho)])


class PooledAscent:
    """Ascent on the pooled log posterior of one network whose graph is fixed.

    Parameters
    ----------
    data : (N, D) float64
        Activations of the observed nodes.
    parents : (n, n) uint8
    order : (n,) int64
        Parents before children; no observed node is a parent.
    prior : NetworkPrior
    """

    def __init__(self, data: np.ndarray, parents: np.ndarray, order: np.ndarray, prior: NetworkPrior):
        self.data = np.ascontiguousarray(data, np.float32)
        self.parents, self.prior = parents, prior
        self.order = np.ascontiguousarray(order, np.int64)  # of one type for the kernels
        self.d, self.n = data.shape[1], len(parents)

    def climb(
        self,
        rng: np.random.Generator,
        parameters: np.ndarray,
        moments: np.ndarray,
        taken: int,
        rates: np.ndarray,
        n_pool: int,
        batch: int = 500,
    ) -> None:
        """Take ``len(rates)`` steps by Adam (Kingma and Ba 2015, algorithm 1), each with a fresh pool and minibatch.

        Parameters
        ----------
        parameters : (n + 2, n) float64
            In and out: weights, then biases, then log precisions.
        moments : (2, n + 2, n) float64
            In and out: of the gradient.
        taken : int
            Steps taken before.
        rates : (T,) float64
        n_pool, batch : int
        """
        n_data = len(self.data)
        work, gradient = kernels.warm_up_work(self.n, self.d, n_pool), np.zeros_like(parameters)
        for t, rate in enumerate(rates, taken + 1):
            rows = np.arange(n_data) if batch >= n_data else rng.integers(0, n_data, batch)
            self.log_likelihood(rng, parameters, rows, work, True)
            kernels.backward(self.d, self.order, self.parents, parameters, work, gradient)
            slope = gradient / len(rows) + self.prior_gradient(parameters) / n_data
            moments[0] += 0.1 * (slope - moments[0])
            moments[1] += 0.01 * (slope * slope - moments[1])
            first, second = moments[0] / (1.0 - 0.9**t), moments[1] / (1.0 - 0.99**t)
            parameters += rate * first / (np.sqrt(second) + 1e-8)
            np.clip(parameters[-1, self.d :], -5.0, 8.0, out=parameters[-1, self.d :])

    def prior_gradient(self, parameters: np.ndarray) -> np.ndarray:
        """Of the log prior of weights, biases and log precisions; weights are 0 where there is no edge."""
        scale = np.append(np.full(self.n, self.prior.weight_precision), [self.prior.bias_precision, 0.0])
        out = -scale[:, None] * parameters
        out[-1] = self.prior.precision_shape - self.prior.precision_rate * np.exp(parameters[-1])
        return out

    def log_likelihood(
        self,
        rng: np.random.Generator,
        parameters: np.ndarray,
        rows: np.ndarray,
        work: kernels.WarmUpWork,
        with_sums: bool,
    ) -> float:
        """Pooled log likelihood of some rows, in nats."""
        kernels.forward(rng, self.d, self.order, self.parents, parameters, work)
        return kernels.responsibilities(self.data, rows, parameters[-1], work, with_sums)

    def score(self, rng: np.random.Generator, parameters: np.ndarray, n_pool: int = 6000) -> float:
        """Pooled log likelihood a datum, in nats."""
        rows, work = np.arange(len(self.data)), kernels.warm_up_work(self.n, self.d, n_pool)
        return self.log_likelihood(rng, parameters, rows, work, False) / len(rows)


def race(
    rng: np.random.Generator,
    data: np.ndarray,
    n_lower: int,
    n_roots: int,
    prior: NetworkPrior | None = None,
    stages: tuple[RaceStage, ...] = DEFAULT_RACE,
    rate: float = 0.05,
) -> LayeredStart:
    """The best of several random starts after ascent, by successive halving on the pooled log likelihood.

    Parameters
    ----------
    rng : numpy.random.Generator
    data : (N, D) float64
        Activations of the observed nodes.
    n_lower, n_roots : int
        Hidden units of the two layers.
    prior : NetworkPrior, optional
    stages : tuple of RaceStage
    rate : float
        Of Adam; constant up to the middle of the last stage, then falling to a hundredth.

    Returns
    -------
    LayeredStart
    """
    d = data.shape[1]
    n = d + n_lower + n_roots
    parents = layered_parents(d, n_lower, n_roots)
    ascent = PooledAscent(data, parents, np.arange(n)[::-1], prior or NetworkPrior())
    field = [(random_start(rng, data, n_lower, n_roots), np.zeros((2, n + 2, n))) for _ in range(stages[0].keep)]
    taken, score = 0, -np.inf
    for place, stage in enumerate(stages):
        rates = np.full(stage.steps, rate)
        if place == len(stages) - 1:
            half = stage.steps // 2
            rates[half:] = np.linspace(rate, 0.01 * rate, stage.steps - half)
        for parameters, moments in field:
            ascent.climb(rng, parameters, moments, taken, rates, stage.pool)
        taken += stage.steps
        scores = [ascent.score(rng, parameters) for parameters, _ in field]
        score = max(scores)
        keep = stages[place + 1].keep if place + 1 < len(stages) else 1
        field = [field[i] for i in np.argsort(scores)[::-1][:keep]]
    best = field[0][0]
    ranks = np.r_[np.zeros(d), np.arange(1, n_lower + n_roots + 1) / (n_lower + n_roots + 1)]
    return LayeredStart(parents, ranks, best[:n], best[n], np.exp(best[n + 1]), float(score))
