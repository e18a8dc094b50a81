"""A mixture of laws of the same circuits, given disjoint events: what a union of events is."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_spn.events.events import Event, Events
from pymc_spn.laws.column_laws import JoinedLaw
from pymc_spn.laws.column_of_rows import ColumnOfRows
from pymc_spn.laws.grid_law import GridLaw
from pymc_spn.laws.law import Completed, Law
from pymc_spn.numerics.draw_averages import choose_draws, effective_draws, weighted


class MixedLaw(GridLaw):
    """Each circuit is a mixture of that of the parts, weighed by the probabilities of their events under it.

    Parameters
    ----------
    parts : sequence of Law
        Over the same columns, made of one law by `Law.given`. Those without any probability are left out.
    """

    def __init__(self, parts: Sequence[Law]) -> None:
        everywhere = parts[0].marks.everywhere
        parts = [part for part in parts if part.log_weights.max() > -np.inf]
        if not parts:
            raise ValueError(f"given: the probability of the union is zero {everywhere}")
        self._parts = tuple(parts)
        first = parts[0]
        self.columns, self.is_density = first.columns, first.is_density
        self.resolution, self.grid_points = first.resolution, first.grid_points
        self.marks, self.is_weighted = first.marks, True
        self.cell_tolerance = first.cell_tolerance
        self.known_tolerance = max(part.known_tolerance for part in self.parts)

    @property
    def parts(self) -> tuple[Law, ...]:
        """What is mixed."""
        return self._parts

    @property
    def zero_width(self) -> np.ndarray:
        """See `Law`."""
        return self.parts[0].zero_width

    @cached_property
    def log_weights(self) -> np.ndarray:
        """See `Law`."""
        return np.logaddexp.reduce([part.log_weights for part in self.parts], axis=0)

    @cached_property
    def shares(self) -> np.ndarray:
        """Probability (J, S) of each part under each circuit; 0 where the union has none."""
        logs = np.array([part.log_weights for part in self.parts])
        return np.exp(logs - np.where(np.isfinite(self.log_weights), self.log_weights, 0.0))

    def is_same(self, other: Law) -> bool:
        """See `Law`."""
        return self.parts[0].is_same(other)

    def known(self, d: int) -> Event | None:
        """Nothing that holds in all parts is said of a column."""
        return None

    def in_words(self) -> str:
        """What is known, for messages."""
        return in_words_of_parts(self)

    # ---- new laws

    def given(self, event: Events) -> "MixedLaw":
        """See `Law`."""
        some = [part for part in self.parts if (part.log_event(event) + part.log_weights).max() > -np.inf]
        if not some:
            raise ValueError("given: nothing of it can occur within the union that the posterior is conditioned on")
        return MixedLaw([part.given(event) for part in some])

    def of(self, columns: Sequence[int]) -> "MixedLaw":
        """See `Law`."""
        return MixedLaw([part.of(columns) for part in self.parts])

    def mixed(self, parts: Sequence[Law]) -> "MixedLaw":
        """See `Law`."""
        return MixedLaw(parts)

    def fewer(self, n: int) -> "MixedLaw":
        """See `Law`."""
        return MixedLaw([part.fewer(n) for part in self.parts])

    # ---- densities and probabilities

    def log_density(self, rows: np.ndarray, cells: bool = False) -> np.ndarray:
        """See `Law`."""
        return self._joined(part.log_density(rows, cells) for part in self.parts)

    def log_density_left_out(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Law`."""
        found = [part.log_density_left_out(rows) for part in self.parts]
        return self._joined(logs for logs, _ in found), self._joined(without for _, without in found)

    def log_event(self, event: Events) -> np.ndarray:
        """See `Law`."""
        return self._joined(part.log_event(event) for part in self.parts)

    def _joined(self, of_parts: Any) -> np.ndarray:
        """Logs (S, ...) of the mixture from those of the parts."""
        out = np.full(0, -np.inf)
        with np.errstate(divide="ignore"):
            for log_share, logs in zip(np.log(self.shares), of_parts, strict=True):
                own = logs + log_share.reshape(log_share.shape + (1,) * (logs.ndim - 1))
                out = np.logaddexp(out, own) if out.size == own.size and out.ndim == own.ndim else own
        return out

    def possible(self, rows: np.ndarray, cells: bool = True) -> np.ndarray:
        """See `Law`."""
        return np.any([part.possible(rows, cells) for part in self.parts], axis=0)

    # ---- columns

    def column(self, d: int) -> JoinedLaw:
        """See `Law`."""
        return JoinedLaw(tuple(part.column(d) for part in self.parts), self.shares)

    def column_of_rows(self, d: int, rows: np.ndarray) -> ColumnOfRows:
        """See `Law`: the leaves of all parts."""
        return ColumnOfRows([one for part in self.parts for one in part.column_of_rows(d, rows).parts])

    def moments(self, columns: Sequence[int], covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `Law`: by the law of total covariance."""
        found = [part.moments(columns, covariance) for part in self.parts]
        means = np.array([mean for mean, _ in found])
        centre = self._average(means)
        if not covariance:
            return centre, found[0][1]
        with np.errstate(invalid="ignore"):
            away = means - centre
            return centre, self._average(np.array([c for _, c in found]) + away[..., :, None] * away[..., None, :])

    def _average(self, values: np.ndarray) -> np.ndarray:
        """Over the parts (J, S, ...)."""
        return weighted(self.shares, values).sum(axis=0)

    def moment_tolerance(self, columns: Sequence[int]) -> float:
        """See `Law`."""
        return max(part.moment_tolerance(columns) for part in self.parts)

    def centred(self, columns: Sequence[int], every: bool = False) -> list[str]:
        """See `Law`."""
        named = {name for part in self.parts for name in part.centred(columns, every)}
        return [c.name for c in self.columns if c.name in named]

    # ---- rows

    def _weights(self) -> np.ndarray:
        """Shares (J, S) of parts and circuits, which add up to one."""
        logs = np.array([part.log_weights for part in self.parts])
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """See `Law`: a part by its probability, then a row of it."""
        sizes = rng.multinomial(n, self._weights().sum(axis=1))
        rows = [part.draw(int(k), rng) for part, k in zip(self.parts, sizes, strict=True) if k]
        return np.concatenate([*rows, np.zeros((0, len(self.columns)))])[rng.permutation(n)]

    def complete(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Completed:
        """See `Law`."""
        logs = np.array([part.log_density(rows, cells=True) + part.log_weights[:, None] for part in self.parts])
        impossible = ~np.isfinite(logs.max(axis=(0, 1)))
        of_parts = logsumexp(logs, axis=1)
        of_parts[:, impossible] = 0.0
        part_of = choose_draws(of_parts, n, rng)
        values = np.tile(rows, (n, 1, 1))
        for j, part in enumerate(self.parts):
            copy, row = np.nonzero((part_of == j) & ~impossible)
            if row.size:
                values[copy, row] = part.complete(rows[row], 1, rng).values[0]
        whole = np.logaddexp.reduce(logs, axis=0)[:, ~impossible]
        return Completed(values, impossible, float(effective_draws(whole).min(initial=np.inf)))

    def refuse_row(self, where: str, row: np.ndarray) -> Any:
        """See `Law`."""
        if not self.possible(row[None])[0]:
            raise ValueError(f"{where}: the union that the posterior is conditioned on excludes it")
        super().refuse_row(where, row)


def in_words_of_parts(law: Law) -> str:
    """What is known of a union: that of one of its parts."""
    words = " or ".join(part.in_words() for part in law.parts[:3])
    return words + (f" or {len(law.parts) - 3} others" if len(law.parts) > 3 else "")
