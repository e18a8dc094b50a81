"""Student t leaves over several columns: Gaussian ones whose mean and covariance are integrated out.

The columns o of a leaf with f degrees of freedom have f as well. The others u given them have f + |o| degrees of
freedom, location ``m_u + S_uo S_oo^-1 (x_o - m_o)`` and as scale ``(f + q) / (f + |o|)`` times the Schur complement of
S. Here q is the quadratic form of the observed cells. Ding (2016), doi:10.1080/00031305.2016.1164678.
"""

import numpy as np

from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.gaussian import STUDENT_T
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio


class MultivariateStudentT(EllipticalFamily):
    """Student t columns that depend on each other.

    The parameters of a leaf are its degrees of freedom, its location (d,) and its scale matrix (d, d), row by row.
    """

    base = "multivariate_student_t"
    first_names = ("degrees of freedom",)
    scale_name = "scale matrix"
    univariate = STUDENT_T

    def dof_of(self, parameters: np.ndarray) -> np.ndarray:
        return parameters[:, 0]

    def log_radial(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        norm = log_gamma_ratio(0.5 * dof, 0.5 * k) - 0.5 * k * np.log(np.pi * dof)
        return norm - 0.5 * (dof + k) * np.log1p(square / dof)

    def growth(self, dof: np.ndarray, square: np.ndarray, k: int) -> np.ndarray:
        return (dof + square) / (dof + k)

    def radius(self, dof: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.sqrt(0.5 * dof / rng.standard_gamma(0.5 * dof))

    def leaves_of(self, dof: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.column_stack([dof, location, scale.reshape(len(location), -1)])

    def column_leaves(self, dof: np.ndarray, location: np.ndarray, width: np.ndarray) -> np.ndarray:
        return np.column_stack([location, width, dof])

    def moments_of_rows(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `LeafFamily`: means from f > 1 on, covariances from f > 2; between, variances are infinite."""
        dof = parameters[:, 0]
        location, scale = self.location_and_scale(parameters)
        finite = dof > 2.0
        covariance = scale * (dof / np.where(finite, dof - 2.0, np.nan))[:, None, None]
        covariance[(dof > 1.0) & ~finite] = np.where(np.eye(self.n_columns, dtype=bool), np.inf, np.nan)
        return np.where(dof[:, None] > 1.0, location, np.nan), covariance


def predictive_leaves(posterior: NormalInverseWishart) -> np.ndarray:
    """Parameters (L, 1 + d + d^2) of the leaves that posteriors predict the next row by.

    Degrees of freedom ``f = v - d + 1``, the posterior's location, scale matrix ``Psi (k + 1) / (k f)``. Murphy (2007),
    Conjugate Bayesian analysis of the Gaussian distribution, equation 258.
    """
    dof = posterior.v - posterior.mu.shape[1] + 1.0
    scale = posterior.psi * ((posterior.k + 1.0) / (posterior.k * dof))[:, None, None]
    return MULTIVARIATE_STUDENT_T.leaves_of(dof, posterior.mu, scale)


MULTIVARIATE_STUDENT_T = MultivariateStudentT()
