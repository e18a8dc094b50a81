"""The posterior predictive as one explicit circuit: a sum over draws, each with its collapsed predictive below it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_spn.answers.answers import Answers
from pymc_spn.circuits.laws.circuit_events import ColumnEvent, as_column_event
from pymc_spn.circuits.laws.circuit_parts import part_given_one_of
from pymc_spn.circuits.laws.joined_circuits import Part
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.events.events import Event
from pymc_spn.gibbs.palette import is_rounded
from pymc_spn.laws.law import Marks
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.intervals import Interval, Likelihood
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.leaves.rounded_gaussian import cells_within, count_cells_within
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.column_leaves import leaves_at
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.draw_averages import fewer_draws
from pymc_spn.numerics.marks import scope_of


@dataclass(frozen=True, eq=False, repr=False)
class LabelledCircuit(ParameterisedCircuit):
    """A condition or marginal of a circuit of a posterior, whose answers say where it comes from.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    attrs : dict
        Marks of its answers, ``exactness`` and ``learner``.
    grid : dict
        Width and a point of the grid on which the training table records a column, by its name.

    Examples
    --------
    >>> known = post.as_circuit(max_draws=2).condition({"age": 60.0})
    >>> type(known).__name__
    'LabelledCircuit'
    """

    attrs: dict[str, Any] = field(default_factory=dict, kw_only=True)
    grid: dict[str, tuple[float, float]] = field(default_factory=dict, kw_only=True)

    @property
    def _grid(self) -> dict[str, tuple[float, float]]:
        return self.grid

    @property
    def _marks(self) -> Marks:
        return Marks(scope_of(self.attrs.get("exactness", "")), self.attrs.get("learner"))

    def _made(self, part: Part) -> "LabelledCircuit":
        return LabelledCircuit(*part, attrs=self.attrs, grid=self.grid)


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorCircuit(LabelledCircuit):
    """Learned density in the form that `CircuitDensity` takes.

    Weights and leaf parameters of the network are integrated out within each draw. So the leaves are their predictives
    (Student t, Lomax, negative binomial, beta-binomial, levels). The density is that of `SPNPosterior.log_density` over
    the draws that are in it. For columns in cells it is the density of exact values, ``log_density(df, cells=False)``:
    a circuit has leaves at points and none over cells. Therefore Gaussian leaves next to leaves with masses are
    densities here. The posterior rounds such leaves in questions about sets and intervals.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    draws : (S,) int64
        Which draws of the chains, counted chain by chain; 0 for the one state of a variational fit.
    attrs : dict
        Marks of the answer, ``exactness`` and ``learner``.

    Examples
    --------
    >>> predictive = post.as_circuit(max_draws=2)
    >>> predictive.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']
    """

    draws: np.ndarray


def posterior_circuit(
    states: RecordedStates, kept: Sequence[int], log_weights: np.ndarray, max_draws: int | None
) -> PosteriorCircuit:
    """Circuit of the predictive over the kept columns, of some draws where there are too many."""
    if max_draws is not None:
        log_weights = fewer_draws(log_weights, max_draws)
    draws = np.flatnonzero(log_weights > -np.inf)
    building = _Building(states, kept)
    tops = [building.add_draw(int(s)) for s in draws]
    mass = np.exp(log_weights[draws] - log_weights[draws].max())
    root = tops[0] if len(tops) == 1 else building.add(SUM, tops, mass)
    return building.finish(root, draws)


def predictive_circuit(posterior: Answers, max_draws: int | None) -> PosteriorCircuit:
    """See `NetworkPosterior.as_circuit`; given a union, of one of several events that exclude each other."""
    if max_draws is not None:
        checked_count("max_draws", max_draws, least=1)
    parts = [part for part in posterior._law.parts if isinstance(part, RecordedLaw)]
    first, events = parts[0], [part.told for part in parts]
    is_given = any(events)
    columns = list(range(len(first.schema.columns))) if is_given else first.kept
    found = posterior_circuit(first.states, columns, first.chosen, max_draws)
    if is_given:
        read = [{d: _before_rounding(first, d, event) for d, event in one.items()} for one in events]
        circuit, log_weights, leaf_parameters = part_given_one_of(found._given, read, list(first.kept), list(events))
        found = replace(found, circuit=circuit, log_weights=log_weights, leaf_parameters=leaf_parameters)
    rounded = is_rounded(first.states.compiled)
    names = [first.schema.columns[d].name for d in first.kept if rounded[d]]
    densities = {"whole_numbers": names} if names else {}
    return replace(found, attrs=posterior._attrs(n_draws=len(found.draws), **densities))


def _before_rounding(law: RecordedLaw, d: int, event: Event) -> ColumnEvent:
    """An event of a column as one of what its leaves in the circuit are densities of, numbers before rounding."""
    compiled = law.states.compiled
    if not is_rounded(compiled)[d]:
        return as_column_event(event)
    if isinstance(event, Likelihood):
        name = law.schema.columns[d].name
        raise ValueError(f"as_circuit: column {name!r} has whole numbers, of which it takes no soft evidence")
    within = count_cells_within if compiled.is_count[d] else cells_within
    parts = (
        [event]
        if isinstance(event, Interval)
        else [(x, x) for x in sorted({event} if isinstance(event, float) else event)]
    )
    return ColumnEvent(np.array([np.nan]), [tuple(np.atleast_1d(end) for end in within(*part)) for part in parts])


class _Building:
    """Nodes in the order in which they are found, children first; numbered from the root down at the end."""

    def __init__(self, states: RecordedStates, kept: Sequence[int]) -> None:
        self.states = states
        self.position = {d: i for i, d in enumerate(kept)}
        self.kind: list[int] = []
        self.below: list[list[int]] = []
        self.mass: list[Any] = []
        self.leaf: list[Any] = []  # (columns, family, parameters)

    def add(self, kind: int, below: Sequence[int] = (), mass: Any = None, leaf: Any = None) -> int:
        self.kind.append(kind)
        self.below.append(list(below))
        self.mass.append(mass)
        self.leaf.append(leaf)
        return len(self.kind) - 1

    def add_draw(self, s: int) -> int:
        """Top node of one draw; nodes with no column to keep are 1 and are left out."""
        states = self.states
        net, circuit = states.network(s), states.blocks.circuit(s)
        layout, node = circuit.layout, np.full(circuit.layout.kind.size, -1)
        places = [leaves_at(net, states.compiled, d) for d in range(net.palette.source.size)]
        for d, leaf in enumerate(np.split(layout.node_of_leaf[: circuit.slot.size], self.ends_of_places(net))):
            column = int(net.palette.source[d])
            if column in self.position:
                node[leaf] = [self.leaf_node(column, places[d], i) for i in range(leaf.size)]
        for r in states.joint_leaves.regions:
            found = states.joint_leaves.of(r).of_networks(s, s + 1)
            node[circuit.children[r][found.slots]] = self.joint_nodes(found)
        is_part = np.isin(np.arange(node.size), circuit.part_node)
        for v in np.flatnonzero((layout.kind != LEAF) & ~is_part)[::-1].tolist():
            edges = slice(layout.child_ptr[v], layout.child_ptr[v + 1])
            below = node[layout.children[edges]].tolist()
            if layout.kind[v] == SUM:
                node[v] = self.sum_node(below, circuit.weight[layout.edge_weight[edges]])
            else:
                node[v] = self.product_node([i for i in below if i >= 0])
        return int(node[0])

    @staticmethod
    def ends_of_places(net: Any) -> np.ndarray:
        """Where the leaves of each place but the last one end."""
        return np.cumsum(net.edges.top[net.tree.leaf_region])[:-1]

    def sum_node(self, below: list[int], share: np.ndarray) -> int:
        """Node over the children; -1 where there are none. Children that are one node add their shares."""
        together: dict[int, float] = {}
        for i, own in zip(below, share.tolist(), strict=True):
            together[i] = together.get(i, 0.0) + own
        if len(together) < 2:
            return next(iter(together), -1)
        return self.add(SUM, list(together), list(together.values()))

    def product_node(self, below: list[int]) -> int:
        """Product of nodes."""
        return self.add(PRODUCT, below) if len(below) > 1 else next(iter(below), -1)

    def joint_nodes(self, found: Any) -> list[int]:
        """Predictives of leaves over several columns."""
        own = [j for j, d in enumerate(found.columns.tolist()) if d in self.position]
        if not own:
            return [-1] * found.slots.size
        columns = [self.position[d] for d in found.columns[own].tolist()]
        of = found.family
        freedom, (location, scale) = of.dof_of(found.parameters), of.location_and_scale(found.parameters)
        location, scale = location[:, own], scale[:, own][:, :, own]
        if len(own) == 1:
            name, rows = of.univariate.name, of.column_leaves(freedom, location[:, 0], np.sqrt(scale[:, 0, 0]))
        else:
            part = of.over(len(own))
            name, rows = part.name, part.leaves_of(freedom, location, scale)
        return [self.add(LEAF, leaf=(columns, name, row)) for row in rows]

    def leaf_node(self, column: int, leaves: Leaves, i: int) -> int:
        """Predictive of the leaf in slot i of a place."""
        predictive = PREDICTIVES[int(leaves.family[i])]
        row = predictive.leaf_rows(leaves.parameters[i : i + 1])[0]
        return self.add(LEAF, leaf=([self.position[column]], predictive.leaves.name, row))

    def finish(self, root: int, draws: np.ndarray) -> PosteriorCircuit:
        """Number the nodes so that children come after all their parents."""
        order = self.from_the_root(root)
        number = np.empty(len(self.kind), np.int64)
        number[order] = np.arange(len(order))
        leaves = [self.leaf[v] for v in order if self.kind[v] == LEAF]
        families = tuple(dict.fromkeys(f for _, f, _ in leaves))
        is_leaf = np.array([self.kind[v] == LEAF for v in order])
        column, family = np.full(len(order), -1), np.full(len(order), -1)
        column[is_leaf] = [own[0] for own, _, _ in leaves]
        further = {
            i: tuple(own[1:])
            for i, (own, _, _) in zip(np.flatnonzero(is_leaf).tolist(), leaves, strict=True)
            if len(own) > 1
        }
        family[is_leaf] = [families.index(f) for _, f, _ in leaves]
        circuit = Circuit(
            kind=np.array([self.kind[v] for v in order], np.int8),
            child_ptr=np.concatenate([[0], np.cumsum([len(self.below[v]) for v in order])]),
            children=number[[c for v in order for c in self.below[v]]] if len(order) > 1 else np.empty(0, np.int64),
            leaf_column=column,
            leaf_family=family,
            families=families,
            columns=tuple(self.states.schema.columns[d] for d in self.position),
            further_columns=further,
        )
        weights = [np.asarray(self.mass[v]) / np.sum(self.mass[v]) for v in order if self.kind[v] == SUM]
        parameters = {}
        for name in families:
            rows = [row for _, f, row in leaves if f == name]
            parameters[name] = np.zeros((len(rows), max(map(len, rows))))
            for i, row in enumerate(rows):
                parameters[name][i, : len(row)] = row
        return PosteriorCircuit(circuit, np.log(np.concatenate([*weights, np.zeros(0)])), parameters, draws)

    def from_the_root(self, root: int) -> list[int]:
        """Nodes in topological order: a depth-first walk's finishing order, reversed."""
        finished: list[int] = []
        state = np.zeros(len(self.kind), np.int8)
        stack = [root]
        while stack:
            v = stack[-1]
            if state[v] == 0:
                state[v] = 1
                stack += [c for c in self.below[v] if state[c] == 0]
                continue
            stack.pop()
            if state[v] == 1:
                state[v] = 2
                finished.append(v)
        return finished[::-1]
