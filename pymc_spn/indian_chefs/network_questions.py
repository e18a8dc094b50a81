"""What a belief network's posterior is asked about rows: densities, predictions, completions; gaps are summed out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_spn.events.event_text import as_event
from pymc_spn.events.events import SEVERAL, describe, read_events
from pymc_spn.indian_chefs.belief_network_schema import (
    LINEAR,
    NONLINEAR,
    SIGMOID,
    BeliefNetworkSchema,
    unpack_parameters,
)
from pymc_spn.indian_chefs.network_rows import OneNetwork, complete, log_means, moments, outputs
from pymc_spn.indian_chefs.unit_scaling import table_of
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.marks import GIVEN_DRAWS, LARGEST_LOG_ERROR, SIMULATION, error_of_log, limited
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, row_labels
from pymc_spn.tables.frame_kinds import frame_kind, frame_of_kind, pandas_frame, shared_columns, single_row
from pymc_spn.tables.inputs import Seed, TableLike

if TYPE_CHECKING:
    from pymc_spn.indian_chefs.graph_draws import GraphDraws

ASKING = "Asking networks"  # what the bar says

type Known = Mapping[str, object] | pd.DataFrame | str | None


class RowQuestions:
    """Questions about rows, asked of `schema`, `parameters` and `graphs` of a posterior."""

    schema: BeliefNetworkSchema
    parameters: np.ndarray
    graphs: "GraphDraws"
    table: xr.DataArray | None

    def log_density(
        self,
        X: TableLike,
        given: Known = None,
        *,
        n_pool: int = 2000,
        max_draws: int = 50,
        per_draw: bool = False,
        random_seed: Seed | None = None,
        progressbar: bool = True,
    ) -> xr.DataArray:
        """Calculate the log predictive density of rows, in nats and the units of `X`.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (rows, D) array
            In the units of the training data. NaN is a gap and is summed out; a row of gaps has log density 0.
        given : mapping, DataFrame or text, optional
            What is known: column names with a value, or with a value for each row of `X`, or a text such as
            ``"age == 30 and income == 2"``. Sets and intervals are read where they leave one value, as ``"wet > 0"``
            does of a binary column. The answer is then the log density of the other cells given these. `X` need not
            have such a column, and must agree where it has the cell. A missing value says nothing.
            ``given=X[["x"]]`` conditions each row on its own ``x``.
        n_pool : int
            Ancestral draws of the hidden nodes for each network; the log of their mean is biased low by about half
            the square of its standard error.
        max_draws : int
            Networks used, spread evenly over each chain.
        per_draw : bool
            The answers of each network, (chain, draw, row).
        random_seed : int, Generator or None
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row,) log of the mean over networks; with `given`, the log of the ratio of two such means, in which each
            network counts by the density of what is known. ``attrs["mcse"]`` is the largest standard error from the
            pools, by the delta method. Above one half it is NaN, with a note: a few draws of a pool then outweigh all
            others. ``attrs["mcse_chain"]`` is the largest error of the means of the chains. Rows outside the support
            are -inf. Cells of a nonlinear network must lie inside (0, 1) on the unit scale, those of a sigmoid network
            must be 0 or 1.

        Raises
        ------
        TypeError, ValueError
            If `X` lacks columns or holds something other than numbers. If `given` names an unknown column, differs from
            `X` or lies outside the support. If a count is not an integer of at least 1. If the covariance of a linear
            network is singular in floating point.

        Examples
        --------
        >>> columns = numbers[["age", "income"]].head(2)
        >>> network.log_density(columns, n_pool=200, max_draws=10, random_seed=1).dims
        ('row',)
        >>> of_income = network.log_density(columns, columns[["age"]], n_pool=200, max_draws=10, random_seed=1)
        >>> of_income.sizes["row"]
        2
        """
        checked_count("n_pool", n_pool, 1, 16.0 * self.schema.max_nodes)
        checked_count("max_draws", max_draws, 1)
        rng = np.random.default_rng(random_seed)
        frame, is_known = self._rows(X, given)
        cells, log_slope = self._coded(frame)
        chosen = self._chosen(max_draws)
        shape = len(self.parameters), len(chosen), len(cells)
        what = f"{shape[2]:,} rows and {shape[0] * shape[1]:,} draws"
        refuse_memory(what, 48.0 * float(np.prod(shape)), "ask for fewer rows or draws at once")
        every, known, errors = np.empty(shape), np.zeros(shape), np.zeros((3, *shape))
        with counted(ASKING, progressbar):
            for c, t, network in self._networks(chosen):
                found = log_means(rng, network, cells, is_known if is_known.any() else None, n_pool)
                every[c, t], known[c, t], errors[:, c, t] = found
        every += np.where(is_known, 0.0, log_slope).sum(1)
        errors[:, every == -np.inf] = 0.0  # an impossible row has no error
        mark = "exact" if self.schema.kind == LINEAR else "monte-carlo"
        attrs: dict[str, Any] = {"exactness": mark, "n_pool": n_pool}
        few = f"a few of the n_pool = {n_pool} draws in some rows"
        if per_draw:
            coords = {"chain": self.graphs.chains, "draw": np.asarray(self.graphs.draws)[chosen]}
            attrs |= error_of_log(largest_root(errors[0] + errors[1] - 2.0 * errors[2]), few)
            return self._labelled(every - known, frame.index, "log_density", attrs, coords)
        log_every, a = shares_of_networks(every)
        log_known, b = shares_of_networks(known)
        answer = log_every - log_known
        variance = (a * a * errors[0] + b * b * errors[1] - 2.0 * a * b * errors[2]).sum((0, 1))
        attrs |= {"exactness": limited(mark, GIVEN_DRAWS)} | error_of_log(largest_root(variance), few)
        if len(a) > 1:
            attrs["mcse_chain"] = float(error_over_chains(np.where(answer > -np.inf, a - b, 0.0).sum(1)).max())
        return self._labelled(answer, frame.index, "log_density", attrs, {})

    def predict(
        self,
        df: TableLike,
        target: str,
        *,
        n_pool: int = 2000,
        max_draws: int = 50,
        random_seed: Seed | None = None,
        progressbar: bool = True,
    ) -> xr.DataArray:
        """Predict a column given the other cells of each row: its mean, or its level.

        Parameters
        ----------
        df : DataFrame of pandas, polars or pyarrow, or (rows, D) array
            In the units of the training data. Gaps are summed out. The target's own cells are not looked at; a
            frame need not have them.
        target : str
        n_pool, max_draws, random_seed, progressbar
            As in `log_density`.

        Returns
        -------
        DataArray
            (row,) float64. Networks count by the density of the row's other cells. ``attrs["mcse"]`` (row,) is the
            standard error from the pools, NaN where fewer than four draws count; ``attrs["mcse_chain"]`` (row,) that of
            the means of the chains. With binary columns ``attrs["probability"]`` (row,) is that of the value, and the
            errors are its.

        Raises
        ------
        TypeError, ValueError
            If `target` is unknown, a cell lies outside the support, or as in `log_density`.

        Examples
        --------
        >>> rows = numbers[["age", "income"]].head(2)
        >>> network.predict(rows, "income", n_pool=200, max_draws=10, random_seed=1).dims
        ('row',)
        """
        checked_count("n_pool", n_pool, 1, 16.0 * self.schema.max_nodes)
        checked_count("max_draws", max_draws, 1)
        d = self._number("target", target)
        frame, _ = self._rows(df, None, without=d)
        cells = self._inside("df", frame)
        rng, chosen = np.random.default_rng(random_seed), self._chosen(max_draws)
        shape = len(self.parameters), len(chosen), len(cells)
        logs, mean, squares = np.empty(shape), np.empty(shape), np.empty((3, *shape))
        with counted(ASKING, progressbar):
            for c, t, network in self._networks(chosen):
                logs[c, t], mean[c, t], squares[:, c, t] = moments(rng, network, cells, d, n_pool)
        _, share = shares_of_networks(logs)
        value = (share * mean).sum((0, 1))
        one, first, second = (share * share * squares).sum((1, 2))
        error = np.sqrt(np.maximum(second - 2.0 * value * first + value**2 * one, 0.0))
        # below four draws that count their spread says little of the error, as in `error_of_log`
        attrs: dict[str, Any] = {"mcse": np.where(one > LARGEST_LOG_ERROR**2, np.nan, error)}
        if len(share) > 1:
            attrs["mcse_chain"] = error_over_chains((share * (mean - value)).sum(1))
        if self.schema.kind == SIGMOID:
            bits = (value > 0.5).astype(np.float64)
            attrs["probability"] = np.where(bits == 1.0, value, 1.0 - value)
            value = bits
        elif self.schema.scaling is not None:
            scaling = self.schema.scaling
            value = scaling.minimum[d] + (value - scaling.low) / scaling.slope[d]
            attrs = {k: v / scaling.slope[d] for k, v in attrs.items()}
        mark = "exact" if self.schema.kind == LINEAR else "monte-carlo"
        return self._labelled(value, frame.index, "predict", {"exactness": limited(mark, GIVEN_DRAWS)} | attrs, {})

    def impute(
        self,
        df: TableLike,
        n: int = 1,
        random_seed: Seed | None = None,
        *,
        n_pool: int = 2000,
        max_draws: int = 50,
        progressbar: bool = True,
    ) -> Any:
        """Fill the gaps of a table, given the observed cells of their row.

        A network is chosen by the density of what is observed in the row, then a draw of its hidden nodes by the same,
        then the gaps given these. The draws are those of a pool, so that this is Monte Carlo: it is the predictive as
        far as many draws of the pool count (`attrs["draws_after_weighting"]`). In linear networks it is exact.

        Parameters
        ----------
        df : DataFrame or (rows, D) array
            In the units of the training data; NaN is a gap.
        n : int
            Completed tables, at least 0. Take 20 for multiple imputation.
        random_seed : int, Generator or None
        n_pool, max_draws, progressbar
            As in `log_density`.

        Returns
        -------
        DataFrame of the kind of `df`, or list of n where n is not 1
            (rows, D) float64; index and order of columns of `df`. Observed cells are unchanged.

        Raises
        ------
        TypeError, ValueError
            If a cell lies outside the support, or as in `log_density`.

        Examples
        --------
        >>> rows = numbers[["age", "income"]].head(2)
        >>> network.impute(rows, random_seed=1).shape
        (2, 2)
        """
        count = checked_count("n", n)
        kind, df = frame_kind(df), pandas_frame(df, "df")
        frame, _ = self._rows(df, None)
        refuse_memory(f"n = {count:,} tables", 24.0 * count * frame.size, "ask for fewer tables at once")
        completed, attrs = self._completed("df", frame, count, random_seed, n_pool, max_draws, progressbar)
        frames = [pd.DataFrame(values, frame.index, list(frame.columns)) for values in completed]
        if isinstance(df, pd.DataFrame):
            order = [str(c) for c in df.columns if str(c) in frame.columns]
            frames = [done[order] for done in frames]
        for done in frames:
            done.attrs = dict(attrs)
        found = [frame_of_kind(done, kind) for done in frames]
        return found[0] if count == 1 else found

    def log_likelihood(
        self,
        X: TableLike | None = None,
        *,
        n_pool: int = 2000,
        random_seed: Seed | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Return the group ``log_likelihood``, for ``az.loo`` and ``az.compare``.

        For each draw and row the log density of the row given graph and parameters, hidden nodes and gaps integrated
        out. Given these rows are independent, so the reciprocals are the importance weights of leave-one-out.

        Parameters
        ----------
        X : DataFrame or (rows, D) array, optional
            In the units of the training data; by default the training rows.
        n_pool : int
            As in `log_density`: each draw and row costs so many densities. The noise of the pools makes single weights
            larger and smaller; the Pareto k that ``az.loo`` reports says whether that harms.
        random_seed : int, Generator or None
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataTree
            One variable of the network's name, (chain, draw, <name>_row) float64, in nats and in the units of the data.
            Rows without an observed cell are left out: they are no data. ``attrs["mcse"]`` is the largest standard
            error of an entry; linear networks are exact.

        Raises
        ------
        TypeError, ValueError
            As in `log_density`; if no `X` is given and the training rows are not among the results.

        Examples
        --------
        >>> network.log_likelihood(n_pool=50, random_seed=1)["net"].dims
        ('chain', 'draw', 'net_row')
        """
        frame, _ = self._rows(self._training_rows() if X is None else X, None)
        frame = frame[frame.notna().any(axis=1)]
        n_chains, n_draws, _ = self.parameters.shape
        sizes = {"n_pool": n_pool, "max_draws": n_chains * n_draws}
        logs = self.log_density(frame, **sizes, per_draw=True, random_seed=random_seed, progressbar=progressbar)
        if self.schema.kind == LINEAR:
            logs.attrs = {"exactness": "exact"}
        name = self.schema.name
        return xr.DataTree(xr.Dataset({name: logs.rename({"row": f"{name}_row"}).rename(name)}))

    # ---- parts

    def _training_rows(self) -> pd.DataFrame:
        values, name = self.table, self.schema.name
        if values is None:
            raise ValueError(f"X must be given: the results do not hold the training rows, {name!r} of observed_data")
        if values.shape[-1] != len(self.schema.columns):  # as its record reads it
            values = values.T
        rows = values.dims[0]
        index = values.coords[rows].to_index() if rows in values.coords else None
        frame = pd.DataFrame(values.values.astype(np.float64), index, list(self.schema.columns))
        return frame if self.schema.scaling is None else self.schema.scaling.inverse(frame)

    def _chosen(self, max_draws: int) -> np.ndarray:
        """Places of the draws used, the same in each chain."""
        n_chains, n_draws, _ = self.parameters.shape
        return np.unique(np.linspace(0, n_draws - 1, max(1, min(n_draws, max_draws // n_chains))).astype(int))

    def _network(self, chain: int, draw: int) -> OneNetwork:
        return OneNetwork(self.schema.kind, *unpack_parameters(self.parameters[chain, draw], self.schema.max_nodes))

    def _networks(self, chosen: np.ndarray) -> Any:
        places = [(c, t) for c in range(len(self.parameters)) for t in range(len(chosen))]
        for c, t in each(places):
            yield c, t, self._network(c, chosen[t])

    def _number(self, argument: str, name: Any) -> int:
        if name not in self.schema.columns:
            raise ValueError(f"{argument} must be one of {quoted(list(self.schema.columns))}; got {quoted(name)}")
        return self.schema.columns.index(name)

    def _rows(self, X: Any, given: Known, without: int | None = None) -> tuple[pd.DataFrame, np.ndarray]:
        """Rows with what is given in their cells, and (N, D) bool where that is.

        The column `without` is not looked at.
        """
        columns, argument = self.schema.columns, "X" if without is None else "df"
        X = single_row(pandas_frame(X, argument))
        known: dict[str, Any] = {}
        if given is not None:
            known = known_columns(pandas_frame(given, "given"), columns, self.schema.kind == SIGMOID)
        if isinstance(X, pd.DataFrame):
            held = X.set_axis([str(c) for c in X.columns], axis=1)
            X = held[shared_columns(list(held.columns), columns, argument)].reindex(columns=list(columns))
            index = X.index
        else:
            index = None
        names, values = table_of(X, argument, columns, gaps=True)
        if without is not None:
            values = np.where(np.arange(len(names)) == without, np.nan, values)
        frame = pd.DataFrame(values, index, list(names))
        is_known = np.zeros(values.shape, bool)
        for name, value in known.items():
            d = columns.index(name)
            told = told_cells(name, value, frame.index)
            is_known[:, d] = ~np.isnan(told)
            differs = is_known[:, d] & ~np.isnan(values[:, d]) & (values[:, d] != told)
            if differs.any():
                r = int(np.argmax(differs))
                raise ValueError(
                    f"given must agree with X where both have a cell: column {name!r}, row {r} is {values[r, d]:g} in "
                    f"X and given as {told[r]:g}"
                )
            frame[name] = np.where(is_known[:, d], told, values[:, d])
        if known:
            self._inside("given", frame.where(is_known))
        return frame, is_known

    def _coded(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Activations (or values) of rows with gaps, and the log derivative of the map to them, -inf outside.

        Both (N, D); 0 in gaps.
        """
        schema = self.schema
        values = (frame if schema.scaling is None else schema.scaling.transform(frame)).to_numpy()
        gaps = np.isnan(values)
        if schema.kind == LINEAR:
            return values, np.zeros(values.shape)
        if schema.kind == NONLINEAR:
            inside, some = (values > 0.0) & (values < 1.0), 0.5
        else:
            inside, some = (values == 0.0) | (values == 1.0), 0.0
        values = np.where(inside | gaps, values, some)  # of a row without density, which no other cell can change
        outside = np.where(inside | gaps, 0.0, -np.inf)
        if schema.kind == SIGMOID:
            return values, outside
        log_slope = -(np.log(values) + np.log1p(-values))
        if schema.scaling is not None:
            log_slope = log_slope + np.log(schema.scaling.slope)
        return np.log(values) - np.log1p(-values), outside + np.where(gaps, 0.0, log_slope)

    def _inside(self, argument: str, frame: pd.DataFrame) -> np.ndarray:
        """Coded rows, all of whose cells are inside the support."""
        cells, log_slope = self._coded(frame)
        if (log_slope == -np.inf).any():
            r, d = np.argwhere(log_slope == -np.inf)[0]
            raise ValueError(
                f"{argument} must lie inside the support of the network: column {self.schema.columns[d]!r}, row {r} is "
                f"{frame.iloc[r, d]:g}; set it to NaN or drop the row"
            )
        return cells

    def _decoded(self, cells: np.ndarray) -> np.ndarray:
        """Coded rows (N, D) in the units of the training data."""
        values = outputs(self.schema.kind, cells)
        if self.schema.scaling is None:
            return values
        return self.schema.scaling.inverse(pd.DataFrame(values, columns=list(self.schema.columns))).to_numpy()

    def _completed(
        self,
        argument: str,
        frame: pd.DataFrame,
        n: int,
        random_seed: Seed | None,
        n_pool: int,
        max_draws: int,
        progressbar: bool,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """(n, N, D) rows without gaps in the units of the training data, and the marks of the answer."""
        checked_count("n_pool", n_pool, 1, 16.0 * self.schema.max_nodes)
        checked_count("max_draws", max_draws, 1)
        rng, cells = np.random.default_rng(random_seed), self._inside(argument, frame)
        out = np.tile(cells, (n, 1, 1))
        total, squares = np.full(len(cells), -np.inf), np.zeros(len(cells))
        # one network after the other takes the place of those before it, by its share of the weight so far
        with counted(ASKING, progressbar):
            for _, _, network in self._networks(self._chosen(max_draws)):
                logs, drawn, own = complete(rng, network, cells, n, n_pool)
                grown = np.logaddexp(total, logs)
                share, rest = np.exp(logs - grown), np.exp(total - grown)
                squares = share**2 * own + rest**2 * squares
                takes = rng.random((n, len(cells))) < share
                out = np.where(takes[..., None], drawn, out)
                total = grown
        values = self._decoded(out.reshape(-1, out.shape[-1])).reshape(out.shape) if n else out
        values = np.where(np.isnan(cells), values, frame.to_numpy())  # observed cells to the last bit
        if self.schema.kind == LINEAR:
            return values, {"exactness": limited(SIMULATION, GIVEN_DRAWS)}
        attrs = {"exactness": limited("monte-carlo", GIVEN_DRAWS), "n_pool": n_pool}
        gaps = np.isnan(cells).any(1)
        return values, attrs | {"draws_after_weighting": float(1.0 / squares[gaps].max()) if gaps.any() else np.nan}

    def _labelled(
        self, values: np.ndarray, index: Any, name: str, attrs: dict[str, Any], coords: dict[str, Any]
    ) -> xr.DataArray:
        coords = coords | {"row": row_labels(index)}
        return xr.DataArray(values, coords, tuple(coords), name, attrs)


def known_columns(given: Any, columns: tuple[str, ...], is_binary: bool) -> dict[str, Any]:
    """What is given as a dictionary by column: numbers, one for each row or for all of them.

    Text, sets and intervals say numbers where they leave one value.
    """
    kinds = [Column(c, *(("binary", (0, 1), "int64") if is_binary else ("real", None, "float64"))) for c in columns]
    is_density = np.full(len(columns), not is_binary)
    if isinstance(given, str):
        given = as_event("given", given, kinds, is_density)
    if not isinstance(given, Mapping | pd.DataFrame):
        raise TypeError(
            f"given must map column names to numbers, or be a DataFrame of them or a text; got {quoted(given)}"
        )
    found = {str(name): given[name] for name in given}
    unknown = [name for name in found if name not in columns]
    if unknown:
        raise ValueError(f"given names {unknown[0]!r}; the columns are {quoted(list(columns))}")
    for d, column in enumerate(kinds):
        if isinstance(found.get(column.name), SEVERAL):
            found[column.name] = _only_value(column, d, found[column.name], kinds, is_density)
    return found


def _only_value(column: Column, d: int, what: Any, kinds: list[Column], is_density: np.ndarray) -> float:
    """The one value of a set or an interval, NaN where it says nothing."""
    event: Any = read_events("given", {column.name: what}, kinds, range(len(kinds)), is_density).get(d, np.nan)
    held: list[Any] = (
        sorted(event) if isinstance(event, frozenset) else [event] if isinstance(event, float) else list(set(event))
    )
    if len(held) == 1:
        return float(held[0])
    raise TypeError(
        f"given: column {column.name!r} must have one value in a row, got {describe(column, event)}; a belief network "
        "is conditioned on values, the posteriors of ps.SPN on intervals and sets too"
    )


def told_cells(name: str, value: Any, index: pd.Index) -> np.ndarray:
    """(N,) float64 of one column that is given."""
    if isinstance(value, pd.Series) and not value.index.equals(index):
        raise ValueError(f"given: column {name!r} must have the row labels of X, in their order")
    if isinstance(value, str):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}")
    try:
        numbers = np.asarray(np.nan if value is pd.NA else value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}") from None
    if numbers.shape not in ((), (len(index),)):
        raise ValueError(
            f"given: column {name!r} must be a number or {len(index)} numbers; its shape is {numbers.shape}"
        )
    if np.isinf(numbers).any():
        raise ValueError(f"given: column {name!r} must be finite")
    return np.broadcast_to(numbers, len(index)).copy()


def shares_of_networks(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of the mean of exp over the first two axes (N,), and the share of each in the sum; equal where all are 0."""
    top = logs.max((0, 1))
    possible = top > -np.inf
    relative = np.exp(logs - np.where(possible, top, 0.0))
    relative = np.where(possible, relative, 1.0)
    total = relative.sum((0, 1))
    return top + np.log(total / logs[..., 0].size), relative / total


def largest_root(variance: np.ndarray) -> float:
    """The largest standard error."""
    return float(np.sqrt(max(variance.max(), 0.0)))


def error_over_chains(parts: np.ndarray) -> np.ndarray:
    """Standard error of a sum over chains, (C, N), of as many equal parts."""
    return parts.std(0, ddof=1) * np.sqrt(len(parts))
