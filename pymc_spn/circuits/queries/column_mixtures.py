"""The law of one column of an explicit circuit: a mixture of its leaves, with a grid on which it is summed."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.special import log_expit, logit

from pymc_spn.circuits.leaves.explicit_leaves import EXPLICIT
from pymc_spn.circuits.leaves.leaf_events import log_interval
from pymc_spn.circuits.queries.circuit_parts import LEVELS, Part
from pymc_spn.circuits.queries.draw_laws import BULK, LARGEST, MOST_COUNTS, TAIL, Grid, gauss_points
from pymc_spn.circuits.structures.circuit import SUM
from pymc_spn.numerics.halving import smallest_reaching

LARGEST_COUNT = 2.0**53  # above it whole numbers are not told apart
MOST_CUT = 200  # leaves, the largest first, between whose own quantiles a grid has panels
OWN_SHARES = (1e-7, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0 - 1e-4, 1.0 - 1e-7)
LONG = 100.0  # ratio of the ends of a panel in logs at most
LOG_FAMILIES = ("log_normal", "log_student_t")
KINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # where densities jump or bend, of parameters (n, p)
    "laplace": lambda p: p[:, 0],
    "uniform": lambda p: p,
    "triangular": lambda p: p,
}


class ColumnMixture:
    """Leaves of a circuit over one column with their shares.

    Parameters
    ----------
    part : Part
        Of one column.

    Attributes
    ----------
    leaves : list of (str, (n, p) array, (n,) float64)
        Families with the parameters of their leaves and the leaves' shares.
    """

    def __init__(self, part: Part) -> None:
        circuit = part.circuit
        share = np.zeros(circuit.n_nodes)
        share[0] = 1.0
        edge = 0
        for node in np.flatnonzero(circuit.kind == SUM):  # parents stand before their children
            below = circuit.children_of(int(node))
            np.add.at(share, below, share[node] * np.exp(part.log_weights[edge : edge + below.size]))
            edge += below.size
        self.leaves = [(f, part.leaf_parameters[f], share[circuit.leaves_of(f)]) for f in circuit.families]
        self.name = circuit.names[0]
        self.is_density = all(EXPLICIT[f].is_density for f, _, _ in self.leaves)
        self.n_leaves = sum(share.size for _, _, share in self.leaves)
        self.in_logs = all(EXPLICIT[f].lowest == 0.0 for f, _, _ in self.leaves)
        self.has_logs = any(f in LOG_FAMILIES for f, _, _ in self.leaves)
        self.in_logs |= self.has_logs
        self.n_levels = 0
        if all(f in LEVELS for f, _, _ in self.leaves):
            self.n_levels = max(max(p.shape[1], 2) for _, p, _ in self.leaves)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (X,) at values."""
        return sum(share @ np.exp(_logs(f, p, x)) for f, p, share in self.leaves)

    def each_density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (n_leaves, X) of the leaves, family by family."""
        return np.concatenate([np.exp(_logs(f, p, x)) for f, p, _ in self.leaves])

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(column <= x) at values (X,)."""
        return np.minimum(self._mass(np.array(-np.inf), x), 1.0)

    def _mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return sum(share @ np.exp(log_interval(f, p[:, None], low, high)) for f, p, share in self.leaves)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Smallest values (n,) with P(column <= x) >= q, measured on the side that is nearer.

        ``-inf`` at 0; 1 is reached where the distribution function is 1 to rounding.
        """
        out, upper = np.full(q.shape, -np.inf), q > 0.5
        low = (q > 0.0) & ~upper
        for at, is_short in (
            (low, lambda x: self.cdf(x) < q[low]),
            (upper, lambda x: self._mass(np.nextafter(x, np.inf), np.array(np.inf)) > 1.0 - q[upper]),
        ):
            end = np.inf if self.is_density else LARGEST_COUNT
            ends = np.full(int(at.sum()), -end), np.full(int(at.sum()), end)
            out[at] = smallest_reaching(is_short, *ends)
        return out if self.is_density else np.ceil(out)

    def kinks(self) -> np.ndarray:
        """Where the density jumps or bends, as far as the families say."""
        ends = [
            np.array([e for e in (EXPLICIT[f].lowest, EXPLICIT[f].highest) if np.isfinite(e)])
            for f, _, _ in self.leaves
        ]
        for f, p, _ in self.leaves:
            if f in KINKS:
                ends.append(np.unique(KINKS[f](p)))
            elif p.dtype == object:
                of_leaves = np.array([leaf.support() for leaf in p[:, 0]], np.float64).ravel()
                ends.append(np.unique(of_leaves[np.isfinite(of_leaves)]))
        return np.concatenate(ends)

    def grid(self, n_panels: int, own_cuts: bool = False) -> Grid:
        """Levels, counts, or Gauss points between quantiles, with ``n_panels`` in the bulk.

        Parameters
        ----------
        n_panels : int
        own_cuts : bool
            Whether the quantiles of single leaves are ends of panels, too: for narrow ones of small weight.

        Raises
        ------
        ValueError
            If a column of counts has too many of them.
        """
        if self.n_levels:
            return Grid(np.arange(float(self.n_levels)), np.ones(self.n_levels))
        if not self.is_density:
            return self._counts
        steps = max(n_panels // 12, 1)  # panels of a step from one tail quantile to the next
        places = np.arange((len(TAIL) - 1) * steps) / steps
        tails = np.append(np.exp(np.interp(places, np.arange(len(TAIL)), np.log(TAIL))), TAIL[-1])
        q = np.concatenate([tails, np.linspace(BULK, 1.0 - BULK, n_panels + 1), 1.0 - tails[::-1]])
        cuts = np.concatenate(
            [self.quantile(q), self.kinks(), self._cuts_of_leaves(steps) if own_cuts else np.zeros(0)]
        )
        if not self.in_logs:
            return gauss_points(np.unique(cuts), in_logs=False)
        cuts = np.unique(
            np.clip(np.where((cuts > 0.0) & (cuts < 1.0 / LARGEST), 1.0 / LARGEST, cuts), -LARGEST, LARGEST)
        )
        if self.has_logs and cuts[0] < 0.0 < cuts[-1]:  # beside other leaves one may have mass at any scale
            cuts = np.unique(np.append(cuts, 1.0 / LARGEST))
        long = np.flatnonzero((cuts[:-1] > 0.0) & (cuts[1:] > LONG * np.maximum(cuts[:-1], 0.0)))
        between = [
            np.geomspace(cuts[k], cuts[k + 1], 2 + steps * int(np.log(cuts[k + 1] / cuts[k]) / np.log(LONG)))
            for k in long
        ]
        return gauss_points(np.unique(np.concatenate([cuts, *between])), in_logs=True)

    @cached_property
    def _counts(self) -> Grid:
        """Whole numbers but for the far tails."""
        first, last = self.quantile(np.array([TAIL[0], 1.0 - TAIL[0]]))
        if last - first >= MOST_COUNTS:
            raise ValueError(
                f"column {self.name!r} takes {last - first + 1:g} counts, more than the {MOST_COUNTS} that "
                'are summed; method="monte-carlo" needs no sum'
            )
        x = np.arange(first, last + 1.0)
        return Grid(x, np.ones(x.size), (float(first) - 1.0, float(last)))

    def _cuts_of_leaves(self, steps: int) -> np.ndarray:
        """Quantiles of the leaves with the largest shares, ``steps`` from one of `OWN_SHARES` to the next."""
        odds = np.interp(
            np.arange((len(OWN_SHARES) - 1) * steps + 1) / steps, np.arange(len(OWN_SHARES)), logit(OWN_SHARES)
        )
        least = np.sort(np.concatenate([share for _, _, share in self.leaves]))[-MOST_CUT:][0]
        cuts = []
        for f, p, share in self.leaves:
            own = np.repeat(p[share >= max(least, 1e-9)], odds.size, axis=0)
            target = np.resize(log_expit(odds), len(own))
            ends = np.full(len(own), -np.inf), np.full(len(own), np.inf)
            cuts.append(smallest_reaching(lambda x: log_interval(f, own, -np.inf, x) < target, *ends))  # noqa: B023
        return np.concatenate(cuts)


def _logs(family: str, p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log densities (n, X) of leaves (n, p)."""
    return EXPLICIT[family].log_density(p[:, None], x[None])
