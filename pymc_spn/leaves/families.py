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
from pymc_spn.leaves.conjugate_pieces import Conjugate
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.exponential import Exponential
from pymc_spn.leaves.family_codes import CODE, ROUNDED_COUNT, ROUNDED_GAUSSIAN
from pymc_spn.leaves.family_pieces import Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.leaf_statistics import DirichletLevels, GammaRate, LeafConstants, Moments, NormalGamma
from pymc_spn.leaves.levels import Bernoulli, Categorical
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.poisson import Poisson
from pymc_spn.leaves.rounded_gaussian import COUNT_PREDICTIVE, ROUNDED_PREDICTIVE

__all__ = [
    "CONJUGATES",
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
    "families_with",
]

# families of the sampler, with a conjugate prior, as their leaves with that integrated out
_SAMPLED = [family.predictive for family in EXPLICIT.values() if family.predictive is not None]
FAMILIES: dict[str, Any] = {part.prior.family: part.prior for part in _SAMPLED} | {"bernoulli": Bernoulli}
PREDICTIVES: dict[int, Predictive] = {CODE[part.prior.family]: part for part in _SAMPLED} | {
    ROUNDED_GAUSSIAN: ROUNDED_PREDICTIVE,
    ROUNDED_COUNT: COUNT_PREDICTIVE,
}
CONJUGATES: dict[int, Conjugate] = {code: part.conjugate for code, part in PREDICTIVES.items() if part.conjugate}


def families_with(reading: int) -> list[int]:
    """Numbers of the families of the sampler that read values so, see `kernel_forms`."""
    return [code for code, part in CONJUGATES.items() if part.reading == reading]
