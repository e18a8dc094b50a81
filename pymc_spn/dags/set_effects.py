"""Effects when a variable is set: laws of variables with levels and means of numeric ones, by exact sums in each graph.

The mean of a numeric variable is its intercept plus the sum of its numeric parents' means times their coefficients; all
of these depend on levels. Multiplied out, that is a sum over walks: a walk starts at the effect, goes on to a numeric
parent, and stops at an intercept or at the cause. Each step of a walk is one more variable with levels. So the sum over
walks and over levels is a sum of the kind that `law_of` does, one variable at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.dags.causal_effects import regression
from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.scores import scale_matrix
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted

Family = tuple[int, ...]  # a variable, then its parents
Factor = tuple[tuple[int, ...], np.ndarray]  # variables, and a table with an axis for each


def laws_when_set(
    graphs: np.ndarray, counts: LevelCounts, cause: int, effect: int, rng: np.random.Generator | None
) -> np.ndarray:
    """(n, levels of the cause, levels of the effect): P(effect | do(cause)) in each graph.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.
    counts : LevelCounts
    cause, effect : int
        Numbers of two variables.
    rng : Generator, optional
        Draw the conditional probabilities from their posterior. Without it they are integrated out. Each term of the
        sum is a product of probabilities of different variables. These are independent given the graph, so means in
        their place are exact.
    """
    levels = counts.n_levels

    def law(families: tuple[Family, ...]) -> np.ndarray:
        return law_of([table_of_levels(counts, f, rng) for f in families], cause, effect, levels)

    return in_each_graph(graphs, cause, effect, law, rng is None)


def in_each_graph(
    graphs: np.ndarray,
    cause: int,
    effect: int,
    answer: Callable[[tuple[Family, ...]], np.ndarray],
    is_fixed: bool,
) -> np.ndarray:
    """(n, ...): an answer for each graph, from the families of the effect and its ancestors once the cause is set.

    Where it `is_fixed`, graphs of the same families share one answer.
    """
    answer = cache(answer) if is_fixed else answer
    return np.array([answer(_families(graph, cause, effect)) for graph in each(graphs)])


def table_of_levels(counts: LevelCounts, family: Family, rng: np.random.Generator | None) -> Factor:
    """Probabilities of a variable given its parents: posterior means, or one draw."""
    child, *parents = family
    alpha = counts.dirichlet(child, tuple(parents))
    table = alpha / alpha.sum(axis=-1, keepdims=True) if rng is None else _draw(alpha, rng)
    return (*parents, child), table


def _families(graph: np.ndarray, cause: int, effect: int) -> tuple[Family, ...]:
    """(child, parents...) of the effect and all its ancestors, once the edges into the cause are cut."""
    found, ahead = [], [effect]
    known = {cause, effect}
    while ahead:
        child = ahead.pop()
        parents = np.flatnonzero(graph[:, child]).tolist()
        found.append((child, *parents))
        ahead += [p for p in parents if p not in known]
        known.update(parents)
    return tuple(sorted(found))


def law_of(factors: list[Factor], cause: int, effect: int, levels: np.ndarray) -> np.ndarray:
    """(levels of the cause, levels of the effect): all other variables are summed out, the cheapest first."""
    hidden = {v for scope, _ in factors for v in scope} - {cause, effect}
    while hidden:
        joint = {v: tuple(sorted({u for scope, _ in factors if v in scope for u in scope})) for v in hidden}
        size, variable = min((float(np.prod(levels[list(joint[v])], dtype=float)), v) for v in hidden)
        refuse_memory("the law of an effect in one graph", 8.0 * size, "use fewer candidates, or max_indegree=")
        scope = joint[variable]
        rest = tuple(v for v in scope if v != variable)
        table = _product([f for f in factors if variable in f[0]], scope, rest)
        factors = [f for f in factors if variable not in f[0]] + [(rest, table)]
        hidden.remove(variable)
    known = tuple(sorted({v for scope, _ in factors for v in scope} | {effect}))
    law = _product(factors, known, tuple(v for v in (cause, effect) if v in known))
    return np.broadcast_to(law, (levels[cause], levels[effect]))


def _product(factors: list[Factor], scope: tuple[int, ...], kept: tuple[int, ...]) -> np.ndarray:
    """Product of tables over a scope, summed over what is not kept."""
    place = {v: k for k, v in enumerate(scope)}
    operands: list[Any] = []
    for variables, table in factors:
        operands += [table, [place[v] for v in variables]]
    return np.einsum(*operands, [place[v] for v in kept], optimize=True)


def _draw(alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Dirichlet draws along the last axis; logs, since a gamma draw with a small parameter may be below all floats."""
    logs = np.log(rng.standard_gamma(alpha + 1.0)) + np.log(rng.random(alpha.shape)) / alpha
    values = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


