"""Leaves of a circuit from rows that are assigned to them: the maximisation step with assignments that are known."""

from collections.abc import Sequence

import numpy as np

from pymc_spn.circuits.estimation.fit_steps import ExpectationMaximisation, Expected
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import FITTED, IN_PART, Pooled, possible
from pymc_spn.leaves.explicit_leaves import FITS

# families of which leaves are made from rows alone
ASSIGNED = (*(f for f in FITTED if f not in IN_PART),)


def average_leaves(pooled: dict[str, Pooled]) -> dict[str, np.ndarray]:
    """Leaf parameters (n, p) by family, each leaf at the averages of its column."""
    return {
        family: FITS[family].leaves(own.mean, own.variance) if family in FITS else own.levels
        for family, own in pooled.items()
    }


def leaves_of_rows(
    ascent: ExpectationMaximisation, at: Parameterised, rows_of: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Leaf parameters (n, p) by family of largest posterior density given which rows are whose.

    Parameters
    ----------
    ascent : ExpectationMaximisation
        The circuit, the rows and the prior.
    at : Parameterised
        Leaves that those without rows keep where there is no prior; the results do not depend on them otherwise.
    rows_of : sequence of (n,) int64
        Rows of each leaf in node order. Cells that are missing, or that the family cannot take, are left out.

    Raises
    ------
    ValueError
        If the prior is too small for a leaf.
    """
    layout, families = ascent.layout, ascent.circuit.families
    moments, level_flow = np.zeros((3, layout.leaf_row.size)), np.zeros(at.flat.theta.size)
    row_flow = np.zeros((int(ascent.row_place.max(initial=-1)) + 1, len(ascent.values)))
    for k, rows in enumerate(rows_of):
        f, row = layout.leaf_family[k], layout.leaf_row[k]
        x = ascent.values[rows, layout.leaf_column[k]]
        taken = possible(families[f], x)
        x, own = x[taken], at.parameters[families[f]][row]
        if ascent.row_place[k] >= 0:
            row_flow[ascent.row_place[k], rows[taken]] = 1.0
        elif families[f] not in FITS:
            begin = at.flat.begin[f] + row * own.size
            level_flow[begin : begin + own.size] = np.bincount(x.astype(np.int64), minlength=own.size)
        else:
            moments[:, k] = FITS[families[f]].statistics(x, own)
    edge_flow = np.zeros(ascent.circuit.n_sum_edges)  # weights are not asked for
    return ascent.best_leaves(at, Expected(edge_flow, moments, level_flow, row_flow))
