"""All pairs of columns under all draws, given what is known of a row: circuits of draws with weights given it."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import SUM
from pymc_spn.circuits.evaluation.circuit_passes import node_logs_of_row
from pymc_spn.circuits.evaluation.column_pairs import log_densities_of_pairs
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.laws.law import PairLogs
from pymc_spn.leaves.kernel_forms import STUDENT
from pymc_spn.networks.records.draw_blocks import Asked, DrawBlocks, Piece, in_draws
from pymc_spn.networks.records.draw_circuit import DrawCircuit, known_rows, leaf_arrays
from pymc_spn.networks.records.multivariate_leaves import JointPredictives, students_given
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.threads import for_each

BLOCK, BLOCK_VALUES = 4 * LANES, 1 << 20  # rows of a pass, of fewer where the nodes hold more values than this


class PairsOfDraw(NamedTuple):
    """What the pass over pairs of columns reads of one draw's circuit, see `log_densities_of_pairs`."""

    weight: np.ndarray
    base: np.ndarray
    scope_ptr: np.ndarray
    scope_column: np.ndarray
    pair_ptr: np.ndarray
    real_input: np.ndarray
    wide_first: np.ndarray
    wide: np.ndarray
    parts: np.ndarray  # (4, K) coefficients


class ColumnPairs:
    """All pairs of columns under some draws, given what is known of one row.

    Parameters
    ----------
    blocks : DrawBlocks
    used : (S,) int64
        Draws.
    known : Asked
        The row (1, D), and events; no intervals of columns in leaves over several.
    wanted : (D,) bool
        The columns.
    """

    def __init__(self, blocks: DrawBlocks, used: np.ndarray, known: Asked, wanted: np.ndarray) -> None:
        self._blocks, self._used, self._wanted = blocks, used, wanted
        self._draws: dict[int, PairsOfDraw] = {}
        parts, pairs = _students(blocks.states, known.values[0], wanted)
        of_circuit, some = blocks.scopes(wanted), set(used.tolist())

        def prepare(piece: Piece) -> None:
            circuit, layout = piece.circuit, piece.circuit.layout
            logs = node_logs_of_row(*piece.inputs) if piece.s in some else np.full(1, EMPTY_LEAF)
            if logs[0] <= 0.1 * EMPTY_LEAF:
                return
            base = logs[layout.node_of_leaf]
            base[circuit.slot.size :] = 0.0
            nodes, scope_column = of_circuit(circuit)
            scope_ptr = np.searchsorted(nodes, np.arange(layout.kind.size + 1))
            size = np.diff(scope_ptr)
            pair_ptr = np.concatenate([[0], np.cumsum(size * (size - 1) // 2)])
            real_input = np.searchsorted(layout.input_column, np.arange(wanted.size))
            numbers = scope_ptr, scope_column, pair_ptr, real_input, _first_pairs(circuit, size)
            own = weights_given(circuit, logs), base, *numbers, pairs[piece.s], parts[piece.s]
            self._draws[piece.s] = PairsOfDraw(*map(read_only_view, own))

        blocks.ask(prepare, known)

    def log_densities(self, first: np.ndarray, second: np.ndarray) -> PairLogs:
        """Log densities in coded units of rows (M, D) in the units of the data, with values of all wanted columns."""
        states, n, n_rows = self._blocks.states, int(np.count_nonzero(self._wanted)), len(first)
        coded = states.schema.code(np.concatenate([first, second]))
        rows = known_rows(states.network(0).palette, coded, None, slice(None))
        table = read_only_view(rows.table)
        out = PairLogs(*(np.full((self._used.size, n_rows, k), -np.inf) for k in (n, n, n * (n - 1) // 2)))

        def ask(u: int) -> None:
            s = int(self._used[u])
            if s not in self._draws:
                return
            circuit, draw = self._blocks.circuit(s), self._draws[s]
            layout, coefficients, levels = leaf_arrays(states.network(s), circuit, rows, {})
            coefficients, form, inputs = coefficients.copy(), layout.leaf_form.copy(), layout.leaf_input.copy()
            n_alone = circuit.slot.size
            coefficients[:4, n_alone:] = draw.parts
            form[n_alone:], inputs[n_alone:] = STUDENT, draw.real_input[circuit.part_column]
            layout = layout._replace(leaf_form=read_only_view(form), leaf_input=read_only_view(inputs))
            leaves = draw.weight, read_only_view(coefficients), levels, draw.base
            n_groups = min(BLOCK, n_rows, BLOCK_VALUES // max(int(draw.pair_ptr[-1]), 1)) // LANES
            size = LANES * max(n_groups, 1)
            log_densities_of_pairs(layout, *leaves, table, *draw[2:8], size, *(each[u] for each in out))

        for_each(ask, range(self._used.size), self._used.size > 1)
        return out


def weights_given(circuit: DrawCircuit, logs: np.ndarray) -> np.ndarray:
    """Weights of a circuit given what is known, from the logs (V,) of its nodes."""
    layout = circuit.layout
    parent = np.repeat(np.arange(layout.kind.size), np.diff(layout.child_ptr))
    weighted = layout.kind[parent] == SUM
    above, below = logs[parent[weighted]], logs[layout.children[weighted]]
    possible = above > 0.1 * EMPTY_LEAF
    return read_only_view(np.where(possible, np.exp(circuit.log_weights + below - np.where(possible, above, 0.0)), 0.0))


def _first_pairs(circuit: DrawCircuit, size: np.ndarray) -> np.ndarray:
    """First pair of each node (V,) that is a leaf over several columns, -1 of others; of wanted columns below nodes."""
    out = np.full(size.size, -1)
    nodes = circuit.part_node[np.diff(circuit.part_node, prepend=-1) != 0]
    n_pairs = size[nodes] * (size[nodes] - 1) // 2
    out[nodes] = np.cumsum(n_pairs) - n_pairs
    return out


def _students(states: Any, row: np.ndarray, wanted: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Coefficients (4, K) of the parts of each draw's leaves over several columns, and (Q, 7) of their pairs.

    Given the points of a row, in coded units. Parts in columns that are not wanted have none.
    """
    leaves = states.joint_leaves
    each = [leaves.of(r) for r in leaves.regions]
    size, counts = leaves.counts
    n_wanted = np.array([np.count_nonzero(wanted[own.columns]) for own in each], np.int64)[:, None]
    n_parts, n_pairs = counts * size[:, None], counts * (n_wanted * (n_wanted - 1) // 2)
    parts, pairs = np.zeros((4, n_parts.sum())), np.zeros((n_pairs.sum(), 7))
    for own, at, at_pairs in zip(each, in_draws(n_parts), in_draws(n_pairs), strict=True):
        asked = np.flatnonzero(wanted[own.columns])
        asked = asked[np.argsort(own.columns[asked])]
        if asked.size == 0 or own.slots.size == 0:
            continue
        dof, location, scale = _students_of_leaves(own, row, asked)
        of_columns = own.columns[asked]
        width = states.compiled.scale[of_columns]
        location, scale = (location - states.compiled.centre[of_columns]) / width, scale / (width[:, None] * width)
        sd = np.sqrt(np.diagonal(scale, axis1=1, axis2=2))
        of_parts = np.zeros((4, own.slots.size, own.columns.size))
        nothing, root = np.zeros(dof.size), np.sqrt(dof)
        lead = own.family.log_radial(dof, nothing, 1)[:, None] - np.log(sd)
        power = np.broadcast_to(0.5 * (dof[:, None] + 1.0), sd.shape)
        of_parts[:, :, asked] = np.stack([lead, location, 1.0 / (sd * root[:, None]), power])
        parts[:, at] = of_parts.reshape(4, -1)
        i, j = np.triu_indices(asked.size, 1)
        along = scale[:, i, j] / sd[:, i]
        rest = np.sqrt(scale[:, j, j] - np.square(along))
        lead = own.family.log_radial(dof, nothing, 2)[:, None] - np.log(sd[:, i]) - np.log(rest)
        power, root = np.broadcast_to(0.5 * (dof[:, None] + 2.0), rest.shape), root[:, None]
        factors = 1.0 / (sd[:, i] * root), along * root, 1.0 / (rest * root)
        of_pairs = np.stack([location[:, i], location[:, j], *factors, power, lead], axis=2)
        pairs[at_pairs] = of_pairs.reshape(-1, 7)
    ends, pair_ends = (np.cumsum(count.sum(axis=0))[:-1] for count in (n_parts, n_pairs))
    return np.split(parts, ends, axis=1), np.split(pairs, pair_ends)


def _students_of_leaves(
    own: JointPredictives, row: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Degrees of freedom (n,), locations (n, k) and scale matrices (n, k, k) of some columns, given a row's points."""
    rows = np.tile(row[own.columns], (own.slots.size, 1))
    if asked.size == 1:
        found = students_given(own.parameters, np.arange(own.slots.size), rows, int(asked[0]))
        return found[:, 2], found[:, :1], np.square(found[:, 1])[:, None, None]
    law, parameters = own.family.columns_of_rows(own.parameters, rows, asked.tolist())
    return law.dof_of(parameters), *law.location_and_scale(parameters)
