"""Marginal and conditioned circuits as circuits of their own, with what is no longer needed left out.

Given an event on each column by itself, a circuit's distribution is again that of a circuit with the same nodes
(Darwiche 2003; Poon and Domingos 2011). Every leaf is its own distribution within its column's event. The weight of an
edge is multiplied by the probability of the event below its child, divided by that below the sum. Columns that are
summed out or at a point leave the circuit; so do edges of weight 0, sums and products with one child, and nodes that
nothing reaches.
"""

from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT, SUM
from pymc_spn.circuits.evaluation.circuit_passes import NOWHERE
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.wide_leaves import family_of_leaf
from pymc_spn.circuits.laws.circuit_events import (
    Box,
    ColumnEvent,
    ColumnEvents,
    boxes_of_leaf,
    contains,
    event_logs,
    log_mass,
    refuse_impossible_evidence,
)
from pymc_spn.circuits.laws.joined_circuits import Part, joined, stacked
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.leaves.leaf_events import log_box, log_interval
from pymc_spn.leaves.scipy_leaves import CONTINUOUS, DISCRETE

NOTHING = np.zeros(0, np.int64)
Own = tuple[str, Any]  # family and parameters of a leaf


class _KeptNode(NamedTuple):
    """A node that stays: its children by their new numbers, or its columns and law."""

    kind: int
    children: np.ndarray = NOTHING
    log_weights: np.ndarray = np.zeros(0)
    columns: tuple[int, ...] = ()
    own: Own = ("", None)


def part_given_one_of(given: Parameterised, events: list[ColumnEvents], kept: list[int], known: Any) -> Part:
    """As `part_of` given that one of several disjoint events holds: the mixture of their parts."""
    if len(events) == 1:
        return part_of(given, events[0], kept, known)
    logs = np.array([log_mass(given, event)[0] for event in events])
    refuse_impossible_evidence(known, np.array([logs.max(initial=-np.inf)]), is_single=True)
    some = np.flatnonzero(logs > -np.inf)
    share = np.exp(logs[some] - np.logaddexp.reduce(logs[some]))
    return mixed_parts([part_of(given, events[k], kept, known) for k in some[share > 0.0]], share[share > 0.0])


def mixed_parts(parts: list[Part], shares: np.ndarray) -> Part:
    """One circuit over the columns of the first part."""
    if len(parts) == 1:
        return parts[0]
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
    found = given.node_logs(*event_logs(given, events, slice(0, 1)))[: circuit.n_nodes]
    logs = np.where(found > NOWHERE, found, -np.inf)
    refuse_impossible_evidence(known, logs[:1], is_single=True)
    logs[np.abs(logs) < 1e-13] = 0.0  # what rounding leaves of weights that add up to 1
    weight = _edge_weights(given, logs)
    place = np.full(circuit.n_nodes, -1)  # of each node among those that stay; -1 for what is summed out
    stay: list[_KeptNode] = []
    for node in range(circuit.n_nodes - 1, -1, -1):
        if logs[node] == -np.inf:
            continue
        if circuit.kind[node] == LEAF:
            d = int(circuit.leaf_column[node])
            if node in circuit.further_columns:
                if set(circuit.columns_of(node)) & set(kept):
                    place[node] = _add_wide_leaf(stay, given, node, events, kept)
            elif d in kept:
                place[node] = _add_leaf(stay, given, node, events.get(d))
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


def _add_leaf(stay: list[_KeptNode], given: Parameterised, node: int, event: ColumnEvent | None) -> int:
    """Number of the leaf given its column's event; of several intervals, of a sum over one leaf for each."""
    circuit = given.circuit
    family, d = circuit.families[circuit.leaf_family[node]], int(circuit.leaf_column[node])
    own = given.parameters[family][circuit.leaf_row[node]]
    logs, laws = _laws_within(family, own, event)
    first = len(stay)
    stay.extend(_KeptNode(LEAF, columns=(d,), own=law) for law in laws)
    return _add(stay, _KeptNode(SUM, np.arange(first, len(stay)), logs))


def _laws_within(family: str, own: np.ndarray, event: ColumnEvent | None) -> tuple[np.ndarray, list[Own]]:
    """Distributions whose mixture a leaf is given an event, and the logs of their weights."""
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


def _add_wide_leaf(
    stay: list[_KeptNode], given: Parameterised, node: int, events: ColumnEvents, kept: list[int]
) -> int:
    """Number of a leaf over several columns given their events: a sum over the parts of these."""
    circuit, (family, own) = given.circuit, family_of_leaf(given, node)
    columns = circuit.columns_of(node)
    places = [j for j, d in enumerate(columns) if d in kept]
    logs, found = [], []
    for log_weight, box in boxes_of_leaf(columns, _by_values(given, node, events), 1):
        log_p = log_weight + float(log_box(family, own, *box)[0])
        if log_p > NOWHERE:
            logs.append(log_p)
            found.append(_add_box(stay, given, node, places, box))
    return _add(stay, _KeptNode(SUM, np.array(found), np.array(logs) - np.logaddexp.reduce(logs)))


