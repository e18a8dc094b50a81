"""Total causal effects in linear Gaussian networks: exact posterior means, and draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.dags.drawing import draw
from pymc_spn.numerics.memory_limits import refuse_memory


def mean_effects(post: Any, max_gigabytes: float) -> Callable[[Any], np.ndarray]:
    """A function of a posterior with the tables of `post` that gives (d, d) posterior means, causes by effects.

    Raises
    ------
    ValueError
        If the scores are not BGe, or the tables would need more memory.
    """
    from pymc_spn.dags import effect_kernels

    scores, moments, lattice = post.scores, _moments(post), post.lattice
    widest = scores.candidates.shape[1]
    refuse_memory(
        "causal_effects (mean coefficients of all parent sets)",
        8.0 * (scores.log_scores.size * widest + lattice.n_prefixes * scores.d),
        "use sample_effects, or fewer candidates",
        max_gigabytes,
    )
    means = np.zeros((scores.log_scores.size, widest))
    for i in range(scores.d):
        part = slice(scores.offsets[i], scores.offsets[i + 1])
        rows = [i, *scores.candidates[i, : scores.n_candidates[i]]]
        table = post._leaf_tables.log_scores(i)
        own = np.empty((table.size, len(rows) - 1))
        matrix = np.ascontiguousarray(moments.matrices[i][np.ix_(rows, rows)])
        effect_kernels.regression_means(matrix, table, np.empty(table.size), own)
        means[part, : len(rows) - 1] = own

    def means_of(asked: Any) -> np.ndarray:
        lattice, passes = asked.lattice, asked._lattice_passes
        answer = np.empty((scores.d, scores.d))
        out = np.empty((lattice.n_prefixes, scores.d))
        for cause in range(scores.d):
            effect_kernels.effects_of(
                cause,
                lattice.ptr,
                lattice.source,
                lattice.variable,
                passes.index,
                passes.from_source,
                passes.prefix,
                scores.offsets,
                scores.candidates,
                scores.n_candidates,
                means,
                out,
            )
            answer[cause] = out[-1]
        return answer

    return means_of


def draw_effects(post: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, d, d) draws, causes by effects: (I - B)^-1 with coefficients from their multivariate t given the graph."""
    moments = _moments(post)
    _, graphs = draw(post, n, rng)
    return effects_of_graphs(graphs, moments, rng)


def effects_of_graphs(graphs: np.ndarray, moments: Any, rng: np.random.Generator) -> np.ndarray:
    """(n, d, d) one draw of all effects for each graph.

    Given its l parents, the coefficients of a variable are multivariate t with alpha_w + N - d + l + 1 degrees of
    freedom round R_PP^-1 R_Pi, with scale (R_ii - R_iP R_PP^-1 R_Pi) / df times R_PP^-1 (checked by Wishart draws).
    """
    n, d = graphs.shape[:2]
    coefficients = np.zeros((n, d, d))
    normal = rng.standard_normal((n, d, d))
    for i in range(d):
        matrix = moments.matrices[i]
        sets, which = np.unique(graphs[:, :, i], axis=0, return_inverse=True)
        which = which.reshape(-1)
        for s, row in enumerate(sets):
            parents = np.flatnonzero(row)
            if not parents.size:
                continue
            draws = np.flatnonzero(which == s)
            df = moments.alpha_w + moments.n_rows[i] - d + parents.size + 1
            root = np.linalg.cholesky(matrix[np.ix_(parents, parents)])
            cross = matrix[parents, i]
            mean = np.linalg.solve(root.T, np.linalg.solve(root, cross))
            rest = matrix[i, i] - cross @ mean
            noise = np.linalg.solve(root.T, normal[np.ix_(draws, parents, [i])][..., 0].T).T
            spread = np.sqrt(rest / rng.chisquare(df, len(draws)))
            coefficients[np.ix_(draws, parents, [i])] = (mean + noise * spread[:, None])[..., None]
    return np.linalg.inv(np.eye(d) - coefficients)


def _moments(post: Any) -> Any:
    if post.scores.gaussian is None:
        raise ValueError(f"causal effects need BGe scores, these are {post.scores.score!r}")
    return post.scores.gaussian
