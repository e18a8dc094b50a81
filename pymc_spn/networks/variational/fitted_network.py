"""A variational fit as a network that the kernels of the queries evaluate.

The kernels know integer counts and priors; a fit has fractional counts. Both are the same to a query: every leaf of
the fit gets a palette entry of its own, whose prior is the leaf's variational posterior, and holds no data. Weights
are explicit: what a sum node leaves to its unoccupied children stands as one more child, an empty product or a leaf
with its prior, so a node that holds anything is full. Nodes have width 1, and all their children's weights add up to
the concentration.
"""

import numpy as np

from pymc_spn.networks.gibbs.family_kernels import is_located, posteriors, predictive_of
from pymc_spn.networks.gibbs.network import GENERAL, LEVELS, build_network
from pymc_spn.networks.gibbs.occupancy import clear, set_hyperparameters
from pymc_spn.networks.gibbs.statistics import entry_priors
from pymc_spn.networks.variational.active_tree import edges_of
from pymc_spn.networks.variational.weight_kernels import mean_weights, rest_of_entries
from pymc_spn.numerics.elementary import half_step_log_gamma
from pymc_spn.numerics.kernel_options import kernel


def fitted_network(structure, compiled, tree, statistics, hyperparameters):
    """Network whose predictive is the expectation of the density of a row under q(weights) q(leaf parameters).

    Every weight and every leaf parameter occurs once in a row's density and they are independent under q, so the
    expectation is a sum-product network of mean weights and leaf predictives.
    """
    concentration, *leaf_hyperparameters = hyperparameters
    prior = entry_priors(compiled, *leaf_hyperparameters)
    weight, remainder = np.empty(tree.option.size), np.empty(tree.node_ptr.size - 1)
    mean_weights(tree, statistics.edge_count, concentration, weight, remainder)
    edges = [
        _with_rest(structure, tree, r, *found, weight, remainder, concentration)
        for r, found in enumerate(edges_of(tree))
    ]
    n_entries = np.zeros(structure.n_regions, np.int64)
    n_entries[structure.leaf_region] = np.diff(compiled.entry_ptr)[structure.leaf_column]
    capacity = np.array([node.size for node, *_ in edges]) + n_entries + 1
    net = build_network(structure, compiled, 0, capacity)
    clear(net)
    net.width[:] = 1
    net.entry_copies[:] = 1
    set_hyperparameters(net, concentration[0], concentration[1], prior)
    net.share[:] = np.where(net.column < 0, net.mass, 0.0)
    net = _with_own_entries(net, tree, statistics)
    first_own = net.entry_source.size - tree.leaf_family.size
    n_nodes = np.array([1, *(edges[q][0].size for q in structure.parent[1:])], np.int64)
    for r, (node, option, share, edge) in enumerate(edges):
        d = net.column[r]
        local = n_entries[r] + np.arange(node.size)  # behind the prior slots
        slots = net.begin[r] + local
        _link(net, r, node, local)
        net.weight[slots] = share * net.mass[r]
        net.node_edges[net.node_begin[r] + np.arange(n_nodes[r])] = np.bincount(node, minlength=n_nodes[r]) > 0
        if d < 0:
            net.edge_split[slots] = option
            continue
        held = edge >= 0
        leaves = tree.leaf[edge[held]]
        net.entry[slots] = net.entry_ptr[d] + option
        net.entry[slots[held]] = first_own + leaves
        begin = net.occupied_begin[d]
        net.occupied[begin : begin + n_nodes[r] * n_entries[r]] = np.repeat(
            np.bincount(node, minlength=n_nodes[r]) > 0, n_entries[r]
        )
        if net.n_levels[d] > 0:
            cells = net.level_count[net.level_begin[d] :][: net.n_levels[d] * net.capacity[r]]
            at = tree.level_ptr[leaves][:, None] + np.arange(net.n_levels[d])
            cells.reshape(net.n_levels[d], -1)[:, local[held]] = statistics.levels[at].T
        else:
            _set_predictives(net, slots)
    return net


