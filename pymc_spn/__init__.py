"""Tractable posteriors for PyMC: objects built once and asked often.

Public names load on first use, so that ``import pymc_spn`` stays as cheap as ``import pymc``. A name becomes
public by standing in `_PUBLIC` (for the running program) and in the ``TYPE_CHECKING`` block (for editors and
type checkers); a test compares the two. Step methods register with PyMC when their class is defined, so their
modules are imported here; they load neither Numba nor kernels.
"""

from importlib import import_module, metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pymc_spn.dags import step_methods as _dags_steps  # noqa: F401
from pymc_spn.indian_chefs import network_steps as _network_steps  # noqa: F401
from pymc_spn.indian_chefs import step_methods as _chefs_steps  # noqa: F401
from pymc_spn.networks import step_methods as _circuits_steps  # noqa: F401
from pymc_spn.trees import step_methods as _trees_steps  # noqa: F401

if TYPE_CHECKING:
    from pymc_spn.answers.posterior import SPNPosterior as SPNPosterior
    from pymc_spn.answers.union_posterior import UnionPosterior as UnionPosterior
    from pymc_spn.answers.variational_posterior import VariationalPosterior as VariationalPosterior
    from pymc_spn.circuits.algebra.circuit_algebra import CircuitProduct as CircuitProduct
    from pymc_spn.circuits.algebra.circuit_algebra import cauchy_schwarz_divergence as cauchy_schwarz_divergence
    from pymc_spn.circuits.algebra.circuit_algebra import log_inner_product as log_inner_product
    from pymc_spn.circuits.algebra.circuit_algebra import multiply as multiply
    from pymc_spn.circuits.algebra.circuit_algebra import renyi_entropy as renyi_entropy
    from pymc_spn.circuits.algebra.circuit_algebra import squared_l2_distance as squared_l2_distance
    from pymc_spn.circuits.algebra.composition import ComposedCircuit as ComposedCircuit
    from pymc_spn.circuits.algebra.composition import leaf as leaf
    from pymc_spn.circuits.algebra.composition import mixture_of as mixture_of
    from pymc_spn.circuits.algebra.composition import product_of as product_of
    from pymc_spn.circuits.algebra.sums_of_squares import SumOfSquares as SumOfSquares
    from pymc_spn.circuits.estimation.chow_liu import chow_liu_tree as chow_liu_tree
    from pymc_spn.circuits.estimation.circuit_fit import fit_em as fit_em
    from pymc_spn.circuits.estimation.cutset_networks import cutset_network as cutset_network
    from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit as CircuitFit
    from pymc_spn.circuits.estimation.prometheus import prometheus as prometheus
    from pymc_spn.circuits.structures.builders import complete_tree as complete_tree
    from pymc_spn.circuits.structures.builders import skewed_tree as skewed_tree
    from pymc_spn.circuits.structures.circuit import Circuit as Circuit
    from pymc_spn.circuits.structures.circuit_builders import hidden_chow_liu_tree as hidden_chow_liu_tree
    from pymc_spn.circuits.structures.circuit_builders import rat_spn as rat_spn
    from pymc_spn.circuits.structures.learned_tree import learn_tree as learn_tree
    from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit as ParameterisedCircuit
    from pymc_spn.circuits.structures.piecewise_linear import piecewise_linear as piecewise_linear
    from pymc_spn.circuits.structures.regions import RegionTree as RegionTree
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
    from pymc_spn.densities.circuit_density import CircuitDensity as CircuitDensity
    from pymc_spn.densities.circuit_density import dirichlet_log_weights as dirichlet_log_weights
    from pymc_spn.densities.dense_networks import dense_network as dense_network
    from pymc_spn.densities.dense_networks import network_parameters as network_parameters
    from pymc_spn.densities.integral_circuits import IntegralCircuit as IntegralCircuit
    from pymc_spn.densities.integral_circuits import integral_circuit as integral_circuit
    from pymc_spn.densities.monotone_parts import monotone_parts as monotone_parts
    from pymc_spn.densities.sums_of_squares_density import SumOfSquaresDensity as SumOfSquaresDensity
    from pymc_spn.factor_graphs.circuit_form import FieldCircuit as FieldCircuit
    from pymc_spn.factor_graphs.distributions import DiscreteField as DiscreteField
    from pymc_spn.factor_graphs.distributions import FieldEmission as FieldEmission
    from pymc_spn.factor_graphs.graph import FactorGraph as FactorGraph
    from pymc_spn.factor_graphs.inference import Inference as Inference
    from pymc_spn.factor_graphs.junction_tree import JunctionTree as JunctionTree
    from pymc_spn.factor_graphs.plan import TooWideError as TooWideError
    from pymc_spn.factor_graphs.recovery import recover_discrete as recover_discrete
    from pymc_spn.indian_chefs.cascading import CascadingIBP as CascadingIBP
    from pymc_spn.indian_chefs.cascading import ExtendedCascadingIBP as ExtendedCascadingIBP
    from pymc_spn.indian_chefs.distributions import IndianChefsProcess as IndianChefsProcess
    from pymc_spn.indian_chefs.graph_draws import GraphDraws as GraphDraws
    from pymc_spn.indian_chefs.network_distributions import NLGBN as NLGBN
    from pymc_spn.indian_chefs.network_distributions import LinearGaussianNetwork as LinearGaussianNetwork
    from pymc_spn.indian_chefs.network_distributions import SigmoidBeliefNetwork as SigmoidBeliefNetwork
    from pymc_spn.indian_chefs.network_posterior import BeliefNetworkPosterior as BeliefNetworkPosterior
    from pymc_spn.indian_chefs.network_posterior import NLGBNPosterior as NLGBNPosterior
    from pymc_spn.indian_chefs.network_steps import LinearGaussianStep as LinearGaussianStep
    from pymc_spn.indian_chefs.network_steps import NLGBNStep as NLGBNStep
    from pymc_spn.indian_chefs.network_steps import SigmoidNetworkStep as SigmoidNetworkStep
    from pymc_spn.indian_chefs.node_law import expected_graph as expected_graph
    from pymc_spn.indian_chefs.node_law import gamma_for_nodes as gamma_for_nodes
    from pymc_spn.indian_chefs.node_law import node_count_pmf as node_count_pmf
    from pymc_spn.indian_chefs.simulation import sample_indian_chefs as sample_indian_chefs
    from pymc_spn.indian_chefs.step_methods import IndianChefsStep as IndianChefsStep
    from pymc_spn.indian_chefs.stored_graphs import load_graphs as load_graphs
    from pymc_spn.indian_chefs.unit_scaling import UnitScaling as UnitScaling
    from pymc_spn.interop.circuit_estimators import SPNClassifier as SPNClassifier
    from pymc_spn.interop.circuit_estimators import SPNDensity as SPNDensity
    from pymc_spn.interop.graph_estimators import OrderDAG as OrderDAG
    from pymc_spn.interop.imputation_estimators import SPNImputer as SPNImputer
    from pymc_spn.interop.outlier_estimators import SPNOutlierDetector as SPNOutlierDetector
    from pymc_spn.interop.regression_estimators import SPNRegressor as SPNRegressor
    from pymc_spn.interop.sampled_structures import unpack as unpack
    from pymc_spn.interop.saved_posteriors import load as load
    from pymc_spn.interop.tree_estimators import BayesianTreeClassifier as BayesianTreeClassifier
    from pymc_spn.interop.tree_estimators import BayesianTreeRegressor as BayesianTreeRegressor
    from pymc_spn.leaves.binomial import Binomial as Binomial
    from pymc_spn.leaves.families import Bernoulli as Bernoulli
    from pymc_spn.leaves.families import Categorical as Categorical
    from pymc_spn.leaves.families import Exponential as Exponential
    from pymc_spn.leaves.families import Gaussian as Gaussian
    from pymc_spn.leaves.families import Poisson as Poisson
    from pymc_spn.leaves.geometric import Geometric as Geometric
    from pymc_spn.leaves.log_normal import LogNormal as LogNormal
    from pymc_spn.maxima.most_probable import MostProbable as MostProbable
    from pymc_spn.maxima.most_probable import most_probable as most_probable
    from pymc_spn.networks.distributions import SPN as SPN
    from pymc_spn.networks.learners import fit_variational as fit_variational
    from pymc_spn.networks.missing_cells import completed_columns as completed_columns
    from pymc_spn.networks.step_methods import BottomUpSPNStep as BottomUpSPNStep
    from pymc_spn.networks.step_methods import TopDownSPNStep as TopDownSPNStep
    from pymc_spn.networks.tuning import TunedLeafPriors as TunedLeafPriors
    from pymc_spn.networks.tuning import tune_leaf_priors as tune_leaf_priors
    from pymc_spn.networks.variational.empirical_priors import empirical_leaf_priors as empirical_leaf_priors
    from pymc_spn.numerics.trust_warnings import ConvergenceWarning as ConvergenceWarning
    from pymc_spn.numerics.trust_warnings import CoverageWarning as CoverageWarning
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
    "BDeu": "dags.scores",
    "BGe": "dags.scores",
    "BayesianTreeClassifier": "interop.tree_estimators",
    "BayesianTreeRegressor": "interop.tree_estimators",
    "BeliefNetworkPosterior": "indian_chefs.network_posterior",
    "Bernoulli": "leaves.families",
    "Binomial": "leaves.binomial",
    "BinaryLeaves": "trees.leaves",
    "BottomUpSPNStep": "networks.step_methods",
    "CPDAG": "dags.dag",
    "CascadingIBP": "indian_chefs.cascading",
    "Categorical": "leaves.families",
    "ChipmanTreeStep": "trees.step_methods",
    "Circuit": "circuits.structures.circuit",
    "CircuitDensity": "densities.circuit_density",
    "CircuitFit": "circuits.estimation.fitted_circuit",
    "CircuitProduct": "circuits.algebra.circuit_algebra",
    "ClassLeaves": "trees.leaves",
    "Column": "tables",
    "ComposedCircuit": "circuits.algebra.composition",
    "ConditionalGaussian": "dags.mixed_score",
    "ConvergenceWarning": "numerics.trust_warnings",
    "CountLeaves": "trees.leaves",
    "CoverageWarning": "numerics.trust_warnings",
    "DAG": "dags.dag",
    "DagDraws": "dags.mcmc_posterior",
    "DagOrder": "dags.distributions",
    "DagOrderStep": "dags.step_methods",
    "DagPartition": "dags.distributions",
    "DagPartitionStep": "dags.step_methods",
    "DecisionTree": "trees.distributions",
    "DiscreteField": "factor_graphs.distributions",
    "EdgeLogOdds": "dags.structure_prior",
    "EdgePenalty": "dags.structure_prior",
    "ExactTrees": "trees.exact",
    "Exponential": "leaves.families",
    "ExtendedCascadingIBP": "indian_chefs.cascading",
    "FactorGraph": "factor_graphs.graph",
    "FieldCircuit": "factor_graphs.circuit_form",
    "FieldEmission": "factor_graphs.distributions",
    "Gaussian": "leaves.families",
    "Geometric": "leaves.geometric",
    "GraphDraws": "indian_chefs.graph_draws",
    "IndianChefsProcess": "indian_chefs.distributions",
    "IndianChefsStep": "indian_chefs.step_methods",
    "Inference": "factor_graphs.inference",
    "IntegralCircuit": "densities.integral_circuits",
    "JunctionTree": "factor_graphs.junction_tree",
    "LinearGaussianNetwork": "indian_chefs.network_distributions",
    "LinearGaussianStep": "indian_chefs.network_steps",
    "LocalScores": "dags.local_scores",
    "LogNormal": "leaves.log_normal",
    "MostProbable": "maxima.most_probable",
    "NLGBN": "indian_chefs.network_distributions",
    "NLGBNPosterior": "indian_chefs.network_posterior",
    "NLGBNStep": "indian_chefs.network_steps",
    "NormalLeaves": "trees.leaves",
    "OrderDAG": "interop.graph_estimators",
    "OrderSPN": "dags.order_spn",
    "ParameterisedCircuit": "circuits.structures.parameterised",
    "ParticleGibbsTreeStep": "trees.step_methods",
    "Poisson": "leaves.families",
    "RegionTree": "circuits.structures.regions",
    "SPN": "networks.distributions",
    "SPNClassifier": "interop.circuit_estimators",
    "SPNDensity": "interop.circuit_estimators",
    "SPNImputer": "interop.imputation_estimators",
    "SPNOutlierDetector": "interop.outlier_estimators",
    "SPNPosterior": "answers.posterior",
    "SPNRegressor": "interop.regression_estimators",
    "SigmoidBeliefNetwork": "indian_chefs.network_distributions",
    "SigmoidNetworkStep": "indian_chefs.network_steps",
    "SumOfSquares": "circuits.algebra.sums_of_squares",
    "SumOfSquaresDensity": "densities.sums_of_squares_density",
    "Table": "tables",
    "TooWideError": "factor_graphs.plan",
    "TopDownSPNStep": "networks.step_methods",
    "TreePosterior": "trees.posterior",
    "TreeResponse": "trees.distributions",
    "TunedLeafPriors": "networks.tuning",
    "UnionPosterior": "answers.union_posterior",
    "UnitScaling": "indian_chefs.unit_scaling",
    "VariationalPosterior": "answers.variational_posterior",
    "annealed_tree_evidence": "trees.annealing",
    "cauchy_schwarz_divergence": "circuits.algebra.circuit_algebra",
    "chow_liu_tree": "circuits.estimation.chow_liu",
    "complete_tree": "circuits.structures.builders",
    "completed_columns": "networks.missing_cells",
    "cutset_network": "circuits.estimation.cutset_networks",
    "dag_log_evidence": "dags.log_evidence",
    "dense_network": "densities.dense_networks",
    "dirichlet_log_weights": "densities.circuit_density",
    "empirical_leaf_priors": "networks.variational.empirical_priors",
    "exact_tree_evidence": "trees.exact",
    "expected_graph": "indian_chefs.node_law",
    "fit_em": "circuits.estimation.circuit_fit",
    "fit_tree": "trees.fit",
    "fit_variational": "networks.learners",
    "gamma_for_nodes": "indian_chefs.node_law",
    "hidden_chow_liu_tree": "circuits.structures.circuit_builders",
    "integral_circuit": "densities.integral_circuits",
    "leaf": "circuits.algebra.composition",
    "learn_tree": "circuits.structures.learned_tree",
    "load": "interop.saved_posteriors",
    "load_graphs": "indian_chefs.stored_graphs",
    "load_trees": "trees.record",
    "log_inner_product": "circuits.algebra.circuit_algebra",
    "mixture_of": "circuits.algebra.composition",
    "monotone_parts": "densities.monotone_parts",
    "most_probable": "maxima.most_probable",
    "multiply": "circuits.algebra.circuit_algebra",
    "network_parameters": "densities.dense_networks",
    "node_count_pmf": "indian_chefs.node_law",
    "piecewise_linear": "circuits.structures.piecewise_linear",
    "product_of": "circuits.algebra.composition",
    "prometheus": "circuits.estimation.prometheus",
    "rat_spn": "circuits.structures.circuit_builders",
    "recover_discrete": "factor_graphs.recovery",
    "renyi_entropy": "circuits.algebra.circuit_algebra",
    "sample_indian_chefs": "indian_chefs.simulation",
    "skewed_tree": "circuits.structures.builders",
    "squared_l2_distance": "circuits.algebra.circuit_algebra",
    "tune_leaf_priors": "networks.tuning",
    "unpack": "interop.sampled_structures",
}

_NEED_SCIKIT_LEARN = {name for name, place in _PUBLIC.items() if place.endswith("_estimators")}

# ``from pymc_spn import *`` must not ask for a library that is not there; named singly, an estimator says what it needs
__all__ = ["__version__", *(n for n in _PUBLIC if n not in _NEED_SCIKIT_LEARN or find_spec("sklearn"))]

_ROOMS = ("plots",)  # reached as attributes, loaded when used

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
