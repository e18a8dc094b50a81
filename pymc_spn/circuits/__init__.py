"""Circuits: structures, learners, algebra, and what is built of them."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from pymc_spn.circuits.estimation.cutset_networks import cutset_network as cutset_network
    from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit as CircuitFit
    from pymc_spn.circuits.estimation.prometheus import prometheus as prometheus
    from pymc_spn.circuits.structures.circuit_builders import hidden_chow_liu_tree as hidden_chow_liu_tree
    from pymc_spn.circuits.structures.circuit_builders import rat_spn as rat_spn
    from pymc_spn.circuits.structures.learned_tree import learn_tree as learn_tree
    from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit as ParameterisedCircuit
    from pymc_spn.circuits.structures.region_trees import complete_tree as complete_tree
    from pymc_spn.circuits.structures.region_trees import skewed_tree as skewed_tree
    from pymc_spn.circuits.structures.regions import RegionTree as RegionTree
    from pymc_spn.densities.circuit_density import dirichlet_log_weights as dirichlet_log_weights
    from pymc_spn.densities.dense_networks import dense_network as dense_network
    from pymc_spn.densities.dense_networks import network_parameters as network_parameters
    from pymc_spn.densities.integral_circuits import IntegralCircuit as IntegralCircuit
    from pymc_spn.densities.integral_circuits import integral_circuit as integral_circuit
    from pymc_spn.densities.monotone_parts import monotone_parts as monotone_parts
    from pymc_spn.densities.sums_of_squares_density import SumOfSquaresDensity as SumOfSquaresDensity
    from pymc_spn.maxima.most_probable import MostProbable as MostProbable
    from pymc_spn.networks.drawn_circuits import DrawnCircuit as DrawnCircuit
    from pymc_spn.networks.posterior_circuit import LabelledCircuit as LabelledCircuit
    from pymc_spn.networks.posterior_circuit import PosteriorCircuit as PosteriorCircuit

_PUBLIC = {
    "CircuitFit": "circuits.estimation.fitted_circuit",
    "CircuitProduct": "circuits.algebra.circuit_algebra",
    "ComposedCircuit": "circuits.algebra.composition",
    "DrawnCircuit": "networks.drawn_circuits",
    "IntegralCircuit": "densities.integral_circuits",
    "LabelledCircuit": "networks.posterior_circuit",
    "MostProbable": "maxima.most_probable",
    "ParameterisedCircuit": "circuits.structures.parameterised",
    "PosteriorCircuit": "networks.posterior_circuit",
    "RegionTree": "circuits.structures.regions",
    "SumOfSquares": "circuits.algebra.sums_of_squares",
    "SumOfSquaresDensity": "densities.sums_of_squares_density",
    "cauchy_schwarz_divergence": "circuits.algebra.circuit_algebra",
    "chow_liu_tree": "circuits.estimation.chow_liu",
    "complete_tree": "circuits.structures.region_trees",
    "cutset_network": "circuits.estimation.cutset_networks",
    "dense_network": "densities.dense_networks",
    "dirichlet_log_weights": "densities.circuit_density",
    "hidden_chow_liu_tree": "circuits.structures.circuit_builders",
    "integral_circuit": "densities.integral_circuits",
    "leaf": "circuits.algebra.composition",
    "learn_tree": "circuits.structures.learned_tree",
    "log_inner_product": "circuits.algebra.circuit_algebra",
    "mixture_of": "circuits.algebra.composition",
    "monotone_parts": "densities.monotone_parts",
    "multiply": "circuits.algebra.circuit_algebra",
    "network_parameters": "densities.dense_networks",
    "product_of": "circuits.algebra.composition",
    "prometheus": "circuits.estimation.prometheus",
    "rat_spn": "circuits.structures.circuit_builders",
    "renyi_entropy": "circuits.algebra.circuit_algebra",
    "skewed_tree": "circuits.structures.region_trees",
    "squared_l2_distance": "circuits.algebra.circuit_algebra",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