def _with_rest(structure, tree, r, node, option, weight, remainder, concentration):
    """Edges of a region with a child more for what each node leaves to others: node, option, share, edge or -1."""
    own = slice(tree.edge_begin[r], tree.edge_begin[r + 1])
    rest = remainder[tree.node_begin[r] : tree.node_begin[r + 1]]
    reached = np.unique(node)
    if tree.place[r] < 0:
        shares = rest[:, None]
    else:
        shares = np.empty((rest.size, int(tree.n_options[r])))
        rest_of_entries(tree, r, concentration[1], rest, shares)
    more_node = np.repeat(reached, shares.shape[1])
    more_option = np.tile(np.arange(shares.shape[1]), reached.size)
    more = shares[reached].ravel()
    keep = more > 0.0
    node = np.concatenate([node, more_node[keep]])
    option = np.concatenate([option, more_option[keep]])
    share = np.concatenate([weight[own], more[keep]])
    edge = np.concatenate([np.arange(own.start, own.stop), np.full(np.count_nonzero(keep), -1)])
    if tree.place[r] < 0:  # edges keep their numbers, which are those of the nodes below
        return node, option, share, edge
    order = np.argsort(node, kind="stable")
    return node[order], option[order], share[order], edge[order]


def _with_own_entries(net, tree, statistics):
    """The network with a palette entry for each leaf of the fit, whose prior is the leaf's posterior."""
    n, s1, s2 = statistics.edge_count[tree.leaf >= 0], statistics.s1, statistics.s2
    family = tree.leaf_family
    posterior = np.zeros((n.size, 4))
    posteriors(family, n, s1, s2, net.prior[_first_of(net, tree)], posterior)
    return net._replace(
        column_kind=np.where(
            net.column_kind == LEVELS, GENERAL, net.column_kind
        ),  # the totals differ from leaf to leaf
        entry_source=np.concatenate([net.entry_source, tree.leaf_entry]),
        entry_family=np.concatenate([net.entry_family, family]),
        entry_copies=np.concatenate([net.entry_copies, np.ones(n.size, np.int64)]),
        entry_mass=np.concatenate([net.entry_mass, np.zeros(n.size)]),
        entry_share=np.concatenate([net.entry_share, np.zeros(n.size)]),
        prior=np.concatenate([net.prior, posterior]),
    )


def _first_of(net, tree):
    """Entry (L,) of the network from which each leaf of the fit takes its prior."""
    return net.entry_ptr[tree.leaf_place] + tree.option[tree.leaf >= 0]


def _link(net, r, node, local):
    """Lists of the children of each node of a region."""
    begin = net.begin[r]
    net.top[r] = local[0] + local.size if local.size else net.top[r]
    order = np.argsort(node, kind="stable")
    node, local = node[order], local[order]
    same_as_next = node[:-1] == node[1:]
    net.node[begin + local] = node
    net.following[begin + local] = np.append(np.where(same_as_next, local[1:], -1), -1)[: node.size]
    net.preceding[begin + local] = np.insert(np.where(same_as_next, local[:-1], -1), 0, -1)[: node.size]
    is_first = np.insert(~same_as_next, 0, True)[: node.size]
    net.node_first[net.node_begin[r] + node[is_first]] = local[is_first]


def _set_predictives(net, slots):
    """What `refresh_leaf` writes for leaves without data, where whole numbers have the masses of their cells."""
    entry = net.entry[slots]
    found = np.empty((entry.size, 5))
    predictives(net.entry_family[entry], net.prior[entry], found)
    net.log_scale[slots], net.power[slots], net.centre[slots], net.curvature[slots], net.slope[slots] = found.T


@kernel
def predictives(family, posterior, out):
    """The five numbers (L, 5) of predictives, none of which is on levels."""
    for i in range(family.size):
        p = posterior[i]
        half_step = half_step_log_gamma(p[2]) if is_located(family[i]) else 0.0
        found = predictive_of(family[i], p[0], p[1], p[2], p[3], half_step, 0.0)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = found
