"""A circuit with its parameters: what fits, products and posteriors as circuits have in common."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.parameters import checked_parameters, checked_weights
from pymc_spn.circuits.no_interventions import NoInterventions
from pymc_spn.circuits.structures.circuit import Circuit


@dataclass(frozen=True, eq=False, repr=False)
class ParameterisedCircuit(NoInterventions):
    """A circuit, the log weights of its edges and the parameters of its leaves.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.circuit!r})"

    @property
    def parameters(self) -> dict[str, Any]:
        """`log_weights` and `leaf_parameters` by name: ``circuit.log_density(values, **this.parameters)``."""
        return {"log_weights": self.log_weights, "leaf_parameters": self.leaf_parameters}


def operand(argument: str, given: Any) -> tuple[Circuit, Any, Any]:
    """Circuit, log weights and leaf parameters of what holds them.

    Parameters
    ----------
    argument : str
        What an error calls it.
    given : ParameterisedCircuit, Circuit with parameters (a `FieldCircuit`) or tuple of the three

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(given, ParameterisedCircuit):
        return given.circuit, given.log_weights, given.leaf_parameters
    if isinstance(given, Circuit) and hasattr(given, "log_weights") and hasattr(given, "leaf_parameters"):
        return given, given.log_weights, given.leaf_parameters
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
