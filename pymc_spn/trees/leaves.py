"""Leaf families of decision trees: what a leaf says about the response, with its parameters integrated out."""

import logging
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import gammaln

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.model_inputs import NumberOrVariable
from pymc_spn.tables.coding import guessed_kind
from pymc_spn.tables.column import LEVEL_KINDS
from pymc_spn.tables.frame_kinds import column_array, pandas_frame
from pymc_spn.trees.leaf_kernels import CLASSES, COUNTS, NORMAL, ConjugatePrior, Response

LOG_2_PI = float(np.log(2.0 * np.pi))
_log = logging.getLogger("pymc")  # as `tables.reading` reports how features were read


@dataclass(frozen=True, eq=False)
class ClassLeaves:
    """Classes with Dirichlet-distributed probabilities in each leaf.

    Parameters
    ----------
    alpha : float or PyMC variable
        Total mass of the symmetric Dirichlet prior: a leaf with n_k of n rows in class k predicts (n_k + alpha / K) /
        (n + alpha).
    levels : sequence, optional
        The classes in order; those of the response by default, which are then no fractions.

    Examples
    --------
    >>> trees = ps.fit_tree(X[["age"]], X["job"], family=ps.leaves.ClassLeaves(alpha=2.0), random_seed=1)
    >>> trees.classes
    ['clerk', 'nurse']

    References
    ----------
    Lakshminarayanan, Roy and Teh (2013), section 2.
    """

    alpha: NumberOrVariable = 5.0
    levels: tuple[object, ...] | None = None
    family: ClassVar[str] = "classes"
    kernel: ClassVar[int] = CLASSES
    parameters: ClassVar[tuple[str, ...]] = ("alpha",)

    def code(self, y: npt.ArrayLike) -> "tuple[np.ndarray, ClassLeaves]":
        """Code the classes as 0..K-1, and complete the family with its levels."""
        series = _series(y)
        if self.levels is not None:
            levels = [_plain(v) for v in self.levels]
        elif isinstance(series.dtype, pd.CategoricalDtype):
            levels = [_plain(v) for v in series.cat.categories]
        else:
            found = {_plain(v) for v in series}
            if len({isinstance(v, str) for v in found}) > 1:
                raise TypeError("y must hold either strings or numbers as labels, it holds both; convert them")
            fractions = np.array([isinstance(v, float) and v % 1.0 != 0.0 for v in map(_plain, series)])
            _refuse(series, fractions, 'must hold labels, no fractions: say family="real", or convert by astype(str)')
            levels = sorted(found)
            if len(levels) == 1:
                raise ValueError(
                    f"y must hold at least two classes, all {len(series)} labels are {levels[0]!r}; name further "
                    "classes with ps.leaves.ClassLeaves(levels=[...])"
                )
        for level in levels:  # files and the axes of answers hold no others
            if not isinstance(level, str | bool | int | float):
                raise TypeError(
                    f"labels of y must be strings, numbers or True and False, got {quoted(level)} of type "
                    f"{type(level).__name__}; convert by astype(str)"
                )
        if not levels or len(set(levels)) < len(levels):
            raise ValueError(f"levels must be distinct and at least one, got {quoted(levels)}")
        place = {level: k for k, level in enumerate(levels)}
        for label, value in zip(series.index, series, strict=True):
            if _plain(value) not in place:
                raise ValueError(f"y must hold the classes {levels!r}; row {label!r} is {_plain(value)!r}")
        return np.array([float(place[_plain(v)]) for v in series]), replace(self, levels=tuple(levels))


@dataclass(frozen=True, eq=False)
class BinaryLeaves:
    """Zeros and ones with a beta-distributed probability of one in each leaf.

    Parameters
    ----------
    alpha, beta : float or PyMC variable
        Prior masses of one and of zero.

    Examples
    --------
    >>> trees = ps.fit_tree(X[["age"]], X["job"] == "clerk", family=ps.leaves.BinaryLeaves(), random_seed=1)
    >>> trees.classes
    [0, 1]
    """

    alpha: NumberOrVariable = 1.0
    beta: NumberOrVariable = 1.0
    family: ClassVar[str] = "binary"
    kernel: ClassVar[int] = CLASSES
    levels: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[tuple[str, ...]] = ("alpha", "beta")

    def code(self, y: npt.ArrayLike) -> "tuple[np.ndarray, BinaryLeaves]":
        """Check the response, and return it as floats."""
        values = _numbers(y)
        _refuse(y, (values != 0.0) & (values != 1.0), "must hold 0 and 1, or bool, for ps.leaves.BinaryLeaves")
        return values, self


