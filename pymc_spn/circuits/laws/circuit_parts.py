"""Marginal and conditioned circuits as circuits of their own, with what is no longer needed left out.

Given an event that asks of each column by itself, a circuit's law is again that of a circuit with the same nodes
(Darwiche 2003; Poon and Domingos 2011): every leaf is its own law within its column's event, and the weight of an edge
is multiplied by the probability of the event below its child over that below the sum. Columns that are summed out or at
a point leave the circuit; so do edges of weight 0, sums and products with one child, and nodes that nothing reaches.
"""

from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.node_values import NOWHERE
from pymc_spn.circuits.evaluation.tape import LEAF, PRODUCT, SUM
from pymc_spn.circuits.laws.circuit_events import (
    ColumnEvent,
    ColumnEvents,
    contains,
    intersect,
    is_empty,
    log_mass,
    node_logs,
    refuse_impossible_evidence,
)
from pymc_spn.circuits.laws.joined_circuits import Part, joined
from pymc_spn.events.disjoint_events import each_without_those_before
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.scipy_leaves import CONTINUOUS, DISCRETE

NOTHING = np.zeros(0, np.int64)
Own = tuple[str, Any]  # family and parameters of a leaf


class _KeptNode(NamedTuple):
    """A node that stays: its children by their new numbers, or its column, law and declared support."""

    kind: int
    children: np.ndarray = NOTHING
    log_weights: np.ndarray = np.zeros(0)
    column: int = -1
    own: Own = ("", None)
    support: Any = None


def part_given_one_of(given: Parameterised, events: list[ColumnEvents], kept: list[int], known: Any) -> Part:
    """As `part_of` given that one of several events holds, of which no two do at once: the mixture of their parts."""
    if len(events) == 1:
        return part_of(given, events[0], kept, known)
    logs = np.array([log_mass(given, event)[0] for event in events])
    refuse_impossible_evidence(known, np.array([logs.max(initial=-np.inf)]), is_single=True)
    some = np.flatnonzero(logs > -np.inf)
    share = np.exp(logs[some] - np.logaddexp.reduce(logs[some]))
    return mixed_parts([part_of(given, events[k], kept, known) for k in some[share > 0.0]], share[share > 0.0])[0]


def mixed_parts(parts: list[Part], shares: np.ndarray) -> tuple[Part, np.ndarray]:
    """One circuit over the columns of the first part, and the nodes that were the roots of the parts."""
    if len(parts) == 1:
        return parts[0], np.zeros(1, np.int64)
    return joined(SUM, parts, parts[0].circuit.columns, np.log(shares))


def part_of(given: Parameterised, events: ColumnEvents, kept: list[int], known: Any = None) -> Part:
    """The law of some columns given an event.

    Parameters
    ----------
    given : Parameterised
    events : dict of int to ColumnEvent
        Of one row. No column of ``kept`` is at a point.
    kept : list of int
        Columns of the answer, ascending; the others are summed out.
    known : optional
        What the user gave, for messages.

    Raises
    ------
    ValueError
        If the event has density zero.
    """
    circuit = given.circuit
    found, is_asked = node_logs(given, events, slice(0, 1))
    logs = np.zeros(circuit.n_nodes)
    logs[is_asked] = np.where(found[is_asked, 0] > NOWHERE, found[is_asked, 0], -np.inf)
    refuse_impossible_evidence(known, logs[:1], is_single=True)
    logs[np.abs(logs) < 1e-13] = 0.0  # what rounding leaves of weights that add up to 1
    leaf_of = {int(node): k for k, node in enumerate(circuit.leaves)}
    weight = _edge_weights(given, logs)
    place = np.full(circuit.n_nodes, -1)  # of each node among those that stay; -1 for what is summed out
    stay: list[_KeptNode] = []
    for node in range(circuit.n_nodes - 1, -1, -1):
        if logs[node] == -np.inf:
            continue
        if circuit.kind[node] == LEAF:
            d = int(circuit.leaf_column[node])
            if d in kept:
                place[node] = _add_leaf(stay, given, node, leaf_of[node], events.get(d))
            continue
        edges = slice(circuit.child_ptr[node], circuit.child_ptr[node + 1])
        children, log_weights = place[circuit.children[edges]], weight[edges]
        some = (children >= 0) & (log_weights > -np.inf)
        if not np.any(some):
            continue
        children, log_weights = children[some], log_weights[some]
        if circuit.kind[node] == PRODUCT:
            place[node] = _add(stay, _KeptNode(PRODUCT, children))
            continue
        distinct, which = np.unique(children, return_inverse=True)  # what has become the same node counts together
        mass = np.full(distinct.size, -np.inf)
        np.logaddexp.at(mass, which, log_weights)
        place[node] = _add(stay, _KeptNode(SUM, distinct[::-1], mass[::-1] - np.logaddexp.reduce(mass)))
    return _assembled(circuit, stay, int(place[0]), kept)


