"""Gaussian leaves over several columns."""

import numpy as np

from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.gaussian import GAUSSIAN, HALF_LOG_2PI


class MultivariateGaussian(EllipticalFamily):
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


MULTIVARIATE_GAUSSIAN = MultivariateGaussian()
