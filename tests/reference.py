"""Brute-force Bayesian sum-product network: slow, obvious, and independent of the package.

Everything is worked out by enumerating the states of tiny problems. A *state* holds, for each row, a dict
``region -> label``: the edge the row takes at the one sum node of that region which it reaches. Labels are
local to their node, and a node is named by the labels on the path to it. A row draws nothing in a region in
which all its cells are missing. The label modulo the palette size is the palette entry of a univariate edge;
modulo the number of splits, it is the split of a product, and the row reaches the parts of that split only.
"""

import itertools
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

State = list[dict[int, int]]


# ---- 1. the problem
@dataclass(frozen=True)
class Region:
    """One region; `splits` (parts of each) and `ancestors` (root first) are indices, `column` is None if inner.

    `split` says to which split of its parent the region belongs.
    """

    index: int
    columns: tuple[int, ...]
    depth: int
    ancestors: tuple[int, ...]
    splits: tuple[tuple[int, ...], ...]
    column: int | None
    split: int

    @property
    def parts(self) -> tuple[int, ...]:
        """Parts, where all products split alike."""
        (parts,) = self.splits or ((),)
        return parts


class Splits(tuple):
    """Several splits of one region, each a tuple of parts; a product uses the one numbered by its label modulo A."""

    def __eq__(self, other: object) -> bool:  # a tuple of the same content is one split
        return isinstance(other, Splits) and tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


@cache
def regions_in_preorder(regions: tuple) -> list[Region]:
    """Regions of nested tuples, see `Problem`; one list for all problems that share them."""
    found: list[Region | None] = []

    def visit(spec, ancestors, split):
        index = len(found)
        found.append(None)
        if isinstance(spec[0], int):
            columns, splits, column = tuple(spec), (), spec[0]
        else:
            alternatives = spec if isinstance(spec, Splits) else (spec,)
            below = [[visit(p, (*ancestors, index), s) for p in parts] for s, parts in enumerate(alternatives)]
            columns = tuple(d for region in below[0] for d in region.columns)
            splits, column = tuple(tuple(region.index for region in group) for group in below), None
        found[index] = Region(index, columns, len(ancestors), ancestors, splits, column, split)
        return found[index]

    visit(regions, (), 0)
    return found


@dataclass(frozen=True, eq=False)
class Problem:
    """A region tree with priors and data.

    Parameters
    ----------
    regions : nested tuples
        ``((0,), ((1,), (2,)))``: a univariate region is ``(column,)``, an inner one the tuple of its parts, or
        `Splits` of several such tuples.
    children : int, "infinite" or a tuple with one of these per depth
        Children of a sum node.
    alpha_inner, alpha_leaf : float
        Total mass of a sum node over several columns, and over one column.
    palettes : list of list of (str, dict)
        ``palettes[d]`` holds the (family, prior) entries of column d. Priors: gaussian and log_normal (of the log)
        mu0, rho0, a0, b0, and perhaps cell, by which the mean of (y - x)^2 over what x stands for exceeds that of x;
        exponential, poisson and geometric alpha, beta; binomial alpha, beta, trials; bernoulli and
        categorical alpha (a vector).
    X : (N, D) float array or None
        NaN is a missing cell, levels are coded 0, 1, ... Only `simulate` does without data.
    """

    regions: tuple
    children: object
    alpha_inner: float
    alpha_leaf: float
    palettes: list
    X: np.ndarray | None = None

    @cached_property
    def region_list(self) -> list[Region]:
        """Regions in depth-first preorder; region 0 is the root."""
        return regions_in_preorder(self.regions)

    def alpha(self, region: Region) -> float:
        return self.alpha_inner if region.column is None else self.alpha_leaf

    def palette_size(self, region: Region) -> int:
        """Palette entries of a univariate region; 1 for an inner region."""
        return 1 if region.column is None else len(self.palettes[region.column])

    def n_options(self, region: Region) -> int:
        """Palette entries of a univariate region, splits of an inner one."""
        return len(region.splits) if region.column is None else len(self.palettes[region.column])

    def n_children(self, region: Region) -> float:
        """Children of a sum node of the region; ``math.inf`` for infinite width."""
        at_depth = self.children[region.depth] if isinstance(self.children, tuple) else self.children
        return math.inf if at_depth == "infinite" else max(at_depth, self.n_options(region))

    def child_mass(self, region: Region, label: int) -> float:
        """Dirichlet mass of one child at finite width.

        The products of a sum node share alike; of a palette each entry has alpha/P, shared by its copies.
        """
        if region.column is None:
            return self.alpha(region) / self.n_children(region)
        n_entries = self.n_options(region)
        n_copies = len(range(label % n_entries, self.n_children(region), n_entries))
        return self.alpha(region) / n_entries / n_copies

    @cached_property
    def child_masses(self) -> list[list[float]]:
        """`child_mass` of every child at finite width, by region."""
        widths = [self.n_children(r) for r in self.region_list]
        return [
            [] if width == math.inf else [self.child_mass(r, c) for c in range(width)]
            for r, width in zip(self.region_list, widths, strict=True)
        ]

    def draws_in(self, row: int, region: Region, labels: dict[int, int] | None = None) -> bool:
        """Whether the row has an observed cell in the region and, given its labels above, reaches it."""
        if labels is not None and region.ancestors:
            above = self.region_list[region.ancestors[-1]]
            if labels.get(above.index, -1) < 0 or labels[above.index] % len(above.splits) != region.split:
                return False
        return self._seen[row][region.index]

    @cached_property
    def _seen(self) -> list[list[bool]]:
        """Of each row and region whether one of its cells is observed."""
        return [[not np.isnan(row[list(r.columns)]).all() for r in self.region_list] for row in self.X]

    def leaf_log_marginal(self, column: int, entry: int, rows: tuple[int, ...]) -> float:
        """`log_marginal` of the cells of some rows in one leaf; many states share a leaf."""
        found = self._leaf_log_marginals.get((column, entry, rows))
        if found is None:
            found = log_marginal(*self.palettes[column][entry], self.X[list(rows), column])
            self._leaf_log_marginals[column, entry, rows] = found
        return found

    @cached_property
    def _leaf_log_marginals(self) -> dict[tuple, float]:
        return {}