def exclusive_events(argument: str, events: list[ColumnEvents]) -> list[ColumnEvents]:
    """Events of one row, of which no two hold at once, that together say what these say: each without those before it.

    Raises
    ------
    ValueError
        If they are more than `MOST_PARTS`.
    """
    if len(events) == 1:
        return events
    as_intervals = [{d: _as_intervals(event) for d, event in one.items()} for one in events]
    return each_without_those_before(argument, as_intervals, _without)


def _as_intervals(event: ColumnEvent) -> ColumnEvent:
    return event if np.isnan(event.point[0]) else ColumnEvent(np.array([np.nan]), [(event.point, event.point)])


def _without(event: ColumnEvents, other: ColumnEvents) -> list[ColumnEvents]:
    """Disjoint parts of an event in which another does not hold: one column after the other is outside of it."""
    parts, rest = [], event
    for d, what in other.items():
        assert what.intervals is not None  # a union has no likelihoods
        ends: np.ndarray = np.sort(np.array(what.intervals)[..., 0], axis=0)
        low = np.concatenate([[-np.inf], np.nextafter(ends[:, 1], np.inf)])
        high = np.concatenate([np.nextafter(ends[:, 0], -np.inf), [np.inf]])
        gaps = [(a[None], b[None]) for a, b in zip(low, high, strict=True) if a <= b and a < np.inf and b > -np.inf]
        if gaps:
            parts.append(intersect(rest, {d: ColumnEvent(np.array([np.nan]), gaps)}))
        rest = intersect(rest, {d: what})
    return [part for part in parts if not any(is_empty(e) for e in part.values())]


def _edge_weights(given: Parameterised, logs: np.ndarray) -> np.ndarray:
    """Log weights of all edges given the event, 0 below products; -inf where the event excludes the child."""
    circuit = given.circuit
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
    out = np.zeros(circuit.n_edges)
    is_sum = circuit.kind[owner] == SUM
    out[is_sum] = given.log_weights
    possible = np.isfinite(logs[circuit.children]) & np.isfinite(logs[owner])
    with np.errstate(invalid="ignore"):
        out = np.where(is_sum & possible, out + logs[circuit.children] - logs[owner], out)
    return np.where(possible, out, -np.inf)


def _add(stay: list[_KeptNode], node: _KeptNode) -> int:
    """Number of a new node, or of its only child."""
    if node.children.size == 1:
        return int(node.children[0])
    stay.append(node)
    return len(stay) - 1


def _add_leaf(stay: list[_KeptNode], given: Parameterised, node: int, k: int, event: ColumnEvent | None) -> int:
    """Number of the leaf given its column's event; of several intervals, of a sum over one leaf for each."""
    circuit = given.circuit
    family, d = circuit.families[circuit.leaf_family[node]], int(circuit.leaf_column[node])
    own = given.parameters[family][given.layout.leaf_row[k]]
    support = None if circuit.leaf_support is None else circuit.leaf_support[k]
    logs, laws = _laws_within(family, own, event)
    first = len(stay)
    stay.extend(_KeptNode(LEAF, column=d, own=law, support=support) for law in laws)
    return _add(stay, _KeptNode(SUM, np.arange(first, len(stay)), logs))


