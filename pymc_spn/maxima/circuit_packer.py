"""Circuits packed for the box search, node by node."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.maxima.box_leaves import BOXES, CONSTANT, ELLIPTICAL, NOTHING, PRODUCT, SUM, PackedCircuit


class CircuitPacker:
    """Nodes as they come, children first.

    Constants have numbers below -1 and become nodes only beside what is none: what is known of a wide row leaves a
    small circuit of what is asked.
    """

    def __init__(self) -> None:
        self.constants: list[float] = []
        self.kind: list[int] = []
        self.below: list[list[int]] = []
        self.log_weight: list[list[float]] = []
        self.column: list[int] = []
        self.parameter: list[Any] = []
        self.level: list[np.ndarray] = []
        self.n_level = 0
        self.several: list[np.ndarray] = []
        self.shape: list[np.ndarray] = []
        self.n_several = self.n_shape = 0

    def add(self, kind: int, below: Any, log_weight: Any, column: int = -1, parameter: Any = (0.0,) * 4) -> int:
        """Number of a new node."""
        self.kind.append(kind)
        self.below.append(list(below))
        self.log_weight.append(list(log_weight))
        self.column.append(column)
        self.parameter.append(parameter)
        return len(self.kind) - 1

    def constant(self, log_value: float) -> int:
        self.constants.append(float(log_value))
        return -1 - len(self.constants)

    def as_node(self, number: int) -> int:
        """Number of a node with the value of what is numbered so."""
        return number if number >= 0 else self.add(CONSTANT, (), (), -1, (self.constants[-2 - number], 0.0, 0.0, 0.0))

    def product(self, below: Any) -> int:
        below = [int(c) for c in below]
        known = sum(self.constants[-2 - c] for c in below if c < 0)
        nodes = [c for c in below if c >= 0]
        if not nodes:
            return below[0] if len(below) == 1 else self.constant(max(known, NOTHING))
        if known != 0.0:
            nodes.append(self.as_node(self.constant(max(known, NOTHING))))
        return nodes[0] if len(nodes) == 1 else self.add(PRODUCT, nodes, [0.0] * len(nodes))

    def sum(self, below: Any, log_weight: Any) -> int:
        below, logs = [int(c) for c in below], [float(w) for w in log_weight]
        if len(below) == 1 and logs[0] == 0.0:
            return below[0]
        known = [self.constants[-2 - c] + w for c, w in zip(below, logs, strict=True) if c < 0]
        if known:
            top = max(known)
            constant = self.constant(max(top + math.log(sum(math.exp(log - top) for log in known)), NOTHING))
            if len(known) == len(below):
                return constant
            kept = [k for k, c in enumerate(below) if c >= 0]
            below = [*(below[k] for k in kept), self.as_node(constant)]
            logs = [*(logs[k] for k in kept), 0.0]
        return self.add(SUM, below, logs)

    def levels(self, column: int, log_p: np.ndarray) -> int:
        start = self.n_level
        self.level.append(np.maximum(log_p, -1e300))
        self.n_level += log_p.size
        return self.add(CATEGORICAL, (), (), column, (float(start), float(log_p.size), 0.0, 0.0))

    def leaves_over(
        self,
        family: EllipticalFamily,
        parameters: np.ndarray,
        columns: np.ndarray,
        rows: np.ndarray,
        asked: Sequence[int],
    ) -> list[int]:
        """Numbers of leaves (n, P) over columns (d,), given what is not NaN in rows (n, d).

        Parameters
        ----------
        asked : sequence of int
            Places of the columns that are asked; all others are at values or summed out. Rows have the same gaps.
        """
        logs = np.maximum(family.log_density_of_rows(parameters, rows), NOTHING)
        if not len(asked):
            return [self.constant(log) for log in logs]
        leaves = self.leaves_given(family, parameters, columns, rows, asked)
        if np.isnan(rows).all():
            return leaves
        return [self.product([self.constant(log), leaf]) for log, leaf in zip(logs, leaves, strict=True)]

    def leaves_given(
        self,
        family: EllipticalFamily,
        parameters: np.ndarray,
        columns: np.ndarray,
        rows: np.ndarray,
        asked: Sequence[int],
    ) -> list[int]:
        """Numbers of the laws of the columns that are asked, as `leaves_over`, without the densities of the values."""
        law, own = family.columns_of_rows(parameters, rows, asked)
        if isinstance(law, EllipticalFamily):
            return self._elliptical(law, own, columns[list(asked)])
        code, d = EXPLICIT[law.name].code, int(columns[asked[0]])
        return [self.add(code, (), (), d, BOXES[code].row(p)) for p in own]

    def _elliptical(self, family: EllipticalFamily, parameters: np.ndarray, columns: np.ndarray) -> list[int]:
        location, scale = family.location_and_scale(parameters)
        n, d = location.shape
        factor = np.linalg.inv(np.linalg.cholesky(scale))
        variance = np.diagonal(scale, axis1=1, axis2=2)
        dof = family.dof_of(parameters)[:, None]
        of_columns = np.swapaxes(factor, 1, 2)
        inverse = np.square(of_columns).sum(axis=2)
        shape = np.column_stack([dof, location, variance, inverse, of_columns.reshape(n, -1)])
        peak = family.log_density_of_rows(parameters, location)
        out = []
        for one, log in zip(shape, peak, strict=True):
            out.append(self.add(ELLIPTICAL, (), (), -1, (float(self.n_shape), float(self.n_several), float(d), log)))
            self.n_shape += one.size
        self.several.append(columns)
        self.shape.append(shape.ravel())
        self.n_several += d
        return out

    def finish(self) -> PackedCircuit:
        """The arrays; the last node added is the root."""
        return PackedCircuit(
            np.array(self.kind, np.int8),
            np.concatenate([[0], np.cumsum([len(b) for b in self.below])]).astype(np.int64),
            np.array([c for b in self.below for c in b], np.int64),
            np.array([w for b in self.log_weight for w in b], np.float64),
            np.array(self.column, np.int64),
            np.array(self.parameter, np.float64).reshape(-1, 4),
            np.concatenate([*self.level, np.zeros(0)]),
            np.concatenate([*self.several, np.zeros(0, np.int64)]).astype(np.int64),
            np.concatenate([*self.shape, np.zeros(0)]),
        )


def rooted(builder: CircuitPacker, root: int) -> PackedCircuit:
    """The packed circuit, its root last."""
    root = builder.as_node(root)
    if root != len(builder.kind) - 1:
        builder.add(SUM, [root], [0.0])
    return builder.finish()
