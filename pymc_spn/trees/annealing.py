"""Evidence of the trees by annealed importance sampling, where the particles' estimates disagree by nats."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees.chipman_kernels import chipman_sweep
from pymc_spn.trees.features import check_at_least, check_same_rows, make_features, make_rules
from pymc_spn.trees.leaves import (
    ResponseFamily,
    as_family,
    centre_of,
    make_leaf_prior,
    make_response,
    numbers_of_family,
)


def annealed_tree_evidence(
    X: TableLike,
    y: npt.ArrayLike,
    family: ResponseFamily | None = None,
    *,
    temperatures: int = 500,
    moves: int = 20,
    runs: int = 4,
    alpha_s: float = 0.95,
    beta_s: float = 0.5,
    max_depth: int | None = None,
    min_size: int = 2,
    split_weights: Mapping[str, float] | npt.ArrayLike | None = None,
    categorical: str | Mapping[str, str] = "onehot",
    missing: str = "branch",
    random_seed: int | np.random.Generator | None = None,
    kinds: dict | None = None,
) -> Any:
    """Log evidence by annealed importance sampling from the prior of the tree to its posterior.

    Each run draws a tree from the prior, then raises the power of the likelihood in small steps, each followed by grow,
    prune, change and swap moves. The mean of the runs' evidences is unbiased; its spread over runs is the error that
    can be seen.

    Parameters
    ----------
    X, y, family, alpha_s, beta_s, max_depth, min_size, split_weights, categorical, missing, kinds
        As in `fit_tree`.
    temperatures : int
        Steps from power 0 to power 1; powers are the fourth powers of an even grid, dense near the prior.
    moves : int
        Of the chain at each power.
    runs : int
        Independent runs, at least two.
    random_seed : int, Generator or None

    Returns
    -------
    DataArray
        (run,) log of each run's estimate, in nats. ``attrs["log_mean"]`` is the log of their mean, ``attrs["spread"]``
        the standard deviation of the logs.

    Examples
    --------
    >>> annealed = ps.trees.annealed_tree_evidence(X[["job"]], y, temperatures=20, moves=2, random_seed=1)
    >>> annealed.dims
    ('run',)

    References
    ----------
    Neal (2001), Annealed importance sampling, doi:10.1023/A:1008923215028, equation (8).
    """
    import xarray as xr

    features = make_features(X, categorical, split_weights, missing=missing, kinds=kinds)
    coded, family = as_family(family, y).code(y)
    check_same_rows(X, y, len(features.values), len(coded))
    for name, value, least in (("temperatures", temperatures, 1), ("moves", moves, 1), ("runs", runs, 2)):
        check_at_least(name, value, least)
    rules = make_rules(alpha_s, beta_s, max_depth, min_size)
    response = make_response(family, coded)
    leaf = make_leaf_prior(
        family.family, numbers_of_family(family), response.n_statistics, len(coded), centre_of(family, coded)
    )
    powers = np.linspace(0.0, 1.0, temperatures + 1) ** 4
    values = []
    for rng in np.random.default_rng(random_seed).spawn(runs):
        tree = _draw_prior(rng, features, rules)
        # no move: the likelihood of the tree that was drawn
        *_, log_likelihood = chipman_sweep(rng, features.codes, response, leaf, rules, tree, 0, 0.0)
        total = 0.0
        for before, power in pairwise(powers):
            total += (power - before) * log_likelihood
            tree, _, _, log_likelihood = chipman_sweep(rng, features.codes, response, leaf, rules, tree, moves, power)
        values.append(total)
    logs = np.array(values)
    log_mean = float(logs.max() + np.log(np.exp(logs - logs.max()).mean()))
    attrs = {"exactness": "monte-carlo", "log_mean": log_mean, "spread": float(logs.std(ddof=1))}
    return xr.DataArray(logs, dims="run", attrs=attrs)


def _draw_prior(rng: np.random.Generator, features: Any, rules: Any) -> np.ndarray:
    """Decisions of a tree from the prior: one particle with a response that says nothing."""
    from pymc_spn.trees.leaves import ClassLeaves
    from pymc_spn.trees.particle_kernels import NODE, PRIOR, run_particles
    from pymc_spn.trees.resampling import MULTINOMIAL

    silent = make_response(ClassLeaves(1.0, levels=(0,)), np.zeros(len(features.values)))
    leaf = make_leaf_prior("classes", np.ones(1), 1, len(features.values), 0.0)
    _, decisions, _ = run_particles(
        rng,
        features.codes,
        silent,
        leaf,
        rules,
        1,
        PRIOR,
        NODE,
        MULTINOMIAL,
        0.0,
        np.empty((0, 4), np.int32),
        features.scratch(1),
        np.zeros(4, np.int64),
    )
    return decisions
