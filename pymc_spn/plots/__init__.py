"""Drawings: matplotlib axes in, axes out. Functions load on first use, and matplotlib with them."""

from importlib import import_module

_PUBLIC = {
    "plot_cells": "circuits_cells",
    "plot_chefs_graph": "indian_chefs",
    "plot_circuit": "circuits_drawing",
    "plot_cluster_profile": "circuits_clusters",
    "plot_dependence": "circuits_dependence",
    "plot_edge_probabilities": "graphs",
    "plot_expected_edges": "indian_chefs",
    "plot_expected_hidden": "indian_chefs",
    "plot_expected_nodes": "indian_chefs",
    "plot_fantasies": "indian_chefs",
    "plot_graph": "graphs",
    "plot_ice": "trees",
    "plot_log_joint": "circuits_traces",
    "plot_pairs": "circuits_pairs",
    "plot_pdp": "trees",
    "plot_tree": "trees",
    "plot_tree_convergence": "trees",
    "variable_importance": "trees",
    "variable_inclusion": "trees",
}

__all__ = list(_PUBLIC)


def __getattr__(name):
    """Import a drawing from its module and keep it."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_PUBLIC})
