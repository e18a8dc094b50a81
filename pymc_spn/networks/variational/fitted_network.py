"""A variational fit as a network that the kernels of the queries evaluate.

The kernels know integer counts and priors; a fit has fractional counts. Both are the same to a query: every leaf of
the fit gets a palette entry of its own, whose prior is the leaf's variational posterior, and holds no data. Weights are
explicit. What a sum node leaves to its unoccupied children stands as one more child, an empty product or a leaf with
its prior. So a node that holds anything is full. Where children may be leaves over several columns, here or below,
there is one such child for each kind, as the values of unoccupied ones differ. Leaves over several columns keep their
fractional numbers of rows. Nodes have width 1, and all their children's weights add up to the concentration.
"""

import numpy as np

from pymc_spn.gibbs.family_kernels import is_located, posteriors, predictive_of
from pymc_spn.gibbs.joint_leaves import refresh_joint, set_psi0, statistics_of
from pymc_spn.gibbs.joint_statistics import joint_scales
from pymc_spn.gibbs.network import GENERAL, LEVELS, build_network, level_counts, prior_slots
from pymc_spn.gibbs.occupancy import clear, set_hyperparameters
from pymc_spn.gibbs.statistics import entry_priors
from pymc_spn.networks.variational.active_tree import edges_of
from pymc_spn.networks.variational.weights import mean_weights, rest_of_entries
from pymc_spn.numerics.elementary import half_step_log_gamma
from pymc_spn.numerics.kernel_options import kernel


def fitted_network(structure, compiled, tree, statistics, hyperparameters):
    """Network whose predictive is the expectation of the density of a row under q(weights) q(leaf parameters).

    Every weight and every leaf parameter occurs once in a row's density and they are independent under q. So the
    expectation is a sum-product network of mean weights and leaf predictives.
    """
    concentration, *leaf_hyperparameters, covariance_scale = hyperparameters
    prior = entry_priors(compiled, *leaf_hyperparameters)
    weight, remainder = mean_weights(tree, statistics.edge_count, concentration)
    n_prior = prior_slots(structure, compiled)
    edges = [
        _with_rest(tree, r, *found, weight, remainder, concentration, n_prior[r])
        for r, found in enumerate(edges_of(tree))
    ]
    capacity = np.array([node.size for node, *_ in edges]) + n_prior + 1
    net = build_network(structure, compiled, 0, capacity)
    clear(net)
    net.tree.width[:] = 1
    net.palette.copies[:] = 1
    set_hyperparameters(net, concentration, prior)
    net.masses.share[:] = np.where(net.tree.column < 0, net.masses.total, 0.0)
    net = _with_own_entries(net, tree, statistics)
    first_own = net.palette.entry_source.size - tree.leaf_family.size
    if net.joints is not None:
        set_psi0(net.joints, joint_scales(compiled.joint_constants, covariance_scale)[net.joints.column])
    for r, (node, option, share, edge) in enumerate(edges):
        d = net.tree.column[r]
        above = structure.parent[r]
        n_nodes = 1 if r == 0 else n_prior[above] + edges[above][0].size
        node = node if r == 0 else n_prior[above] + node
        local = n_prior[r] + np.arange(node.size)  # behind the prior slots
        slots = net.edges.begin[r] + local
        _link(net, r, node, local)
        net.edges.weight[slots] = share * net.masses.total[r]
        is_full = np.bincount(node, minlength=n_nodes) > 0
        net.nodes.n_edges[net.nodes.begin[r] + np.arange(n_nodes)] = is_full
        if d < 0:
            net.edges.split[slots] = option
            if net.joints is not None:
                _put_joints(net, tree, statistics, r, local, edge)
            continue
        held = edge >= 0
        leaves = tree.leaf[edge[held]]
        net.leaves.entry[slots] = net.palette.entry_ptr[d] + option
        net.leaves.entry[slots[held]] = first_own + leaves
        begin = net.nodes.occupied_begin[d]
        net.nodes.occupied[begin : begin + n_nodes * n_prior[r]] = np.repeat(is_full, n_prior[r])
        if net.palette.n_levels[d] > 0:
            at = tree.level_ptr[leaves][:, None] + np.arange(net.palette.n_levels[d])
            level_counts(net, d)[:, local[held]] = statistics.levels[at].T
        else:
            _set_predictives(net, slots)
    return net


