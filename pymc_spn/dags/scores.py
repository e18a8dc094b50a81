"""Local scores: which marginal likelihood, and how it reads a table. The sums themselves are in the kernel files."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import Table
from pymc_spn.tables.column import LEVEL_KINDS, Column

if TYPE_CHECKING:
    from pymc_spn.steps.model_inputs import NumberOrVariable

NUMBERS = ("real", "positive", "integer", "count", "ordinal")  # what BGe takes: ordinal columns as their numbers
LEVELS = LEVEL_KINDS  # what BDeu takes: ordinal columns as levels
MOST_SQUARES = 1e13  # times BGe's prior scale: beyond, a sum of squares rounds it away


@dataclass(frozen=True, eq=False)
class GaussianMoments:
    """What causal effects need of a BGe score.

    Parameters
    ----------
    matrices : (d, d, d) float64
        Posterior scale matrix R for each child (they differ where rows are interventional).
    n_rows : (d,) int64
        Rows that count for each child.
    alpha_w : float
    """

    matrices: np.ndarray
    n_rows: np.ndarray
    alpha_w: float

    def times(self, units: np.ndarray) -> "GaussianMoments":
        """The same in other units: each column times its number."""
        shared = self.matrices.strides[0] == 0  # one for all, in the memory of one
        matrices = (self.matrices[:1] if shared else self.matrices) * np.outer(units, units)
        return GaussianMoments(np.broadcast_to(matrices, self.matrices.shape), self.n_rows, self.alpha_w)


@dataclass(frozen=True)
class BGe:
    """Bayesian Gaussian equivalent score: linear Gaussian networks with a normal-Wishart prior.

    Parameters
    ----------
    alpha_mu : float
        Prior rows behind the mean.
    alpha_w : float, optional
        Prior degrees of freedom, above d - 1; by default d + alpha_mu + 1.
    prior_scale : float or scalar tensor, optional
        The prior scale matrix is prior_scale times the identity, in squared units of the data. It is by default
        alpha_mu (alpha_w - d - 1) / (alpha_mu + 1), which needs alpha_w > d + 1. A tensor only in `dag_log_evidence`.

    Notes
    -----
    The prior mean is the mean of each column: data are centred, never rescaled.

    Examples
    --------
    >>> dag = ps.DagPosterior.from_data(numbers, ps.BGe(alpha_mu=0.1))
    >>> dag.engine
    'exact'

    References
    ----------
    Geiger and Heckerman (2002), doi:10.1214/aos/1035844981; Kuipers, Moffa and Heckerman (2014),
    doi:10.1214/14-AOS1217, with the corrected constant.
    """

    alpha_mu: float = 1.0
    alpha_w: float | None = None
    prior_scale: "NumberOrVariable | None" = None

    name = "BGe"

    def resolve(self, n_variables: int) -> tuple[float, float, Any]:
        """Check alpha_mu, alpha_w and prior_scale, and fill in their defaults.

        Examples
        --------
        >>> ps.BGe().resolve(n_variables=3)
        (1.0, 5.0, 0.5)
        """
        for argument, value in (("alpha_mu", self.alpha_mu), ("alpha_w", self.alpha_w)):
            if not (is_real(value) or (argument == "alpha_w" and value is None)):
                raise TypeError(f"BGe: {argument} must be a number, got {quoted(value)}")
        d = n_variables
        alpha_w = d + self.alpha_mu + 1 if self.alpha_w is None else self.alpha_w
        t: NumberOrVariable
        t = self.alpha_mu * (alpha_w - d - 1) / (self.alpha_mu + 1) if self.prior_scale is None else self.prior_scale
        for argument, number in (("alpha_mu", self.alpha_mu), ("prior_scale", t)):
            if is_real(number) and not (math.isfinite(number) and number > 0):
                raise ValueError(f"BGe: {argument} must be positive and finite, got {quoted(number)}")
        if not (math.isfinite(alpha_w) and alpha_w > d - 1):
            raise ValueError(f"BGe: alpha_w must be above d - 1 = {d - 1}, got {quoted(alpha_w)}")
        return float(self.alpha_mu), float(alpha_w), t

    def scorer(self, table: Table, intervened: np.ndarray) -> "BGeScorer":
        """Prepare the scores of a table.

        Raises
        ------
        ValueError
            If a column is not numeric.

        Examples
        --------
        >>> nobody = np.zeros(numbers.shape, bool)  # True where an experimenter set the cell
        >>> found = ps.BGe().scorer(ps.Table.from_frame(numbers), nobody)
        >>> alone, with_income = found.table(2, [], [1])  # scores of "debt"
        >>> bool(with_income > alone)
        True
        """
        wrong = [c.name for c in table.columns if c.kind not in NUMBERS]
        if wrong:
            raise ValueError(_misfit("BGe needs numeric columns", table, wrong))
        alpha_mu, alpha_w, t = self.resolve(len(table.columns))
        if not is_real(t):
            raise TypeError(
                f"BGe: prior_scale must be a number here, got {quoted(t)}; a tensor is for ps.dags.dag_log_evidence"
            )
        named = _warn_of_columns(table, float(t))
        x = table.values
        found = BGeScorer(x - x.mean(axis=0) if len(x) else x, intervened, alpha_mu, alpha_w, float(t), table.names)
        if self.prior_scale is None and not named:
            _warn_of_units(table, math.sqrt(t / (alpha_w - len(table.columns) - 1)))
        return found


@dataclass(frozen=True)
class BDeu:
    """Bayesian Dirichlet equivalent uniform score for discrete columns.

    Parameters
    ----------
    ess : float or scalar tensor
        Equivalent sample size. A tensor only in `dag_log_evidence`.

    Examples
    --------
    >>> levels = pd.DataFrame({"a": pd.Categorical([0, 1] * 20), "b": pd.Categorical([0, 1] * 20)})
    >>> dag = ps.DagPosterior.from_data(levels, ps.BDeu(ess=1.0))
    >>> bool(dag.probability(present=[("a", "b")]) > 0.4)
    True

    References
    ----------
    Heckerman, Geiger and Chickering (1995), doi:10.1007/BF00994016.
    """

    ess: "NumberOrVariable" = 10.0

    name = "BDeu"

    def scorer(self, table: Table, intervened: np.ndarray) -> "BDeuScorer":
        """Prepare the scores of a table.

        Raises
        ------
        ValueError
            If a column has no levels.

        Examples
        --------
        >>> levels = pd.DataFrame({"a": pd.Categorical([0, 1] * 20), "b": pd.Categorical([0, 1] * 20)})
        >>> nobody = np.zeros(levels.shape, bool)  # True where an experimenter set the cell
        >>> found = ps.BDeu().scorer(ps.Table.from_frame(levels), nobody)
        >>> found.table(1, [], [0]).round(1)  # scores of "b" without parents, and with the parent "a"
        array([-28.6,  -9.9])
        """
        wrong = [c.name for c in table.columns if c.kind not in LEVELS]
        if wrong:
            raise ValueError(_misfit("BDeu needs binary, categorical or ordinal columns", table, wrong))
        if not is_real(self.ess):
            raise TypeError(
                f"BDeu: ess must be a number here, got {quoted(self.ess)}; a tensor is for ps.dags.dag_log_evidence"
            )
        ess = float(self.ess)
        if not (math.isfinite(ess) and ess > 0):
            raise ValueError(f"BDeu: ess must be positive and finite, got {quoted(self.ess)}")
        constant = [
            c.name for i, c in enumerate(table.columns) if len(table.values) and np.ptp(table.values[:, i]) == 0
        ]
        if constant:
            warn(f"columns {constant} have one value only: the prior alone decides on their edges. Drop these columns")
        return BDeuScorer(LevelCounts.of(table, intervened, ess))


def choose_score(
    score: Any, table: Table, intervened: np.ndarray, standardize: bool
) -> tuple[Any, str, GaussianMoments | None, LevelCounts | None]:
    """Scorer, name, moments and counts of the score that the user gave, or of the one that fits the columns."""
    if score is None:
        kinds = [c.kind for c in table.columns]
        score = BDeu() if all(k in LEVELS for k in kinds) else BGe()
    if hasattr(score, "scorer") and not isinstance(score, type):
        read, units = _standardised(table, isinstance(score, BGe)) if standardize else (table, None)
        scorer = score.scorer(read, intervened)
        moments, counts = scorer.gaussian, getattr(scorer, "counts", None)
        if units is not None:
            moments, counts = moments and moments.times(units), counts and counts.times(units)
        return scorer, score.name, moments, counts
    if callable(score) and not isinstance(score, type):
        for argument, is_asked in (("interventions", intervened.any()), ("standardize", standardize)):
            if is_asked:
                raise ValueError(f"{argument} cannot be combined with a callable score: do this inside the function")
        return CallableScorer(score, table.names), getattr(score, "__name__", type(score).__name__), None, None
    raise TypeError(
        f"score must be a BGe, BDeu, ConditionalGaussian or callable (child, parents) -> float, got {quoted(score)}. "
        "ps.BGe() is for numbers, ps.BDeu() for levels, ps.ConditionalGaussian() for both"
    )


def _standardised(table: Table, numbers_alone: bool) -> tuple[Table, np.ndarray]:
    """The table in units of standard deviations, and these: 1 for constants, levels and non-numbers."""
    x = table.values
    largest = np.maximum(np.abs(x).max(axis=0, initial=0.0), np.finfo(float).tiny)
    units = (x / largest).std(axis=0) * largest if len(x) else largest
    no_number = [c.kind not in NUMBERS if numbers_alone else c.kind in LEVELS for c in table.columns]
    is_kept = np.array(no_number) | (np.ptp(x, axis=0) == 0.0 if len(x) else True)
    units = np.where(is_kept, 1.0, units)
    columns = tuple(
        c if keep else Column(c.name, "real", None, "float64") for c, keep in zip(table.columns, is_kept, strict=True)
    )
    return Table(columns, x / units, table.index), units


def _misfit(rule: str, table: Table, wrong: list[str]) -> str:
    kinds = {c.name: c.kind for c in table.columns if c.name in wrong}
    pair = next((name for name in wrong if kinds[name] == "binary"), None)
    hint = (
        "for mixed tables use score=ps.ConditionalGaussian(), in which no numeric column causes a discrete one, "
        "bin the numeric columns and use BDeu"
        + (f", or, if its values are 0 and 1, take it as a number: kinds={{{pair!r}: 'real'}}" if pair else "")
        if len(wrong) < len(table.columns)
        else "use " + ("BDeu" if rule.startswith("BGe") else "BGe, or declare levels with kinds=")
    )
    return f"{rule}, got {kinds}; {hint}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the line of the user's code."""
    warnings.warn(message, category, skip_file_prefixes=OWN_FILES)


