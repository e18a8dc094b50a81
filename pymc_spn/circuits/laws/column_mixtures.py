"""The law of one column of an explicit circuit: a mixture of its leaves, with a grid on which it is summed."""

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_spn.circuits.evaluation.circuit_layout import SUM
from pymc_spn.circuits.laws.circuit_parts import Part
from pymc_spn.laws.column_grids import (
    BULK,
    LARGEST,
    MOST_COUNTS,
    TAIL,
    Grid,
    gauss_points,
    halved_panels,
    middles,
    panel_points,
)
from pymc_spn.laws.log_tails import mean_log_beyond
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval, support_of
from pymc_spn.numerics.halving import smallest_at_levels, smallest_reaching

LARGEST_COUNT = 2.0**53  # above it whole numbers are not told apart
MOST_CUT = 1_000  # leaves of a family, between whose own quantiles a grid has panels, where it has missed them
OWN_SHARES = np.array([1e-6, 0.02, 0.5, 0.98, 1.0 - 1e-6])
MOST_PANELS = 20_000
FAR = 10.0 ** -np.concatenate([np.arange(14.0, 40.0, 2.0), np.arange(40.0, 300.0, 20.0)])  # masses of far tails
BLOCK_VALUES = 2_000_000  # densities held at a time (16 MB)


