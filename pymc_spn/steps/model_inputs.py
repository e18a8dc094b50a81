"""Types of what users give inside a model, where numbers may be variables."""

from collections.abc import Mapping

import numpy.typing as npt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

type NumbersOrVariable = npt.ArrayLike | Variable
"""Numbers, or a variable of the model."""

type NumberOrVariable = float | TensorVariable
"""A number, or a variable of the model."""

type HyperparameterLike = npt.ArrayLike | Variable | Mapping[str, float]
"""Numbers, a variable of the model, or numbers by column."""
