"""Missing cells of a network's table as a variable of the model (``missing="draw"``), and the completed columns."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.poisson import Poisson
from pymc_spn.networks.ops import flat_log_density
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.tables import Table
from pymc_spn.tables.column import WHOLE_KINDS, by_name

NO_PRIOR_DRAWS = (
    "ps.SPN: cells that are drawn with the rest of the model have no forward draws of their own, since the network "
    'draws whole tables; for prior predictive sampling use missing="marginal"'
)


class MissingCellsVariable(RandomVariable):
    """The missing cells in declared order, given where they start and their lowest values."""

    name, signature, dtype = "spn_missing", "(m),(m)->(m)", "float64"
    _print_name = ("SPNMissing", "\\operatorname{SPNMissing}")

    @classmethod
    def rng_fn(cls, rng, start, lowest, size):
        return np.full(start.shape, np.nan)  # PyMC's pictures of a model evaluate its variables for their shapes


@numba_core_rv_funcify.register(MissingCellsVariable)
def _(op, node):
    @numba_njit
    def cells(rng, start, lowest):
        if start.size >= 0:
            raise NotImplementedError(NO_PRIOR_DRAWS)
        return start

    return cells, 1


class MissingCells(Distribution):
    """Flat down to the lowest values: the network's own density of the completed table counts the cells."""

    rv_op = MissingCellsVariable()

    @classmethod
    def dist(cls, start, lowest, **kwargs):
        return super().dist([pt.as_tensor_variable(start), pt.as_tensor_variable(lowest)], **kwargs)

    def support_point(rv, size, start, lowest):
        return start

    def logp(value, start, lowest):
        return pt.switch(pt.all(value >= lowest), flat_log_density(value[0]), -np.inf)


def leaves_of_drawn(table: Table, leaves: dict | None) -> dict:
    """Palettes for ``missing="draw"``: counts with gaps have leaves of masses alone unless others are asked for.

    Raises
    ------
    ValueError
        If a column of whole numbers with gaps has Gaussian leaves: what is drawn from them are not whole numbers.
    """
    gaps = np.isnan(table.values).any(axis=0)
    own = dict(by_name("leaves", leaves or {}))
    for column, has_gaps in zip(table.columns, gaps, strict=True):
        if has_gaps and column.kind == "count":
            own.setdefault(column.name, Poisson())
        entries = own.get(column.name, Gaussian() if column.kind == "integer" else None)
        entries = entries if isinstance(entries, list | tuple) else [entries]
        if has_gaps and column.kind in WHOLE_KINDS and any(isinstance(e, Gaussian) for e in entries):
            raise ValueError(
                f'missing="draw": column {column.name!r} is {column.kind} and has missing cells, and values drawn from '
                f"its Gaussian leaves are not whole numbers: say kinds={{{column.name!r}: 'real'}}"
            )
    return own


def first_guess(table: Table) -> np.ndarray:
    """Values (D,) at which the cells of each column start: the mean, of counts rounded, of levels the most frequent."""
    guess = np.zeros(len(table.columns))
    for d, column in enumerate(table.columns):
        x = table.values[~np.isnan(table.values[:, d]), d]
        if column.levels is not None:
            guess[d] = np.bincount(x.astype(np.int64)).argmax()
        else:
            guess[d] = np.round(x.mean()) if column.kind in WHOLE_KINDS else x.mean()
    return guess


def refuse_impossible(schema: NetworkSchema, missing_columns: np.ndarray, missing: np.ndarray) -> None:
    """Refuse cells (m,) that are no values of their columns or leaves; only ``initvals`` can bring them."""
    for d, x in zip(missing_columns, missing, strict=True):
        column = schema.columns[d]
        if not schema.possible(d, x) or x < schema.lowest[d]:
            raise ValueError(f"a missing cell of column {column.name!r} ({column.kind}) cannot start at {x}")


def completed_columns(variable: TensorVariable) -> dict[str, TensorVariable]:
    """Return a network's columns with drawn cells in the gaps, for the model.

    Parameters
    ----------
    variable : TensorVariable
        What `SPN` with ``missing="draw"`` returned.

    Returns
    -------
    dict of str to (N,) tensor
        In the units of the data; levels of categorical columns as integers in the order of the schema, binary
        ones as 0 and 1. What counts as 0 in a column without negative values is 0.

    Raises
    ------
    TypeError
        If the variable is not an `SPN`, or sums its missing cells out.

    Examples
    --------
    >>> with pm.Model():
    ...     x = ps.SPN("x", observed=df, missing="draw")
    ...     age = ps.completed_columns(x)
    """
    found: Any = getattr(variable, "tag", None)
    found = getattr(found, "spn_completed", None)
    if found is None:
        raise TypeError(f'variable must be a ps.SPN with missing="draw"; got {quoted(variable)}')
    schema, values, missing = found
    rows, places = np.nonzero(np.isnan(values))
    out = {}
    for d, column in enumerate(schema.columns):
        own = np.flatnonzero(places == d)
        tensor = pt.constant(np.ascontiguousarray(values[:, d]))
        cells = missing[own]
        if d in schema.zero_widths:
            cells = pt.switch(cells <= schema.zero_widths[d], 0.0, cells)
        out[column.name] = pt.set_subtensor(tensor[rows[own]], cells) if own.size else tensor
    return out
