"""Models as bytes for other machines, with what PyMC keeps outside of them."""

import sys
from typing import Any

import cloudpickle
import pymc as pm
from pymc.distributions.distribution import _support_point
from pymc.distributions.shape_utils import _change_dist_size
from pymc.logprob.abstract import _logcdf, _logprob
from pytensor.graph.traversal import ancestors

# Functions of PyMC that look up a method by the class of a distribution. `pm.CustomDist` makes a class for each
# variable and enters its methods here. A pickled model leaves them behind: it would start elsewhere, or lack a density.
LOOKED_UP = {"logprob": _logprob, "logcdf": _logcdf, "support_point": _support_point, "size": _change_dist_size}


def bytes_of_model(model: Any, arguments: dict[str, Any]) -> bytes:
    """A model, or the function that builds it, with arguments of `pm.sample`, for `model_of_bytes`.

    Raises
    ------
    TypeError
        If a part of it cannot be pickled.
    """
    try:
        return cloudpickle.dumps((model, arguments, _entered(model) if isinstance(model, pm.Model) else []))
    except Exception as error:
        what, way = "function", "let it open files and connections itself"
        if isinstance(model, pm.Model):
            what, way = "model", "give a function that builds it where it runs"
        raise TypeError(f"the {what} cannot be sent to workers ({type(error).__name__}: {error}); {way}") from error


def model_of_bytes(sent: bytes) -> tuple[Any, dict[str, Any]]:
    """What `bytes_of_model` was given."""
    model, arguments, entered = cloudpickle.loads(sent)
    for name, cls, method in entered:
        LOOKED_UP[name].register(cls, method)
    return model, arguments


def _entered(model: pm.Model) -> list[tuple[str, type, Any]]:
    """Methods of the distributions of a model whose classes other processes cannot import."""
    own, waiting = set(), list(model.basic_RVs)
    while waiting:
        ops = {variable.owner.op for variable in ancestors(waiting) if variable.owner is not None}
        own |= {type(op) for op in ops}
        waiting = [output for op in ops if hasattr(op, "inner_outputs") for output in op.inner_outputs]
    return [
        (name, cls, function.registry[cls])
        for cls in sorted(own, key=lambda one: (one.__module__, one.__qualname__))
        if getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls
        for name, function in LOOKED_UP.items()
        if cls in function.registry
    ]
