"""The registry of leaf families: what a `Circuit` may hold, by name.

Beside the conjugate families stand those of their leaves with the parameters integrated out (Student t, Lomax, negative
binomial, ..), so that a posterior predictive is itself such a circuit. Any other family is a frozen distribution of
SciPy, of which a row holds one in the place of parameters.
"""

from pymc_spn.leaves.binomial import BETA_BINOMIAL, BINOMIAL
from pymc_spn.leaves.exponential import EXPONENTIAL, LOMAX
from pymc_spn.leaves.family_codes import IN_CIRCUITS
from pymc_spn.leaves.gaussian import GAUSSIAN, STUDENT_T
from pymc_spn.leaves.geometric import BETA_GEOMETRIC, GEOMETRIC
from pymc_spn.leaves.leaf_family import LeafFamily, UnivariateFamily
from pymc_spn.leaves.levels import BERNOULLI, CATEGORICAL
from pymc_spn.leaves.log_normal import LOG_NORMAL, LOG_STUDENT_T
from pymc_spn.leaves.multivariate_gaussian import MULTIVARIATE_GAUSSIAN
from pymc_spn.leaves.multivariate_student_t import MULTIVARIATE_STUDENT_T
from pymc_spn.leaves.poisson import NEGATIVE_BINOMIAL, POISSON
from pymc_spn.leaves.scipy_leaves import SCIPY_LEAVES

_OWN: tuple[LeafFamily, ...] = (
    GAUSSIAN, STUDENT_T, LOG_STUDENT_T, LOG_NORMAL, LOMAX, EXPONENTIAL, POISSON, NEGATIVE_BINOMIAL, GEOMETRIC,
    BETA_GEOMETRIC, BINOMIAL, BETA_BINOMIAL, BERNOULLI, CATEGORICAL, *SCIPY_LEAVES, MULTIVARIATE_GAUSSIAN,
    MULTIVARIATE_STUDENT_T,
)  # fmt: skip


class _Families(dict[str, LeafFamily]):
    """Families by name; that of ``name[d]`` is the one over d columns of a family over any number."""

    def __missing__(self, name: str) -> LeafFamily:
        base, bracket, number = name.partition("[")
        digits = number.removesuffix("]")
        if not bracket or base not in self or not digits.isdecimal() or number != f"{digits}]":
            raise KeyError(name)
        return self.setdefault(name, self[base].over(int(digits)))


LEAF_FAMILIES = _Families({family.name: family for family in _OWN})
EXPLICIT = {family.name: family for family in _OWN if isinstance(family, UnivariateFamily)}
KERNELS = {family.code: family.kernels for family in _OWN if family.kernels is not None}


def is_over(name: object, n_columns: int) -> bool:
    """Whether there is a family of this name for leaves over so many columns."""
    try:
        return isinstance(name, str) and LEAF_FAMILIES[name].n_columns == n_columns
    except (KeyError, ValueError):
        return False


def register(family: LeafFamily) -> None:
    """Add a family for this process; NumPy works out the logs that kernels read.

    Raises
    ------
    ValueError
        If there is one with its name.
    """
    if family.name in LEAF_FAMILIES:
        raise ValueError(f"family must have a name of its own, {family.name!r} is known")
    LEAF_FAMILIES[family.name] = family
    IN_CIRCUITS.append(family.name)
    if isinstance(family, UnivariateFamily):
        EXPLICIT[family.name] = family
