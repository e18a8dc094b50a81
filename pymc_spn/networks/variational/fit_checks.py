"""Whether stored arrays are a variational fit of a network, before kernels walk through its tree."""

from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.gibbs.joint_leaves import n_kinds
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.networks.variational.active_tree import active_tree, no_statistics
from pymc_spn.networks.variational.fit import VariationalFit
from pymc_spn.tables.stored_arrays import checked, refuse


def checked_fit(schema: Any, data: dict[str, np.ndarray]) -> VariationalFit:
    """The fit in stored arrays.

    Parameters
    ----------
    schema : NetworkSchema
    data : dict of arrays
        The fields of `VariationalFit`; ``bounds`` one after the other, ``n_steps`` the length of each.

    Raises
    ------
    ValueError
        If edges lead from nodes that are not there or to options that a region lacks, or a node that is reached has
        none. If statistics are negative, not numbers or of another length.
    """
    region, node, option = _edges(schema, data)
    ends = np.searchsorted(region, np.arange(schema.structure.n_regions + 1))
    edges = [(node[a:b], option[a:b]) for a, b in pairwise(ends)]
    there = no_statistics(active_tree(schema.structure, schema.compiled, edges))
    n_columns = len(schema.columns)
    steps = checked("n_steps", data["n_steps"], (None,), 1, data["bounds"].size, whole=True)
    if steps.size == 0 or steps.sum() != data["bounds"].size:
        refuse("n_steps", f"add up to the number of bounds, {data['bounds'].size}", steps.tolist())
    bounds = checked("bounds", data["bounds"], (None,))
    tiny = np.finfo(np.float64).tiny
    return VariationalFit(
        region=region,
        node=node,
        option=option,
        count=checked("count", data["count"], region.shape, 0.0),
        s1=checked("s1", data["s1"], there.s1.shape),
        s2=checked("s2", data["s2"], there.s2.shape, 0.0),
        levels=checked("levels", data["levels"], there.levels.shape, 0.0),
        sums=checked("sums", data["sums"], there.sums.shape),
        products=checked("products", data["products"], there.products.shape),
        hyperparameters={
            k: checked(k, data[k], (2 if k == "concentration" else n_columns,), tiny) for k in HYPERPARAMETERS
        },
        bounds=np.split(bounds, np.cumsum(steps)[:-1]),
        log_prior=float(checked("log_prior", data["log_prior"], ())),
        converged=checked("converged", data["converged"], steps.shape, 0, 1, whole=True).astype(bool),
    )


def _edges(schema: Any, data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Region, node and option (E,) of the edges."""
    structure = schema.structure
    n_options = n_kinds(structure, schema.compiled)
    region = checked("region", data["region"], (None,), 0, structure.n_regions - 1, whole=True)
    if (np.diff(region) < 0).any():
        refuse("region", "be in ascending order", region.tolist())
    node = checked("node", data["node"], region.shape, 0, max(region.size, 1) - 1, whole=True)
    option = checked("option", data["option"], region.shape, 0, whole=True)
    if (option >= n_options[region]).any():
        e = int(np.argmax(option >= n_options[region]))
        refuse("option", f"be below {n_options[region[e]]} in region {region[e]}", f"{option[e]} at edge {e}")
    ends = np.searchsorted(region, np.arange(structure.n_regions + 1))
    for r in range(structure.n_regions):
        own = node[ends[r] : ends[r + 1]]
        above = int(structure.parent[r])
        reached = np.zeros(1, np.int64)
        if r > 0:
            reached = np.flatnonzero(option[ends[above] : ends[above + 1]] == structure.split[r])
        if (np.diff(own) < 0).any() or not np.array_equal(np.unique(own), reached):
            refuse(f"node in region {r}", "rise over all nodes that the region above leads to", own.tolist())
        most = structure.n_children[r]
        if most > 0 and np.bincount(own, minlength=1).max() > max(most, n_options[r]):
            refuse(f"node in region {r}", f"have at most {max(most, n_options[r])} children each", own.tolist())
    return region, node, option
