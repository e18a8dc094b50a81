"""Methods that public classes inherit from mixins, under the name of the public class: Python's messages show it."""

import inspect
from types import FunctionType
from typing import Any

from pymc_spn.numerics.first_guesses import LeadsOn, led
from pymc_spn.numerics.methods_of_some import MethodOfSome


def own_names[Class: type](cls: Class) -> Class:
    """Give a public class copies of the methods that it inherits within the package, named as its own.

    ``post.predict()`` without its arguments then says ``SPNPosterior.predict()`` and not the name of a mixin that no
    page knows. A copy runs the same code; only ``__qualname__`` differs. Methods of a `LeadsOn` say which arguments
    they take where a call does not fit them.
    """
    leads = issubclass(cls, LeadsOn)
    for name, member in list(vars(cls).items()) if leads else ():
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, led(member))
    seen = {name for name, member in vars(cls).items() if not isinstance(member, MethodOfSome)}
    for base in cls.__mro__:
        if not base.__module__.startswith("pymc_spn."):
            continue
        for name, member in list(vars(base).items()):
            if name in seen:
                continue
            seen.add(name)
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            made = _renamed(member, f"{cls.__qualname__}.{name}")
            if made is not None:
                is_question = leads and isinstance(made, FunctionType) and not name.startswith("_")
                setattr(cls, name, led(made) if is_question else made)
    return cls


def _renamed(member: Any, qualname: str) -> Any:
    """A copy of a function or of a method of any kind under another name; None of other members."""
    if isinstance(member, classmethod | staticmethod | MethodOfSome):
        inner = _renamed(member.__func__, qualname)
        return None if inner is None else type(member)(inner)
    if not isinstance(member, FunctionType):
        return None
    if getattr(member, "is_led", False):  # Python's message has the name of what is called in the end
        return led(_renamed(inspect.unwrap(member), qualname))
    copy = FunctionType(member.__code__, member.__globals__, member.__name__, member.__defaults__, member.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = member.__kwdefaults__, member.__annotations__
    copy.__doc__, copy.__module__ = member.__doc__, member.__module__
    copy.__dict__.update(member.__dict__)
    copy.__qualname__ = qualname
    return copy
