"""What a posterior draws: new rows, what is missing in given ones, and circuits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.answers.reference_rows import check_comparison, compare_rows
from pymc_spn.answers.row_answers import RowAnswers
from pymc_spn.events.events import spread_of
from pymc_spn.networks.records.completion import SIMULATION, checked_count, choose_draws, complete_rows
from pymc_spn.networks.records.draw_averages import effective_draws
from pymc_spn.tables import Table, decode

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.answers.drawn_circuits import DrawnCircuit

BLOCK_VALUES = 2_000_000  # per-draw log densities held at a time (16 MB)
ROWS_NOTE = {"mcse_chain_note": "no mcse_chain: rows are no averages; the queries have those of averages over rows"}


class SimulatedAnswers(RowAnswers):
    """Draws from the posterior and its predictive."""

    def sample(
        self,
        n: int,
        given: Mapping[str, Any] | str | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> pd.DataFrame:
        """Rows drawn from the posterior predictive; columns given at a value hold it.

        Each row is an exact draw from the predictive of one draw of the chain, chosen by its weight.

        Parameters
        ----------
        n : int
            Number of rows, at least 0.
        given : mapping or str, optional
            A condition, as in `SPNPosterior`, without unions; for those take `SPNPosterior.condition`.
        random_seed : int or Generator, optional
            The same seed draws the same rows; a generator moves on.

        Returns
        -------
        DataFrame
            (n, D), rows numbered from 0, columns and dtypes those of the training table; integers that a leaf of real
            numbers drew become float64. Its ``attrs`` hold the marks of an answer, and ``draws_after_weighting``
            where a condition weights the draws.

        Raises
        ------
        TypeError
            If `given` is no single condition.
        ValueError
            If `given` is impossible under every draw, or `n` no integer of at least 0.
        """
        known = self._given(given)
        count = checked_count("n", n, bytes_each=16.0 * len(self._schema.columns))
        rng = np.random.default_rng(random_seed)
        log_weights = self._log_of(known) + self._log_weights
        chosen = choose_draws(log_weights[:, None], count, rng)
        row = self._row(known)[None]
        completed = complete_rows(self._states, row, spread_of(known), chosen, rng)[:, 0]
        frame = decode(completed[:, list(self._kept)], self._left)
        frame.attrs = self._attrs(exactness=SIMULATION, **ROWS_NOTE, **self._draw_weights(known))
        return frame

    def impute(self, df: Any, n: int = 20, random_seed: int | np.random.Generator | None = None) -> list[pd.DataFrame]:
        """Completed copies of a table: missing cells drawn given the observed ones of their row.

        Each row's draws of the chain are weighted by the density of what is observed in it, and the missing cells of a
        row are drawn together. Of a network with ``rounded=True`` the observed values stand for their cells, and what
        is filled in are exact values, not rounded ones.

        Parameters
        ----------
        df : DataFrame, mapping, array or Table
            With all columns, in any order, checked by the schema of the training table; NaN, None and pd.NA are
            missing.
        n : int
            Number of completed tables, at least 0.
        random_seed : int or Generator, optional
            The same seed fills in the same cells; a generator moves on.

        Returns
        -------
        list of n DataFrame
            Index and order of columns of `df`. Observed cells are unchanged; a column with gaps has the dtype of the
            training table, or float64 where a leaf of real numbers drew for a column of integers. The ``attrs`` hold
            the marks of an answer, ``draws_after_weighting`` that of the row for which the fewest draws count.

        Raises
        ------
        TypeError, ValueError
            Data that the schema refuses, such as an unknown level; a row that the posterior's condition excludes; `n`
            no integer of at least 0.

        Warns
        -----
        UserWarning
            If the density of some rows is zero under every draw; it names them. Their gaps stay.
        """
        table = Table.from_frame(df, schema=self._left)
        values, possible = self._embed(table)
        count = checked_count("n", n, bytes_each=16.0 * values.size)
        rng = np.random.default_rng(random_seed)
        chosen, few, unknown = [np.empty((count, 0), np.int64)], np.inf, np.zeros(len(values), np.bool_)
        block = max(1, BLOCK_VALUES // self._states.n_draws)
        for start in range(0, len(values), block):
            part = slice(start, start + block)
            logs = self._log_rows(values[part]) + self._log_weights[:, None]
            self._refuse_rows(~possible[part], values[part], table.index[part])
            unknown[part] = ~np.isfinite(logs.max(axis=0))
            logs[:, unknown[part]] = self._log_weights[:, None]
            chosen.append(choose_draws(logs, count, rng))
            few = min(few, float(effective_draws(logs).min()))
        asked = np.where(unknown[:, None], self._row(self._evidence), values)  # nothing follows from what cannot be
        of_rows, cells = np.concatenate(chosen, axis=1), self._cells(asked)
        completed = complete_rows(self._states, asked, spread_of(self._evidence), of_rows, rng, cells)
        completed[:, unknown] = values[unknown]
        self._warn_of_rows(unknown, values, table.index, "Their gaps are not filled in")
        frames = [decode(c[:, list(self._kept)], self.columns, table.index) for c in completed]
        if isinstance(df, pd.DataFrame):
            frames = [frame[[str(c) for c in df.columns]] for frame in frames]
            for c in df.columns:
                if not df[c].isna().any():
                    for frame in frames:
                        frame[str(c)] = df[c]
        attrs = self._attrs(exactness=SIMULATION, **ROWS_NOTE, draws_after_weighting=few)
        for frame in frames:
            frame.attrs = dict(attrs)
        return frames

    def predictive_p_value(
        self,
        df: Any,
        n: int = 1000,
        level: float = 0.01,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.Dataset":
        """How many rows of the posterior predictive, with the same cells observed, are no denser than each row.

        Log densities of rows with different gaps are on different scales, since every observed cell has its share.
        This puts them on one: a row that came from the predictive has a p-value of at most u with probability at
        most u, whatever cells it lacks. Box (1980), "Sampling and Bayes' inference in scientific modelling and
        robustness", with the posterior predictive in place of the prior one.

        Parameters
        ----------
        df : DataFrame, mapping, array or Table
            Checked by the schema of the training table; missing cells are summed out.
        n : int
            Number of rows that are drawn, each from the mixture over draws and recorded as the table does: on the
            grid of the column. All rows of `df` are compared with the same ones.
        level : float
            The p-value up to which a row is below the threshold, at least 1 / (n + 1).
        random_seed : int or Generator, optional
            The same seed draws the same rows; a generator moves on.

        Returns
        -------
        Dataset
            ``p_value`` (row,), (1 + number of drawn rows that are at most as dense) / (n + 1), 1 for a row without an
            observed cell; ``log_density`` (row,), as `SPNPosterior.log_density`, in nats; ``threshold`` (row,), the log
            density below which the p-value is at most `level`, which differs between rows by their gaps. p-values and
            thresholds are Monte Carlo, with ``mcse`` for each row; the former fall in steps of 1 / (n + 1), so that
            what orders the oddest rows is ``log_density`` less ``threshold``. The error of a threshold is too small
            where `level` is close to 1 / (n + 1): there by a factor of some 1.6.

        Raises
        ------
        TypeError, ValueError
            Data that the schema refuses; `n` no integer of at least 1; `level` not within 1 / (n + 1) and 1.

        See Also
        --------
        SPNPosterior.anomaly : In which cells a row is odd.

        Notes
        -----
        It costs n log densities for each pattern of gaps in `df`. A change of units leaves p-values as they are, a
        change of scale such as taking logs does not.
        """
        import xarray as xr

        check_comparison(n, level)
        table = Table.from_frame(df, schema=self._left)
        log_density = self.log_density(table)
        observed = ~np.isnan(table.values)
        rng = np.random.default_rng(random_seed)
        found = compare_rows(self, log_density.values, observed, int(n), float(level), rng)
        drawn = {"exactness": "monte-carlo"}
        marks = self._attrs(**drawn, n=int(n), mcse_chain_note="no mcse_chain: log_density has one")
        marks |= self._draw_weights()
        error = np.sqrt(found.p_value * (1.0 - found.p_value) / n)
        return xr.Dataset(
            {
                "p_value": ("row", found.p_value, marks | {"mcse": error}),
                "log_density": log_density,
                "threshold": ("row", found.threshold, marks | {"mcse": found.threshold_error, "level": float(level)}),
            },
            {"row": log_density["row"]},
            self._attrs(**drawn),
        )

    def draw_circuits(self, n: int, random_seed: int | np.random.Generator | None = None) -> "list[DrawnCircuit]":
        """Circuits with explicit weights and leaf parameters, drawn given draws of the chain.

        Algorithm 2 of Yokoi and Sato (2024). See `DrawnCircuit` for what stands for unoccupied children.

        Parameters
        ----------
        n : int
            Number of circuits; draws of the chain are chosen with replacement, by their weights.
        random_seed : int or Generator, optional

        Returns
        -------
        list of DrawnCircuit

        Raises
        ------
        ValueError
            If this is a condition or a marginal, or `n` no integer of at least 0.
        """
        from pymc_spn.answers.drawn_circuits import draw_circuits

        if self._evidence or len(self._kept) < len(self._schema.columns):
            raise ValueError("draw_circuits needs the posterior as sampled, not a condition or marginal")
        rng = np.random.default_rng(random_seed)
        chosen = choose_draws(self._log_weights[:, None], checked_count("n", n, bytes_each=1000.0), rng)[:, 0]
        attrs = self._attrs_of_one(exactness=SIMULATION)
        return [replace(one, attrs=attrs) for one in draw_circuits(self._states, chosen, rng)]
