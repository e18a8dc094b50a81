"""Gaussian leaves over several columns, and draws of them from normal-inverse-Wishart posteriors."""

import numpy as np

from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.gaussian import GAUSSIAN
from pymc_spn.leaves.kernel_forms import HALF_LOG_2PI
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart


class MultivariateGaussianFamily(EllipticalFamily):
    """Gaussian columns that depend on each other.

    The parameters of a leaf are its mean (d,) and its covariance (d, d), row by row.
    """

    base = "multivariate_gaussian"
    scale_name = "covariance"
    univariate = GAUSSIAN

    def dof_of(self, parameters: np.ndarray) -> np.ndarray:
        return np.full(len(parameters), np.inf)

    def log_radial(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        return -0.5 * square - k * HALF_LOG_2PI

    def growth(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        return np.ones(len(square))

    def radius(self, dof: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.ones(len(dof))

    def leaves_of(self, dof: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.column_stack([location, scale.reshape(len(location), -1)])

    def column_leaves(self, dof: np.ndarray, location: np.ndarray, width: np.ndarray) -> np.ndarray:
        return np.column_stack([location, width])

    def moments_of_rows(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.location_and_scale(parameters)


def draw_leaves(posterior: NormalInverseWishart, rng: np.random.Generator) -> np.ndarray:
    """Draw the parameters (L, d + d^2) of a leaf from each posterior."""
    mean, root = drawn_means_and_roots(posterior, rng)
    return MULTIVARIATE_GAUSSIAN.leaves_of(np.full(len(mean), np.inf), mean, root @ np.swapaxes(root, 1, 2))


def drawn_means_and_roots(posterior: NormalInverseWishart, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a mean (L, d) and a root R (L, d, d) of the covariance matrix R R' from each posterior.

    The covariance is ``C (A A')^-1 C'`` for the factor C of Psi and Bartlett's factor A of a standard Wishart matrix. A
    has normal numbers below the diagonal, roots of chi-squared ones with v, v - 1, .. degrees of freedom on it. Murphy
    (2007), Conjugate Bayesian analysis of the Gaussian distribution, equations 250 to 256.
    """
    mu, k, psi, v = posterior
    n, d = mu.shape
    bartlett = np.tril(rng.standard_normal((n, d, d)), -1)
    diagonal = np.arange(d)
    bartlett[:, diagonal, diagonal] = np.sqrt(2.0 * rng.standard_gamma(0.5 * (v[:, None] - diagonal)))
    root = np.swapaxes(np.linalg.solve(bartlett, np.swapaxes(np.linalg.cholesky(psi), 1, 2)), 1, 2)
    mean = mu + (root @ rng.standard_normal((n, d, 1)))[:, :, 0] / np.sqrt(k)[:, None]
    return mean, root


MULTIVARIATE_GAUSSIAN = MultivariateGaussianFamily()
