"""Effects between variables with levels: the law of one when another is set, by exact sums in each graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.memory_limits import refuse_memory

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
    out, known = [], dict[tuple[Family, ...], np.ndarray]()
    for graph in each(graphs):
        families = _families(graph, cause, effect)
        found = known[families] if is_fixed and families in known else answer(families)
        if is_fixed:
            known[families] = found
        out.append(found)
    return np.array(out)


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
