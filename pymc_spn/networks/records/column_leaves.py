"""Leaves of several networks at once, column by column: the families work on whole arrays, so one call serves all."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from pymc_spn.gibbs.family_kernels import posteriors
from pymc_spn.gibbs.network import level_counts
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.family_codes import GAUSSIAN, ROUNDED_COUNT, ROUNDED_GAUSSIAN
from pymc_spn.leaves.intervals import EXCLUDED
from pymc_spn.leaves.leaf_peaks import ColumnRange
from pymc_spn.leaves.leaf_predictives import Leaves, largest_of_predictives, leaf_moments, log_event

BLOCK = 2_000  # leaves at a time: quadrature holds up to 1,500 points of each
HELD = 4_000_000  # answers kept for the next query (32 MB)


class ColumnLeaves:
    """Leaves of networks that do not change, and what events do to them.

    Parameters
    ----------
    nets : sequence of Network
    compiled
        The compiled columns of the networks.
    """

    def __init__(self, nets: Sequence[Any], compiled: Any) -> None:
        self._nets, self._compiled = nets, compiled
        self._joined: dict[int, tuple[Leaves, np.ndarray]] = {}  # one network after the other, and the first of each
        self._found: dict[Any, tuple[np.ndarray, ...]] = {}
        self._n_held = 0
        self._lock = Lock()  # for `_found` and `_n_held`

    def leaves(self, s: int, d: int) -> Leaves:
        """All leaf slots (n,) of a column in network s, as `leaves_of_column` has them."""
        here = self._part(s, d)
        return self._joined[d][0].some(here)

    def log_event(self, s: int, d: int, event: Any) -> np.ndarray:
        """Log probability (n,) of an event of a column in each of its leaves in network s."""
        here = self._part(s, d)
        return self._of_all(d, event, _logs)[0][here]

    def moments(self, s: int, d: int, event: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of each leaf of a column in network s, given an event of it or None."""
        here = self._part(s, d)
        mean, variance = self._of_all(d, event, leaf_moments)
        return mean[here], variance[here]

    def largest(self, s: int, d: int, within: ColumnRange) -> tuple[np.ndarray, np.ndarray]:
        """Where each leaf (n,) of a column in network s is largest, and its log density there; very low for 0."""
        here = self._part(s, d)
        x, logs = self._of_all(d, within, largest_of_predictives)
        return x[here], np.maximum(logs[here], EXCLUDED)

    def _part(self, s: int, d: int) -> slice:
        if d not in self._joined:
            found = [leaves_of_column(net, self._compiled, d) for net in self._nets]
            joined = Leaves(*(np.concatenate(values) for values in zip(*found, strict=True)))
            sizes = [one.family.size for one in found]
            self._joined[d] = joined, np.concatenate([[0], np.cumsum(sizes)])
        begin = self._joined[d][1]
        return slice(begin[s], begin[s + 1])

    def _of_all(
        self, d: int, event: Any, of_leaves: Callable[[Leaves, Any], tuple[np.ndarray, ...]]
    ) -> tuple[np.ndarray, ...]:
        """What a function says of the leaves of all networks, kept: queries ask of one network after the other."""
        key = d, event, of_leaves
        with self._lock:
            found = self._found.get(key)
            if found is None:
                leaves, size = self._joined[d][0], max(self._joined[d][1][-1], 1)
                parts = [of_leaves(leaves.some(slice(i, i + BLOCK)), event) for i in range(0, size, BLOCK)]
                found = tuple(np.concatenate(values) for values in zip(*parts, strict=True))
                if self._n_held > HELD:
                    self._found.clear()
                    self._n_held = 0
                self._found[key] = found
                self._n_held += sum(values.size for values in found)
        return found


def _logs(leaves: Leaves, event: Any) -> tuple[np.ndarray, ...]:
    return (log_event(leaves, event),)


def leaves_of_column(net: Any, compiled: Any, c: int) -> Leaves:
    """All leaf slots of a column, place by place, as events see them."""
    places = [leaves_at(net, compiled, int(d)) for d in np.flatnonzero(net.palette.source == c)]
    family = np.concatenate([p.family for p in places])
    return as_masses(Leaves(family, np.concatenate([p.parameters for p in places])), compiled, c)


def as_masses(leaves: Leaves, compiled: Any, c: int) -> Leaves:
    """Leaves of a column in which Gaussian ones are rounded where it has masses."""
    if compiled.is_density[c]:
        return leaves
    code = ROUNDED_COUNT if compiled.is_count[c] else ROUNDED_GAUSSIAN
    return leaves._replace(family=np.where(leaves.family == GAUSSIAN, code, leaves.family))


def leaves_at(net: Any, compiled: Any, d: int) -> Leaves:
    """All leaf slots at place d of a column, the prior slots first."""
    r, c = net.tree.leaf_region[d], net.palette.source[d]
    slots = slice(net.edges.begin[r], net.edges.begin[r] + net.edges.top[r])
    entry = net.leaves.entry[slots]
    family, prior, n = net.palette.family[entry], net.palette.prior[entry], net.leaves.n_data[slots].astype(np.float64)
    if compiled.n_levels[c] > 0:
        factors = net.palette.level_factor[net.palette.entry_source[entry], : compiled.n_levels[c]]
        return Leaves(family, level_counts(net, d)[:, : net.edges.top[r]].T + prior[:, :1] * factors)
    out = np.empty((entry.size, 4))
    posteriors(family, n, net.leaves.s1[slots].copy(), net.leaves.s2[slots].copy(), prior, out)
    for code in np.unique(family).tolist():
        in_units = PREDICTIVES[code].in_units
        if in_units is not None:
            own = family == code
            out[own] = in_units(out[own], compiled.centre[c], compiled.scale[c])
    return Leaves(family, out)
