"""What posterior objects of a network have in common, draws of chains or a variational fit."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.answers.answers import Answers
from pymc_spn.networks.network_tables import learned_in_words
from pymc_spn.networks.posterior_circuit import PosteriorCircuit, predictive_circuit
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.rows_on_children import NewRows, weights_of
from pymc_spn.numerics.html_repr import Facts, Listed
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.records.posterior_of_draws import StoredPosterior
from pymc_spn.tables import row_labels
from pymc_spn.tables.column import list_of_columns

if TYPE_CHECKING:
    import xarray as xr

ERROR_ROWS = 100  # rows up to which a table of pairs carries mcse_chain


class NetworkPosterior(Answers, StoredPosterior):
    """Answers from the predictives of a network's states.

    Parameters
    ----------
    law : RecordedLaw, or a mixture of such
    """

    @property
    def _first(self) -> RecordedLaw:
        """The law, or the first part of a union."""
        first = self._law.parts[0]
        assert isinstance(first, RecordedLaw)
        return first

    @property
    def _states(self) -> RecordedStates:
        return self._first.states

    @property
    def _with_all_draws(self) -> Self:
        """Who answers from all draws, weights and leaf parameters integrated out."""
        return self

    @property
    def name(self) -> str:
        """Name of the network in the model.

        Examples
        --------
        >>> post.name
        'x'
        """
        return self._first.schema.name

    def _said(self, learned: dict[str, str], mixing: dict[str, str] | None = None) -> Facts:
        """What the repr says: columns, choices by the table that the posterior is given, draws or fit, condition."""
        words = self._law.in_words()
        choices = dict(zip(("splits", "leaves", "rounded"), learned_in_words(self._first.schema), strict=True))
        facts = {"columns": self._read_as} | choices | learned | {"given": f"given {words}" if words else ""}
        return Facts(type(self).__name__, facts | (mixing or {}), repr(self.name))

    def _listed(self) -> Listed:
        return list_of_columns(self.columns, None if (gaps := self._gaps()) is None else gaps[list(self._first.kept)])

    def _gaps(self) -> np.ndarray | None:
        """Missing cells of each column of the training table, where it is kept."""
        return None

    def leaf_types(self, column: str, by_entry: bool = False) -> "xr.DataArray":
        """Calculate the share of rows whose leaf has each family, for every draw.

        Rows in which the column is missing do not count. The families are those of the column. If a family occurs
        several times, its shares are added. A column in multivariate leaves has one more family,
        ``multivariate_gaussian``, for the rows in these leaves. A variational fit has one number for each family, the
        expected share; there, rows in multivariate leaves count even if they lack the column.

        Parameters
        ----------
        column : str
        by_entry : bool
            Whether each entry of ``leaves=`` counts by itself, for instance two Gaussians of different scale.

        Returns
        -------
        DataArray
            (chain, draw, family), or (chain, draw, entry) with ``family`` and ``relative_scale`` of each entry as
            coordinates. Exact: its spread over draws is the posterior.

        Examples
        --------
        >>> post.leaf_types("age").dims
        ('chain', 'draw', 'family')
        """
        self = self._with_all_draws
        d = self._first.kept[self._number("column", column)]
        entries = self._first.schema.palette[d]
        rows = self._states.rows_on_entries(d)
        several = rows.shape[1] - len(entries)
        of_entry = [e.family for e in entries] + ["multivariate_gaussian"] * several
        families = list(dict.fromkeys(of_entry))
        if not rows.any():
            raise ValueError(f"column {column!r} is missing in every training row: no row has a leaf")
        if by_entry:
            coords: dict[str, Any] = {"entry": np.arange(len(of_entry))}
            coords["family"] = ("entry", of_entry)
            coords["relative_scale"] = ("entry", [e.relative_scale for e in entries] + [1.0] * several)
            share = rows / rows.sum(axis=1, keepdims=True)
            return self._labelled(
                "leaf_types", share, {"entry": coords.pop("entry")}, True, column=column
            ).assign_coords(coords)
        code = np.array([families.index(family) for family in of_entry])
        share = np.stack([rows[:, code == f].sum(axis=1) for f in range(len(families))], axis=1)
        share = share / share.sum(axis=1, keepdims=True)
        return self._labelled("leaf_types", share, {"family": families}, True, column=column)

    def as_circuit(self, max_draws: int | None = None) -> PosteriorCircuit:
        """Return the posterior predictive as one explicit circuit.

        The circuit is exact over the draws that it holds: all, or `max_draws` of them, taken evenly, or by their
        weights in a stacked posterior. Its size grows with their number. Under a condition, draws have the weights that
        it gives them. Leaves within intervals are then distributions of SciPy, which `CircuitDensity` does not take.
        Leaves of columns without negative values are not cut at 0.

        Parameters
        ----------
        max_draws : int, optional

        Returns
        -------
        PosteriorCircuit

        Raises
        ------
        ValueError
            If `max_draws` is not an integer of at least 1.

        Examples
        --------
        >>> predictive = post.as_circuit(max_draws=5)
        >>> [column.name for column in predictive.columns]
        ['age', 'income', 'job']
        """
        return predictive_circuit(self, max_draws)

    def _log_likelihood(self, df: Any) -> "xr.DataTree":
        """Log predictive of new rows as a group of the network's name."""
        import xarray as xr

        whole, table = self._with_all_draws, self._table(df)
        n_bytes = 24.0 * len(table.values) * whole._law.n_circuits
        refuse_memory(f"log_likelihood of {len(table.values):,} rows", n_bytes, "ask for fewer rows at once")
        rows, logs = {f"{self.name}_row": row_labels(table.index)}, whole._law.log_density(table.values, cells=True)
        return xr.DataTree(xr.Dataset({self.name: whole._labelled(self.name, logs, rows, True, **whole._cell_mark())}))

    def _refuse_condition(self, query: str) -> None:
        """Refuse what needs the training rows or all columns; chains may be weighed."""
        law = self._first
        if law.told or len(self._law.parts) > 1 or len(law.kept) < len(law.schema.columns):
            raise ValueError(f"{query} needs the posterior as sampled, not a condition or marginal")

    def _co_clustering(self, df: Any) -> "xr.DataArray":
        """Probability that two new rows use the same child of the top sum node; see `SPNPosterior.co_clustering`."""
        rows = NewRows.of_table(self, df)
        index, n_rows = row_labels(rows.index), len(rows.index)
        refuse_pairs(n_rows)
        weight = weights_of(self._law)
        together = np.zeros((n_rows, n_rows))
        each = np.empty((weight.size, n_rows, n_rows)) if n_rows <= ERROR_ROWS else None
        for s in range(weight.size):
            share = rows.shares(s)
            same = share @ share.T
            np.fill_diagonal(same, 1.0)
            if each is not None:
                each[s] = same
            same *= weight[s]
            together += same
        together[rows.unknown] = together[:, rows.unknown] = np.nan
        self._warn_of_rows(rows.unknown, rows.values, rows.index, "Their answers are NaN")
        return self._pairs(together, each, index, self._cell_mark())

    def _pairs(self, together: np.ndarray, each: Any, index: Any, marks: dict[str, Any]) -> "xr.DataArray":
        """A table of pairs of rows, from its mean and values under each draw (S, M, M), if these are few."""
        attrs, weight = {**self._weight_mark(self._law), **marks}, weights_of(self._law)
        if each is not None:
            with np.errstate(invalid="ignore"):
                influence = weight.size * weight[:, None, None] * (each - np.nan_to_num(together))
            attrs |= self._error(influence)
            if "mcse_chain" in attrs:
                attrs["mcse_chain"] = np.where(np.isnan(together), np.nan, attrs["mcse_chain"])
        else:
            attrs["mcse_chain_note"] = f"no mcse_chain: given for at most {ERROR_ROWS} rows"
        return self._labelled("co_clustering", together, {"row": index, "other": index}, False, **attrs)


def refuse_pairs(n_rows: int) -> None:
    """Refuse a table over pairs of so many rows if it needs too much memory."""
    refuse_memory(f"co_clustering of {n_rows:,} rows", 16.0 * n_rows**2, "give some of the rows, as co_clustering(df)")
