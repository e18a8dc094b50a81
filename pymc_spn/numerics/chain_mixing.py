"""How well chains have met: R-hat and effective sizes, in words, as a warning and as a table."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES, ConvergenceWarning

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

LARGEST_R_HAT = 1.1
SMALLEST_SIZE = 50.0  # effective size, of all chains, below which an error of a mean is a guess itself
MOST_TO_ONE = 4  # draws to an effective one, at which so few are no reason for a warning where draws are few
FEWEST_DRAWS = 100  # of all chains: R-hat splits them in halves, and of shorter ones exceeds 1.1 by chance
REMEDY = (
    "Tune longer, and sample more chains. The page 'My R-hat is high' of the documentation says what else helps, and "
    "what PyMC's own warning means"
)
Questions = Mapping[str, Callable[[Any], "xr.DataArray"]]


def r_hat_and_size(values: np.ndarray, sized: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """R-hat and bulk effective size (M,) of numbers (chain, draw, M); NaN where they are not defined or not asked.

    That is for values that never vary or are not finite, below four draws, and R-hat of a single chain.

    References
    ----------
    Vehtari et al. (2021), Rank-normalization, folding, and localization, doi:10.1214/20-BA1221, by ArviZ.
    """
    from arviz_stats.base import array_stats

    n_chains, n_draws, n = values.shape
    r_hat, size = np.full(n, np.nan), np.full(n, np.nan)
    asked = np.flatnonzero(np.isfinite(values).all(axis=(0, 1)) & (values != values[:1, :1]).any(axis=(0, 1)))
    if n_draws < 4 or not asked.size:
        return r_hat, size
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):  # chains that each stay where they are
        if sized:
            size[asked] = array_stats.ess(values[:, :, asked], **axes)
        if n_chains > 1:
            r_hat[asked] = array_stats.rhat(values[:, :, asked], **axes)
    return r_hat, size


@dataclass(frozen=True)
class Mixing:
    """R-hat and bulk effective size of one number of the state of the chains, its log joint density as a rule.

    Parameters
    ----------
    what : str
        The number.
    n_chains, n_draws : int
    r_hat, size : float
        NaN where they are not defined.
    units : str
        What the chains are: chains, or the runs that these are made of.
    """

    what: str
    n_chains: int
    n_draws: int
    r_hat: float
    size: float
    units: str = "chains"

    @classmethod
    def of(cls, values: np.ndarray, what: str = "log joint", units: str = "chains") -> "Mixing":
        """Of numbers (chain, draw)."""
        (r_hat,), (size,) = r_hat_and_size(np.asarray(values, np.float64)[:, :, None])
        n_chains, n_draws = values.shape
        return cls(what, n_chains, n_draws, float(r_hat), float(size), units)

    def __str__(self) -> str:
        size = f"effective size {self.size:,.0f}"
        if np.isnan(self.size):
            return f"{self.what}: too few draws, or no change, for R-hat and effective size"
        if self.n_chains == 1:
            return f"{self.what}: {size}, R-hat needs two chains"
        return f"{self.what}: R-hat {self.r_hat:.2f}, {size}"

    @property
    def is_known(self) -> bool:
        """Whether draws are enough to say it: 100 of two chains or more."""
        return self.n_chains > 1 and self.n_chains * self.n_draws >= FEWEST_DRAWS

    @property
    def has_met(self) -> bool:
        """The one rule: R-hat at most 1.1, effective size at least 50; True where it is not known.

        Of less than 200 draws the size may be as small as a quarter of them.
        """
        if not self.is_known:
            return True
        is_small = self.size < min(SMALLEST_SIZE, self.n_chains * self.n_draws / MOST_TO_ONE)
        return not (self.r_hat > LARGEST_R_HAT or is_small)

    def warn(self, name: str, so: str = "") -> None:
        """Warn where the rule does not hold.

        Parameters
        ----------
        name : str
            Of the variable.
        so : str
            What answers are then, by default averages with errors that are too small.
        """
        if self.has_met:
            return
        apart, units = self.r_hat > LARGEST_R_HAT, self.units
        finding = f"the {units} have not converged" if apart else f"the {units} move slowly"
        error, size = "too small" if apart else "a guess", f" and its effective size {self.size:,.0f}"
        so = so or f"answers average over all of them, and their mcse_chain is {error}"
        warnings.warn(
            f"{name!r}: R-hat of the {self.what} is {self.r_hat:.2f}{'' if np.isnan(self.size) else size} over "
            f"{self.n_chains} {units} of {self.n_draws} draws: {finding}, so {so}. {REMEDY}",
            ConvergenceWarning,
            skip_file_prefixes=OWN_FILES,  # at the user's line
        )


def diagnosis(
    post: Any,
    questions: Questions | None,
    own: "Mapping[str, xr.DataArray]",
    by_chain: Callable[[Any], Any] = lambda answer: answer,
) -> "pd.DataFrame":
    """Table of mean, sd, bulk effective size and R-hat of numbers that have one value for each draw.

    Parameters
    ----------
    post : posterior
        What questions are asked of.
    questions : mapping of str to callable, optional
        Each takes the posterior and gives an array with the dimensions ``chain`` and ``draw``, and any others.
    own : mapping of str to DataArray
        Such arrays, which stand first.
    by_chain : callable, optional
        Makes such arrays of the answers.

    Returns
    -------
    DataFrame
        A row for each number, called by the question and by its labels along other dimensions.

    Raises
    ------
    TypeError, ValueError
        If `questions` is not a mapping to callables, or an answer does not have one value for each draw.
    """
    import pandas as pd

    questions = {} if questions is None else questions
    if not isinstance(questions, Mapping) or not all(callable(ask) for ask in questions.values()):
        raise TypeError(
            "questions must map names to functions of the posterior, as in "
            "{'P(old)': lambda post: post.probability('age > 60', per_draw=True)}; " + f"got {quoted(questions)}"
        )
    parts = []
    for name, values in [*own.items(), *((name, by_chain(ask(post))) for name, ask in questions.items())]:
        if not {"chain", "draw"} <= set(getattr(values, "dims", ())):
            raise ValueError(
                f"question {name!r} must have one value for each draw, along the dimensions 'chain' and 'draw', as "
                f"answers with per_draw=True have; got {getattr(values, 'dims', type(values).__name__)}"
            )
        parts.append(_rows_of(str(name), values.transpose("chain", "draw", ...)))
    return pd.concat(parts)


def _rows_of(name: str, values: "xr.DataArray") -> "pd.DataFrame":
    import pandas as pd

    numbers = values.values.reshape(*values.shape[:2], -1).astype(np.float64)
    r_hat, size = r_hat_and_size(numbers)
    labels = [values[d].values.tolist() for d in values.dims[2:]]
    index = [f"{name}[{', '.join(map(str, place))}]" for place in product(*labels)] if labels else [name]
    with np.errstate(invalid="ignore"):
        spread = {"mean": numbers.mean(axis=(0, 1)), "sd": numbers.std(axis=(0, 1), ddof=1 if numbers.size > 1 else 0)}
    return pd.DataFrame(spread | {"ess_bulk": size, "r_hat": r_hat}, index=index)
