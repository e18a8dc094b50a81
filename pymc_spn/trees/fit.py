"""`fit_tree`: top-down particle filtering without a PyMC model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
import numpy.typing as npt

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.cluster_clients import check_client, worked_out
from pymc_spn.numerics.draw_averages import stack
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.threads import parallel_config
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees.draws import TreeDraws, coded_problem
from pymc_spn.trees.features import TREE_BYTES, Features, make_features, make_rules
from pymc_spn.trees.leaf_kernels import ConjugatePrior, Response
from pymc_spn.trees.leaves import ResponseFamily, make_leaf_prior, make_response, numbers_of_family
from pymc_spn.trees.particle_kernels import EMPIRICAL, LAYER, NODE, OPTIMAL, PRIOR, run_particles
from pymc_spn.trees.posterior import TreePosterior
from pymc_spn.trees.predictives import log_leave_one_out
from pymc_spn.trees.resampling import SYSTEMATIC
from pymc_spn.trees.split_kernels import Rules

if TYPE_CHECKING:
    import distributed

PROPOSALS = {"prior": PRIOR, "optimal": OPTIMAL, "empirical": EMPIRICAL}
EXPANSIONS = {"node": NODE, "layer": LAYER}
NO_TREE = np.empty((0, 4), np.int32)


def run_island(
    task: tuple[int, np.random.Generator],
    features: Features,
    response: Response,
    leaf: ConjugatePrior,
    rules: Rules,
    proposal: int,
    expansion: int,
    threshold: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log weights, decisions, their begins, and counters of one island: so many particles and their generator."""
    (n_particles, rng), counters, options = task, np.zeros(4, np.int64), features.scratch(response.n_statistics)
    settings = n_particles, proposal, expansion, SYSTEMATIC, threshold
    found = run_particles(rng, features.codes, response, leaf, rules, *settings, NO_TREE, options, counters)
    return *found, counters