def without_row(problem: Problem, row: int) -> Problem:
    return replace(problem, X=np.delete(problem.X, row, axis=0))


# ---- 2. leaves: closed-form marginals of values that share one leaf
def log_marginal(family: str, prior: dict, values: Sequence[float]) -> float:
    """Log marginal likelihood of the values under one leaf, its parameters integrated out, in nats."""
    x = np.asarray(values, dtype=float)
    n = len(x)
    if n == 0:
        return 0.0
    if family == "log_normal":
        logs = np.log(x) if (x > 0).all() else None
        return -np.inf if logs is None else log_marginal("gaussian", prior, logs) - float(logs.sum())
    if family == "geometric":
        if (x < 0).any() or (x != np.floor(x)).any():
            return -np.inf
        return float(betaln(prior["alpha"] + n, prior["beta"] + x.sum()) - betaln(prior["alpha"], prior["beta"]))
    if family == "binomial":
        alpha, beta, trials = (prior[k] for k in ("alpha", "beta", "trials"))
        if (x < 0).any() or (x > trials).any() or (x != np.floor(x)).any():
            return -np.inf
        log_choose = sum(math.log(math.comb(int(trials), int(v))) for v in x)
        return float(log_choose + betaln(alpha + x.sum(), beta + (trials - x).sum()) - betaln(alpha, beta))
    if family == "gaussian":
        mu0, rho0, a0, b0 = (prior[k] for k in ("mu0", "rho0", "a0", "b0"))
        rho, a = rho0 + n, a0 + n / 2
        b = b0 + ((x - x.mean()) ** 2).sum() / 2 + rho0 * n * (x.mean() - mu0) ** 2 / (2 * rho)
        b += n * prior.get("cell", 0.0) / 2
        log_norm = gammaln(a) - gammaln(a0) + a0 * np.log(b0) - a * np.log(b)
        return float(log_norm + np.log(rho0 / rho) / 2 - n / 2 * np.log(2 * np.pi))
    if family in ("exponential", "poisson"):
        alpha, beta = prior["alpha"], prior["beta"]
        if (x < 0).any() or (family == "poisson" and (x != np.floor(x)).any()):
            return -np.inf
        if family == "exponential":
            alpha_n, beta_n, log_base = alpha + n, beta + x.sum(), 0.0
        else:
            alpha_n, beta_n, log_base = alpha + x.sum(), beta + n, -gammaln(x + 1).sum()
        log_norm = alpha * np.log(beta) - alpha_n * np.log(beta_n) + gammaln(alpha_n) - gammaln(alpha)
        return float(log_base + log_norm)
    if family in ("bernoulli", "categorical"):
        alpha = np.asarray(prior["alpha"], dtype=float)
        if not np.isin(x, np.arange(len(alpha))).all():
            return -np.inf
        counts = np.bincount(x.astype(int), minlength=len(alpha))
        per_level = gammaln(alpha + counts) - gammaln(alpha)
        return float(gammaln(alpha.sum()) - gammaln(alpha.sum() + n) + per_level.sum())
    raise ValueError(f"unknown family {family!r}")


