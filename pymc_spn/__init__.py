"""Tractable posteriors for PyMC: objects built once and asked often.

Public names load on first use, so that ``import pymc_spn`` stays as cheap as ``import pymc``. A name becomes
public by standing in `_PUBLIC` (for the running program) and in the ``TYPE_CHECKING`` block (for editors and
type checkers); a test compares the two. Step methods register with PyMC when their class is defined, so their
modules are imported here; they load neither Numba nor kernels.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from pymc_spn.circuits import step_methods as _circuits_steps  # noqa: F401

if TYPE_CHECKING:
    from pymc_spn.circuits.distributions import SPN as SPN
    from pymc_spn.circuits.leaves.families import Bernoulli as Bernoulli
    from pymc_spn.circuits.leaves.families import Categorical as Categorical
    from pymc_spn.circuits.leaves.families import Exponential as Exponential
    from pymc_spn.circuits.leaves.families import Gaussian as Gaussian
    from pymc_spn.circuits.leaves.families import Poisson as Poisson
    from pymc_spn.circuits.missing_cells import completed_columns as completed_columns
    from pymc_spn.circuits.queries.posterior import SPNPosterior as SPNPosterior
    from pymc_spn.circuits.queries.record import unpack as unpack
    from pymc_spn.circuits.step_methods import BottomUpSPNStep as BottomUpSPNStep
    from pymc_spn.circuits.step_methods import TopDownSPNStep as TopDownSPNStep
    from pymc_spn.circuits.structures.builders import complete_tree as complete_tree
    from pymc_spn.circuits.structures.builders import skewed_tree as skewed_tree
    from pymc_spn.circuits.structures.circuit import Circuit as Circuit
    from pymc_spn.circuits.structures.regions import RegionTree as RegionTree
    from pymc_spn.tables import Column as Column
    from pymc_spn.tables import Table as Table

__version__ = metadata.version("pymc-spn")

_PUBLIC = {
    "Bernoulli": "circuits.leaves.families",
    "BottomUpSPNStep": "circuits.step_methods",
    "Categorical": "circuits.leaves.families",
    "Circuit": "circuits.structures.circuit",
    "Column": "tables",
    "Exponential": "circuits.leaves.families",
    "Gaussian": "circuits.leaves.families",
    "Poisson": "circuits.leaves.families",
    "RegionTree": "circuits.structures.regions",
    "SPN": "circuits.distributions",
    "SPNPosterior": "circuits.queries.posterior",
    "Table": "tables",
    "TopDownSPNStep": "circuits.step_methods",
    "complete_tree": "circuits.structures.builders",
    "completed_columns": "circuits.missing_cells",
    "skewed_tree": "circuits.structures.builders",
    "unpack": "circuits.queries.record",
}

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
