"""What the draws of a posterior say of the chains themselves: whether they have met."""

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.laws.conditioned_draws import ConditionedDraws
from pymc_spn.networks.records.completion import checked_count
from pymc_spn.numerics.chain_mixing import Mixing, Questions, diagnosis
from pymc_spn.numerics.marks import GIVEN_FIT
from pymc_spn.tables import Table

SHOWN_ROWS = 20
ADVICE = (
    "Tune longer, or run more sweeps for each draw (step=ps.steps.TopDownSPNStep(sweeps=5)); if they still stay apart, "
    "post.stacked() weighs the chains by how well they predict each row from the others. post.diagnose() says which "
    "answers are concerned"
)


class ChainAnswers(ConditionedDraws):
    """R-hat and effective sizes of a posterior whose draws come from chains."""

    @cached_property
    def _mixing(self) -> Mixing | None:
        """Of the log joints of all draws; None where these were not recorded."""
        values = self._states.record.log_joint
        return None if values is None else Mixing.of(values)

    def _warn_of_chains(self, stacklevel: int) -> None:
        if self._mixing is not None and not np.any(self._log_weights):
            self._mixing.warn(self.name, ADVICE, stacklevel + 1)

    def diagnose(self, questions: Questions | None = None, df: Any = None, max_rows: int = SHOWN_ROWS) -> pd.DataFrame:
        """R-hat and bulk effective size of the log joint, of log densities of rows and of any questions, as a table.

        The log joint can agree where an answer does not, and the other way round: ask here what you report.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives one value for each draw, as in ``{"P(old)": lambda post:
            post.probability("age > 60", per_draw=True)}``; with other dimensions each of their labels has a row.
        df : DataFrame, mapping, array or Table, optional
            Rows whose log density is asked for. By default the training rows.
        max_rows : int
            Rows that are shown, taken evenly. The mean over all rows is always there.

        Returns
        -------
        DataFrame
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat`` over the recorded draws of all chains
            (of the log joint over all draws), as ``az.summary`` has them. NaN where they are not defined: values that
            never vary or are infinite, fewer than four draws, R-hat of a single chain.

        Raises
        ------
        TypeError, ValueError
            If `questions` is no mapping to functions, an answer has not one value for each draw, or `max_rows` is no
            integer of at least 0.

        Notes
        -----
        The chains are diagnosed as they were sampled: neither a condition nor the weights of `stacked` weigh draws
        here. Training rows are those of the posterior as sampled, also if this one is a condition or a marginal; rows
        of `df` and questions are asked of this one.
        """
        return diagnosis_of_chains(self, self, questions, df, max_rows)


def diagnosis_of_chains(
    post: Any, first: ChainAnswers, questions: Questions | None, df: Any, max_rows: int
) -> pd.DataFrame:
    """The table of `ChainAnswers.diagnose` for a posterior with the states of the first one."""
    import xarray as xr

    from pymc_spn.answers.posterior import SPNPosterior

    if first._scope == GIVEN_FIT:
        raise ValueError(
            "diagnose compares the chains of a sampled posterior, and a variational fit has none; trace() has its "
            "restarts"
        )
    n_shown, record = checked_count("max_rows", max_rows), first._states.record
    if df is None:
        seen = ~np.isnan(record.table).all(axis=1)
        df = Table(first._schema.columns, record.table[seen], pd.Index(record.rows[seen]))
        logs = SPNPosterior(first._states).log_density(df, per_draw=True)
    else:
        logs = post.log_density(df, per_draw=True)
    own: dict[str, xr.DataArray] = {}
    if record.log_joint is not None:
        own["log_joint"] = xr.DataArray(record.log_joint, dims=("chain", "draw"))
    if logs.sizes["row"]:
        own["log_density, mean of rows"] = logs.mean("row")
        shown = np.unique(np.linspace(0, logs.sizes["row"] - 1, min(n_shown, logs.sizes["row"])).round().astype(int))
        own["log_density"] = logs.isel(row=shown)
    return diagnosis(post, questions, own)
