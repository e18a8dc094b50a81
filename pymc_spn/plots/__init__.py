"""Drawings: matplotlib axes in, axes out. Functions load on first use, and matplotlib with them."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.plots.circuits_cells import plot_cells as plot_cells
    from pymc_spn.plots.circuits_clusters import plot_cluster_profile as plot_cluster_profile
    from pymc_spn.plots.circuits_dependence import plot_dependence as plot_dependence
    from pymc_spn.plots.circuits_drawing import plot_circuit as plot_circuit
    from pymc_spn.plots.circuits_pair_grid import plot_pairs as plot_pairs
    from pymc_spn.plots.circuits_traces import plot_log_joint as plot_log_joint
    from pymc_spn.plots.decision_trees import plot_ice as plot_ice
    from pymc_spn.plots.decision_trees import plot_pdp as plot_pdp
    from pymc_spn.plots.decision_trees import plot_tree as plot_tree
    from pymc_spn.plots.decision_trees import plot_tree_convergence as plot_tree_convergence
    from pymc_spn.plots.decision_trees import variable_importance as variable_importance
    from pymc_spn.plots.decision_trees import variable_inclusion as variable_inclusion
    from pymc_spn.plots.edge_plots import plot_edge_probabilities as plot_edge_probabilities
    from pymc_spn.plots.edge_plots import plot_graph as plot_graph
    from pymc_spn.plots.indian_chefs import plot_chefs_graph as plot_chefs_graph
    from pymc_spn.plots.indian_chefs import plot_expected_edges as plot_expected_edges
    from pymc_spn.plots.indian_chefs import plot_expected_hidden as plot_expected_hidden
    from pymc_spn.plots.indian_chefs import plot_expected_nodes as plot_expected_nodes
    from pymc_spn.plots.indian_chefs import plot_fantasies as plot_fantasies

_PUBLIC = {
    "plot_cells": "plots.circuits_cells",
    "plot_chefs_graph": "plots.indian_chefs",
    "plot_circuit": "plots.circuits_drawing",
    "plot_cluster_profile": "plots.circuits_clusters",
    "plot_dependence": "plots.circuits_dependence",
    "plot_edge_probabilities": "plots.edge_plots",
    "plot_expected_edges": "plots.indian_chefs",
    "plot_expected_hidden": "plots.indian_chefs",
    "plot_expected_nodes": "plots.indian_chefs",
    "plot_fantasies": "plots.indian_chefs",
    "plot_graph": "plots.edge_plots",
    "plot_ice": "plots.decision_trees",
    "plot_log_joint": "plots.circuits_traces",
    "plot_pairs": "plots.circuits_pair_grid",
    "plot_pdp": "plots.decision_trees",
    "plot_tree": "plots.decision_trees",
    "plot_tree_convergence": "plots.decision_trees",
    "variable_importance": "plots.decision_trees",
    "variable_inclusion": "plots.decision_trees",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
