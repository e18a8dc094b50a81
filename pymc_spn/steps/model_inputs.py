"""What users give inside a model, where numbers may be variables."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

type NumbersOrVariable = npt.ArrayLike | Variable
"""Numbers, or a variable of the model."""

type NumberOrVariable = float | TensorVariable
"""A number, or a variable of the model."""

type HyperparameterLike = npt.ArrayLike | Variable | Mapping[str, float]
"""Numbers, a variable of the model, or numbers by column."""


def scalar_hyperparameter(name: str, argument: str, value: Any, model: Any) -> tuple[Any, dict[str, Any]]:
    """A scalar for the log density, and where its values are found: a fixed number or a variable.

    An unnamed distribution becomes a variable of the model.

    Parameters
    ----------
    name : str
        Of the structure that has it, with the prefix of the model.
    argument : str
    value : number or variable
    model : Model

    Raises
    ------
    ValueError
        If a variable is no scalar, or not one of the model.
    """
    if not isinstance(value, Variable):
        return pt.constant(float(value), dtype="float64"), {"fixed": float(value)}
    if value.type.ndim != 0:
        raise ValueError(f"{argument} must be a scalar; {value.name!r} has {value.type.ndim} dimensions")
    is_known = value in model.basic_RVs or value in model.deterministics
    if not is_known and (value.owner is None or not isinstance(value.owner.op, RandomVariable)):
        raise ValueError(
            f"{argument} must be a number or a named variable of the model, so that its draws are kept; "
            f'wrap the expression: pm.Deterministic("{name}_{argument}", ...)'
        )
    if not is_known:
        prefix = f"{model.name}::" if model.name else ""
        value = model.register_rv(value, f"{name}_{argument}".removeprefix(prefix))
    return value, {"variable": value.name}
