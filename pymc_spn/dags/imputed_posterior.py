"""`ImputedDagPosterior`: a posterior over graphs where cells are missing, averaged over imputed tables."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import pandas as pd

from pymc_spn.dags.labelled_answers import Evidence, Seed, clashes, in_words
from pymc_spn.dags.local_scores import MEMORY_LIMIT, LocalScores, Score, Scoring, StructurePrior
from pymc_spn.dags.order_queries import OrderQueries, WeightedParts
from pymc_spn.dags.order_spn import IMPUTED, DagPosterior
from pymc_spn.dags.stored_scores import FORMAT
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import is_real
from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.marks import GIVEN_TABLES, limited
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import pandas_frame
from pymc_spn.tables.stored_arrays import checked, refuse

if TYPE_CHECKING:
    import distributed
    import xarray as xr


def completed_tables(data: pd.DataFrame, imputations: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Completed copies of a table.

    Parameters
    ----------
    data : DataFrame
        With gaps.
    imputations : sequence of DataFrame

    Raises
    ------
    TypeError
        If these are no DataFrames.
    ValueError
        If there are fewer than two, or one has other rows or columns than `data`, a gap, or another value in an
        observed cell.
    """
    frame = pandas_frame(data)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"data must be a DataFrame with gaps, got {type(data).__name__}")
    one = pandas_frame(imputations, "imputations")
    if isinstance(one, pd.DataFrame | str) or not isinstance(imputations, Sequence):
        raise TypeError(
            "imputations must be a sequence of completed DataFrames, as impute(df, n=20) returns, "
            f"got {type(imputations).__name__}"
        )
    if len(imputations) < 2:
        raise ValueError(f"imputations must be at least two tables, got {len(imputations)}; take 20")
    for m, table in enumerate(imputations):
        _check(f"imputations[{m}]", pandas_frame(table, f"imputations[{m}]"), frame)
    return list(imputations)


def _check(place: str, table: Any, data: pd.DataFrame) -> None:
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{place} must be a DataFrame, got {type(table).__name__}")
    if not table.index.equals(data.index):
        raise ValueError(f"{place} must have the rows of data, with the same index in the same order")
    if list(map(str, table.columns)) != list(map(str, data.columns)):
        raise ValueError(
            f"{place} must have the columns of data, {quoted(list(data.columns))}, got {quoted(list(table.columns))}"
        )
    for k, name in enumerate(data.columns):
        own, observed = table.iloc[:, k], data.iloc[:, k].notna().to_numpy()
        if own.isna().any():
            row = table.index[own.isna().to_numpy()].tolist()[0]
            raise ValueError(f"{place} must be complete: column {name!r}, row {row!r} is missing")
        pairs = zip(own[observed].tolist(), data.iloc[:, k][observed].tolist(), strict=True)
        changed = [row for row, (a, b) in zip(data.index[observed], pairs, strict=True) if a != b]
        if changed:
            raise ValueError(f"{place} must keep what is observed: column {name!r}, row {changed[0]!r} differs")


def refuse_unlike(posteriors: Sequence[Any]) -> None:
    """Refuse posteriors of tables that do not have the same variables, score, levels or evidence."""
    if len(posteriors) < 2:
        raise ValueError(f"posteriors must be at least two, one for each imputed table, got {len(posteriors)}")
    first = posteriors[0]
    for m, post in enumerate(posteriors):
        for what, found, of_first in (
            ("variables", post.names, first.names),
            ("score", post.scores.score, first.scores.score),
            ("evidence", post.evidence, first.evidence),
            ("engine", post.engine, first.engine),
            ("levels", getattr(post.scores.counts, "levels", None), getattr(first.scores.counts, "levels", None)),
        ):
            if found != of_first:
                raise ValueError(
                    f"imputed table {m} has another {what} than table 0: {quoted(found)} in place of {quoted(of_first)}"
                )


ONE_TABLE = "order_probability", "most_probable", "structure_modular", "to_datatree"  # whose answers are no averages


class FromData(Scoring, total=False):
    """Arguments of `DagPosterior.from_data` but for the table and the seed."""

    score: Score | None
    prior: StructurePrior
    engine: str
    chains: int
    draws: int
    client: "distributed.Client | None"


