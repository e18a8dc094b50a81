"""Factor graphs over discrete variables: junction trees, message kernels, fields inside PyMC models."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.factor_graphs.recovery import recover_discrete as recover_discrete

_PUBLIC = {
    "recover_discrete": "factor_graphs.recovery",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
