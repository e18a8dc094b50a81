"""Names of a module that are imported from their places on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    module: str, places: Mapping[str, str], namespaces: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names stand elsewhere in the package.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    places : mapping
        Name: the module of the package that defines it, without the package's own name.
    namespaces : tuple of str
        Submodules that are offered as well, imported when they are asked for.
    """
    package = module.partition(".")[0]

    def load(name: str) -> Any:
        if name in namespaces:
            return import_module(f"{module}.{name}")
        if name not in places:
            said = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(said, name=name, obj=sys.modules[module])
        value = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*places, *namespaces})

    return load, names