def _warn_of_units(table: Table, usual_sd: float) -> None:
    """Warn where a column is far from the standard deviation that the prior expects."""
    sd = table.values.std(axis=0) if len(table.values) > 1 else np.zeros(0)
    sd = np.where(np.ptp(table.values, axis=0) > 0.0, sd, usual_sd) if sd.size else sd
    if not sd.size or ((sd >= 0.1 * usual_sd) & (sd <= 10.0 * usual_sd)).all():
        return
    far = int(np.argmax(np.abs(np.log(np.maximum(sd, 1e-300) / usual_sd))))
    warn(
        f"BGe's prior scale suits columns whose sd is about {usual_sd:.2g}, but that of {table.names[far]!r} is "
        f"{sd[far]:.3g}. There the prior makes edges {'less' if sd[far] > usual_sd else 'more'} probable; "
        "score them with standardize=True, or choose prior_scale"
    )


def _warn_of_columns(table: Table, t: float) -> bool:
    """Warn of columns for which the prior decides; whether scales were named."""
    names, x = table.names, table.values
    if len(x) < 2:
        return False
    largest = np.abs(x).max(axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)  # squares of the numbers themselves may be no floats
    x = x / unit
    sd = x.std(axis=0) * unit
    varying = np.ptp(x, axis=0) > 0  # equal numbers may have a deviation of 1e-17: their mean is rounded
    constant = [n for n, v in zip(names, varying, strict=True) if not v]
    if constant:
        warn(f"columns {constant} are constant: the prior alone decides on their edges. Drop these columns")
    is_uneven = bool(varying.any() and sd[varying].max() > 10 * sd[varying].min())
    if is_uneven:
        low, high = np.argmin(np.where(varying, sd, np.inf)), np.argmax(np.where(varying, sd, -np.inf))
        warn(
            f"BGe's prior scale is the same for all columns, but the sd of {names[high]!r} ({sd[high]:.3g}) is "
            f"more than 10 times that of {names[low]!r} ({sd[low]:.3g}). The probabilities of edges then depend on the "
            "units; score with standardize=True, or choose prior_scale"
        )
    small = varying & (math.sqrt(len(x)) * sd < math.sqrt(t))
    faint = [n for n, v in zip(names, small, strict=True) if v]
    if faint and len(x) >= len(names):  # else the number of rows is warned of
        warn(
            f"columns {faint} have sums of squares below BGe's prior_scale = {t:.3g}. There the prior decides, not the "
            "data: use smaller units, or choose prior_scale"
        )
    if varying.sum() > 1 and len(x) > varying.sum():
        standardised = (x[:, varying] - x[:, varying].mean(axis=0)) / x[:, varying].std(axis=0)
        values, vectors = np.linalg.eigh(standardised.T @ standardised / len(x))
        if values[0] < 1e-10:
            at = np.flatnonzero(varying)[np.abs(vectors[:, 0]) > 1e-3]
            warn(f"columns {[names[i] for i in at]} are collinear: the prior decides on their edges. Drop one of them")
    return is_uneven or bool(faint)


