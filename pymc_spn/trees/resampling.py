"""Resampling of particles as numbers of offspring: multinomial, residual, stratified, systematic."""

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel

MULTINOMIAL, RESIDUAL, STRATIFIED, SYSTEMATIC = 0, 1, 2, 3


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
    share = weight
    n_drawn = n
    if conditional:
        offspring[0] = 1
        n_drawn = n - 1
    if scheme == RESIDUAL:
        share = np.empty(n)
        for m in range(n):
            expected = n * weight[m] / total
            whole = int(expected)
            offspring[m] = whole
            share[m] = expected - whole
            n_drawn -= whole
        total = share.sum()
    if scheme == MULTINOMIAL or scheme == RESIDUAL:
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
            if scheme == STRATIFIED:
                u = rng.random()
    m, cumulated = 0, share[0] / total if total > 0.0 else 1.0
    for i in range(n_drawn):
        while target[i] >= cumulated and m < n - 1:
            m += 1
            cumulated += share[m] / total
        while share[m] <= 0.0 and m > 0:  # rounding led past the last particle that has weight
            m -= 1
        offspring[m] += 1
    return offspring
