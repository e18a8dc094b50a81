"""Leaf families: distributions of one column with the priors of their parameters, and leaves of decision trees."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.leaves.binomial import Binomial as Binomial
    from pymc_spn.leaves.exponential import Exponential as Exponential
    from pymc_spn.leaves.gaussian import Gaussian as Gaussian
    from pymc_spn.leaves.geometric import Geometric as Geometric
    from pymc_spn.leaves.levels import Bernoulli as Bernoulli
    from pymc_spn.leaves.levels import Categorical as Categorical
    from pymc_spn.leaves.log_normal import LogNormal as LogNormal
    from pymc_spn.leaves.multivariate_gaussian_prior import MultivariateGaussian as MultivariateGaussian
    from pymc_spn.leaves.poisson import Poisson as Poisson
    from pymc_spn.networks.tuning import tune_leaf_priors as tune_leaf_priors
    from pymc_spn.networks.variational.empirical_priors import empirical_leaf_priors as empirical_leaf_priors
    from pymc_spn.trees.leaves import BinaryLeaves as BinaryLeaves
    from pymc_spn.trees.leaves import ClassLeaves as ClassLeaves
    from pymc_spn.trees.leaves import CountLeaves as CountLeaves
    from pymc_spn.trees.leaves import NormalLeaves as NormalLeaves

_PUBLIC = {
    "Bernoulli": "leaves.levels",
    "BinaryLeaves": "trees.leaves",
    "Binomial": "leaves.binomial",
    "Categorical": "leaves.levels",
    "ClassLeaves": "trees.leaves",
    "CountLeaves": "trees.leaves",
    "Exponential": "leaves.exponential",
    "Gaussian": "leaves.gaussian",
    "Geometric": "leaves.geometric",
    "LogNormal": "leaves.log_normal",
    "MultivariateGaussian": "leaves.multivariate_gaussian_prior",
    "NormalLeaves": "trees.leaves",
    "Poisson": "leaves.poisson",
    "empirical_leaf_priors": "networks.variational.empirical_priors",
    "tune_leaf_priors": "networks.tuning",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
