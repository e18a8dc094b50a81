"""An explicit circuit with its parameters, packed for the box search."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.tape import LEAF
from pymc_spn.circuits.evaluation.tape import SUM as SUM_NODE
from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.maxima.box_leaves import BOXES, PackedCircuit
from pymc_spn.maxima.circuit_packer import CircuitPacker, rooted


def packed_from_circuit(
    circuit: Any,
    log_weights: np.ndarray,
    leaf_parameters: Mapping[str, np.ndarray],
    points: Mapping[int, float],
    unasked: Any = (),
) -> PackedCircuit:
    """An explicit circuit, packed, columns at a point or summed out as constants."""
    builder = CircuitPacker()
    number = np.empty(circuit.n_nodes, np.int64)
    parameters = {}
    for name in circuit.families:
        for leaf, p in zip(circuit.leaves_of(name).tolist(), leaf_parameters.get(name, ()), strict=True):
            parameters[leaf] = np.asarray(p, np.float64)
    edge = np.cumsum(np.where(circuit.kind == SUM_NODE, np.diff(circuit.child_ptr), 0))
    weight = np.asarray(log_weights, np.float64)
    for i in range(circuit.n_nodes - 1, -1, -1):
        children = number[circuit.children_of(i)]
        if circuit.kind[i] == LEAF:
            name, d = circuit.families[circuit.leaf_family[i]], int(circuit.leaf_column[i])
            if i in circuit.further_columns:
                family, columns = LEAF_FAMILIES[name], np.array(circuit.columns_of(i))
                assert isinstance(family, EllipticalFamily)  # others have no bounds
                row = np.array([[points.get(c, np.nan) for c in columns.tolist()]])
                asked = [j for j, c in enumerate(columns.tolist()) if c not in points and c not in unasked]
                (number[i],) = builder.leaves_over(family, parameters[i][None], columns, row, asked)
            elif d in points:
                log = EXPLICIT[name].log_density(parameters[i], np.float64(points[d]))
                number[i] = builder.constant(max(float(log), -1e300))
            elif d in unasked:
                number[i] = builder.constant(0.0)
            else:
                number[i] = _explicit_leaf(builder, name, d, parameters[i])
        elif circuit.kind[i] == SUM_NODE:
            logs = weight[edge[i] - children.size : edge[i]]
            number[i] = builder.sum(children[logs > -np.inf], logs[logs > -np.inf])
        else:
            number[i] = builder.product(children)
    return rooted(builder, int(number[0]))


def _explicit_leaf(builder: CircuitPacker, name: str, d: int, p: np.ndarray) -> int:
    family = EXPLICIT[name]
    if family.probabilities is not None:
        with np.errstate(divide="ignore"):
            return builder.levels(d, np.log(family.probabilities(p)))
    return builder.add(family.code, (), (), d, BOXES[family.code].row(p))
