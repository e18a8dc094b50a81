"""How much each chain of a posterior counts: by how well it predicts rows that it has not seen."""

import warnings

import numpy as np
from scipy.special import logsumexp

from pymc_spn.numerics.draw_averages import stack
from pymc_spn.numerics.trust_warnings import OWN_FILES

RELIABLE_SHAPE = 0.7  # of the Pareto tail, above which leave-one-out by importance sampling fails (Vehtari et al. 2024)
FEWEST = 30  # draws of a chain, of which a fifth are the tail that is smoothed
RELIABLE_SHARE = 0.95  # of the rows


def left_out_densities(of_draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log predictive (K, N) of each row by each chain without it, and the shapes (K, N) of the importance weights.

    Parameters
    ----------
    of_draws : (K, S, N) float64
        Log predictive of each row given the others under each draw, whose draws have seen the row.

    Returns
    -------
    logs, shapes : (K, N) float64
        Shapes are ``-inf`` where the largest weights are equal.
    """
    from arviz_stats.base import array_stats

    n_chains, n_draws, n_rows = of_draws.shape
    logs, shapes = np.empty((n_chains, n_rows)), np.full((n_chains, n_rows), -np.inf)
    for k, i in np.ndindex(n_chains, n_rows):
        log_p = np.ascontiguousarray(of_draws[k, :, i])
        smallest = np.sort(log_p)[: n_draws // 5]  # the tail of the weights: no shape where it is one value
        if smallest[0] == smallest[-1]:
            logs[k, i] = np.log(n_draws) - logsumexp(-log_p)
            continue
        log_weights, shape = array_stats.psislw(log_p)  # takes log likelihoods
        logs[k, i], shapes[k, i] = logsumexp(log_weights + log_p), shape
    return logs, shapes


def stacking_weights(of_draws: np.ndarray) -> np.ndarray:
    """Weights (K,) of the chains by stacking; arguments as in `left_out_densities`.

    Warns
    -----
    UserWarning
        If importance sampling fails for more than a twentieth of the rows of some chain.
    """
    logs, shapes = left_out_densities(of_draws)
    unreliable = 1.0 - (shapes <= RELIABLE_SHAPE).mean(axis=1)  # some tails are too long for a shape
    if unreliable.max() > 1.0 - RELIABLE_SHARE:
        warnings.warn(
            f"stacked: leave-one-out is unreliable (Pareto shape above {RELIABLE_SHAPE}) for "
            f"{100 * unreliable.max():.0f} % of the rows of a chain; weights may favour chains that fit their own rows",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return stack(np.exp(logs - logs.max(axis=0)).T)
