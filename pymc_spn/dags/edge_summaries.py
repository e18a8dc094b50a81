"""Edge probabilities summed up: as a table, and as one graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_spn.dags.dag import DAG
from pymc_spn.numerics.graph_pictures import without_circles
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import frame_of_kind


def table_of_edges(names: Sequence[str], edges: np.ndarray, mcse: Any, least: float, kind: str | None) -> Any:
    """Edges and their probabilities, most probable first.

    Parameters
    ----------
    names : sequence of str
        The d variables.
    edges : (d, d) float64
        Probabilities, parents by children.
    mcse : float or (d, d) float64
        Their standard errors.
    least : float
        Edges of smaller probability are left out.
    kind : {"polars", "pyarrow"} or None
        What the table is to be, None for pandas.

    Raises
    ------
    ValueError
        If `least` is not a number from 0 to 1.
    """
    import pandas as pd

    bound = _share("least", least)
    errors = np.broadcast_to(mcse, edges.shape)
    parents, children = np.nonzero(~np.eye(len(edges), dtype=bool) & (edges >= bound))
    best = np.argsort(-edges[parents, children], kind="stable")
    parents, children = parents[best], children[best]
    labels = np.array(names, object)
    columns = {
        "parent": labels[parents],
        "child": labels[children],
        "probability": edges[parents, children],
        "mcse": errors[parents, children],
        "reversed": edges[children, parents],
    }
    return frame_of_kind(pd.DataFrame(columns), kind)


def consensus_of_edges(names: Sequence[str], edges: np.ndarray, threshold: float) -> DAG:
    """The edges above a threshold, from the most to the least probable, without those that would close a cycle.

    Parameters
    ----------
    names : sequence of str
        The d variables.
    edges : (d, d) float64
        Probabilities, parents by children.
    threshold : float
        An edge must be more probable than that.

    Raises
    ------
    ValueError
        If `threshold` is not a number from 0 to 1.
    """
    return DAG(tuple(names), without_circles(edges, _share("threshold", threshold)))


def _share(argument: str, value: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{argument} must be a number from 0 to 1, got {quoted(value)}")
    return float(value)
