"""How well a table is explained by graphs at given hyperparameters: log evidence that NUTS can follow."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pymc_spn.dags import bge_kernels
from pymc_spn.dags.candidates import subset_prior
from pymc_spn.dags.local_scores import LocalScores, Scoring
from pymc_spn.dags.passes import Support
from pymc_spn.dags.scores import LEVELS, BDeu, BDeuScorer, BGe, bge_terms
from pymc_spn.dags.structure_prior import EdgeLogOdds, EdgePenalty, is_learned, prior_terms, sizes_of_sets
from pymc_spn.numerics.asked_numbers import is_real
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
    if options.get("standardize"):
        raise ValueError("dag_log_evidence takes no standardize: prepare the table first")
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
        if not is_real(value) and getattr(value, "ndim", None) != 0:
            raise TypeError(f"{argument} must be a number or a scalar tensor, got {quoted(value)}")
    if learned and is_real(penalty):
        prior_terms(prior, table.names)  # refuses what is not finite
    numbers = _plain(score, d), "uniform" if learned else prior
    at_default = LocalScores.from_data(table, *numbers, **Scoring(progressbar=False) | options)
    parts = _bge_parts(at_default, score, numbers[0]) if isinstance(score, BGe) else _bdeu_parts(at_default)
    prior_of_sets, sizes = _prior_of(at_default, numbers[1]), sizes_of_sets(at_default.n_candidates)
    evidence = GraphEvidence(Support.of_all(at_default), prior_of_sets, sizes, parts)
    if not learned or is_real(penalty):
        fixed = evidence.log_prior - float(penalty) * evidence.sizes
        with np.errstate(invalid="ignore"):
            evidence = replace(evidence, normaliser=evidence.sums(fixed)[0])
    parameters = pt.stack([pt.as_tensor(own_parameter[1], dtype="float64"), pt.as_tensor(penalty, dtype="float64")])
    log_evidence, _ = DagLogEvidence(evidence)(parameters)  # type: ignore[misc]
    return log_evidence  # type: ignore[return-value]


type ScoredWithSlope = Callable[[int, float], tuple[np.ndarray, np.ndarray]]
"""Scores (2^k,) of a variable's parent sets at a hyperparameter, and their derivatives in it."""


@dataclass(frozen=True, eq=False)
class GraphEvidence:
    """Log evidence and its gradient as a function of (score parameter, edge penalty).

    Parameters
    ----------
    orders : Support
        That knowledge allows.
    log_prior, sizes : (n_sets,) float64
        What does not depend on the penalty, -inf for impossible sets, and the number of parents.
    scored : callable
        By the number of a variable and the score parameter.
    normaliser : float
        Log of the sum of the prior over all pairs of order and graph; NaN where it depends on the penalty.
    """

    orders: Support
    log_prior: np.ndarray
    sizes: np.ndarray
    scored: ScoredWithSlope
    normaliser: float = np.nan

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        own, penalty = parameters
        with np.errstate(all="ignore"):  # hyperparameters may be anywhere
            return self._at(float(own), float(penalty))

    def _at(self, own: float, penalty: float) -> tuple[float, np.ndarray]:
        tables = [self.scored(i, own) for i in range(self.orders.scores.d)]
        logs, slopes = map(np.concatenate, zip(*tables, strict=True))
        prior = self.log_prior - penalty * self.sizes
        value, posterior = self.sums(logs + prior)
        held = posterior > 0.0
        gradient = np.array([posterior[held] @ slopes[held], -posterior @ self.sizes])
        if not np.isnan(self.normaliser):
            return value - self.normaliser, gradient
        normaliser, of_prior = self.sums(prior)
        gradient[1] += of_prior @ self.sizes
        return value - normaliser, gradient

    def sums(self, log_scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Log of the sum over all pairs of order and graph, and the posterior of every parent set.

        The derivative of the first in the score of a set is the second. Hyperparameters may be anywhere: both are NaN
        where the scores of a variable are none.
        """
        if not np.isfinite(np.maximum.reduceat(log_scores, self.orders.scores.offsets[:-1])).all():
            return np.nan, np.full(log_scores.size, np.nan)
        passes = self.orders.passes_at(log_scores)
        return passes.log_total, np.concatenate([passes.parent_sets(i) for i in range(self.orders.scores.d)])


def _plain(score: Any, d: int) -> Any:
    """The score with a number in place of a tensor."""
    if isinstance(score, BDeu):
        return score if is_real(score.ess) else BDeu()
    return score if is_real(score.resolve(d)[2]) else BGe(score.alpha_mu, score.alpha_w)


def _prior_of(scores: LocalScores, prior: Any) -> np.ndarray:
    """Flat log prior over parent sets: what a score of zero gives, with the same candidates."""
    by_size, by_edge, _ = prior_terms(prior, scores.names)
    parts = [subset_prior(i, [], scores.candidate_list(i), by_size, by_edge) for i in range(scores.d)]
    return np.where(np.isneginf(scores.log_scores), -np.inf, np.concatenate(parts))


def _bge_parts(scores: LocalScores, score: BGe, plain: BGe) -> ScoredWithSlope:
    moments, d = scores.gaussian, scores.d
    assert moments is not None
    alpha_mu, alpha_w, _ = score.resolve(d)
    scatter = moments.matrices - plain.resolve(d)[2] * np.eye(d)

    def scored(i: int, t: float) -> tuple[np.ndarray, np.ndarray]:
        rows, step = [i, *scores.candidate_list(i)], 1e-20 * t
        out = np.empty(1 << len(rows) - 1, complex)
        matrix = scatter[i][np.ix_(rows, rows)] + complex(t, step) * np.eye(len(rows))
        bge_kernels.family_table(matrix, *bge_terms(int(moments.n_rows[i]), d, alpha_mu, alpha_w, t), out)
        sizes = np.bitwise_count(np.arange(out.size))
        return out.real, out.imag / step + (alpha_w - d + 2.0 * sizes + 1.0) / (2.0 * t)  # the power of t in its terms

    return scored


def _bdeu_parts(scores: LocalScores) -> ScoredWithSlope:
    counts = scores.counts
    assert counts is not None
    return lambda i, ess: BDeuScorer(replace(counts, ess=ess)).table_and_slope(i, [], scores.candidate_list(i))