def log_leaf_predictive(family: str, prior: dict, values: Sequence[float], x: float) -> float:
    """Log density or mass of x in a leaf which already holds the values: a ratio of two marginals."""
    return log_marginal(family, prior, [*values, x]) - log_marginal(family, prior, values)


def draw_parameters(family: str, prior: dict, rng: np.random.Generator):
    if family == "geometric":
        return rng.beta(prior["alpha"], prior["beta"])
    if family == "binomial":
        return int(prior["trials"]), rng.beta(prior["alpha"], prior["beta"])
    if family in ("gaussian", "log_normal"):
        precision = rng.gamma(prior["a0"], 1 / prior["b0"])
        return rng.normal(prior["mu0"], 1 / np.sqrt(prior["rho0"] * precision)), precision
    if family in ("exponential", "poisson"):
        return rng.gamma(prior["alpha"], 1 / prior["beta"])
    return rng.dirichlet(prior["alpha"])


def draw_value(family: str, parameters, rng: np.random.Generator) -> float:
    if family == "geometric":
        return float(rng.geometric(parameters) - 1)
    if family == "binomial":
        return float(rng.binomial(*parameters))
    if family in ("gaussian", "log_normal"):
        mean, precision = parameters
        y = rng.normal(mean, 1 / np.sqrt(precision))
        return y if family == "gaussian" else float(np.exp(y))
    if family == "exponential":
        return rng.exponential(1 / parameters)
    if family == "poisson":
        return float(rng.poisson(parameters))
    return float(draw_index(parameters.tolist(), rng))


def draw_index(masses: Sequence[float], rng: np.random.Generator) -> int:
    """Position drawn in proportion to masses: what `Generator.choice` does, whose checks take longer than the draw."""
    cumulative = list(itertools.accumulate(masses))
    return bisect_right(cumulative, rng.random() * cumulative[-1], hi=len(cumulative) - 1)


# ---- 3. the probability of one state
def group_rows(state: State, regions: Sequence[int]) -> dict[tuple, list[int]]:
    """Rows by their labels in the given regions, without the rows which draw nothing in one of them."""
    groups = defaultdict(list)
    for row, labels in enumerate(state):
        if all(r in labels for r in regions):
            groups[tuple(labels[r] for r in regions)].append(row)
    return groups


def node_counts(problem: Problem, state: State) -> Iterator[tuple[Region, Counter]]:
    """For every occupied sum node its region and the number of rows on each label."""
    for region in problem.region_list:
        for rows in group_rows(state, region.ancestors).values():
            counts = Counter(state[n][region.index] for n in rows if region.index in state[n])
            if counts:
                yield region, counts


def log_prior(problem: Problem, state: State) -> float:
    """Log probability of the labels: Dirichlet-multinomial or Chinese restaurant at every sum node.

    At finite width this is the probability of the labelled state, at infinite width that of the set
    partitions and palette entries, whatever the labels are called.
    """
    total = 0.0
    for region, counts in node_counts(problem, state):
        alpha, n = problem.alpha(region), sum(counts.values())
        total += gammaln(alpha) - gammaln(alpha + n)
        for label, n_child in counts.items():
            if problem.n_children(region) == math.inf:
                total += np.log(alpha) + gammaln(n_child) - np.log(problem.n_options(region))
            else:
                mass = problem.child_mass(region, label)
                total += gammaln(mass + n_child) - gammaln(mass)
    return float(total)


def log_likelihood(problem: Problem, state: State) -> float:
    """Log density of the data given the labels: one closed-form marginal per occupied leaf."""
    total = 0.0
    for region in problem.region_list:
        if region.column is not None:
            for path, rows in group_rows(state, (*region.ancestors, region.index)).items():
                entry = path[-1] % problem.n_options(region)
                total += problem.leaf_log_marginal(region.column, entry, tuple(rows))
    return total


