"""Blocks of rows under blocks of recorded draws, given to JAX and fetched from it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pymc_spn.circuits.evaluation.jax_leaves import log_of_zero
from pymc_spn.gibbs.network import LOGS
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.kernel_forms import LOGARITHM
from pymc_spn.networks.records.block_children import ABSENT, BY_TABLE
from pymc_spn.networks.records.block_kernels import BlockRows
from pymc_spn.networks.records.blocked_rows import blocked_rows
from pymc_spn.networks.records.draw_layers import PaddedLayer, common_sizes, layers_of_draws, padded
from pymc_spn.networks.records.jax_draws import (
    JaxLayer,
    JaxRows,
    TwoNumbers,
    ValueLeaves,
    log_predictives,
    logs_of_joints,
)
from pymc_spn.networks.records.jax_joints import JointFactors, room
from pymc_spn.networks.records.leaf_tables import log_tables_of_draws
from pymc_spn.networks.records.packed_draws import PackedDraws
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.numerics.answer_steps import current_bar

DEVICE_BYTES = 1_000_000_000  # of the arrays of one block, about
LEAST_ROWS, MOST_ROWS = 64, 8_192  # of a block
KEPT_BYTES = 256_000_000  # layers beyond these are sent again at every question
LARGEST = 1e20  # of a coded value: rows with larger ones go to the kernels
PROMISED = 1e-6  # of the largest term of a row's log density, in float32


def rounding_in_jax() -> float:
    """See `Law.rounding`; JAX works in float32 unless it is told otherwise."""
    return PROMISED if _dtype() == np.float32 else 0.0


def _dtype() -> np.dtype:
    return np.dtype(jnp.zeros(0).dtype)


class SentLayers(NamedTuple):
    """Layers of a block of draws on the device.

    Parameters
    ----------
    layers : list of JaxLayer
    roots : (S,) int32
    leaves : list of ((L,) int64, (T,) int64)
        Numbers of the leaves by value and by table of each layer.
    """

    layers: list[JaxLayer]
    roots: Any
    leaves: list[tuple[np.ndarray, np.ndarray]]

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(x.nbytes for x in jax.tree.leaves((self.layers, self.roots)))


class JaxBlocks:
    """Packed draws on the device, and log densities of rows under them.

    Parameters
    ----------
    blocks : DrawBlocks
    states : RecordedStates
    """

    def __init__(self, blocks: Any, states: Any) -> None:
        self._blocks, self._states = blocks, states
        self._sizes: dict[Any, list[np.ndarray]] = {}
        self._sent: dict[Any, SentLayers] = {}
        self._bytes = 0

    def log_densities(self, values: np.ndarray, events: dict[int, Any], cells: RoundedCells | None) -> np.ndarray:
        """Log predictives (S, M) of rows (M, D) in coded units; NaN of those that are left to the kernels."""
        n_rows, dtype = len(values), _dtype()
        out = np.empty((self._states.n_draws, n_rows))
        coded = self._states.schema.code(values) if cells is None else cells.coded
        middles, widths = (values, None) if cells is None else (cells.middles, cells.widths)
        excluded = (np.abs(coded) > LARGEST).any(axis=1)
        coded = np.where(excluded[:, None], np.nan, coded)
        size = min(self._rows_of_block(dtype), max(LEAST_ROWS, room(n_rows)))
        parts = [slice(a, min(a + size, n_rows)) for a in range(0, n_rows, size)]
        known: dict[int, tuple[BlockRows, JaxRows]] = {}
        bar = current_bar()
        for draws, pack in self._blocks.packs():
            ends, event_log = self._blocks.event_logs(draws, pack, events)
            factors = self._factors(draws, dtype)
            bar.expect(len(parts))
            for part in parts:
                if part.start not in known:
                    rows, outside = blocked_rows(pack, coded, events, cells, part)
                    excluded[part] |= outside
                    known[part.start] = rows, _sent_rows(pack, rows, size, dtype)
                rows, sent_rows = known[part.start]
                rows = rows._replace(event_ptr=ends, event_log=event_log)
                joints = []
                for own in factors:
                    own_widths = None if widths is None else widths[part]
                    joints.append(logs_of_joints(own.rows(middles[part], own_widths, events, size)))
                found = self._found(draws, pack, rows, sent_rows, tuple(joints), dtype)
                out[draws, part] = found[: pack.n_draws, : part.stop - part.start]
                bar.advance()
        out[:, excluded] = np.nan
        nothing = np.isnan(values).all(axis=1)
        if not events:
            out[:, nothing] = 0.0
        return out

    def _found(
        self, draws: slice, pack: PackedDraws, rows: BlockRows, sent_rows: JaxRows, joints: Any, dtype: np.dtype
    ) -> np.ndarray:
        """Log predictives (S, M) of a block of rows, both padded."""
        if (rows.mode == ABSENT).all():
            return np.zeros((pack.n_draws, sent_rows.code.shape[1]))
        sent = self._layers(draws, pack, rows, dtype)
        table, begin, widths = _tables(pack, rows, dtype)
        layers, events = [], []
        for layer, (by_value, by_table) in zip(sent.layers, sent.leaves, strict=True):
            layers.append(layer._replace(table_at=_table_places(pack, by_table, begin, widths)))
            events.append(_event_logs(pack, rows, by_value, dtype))
        found = np.asarray(log_predictives(layers, sent.roots, sent_rows, events, table, joints), np.float64)
        return np.where(found > 0.1 * log_of_zero(dtype), found, -np.inf)

    def _rows_of_block(self, dtype: np.dtype) -> int:
        """Rows that are evaluated at once, a power of two."""
        most = 1
        for _, pack in self._blocks.packs():
            most = max(most, pack.weight.size + pack.rest.size + pack.leaves.entry.size + pack.edge_joint.size)
        rows = DEVICE_BYTES // (2 * dtype.itemsize * most)  # two layers' worth of temporary arrays
        return int(np.clip(1 << (max(int(rows), 1).bit_length() - 1), LEAST_ROWS, MOST_ROWS))

    def _factors(self, draws: slice, dtype: np.dtype) -> list[JointFactors]:
        """Leaves over several columns of some draws, region by region."""
        compiled = self._states.compiled
        return [
            JointFactors(own, compiled, n, dtype)
            for (_, own), n in zip(self._blocks.joints(draws), self._joint_sizes(), strict=True)
        ]

    def _joint_sizes(self) -> list[int]:
        """Leaves over several columns in each region, of the block of draws that has the most."""
        found = []
        for r in self._states.joint_leaves.regions:
            begin = self._states.joint_leaves.of(r).begin
            found.append(room(max(int(begin[own.stop] - begin[own.start]) for own, _ in self._blocks.packs())))
        return found

    def _layers(self, draws: slice, pack: PackedDraws, rows: BlockRows, dtype: np.dtype) -> SentLayers:
        """Layers of a block of draws on the device."""
        is_known, by_table = rows.mode != ABSENT, rows.mode == BY_TABLE
        which = is_known.tobytes(), by_table.tobytes()
        if which not in self._sizes:
            each = [layers_of_draws(own, is_known, by_table) for _, own in self._blocks.packs()]
            sizes = common_sizes(each)
            self._sizes[which] = [np.array([s[0], *map(room, s[1:].tolist())]) for s in sizes]
        key = draws.start, dtype, *which
        sent = self._sent.get(key)
        if sent is None:
            sizes, n_draws = self._sizes[which], max(own.n_draws for _, own in self._blocks.packs())
            layers, roots = padded(layers_of_draws(pack, is_known, by_table), sizes, n_draws)
            joint = self._joint_places(draws)
            sent = SentLayers(
                [_sent_layer(pack, layer, joint, dtype) for layer in layers],
                jnp.asarray(roots, np.int32),
                [layer.leaves[:2] for layer in layers],
            )
            if self._bytes < KEPT_BYTES:
                self._bytes += sent.nbytes
                self._sent[key] = sent
        return sent

    def _joint_places(self, draws: slice) -> np.ndarray:
        """Row of each of the draws' leaves over several columns among the padded ones of all regions."""
        first, found = 0, [np.zeros(0, np.int64)]
        for (_, own), n in zip(self._blocks.joints(draws), self._joint_sizes(), strict=True):
            found.append(first + np.arange(own.slots.size))
            first += n
        return np.concatenate(found)


