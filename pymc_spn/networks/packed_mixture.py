"""Recorded draws as one circuit for the box search: the mixture of their predictives, weighed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_spn.leaves.families import PREDICTIVES, Categorical
from pymc_spn.leaves.family_codes import CATEGORICAL, CODE
from pymc_spn.leaves.leaf_predictives import by_family, log_event
from pymc_spn.maxima.box_leaves import NOTHING, PackedCircuit
from pymc_spn.maxima.circuit_packer import CircuitPacker, rooted
from pymc_spn.networks.records.column_leaves import as_masses, leaves_at
from pymc_spn.networks.records.draw_laws import shares_of
from pymc_spn.networks.records.joint_events import known_in, nodes_of
from pymc_spn.networks.records.joint_predictives import joint_predictives
from pymc_spn.networks.records.recorded_states import RecordedStates


def packed_from_draws(
    states: RecordedStates, points: Mapping[int, float], unasked: Mapping[int, Any], log_weights: np.ndarray
) -> PackedCircuit:
    """The mixture over draws, packed.

    Parameters
    ----------
    states : RecordedStates
    points : dict of int to float
        Columns at a point: their leaves become constants.
    unasked : dict of int to event or None
        Columns that are summed out, over an event or over everything.
    log_weights : (S,) float64
        Of the draws; those without weight are left out.
    """
    builder = CircuitPacker()
    logs = log_weights - logsumexp(log_weights)
    tops = [_add_draw(builder, states, int(s), points, unasked) for s in np.flatnonzero(logs > -np.inf)]
    return rooted(builder, builder.sum(tops, logs[logs > -np.inf]))


def _add_draw(builder: CircuitPacker, states: RecordedStates, s: int, points: Any, unasked: Any) -> int:
    """Root of one draw's network, all its occupied nodes, and one unoccupied node for each region."""
    net, tree = states.network(s), states.structure
    nothing = np.full(net.palette.source.size, np.nan)
    flags = np.zeros(nothing.size, np.bool_)
    shares = shares_of(net, nothing, flags, np.zeros(1))
    nodes: dict[int, list[int]] = {}  # of each region, by number, the unoccupied one last
    logs: dict[int, np.ndarray] = {}  # their values in place of them, of regions of which no column is asked
    n_columns = len(tree.columns)
    is_asked = np.array([d not in points and d not in unasked for d in range(n_columns)])
    is_free = np.array([d in unasked and unasked[d] is None for d in range(n_columns)])  # exactly one in total
    for r in range(tree.n_regions - 1, -1, -1):
        share = shares[r] if r > 0 else shares[r][:1]
        d = int(net.tree.column[r])
        parts = tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]].tolist()
        split = np.zeros(share.shape[1], np.int64)  # of unoccupied children the first one
        if d < 0 and net.tree.n_splits[r] > 1:
            split[:-1] = net.edges.split[net.edges.begin[r] : net.edges.begin[r] + split.size - 1]
        columns = tree.order[tree.begin[r] : tree.begin[r] + tree.size[r]]
        if not is_asked[columns].any():
            below = np.zeros(split.size)
            if d >= 0:
                known = _known_leaves(states, net, d, points, unasked)
                below[: known.size] = known
            for slot, node in _joint_leaves(builder, states, net, r, points, unasked).items():
                below[slot] = builder.constants[-2 - node]
            for q in parts:
                below += np.where(split == net.tree.split[q], logs[q], 0.0)
            with np.errstate(divide="ignore"):
                summed = np.maximum(logsumexp(below + np.log(share), axis=1), NOTHING)
            logs[r] = np.where(is_free[columns].all(), 0.0, summed)
            nodes[r] = [builder.constant(v) for v in logs[r].tolist()]
            continue
        reached = shares[r].any(axis=0)
        if d >= 0:
            children = _leaves_of_draw(builder, states, net, d, reached)
        else:
            several = _joint_leaves(builder, states, net, r, points, unasked)
            children = []
            for i in range(split.size):
                if i in several:
                    children.append(several[i])
                    continue
                below_it = [nodes[q][i] for q in parts if net.tree.split[q] == split[i]]
                children.append(builder.product(below_it) if reached[i] else -1)
        nodes[r] = []
        for row in share:
            used = np.flatnonzero(row)
            node = builder.sum([children[i] for i in used], np.log(row[used])) if used.size else -1
            nodes[r].append(node)
    return nodes[0][0]


