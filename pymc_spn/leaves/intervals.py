"""What may be known of the value of one column: that it lies in an interval, or how likely each value made it."""

from typing import Any, NamedTuple

EXCLUDED = -1e300  # log probability of what a leaf excludes; finite, so that arithmetic on it stays finite


class Interval(NamedTuple):
    """low <= x <= high."""

    low: float
    high: float


class Likelihood(NamedTuple):
    """Soft evidence: what was seen of a column has these probabilities given its values, 0 given all others.

    Parameters
    ----------
    values : tuple of float
        Coded, ascending.
    log_weights : tuple of float
        Logs of the likelihoods.
    """

    values: tuple[float, ...]
    log_weights: tuple[float, ...]

    def within(self, inside: Any) -> "Likelihood | None":
        """Only for the values where ``inside`` is true; None for none."""
        kept = [(x, w) for x, w in zip(self.values, self.log_weights, strict=True) if inside(x)]
        return Likelihood(*zip(*kept, strict=True)) if kept else None

    def times(self, other: "Likelihood") -> "Likelihood | None":
        """Both as independent evidence."""
        weight = dict(zip(other.values, other.log_weights, strict=True))
        both = self.within(weight.__contains__)
        if both is None:
            return None
        return Likelihood(both.values, tuple(w + weight[x] for x, w in zip(*both, strict=True)))
