"""Tuning of empirical leaf priors on validation rows by Optuna's tree-structured Parzen estimator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.networks.learners import fit_variational
from pymc_spn.networks.network_posterior import NetworkPosterior
from pymc_spn.networks.variational.empirical_priors import empirical_leaf_priors
from pymc_spn.numerics.cluster_clients import check_client, mapped
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.inputs import LeafFamilies, Resolution, TableLike

if TYPE_CHECKING:
    import distributed

SMALLEST_RATIO = 0.01  # ratios are searched from here to 1, on a log scale


@dataclass(frozen=True)
class TunedLeafPriors:
    """Result of `tune_leaf_priors`.

    Parameters
    ----------
    leaves : dict of str to list
        Leaf families for `SPN` or `fit_variational`, with ``leaf_scale=1``.
    ratio : dict of str to float
        Subsampling ratio of each column.
    score : float
        Mean log density of the validation rows in the best trial, in nats. It is the largest of many, so it is
        optimistic.
    scores : (n_trials,) float64
        Score of every trial, in order.

    Examples
    --------
    >>> structure = ps.circuits.learn_tree(df, random_seed=1)
    >>> tuned = ps.leaves.tune_leaf_priors(df[:60], structure, df[60:], n_trials=2, random_seed=1)
    >>> fit = ps.fit_variational(df, structure, leaves=tuned.leaves, leaf_scale=1.0, random_seed=1)
    """

    leaves: dict[str, list[Any]]
    ratio: dict[str, float]
    score: float
    scores: np.ndarray


def tune_leaf_priors(
    train: TableLike,
    structure: RegionTree | Circuit,
    validation: TableLike,
    *,
    n_trials: int = 100,
    trials_at_once: int = 1,
    fit: Callable[[dict[str, list[object]]], NetworkPosterior] | None = None,
    leaves: LeafFamilies | None = None,
    n_entries: int | None = None,
    floor: float = 1e-4,
    resolution: Resolution = "auto",
    random_seed: int | None = None,
    progressbar: bool = True,
    client: "distributed.Client | None" = None,
) -> TunedLeafPriors:
    """Choose a subsampling ratio for every column by Optuna's TPE.

    The ratios maximise the density of validation rows. Each trial draws `empirical_leaf_priors` from the training rows,
    fits a network to them and scores it on the validation rows. Do not pass test rows: keep them for the network that
    you fit with the result.

    Parameters
    ----------
    train, validation : DataFrame of pandas, polars or pyarrow, Table, dict of columns or (N, D) array
        Validation rows are coded by the training table's columns.
    structure : RegionTree or Circuit
        As in `SPN`.
    n_trials : int
    trials_at_once : int
        Number of trials whose ratios are chosen together, before any of their scores is known. One chooses best. With a
        `client`, this many workers are busy.
    fit : callable, optional
        From leaf families to anything with ``log_density(validation)``, for instance a short run of ``pm.sample`` and
        its `SPNPosterior`. By default `fit_variational` with ``leaf_scale=1``, one restart and 100 steps.
    leaves, n_entries, floor, resolution
        As in `empirical_leaf_priors`.
    random_seed : int, optional
        For TPE, subsamples and starts; every trial has the same subsamples at the same ratios.
    progressbar : bool
        Show a bar, which counts trials, once it has taken a second.
    client : distributed.Client, optional
        Trials run on the workers of this cluster. The result depends on `trials_at_once`, and not on the client.

    Returns
    -------
    TunedLeafPriors

    Raises
    ------
    ImportError
        If Optuna is not installed, or workers lack a package or have another version.
    RuntimeError
        If the cluster is gone.
    ValueError
        As `empirical_leaf_priors`; if `n_trials` or `trials_at_once` is below 1, or there are no validation rows.

    Examples
    --------
    >>> structure = ps.circuits.learn_tree(df, random_seed=1)
    >>> tuned = ps.leaves.tune_leaf_priors(df[:60], structure, df[60:], n_trials=2, random_seed=1)
    >>> sorted(tuned.ratio)
    ['age', 'income', 'job']

    References
    ----------
    Yokoi and Sato (2024), section 3.4: the ratios and the search for them. Bergstra, J., Bardenet, R., Bengio, Y. and
    Kegl, B. (2011). Algorithms for hyper-parameter optimization. NeurIPS: the tree-structured Parzen estimator.
    """
    try:
        import optuna
    except ImportError:
        raise ImportError('tune_leaf_priors needs Optuna: install the extra "tune" of pymc_spn') from None
    for argument, number in (("n_trials", n_trials), ("trials_at_once", trials_at_once)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{argument} must be an integer of at least 1, got {quoted(number)}")
    check_client(client)
    table = train if isinstance(train, Table) else Table.from_frame(train)
    held_out = Table.from_frame(validation, schema=table.columns)
    if len(held_out.values) == 0:
        raise ValueError("validation must have at least one row; it has none")
    seed = int(np.random.default_rng(random_seed).integers(2**31))

    def palettes(ratio: dict[str, float]) -> dict[str, list[Any]]:
        return empirical_leaf_priors(
            table,
            structure,
            ratio,
            leaves=leaves,
            n_entries=n_entries,
            floor=floor,
            resolution=resolution,
            random_seed=seed,
        )

    def usual_fit(own: dict[str, list[object]]) -> NetworkPosterior:
        return fit_variational(
            table,
            structure,
            leaves=own,
            leaf_scale=1.0,
            resolution=resolution,
            restarts=1,
            max_steps=100,
            random_seed=seed,
            progressbar=False,
        )

    def score(ratio: dict[str, float]) -> float:
        logs = (fit or usual_fit)(palettes(ratio)).log_density(held_out)
        return float(np.mean(np.maximum(logs, -1e6)))  # a row outside the support is a bad trial, not a failed one

    ratios: dict[str, Any] = {
        name: optuna.distributions.FloatDistribution(SMALLEST_RATIO, 1.0, log=True) for name in table.names
    }
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=trials_at_once > 1)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        with ProgressBar("Tuning leaf priors", n_trials, progressbar) as bar:
            for begin in range(0, n_trials, trials_at_once):
                trials = [study.ask(ratios) for _ in range(min(trials_at_once, n_trials - begin))]
                asked = [trial.params for trial in trials]
                found = map(score, asked) if client is None else mapped(client, _scored, asked, score)
                for trial, value in zip(trials, found, strict=True):
                    study.tell(trial, value)
                    bar.advance()
    finally:
        optuna.logging.set_verbosity(level)
    ratio = {name: float(study.best_params[name]) for name in table.names}
    scores = np.array([trial.value for trial in study.trials], np.float64)
    return TunedLeafPriors(palettes(ratio), ratio, float(study.best_value), scores)


def _scored(ratio: dict[str, float], score: Callable[[dict[str, float]], float]) -> float:
    """On a worker, which is sent the tables within ``score`` once for all trials of a batch."""
    return score(ratio)
