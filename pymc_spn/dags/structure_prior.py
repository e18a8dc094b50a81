"""Modular priors over parent sets, in logs and not normalised."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    from pymc_spn.steps.model_inputs import NumberOrVariable


@dataclass(frozen=True)
class EdgePenalty:
    """Prior of parent sets in which each edge costs `penalty` nats.

    p(parents) is proportional to exp(-penalty * number of parents).

    Parameters
    ----------
    penalty : float or scalar tensor
        A tensor only in `dag_log_evidence`, where it may be learned.

    Examples
    --------
    >>> sparse = ps.LocalScores.from_data(numbers, prior=ps.dags.EdgePenalty(3.0))
    """

    penalty: "NumberOrVariable"


@dataclass(frozen=True, eq=False, repr=False)
class EdgeLogOdds:
    """Prior of parent sets in which each edge has log odds of its own.

    They are added to the score of every parent set that holds the edge.

    Parameters
    ----------
    log_odds : DataFrame
        Rows are parents, columns children, by name; all variables in both, finite off the diagonal. The diagonal is
        not read.

    Examples
    --------
    >>> odds = pd.DataFrame(-1.0, index=numbers.columns, columns=numbers.columns)
    >>> hints = ps.LocalScores.from_data(numbers, prior=ps.dags.EdgeLogOdds(odds))
    """

    log_odds: pd.DataFrame

    def __repr__(self) -> str:
        return f"EdgeLogOdds({len(self.log_odds)} variables)"


def prior_terms(prior: Any, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, str]:
    """Log prior by number of parents (d,), by edge (child, parent) (d, d), and the prior's name."""
    d = len(names)
    by_size, by_edge = np.zeros(d), np.zeros((d, d))
    if isinstance(prior, str) and prior == "fair":
        by_size = np.array([-math.log(math.comb(d - 1, n)) for n in range(d)])
        return by_size, by_edge, "fair"
    if isinstance(prior, str) and prior == "uniform":
        return by_size, by_edge, "uniform"
    if isinstance(prior, EdgePenalty):
        penalty = prior.penalty
        if isinstance(penalty, bool) or not isinstance(penalty, int | float | np.number) or not math.isfinite(penalty):
            raise ValueError(f"prior: EdgePenalty needs a finite number of nats, got {quoted(penalty)}")
        return -float(penalty) * np.arange(d), by_edge, f"edge penalty {float(penalty):g}"
    if isinstance(prior, EdgeLogOdds):
        return by_size, _edge_terms(prior.log_odds, names), "log odds of edges"
    raise ValueError(
        f"prior must be 'fair', 'uniform', 'learned', an EdgePenalty or an EdgeLogOdds, got {quoted(prior)}"
    )


def _edge_terms(log_odds: Any, names: tuple[str, ...]) -> np.ndarray:
    if not isinstance(log_odds, pd.DataFrame):
        kind = f"{type(log_odds).__module__.partition('.')[0]}.{type(log_odds).__name__}"
        raise TypeError(
            f"prior: EdgeLogOdds needs a pandas DataFrame (parents, children), whose rows have names; got {kind}"
        )
    for axis, labels in (("rows", log_odds.index), ("columns", log_odds.columns)):
        if sorted(map(str, labels)) != sorted(names):
            raise ValueError(
                f"prior: the {axis} of EdgeLogOdds must be the variables {quoted(list(names))}, got "
                f"{quoted(list(labels))}"
            )
    frame = log_odds.set_axis(log_odds.index.map(str), axis=0).set_axis(log_odds.columns.map(str), axis=1)
    terms = frame.loc[list(names), list(names)].to_numpy(np.float64).T.copy()
    np.fill_diagonal(terms, 0.0)
    bad = np.argwhere(~np.isfinite(terms))
    if bad.size:
        child, parent = bad[0]
        raise ValueError(
            f"prior: log odds of {names[parent]!r} -> {names[child]!r} must be finite, got {terms[child, parent]}; "
            "use forbidden= or required= for certainty"
        )
    return terms
