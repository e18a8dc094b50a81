"""What a `Circuit` answers once its parameters are given; the kernels load with the first question."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pymc_spn.circuits.evaluation.completion import MostProbable, RowMoments


class CircuitQueries:
    """Questions to a circuit with explicit parameters.

    All take ``log_weights`` (n_sum_edges,), the log weight of each edge below a sum in the order of `edge_sum`, and
    ``leaf_parameters``, a mapping from each family to its rows (n_leaves_of_family, p) in node order (`leaves_of`):

    ===================== ===========================================================
    family                row
    ===================== ===========================================================
    gaussian, log_normal  mean, standard deviation (of the value or of its log)
    exponential, poisson  rate
    geometric             probability p of stopping: mass p (1 - p)^k at k = 0, 1, ..
    bernoulli             probability of level 1
    categorical           one probability per level, padded with 0
    student_t             location, scale, degrees of freedom
    log_student_t         the same of the value's log
    lomax                 shape, scale
    negative_binomial     alpha, beta: Poisson with a Gamma(alpha, rate beta) rate
    beta_geometric        alpha, beta: geometric with a Beta(alpha, beta) probability
    ===================== ===========================================================

    Values are coded (levels as 0..K-1); NaN marks a missing cell.
    """

    columns: tuple[Any, ...]

    def log_density(
        self,
        values: Any,
        log_weights: Any,
        leaf_parameters: Mapping[str, Any],
        dtype: Any = np.float64,
    ) -> np.ndarray:
        """Log density of rows, with missing cells summed out.

        Exact to rounding: rows run in linear space, divided by their largest leaves, and again in logs where that
        would lose anything.

        Parameters
        ----------
        values : (n_rows, D) float64
        log_weights : (n_sum_edges,) float64
            Weights of a sum add up to 1.
        leaf_parameters : mapping of str to (n_leaves_of_family, p) float64
        dtype : {float64, float32}
            float32 about halves the time from eight rows on, at an error of some 1e-6 in the log density of rows
            within a few standard deviations of their leaves.

        Returns
        -------
        (n_rows,) float64
            In nats; ``-inf`` where the density is 0.

        Raises
        ------
        ValueError
            If a shape is wrong, weights or parameters are not valid, or they contradict `leaf_support`.
        """
        from pymc_spn.circuits.evaluation.density import log_density

        return log_density(self, values, log_weights, leaf_parameters, dtype)

    def sample(
        self,
        n: int,
        log_weights: Any,
        leaf_parameters: Mapping[str, Any],
        random_seed: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Independent rows (n, D) from the circuit."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be an integer of at least 0, got {n!r}")
        return self.complete(np.full((n, len(self.columns)), np.nan), log_weights, leaf_parameters, random_seed)

    def complete(
        self,
        values: Any,
        log_weights: Any,
        leaf_parameters: Mapping[str, Any],
        random_seed: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Rows whose missing cells are drawn from their exact conditional given the observed cells.

        Raises
        ------
        ValueError
            As `log_density`, and if the observed cells of a row have density 0.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised, complete

        given = Parameterised(self, log_weights, leaf_parameters)
        return complete(given, given.values(values), np.random.default_rng(random_seed))

    def moments(
        self, values: Any, log_weights: Any, leaf_parameters: Mapping[str, Any], covariance: bool = True
    ) -> "RowMoments":
        """Means (n, D) and covariances (n, D, D) of each row's missing cells given its observed ones, exact.

        Binary columns count as 0 and 1; categorical columns have no moments and hold NaN, and so do columns whose
        leaves have none (a Student t of one degree of freedom). ``covariance=False`` leaves those out.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised, moments

        given = Parameterised(self, log_weights, leaf_parameters)
        return moments(given, given.values(values), covariance)

    def mpe(self, values: Any, log_weights: Any, leaf_parameters: Mapping[str, Any]) -> "MostProbable":
        """Most probable completion of each row: the best found, its log density, and an upper bound on all others.

        Where ``certified`` is true, bound and value agree and the answer is the maximum. A mixture of overlapping
        leaves has no closed-form maximum, and the bound is then the larger.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised, most_probable

        given = Parameterised(self, log_weights, leaf_parameters)
        return most_probable(given, given.values(values))

    def dirichlet(self, alpha: Any = 1.0, name: str = "weights") -> "TensorVariable":
        """Log weights with a Dirichlet prior at every sum, for `CircuitDensity` inside a `pm.Model`.

        Parameters
        ----------
        alpha : float or (n_sum_edges,) array
            Dirichlet parameter of each edge.
        name : str
            Of the `pm.Dirichlet` that is added to the model; one for each number of children, ``name_2``,
            ``name_3`` and so on, where sums differ in it.

        Returns
        -------
        TensorVariable
            (n_sum_edges,) log weights in the order of `edge_sum`.
        """
        from pymc_spn.circuits.circuit_density import dirichlet_log_weights

        return dirichlet_log_weights(self, alpha, name)