def _joint_leaves(
    builder: CircuitPacker, states: RecordedStates, net: Any, r: int, points: Any, unasked: Any
) -> dict[int, int]:
    """Nodes of the leaves over all columns of a region, by slot, given points; of intervals a sum over their nodes."""
    if net.joints is None or net.joints.split[r] < 0:
        return {}
    found = joint_predictives(net, states.compiled, r)
    columns, family, parameters = found.columns, found.family, found.parameters
    asked = [j for j, c in enumerate(columns.tolist()) if c not in points and c not in unasked]
    row = np.array([points.get(c, np.nan) for c in columns.tolist()])
    rows = np.tile(row, (found.slots.size, 1))
    places = known_in(columns, unasked)
    if not places:
        return dict(
            zip(found.slots.tolist(), builder.leaves_over(family, parameters, columns, rows, asked), strict=True)
        )
    ends = np.array([unasked[int(columns[j])] for j in places])
    law, given = family.columns_of_rows(parameters, rows, places)
    within = law.log_probability_of_boxes(given, *(np.tile(end, (len(rows), 1)) for end in ends.T))
    own, weights = nodes_of(family, parameters, rows, places, ends)
    base = family.log_density_of_rows(parameters, rows) + within
    out = {}
    for slot, one, at, weight, log in zip(found.slots.tolist(), parameters, own, weights, base, strict=True):
        if not asked:
            out[slot] = builder.constant(log)
            continue
        leaves = builder.leaves_given(family, np.tile(one, (len(at), 1)), columns, at, asked)
        with np.errstate(divide="ignore"):
            out[slot] = builder.product([builder.constant(log), builder.sum(leaves, np.log(weight))])
    return out


def _known_leaves(states: RecordedStates, net: Any, d: int, points: Any, unasked: Any) -> np.ndarray:
    """Log values (n,) of the leaves at place d, whose column is at a point or summed out."""
    column = int(net.palette.source[d])
    if column not in points and unasked[column] is None:
        return np.zeros(0)
    leaves = as_masses(leaves_at(net, states.compiled, d), states.compiled, column)
    if column not in points:
        return np.maximum(log_event(leaves, unasked[column]), NOTHING)
    logs = np.zeros(leaves.family.size)
    for code, which, params in by_family(leaves):
        shaped = type(params)(*(np.asarray(v) for v in params))
        logs[which] = PREDICTIVES[code].prior.predictive_log_density(shaped, np.full(which.sum(), points[column]))
    return np.maximum(logs, NOTHING)


def _leaves_of_draw(builder: CircuitPacker, states: RecordedStates, net: Any, d: int, reached: np.ndarray) -> list[int]:
    """A node for each leaf slot at place d that is reached."""
    leaves, d = leaves_at(net, states.compiled, d), int(net.palette.source[d])
    leaves = as_masses(leaves, states.compiled, d)
    out = [-1] * reached.size
    for code, which, params in by_family(leaves):
        at = np.flatnonzero(which)
        if code == CATEGORICAL:
            p = np.log(Categorical.predictive_probabilities(params))
            for i, row in zip(at, p, strict=True):
                out[i] = builder.levels(d, row) if reached[i] else -1
            continue
        rows = PREDICTIVES[code].box_rows(params)
        kind = CODE[PREDICTIVES[code].leaves]
        for i, row in zip(at, rows, strict=True):
            out[i] = builder.add(kind, (), (), d, tuple(row)) if reached[i] else -1
    return out
