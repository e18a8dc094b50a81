"""Drawn trees with all that their answers need: training data, family, weights; and their place in one file."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables import Column
from pymc_spn.tables.stored_arrays import checked, json_of, refuse
from pymc_spn.trees import draw_checks as checks
from pymc_spn.trees.features import Features, check_same_rows, make_rules
from pymc_spn.trees.forest_kernels import FlatTrees, fill_masses, fill_nodes
from pymc_spn.trees.leaf_kernels import CLASSES, COUNTS, NORMAL, Response
from pymc_spn.trees.leaves import (
    FAMILIES,
    LeafFamily,
    as_family,
    centre_of,
    family_from_json,
    family_to_json,
    make_response,
)
from pymc_spn.trees.tree import Tree

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
GROUP = "tree_draws"


def coded_problem(
    features: Features, X: Any, y: Any, family: Any, rules: tuple[Any, ...]
) -> tuple[dict[str, Any], LeafFamily]:
    """What all `TreeDraws` of a training table share, and the family with its levels and defaults.

    ``rules`` are alpha_s, beta_s, max_depth and min_size; they, the response and its rows are checked.
    """
    coded, family = as_family(family, y).code(y)
    check_same_rows(X, y, len(features.values), len(coded))
    limits = make_rules(*rules)
    common = {"name": "tree", "features": features, "y": coded, "family": family_to_json(family)}
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
    family : dict
        From ``family_to_json``.
    decisions : (n, 4) int32
    begin : (T + 1,) int64
    weights : (T,) float64
        Sum one.
    group, draw : (T,) int64
        Chain or island of each tree, and its number there.
    parameters : (T, p) float64
        Parameters of the leaf family under which each tree was drawn.
    rules : (T, 2) float64
        alpha_s and beta_s.
    max_depth, min_size : int
        -1: no limit.
    notes : dict
        Numbers and texts of the run, kept as JSON.
    """

    name: str
    features: Features
    y: np.ndarray
    family: dict
    decisions: np.ndarray
    begin: np.ndarray
    weights: np.ndarray
    group: np.ndarray
    draw: np.ndarray
    parameters: np.ndarray
    rules: np.ndarray
    max_depth: int
    min_size: int
    notes: dict

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.begin) - 1

    @cached_property
    def leaf_family(self) -> LeafFamily:
        """The family; its numbers are those of the first tree."""
        return self.family_of(0)

    def family_of(self, tree: int) -> LeafFamily:
        """The family with the parameters of one tree."""
        names = self.parameter_names
        return family_from_json(self.family, dict(zip(names, map(float, self.parameters[tree]), strict=True)))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the columns of ``parameters``."""
        return FAMILIES[self.family["family"]].parameters

    @property
    def levels(self) -> list | None:
        """Levels of a response of classes."""
        if self.family["family"] == "binary":
            return [0, 1]
        return list(self.family["levels"]) if self.family["family"] == "classes" else None

    @property
    def kernel_family(self) -> int:
        """The family's number in the kernels."""
        return {"classes": CLASSES, "binary": CLASSES, "real": NORMAL, "counts": COUNTS}[self.family["family"]]

    @property
    def of_chains(self) -> bool:
        """Whether the trees are draws of Markov chains, and not weighted or independent ones."""
        return not {"log_evidence", "exact_log_evidence"} & self.notes.keys()

    @cached_property
    def response(self) -> Response:
        """Compiled response."""
        return make_response(self.leaf_family, self.y)

    @cached_property
    def centre(self) -> float:
        """What the statistics of a real response had subtracted."""
        return centre_of(self.leaf_family, self.y)

    def tree(self, t: int) -> Tree:
        """One of the trees."""
        return Tree(self.decisions[self.begin[t] : self.begin[t + 1]])

    @cached_property
    def nodes(self) -> TreeNodes:
        """Training rows of the nodes, counted once."""
        n = len(self.decisions)
        size, statistics = np.empty(n, np.int64), np.empty((n, self.response.n_statistics))
        decisions = read_only_view(self.decisions)
        fill_nodes(self.features.codes, self.response, decisions, self.begin, size, statistics)
        if size.min() < 1:
            refuse("every node of the trees", "hold a training row", f"none at node {int(np.argmin(size))}")
        return TreeNodes(size, statistics)

    @cached_property
    def masses(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) log prior mass of each split given that its node splits, and (n,) whether the rows could be split."""
        log_mass, can_split = np.empty(len(self.decisions)), np.empty(len(self.decisions), np.bool_)
        decisions = read_only_view(self.decisions)
        fill_masses(self.features.codes, decisions, self.begin, self.nodes.size, log_mass, can_split)
        return log_mass, can_split

    @cached_property
    def tree_of_node(self) -> np.ndarray:
        """(n,) the tree to which each node belongs."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.begin))

    @cached_property
    def flat(self) -> FlatTrees:
        """Compiled form for routing new rows."""
        d = self.decisions
        split = d[:, 0] >= 0
        offset = self.begin[:-1][self.tree_of_node]
        before = np.concatenate([[0], np.cumsum(split)])
        rank = before[:-1] - before[offset]  # splits before this node in its own tree
        left = np.where(split, offset + 1 + 2 * rank, -1)
        right = np.where(split, left + 1, -1)
        low, high = d[:, 1].astype(np.float64), d[:, 2].astype(np.float64)
        x = self.features.codes
        cut = split.copy()
        cut[split] = x.kind[d[split, 0]] == 0
        low[cut] = x.values[x.begin[d[cut, 0]] + d[cut, 1]]
        high[cut] = x.values[x.begin[d[cut, 0]] + d[cut, 2]]
        feature, side = d[:, 0].astype(np.int64), d[:, 3].astype(np.int64)
        return FlatTrees(self.begin, feature, side, left, right, low, high, self.nodes.size, x.kind)

    @cached_property
    def depth(self) -> np.ndarray:
        """(n,) depth of each node."""
        out = np.zeros(len(self.decisions), np.int64)
        left, right = self.flat.left, self.flat.right
        current = self.begin[:-1]
        level = 0
        while current.size:
            out[current] = level
            inner = current[left[current] >= 0]
            current = np.concatenate([left[inner], right[inner]])
            level += 1
        return out

    @cached_property
    def log_joint(self) -> np.ndarray:
        """(T,) log prior of the tree plus log marginal likelihood of the response, in nats."""
        is_leaf = self.decisions[:, 0] < 0
        rules = make_rules(0.5, 0.0, None if self.max_depth < 0 else self.max_depth, self.min_size)
        log_mass, can_split = self.masses
        free = can_split & (self.nodes.size >= max(rules.min_size, 2))
        if self.max_depth >= 0:
            free &= self.depth < self.max_depth
        p = self.rules[self.tree_of_node, 0] * (1.0 + self.depth) ** -self.rules[self.tree_of_node, 1]
        terms = np.where(is_leaf, np.where(free, np.log1p(-p), 0.0), np.log(p) + log_mass)
        terms = terms + np.where(is_leaf, self.leaf_log_marginals, 0.0)
        return np.bincount(self.tree_of_node, terms, self.n_trees)

    @cached_property
    def leaf_log_marginals(self) -> np.ndarray:
        """(n,) log marginal likelihood of each node as a leaf."""
        from pymc_spn.trees.predictives import node_log_marginals

        return node_log_marginals(self)

    # ---- one file
    def to_tree(self) -> "xr.DataTree":
        """All of it as a DataTree with one group."""
        import xarray as xr

        schema = {
            "format": FORMAT,
            "name": self.name,
            "columns": [c.to_json() for c in self.features.columns],
            "splits": self.features.splits,
            "family": self.family,
            "max_depth": self.max_depth,
            "min_size": self.min_size,
            "notes": self.notes,
        }
        data = xr.Dataset(
            {
                "features": (("row", "column"), self.features.values),
                "split_weights": ("column", self.features.weights),
                "response": ("row", self.y),
                "decisions": (("node", "term"), self.decisions),
                "begin": ("boundary", self.begin),
                "weights": ("tree", self.weights),
                "group": ("tree", self.group),
                "draw": ("tree", self.draw),
                "parameters": (("tree", "parameter"), self.parameters),
                "rules": (("tree", "rule"), self.rules),
            },
            coords={"column": self.features.names, "parameter": list(self.parameter_names)},
            attrs={"schema": json.dumps(schema)},
        )
        return xr.DataTree.from_dict({"/" + GROUP: data})

    @classmethod
    def from_tree(cls, tree: "xr.DataTree") -> "TreeDraws":
        """Read what `to_tree` wrote; ValueError where it cannot be that."""
        data = tree[GROUP].dataset
        schema = json_of(data.attrs["schema"], f"attribute 'schema' of {GROUP}")
        if schema["format"] != FORMAT:
            raise ValueError(f"the trees have format {schema['format']}, not {FORMAT}: use the version that wrote them")
        columns = tuple(Column.from_json(c) for c in schema["columns"])
        features = checks.checked_features(
            columns, data["features"].values, schema["splits"], data["split_weights"].values
        )
        decisions, begin = checks.checked_nodes(features, data["decisions"].values, data["begin"].values)
        n_trees = len(begin) - 1
        weights = checked("the weights of the trees", data["weights"].values, (n_trees,), 0.0)
        if not weights.sum() > 0.0:
            refuse("the weights of the trees", "have a positive sum", weights.sum())
        group, draw = (checks.checked_labels(k, data[k].values, n_trees) for k in ("group", "draw"))
        return cls(
            schema["name"],
            features,
            checks.checked_response(schema["family"], data["response"].values, len(features.values)),
            schema["family"],
            decisions,
            begin,
            weights,
            group,
            draw,
            checks.checked_parameters(schema["family"], data["parameters"].values, n_trees),
            checks.checked_rules(data["rules"].values, n_trees),
            checks.checked_limit("max_depth", schema["max_depth"], -1),
            checks.checked_limit("min_size", schema["min_size"], 1),
            checks.checked_notes(schema["notes"], group),
        )
