"""Leaves of a circuit from rows that are assigned to them: the maximisation step with assignments that are known."""

from collections.abc import Callable, Sequence

import numpy as np

from pymc_spn.circuits.estimation.fit_steps import Ascent, Expected
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import BY_ROWS, Pooled, of_mean, possible


def _plain(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    return x.size, x.sum(), 0.0


def _gaussian(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    z = (x - own[0]) / own[1]
    return x.size, z.sum(), z @ z


def _log_normal(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    return _gaussian(np.log(x), own)


def _gamma(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    return x.size, np.log(x).sum(), x.sum()


def _beta(x: np.ndarray, own: np.ndarray) -> tuple[float, float, float]:
    return x.size, np.log(x).sum(), np.log1p(-x).sum()


# of cells and the leaf's parameters, as the moments in `expected_statistics`
MOMENTS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[float, float, float]]] = {
    "gaussian": _gaussian, "log_normal": _log_normal, "gamma": _gamma, "beta": _beta, "exponential": _plain,
    "poisson": _plain, "geometric": _plain, "bernoulli": _plain,
}  # fmt: skip
ASSIGNED = (*MOMENTS, *BY_ROWS, "categorical")  # families of which leaves are made from rows alone


def average_leaves(pooled: dict[str, Pooled]) -> dict[str, np.ndarray]:
    """Leaf parameters (n, p) by family, each leaf at the averages of its column."""
    return {
        family: own.levels if family == "categorical" else of_mean(family, own.mean, own.variance)
        for family, own in pooled.items()
    }


def leaves_of_rows(ascent: Ascent, at: Parameterised, rows_of: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Leaf parameters (n, p) by family of largest posterior density given which rows are whose.

    Parameters
    ----------
    ascent : Ascent
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
        elif families[f] == "categorical":
            begin = at.flat.begin[f] + row * own.size
            level_flow[begin : begin + own.size] = np.bincount(x.astype(np.int64), minlength=own.size)
        else:
            moments[:, k] = MOMENTS[families[f]](x, own)
    edge_flow = np.zeros(ascent.circuit.n_sum_edges)  # weights are not asked for
    return ascent.best_leaves(at, Expected(edge_flow, moments, level_flow, row_flow))