class LeavesWithin(NamedTuple):
    """Leaves of one family, all within one interval, by which their laws are divided.

    Parameters
    ----------
    family : str
    parameters : (n, p) array
    share : (n,) float64
    low, high : float
        Infinite where the leaves are whole.
    log_total : (n,) float64
        Log probabilities of the interval.
    """

    family: str
    parameters: np.ndarray
    share: np.ndarray
    low: float
    high: float
    log_total: np.ndarray

    def some(self, which: Any) -> "LeavesWithin":
        """Part of them."""
        return self._replace(
            parameters=self.parameters[which], share=self.share[which], log_total=self.log_total[which]
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log densities or masses (n, X) at points (X,), or at points (n, X) of their own."""
        logs = EXPLICIT[self.family].log_density(self.parameters[:, None], np.atleast_2d(x)) - self.log_total[:, None]
        return np.where((x >= self.low) & (x <= self.high), logs, -np.inf)

    def log_mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """log P(low <= X <= high) (n, X)."""
        ends = np.maximum(low, self.low), np.minimum(high, self.high)
        return np.minimum(log_interval(self.family, self.parameters[:, None], *ends) - self.log_total[:, None], 0.0)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values (n,) that the leaves take."""
        ends = support_of(self.family, self.parameters)
        return np.maximum(ends[0], self.low), np.minimum(ends[1], self.high)


class ColumnMixture:
    """Leaves of a circuit over one column with their shares.

    Parameters
    ----------
    part : Part
        Of one column.
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
        self.name, self.shares = circuit.names[0], share
        self.leaves: list[LeavesWithin] = []
        for f in circuit.families:
            own = share[circuit.leaves_of(f)]
            groups = grouped(f, part.leaf_parameters[f])
            self.leaves += [leaves._replace(share=own[rows]) for leaves, rows in groups]
        families = [leaves.family for leaves in self.leaves]
        self.is_density = all(EXPLICIT[f].is_density for f in families)
        self.has_logs = any(EXPLICIT[f].is_of_logs for f in families)
        lowest = min(float(leaves.support[0].min()) for leaves in self.leaves)
        self.in_logs = self.has_logs or lowest == 0.0
        self.n_levels = 0
        if all(EXPLICIT[f].probabilities is not None for f in families):
            self.n_levels = max(max(leaves.parameters.shape[1], 2) for leaves in self.leaves)

    def beside(self, other: "ColumnMixture") -> "ColumnMixture":
        """Both in equal shares: its grid is fine enough for either."""
        both = copy(self)
        both.leaves = [
            leaves._replace(share=0.5 * leaves.share) for mixture in (self, other) for leaves in mixture.leaves
        ]
        both.has_logs, both.in_logs = self.has_logs or other.has_logs, self.in_logs and other.in_logs
        both.in_logs |= both.has_logs
        both.__dict__.pop("_log_from", None)
        return both

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density or mass (X,) at values; it does not underflow."""
        with np.errstate(divide="ignore"):
            logs = [leaves.log_density(x) + np.log(leaves.share)[:, None] for leaves in self.leaves]
        return logsumexp(np.concatenate(logs), axis=0)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(column <= x) at values (X,)."""
        return np.minimum(self.mass(np.array(-np.inf), x), 1.0)

    def mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """P(low <= column <= high) (X,)."""
        return np.sum([leaves.share @ np.exp(leaves.log_mass(low, high)) for leaves in self.leaves], axis=0)

    def excludes(self, other: "ColumnMixture") -> bool:
        """Whether the other has some probability below the smallest value that this one takes, or above the largest."""
        low = min(float(leaves.support[0].min()) for leaves in self.leaves)
        high = max(float(leaves.support[1].max()) for leaves in self.leaves)
        outside = [(-np.inf, np.nextafter(low, -np.inf))] if low > -np.inf else []
        outside += [(np.nextafter(high, np.inf), np.inf)] if high < np.inf else []
        return any(
            bool(np.any(leaves.log_mass(np.array([start]), np.array([stop]))[leaves.share > 0.0] > -np.inf))
            for start, stop in outside
            for leaves in other.leaves
        )

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Smallest values (n,) with P(column <= x) >= q, measured on the side that is nearer.

        ``-inf`` at 0; 1 is reached where the distribution function is 1 to rounding.
        """
        out, upper = np.full(q.shape, -np.inf), q > 0.5
        low = (q > 0.0) & ~upper
        for at, rise, level in (
            (low, self.cdf, q),
            (upper, lambda x: -self.mass(np.nextafter(x, np.inf), np.array(np.inf)), q - 1.0),
        ):
            end = np.inf if self.is_density else LARGEST_COUNT
            ends = np.full(int(at.sum()), -end), np.full(int(at.sum()), end)
            out[at] = smallest_at_levels(rise, level[at], *ends)
        return out if self.is_density else np.ceil(out)

    def mean_log_beyond(self, ends: tuple[float, float]) -> float:
        """E[abs(log x); x beyond the ends] of the leaves over logs, see `log_tails`."""
        total = 0.0
        for leaves in self.leaves:
            if EXPLICIT[leaves.family].is_of_logs:
                centre, scale, *freedom = leaves.parameters.T
                parameters = centre, scale, freedom[0] if freedom else np.full(centre.shape, np.inf)
                each = mean_log_beyond(parameters, (leaves.low, leaves.high), leaves.log_total, ends)
                total += float(leaves.share[leaves.share > 0.0] @ each[leaves.share > 0.0])
        return total

    # ---- grids

    def grids(self, largest_error: float, far: bool = False) -> tuple[Grid, Grid, float]:
        """Levels, counts, or Gauss points on panels that are halved until every leaf is integrated; the same once more.

        Parameters
        ----------
        largest_error : float
            Of the leaves' integrals, averaged with their shares, as far as halving a panel shows it.
        far : bool
            Whether panels go on into tails of mass 1e-300, for what grows there.

        Returns
        -------
        Grid, Grid
            With these panels, and with all of them halved.
        float
            Mass that is lost: what halving the last panels changed, or by how far the leaves' integrals are not 1. It
            exceeds `largest_error` where a density piles up between neighbouring numbers, or panels are too many.

        Raises
        ------
        ValueError
            If a column of counts has too many of them.
        """
        if self.n_levels:
            levels = Grid(np.arange(float(self.n_levels)), np.ones(self.n_levels))
            return levels, levels, 0.0
        if not self.is_density:
            return self._counts, self._counts, 0.0
        edges, off = self._halved(self._cuts(far), largest_error)
        lost = self._lost(gauss_points(edges, self._log_from))
        narrow = [loss * leaves.share > 0.1 * largest_error for loss, leaves in zip(lost, self.leaves, strict=True)]
        if any(which.any() for which in narrow):  # leaves that no point has met
            own = [
                _own_cuts(leaves.some(np.flatnonzero(w)[:MOST_CUT]))
                for w, leaves in zip(narrow, self.leaves, strict=True)
            ]
            own_cuts = self._representable(np.concatenate(own))
            edges, off = self._halved(np.unique(np.concatenate([edges, own_cuts])), largest_error)
            lost = self._lost(gauss_points(edges, self._log_from))
        total = sum(float(leaves.share @ loss) for loss, leaves in zip(lost, self.leaves, strict=True))
        fine = np.unique(np.concatenate([edges, middles(edges[:-1], edges[1:], self._log_from)]))
        return gauss_points(edges, self._log_from), gauss_points(fine, self._log_from), max(off, total)

    def _lost(self, grid: Grid) -> list[np.ndarray]:
        """By how far the integral of each leaf is not 1, beyond what the ends of the grid cut off."""
        out = []
        with np.errstate(divide="ignore"):
            log_weight = np.log(grid.weight)
        for leaves in self.leaves:
            loss = np.empty(leaves.share.size)
            step = max(1, BLOCK_VALUES // grid.x.size)
            for k in range(0, loss.size, step):
                some = leaves.some(slice(k, k + step))
                assert grid.ends is not None
                inside = np.exp(some.log_mass(np.array([grid.ends[0]]), np.array([grid.ends[1]])))[:, 0]
                loss[k : k + step] = np.abs(np.exp(some.log_density(grid.x) + log_weight).sum(axis=1) - inside)
            out.append(loss)
        return out

    def _halved(self, cuts: np.ndarray, largest_error: float) -> tuple[np.ndarray, float]:
        """Ends of panels, halved where that changes a leaf's integral, and what the last halving changed."""
        return halved_panels(cuts, self._log_from, self._errors, largest_error, MOST_PANELS)

    @cached_property
    def _log_from(self) -> float:
        """Distance from 0 beyond which long panels have their points in logs: all, or what lies beyond the bulk."""
        return 0.0 if self.in_logs else float(np.abs(self.quantile(np.array([BULK, 1.0 - BULK]))).max())

    def _errors(self, start: np.ndarray, middle: np.ndarray, end: np.ndarray) -> np.ndarray:
        """What halving a panel (X,) changes in the integrals of the leaves, averaged with their shares."""
        panels = [panel_points(*ends, self._log_from) for ends in ((start, end), (start, middle), (middle, end))]
        x, weight = (np.stack(parts) for parts in zip(*panels, strict=True))  # (3, X, nodes)
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight)
        out = np.zeros(start.size)
        step = max(1, BLOCK_VALUES // x.size)
        for leaves in self.leaves:
            for k in range(0, leaves.share.size, step):
                some = leaves.some(slice(k, k + step))
                mass = np.exp(some.log_density(x.ravel()).reshape(-1, *x.shape) + log_weight)
                whole, left, right = mass.sum(axis=-1).swapaxes(0, 1)
                out += some.share @ np.abs(whole - left - right)
        return out

    def _cuts(self, far: bool) -> np.ndarray:
        """Ends of the first panels: quantiles of the mixture, and where densities jump."""
        q = np.concatenate([TAIL, np.linspace(BULK, 1.0 - BULK, 13), 1.0 - np.array(TAIL)[::-1]])
        cuts = np.concatenate([self.quantile(q), self._kinks(), *([self._far_ends()] if far else [])])
        cuts = self._representable(cuts)
        if self.has_logs and cuts[0] < 0.0 < cuts[-1]:  # beside other leaves one may have mass at any scale
            cuts = np.unique(np.append(cuts, 1.0 / LARGEST))
        return cuts

    def _representable(self, cuts: np.ndarray) -> np.ndarray:
        """Ends of panels that have finite lengths, also in logs: a quantile may be beyond all numbers."""
        cuts = np.clip(cuts, -LARGEST, LARGEST) if self.has_logs else cuts[np.isfinite(cuts)]
        if self.in_logs:
            cuts = np.where((cuts > 0.0) & (cuts < 1.0 / LARGEST), 1.0 / LARGEST, cuts)
        return np.unique(cuts)

    def _far_ends(self) -> np.ndarray:
        """Values beyond which there is less and less mass, on both sides."""
        end = np.full(FAR.shape, np.inf)
        lower = smallest_reaching(lambda x: self.mass(np.array(-np.inf), x) < FAR, -end, end)
        upper = smallest_reaching(lambda x: self.mass(x, np.array(np.inf)) > FAR, -end, end)
        return np.concatenate([lower, upper])

    def _kinks(self) -> np.ndarray:
        """Where the density may jump: at the ends of supports."""
        out = []
        for leaves in self.leaves:
            ends = np.concatenate(leaves.support)
            out.append(np.unique(ends[np.isfinite(ends)]))
        return np.concatenate(out)

    @cached_property
    def _counts(self) -> Grid:
        """Whole numbers except in the far tails."""
        first, last = self.quantile(np.array([TAIL[0], 1.0 - TAIL[0]]))
        if last - first >= MOST_COUNTS:
            raise ValueError(
                f"column {self.name!r} takes {last - first + 1:g} counts, more than the {MOST_COUNTS} that "
                'are summed; method="monte-carlo" needs no sum'
            )
        x = np.arange(first, last + 1.0)
        return Grid(x, np.ones(x.size), (float(first) - 1.0, float(last)))


def _own_cuts(leaves: LeavesWithin) -> np.ndarray:
    """Quantiles of leaves."""
    some = leaves.some(np.repeat(np.arange(leaves.share.size), OWN_SHARES.size))
    target = np.log(np.resize(OWN_SHARES, some.share.size))

    def is_short(x: np.ndarray) -> np.ndarray:
        ends = np.full(x.shape, some.low), np.minimum(x, some.high)
        return log_interval(some.family, some.parameters, *ends) - some.log_total < target

    ends = np.full(target.shape, -np.inf), np.full(target.shape, np.inf)
    return smallest_reaching(is_short, *ends)


def grouped(family: str, parameters: np.ndarray) -> list[tuple[LeavesWithin, np.ndarray]]:
    """Leaves of one family, without shares, and their rows (k,).

    Those within intervals are grouped by the family and the interval that they are made of.
    """
    rows = np.arange(len(parameters))
    zeros = np.zeros(rows.size)
    if not EXPLICIT[family].holds_objects:
        return [(LeavesWithin(family, parameters, zeros, -np.inf, np.inf, zeros), rows)]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, leaf in enumerate(parameters[:, 0]):
        own = leaf.dist
        is_part = hasattr(own, "log_mass_between") and not EXPLICIT[own.family].holds_objects
        groups.setdefault((own.family, own.low, own.high) if is_part else (), []).append(row)
    out = []
    for key, which in groups.items():
        none = zeros[which]
        if not key:
            out.append((LeavesWithin(family, parameters[which], none, -np.inf, np.inf, none), rows[which]))
            continue
        laws = [leaf.dist for leaf in parameters[which, 0]]
        own_parameters, log_total = (
            np.array([getattr(law, name) for law in laws]) for name in ("parameters", "log_total")
        )
        out.append((LeavesWithin(key[0], own_parameters, none, key[1], key[2], log_total), rows[which]))
    return out
