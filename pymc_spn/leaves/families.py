"""The leaf families by name.

A family is a frozen dataclass that serves as palette entry, with one vocabulary:

* ``constants``, ``prior``: what the entry takes from its column, and the prior in the column's units;
* ``statistics``, ``posterior``, ``log_marginal``: data summarised, learned, and weighed;
* ``predictive_*``: the leaf with its parameters integrated out (Student t, Lomax, negative binomial, levels, ..);
* ``draw_parameters``, ``leaf_log_density``: the leaf with explicit parameters, (..., p) arrays.

NaN in a value gives NaN; callers that sum a missing cell out put 0 there.
"""

from typing import Any

from pymc_spn.leaves import beta_binomial, beta_geometric, levels, log_student_t, lomax, negative_binomial, student_t
from pymc_spn.leaves.binomial import BetaTrials, Binomial
from pymc_spn.leaves.exponential import Exponential
from pymc_spn.leaves.family_codes import (
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    GEOMETRIC,
    LOG_NORMAL,
    POISSON,
    ROUNDED_COUNT,
    ROUNDED_GAUSSIAN,
)
from pymc_spn.leaves.family_pieces import Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.leaf_statistics import DirichletLevels, GammaRate, LeafConstants, Moments, NormalGamma
from pymc_spn.leaves.levels import Bernoulli, Categorical
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.poisson import Poisson
from pymc_spn.leaves.rounded_gaussian import COUNT_PREDICTIVE, ROUNDED_PREDICTIVE

__all__ = [
    "FAMILIES",
    "PREDICTIVES",
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

PREDICTIVES: dict[int, Predictive] = {  # by number of the family
    GAUSSIAN: student_t.PREDICTIVE,
    LOG_NORMAL: log_student_t.PREDICTIVE,
    EXPONENTIAL: lomax.PREDICTIVE,
    POISSON: negative_binomial.PREDICTIVE,
    GEOMETRIC: beta_geometric.PREDICTIVE,
    BINOMIAL: beta_binomial.PREDICTIVE,
    CATEGORICAL: levels.PREDICTIVE,
    ROUNDED_GAUSSIAN: ROUNDED_PREDICTIVE,
    ROUNDED_COUNT: COUNT_PREDICTIVE,
}

_ALL = (Gaussian, LogNormal, Exponential, Poisson, Geometric, Binomial, Bernoulli, Categorical)
FAMILIES: dict[str, Any] = {f.family: f for f in _ALL}
