"""Bayesian decision trees: top-down particle filtering, the exact recursion, particle Gibbs inside `pm.sample`."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.trees.exact import exact_tree_evidence as exact_tree_evidence
    from pymc_spn.trees.record import load_trees as load_trees

_PUBLIC = {
    "exact_tree_evidence": "trees.exact",
    "load_trees": "trees.record",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