def _sent_layer(pack: PackedDraws, layer: PaddedLayer, joint_places: np.ndarray, dtype: np.dtype) -> JaxLayer:
    """A layer on the device; where its tables begin is not known yet."""
    leaves, of_table, of_joint = layer.leaves
    column, own = _columns_of(pack, leaves), pack.leaves
    d = pack.palette.place_ptr[column]
    of_logs = (pack.palette.column_kind[d] == LOGS) & np.isin(
        pack.palette.family[own.entry[leaves]], families_with(LOGARITHM)
    )
    numbers = (own.log_scale, own.power, np.sqrt(own.curvature))
    log_scale, power, root = (x[leaves] for x in numbers)
    slope = own.slope[leaves]
    by_value = ValueLeaves(
        (column + of_logs * (pack.palette.place_ptr.size - 1)).astype(np.int32),
        column.astype(np.int32),
        np.maximum(log_scale, log_of_zero(dtype)).astype(dtype),
        power.astype(dtype),
        root.astype(dtype),
        TwoNumbers.of(own.centre[leaves], dtype),
        slope.astype(dtype) if slope.any() else None,
        of_logs if of_logs.any() else None,
    )
    sums = tuple((child, np.maximum(log_weight, log_of_zero(dtype)).astype(dtype)) for child, log_weight in layer.sums)
    places = joint_places[of_joint] if of_joint.size else of_joint
    column = _columns_of(pack, of_table)
    return jax.device_put(
        JaxLayer(
            layer.product, sums, by_value, column.astype(np.int32), column.astype(np.int32), places.astype(np.int32)
        )
    )