class ImputedDagPosterior(OrderQueries):
    """Posterior over graphs of a table with missing cells: an average over imputed tables.

    p(G | observed) is the expectation of p(G | completed table) over the missing cells given the observed ones. The
    object holds one `DagPosterior` for each of M imputed tables, which count equally, and answers the questions of
    `OrderSPN` by averages over them. Under a condition E table m counts by p_m(E). So p(A | E) is the sum of p_m(A and
    E) over the sum of p_m(E), and not the mean of p_m(A | E).

    Every answer has ``attrs["mcse"]``, the standard error that comes from M being finite. If it is an average of
    numbers, it has ``attrs["sd_between_tables"]``, their standard deviation between tables. Both have the answer's
    shape.
    ``attrs["tables_after_weighting"]`` is the effective number of tables under the evidence.

    It is the posterior of the observed cells if the missing ones are drawn by the same model. Those that an `SPN`
    draws come from another model, which is more flexible; the answer is then as good as its imputations. Cells must be
    missing at random.

    Parameters
    ----------
    posteriors : sequence of DagPosterior
        One for each table, at least two, all with the same variables, score and evidence.
    log_shares : (M,) float64, optional
        Log of what each table counts for, not normalised.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pymc_spn as ps
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200)
    >>> df = pd.DataFrame({"a": a, "b": a + rng.normal(size=200), "c": rng.normal(size=200)})
    >>> df.loc[rng.random(200) < 0.2, "b"] = np.nan
    >>> tables = ps.fit_variational(df).impute(df, n=20, random_seed=1)
    >>> post = ps.dags.ImputedDagPosterior.from_data(df, tables)
    >>> edges = post.edge_probabilities()
    >>> bool(edges.sel(parent="a", child="b") + edges.sel(parent="b", child="a") > 0.99)
    True

    References
    ----------
    Rubin (1987), Multiple Imputation for Nonresponse in Surveys, doi:10.1002/9780470316696.
    """

    def __init__(self, posteriors: Sequence[DagPosterior], log_shares: np.ndarray | None = None) -> None:
        self.posteriors = tuple(posteriors)
        refuse_unlike(self.posteriors)
        self.log_shares = np.zeros(len(self.posteriors)) if log_shares is None else log_shares
        self.scores, self.evidence = self.posteriors[0].scores, self.posteriors[0].evidence

    @classmethod
    def from_data(
        cls,
        data: pd.DataFrame,
        imputations: Sequence[pd.DataFrame],
        random_seed: Seed = None,
        **options: Unpack[FromData],
    ) -> Self:
        """Make the posterior of each imputed table.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow
            With gaps.
        imputations : sequence of DataFrame
            At least two completed copies of `data`, with its index and columns, as the ``impute(df, n=20)`` of a
            posterior of this package returns them.
        random_seed : int, Generator or None
            Of sampled orders.
        **options
            All else of `DagPosterior.from_data`, the same for each table: ``interventions``, too. A "learned"
            prior is learned from each table. ``max_gigabytes`` is for all tables together.

        Returns
        -------
        ImputedDagPosterior

        Raises
        ------
        TypeError, ValueError
            If the tables are no completed copies of `data`, or differ in their levels or in the score that fits their
            columns; as `DagPosterior.from_data`.

        Warns
        -----
        ConvergenceWarning, CoverageWarning
            As `DagPosterior.from_data`.

        Examples
        --------
        >>> gaps = numbers.mask(rng.random(numbers.shape) < 0.1)
        >>> tables = ps.fit_variational(gaps, random_seed=1).impute(gaps, n=3, random_seed=1)
        >>> imputed = ps.dags.ImputedDagPosterior.from_data(gaps, tables)
        >>> imputed.edge_probabilities().dims
        ('parent', 'child')
        """
        rng = np.random.default_rng(random_seed)
        tables = completed_tables(data, imputations)
        limit = options.get("max_gigabytes", MEMORY_LIMIT)
        if not is_real(limit):
            raise TypeError(f"max_gigabytes must be a number, got {quoted(limit)}")
        options["max_gigabytes"] = limit / len(tables)
        with counted("Making a posterior of each table", options.get("progressbar", True)):
            options["progressbar"] = False
            return cls([DagPosterior.from_data(table, random_seed=rng, **options) for table in each(tables)])

    # ---- what it is

    @property
    def engine(self) -> str:
        """Which engine answers for each table: "exact" or "orders".

        Examples
        --------
        >>> imputed.engine
        'exact'
        """
        return self.posteriors[0].engine

    def _facts(self) -> Facts:
        given = in_words(self.names, self.evidence)
        facts = {"tables": f"{len(self.posteriors)} imputed tables", "variables": f"{len(self.names)} variables"}
        facts |= {"engine": self.engine, "given": f"given {given}" if given else ""}
        return Facts(
            "ImputedDagPosterior",
            facts | {"weights": f"effectively {self._parts.n_effective:.1f} tables" if given else ""},
        )

    def __getattr__(self, name: str) -> Any:
        if name in ONE_TABLE:
            raise AttributeError(
                f"{name} is not answered over imputed tables; ask a single one: post.posteriors[0].{name}"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- files

    def _saved(self) -> "xr.DataTree":
        import xarray as xr

        logs = np.where(np.isneginf(self.log_shares), np.nan, self.log_shares)
        parts = {"/": xr.Dataset({"log_shares": ("table", logs)}, attrs={IMPUTED: FORMAT})}
        parts |= {f"/table_{m}": post._saved().to_dataset() for m, post in enumerate(self.posteriors)}
        return xr.DataTree.from_dict(parts)

    @classmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Self:
        if IMPUTED not in tree.attrs:
            raise ValueError("this does not hold an ImputedDagPosterior")
        if tree.attrs[IMPUTED] > FORMAT:
            raise ValueError(f"the file has format {tree.attrs[IMPUTED]}, this version reads up to {FORMAT}")
        logs = checked("log_shares", tree["log_shares"].values, (len(tree.children),), gaps=True)
        if np.isnan(logs).all():
            refuse("log_shares", "hold a number", "NaN alone")
        posts: list[Any] = [DagPosterior._of_tree(tree.children[f"table_{m}"]) for m in range(logs.size)]
        if not all(isinstance(post, DagPosterior) for post in posts):
            refuse("the tables", "each have a DagPosterior", [type(post).__name__ for post in posts])
        return cls(posts, np.where(np.isnan(logs), -np.inf, logs))

    # ---- below the surface

    @property
    def _all_scores(self) -> list[LocalScores]:
        return [post.scores for post in self.posteriors]

    @cached_property
    def _parts(self) -> WeightedParts:
        return WeightedParts(self.posteriors, self.log_shares, are_tables=True)

    @property
    def _log_total(self) -> float:
        """Log of the probability of the evidence, a mean over tables."""
        return float(np.logaddexp.reduce(self.log_shares) - np.log(self.log_shares.size))

    def _with(self, evidence: Evidence) -> Self:
        if evidence == self.evidence:
            return self
        told = [post._with(evidence) for post in each(self.posteriors)]
        logs = np.full(len(told), -np.inf)
        for m, (new, old) in enumerate(zip(told, self.posteriors, strict=True)):
            if self.log_shares[m] > -np.inf and not clashes(evidence):
                logs[m] = self.log_shares[m] + new._log_total - old._log_total
        return type(self)(told, logs)

    def _marked(self, exactness: str) -> str:
        return limited(self.posteriors[0]._marked(exactness), GIVEN_TABLES)

    @property
    def _limits(self) -> dict[str, Any]:
        posts, n = self.posteriors, len(self.posteriors)
        parts = [post._limits for post in posts]
        limits = {"target": "order-modular", "engine": self.engine, "support": f"{n} imputed tables"}
        known: dict[str, Any] = {"tables": n, "tables_after_weighting": self._parts.n_effective}
        for name, worst in (("r_hat", max), ("effective_orders", min)):
            found = [part[name] for part in parts if name in part]
            known |= {name: worst(found)} if found else {}
        restricted = [name for name in self.names if any(name in post.scores.restricted for post in posts)]
        if restricted:
            known["candidates"] = f"restricted for {', '.join(restricted)}"
        if given := in_words(self.names, self.evidence):
            known["given"] = given
        return limits | known
