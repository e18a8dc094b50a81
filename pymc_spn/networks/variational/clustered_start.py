"""Where coordinate ascent starts: recursive k-means through all regions, down to the leaves."""

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.networks.gibbs.sampler import Sampler
from pymc_spn.networks.gibbs.starts import cluster_regions
from pymc_spn.networks.variational.active_tree import read_network


def clustered_tree(structure, compiled, coded, max_children, rng):
    """Active tree and hard assignments: every sum node's rows are clustered on the node's columns.

    Ascent can only empty children and never opens one, so it starts with all that it may need: each node has up to
    `max_children` of them (up to its width where that is less) as long as they hold four rows each. Columns of levels
    get one leaf in a node, since a mixture of such leaves is one leaf, unless their palette has several entries.
    """
    n_entries = np.diff(compiled.entry_ptr)[structure.leaf_column]
    n_options = structure.n_splits.copy()
    n_options[structure.leaf_region] = n_entries
    at_most = np.maximum(max_children, n_options)
    copies = np.where(
        structure.n_children > 0, np.minimum(np.maximum(structure.n_children, n_options), at_most), at_most
    )
    one_leaf = (compiled.family[compiled.entry_ptr[structure.leaf_column]] == CATEGORICAL) & (n_entries == 1)
    copies[structure.leaf_region[one_leaf]] = 1
    digits = cluster_regions(structure, compiled, coded, copies, np.ones(structure.n_regions, np.int64), rng)
    return tree_of_digits(structure, compiled, coded, digits)


def tree_of_digits(structure, compiled, coded, digits):
    """Active tree whose edges are those that the digits (N, R) occupy, and the statistics of these assignments."""
    sampler = Sampler(structure, compiled, coded)
    ones = np.ones(compiled.n_levels.size)
    sampler.set_hyperparameters(np.ones(2), ones, ones, ones)  # no statistics depend on them
    sampler.set_digits(digits)
    return read_network(sampler.net, structure, compiled)
