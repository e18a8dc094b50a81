"""Step methods, for `pm.sample(step=...)`; without one, `pm.sample` picks by itself."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.dags.step_methods import DagOrderStep as DagOrderStep
    from pymc_spn.dags.step_methods import DagPartitionStep as DagPartitionStep
    from pymc_spn.indian_chefs.network_steps import LinearGaussianStep as LinearGaussianStep
    from pymc_spn.indian_chefs.network_steps import NLGBNStep as NLGBNStep
    from pymc_spn.indian_chefs.network_steps import SigmoidNetworkStep as SigmoidNetworkStep
    from pymc_spn.indian_chefs.step_methods import IndianChefsStep as IndianChefsStep
    from pymc_spn.networks.step_methods import BottomUpSPNStep as BottomUpSPNStep
    from pymc_spn.networks.step_methods import TopDownSPNStep as TopDownSPNStep
    from pymc_spn.trees.step_methods import ParticleGibbsTreeStep as ParticleGibbsTreeStep

_PUBLIC = {
    "BottomUpSPNStep": "networks.step_methods",
    "DagOrderStep": "dags.step_methods",
    "DagPartitionStep": "dags.step_methods",
    "IndianChefsStep": "indian_chefs.step_methods",
    "LinearGaussianStep": "indian_chefs.network_steps",
    "NLGBNStep": "indian_chefs.network_steps",
    "ParticleGibbsTreeStep": "trees.step_methods",
    "SigmoidNetworkStep": "indian_chefs.network_steps",
    "TopDownSPNStep": "networks.step_methods",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
