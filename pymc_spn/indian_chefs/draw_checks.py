"""Whether stored graphs of unknown size, and the parameters of networks on them, can be what was recorded."""

from typing import Any

import numpy as np

from pymc_spn.tables.stored_arrays import checked, refuse


def checked_room(max_nodes: Any, observed_nodes: tuple[Any, ...]) -> int:
    """Largest number of nodes; the observed ones have distinct names and room."""
    if not observed_nodes or {type(n) for n in observed_nodes} != {str}:
        refuse("the observed nodes", "be strings, at least one", observed_nodes)
    if len(set(observed_nodes)) < len(observed_nodes):
        refuse("the observed nodes", "be distinct", observed_nodes)
    return int(checked("max_nodes", max_nodes, (), len(observed_nodes), np.iinfo(np.int32).max, whole=True))


def check_packed(record: np.ndarray, length: int, bits: int, room: int) -> None:
    """Refuse packed graphs (chain, draw, 1 + K + K W) that hold something else than numbers of nodes and sets."""
    checked("packed graphs", record, (None, None, length))
    checked("packed graphs: numbers of nodes", record[..., 0], (None, None), 0, room, whole=True)
    words = record[..., 1 + room :]
    checked("packed graphs: sets of parents", words, (None, None, None), 0, 2.0**bits - 1.0, whole=True)


def check_graphs(counts: np.ndarray, places: np.ndarray, parents: np.ndarray, n_observed: int, room: int) -> None:
    """Refuse graphs with too many nodes, an edge from or to none, or one that does not lead downwards.

    Parameters
    ----------
    counts : (chain, draw)
    places : (chain, draw, K)
        Reputations, NaN where there is no node.
    parents : (chain, draw, K, K)
    n_observed, room : int
    """
    checked("n_nodes", counts, (None, None), n_observed, room, whole=True)
    checked("reputations", places, (*counts.shape, room), 0.0, 1.0, gaps=True)
    if parents.shape != (*counts.shape, room, room):
        refuse("graphs", f"have the shape {(*counts.shape, room, room)}", parents.shape)
    is_node = np.arange(room) < counts[..., None]
    if (np.isnan(places) == is_node).any():
        refuse("reputations", "be numbers for the nodes of each draw and NaN behind them", "others")
    with np.errstate(invalid="ignore"):
        upwards = parents.astype(bool) & ~(places[..., :, None] > places[..., None, :])
    if upwards.any():
        where = tuple(map(int, np.argwhere(upwards)[0]))
        refuse("graphs", "have edges from a higher reputation to a lower one", f"another at {where}")


def check_parameters(parameters: np.ndarray, graphs: Any, n_columns: int, room: int) -> None:
    """Refuse parameters (chain, draw, (K + 2) K) of other graphs, or that are not numbers.

    Parameters
    ----------
    graphs : GraphDraws
    n_columns, room : int
        Of the network.
    """
    n_observed = len(graphs.schema.observed_nodes)
    if (n_columns, room) != (n_observed, graphs.schema.max_nodes):
        found = f"{n_columns} columns and room for {room} nodes"
        refuse("the network", f"fit its graph of {n_observed} and {graphs.schema.max_nodes}", found)
    shape = *graphs.counts.shape, (room + 2) * room
    table = checked("the network's parameters", parameters, shape).reshape(*shape[:2], room + 2, room)
    is_node = np.arange(room) < graphs.counts[..., None]
    if ((table[..., room + 1, :] > 0.0) != is_node).any() or (table[..., room + 1, :] < 0.0).any():
        refuse("the network's precisions", "be positive for the nodes of each draw and 0 behind them", "others")
    if ((table[..., :room, :] != 0.0) & ~graphs.parents).any():
        refuse("the network's weights", "be 0 where the graph has no edge", "others")


def check_scaling(scaling: Any, columns: tuple[str, ...]) -> None:
    """Refuse a map to the unit interval that is none of these columns."""
    n = len(columns)
    ends = [checked(f"{k} of the scaling", getattr(scaling, k), (n,)) for k in ("minimum", "maximum")]
    low, high = (float(checked(f"{k} of the scaling", getattr(scaling, k), (), 0.0, 1.0)) for k in ("low", "high"))
    if not (ends[0] < ends[1]).all() or not 0.0 < low < high < 1.0 or tuple(scaling.columns) != columns:
        refuse("the scaling", f"take the columns {list(columns)} into the unit interval", scaling)
