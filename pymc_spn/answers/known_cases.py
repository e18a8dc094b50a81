"""What is known as cases: events of which no two hold at once, each with its probability under every draw.

A condition is one case. A union of events is several, so that its answers are sums over cases and nothing is
subtracted. Queries whose answer is an integral of a density ask these methods and never look at a single event.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pymc_spn.events.disjoint_events import disjoint_events
from pymc_spn.events.event_text import as_events
from pymc_spn.events.events import Events, both_or_none, holds, spread_of
from pymc_spn.events.unions import alternatives, is_single_event
from pymc_spn.laws.column_laws import ColumnLaw, JoinedLaw, law_of_column
from pymc_spn.laws.conditioned_draws import ConditionedDraws
from pymc_spn.laws.draw_laws import DrawLaws, LawsOfCases
from pymc_spn.networks.records.completion import checked_count, choose_draws, complete_rows
from pymc_spn.networks.records.draw_averages import log_average, relative_weights

BLOCK_VALUES = 20_000_000  # per-draw log densities held at a time (160 MB)

Cases = Sequence[Events]


class KnownCases(ConditionedDraws):
    """Queries of a posterior given several cases."""

    def _exclusive_events(self, given: Any) -> list[Events]:
        """What is given as events of which no two hold at once; points of densities only where it is a single one."""
        if given is None:  # of other queries it says that nothing is known
            raise TypeError("given must map column names to a value, (low, high) or a set, or be text, got None")
        given = as_events("given", given, *self._readable)
        if is_single_event(given):
            return [self._read("given", given)]
        events: list[Events] = [
            {d: frozenset({e}) if isinstance(e, float) else e for d, e in part.items()}
            for place, one in alternatives("given", given, *self._readable).items()
            for part in self._disjoint_parts(place, one, soft=False)
        ]
        return disjoint_events("given", events, self._schema.columns, self._states.compiled.is_density)

    def _cases(self, given: Any) -> list[Events]:
        """The object's own evidence and what is given now, without cases that cannot occur."""
        if given is None:
            return [self._evidence]
        now = self._exclusive_events(given)
        if len(now) == 1:
            return [self._with_evidence(now[0])]
        both = [known for one in now if (known := both_or_none(self._evidence, one)) is not None]
        cases = [known for known in both if self._log_of(known, check=False).max() > -np.inf]
        if not cases:
            words = f" where {self._in_words(self._evidence)}" if self._evidence else ""
            raise ValueError(f"given: nothing of it can occur{words}")
        return cases

    def _log_of_cases(self, known: Cases) -> np.ndarray:
        """Log probability (S,) of what is known under each draw."""
        if len(known) == 1:
            return self._log_of(known[0])
        return np.logaddexp.reduce([self._log_of(case, check=False) for case in known], axis=0)

    def _shares_of_cases(self, known: Cases) -> np.ndarray:
        """Probability (J, S) of each case given what is known under each draw; 0 where that has none."""
        if len(known) == 1:
            return np.ones((1, self._states.n_draws))
        logs = np.array([self._log_of(case, check=False) for case in known])
        total = np.logaddexp.reduce(logs, axis=0)
        return np.exp(logs - np.where(np.isfinite(total), total, 0.0))

    def _weights_of(self, known: Cases) -> np.ndarray:
        """Weights (S,) of the draws, of mean 1."""
        return relative_weights(self._log_of_cases(known) + self._log_weights)

    def _case_mark(self, known: Cases) -> dict[str, Any]:
        """Attributes of draws that are weighted by what is known."""
        return self._weight_mark(self._log_of_cases(known), any(known))

    def _law_of_cases(self, d: int, known: Cases) -> ColumnLaw | JoinedLaw:
        """Law of a column."""
        laws = tuple(law_of_column(self._states, d, self._row(case), spread_of(case)) for case in known)
        return laws[0] if len(laws) == 1 else JoinedLaw(laws, self._shares_of_cases(known))

    def _laws(self, known: Cases) -> Iterator[tuple[int, LawsOfCases]]:
        """Of each draw that counts its number and its conditional laws."""
        weight, shares = self._weights_of(known), self._shares_of_cases(known)
        for s in np.flatnonzero(weight > 0.0).tolist():
            yield s, self._laws_of(s, known, shares[:, s])

    def _laws_of(self, s: int, known: Cases, shares: np.ndarray) -> LawsOfCases:
        """The laws of one draw, of the cases with a share (J,)."""
        used = np.flatnonzero(shares > 0.0).tolist()
        return LawsOfCases([self._laws_of_case(s, known[j]) for j in used], shares[used])

    def _laws_of_case(self, s: int, known: Events) -> DrawLaws:
        return DrawLaws(self._states, s, self._row(known), spread_of(known))

    def _log_joint(self, values: np.ndarray, known: Cases, cells: bool = False) -> np.ndarray:
        """Log density (S, M) of rows (M, D) together with what is known; of cells if so asked, then given one case.

        A single case is not looked for in the rows, of several each row is in one.
        """
        if len(known) == 1:
            rounded = self._cells(values) if cells else None
            return self._states.log_densities(values, spread_of(known[0]), rounded)
        joint = np.full((self._states.n_draws, len(values)), -np.inf)
        for case in known:
            inside = np.all([holds(e, values[:, d]) | np.isnan(values[:, d]) for d, e in case.items()], axis=0)
            logs = self._states.log_densities(values[inside], spread_of(case))
            joint[:, inside] = np.logaddexp(joint[:, inside], logs)
        return joint

    def _log_mixture(self, values: np.ndarray, known: Cases, cells: bool = False) -> np.ndarray:
        """Log density (M,) of the mixture over draws at rows (M, D), together with what is known."""
        out = np.empty(len(values))
        step = max(1, BLOCK_VALUES // self._states.n_draws)
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            out[part] = log_average(self._log_weights, self._log_joint(values[part], known, cells))
        return out - log_average(self._log_weights, np.zeros(self._log_weights.size))

    def _with_columns(self, rows: np.ndarray, columns: Sequence[int], known: Cases) -> np.ndarray:
        """Rows (M, D) that hold only some columns besides the points that are known; several cases have none."""
        out = np.tile(self._row(known[0]) if len(known) == 1 else np.full(rows.shape[1], np.nan), (len(rows), 1))
        out[:, list(columns)] = rows[:, list(columns)]
        return out

    def _nothing_more(self, known: Cases) -> float:
        """Log probability of what is known under the mixture over draws."""
        empty = np.full((1, len(self._schema.columns)), np.nan)
        return float(self._log_mixture(self._with_columns(empty, [], known), known)[0])

    def _simulated_rows(self, known: Cases, n: Any, random_seed: Any) -> np.ndarray:
        """Rows (n, D) from the mixture given what is known; of several cases one after the other."""
        count = checked_count("n", n, least=2, bytes_each=16.0 * len(self._schema.columns))
        rng = np.random.default_rng(random_seed)
        if len(known) == 1:
            return self._rows_of_case(known[0], count, rng)
        weight = (self._weights_of(known) * self._shares_of_cases(known)).sum(axis=1)
        sizes = rng.multinomial(count, weight / weight.sum())
        return np.concatenate([self._rows_of_case(e, int(k), rng) for e, k in zip(known, sizes, strict=True) if k])

    def _rows_of_case(self, known: Events, n: int, rng: np.random.Generator) -> np.ndarray:
        log_weights = self._log_of(known) + self._log_weights
        chosen = choose_draws(log_weights[:, None], n, rng)
        rows = complete_rows(self._states, self._row(known)[None], spread_of(known), chosen, rng)[:, 0]
        counts = np.array([column.kind == "count" for column in self._schema.columns])
        rows[:, counts] = np.maximum(rows[:, counts], 0.0)  # Gaussian leaves beside masses may go below
        return rows

    def _influence(self, rows: np.ndarray, columns: Sequence[int], known: Cases, f: np.ndarray) -> np.ndarray:
        """What each draw (S,) adds to the mean of f (M,) over rows simulated from the mixture, about that mean.

        The mean of f under one draw is that over the same rows weighted by the draw's density over the mixture's.
        """
        values = self._with_columns(rows, columns, known)
        total = np.zeros(self._states.n_draws)
        step = max(1, BLOCK_VALUES // total.size)
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            # with the draw's weight: its density among the draws' together
            logs = self._log_joint(values[part], known) + self._log_weights[:, None]
            total += relative_weights(logs) @ (f[part] - f.mean())
        return total / len(values)

    def _states_table(self, asked: Sequence[int], known: Cases) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Probabilities of all levels together: of the mixture (M,), of each draw (S, M), and draws' weights (S,)."""
        sizes = [len(self._schema.columns[d].levels or ()) for d in asked]
        codes = np.meshgrid(*(np.arange(float(k)) for k in sizes), indexing="ij")
        levels = np.stack(codes, axis=-1).reshape(-1, len(asked))
        each = np.zeros((self._states.n_draws, len(levels)))
        for case, share in zip(known, self._shares_of_cases(known), strict=True):
            each += share[:, None] * self._states_of_case(asked, levels, case)
        weight = self._weights_of(known)
        return weight @ each / weight.sum(), each, weight

    def _states_of_case(self, asked: Sequence[int], levels: np.ndarray, known: Events) -> np.ndarray:
        """Probabilities (S, M) of levels (M, n) given one case under each draw."""
        rows = np.tile(self._row(known), (len(levels), 1))
        rows[:, list(asked)] = levels
        possible = np.ones(len(rows), np.bool_)
        for d, event in spread_of(known).items():
            if d in asked:
                possible &= holds(event, rows[:, d])
        logs = np.where(possible, self._states.log_densities(rows, spread_of(known)), -np.inf)
        base = self._log_of(known, check=False)
        each = np.exp(logs - np.where(np.isfinite(base), base, 0.0)[:, None])
        total = each.sum(axis=1, keepdims=True)
        return each / np.where(total > 0.0, total, 1.0)