class BGeScorer:
    """BGe scores of one table.

    As in every scorer, `table` gives the (2^k,) log marginal likelihoods of a child given a base and each subset of k
    candidates. `scan` adds candidates greedily, `all_tables` scores everything at once."""

    def __init__(self, centred, intervened, alpha_mu, alpha_w, t, names):
        d = centred.shape[1]
        self.d = d
        self.same_rows = not intervened.any()
        kept = ~intervened
        counts = kept.sum(axis=0)
        shared = scale_matrix(centred, alpha_mu, t)
        matrices = np.broadcast_to(shared, (d, d, d))
        if not self.same_rows:
            matrices = np.stack([scale_matrix(centred[kept[:, i]], alpha_mu, t) for i in range(d)])
        self.gaussian = GaussianMoments(matrices, counts, alpha_w)
        self.terms = [bge_terms(int(n), d, alpha_mu, alpha_w, t) for n in counts]
        squares = np.nan_to_num(np.diagonal(shared), nan=np.inf, posinf=np.inf)
        worst = np.argmax(squares)
        if not (squares[worst] < np.inf and float(squares[worst]) / t <= MOST_SQUARES):
            raise ValueError(
                f"column {names[worst]!r}: its sum of squares {squares[worst]:.3g} is more than {MOST_SQUARES:.0e} "
                f"times BGe's prior_scale = {t:.3g}, beyond double precision; use smaller units or a larger prior_scale"
            )
        lost = _lost_digits(shared, len(centred))
        if lost.max() > 1.0:
            columns = [names[i] for i in np.flatnonzero(lost > 0.01 * min(lost.max(), 1e300))]
            raise ValueError(
                f"columns {columns} are collinear. BGe's prior_scale = {t:.3g} is lost to rounding next to sums of "
                f"squares of {squares.max():.3g}, so scores would be off by {lost.max():.2g} nats. Leave one of the "
                "columns out, use smaller units or a larger prior_scale"
            )

    def all_tables(self):
        """(d, 2^(d-1)) scores of all parent sets of all variables; None where children count different rows."""
        if not self.same_rows:
            return None
        from pymc_spn.dags.bge_kernels import full_tables, log_minors

        log_det = np.empty(1 << self.d)
        log_minors(np.ascontiguousarray(self.gaussian.matrices[0]), log_det, np.empty(0))
        out = np.empty((self.d, 1 << (self.d - 1)))
        full_tables(log_det, *self.terms[0], out)
        return out

    def _after(self, child, base, inside, others=()):
        """Schur complement of (child, inside) after the base, that between them and the others, the diagonal of that of
        the others, and the base's log determinant."""
        matrix = self.gaussian.matrices[child]
        rows, others = [child, *inside], list(others)
        block, between = matrix[np.ix_(rows, rows)], matrix[np.ix_(rows, others)]
        own = matrix[others, others]
        if not len(base):
            return block, between, own, 0.0
        inner, cross = matrix[np.ix_(base, base)], matrix[np.ix_(base, rows + others)]
        solved, k = np.linalg.solve(inner, cross), len(rows)
        block, between = block - cross[:, :k].T @ solved[:, :k], between - cross[:, :k].T @ solved[:, k:]
        return block, between, own - (cross[:, k:] * solved[:, k:]).sum(axis=0), float(np.linalg.slogdet(inner)[1])

    def table(self, child, base, candidates):
        from pymc_spn.dags.bge_kernels import family_table

        block, _, _, log_det = self._after(child, base, candidates)
        constants, exponents = (terms[len(base) :] for terms in self.terms[child])
        out = np.empty(1 << len(candidates))
        family_table(np.ascontiguousarray(block), constants, exponents, out)
        return out - 0.5 * log_det

    def scan(self, child, base, free, others, by_size, by_edge):
        """Best score over subsets of `free`, joined with the base and each of `others`."""
        from pymc_spn.dags.bge_kernels import scan_additions

        block, between, own, log_det = self._after(child, base, free, others)
        carried = np.vstack([between, own])
        constants, exponents = self.terms[child]
        best = np.full(len(others), -np.inf)
        edges = by_edge[child, [*free, *others]]
        matrix = np.ascontiguousarray(block)
        base_terms = float(by_edge[child, list(base)].sum())
        scan_additions(matrix, len(base), log_det, carried, edges, base_terms, constants + by_size, exponents, best)
        return best


