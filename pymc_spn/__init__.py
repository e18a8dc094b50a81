"""Tractable posteriors for PyMC: objects built once and asked often.

What most models need stands here; the rest is in namespaces: `leaves`, `circuits`, `steps`, `dags`, `trees`,
`factor_graphs`, `indian_chefs`, `plots`, `sklearn`. Public names load on first use, so that ``import pymc_spn`` stays
as cheap as ``import pymc``. A name becomes public by standing in `_PUBLIC` (for the running program) and in the
``TYPE_CHECKING`` block (for editors and type checkers) of one of these modules. A test compares the two. Step methods
register with PyMC when their class is defined, so their modules are imported here. They load neither Numba nor kernels.
"""

from importlib import metadata
from typing import TYPE_CHECKING

from pymc_spn.dags import step_methods as _dags_steps  # noqa: F401
from pymc_spn.indian_chefs import network_steps as _network_steps  # noqa: F401
from pymc_spn.indian_chefs import step_methods as _chefs_steps  # noqa: F401
from pymc_spn.networks import step_methods as _networks_steps  # noqa: F401
from pymc_spn.numerics.lazy_names import lazy_names
from pymc_spn.trees import step_methods as _trees_steps  # noqa: F401

if TYPE_CHECKING:
    from pymc_spn import circuits as circuits
    from pymc_spn import dags as dags
    from pymc_spn import factor_graphs as factor_graphs
    from pymc_spn import indian_chefs as indian_chefs
    from pymc_spn import leaves as leaves
    from pymc_spn import plots as plots
    from pymc_spn import sklearn as sklearn
    from pymc_spn import steps as steps
    from pymc_spn import trees as trees
    from pymc_spn.answers.pooled_estimates import pool_estimates as pool_estimates
    from pymc_spn.circuits.structures.circuit import Circuit as Circuit
    from pymc_spn.dags.dag import CPDAG as CPDAG
    from pymc_spn.dags.dag import DAG as DAG
    from pymc_spn.dags.distributions import DagOrder as DagOrder
    from pymc_spn.dags.distributions import DagPartition as DagPartition
    from pymc_spn.dags.local_scores import LocalScores as LocalScores
    from pymc_spn.dags.mcmc_posterior import DagDraws as DagDraws
    from pymc_spn.dags.order_spn import DagPosterior as DagPosterior
    from pymc_spn.dags.order_spn import OrderSPN as OrderSPN
    from pymc_spn.dags.scores import BDeu as BDeu
    from pymc_spn.dags.scores import BGe as BGe
    from pymc_spn.dags.scores import ConditionalGaussian as ConditionalGaussian
    from pymc_spn.densities.circuit_density import CircuitDensity as CircuitDensity
    from pymc_spn.factor_graphs.distributions import DiscreteField as DiscreteField
    from pymc_spn.factor_graphs.distributions import FieldEmission as FieldEmission
    from pymc_spn.factor_graphs.graph import FactorGraph as FactorGraph
    from pymc_spn.indian_chefs.belief_network_posterior import BeliefNetworkPosterior as BeliefNetworkPosterior
    from pymc_spn.indian_chefs.belief_network_posterior import NLGBNPosterior as NLGBNPosterior
    from pymc_spn.indian_chefs.distributions import IndianChefsProcess as IndianChefsProcess
    from pymc_spn.indian_chefs.graph_draws import GraphDraws as GraphDraws
    from pymc_spn.indian_chefs.network_distributions import NLGBN as NLGBN
    from pymc_spn.indian_chefs.network_distributions import LinearGaussianNetwork as LinearGaussianNetwork
    from pymc_spn.indian_chefs.network_distributions import SigmoidBeliefNetwork as SigmoidBeliefNetwork
    from pymc_spn.interop.cluster_chains import sample_chains as sample_chains
    from pymc_spn.interop.sampled_structures import unpack as unpack
    from pymc_spn.interop.saved_posteriors import load as load
    from pymc_spn.networks.distributions import SPN as SPN
    from pymc_spn.networks.learners import fit_variational as fit_variational
    from pymc_spn.networks.missing_cells import completed_columns as completed_columns
    from pymc_spn.networks.posterior import SPNPosterior as SPNPosterior
    from pymc_spn.networks.variational_posterior import VariationalPosterior as VariationalPosterior
    from pymc_spn.numerics.threads import parallel_config as parallel_config
    from pymc_spn.numerics.trust_warnings import ConvergenceWarning as ConvergenceWarning
    from pymc_spn.numerics.trust_warnings import CoverageWarning as CoverageWarning
    from pymc_spn.tables import Column as Column
    from pymc_spn.tables import Table as Table
    from pymc_spn.trees.distributions import DecisionTree as DecisionTree
    from pymc_spn.trees.distributions import TreeResponse as TreeResponse
    from pymc_spn.trees.fit import fit_tree as fit_tree
    from pymc_spn.trees.posterior import TreePosterior as TreePosterior

__version__ = metadata.version("pymc-spn")

_PUBLIC = {
    "BDeu": "dags.scores",
    "BGe": "dags.scores",
    "BeliefNetworkPosterior": "indian_chefs.belief_network_posterior",
    "CPDAG": "dags.dag",
    "Circuit": "circuits.structures.circuit",
    "CircuitDensity": "densities.circuit_density",
    "Column": "tables",
    "ConditionalGaussian": "dags.scores",
    "ConvergenceWarning": "numerics.trust_warnings",
    "CoverageWarning": "numerics.trust_warnings",
    "DAG": "dags.dag",
    "DagDraws": "dags.mcmc_posterior",
    "DagOrder": "dags.distributions",
    "DagPartition": "dags.distributions",
    "DagPosterior": "dags.order_spn",
    "DecisionTree": "trees.distributions",
    "DiscreteField": "factor_graphs.distributions",
    "FactorGraph": "factor_graphs.graph",
    "FieldEmission": "factor_graphs.distributions",
    "GraphDraws": "indian_chefs.graph_draws",
    "IndianChefsProcess": "indian_chefs.distributions",
    "LinearGaussianNetwork": "indian_chefs.network_distributions",
    "LocalScores": "dags.local_scores",
    "NLGBN": "indian_chefs.network_distributions",
    "NLGBNPosterior": "indian_chefs.belief_network_posterior",
    "OrderSPN": "dags.order_spn",
    "SPN": "networks.distributions",
    "SPNPosterior": "networks.posterior",
    "SigmoidBeliefNetwork": "indian_chefs.network_distributions",
    "Table": "tables",
    "TreePosterior": "trees.posterior",
    "TreeResponse": "trees.distributions",
    "VariationalPosterior": "networks.variational_posterior",
    "completed_columns": "networks.missing_cells",
    "fit_tree": "trees.fit",
    "fit_variational": "networks.learners",
    "load": "interop.saved_posteriors",
    "parallel_config": "numerics.threads",
    "pool_estimates": "answers.pooled_estimates",
    "sample_chains": "interop.cluster_chains",
    "unpack": "interop.sampled_structures",
}

_NAMESPACES = (
    "circuits",
    "dags",
    "factor_graphs",
    "indian_chefs",
    "leaves",
    "plots",
    "sklearn",
    "steps",
    "trees",
)

__all__ = [
    "__version__",
    *_PUBLIC,
]  # without namespaces: ``from pymc_spn import *`` would hide scikit-learn's `sklearn`

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC, _NAMESPACES)
