"""The posterior predictive given that one of several events holds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from pymc_spn.answers.chain_answers import SHOWN_ROWS, diagnosis_of_chains
from pymc_spn.answers.column_answers import checked_order
from pymc_spn.answers.dependence_answers import SIMULATED
from pymc_spn.answers.no_interventions import NoInterventions
from pymc_spn.answers.row_distributions import row_distribution_functions, row_quantiles, standard_deviations
from pymc_spn.answers.row_predictions import level_probabilities, predictions
from pymc_spn.events.events import Events, both_or_none
from pymc_spn.events.unions import groups_that_meet
from pymc_spn.laws.column_laws import ColumnLaw, JoinedLaw
from pymc_spn.maxima.most_probable import NO_AVERAGE, TOLERANCE, MostProbable, marked_row
from pymc_spn.networks.records.completion import checked_count
from pymc_spn.networks.records.draw_averages import chain_error, log_average, relative_weights, weighted
from pymc_spn.numerics.asked_numbers import checked_levels, checked_points
from pymc_spn.numerics.chain_mixing import Questions
from pymc_spn.numerics.own_names import own_names
from pymc_spn.tables import Column, Table, row_labels
from pymc_spn.tables.unseen_levels import known_levels

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.answers.posterior import SPNPosterior
    from pymc_spn.answers.posterior_circuit import PosteriorCircuit

BLOCK_VALUES = 2_000_000  # per-draw log densities held at a time (16 MB)
NO_MARKS: dict[str, Any] = {}
Given = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None


@own_names
class UnionPosterior(NoInterventions):
    """Answers given a union of events: those of disjoint parts, weighed by their probabilities under each draw.

    Made by `SPNPosterior.condition` of a list. Methods, their arguments, exactness and attributes are those of
    `SPNPosterior`; ``given=`` may be a union as well. Other queries can be asked of `parts`, with `part_weights`.

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
    def part_weights(self) -> "xr.DataArray":
        """Probability (part,) of each of `parts` given the union."""
        weight = self._weights()
        answer = weight.sum(axis=1)
        influence = (weight.T - answer * weight.sum(axis=0)[:, None]) * weight.shape[1]
        error = chain_error(influence, self._first._n_chains)
        coords = {"part": np.arange(len(answer))}
        return self._first._labelled("part_weights", answer, coords, False, **self._mark(), **error)

    def __repr__(self) -> str:
        words = " or ".join(part._in_words(part._evidence) for part in self.parts[:3])
        more = f" or {len(self.parts) - 3} others" if len(self.parts) > 3 else ""
        return f"UnionPosterior({self._first.name!r}: {self._first._read_as}, given {words}{more})"

    def log_density(
        self, df: Any, per_draw: bool = False, cells: bool = True, *, unseen: str = "error"
    ) -> "xr.DataArray":
        """Log density at new rows, missing cells summed out; see `SPNPosterior.log_density`.

        Returns
        -------
        DataArray
            (row,) or (chain, draw, row), in nats; ``-inf`` outside of the union.
        """
        table = Table.from_frame(df, schema=self._first._left, unseen=unseen)
        rows, base = {"row": row_labels(table.index)}, self._log_union()
        mark = self._first._cell_mark(cells)
        if per_draw:
            joint = self._log_joint(table, cells)
            return self._first._labelled("log_density", joint - base[:, None], rows, True, **mark)
        own, answer, errors = self._first._log_weights, np.empty(len(table.values)), []
        block = max(1, BLOCK_VALUES // base.size)
        for start in range(0, answer.size, block):
            part = slice(start, start + block)
            joint = self._log_joint(Table(table.columns, table.values[part], table.index[part]), cells)
            answer[part] = log_average(own, joint) - log_average(own, base)
            influence = relative_weights(joint + own[:, None]) - relative_weights(base + own)[:, None]
            errors.append(chain_error(influence, self._first._n_chains))
        marks = mark | self._mark() | self._first._joined_errors(errors, answer.size, block)
        return self._first._labelled("log_density", answer, rows, False, **marks)

    def probability(
        self,
        event: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str,
        given: Given = None,
        per_draw: bool = False,
    ) -> "xr.DataArray":
        """Probability of an event given the union; see `SPNPosterior.probability`."""
        if given is not None:
            return self.condition(given).probability(event, per_draw=per_draw)
        with np.errstate(invalid="ignore"):  # draws under which a part has no probability do not count for it
            values = np.stack([part.probability(event, per_draw=True).values.ravel() for part in self.parts])
        return self._averaged("probability", values, {}, per_draw)

    def cdf(
        self,
        column: str,
        x: Any,
        given: Given = None,
        per_draw: bool = False,
    ) -> "xr.DataArray":
        """P(column <= x given the union) at one or several values; see `SPNPosterior.cdf`."""
        points = checked_points(x)
        return self._first._cdf(*self._law(column, given), column, points, per_draw)

    def quantile(
        self,
        q: Any,
        column: str,
        given: Given = None,
        per_draw: bool = False,
    ) -> "xr.DataArray":
        """Quantiles of a column: the smallest x with P(column <= x) >= q; see `SPNPosterior.quantile`.

        Between parts the distribution function is flat; the smallest x is then the end of a part.
        """
        levels = checked_levels(q)
        return self._first._quantile(*self._law(column, given), column, levels, per_draw)

    def predict_proba(self, df: Any, target: str, per_draw: bool = False, *, unseen: str = "error") -> "xr.DataArray":
        """Probability of each level of a column given the union and the other columns of each row.

        See `SPNPosterior.predict_proba`. Parts count by the density of the row in them.
        """
        return level_probabilities(self.parts, known_levels(df, self.columns, unseen), target, per_draw)

    def predict(self, df: Any, target: str, *, unseen: str = "error") -> "xr.DataArray":
        """The most probable level, or the mean, given the union and the other columns; see `SPNPosterior.predict`."""
        return predictions(self.parts, known_levels(df, self.columns, unseen), target)

    def predict_sd(self, df: Any, target: str, *, unseen: str = "error") -> "xr.DataArray":
        """Standard deviation of a column given the union and the other columns; see `SPNPosterior.predict_sd`."""
        return standard_deviations(self.parts, known_levels(df, self.columns, unseen), target)

    def predict_quantile(self, df: Any, target: str, q: Any, *, unseen: str = "error") -> "xr.DataArray":
        """Quantiles of a column given the union and the other columns; see `SPNPosterior.predict_quantile`."""
        return row_quantiles(self.parts, known_levels(df, self.columns, unseen), target, checked_levels(q))

    def predict_cdf(self, df: Any, target: str, x: Any = None, *, unseen: str = "error") -> "xr.DataArray":
        """P(target <= x) given the union and the other columns; see `SPNPosterior.predict_cdf`."""
        points = None if x is None else checked_points(x)
        return row_distribution_functions(self.parts, known_levels(df, self.columns, unseen), target, points)

    def mpe(
        self,
        given: Given = None,
        tolerance: float = TOLERANCE,
        max_boxes: int | None = None,
        max_draws: int | None = None,
    ) -> MostProbable:
        """The most probable row within the union, certified where the searches finish; see `SPNPosterior.mpe`.

        One search in each part, and the largest density and bound of them. In a marginal the parts may overlap: the
        density of a row is then the sum over parts, and the bound the sum of the bounds of parts that overlap, which is
        seldom tight enough for a certificate. ``max_boxes`` is for each part, and so is what is left out near 0 of
        columns with log-normal leaves.
        """
        if given is not None:
            return self.condition(given).mpe(None, tolerance, max_boxes, max_draws)
        found = [part.mpe(None, tolerance, max_boxes, max_draws) for part in self.parts]
        draw_weights = self._first._some_draws(max_draws)
        parts = log_average(draw_weights, self._logs.T) - log_average(draw_weights, self._log_union())
        # by leaves, not kinds: a Gaussian leaf completes a column of counts with fractions, which its kind refuses
        numbers = [replace(c, kind="real") if c.levels is None else c for c in self._first._left]
        table = Table.from_frame(pd.concat([one.value for one in found], ignore_index=True), schema=numbers)
        rows = log_average(draw_weights, self._log_joint(table, cells=False))
        own = np.array([float(one.log_density) for one in found]) + parts
        # rows in the dtypes of the data may be rounded out of their part
        reached = np.maximum(rows - log_average(draw_weights, self._log_union()), own)
        bounds = np.array([float(one.upper_bound) for one in found]) + parts
        overlapping = self._overlapping()
        upper = max(float(logsumexp(bounds[overlapping == k])) for k in np.unique(overlapping))
        best = int(np.argmax(reached))
        gap = max(upper - float(reached[best]), 0.0)
        attrs = self._first._attrs(**NO_AVERAGE, **self._mark())
        n_boxes = sum(one.n_boxes for one in found)
        return marked_row(found[best].value, float(reached[best]), gap, n_boxes, tolerance, attrs)

    def mean(self, given: Given = None, per_draw: bool = False) -> "xr.DataArray":
        """Mean of the numeric columns; see `SPNPosterior.mean`."""
        if given is not None:
            return self.condition(given).mean(per_draw=per_draw)
        found = [part.mean(per_draw=True) for part in self.parts]
        columns = found[0]["column"].values
        answer = self._averaged("mean", _flat(found), {"column": columns}, per_draw, self._joined_marks(found))
        if not per_draw and np.isinf(answer).any():
            answer.attrs["infinite_mean"] = columns[np.isinf(answer.values)].tolist()
        return answer

    def cov(self, given: Given = None, per_draw: bool = False) -> "xr.DataArray":
        """Covariance of the numeric columns: law of total covariance over parts and draws; see `SPNPosterior.cov`."""
        if given is not None:
            return self.condition(given).cov(per_draw=per_draw)
        found = [part.cov(per_draw=True) for part in self.parts]
        means = _flat([part.mean(per_draw=True) for part in self.parts])
        centre = self._over_parts(means) if per_draw else self._average(means)
        with np.errstate(invalid="ignore"):
            away = means - centre
            second = _flat(found) + away[..., :, None] * away[..., None, :]
        coords = {name: found[0][name].values for name in ("column", "other")}
        answer = self._averaged("cov", second, coords, per_draw, self._joined_marks(found))
        finite = np.isfinite(answer.values[..., range(len(coords["column"])), range(len(coords["column"]))])
        if not per_draw and not finite.all():
            answer.attrs["infinite_variance"] = coords["column"][~finite].tolist()
        return answer

    def moment(self, order: int, given: Given = None, central: bool = False, per_draw: bool = False) -> "xr.DataArray":
        """E[X^order] of the numeric columns, or about the mean of the same law; see `SPNPosterior.moment`."""
        return self._first._moments(self._cases(given), checked_order(order), central, per_draw)

    def entropy(
        self,
        columns: str | Sequence[str] | None = None,
        given: Given = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Entropy in nats given the union; see `SPNPosterior.entropy`.

        Bounds are those of a mixture over parts and draws. Where the columns tell parts apart, what that says is in
        the lower bound.
        """
        return self._first._entropy(self._cases(given), columns, method, n, random_seed)

    def mutual_information(
        self,
        first: str | Sequence[str],
        second: str | Sequence[str],
        given: Given = None,
        per_draw: bool = False,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Mutual information in nats of two columns or groups of columns; see `SPNPosterior.mutual_information`."""
        return self._first._information(self._cases(given), first, second, per_draw, method, n, random_seed)

    def dependence(
        self,
        given: Given = None,
        prob: float = 0.94,
        threshold: float = 0.01,
        per_draw: bool = False,
        max_draws: int | None = 200,
    ) -> "xr.Dataset | xr.DataArray":
        """Mutual information of every pair of columns, with its uncertainty; see `SPNPosterior.dependence`."""
        return self._first._dependence(self._cases(given), prob, threshold, per_draw, max_draws)

    def event_information(self, first: Any, second: Any, given: Any = None, per_draw: bool = False) -> "xr.DataArray":
        """Mutual information in nats of whether events hold; see `SPNPosterior.event_information`."""
        known = [(1.0, case) for case in self._cases(given)]
        return self._first._event_information(first, second, known, per_draw)

    def kl(
        self,
        other: Any,
        columns: str | Sequence[str] | None = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Kullback-Leibler divergence KL(this || other) in nats; see `SPNPosterior.kl`.

        Of several columns that are not all levels, "auto" simulates: there is no bound from above.
        """
        return self._first._kl(self._cases(None), other, columns, method, n, random_seed)

    def sample(
        self,
        n: int,
        given: Given = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> pd.DataFrame:
        """Rows drawn from the predictive given the union: a part by its probability, then a row of it."""
        if given is not None:
            return self.condition(given).sample(n, random_seed=random_seed)
        rng = np.random.default_rng(random_seed)
        sizes = rng.multinomial(checked_count("n", n, bytes_each=16.0 * len(self.columns)), self._weights().sum(axis=1))
        found = zip(self.parts, sizes, strict=True)
        frames = [part.sample(int(k), random_seed=rng) for part, k in found if k] or [self._first.sample(0)]
        drawn = pd.concat(frames, ignore_index=True)
        shuffled = drawn.iloc[rng.permutation(n)].reset_index(drop=True)
        shuffled.attrs = {**frames[0].attrs, **self._mark()}
        return shuffled

    def condition(self, given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str) -> "UnionPosterior":
        """The predictive given some of a row as well, or one of several events; see `SPNPosterior.condition`."""
        events = self._first._exclusive_events(given)
        known = [
            part._part(both)
            for part in self.parts
            for event in events
            if (both := both_or_none(part._evidence, event)) is not None
        ]
        if not known:
            raise ValueError("given: nothing of it can occur within the union that the posterior is conditioned on")
        return UnionPosterior(known)

    def as_circuit(self, max_draws: int | None = None) -> "PosteriorCircuit":
        """The predictive given the union as one explicit circuit: a mixture over the parts, each with its draws.

        Parameters
        ----------
        max_draws : int, optional
            Draws that it holds, taken evenly; by default all.

        Returns
        -------
        PosteriorCircuit

        Raises
        ------
        ValueError
            As `SPNPosterior.as_circuit`.
        """
        from pymc_spn.answers.posterior_circuit import predictive_circuit

        return predictive_circuit(self._first, [part._evidence for part in self.parts], max_draws)

    def marginal(self, columns: Sequence[str]) -> "UnionPosterior":
        """The predictive of some columns given the union, the others summed out."""
        return UnionPosterior([part.marginal(columns) for part in self.parts])

    def diagnose(self, questions: Questions | None = None, df: Any = None, max_rows: int = SHOWN_ROWS) -> pd.DataFrame:
        """R-hat and effective sizes of the log joint, of rows and of questions; see `SPNPosterior.diagnose`."""
        return diagnosis_of_chains(self, self._first, questions, df, max_rows)

    def _law(self, column: Any, given: Any) -> "tuple[ColumnLaw | JoinedLaw, np.ndarray, dict[str, Any]]":
        """Law of a column, log probability (S,) of the union under each draw, and the mark of such weights."""
        d = self._first._column_number("column", column, numeric=True)
        known = self._cases(given)
        return self._first._law_of(d, known), self._first._log_of_cases(known), self._first._case_mark(known)

    def __getattr__(self, name: str) -> Any:
        from pymc_spn.answers.posterior import SPNPosterior

        if not name.startswith("_") and hasattr(SPNPosterior, name):
            raise AttributeError(f"a UnionPosterior has no {name!r}; ask it of each of parts, which part_weights weigh")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _posterior_and_cases(self) -> "tuple[SPNPosterior, list[Events]]":
        """A posterior that answers given cases, and the cases: what the parts know."""
        return self._first, [part._evidence for part in self.parts]

    def _cases(self, given: Any) -> "list[Events]":
        """Cases of the union, and of what is given."""
        return (self if given is None else self.condition(given))._posterior_and_cases()[1]

    def _overlapping(self) -> np.ndarray:
        """Number (J,) of the group of parts that each belongs to: rows of different groups differ."""
        kept = set(self._first._kept)
        return groups_that_meet([{d: e for d, e in part._evidence.items() if d in kept} for part in self.parts])

    def _log_joint(self, table: Table, cells: bool = True) -> np.ndarray:
        """Log density (S, M) of rows together with the union."""
        joint = np.full((self._logs.shape[1], len(table.values)), -np.inf)
        for part in self.parts:
            values, possible = part._embed(table, cells)
            joint = np.logaddexp(joint, np.where(possible, part._log_rows(values, cells), -np.inf))
        return joint

    def _shares(self) -> np.ndarray:
        """Probability (J, S) of each part given the union under each draw; 0 where the union has none."""
        union = self._log_union()
        return np.exp(self._logs - np.where(np.isfinite(union), union, 0.0))

    def _log_union(self) -> np.ndarray:
        """Log probability (S,) of the union under each draw."""
        return np.logaddexp.reduce(self._logs, axis=0)

    def _mark(self) -> dict[str, Any]:
        return self._first._weight_mark(self._log_union(), True)

    def _averaged(
        self, name: str, values: np.ndarray, coords: dict[str, Any], per_draw: bool, marks: Mapping[str, Any] = NO_MARKS
    ) -> "xr.DataArray":
        """An average over parts, and over draws, of values (J, S, ...), labelled."""
        if per_draw:
            return self._first._labelled(name, self._over_parts(values), coords, True, **marks)
        answer = self._average(values)
        weight = self._weights()
        with np.errstate(invalid="ignore"):
            influence = weighted(weight, values - answer).sum(axis=0) * weight.shape[1]
        error = chain_error(influence, self._first._n_chains)
        return self._first._labelled(name, answer, coords, False, **marks, **self._mark(), **error)

    def _joined_marks(self, found: "Sequence[xr.DataArray]") -> dict[str, Any]:
        """Marks of an average over parts: numerical, by the largest tolerance, if one is; columns that any names."""
        tolerances = [one.attrs["tolerance"] for one in found if "tolerance" in one.attrs]
        marks: dict[str, Any] = {"exactness": "numerical", "tolerance": max(tolerances)} if tolerances else {}
        for kind in ("left_out", "principal_value"):
            named = {name for one in found for name in one.attrs.get(kind, ())}
            if named:
                marks[kind] = [c.name for c in self.columns if c.name in named]
        return marks

    def _weights(self) -> np.ndarray:
        """Shares (J, S) of parts and draws, which add up to one."""
        logs = self._logs + self._first._log_weights
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def _average(self, values: np.ndarray) -> np.ndarray:
        return weighted(self._weights(), values).sum(axis=(0, 1))

    def _over_parts(self, values: np.ndarray) -> np.ndarray:
        """Average (S, ...) over the parts alone."""
        return weighted(self._shares(), values).sum(axis=0)


def _flat(found: "Sequence[xr.DataArray]") -> np.ndarray:
    """Answers per draw (J, S, ...)."""
    values = np.stack([one.values for one in found])
    return values.reshape(len(values), -1, *values.shape[3:])
