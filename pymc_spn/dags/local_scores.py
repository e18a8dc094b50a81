"""Local scores of every variable over all subsets of its candidate parents: what every order posterior is made from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from pymc_spn.dags.candidates import FIRST, MOST, choose_candidates, require, subset_prior
from pymc_spn.dags.constraints import Constraints, intervened_cells, read_constraints
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.scores import BDeu, BGe, ConditionalGaussian, choose_score, warn
from pymc_spn.dags.structure_prior import (
    EdgeLogOdds,
    EdgePenalty,
    is_learned,
    learned_penalty,
    prior_terms,
    refuse_unlearnable,
)
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table, read_table
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.table import kind_of_columns

MOST_SCORED = 1_000  # variables that can be scored


def refuse_many(n_variables: int) -> None:
    """Refuse more variables than can be scored."""
    if n_variables > MOST_SCORED:
        raise ValueError(f"at most {MOST_SCORED:,} variables are possible, got {n_variables:,}; choose some columns")


def check_table(table: Table) -> None:
    """Refuse missing and infinite cells; warn of few rows."""
    names = table.names
    if not names:
        raise ValueError("there must be at least one variable")
    refuse_many(len(names))
    bad = np.argwhere(np.isnan(table.values))
    if bad.size:
        row, column = bad[0]
        (label,) = table.index[[row]].tolist()
        raise ValueError(
            f"data: {len(bad)} cells are missing, the first in column {names[column]!r}, row {label!r}; "
            "complete the table first, for instance with post.impute(df) of a ps.SPN posterior. To average over "
            "several completed tables use ps.dags.ImputedDagPosterior.from_data(df, post.impute(df, n=20))"
        )
    if not np.isfinite(table.values).all():
        row, column = np.argwhere(~np.isfinite(table.values))[0]
        raise ValueError(f"data: column {names[column]!r}, row {table.index[row]!r} must be finite")
    if len(table.index) < len(names):
        warn(
            f"data: there are fewer rows ({len(table.index)}) than variables ({len(names)}), so answers depend on the "
            "prior"
        )


def refuse_table(n_allowed: np.ndarray, limits: Sequence[int], max_gigabytes: float) -> None:
    """Refuse a table of all parent sets that needs more memory than it may take, by allowed parents and candidates.

    Raises
    ------
    ValueError
        It says how much.
    """
    entries = sum(1 << min(n, most) for n, most in zip(n_allowed.tolist(), limits, strict=True))
    advice = "fewer candidates or required parents, tiers or forbidden edges make it smaller"
    refuse_memory(f"up to {max(limits)} candidate parents: the score table", 8 * entries, advice, max_gigabytes)


ALL_CANDIDATES = 18  # other variables, up to which all are candidate parents by default
MEMORY_LIMIT = 8.0  # gigabytes that the score table may take

type Score = BGe | BDeu | ConditionalGaussian | Callable[[str, tuple[str, ...]], float]
"""What scores a variable given its parents."""

type StructurePrior = str | EdgePenalty | EdgeLogOdds
"""Name of a prior over graphs, or one with numbers."""


class Knowledge(TypedDict, total=False):
    """Further arguments of `LocalScores.from_data`, which functions of tables hand on to it."""

    max_indegree: int | None
    required: Iterable[tuple[str, str]] | None
    forbidden: Iterable[tuple[str, str]] | None
    tiers: Sequence[Iterable[str]] | None
    interventions: TableLike | None
    kinds: Mapping[str, str] | None
    standardize: bool
    max_gigabytes: float


class Scoring(Knowledge, total=False):
    """The same, with what `DagPosterior.from_data` has as arguments of its own."""

    max_candidates: int | None
    progressbar: bool


class LocalScores(ParentSetScores):
    """Log scores, in nats, of all parent sets among the candidates.

    A score is the log of a marginal likelihood times a structure prior. `from_data` makes them. Parent sets of variable
    i are indices m in 0..2^k_i - 1 whose bit k stands for ``candidates[i, k]``. Sets of up to 64 variables are bits of
    an int64 (bit j is variable j). `subset_index` of ``bit_kernels`` turns them into such an index through `lookup`.
    `slots` serves any number of variables.

    Parameters
    ----------
    names : tuple of str
        The d variables.
    candidates : (d, K) int64
        Row i: candidate parents of variable i in ascending order, padded with -1.
    n_candidates : (d,) int64
        k_i, the number of candidates of each variable.
    log_scores : (sum_i 2^k_i,) float64
        Flat table; variable i occupies ``offsets[i]:offsets[i + 1]``. -inf for sets that knowledge rules out.
    must_precede : (d, d) bool
        Row i: variables that stand before i in every order (tiers and required edges, transitively closed).
    restricted : tuple of str
        Variables for which allowed parents were left out of the candidates.
    score, prior : str
        What the scores are, as text for people.
    gaussian : GaussianMoments, optional
        Posterior scale matrices of a BGe score, from which causal effects are computed.
    counts : LevelCounts, optional
        Rows of a BDeu or conditional Gaussian score, from which laws under interventions are computed.
    outside : (d, d) float64, optional
        Where candidates were grown: estimated probabilities of the edges, parents by children, whose parent was left
        out of the candidates; NaN for the others.
    frame : {"polars", "pyarrow"}, optional
        What the data were, if not a table of pandas; tables of edges are such tables, too.

    Examples
    --------
    >>> scores = ps.LocalScores.from_data(numbers)
    >>> scores.names
    ('age', 'income', 'debt')
    """

    @classmethod
    def from_data(
        cls,
        data: TableLike,
        score: Score | None = None,
        prior: StructurePrior = "fair",
        max_candidates: int | None = None,
        max_indegree: int | None = None,
        required: Iterable[tuple[str, str]] | None = None,
        forbidden: Iterable[tuple[str, str]] | None = None,
        tiers: Sequence[Iterable[str]] | None = None,
        interventions: TableLike | None = None,
        kinds: Mapping[str, str] | None = None,
        standardize: bool = False,
        max_gigabytes: float = MEMORY_LIMIT,
        progressbar: bool = True,
    ) -> "LocalScores":
        """Score all parent sets among each variable's candidates.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Rows are observations. No missing cells.
        score : BGe, BDeu or callable, optional
            By default BDeu if all columns have levels (ordinal ones, too), else BGe. A callable takes the child's name
            and the parents' names in the order of the columns and returns a log score in nats.
        prior : {"fair", "uniform", "learned"}, EdgePenalty or EdgeLogOdds
            ``fair`` gives each size of parent set the same total weight. ``learned`` is the `EdgePenalty` under which
            the data are most probable, summed over all orders; the prior of the result names it. Candidates are then
            chosen under ``fair``.
        max_candidates : int, optional
            Candidate parents of a variable. Where knowledge allows more, the greedy rule chooses; such variables are
            named in `restricted`. By default all others up to 19 variables. Beyond, ten are chosen by the rule, and
            others take their place or join them that matter in graphs sampled with those, up to 16 in all. The edges
            that are left out have estimated probabilities, in `outside`.
        max_indegree : int, optional
            Larger parent sets are impossible.
        required, forbidden : sequence of (parent, child), optional
        tiers : sequence of sequences of names, optional
            Earliest tier first. Orders, and so edges, go from earlier to later tiers or stay inside one. Variables
            that are in no tier may stand anywhere.
        interventions : (rows, variables) bool DataFrame or array, optional
            True where the variable was set by the experimenter in that row: the row then says nothing about what
            causes that variable. A DataFrame has the index of the data.
        kinds : mapping, optional
            Overrides of column kinds, as in `Table.from_frame`.
        standardize : bool
            Score numeric columns in units of their standard deviations. Effects stay in the units of the data.
        max_gigabytes : float
            A larger table is refused.
        progressbar : bool
            Show a bar once it has taken a second.

        Raises
        ------
        ValueError
            If cells are missing, columns do not fit the score, knowledge contradicts itself, there are more than 1,000
            variables, or the table would not fit.

        Warns
        -----
        CoverageWarning
            If a variable that is left out of the default candidates is a parent with a probability of about .2 or more.

        Examples
        --------
        >>> scores = ps.LocalScores.from_data(numbers, forbidden=[("debt", "age")])
        >>> scores.of("age").shape
        (2,)
        """
        shape: tuple[int, ...] = getattr(data, "shape", ())
        refuse_many(shape[1] if len(shape) == 2 else 0)  # reading 10,000 columns takes ten seconds
        table = read_table(data, kinds)
        kind = kind_of_columns(table.columns)
        check_table(table)
        limit = None if max_candidates is None else checked_count("max_candidates", max_candidates, 0)
        most = None if max_indegree is None else checked_count("max_indegree", max_indegree, 0)
        set_cells = intervened_cells(interventions, table)
        names = table.names
        constraints = read_constraints(names, required, forbidden, tiers)
        held, n_allowed = constraints.required.sum(axis=1).tolist(), constraints.allowed.sum(axis=1)
        learns = is_learned(prior)
        if learns:
            refuse_unlearnable(constraints.must_precede)
        by_size, by_edge, prior_name = prior_terms("fair" if learns else prior, names)
        if most is not None:
            by_size[most + 1 :] = -np.inf
            for name, n in zip(names, held, strict=True):
                if n > most:
                    raise ValueError(f"max_indegree = {most}, but {name!r} has {n} required parents")
        widest = int(n_allowed.max())
        grows = limit is None and widest > ALL_CANDIDATES
        first = [max(FIRST, n) for n in held] if grows else [widest if limit is None else limit] * len(names)
        refuse_table(n_allowed, [max(MOST, n + 1) for n in held] if grows else first, max_gigabytes)
        scorer, score_name, gaussian, counts = choose_score(score, table, set_cells, _flag("standardize", standardize))
        if hasattr(score, "scorer"):  # a function may rule out one parent alone, and allow it with others
            for child, parent in np.argwhere(constraints.required).tolist():
                if np.isneginf(scorer.table(child, [], [parent])[1]):
                    raise ValueError(
                        f"required {names[parent]!r} -> {names[child]!r}: the score {score_name} rules this edge out. "
                        "In it no number causes a level: bin the number and use ps.BDeu(), or turn the edge round"
                    )
        with ProgressBar("Scoring parent sets", 2 * len(names), progressbar) as bar:
            chosen = choose_candidates(scorer, constraints, first, by_size, by_edge, names, bar)

            def made(chosen: list[list[int]], known: "LocalScores | None" = None) -> "LocalScores":
                tables = _fill(scorer, constraints, chosen, by_size, by_edge, bar, known)  # a bar that is full stays so
                n = np.array([len(c) for c in chosen])
                candidates = np.full((len(names), max(int(n.max()), 1)), -1, np.int64)
                for own, c in zip(candidates, chosen, strict=True):
                    own[: len(c)] = c
                words = tuple(names[i] for i in np.flatnonzero(n < n_allowed)), score_name, prior_name
                return cls(names, candidates, n, tables, constraints.must_precede, *words, gaussian, counts, None, kind)

            scores = made(chosen)

        def grow(scores: "LocalScores") -> "LocalScores":
            from pymc_spn.dags.candidate_growth import grown

            return grown(scores, scorer, constraints, (by_size, by_edge), made, progressbar)

        if grows and scores.restricted:
            scores = grow(scores)
        if not learns:
            return scores
        chosen, ruled_out = [scores.candidate_list(i) for i in range(len(names))], np.isneginf(by_size)
        by_size = np.where(ruled_out, -np.inf, 0.0)
        penalty = learned_penalty(made(chosen), progressbar)
        by_size, prior_name = by_size - penalty * np.arange(len(names)), f"edge penalty {penalty:.3f}, learned"
        scores = made(chosen)
        return grow(scores) if grows and scores.restricted else scores


def _fill(
    scorer: Any,
    constraints: Constraints,
    chosen: list[list[int]],
    by_size: Any,
    by_edge: Any,
    bar: ProgressBar,
    known: LocalScores | None = None,
) -> np.ndarray:
    """Flat table of all scores; the shared table of minors where every variable has all others as candidates."""
    d = len(chosen)
    sizes = np.array([1 << len(c) for c in chosen])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    full = scorer.all_tables() if hasattr(scorer, "all_tables") and all(len(c) == d - 1 for c in chosen) else None
    flat = np.empty(offsets[-1]) if full is None else full.reshape(-1)
    for i, candidates in enumerate(chosen):
        part = flat[offsets[i] : offsets[i + 1]]
        if known is not None and candidates == known.candidate_list(i):
            part[:] = known.log_scores[known.offsets[i] : known.offsets[i + 1]]
            continue
        if full is None:
            part[:] = scorer.table(i, [], candidates)
        part += subset_prior(i, [], candidates, by_size, by_edge)
        require(part, candidates, constraints.required[i])
        bar.advance()
    return flat


def check_scores(scores: Any) -> None:
    """Check that these are `LocalScores`, and not a DataFrame for example."""
    if not isinstance(scores, LocalScores):
        raise TypeError(
            f"scores must be a LocalScores; got {type(scores).__name__}. Make them by ps.LocalScores.from_data(df), or "
            "use ps.DagPosterior.from_data(df), which does so"
        )


def _flag(argument: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{argument} must be a bool, got {quoted(value)}")
    return bool(value)