def _laws_within(family: str, own: np.ndarray, event: ColumnEvent | None) -> tuple[np.ndarray, list[Own]]:
    """Laws of which a leaf is a mixture given an event, and the logs of their weights."""
    if event is None or (event.intervals is None and event.likelihood is None):
        return np.zeros(1), [(family, own)]
    probabilities = EXPLICIT[family].probabilities
    if probabilities is not None:
        p = probabilities(own)
        levels = np.arange(float(p.size))
        p = np.where(contains(event, levels), p, 0.0) * _likelihoods(event, levels)
        p = p / p.sum()
        return np.zeros(1), [(family, p[p.size - own.size :])]
    if event.likelihood is not None:
        values = np.array(event.likelihood.values)
        values = values[contains(event, values)]
        with np.errstate(divide="ignore"):
            logs = EXPLICIT[family].log_density(own, values) + np.log(_likelihoods(event, values))
        return np.zeros(1), [(DISCRETE, _on(values, logs))]
    assert event.intervals is not None
    ends = np.array([[low[0], high[0]] for low, high in event.intervals])
    logs = log_interval(family, own, ends[:, 0], ends[:, 1])
    if not EXPLICIT[family].is_density and np.all(ends[:, 0] == ends[:, 1]):  # a set of counts
        return np.zeros(1), [(DISCRETE, _on(ends[:, 0], logs))]
    some = logs > NOWHERE
    laws = [_within(family, own, low, high) for low, high in ends[some]]
    return logs[some] - np.logaddexp.reduce(logs[some]), laws


def _likelihoods(event: ColumnEvent, values: np.ndarray) -> np.ndarray:
    """Of values (n,), up to a factor; 1 where there is no soft evidence."""
    if event.likelihood is None:
        return np.ones(values.size)
    log_weights = np.array(event.likelihood.log_weights)
    known = dict(zip(event.likelihood.values, np.exp(log_weights - log_weights.max()), strict=True))
    return np.array([known.get(float(v), 0.0) for v in values])


def _within(family: str, own: np.ndarray, low: float, high: float) -> Own:
    """A leaf's law within an interval, which is the leaf where the interval holds all of it."""
    closed = EXPLICIT[family].within
    if closed is not None:
        return family, closed(own, low, high)
    outside = (-np.inf, np.nextafter(low, -np.inf)), (np.nextafter(high, np.inf), np.inf)
    is_bounded = low > -np.inf, high < np.inf
    if not any(log_interval(family, own, *ends) > -np.inf for ends in compress(outside, is_bounded)):
        return family, own
    from pymc_spn.laws.truncated_leaves import leaf_within  # imports SciPy's distributions

    return CONTINUOUS if EXPLICIT[family].is_density else DISCRETE, leaf_within(family, own, low, high)


def _on(values: np.ndarray, log_masses: np.ndarray) -> Any:
    from pymc_spn.laws.truncated_leaves import leaf_on

    return leaf_on(values, log_masses)


def _assembled(whole: Any, stay: list[_KeptNode], root: int, kept: list[int]) -> Part:
    """The nodes that the root reaches, from it downwards, over columns that are kept of the whole circuit."""
    reached = np.zeros(len(stay), np.bool_)
    reached[root] = True
    for node in range(root, -1, -1):  # children stand before their parents
        if reached[node]:
            reached[stay[node].children] = True
    order = np.flatnonzero(reached)[::-1]
    new = {int(old): k for k, old in enumerate(order)}
    nodes = [stay[old] for old in order]
    leaves = [node for node in nodes if node.kind == LEAF]
    families = tuple(dict.fromkeys(node.own[0] for node in leaves))
    circuit = replace(
        whole,
        kind=np.array([node.kind for node in nodes], np.int8),
        child_ptr=np.cumsum([0, *(node.children.size for node in nodes)]),
        children=np.array([new[c] for node in nodes for c in node.children], np.int64),
        leaf_column=np.array([kept.index(node.column) if node.kind == LEAF else -1 for node in nodes]),
        leaf_family=np.array([families.index(node.own[0]) if node.kind == LEAF else -1 for node in nodes]),
        families=families,
        columns=tuple(whole.columns[d] for d in kept),
        leaf_support=None if all(node.support is None for node in leaves) else tuple(node.support for node in leaves),
    )
    log_weights = [node.log_weights for node in nodes if node.kind == SUM]
    own = {f: [node.own[1] for node in leaves if node.own[0] == f] for f in families}
    return Part(
        circuit, np.concatenate([*log_weights, np.zeros(0)]), {f: _rows(f, parameters) for f, parameters in own.items()}
    )


def _rows(family: str, parameters: list[Any]) -> np.ndarray:
    if not EXPLICIT[family].holds_objects:
        return np.array(parameters)
    out = np.empty((len(parameters), 1), object)
    for row, distribution in enumerate(parameters):
        out[row, 0] = distribution[0] if isinstance(distribution, np.ndarray) else distribution
    return out
