"""A circuit with its parameters: what fits, products and posteriors as circuits have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.answers import Answers
from pymc_spn.circuits.evaluation.parameters import checked_parameters, checked_weights
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.parameterised_queries import ParameterisedQueries
from pymc_spn.laws.law import Law, Marks
from pymc_spn.numerics.own_names import own_names

if TYPE_CHECKING:
    from pymc_spn.circuits.laws.circuit_law import CircuitLaw


@own_names
@dataclass(frozen=True, eq=False, repr=False)
class ParameterisedCircuit(ParameterisedQueries, Answers):  # type: ignore[misc]  # four questions take rows of codes
    """A circuit with its parameters, which are checked once, when it is made.

    It answers what `Circuit` does, without parameters as arguments, and single rows in a fraction of the time. Fits,
    products and compositions of circuits are such objects, and so are the answers of `SPNPosterior.as_circuit`.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
        Weights of a sum add up to 1. Held as a read-only copy.
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
        See the table of `CircuitQueries`. Held as read-only copies.

    Raises
    ------
    TypeError
        If the first is no circuit, or parameters are no numbers.
    ValueError
        If a shape is wrong, or weights or parameters are not valid.
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        if not isinstance(self.circuit, Circuit):
            raise TypeError(f"circuit must be a Circuit, got {type(self.circuit).__name__}")
        self._hold(
            checked_weights(self.circuit, self.log_weights), checked_parameters(self.circuit, self.leaf_parameters)
        )

    def _hold(self, log_weights: np.ndarray, leaf_parameters: Mapping[str, np.ndarray]) -> None:
        """Keep copies that nobody can write into; what is given for families without leaves stays as it is."""
        own = dict(self.leaf_parameters) | {name: rows.copy() for name, rows in leaf_parameters.items()}
        object.__setattr__(self, "log_weights", log_weights.copy())
        object.__setattr__(self, "leaf_parameters", own)
        for held in (self.log_weights, *(own[name] for name in leaf_parameters)):
            held.flags.writeable = False

    @property
    def _law(self) -> "CircuitLaw":  # type: ignore[override]  # made with the first question
        from pymc_spn.circuits.laws.circuit_law import CircuitLaw, labelled_columns

        whole, held = self._given, self.__dict__.get("_held_law")
        if held is None or held.whole is not whole:
            held = CircuitLaw(whole, labelled_columns(whole), self._marks)
            self.__dict__["_held_law"] = held
        return held

    @property
    def _marks(self) -> Marks:
        """What answers say of where the circuit comes from."""
        return Marks()

    def _of(self, law: Law) -> "Self | ParameterisedCircuit":  # what a fit knows is not kept
        if not law.columns:
            raise ValueError(f"given must leave a column, got values of all of them: {law.in_words()}")
        return ParameterisedCircuit(*law.part)  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """Without what the first question prepared."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays that may be written come out of pickles and deep copies."""
        self.__dict__.update(state)
        self._hold(self.log_weights, {name: np.asarray(rows) for name, rows in self.leaf_parameters.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.circuit!r})"

    @property
    def parameters(self) -> dict[str, Any]:
        """`log_weights` and `leaf_parameters` by name: ``circuit.log_density(values, **this.parameters)``."""
        return {"log_weights": self.log_weights, "leaf_parameters": self.leaf_parameters}


type CircuitLike = ParameterisedCircuit | tuple[Circuit, npt.ArrayLike, Mapping[str, npt.ArrayLike]]
"""A circuit that holds its parameters, or circuit, log weights and leaf parameters."""


def operand(argument: str, given: Any) -> tuple[Circuit, Any, Any]:
    """Circuit, log weights and leaf parameters of what holds them.

    Parameters
    ----------
    argument : str
        What an error calls it.
    given : ParameterisedCircuit or tuple of circuit, log_weights and leaf_parameters

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(given, ParameterisedCircuit):
        return given.circuit, given.log_weights, given.leaf_parameters
    if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[0], Circuit):
        raise TypeError(
            f"{argument} must have a circuit, log_weights and leaf_parameters, or be a tuple of these; "
            f"got {type(given).__name__}"
        )
    return given


def checked_operand(argument: str, given: Any) -> tuple[Circuit, np.ndarray, dict[str, np.ndarray]]:
    """`operand` with checked copies of its parameters, an error beginning with the argument.

    Raises
    ------
    TypeError, ValueError
        As `operand`, and if parameters are not valid.
    """
    circuit, log_weights, leaf_parameters = operand(argument, given)
    try:
        parameters = {name: found.copy() for name, found in checked_parameters(circuit, leaf_parameters).items()}
        return circuit, checked_weights(circuit, log_weights).copy(), parameters
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None
