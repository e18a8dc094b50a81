"""Random completion of rows: a draw of the chain, an induced tree, then the cells that are not known."""

from typing import Any

import numpy as np

from pymc_spn.leaves.families import CONJUGATES, PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL, GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves, draw_in_event
from pymc_spn.networks.records.draw_blocks import Asked
from pymc_spn.networks.records.multivariate_leaves import draw_with_events
from pymc_spn.networks.records.predictive_kernels import draw_values
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.rounded_cells import RoundedCells


def complete_rows(
    states: RecordedStates,
    values: np.ndarray,
    events: dict[int, Any],
    chosen: np.ndarray,
    rng: np.random.Generator,
    cells: RoundedCells | None = None,
) -> np.ndarray:
    """Completed copies (n, M, D) of rows (M, D), each under its draw of the chain (n, M).

    With ``cells`` of the same rows, what is drawn is given that the exact values lie in them; the rows keep what was
    recorded.
    """
    n, n_rows = chosen.shape
    if chosen.size == 0:
        return np.empty((n, n_rows, values.shape[1]))
    which_row = np.broadcast_to(np.arange(n_rows), chosen.shape).ravel()
    order = np.lexsort((which_row, chosen.ravel()))
    draw, row = chosen.ravel()[order], np.ascontiguousarray(which_row[order])
    out = np.full((order.size, values.shape[1]), np.nan)
    family = np.empty(out.shape, np.int8)
    by_event: dict[int, list[Any]] = {d: [] for d in events}
    part_of_joint = np.full(out.shape, -1)
    lacking = np.isnan(values)
    lacking[:, list(events)] = False
    starts = np.flatnonzero(np.diff(draw, prepend=-1))
    compiled = states.compiled
    for start, stop in zip(starts, [*starts[1:], order.size], strict=True):
        s, part = int(draw[start]), slice(start, stop)
        which, net, circuit = row[part], states.network(s), states.blocks.circuit(s)
        asked = Asked(values[which], events, None if cells is None else cells.of_rows(which))
        leaf = states.blocks.draw_leaves(s, asked, rng)
        is_own = leaf < circuit.slot.size
        slot = circuit.slot[np.where(is_own, leaf, 0)]
        place = np.searchsorted(net.leaves.begin, slot, side="right") - 1
        draw_values(rng, net.palette, net.leaves, place, slot, is_own & lacking[which], out[part])
        part_of_joint[part] = leaf - circuit.slot.size
        family[part] = np.where(is_own, net.palette.family[net.leaves.entry[slot]], GAUSSIAN)
        leaves, k = states.column_leaves(s, net)
        for d in events:
            at = np.where(is_own[:, d], leaf[:, d] - circuit.first_leaf[d], 0)  # those of several are drawn
            by_event[d].append(leaves.leaves(k, d).some(at))
    finished = {}
    for code, conjugate in CONJUGATES.items():
        if conjugate.finish is not None:
            own = (family == code) & ~np.isnan(out)
            finished[code] = own, conjugate.finish(rng, out[own])
    out = out * compiled.scale + compiled.centre
    whole = (family != CATEGORICAL) & ~compiled.is_density & ~np.isin(family, list(finished))
    out = np.where(whole, np.round(out) + 0.0, out)
    out = np.where(whole & compiled.is_count, np.maximum(out, 0.0), out)
    # what rounding takes from a positive value near 0
    positive = np.isin(family, [c for c, p in PREDICTIVES.items() if p.lowest == 0.0 and not p.has_masses])
    out = np.where(positive, np.clip(out, np.finfo(float).tiny, np.finfo(float).max), out)
    for own, drawn in finished.values():
        out[own] = drawn
    for d, parts in by_event.items():
        joined = Leaves(*(np.concatenate([getattr(p, f) for p in parts]) for f in Leaves._fields))
        out[:, d] = draw_in_event(joined, events[d], rng)
    if states.has_joints:
        found = draw_with_events(states.joint_leaves, draw, part_of_joint, row, values, events, rng, cells)
        out = np.where(np.isnan(found), out, found)
    for d, width in states.schema.zero_widths.items():
        out[:, d] = np.where(out[:, d] <= width, 0.0, out[:, d])
    completed = np.empty_like(out)
    completed[order] = np.where(np.isnan(values[row]), out, values[row])
    return completed.reshape(n, n_rows, -1)