@dataclass(frozen=True, eq=False)
class NormalLeaves:
    """Real values that are normal in each leaf, with a normal-inverse-gamma prior.

    Parameters
    ----------
    mu0 : float, optional
        Prior mean; the mean of the response by default.
    kappa0 : float or PyMC variable
        Prior rows behind the mean.
    a0 : float or PyMC variable
        Shape of the inverse gamma prior of the variance.
    b0 : float or PyMC variable, optional
        Scale of that prior; by default ``a0 / 4`` times the response's variance.

    Examples
    --------
    >>> trees = ps.fit_tree(X, y, family=ps.leaves.NormalLeaves(a0=2.0), random_seed=1)
    >>> trees.predict(X.head(2)).dims
    ('row',)
    """

    mu0: NumberOrVariable | None = None
    kappa0: NumberOrVariable = 0.1
    a0: NumberOrVariable = 1.5
    b0: NumberOrVariable | None = None
    family: ClassVar[str] = "real"
    kernel: ClassVar[int] = NORMAL
    levels: ClassVar[None] = None
    parameters: ClassVar[tuple[str, ...]] = ("mu0", "kappa0", "a0", "b0")

    def code(self, y: npt.ArrayLike) -> "tuple[np.ndarray, NormalLeaves]":
        """Return the response as floats, and the family with its defaults filled in."""
        values = _numbers(y)
        with np.errstate(over="ignore"):
            variance = float(values.var())
        if not np.isfinite(variance * len(values)) or (variance == 0.0 and np.ptp(values) > 0.0):
            raise ValueError(
                f"y: the squares of its deviations exceed floating point, its range is {np.ptp(values)}; rescale it"
            )
        if self.b0 is None and not variance > 0.0:
            raise ValueError(
                f"y must vary for the default b0 of ps.leaves.NormalLeaves, all values are {values[0]}; give b0"
            )
        if self.b0 is None and not isinstance(self.a0, int | float | np.number):
            raise ValueError("ps.leaves.NormalLeaves: b0 must be given where a0 is a variable")
        mu0 = float(values.mean()) if self.mu0 is None else self.mu0
        return values, replace(self, mu0=mu0, b0=0.25 * self.a0 * variance if self.b0 is None else self.b0)


@dataclass(frozen=True, eq=False)
class CountLeaves:
    """Counts that are Poisson in each leaf, with a gamma prior of the rate.

    Parameters
    ----------
    shape : float or PyMC variable
    rate : float or PyMC variable, optional
        By default the one that puts the prior mean of the rate at the mean of the response.

    Examples
    --------
    >>> visits = np.where(X["age"] > 45, 3, 1)
    >>> trees = ps.fit_tree(X, visits, family=ps.leaves.CountLeaves(), random_seed=1)
    >>> trees.predict(X.head(2)).round().values
    array([3., 1.])
    """

    shape: NumberOrVariable = 1.0
    rate: NumberOrVariable | None = None
    family: ClassVar[str] = "counts"
    kernel: ClassVar[int] = COUNTS
    levels: ClassVar[None] = None
    parameters: ClassVar[tuple[str, ...]] = ("shape", "rate")

    def code(self, y: npt.ArrayLike) -> "tuple[np.ndarray, CountLeaves]":
        """Check the response; return it as floats, and the family with its defaults."""
        values = _numbers(y)
        _refuse(
            y, (values < 0.0) | (values != np.floor(values)), "must hold whole numbers >= 0 for ps.leaves.CountLeaves"
        )
        if self.rate is None and not values.mean() > 0.0:
            raise ValueError("y must hold a count above zero for the default rate of ps.leaves.CountLeaves; give rate")
        if self.rate is None and not isinstance(self.shape, int | float | np.number):
            raise ValueError("ps.leaves.CountLeaves: rate must be given where shape is a variable")
        return values, replace(self, rate=self.shape / float(values.mean()) if self.rate is None else self.rate)


LeafFamily = ClassLeaves | BinaryLeaves | NormalLeaves | CountLeaves
type ResponseFamily = str | LeafFamily

FAMILIES: dict[str, Any] = {f.family: f for f in (ClassLeaves, BinaryLeaves, NormalLeaves, CountLeaves)}


