"""How far drawn trees agree: distances between their partitions, and R-hat of scalars of the tree."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.chain_mixing import Mixing, Questions, diagnosis
from pymc_spn.numerics.memory_limits import refuse_count, refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.trees.predictives import log_predictive_density, training_leaves

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pymc_spn.trees.draws import TreeDraws

SHOWN_ROWS = 20


def distances(draws: "TreeDraws", numbers: Any, n_pairs: int, rng: np.random.Generator) -> "xr.DataArray":
    """(tree, tree) share of row pairs that one tree joins in a leaf and the other separates."""
    import xarray as xr

    numbers = np.arange(draws.n_trees) if numbers is None else np.atleast_1d(np.asarray(numbers))
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or ((numbers < 0) | (numbers >= draws.n_trees)).any():
        raise ValueError(f"numbers must be integers within 0..{draws.n_trees - 1}, got {numbers.tolist()}")
    if not isinstance(n_pairs, int | np.integer) or n_pairs < 1:
        raise ValueError(f"n_pairs must be an integer of at least 1, got {quoted(n_pairs)}")
    n_rows = len(draws.y)
    refuse_count("n_pairs", min(int(n_pairs), n_rows * (n_rows - 1) // 2), 16.0 + 9.0 * len(numbers))
    if len(draws.y) < 2:
        raise ValueError("tree_distance compares pairs of rows, and the posterior has one row")
    refuse_memory(f"tree_distance of {len(numbers):,} trees", 24.0 * len(numbers) ** 2, "choose some with numbers=")
    together, error = _joined(draws, numbers, n_pairs, rng)
    # pairs that each of two trees joins, less those that both join: whole numbers, and no array over pairs of trees
    one = together.astype(np.float64)
    joined, both = one.sum(1), one @ one.T
    values = (joined[:, None] + joined - 2.0 * both) / one.shape[1]
    coords = {"tree": numbers, "other": numbers}
    return xr.DataArray(values, dims=("tree", "other"), coords=coords, attrs=error)


def _joined(draws, numbers, n_pairs, rng):
    """(tree, pair) whether the rows of each pair share a leaf; all pairs where there are not more than ``n_pairs``."""
    n = len(draws.y)
    if n * (n - 1) // 2 <= n_pairs:
        a, b = np.triu_indices(n, 1)
        error = {"exactness": "exact"}
    else:
        a = rng.integers(0, n, n_pairs)
        b = (a + rng.integers(1, n, n_pairs)) % n
        error = {"exactness": "monte-carlo", "mcse": float(0.5 / np.sqrt(n_pairs))}
    together = np.empty((len(numbers), len(a)), np.bool_)
    for i, t in enumerate(each(numbers)):
        leaf = training_leaves(draws, int(t))
        together[i] = leaf[a] == leaf[b]
    return together, error


def rhat(draws: "TreeDraws", values: np.ndarray, y: np.ndarray) -> "xr.DataArray":
    """Rank-normalised split R-hat of five scalars of the tree."""
    import xarray as xr

    chains = np.unique(draws.group)
    if len(chains) < 2 or not draws.of_chains:
        raise ValueError("rhat needs the draws of at least two chains of pm.sample")
    leaves = np.bincount(draws.tree_of_node, draws.decisions[:, 0] < 0, draws.n_trees)
    depth = np.maximum.reduceat(draws.depth, draws.begin[:-1])
    score = _log_predictives(draws, values, y).mean(axis=1)
    together, _ = _joined(draws, np.arange(draws.n_trees), 2000, np.random.default_rng(0))
    best = int(np.argmax(draws.log_joint))
    far = (together != together[best]).mean(1)
    scalars = {
        "log_joint": draws.log_joint,
        "leaves": leaves,
        "depth": depth,
        "log_predictive": score,
        "distance": far,
    }
    found = {}
    for name, x in scalars.items():
        by_chain = np.asarray(x, np.float64).reshape(len(chains), -1)
        found[name] = 1.0 if np.ptp(by_chain) == 0.0 else Mixing.of(by_chain).r_hat
    return xr.DataArray(list(found.values()), dims="scalar", coords={"scalar": list(found)})


def diagnosis_of_trees(
    post: Any, questions: Questions | None, values: np.ndarray, y: np.ndarray, rows: Any, max_rows: int
) -> "pd.DataFrame":
    """The table of `TreePosterior.diagnose`; values, responses and labels are those of the rows."""
    import xarray as xr

    draws = post._draws
    if not draws.of_chains:
        raise ValueError(
            "diagnose compares the chains of pm.sample, and these trees are from none; the islands of fit_tree are "
            "compared by log_evidence_islands and log_evidence_se"
        )
    chains = np.unique(draws.group)
    shape = len(chains), draws.n_trees // len(chains)
    logs = xr.DataArray(
        _log_predictives(draws, values, y).reshape(*shape, len(y)),
        dims=("chain", "draw", "row"),
        coords={"row": list(rows)},
    )
    own = {"log_joint": xr.DataArray(draws.log_joint.reshape(shape), dims=("chain", "draw"))}
    if len(y):
        shown = np.unique(np.linspace(0, len(y) - 1, min(max_rows, len(y))).round().astype(int))
        own |= {"log_predictive, mean of rows": logs.mean("row"), "log_predictive": logs.isel(row=shown)}

    def by_chain(answer: Any) -> Any:
        if "tree" not in getattr(answer, "dims", ()) or answer.sizes["tree"] != draws.n_trees:
            return answer
        answer = answer.transpose("tree", ...)
        coords = {d: answer[d].values for d in answer.dims[1:]}
        return xr.DataArray(
            answer.values.reshape(*shape, *answer.shape[1:]), coords, ("chain", "draw", *answer.dims[1:])
        )

    return diagnosis(post, questions, own, by_chain)


def _log_predictives(draws: "TreeDraws", values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(tree, row) log predictive density of responses under each tree."""
    one = np.eye(draws.n_trees)
    return np.array([log_predictive_density(draws, one[t], values, True, y) for t in each(range(draws.n_trees))])
