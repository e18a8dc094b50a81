"""The table of R-hat and effective sizes of a posterior whose draws come from chains."""

from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.chain_mixing import Questions, diagnosis
from pymc_spn.tables import Table

SHOWN_ROWS = 20
ADVICE = (
    "Tune longer, or run more sweeps for each draw (step=ps.steps.TopDownSPNStep(sweeps=5)); if they still stay apart, "
    "post.stacked() weighs the chains by how well they predict each row from the others. post.diagnose() says which "
    "answers are concerned"
)


def diagnosis_of_chains(post: Any, questions: Questions | None, df: Any, max_rows: int) -> pd.DataFrame:
    """The table of `SPNPosterior.diagnose`."""
    import xarray as xr

    n_shown, first = checked_count("max_rows", max_rows), post._first
    record = first.states.record
    if df is None:
        seen = ~np.isnan(record.table).all(axis=1)
        df = Table(first.schema.columns, record.table[seen], pd.Index(record.rows[seen]))
        logs = type(post)(RecordedLaw(first.states)).log_density(df, per_draw=True)
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
