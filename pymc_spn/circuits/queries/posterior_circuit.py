"""The posterior predictive as one explicit circuit: a sum over draws, each with its collapsed predictive below it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.gibbs.network import DISCRETE, EXPONENTIAL, GAUSSIAN
from pymc_spn.circuits.queries.leaf_predictives import leaves_of_column
from pymc_spn.circuits.queries.recorded_states import RecordedStates
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.tables import Table, decode

if TYPE_CHECKING:
    import xarray as xr

PREDICTIVE = {GAUSSIAN: "student_t", EXPONENTIAL: "lomax", DISCRETE: "categorical"}  # else negative_binomial


@dataclass(frozen=True, eq=False)
class PosteriorCircuit:
    """A learned density in the form that `CircuitDensity` takes.

    Weights and leaf parameters of the network are integrated out within each draw, so the leaves are their
    predictives (Student t, Lomax, negative binomial, levels) and the density is that of `SPNPosterior.log_density`
    over the draws that are in it.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    draws : (S,) int64
        Which draws of the chains, counted chain by chain.
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]
    draws: np.ndarray

    def log_density(self, df: Any) -> "xr.DataArray":
        """Log density (row,) of new rows in nats, missing cells summed out."""
        import xarray as xr

        table = Table.from_frame(df, schema=self.circuit.columns)
        logs = self.circuit.log_density(table.values, self.log_weights, self.leaf_parameters)
        return xr.DataArray(logs, {"row": table.index}, ["row"], "log_density", {"exactness": "exact"})

    def sample(self, n: int, random_seed: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Independent rows from the circuit."""
        values = self.circuit.sample(n, self.log_weights, self.leaf_parameters, random_seed)
        return decode(values, self.circuit.columns)


def posterior_circuit(
    states: RecordedStates, kept: Sequence[int], log_weights: np.ndarray, max_draws: int | None
) -> PosteriorCircuit:
    """Circuit of the predictive over the kept columns; draws are taken evenly where there are too many."""
    n = states.n_draws if max_draws is None else min(max_draws, states.n_draws)
    draws = np.unique(np.linspace(0, states.n_draws - 1, n).round().astype(np.int64))
    building = _Building(states, kept)
    tops = [building.add_draw(int(s)) for s in draws]
    mass = np.exp(log_weights[draws] - log_weights[draws].max())
    root = tops[0] if len(tops) == 1 else building.add(SUM, tops, mass)
    return building.finish(root, draws)


class _Building:
    """Nodes in the order in which they are found; numbered from the root down at the end."""

    def __init__(self, states: RecordedStates, kept: Sequence[int]) -> None:
        self.states = states
        self.position = {d: i for i, d in enumerate(kept)}
        net = states.network(0)
        self.has_kept = np.zeros(net.parent.size, np.bool_)
        for d in kept:
            r = int(net.leaf_region[d])
            while not self.has_kept[r]:
                self.has_kept[r] = True
                r = int(net.parent[r]) if r > 0 else r
        self.kind: list[int] = []
        self.below: list[list[int]] = []
        self.mass: list[Any] = []
        self.leaf: list[Any] = []  # (column, family, parameters)

    def add(self, kind: int, below: Sequence[int] = (), mass: Any = None, leaf: Any = None) -> int:
        self.kind.append(kind)
        self.below.append(list(below))
        self.mass.append(mass)
        self.leaf.append(leaf)
        return len(self.kind) - 1

    def add_draw(self, s: int) -> int:
        """Top node of one draw."""
        self.net = self.states.network(s)
        self.leaves = {d: leaves_of_column(self.net, self.states.compiled, d) for d in self.position}
        self.unoccupied: dict[int, int] = {}
        return self.sum_node(0, 0)

    def parts(self, r: int) -> list[int]:
        parts = self.net.parts[self.net.part_ptr[r] : self.net.part_ptr[r + 1]]
        return [int(q) for q in parts if self.has_kept[q]]

    def edges(self, r: int, node: int) -> list[int]:
        """Occupied edges of a sum node, local numbers."""
        found, slot = [], int(self.net.node_first[self.net.node_begin[r] + node])
        while slot >= 0:
            found.append(slot)
            slot = int(self.net.following[self.net.begin[r] + slot])
        return sorted(found)

    def sum_node(self, r: int, node: int) -> int:
        """Sum node of a region with its occupied children and one node for all others together."""
        net, d = self.net, int(self.net.column[r])
        slots = self.edges(r, node)
        if not slots:
            return self.empty_node(r)
        count = net.edge_count[net.begin[r] + np.array(slots)].astype(np.float64)
        if d < 0:
            below = [self.product_node([self.sum_node(q, slot) for q in self.parts(r)]) for slot in slots]
            rest = float(net.mass[r]) if net.width[r] == 0 else float((net.width[r] - len(slots)) * net.share[r])
            mass = [*(count + net.share[r] * (net.width[r] > 0)), rest]
            if rest > 0:
                return self.weighted_node([*below, self.empty_node(r)], mass)
            return self.weighted_node(below, mass[:-1])
        entry = net.entry[net.begin[r] + np.array(slots)]
        below = [self.leaf_node(d, slot) for slot in slots]
        mass = list(count + net.entry_share[entry] * (net.entry_copies[entry] > 0))
        for e in range(net.entry_ptr[d], net.entry_ptr[d + 1]):
            copies = int(net.entry_copies[e])
            rest = float(net.entry_mass[e] if copies == 0 else (copies - (entry == e).sum()) * net.entry_share[e])
            if rest > 0:
                below.append(self.leaf_node(d, int(e - net.entry_ptr[d])))
                mass.append(rest)
        return self.weighted_node(below, mass)

    def weighted_node(self, below: list[int], mass: list[float]) -> int:
        """Sum node; children that are one node (without data below an edge) add their masses."""
        together: dict[int, float] = {}
        for child, m in zip(below, mass, strict=True):
            together[child] = together.get(child, 0.0) + m
        return self.add(SUM, list(together), list(together.values()))

    def empty_node(self, r: int) -> int:
        """A region without data: columns are independent, each with the mixture of its prior predictives."""
        if r not in self.unoccupied:
            net, d = self.net, int(self.net.column[r])
            if d < 0:
                self.unoccupied[r] = self.product_node([self.empty_node(q) for q in self.parts(r)])
            else:
                entries = range(net.entry_ptr[d], net.entry_ptr[d + 1])
                below = [self.leaf_node(d, int(e - net.entry_ptr[d])) for e in entries]
                self.unoccupied[r] = self.add(SUM, below, [float(net.entry_mass[e]) for e in entries])
        return self.unoccupied[r]

    def product_node(self, below: list[int]) -> int:
        return below[0] if len(below) == 1 else self.add(PRODUCT, below)

    def leaf_node(self, d: int, slot: int) -> int:
        code, p = int(self.leaves[d].family[slot]), self.leaves[d].parameters[slot]
        if code == DISCRETE:
            row = p / p.sum()
        elif code == GAUSSIAN:
            mu, rho, a, b = p
            row = np.array([mu, np.sqrt((1.0 + 1.0 / rho) * b / a), 2.0 * a])
        else:
            row = p[:2]
        return self.add(LEAF, leaf=(self.position[d], PREDICTIVE.get(code, "negative_binomial"), row))

    def finish(self, root: int, draws: np.ndarray) -> PosteriorCircuit:
        """Number the nodes so that children come after all their parents."""
        order = self.from_the_root(root)
        number = np.empty(len(self.kind), np.int64)
        number[order] = np.arange(len(order))
        leaves = [self.leaf[v] for v in order if self.kind[v] == LEAF]
        families = tuple(dict.fromkeys(f for _, f, _ in leaves))
        is_leaf = np.array([self.kind[v] == LEAF for v in order])
        column, family = np.full(len(order), -1), np.full(len(order), -1)
        column[is_leaf] = [d for d, _, _ in leaves]
        family[is_leaf] = [families.index(f) for _, f, _ in leaves]
        circuit = Circuit(
            kind=np.array([self.kind[v] for v in order], np.int8),
            child_ptr=np.concatenate([[0], np.cumsum([len(self.below[v]) for v in order])]),
            children=number[[c for v in order for c in self.below[v]]] if len(order) > 1 else np.empty(0, np.int64),
            leaf_column=column,
            leaf_family=family,
            families=families,
            columns=tuple(self.states.schema.columns[d] for d in self.position),
        )
        weights = [np.asarray(self.mass[v]) / np.sum(self.mass[v]) for v in order if self.kind[v] == SUM]
        parameters = {}
        for name in families:
            rows = [row for _, f, row in leaves if f == name]
            parameters[name] = np.zeros((len(rows), max(map(len, rows))))
            for i, row in enumerate(rows):
                parameters[name][i, : len(row)] = row
        return PosteriorCircuit(circuit, np.log(np.concatenate(weights)), parameters, draws)

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
