"""Estimators for scikit-learn."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.interop.graph_estimators import OrderDAG as OrderDAG
    from pymc_spn.interop.network_estimators import SPNClassifier as SPNClassifier
    from pymc_spn.interop.network_estimators import SPNDensity as SPNDensity
    from pymc_spn.interop.network_estimators import SPNImputer as SPNImputer
    from pymc_spn.interop.network_estimators import SPNOutlierDetector as SPNOutlierDetector
    from pymc_spn.interop.network_estimators import SPNRegressor as SPNRegressor
    from pymc_spn.interop.tree_estimators import BayesianTreeClassifier as BayesianTreeClassifier
    from pymc_spn.interop.tree_estimators import BayesianTreeRegressor as BayesianTreeRegressor

_PUBLIC = {
    "BayesianTreeClassifier": "interop.tree_estimators",
    "BayesianTreeRegressor": "interop.tree_estimators",
    "OrderDAG": "interop.graph_estimators",
    "SPNClassifier": "interop.network_estimators",
    "SPNDensity": "interop.network_estimators",
    "SPNImputer": "interop.network_estimators",
    "SPNOutlierDetector": "interop.network_estimators",
    "SPNRegressor": "interop.network_estimators",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