def _put_joints(net, tree, statistics, r, local, edge):
    """Statistics and predictives of a region's leaves over several columns in the slots of its edges, -1 new ones."""
    joints, (_, sums, products) = net.joints, statistics_of(net, r)
    for slot, e in zip(local.tolist(), edge.tolist(), strict=True):
        if net.edges.split[net.edges.begin[r] + slot] != joints.split[r]:
            continue
        n, i = 0.0, -1
        if e >= 0:
            n, i = statistics.edge_count[e], tree.joint[e]
            sums[slot] = statistics.sums[tree.sums_ptr[i] : tree.sums_ptr[i + 1]]
            products[slot] = statistics.products[tree.products_ptr[i] : tree.products_ptr[i + 1]]
        put_joint(joints, r, slot, n)


@kernel
def put_joint(joints, r, slot, n):
    """`refresh_joint` for a number of rows that need not be whole."""
    refresh_joint(joints, r, slot, n)


def _with_rest(tree, r, node, option, weight, remainder, concentration, n_prior):
    """Edges of a region with a child more for what each node leaves to others: node, option, share, edge or -1.

    With prior slots there is a child for each of their kinds.
    """
    own = slice(tree.edge_begin[r], tree.edge_begin[r + 1])
    rest = remainder[tree.node_begin[r] : tree.node_begin[r + 1]]
    reached = np.unique(node)
    if tree.place[r] < 0:
        shares = np.repeat(rest[:, None] / max(n_prior, 1), max(n_prior, 1), axis=1)
    else:
        shares = rest_of_entries(tree, r, concentration[1], rest)
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
    posteriors(family, n, s1, s2, net.palette.prior[_first_of(net, tree)], posterior)
    kind = net.palette.column_kind
    palette = net.palette._replace(
        column_kind=np.where(kind == LEVELS, GENERAL, kind),  # the totals differ from leaf to leaf
        entry_source=np.concatenate([net.palette.entry_source, tree.leaf_entry]),
        family=np.concatenate([net.palette.family, family]),
        copies=np.concatenate([net.palette.copies, np.ones(n.size, np.int64)]),
        prior=np.concatenate([net.palette.prior, posterior]),
    )
    masses = net.masses._replace(
        entry=np.concatenate([net.masses.entry, np.zeros(n.size)]),
        entry_share=np.concatenate([net.masses.entry_share, np.zeros(n.size)]),
    )
    return net._replace(palette=palette, masses=masses)


def _first_of(net, tree):
    """Entry (L,) of the network from which each leaf of the fit takes its prior."""
    return net.palette.entry_ptr[tree.leaf_place] + tree.option[tree.leaf >= 0]


def _link(net, r, node, local):
    """Lists of the children of each node of a region."""
    begin = net.edges.begin[r]
    net.edges.top[r] = local[0] + local.size if local.size else net.edges.top[r]
    order = np.argsort(node, kind="stable")
    node, local = node[order], local[order]
    same_as_next = node[:-1] == node[1:]
    net.edges.node[begin + local] = node
    net.edges.following[begin + local] = np.append(np.where(same_as_next, local[1:], -1), -1)[: node.size]
    net.edges.preceding[begin + local] = np.insert(np.where(same_as_next, local[:-1], -1), 0, -1)[: node.size]
    is_first = np.insert(~same_as_next, 0, True)[: node.size]
    net.nodes.first[net.nodes.begin[r] + node[is_first]] = local[is_first]


def _set_predictives(net, slots):
    """What `refresh_leaf` writes for leaves without data, where whole numbers have the masses of their cells."""
    entry = net.leaves.entry[slots]
    found = np.empty((entry.size, 5))
    predictives(net.palette.family[entry], net.palette.prior[entry], found)
    (
        net.leaves.log_scale[slots],
        net.leaves.power[slots],
        net.leaves.centre[slots],
        net.leaves.curvature[slots],
        net.leaves.slope[slots],
    ) = found.T


@kernel
def predictives(family, posterior, out):
    """The five numbers (L, 5) of predictives, none of which is on levels."""
    for i in range(family.size):
        p = posterior[i]
        half_step = half_step_log_gamma(p[2]) if is_located(family[i]) else 0.0
        found = predictive_of(family[i], p[0], p[1], p[2], p[3], half_step, 0.0)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = found
