"""Graphs of unknown size: the Indian chefs process, its moves, its comparison priors."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.indian_chefs.cascading import CascadingIBP as CascadingIBP
    from pymc_spn.indian_chefs.graph_records import load_graphs as load_graphs
    from pymc_spn.indian_chefs.node_law import expected_graph as expected_graph
    from pymc_spn.indian_chefs.node_law import node_count_pmf as node_count_pmf
    from pymc_spn.indian_chefs.simulation import sample_indian_chefs as sample_indian_chefs
    from pymc_spn.indian_chefs.unit_scaling import UnitScaling as UnitScaling

_PUBLIC = {
    "CascadingIBP": "indian_chefs.cascading",
    "UnitScaling": "indian_chefs.unit_scaling",
    "expected_graph": "indian_chefs.node_law",
    "load_graphs": "indian_chefs.graph_records",
    "node_count_pmf": "indian_chefs.node_law",
    "sample_indian_chefs": "indian_chefs.simulation",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