class Coefficients(NamedTuple):
    """Posterior of the regression of a numeric variable on l numeric parents, in each of q configurations of levels."""

    levels: tuple[int, ...]  # parents with levels
    numbers: tuple[int, ...]  # numeric parents
    mean: np.ndarray  # (q, l)
    spread: np.ndarray  # (q, l, l), times its transpose the inverse of the parents' scale matrix
    rest: np.ndarray  # (q,)
    df: np.ndarray  # (q,), of rest / variance, a chi-squared variable
    at: np.ndarray  # (q, 1 + l), posterior means of the child and its parents
    n_mean: np.ndarray  # (q,), rows behind them, the prior's included
    units: np.ndarray  # (1 + l,), of the child, and of its coefficients
    centres: np.ndarray  # (1 + l,), of the child and its parents


def means_when_set(
    graphs: np.ndarray, rows: LevelCounts, cause: int, effect: int, rng: np.random.Generator | None
) -> np.ndarray:
    """(n, levels of the cause, 2): E(effect | do(cause)) in each graph, a constant and what a numeric cause multiplies.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.
    rows : LevelCounts
    cause, effect : int
        Numbers of two variables. The effect is numeric; a numeric cause has one level, and the mean is linear in it.
    rng : Generator, optional
        Draw probabilities, coefficients and variances from their posterior. Without it they are integrated out: each
        term of the sum is a product of parameters of different variables, which are independent given the graph.
    """
    numbers = frozenset(rows.numeric.tolist())
    known: dict[Family, Coefficients] = {}

    def mean_of(families: tuple[Family, ...]) -> np.ndarray:
        numeric = [f for f in _children_first(families) if f[0] in numbers]
        state = {child: t for t, (child, *_) in enumerate(numeric)} | {-1: len(numeric)}
        state.setdefault(cause, len(numeric) + 1)
        levels = np.concatenate([rows.n_levels, np.full(len(numeric) + 1, len(numeric) + 2)])
        factors = [table_of_levels(rows, f, rng) for f in families if f[0] not in numbers]
        for t, family in enumerate(numeric):
            if family not in known:
                known[family] = posterior_of(rows, family)
            factors.append(_step(known[family], state, t, rows.n_levels, rng))
        return law_of(factors, cause, levels.size - 1, levels)[:, -2:]

    return in_each_graph(graphs, cause, effect, mean_of, rng is None)


def posterior_of(rows: LevelCounts, family: Family) -> Coefficients:
    """Normal-Wishart posterior in each configuration; the prior where there are no rows.

    Given l numeric parents the degrees of freedom are alpha_w + n - k + l + 1, k being the number of numeric variables,
    as in `causal_effects`. The intercept is what makes the posterior means fit, plus a normal error with the variance
    of a mean of alpha_mu + n rows. The mean vector given the precision is normal (Geiger and Heckerman 2002,
    doi:10.1214/aos/1035844981).
    """
    child, *parents = family
    is_number = np.isin(parents, rows.numeric).tolist()
    levels = tuple(j for j, number in zip(parents, is_number, strict=True) if not number)
    numbers = tuple(j for j, number in zip(parents, is_number, strict=True) if number)
    places = rows.places((child, *numbers))
    shape = tuple(rows.n_levels[list(levels)])
    k, q = len(places), int(np.prod(shape, dtype=np.int64))
    refuse_memory("coefficients of all configurations", 8.0 * q * k**2, "use fewer candidates, or max_indegree=")
    matrices = np.broadcast_to(rows.prior_scale * np.eye(k), (q, k, k)).copy()
    n, at = np.zeros(q), np.zeros((q, k))
    for configuration, own in rows.configurations(child, levels):
        place = np.ravel_multi_index(configuration, shape) if shape else 0
        x = own[:, places]
        matrices[place] = scale_matrix(x, rows.alpha_mu, rows.prior_scale)
        n[place] = len(x)
        at[place] = x.sum(axis=0) / (rows.alpha_mu + len(x))
    mean, root, rest = regression(matrices, 0, np.arange(1, k))
    df, n_mean = rows.alpha_w + n - rows.numeric.size + k, rows.alpha_mu + n
    units = rows.units[places].copy()
    units[1:] = units[0] / units[1:]
    spread = np.linalg.inv(root).swapaxes(1, 2)
    return Coefficients(levels, numbers, mean, spread, rest, df, at, n_mean, units, rows.centres[places])


def intercept_and_slopes(known: Coefficients, rng: np.random.Generator | None) -> np.ndarray:
    """(q, 1 + l) in the units of the data: posterior means, or one draw."""
    slopes, noise = known.mean, 0.0
    if rng is not None:
        sd = np.sqrt(known.rest / rng.chisquare(known.df))
        normal = rng.standard_normal(known.at.shape)
        slopes = slopes + sd[:, None] * (known.spread @ normal[:, 1:, None])[..., 0]
        noise = sd / np.sqrt(known.n_mean) * normal[:, 0]
    out = np.empty(known.at.shape)
    out[:, 0] = known.at[:, 0] - (slopes * known.at[:, 1:]).sum(axis=1) + noise
    out[:, 1:] = slopes
    out *= known.units
    out[:, 0] += known.centres[0] - out[:, 1:] @ known.centres[1:]
    return out


