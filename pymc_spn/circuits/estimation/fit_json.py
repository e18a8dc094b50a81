"""Fitted circuits as JSON values and back, to the bit: Python writes a float with the digits that give it again."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.evaluation.parameters import checked_parameters, checked_weights, refuse_distributions
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.circuit_json import is_number
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit

JSON_FORMAT = "circuit_fit/1"
LISTS = ("log_weights", "objective", "of_restarts")
NAMES = (
    "circuit",
    "log_weights",
    "leaf_parameters",
    "log_likelihood",
    "objective",
    "converged",
    "of_restarts",
    "epochs",
)
IMPOSSIBLE = "-inf"  # which JSON has no number for


def fit_to_json(fit: "CircuitFit") -> dict[str, Any]:
    """See `CircuitFit.to_json`."""
    refuse_distributions(fit.circuit, "a circuit that is written as JSON", only_objects=True)
    return {
        "format": JSON_FORMAT,
        "circuit": fit.circuit.to_json(),
        **{name: [x if math.isfinite(x) else IMPOSSIBLE for x in getattr(fit, name).tolist()] for name in LISTS},
        "leaf_parameters": {family: own.tolist() for family, own in fit.leaf_parameters.items()},
        "log_likelihood": fit.log_likelihood,
        "converged": fit.converged,
        "epochs": fit.epochs,
    }


def fields_from_json(data: Any) -> dict[str, Any]:
    """Arguments of `CircuitFit`, see `CircuitFit.from_json`."""
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be the mapping that to_json returned, got {type(data).__name__}")
    if data.get("format") != JSON_FORMAT:
        raise ValueError(f"data must have format {JSON_FORMAT!r}, got {data.get('format')!r}")
    if set(data) != {"format", *NAMES}:
        raise ValueError(f"data must have {list(NAMES)}, got {sorted(map(str, set(data) - {'format'}))}")
    circuit = Circuit.from_json(data["circuit"])
    fields: dict[str, Any] = {name: _numbers(name, data[name]) for name in LISTS}
    for name in ("objective", "of_restarts"):
        if fields[name].size == 0:
            raise ValueError(f"{name} must hold at least one number, got none")
    if type(data["converged"]) is not bool:
        raise TypeError(f"converged must be true or false, got {quoted(data['converged'])}")
    if type(data["epochs"]) is not int or data["epochs"] < 0:
        raise ValueError(f"epochs must be an integer of at least 0, got {quoted(data['epochs'])}")
    leaves = data["leaf_parameters"]
    if not isinstance(leaves, Mapping):
        raise TypeError(f"leaf_parameters must be a mapping from families to rows, got {quoted(leaves)}")
    parameters = {family: _rows(f"leaf_parameters[{family!r}]", rows) for family, rows in leaves.items()}
    return {
        **fields,
        "circuit": circuit,
        "log_weights": checked_weights(circuit, fields["log_weights"]),
        "leaf_parameters": checked_parameters(circuit, parameters),
        "log_likelihood": float(_numbers("log_likelihood", [data["log_likelihood"]])[0]),
        "converged": data["converged"],
        "epochs": data["epochs"],
    }


def _numbers(name: str, values: Any) -> np.ndarray:
    if not isinstance(values, list):
        raise TypeError(f"{name} must be a list, got {quoted(values)}")
    for i, x in enumerate(values):
        if x != IMPOSSIBLE and not (is_number(x) and math.isfinite(x)):
            raise ValueError(f"{name} must hold finite numbers or {IMPOSSIBLE!r}, got {quoted(x)} at place {i}")
    return np.array([float(x) for x in values])


def _rows(name: str, rows: Any) -> np.ndarray:
    if not isinstance(rows, list):
        raise TypeError(f"{name} must be a list of rows, got {quoted(rows)}")
    found = [_numbers(f"{name}[{i}]", row) for i, row in enumerate(rows)]
    for i, row in enumerate(found):
        if row.size != found[0].size:
            raise ValueError(
                f"{name} must have rows of one length, got {row.size} numbers at row {i}, {found[0].size} at 0"
            )
    return np.array(found)
