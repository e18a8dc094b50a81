"""Drawn trees with all that their answers need: training data, family, weights; and their place in one file."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables import Column
from pymc_spn.tables.stored_arrays import checked, json_of, refuse
from pymc_spn.trees import draw_checks as checks
from pymc_spn.trees.features import Features, check_same_rows, make_rules
from pymc_spn.trees.forest_kernels import FlatTrees, fill_nodes
from pymc_spn.trees.leaf_kernels import Response
from pymc_spn.trees.leaves import (
    FAMILIES,
    LeafFamily,
    as_family,
    centre_of,
    family_from_json,
    family_to_json,
    make_response,
)
from pymc_spn.trees.split_kernels import CUT
from pymc_spn.trees.tree import Tree, depths, left_children

FORMAT = 2
GROUP = "tree_draws"
ARRAYS = {  # fields that a file has under the same names, with their dimensions
    "decisions": ("node", "term"),
    "begin": ("boundary",),
    "weights": ("tree",),
    "group": ("tree",),
    "draw": ("tree",),
    "parameters": ("tree", "parameter"),
    "rules": ("tree", "rule"),
}


def coded_problem(
    features: Features, X: Any, y: Any, family: Any, rules: tuple[Any, ...]
) -> tuple[dict[str, Any], LeafFamily]:
    """What all `TreeDraws` of a training table share, and the family with its levels and defaults.

    ``rules`` are alpha_s, beta_s, max_depth and min_size; they, the response and its rows are checked.
    """
    coded, family = as_family(family, y).code(y)
    check_same_rows(X, y, len(features.values), len(coded))
    limits = make_rules(*rules)
    common = {"name": "tree", "features": features, "y": coded, "family": family}
    return common | {"max_depth": limits.max_depth, "min_size": limits.min_size}, family


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """What the training rows say about every node of every tree."""

    size: np.ndarray
    statistics: np.ndarray


@dataclass(frozen=True, eq=False)
class TreeDraws:
    """Weighted trees, one after the other.

    Parameters
    ----------
    name : str
    features : Features
        The training table.
    y : (N,) float64
        The response, classes as codes.
    family : LeafFamily
        With its levels; its own numbers are not read.
    decisions : (n, 4) int32
    begin : (T + 1,) int64
    weights : (T,) float64
        Sum one over all, or over each island.
    group, draw : (T,) int64
        Chain or island of each tree, and its number there.
    parameters : (T, p) float64
        Parameters of the leaf family under which each tree was drawn.
    rules : (T, 2) float64
        alpha_s and beta_s.
    max_depth, min_size : int
        -1: no limit.
    log_evidence : (G,) or () float64, optional
        Estimates of the islands; the exact one; None for trees of chains.
    """

    name: str
    features: Features
    y: np.ndarray
    family: LeafFamily
    decisions: np.ndarray
    begin: np.ndarray
    weights: np.ndarray
    group: np.ndarray
    draw: np.ndarray
    parameters: np.ndarray
    rules: np.ndarray
    max_depth: int
    min_size: int
    log_evidence: np.ndarray | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.begin) - 1

    @property
    def levels(self) -> list | None:
        """Levels of a response of classes."""
        return None if self.family.levels is None else list(self.family.levels)

    @property
    def of_chains(self) -> bool:
        """Whether the trees are draws of Markov chains, and not weighted or independent ones."""
        return self.log_evidence is None

    @property
    def of_islands(self) -> bool:
        """Whether the trees are the weighted particles of islands."""
        return self.log_evidence is not None and self.log_evidence.ndim > 0

    @cached_property
    def response(self) -> Response:
        """Compiled response."""
        return make_response(self.family, self.y)

    @cached_property
    def centre(self) -> float:
        """What the statistics of a real response had subtracted."""
        return centre_of(self.family, self.y)

    def tree(self, t: int) -> Tree:
        """One of the trees."""
        return Tree(self.decisions[self.begin[t] : self.begin[t + 1]])

    @cached_property
    def nodes(self) -> TreeNodes:
        """Training rows of the nodes, counted once."""
        n = len(self.decisions)
        size, statistics = np.empty(n, np.int64), np.empty((n, self.response.n_statistics))
        self._fill(size, statistics, np.empty(0), np.empty(0, np.bool_))
        if size.min() < 1:
            refuse("every node of the trees", "hold a training row", f"none at node {int(np.argmin(size))}")
        return TreeNodes(size, statistics)

    @cached_property
    def masses(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) log prior mass of each split given that its node splits, and (n,) whether the rows could be split."""
        n = len(self.decisions)
        log_mass, can_split = np.empty(n), np.empty(n, np.bool_)
        self._fill(np.empty(n, np.int64), np.empty((0, self.response.n_statistics)), log_mass, can_split)
        return log_mass, can_split

    def _fill(self, *out: np.ndarray) -> None:
        fill_nodes(self.features.codes, self.response, read_only_view(self.decisions), self.begin, *out)

    @cached_property
    def tree_of_node(self) -> np.ndarray:
        """(n,) the tree to which each node belongs."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.begin))

    @cached_property
    def flat(self) -> FlatTrees:
        """Compiled form for routing new rows."""
        d, x, left = self.decisions, self.features.codes, left_children(self.decisions, self.begin)
        right = np.where(left >= 0, left + 1, -1)
        low, high = d[:, 1].astype(np.float64), d[:, 2].astype(np.float64)
        cut = (left >= 0) & (x.kind[d[:, 0]] == CUT)
        low[cut] = x.values[x.begin[d[cut, 0]] + d[cut, 1]]
        high[cut] = x.values[x.begin[d[cut, 0]] + d[cut, 2]]
        feature, side = d[:, 0].astype(np.int64), d[:, 3].astype(np.int64)
        return FlatTrees(self.begin, feature, side, left, right, low, high, self.nodes.size, x.kind)

    @cached_property
    def depth(self) -> np.ndarray:
        """(n,) depth of each node."""
        return depths(self.flat.left, self.begin[:-1])

    @cached_property
    def free(self) -> np.ndarray:
        """(n,) whether a node could be split, by its rows, its size and its depth."""
        free = self.masses[1] & (self.nodes.size >= max(self.min_size, 2))
        return free if self.max_depth < 0 else free & (self.depth < self.max_depth)

    @cached_property
    def log_joint(self) -> np.ndarray:
        """(T,) log prior of the tree plus log marginal likelihood of the response, in nats."""
        is_leaf = self.decisions[:, 0] < 0
        p = self.rules[self.tree_of_node, 0] * (1.0 + self.depth) ** -self.rules[self.tree_of_node, 1]
        terms = np.where(is_leaf, np.where(self.free, np.log1p(-p), 0.0), np.log(p) + self.masses[0])
        terms = terms + np.where(is_leaf, self.leaf_log_marginals, 0.0)
        return np.bincount(self.tree_of_node, terms, self.n_trees)

    @cached_property
    def leaf_log_marginals(self) -> np.ndarray:
        """(n,) log marginal likelihood of each node as a leaf."""
        from pymc_spn.trees.predictives import node_log_marginals

        return node_log_marginals(self)

    def only(self, decisions: np.ndarray, parameters: np.ndarray, rules: np.ndarray) -> "TreeDraws":
        """The posterior of a single tree of these data, under other parameters."""
        draws = replace(
            self,
            decisions=decisions,
            begin=np.array([0, len(decisions)]),
            weights=np.ones(1),
            group=np.zeros(1, np.int64),
            draw=np.zeros(1, np.int64),
            parameters=np.asarray(parameters, np.float64)[None],
            rules=np.asarray(rules, np.float64)[None],
            log_evidence=None,
        )
        draws.__dict__["response"] = self.response
        return draws

    # ---- one file
    @classmethod
    def checked(
        cls,
        table: tuple[Any, Any, Any, Any],
        family: Any,
        response: Any,
        nodes: tuple[Any, Any],
        parameters: Any,
        rules: Any,
        limits: tuple[Any, Any],
        **run: Any,
    ) -> "TreeDraws":
        """Draws from what a file holds; ValueError where they cannot be walked through.

        Parameters
        ----------
        table : columns, values, splits and weights of the features
        family, response, parameters, rules
            As the fields say.
        nodes : decisions and beginnings
        limits : max_depth and min_size
        run
            The other fields.
        """
        features = checks.checked_features(*table)
        y = checks.checked_response(family, response, len(features.values))
        decisions, begin = checks.checked_nodes(features, *nodes)
        n_trees = len(begin) - 1
        return cls(
            features=features,
            y=y,
            family=family_from_json(family, dict.fromkeys(FAMILIES[family["family"]].parameters, 1.0)),
            decisions=decisions,
            begin=begin,
            parameters=checks.checked_parameters(family, parameters, n_trees),
            rules=checks.checked_rules(rules, n_trees),
            max_depth=checks.checked_limit("max_depth", limits[0], -1),
            min_size=checks.checked_limit("min_size", limits[1], 1),
            **run,
        )

    def to_tree(self) -> xr.DataTree:
        """All of it as a DataTree with one group."""
        schema = {
            "format": FORMAT,
            "name": self.name,
            "columns": [c.to_json() for c in self.features.columns],
            "splits": self.features.splits,
            "family": family_to_json(self.family),
            "max_depth": self.max_depth,
            "min_size": self.min_size,
            "log_evidence": None if self.log_evidence is None else self.log_evidence.tolist(),
        }
        table: dict[str, Any] = {
            "features": (("row", "column"), self.features.values),
            "split_weights": ("column", self.features.weights),
            "response": ("row", self.y),
        }
        data = table | {name: (dims, getattr(self, name)) for name, dims in ARRAYS.items()}
        coords = {"column": self.features.names, "parameter": list(self.family.parameters)}
        return xr.DataTree.from_dict({"/" + GROUP: xr.Dataset(data, coords, {"schema": json.dumps(schema)})})

    @classmethod
    def from_tree(cls, tree: xr.DataTree) -> "TreeDraws":
        """Read what `to_tree` wrote; ValueError where it cannot be that."""
        data = tree[GROUP].dataset
        schema = json_of(data.attrs["schema"], f"attribute 'schema' of {GROUP}")
        if schema["format"] != FORMAT:
            raise ValueError(f"the trees have format {schema['format']}, not {FORMAT}: use the version that wrote them")
        columns, stored = tuple(Column.from_json(c) for c in schema["columns"]), {k: v.values for k, v in data.items()}
        n_trees, log_evidence = len(stored["begin"]) - 1, schema["log_evidence"]
        weights = checked("the weights of the trees", stored["weights"], (n_trees,), 0.0)
        if not weights.sum() > 0.0:
            refuse("the weights of the trees", "have a positive sum", weights.sum())
        for name in ("group", "draw"):  # which may be called anything
            if stored[name].shape != (n_trees,):
                refuse(f"{name} of the trees", f"have the shape {(n_trees,)}", stored[name].shape)
        if log_evidence is not None:
            shape = () if np.ndim(log_evidence) == 0 else (len(np.unique(stored["group"])),)
            log_evidence = checked("log_evidence of the trees", log_evidence, shape)
        return cls.checked(
            (columns, stored["features"], schema["splits"], stored["split_weights"]),
            schema["family"],
            stored["response"],
            (stored["decisions"], stored["begin"]),
            stored["parameters"],
            stored["rules"],
            (schema["max_depth"], schema["min_size"]),
            name=schema["name"],
            weights=weights,
            group=stored["group"],
            draw=stored["draw"],
            log_evidence=log_evidence,
        )
