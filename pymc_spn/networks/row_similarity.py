"""Which rows are like which: the probability that two rows share a component, and the rows nearest to some."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.networks.network_posterior import ERROR_ROWS, NetworkPosterior
from pymc_spn.networks.records.multivariate_leaves import regions_of
from pymc_spn.networks.rows_on_children import (
    NewRows,
    Rows,
    TrainingRows,
    togetherness,
    togetherness_by_draw,
    weights_of,
)
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table, row_labels
from pymc_spn.tables.frame_kinds import pandas_frame
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    import xarray as xr

BLOCK_PAIRS = 4_000_000  # pairs of rows that are held at a time (32 MB)


class TrainingRowSimilarity(NetworkPosterior):
    """Similarity of rows to the training rows, whose assignments are part of the draws."""

    def row_similarity(
        self, rows: TableLike | Sequence[object] | pd.Index, column: str | None = None
    ) -> "xr.DataArray":
        """Calculate how probably rows are in the same cluster as training rows.

        Two rows are in the same cluster if they use the same child of the top sum node, as in `co_clustering`, which
        compares rows with each other.

        Parameters
        ----------
        rows : list of labels, or DataFrame, mapping, array or Table
            Labels of training rows, as in ``["Ann", "Bob"]``; or new rows, each assigned by itself given a draw.
        column : str, optional
            If given, two training rows are alike if their values of this column come from the same leaf: every sum node
            down to the column counts, not only the top one. For labels only.

        Returns
        -------
        DataArray
            (row, other): ``row`` are the rows that you ask about, ``other`` all training rows. NaN for training rows
            without an observed cell (or whose value of `column` is missing), and for new rows of density zero, which a
            warning names. Up to 10,000 pairs of rows have a standard error, ``attrs["mcse_chain"]``.

        Raises
        ------
        ValueError
            If no training row has a label, the posterior is a condition or a marginal, or so many pairs need too much
            memory. If `column` is not a column, or is given together with new rows.

        Examples
        --------
        >>> like = post.row_similarity(df.head(1))
        >>> like.dims
        ('row', 'other')
        """
        asked, others, _ = _with_training_rows(self, "row_similarity", rows, column)
        return _similarities(self, asked, others)

    def nearest_rows(
        self, rows: TableLike | Sequence[object] | pd.Index, k: int = 10, column: str | None = None
    ) -> "xr.Dataset":
        """Find the training rows that are most like each row.

        The measure is `row_similarity`. Only the k nearest are kept: memory grows with the number of rows that you ask
        about, not with the square of the table.

        Parameters
        ----------
        rows : list of labels, or DataFrame, mapping, array or Table
            As for `row_similarity`. A training row is not its own neighbour.
        k : int
            Neighbours of each row.
        column : str, optional
            As for `row_similarity`.

        Returns
        -------
        Dataset
            ``neighbour`` (row, rank), the labels of the training rows, the most similar first; ``similarity`` (row,
            rank), how probable it is that the two are in the same cluster. Rows that are equally similar stand in the
            order of the table. ``to_dataframe()`` makes a table of it.

        Raises
        ------
        ValueError
            As `row_similarity`. If a row has no observed cell or density zero, so that nothing is like it, or `k` is
            not within 1 and the number of other training rows.

        Examples
        --------
        >>> post.nearest_rows(df.head(1), k=3)["neighbour"].dims
        ('row', 'rank')
        """
        asked, others, own = _with_training_rows(self, "nearest_rows", rows, column)
        return _nearest(self, asked, others, k, own)


class RowSimilarity(NetworkPosterior):
    """Similarity of rows to others that a question is given."""

    def row_similarity(self, rows: TableLike, others: TableLike) -> "xr.DataArray":
        """Calculate how probably rows are in the same cluster as others.

        Two rows are in the same cluster if they use the same child of the top sum node, as in `co_clustering`. A fit
        keeps no training rows: to compare with them, pass them as `others`.

        Parameters
        ----------
        rows, others : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Each row is assigned by itself.

        Returns
        -------
        DataArray
            (row, other); NaN for rows whose density is zero.

        Raises
        ------
        ValueError
            If a condition excludes a row, or so many pairs need too much memory.

        Examples
        --------
        >>> fit.row_similarity(df.head(1), df.tail(4)).shape
        (1, 4)
        """
        return _similarities(self, NewRows.of_table(self, rows), NewRows.of_table(self, others))

    def nearest_rows(self, rows: TableLike, others: TableLike, k: int = 10) -> "xr.Dataset":
        """Find the rows of another table that are most like each row.

        The measure is `row_similarity`.

        Parameters
        ----------
        rows, others : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            As for `row_similarity`. A row that stands in both tables is compared with itself as with any other.
        k : int
            Neighbours of each row.

        Returns
        -------
        Dataset
            ``neighbour`` (row, rank), the labels of the other rows, the most similar first; ``similarity`` (row, rank).
            Rows that are equally similar stand in the order of the table.

        Raises
        ------
        ValueError
            As `row_similarity`; if a row has density zero, or `k` is not within 1 and the number of other rows.

        Examples
        --------
        >>> fit.nearest_rows(df.head(1), df.tail(20), k=2)["neighbour"].shape
        (1, 2)
        """
        return _nearest(self, NewRows.of_table(self, rows), NewRows.of_table(self, others), k, None)


def _with_training_rows(
    self: NetworkPosterior, query: str, rows: Any, column: str | None
) -> tuple[Rows, TrainingRows, np.ndarray | None]:
    """Rows that are asked about, all training rows, and the places of the former if they are training rows."""
    self._refuse_condition(query)
    rows = pandas_frame(rows, "rows")
    states, record = self._states, self._states.record
    index = pd.Index(record.rows, tupleize_cols=False)
    is_table = isinstance(rows, pd.DataFrame | Table | Mapping) or (isinstance(rows, np.ndarray) and rows.ndim == 2)
    if column is None:
        labels = states.digits[:, :, 0]
    elif is_table:
        raise ValueError(
            "column must be None for new rows: leaves are compared for training rows, named by their labels"
        )
    else:
        d = self._number("column", column)
        labels = paths_to_leaves(states.digits[:, :, regions_of(states.structure, d)])
        labels[:, np.isnan(record.table[:, d]) & (states.cells is None)] = -1
    others = TrainingRows(index, labels)
    if is_table:
        return NewRows.of_table(self, rows), others, None
    own = places_of_labels(rows, index)
    if query == "nearest_rows" and others.unknown[own].any():
        label = index[own[others.unknown[own]]][:1].tolist()[0]
        what = "observed cell" if column is None else f"value of {column!r}"
        raise ValueError(f"rows: training row {label!r} has no {what}, so that no row is nearest to it")
    return others.some(own), others, own


def places_of_labels(rows: Any, index: pd.Index) -> np.ndarray:
    """Positions of the rows that have some labels, in the order of these."""
    if isinstance(rows, str | bytes | pd.Series) or not isinstance(rows, Iterable):
        raise TypeError(
            f"rows must be a list of labels of training rows or a table of new rows, got {quoted(rows)}; of a single "
            "row [label], or df.loc[[label]]"
        )
    listed = list(rows)
    asked = row_labels(pd.Index(listed, tupleize_cols=False)) if listed else index[:0]
    unknown = ~asked.isin(index)
    if unknown.any():
        raise ValueError(f"rows names {quoted(asked[unknown].tolist()[0])}, which is not the label of a training row")
    return np.asarray(index.get_indexer_for(asked), np.int64)


def paths_to_leaves(digits: np.ndarray) -> np.ndarray:
    """Numbers (S, N) that are equal, within a draw, for rows with the same digits (S, N, k) in all of k regions.

    They are below 0 where the first digit is.
    """
    out = np.empty(digits.shape[:2], np.int32)
    for s, state in enumerate(digits):
        code = state[:, 0].astype(np.int64)
        for digit in state.T[1:]:
            code = np.unique(code, return_inverse=True)[1] * (int(digit.max(initial=0)) + 2) + digit + 1
        out[s] = np.where(state[:, 0] < 0, -1, np.unique(code, return_inverse=True)[1])
    return out


def _similarities(post: NetworkPosterior, rows: Rows, others: Rows) -> "xr.DataArray":
    """The table of similarities as an answer."""
    m, n = len(rows.index), len(others.index)
    refuse_memory(f"the similarity of {m:,} rows with {n:,}", 16.0 * m * n, "ask for fewer rows, or for nearest_rows")
    found = togetherness(rows, others, weights_of(post._law))
    attrs = _marks(post, rows, others, np.broadcast_to(np.arange(n), (m, n)), found)
    for asked in (rows, others):
        if isinstance(asked, NewRows):
            post._warn_of_rows(asked.unknown, asked.values, asked.index, "Their answers are NaN")
    coords = {"row": row_labels(rows.index), "other": row_labels(others.index)}
    return post._labelled("similarity", found, coords, False, **attrs)


def _nearest(post: NetworkPosterior, rows: Rows, others: Rows, k: int, own: np.ndarray | None) -> "xr.Dataset":
    """The k nearest of the others as an answer; ``own`` (m,) are the rows' places among them."""
    import xarray as xr

    m, n = len(rows.index), len(others.index)
    k = checked_count("k", k, least=1)
    refuse_memory(f"{k:,} neighbours of {m:,} rows", 32.0 * m * k, "ask for fewer rows, or for fewer neighbours")
    weight, chosen, found = weights_of(post._law), np.zeros((m, k), np.int64), np.empty((m, k))
    step = max(1, BLOCK_PAIRS // max(n, 1))
    for start in range(0, m, step):
        asked = rows.some(slice(start, start + step))
        table = togetherness(asked, others, weight)
        if isinstance(asked, NewRows):
            post._refuse_rows(asked.unknown, asked.values, asked.index)
        if own is not None:
            table[np.arange(len(table)), own[start : start + step]] = np.nan
        most = int((~others.unknown).sum()) - (own is not None)
        if k > most:
            raise ValueError(f"k must be at most {most}, the number of other rows to choose from, got {k}")
        for i, row in enumerate(table):
            chosen[start + i] = largest(row, k)
        found[start : start + step] = np.take_along_axis(table, chosen[start : start + step], axis=1)
    coords = {"row": row_labels(rows.index), "rank": np.arange(1, k + 1)}
    similarity = post._labelled("similarity", found, coords, False, **_marks(post, rows, others, chosen, found))
    attrs = {name: v for name, v in similarity.attrs.items() if not name.startswith("mcse_chain")}
    note = {"mcse_chain_note": "no mcse_chain: it is that of similarity"} if post._law.marks.has_error else {}
    neighbour = (("row", "rank"), row_labels(others.index).to_numpy()[chosen], attrs | note)
    return xr.Dataset({"neighbour": neighbour, "similarity": similarity}, attrs=attrs)


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k largest of values (n,), falling, equal ones by their places; NaN counts as below all."""
    values = np.where(np.isnan(values), -1.0, values)
    if k < values.size:
        least = np.partition(values, values.size - k)[values.size - k]
        above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
        places = np.concatenate([above, equal[: k - above.size]])
    else:
        places = np.arange(values.size)
    return places[np.lexsort((places, -values[places]))]


def _marks(post: NetworkPosterior, rows: Rows, others: Rows, chosen: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    """Attributes of similarities (m, k) with the others at the places ``chosen``."""
    attrs = post._weight_mark(post._law)
    if isinstance(rows, NewRows):
        attrs |= post._cell_mark()
    if not post._law.marks.has_error:
        return attrs
    if found.size > ERROR_ROWS**2:
        return attrs | {"mcse_chain_note": f"no mcse_chain: given for at most {ERROR_ROWS**2:,} pairs of rows"}
    weight = weights_of(post._law)
    each = togetherness_by_draw(rows, others, chosen, weight.size)
    return attrs | post._error(weight.size * weight[:, None, None] * (each - np.nan_to_num(found)))
