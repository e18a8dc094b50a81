"""Order posteriors as one netCDF file."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.order_spn import OrderSPN
from pymc_spn.dags.prefix_lattice import PrefixLattice
from pymc_spn.dags.regular_tree import RegularTree, TreePaths
from pymc_spn.dags.scores import GaussianMoments

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
SAVED = "order_spn"  # attribute that marks the file


def to_tree(post: OrderSPN) -> "xr.DataTree":
    """Scores, support and evidence."""
    import xarray as xr

    scores = post.scores
    data: dict[str, Any] = {
        "candidates": (("variable", "candidate"), scores.candidates),
        "n_candidates": (("variable",), scores.n_candidates),
        "log_scores": (("parent_set",), scores.log_scores),
        "must_precede": (("variable",), scores.must_precede),
    }
    if scores.gaussian is not None:
        moments = scores.gaussian
        shared = all(np.array_equal(moments.matrices[0], m) for m in moments.matrices[1:])
        data["scale_matrices"] = (("matrix", "row", "column"), moments.matrices[:1] if shared else moments.matrices)
        data["n_rows"] = (("variable",), moments.n_rows)
    if isinstance(post._lattice, TreePaths):
        tree = post._lattice.tree
        data["splits"], data["ptr"] = (("product",), tree.scope[1::2]), (("node",), tree.ptr)
    elif post._lattice is not None:
        data["prefixes"] = (("prefix",), post._lattice.masks)
    fields = {
        "format": FORMAT,
        "names": list(scores.names),
        "restricted": list(scores.restricted),
        "score": scores.score,
        "prior": scores.prior,
        "alpha_w": None if scores.gaussian is None else scores.gaussian.alpha_w,
        "kind": post.kind,
        "evidence": [list(masks) for masks in post.evidence],
        "coverage": post._measured,
    }
    return xr.DataTree(xr.Dataset(data, attrs={SAVED: json.dumps(fields)}))


def from_tree(tree: "xr.DataTree") -> OrderSPN:
    """Read a saved posterior.

    Raises
    ------
    ValueError
        If the tree is none, or was written by a newer version.
    """
    if SAVED not in tree.attrs:
        raise ValueError("this does not hold an OrderSPN")
    data = tree.dataset
    fields = json.loads(data.attrs[SAVED])
    if fields["format"] > FORMAT:
        raise ValueError(f"the OrderSPN has format {fields['format']}, this version reads up to {FORMAT}")
    names = tuple(fields["names"])
    gaussian = None
    if fields["alpha_w"] is not None:
        matrices = np.broadcast_to(data["scale_matrices"].values, (len(names),) * 3)
        gaussian = GaussianMoments(matrices, data["n_rows"].values, fields["alpha_w"])
    scores = LocalScores(
        names,
        data["candidates"].values,
        data["n_candidates"].values,
        data["log_scores"].values,
        data["must_precede"].values,
        tuple(fields["restricted"]),
        fields["score"],
        fields["prior"],
        gaussian,
    )
    lattice = PrefixLattice.of_prefixes(len(names), data["prefixes"].values) if "prefixes" in data else None
    if "splits" in data:
        lattice = RegularTree.from_splits(names, data["splits"].values, data["ptr"].values).paths
    present, absent = (tuple(masks) for masks in fields["evidence"])
    measured = fields.get("coverage")
    return OrderSPN(scores, lattice, fields["kind"], (present, absent), None, measured and tuple(map(float, measured)))
