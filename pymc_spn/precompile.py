"""Compile ahead, for images and clusters: ``python -m pymc_spn.precompile``."""

from importlib import import_module
from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.interop.precompiled import precompile as precompile

_PUBLIC = {"precompile": "interop.precompiled"}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__spec__.name, _PUBLIC)

if __name__ == "__main__":
    import_module("pymc_spn.interop.precompiled").main()
