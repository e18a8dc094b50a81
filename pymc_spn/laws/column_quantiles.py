"""Quantiles of the law of one column, to the last digit of its distribution function."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.numerics.halving import smallest_at_levels

if TYPE_CHECKING:
    from pymc_spn.laws.column_laws import ColumnLaw, JoinedLaw

LARGEST_COUNT = 1e15  # of a quantile


def bracketed_quantiles(law: "ColumnLaw | JoinedLaw", q: np.ndarray) -> np.ndarray:
    """Quantiles (Q,) of a law of one draw: the smallest x with P(X <= x) >= q.

    By brackets, in the data's units for counts, else over the floating-point numbers in their order. So tails of any
    length and values of any size come out to the last digit. Between intervals the distribution function is flat: the
    end of the one before is then the smallest x.
    """

    def cdf(x: np.ndarray) -> np.ndarray:
        return law.cdf(x)[0]

    if law.is_discrete:
        centre, width = law.bracket()
        first, last = law.support()
        least, most = max(first, 0.0) - 1.0, float(np.ceil(max(1.0, centre + width)))
        smallest, largest = np.min(q[q > 0.0], initial=1.0), np.max(q[q < 1.0], initial=0.0)
        while least >= first and least > -LARGEST_COUNT and cdf(np.array([least]))[0] >= smallest:
            least *= 2.0
        while most < LARGEST_COUNT and cdf(np.array([most]))[0] < largest:
            most *= 2.0
        x = smallest_at_levels(cdf, q, np.full(q.size, least), np.full(q.size, most), whole=True)
        x = np.where(q <= 0.0, -np.inf, np.where(q >= 1.0, np.inf, x))
        return np.clip(x, np.ceil(first), np.floor(last))
    first, last = law.support()
    low, high = (np.full(q.size, end) for end in (np.nextafter(first, -np.inf), last))
    x = smallest_at_levels(cdf, q, low, high)
    ends = np.array(law.ends)
    if ends.size:
        reached = np.where(law.cdf(ends)[0] >= q[:, None], ends, np.inf)
        x = np.minimum(x, reached.min(axis=1))
    return np.where(q <= 0.0, first, np.where(q >= 1.0, last, x))
