"""Tractable posteriors for PyMC: objects built once and asked often.

Public names load on first use, so that ``import pymc_spn`` stays as cheap as ``import pymc``. A name becomes
public by standing in `_PUBLIC` (for the running program) and in the ``TYPE_CHECKING`` block (for editors and
type checkers); a test compares the two. Step methods register with PyMC when their class is defined, so their
modules are imported here; they load neither Numba nor kernels.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from pymc_spn.circuits import step_methods as _circuits_steps  # noqa: F401
from pymc_spn.trees import step_methods as _trees_steps  # noqa: F401

if TYPE_CHECKING:
    from pymc_spn.circuits.distributions import SPN as SPN
    from pymc_spn.circuits.leaves.families import Bernoulli as Bernoulli
    from pymc_spn.circuits.leaves.families import Categorical as Categorical
    from pymc_spn.circuits.leaves.families import Exponential as Exponential
    from pymc_spn.circuits.leaves.families import Gaussian as Gaussian
    from pymc_spn.circuits.leaves.families import Poisson as Poisson
    from pymc_spn.circuits.queries.posterior import SPNPosterior as SPNPosterior
    from pymc_spn.circuits.queries.record import unpack as unpack
    from pymc_spn.circuits.step_methods import BottomUpSPNStep as BottomUpSPNStep
    from pymc_spn.circuits.step_methods import TopDownSPNStep as TopDownSPNStep
    from pymc_spn.circuits.structures.circuit import Circuit as Circuit
    from pymc_spn.circuits.structures.regions import RegionTree as RegionTree
    from pymc_spn.circuits.structures.regions import complete_tree as complete_tree
    from pymc_spn.circuits.structures.regions import skewed_tree as skewed_tree
    from pymc_spn.tables import Column as Column
    from pymc_spn.tables import Table as Table
    from pymc_spn.trees.annealing import annealed_tree_evidence as annealed_tree_evidence
    from pymc_spn.trees.distributions import DecisionTree as DecisionTree
    from pymc_spn.trees.distributions import TreeResponse as TreeResponse
    from pymc_spn.trees.exact import ExactTrees as ExactTrees
    from pymc_spn.trees.exact import exact_tree_evidence as exact_tree_evidence
    from pymc_spn.trees.fit import fit_tree as fit_tree
    from pymc_spn.trees.leaves import BinaryLeaves as BinaryLeaves
    from pymc_spn.trees.leaves import ClassLeaves as ClassLeaves
    from pymc_spn.trees.leaves import CountLeaves as CountLeaves
    from pymc_spn.trees.leaves import NormalLeaves as NormalLeaves
    from pymc_spn.trees.posterior import TreePosterior as TreePosterior
    from pymc_spn.trees.record import load_trees as load_trees
    from pymc_spn.trees.step_methods import ChipmanTreeStep as ChipmanTreeStep
    from pymc_spn.trees.step_methods import ParticleGibbsTreeStep as ParticleGibbsTreeStep

__version__ = metadata.version("pymc-spn")

_PUBLIC = {
    "Bernoulli": "circuits.leaves.families",
    "BinaryLeaves": "trees.leaves",
    "BottomUpSPNStep": "circuits.step_methods",
    "Categorical": "circuits.leaves.families",
    "ChipmanTreeStep": "trees.step_methods",
    "Circuit": "circuits.structures.circuit",
    "ClassLeaves": "trees.leaves",
    "Column": "tables",
    "CountLeaves": "trees.leaves",
    "DecisionTree": "trees.distributions",
    "ExactTrees": "trees.exact",
    "Exponential": "circuits.leaves.families",
    "Gaussian": "circuits.leaves.families",
    "NormalLeaves": "trees.leaves",
    "ParticleGibbsTreeStep": "trees.step_methods",
    "Poisson": "circuits.leaves.families",
    "RegionTree": "circuits.structures.regions",
    "SPN": "circuits.distributions",
    "SPNPosterior": "circuits.queries.posterior",
    "Table": "tables",
    "TopDownSPNStep": "circuits.step_methods",
    "TreePosterior": "trees.posterior",
    "TreeResponse": "trees.distributions",
    "annealed_tree_evidence": "trees.annealing",
    "complete_tree": "circuits.structures.regions",
    "exact_tree_evidence": "trees.exact",
    "fit_tree": "trees.fit",
    "load_trees": "trees.record",
    "skewed_tree": "circuits.structures.regions",
    "unpack": "circuits.queries.record",
}

_ROOMS = ("plots",)  # reached as attributes, loaded when used

__all__ = ["__version__", *_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name):
        """Import a public name from its module and keep it; `plots` is a module of its own."""
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_PUBLIC, *_ROOMS})
