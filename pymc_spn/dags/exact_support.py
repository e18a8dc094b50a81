"""Which prefixes the exact posterior needs, and how much memory."""

import numpy as np

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.prefix_lattice import PrefixLattice

_BYTES_A_PREFIX = 2 * 8  # sums to and from it
_BYTES_AN_EDGE = 4 + 1 + 4 + 4 * 8  # lattice, index and shares of an explicit one
MOST_VARIABLES = 30  # that the kernels over all subsets are written for
LARGEST_LATTICE = 1 << 27


def exact_lattice(scores: LocalScores, max_gigabytes: float) -> PrefixLattice | None:
    """The lattice of all orders that knowledge allows; None if that is every order.

    Raises
    ------
    ValueError
        If it would need more than `max_gigabytes`.
    """
    d = scores.d
    tables = 16 * scores.log_scores.size
    if not np.any(scores.must_precede):
        needed = tables + (_BYTES_A_PREFIX << d)
        if d <= MOST_VARIABLES and needed <= max_gigabytes * 1e9:
            return None
        raise ValueError(_refusal(f"2^{d} = {2.0**d:.3g} prefixes", needed, max_gigabytes))
    room = int(max(max_gigabytes * 1e9 - tables, 0) / (_BYTES_AN_EDGE * (d + 1) / 2))
    limit = min(LARGEST_LATTICE, room)
    lattice = PrefixLattice.closed_under(scores.must_precede, limit) if limit > d else None
    if lattice is None:
        least = tables + limit * _BYTES_AN_EDGE * (d + 1) / 2
        raise ValueError(_refusal(f"more than {limit:,} prefixes that keep the tiers", least, max_gigabytes))
    return lattice


def _refusal(what: str, needed: float, limit: float) -> str:
    return (
        f"the exact posterior has {what} and needs {needed / 1e9:.3g} gigabytes or more, above "
        f"max_gigabytes = {limit:g}; use OrderSPN.fit, which reports what share of the posterior it holds"
    )
