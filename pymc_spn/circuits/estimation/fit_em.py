"""`fit_em`: parameters of a given circuit by expectation maximisation."""

from collections.abc import Mapping
from dataclasses import replace
from warnings import warn

import numpy as np
import numpy.typing as npt

from pymc_spn.circuits.estimation.fit_starts import checked_start, random_start
from pymc_spn.circuits.estimation.fit_steps import Batches, ExpectationMaximisation
from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit
from pymc_spn.circuits.evaluation.leaf_updates import BY_ROWS, IN_PART, is_kept, pool
from pymc_spn.circuits.evaluation.parameters import families_in_use
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import coded_rows
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.numerics.asked_numbers import is_int, is_real
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables.inputs import TableLike


def fit_em(
    circuit: Circuit,
    observed: TableLike,
    *,
    edge_prior_rows: float = 0.1,
    leaf_prior_rows: float = 1.0,
    start: tuple[npt.ArrayLike | None, Mapping[str, npt.ArrayLike]] | None = None,
    restarts: int = 3,
    max_steps: int = 500,
    tolerance: float = 1e-5,
    learn_ends: bool = False,
    batch_size: int | None = None,
    batch_epochs: int = 10,
    step_decay: float = 0.55,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> CircuitFit:
    """Weights and leaf parameters of largest posterior density for a given circuit, tree or graph.

    Each step takes the expected uses of every edge and the expected statistics of every leaf in one pass up and one
    down. Then it sets weights and leaves to the maximum given them. A local maximum, and one estimate: `SPN` and
    `CircuitDensity` give posteriors, for which it can be a start.

    Parameters
    ----------
    circuit : Circuit
        With leaves among Gaussian, log-normal, Laplace, exponential, gamma, beta, Weibull, Poisson, geometric,
        binomial, negative binomial, Bernoulli, categorical, uniform, triangular and hypergeometric, and without
        declared supports. Of binomial leaves the number of trials stays as `start` gives it, of negative binomial ones
        alpha, of the last three all, but see `learn_ends`. Laplace and Weibull leaves take a number for each leaf and
        row.
    observed : DataFrame of pandas, polars or pyarrow, Table or (N, D) array
        As for `CircuitDensity`; NaN is missing and summed out.
    edge_prior_rows : float
        Prior of a sum's weights: Dirichlet with one plus this number for every edge. 0 for none.
    leaf_prior_rows : float
        Prior of a leaf: this number of observations more, with the average statistics of its column. On levels it is
        that of the column and one row more that is spread over all of them, so that none becomes impossible. For a
        Laplace leaf at the column's median, its mean distance from there is added to every distance. For a Weibull leaf
        of shape k it is the density k exp(-k / c), c the shape that fits the column. For a uniform leaf of length l
        whose ends are learned, each observation has density exp(-r / l) / l, r the length of the column. 0 for none,
        only with leaves on levels and those that stay. Otherwise scales would have no maximum, and the maximum of rates
        and probabilities would not be a valid leaf.
    start : tuple of log_weights or None and leaf_parameters, optional
        Where to begin. Families that are left out, and weights if None, begin at random, `restarts` times. Leaf i of a
        column is halfway from the column's average to the i-th of the rows in a random order. Gaussian, log-normal and
        Laplace leaves are there, at the column's scale. Uniform leaves are half as long as the column with that row
        inside, and the first is as long as the column. All are as long as that if a row then has density zero. Weights
        are uniform on the simplex.
    restarts : int
        Random starts; the one with the highest objective is kept. A start that is given in full is the only one.
    max_steps : int
        Passes over the rows of a restart at most: steps, and epochs in batches.
    tolerance : float
        A restart ends when a step gains less than this, in nats a row.
    learn_ends : bool
        Learn the ends of uniform leaves, from `start` if it gives them; else they stay as it gives them (a histogram of
        given knots). The ends then are values of their column, or where `start` has them. A leaf that excludes a row it
        is responsible for has an expected log density of minus infinity. So steps of expectation maximisation would
        never move an end past a value. Instead each end in turn goes to the value, 1, 2, 4, .. places away, where the
        objective itself is largest. The other leaves and the weights are held, as in the ECME algorithm. One pass
        more a step for each column with such leaves, and a number for each of its leaves and rows.
    batch_size : int, optional
        Begin with stepwise EM over batches of at most this many rows, in a random order in each epoch. After one step
        over all rows each batch moves the running statistics by ``(k + 2) ** -step_decay`` of the way to its own, k =
        0, 1, ... Then weights and leaves go to the maximum given them. Steps over all rows follow, to a maximum on
        them. With a hundred times more rows than parameters the first part of the way takes a half to a third of the
        time. The last hundredths of a nat a row take steps over all rows as before. Several hundred rows make a good
        batch. Not with Laplace and Weibull leaves, which have no running statistics, nor with `learn_ends`.
    batch_epochs : int
        Passes in batches; one that gains less than `tolerance` is the last.
    step_decay : float
        Above 0.5 and at most 1. Smaller numbers keep the steps of later batches longer.
    random_seed : int, Generator or None
        For the starts and the order of batches; the steps draw nothing.
    progressbar : bool
        Show a bar once it has taken a second. It counts steps; a restart that stands still leaves some out.

    Returns
    -------
    CircuitFit

    Raises
    ------
    ValueError, TypeError
        For rows that do not fit the circuit or have density zero under the start, leaves of other families, and a start
        without what has to be given. For averages of a column that give no valid leaf (a constant one has no scale),
        and arguments out of range.

    Warns
    -----
    UserWarning
        If the restart that is kept still gained more than the tolerance in its last step, or lost more than that in it.

    Examples
    --------
    >>> fitted = ps.fit_em(law.circuit, rows, random_seed=1)
    >>> fitted.converged
    True

    References
    ----------
    Poon and Domingos (2011), Sum-product networks: a new deep architecture, UAI, section 4. Peharz, Gens, Pernkopf
    and Domingos (2017), On the latent variable interpretation in sum-product networks, IEEE TPAMI 39(10), where
    the steps are shown to be those of expectation maximisation. In batches: Cappé and Moulines (2009), On-line
    expectation-maximization algorithm for latent data models, JRSS B 71(3); Liang and Klein (2009), Online EM for
    unsupervised models, NAACL-HLT. Ends: Liu and Rubin (1994), The ECME algorithm, Biometrika 81(4).
    """
    if not isinstance(circuit, Circuit):
        hint = (
            "; its structure is law.circuit"
            if hasattr(circuit, "circuit")
            else "; ps.circuits.learn_tree(df).circuit(leaves) makes one, and ps.fit_variational(df) needs none"
        )
        raise TypeError(f"circuit must be a ps.Circuit; got {type(circuit).__name__}{hint}")
    if circuit.leaf_support is not None:
        raise ValueError("circuit must not declare leaf_support: fit_em does not keep leaves within it")
    for name, count in (("restarts", restarts), ("max_steps", max_steps), ("batch_epochs", batch_epochs)):
        if not is_int(count) or count < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {quoted(count)}")
    for name, number in (
        ("edge_prior_rows", edge_prior_rows), ("leaf_prior_rows", leaf_prior_rows), ("tolerance", tolerance),
    ):  # fmt: skip
        if not is_real(number) or not 0.0 <= float(number) < np.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {quoted(number)}")
    if tolerance == 0.0:
        raise ValueError("tolerance must be positive, got 0")
    if not is_real(step_decay) or not 0.5 < float(step_decay) <= 1.0:
        raise ValueError(f"step_decay must be a number above 0.5 and at most 1, got {quoted(step_decay)}")
    if not isinstance(learn_ends, bool | np.bool_):
        raise TypeError(f"learn_ends must be True or False, got {quoted(learn_ends)}")
    used = families_in_use(circuit)
    if learn_ends and "uniform" not in used:
        raise ValueError(f"learn_ends must be False where there are no uniform leaves; circuit has {', '.join(used)}")
    with_ends = ("uniform",) if learn_ends else ()
    others = [f for f in used if f in with_ends or not (is_kept(f) or EXPLICIT[f].probabilities is not None)]
    if leaf_prior_rows == 0.0 and others:
        raise ValueError(
            f"leaf_prior_rows must be positive for {', '.join(others)} leaves: without a prior the likelihood has no "
            "maximum among them; got 0"
        )
    values, labels = coded_rows(circuit, observed)
    if batch_size is not None and (not is_int(batch_size) or not 1 <= batch_size <= len(values)):
        raise ValueError(
            f"batch_size must be an integer from 1 to the {len(values)} rows, or None; got {quoted(batch_size)}"
        )
    for name, needs in (*((f, f in used) for f in BY_ROWS), ("uniform", learn_ends)):
        if batch_size is not None and needs:
            raise ValueError(
                f"batch_size must be None with {name} leaves, which need all rows at once; got {batch_size}"
            )
    log_weights, given = checked_start(circuit, start, learn_ends)
    pooled = pool(circuit, values, {name: given[name][:, 0] for name in IN_PART if name in given}, learn_ends)
    if "categorical" in given and given["categorical"].shape[1] != pooled["categorical"].levels.shape[1]:
        raise ValueError(
            f"start: leaf_parameters['categorical'] must have {pooled['categorical'].levels.shape[1]} levels, as the "
            f"columns have, got {given['categorical'].shape[1]}"
        )
    ascent = ExpectationMaximisation(circuit, values, labels, pooled, float(edge_prior_rows), float(leaf_prior_rows))
    is_full = log_weights is not None and len(given) == len(used)
    n_starts = 1 if is_full else restarts
    rng = np.random.default_rng(random_seed)
    batches = None if batch_size is None else Batches(batch_size, batch_epochs, float(step_decay), rng)
    fits = []
    with ProgressBar("Maximising the likelihood", max_steps * n_starts, progressbar) as bar:
        for _ in range(n_starts):
            begin = random_start(circuit, values, pooled, (log_weights, given), rng)
            fits.append(ascent.climb(begin, max_steps, tolerance * len(values), bar, batches))
    best = max(fits, key=lambda fit: fit.of_restarts[0])
    if not best.converged:
        gain = (best.objective[-1] - best.objective[-2]) / len(values)
        lost = (best.of_restarts[0] - best.objective[-1]) / len(values)
        warn(
            f"fit_em: the last of {max_steps} steps still gained {gain:.2g} nats a row, more than the tolerance of "
            f"{tolerance:g}; raise max_steps"
            if lost < tolerance
            else f"fit_em: the last step ended {lost:.2g} nats a row below the best one, which is returned. With "
            "batch_size= this can happen. Without it only rounding does this: look for values far from all others",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return replace(best, of_restarts=np.concatenate([fit.of_restarts for fit in fits]))
