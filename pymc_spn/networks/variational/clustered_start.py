"""Where coordinate ascent starts: recursive k-means through all regions, down to the leaves."""

import math

import numpy as np

from pymc_spn.gibbs.starts import MIN_ROWS, among_kinds, cluster_regions
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.variational.active_tree import tree_of_digits


def clustered_tree(structure, compiled, coded, max_children, rng):
    """Active tree and each row's edges (N, R): every sum node's rows are clustered on the node's columns.

    Ascent can only empty children and never opens one, so it starts with all that it may need. Each node that holds
    enough rows has up to `max_children` of them (up to its width if that is less). The more rows the table
    has, the more a node needs: fits that begin with many small groups end at lower bounds, and later. Columns of levels
    get one leaf in a node, since a mixture of such leaves is one leaf, unless their palette has several entries.
    """
    n_entries = np.diff(compiled.entry_ptr)[structure.leaf_column]
    n_options = structure.n_options(np.diff(compiled.entry_ptr))
    at_most = np.maximum(max_children, n_options)
    copies = np.where(
        structure.n_children > 0, np.minimum(np.maximum(structure.n_children, n_options), at_most), at_most
    )
    one_leaf = (compiled.family[compiled.entry_ptr[structure.leaf_column]] == CATEGORICAL) & (n_entries == 1)
    copies[structure.leaf_region[one_leaf]] = 1
    min_rows = max(MIN_ROWS, math.isqrt(len(coded)))
    digits = cluster_regions(structure, compiled, coded, copies, np.ones(structure.n_regions, np.int64), rng, min_rows)
    return tree_of_digits(structure, compiled, among_kinds(structure, compiled, digits))
