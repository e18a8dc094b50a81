"""Draws of the chain under a condition: which columns are asked, what is known, how much each draw counts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.queries.draw_averages import effective_draws
from pymc_spn.circuits.queries.events import (
    Event,
    Events,
    describe,
    holds,
    intersect,
    points_of,
    read_events,
    spread_of,
)
from pymc_spn.circuits.queries.recorded_states import RecordedStates
from pymc_spn.tables import Column, Table

if TYPE_CHECKING:
    import xarray as xr


class ConditionedDraws:
    """What all queries of a posterior share.

    Parameters
    ----------
    states : RecordedStates
    kept : sequence of int, optional
        Columns that the answers are about, by default all.
    evidence : dict, optional
        Points and events that are known, by column number.
    log_weights : (S,) float64, optional
        Log weight of each draw before the evidence, by default equal.
    """

    def __init__(
        self,
        states: RecordedStates,
        kept: Sequence[int] | None = None,
        evidence: Events | None = None,
        log_weights: np.ndarray | None = None,
    ) -> None:
        self._states, self._schema = states, states.schema
        self._kept = tuple(range(len(self._schema.columns))) if kept is None else tuple(kept)
        self._evidence = evidence or {}
        self._log_weights = np.zeros(states.n_draws) if log_weights is None else log_weights
        self._known: np.ndarray | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the answers are about: not those marginalised or fixed at a value."""
        return tuple(self._schema.columns[d] for d in self._kept)

    @property
    def name(self) -> str:
        """Name of the network in the model."""
        return self._schema.name

    @property
    def _n_chains(self) -> int:
        return len(self._states.record.chains)

    def _read(self, argument: str, given: Mapping[str, Any] | None) -> Events:
        return read_events(argument, given, self._schema.columns, self._kept, self._states.compiled.is_density)

    def _given(self, given: Mapping[str, Any] | None) -> Events:
        """The object's own evidence and what is given now."""
        now = self._read("given", given)
        known, clash = intersect(self._evidence, now)
        if clash is not None:
            self._contradiction("given", clash, now[clash])
        return known

    def _row(self, known: Events) -> np.ndarray:
        row = np.full(len(self._schema.columns), np.nan)
        for d, x in points_of(known).items():
            row[d] = x
        return row

    def _embed(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Rows (M, D) of all columns with the points of the evidence, and whether each is within it."""
        values = np.tile(self._row(self._evidence), (len(table.values), 1))
        values[:, list(self._kept)] = table.values
        possible = np.ones(len(values), np.bool_)
        for d, event in spread_of(self._evidence).items():
            possible &= holds(event, values[:, d])
        return values, possible

    def _log_of(self, known: Events, check: bool = True) -> np.ndarray:
        """Log probability (S,) of points and events under each draw."""
        if not known:
            return np.zeros(self._states.n_draws)
        logs = self._states.log_densities(self._row(known)[None], spread_of(known))[:, 0]
        if check and logs.max() == -np.inf:
            self._refuse("given", known)
        return logs

    def _log_evidence(self) -> np.ndarray:
        if self._known is None:
            self._known = self._log_of(self._evidence)
        return self._known

    def _refuse(self, where: str, known: Events) -> None:
        """Name the column that makes a condition impossible."""
        for d, event in known.items():
            if self._log_of({d: event}, check=False).max() == -np.inf:
                column = self._schema.columns[d]
                raise ValueError(
                    f"{where}: column {column.name!r} cannot be {describe(column, event)}, "
                    "its probability is zero under every draw"
                )
        raise ValueError(f"{where}: {self._in_words(known)} cannot occur together")

    def _refuse_row(self, where: str, row: np.ndarray) -> None:
        """Name the column that makes a row impossible."""
        observed = {d: float(x) for d, x in enumerate(row) if not np.isnan(x)}
        for d, event in spread_of(self._evidence).items():
            if d in observed and not holds(event, observed[d]):
                self._contradiction(where, d, observed[d])
        self._refuse(where, {**spread_of(self._evidence), **observed})

    def _contradiction(self, where: str, d: int, event: Event) -> None:
        column = self._schema.columns[d]
        raise ValueError(
            f"{where}: column {column.name!r} cannot be {describe(column, event)}: "
            f"the posterior is conditioned on it being {describe(column, self._evidence[d])}"
        )

    def _in_words(self, known: Events) -> str:
        columns = self._schema.columns
        return ", ".join(f"{columns[d].name!r} {describe(columns[d], e)}" for d, e in known.items())

    def _draw_weights(self, known: Events | None = None) -> dict[str, Any]:
        """The attribute ess_draws where draws are weighted."""
        logs = (self._log_evidence() if known is None else self._log_of(known)) + self._log_weights
        weighted = bool(self._evidence or known or np.any(self._log_weights))
        return {"ess_draws": float(effective_draws(logs))} if weighted else {}

    def _labelled(self, name: str, values: Any, coords: dict[str, Any], per_draw: bool, **attrs: Any) -> "xr.DataArray":
        import xarray as xr

        attrs = {"exactness": "exact", **attrs}
        if not per_draw:
            return xr.DataArray(values, coords, list(coords), name, attrs)
        record = self._states.record
        shape = (len(record.chains), len(record.draws))
        return xr.DataArray(
            np.reshape(values, shape + np.shape(values)[1:]),
            {"chain": record.chains, "draw": record.draws, **coords},
            ["chain", "draw", *coords],
            name,
            attrs,
        )

    @staticmethod
    def _joined_errors(errors: list[dict[str, Any]]) -> dict[str, Any]:
        if all("mcse_chain" in e for e in errors):
            return {"mcse_chain": np.concatenate([np.atleast_1d(e["mcse_chain"]) for e in errors] or [np.zeros(0)])}
        return next(e for e in errors if "mcse_chain" not in e)
