"""Order posteriors as one netCDF file."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.dag_posterior import DagPosterior
from pymc_spn.dags.labelled_answers import Evidence
from pymc_spn.dags.order_paths import OrderPaths
from pymc_spn.dags.order_spn import OrderSPN
from pymc_spn.dags.prefix_lattice import MOST_VARIABLES as MOST_IN_ALL_PREFIXES
from pymc_spn.dags.prefix_lattice import PrefixLattice
from pymc_spn.dags.regular_tree import RegularTree, TreePaths
from pymc_spn.dags.stored_scores import bit_sets, parts_of_scores, scores_of_parts
from pymc_spn.tables.stored_arrays import checked, json_of, refuse

if TYPE_CHECKING:
    import xarray as xr

SAVED = "order_spn"  # attribute that marks the file
IMPUTED = "imputed_dag_posterior"  # that of a file of several, one for each imputed table
KINDS = ("exact", "regular", "orders")


def to_tree(post: OrderSPN) -> "xr.DataTree":
    """Scores, support and evidence."""
    import xarray as xr

    data, fields = parts_of_scores(post.scores)
    if isinstance(post._lattice, TreePaths):
        tree = post._lattice.tree
        data["splits"], data["ptr"] = (("product",), tree.scope[1::2]), (("node",), tree.ptr)
    elif isinstance(post._lattice, OrderPaths):
        paths = post._lattice
        data["orders"] = (("chain", "draw", "place"), paths.orders)
        data["log_starts"] = (("order",), paths.log_starts)
        data["mixing"] = (("figure",), [paths.r_hat, paths.size, paths.log_unit_error])
    elif post._lattice is not None:
        data["prefixes"] = (("prefix",), post._lattice.masks)
    fields |= {
        "kind": post.kind,
        "evidence": [list(masks) for masks in post.evidence],
        "coverage": post._measured,
        "class": type(post).__name__,
        "seed": getattr(post, "_seed", 0),
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
    fields = json_of(tree.attrs[SAVED], f"attribute {SAVED!r}")
    arrays = {str(name): values.values for name, values in tree.dataset.data_vars.items()}
    scores = scores_of_parts(arrays, fields)
    names = scores.names
    if fields["kind"] not in KINDS:
        refuse("the kind of support", f"be one of {KINDS}", fields["kind"])
    lattice: PrefixLattice | None = None
    if "splits" in arrays:
        splits = bit_sets("splits", arrays["splits"], len(names))
        ptr = checked("ptr", arrays["ptr"], (2 * splits.size + 2,), 0, splits.size, whole=True)
        if ptr[0] != 0 or ptr[-1] != splits.size or (np.diff(ptr) < 0).any():
            refuse("ptr", f"rise from 0 to the number of splits, {splits.size}", ptr.tolist())
        lattice = RegularTree.from_splits(names, splits, ptr).paths
    elif "orders" in arrays:
        lattice = _paths(arrays, len(names))
    elif "prefixes" in arrays:
        masks = bit_sets("prefixes", arrays["prefixes"], len(names))
        lattice = PrefixLattice.closed_under(scores.precede_sets, masks.size)
        if lattice is None or not np.array_equal(lattice.masks, masks):
            refuse("the prefixes", "be those that knowledge allows", masks)
    elif fields["kind"] != "exact" or len(names) > MOST_IN_ALL_PREFIXES:
        refuse("the support", f"be stored, unless it is exact and of at most {MOST_IN_ALL_PREFIXES} variables", "none")
    measured = fields.get("coverage")
    if measured is not None:
        checked("coverage", measured, (2,), 0.0)
        measured = tuple(map(float, measured))
    made_by = DagPosterior if fields.get("class") == "DagPosterior" else OrderSPN
    post = made_by(scores, lattice, fields["kind"], _evidence(fields["evidence"], len(names)), None, measured)
    if isinstance(post, DagPosterior):
        post._seed = fields.get("seed", 0)
        if type(post._seed) is not int or not 0 <= post._seed < 2**63:
            refuse("the seed", "be a whole number from 0 to 2**63 - 1", post._seed)
    return post


def _paths(arrays: dict[str, np.ndarray], d: int) -> OrderPaths:
    """Sampled orders, with the factors of their paths."""
    orders = checked("orders", arrays["orders"], (None, None, d), 0, d - 1, whole=True)
    if (np.sort(orders, axis=-1) != np.arange(d)).any() or not orders.size:
        refuse("orders", f"hold each of {d} variables once", "others")
    starts = checked("log_starts", arrays["log_starts"], (orders.shape[0] * orders.shape[1],))
    r_hat, size, error = checked("mixing", arrays["mixing"], (3,), 0.0, gaps=True).tolist()
    return OrderPaths.of(orders, -starts - np.log(starts.size), (r_hat, size), 0.0, error)


def _evidence(stored: Any, d: int) -> Evidence:
    """Present and absent parents of each child, as bits."""
    if not isinstance(stored, list) or len(stored) != 2 or not all(isinstance(masks, list) for masks in stored):
        refuse("the evidence", "be sets of present and of absent parents", stored)
    present, absent = map(tuple, stored)
    for masks in (present, absent):
        if len(masks) != d:
            refuse("the evidence", f"have a set of parents for each of {d} variables", len(masks))
        for i, mask in enumerate(masks):
            if type(mask) is not int or not 0 <= mask < 1 << d or mask >> i & 1:
                refuse("the evidence", f"be sets of {d} variables without the child, as bits", mask)
    return present, absent
