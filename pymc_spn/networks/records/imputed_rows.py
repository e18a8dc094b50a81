"""Random completion of rows: a draw of the chain, an induced tree, then the cells that are not known."""

from typing import Any

import numpy as np

from pymc_spn.leaves.families import CONJUGATES, PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL, GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves, draw_in_event
from pymc_spn.networks.records import predictive_kernels
from pymc_spn.networks.records.joint_events import KnownOfDraws, draw_with_events
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
    coded = states.coded_rows(values)
    known = KnownOfDraws(states, values[0], events) if n_rows == 1 else None  # the same under all draws
    which_row = np.broadcast_to(np.arange(n_rows), chosen.shape).ravel()
    order = np.lexsort((which_row, chosen.ravel()))
    draw, row = chosen.ravel()[order], np.ascontiguousarray(which_row[order])
    out = np.full((order.size, values.shape[1]), np.nan)
    leaves = np.empty(out.shape, np.int32)
    family = np.empty(out.shape, np.int8)
    by_event: dict[int, list[Any]] = {d: [] for d in events}
    of_several: list[np.ndarray] = []  # in leaves over several columns together with events or cells
    starts = np.flatnonzero(np.diff(draw, prepend=-1))
    compiled = states.compiled
    for start, stop in zip(starts, [*starts[1:], order.size], strict=True):
        s = int(draw[start])
        net = states.network(s)
        part = slice(start, stop)
        given = states.event_logs(s, net, events)
        if cells is None:
            own = coded
            if known is not None:
                own = known.coded(s, net)
            elif events and states.has_joints:
                own = states.rows_with_events(net, values, events, s)
            predictive_kernels.draw_rows(rng, *net, own, row[part], *given, out[part], leaves[part])
        else:
            cells.draw(rng, net, row[part], states.known_of_cells(net, cells, given, events), out[part], leaves[part])
        if (events or cells is not None) and states.has_joints:
            recorded, ends = (values, None) if cells is None else (cells.middles, cells.ends_of_columns[:, row[part]])
            draw_with_events(net, compiled, recorded[row[part]], leaves[part], events, rng, of_several, ends)
        of_slots = net.palette.family[net.leaves.entry[np.maximum(leaves[part], 0)]]
        family[part] = np.where(leaves[part] >= 0, of_slots, GAUSSIAN)
        for d in events:
            columns, k = states.column_leaves(s, net)
            local = columns.leaves(k, d)
            at = np.searchsorted(columns.slots(k, d), np.maximum(leaves[part, d], 0))  # those of several are drawn
            by_event[d].append(Leaves(local.family[at], local.parameters[at]))
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
    if of_several:
        found = np.concatenate(of_several)
        out = np.where(np.isnan(found), out, found)
    for d, width in states.schema.zero_widths.items():
        out[:, d] = np.where(out[:, d] <= width, 0.0, out[:, d])
    completed = np.empty_like(out)
    completed[order] = np.where(np.isnan(values[row]), out, values[row])
    return completed.reshape(n, n_rows, -1)
