"""The law of a leaf given that its value lies in an interval, as a frozen distribution of SciPy.

No family of `Circuit` is closed under intervals but the uniform one. A conditioned circuit so holds distributions of
SciPy whose density, distribution function and draws are those of the leaf divided by the interval's probability.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval, support_of
from pymc_spn.numerics.halving import smallest_reaching

FARTHEST = -690.0  # log share of the law beyond which nothing is integrated
CUTS = np.concatenate(  # log shares below and above the ends of the first panels
    [np.arange(FARTHEST, -40.0, 25.0), np.arange(-40.0, -2.0, 2.0), np.log(np.linspace(0.15, 0.5, 5))]
)
ROUNDING = 1e-12  # relative to a panel, by how much its integral and those of its halves may differ
SMALL = 1e-14  # the same, relative to all panels
FEW_NUMBERS = 64.0  # between the ends of a panel that is not halved
UNSEEN = 1e-11  # relative to the leaf, by how much a panel and the distribution function may differ
MOST_PANELS = 30_000  # that are compared with their halves
MOST_COUNTS = 1_000_000  # whole numbers whose masses are added; of more every k-th
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class _Within:
    """What continuous and discrete laws have in common: logs of the leaf less the log probability of the interval."""

    farthest = np.inf  # value that is searched

    if TYPE_CHECKING:

        def _logsf(self, x: Any) -> np.ndarray: ...

        def _summed_moments(self) -> tuple[float, float]: ...

    def _set(self, family: str, parameters: Any, low: float, high: float) -> tuple[float, float]:
        """Keep the leaf; ends of the support."""
        self.family, self.parameters, self.low, self.high = family, parameters, float(low), float(high)
        own_low, own_high = support_of(family, parameters[None])
        self.ends = max(self.low, float(own_low[0])), min(self.high, float(own_high[0]))
        self.log_total = float(self._log_between(*self.ends))
        return self.ends

    def _updated_ctor_param(self) -> dict[str, Any]:
        """Arguments with which SciPy makes its copy when the distribution is frozen."""
        return {"family": self.family, "parameters": self.parameters, "low": self.low, "high": self.high}

    def _log_between(self, low: Any, high: Any) -> np.ndarray:
        return log_interval(self.family, self.parameters, low, high)

    def log_mass_between(self, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high), both ends included: what SciPy's tails would take several calls for."""
        inside = self._log_between(np.maximum(low, self.ends[0]), np.minimum(high, self.ends[1]))
        return np.minimum(inside - self.log_total, 0.0)

    def _log_at(self, x: Any) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # squares of the farthest numbers
            return EXPLICIT[self.family].log_density(self.parameters, x) - self.log_total

    def _logcdf(self, x: Any) -> np.ndarray:
        return np.minimum(self._log_between(self.ends[0], x) - self.log_total, 0.0)

    def _cdf(self, x: Any) -> np.ndarray:
        return np.exp(self._logcdf(x))

    def _sf(self, x: Any) -> np.ndarray:
        return np.exp(self._logsf(x))

    def _ppf(self, q: Any) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_share = np.log(np.asarray(q, np.float64)).ravel()
        return self._lower_quantile(log_share).reshape(np.shape(q))

    def _lower_quantile(self, log_share: np.ndarray) -> np.ndarray:
        """Smallest value (n,) up to which the law has a share."""
        low, high = (np.full(log_share.shape, np.clip(end, -self.farthest, self.farthest)) for end in self.ends)
        return smallest_reaching(lambda x: self._logcdf(x) < log_share, np.nextafter(low, -np.inf), high)

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:
        u = 1.0 - random_state.random(size)  # above 0
        return self._ppf(u)[()]

    def _stats(self) -> tuple[float, float, None, None]:
        mean, variance = self._moments()
        return mean, variance, None, None

    def _moments(self) -> tuple[float, float]:
        low, high = self.ends
        moments = EXPLICIT[self.family].moments_within
        if moments is not None:
            mean, variance = moments(self.parameters[None], low, high)
            return float(mean[0]), float(variance[0])
        return self._summed_moments()