def _by_values(given: Parameterised, node: int, events: ColumnEvents) -> ColumnEvents:
    """Events of a leaf's columns in which those of levels, and sets of counts, are values with likelihoods."""
    family, own = family_of_leaf(given, node)
    out = dict(events)
    for j, d in enumerate(given.circuit.columns_of(node)):
        event = events.get(d)
        if event is None or event.intervals is None or event.likelihood is not None or not np.isnan(event.point[0]):
            continue
        law, of_column = family.column_of_rows(own, np.full((1, family.n_columns), np.nan), j)
        values = np.array([low[0] for low, high in event.intervals if low[0] == high[0]])
        if law.probabilities is not None:
            values = np.arange(float(law.probabilities(of_column).shape[1]))
        if law.probabilities is not None or (not law.is_density and values.size == len(event.intervals)):
            values = values[contains(event, values)]
            likelihood = Likelihood(tuple(values.tolist()), (0.0,) * values.size)
            out[d] = ColumnEvent(event.point, None, likelihood)
    return out


def _add_box(stay: list[_KeptNode], given: Parameterised, node: int, places: list[int], box: Box) -> int:
    """Number of a leaf over several columns given points and intervals, over the columns at these places of it.

    A column that is kept and at a point is a leaf of that value beside the others.
    """
    (family, own), columns = family_of_leaf(given, node), given.circuit.columns_of(node)
    points, low, high = (ends[0] for ends in box)
    nodes = []
    for j in places:
        if not np.isnan(points[j]):
            law, of_column = family.column_of_rows(own, np.full((1, family.n_columns), np.nan), j)
            single = ColumnEvent(np.array([np.nan]), [(points[j : j + 1], points[j : j + 1])])
            nodes.append(_KeptNode(LEAF, columns=(columns[j],), own=_laws_within(law.name, of_column[0], single)[1][0]))
    rest = [j for j in places if np.isnan(points[j])]
    asked = np.flatnonzero(np.isnan(points) & ((low > -np.inf) | (high < np.inf))).tolist()
    if len(rest) == 1 and asked == rest:
        j = rest[0]
        law, of_column = family.column_of_rows(own, points[None], j)
        interval = ColumnEvent(np.array([np.nan]), [(low[j : j + 1], high[j : j + 1])])
        nodes.append(_KeptNode(LEAF, columns=(columns[j],), own=_laws_within(law.name, of_column[0], interval)[1][0]))
    elif rest:
        together = sorted({*rest, *asked})
        several, own = family.columns_of_rows(own, points[None], together)
        if asked:
            within = several.within_boxes(own, low[None, together], high[None, together])
            if within is None:
                raise ValueError(
                    f"given: the multivariate leaf {node} ({family.name}) has no closed form within an "
                    f"interval of {given.circuit.names[columns[asked[0]]]!r}; probability and sample take one as given"
                )
            nothing = np.full((1, len(together)), np.nan)
            several, own = several.columns_of_rows(within, nothing, [together.index(j) for j in rest])
        nodes.append(_KeptNode(LEAF, columns=tuple(columns[j] for j in rest), own=(several.name, own[0])))
    first = len(stay)
    stay.extend(nodes)
    return _add(stay, _KeptNode(PRODUCT, np.arange(first, len(stay))))


def _likelihoods(event: ColumnEvent, values: np.ndarray) -> np.ndarray:
    """Of values (n,), up to a factor; 1 where there is no soft evidence."""
    if event.likelihood is None:
        return np.ones(values.size)
    log_weights = np.array(event.likelihood.log_weights)
    known = dict(zip(event.likelihood.values, np.exp(log_weights - log_weights.max()), strict=True))
    return np.array([known.get(float(v), 0.0) for v in values])


def _within(family: str, own: np.ndarray, low: float, high: float) -> Own:
    """A leaf's law within an interval, which is the leaf where the interval holds all of it."""
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
        leaf_column=np.array([kept.index(node.columns[0]) if node.kind == LEAF else -1 for node in nodes]),
        leaf_family=np.array([families.index(node.own[0]) if node.kind == LEAF else -1 for node in nodes]),
        families=families,
        columns=tuple(whole.columns[d] for d in kept),
        further_columns={
            k: [kept.index(d) for d in node.columns[1:]] for k, node in enumerate(nodes) if len(node.columns) > 1
        },
    )
    log_weights = [node.log_weights for node in nodes if node.kind == SUM]
    own = {f: [node.own[1] for node in leaves if node.own[0] == f] for f in families}
    return Part(
        circuit, np.concatenate([*log_weights, np.zeros(0)]), {f: _rows(f, parameters) for f, parameters in own.items()}
    )


def _rows(family: str, parameters: list[Any]) -> np.ndarray:
    if not LEAF_FAMILIES[family].holds_objects:
        return stacked([own[None] for own in parameters])
    out = np.empty((len(parameters), 1), object)
    for row, distribution in enumerate(parameters):
        out[row, 0] = distribution[0] if isinstance(distribution, np.ndarray) else distribution
    return out
