"""Drawings: matplotlib axes in, axes out. Functions load on first use, and matplotlib with them."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.plots.circuits_cells import plot_cells as plot_cells
    from pymc_spn.plots.circuits_dependence import plot_dependence as plot_dependence
    from pymc_spn.plots.circuits_pair_grid import plot_pairs as plot_pairs
    from pymc_spn.plots.decision_trees import plot_pdp as plot_pdp
    from pymc_spn.plots.decision_trees import plot_tree as plot_tree
    from pymc_spn.plots.edge_plots import plot_edge_probabilities as plot_edge_probabilities

_PUBLIC = {
    "plot_cells": "plots.circuits_cells",
    "plot_dependence": "plots.circuits_dependence",
    "plot_edge_probabilities": "plots.edge_plots",
    "plot_pairs": "plots.circuits_pair_grid",
    "plot_pdp": "plots.decision_trees",
    "plot_tree": "plots.decision_trees",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
