"""What a posterior says of whole rows: how dense and unusual they are, why, and which belong together."""

from collections.abc import Callable, Mapping
from math import factorial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_spn.answers.information_answers import InformationAnswers
from pymc_spn.answers.no_interventions import NoInterventions
from pymc_spn.answers.partitions import average_togetherness, losses_of_partitions
from pymc_spn.networks.records.draw_averages import (
    attrs_of_finite,
    chain_error,
    log_average,
    relative_weights,
    weighted_mean,
)
from pymc_spn.numerics.asked_numbers import check_prob
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.weighted_intervals import shortest_interval
from pymc_spn.tables import Table, row_labels

if TYPE_CHECKING:
    import xarray as xr

EXACT_COLUMNS = 10  # columns whose subsets are all visited for Shapley values
PERMUTATIONS = 200
ERROR_ROWS = 100  # rows up to which a table of pairs carries mcse_chain
BLOCK_ROWS = 10_000  # subsets of a row that are held as rows at a time
BLOCK_VALUES = 2_000_000  # per-draw log densities held at a time (16 MB)


class RowAnswers(InformationAnswers, NoInterventions):
    """Queries about given rows."""

    def log_density(
        self, df: Any, per_draw: bool = False, cells: bool = True, *, unseen: str = "error"
    ) -> "xr.DataArray":
        """Log density of the posterior predictive at new rows, missing cells summed out.

        Parameters
        ----------
        df : DataFrame, mapping, array or Table
            Checked by the schema of the training table; NaN is missing, a row of NaN has log density 0.
        per_draw : bool
            Whether each draw's own density is wanted instead of the log of their mean.
        cells : bool
            Of a network with ``rounded=True``, whether a value of a rounded column counts as its cell, by
            log(mass / width), as it does in learning; otherwise by the density of the exact value.
        unseen : {"error", "missing"}
            What becomes of a level that the training table did not have.

        Returns
        -------
        DataArray
            (row,) or (chain, draw, row), in nats; densities are in the units of the data.
        """
        table = Table.from_frame(df, schema=self._left, unseen=unseen)
        values, possible = self._embed(table, cells)
        base = self._log_evidence()
        rows, mark = {"row": row_labels(table.index)}, self._cell_mark(cells)
        if per_draw:
            _refuse_per_draw(len(values), self._states.n_draws)
            logs = self._log_rows(values, cells) - base[:, None]
            return self._labelled("log_density", np.where(possible, logs, -np.inf), rows, True, **mark)
        log_norm = log_average(self._log_weights, base)
        answer, errors = np.full(len(values), -np.inf), []
        block = max(1, BLOCK_VALUES // self._states.n_draws)
        for start in range(0, len(values), block):
            part = slice(start, start + block)
            logs = self._log_rows(values[part], cells)
            answer[part] = np.where(possible[part], log_average(self._log_weights, logs) - log_norm, -np.inf)
            weight = relative_weights(logs + self._log_weights[:, None])
            errors.append(chain_error(weight - relative_weights(base + self._log_weights)[:, None], self._n_chains))
        attrs = mark | self._draw_weights() | self._joined_errors(errors, len(values), block)
        return self._labelled("log_density", answer, rows, False, **attrs)

    def anomaly(self, df: Any) -> "xr.Dataset":
        """How unusual rows are, and in which columns.

        Parameters
        ----------
        df : DataFrame, mapping or array
            Missing cells are summed out.

        Returns
        -------
        Dataset
            ``log_density`` (row,), of the mixture over draws; ``log_density_sd`` (row,), the posterior sd of the
            draws' own, NaN where a draw that counts gives the row density 0; ``surprise`` (row, column), minus the log
            density of each cell given the others of its row, in nats, NaN where the cell is missing or where the
            others are impossible under every draw. A single impossible cell has thus an infinite surprise, and the
            other cells of its row have none. Surprises are comparable between rows, and between columns of like kind
            only.
        """
        import xarray as xr

        table = Table.from_frame(df, schema=self._left)
        values, possible = self._embed(table)
        names = [c.name for c in self.columns]
        index = row_labels(table.index)
        log_density, sd = np.empty(len(values)), np.empty(len(values))
        surprise = np.full((len(values), len(names)), np.nan)
        base = self._log_evidence()
        norm = float(log_average(self._log_weights, base))
        weight = relative_weights(base + self._log_weights)
        errors: list[dict[str, Any]] = []
        step = max(1, BLOCK_VALUES // (self._states.n_draws * (1 + values.shape[1])))
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            block = values[part]
            logs, left_out = self._log_rows_left_out(block)
            joint = np.where(possible[part], logs, -np.inf)
            log_density[part] = log_average(self._log_weights, joint) - norm
            with np.errstate(invalid="ignore"):  # draws of density 0 have no spread
                own = joint - base[:, None]
                mean = weighted_mean(weight, own)
                sd[part] = np.sqrt(weighted_mean(weight, (own - mean) ** 2))
            for j, d in enumerate(self._kept):
                seen = ~np.isnan(block[:, d])
                rest = np.where(possible[part][seen], left_out[:, seen, d], -np.inf)
                if d in self._evidence:  # what is given of the column is still known
                    without = block[seen].copy()
                    without[:, d] = np.nan
                    rest = np.where(self._possible(without), self._log_rows(without), -np.inf)
                with np.errstate(invalid="ignore"):  # nothing is the density of a cell given what is impossible
                    surprise[np.flatnonzero(seen) + start, j] = log_average(self._log_weights, rest) - (
                        log_density[part][seen] + norm
                    )
            relative = relative_weights(logs + self._log_weights[:, None])
            errors.append(chain_error(relative - weight[:, None], self._n_chains))
        own_marks = {**self._cell_mark(), **self._draw_weights()}
        joined = attrs_of_finite(
            log_density, self._attrs(**own_marks, **self._joined_errors(errors, len(values), step))
        )
        attrs = self._attrs(**own_marks, mcse_chain_note="no mcse_chain: log_density has one")
        return xr.Dataset(
            {
                "log_density": ("row", log_density, joined),
                "log_density_sd": ("row", sd, attrs),
                "surprise": (("row", "column"), surprise, attrs),
            },
            {"row": index, "column": names},
            self._attrs(**self._cell_mark()),
        )

    def explain(
        self,
        row: Any,
        target: str | None = None,
        prob: float = 0.94,
        n_permutations: int | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.Dataset":
        """What each cell of a row contributes to its log density, or to the log probability of one of its cells.

        Parameters
        ----------
        row : mapping, Series or DataFrame of one row
            Missing cells take no part.
        target : str, optional
            Explain log p(target's value | other cells) instead of log p(row).
        prob : float
            Mass of the highest density intervals.
        n_permutations : int, optional
            Shapley values by this many random orders (each used forwards and backwards); by default all subsets
            are visited up to 10 columns, else 200 orders are drawn.
        random_seed : int, Generator or None
            Of the orders.

        Returns
        -------
        Dataset
            Over ``column``: ``log_ratio``, what the value loses when the cell is taken out, log v(all) - log
            v(all but the cell); ``shapley``, the average of that over all orders in which cells become known,
            which adds up to ``total`` - ``baseline``; ``hdi`` of the Shapley values over draws. Marginals are
            exact, nothing is imputed for the cells left out.
        """
        import xarray as xr

        check_prob(prob)
        values = self._one_row(row)
        features = [d for d in self._kept if not np.isnan(values[d])]
        goal = None
        if target is not None:
            goal = self._column_number("target", target)
            if goal not in features:
                raise ValueError(f"row must hold a value of the target {target!r}, it is missing")
            features.remove(goal)
        if not features:
            raise ValueError("row must hold at least one observed cell besides the target")
        m = len(features)
        if n_permutations is None and m <= EXACT_COLUMNS:
            coalitions = _all_subsets(m)
            orders = 0
        else:
            orders = PERMUTATIONS if n_permutations is None else n_permutations
            if isinstance(orders, bool) or not isinstance(orders, int | np.integer) or orders < 2:
                raise ValueError(f"n_permutations must be an integer of at least 2, got {quoted(n_permutations)}")
            coalitions = _some_orders(m, int(orders), np.random.default_rng(random_seed))
        mixture, each = self._coalitions(values, features, goal, coalitions.subsets)
        full, nothing = len(coalitions.subsets) - 1, 0
        gains = coalitions.gains(mixture)
        own = np.array([coalitions.gains(worth).mean(axis=0) for worth in each])
        weight = relative_weights(self._log_evidence() + self._log_weights)
        weight = weight / weight.sum()
        bounds = np.array([shortest_interval(own[:, i], weight, prob) for i in range(m)])
        note = "no mcse_chain: hdi says how far the draws disagree"
        attrs = self._attrs(mcse_chain_note=note, **self._cell_mark(), **self._draw_weights())
        marked = dict(attrs)
        if orders:
            error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
            marked = self._attrs(**(attrs | {"exactness": "monte-carlo", "mcse": error}))
        return xr.Dataset(
            {
                "log_ratio": ("column", mixture[full] - mixture[coalitions.all_but_one], attrs),
                "shapley": ("column", gains.mean(axis=0), marked),
                "hdi": (("column", "bound"), bounds, {**marked, "prob": prob}),
                "total": ((), mixture[full], attrs),
                "baseline": ((), mixture[nothing], attrs),
            },
            {"column": [self._schema.columns[d].name for d in features], "bound": ["lower", "upper"]},
            {k: marked[k] for k in ("exactness", "learner", "tolerance") if k in marked}
            | ({} if goal is None else {"target": self._schema.columns[goal].name}),
        )

    def co_clustering(self, df: Any = None) -> "xr.DataArray":
        """Probability that two rows use the same child of the top sum node.

        Parameters
        ----------
        df : DataFrame, optional
            New rows: each is assigned by itself given a draw, and rows on children that hold no training row
            count as apart. By default the training rows, whose assignments are part of the draws.

        Returns
        -------
        DataArray
            (row, other), 1 on the diagonal; NaN, as is ``mcse_chain``, for training rows without an observed cell and
            for new rows whose density is zero under every draw, which a warning names.

        Raises
        ------
        ValueError
            If the posterior's condition excludes a new row, or so many pairs of rows need too much memory.
        """
        states = self._states
        weight = relative_weights(self._log_evidence() + self._log_weights)
        weight = weight / weight.sum()
        attrs = {**self._draw_weights(), **(self._cell_mark() if df is not None else {})}
        if df is None:
            self._refuse_condition("co_clustering of training rows")
            index, labels = states.record.rows, states.digits[:, :, 0]
            n_rows = labels.shape[1]
            _refuse_pairs(n_rows)
            together = average_togetherness(labels, weight)
            empty = labels[0] < 0
            together[empty] = together[:, empty] = np.nan
            each: Any = (labels[:, :, None] == labels[:, None, :]) if n_rows <= ERROR_ROWS else None
        else:
            table = Table.from_frame(df, schema=self._left)
            values, possible = self._embed(table)
            self._refuse_rows(~possible, values, table.index)
            index, n_rows = row_labels(table.index), len(values)
            _refuse_pairs(n_rows)
            together = np.zeros((n_rows, n_rows))
            each = np.empty((states.n_draws, n_rows, n_rows)) if n_rows <= ERROR_ROWS else None
            log, best = np.empty(n_rows), np.full(n_rows, -np.inf)
            path = np.zeros(1, np.int64)
            shares = self._shares(values, path)
            for s in range(states.n_draws):
                net = states.network(s)
                share = np.zeros((n_rows, int(net.top[0]) + 1))
                shares(s, net, log, share)
                best = np.maximum(best, log)
                share = share[:, states.children_with_rows(net)]
                same = share @ share.T
                np.fill_diagonal(same, 1.0)
                if each is not None:
                    each[s] = same
                same *= weight[s]
                together += same
            unknown = best == -np.inf
            together[unknown] = together[:, unknown] = np.nan
            self._warn_of_rows(unknown, values, table.index, "Their answers are NaN")
        if each is not None:
            with np.errstate(invalid="ignore"):
                influence = weight.size * weight[:, None, None] * (each - np.nan_to_num(together))
            attrs |= chain_error(influence, self._n_chains)
            if "mcse_chain" in attrs:
                attrs["mcse_chain"] = np.where(np.isnan(together), np.nan, attrs["mcse_chain"])
        else:
            attrs["mcse_chain_note"] = f"no mcse_chain: given for at most {ERROR_ROWS} rows"
        return self._labelled("co_clustering", together, {"row": index, "other": index}, False, **attrs)

    def top_clusters(self) -> "xr.DataArray":
        """One partition of the training rows by the children of the top sum node, to look at.

        The recorded draw whose partition is nearest to `co_clustering` in squared distance (Dahl 2006); clusters
        are numbered by falling size. -1 for rows without an observed cell. It shows one state, no average, and is
        marked so: ``exactness`` is "one draw", ``chain`` and ``draw`` say which, ``distance`` how far it is from
        `co_clustering` (root mean square over pairs of rows with an observed cell).
        """
        self._refuse_condition("top_clusters")
        labels = self._states.digits[:, :, 0]
        weight = relative_weights(self._log_evidence() + self._log_weights)
        counted = labels[0] >= 0  # rows without an observed cell are on no child
        loss = losses_of_partitions(labels[:, counted], weight / weight.sum())
        best = labels[int(np.argmin(loss))].astype(np.int64)
        found, count = np.unique(best[best >= 0], return_counts=True)
        rank = {int(k): i for i, k in enumerate(found[np.argsort(-count, kind="stable")])}
        out = np.array([rank.get(int(k), -1) for k in best])
        chain, draw = divmod(int(np.argmin(loss)), len(self._states.record.draws))
        record = self._states.record
        attrs = {
            "exactness": "one draw",
            "mcse_chain_note": "no mcse_chain: one draw, no average",
            "chain": int(record.chains[chain]),
            "draw": int(record.draws[draw]),
            "distance": float(np.sqrt(loss.min()) / max(counted.sum(), 1)),
        }
        return self._labelled("top_clusters", out, {"row": record.rows}, False, **attrs)

    # ---- below the surface

    def _refuse_condition(self, query: str) -> None:
        if self._evidence or len(self._kept) < len(self._schema.columns):
            raise ValueError(f"{query} needs the posterior as sampled, not a condition or marginal")

    def _refuse_rows(self, impossible: np.ndarray, values: np.ndarray, index: pd.Index) -> None:
        """Name the first of the rows that are impossible, if any is, and the column that makes it so."""
        if impossible.any():
            m = int(np.argmax(impossible))
            self._refuse_row(f"row {index[m : m + 1].tolist()[0]!r}", values[m])

    def _one_row(self, row: Any) -> np.ndarray:
        """Values (D,) of a row, besides the points of the evidence."""
        if isinstance(row, pd.DataFrame):
            if len(row) != 1:
                raise ValueError(f"row must hold one row, got {len(row)}")
            frame = row
        elif isinstance(row, pd.Series | Mapping):
            frame = pd.DataFrame({str(k): [v] for k, v in row.items()})
        else:
            raise TypeError(f"row must be a mapping, a Series or a DataFrame of one row, got {type(row).__name__}")
        values, possible = self._embed(Table.from_frame(frame, schema=self._left))
        if not possible[0] or self._log_rows(values).max() == -np.inf:
            self._refuse_row("row", values[0])
        return values[0]

    def _coalitions(
        self, values: np.ndarray, features: list[int], goal: int | None, subsets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """log v of subsets (K, m) of the features, under the mixture (K,) and under each draw (S, K)."""
        base = np.empty((self._states.n_draws, len(subsets)))
        logs = np.empty(base.shape)
        known = self._row(self._evidence)
        for start in range(0, len(subsets), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            rows = np.tile(known, (len(subsets[part]), 1))
            rows[:, features] = np.where(subsets[part], values[features], np.nan)
            logs[:, part] = self._log_rows(rows)
            if goal is not None:
                base[:, part] = logs[:, part]
                rows[:, goal] = values[goal]
                logs[:, part] = self._log_rows(rows)
        if goal is None:
            base[:] = self._log_evidence()[:, None]
        return log_average(self._log_weights, logs) - log_average(self._log_weights, base), logs - base


class _Coalitions(NamedTuple):
    """Subsets of m features whose worth gives the Shapley values."""

    subsets: np.ndarray  # (K, m) bool, the empty one first and the full one last
    all_but_one: np.ndarray  # (m,) numbers of the subsets that lack one feature
    gains: Callable[[np.ndarray], np.ndarray]  # (n, m) from worths (K,): their average is the Shapley values


def _all_subsets(m: int) -> _Coalitions:
    """All subsets, with one row of gains, which are the Shapley values."""
    number = np.arange(2**m)
    subsets = (number[:, None] >> np.arange(m)) & 1 == 1
    size = subsets.sum(axis=1)
    with_it = np.array([factorial(max(k - 1, 0)) * factorial(m - k) / factorial(m) for k in range(m + 1)])
    without = np.array([factorial(k) * factorial(max(m - k - 1, 0)) / factorial(m) for k in range(m + 1)])
    coefficient = np.where(subsets, with_it[size][:, None], -without[size][:, None]).T
    return _Coalitions(subsets, 2**m - 1 - 2 ** np.arange(m), lambda worth: (coefficient @ worth)[None])


def _some_orders(m: int, n: int, rng: np.random.Generator) -> _Coalitions:
    """Subsets along random orders and their reverses, with a row of gains for each order, both ways averaged."""
    orders = np.array([rng.permutation(m) for _ in range(n)])
    orders = np.concatenate([orders, orders[:, ::-1]])
    place = np.argsort(orders, axis=1)  # (2n, m) of each feature in the order
    along = (place[:, None] <= np.arange(m)[:, None]).reshape(-1, m)  # what is known after each step
    ends = np.zeros((1, m), np.bool_), ~np.eye(m, dtype=np.bool_)
    subsets, number = np.unique(np.concatenate([*ends, along]), axis=0, return_inverse=True)
    number = number.ravel()
    after = np.take_along_axis(number[m + 1 :].reshape(2 * n, m), place, axis=1)
    before = np.concatenate([np.full((2 * n, 1), number[0]), number[m + 1 :].reshape(2 * n, m)[:, :-1]], axis=1)
    before = np.take_along_axis(before, place, axis=1)

    def gains(worth: np.ndarray) -> np.ndarray:
        both = worth[after] - worth[before]
        return 0.5 * (both[:n] + both[n:])

    return _Coalitions(subsets, number[1 : m + 1], gains)


def _refuse_per_draw(n_rows: int, n_draws: int) -> None:
    """Refuse answers of so many rows in so many draws if they need too much memory."""
    what = f"per_draw=True with {n_rows:,} rows and {n_draws:,} draws"
    refuse_memory(what, 24.0 * n_rows * n_draws, "ask for fewer rows at once")


def _refuse_pairs(n_rows: int) -> None:
    """Refuse a table over pairs of so many rows if it needs too much memory."""
    refuse_memory(f"co_clustering of {n_rows:,} rows", 16.0 * n_rows**2, "give some of the rows, as co_clustering(df)")