def as_family(family: Any, y: Any) -> LeafFamily:
    """A family object from its name or itself, numbers checked; for None what a table reads the response as."""
    if family is None:
        series = _series(y)
        if not pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_bool_dtype(series.dtype):
            return ClassLeaves()
        kind = guessed_kind(series.to_numpy(np.float64, na_value=np.nan), pd.api.types.is_integer_dtype(series.dtype))
        found = ClassLeaves() if kind in LEVEL_KINDS else CountLeaves() if kind == "count" else NormalLeaves()
        if not isinstance(found, NormalLeaves):
            _log.info(f"Response: whole numbers, as {found.family}. Change with family='real', 'counts' or 'classes'")
        return found
    if isinstance(family, str) and family in FAMILIES:
        return FAMILIES[family]()
    if not isinstance(family, ClassLeaves | BinaryLeaves | NormalLeaves | CountLeaves):
        raise ValueError(
            f"family must be one of {list(FAMILIES)} or an object such as ps.leaves.ClassLeaves(alpha=5.0), got "
            f"{quoted(family)}"
        )
    for name in family.parameters:
        value = getattr(family, name)
        if value is None or not isinstance(value, int | float | np.number) or name == "mu0":
            continue
        if not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"{type(family).__name__}: {name} must be positive and finite, got {quoted(value)}")
    return family


def numbers_of_family(family: LeafFamily) -> np.ndarray:
    """Parameters of a family without variables, in the order of ``parameters``."""
    for name in family.parameters:
        if not isinstance(getattr(family, name), int | float | np.number):
            raise TypeError(f"{type(family).__name__}: {name} must be a number here, got {getattr(family, name)!r}")
    return np.array([float(getattr(family, name)) for name in family.parameters])


def family_to_json(family: LeafFamily) -> dict[str, Any]:
    """Name, levels and the numbers among the parameters; variables are left out."""
    numbers = {n: float(v) for n in family.parameters if isinstance(v := getattr(family, n), int | float | np.number)}
    return {"family": family.family, "levels": vars(family).get("levels"), "numbers": numbers}


def family_from_json(stored: dict[str, Any], numbers: dict[str, Any] | None = None) -> LeafFamily:
    """The family again, with numbers for the parameters that were variables."""
    made: Any = FAMILIES[stored["family"]]
    arguments: dict[str, Any] = stored["numbers"] | (numbers or {})
    if "levels" in {f.name for f in fields(made)}:
        arguments["levels"] = tuple(stored["levels"])
    return made(**arguments)


def make_response(family: LeafFamily, y: np.ndarray) -> Response:
    """Compiled form of a coded response; real values are centred by their mean, counts of 1e14 refused."""
    empty, labels = np.empty(0), np.empty(0, np.int32)
    if family.levels is not None:
        return Response(y.astype(np.int32), empty, empty, len(family.levels))
    if isinstance(family, NormalLeaves):
        centred = y - centre_of(family, y)
        return Response(labels, centred, centred**2, 2)
    lost = float(gammaln(y.sum() + 1.0)) * np.finfo(np.float64).eps / 2.0
    if lost > 1.0:
        raise ValueError(
            f"y sums to {y.sum():g}: a log factorial of that is rounded to {lost:.2g} nats, so that no leaf's marginal "
            "likelihood is right; count in larger units, or use ps.leaves.NormalLeaves"
        )
    return Response(labels, y.astype(np.float64), gammaln(y + 1.0), 2)


def centre_of(family: LeafFamily, y: np.ndarray) -> float:
    """What is subtracted from the response before its squares are summed."""
    return float(y.mean()) if isinstance(family, NormalLeaves) and y.size else 0.0


def normal_posterior(parameters: Any, size: Any, mean: Any, scatter: Any) -> tuple[Any, Any, Any, Any]:
    """Posterior mu, kappa, a, b of normal leaves, of numbers, arrays or tensors; ``scatter`` is about their mean."""
    mu0, kappa0, a0, b0 = parameters
    kappa = kappa0 + size
    b = b0 + 0.5 * scatter + 0.5 * kappa0 * size * (mean - mu0) ** 2 / kappa
    return (kappa0 * mu0 + size * mean) / kappa, kappa, a0 + 0.5 * size, b