def scale_matrix(centred, alpha_mu, t):
    """(k, k) posterior scale matrix of a normal-Wishart prior with mean zero and scale t."""
    n = len(centred)
    matrix = t * np.eye(centred.shape[1])
    if n:
        mean = centred.mean(axis=0)
        spread = centred - mean
        with np.errstate(over="ignore", invalid="ignore"):  # the scorer refuses what is no number
            matrix = matrix + spread.T @ spread + n * alpha_mu / (n + alpha_mu) * np.outer(mean, mean)
    return matrix


def _lost_digits(matrix, n_rows):
    """(d,) nats by which rounding may move a score: of each column's square, as against what is left of it given all
    others. A score takes half as many logs of that as there are rows."""
    unit = np.sqrt(np.diagonal(matrix))
    try:
        left = 1.0 / np.diagonal(np.linalg.inv(matrix / np.outer(unit, unit)))
    except np.linalg.LinAlgError:
        left = np.zeros(len(matrix))
    with np.errstate(divide="ignore"):
        return 0.5 * n_rows * np.finfo(np.float64).eps / np.maximum(left, 0.0)


def bge_terms(n_rows, d, alpha_mu, alpha_w, t):
    """Constants and exponents of the BGe score by number of parents, (d,) each.

    Kuipers, Moffa and Heckerman (2014), equation 18 with T = t I, as the ratio for a child and its l parents.
    """
    size = np.arange(d)
    a = alpha_w - d
    gamma = np.array([math.lgamma((n_rows + a + n + 1) / 2) - math.lgamma((a + n + 1) / 2) for n in range(d)])
    scale = (a + 2 * size + 1) / 2 * np.log(t)
    constants = 0.5 * math.log(alpha_mu / (n_rows + alpha_mu)) - n_rows / 2 * math.log(math.pi) + gamma + scale
    return constants, (n_rows + a + size) / 2


