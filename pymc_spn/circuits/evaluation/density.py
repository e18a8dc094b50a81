"""Log density of rows: which kernel works on which rows."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.linear_pass import (
    SMALLEST,
    SMALLEST_32,
    TINY,
    TINY_32,
    linear_log_densities,
    tape_coefficients,
)
from pymc_spn.circuits.evaluation.log_pass import log_densities
from pymc_spn.circuits.evaluation.row_pass import RowProgram, log_densities_of_few, make_row_program
from pymc_spn.circuits.evaluation.tape import Layout, Tape, make_tape
from pymc_spn.circuits.evaluation.wide_leaves import WideLeaves, layout_of
from pymc_spn.leaves.kernel_forms import LINEAR, QUADRATIC, SWITCH, TABLE
from pymc_spn.numerics.read_only_views import read_only_view

FEW = 8  # rows below which one at a time is faster
BLOCKS = (256, 128, 64, 32)  # rows at a time: the largest of which the slots fit into CACHE, less where there are few
CACHE = 96 * 1024
IN_FLOAT32 = (QUADRATIC, LINEAR, SWITCH, TABLE)


class Compiled(NamedTuple):
    """What is worked out once for a structure."""

    layout: Layout
    tape: Tape
    wide: WideLeaves


def compile_circuit(circuit: Any) -> Compiled:
    """Layout and tape of a circuit, kept with it."""
    if "_compiled" not in circuit.__dict__:
        layout, wide = layout_of(circuit)
        compiled = Compiled(layout, make_tape(layout, len(circuit.columns)), wide)
        object.__setattr__(circuit, "_compiled", compiled)
    return circuit.__dict__["_compiled"]


def row_program(circuit: Any) -> RowProgram:
    """The tape for rows one at a time, kept with the circuit."""
    if "_row_program" not in circuit.__dict__:
        object.__setattr__(circuit, "_row_program", make_row_program(compile_circuit(circuit).tape))
    return circuit.__dict__["_row_program"]


def block_of(sizes: Sequence[int], n_bytes: int, n_rows: int) -> int:
    """Rows at a time, each of so many bytes: a block is worked out as a whole, however few rows are in it."""
    block = next((b for b in sizes if b * n_bytes <= CACHE), sizes[-1])
    while block > FEW and block >= 2 * n_rows:
        block //= 2
    return block


def checked_dtype(dtype: Any) -> Any:
    """Float64 or float32."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {dtype}")
    return dtype


class Evaluator:
    """A compiled circuit with its parameters in place, for rows to come."""

    def __init__(self, circuit: Any, log_weights: np.ndarray, flat: Any) -> None:
        self.circuit = circuit
        self.layout, self.tape, _ = compile_circuit(circuit)
        tape = self.tape
        self.coefficients = np.empty((5, tape.leaf.size))
        self.weight, self.table = np.empty(tape.operand.size), np.zeros(flat.theta.size)
        self.log_weights = log_weights
        tape_coefficients(
            tape,
            self.layout,
            *map(read_only_view, (log_weights, *flat)),
            self.coefficients,
            self.weight,
            self.table,
        )

    def log_density(self, values: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """Log densities (N,) of checked rows (N, D)."""
        out, values = np.empty(len(values)), read_only_view(values)
        if len(values) < FEW:
            if log_densities_of_few(*self._few, values, out) == 0:
                return out
        else:
            self._in_blocks(values, dtype, out)
        lost = np.flatnonzero(np.isnan(out))
        if lost.size and dtype == np.float32:
            out[lost] = self.log_density(values[lost])
        elif lost.size:
            self._by_logs(values, lost, out)
        return out

    @cached_property
    def _few(self) -> tuple[Any, ...]:
        """What `log_densities_of_few` reads, leaves in its order."""
        program, runs, order = row_program(self.circuit)
        return program, runs, np.take(self.coefficients, order, axis=1), self.weight, self.table

    def _in_blocks(self, values: np.ndarray, dtype: Any, out: np.ndarray) -> None:
        tape: Tape = self.tape
        coefficients: Any = self.coefficients
        weight: Any = self.weight
        table: Any = self.table
        size = 8
        if dtype == np.float32:
            if not np.isin(tape.leaf_form, IN_FLOAT32).all():
                raise ValueError(
                    'dtype="float32" needs leaves among gaussian, log_normal, exponential, poisson, geometric, '
                    "bernoulli and categorical"
                )
            tape, coefficients, values = self._centred(values)
            with np.errstate(over="ignore"):  # the log of a weight of 0
                coefficients, weight, table = (a.astype(np.float32) for a in (coefficients, weight, table))
            size = 4
        n_inputs = tape.input_column.size
        block = block_of(BLOCKS, size * tape.n_slots, len(values))
        slots = np.empty((tape.n_slots, block), dtype)
        u, present, base = (np.empty((n_inputs, block), dtype) for _ in range(3))
        shift = np.empty((values.shape[1], block), dtype)
        limits: Any = (SMALLEST, TINY) if size == 8 else (SMALLEST_32, TINY_32)
        linear_log_densities(tape, coefficients, weight, table, values, limits, slots, u, present, base, shift, out)

    def _by_logs(self, values: np.ndarray, which: np.ndarray, out: np.ndarray) -> None:
        tape = self.tape
        n_inputs = tape.input_column.size
        block = block_of(BLOCKS[1:], 8 * tape.n_slots, which.size)
        edge = tape.operand_edge  # the weights themselves underflow below exp(-745)
        log_operand = np.zeros(edge.size)
        log_operand[edge >= 0] = np.maximum(self.log_weights[edge[edge >= 0]], -1e300)
        log_densities(
            tape,
            self.coefficients,
            log_operand,
            self.table,
            values,
            which,
            np.empty((tape.n_slots, block)),
            np.empty((2, block)),
            *(np.empty((n_inputs, block)) for _ in range(3)),
            out,
        )

    def _centred(self, values: np.ndarray) -> Any:
        """Real columns moved to their leaves' mean location, so that float32 keeps the differences."""
        tape = self.tape
        is_real = (tape.leaf_form == QUADRATIC) & (tape.input_reading[tape.leaf_input] == 0)
        column = tape.input_column[tape.leaf_input]
        others = np.bincount(column[~is_real], minlength=values.shape[1]) > 0
        n = np.maximum(np.bincount(column[is_real], minlength=values.shape[1]), 1)
        centre = np.bincount(column[is_real], self.coefficients[2][is_real], minlength=values.shape[1]) / n
        centre[others] = 0.0
        coefficients = self.coefficients.copy()
        coefficients[2] -= np.where(is_real, centre[column], 0.0)
        return tape, coefficients, values - centre
