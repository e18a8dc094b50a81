"""The posterior predictive given that one of several events holds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.queries.completion import SIMULATION, checked_count
from pymc_spn.circuits.queries.draw_averages import chain_error, log_average, relative_weights
from pymc_spn.tables import Column, Table

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.circuits.queries.posterior import SPNPosterior

NO_MARKS: dict[str, Any] = {}


class UnionPosterior:
    """Answers given a union of events: those of disjoint parts, weighed by their probabilities under each draw.

    Made by `SPNPosterior.condition` of a list. Exactness and attributes are those of `SPNPosterior`. Queries that it
    has not can be asked of `parts`, with `part_weights`.

    Parameters
    ----------
    parts : sequence of SPNPosterior
        The posterior given events that exclude each other; those without any probability are left out.
    """

    def __init__(self, parts: "Sequence[SPNPosterior]") -> None:
        logs = np.stack([part._log_of(part._evidence, check=False) for part in parts])
        possible = logs.max(axis=1) > -np.inf
        if not possible.any():
            raise ValueError("given: the probability of the union is zero under every draw")
        self.parts = tuple(part for part, keep in zip(parts, possible, strict=True) if keep)
        self._first = self.parts[0]
        self._logs = logs[possible]  # (J, S): of each part under each draw

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the answers are about."""
        return self._first.columns

    @property
    def part_weights(self) -> np.ndarray:
        """Probability (J,) of each part given the union."""
        logs = log_average(self._first._log_weights, self._logs.T)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def __repr__(self) -> str:
        words = " or ".join(part._in_words(part._evidence) for part in self.parts[:3])
        more = f" or {len(self.parts) - 3} others" if len(self.parts) > 3 else ""
        return f"UnionPosterior({self._first.name!r}: {len(self.columns)} columns, given {words}{more})"

    def log_density(self, df: Any, per_draw: bool = False) -> "xr.DataArray":
        """Log density at new rows, missing cells summed out; see `SPNPosterior.log_density`.

        Returns
        -------
        DataArray
            (row,) or (chain, draw, row), in nats; ``-inf`` outside of the union.
        """
        table = Table.from_frame(df, schema=self.columns)
        joint = np.full((self._logs.shape[1], len(table.values)), -np.inf)
        for part in self.parts:
            values, possible = part._embed(table)
            joint = np.logaddexp(joint, np.where(possible, part._log_rows(values), -np.inf))
        rows, base = {"row": table.index}, self._log_union()
        mark = self._first._cell_mark()
        if per_draw:
            return self._first._labelled("log_density", joint - base[:, None], rows, True, **mark)
        own = self._first._log_weights
        answer = log_average(own, joint) - log_average(own, base)
        influence = relative_weights(joint + own[:, None]) - relative_weights(base + own)[:, None]
        error = chain_error(influence, self._first._n_chains)
        return self._first._labelled("log_density", answer, rows, False, **mark, **self._mark(), **error)

    def probability(
        self, event: Mapping[str, Any] | Sequence[Mapping[str, Any]], per_draw: bool = False
    ) -> "xr.DataArray":
        """Probability of an event given the union; see `SPNPosterior.probability`."""
        with np.errstate(invalid="ignore"):  # draws under which a part has no probability do not count for it
            values = np.stack([part.probability(event, per_draw=True).values.ravel() for part in self.parts])
        return self._averaged("probability", values, {}, per_draw)

    def mean(self, per_draw: bool = False) -> "xr.DataArray":
        """Mean of the numeric columns; see `SPNPosterior.mean`."""
        found = [part.mean(per_draw=True) for part in self.parts]
        columns = found[0]["column"].values
        answer = self._averaged("mean", _flat(found), {"column": columns}, per_draw, found[0].attrs)
        if not per_draw and np.isinf(answer).any():
            answer.attrs["infinite_mean"] = columns[np.isinf(answer.values)].tolist()
        return answer

    def cov(self, per_draw: bool = False) -> "xr.DataArray":
        """Covariance of the numeric columns: law of total covariance over parts and draws; see `SPNPosterior.cov`."""
        found = [part.cov(per_draw=True) for part in self.parts]
        means = _flat([part.mean(per_draw=True) for part in self.parts])
        centre = self._over_parts(means) if per_draw else self._average(means)
        with np.errstate(invalid="ignore"):
            away = means - centre
            second = _flat(found) + away[..., :, None] * away[..., None, :]
        coords = {name: found[0][name].values for name in ("column", "other")}
        answer = self._averaged("cov", second, coords, per_draw, found[0].attrs)
        finite = np.isfinite(answer.values[..., range(len(coords["column"])), range(len(coords["column"]))])
        if not per_draw and not finite.all():
            answer.attrs["infinite_variance"] = coords["column"][~finite].tolist()
        return answer

    def sample(self, n: int, random_seed: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Rows drawn from the predictive given the union: a part by its probability, then a row of it."""
        rng = np.random.default_rng(random_seed)
        sizes = rng.multinomial(checked_count("n", n), self.part_weights)
        found = zip(self.parts, sizes, strict=True)
        frames = [part.sample(int(k), random_seed=rng) for part, k in found if k] or [self._first.sample(0)]
        drawn = pd.concat(frames, ignore_index=True)
        shuffled = drawn.iloc[rng.permutation(n)].reset_index(drop=True)
        shuffled.attrs = {**frames[0].attrs, "exactness": SIMULATION, **self._mark()}
        return shuffled

    def marginal(self, columns: Sequence[str]) -> "UnionPosterior":
        """The predictive of some columns given the union, the others summed out."""
        return UnionPosterior([part.marginal(columns) for part in self.parts])

    def _log_union(self) -> np.ndarray:
        """Log probability (S,) of the union under each draw."""
        return np.logaddexp.reduce(self._logs, axis=0)

    def _mark(self) -> dict[str, Any]:
        return self._first._weight_mark(self._log_union(), True)

    def _averaged(
        self, name: str, values: np.ndarray, coords: dict[str, Any], per_draw: bool, marks: Mapping[str, Any] = NO_MARKS
    ) -> "xr.DataArray":
        """An average over parts, and over draws, of values (J, S, ...), labelled."""
        attrs = {k: v for k, v in marks.items() if k != "learner"}
        if per_draw:
            return self._first._labelled(name, self._over_parts(values), coords, True, **attrs)
        answer = self._average(values)
        weight = self._weights(values.ndim)
        with np.errstate(invalid="ignore"):
            influence = (weight * (values - answer)).sum(axis=0) * weight.shape[1]
        error = chain_error(influence, self._first._n_chains)
        return self._first._labelled(name, answer, coords, False, **attrs, **self._mark(), **error)

    def _weights(self, n_dims: int) -> np.ndarray:
        """Shares (J, S, 1, ...) of parts and draws, which add up to one."""
        logs = self._logs + self._first._log_weights
        weights = np.exp(logs - logs.max())
        return (weights / weights.sum()).reshape(weights.shape + (1,) * (n_dims - 2))

    def _average(self, values: np.ndarray) -> np.ndarray:
        weight = self._weights(values.ndim)
        with np.errstate(invalid="ignore"):  # what has no weight does not count, whatever its value
            return np.where(weight > 0.0, weight * values, 0.0).sum(axis=(0, 1))

    def _over_parts(self, values: np.ndarray) -> np.ndarray:
        """Average (S, ...) over the parts alone."""
        share = np.exp(self._logs - self._log_union()).reshape(self._logs.shape + (1,) * (values.ndim - 2))
        with np.errstate(invalid="ignore"):
            return np.where(share > 0.0, share * values, 0.0).sum(axis=0)


def _flat(found: "Sequence[xr.DataArray]") -> np.ndarray:
    """Answers per draw (J, S, ...)."""
    values = np.stack([one.values for one in found])
    return values.reshape(len(values), -1, *values.shape[3:])
