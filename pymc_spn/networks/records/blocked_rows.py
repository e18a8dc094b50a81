"""Rows and events as kernels over blocks read them: which columns go by value, which by tables of their values."""

from typing import Any

import numpy as np

from pymc_spn.gibbs.network import LOGS, VECTOR
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.kernel_forms import LOGARITHM, NOT_NEGATIVE
from pymc_spn.networks.records.block_children import ABSENT, BY_TABLE, BY_VALUE
from pymc_spn.networks.records.block_kernels import BlockRows
from pymc_spn.networks.records.leaf_tables import INTERVALS, POINTS
from pymc_spn.networks.records.packed_draws import PackedDraws
from pymc_spn.networks.records.predictive_kernels import ROUNDING
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.numerics.lanes import LANES


def blocked_rows(
    pack: PackedDraws, coded: np.ndarray, events: dict[int, Any], cells: RoundedCells | None, part: slice
) -> tuple[BlockRows, np.ndarray]:
    """Rows for the kernels, without what differs from draw to draw, and which of them (M,) the kernels cannot take.

    Those have a value that an exponential or a log-normal leaf excludes.

    Parameters
    ----------
    pack : PackedDraws
        Of any draws.
    coded : (M, D) float64
        In the sampler's units, NaN where there is no point.
    events : dict of int to event
        They count where there is no point.
    cells : RoundedCells, optional
        Of the same rows.
    part : slice
        The rows that are asked for.
    """
    coded = coded[part]
    n_rows, n_columns = coded.shape
    padded = -(-n_rows // LANES) * LANES
    mode, kind = np.full(n_columns, ABSENT), np.full(n_columns, POINTS)
    y, log_x = np.zeros((n_columns, padded)), np.zeros((n_columns, padded))
    code, has_gaps = np.zeros((n_columns, padded), np.int32), np.zeros(n_columns, np.bool_)
    low: list[np.ndarray] = [np.zeros(0)] * n_columns
    high = list(low)
    outside = np.zeros(n_rows, np.bool_)
    for c in range(n_columns):
        d = pack.palette.place_ptr[c]
        x, cell = coded[:, c], None
        if cells is not None and c in cells.columns:
            k = int(np.flatnonzero(cells.columns == c)[0])
            x, cell = cells.low[part, k], cells.high[part, k]
        known = ~np.isnan(x)
        if not known.any() and c not in events:
            continue
        by_value = cell is None and pack.palette.column_kind[d] in (VECTOR, LOGS) and known.any()
        if by_value:
            mode[c] = BY_VALUE
            excluded = _excluded(pack, d, x)
            outside |= excluded
            at = np.where(known & ~excluded, x, np.nanmax(x))
            y[c, :n_rows], y[c, n_rows:] = at, at[-1]
            if pack.palette.column_kind[d] == LOGS:
                log_x[c] = np.log(np.maximum(y[c] + pack.palette.offset[d], np.finfo(np.float64).tiny))
            code[c, :n_rows] = np.where(known, 0, -2 if c in events else -1)
            has_gaps[c] = not known.all()
            continue
        mode[c] = BY_TABLE
        pairs = x if cell is None else x + 1j * np.where(known, cell, 0.0)
        found, number = np.unique(pairs[known], return_inverse=True)
        low[c], high[c], kind[c] = (
            found.real,
            found.imag if cell is not None else found.real,
            POINTS if cell is None else INTERVALS,
        )
        code[c, :n_rows][known] = number
        code[c, :n_rows][~known] = found.size if c in events else found.size + 1
        code[c, n_rows:] = found.size + 1
    value_ptr = np.concatenate([[0], np.cumsum([v.size for v in low])]).astype(np.int64)
    no_event = np.zeros(n_columns + 1, np.int64)
    rows = BlockRows(
        mode,
        y,
        log_x,
        code,
        has_gaps,
        kind,
        value_ptr,
        np.concatenate(low),
        np.concatenate(high),
        no_event,
        np.zeros(0),
        np.zeros((0, padded)),
        np.zeros((0, padded)),
        np.zeros(0, np.int64),
    )
    return rows, outside


def _excluded(pack: PackedDraws, d: int, y: np.ndarray) -> np.ndarray:
    """Whether values (M,) of a place are such that a leaf has no density there; see `predictive_kernels.is_outside`."""
    x = y + pack.palette.offset[d]
    family = pack.palette.family[pack.palette.entry_ptr[d] : pack.palette.entry_ptr[d + 1]]
    if np.isin(family, families_with(LOGARITHM)).any():
        return x <= 0.0
    return (x < -ROUNDING * (1.0 + abs(pack.palette.offset[d]))) & np.isin(family, families_with(NOT_NEGATIVE)).any()
