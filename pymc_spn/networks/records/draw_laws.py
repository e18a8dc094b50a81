"""Draws given what is known of a row: how one spreads over regions, and the law of a column under all of them."""

from typing import Any

import numpy as np

from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.networks.records import share_kernels
from pymc_spn.networks.records.joint_events import KnownOfDraws, column_given
from pymc_spn.networks.records.recorded_states import RecordedStates


def shares_of(net: Any, y: np.ndarray, event: np.ndarray, event_log: np.ndarray) -> list[np.ndarray]:
    """The arrays of `all_shares`, one for each region."""
    flat = share_kernels.all_shares(*net, y, event, event_log)
    above = np.where(net.tree.parent >= 0, net.edges.top[net.tree.parent], 1)
    shapes = [(int(n) + 1, int(m) + 1) for n, m in zip(above, net.edges.top, strict=True)]
    ends = np.cumsum([n * m for n, m in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def law_of_column(states: RecordedStates, d: int, known: KnownOfDraws) -> ColumnLaw:
    """Law of a column given a row and events; an event of the column itself stays in the law."""
    row, events = known.row, known.events
    path, several = share_kernels.regions_of(states.structure, d), states.joint_leaves.column(d)
    families, parameters, shares, draws = [], [], [], []
    of_several = np.zeros(several.circuit.size)
    for s in range(states.n_draws):
        net = states.network(s)
        columns, k = states.column_leaves(s, net)
        leaves = columns.leaves(k, d)
        share, log = np.zeros((1, leaves.family.size)), np.empty(1)
        slots = np.zeros((1, int(several.n_slots[s])))
        given = states.event_logs(s, net, events)
        share_kernels.column_shares(*net, known.coded(s, net), *given, path, log, share, slots)
        used, own = share[0] > 0.0, slice(several.begin[s], several.begin[s + 1])
        of_several[own] = slots[0, several.slots[own]]
        families.append(leaves.family[used])
        parameters.append(leaves.parameters[used])
        shares.append(share[0, used])
        draws.append(np.full(shares[-1].size, s))
    used = np.flatnonzero(of_several > 0.0)
    if used.size:
        leaves, weights = column_given(several, d, used, 0 * used, row[None], events)
        families.append(leaves.family)
        parameters.append(leaves.parameters)
        shares.append((of_several[used, None] * weights).ravel())
        draws.append(np.repeat(several.circuit[used], weights.shape[1]))
    draw = np.concatenate(draws)
    order = np.argsort(draw, kind="stable")
    return ColumnLaw(
        Leaves(np.concatenate(families)[order], np.concatenate(parameters)[order]),
        np.concatenate(shares)[order],
        np.searchsorted(draw[order], np.arange(states.n_draws)),
        events.get(d),
    )
