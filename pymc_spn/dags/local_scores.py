"""Local scores of every variable over all subsets of its candidate parents: what every order posterior is made from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags.candidates import FIRST, MOST, bits_of, choose_candidates, require, subset_prior
from pymc_spn.dags.constraints import Constraints, read_constraints
from pymc_spn.dags.dag import DAG, refuse_wide
from pymc_spn.dags.interventions import intervened_cells
from pymc_spn.dags.lagged_columns import with_lags
from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.dags.mixed_score import ConditionalGaussian
from pymc_spn.dags.score_sizes import check_table, n_columns, refuse_many, refuse_table
from pymc_spn.dags.scores import BDeu, BGe, GaussianMoments, choose_score
from pymc_spn.dags.structure_prior import EdgeLogOdds, EdgePenalty, prior_terms
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables import read_table
from pymc_spn.tables.column import as_name
from pymc_spn.tables.inputs import TableLike

MOST_NAMED = 20  # variables that a message lists
ALL_CANDIDATES = 18  # other variables, up to which all are candidate parents by default
MEMORY_LIMIT = 8.0  # gigabytes that the score table may take


@dataclass(frozen=True, eq=False, repr=False)
class LocalScores:
    """Log scores (marginal likelihood times structure prior, in nats) of all parent sets among the candidates.

    Made by `from_data` or `from_table`. Parent sets of variable i are indices m in 0..2^k_i - 1 whose bit k stands for
    ``candidates[i, k]``. Sets of up to 64 variables are bits of an int64 (bit j is variable j), which `subset_index` of
    ``bit_kernels`` turns into such an index through `lookup`; `slots` serves any number of variables.

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
        What the scores are, for people.
    gaussian : GaussianMoments, optional
        Posterior scale matrices of a BGe score, from which causal effects are computed.
    counts : LevelCounts, optional
        Rows of a BDeu score, from which laws under interventions are computed.
    outside : (d, d) float64, optional
        Where candidates were grown: estimated probabilities of the edges, parents by children, whose parent is no
        candidate; zero for the others.
    """

    names: tuple[str, ...]
    candidates: np.ndarray
    n_candidates: np.ndarray
    log_scores: np.ndarray
    must_precede: np.ndarray
    restricted: tuple[str, ...] = ()
    score: str = "table"
    prior: str = "uniform"
    gaussian: GaussianMoments | None = None
    counts: LevelCounts | None = None
    outside: np.ndarray | None = None

    def __post_init__(self) -> None:
        d = len(self.names)
        for name, dtype, shape in (
            ("candidates", np.int64, None),
            ("n_candidates", np.int64, (d,)),
            ("log_scores", np.float64, None),
            ("must_precede", np.bool_, (d, d)),
        ):
            array = np.ascontiguousarray(getattr(self, name), dtype)
            if shape is not None and array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
            array = array.view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.log_scores.shape != (self.offsets[-1],):
            raise ValueError(f"log_scores must have {self.offsets[-1]} entries, got shape {self.log_scores.shape}")
        for name, top in zip(self.names, self.tops, strict=True):
            if not np.isfinite(top):
                raise ValueError(f"log_scores of {name!r} must have a finite largest value, got {top}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays come out of a pickle writable, and kernels would be compiled once more for them."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    # ---- arrays that follow from the fields

    @property
    def d(self) -> int:
        """Number of variables."""
        return len(self.names)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(d + 1,) int64: where each variable's part of the flat tables begins."""
        out = np.concatenate([[0], np.cumsum(np.left_shift(1, self.n_candidates))]).astype(np.int64)
        out.flags.writeable = False
        return out

    @cached_property
    def tops(self) -> np.ndarray:
        """(d,) float64: each variable's largest log score."""
        out = np.maximum.reduceat(self.log_scores, self.offsets[:-1])
        out.flags.writeable = False
        return out

    @cached_property
    def candidate_sets(self) -> tuple[int, ...]:
        """The candidates of each variable as bits."""
        return tuple(sum(1 << int(j) for j in self.candidates[i, : self.n_candidates[i]]) for i in range(self.d))

    @cached_property
    def precede_sets(self) -> np.ndarray:
        """(d,) int64: `must_precede` as bits, of at most 64 variables."""
        refuse_wide("sets of variables as bits", self.d)
        out = (self.must_precede * (np.uint64(1) << np.arange(self.d, dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
        return read_only_view(out.view(np.int64))

    @cached_property
    def lookup(self) -> np.ndarray:
        """(d, n_bytes, 256) int32: table of `bit_kernels.subset_index`, of at most 64 variables."""
        from pymc_spn.dags.bit_kernels import index_lookup

        refuse_wide("sets of variables as bits", self.d)
        return read_only_view(index_lookup(self.candidates, self.n_candidates))

    @cached_property
    def slots(self) -> np.ndarray:
        """(d, d) int8: bit of each variable in the subset indices of each, -1 where it is no candidate."""
        from pymc_spn.dags.bit_kernels import slots_of

        return read_only_view(slots_of(self.candidates))

    @cached_property
    def log_sums(self) -> np.ndarray:
        """Flat like `log_scores`: entry m of variable i is the log of the sum of exp(score) over all subsets of m.

        The log weight of variable i behind the prefix U is ``log_sums[offsets[i] + subset_index(lookup, i, U)]``.
        """
        from pymc_spn.dags.zeta_kernels import all_log_sums

        out = np.empty(self.log_scores.size)
        all_log_sums(self.offsets, self.log_scores, out)
        out.flags.writeable = False
        return out

    def of(self, name: str) -> np.ndarray:
        """Log scores of one variable's parent sets.

        Parameters
        ----------
        name : str

        Returns
        -------
        (2^k,) float64
            In nats, a view; index m is the set of `parents_of_index`.

        Raises
        ------
        ValueError
            If there is no such variable.
        """
        i = self.position(name)
        return self.log_scores[self.offsets[i] : self.offsets[i + 1]]

    def position(self, name: str) -> int:
        """Number of a variable, an int; ValueError where there is no such `name`."""
        if (asked := as_name(name)) not in self.names:
            raise ValueError(f"there is no variable {name!r}; the variables are {quoted(list(self.names))}")
        return self.names.index(asked)

    def parents_of_index(self, child: int, index: int) -> tuple[str, ...]:
        """Names of the parents that an index of a variable stands for."""
        return tuple(self.names[self.candidates[child, k]] for k in bits_of(int(index)))

    def candidate_list(self, child: int) -> list[int]:
        """Numbers of the candidate parents of a variable, ascending."""
        found: list[int] = self.candidates[child, : self.n_candidates[child]].tolist()
        return found

    def index_of_parents(self, child: int, parents: int) -> int:
        """Index of a set of variables (bits) among the subsets of a child's candidates; -1 if one is no candidate."""
        index = 0
        for k, j in enumerate(self.candidates[child, : self.n_candidates[child]]):
            if parents >> int(j) & 1:
                index |= 1 << k
                parents &= ~(1 << int(j))
        return -1 if parents else index

    def log_score(self, graph: np.ndarray) -> float:
        """Log score of a graph.

        Parameters
        ----------
        graph : (d, d) bool
            Parents by children.

        Returns
        -------
        float
            In nats; -inf if a parent is no candidate.

        Raises
        ------
        ValueError
            If the shape does not fit or there is a cycle.
        """
        graph = DAG(self.names, graph).adjacency
        total = 0.0
        for i in range(self.d):
            m = self.index_of_parents(i, sum(1 << int(j) for j in np.flatnonzero(graph[:, i])))
            total += self.log_scores[self.offsets[i] + m] if m >= 0 else -np.inf
        return float(total)

    def __repr__(self) -> str:
        words = (
            f"LocalScores({self.d} variables, {self.score}, prior {self.prior}, {self.log_scores.size:,} parent sets"
        )
        return words + (f", candidates {self.choice})" if self.restricted else ")")

    @property
    def choice(self) -> str:
        """Which variables are candidate parents, for people."""
        if not self.restricted:
            return "all"
        few = len(self.restricted) <= MOST_NAMED
        words = "restricted for " + (", ".join(self.restricted) if few else f"{len(self.restricted)} variables")
        return words + (f", edges left out have at most about {self.left_out:.2g}" if self.outside is not None else "")

    @property
    def left_out(self) -> float:
        """Largest estimated probability of an edge whose parent is no candidate; NaN where it was not estimated."""
        return float("nan") if self.outside is None else float(self.outside.max())

    @classmethod
    def from_data(
        cls,
        data: TableLike,
        score: "BGe | BDeu | ConditionalGaussian | Callable[[str, tuple[str, ...]], float] | None" = None,
        prior: "str | EdgePenalty | EdgeLogOdds" = "fair",
        max_candidates: int | None = None,
        max_indegree: int | None = None,
        required: Iterable[tuple[str, str]] | None = None,
        forbidden: Iterable[tuple[str, str]] | None = None,
        tiers: Sequence[Iterable[str]] | None = None,
        interventions: TableLike | None = None,
        kinds: Mapping[str, str] | None = None,
        standardize: bool = False,
        lags: int = 0,
        max_gigabytes: float = MEMORY_LIMIT,
        progressbar: bool = True,
    ) -> "LocalScores":
        """Score all parent sets among each variable's candidates.

        Parameters
        ----------
        data : DataFrame, mapping, array or Table
            Rows are observations. No missing cells.
        score : BGe, BDeu or callable, optional
            By default BDeu if all columns have levels (ordinal ones, too), else BGe. A callable takes the child's name
            and the parents' names in the order of the columns and returns a log score in nats.
        prior : {"fair", "uniform"}, EdgePenalty or EdgeLogOdds
            ``fair`` gives each size of parent set the same total weight.
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
        lags : int
            For a time series, with rows in the order of time at equal distances: how many earlier rows may be causes.
            Column ``x`` of the row before is the variable ``x[t-1]``. Earlier variables stand first, and nothing causes
            them. `tiers` are about the present ones.
        max_gigabytes : float
            A larger table is refused.
        progressbar : bool
            Show a bar once it has taken a second.

        Raises
        ------
        ValueError
            If cells are missing, columns do not fit the score, knowledge contradicts itself, there are more than 1,000
            variables, or the table would not fit.
        """
        refuse_many(n_columns(data))
        table = read_table(data, kinds)
        check_table(table)
        limit = None if max_candidates is None else _whole("max_candidates", max_candidates, 0)
        most = None if max_indegree is None else _whole("max_indegree", max_indegree, 0)
        set_cells = intervened_cells(interventions, table)
        table, set_cells, n_earlier = with_lags(table, set_cells, _whole("lags", lags, 0))
        names = table.names
        constraints = read_constraints(names, required, forbidden, tiers, n_earlier)
        by_size, by_edge, prior_name = prior_terms(prior, names)
        if most is not None:
            by_size[most + 1 :] = -np.inf
            for i, mask in enumerate(constraints.required):
                if mask.bit_count() > most:
                    raise ValueError(f"max_indegree = {most}, but {names[i]!r} has {mask.bit_count()} required parents")
        widest = max(mask.bit_count() for mask in constraints.allowed)
        grows = limit is None and widest > ALL_CANDIDATES
        first = FIRST if grows else widest if limit is None else limit
        refuse_table(constraints, MOST if grows else first, max_gigabytes)
        scorer, score_name, moments = choose_score(score, table, set_cells, _flag("standardize", standardize))
        with ProgressBar("Scoring parent sets", 2 * len(names), progressbar) as bar:
            first = max(first, *(mask.bit_count() for mask in constraints.required)) if grows else first
            chosen = choose_candidates(scorer, constraints, first, by_size, by_edge, names, bar)

            def made(chosen: list[list[int]], known: "LocalScores | None" = None) -> "LocalScores":
                tables = _fill(scorer, constraints, chosen, by_size, by_edge, bar, known)  # a bar that is full stays so
                out = (len(c) < mask.bit_count() for c, mask in zip(chosen, constraints.allowed, strict=True))
                restricted = tuple(name for name, left in zip(names, out, strict=True) if left)
                words, rows = (score_name, prior_name), (moments, getattr(scorer, "counts", None))
                return cls._of_tables(names, chosen, tables, constraints, restricted, *words, *rows)

            scores = made(chosen)
        if not grows or not scores.restricted:
            return scores
        from pymc_spn.dags.candidate_growth import grown

        return grown(scores, scorer, constraints, (by_size, by_edge), made, progressbar)

    @classmethod
    def from_table(
        cls,
        scores: Mapping[str, Mapping[tuple[str, ...] | frozenset[str], float]],
        required: Iterable[tuple[str, str]] | None = None,
        forbidden: Iterable[tuple[str, str]] | None = None,
        tiers: Sequence[Iterable[str]] | None = None,
    ) -> "LocalScores":
        """Use scores that were computed elsewhere, structure prior included.

        Parameters
        ----------
        scores : mapping of child to mapping of parents (a tuple or frozenset of names) to log score
            Sets that are not listed are impossible.
        required, forbidden, tiers
            As in `from_data`.

        Raises
        ------
        TypeError, ValueError
            If a name or a score does not fit, a set is listed twice, or knowledge contradicts itself.
        """
        from pymc_spn.dags.listed_scores import read_listed

        return cls._of_tables(*read_listed(scores, required, forbidden, tiers), (), "table", "in the table")

    @classmethod
    def _of_tables(cls, names, chosen, tables, constraints, restricted, score, prior, *known):
        n = np.array([len(c) for c in chosen])
        candidates = np.full((len(names), max(int(n.max()), 1)), -1, np.int64)
        for i, c in enumerate(chosen):
            candidates[i, : len(c)] = c
        precede = np.array([[before >> j & 1 for j in range(len(names))] for before in constraints.must_precede], bool)
        flat = tables if isinstance(tables, np.ndarray) else np.concatenate(tables)
        return cls(tuple(names), candidates, n, flat, precede, restricted, score, prior, *known)


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
    """Refuse what is no `LocalScores`, a DataFrame for one."""
    if not isinstance(scores, LocalScores):
        raise TypeError(f"scores must be a LocalScores; got {type(scores).__name__}")


def _flag(argument: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{argument} must be a bool, got {quoted(value)}")
    return bool(value)


def _whole(argument: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{argument} must be an integer of at least {least}, got {quoted(value)}")
    return int(value)
