"""Which prefixes the exact posterior needs, and how much memory."""

import numpy as np

from pymc_spn.dags.dag import MOST_VARIABLES as MOST_IN_A_SET
from pymc_spn.dags.dag import refuse_wide
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.prefix_lattice import PrefixLattice, sets_of_rows
from pymc_spn.numerics.memory_limits import refuse_size

_BYTES_A_PREFIX = 2 * 8  # sums to and from it
_BYTES_AN_EDGE = 4 + 1 + 4 + 4 * 8  # lattice, index and shares of an explicit one
MOST_VARIABLES = 30  # that the kernels over all subsets are written for
LARGEST_LATTICE = 1 << 27
SOON = 22  # variables
ADVICE = "use ps.DagPosterior, which samples orders"


def exact_lattice(scores: ParentSetScores, max_gigabytes: float) -> PrefixLattice | None:
    """The lattice of all orders that knowledge allows; None if that is every order.

    Raises
    ------
    ValueError
        If it would need more than `max_gigabytes`.
    """
    d = scores.d
    refuse_wide("a sum over all orders", d)
    tables = 16 * scores.log_scores.size
    if not np.any(scores.must_precede):
        needed = tables + (_BYTES_A_PREFIX << d)
        if d > MOST_VARIABLES or needed > 1e9 * max_gigabytes:
            refuse_size(f"the exact posterior has 2^{d} = {2.0**d:.3g} prefixes and", needed, ADVICE, max_gigabytes)
        return None
    room = int(max(max_gigabytes * 1e9 - tables, 0) / (_BYTES_AN_EDGE * (d + 1) / 2))
    limit = min(LARGEST_LATTICE, room)
    lattice = PrefixLattice.closed_under(scores.precede_sets, limit) if limit > d else None
    if lattice is None:
        what = f"the exact posterior has more than {limit:,} prefixes that keep the tiers and"
        refuse_size(what, tables + limit * _BYTES_AN_EDGE * (d + 1) / 2, ADVICE, max_gigabytes)
    return lattice


def sums_soon(must_precede: np.ndarray) -> bool:
    """Whether the exact posterior takes less than a minute or so: up to 22 variables, or as few prefixes by tiers."""
    d = len(must_precede)
    if d > MOST_IN_A_SET:
        return False
    if not must_precede.any():
        return d <= SOON
    return PrefixLattice.closed_under(sets_of_rows(must_precede), 1 << (SOON - 4)) is not None