def log_marginals(
    kernel: int, parameters: Any, size: Any, statistics: Any, log: Any = np.log, gammaln: Any = gammaln
) -> Any:
    """(l,) log marginal likelihood of leaves, as an array of NumPy or as a tensor.

    Parameters
    ----------
    kernel : int
        Of the family.
    parameters : (l or 1, K) masses of classes, or a sequence of the other families' parameters
    size : (l,)
    statistics : (l, s)
        Counts of classes; mean of real values and scatter about it; sums of counts and of their log factorials.
    log, gammaln : callable
        Of NumPy and SciPy, or of PyTensor.
    """
    if kernel == CLASSES:
        total = parameters.sum(-1)
        return (gammaln(parameters + statistics) - gammaln(parameters)).sum(-1) - gammaln(total + size) + gammaln(total)
    if kernel == NORMAL:
        _, kappa0, a0, b0 = parameters
        _, kappa, a, b = normal_posterior(parameters, size, statistics[:, 0], statistics[:, 1])
        value = gammaln(a) - gammaln(a0) + a0 * log(b0) - a * log(b) + 0.5 * log(kappa0 / kappa)
        return value - 0.5 * size * LOG_2_PI
    shape, rate = parameters
    value = shape * log(rate) - gammaln(shape) + gammaln(shape + statistics[:, 0])
    return value - (shape + statistics[:, 0]) * log(rate + size) - statistics[:, 1]


def make_leaf_prior(family: LeafFamily, numbers: np.ndarray, y: np.ndarray) -> ConjugatePrior:
    """Tables over 0..N rows for `leaf_log_marginal`.

    Parameters
    ----------
    family : LeafFamily
        With its levels; its own numbers are not read.
    numbers : (p,) float64
        In the order of the family's ``parameters``.
    y : (N,) float64
        The coded response.
    """
    n = np.arange(len(y) + 1.0)
    if family.levels is not None:
        masses = numbers[:1] / len(family.levels) if isinstance(family, ClassLeaves) else numbers[::-1]
        total = numbers.sum()
        a = masses[:, None]
        return ConjugatePrior(
            CLASSES, np.log(a + n), gammaln(a + n) - gammaln(a), gammaln(total + n) - gammaln(total), numbers
        )
    unused = np.empty((1, 0))
    if isinstance(family, NormalLeaves):
        mu0, kappa0, a0, b0 = numbers
        an = a0 + 0.5 * n
        total = gammaln(an) - gammaln(a0) + a0 * np.log(b0) + 0.5 * np.log(kappa0 / (kappa0 + n)) - 0.5 * n * LOG_2_PI
        return ConjugatePrior(NORMAL, unused, unused, total, np.array([mu0 - centre_of(family, y), kappa0, a0, b0]))
    shape, rate = numbers
    total = np.array([shape * np.log(rate) - gammaln(shape)])
    return ConjugatePrior(COUNTS, np.log(rate + n)[None], unused, total, numbers)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _series(y: Any) -> pd.Series:
    """The response as a Series without missing values."""
    y = column_array(pandas_frame(y, "y"))
    if isinstance(y, pd.DataFrame):
        if y.shape[1] != 1:
            raise ValueError(f"y must have one column, got {y.shape[1]}")
        y = y.iloc[:, 0]
    if not isinstance(y, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        cells = np.asanyarray(y)  # a mask stays: what it covers is missing
        if cells.dtype.kind in "US" and isinstance(y, list | tuple):
            cells = np.array(y, dtype=object)  # numbers among strings stay numbers, and are refused
        y = cells
        if y.ndim == 0:
            raise TypeError(
                f"y must hold a response for each row, got {quoted(y.item())}; give the column itself, df[y]"
            )
        if y.ndim != 1:
            raise ValueError(f"y must be one-dimensional, got shape {y.shape}")
    series = y if isinstance(y, pd.Series) else pd.Series(y)
    if len(series) == 0:
        raise ValueError("y must have at least one row, it has none")
    missing = series.isna().to_numpy()
    if missing.any():
        raise ValueError(f"y must not hold missing values; row {series.index[int(np.argmax(missing))]!r} is missing")
    return series


def _numbers(y: Any) -> np.ndarray:
    series = _series(y)
    is_real = pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype)
    if not (is_real or pd.api.types.is_bool_dtype(series.dtype)):
        raise TypeError(f"y must hold numbers for this family, got dtype {series.dtype}")
    values = series.to_numpy(np.float64)
    _refuse(series, ~np.isfinite(values), "must hold finite numbers")
    return values


def _refuse(y: Any, bad: np.ndarray, rule: str) -> None:
    if bad.any():
        series = _series(y)
        i = int(np.argmax(bad))
        raise ValueError(f"y {rule}; row {series.index[i]!r} is {_plain(series.iloc[i])!r}")
