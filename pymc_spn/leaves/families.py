"""The leaf families of the sampler: by number, with their parameters integrated out, and by the name of their entry."""

from typing import Any

from pymc_spn.leaves import binomial, exponential, gaussian, geometric, levels, log_normal, poisson
from pymc_spn.leaves.conjugate_pieces import NORMAL_GAMMA_PRIOR, Conjugate
from pymc_spn.leaves.family_codes import CODE, ROUNDED_COUNT, ROUNDED_GAUSSIAN
from pymc_spn.leaves.family_pieces import Predictive
from pymc_spn.leaves.rounded_gaussian import COUNT_PREDICTIVE, ROUNDED_PREDICTIVE

_SAMPLED: list[Predictive] = [
    part.PREDICTIVE for part in (gaussian, log_normal, exponential, poisson, geometric, binomial, levels)
]
FAMILIES: dict[str, Any] = {part.entry.family: part.entry for part in _SAMPLED} | {"bernoulli": levels.Bernoulli}
PREDICTIVES: dict[int, Predictive] = {CODE[part.entry.family]: part for part in _SAMPLED} | {
    ROUNDED_GAUSSIAN: ROUNDED_PREDICTIVE,
    ROUNDED_COUNT: COUNT_PREDICTIVE,
}
CONJUGATES: dict[int, Conjugate] = {code: part.conjugate for code, part in PREDICTIVES.items() if part.conjugate}
# numbers of those with a normal-gamma prior
LOCATED = [code for code, part in CONJUGATES.items() if part.prior_form == NORMAL_GAMMA_PRIOR]


def families_with(reading: int) -> list[int]:
    """Numbers of the families of the sampler that read values so, see `kernel_forms`."""
    return [code for code, part in CONJUGATES.items() if part.reading == reading]
