"""Statistics of one tree that its log density needs, and the terms that simulate new responses."""

import numpy as np

from pymc_spn.trees.draws import TreeDraws
from pymc_spn.trees.predictives import mean_and_scatter


def log_density_state(draws: TreeDraws, ticket: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Head, depths, sizes and statistics for ``tree_log_joint``, of a posterior with one tree.

    The statistics of real responses are the mean of y and the scatter about it: both are of the data's scale.
    """
    depth, is_leaf = draws.depth, draws.decisions[:, 0] < 0
    stops, n_depths = depth[is_leaf & draws.free], int(depth.max()) + 1
    depths = np.stack([np.bincount(depth[~is_leaf], minlength=n_depths), np.bincount(stops, minlength=n_depths)])
    sizes = draws.nodes.size[is_leaf].astype(np.float64)
    statistics = _statistics_of_data(draws, is_leaf)
    head = np.array([ticket, float(draws.masses[0].sum())])
    return head, depths.astype(np.float64), sizes, statistics


def simulation_nodes(draws: TreeDraws) -> tuple[np.ndarray, np.ndarray]:
    """(n, 9) tree, feature, side, left, right, low, high, size, kind; and (n, s) statistics, of all nodes.

    Children are places within the table; statistics are those of the data, not centred.
    """
    flat = draws.flat
    kind = np.where(flat.feature >= 0, flat.kind[flat.feature], -1)
    table = np.column_stack(
        [draws.tree_of_node, flat.feature, flat.side, flat.left, flat.right, flat.low, flat.high, flat.size, kind]
    )
    return table.astype(np.float64), _statistics_of_data(draws, np.ones(len(draws.decisions), bool))


def _statistics_of_data(draws: TreeDraws, which: np.ndarray) -> np.ndarray:
    """(n, s) statistics of some nodes; of real responses the mean, which is not centred, and the scatter."""
    statistics, size = draws.nodes.statistics[which], draws.nodes.size[which]
    if draws.family.family == "real":
        mean, scatter = mean_and_scatter(size, statistics)
        statistics = np.column_stack([mean + draws.centre, scatter])
    return statistics
