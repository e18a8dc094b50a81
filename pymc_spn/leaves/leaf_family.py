"""What a family of leaves has to say: the contract, written down once for leaves over a set of columns.

A family is one file of this folder and one line of `explicit_leaves`. A leaf over several columns is a `LeafFamily` and
answers the questions of that class. A leaf over one column, the usual case, is a `UnivariateFamily`: a table of
functions of one value, from which the same answers follow. What a family leaves out it does not have, and the question
that needs it says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.leaves.family_codes import CODE, TABULATED
from pymc_spn.leaves.family_pieces import Kernels
from pymc_spn.numerics.halving import smallest_reaching, smallest_whole_reaching

Problem = Callable[[np.ndarray], tuple[int, str] | None]
OfParameters = Callable[[np.ndarray], np.ndarray]
OfValues = Callable[[np.ndarray, Any], np.ndarray]


class LeafFamily(ABC):
    """Leaves over a set of d columns, which all have the parameters (P,) of one row.

    Rows are (n, d) float64 with NaN where a cell is missing, one for each of n leaves with parameters (n, P), or of one
    leaf (1, P) for all. A missing cell is summed out. Logs are in nats.

    Attributes
    ----------
    name : str
        In the registry. A family over any number of columns is registered once; a circuit names it with the number,
        ``"multivariate_gaussian[3]"``, which is what its `over` returns.
    n_columns : int
    column_families : tuple of UnivariateFamily
        Of the law of each column: whether it has a density, and whether its values are numbers.
    box_tolerance : float
        How far probabilities of `log_probability_of_boxes` may be off; 0 where they are exact up to rounding. Answers
        that depend on boxes of several columns are marked by it.
    kernels : optional
        Leaves without are tabulated: NumPy works out their logs, which kernels read as columns.
    holds_objects : bool
        Whether a row of parameters is one object.
    """

    name: str
    n_columns: int = 1
    box_tolerance: ClassVar[float] = 0.0
    kernels: Kernels | None = None
    holds_objects: bool = False

    @property
    @abstractmethod
    def column_families(self) -> tuple["UnivariateFamily", ...]:
        """See above."""

    @property
    def code(self) -> int:
        """Number in `family_codes`; of families without one that of all whose logs NumPy works out."""
        return CODE.get(self.name, TABULATED)

    def over(self, n_columns: int) -> "LeafFamily":
        """The family over so many columns, of one over any number.

        Raises
        ------
        ValueError
            If it is over a fixed number.
        """
        raise ValueError(f"{self.name} leaves are over {self.n_columns} columns, got {n_columns}")

    @abstractmethod
    def problem(self, parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of parameters (n, P) and the rule that it breaks, or None."""

    @abstractmethod
    def log_density_of_rows(self, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log density or mass (n,) of what is observed of each row; 0 where nothing is."""

    @abstractmethod
    def column_of_rows(
        self, parameters: np.ndarray, rows: np.ndarray, column: int
    ) -> tuple["UnivariateFamily", np.ndarray]:
        """Law of one column given the other observed cells of each row: a family over one column, parameters (n, p)."""

    def columns_of_rows(
        self, parameters: np.ndarray, rows: np.ndarray, columns: Sequence[int]
    ) -> tuple["LeafFamily", np.ndarray]:
        """Law of several columns given the other observed cells of each row: a family in the registry, parameters.

        As `column_of_rows` of one column, and the leaf itself of all; a family over three columns and more says what
        there is between.

        Raises
        ------
        ValueError
            If the family does not know that law.
        """
        if len(columns) == 1:
            return self.column_of_rows(parameters, rows, columns[0])
        if tuple(columns) == tuple(range(self.n_columns)):
            return self, np.broadcast_to(parameters, (len(rows), parameters.shape[-1]))
        raise ValueError(f"{self.name} leaves have no closed form for {len(columns)} of their {self.n_columns} columns")

    def within_boxes(self, parameters: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
        """Parameters (n, P) given low <= row <= high (n, d), where that is a leaf of the family; None where not."""
        return None

    @abstractmethod
    def log_probability_of_boxes(self, parameters: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Log probability (n,) of low <= row <= high (n, d), both ends included."""

    @abstractmethod
    def moments_of_rows(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n, d) and covariance (n, d, d); NaN where there is none, infinite variances as ``inf``."""

    def draw_missing(self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows with their missing cells drawn given the observed ones, one column after the other."""
        rows = np.array(rows, np.float64)
        for column in range(self.n_columns):
            gaps = np.isnan(rows[:, column])
            if np.any(gaps):
                shape = (len(rows), parameters.shape[-1])
                family, own = self.column_of_rows(np.broadcast_to(parameters, shape)[gaps], rows[gaps], column)
                rows[gaps, column] = family.draw(own, rng)
        return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class UnivariateFamily(LeafFamily):
    """Leaves over one column. The functions take parameters (..., p) and values (...) that broadcast.

    Parameters
    ----------
    name : str
    is_density : bool
        Whether it has a density, else masses.
    log_density : callable
        Of parameters and values, in nats; NaN at NaN, ``-inf`` at a value that the leaf cannot take.
    check : callable
        Of parameters (n, p): the first bad row and the rule that it breaks, or None.
    mean, variance, mode : callable
        NaN where there is none; an infinite mean or variance is ``inf``.
    draw : callable
        Of parameters and a generator: one value for each leading index.
    log_interval : callable
        Of parameters and ends low <= high: log P(low <= X <= high), in the tail that holds the interval.
    numeric : bool
        Whether values are numbers and not levels.
    lowest : float
        End of the support that holds whatever the parameters are.
    ends : callable, optional
        Smallest and largest value (n,) of parameters (n, p), where these are not `lowest` and infinity.
    probabilities : callable, optional
        Of the levels (..., K), of families on levels.
    holds_objects : bool
        Whether a row of parameters is one object.
    is_of_logs : bool
        Whether the first parameters are those of the log of the value.
    grows_at_zero : bool
        Whether the density has no bound towards 0, so slowly that there is no mass.
    cdf : callable, optional
        Of parameters and values: P(X <= x); without it by `log_interval`.
    bulk : callable, optional
        A point in the bulk of each leaf (n, p) and a width (n,) of the bulk, finite for every tail.
    raw_moments : callable (parameters, centre, order), optional
        E[(X - centre)^k] (n, order + 1), infinite or NaN where it does not exist.
    moments_within : callable (parameters, low, high), optional
        Mean and variance (n,) of parameters (n, p) between two ends, of families with power tails or long ones.
    about_within : callable (parameters, low, high, centre, order), optional
        As `raw_moments` within an interval, about a centre (n,); without it by sums of masses.
    draw_within : callable (parameters, low, high, u), optional
        As `value_within`, of families that have a faster way.
    n_parameters : int, optional
        Without it as many as there are levels.
    location : callable (tensors, p), optional
        Where leaves (n, p) lie in PyTensor, as a start for a sampler; without it the first parameter.
    kernels : optional
        What other parts of the package need of the family.
    """

    name: str
    is_density: bool
    log_density: OfValues
    check: Problem
    mean: OfParameters
    variance: OfParameters
    mode: OfParameters
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    log_interval: Callable[[np.ndarray, Any, Any], np.ndarray]
    numeric: bool = True
    lowest: float = -np.inf
    ends: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    probabilities: OfParameters | None = None
    holds_objects: bool = False
    is_of_logs: bool = False
    grows_at_zero: bool = False
    cdf: OfValues | None = None
    bulk: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    raw_moments: Callable[[np.ndarray, Any, int], np.ndarray] | None = None
    moments_within: Callable[[np.ndarray, float, float], tuple[np.ndarray, np.ndarray]] | None = None
    about_within: Callable[[np.ndarray, float, float, np.ndarray, int], np.ndarray] | None = None
    draw_within: Callable[[np.ndarray, float, float, np.ndarray], np.ndarray] | None = None
    n_parameters: int | None = None
    location: Callable[[Any, Any], Any] | None = None
    kernels: Kernels | None = None

    @property
    def column_families(self) -> tuple["UnivariateFamily", ...]:
        return (self,)

    def problem(self, parameters: np.ndarray) -> tuple[int, str] | None:
        return self.check(parameters)

    def below(self, parameters: np.ndarray, x: np.ndarray) -> np.ndarray:
        """P(X <= x) at values that broadcast."""
        if self.cdf is not None:
            return self.cdf(parameters, x)
        return np.where(np.isnan(x), np.nan, np.exp(self.log_interval(parameters, np.array(-np.inf), x)))

    def value_within(self, parameters: np.ndarray, low: float, high: float, u: np.ndarray) -> np.ndarray:
        """Smallest value (n,) up to which an interval holds a share u of its mass, of leaves (n, p)."""
        if self.draw_within is not None:
            return self.draw_within(parameters, low, high, u)
        first, last = np.maximum(low, self.lowest), high if self.is_density else np.floor(high)
        with np.errstate(divide="ignore"):
            target = np.log(u) + self.log_interval(parameters, low, high)

        def is_short(x: np.ndarray) -> np.ndarray:
            return self.log_interval(parameters, low, x) < target

        if self.is_density:
            outside = np.full(u.size, np.nextafter(first, -np.inf))
            return np.clip(smallest_reaching(is_short, outside, np.full(u.size, last)), low, high)
        first = np.ceil(first)
        start = np.clip(np.round(self.mode(parameters)), first, np.maximum(first, last))
        return np.minimum(smallest_whole_reaching(is_short, start - 1.0, start, first - 1.0, np.inf), last)

    def moments(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,)."""
        return self.mean(parameters), self.variance(parameters)

    def support(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values (n,) that leaves (n, p) take, infinite where there is none."""
        if self.ends is not None:
            return self.ends(parameters)
        return np.full(len(parameters), self.lowest), np.full(len(parameters), np.inf)

    def log_density_of_rows(self, parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.nan_to_num(self.log_density(parameters, rows[:, 0]), nan=0.0, neginf=-np.inf, posinf=np.inf)

    def column_of_rows(
        self, parameters: np.ndarray, rows: np.ndarray, column: int
    ) -> tuple["UnivariateFamily", np.ndarray]:
        return self, np.broadcast_to(parameters, (len(rows), parameters.shape[-1]))

    def log_probability_of_boxes(self, parameters: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return self.log_interval(parameters, low[:, 0], high[:, 0])

    def moments_of_rows(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.moments(parameters)
        return mean[:, None], variance[:, None, None]


def checked_rows(names: str, rule: str, is_right: Callable[[np.ndarray], np.ndarray]) -> Problem:
    """Check that rows have the parameters ``names``, finite, and that ``is_right`` of (n, p) holds for each (n,)."""
    width = names.count(",") + 1

    def problem(parameters: np.ndarray) -> tuple[int, str] | None:
        if parameters.shape[1] != width:
            return 0, f"rows must be ({names}{',' if width == 1 else ''})"
        finite = np.isfinite(parameters).all(axis=1)
        wrong = ~finite
        wrong[finite] = ~is_right(parameters[finite])
        return (int(np.argmax(wrong)), rule) if np.any(wrong) else None

    return problem


def are_positive(*names: str) -> Problem:
    """Check that rows have these parameters, all positive and finite."""
    rule = f"{' and '.join(names)} must be positive and finite"
    return checked_rows(", ".join(names), rule, lambda p: (p > 0).all(axis=1))


def on_counts(x: Any, log_mass: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Log mass at counts, ``-inf`` at other numbers, NaN at NaN."""
    x = np.asarray(x, dtype=np.float64)
    is_count = (x >= 0) & (x == np.floor(x)) & np.isfinite(x)
    return np.where(np.isnan(x), np.nan, np.where(is_count, log_mass(np.where(is_count, x, 0.0)), -np.inf))
