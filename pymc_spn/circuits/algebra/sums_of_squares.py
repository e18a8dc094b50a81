"""`SumOfSquares`: densities that are squares of sums of circuits with coefficients of either sign."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.algebra.circuit_pairs import CircuitPairs, check_columns
from pymc_spn.circuits.algebra.circuit_products import product_circuit
from pymc_spn.circuits.algebra.signed_mixtures import SignedMixture
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.parameters import checked_values
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.parameterised import checked_operand, operand
from pymc_spn.numerics.asked_numbers import is_int, is_real
from pymc_spn.numerics.html_repr import Facts, NotebookRepr
from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column
from pymc_spn.tables.inputs import EventLike, TableLike

if TYPE_CHECKING:
    from pymc_spn.circuits.evaluation.completion import RowMoments

LEAST_SHARE = 1e-12  # of the absolute terms of the normaliser; less is rounding


@dataclass(frozen=True, eq=False, repr=False)
class SumOfSquares(NotebookRepr):
    """A density that adds and subtracts circuits before it is squared.

    With circuits p_1, .., p_K and coefficients of either sign it is proportional to the sum over j of
    (c_j1 p_1(x) + .. + c_jK p_K(x))^2. It can have holes and sharp edges for which sums with positive weights need many
    more components. Multiplied out it is a mixture of the normalised products of all pairs of circuits, with weights of
    either sign, so that marginals, events and moments are sums of theirs.

    What cancels between terms of opposite signs is lost to rounding in these sums. The relative error is that of a
    circuit, divided by the share that is left of the absolute terms. Densities of complete rows square one sum and do
    not lose anything in this way but near its zeros.

    Parameters
    ----------
    components : sequence of CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        Circuits with parameters, as for `log_inner_product`, over the same columns in the same order. Each pair must
        have a product (see `multiply`: the same splits, and leaves whose products are leaves).
    coefficients : (n_squares, n_components) or (n_components,) float64
        One row for each square. Their scale, and the sign of a row, do not matter.

    Raises
    ------
    TypeError
        If a component is not a circuit with parameters, or coefficients are not numbers.
    ValueError
        If there is no component, columns differ, or two circuits have no product (see `multiply`); if coefficients are
        not finite numbers of that shape, or cancel each other everywhere.

    Examples
    --------
    >>> square = ps.circuits.SumOfSquares([low, high], [1.0, -0.5])
    >>> square.sample(3, random_seed=1).shape
    (3, 2)

    References
    ----------
    Loconte, Sladek, Mengel, Trapp, Solin, Gillis and Vergari (2024), Subtractive mixture models via squaring:
    representation and learning, ICLR. Loconte, Mengel and Vergari (2025), Sum of squares circuits, AAAI.
    """

    components: Sequence[Any]
    coefficients: np.ndarray
    log_normaliser: float = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.components, Mapping | str) or not isinstance(self.components, Sequence):
            raise TypeError(f"components must be a sequence of circuits with parameters, got {quoted(self.components)}")
        operands = [operand(f"components[{k}]", given) for k, given in enumerate(self.components)]
        check_components([circuit for circuit, _, _ in operands])
        for k, (_, log_weights, leaf_parameters) in enumerate(operands):
            refuse_tensors(f"components[{k}]", log_weights, leaf_parameters)
        checked = [checked_operand(f"components[{k}]", given) for k, given in enumerate(operands)]
        put(self, "components", tuple(checked))  # copies, so that the normaliser stays theirs
        put(self, "coefficients", checked_coefficients(self.coefficients, len(operands)))
        _, sizes, signs = self._terms
        terms = signs * np.exp(sizes - sizes.max())
        left = terms.sum() / np.abs(terms).sum()
        if not left > LEAST_SHARE:
            raise ValueError(
                "coefficients must not cancel each other everywhere: of the absolute terms of the normaliser "
                f"{max(left, 0.0):.2g} are left"
            )
        put(self, "log_normaliser", float(np.log(terms.sum()) + sizes.max()))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns.

        Examples
        --------
        >>> ps.circuits.SumOfSquares([low, high], [1.0, -0.5]).names
        ('x', 'y')
        """
        return self.components[0][0].names

    @property
    def acceptance_rate(self) -> float:
        """One over the sum of the positive weights of the expanded square: the share that cancelling leaves.

        Examples
        --------
        >>> round(ps.circuits.SumOfSquares([low, high], [1.0, -0.5]).acceptance_rate, 4)
        0.9997
        """
        return 1.0 / float(np.maximum(self._mixture.weights, 0.0).sum())

    def _facts(self) -> Facts:
        n_squares, n_components = self.coefficients.shape
        squares = "1 square" if n_squares == 1 else f"{n_squares} squares"
        facts = {"squares": f"{squares} of {n_components} circuits", "columns": f"{len(self.names)} columns"}
        return Facts("SumOfSquares", facts)

    def log_density(self, values: TableLike) -> np.ndarray:
        """Log density of rows, with missing cells summed out.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
            NaN where missing. Levels are codes, in a DataFrame themselves where a circuit knows them.

        Returns
        -------
        (n_rows,) float64
            In nats; ``-inf`` where the density is 0, or for rows with gaps nothing but rounding.

        Raises
        ------
        ValueError, TypeError
            If values do not fit the columns.

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> square.log_density(rows.head(2)).shape
        (2,)
        """
        values = checked_values(self.components[0][0], values)
        gaps = np.isnan(values).any(axis=1)
        out = np.empty(len(values))
        if gaps.any():
            out[gaps] = self._mixture.log_density(values[gaps])
        if not gaps.all():
            out[~gaps] = self._of_whole_rows(values[~gaps])
        return out

    def _of_whole_rows(self, values: np.ndarray) -> np.ndarray:
        logs = np.array([Parameterised(*component).log_density(values) for component in self.components])
        out = np.full(len(values), -np.inf)
        for row in self.coefficients:
            used = row != 0.0
            if not used.any():
                continue
            terms = logs[used] + np.log(np.abs(row[used]))[:, None]  # in logs: no coefficient is too large or small
            top = terms.max(axis=0)
            shift = np.where(np.isneginf(top), 0.0, top)
            with np.errstate(divide="ignore"):
                root = np.log(np.abs(np.sign(row[used]) @ np.exp(terms - shift)))
            out = np.logaddexp(out, 2.0 * (root + shift))
        return out - self.log_normaliser

    def probability(
        self,
        event: Mapping[str, object] | Sequence[Mapping[str, object]] | str,
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Probability of an event, or its density in the columns that are at a point.

        Parameters
        ----------
        event, given : mapping, sequence of mappings or str
            As for `ParameterisedCircuit.log_probability_of_rows`; arrays may be left out.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given

        Raises
        ------
        TypeError, ValueError
            As `ParameterisedCircuit.probability`.

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> 0.0 < float(square.probability({"x": (None, 2.0)})) < 1.0
        True
        """
        return np.exp(self.log_probability(event, given))

    def log_probability(
        self,
        event: Mapping[str, object] | Sequence[Mapping[str, object]] | str,
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Log of `probability`, in nats.

        Parameters
        ----------
        event, given
            As for `probability`.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given
            ``-inf`` where the event is impossible, or nothing but rounding is left of it.

        Raises
        ------
        TypeError, ValueError
            As `ParameterisedCircuit.probability`.

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> float(square.log_probability({"x": (None, 2.0)})) < 0.0
        True
        """
        return self._mixture.log_probability(event, given)

    def moments(self, values: TableLike, covariance: bool = True) -> "RowMoments":
        """Means and covariances of each row's missing cells given its observed ones.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
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

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> mean, covariance = square.moments(pd.DataFrame({"x": [0.0], "y": [None]}))
        >>> mean.shape, covariance.shape
        ((1, 2), (1, 2, 2))
        """
        return self._mixture.moments(checked_values(self.components[0][0], values), covariance)

    def sample(self, n: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Independent rows.

        Drawn by rejection from the terms with positive weights, which is exact. If fewer than one proposal in a hundred
        would be kept, each column is drawn by halving on its distribution function given those before it. This is
        numerical, to the rounding of these functions, which is that of one circuit divided by `acceptance_rate`.

        Parameters
        ----------
        n : int
            Number of rows, at least 0.
        random_seed : int or Generator, optional

        Returns
        -------
        (n, D) float64
            Coded values.

        Raises
        ------
        ValueError
            If n is not an integer of at least 0.

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> square.sample(3, random_seed=1).shape
        (3, 2)
        """
        if not is_int(n) or n < 0:
            raise ValueError(f"n must be an integer of at least 0, got {quoted(n)}")
        refuse_count("n", int(n), 16.0 * len(self.names))
        return self.complete(np.full((n, len(self.names)), np.nan), random_seed)

    def complete(self, values: TableLike, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Rows whose missing cells are drawn from their conditional given the observed cells, as by `sample`.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        random_seed : int or Generator, optional

        Returns
        -------
        (n_rows, D) float64
            The rows without NaN; observed cells are kept.

        Raises
        ------
        ValueError, TypeError
            As `moments`.

        Examples
        --------
        >>> square = ps.circuits.SumOfSquares([low, high], np.array([1.0, -0.5]))
        >>> square.complete(pd.DataFrame({"x": [0.0], "y": [None]}), random_seed=1).shape
        (1, 2)
        """
        checked = checked_values(self.components[0][0], values)
        return self._mixture.complete(checked, np.random.default_rng(random_seed))

    @cached_property
    def _mixture(self) -> SignedMixture:
        parts, sizes, signs = self._terms
        return SignedMixture([Parameterised(*part) for part in parts], signs * np.exp(sizes - self.log_normaliser))

    @cached_property
    def _terms(self) -> tuple[list[Any], np.ndarray, np.ndarray]:
        """Normalised products of the pairs that have a weight, logs of its absolute value, and its sign."""
        scale = np.abs(self.coefficients).max()
        scaled = self.coefficients / scale  # squares of what is left out by this are below 1e-308 of the largest
        square = scaled.T @ scaled
        columns = known_columns([circuit for circuit, _, _ in self.components])
        parts, sizes, signs = [], [], []
        for k, one in enumerate(self.components):
            for other in range(k, len(self.components)):
                if square[k, other] == 0.0:
                    continue
                try:
                    pairs = CircuitPairs(one, self.components[other])
                    log_inner = pairs.log_inner_product()
                    if not np.isneginf(log_inner):
                        parts.append(product_circuit(pairs, columns))
                        factor = abs(square[k, other]) * (1.0 if k == other else 2.0)
                        sizes.append(np.log(factor) + 2.0 * np.log(scale) + log_inner)
                        signs.append(np.sign(square[k, other]))
                except ValueError as error:
                    raise ValueError(f"{without_product(k, other)}: {error}") from error
        return parts, np.array(sizes), np.array(signs)


def check_components(circuits: Sequence[Circuit]) -> None:
    """Refuse no circuit at all, and circuits whose columns differ in kind or levels or stand in another order."""
    if not circuits:
        raise ValueError("components must hold at least one circuit with parameters, got none")
    first = known_columns(circuits)
    at = next(k for k, circuit in enumerate(circuits) if circuit.columns == first)
    for k, circuit in enumerate(circuits):
        try:
            if circuit.names != circuits[at].names:
                raise ValueError(f"got {list(circuits[at].names)} and {quoted(list(circuit.names))}")
            check_columns(circuits[at], circuit)
        except ValueError as error:
            raise ValueError(
                f"components must have the same columns in the same order, see components[{at}] and "
                f"components[{k}]: {error}"
            ) from None


def without_product(k: int, other: int) -> str:
    """What an error says of components that have no product."""
    if k == other:
        return f"components[{k}] has no square"
    return f"components[{k}] and components[{other}] have no product"


def known_columns(circuits: Sequence[Circuit]) -> tuple[Any, ...]:
    """Columns of the first circuit that knows their kinds and levels; of the first, if all know names only."""
    of_kinds = (c.columns for c in circuits if all(isinstance(column, Column) for column in c.columns))
    return next(of_kinds, circuits[0].columns)


def refuse_tensors(argument: str, log_weights: Any, leaf_parameters: Any) -> None:
    """Name the parameters of a component that are tensors, and who takes those."""
    by_family = leaf_parameters if isinstance(leaf_parameters, Mapping) else {}
    for name, given in (("log_weights", log_weights), *by_family.items()):
        if hasattr(given, "owner"):
            raise TypeError(
                f"{argument}: {name} must be numbers, got the tensor {given!r}; SumOfSquaresDensity takes those"
            )


def checked_coefficients(given: Any, n_components: int) -> np.ndarray:
    """A copy (n_squares, n_components) of coefficients; refused unless finite real numbers and not all 0."""
    try:
        raw = np.asarray(given)
        numbers = raw.dtype.kind in "iuf" or (raw.dtype == object and all(is_real(x) for x in raw.flat))
        if not numbers or np.ma.is_masked(given):
            raise TypeError
        found = np.atleast_2d(np.array(raw, np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"coefficients must be an array of real numbers, got {quoted(given)}") from None
    if found.ndim != 2 or found.shape[0] == 0 or found.shape[1] != n_components:
        raise ValueError(
            f"coefficients must have shape ({n_components},) or (squares, {n_components}), one for each component, "
            f"got {np.shape(given)}"
        )
    if not np.all(np.isfinite(found)):
        j, k = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(f"coefficients must be finite, got {found[j, k]} in row {j} for components[{k}]")
    if not found.any():
        raise ValueError("coefficients must not all be 0")
    return found