def log_joint(problem: Problem, state: State) -> float:
    """log p(X, state) in nats; see `log_prior` for what the state stands for."""
    return log_prior(problem, state) + log_likelihood(problem, state)


def log_relabellings(problem: Problem, state: State) -> float:
    """Log number of labelled states which differ from this one in names only; 0 at infinite width."""
    total = 0.0
    for region, counts in node_counts(problem, state):
        n_entries, width = problem.n_options(region), problem.n_children(region)
        if width != math.inf:
            for entry, n_used in Counter(label % n_entries for label in counts).items():
                n_copies = len(range(entry, width, n_entries))
                total += math.log(math.perm(n_copies, n_used))
    return total


# ---- 4. all states
def set_partitions(items: list) -> Iterator[list[list]]:
    if not items:
        yield []
        return
    for smaller in set_partitions(items[1:]):
        yield [[items[0]], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [items[0], *block], *smaller[i + 1 :]]


def node_assignments(problem: Problem, region: Region, rows: list[int]) -> Iterator[dict[int, list[int]]]:
    """Every way to share the rows of one sum node among its children, up to names: label -> rows."""
    n_entries = problem.n_options(region)
    for blocks in set_partitions(rows):
        for entries in itertools.product(range(n_entries), repeat=len(blocks)):
            labels = [entry + n_entries * entries[:i].count(entry) for i, entry in enumerate(entries)]
            if max(labels) < problem.n_children(region):
                yield dict(zip(labels, blocks, strict=True))


def subtree_states(problem: Problem, region: Region, rows: list[int]) -> list[dict[tuple[int, int], int]]:
    """All states of the sub-network below one sum node reached by the rows: (row, region) -> label."""
    rows = [n for n in rows if problem.draws_in(n, region)]
    if not rows:
        return [{}]
    found = []
    for children in node_assignments(problem, region, rows):
        own = {(n, region.index): label for label, block in children.items() for n in block}
        below = [
            subtree_states(problem, problem.region_list[part], block)
            for label, block in children.items()
            for part in (region.splits[label % len(region.splits)] if region.splits else ())
        ]
        for combination in itertools.product(*below):
            found.append(own | {k: v for piece in combination for k, v in piece.items()})
    return found


def all_states(problem: Problem) -> list[State]:
    """One state for every class of states that differ in names only."""
    n_rows = len(problem.X)
    found = []
    for assignment in subtree_states(problem, problem.region_list[0], list(range(n_rows))):
        state: State = [{} for _ in range(n_rows)]
        for (row, region), label in sorted(assignment.items()):
            state[row][region] = label
        found.append(state)
    return found


def labelled_states(problem: Problem) -> Iterator[State]:
    """All labelled states at finite width, by counting through every digit (an independent check)."""

    def trees(row):
        found = [{}]
        for region in problem.region_list:
            found = [
                labels | new
                for labels in found
                for new in (
                    [{region.index: c} for c in range(problem.n_children(region))]
                    if problem.draws_in(row, region, labels)
                    else [{}]
                )
            ]
        return found

    yield from (list(state) for state in itertools.product(*(trees(n) for n in range(len(problem.X)))))


@cache
def weighted_states(problem: Problem) -> tuple[list[State], np.ndarray, float]:
    """States up to names, their posterior probabilities, and the log evidence log p(X)."""
    states = all_states(problem)
    log_weights = np.array([log_joint(problem, s) + log_relabellings(problem, s) for s in states])
    evidence = float(logsumexp(log_weights))
    return states, np.exp(log_weights - evidence), evidence


def enumerate_states(problem: Problem, prior: bool = False) -> dict[tuple, float]:
    """Exact posterior (or prior, for rows with this pattern of missing cells) of every canonical key."""
    if prior:
        states = all_states(problem)
        weights = np.exp([log_prior(problem, s) + log_relabellings(problem, s) for s in states])
    else:
        states, weights, _ = weighted_states(problem)
    keys = [canonical(digits_from_state(problem, state), problem) for state in states]
    return dict(zip(keys, weights.tolist(), strict=True))


def log_evidence(problem: Problem) -> float:
    """log p(X) in nats, all states summed."""
    return weighted_states(problem)[2]


def log_leave_one_out(problem: Problem, row: int) -> float:
    """log p(x_row | the other rows), from two evidences."""
    return log_evidence(problem) - log_evidence(without_row(problem, row))