class BDeuScorer:
    """BDeu scores of one table; equal rows are counted once."""

    gaussian = None

    def __init__(self, counts):
        self.counts = counts
        self.codes, self.n_levels = np.ascontiguousarray(counts.codes.T), counts.n_levels

    def table(self, child, base, candidates):
        return self.table_and_slope(child, base, candidates)[0]

    def table_and_slope(self, child, base, candidates):
        """Scores and their derivatives in ess."""
        from pymc_spn.dags.bdeu_kernels import family_table
        from pymc_spn.numerics.read_only_views import read_only_view

        out, slope = np.empty((2, 1 << len(candidates)))
        base, candidates = np.asarray(base, np.int64), np.asarray(candidates, np.int64)
        own = self.codes, self.counts.weights[child], self.n_levels, candidates
        codes, weight, n_levels, candidates = map(read_only_view, own)
        family_table(codes, weight, n_levels, child, base, candidates, self.counts.ess, out, slope)
        return out, slope


class CallableScorer:
    """Scores from a function (child, parents) -> log score, each family asked once."""

    gaussian = None

    def __init__(self, function: Callable[[str, tuple[str, ...]], float], names: tuple[str, ...]):
        self.function, self.names = function, names
        self.known: dict[tuple[int, frozenset[int]], float] = {}

    def table(self, child, base, candidates):
        out = np.empty(1 << len(candidates))
        for m in range(out.size):
            parents = frozenset(base) | {c for k, c in enumerate(candidates) if m >> k & 1}
            key = (child, parents)
            if key not in self.known:
                self.known[key] = self._ask(child, parents)
            out[m] = self.known[key]
        return out

    def _ask(self, child, parents):
        words = tuple(self.names[j] for j in sorted(parents))
        answer = self.function(self.names[child], words)
        try:
            value = float(answer)
        except (TypeError, ValueError):
            raise TypeError(
                f"score of {self.names[child]!r} given {quoted(list(words))} must be a number, got {quoted(answer)}"
            ) from None
        if math.isnan(value) or value == math.inf:
            raise ValueError(
                f"score of {self.names[child]!r} given {quoted(list(words))} must be finite or -inf, got {value}"
            )
        return value


