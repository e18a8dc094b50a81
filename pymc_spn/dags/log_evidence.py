"""How well a table is explained by graphs at given hyperparameters: log evidence that NUTS can follow."""

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pymc_spn.dags.learned_penalty import is_learned
from pymc_spn.dags.local_scores import LocalScores, Scoring
from pymc_spn.dags.scores import LEVELS, BDeu, BGe, is_number
from pymc_spn.dags.structure_prior import EdgeLogOdds, EdgePenalty, prior_terms
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import read_table
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

MOST_VARIABLES = 20


def dag_log_evidence(
    data: TableLike,
    score: "BGe | BDeu | None" = None,
    prior: "str | EdgePenalty | EdgeLogOdds" = "fair",
    **options: Unpack[Scoring],
) -> "TensorVariable":
    """Return the log evidence as a differentiable scalar, summed over all graphs.

    The prior over pairs is normalised, so a learned edge penalty pays for the graphs that it favours. Use it as
    ``pm.Potential("data", ps.dags.dag_log_evidence(df, score=ps.BGe(prior_scale=t), prior=penalty))``;
    the posterior over graphs at any draw is then ``ps.OrderSPN.exact(ps.LocalScores.from_data(df, ...))``.

    Parameters
    ----------
    data : DataFrame, mapping, array or Table
    score : BGe or BDeu
        ``BGe(prior_scale=...)`` or ``BDeu(ess=...)`` with a number or a scalar tensor.
    prior : "fair", "uniform", EdgePenalty or EdgeLogOdds
        ``EdgePenalty(...)`` with a number or a scalar tensor.
    **options
        ``max_candidates``, ``max_indegree``, ``required``, ``forbidden``, ``tiers``, ``interventions``, ``kinds`` of
        `LocalScores.from_data`. Candidates are chosen at the default hyperparameters.

    Returns
    -------
    TensorVariable
        Scalar, in nats. One evaluation takes time and memory in proportion to d 2^d.

    Raises
    ------
    ValueError
        If there are more than 20 variables, or as in `LocalScores.from_data`.

    Notes
    -----
    The derivative of log Z in the score of a parent set is its posterior probability.

    Examples
    --------
    >>> with pm.Model():
    ...     scale = pm.LogNormal("scale")
    ...     evidence = pm.Potential("evidence", ps.dags.dag_log_evidence(numbers, ps.BGe(prior_scale=scale)))
    """
    import pytensor.tensor as pt

    from pymc_spn.dags.ops import DagLogEvidence

    if is_learned(prior):
        raise ValueError("dag_log_evidence: give prior=ps.dags.EdgePenalty(kappa), with kappa a variable of the model")
    for argument in ("standardize", "lags"):
        if options.get(argument):
            raise ValueError(f"dag_log_evidence takes no {argument}: prepare the table first")
    table = read_table(data, options.pop("kinds", None))
    d = len(table.columns)
    if d > MOST_VARIABLES:
        raise ValueError(f"dag_log_evidence sums over all 2^d prefixes: at most {MOST_VARIABLES} variables, got {d}")
    if score is None:
        score = BDeu() if all(c.kind in LEVELS for c in table.columns) else BGe()
    if not isinstance(score, BGe | BDeu):
        raise TypeError(f"score must be a BGe or a BDeu, got {quoted(score)}")
    learned = isinstance(prior, EdgePenalty)
    penalty = prior.penalty if isinstance(prior, EdgePenalty) else 0.0
    own_parameter = ("BGe: prior_scale", score.resolve(d)[2]) if isinstance(score, BGe) else ("BDeu: ess", score.ess)
    for argument, value in (own_parameter, ("EdgePenalty: penalty", penalty)):
        if not is_number(value) and getattr(value, "ndim", None) != 0:
            raise TypeError(f"{argument} must be a number or a scalar tensor, got {quoted(value)}")
    if learned and is_number(penalty):
        prior_terms(prior, table.names)  # refuses what is not finite
    numbers = _plain(score, d), "uniform" if learned else prior
    at_default = LocalScores.from_data(table, *numbers, **Scoring(progressbar=False) | options)
    log_prior = _prior_of(at_default, numbers[1])
    sizes = np.concatenate(
        [np.bitwise_count(np.arange(1 << int(k), dtype=np.uint64)).astype(float) for k in at_default.n_candidates]
    )
    arrays = (
        at_default.candidates,
        at_default.n_candidates,
        at_default.lookup,
        at_default.offsets,
        at_default.precede_sets,
    )
    normaliser = np.nan
    if not (learned and _is_tensor(penalty)):
        from pymc_spn.dags.evidence_kernels import log_partition

        fixed = log_prior - float(penalty) * sizes
        normaliser = log_partition(arrays[2], arrays[3], arrays[4], fixed, np.empty(fixed.size))
    own = _gaussian_constants(at_default, score, d) if isinstance(score, BGe) else _level_constants(at_default)
    parameters = pt.stack([pt.as_tensor(own_parameter[1], dtype="float64"), pt.as_tensor(penalty, dtype="float64")])
    constants = [np.asarray(x) for x in (*own, *arrays, log_prior, sizes, normaliser)]
    log_evidence, _ = DagLogEvidence(score.name)(parameters, *constants)  # type: ignore[misc]
    return log_evidence  # type: ignore[return-value]


def _is_tensor(value: Any) -> bool:
    return not is_number(value)


def _plain(score: Any, d: int) -> Any:
    """The score with a number in place of a tensor."""
    if isinstance(score, BDeu):
        return BDeu() if _is_tensor(score.ess) else score
    t = score.resolve(d)[2]
    return BGe(score.alpha_mu, score.alpha_w) if _is_tensor(t) else score


def _prior_of(scores: LocalScores, prior: Any) -> np.ndarray:
    """Flat log prior over parent sets: what a score of zero gives, with the same candidates."""
    from pymc_spn.dags.candidates import subset_prior

    by_size, by_edge, _ = prior_terms(prior, scores.names)
    parts = [
        subset_prior(i, [], list(scores.candidates[i, : scores.n_candidates[i]]), by_size, by_edge)
        for i in range(scores.d)
    ]
    return np.where(np.isneginf(scores.log_scores), -np.inf, np.concatenate(parts))


def _gaussian_constants(scores: LocalScores, score: BGe, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    moments = scores.gaussian
    assert moments is not None
    alpha_mu, alpha_w, _ = score.resolve(d)
    t = _plain(score, d).resolve(d)[2]
    return moments.matrices - t * np.eye(d), moments.n_rows.astype(np.int64), np.array([alpha_mu, alpha_w])


def _level_constants(scores: LocalScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = scores.counts
    assert counts is not None
    return np.ascontiguousarray(counts.codes.T), counts.weights, counts.n_levels
