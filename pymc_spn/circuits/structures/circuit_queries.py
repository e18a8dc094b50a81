"""What a `Circuit` answers once its parameters are given; the kernels load with the first question."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.no_interventions import do
from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import EventLike, TableLike

if TYPE_CHECKING:
    from pymc_spn.circuits.evaluation.completion import Parameterised, RowMoments
    from pymc_spn.maxima.most_probable import MostProbable


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
    laplace               location, scale
    gamma                 shape, rate
    weibull               shape, scale: P(X > x) = exp(-(x / scale)^shape)
    beta                  alpha, beta; 0 and 1 do not belong to it
    uniform               low, high; both ends belong to it
    triangular            lower, mode, upper; the mode may be at an end, which then belongs to it
    binomial              number of trials, probability of success
    hypergeometric        population, successes in it, draws without replacement
    beta_binomial         number of trials, alpha, beta: binomial with a Beta(alpha, beta) probability
    scipy_continuous      a frozen distribution of `scipy.stats`: ``stats.skewnorm(4.0)``
    scipy_discrete        the same with masses, on whole numbers: ``stats.skellam(2.0, 1.0)``
    ===================== ===========================================================

    Of the last two a sequence of distributions stands in the place of the rows. They answer what follows but for `mpe`,
    as exactly as SciPy works out their densities, distribution functions and moments, and a value at which the density
    is infinite does not belong to them. `fit_em` keeps them as they are; products of circuits and `CircuitDensity` need
    the other families.

    An array of values holds codes (levels as 0..K-1), its columns by position. The columns of a DataFrame are matched
    by their names, in any order, and hold the levels themselves where the circuit knows them, as after
    `SPNPosterior.as_circuit`; columns that are names only hold numbers. NaN marks a missing cell. Arrays that are
    returned hold codes in the order of the circuit.
    Derivatives of a Laplace leaf's log density, in its value and its parameters, jump at the location, those of a
    triangular one at the mode and at both ends; the density itself jumps at the ends of uniform leaves, and of
    triangular ones whose mode is there.

    Every call checks its parameters and prepares them, which takes longer than the answer for a few rows: a
    `ParameterisedCircuit` does it once.
    """

    columns: tuple[Any, ...]
    do = do

    def log_density(
        self,
        values: TableLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        dtype: npt.DTypeLike = np.float64,
    ) -> np.ndarray:
        """Log density of rows, with missing cells summed out.

        Exact to rounding: rows run in linear space, divided by their largest leaves, and again in logs where that
        would lose anything.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        log_weights : (n_sum_edges,) float64
            Weights of a sum add up to 1.
        leaf_parameters : mapping of str to (n_leaves_of_family, p) float64
        dtype : {float64, float32}
            float32 is about twice as fast from eight rows on, at an error of some 1e-6 in the log density of rows
            within a few standard deviations of Gaussian leaves of one place and size. In general it is 6e-8 of the
            largest term of a leaf's log density: 1e-3 for Poisson leaves of a mean of 1,000, and more where a column
            has leaves a million standard deviations apart. Not with distributions of SciPy.

        Returns
        -------
        (n_rows,) float64
            In nats; ``-inf`` where the density is 0.

        Raises
        ------
        ValueError
            If a shape is wrong, a DataFrame has other columns than the circuit, weights or parameters are not valid, or
            they contradict `leaf_support`.
        TypeError
            If values are no numbers; of a DataFrame the column is named.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised

        return Parameterised(self, log_weights, leaf_parameters).log_density(values, dtype)

    def sample(
        self,
        n: int,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        given: EventLike | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Independent rows from the circuit, also given an event.

        Parameters
        ----------
        n : int
            Number of rows, at least 0.
        log_weights, leaf_parameters
            As for `log_density`.
        random_seed : int or Generator, optional
        given : mapping, sequence of mappings or str, optional
            What is known of every row, in the form of `probability` without arrays: values, intervals, sets, lists of
            intervals, likelihoods, of a sequence one of several events, or text. The draws are exact: leaves within
            their parts, by halving on their distribution functions to the last digit (SciPy's by quantiles or masses).

        Returns
        -------
        (n, D) float64
            Coded values.

        Raises
        ------
        TypeError
            If `given` is of none of these forms.
        ValueError
            If n is no integer of at least 0, as `log_density`, and as `probability` for `given`: one of probability
            zero among them.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised

        return sample_rows(Parameterised(self, log_weights, leaf_parameters), n, random_seed, given)

    def complete(
        self,
        values: TableLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        random_seed: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Rows whose missing cells are drawn from their exact conditional given the observed cells.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        log_weights, leaf_parameters
            As for `log_density`.
        random_seed : int or Generator, optional

        Returns
        -------
        (n_rows, D) float64
            The rows without NaN; observed cells are kept.

        Raises
        ------
        ValueError, TypeError
            As `log_density`, and if the observed cells of a row have density 0.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised, complete

        given = Parameterised(self, log_weights, leaf_parameters)
        return complete(given, given.values(values), np.random.default_rng(random_seed))

    def moments(
        self,
        values: TableLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        covariance: bool = True,
    ) -> "RowMoments":
        """Means and covariances of each row's missing cells given its observed ones, exact.

        Binary columns count as 0 and 1, ordinal ones as their numbers; categorical columns have no moments and hold
        NaN, and so do columns whose leaves have none (a Student t of one degree of freedom).

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        log_weights, leaf_parameters
            As for `log_density`.
        covariance : bool
            False leaves the covariances out.

        Returns
        -------
        RowMoments
            ``mean`` (n_rows, D), which holds the value of observed cells, and ``covariance`` (n_rows, D, D), 0 for
            observed cells, or empty.

        Raises
        ------
        ValueError, TypeError
            As `log_density`, and if the observed cells of a row have density 0.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised, moments

        given = Parameterised(self, log_weights, leaf_parameters)
        return moments(given, given.values(values), covariance)

    def probability(
        self,
        event: EventLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Probability of an event, or its density in the columns that are at a point.

        Exact by distribution functions of the leaves in place of their densities, as Poon and Domingos (2011) sum
        indicators over the states that are possible; ``given=`` is the ratio of two such passes.

        Parameters
        ----------
        event : mapping of column name to what it must satisfy, sequence of such mappings, or str
            Of a sequence one must hold: their union, by inclusion and exclusion. Within a mapping all must hold, each a
            value, a closed interval ``(low, high)`` with None for unbounded, a set of values or levels, a list of
            intervals of which one must hold, or, in a single mapping, a dict from levels or counts to likelihoods
            (soft evidence: the answer is the expected likelihood). Columns that are not named may be anything. An array
            of values, or an interval with arrays (n_rows,) as ends, asks for n_rows rows at once; missing values among
            them say nothing, as in a table, while a single NaN is refused. Columns that are names only hold numbers,
            levels as their codes. Text such as ``"x**2 < 4 or job == 'nurse'"`` is read as by
            `SPNPosterior.probability`.
        log_weights, leaf_parameters
            As for `log_density`.
        given : mapping, sequence of mappings or str, optional
            What is known, in the same form; of a sequence one is, without it being known which. A single NaN says
            nothing here, so that a row with gaps may be given.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given
            Above 1 only where a column is at a point of a density, or a likelihood is.

        Raises
        ------
        TypeError
            If event or given is no mapping or sequence of mappings, or one holds anything else.
        ValueError
            If a column is unknown, an interval or a set is empty, arrays differ in length, `given` has density zero,
            mappings name a point of a density or overlap in more than 10,000 ways, likelihoods are for a column with
            densities, negative, infinite or all 0, and as `log_density`.

        References
        ----------
        Poon, H. and Domingos, P. (2011). Sum-product networks: a new deep architecture. UAI.
        """
        return np.exp(self.log_probability(event, log_weights, leaf_parameters, given))

    def log_probability(
        self,
        event: EventLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Log of `probability`, in nats; it does not underflow.

        Parameters
        ----------
        event, log_weights, leaf_parameters, given
            As for `probability`.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given
            ``-inf`` where the event is impossible.

        Raises
        ------
        TypeError, ValueError
            As `probability`.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised
        from pymc_spn.circuits.laws.circuit_events import log_probability

        return log_probability(Parameterised(self, log_weights, leaf_parameters), event, given)

    def mpe(
        self,
        values: TableLike,
        log_weights: npt.ArrayLike,
        leaf_parameters: Mapping[str, npt.ArrayLike],
        search: bool = True,
        tolerance: float = 1e-6,
        max_boxes: int | None = None,
    ) -> "MostProbable":
        """Most probable completion of each row, certified where the search finishes.

        A first answer comes from the best tree, climbed from; where the largest values of the leaves do not certify it,
        a best-first search over boxes goes on (as in `most_probable`, which takes one row with intervals and sets).
        Values that a column's kind excludes are no completions. The density of a log-Student t grows without bound
        towards 0, on next to no mass: values below the quantile at 0.001 of what the column has above 0, given the
        row, are left out.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
            NaN cells are completed.
        log_weights, leaf_parameters
            As for `log_density`.
        search : bool
            False stops at the first answer: quick, and certified for levels and where leaves do not overlap.
        tolerance : float
            Gap in nats at which a row is certified.
        max_boxes : int, optional
            Most boxes of the search for each row; by default within 500 and 100,000, fewer for larger circuits.

        Returns
        -------
        MostProbable
            Of arrays over rows, ``value`` (n_rows, D) in codes. A row without NaN is its own answer, with log density
            0 given itself.

        Raises
        ------
        ValueError, TypeError
            As `log_density`, if the observed cells of a row have density 0, or if `tolerance` is not positive and
            finite or `max_boxes` below 1.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised
        from pymc_spn.circuits.laws.most_probable_rows import most_probable_rows

        given = Parameterised(self, log_weights, leaf_parameters)
        return most_probable_rows(given, values, search, tolerance, max_boxes)


def sample_rows(of_circuit: "Parameterised", n: int, random_seed: Any, given: Any) -> np.ndarray:
    """Rows (n, D) from a circuit with its parameters, see `Circuit.sample`."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n must be an integer of at least 0, got {quoted(n)}")
    refuse_count("n", int(n), 16.0 * len(of_circuit.circuit.columns))
    rng = np.random.default_rng(random_seed)
    if given is not None:
        from pymc_spn.circuits.laws.event_draws import draw_given

        return draw_given(of_circuit, int(n), given, rng)
    from pymc_spn.circuits.evaluation.completion import complete

    return complete(of_circuit, np.full((int(n), len(of_circuit.circuit.columns)), np.nan), rng)