@dataclass(frozen=True)
class ConditionalGaussian:
    """Score of conditional Gaussian networks: discrete columns have discrete parents only.

    A numeric column is linear Gaussian in its numeric parents, with coefficients and variance of its own for every
    configuration of its discrete parents. Its score is a sum of BGe scores, one for the rows of each configuration,
    with independent priors of the same constants. A discrete column is scored by BDeu; sets with a numeric parent are
    impossible. Turning an edge between two columns of one type that have the same other parents leaves the score as it
    is.

    Parameters
    ----------
    bge : BGe
        For the numeric columns; its ``alpha_w`` and ``prior_scale`` default to those of the numeric columns alone.
    bdeu : BDeu

    Examples
    --------
    >>> dag = ps.DagPosterior.from_data(full, ps.ConditionalGaussian(), standardize=True)
    >>> dag.names
    ('age', 'income', 'job')

    References
    ----------
    Lauritzen and Wermuth (1989), doi:10.1214/aos/1176347003, for the family; Bøttcher (2001), AISTATS, for scores of
    this form.
    """

    bge: BGe = field(default_factory=BGe)
    bdeu: BDeu = field(default_factory=BDeu)

    name = "conditional Gaussian"

    def scorer(self, table: Table, intervened: np.ndarray) -> "MixedScorer":
        """Prepare the scores of a table.

        Examples
        --------
        >>> nobody = np.zeros(full.shape, bool)  # True where an experimenter set the cell
        >>> found = ps.ConditionalGaussian().scorer(ps.Table.from_frame(full), nobody)
        >>> alone, with_job = found.table(0, [], [2])  # scores of "age"
        >>> bool(with_job > alone)
        True
        """
        return MixedScorer(table, intervened, self.bge, self.bdeu)


