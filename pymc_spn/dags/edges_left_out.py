"""Edges whose parent was left out of the candidates: what is answered of them, and what is refused."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.labelled_answers import Evidence
from pymc_spn.dags.order_sample import must_stand_before
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
                    f"present names {one!r} -> {other!r}, but {one!r} is not a candidate parent of {other!r} (its "
                    f"probability is about {scores.outside[parent, child]:.2g}); score more of them with "
                    "max_candidates="
                )
    return evidence


def with_left_out(post: Any, edges: "xr.DataArray") -> "xr.DataArray":
    """Edge probabilities of a posterior, with the estimates of edges that were left out and may still be there.

    The standard errors of these are not known, nor that of an edge that no sampled order allows.
    """
    scores, evidence = post.scores, post.evidence
    told = [present | absent for present, absent in zip(*evidence, strict=True)]
    possible = ~np.array([[mask >> j & 1 for mask in told] for j in range(scores.d)], bool)
    before = must_stand_before(post._leaf_tables)
    possible &= ~(scores.must_precede if before is None else before)  # of what stands in front nothing is a child
    mcse = edges.attrs.get("mcse")
    if mcse is not None:
        mcse = np.where(possible & (edges.values == 0.0) & (scores.slots.T >= 0), np.nan, mcse)
        edges = edges.assign_attrs(mcse=mcse)
    if scores.outside is None:
        return edges
    estimated = ~np.isnan(scores.outside) & possible
    mcse = np.where(estimated, np.nan, 0.0 if mcse is None else mcse)
    values = np.where(estimated, scores.outside, edges.values)
    return edges.copy(data=values).assign_attrs(exactness="monte-carlo", mcse=mcse)