# ---- 5. comparing draws of a sampler with the enumeration
def digits_from_state(problem: Problem, state: State) -> np.ndarray:
    return np.array([[row.get(r.index, -1) for r in problem.region_list] for row in state], dtype=np.int64)


def state_from_digits(digits: np.ndarray) -> State:
    return [{r: int(label) for r, label in enumerate(row) if label >= 0} for row in digits]


def canonical(digits: np.ndarray, problem: Problem) -> tuple:
    """Name-free key of an (N, R) array of labels in preorder, -1 where a row draws nothing.

    For each region the rows are numbered by edge in order of appearance (two rows share a number when they
    share the node and the label); where there are several palette entries or splits, that of each row follows.
    """
    key = []
    for region in problem.region_list:
        labels = digits[:, region.index].tolist()
        for row, label in enumerate(labels):
            above = dict(enumerate(digits[row].tolist()))
            if (label >= 0) != problem.draws_in(row, region, above) or label >= problem.n_children(region):
                raise ValueError(f"digits[{row}, {region.index}] = {label} is not a label of this problem")
        seen: dict[tuple, int] = {}
        paths = map(tuple, digits[:, [*region.ancestors, region.index]].tolist())
        key.append(tuple(seen.setdefault(path, len(seen)) if path[-1] >= 0 else -1 for path in paths))
        if problem.n_options(region) > 1:
            key.append(tuple(label % problem.n_options(region) if label >= 0 else -1 for label in labels))
    return tuple(key)


def count_keys(draws: np.ndarray, problem: Problem) -> Counter:
    """Canonical keys of (draws, N, R) digits; equal arrays are keyed once."""
    distinct, counts = np.unique(np.asarray(draws), axis=0, return_counts=True)
    keys = Counter()
    for digits, count in zip(distinct, counts.tolist(), strict=True):
        keys[canonical(digits, problem)] += count
    return keys


def total_variation(counts: dict, exact: dict) -> float:
    """Half the summed absolute difference; a key which `exact` lacks has probability zero."""
    n = sum(counts.values())
    return sum(abs(counts.get(k, 0) / n - exact.get(k, 0.0)) for k in set(counts) | set(exact)) / 2


def independent_total_variation(exact: dict, draws: int, rng: np.random.Generator) -> float:
    """Total variation of the same number of independent draws: what a perfect sampler scores."""
    p = np.array(list(exact.values()))
    return float(np.abs(rng.multinomial(draws, p / p.sum()) / draws - p).sum() / 2)


