"""The posterior over decision trees without sampling: a circuit of sums over splits and products of children.

Z(S, d) = f(S) where S cannot be split, else (1 - p_d) f(S) + p_d sum over features and gaps of their prior mass times
Z(left, d + 1) Z(right, d + 1). Sum nodes are the pairs (row set, depth), shared wherever they are met again. Evidence,
root decision, most probable tree and exact draws are passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.html_repr import Facts, NotebookRepr
from pymc_spn.tables.frame_kinds import frame_of_kind
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees.draws import TreeDraws, coded_problem
from pymc_spn.trees.features import TREE_BYTES, Features, make_features, make_rules
from pymc_spn.trees.leaf_kernels import gather_statistics, leaf_log_marginal
from pymc_spn.trees.leaves import LeafFamily, ResponseFamily, make_leaf_prior, make_response, numbers_of_family
from pymc_spn.trees.posterior import TreePosterior
from pymc_spn.trees.split_kernels import CUT, ONE_HOT, all_options, usable_features
from pymc_spn.trees.tree import Tree

MAX_STATES = 100_000  # row sets


@dataclass(frozen=True, eq=False)
class Choices:
    """What can happen at one sum node: stop, or one of the splits."""

    log_stop: float
    decisions: np.ndarray
    log_mass: np.ndarray
    left: list
    right: list


class RowSets:
    """The circuit over row sets; a state is (rows as bits, depth), depth 0 throughout where it does not matter."""

    def __init__(self, features: Features, response: Any, leaf: Any, rules: Any, max_states: int):
        self.x, self.response, self.leaf, self.rules = features.codes, response, leaf, rules
        self.options = features.scratch(response.n_statistics)
        self.ignores_depth = rules.beta_s == 0.0 and rules.max_depth < 0
        self.max_states = max_states
        self.root = ((1 << len(features.values)) - 1, 0)
        self.choices: dict[Any, Choices] = {}
        self.log_z: dict[Any, float] = {}
        self.log_best: dict[Any, float] = {}
        self._expand()
        self.n_states = len(self.choices)

    def _expand(self):
        """All reachable states, then their values from the smallest row sets up."""
        waiting = [self.root]
        while waiting:
            state = waiting.pop()
            if state in self.choices:
                continue
            if len(self.choices) >= self.max_states:
                raise ValueError(
                    f"X: the exact recursion needs more than max_states = {self.max_states} row sets; use fewer rows, "
                    "features or distinct values, give max_depth, or use ps.fit_tree without exact=True"
                )
            found = self.choices[state] = self._make(state)
            waiting += found.left
            waiting += found.right
        for state in sorted(self.choices, key=lambda s: s[0].bit_count()):
            self.log_z[state] = float(np.logaddexp.reduce(self.terms(state, self.log_z)))
            self.log_best[state] = float(self.terms(state, self.log_best).max())

    def terms(self, state, value):
        """Stopping, then every split with the values of its children."""
        c = self.choices[state]
        splits = zip(c.log_mass, c.left, c.right, strict=True)
        return np.array([c.log_stop, *(m + value[a] + value[b] for m, a, b in splits)])

    def _make(self, state):
        bits, depth = state
        rows = np.array([i for i in range(bits.bit_length()) if bits >> i & 1], np.int32)
        n, d = len(rows), self.x.codes.shape[0]
        statistics = np.empty(self.response.n_statistics)
        gather_statistics(self.response, rows, 0, n, statistics)
        own = leaf_log_marginal(self.leaf, n, statistics)
        usable = np.empty(d, np.int8)
        weight = usable_features(self.x, rows, 0, n, usable)
        forced = n < max(self.rules.min_size, 2) or depth == self.rules.max_depth or weight == 0.0
        if forced:
            return Choices(own, np.empty((0, 4), np.int32), np.empty(0), [], [])
        m = all_options(self.x, self.response, self.leaf, rows, 0, n, statistics, own, usable, weight, self.options)
        decisions = self.options.decision[:m].copy()
        p = self.rules.alpha_s * (1.0 + depth) ** -self.rules.beta_s
        log_mass = np.log(p * self.options.mass[:m])
        below = 0 if self.ignores_depth else depth + 1
        left, right = [], []
        for feature, low, _, side in decisions:
            code = self.x.codes[feature, rows]
            kind = self.x.kind[feature]
            goes = code <= low if kind == CUT else code == low if kind == ONE_HOT else (low >> code) & 1 == 1
            goes = np.where(code < 0, side == 0, goes)
            chosen = sum(1 << int(r) for r in rows[goes])
            left.append((chosen, below))
            right.append((bits ^ chosen, below))
        return Choices(np.log1p(-p) + own, decisions, log_mass, left, right)


class ExactTrees(NotebookRepr):
    """The exact posterior over trees; made by `exact_tree_evidence`.

    Examples
    --------
    >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
    >>> exact.posterior(draws=10, random_seed=1).predict(X[["job"]].head(2)).dims
    ('row',)
    """

    def __init__(self, common: dict, family: LeafFamily, rules: tuple, max_states: int = MAX_STATES):
        features, y = common["features"], common["y"]
        response = make_response(family, y)
        self._numbers = numbers_of_family(family)
        leaf = make_leaf_prior(family, self._numbers, y)
        self._common, self._rules = common, rules
        self._sets = RowSets(features, response, leaf, make_rules(*rules), max_states)

    def _facts(self) -> Facts:
        facts = {
            "rows": f"{len(self._common['y'])} rows",
            "features": f"{len(self._common['features'].names)} features",
        }
        facts |= {
            "sums": f"{self.n_states:,} sum nodes",
            "evidence": f"log evidence {float(self.log_evidence):.3f} nats",
        }
        return Facts("ExactTrees", facts)

    @property
    def n_states(self) -> int:
        """Sum nodes of the circuit.

        Examples
        --------
        >>> ps.trees.exact_tree_evidence(X[["job"]], y).n_states
        3
        """
        return self._sets.n_states

    @property
    def log_evidence(self) -> xr.DataArray:
        """Log marginal likelihood of the response given the features, in nats.

        Examples
        --------
        >>> ps.trees.exact_tree_evidence(X[["job"]], y).log_evidence.item() < 0
        True
        """
        return xr.DataArray(self._sets.log_z[self._sets.root], attrs={"exactness": "exact"})

    def root_splits(self) -> pd.DataFrame:
        """Return the posterior probability of every decision at the root.

        Returns
        -------
        DataFrame
            One row for each decision. ``feature`` (None: no split). ``low`` and ``high``, the values on both sides of
            the cut or the level and its masks. ``missing``, the side of missing values (-1: none). ``probability``.

        Examples
        --------
        >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
        >>> exact.root_splits()["feature"].tolist()[1:]
        ['job', 'job']
        """
        features, sets = self._common["features"], self._sets
        rows = [(None, np.nan, np.nan, -1)]
        for feature, low, high, side in sets.choices[sets.root].decisions:
            if features.splits[feature] == "cut":
                low, high = features.distinct[feature][low], features.distinct[feature][high]
            rows.append((features.names[feature], float(low), float(high), int(side)))
        frame = pd.DataFrame(rows, columns=["feature", "low", "high", "missing"])
        frame["probability"] = np.exp(sets.terms(sets.root, sets.log_z) - sets.log_z[sets.root])
        frame.attrs["exactness"] = "exact"
        return frame_of_kind(frame, features.frame)

    def most_probable(self) -> tuple[Tree, float]:
        """Return the tree with the largest joint density with the data.

        Returns
        -------
        (Tree, float)
            The tree and the log of that density, in nats.

        Examples
        --------
        >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
        >>> best = exact.most_probable()
        """
        sets = self._sets

        tree = self._grow(lambda state: int(np.argmax(sets.terms(state, sets.log_best))))
        return tree, sets.log_best[sets.root]

    def sample_trees(self, n: int, random_seed: int | np.random.Generator | None = None) -> list[Tree]:
        """Draw independent trees from the posterior.

        Parameters
        ----------
        n : int
            At least 0.
        random_seed : int, Generator or None

        Returns
        -------
        list of Tree

        Raises
        ------
        ValueError
            If `n` is not an integer of at least 0.

        Examples
        --------
        >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
        >>> len(exact.sample_trees(3, random_seed=1))
        3
        """
        checked_count("n", n, 0, TREE_BYTES)
        rng, sets = np.random.default_rng(random_seed), self._sets
        known: dict[Any, np.ndarray] = {}

        def pick(state):
            if state not in known:
                p = np.exp(sets.terms(state, sets.log_z) - sets.log_z[state])
                known[state] = np.cumsum(p / p.sum())
            return int(np.searchsorted(known[state], rng.random(), side="right"))

        return [self._grow(pick) for _ in range(n)]

    def posterior(self, draws: int = 1000, random_seed: int | np.random.Generator | None = None) -> TreePosterior:
        """Draw independent trees as a `TreePosterior`, which answers all its questions.

        Parameters
        ----------
        draws : int
            At least 1.
        random_seed : int, Generator or None

        Returns
        -------
        TreePosterior

        Raises
        ------
        ValueError
            If `draws` is not an integer of at least 1.

        Examples
        --------
        >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
        >>> exact.posterior(draws=10, random_seed=1).predict(X[["job"]].head(2)).dims
        ('row',)
        """
        checked_count("draws", draws, 1, TREE_BYTES)
        trees = self.sample_trees(draws, random_seed)
        alpha_s, beta_s = self._rules[:2]
        drawn = TreeDraws(
            decisions=np.concatenate([t.decisions for t in trees]),
            begin=np.cumsum([0] + [len(t.decisions) for t in trees]).astype(np.int64),
            weights=np.full(draws, 1.0 / draws),
            group=np.zeros(draws, np.int64),
            draw=np.arange(draws),
            parameters=np.tile(self._numbers, (draws, 1)),
            rules=np.tile(np.array([alpha_s, beta_s], np.float64), (draws, 1)),
            log_evidence=np.array(self._sets.log_z[self._sets.root]),
            **self._common,
        )
        return TreePosterior(drawn)

    def _grow(self, pick: Any) -> Tree:
        queue, decisions = [self._sets.root], []
        for state in queue:
            c = self._sets.choices[state]
            o = pick(state) if len(c.left) else 0
            if o == 0:
                decisions.append((-1, 0, 0, -1))
            else:
                decisions.append(tuple(c.decisions[o - 1]))
                queue += [c.left[o - 1], c.right[o - 1]]
        return Tree(np.array(decisions, np.int32))


def exact_tree_evidence(
    X: TableLike,
    y: npt.ArrayLike,
    family: ResponseFamily | None = None,
    *,
    alpha_s: float = 0.95,
    beta_s: float = 0.5,
    max_depth: int | None = None,
    min_size: int = 2,
    split_weights: Mapping[str, float] | npt.ArrayLike | None = None,
    categorical: str | Mapping[str, str] = "onehot",
    missing: str = "branch",
    max_states: int = MAX_STATES,
    kinds: dict | None = None,
) -> ExactTrees:
    """Calculate the exact posterior over decision trees, for small data.

    Ten rows of two features take some hundred row sets; the number grows exponentially with features. Row sets of one
    feature that is cut are intervals of its values, at each depth: forty distinct values take about a second.

    Parameters
    ----------
    X, y, family, alpha_s, beta_s, max_depth, min_size, split_weights, categorical, missing, kinds
        As in `fit_tree`.
    max_states : int
        Largest number of row sets; more are refused.

    Returns
    -------
    ExactTrees
        With ``log_evidence``, ``root_splits()``, ``most_probable()``, ``sample_trees(n)`` and ``posterior(draws)``.

    Raises
    ------
    ValueError, TypeError
        As in `fit_tree`, and where the recursion would be too large.

    Examples
    --------
    >>> exact = ps.trees.exact_tree_evidence(X[["job"]], y)
    >>> exact.n_states
    3
    """
    features = make_features(X, categorical, split_weights, missing=missing, kinds=kinds)
    rules = (alpha_s, beta_s, max_depth, min_size)
    common, leaves = coded_problem(features, X, y, family, rules)
    return ExactTrees(common, leaves, rules, max_states)
