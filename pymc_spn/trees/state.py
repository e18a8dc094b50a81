"""Statistics of one tree that its log density needs, and the terms that simulate new responses."""

from typing import Any

import numpy as np

from pymc_spn.trees.draws import TreeDraws
from pymc_spn.trees.features import Features
from pymc_spn.trees.tree import Tree


def one_tree(
    features: Features,
    y: np.ndarray,
    family: dict,
    tree: Tree,
    max_depth: int | None,
    min_size: int,
    numbers: Any,
    rules: Any,
) -> TreeDraws:
    """A posterior of a single tree, which knows its nodes."""
    return TreeDraws(
        name="tree",
        features=features,
        y=y,
        family=family,
        decisions=tree.decisions,
        begin=np.array([0, len(tree.decisions)], np.int64),
        weights=np.ones(1),
        group=np.zeros(1, np.int64),
        draw=np.zeros(1, np.int64),
        parameters=np.asarray(numbers, np.float64)[None],
        rules=np.asarray(rules, np.float64)[None],
        max_depth=-1 if max_depth is None else max_depth,
        min_size=min_size,
        notes={},
    )


def log_density_state(draws: TreeDraws, ticket: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Head, depths, sizes and statistics for ``tree_log_joint``, of a posterior with one tree.

    The statistics of real responses are the sum of y and the scatter round its mean: both are of the data's scale.
    """
    nodes, depth = draws.nodes, draws.depth
    log_mass, can_split = draws.masses
    is_leaf = draws.decisions[:, 0] < 0
    free = is_leaf & can_split & (nodes.size >= max(draws.min_size, 2))
    if draws.max_depth >= 0:
        free &= depth < draws.max_depth
    n_depths = int(depth.max()) + 1
    depths = np.stack([np.bincount(depth[~is_leaf], minlength=n_depths), np.bincount(depth[free], minlength=n_depths)])
    sizes = nodes.size[is_leaf].astype(np.float64)
    statistics = _statistics_of_data(draws, is_leaf)
    head = np.array([ticket, float(log_mass.sum())])
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
    """(n, s) statistics of some nodes; of real responses the sum, which is not centred, and the scatter."""
    statistics, size = draws.nodes.statistics[which], draws.nodes.size[which]
    if draws.family["family"] == "real":
        mean = statistics[:, 0] / size
        statistics[:, 1] = np.maximum(statistics[:, 1] - statistics[:, 0] * mean, 0.0)
        statistics[:, 0] = size * (mean + draws.centre)
    return statistics
