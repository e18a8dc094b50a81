"""Rows of a circuit that are not observed: the scales on which their columns move, and where a sampler starts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform

from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.leaves.elliptical_leaves import EllipticalFamily
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.leaf_family import UnivariateFamily


class LogColumns(Transform):
    """Logs of the columns that are at least 0; the others stay as they are."""

    name = "log_columns"

    def __init__(self, positive):
        self.positive = np.asarray(positive, np.int64)

    def forward(self, value, *inputs):
        at = value[..., self.positive]
        return pt.set_subtensor(at, pt.log(at))

    def backward(self, value, *inputs):
        at = value[..., self.positive]
        return pt.set_subtensor(at, pt.exp(at))

    def log_jac_det(self, value, *inputs):
        return value[..., self.positive].sum(axis=-1)


def refuse_masses(circuit: Circuit) -> None:
    for d, family in _families_of_columns(circuit):
        if not family.is_density:
            raise ValueError(
                f"a CircuitDensity that is not observed needs densities in all columns, "
                f"{circuit.names[d]!r} has a {family.name} leaf"
            )


def _families_of_columns(circuit: Circuit) -> Iterator[tuple[int, UnivariateFamily]]:
    """Every leaf's columns, each with the family of its law under the leaf."""
    for leaf in circuit.leaves.tolist():
        family = LEAF_FAMILIES[circuit.families[circuit.leaf_family[leaf]]]
        yield from zip(circuit.columns_of(leaf), family.column_families, strict=True)


def positive_columns(circuit: Circuit) -> np.ndarray:
    """Columns all of whose leaves live on values of at least 0."""
    low = np.full(len(circuit.columns), np.inf)
    for d, family in _families_of_columns(circuit):
        low[d] = min(low[d], family.lowest)
    return np.flatnonzero(low == 0.0)


def typical_row(circuit: Circuit, theta: Any) -> Any:
    """Mean over each column's leaves of their location, as a start for a sampler; of no use for columns of masses."""
    layout, wide = layout_of(circuit)
    total = pt.zeros(len(circuit.columns))
    n_leaves = [circuit.leaves_of(name).size for name in circuit.families]
    widths: list[int | None] = [getattr(LEAF_FAMILIES[name], "n_parameters", None) for name in circuit.families]
    n_known = sum(n * (width or 0) for n, width in zip(n_leaves, widths, strict=True))
    first = 0
    for f, name in enumerate(circuit.families):
        at = layout.leaf_family == f
        n = n_leaves[f]
        if n == 0:
            continue
        width = widths[f] or (theta.shape[0] - n_known) // n  # categorical leaves alone have any
        own = theta[first : first + n * width].reshape((n, width))
        family = LEAF_FAMILIES[name]
        place = getattr(family, "location", None)
        if isinstance(family, EllipticalFamily):
            location = own[layout.leaf_row[at], len(family.first_names) + wide.place[at]]
        else:
            location = own[:, 0] if place is None else place(pt, own)
        total = pt.inc_subtensor(total[layout.leaf_column[at]], location)
        first += n * width
    return total / np.bincount(layout.leaf_column, minlength=len(circuit.columns))
