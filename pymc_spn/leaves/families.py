"""The leaf families by name.

A family is a frozen dataclass that serves as palette entry, with one vocabulary:

* ``constants``, ``prior``: what the entry takes from its column, and the prior in the column's units;
* ``statistics``, ``posterior``, ``log_marginal``: data summarised, learned, and weighed;
* ``predictive_*``: the leaf with its parameters integrated out (Student t, Lomax, negative binomial, levels, ..);
* ``draw_parameters``, ``leaf_log_density``: the leaf with explicit parameters, (..., p) arrays.

NaN in a value gives NaN; callers that sum a missing cell out put 0 there.
"""

from typing import Any

from pymc_spn.leaves.binomial import BetaTrials, Binomial
from pymc_spn.leaves.discrete_families import Bernoulli, Categorical, Poisson
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.leaf_statistics import DirichletLevels, GammaRate, LeafConstants, Moments, NormalGamma
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.real_families import Exponential, Gaussian

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "BetaProbability",
    "BetaTrials",
    "Binomial",
    "Categorical",
    "DirichletLevels",
    "Exponential",
    "GammaRate",
    "Gaussian",
    "Geometric",
    "LeafConstants",
    "LogNormal",
    "Moments",
    "NormalGamma",
    "Poisson",
]

_ALL = (Gaussian, LogNormal, Exponential, Poisson, Geometric, Binomial, Bernoulli, Categorical)
FAMILIES: dict[str, Any] = {f.family: f for f in _ALL}
