"""Tractable posteriors for PyMC: objects built once and asked often.

Public names load on first use, so that ``import pymc_spn`` stays as cheap as ``import pymc``. A name becomes
public by standing in `_PUBLIC` (for the running program) and in the ``TYPE_CHECKING`` block (for editors and
type checkers); a test compares the two. Step methods register with PyMC when their class is defined, so their
modules are imported here; they load neither Numba nor kernels.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from pymc_spn.circuits import step_methods as _circuits_steps  # noqa: F401
from pymc_spn.dags import step_methods as _dags_steps  # noqa: F401

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
    from pymc_spn.dags.dag import CPDAG as CPDAG
    from pymc_spn.dags.dag import DAG as DAG
    from pymc_spn.dags.distributions import DagOrder as DagOrder
    from pymc_spn.dags.distributions import DagPartition as DagPartition
    from pymc_spn.dags.local_scores import LocalScores as LocalScores
    from pymc_spn.dags.log_evidence import dag_log_evidence as dag_log_evidence
    from pymc_spn.dags.mcmc_posterior import DagDraws as DagDraws
    from pymc_spn.dags.mixed_score import ConditionalGaussian as ConditionalGaussian
    from pymc_spn.dags.order_spn import OrderSPN as OrderSPN
    from pymc_spn.dags.scores import BDeu as BDeu
    from pymc_spn.dags.scores import BGe as BGe
    from pymc_spn.dags.step_methods import DagOrderStep as DagOrderStep
    from pymc_spn.dags.step_methods import DagPartitionStep as DagPartitionStep
    from pymc_spn.dags.structure_prior import EdgeLogOdds as EdgeLogOdds
    from pymc_spn.dags.structure_prior import EdgePenalty as EdgePenalty
    from pymc_spn.tables import Column as Column
    from pymc_spn.tables import Table as Table

__version__ = metadata.version("pymc-spn")

_PUBLIC = {
    "BDeu": "dags.scores",
    "BGe": "dags.scores",
    "Bernoulli": "circuits.leaves.families",
    "BottomUpSPNStep": "circuits.step_methods",
    "CPDAG": "dags.dag",
    "Categorical": "circuits.leaves.families",
    "Circuit": "circuits.structures.circuit",
    "Column": "tables",
    "ConditionalGaussian": "dags.mixed_score",
    "DAG": "dags.dag",
    "DagDraws": "dags.mcmc_posterior",
    "DagOrder": "dags.distributions",
    "DagOrderStep": "dags.step_methods",
    "DagPartition": "dags.distributions",
    "DagPartitionStep": "dags.step_methods",
    "EdgeLogOdds": "dags.structure_prior",
    "EdgePenalty": "dags.structure_prior",
    "Exponential": "circuits.leaves.families",
    "Gaussian": "circuits.leaves.families",
    "LocalScores": "dags.local_scores",
    "OrderSPN": "dags.order_spn",
    "Poisson": "circuits.leaves.families",
    "RegionTree": "circuits.structures.regions",
    "SPN": "circuits.distributions",
    "SPNPosterior": "circuits.queries.posterior",
    "Table": "tables",
    "TopDownSPNStep": "circuits.step_methods",
    "complete_tree": "circuits.structures.regions",
    "dag_log_evidence": "dags.log_evidence",
    "skewed_tree": "circuits.structures.regions",
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