def fit_tree(
    X: TableLike,
    y: npt.ArrayLike,
    family: ResponseFamily | None = None,
    *,
    particles: int = 100,
    islands: int = 4,
    proposal: str = "optimal",
    expansion: str = "node",
    ess_threshold: float = 0.1,
    weights: str = "evidence",
    alpha_s: float = 0.95,
    beta_s: float = 0.5,
    max_depth: int | None = None,
    min_size: int = 2,
    split_weights: Mapping[str, float] | npt.ArrayLike | None = None,
    categorical: str | Mapping[str, str] = "onehot",
    missing: str = "branch",
    exact: bool = False,
    draws: int = 1000,
    n_jobs: int | None = None,
    client: "distributed.Client | None" = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    kinds: Mapping[str, str] | None = None,
) -> TreePosterior:
    """Learn a posterior over decision trees by top-down particle filtering.

    A node at depth d splits with probability ``alpha_s (1 + d) ** -beta_s`` if any feature has two distinct values
    among its rows. The feature is drawn by its weight among those, the cut uniformly between the feature's extremes.
    Leaf parameters are integrated out.

    Parameters
    ----------
    X : DataFrame of pandas, polars or pyarrow, mapping of columns, (N, D) array or Table
        Features. Strings and categories are levels, ordered categories are cut in their order; NaN is missing.
    y : sequence of N
        The response.
    family : {"classes", "binary", "real", "counts"} or leaf family, optional
        ``ps.leaves.ClassLeaves``, ``BinaryLeaves``, ``NormalLeaves`` and ``CountLeaves`` hold the priors. By default
        what `Table.from_frame` reads the column as: classes, counts or real numbers.
    particles : int
        Particles of all islands together, at least two for each.
    islands : int
        Independent runs. The spread of their evidences measures the error.
    proposal : {"optimal", "prior", "empirical"}
        How a particle decides: by prior times gain in likelihood; by the prior; by the prior with the gap uniform
        among those between distinct values. All three have the same target.
    expansion : {"node", "layer"}
        Decide one node, or all nodes of a depth, between resampling steps.
    ess_threshold : float
        Resample where the effective number falls below this share of the particles; in [0, 1].
    weights : {"evidence", "equal", "stacking"}
        Weights of the islands: by their evidences, as in the theory, equal, or by the leave-one-out predictive density.
    alpha_s, beta_s, max_depth, min_size
        Prior of the tree; a node with fewer than ``min_size`` rows or at ``max_depth`` is a leaf for certain.
    split_weights : dict or (D,) array, optional
        Prior weights of the features.
    categorical : {"onehot", "subset"} or dict
        Splits of unordered levels: one against the rest, or any subset (up to 12 levels).
    missing : {"branch", "error"}
        If a split's feature is missing in some rows, both ways have the same prior probability, and the data decide;
        or refuse missing values.
    exact : bool
        Draw ``draws`` independent trees from the exact posterior instead (`exact_tree_evidence`; small data).
    n_jobs : int, optional
        Threads for the islands, as in `parallel_config`: by default all processors. The trees do not depend on it.
    client : distributed.Client, optional
        Of a Dask cluster, whose workers then grow the islands; the trees do not depend on it.
    random_seed : int, Generator or None
    progressbar : bool
        Show a bar, which counts islands, once it has taken a second.
    kinds : dict, optional
        Kinds of features other than those that dtypes and values say, as in `Table.from_frame`; ordinal ones are cut
        as integers.

    Returns
    -------
    TreePosterior

    Raises
    ------
    ValueError, TypeError
        Arguments out of range, features and response of different length or row labels, missing or unusable
        responses.

    Warns
    -----
    UserWarning
        If evidence weights leave fewer than half of the islands with a say, or a column is constant.

    Examples
    --------
    >>> trees = ps.fit_tree(X, y, random_seed=1)
    >>> trees.predict(X.head(2)).round().values
    array([50., 35.])

    References
    ----------
    Lakshminarayanan, Roy and Teh (2013), Top-down particle filtering for Bayesian decision trees, Algorithm 1 and
    equation (2) of the supplement; its equation (1) lacks the factor w_{i-1} / g.
    """
    features = make_features(X, categorical, split_weights, missing=missing, kinds=kinds)
    rules = (alpha_s, beta_s, max_depth, min_size)
    common, leaves = coded_problem(features, X, y, family, rules)
    numbers = numbers_of_family(leaves)
    _choice("proposal", proposal, PROPOSALS)
    _choice("expansion", expansion, EXPANSIONS)
    _choice("weights", weights, ("evidence", "equal", "stacking"))
    checked_count("islands", islands, 1, TREE_BYTES)
    checked_count("particles", particles, 2, TREE_BYTES)
    check_client(client)
    if particles < 2 * islands:
        raise ValueError(f"particles must be at least 2 for each of {islands} islands, got {particles} in all")
    if not isinstance(ess_threshold, int | float | np.number) or not 0.0 <= ess_threshold <= 1.0:
        raise ValueError(f"ess_threshold must lie in [0, 1], a share of the particles; got {quoted(ess_threshold)}")
    rng = np.random.default_rng(random_seed)
    if exact:
        from pymc_spn.trees.exact import ExactTrees

        checked_count("draws", draws, 1, TREE_BYTES)  # before the recursion
        return ExactTrees(common, leaves, rules).posterior(draws, rng)
    sizes = [particles // islands + (i < particles % islands) for i in range(islands)]
    response, leaf = make_response(leaves, common["y"]), make_leaf_prior(leaves, numbers, common["y"])
    settings = PROPOSALS[proposal], EXPANSIONS[expansion], float(ess_threshold)
    shared = features, response, leaf, make_rules(*rules), *settings
    tasks = list(zip(sizes, rng.spawn(islands), strict=True))
    with ProgressBar("Growing trees", islands, progressbar) as bar, parallel_config(n_jobs):
        results = list(worked_out(client, run_island, tasks, *shared, advance=lambda _: bar.advance()))
    log_evidence = np.array([log_mean(log_weight) for log_weight, *_ in results])
    offsets = np.cumsum([0] + [len(decisions) for _, decisions, *_ in results])
    begin = np.concatenate([r[2][:-1] + o for r, o in zip(results, offsets, strict=False)] + [offsets[-1:]])
    drawn = TreeDraws(
        decisions=np.concatenate([r[1] for r in results]),
        begin=begin,
        weights=np.concatenate([_normalised(r[0]) for r in results]),
        group=np.repeat(np.arange(islands), sizes),
        draw=np.concatenate([np.arange(size) for size in sizes]),
        parameters=np.tile(numbers, (particles, 1)),
        rules=np.tile(np.array([alpha_s, beta_s], np.float64), (particles, 1)),
        log_evidence=log_evidence,
        **common,
    )
    shares = island_weights(drawn, weights)
    post = TreePosterior(replace(drawn, weights=drawn.weights * np.repeat(shares, sizes)))
    if weights == "evidence" and islands > 1 and effective_number(shares) < 0.5 * islands:
        warn(
            f"weights by evidence: {effective_number(shares):.1f} of {islands} islands count; the evidences differ by "
            f"{np.ptp(log_evidence):.1f} nats, so neither their mean nor the weights are reliable. Use more particles, "
            'or weights="equal" or "stacking", which predict better',
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return post


def _choice(name: str, value: Any, allowed: Any) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {quoted(value)}")


def log_mean(log_weight: np.ndarray) -> float:
    """Log of the mean of particles' weights: of an unbiased estimate of the evidence."""
    top = log_weight.max()
    return float(top + np.log(np.exp(log_weight - top).mean()))


def _normalised(log_weight: np.ndarray) -> np.ndarray:
    w = np.exp(log_weight - log_weight.max())
    return w / w.sum()


def effective_number(shares: np.ndarray) -> float:
    """1 / sum of squares of weights that sum to one."""
    return float(1.0 / (shares**2).sum())


def island_weights(draws: TreeDraws, weights: str) -> np.ndarray:
    """(islands,) weights that sum to one."""
    log_evidence = np.asarray(draws.log_evidence)
    if weights == "equal":
        return np.full(len(log_evidence), 1.0 / len(log_evidence))
    if weights == "evidence":
        shares = np.bincount(draws.group) * np.exp(log_evidence - log_evidence.max())
        return shares / shares.sum()
    return stack(island_predictives(draws))


def island_predictives(draws: TreeDraws) -> np.ndarray:
    """(N, islands) leave-one-out predictive density of the training rows by each island, its trees given."""
    islands = np.unique(draws.group)
    out = np.zeros((len(draws.y), len(islands)))
    for i in islands:
        mine = draws.group == i
        total = draws.weights[mine].sum()
        for t in np.flatnonzero(mine & (draws.weights > 1e-12 * draws.weights[mine].max())):
            out[:, i] += draws.weights[t] / total * np.exp(log_leave_one_out(draws, int(t)))
    return out
