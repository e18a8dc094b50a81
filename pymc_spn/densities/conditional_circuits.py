"""The conditional distribution of some columns of a circuit given the others, as a random variable.

`CircuitDensity` makes it where it has ``given``: discriminative learning of weights and leaf parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.logprob.abstract import _logprob
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.raise_op import Assert
from pytensor.tensor.random.op import RandomVariable

from pymc_spn.circuits.evaluation.conditional_draws import draw_targets
from pymc_spn.circuits.evaluation.elliptical_parts import draw_wide_targets
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import coded_rows, frame_of_table
from pymc_spn.densities.circuit_ops import rows_of_circuit
from pymc_spn.densities.free_rows import typical_row
from pymc_spn.densities.parameters_of_rows import check_n_rows, of_rows_or_all, without_batch
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.source_version import source_version
from pymc_spn.tables import Table
from pymc_spn.tables.column import as_name
from pymc_spn.tables.frame_kinds import column_array, frame_kind, pandas_frame


class SameRows(Assert):
    """Refuses numbers of rows that the graph does not know before it runs, as `check_n_rows` those that it knows."""

    def __init__(self, msg):
        super().__init__(msg)
        self.exc_type = ValueError


same_rows = SameRows("observed must have as many rows as given")
same_parts = SameRows("all entries of given must have as many rows")


class ConditionalCircuitRV(RandomVariable):
    """Target cells of rows, given the packed layout of a circuit, log weights, leaf parameters and the other cells.

    Inputs: these, then rows (D,) with NaN in targets and where nothing is given, and columns of the targets (t,). Last
    comes the number of the row, for the message of a row that is impossible. ``circuit`` describes the layout.
    """

    name, dtype = "conditional_circuit", "float64"
    signature = "(s),(e),(p),(d),(t),()->(t)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "circuit")
    _print_name = ("CircuitDensity", "\\operatorname{CircuitDensity}")

    def __init__(self, circuit=None, **kwargs):
        self.circuit = circuit
        super().__init__(**kwargs)

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return (dist_params[4].shape[-1],)

    @property
    def draw(self):
        return draw_wide_targets if self.circuit.further_columns else draw_targets

    def rng_fn(self, rng, *inputs_and_size):
        *inputs, size = inputs_and_size
        core = [1, 1, 1, 1, 1, 0]
        batch = np.broadcast_shapes(*(a.shape[: a.ndim - n] for a, n in zip(inputs, core, strict=True)))
        size = batch if size is None else tuple(size)
        wide = [np.broadcast_to(a, (*size, *a.shape[a.ndim - n :])) for a, n in zip(inputs, core, strict=True)]
        out = np.empty((*size, inputs[4].shape[-1]))
        for i in np.ndindex(*size):
            out[i] = self.draw(rng, *(a[i] for a in wide))
        return out


@numba_core_rv_funcify.register(ConditionalCircuitRV)
def _(op, node):
    draw = op.draw

    @numba_njit
    def targets_of_row(rng, packed, log_weights, theta, row, targets, number):
        return draw(rng, packed, log_weights, theta, row, targets, number)

    return targets_of_row, 2 * source_version() + bool(op.circuit.further_columns)


def _pass_on(inputs, outputs, cotangents):
    return [cotangents[0], -cotangents[0]]


def _log_ratio() -> OpFromGraph:
    """Difference of two log densities (N,), ``-inf`` where either is.

    Its derivatives are 1 and -1 everywhere, since rows of density zero have no gradient anyway. If the gradient looked
    at the rows, they could not be taken from the gradients' passes (`circuit_ops.rows_from_the_gradient_pass`).
    """
    joint, given = pt.dvector("joint"), pt.dvector("given")
    impossible = pt.eq(joint, -np.inf) | pt.eq(given, -np.inf)
    ratio = pt.switch(impossible, -np.inf, joint - given)
    return OpFromGraph([joint, given], [ratio], inline=True, pullback=_pass_on)


log_ratio = _log_ratio()


class _ConditionalCircuitDistribution(Distribution):
    """Registers where `ConditionalCircuitRV` starts; variables are made by `CircuitDensity`."""

    rv_type = ConditionalCircuitRV

    def support_point(rv, size, packed, log_weights, theta, rows, targets, number):
        own = pt.vector("theta", shape=theta.type.shape[-1:])
        point = vectorize_graph(typical_row(rv.owner.op.circuit, own), {own: of_rows_or_all(theta)})
        point = point[..., without_batch(targets)]
        return point if rv_size_is_none(size) else pt.broadcast_to(point, (*size, point.shape[-1]))


@_logprob.register(ConditionalCircuitRV)
def _(op, values, rng, size, packed, log_weights, theta, rows, targets, number, **kwargs):
    (value,) = values
    core = of_rows_or_all(log_weights), of_rows_or_all(theta)
    known, found = rows.reshape((-1, rows.shape[-1])), value.reshape((-1, value.shape[-1]))
    if known.type.shape[0] is None or known.type.shape[0] != found.type.shape[0]:
        found = same_rows(found, pt.eq(found.shape[0], known.shape[0]))
    all_cells = pt.set_subtensor(known[:, without_batch(targets)], found)
    layout, circuit_rows = without_batch(packed), rows_of_circuit(op.circuit)
    logs = log_ratio(circuit_rows(layout, all_cells, *core), circuit_rows(layout, known, *core))
    return logs.reshape(value.shape[:-1])


class GivenCells(NamedTuple):
    """Cells of some columns, which are given.

    Parameters
    ----------
    rows : (N, D) tensor of float64
        All columns of the circuit; NaN in targets, and where nothing is given.
    targets : tuple of int
        The other columns, in the circuit's order.
    n_rows : dict of str to (int or None)
        Of each part that was given, None where it is not known yet.
    index : Index or None
        Labels of the rows, where they were given with some.
    """

    rows: Any
    targets: tuple[int, ...]
    n_rows: dict[str, int | None]
    index: Any


def given_cells(circuit: Circuit, given: Any) -> GivenCells:
    """Checked cells of the columns that are given.

    Raises
    ------
    TypeError, ValueError
        See `CircuitDensity`.
    """
    given, is_labelled = pandas_frame(given, "given"), frame_kind(given) is None
    parts = _parts(given)
    names = [name for part in parts for name in part]
    for name in names:
        if name not in circuit.names:
            raise ValueError(
                f"given must hold columns of the circuit, {quoted(list(circuit.names))}, got {quoted(name)}"
            )
        if names.count(name) > 1:
            raise ValueError(f"given must hold a column once, got {quoted(name)} {names.count(name)} times")
    if not names:
        raise ValueError(
            f"given must hold at least one of the circuit's columns {quoted(list(circuit.names))}, got none"
        )
    targets = tuple(d for d, name in enumerate(circuit.names) if name not in names)
    if not targets:
        raise ValueError(f"given must leave a column of the circuit to be a target, it holds all of {quoted(names)}")
    read = {part: _read_part(circuit, part, cells) for part, cells in parts.items()}
    arguments = ["given"] if isinstance(given, pd.DataFrame | Table) else [_entry(part) for part in parts]
    blocks = [cells for cells, _ in read.values()]
    n_rows = {argument: cells.type.shape[0] for argument, cells in zip(arguments, blocks, strict=True)}
    check_n_rows(n_rows)
    labelled = {a: index if is_labelled else None for a, (_, index) in zip(arguments, read.values(), strict=True)}
    order = np.full(len(circuit.columns), len(names))  # of a column, its place among the given ones; else the last
    order[[circuit.names.index(name) for name in names]] = np.arange(len(names))
    first, *others = blocks
    if None in n_rows.values():
        others = [same_parts(cells, pt.eq(cells.shape[0], first.shape[0])) for cells in others]
    nowhere = pt.full((first.shape[0], 1), np.nan)
    rows = pt.concatenate([first, *others, nowhere], axis=1)[:, order]
    known = next((n for n in n_rows.values() if n is not None), None)
    rows = pt.specify_shape(rows, (known, len(order)))
    return GivenCells(rows, targets, n_rows, common_labels(labelled))


def common_labels(labelled: Mapping[str, Any]) -> Any:
    """The row labels of all arguments that have some, None if none has.

    Raises
    ------
    ValueError
        If they differ, so that rows would be put together that do not belong together.
    """
    known = {argument: index for argument, index in labelled.items() if index is not None}
    if not known:
        return None
    first = next(iter(known))
    for argument, index in known.items():
        if len(index) == len(known[first]) and not index.equals(known[first]):
            n = next(n for n, (a, b) in enumerate(zip(index, known[first], strict=True)) if a != b)
            raise ValueError(
                f"{argument} must have the row labels of {first}, got {quoted(index[n])} for {known[first][n]!r} "
                f"at row {n}"
            )
    return known[first]


def _entry(part: Sequence[str]) -> str:
    return f"given[{part[0] if len(part) == 1 else tuple(part)!r}]"


def _parts(given: Any) -> dict[tuple[str, ...], Any]:
    """Cells by the names of their columns: a whole table as one part, a mapping entry by entry."""
    if isinstance(given, Table):
        return {tuple(given.names): given}
    if isinstance(given, pd.DataFrame):
        return {tuple(map(str, given.columns)): given} if given.shape[1] > 0 else {}
    if not isinstance(given, Mapping):
        what = f"a tensor of {given.type.ndim} dimensions" if isinstance(given, Variable) else type(given).__name__
        raise TypeError(
            "given must be a DataFrame, a Table or a mapping from column names to cells, such as "
            f"{{'a': vector, ('b', 'c'): matrix}} with arrays or tensors; got {what}"
        )
    out: dict[tuple[str, ...], Any] = {}
    for key, cells in given.items():
        part = tuple(map(as_name, key)) if isinstance(key, tuple) else (as_name(key),)
        if not part or not all(isinstance(name, str) for name in part):
            raise TypeError(f"given must map names of columns, or tuples of them, to cells; got the key {key!r}")
        if part in out:
            raise ValueError(f"given must hold a column once, got {quoted(key)} beside {part[0]!r}")
        cells = column_array(pandas_frame(cells))
        if isinstance(cells, pd.DataFrame | Table):
            raise TypeError(
                f"{_entry(part)} must be an array or a tensor; give a table as given=table, got {quoted(key)}"
            )
        out[part] = cells.data if isinstance(cells, Constant) else cells
    return out


def _read_part(circuit: Circuit, part: Sequence[str], cells: Any) -> tuple[Any, Any]:
    """Cells (N, n) of some columns as a tensor, and the labels of the rows, None where there are none."""
    what = _entry(part)
    wanted = f"(rows,) or (rows, {len(part)})" if len(part) == 1 else f"(rows, {len(part)})"
    if isinstance(cells, Variable):
        shape = cells.type.shape
        is_vector = len(part) == 1 and len(shape) == 1
        if not is_vector and (len(shape) != 2 or shape[1] not in (None, len(part))):
            raise ValueError(f"{what} must have shape {wanted}, got {shape}")
        tensor: Any = pt.as_tensor_variable(cells)
        matrix = (tensor[:, None] if is_vector else tensor).astype("float64")
        return pt.specify_shape(matrix, (None, len(part))), None
    index = cells.index if isinstance(cells, pd.DataFrame | pd.Series | Table) else None
    own_codes = any(isinstance(c, str) for c in circuit.columns)  # of an array, see `coded_rows`
    if isinstance(cells, Table):
        cells = frame_of_table(circuit.columns, cells) if own_codes else cells.to_pandas()
    elif isinstance(cells, pd.DataFrame):
        cells = cells.set_axis(list(part), axis=1)
    else:
        array = np.asanyarray(cells)
        if array.ndim == 1 and len(part) == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(part):
            raise ValueError(f"{what} must have shape {wanted}, got {np.shape(cells)}")
        cells = array if own_codes else pd.DataFrame({name: array[:, i] for i, name in enumerate(part)})
    positions = sorted(circuit.names.index(name) for name in part)
    own = [circuit.names[d] for d in positions]
    try:
        own_cells = cells[own] if isinstance(cells, pd.DataFrame) else cells[:, [part.index(name) for name in own]]
        values, _ = coded_rows(circuit, own_cells, positions, "given")
    except (TypeError, ValueError) as error:
        raise type(error)(str(error) if str(error).startswith("given") else f"given: {error}") from None
    return pt.as_tensor_variable(values[:, [own.index(name) for name in part]]), index
