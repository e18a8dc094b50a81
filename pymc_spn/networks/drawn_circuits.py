"""Circuits with explicit weights and leaf parameters, drawn given a state: Algorithm 2 of the paper."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.family_codes import CODE
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.levels import draw_second_levels
from pymc_spn.leaves.multivariate_gaussian import draw_leaves
from pymc_spn.networks.posterior_circuit import LabelledCircuit
from pymc_spn.networks.records.column_leaves import leaves_at
from pymc_spn.networks.records.multivariate_leaves import joint_predictives
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.numerics.gamma_draws import log_dirichlet
from pymc_spn.tables.column import WHOLE_KINDS

MAX_NODES = 20_000  # explicit trees up to this size are drawn with every copy of every node


@dataclass(frozen=True, eq=False, repr=False)
class DrawnCircuit(LabelledCircuit):
    """Circuit with weights and leaf parameters drawn from one draw of the chain.

    Weights W and leaf parameters Theta are drawn given the assignments of that draw. Cells that the circuit fills in,
    and rows that it draws for p-values, are on the grid of the training table; see `impute`. Averaged over many draws,
    `log_density` is the collapsed predictive; for columns in cells it is that of exact values (``cells=False``).
    Occupied nodes have their exact conditional distribution. So do all other nodes in a small finite network. In an
    infinite network, and in a large finite one, the unoccupied children of a sum node become one new child, drawn from
    the prior below it. Its weight has the exact distribution and its density the exact expectation. But it varies more
    than the many children that it replaces. ``unoccupied_mass`` is the probability of such children.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    unoccupied_mass : float
        Probability of the induced trees that pass through a fresh child.
    chain, draw
        Labels of the draw of the chain.
    attrs : dict
        Marks of the answer, ``exactness`` and ``learner``.

    Examples
    --------
    >>> drawn = post.draw_circuits(1, random_seed=1)[0]
    >>> drawn.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']
    """

    unoccupied_mass: float
    chain: Any
    draw: Any


def draw_circuits(states: RecordedStates, chosen: np.ndarray, rng: np.random.Generator) -> list[DrawnCircuit]:
    """Draw W and Theta given each of some draws (n,) of the chain; where one comes again its circuit is the same."""
    found: dict[int, _Drawing] = {}
    drawn = []
    for s in chosen.tolist():
        if s not in found:
            found[s] = _Drawing(states, s)
        drawn.append(found[s].finish(rng))
    return drawn


class _Drawing:
    """The circuit of one draw, its nodes as they are found from the root down."""

    def __init__(self, states: RecordedStates, s: int) -> None:
        self.states, self.s = states, s
        columns, widths = states.schema.columns, states.schema.resolution
        points = states.schema.grid_points or (0.0,) * len(columns)
        own = [(1.0, 0.0) if c.kind in WHOLE_KINDS else grid for c, *grid in zip(columns, widths, points, strict=True)]
        self.grid = {c.name: tuple(grid) for c, grid in zip(columns, own, strict=True)}
        self.net = states.network(s)
        tree, schema = states.structure, states.schema
        self.palettes = [[e.family for e in entries] for entries in schema.palette]
        self.families = tuple(dict.fromkeys(f for p in self.palettes for f in p))
        sizes = {c.name: len(p) for c, p in zip(schema.columns, self.palettes, strict=True)}
        finite = bool(np.all(tree.n_children > 0))
        self.every_copy = finite and tree.n_nodes(sizes) <= MAX_NODES
        self.leaves = [leaves_at(self.net, states.compiled, d) for d in range(tree.leaf_column.size)]
        self.kind: list[int] = []
        self.below: list[list[int]] = []
        self.leaf: list[tuple[int, int, int]] = []  # place, entry, slot
        self.several: dict[int, tuple[int, int]] = {}  # region and slot of leaves over several columns
        regions = [] if self.net.joints is None else np.flatnonzero(self.net.joints.split >= 0).tolist()
        self.joint = {r: joint_predictives([self.net], states.compiled, r) for r in regions}
        names = {r: f"multivariate_gaussian[{one.columns.size}]" for r, one in self.joint.items()}
        self.families = tuple(dict.fromkeys([*self.families, *names.values()]))
        self.family_of_region = names
        self.mass: list[list[float]] = []  # Dirichlet masses of a sum's children
        self.fresh: list[list[bool]] = []
        self.add_sum(0, 0)
        self.place, self.slot = np.array([[place, slot] for place, _, slot in self.leaf], np.int64).T
        self.circuit = self.checked_circuit()
        self.is_fresh = np.array([f for row in self.fresh for f in row], np.bool_)
        self.leaf_posteriors = {name: self.posteriors(name) for name in self.families}

    def new(self, kind: int, leaf: tuple[int, int, int] = (-1, -1, -1)) -> int:
        self.kind.append(kind)
        self.below.append([])
        self.leaf.append(leaf)
        self.mass.append([])
        self.fresh.append([])
        return len(self.kind) - 1

    def add_sum(self, r: int, node: int) -> int:
        """Sum node ``node`` of region r (local number, -1 for a fresh one) with all that is below it."""
        at = self.new(SUM)
        for child, mass, is_fresh in self.children(r, node):
            self.below[at].append(child())
            self.mass[at].append(mass)
            self.fresh[at].append(is_fresh)
        return at

    def children(self, r: int, node: int) -> Any:
        """(builder, Dirichlet mass, whether fresh) of each child."""
        net, d = self.net, self.net.tree.column[r]
        begin = net.edges.begin[r]
        slots = []
        if node >= 0:
            slot = net.nodes.first[net.nodes.begin[r] + node]
            while slot >= 0:
                slots.append(int(slot))
                slot = net.edges.following[begin + slot]
        for slot in sorted(slots):
            mass = float(net.edges.n_data[begin + slot])
            if d >= 0:
                entry = int(net.leaves.entry[begin + slot])
                mass += net.masses.entry_share[entry]
                yield self.leaf_builder(d, entry - net.palette.entry_ptr[d], slot), mass, False
            elif self.is_joint(r, slot):
                yield self.joint_builder(r, slot), mass, False
            else:
                yield (
                    self.product_builder(r, slot, int(net.edges.split[begin + slot])),
                    mass + net.masses.share[r],
                    False,
                )
        if d < 0:
            # of several splits, one stands for all in a fresh child that stands for many: their densities agree
            n_splits, unoccupied = int(net.tree.n_splits[r]), int(net.tree.width[r]) - len(slots)
            used = [int(net.edges.split[begin + slot]) for slot in slots]
            n_kinds = int(net.tree.n_prior[r])
            for s in range(n_kinds):  # with leaves over several columns below they differ
                builder = self.joint_builder(r, s) if self.is_joint(r, s) else self.product_builder(r, -1, s)
                yield builder, float(net.masses.total[r]) / n_kinds, True
            if n_kinds > 0:
                return
            if net.tree.width[r] == 0:
                yield self.product_builder(r, -1, 0), float(net.masses.total[r]), True
            elif unoccupied > 0 and self.every_copy:
                for s in range(n_splits):
                    for _ in range(len(range(s, int(net.tree.width[r]), n_splits)) - used.count(s)):
                        yield self.product_builder(r, -1, s), float(net.masses.share[r]), True
            elif unoccupied > 0:
                yield self.product_builder(r, -1, 0), float(unoccupied * net.masses.share[r]), True
            return
        used = [int(net.leaves.entry[begin + slot]) for slot in slots]
        for e in range(net.palette.entry_ptr[d], net.palette.entry_ptr[d + 1]):
            local = int(e - net.palette.entry_ptr[d])  # also the entry's prior slot
            copies = int(net.palette.copies[e]) - used.count(e)
            if net.palette.copies[e] == 0:
                yield self.leaf_builder(d, local, local), float(net.masses.entry[e]), True
            elif copies > 0 and self.every_copy:
                for _ in range(copies):
                    yield self.leaf_builder(d, local, local), float(net.masses.entry_share[e]), True
            elif copies > 0:
                yield self.leaf_builder(d, local, local), float(copies * net.masses.entry_share[e]), True

    def is_joint(self, r: int, slot: int) -> bool:
        """Whether a child is a leaf over all columns of its region."""
        return r in self.joint and slot in self.joint[r].slots

    def joint_builder(self, r: int, slot: int) -> Any:
        def build() -> int:
            at = self.new(LEAF)
            self.several[at] = r, slot
            return at

        return build

    def leaf_builder(self, d: int, entry: int, slot: int) -> Any:
        return lambda: self.new(LEAF, (d, entry, slot))

    def product_builder(self, r: int, slot: int, split: int) -> Any:
        def build() -> int:
            at = self.new(PRODUCT)
            for q in self.net.tree.parts[self.net.tree.part_ptr[r] : self.net.tree.part_ptr[r + 1]]:
                if self.net.tree.split[q] == split:
                    self.below[at].append(self.add_sum(int(q), slot))
            return at

        return build

    def checked_circuit(self) -> Circuit:
        """The nodes as a circuit."""
        column = np.where(self.place >= 0, self.states.structure.leaf_column[self.place], -1)
        family = np.full(column.size, -1, np.int64)
        for i in np.flatnonzero(column >= 0).tolist():
            family[i] = self.families.index(self.palettes[column[i]][self.leaf[i][1]])
        further: dict[int, list[int]] = {}
        for i, (r, _) in self.several.items():
            column[i], *rest = map(int, self.joint[r].columns)
            family[i], further[i] = self.families.index(self.family_of_region[r]), rest
        return Circuit(
            kind=np.array(self.kind, np.int8),
            child_ptr=np.concatenate([[0], np.cumsum([len(b) for b in self.below])]),
            children=np.array([c for b in self.below for c in b], np.int64),
            leaf_column=column,
            leaf_family=family,
            families=self.families,
            columns=self.states.schema.columns,
            further_columns=further,
        )

    def posteriors(self, name: str) -> Any:
        """Posteriors of the leaves of one family, of levels a list of masses."""
        nodes = self.circuit.leaves_of(name)
        if name in self.family_of_region.values():
            own = [self.several[int(node)] for node in nodes]
            rows = [[v[self.joint[r].slots.tolist().index(slot)] for v in self.joint[r].posterior] for r, slot in own]
            return NormalInverseWishart(*(np.array(values) for values in zip(*rows, strict=True))) if rows else []
        place, slot = self.place[nodes], self.slot[nodes]
        rows = [self.leaves[d].parameters[i] for d, i in zip(place, slot, strict=True)]
        if name == "categorical" or not rows:
            return rows
        return np.array(rows)

    def finish(self, rng: np.random.Generator) -> DrawnCircuit:
        """Draw all weights and parameters."""
        log_weights = np.concatenate([log_dirichlet(rng, np.array(m)) for m in self.mass if m])
        parameters = {name: self.draw_parameters(name, rng) for name in self.families}
        record = self.states.record
        chain, draw = divmod(self.s, len(record.draws))
        return DrawnCircuit(
            self.circuit,
            log_weights,
            parameters,
            self.unoccupied_mass(log_weights),
            record.chains[chain],
            record.draws[draw],
            grid=self.grid,
        )

    def draw_parameters(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """Parameters (n, p) of the leaves of one family, levels padded with 0."""
        rows = self.leaf_posteriors[name]
        if name == "categorical":
            out = np.zeros((len(rows), max(map(len, rows), default=0)))
            for i, alpha in enumerate(rows):
                out[i, : alpha.size] = np.exp(log_dirichlet(rng, alpha))
            return out
        if isinstance(rows, NormalInverseWishart):
            return draw_leaves(rows, rng)
        if isinstance(rows, list) and name in self.family_of_region.values():
            d = next(one.columns.size for r, one in self.joint.items() if self.family_of_region[r] == name)
            return np.zeros((0, d + d * d))
        if isinstance(rows, list):
            return np.zeros((0, EXPLICIT[name].n_parameters))
        draw = draw_second_levels if name == "bernoulli" else PREDICTIVES[CODE[name]].draw_parameters
        return draw(rows, rng)

    def unoccupied_mass(self, log_weights: np.ndarray) -> float:
        """One minus the mass of the induced trees without a fresh child."""
        circuit = self.circuit
        weight = np.ones(circuit.children.size)
        weight[np.repeat(circuit.kind == SUM, np.diff(circuit.child_ptr))] = np.exp(log_weights) * ~self.is_fresh
        value = np.ones(circuit.n_nodes)
        for kind, nodes, edges, starts in circuit.steps():
            step = np.add if kind == SUM else np.multiply
            value[nodes] = step.reduceat(weight[edges] * value[circuit.children[edges]], starts)
        return float(1.0 - value[0])
