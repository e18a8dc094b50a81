"""Data of a model that results keep as constants, and that pictures of the model leave out.

`pymc.model_graph.ModelGraph` shows what is in ``model.named_vars``; ``pm.sample`` keeps what is in ``model.data_vars``.
`pm.Data` is in both. A copy of a model (``pm.do``, ``pm.observe``) names all of its data, and so shows these too.
"""

from typing import Any

import numpy as np
import pytensor
from pymc.pytensorf import convert_data


def keep_data(model: Any, name: str, values: np.ndarray, described: bool = False) -> None:
    """Keep an array with the results of a model.

    Parameters
    ----------
    model : Model
    name : str
        Without the prefix of a model inside a model.
    values : array
    described : bool
        Whether the schema of a variable says what matters of it, so that `model_digest` leaves it out.

    Raises
    ------
    ValueError
        If the model has a variable of this name.
    """
    full = model.name_for(name)
    if model.named_vars.tree_contains(full):
        raise ValueError(f"Variable name {full} already exists.")
    model.data_vars.append(pytensor.shared(convert_data(values), full))
    model.data_vars[-1].tag.is_described = described


def kept_data(model: Any, name: str) -> np.ndarray | None:
    """The array that a model keeps under a name, given in full; None if there is none."""
    found = (variable.get_value() for variable in model.data_vars if variable.name == name)
    return next(found, None)
