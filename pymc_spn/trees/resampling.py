"""Resampling of particles as numbers of offspring: multinomial or systematic."""

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel

MULTINOMIAL, SYSTEMATIC = 0, 1


@inner_kernel
def effective_size(log_weight):
    """(sum w)^2 / sum w^2."""
    weight = np.exp(log_weight - log_weight.max())
    return weight.sum() ** 2 / (weight * weight).sum()


@kernel
def draw_offspring(rng, weight, scheme, conditional):
    """Number of offspring of each particle; they sum to the number of particles.

    Parameters
    ----------
    weight : (n,) float64
        Not normalised.
    scheme : int
    conditional : bool
        Particle 0 survives in its slot and the other n - 1 ancestors are drawn from all particles: the conditional law
        of multinomial resampling, and of no other scheme.
    """
    n = weight.size
    offspring = np.zeros(n, np.int64)
    total = weight.sum()
    target = np.empty(n)  # ascending, as shares of what is cumulated
    n_drawn = n
    if conditional:
        offspring[0] = 1
        n_drawn = n - 1
    if scheme == MULTINOMIAL:
        top = 0.0  # ordered uniforms by exponential spacings
        for i in range(n_drawn):
            top += rng.exponential(1.0)
            target[i] = top
        top += rng.exponential(1.0)
        for i in range(n_drawn):
            target[i] /= top
    else:
        u = rng.random()
        for i in range(n_drawn):
            target[i] = (i + u) / n
    m, cumulated = 0, weight[0] / total
    for i in range(n_drawn):
        while target[i] >= cumulated and m < n - 1:
            m += 1
            cumulated += weight[m] / total
        while weight[m] <= 0.0 and m > 0:  # rounding led past the last particle that has weight
            m -= 1
        offspring[m] += 1
    return offspring
