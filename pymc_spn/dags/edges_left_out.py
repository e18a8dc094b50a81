"""Edges whose parent was left out of the candidates: what is answered of them, and what is refused."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.labelled_answers import Evidence
from pymc_spn.dags.parent_set_scores import ParentSetScores

if TYPE_CHECKING:
    import xarray as xr


def refuse_left_out(scores: ParentSetScores, evidence: Evidence) -> Evidence:
    """The evidence, if no present edge was left out as improbable.

    Raises
    ------
    ValueError
        It names the first edge that was.
    """
    if scores.outside is None:
        return evidence
    for child, mask in enumerate(evidence[0]):
        for parent in bits_of(mask & ~scores.candidate_sets[child]):
            if not np.isnan(scores.outside[parent, child]):
                one, other = scores.names[parent], scores.names[child]
                raise ValueError(
                    f"present names {one!r} -> {other!r}, but {one!r} is no candidate parent of {other!r} (its "
                    f"probability is about {scores.outside[parent, child]:.2g}); score more of them with "
                    "max_candidates="
                )
    return evidence


def with_left_out(scores: ParentSetScores, evidence: Evidence, edges: "xr.DataArray") -> "xr.DataArray":
    """Edge probabilities, with the estimates of edges that were left out and of which the evidence tells nothing."""
    if scores.outside is None:
        return edges
    told = [present | absent for present, absent in zip(*evidence, strict=True)]
    known = np.array([[mask >> j & 1 for mask in told] for j in range(scores.d)], bool)
    estimated = ~np.isnan(scores.outside) & ~known
    marks: dict[str, Any] = {"exactness": "monte-carlo"}
    if "mcse" in edges.attrs:
        marks["mcse"] = np.where(estimated, np.nan, edges.attrs["mcse"])
    return edges.copy(data=np.where(estimated, scores.outside, edges.values)).assign_attrs(marks)