# ---- 6. forward simulation
def simulate(
    problem: Problem, n_rows: int, rng: np.random.Generator, observed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw labels from the Polya urns and data from leaves with parameters drawn from the prior.

    ``problem.X`` is not read. `observed` (n_rows, D) says which cells are seen, by default all; a row draws
    nothing in a region it does not see. Returns X (n_rows, D) with NaN, and digits (n_rows, R).
    """
    n_columns = len(problem.palettes)
    observed = np.ones((n_rows, n_columns), dtype=bool) if observed is None else observed
    X = np.full((n_rows, n_columns), np.nan)
    digits = [[-1] * len(problem.region_list) for _ in range(n_rows)]
    urns: dict[tuple, Counter] = defaultdict(Counter)
    leaf_parameters: dict[tuple, object] = {}
    for n, (row, seen) in enumerate(zip(digits, observed.tolist(), strict=True)):
        for region in problem.region_list:
            if not any(seen[d] for d in region.columns):
                continue
            if region.ancestors:
                above = problem.region_list[region.ancestors[-1]]
                if row[above.index] % len(above.splits) != region.split or row[above.index] < 0:
                    continue
            node = (region.index, *(row[r] for r in region.ancestors))
            row[region.index] = label = draw_label(problem, region, urns[node], rng)
            urns[node][label] += 1
            if region.column is not None:
                family, prior = problem.palettes[region.column][label % problem.n_options(region)]
                leaf = (*node, label)
                if leaf not in leaf_parameters:
                    leaf_parameters[leaf] = draw_parameters(family, prior, rng)
                X[n, region.column] = draw_value(family, leaf_parameters[leaf], rng)
    return X, np.array(digits, dtype=np.int64)


def draw_label(problem: Problem, region: Region, urn: Counter, rng: np.random.Generator) -> int:
    """One draw from the urn of a sum node."""
    width, alpha = problem.n_children(region), problem.alpha(region)
    if width != math.inf:
        labels = range(width)
        masses = [urn[c] + mass for c, mass in zip(labels, problem.child_masses[region.index], strict=True)]
    else:
        n_entries = problem.n_options(region)
        entry = int(rng.integers(n_entries))
        new = entry + n_entries * sum(label % n_entries == entry for label in urn)
        labels = [*urn, new]
        masses = [*urn.values(), alpha]
    return labels[draw_index(masses, rng)]


# ---- 7. ready-made problems
GAUSSIAN = ("gaussian", {"mu0": 0.5, "rho0": 0.2, "a0": 2.0, "b0": 1.0})
NARROW = ("gaussian", {"mu0": 1.0, "rho0": 0.5, "a0": 3.0, "b0": 0.6})
EXPONENTIAL = ("exponential", {"alpha": 3.0, "beta": 2.5})
LOG_NORMAL = ("log_normal", {"mu0": 0.2, "rho0": 0.4, "a0": 2.0, "b0": 0.5})
POISSON = ("poisson", {"alpha": 2.0, "beta": 1.0})
GEOMETRIC = ("geometric", {"alpha": 7.0, "beta": 8.0})
BINOMIAL = ("binomial", {"alpha": 1.5, "beta": 2.0, "trials": 5.0})
MORE_TRIALS = ("binomial", {"alpha": 0.6, "beta": 0.8, "trials": 9.0})  # a and b below 1: largest at both ends
CATEGORICAL = ("categorical", {"alpha": [0.4, 0.7, 1.0]})
BERNOULLI = ("bernoulli", {"alpha": [0.5, 1.1]})


def tiny_problems() -> dict[str, Problem]:
    """Problems by name, each enumerated within a few seconds; fresh objects at every call."""
    nan = np.nan
    pair, triple = ((0,), (1,)), ((0,), ((1,), (2,)))
    per_product = Splits([(((0,), (1,)), (2,)), ((1,), ((2,), (0,)))])
    two_trees = Splits([(((0,), (1,)),), (((1,), (0,)),)])
    mixed = [[GAUSSIAN, EXPONENTIAL], [EXPONENTIAL, NARROW]]
    skewed = [[LOG_NORMAL, EXPONENTIAL], [GEOMETRIC, POISSON]]
    discrete = [[BERNOULLI], [POISSON, CATEGORICAL]]
    kinds = [[GAUSSIAN, EXPONENTIAL], [BERNOULLI], [POISSON]]
    counts = [[GAUSSIAN, POISSON], [CATEGORICAL], [BINOMIAL, MORE_TRIALS]]
    X4 = np.array([[0.3, 1.1], [0.5, 0.9], [2.4, 0.2], [1.9, 2.6]])
    X3 = np.array([[0.3, 1.1], [2.4, 0.2], [2.1, 0.4]])
    waits = np.array([[0.3, 1.0], [2.4, 0.0], [2.1, 4.0]])
    gappy = np.array([[0.3, 1.0], [2.4, nan], [2.1, 4.0]])
    codes = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
    gaps = np.array([[0.4, 1.0, 2.0], [nan, 1.0, nan], [1.7, nan, nan]])
    return {
        "mixed": Problem(pair, 2, 1.5, 0.8, mixed, X4),  # 4096 labelled states
        "palette": Problem(triple, 2, 1.2, 2.0, counts, np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])),  # 1024
        "missing": Problem(triple, 2, 1.0, 1.4, kinds, gaps),  # 1024
        "depths": Problem(pair, (2, 3), 1.5, 0.8, [[GAUSSIAN, EXPONENTIAL], [NARROW]], X3),  # uneven copies
        "splits": Problem(per_product, 2, 1.2, 2.0, counts, np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])),  # 1024
        "infinite": Problem(pair, "infinite", 1.5, 0.8, mixed, X3),
        "infinite_discrete": Problem(pair, "infinite", 0.7, 1.3, discrete, codes),
        "infinite_missing": Problem(triple, "infinite", 1.0, 1.4, kinds, gaps),
        "infinite_splits": Problem(per_product, "infinite", 1.0, 1.4, kinds, gaps),
        "skewed": Problem(pair, 2, 1.3, 0.9, skewed, waits),
        "infinite_skewed": Problem(pair, "infinite", 1.3, 0.9, [[LOG_NORMAL], [GEOMETRIC, BINOMIAL]], gappy),
        "two_trees": Problem(two_trees, (2, 3, 2), 1.0, 1.4, mixed, X3),
    }