class ContinuousWithin(_Within, stats.rv_continuous):
    """A leaf with a density, given that its value lies in an interval of positive probability.

    Parameters
    ----------
    family : str
        In `EXPLICIT`.
    parameters : (p,) array
        Of the leaf; of SciPy's families the distribution.
    low, high : float
        Ends of the interval, which belong to it.
    """

    def __init__(self, family: str, parameters: Any, low: float, high: float) -> None:
        a, b = self._set(family, parameters, low, high)
        super().__init__(a=a, b=b, name=f"{family} within [{low:g}, {high:g}]")

    def _logpdf(self, x: Any) -> np.ndarray:
        return self._log_at(x)

    def _pdf(self, x: Any) -> np.ndarray:
        return np.exp(self._log_at(x))

    def _logsf(self, x: Any) -> np.ndarray:
        return np.minimum(self._log_between(x, self.ends[1]) - self.log_total, 0.0)

    def _summed_moments(self) -> tuple[float, float]:
        """By Gauss panels between quantiles, which are halved until their integrals agree with those of their halves.

        Where a density has a jump, a kink or is infinite, the panel that holds the place never agrees. It is halved
        until it is so narrow that its mass, which the distribution function gives, and its place are all that counts.
        To ten digits of mean and variance; of SciPy's leaves no better than their densities and distribution functions.
        """
        whole = EXPLICIT[self.family].mean(self.parameters), EXPLICIT[self.family].variance(self.parameters)
        mode = np.ravel(EXPLICIT[self.family].mode(self.parameters))
        low, high = (np.full(CUTS.shape, end) for end in self.ends)
        upper = smallest_reaching(lambda x: self._logsf(x) > CUTS, np.nextafter(low, -np.inf), high)
        inner = mode[(self.ends[0] < mode) & (mode < self.ends[1])]
        lower = self._lower_quantile(CUTS)
        cuts = np.concatenate([np.array(self.ends), lower, upper, inner])
        with np.errstate(over="ignore", invalid="ignore"):  # of the farthest numbers
            mean, variance = self._refined(np.unique(cuts[np.isfinite(cuts)]), float(lower[-1]))
        if np.isinf(self.ends[0]) or np.isinf(self.ends[1]):  # the tail is that of the leaf
            sign = np.inf if np.isinf(self.ends[1]) else -np.inf
            mean, variance = mean if np.isfinite(whole[0]) else sign, variance if np.isfinite(whole[1]) else np.inf
        return mean, variance

    def _refined(self, cuts: np.ndarray, origin: float) -> tuple[float, float]:
        """Mean and variance by panels between cuts (n + 1,); places as distances from the origin, to keep digits."""
        unseen = UNSEEN * np.exp(min(-self.log_total, 700.0))
        panels, done, n_compared = self._panels(cuts[:-1], cuts[1:]), [np.zeros((5, 0))], 0
        while True:
            low, high = panels[0], panels[1]
            middle = 0.5 * low + 0.5 * high
            halves = self._panels(np.concatenate([low, middle]), np.concatenate([middle, high]))
            mean, spread, deviation = _summary(np.concatenate([*done, halves], axis=1), origin)
            parts = _integrals(halves, origin, mean, spread, deviation).reshape(3, 2, -1)
            off = np.abs(_integrals(panels, origin, mean, spread, deviation) - parts.sum(axis=1))
            agree = np.all((off <= ROUNDING * np.abs(parts).sum(axis=1)) | (off <= SMALL), axis=0)
            # among too few floating-point numbers the mass at an infinite density is not seen
            coarse = high - low <= FEW_NUMBERS * np.spacing(np.maximum(np.abs(low), np.abs(high)))
            share = np.exp(self._log_between(low, high) - self.log_total)
            seen = np.abs(parts[0].sum(axis=0) - share) <= unseen  # a jump between an end and the nodes is not
            agree &= seen & ~coarse
            done.append(halves[:, np.tile(agree, 2)])
            n_compared += low.size
            reach = np.maximum(np.abs(low - origin - mean), np.abs(high - origin - mean)) / spread
            narrow = (share * (high - low) < SMALL * deviation) & (share * reach * ((high - low) / spread) < SMALL)
            last = ~agree & (narrow | coarse | (n_compared > MOST_PANELS))
            done.append(np.stack([low, high, share, *panels[3:]])[:, last])
            panels = halves[:, np.tile(~agree & ~last, 2)]
            if panels.shape[1] == 0:
                mean, spread, _ = _summary(np.concatenate(done, axis=1), origin)
                return origin + mean, spread**2

    def _panels(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Panels (5, n): ends, mass, mean as distance from the lower end, variance within."""
        width = high - low
        away = 0.5 * width[:, None] * (_NODES + 1.0)
        weight = _WEIGHTS * np.exp(self._log_at(low[:, None] + away))
        total = weight.sum(axis=1)
        weight = np.where(total > 0.0, weight.T, _WEIGHTS[:, None]).T
        weight = weight / weight.sum(axis=1, keepdims=True)
        place = (weight * away).sum(axis=1)
        return np.stack([low, high, 0.5 * width * total, place, (weight * (away - place[:, None]) ** 2).sum(axis=1)])


def _summary(panels: np.ndarray, origin: float) -> tuple[float, float, float]:
    """Mean less the origin, standard deviation and mean absolute deviation of panels (5, n) together."""
    low, _, mass, place, variance = panels
    weight = mass / mass.sum()
    z = (low - origin) + place
    mean = float(weight @ z)
    root = np.sqrt(weight) * np.hypot(z - mean, np.sqrt(variance))
    unit = float(root.max()) or 1.0  # squares of the standard deviation may be too small or too large
    spread = unit * float(np.sqrt(np.sum(np.square(root / unit)))) or np.finfo(np.float64).tiny
    return mean, spread, float(weight @ np.hypot(z - mean, np.sqrt(variance))) or spread


def _integrals(panels: np.ndarray, origin: float, mean: float, spread: float, deviation: float) -> np.ndarray:
    """Integrals (3, n) of 1, of the distance from the mean and of its square, in parts of those of the whole law."""
    low, _, mass, place, variance = panels
    z = (low - origin) + place - mean
    return np.stack([mass, mass * (z / deviation), mass * (np.square(z / spread) + variance / spread**2)])


class DiscreteWithin(_Within, stats.rv_discrete):
    """A leaf of counts, given that its value lies in an interval of positive probability; see `ContinuousWithin`."""

    farthest = 2.0**53  # above it whole numbers are not told apart

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return object.__new__(cls)  # SciPy's takes no arguments but its own

    def __init__(self, family: str, parameters: Any, low: float, high: float) -> None:
        a, b = self._set(family, parameters, np.ceil(low), np.floor(high))
        super().__init__(a=a, b=b, name=f"{family} within [{low:g}, {high:g}]")

    def _logpmf(self, x: Any) -> np.ndarray:
        return self._log_at(x)

    def _pmf(self, x: Any) -> np.ndarray:
        return np.exp(self._log_at(x))

    def _logsf(self, x: Any) -> np.ndarray:
        return np.minimum(self._log_between(np.floor(x) + 1.0, self.ends[1]) - self.log_total, 0.0)

    def _summed_moments(self) -> tuple[float, float]:
        """By the masses of all numbers that have some, of very many by those of equal distances."""
        share = np.array([FARTHEST])
        low, high = (np.array([np.clip(end, -self.farthest, self.farthest)]) for end in self.ends)
        last = smallest_reaching(lambda x: self._logsf(x) > share, np.nextafter(low, -np.inf), high)[0]
        first, last = np.ceil(self._lower_quantile(share)[0]), np.ceil(last)
        x = np.arange(first, last + 1.0, max(np.floor((last - first) / MOST_COUNTS), 1.0))
        logs = self._log_at(x)
        mass = np.exp(logs - logsumexp(logs))
        mean = float(mass @ x)
        return mean, float(mass @ np.square(x - mean))


def leaf_within(family: str, parameters: np.ndarray, low: float, high: float) -> Any:
    """The leaf's law within a closed interval that has some probability, frozen."""
    kind = ContinuousWithin if EXPLICIT[family].is_density else DiscreteWithin
    return kind(family, np.asarray(parameters), low, high)()


def leaf_on(values: np.ndarray, log_masses: np.ndarray) -> Any:
    """The law on given whole numbers (k,), with masses up to a factor, frozen."""
    mass = np.exp(log_masses - logsumexp(log_masses))
    return stats.rv_discrete(values=(values[mass > 0.0], mass[mass > 0.0]))()
