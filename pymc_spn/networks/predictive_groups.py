"""Groups for ArviZ's predictive checks: simulated tables, and one column with its leave-one-out weights."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.networks.records.imputed_rows import complete_rows
from pymc_spn.networks.records.record import labelled_variables
from pymc_spn.numerics.marks import SIMULATION
from pymc_spn.numerics.memory_limits import refuse_memory

if TYPE_CHECKING:
    import xarray as xr


def simulated_tables(post: Any, random_seed: Any) -> "xr.DataTree":
    """The group of `SPNPosterior.posterior_predictive`."""
    import xarray as xr

    if not post._first.is_as_sampled:
        raise ValueError("posterior_predictive needs the posterior as sampled, no condition, marginal or weights")
    whole = post._with_all_draws
    states, n_draws, record = whole._first.states, whole._law.n_circuits, whole._states.record
    n_rows, n_columns = record.table.shape
    refuse_memory("posterior_predictive", 40.0 * n_draws * n_rows * n_columns, "sample(n) draws fewer rows")
    chosen = np.repeat(np.arange(n_draws), n_rows)[:, None]
    rows = complete_rows(states, np.full((1, n_columns), np.nan), {}, chosen, np.random.default_rng(random_seed))
    labels = {f"{post.name}_row": record.rows, f"{post.name}_column": [column.name for column in post.columns]}
    rows = rows.reshape(n_draws, n_rows, n_columns)
    return xr.DataTree(xr.Dataset({post.name: whole._labelled(post.name, rows, labels, True, exactness=SIMULATION)}))


def check_of_column(post: Any, column: str, random_seed: Any) -> "xr.DataTree":
    """The tree of `SPNPosterior.predictive_check`."""
    import xarray as xr

    d, row = post._number("column", column), f"{post.name}_row"
    name = post.columns[d].name
    drawn = simulated_tables(post, random_seed).to_dataset()[post.name].isel({f"{post.name}_column": d}, drop=True)
    cells = xr.DataArray(post._states.record.table[:, d], {row: drawn[row]}, [row])
    seen = np.flatnonzero(~np.isnan(cells.values))
    logs = post.log_likelihood()[post.name]
    groups: dict[str, Any] = {
        "posterior_predictive": drawn.isel({row: seen}),
        "observed_data": cells.isel({row: seen}),
        "log_likelihood": logs.sel({row: drawn[row].values[seen]}),
    }
    tree = xr.DataTree.from_dict({key: xr.Dataset({name: values}) for key, values in groups.items()})
    # from which ArviZ finds effective sizes
    tree["posterior"] = xr.DataTree(labelled_variables(post._with_all_draws._states.record))
    return tree
