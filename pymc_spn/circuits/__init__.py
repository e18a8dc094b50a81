"""Circuits of your own: structures, single leaves, mixtures and products."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.circuits.structures.composition import leaf as leaf
    from pymc_spn.circuits.structures.composition import mixture_of as mixture_of
    from pymc_spn.circuits.structures.composition import product_of as product_of
    from pymc_spn.circuits.structures.learned_tree import learn_tree as learn_tree
    from pymc_spn.circuits.structures.region_trees import complete_tree as complete_tree
    from pymc_spn.circuits.structures.region_trees import skewed_tree as skewed_tree
    from pymc_spn.densities.circuit_density import dirichlet_log_weights as dirichlet_log_weights

_PUBLIC = {
    "complete_tree": "circuits.structures.region_trees",
    "dirichlet_log_weights": "densities.circuit_density",
    "leaf": "circuits.structures.composition",
    "learn_tree": "circuits.structures.learned_tree",
    "mixture_of": "circuits.structures.composition",
    "product_of": "circuits.structures.composition",
    "skewed_tree": "circuits.structures.region_trees",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
