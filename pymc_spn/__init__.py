"""Tractable posteriors for PyMC: objects built once and asked often.

Public names load on first use, so that ``import pymc_spn`` stays as cheap as ``import pymc``. A name becomes
public by standing in `_PUBLIC` (for the running program) and in the ``TYPE_CHECKING`` block (for editors and
type checkers); a test compares the two. Step methods register with PyMC when their class is defined, so their
modules are imported here; they load neither Numba nor kernels.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__version__ = metadata.version("pymc-spn")

_PUBLIC: dict[str, str] = {}

__all__ = ["__version__", *_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name):
        """Import a public name from its module and keep it."""
        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_PUBLIC})