def _step(
    known: Coefficients, state: dict[int, int], t: int, n_levels: np.ndarray, rng: np.random.Generator | None
) -> Factor:
    """How a walk goes on from variable t: to a numeric parent, or to its intercept; other walks stay where they are."""
    n_states, shape = len(state), tuple(n_levels[list(known.levels)])
    values = intercept_and_slopes(known, rng)
    refuse_memory("the mean of an effect in one graph", 8.0 * len(values) * n_states**2, "use fewer candidates")
    table = np.zeros((*shape, n_states, n_states))
    stay = np.arange(n_states) != t
    table[..., stay, stay] = 1.0
    table[..., t, [state[-1], *(state[j] for j in known.numbers)]] = values.reshape(*shape, -1)
    at = n_levels.size + t
    return ((*known.levels, at, at + 1), table) if t else ((*known.levels, at + 1), table[..., 0, :])


def _children_first(families: tuple[Family, ...]) -> list[Family]:
    """Families in an order in which each child stands before its parents."""
    left, found = list(families), []
    while left:
        parents = {j for _, *of_child in left for j in of_child}
        ready = [f for f in left if f[0] not in parents]
        found += ready
        left = [f for f in left if f not in ready]
    return found


@dataclass(frozen=True, eq=False)
class Setting:
    """A question about an effect when a cause is set.

    Parameters
    ----------
    counts : LevelCounts
    cause, effect : int
        Numbers of variables.
    set_to : sequence
        Levels of the cause, all of them, or values of a numeric one.
    versus : level or number, optional
        What to compare with.
    marks : dict
        Names of the two, for answers.
    """

    counts: LevelCounts
    cause: int
    effect: int
    set_to: Sequence[Any]
    versus: Any
    marks: dict[str, str]

    @property
    def name(self) -> str:
        """Of the answer."""
        return "mean_when_set" if is_numeric(self.counts, self.effect) else "probability_when_set"

    @property
    def coords(self) -> dict[str, Sequence[Any]]:
        """Dimensions of an answer and their labels."""
        if is_numeric(self.counts, self.effect):
            return {"set_to": self.set_to}
        return {"set_to": self.set_to, "level": list(self.counts.levels[self.effect])}

    def answers(self, graphs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """(n, values of the cause[, levels of the effect]), one answer for each graph, drawn if there is an `rng`."""
        values = list(self.set_to) if self.versus is None else [*self.set_to, self.versus]
        of_number = is_numeric(self.counts, self.cause)
        places = [0] * len(values) if of_number else [self.set_to.index(v) for v in values]
        if is_numeric(self.counts, self.effect):
            found = means_when_set(graphs, self.counts, self.cause, self.effect, rng)[:, places]
            found = found[..., 0] + (found[..., 1] * np.array(values) if of_number else 0.0)
        else:
            found = laws_when_set(graphs, self.counts, self.cause, self.effect, rng)[:, places]
        return found if self.versus is None else found[:, :-1] - found[:, -1:]


def is_numeric(counts: LevelCounts, variable: int) -> bool:
    """Whether a variable has numbers instead of levels."""
    return variable in counts.numeric


def read_setting(
    scores: LocalScores, effect: str, cause: str, versus: Any, at: Any, name: str | None = None
) -> Setting:
    """Read the arguments of a question; `name` is that of the answer, where it must be one of a kind.

    Raises
    ------
    ValueError
        If they do not fit the scores or one another.
    """
    counts = scores.counts
    if counts is None:
        hint = "; causal_effects and sample_effects answer for these" if scores.gaussian is not None else ""
        raise ValueError(
            f"answers when a variable is set need BDeu or ConditionalGaussian scores, these are {scores.score!r}{hint}"
        )
    x, y = scores.position(cause), scores.position(effect)
    if x == y:
        raise ValueError(f"effect must be another variable than the cause, got {effect!r} twice")
    if is_numeric(counts, x):
        if at is None:
            raise ValueError(
                f"at must name the values that {cause!r} is set to, for instance at=[0.0, 1.0]: it is numeric"
            )
        set_to: list[Any] = _numbers("at", at)
        base = None if versus is None else _numbers("versus", [versus])[0]
    else:
        set_to, base = list(counts.levels[x]), versus
        if at is not None:
            raise ValueError(f"at is for numeric causes; {cause!r} has levels and is set to each of them: leave it out")
        if base is not None and base not in set_to:
            raise ValueError(f"versus must be a level of {cause!r}, {quoted(set_to)}; got {quoted(base)}")
    setting = Setting(counts, x, y, set_to, base, {"cause": scores.names[x], "effect": scores.names[y]})
    if name is not None and name != setting.name:
        kind, other = "has levels", "probabilities_when_set"
        if is_numeric(counts, y):
            kind, other = "is numeric", "mean_when_set"
        raise ValueError(f"effect: {effect!r} {kind}; ask {other}")
    return setting


def _numbers(argument: str, values: Any) -> list[float]:
    """Finite numbers, at least one."""
    found = [values] if np.ndim(values) == 0 or isinstance(values, Mapping) else list(values)
    wrong = [v for v in found if not is_real(v) or not np.isfinite(v)]
    if wrong or not found:
        raise ValueError(f"{argument} must be finite numbers, got {quoted(wrong[0] if wrong else values)}")
    return [float(v) for v in found]
