"""Labelled answers, how questions about edges are read, and edge probabilities summed up."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.constraints import edge_list
from pymc_spn.dags.dag import DAG
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.graph_pictures import without_circles
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import frame_of_kind

if TYPE_CHECKING:
    import xarray as xr

Edges = Iterable[tuple[str, str]]
Given = Mapping[str, Edges]
Seed = int | np.random.Generator | None
Level = str | bool | float  # of a column with levels, or a number
Evidence = tuple[tuple[int, ...], tuple[int, ...]]  # by child: parents present, parents absent, as bits


def labelled(
    name: str, values: Any, coords: Mapping[str, Sequence[Any]], exactness: str, **attrs: Any
) -> "xr.DataArray":
    """DataArray with an exactness mark; no coords make a scalar."""
    import xarray as xr

    shared = _coordinates(tuple((dim, tuple(labels)) for dim, labels in coords.items()))
    return xr.DataArray(np.asarray(values), shared, list(coords), name, {"exactness": exactness, **attrs})


@lru_cache(64)
def _coordinates(labels: tuple[tuple[str, tuple[Any, ...]], ...]) -> Any:
    """Indices of dimensions; to make them takes longer than many an answer."""
    import xarray as xr

    return xr.Dataset(coords={dim: list(names) for dim, names in labels}).coords


def read_evidence(
    names: Sequence[str], present: Iterable[tuple[str, str]] | None, absent: Iterable[tuple[str, str]] | None
) -> Evidence:
    """Present and absent edges as bits.

    Raises
    ------
    ValueError
        If a name is unknown or an edge is present and absent at once.
    """
    here, gone = [0] * len(names), [0] * len(names)
    for parent, child in edge_list(names, present, "present"):
        here[child] |= 1 << parent
    for parent, child in edge_list(names, absent, "absent"):
        gone[child] |= 1 << parent
        if here[child] >> parent & 1:
            raise ValueError(f"{names[parent]!r} -> {names[child]!r} is present and absent at once")
    return tuple(here), tuple(gone)


def read_given(names: Sequence[str], given: Any) -> Evidence:
    """Evidence of a ``given={"present": [...], "absent": [...]}`` argument."""
    if given is None:
        return read_evidence(names, None, None)
    if not isinstance(given, Mapping) or set(given) - {"present", "absent"}:
        raise ValueError(f"given must be a mapping with the keys 'present' and 'absent', got {quoted(given)}")
    return read_evidence(names, given.get("present"), given.get("absent"))


def joined(first: Evidence, second: Evidence) -> Evidence:
    """Both; they may clash, and then no graph is left."""
    present = tuple(a | b for a, b in zip(first[0], second[0], strict=True))
    absent = tuple(a | b for a, b in zip(first[1], second[1], strict=True))
    return present, absent


def clashes(evidence: Evidence) -> bool:
    """Whether an edge is present and absent at once."""
    return any(a & b for a, b in zip(*evidence, strict=True))


def in_words(names: Sequence[str], evidence: Evidence) -> str:
    """Evidence as people read it, empty if there is none."""
    words = []
    for masks, mark in zip(evidence, ("", "not "), strict=True):
        for child, mask in enumerate(masks):
            if not mask:
                continue
            words += [f"{mark}{names[j]} -> {names[child]}" for j in range(len(names)) if mask >> j & 1]
    return ", ".join(words)


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
    if not is_real(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{argument} must be a number from 0 to 1, got {quoted(value)}")
    return float(value)