class MixedScorer:
    """Scores of a conditional Gaussian network; one BGe scorer for the rows of each configuration."""

    gaussian = None

    def __init__(self, table: Table, intervened: np.ndarray, bge: BGe, bdeu: BDeu):
        discrete = [i for i, c in enumerate(table.columns) if c.kind in LEVELS]
        numeric = [i for i in range(len(table.columns)) if i not in discrete]
        self.names, self.intervened, self.discrete = table.names, intervened, set(discrete)
        self.numeric_place = {i: k for k, i in enumerate(numeric)}
        self.level_place = {i: k for k, i in enumerate(discrete)}
        self.bdeu: BDeuScorer | None = None
        if discrete:
            levels = Table(tuple(table.columns[i] for i in discrete), table.values[:, discrete], table.index)
            self.bdeu = bdeu.scorer(levels, intervened[:, discrete])
        self.constants: tuple[Any, ...] = ()
        if numeric:
            numbers = Table(tuple(table.columns[i] for i in numeric), table.values[:, numeric], table.index)
            bge.scorer(numbers, intervened[:, numeric])  # its refusals and messages
            self.constants = bge.resolve(len(numeric))
        ess = 1.0 if self.bdeu is None else self.bdeu.counts.ess
        self.counts = LevelCounts.of(table, intervened, ess, numeric, self.constants)
        self.known: dict[tuple[int, tuple[int, ...]], list[BGeScorer]] = {}

    def table(self, child: int, base: Iterable[int], candidates: Iterable[int]) -> np.ndarray:
        """(2^k,) log marginal likelihoods, as in every scorer."""
        candidates, base = list(candidates), list(base)
        levels = [(k, j) for k, j in enumerate(candidates) if j in self.discrete]
        numbers = [(k, j) for k, j in enumerate(candidates) if j not in self.discrete]
        base_levels = [j for j in base if j in self.discrete]
        base_numbers = [j for j in base if j not in self.discrete]
        level_bits, number_bits = _spread([k for k, _ in levels]), _spread([k for k, _ in numbers])
        out = np.full(1 << len(candidates), -math.inf)
        if child in self.discrete:
            if not base_numbers:
                place = self.level_place
                own = [place[j] for j in base_levels], [place[j] for _, j in levels]
                assert self.bdeu is not None
                out[level_bits] = self.bdeu.table(place[child], *own)
            return out
        place = self.numeric_place
        own = [place[j] for j in base_numbers], [place[j] for _, j in numbers]
        for m, bits in enumerate(level_bits):
            chosen = sorted([*base_levels, *(j for r, (_, j) in enumerate(levels) if m >> r & 1)])
            parts = [s.table(place[child], *own) for s in self._configurations(child, tuple(chosen))]
            out[bits + number_bits] = np.sum(parts, axis=0)
        return out

    def _configurations(self, child: int, levels: tuple[int, ...]) -> list[BGeScorer]:
        """One scorer for the rows of each configuration that occurs, rows that set the child left out."""
        key = (child if self.intervened[:, child].any() else -1, levels)
        if key not in self.known:
            names = [self.names[i] for i in self.numeric_place]
            alpha_mu, alpha_w, t = self.constants
            self.known[key] = [
                BGeScorer(rows, np.zeros(rows.shape, bool), alpha_mu, alpha_w, t, names)
                for _, rows in self.counts.configurations(child, levels)
            ]
        return self.known[key]


def _spread(bits: list[int]) -> np.ndarray:
    """(2^k,) indices in the whole table of all subsets of some of its bits."""
    out = np.zeros(1, np.int64)
    for k in bits:
        out = np.concatenate([out, out + (1 << k)])
    return out
