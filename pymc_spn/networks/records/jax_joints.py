"""Leaves over several columns for JAX: rows with the same gaps share a factor of each leaf, made here in float64.

Rows with cells or known intervals, rows whose gaps few others have, and leaves whose columns nearly determine one
another are left to the kernels.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from pymc_spn.leaves.elliptical_leaves import groups_of
from pymc_spn.leaves.normal_inverse_wishart import LOG_PI
from pymc_spn.networks.records.jax_draws import JointRows, TwoNumbers
from pymc_spn.networks.records.joint_events import known_in, logs_of_leaves
from pymc_spn.networks.records.joint_predictives import JointPredictives, RowsByGaps

CHUNK = 64  # rows that share a factor
FEWEST = 16  # rows with the same gaps, below which kernels are quicker
AMPLIFIED = 32.0  # sum of the terms of a standardised distance, next to 1, up to which float32 adds them up


def room(n: int) -> int:
    """A number of at least n, one of few, so that few programs are compiled: 2^k or 3 2^k, or 0."""
    if n <= 2:
        return n
    power = 1 << (n - 1).bit_length()
    return 3 * power // 4 if n <= 3 * power // 4 else power


class JointFactors:
    """Leaves over the columns of one region under some draws, and their factors for sets of gaps.

    Parameters
    ----------
    leaves : JointPredictives
    compiled
        The compiled columns of the networks.
    n_leaves : int
        To which they are padded.
    dtype : dtype
        Of what JAX is given.
    """

    def __init__(self, leaves: JointPredictives, compiled: Any, n_leaves: int, dtype: Any) -> None:
        self._leaves, self._compiled, self._n_leaves, self._dtype = leaves, compiled, n_leaves, dtype
        self._found: dict[bytes, tuple[np.ndarray, ...]] = {}
        d, columns = leaves.columns.size, leaves.columns
        self._centre, self._scale = compiled.centre[columns], compiled.scale[columns]
        self._freedom = leaves.parameters[:, 0]
        self._location = (leaves.parameters[:, 1 : 1 + d] - self._centre) / self._scale
        location = np.pad(self._location, ((0, n_leaves - len(self._location)), (0, 0)))
        self._centres = jax.device_put(TwoNumbers.of(location, dtype))
        self._last: tuple[bytes | None, tuple[Any, ...]] = None, ()
        self._scatter = leaves.parameters[:, 1 + d :].reshape(-1, d, d) / (self._scale[:, None] * self._scale)

    def rows(self, values: np.ndarray, widths: np.ndarray | None, events: Mapping[int, Any], n_rows: int) -> JointRows:
        """Rows (M, D) in the units of the data, of cells (M, D) their middles, padded to ``n_rows``."""
        columns, n_leaves = self._leaves.columns, self._leaves.slots.size
        rows = values[:, columns]
        seen = ~np.isnan(rows)
        left = np.zeros(len(rows), np.bool_)
        if widths is not None:
            left = (seen & (widths[:, columns] > 0.0)).any(axis=1)
        if known_in(columns, events):
            left[:] = True
        of_points, groups = np.flatnonzero(~left), []
        for at in groups_of(seen[of_points]):
            if at.size < FEWEST:
                left[of_points[at]] = True
            else:
                groups.append(of_points[at])
        rest, every = np.flatnonzero(left), np.zeros(n_leaves, np.bool_)
        factors = [self._of_gaps(seen[at[0]]) for at in groups]
        if self._dtype == np.float32:
            for found in factors:
                every |= found[3] > AMPLIFIED
        which, logs = np.flatnonzero(every), self._logs_by_kernels
        known = np.zeros((self._n_leaves, room(rest.size)), self._dtype)
        known[:n_leaves, : rest.size] = logs(np.arange(n_leaves), values, widths, events, rest)
        whole = np.zeros((room(which.size), n_rows), self._dtype)
        whole[: which.size, : len(rows)] = logs(which, values, widths, events, np.arange(len(rows)))
        gaps, taken, position = self._chunks(groups, rest, n_rows)
        coded = np.where(seen, (rows - self._centre) / self._scale, 0.0)
        in_chunks = np.moveaxis(coded[taken], 2, 1)  # (T, d, B)
        factor, constant, power = self._stacked(b"".join(seen[at[0]].tobytes() for at in groups), factors)
        return JointRows(
            factor,
            constant,
            power,
            self._centres,
            gaps,
            TwoNumbers.of(in_chunks, self._dtype),
            known,
            position,
            np.pad(which, (0, len(whole) - which.size), constant_values=self._n_leaves).astype(np.int32),
            whole,
        )

    def _stacked(self, which: bytes, factors: list[tuple[np.ndarray, ...]]) -> tuple[Any, ...]:
        """Factors, constants and powers of `JointRows` of some sets of gaps, kept on the device for the next block."""
        if self._last[0] != which:
            n, d = self._n_leaves, self._leaves.columns.size
            stacked = [np.zeros((room(max(len(factors), 1)), *shape), self._dtype) for shape in ((n, d, d), (n,), (n,))]
            for g, found in enumerate(factors):
                for out, own in zip(stacked, found[:3], strict=True):
                    out[g, : len(own)] = own
            self._last = which, tuple(map(jax.device_put, stacked))
        return self._last[1]

    @staticmethod
    def _chunks(groups: list[np.ndarray], rest: np.ndarray, n_rows: int) -> tuple[np.ndarray, ...]:
        """Set of gaps (T,) and rows (T, B) of each chunk, and where each row (M,) stands in these or behind them."""
        n_each = [-(-at.size // CHUNK) for at in groups]
        n_chunks = room(max(sum(n_each), 1))
        gaps, taken = np.zeros(n_chunks, np.int32), np.zeros((n_chunks, CHUNK), np.int64)
        position, first = np.zeros(n_rows, np.int32), 0
        for g, (at, n) in enumerate(zip(groups, n_each, strict=True)):
            gaps[first : first + n] = g
            taken[first : first + n].ravel()[: at.size] = at
            position[at] = first * CHUNK + np.arange(at.size)
            first += n
        position[rest] = n_chunks * CHUNK + np.arange(rest.size)
        return gaps, taken, position

    def _of_gaps(self, seen: np.ndarray) -> tuple[np.ndarray, ...]:
        """Factors (J, d, d), constants and powers (J,) of `JointRows`, and how much a leaf's terms cancel (J,)."""
        found = self._found.get(seen.tobytes())
        if found is None:
            at, freedom = np.flatnonzero(seen), self._freedom
            scatter = self._scatter[:, at[:, None], at]
            lower = np.linalg.cholesky(scatter)
            inverse = np.linalg.inv(lower) if at.size else lower
            width = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
            half_log = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
            constant = self._leaves.log_ratio[:, at.size] - 0.5 * at.size * (LOG_PI + np.log(freedom)) - half_log
            factor = np.zeros(self._scatter.shape)
            factor[:, np.arange(at.size)[:, None], at] = inverse / np.sqrt(freedom)[:, None, None]
            terms = (np.abs(inverse) * width[:, None]).sum(axis=2).max(axis=1, initial=0.0)
            power = 0.5 * (freedom + at.size) if at.size else np.zeros(freedom.size)
            found = self._found[seen.tobytes()] = factor, constant, power, terms
        return found

    def _logs_by_kernels(
        self,
        which: np.ndarray,
        values: np.ndarray,
        widths: np.ndarray | None,
        events: Mapping[int, Any],
        at: np.ndarray,
    ) -> np.ndarray:
        """Logs (k, m) of some leaves in some rows, in coded units."""
        if not which.size or not at.size:
            return np.zeros((which.size, at.size))
        leaves = self._leaves
        some = leaves._replace(
            slots=leaves.slots[which], parameters=leaves.parameters[which], log_ratio=leaves.log_ratio[which]
        )
        own = values[at]
        width = None if widths is None else widths[np.ix_(at, leaves.columns)]
        return logs_of_leaves(some, self._compiled, own, events, RowsByGaps.of(own[:, leaves.columns], width))
