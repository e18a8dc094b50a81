"""Total causal effects in linear Gaussian networks: exact posterior means, and draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.dags import effect_kernels
from pymc_spn.dags.order_sample import draw
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.memory_limits import refuse_memory


def mean_effects(max_gigabytes: float) -> Callable[[Any], np.ndarray]:
    """A function of a posterior that gives (d, d) posterior means, causes by effects.

    It keeps the mean coefficients of the last tables: stretches of a chain share them.

    Raises
    ------
    ValueError
        When it is called: if the scores are not BGe, or the tables would need more memory.
    """
    kept: dict[Any, np.ndarray] = {}

    def means_of(post: Any) -> np.ndarray:
        scores, lattice, passes = post.scores, post.lattice, post._lattice_passes
        if post._leaf_tables not in kept:
            kept.clear()
            kept[post._leaf_tables] = mean_coefficients(post, max_gigabytes)
        answer, out = np.empty((scores.d, scores.d)), np.empty((lattice.n_prefixes, scores.d))
        for cause in each(range(scores.d)):
            effect_kernels.effects_of(
                cause, lattice.ptr, lattice.source, lattice.variable, passes.places, passes.from_source, passes.prefix,
                scores.candidates, scores.n_candidates, kept[post._leaf_tables], out,
            )  # fmt: skip
            answer[cause] = out[-1]
            answer[cause, cause] = 1.0  # shares of a prefix add up to one but for rounding
        return answer

    return means_of


def mean_coefficients(post: Any, max_gigabytes: float) -> np.ndarray:
    """(sets of parents, candidates) mean coefficients of every set times the weights of the sets inside it."""
    scores, moments = post.scores, _moments(post)
    widest = scores.candidates.shape[1]
    refuse_memory(
        "causal_effects (mean coefficients of all parent sets)",
        8.0 * (scores.log_scores.size * widest + post.lattice.n_prefixes * scores.d),
        "use sample_effects, or fewer candidates",
        max_gigabytes,
    )
    means = np.zeros((scores.log_scores.size, widest))
    for i in each(range(scores.d)):
        part = slice(scores.offsets[i], scores.offsets[i + 1])
        rows = [i, *scores.candidates[i, : scores.n_candidates[i]]]
        table = post._leaf_tables.log_scores(i)
        own = np.empty((table.size, len(rows) - 1))
        matrix = np.ascontiguousarray(moments.matrices[i][np.ix_(rows, rows)])
        effect_kernels.regression_means(matrix, own)
        effect_kernels.average_inside(table.copy(), own)
        means[part, : len(rows) - 1] = own
    return means


def draw_effects(post: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, d, d) draws, causes by effects: (I - B)^-1 with coefficients from their multivariate t given the graph."""
    moments = _moments(post)
    return effects_of_graphs(*draw(post, n, rng), moments, rng)


def effects_of_graphs(orders: np.ndarray, graphs: np.ndarray, moments: Any, rng: np.random.Generator) -> np.ndarray:
    """(n, d, d) one draw of all effects for each graph, which fits the order (n, d) of its variables.

    Given its l parents, the coefficients of a variable are multivariate t with alpha_w + N - d + l + 1 degrees of
    freedom round R_PP^-1 R_Pi. Their scale is (R_ii - R_iP R_PP^-1 R_Pi) / df times R_PP^-1 (checked by Wishart draws).
    """
    n, d = graphs.shape[:2]
    coefficients = np.zeros((n, d, d))
    normal = rng.standard_normal((n, d, d))
    for i in each(range(d)):
        matrix = moments.matrices[i]
        sets, which = np.unique(graphs[:, :, i], axis=0, return_inverse=True)
        which = which.reshape(-1)
        for s, row in enumerate(sets):
            parents = np.flatnonzero(row)
            if not parents.size:
                continue
            draws = np.flatnonzero(which == s)
            df = moments.alpha_w + moments.n_rows[i] - d + parents.size + 1
            mean, root, rest = regression(matrix, i, parents)
            noise = np.linalg.solve(root.T, normal[np.ix_(draws, parents, [i])][..., 0].T).T
            spread = np.sqrt(rest / rng.chisquare(df, len(draws)))
            coefficients[np.ix_(draws, parents, [i])] = (mean + noise * spread[:, None])[..., None]
    # in the order of the graph the matrix is triangular, and where no path leads its inverse is exactly zero
    rows, columns = orders[:, :, None], orders[:, None, :]
    draws = np.arange(n)[:, None, None]
    out = np.empty_like(coefficients)
    out[draws, rows, columns] = np.linalg.inv(np.eye(d) - coefficients[draws, rows, columns])
    return out


def regression(matrix: np.ndarray, child: int, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean coefficients (..., l), Cholesky factor of the parents' part (..., l, l) and what is left of the child (...).

    Parameters
    ----------
    matrix : (..., k, k) float64
        Posterior scale matrices.
    child : int
    parents : (l,) int
    """
    root = np.linalg.cholesky(matrix[..., parents[:, None], parents])
    cross = matrix[..., parents, child]
    half = np.linalg.solve(root, cross[..., None])
    mean = np.linalg.solve(root.swapaxes(-1, -2), half)[..., 0]
    return mean, root, matrix[..., child, child] - (cross * mean).sum(axis=-1)


def _moments(post: Any) -> Any:
    if post.scores.gaussian is None:
        raise ValueError(f"causal effects need BGe scores, these are {post.scores.score!r}")
    return post.scores.gaussian