def _columns_of(pack: PackedDraws, leaves: np.ndarray) -> np.ndarray:
    """Column of each leaf: they stand column by column."""
    return np.searchsorted(_first_leaves(pack), leaves, side="right") - 1


def _first_leaves(pack: PackedDraws) -> np.ndarray:
    """First leaf (D,) of each column."""
    return pack.leaf_first[0, pack.palette.place_ptr[:-1]]


def _sent_rows(pack: PackedDraws, rows: BlockRows, size: int, dtype: np.dtype) -> JaxRows:
    """Rows on the device, padded to a size."""
    more = ((0, 0), (0, size - rows.y.shape[1]))
    offset = pack.palette.offset[pack.palette.place_ptr[:-1]]
    y, log_x, code = np.pad(rows.y, more), np.pad(rows.log_x, more), np.pad(rows.code, more)
    values = TwoNumbers.of(np.concatenate([y, log_x]), dtype)
    return jax.device_put(JaxRows(values, (y + offset[:, None]).astype(dtype), code))


def _tables(pack: PackedDraws, rows: BlockRows, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of log values, and where that of each column begins, and how many values each leaf has there."""
    by_table = rows.mode == BY_TABLE
    n_leaves = np.diff(np.append(_first_leaves(pack), pack.leaves.entry.size))
    widths = np.where(by_table, np.diff(rows.value_ptr) + 2, 0)
    begin = np.cumsum(n_leaves * widths) - n_leaves * widths
    out = np.zeros(room(int((n_leaves * widths).sum())))
    log_tables_of_draws(pack, rows, begin, out)
    return np.maximum(out, log_of_zero(dtype)).astype(dtype), begin, widths


def _table_places(pack: PackedDraws, leaves: np.ndarray, begin: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Where the table of each leaf begins."""
    column = _columns_of(pack, leaves)
    return (begin[column] + (leaves - _first_leaves(pack)[column]) * widths[column]).astype(np.int32)


def _event_logs(pack: PackedDraws, rows: BlockRows, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Log probability of what is known of its column in each leaf by value; 0 where nothing is."""
    column = _columns_of(pack, leaves)
    at = rows.event_ptr[column] + leaves - _first_leaves(pack)[column]
    has_event = np.diff(rows.event_ptr)[column] > 0
    logs = np.zeros(leaves.size)
    logs[has_event] = rows.event_log[at[has_event]]
    return np.maximum(logs, log_of_zero(dtype)).astype(dtype)
