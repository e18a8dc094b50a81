"""What ``pm.sample`` recorded of networks, graphs and trees: which a tree of data holds, and as labelled arrays."""

from os import PathLike
from typing import TYPE_CHECKING

from pymc_spn.dags.mcmc_posterior import DAGS
from pymc_spn.indian_chefs.graph_records import GRAPHS
from pymc_spn.indian_chefs.graph_records import NETWORKS as BELIEF_NETWORKS
from pymc_spn.networks.records.record import NETWORKS
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.records.structure_records import StructureRecord
from pymc_spn.tables.tree_files import hint_of_groups, reading
from pymc_spn.trees.record import TREES

if TYPE_CHECKING:
    import xarray as xr

RECORDS: tuple[StructureRecord, ...] = NETWORKS, DAGS, GRAPHS, BELIEF_NETWORKS, TREES
NOTHING = (
    "holds no sum-product network, graph, belief network or decision tree that pm.sample drew: no variable "
    "<name>_schema, <name>_graph_schema, <name>_network_schema or <name>_tree_schema in constant_data with the draws "
    "that belong to it in sample_stats"
)


def sampled_structures(idata: "xr.DataTree") -> dict[str, StructureRecord]:
    """The record of each structure whose draws a tree of data holds, by the structure's name."""
    return {name: record for record in RECORDS for name in record.names(idata)}


def whole_structures(idata: "xr.DataTree") -> list[str]:
    """Names of the structures that are no part of another, such as the graph of a belief network."""
    found = sampled_structures(idata)
    parts = {part for name, record in found.items() for part in record.parts(idata, name)}
    return [name for name in found if name not in parts]


def unpack(idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "xr.DataTree":
    """Return a copy of a result with its recorded structures as labelled arrays.

    Parameters
    ----------
    idata : DataTree or path
        Result of ``pm.sample``; not changed.
    name : str, optional
        Name of one variable of the model; all by default.

    Returns
    -------
    DataTree
        With a group ``<name>`` for each structure, in place of its raw record in ``sample_stats``:

        * `SPN`: ``digits`` (chain, record, row, region), the number of the child that each row takes in each region, -1
          where all its cells are missing. ``draw`` is the draw of each record. The digit of a single column modulo its
          number of leaf families is the number of its leaf's family.
        * `DagOrder`, `DagPartition`: ``graphs`` (chain, draw, parent, child) bool, and ``order`` or ``partition``
          (chain, draw, variable).
        * `IndianChefsProcess`: ``n_nodes`` (chain, draw), ``graphs`` (chain, draw, parent, child) bool and
          ``reputations`` (chain, draw, node), NaN where there is no node.
        * `NLGBN`, `LinearGaussianNetwork`, `SigmoidBeliefNetwork`: ``weights`` (chain, draw, parent, child), ``biases``
          and ``precisions`` (chain, draw, node), NaN where there is no node; its graph is unpacked with it.
        * `DecisionTree`: ``n_nodes`` (chain, draw), ``decisions`` (chain, draw, node, term) and ``child`` (chain, draw,
          node, side), nodes in breadth-first order. ``feature`` is -1 for a leaf and -2 beyond the last node, cuts lie
          between the training values of ranks ``low`` and ``high``.

        The ``from_idata`` of each family's class reads this copy like the original.

    Raises
    ------
    ValueError
        If there is no such structure, or no complete record of it.

    Examples
    --------
    >>> ps.unpack(dag_idata)["graph"]["graphs"].dims
    ('chain', 'draw', 'parent', 'child')
    """
    with reading(idata) as tree:
        found = sampled_structures(tree)
        if not found:
            raise ValueError(f"the tree {NOTHING}" + hint_of_groups(tree))
        if name is not None and name not in found:
            raise ValueError(f"name must be one of {sorted(found)}, got {quoted(name)}")
        for chosen in found if name is None else [name]:
            tree = found[chosen].unpack(tree, chosen)
        return tree
