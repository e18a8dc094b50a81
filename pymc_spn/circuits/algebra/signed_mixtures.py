"""Mixtures of circuits with weights of either sign whose density is nowhere negative: squares of sums, written out.

Whatever is linear in the density is the same sum of the circuits' answers. What cancels in it is lost to rounding: the
relative error is that of one circuit times the sum of the absolute terms over the absolute value of their sum.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised, RowMoments, complete, moments, refuse_impossible
from pymc_spn.circuits.laws.circuit_events import (
    ColumnEvent,
    log_joint_and_base,
    log_mass,
    refuse_impossible_evidence,
)
from pymc_spn.events.unions import log_union
from pymc_spn.numerics.halving import smallest_reaching

LEAST_ACCEPTANCE = 1e-2  # below, inverting distribution functions takes less time


class SignedMixture:
    """Circuits with weights that add up to one.

    Parameters
    ----------
    parts : sequence of Parameterised
        Over the same columns in the same order.
    weights : (M,) float64
        Not 0, at least one of them positive.
    """

    def __init__(self, parts: Sequence[Parameterised], weights: np.ndarray) -> None:
        self.parts, self.weights = list(parts), weights

    def logs(self, values: np.ndarray) -> np.ndarray:
        """Log densities (M, n) under each circuit."""
        return np.array([part.evaluator.log_density(values) for part in self.parts])

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Log densities (n,) of rows, missing cells summed out; -inf where nothing is left but rounding."""
        return self._added(self.logs(values))

    def log_probability(self, event: Any, known: Any) -> float | np.ndarray:
        """As `SumOfSquares.log_probability`."""
        found = [log_joint_and_base(part, event, known) for part in self.parts]
        is_single = found[0][2]
        joint = self._added(np.array([f[0] for f in found]))
        if known:
            base = self._added(np.array([f[1] for f in found]))
            refuse_impossible_evidence(known, base, is_single)
            joint = joint - base
        return float(joint[0]) if is_single else joint

    def moments(self, values: np.ndarray, covariance: bool) -> RowMoments:
        """As `SumOfSquares.moments`."""
        logs = self.logs(values)
        total = self._added(logs)
        refuse_impossible(total)
        shares = self.weights[:, None] * np.exp(logs - total)
        size = values.shape[1]
        means = np.zeros((len(self.parts), *values.shape))
        covs = np.zeros((len(self.parts), *values.shape, size) if covariance else (len(self.parts), 0, 0, 0))
        for m, part in enumerate(self.parts):
            possible = shares[m] != 0.0  # the others have no conditional
            found = moments(part, values[possible], covariance)
            means[m, possible] = found.mean
            if covariance:
                covs[m, possible] = found.covariance
        mean = np.where(np.isnan(values), np.einsum("mn,mnd->nd", shares, means), values)
        if not covariance:
            return RowMoments(mean, covs[0])
        means -= mean
        covs += means[..., :, None] * means[..., None, :]
        return RowMoments(mean, np.einsum("mn,mnde->nde", shares, covs))

    def acceptance(self, logs: np.ndarray) -> np.ndarray:
        """Share (n,) of the positive terms that the negative ones leave, of log densities (M, n)."""
        terms = self.weights[:, None] * np.exp(logs - logs.max(axis=0))
        return np.maximum(terms.sum(axis=0), 0.0) / np.where(terms > 0.0, terms, 0.0).sum(axis=0)

    def complete(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows with missing cells drawn given the observed ones.

        By rejection from the positive terms, which is exact; rows for which too few proposals would be kept by halving
        on the distribution functions of one column after the other.
        """
        logs = self.logs(values)
        refuse_impossible(self._added(logs))
        out = values.copy()
        gaps = np.isnan(values).any(axis=1)
        often = self.acceptance(logs) >= LEAST_ACCEPTANCE
        self._reject(out, np.flatnonzero(gaps & often), logs, rng)
        self._invert(out, np.flatnonzero(gaps & ~often), rng)
        return out

    def _reject(self, out: np.ndarray, waiting: np.ndarray, logs: np.ndarray, rng: np.random.Generator) -> None:
        """Complete some rows of `out` (n, D), whose log densities are `logs` (M, n)."""
        shares = np.maximum(self.weights, 0.0)[:, None] * np.exp(logs - logs.max(axis=0))
        up_to = np.cumsum(shares, axis=0) / shares.sum(axis=0)
        last = len(up_to) - 1 - np.argmax(shares[::-1] > 0.0, axis=0)  # what rounding leaves goes to the last possible
        while waiting.size:
            chosen = np.minimum((rng.random(waiting.size) >= up_to[:, waiting]).sum(axis=0), last[waiting])
            proposal = out[waiting]
            for m in np.unique(chosen):
                proposal[chosen == m] = complete(self.parts[m], proposal[chosen == m], rng)
            kept = rng.random(waiting.size) < self.acceptance(self.logs(proposal))
            out[waiting[kept]] = proposal[kept]
            waiting = waiting[~kept]

    def _invert(self, out: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Complete some rows of `out` (n, D) column by column, at quantiles of uniform numbers."""
        for d in range(out.shape[1]):
            at = rows[np.isnan(out[rows, d])]
            if at.size == 0:
                continue
            known = {c: ColumnEvent(out[at, c], None) for c in range(out.shape[1]) if c != d}

            def log_mass_up_to(x: np.ndarray, d: int = d, n: int = at.size, known: Any = known) -> np.ndarray:
                events = known | {d: ColumnEvent(np.full(n, np.nan), [(np.full(n, -np.inf), x)])}
                return self._added(np.array([log_mass(part, events, n) for part in self.parts]))

            total = log_mass_up_to(np.full(at.size, np.inf))
            u = rng.random(at.size)

            def is_short(x: np.ndarray, total: Any = total, u: Any = u, mass: Any = log_mass_up_to) -> np.ndarray:
                return np.exp(mass(x) - total) < u

            ends = (np.full(at.size, end) for end in (-np.inf, np.inf))
            out[at, d] = smallest_reaching(is_short, *ends)

    def _added(self, logs: np.ndarray) -> np.ndarray:
        return add_signed(self.weights, logs)


def add_signed(weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Logs (n,) of sums of weights (M,) times exponentials of logs (M, n); -inf where no positive number is left."""
    signs, sizes = np.sign(weights), np.log(np.abs(weights))
    terms = zip(signs.tolist(), logs + sizes[:, None], strict=True)
    return log_union(terms, logs.shape[1:])
