"""`ImputedDagPosterior`: a posterior over graphs where cells are missing, averaged over imputed tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from pymc_spn.dags.dag_posterior import DagPosterior
from pymc_spn.dags.effect_queries import EffectQueries
from pymc_spn.dags.exact_queries import ExactQueries, refuse_left_out
from pymc_spn.dags.imputed_tables import Imputations, completed_tables, refuse_unlike
from pymc_spn.dags.labelled_answers import (
    Edges,
    Evidence,
    Given,
    Level,
    Seed,
    clashes,
    count,
    in_words,
    joined,
    labelled,
    read_evidence,
    read_given,
)
from pymc_spn.dags.local_scores import MEMORY_LIMIT, Score, Scoring, StructurePrior
from pymc_spn.dags.order_queries import ASKING
from pymc_spn.dags.scores import is_number
from pymc_spn.dags.storage import IMPUTED, from_tree, to_tree
from pymc_spn.dags.stored_scores import FORMAT
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.marks import GIVEN_TABLES, SIMULATION, limited
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.stored_arrays import checked, refuse

if TYPE_CHECKING:
    import distributed
    import pandas as pd
    import xarray as xr


class FromData(Scoring, total=False):
    """Arguments of `DagPosterior.from_data` but for the table and the seed."""

    score: Score | None
    prior: StructurePrior
    engine: str
    chains: int
    draws: int
    client: "distributed.Client | None"


class _AskOneTable:
    """A question that is not answered by an average over tables: the object has no such method."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise AttributeError(
            f"{self.name} is not answered over imputed tables; ask a single one: post.posteriors[0].{self.name}"
        )


class ImputedDagPosterior(ExactQueries, EffectQueries):
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

    order_probability: Any = _AskOneTable()
    most_probable: Any = _AskOneTable()
    structure_modular: Any = _AskOneTable()
    to_datatree: Any = _AskOneTable()

    def __init__(self, posteriors: Sequence[DagPosterior], log_shares: np.ndarray | None = None) -> None:
        self.posteriors = tuple(posteriors)
        refuse_unlike(self.posteriors)
        self.log_shares = np.zeros(len(self.posteriors)) if log_shares is None else log_shares
        self.scores, self.evidence = self.posteriors[0].scores, self.posteriors[0].evidence

    @classmethod
    def from_data(
        cls, data: "pd.DataFrame", imputations: Imputations, random_seed: Seed = None, **options: Unpack[FromData]
    ) -> Self:
        """Make the posterior of each imputed table.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow
            With gaps.
        imputations : sequence of DataFrame, or an object with ``impute``
            At least two completed copies of `data`, with its index and columns, as the ``impute(df, n=20)`` of a
            posterior of this package returns them. The posterior or fit itself may be given: it draws 20.
        random_seed : int, Generator or None
            Of the imputations, where they are drawn here, and of sampled orders.
        **options
            All else of `DagPosterior.from_data`, the same for each table: ``interventions`` and ``lags``, too. A
            "learned" prior is learned from each table. ``max_gigabytes`` is for all tables together.

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
        tables = completed_tables(data, imputations, rng)
        limit = options.get("max_gigabytes", MEMORY_LIMIT)
        if not is_number(limit):
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
        facts = {"tables": f"{len(self.posteriors)} tables", "variables": f"{len(self.names)} variables"}
        facts |= {"engine": self.engine, "given": f"given {given}" if given else ""}
        return Facts(
            "ImputedDagPosterior", facts | {"weights": f"{self._n_effective:.1f} tables count" if given else ""}
        )

    @property
    def _n_scores(self) -> int:
        return sum(post._n_scores for post in self.posteriors)

    def condition(self, present: Edges | None = None, absent: Edges | None = None, progressbar: bool = True) -> Self:
        """The posterior given that some edges are present and others absent: each table counts by their probability.

        Parameters
        ----------
        present, absent : sequence of (parent, child), optional
            Pairs of names.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        ImputedDagPosterior

        Raises
        ------
        ValueError
            If that has probability zero in all tables, or an edge names no variable or leads to its own parent.

        Examples
        --------
        >>> known = imputed.condition(present=[("income", "debt")])
        >>> round(float(known.probability(present=[("income", "debt")])), 6)
        1.0
        """
        with counted(ASKING, progressbar):
            return self._told(joined(self.evidence, read_evidence(self.names, present, absent)), "the evidence")

    # ---- files

    def _saved(self) -> "xr.DataTree":
        import xarray as xr

        logs = np.where(np.isneginf(self.log_shares), np.nan, self.log_shares)
        parts = {"/": xr.Dataset({"log_shares": ("table", logs)}, attrs={IMPUTED: FORMAT})}
        parts |= {f"/table_{m}": to_tree(post).to_dataset() for m, post in enumerate(self.posteriors)}
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
        posts: list[Any] = [from_tree(tree.children[f"table_{m}"]) for m in range(logs.size)]
        if not all(isinstance(post, DagPosterior) for post in posts):
            refuse("the tables", "each have a DagPosterior", [type(post).__name__ for post in posts])
        return cls(posts, np.where(np.isnan(logs), -np.inf, logs))

    # ---- questions whose parts are those of one table each

    def edge_probabilities(self, given: Given | None = None, progressbar: bool = True) -> "xr.DataArray":
        """Posterior probability of every edge, (parent, child); as `OrderSPN.edge_probabilities`.

        Examples
        --------
        >>> imputed.edge_probabilities().dims
        ('parent', 'child')
        """
        with self._under(given, progressbar) as asked:
            return asked._averaged(lambda post: post.edge_probabilities())

    def parent_set_probabilities(
        self, child: str, most: int | None = 50, given: Given | None = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Posterior of the parent sets of one variable, most probable first; as `OrderSPN.parent_set_probabilities`.

        Raises
        ------
        ValueError
            If the tables chose other candidate parents of the variable than one another; as there.

        Examples
        --------
        >>> imputed.parent_set_probabilities("debt", most=2).dims
        ('parents',)
        """
        i = self.scores.position(child)
        if len({post.scores.candidate_sets[i] for post in self.posteriors}) > 1:
            raise ValueError(
                f"parent_set_probabilities: tables chose other candidate parents of {self.names[i]!r} than one another;"
                " raise max_candidates"
            )
        return super().parent_set_probabilities(child, most, given, progressbar)

    def sample(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Independent draws: a table, then an order and a graph; as `OrderSPN.sample`.

        Returns
        -------
        DataArray
            (draw, parent, child) bool, with the coordinates ``position`` (draw, child) and ``table`` (draw).

        Examples
        --------
        >>> imputed.sample(4, random_seed=1).dims
        ('draw', 'parent', 'child')
        """
        with self._under(given, progressbar) as asked:
            return asked._drawn(draws, random_seed, lambda post, n, rng: post.sample(n, None, rng))

    def causal_effects(
        self, given: Given | None = None, max_gigabytes: float = 8.0, progressbar: bool = True
    ) -> "xr.DataArray":
        """Posterior mean of every total causal effect; as `OrderSPN.causal_effects`.

        Examples
        --------
        >>> imputed.causal_effects().dims
        ('cause', 'effect')
        """
        with self._under(given, progressbar) as asked:
            return asked._averaged(lambda post: post.causal_effects(None, max_gigabytes))

    def sample_effects(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Draws of all total causal effects, a table each; as `OrderSPN.sample_effects`.

        Examples
        --------
        >>> imputed.sample_effects(4, random_seed=1).dims
        ('draw', 'cause', 'effect')
        """
        with self._under(given, progressbar) as asked:
            return asked._drawn(draws, random_seed, lambda post, n, rng: post.sample_effects(n, None, rng))

    def sample_when_set(
        self,
        effect: str,
        cause: str,
        draws: int,
        versus: Level | None = None,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Draws of what `probabilities_when_set` or `mean_when_set` averages, a table each.

        Examples
        --------
        >>> completed = post.impute(df, n=3, random_seed=1)
        >>> score = ps.ConditionalGaussian()
        >>> mixed = ps.dags.ImputedDagPosterior.from_data(df, completed, score=score, standardize=True)
        >>> mixed.sample_when_set("income", "job", draws=6, random_seed=1).dims
        ('draw', 'set_to')
        """
        with self._under(given, progressbar) as asked:
            return asked._drawn(
                draws, random_seed, lambda post, n, rng: post.sample_when_set(effect, cause, n, versus, None, rng, at)
            )

    # ---- below the surface

    @property
    def _shares(self) -> np.ndarray:
        """(M,) what each table counts for."""
        top = self.log_shares.max()
        weights = np.exp(self.log_shares - top) if top > -np.inf else np.zeros(self.log_shares.size)
        return weights / max(weights.sum(), 1.0)

    @property
    def _n_effective(self) -> float:
        return float(1.0 / np.square(self._shares).sum())

    @property
    def _log_total(self) -> float:
        """Log of the probability of the evidence, a mean over tables."""
        return float(np.logaddexp.reduce(self.log_shares) - np.log(self.log_shares.size))

    def _mean_when_set(
        self,
        name: str,
        effect: str,
        cause: str,
        versus: Level | None,
        draws: int,
        given: Given | None,
        random_seed: Seed,
        at: Sequence[float] | None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """As `OrderSPN._mean_when_set`; the tables share the draws."""
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            n = max(2, asked._n_of_part(count("draws", draws, 2)))
            return asked._averaged(lambda post: post._mean_when_set(name, effect, cause, versus, n, None, rng, at))

    def _with(self, evidence: Evidence) -> Self:
        if evidence == self.evidence:
            return self
        for post in self.posteriors:
            refuse_left_out(post.scores, evidence)
        told = [post._with(evidence) for post in each(self.posteriors)]
        logs = np.full(len(told), -np.inf)
        for m, (new, old) in enumerate(zip(told, self.posteriors, strict=True)):
            if self.log_shares[m] > -np.inf and not clashes(evidence):
                logs[m] = self.log_shares[m] + new._log_total - old._log_total
        return type(self)(told, logs)

    def _given(self, given: Given | None) -> Self:
        return self._told(joined(self.evidence, read_given(self.names, given)), "given")

    def _told(self, evidence: Evidence, what: str) -> Self:
        post = self._with(evidence)
        if post._log_total == -np.inf:
            raise ValueError(f"{what} has probability zero: {in_words(self.names, evidence)}")
        return post

    def _values(self, ask: Callable[[Any], Any]) -> list[np.ndarray]:
        """Answers of the tables that count, in their order."""
        return [np.asarray(ask(post)) for post in each(self._that_count)]

    @property
    def _that_count(self) -> list[DagPosterior]:
        return [post for post, share in zip(self.posteriors, self._shares, strict=True) if share > 0.0]

    def _value(self, ask: Callable[[Any], Any]) -> np.ndarray:
        """The mean of an answer over tables."""
        return self._mean(self._values(ask))

    def _mean(self, values: list[np.ndarray]) -> np.ndarray:
        shares = self._shares[self._shares > 0.0]
        return np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))

    def _spread(self, values: list[np.ndarray], mean: np.ndarray) -> dict[str, Any]:
        """Standard error of a ratio of means over tables, and the standard deviation between them."""
        shares, n = self._shares[self._shares > 0.0], len(self.posteriors)
        if shares.size < 2:
            return {name: np.full(mean.shape, np.nan) for name in ("mcse", "sd_between_tables")}
        squares = [np.square(value - mean) for value in values]
        error = sum(share**2 * square for share, square in zip(shares, squares, strict=True))
        between = sum(share * square for share, square in zip(shares, squares, strict=True))
        known = 1.0 - np.square(shares).sum()
        return {"mcse": np.sqrt(error * n / (n - 1)), "sd_between_tables": np.sqrt(between / known)}

    def _errors(self, found: Any, ask: Callable[[Any], Any]) -> dict[str, Any]:
        return self._spread(self._values(ask), np.asarray(found))

    def _ratio_errors(self, told: Self, value: float) -> dict[str, Any]:
        logs = (told.log_shares - self.log_shares)[self._shares > 0.0]
        return self._spread([np.asarray(np.exp(log)) for log in logs], np.asarray(value))

    def _n_of_part(self, draws: int) -> int:
        return max(1, draws // int((self._shares > 0.0).sum()))

    @property
    def _limits(self) -> dict[str, Any]:
        posts, n = self.posteriors, len(self.posteriors)
        parts = [post._limits for post in posts]
        limits = {"target": "order-modular", "engine": self.engine, "support": f"{n} imputed tables"}
        known: dict[str, Any] = {"tables": n, "tables_after_weighting": self._n_effective}
        for name, worst in (("r_hat", max), ("effective_orders", min)):
            found = [part[name] for part in parts if name in part]
            known |= {name: worst(found)} if found else {}
        restricted = [name for name in self.names if any(name in post.scores.restricted for post in posts)]
        if restricted:
            known["candidates"] = f"restricted for {', '.join(restricted)}"
        if given := in_words(self.names, self.evidence):
            known["given"] = given
        return limits | known

    def _answer(
        self, name: str, values: Any, coords: Mapping[str, Sequence[Any]], exactness: str = "exact", **attrs: Any
    ) -> "xr.DataArray":
        of_one = self.posteriors[0]._answer(name, 0.0, {}, exactness).attrs["exactness"]
        return labelled(name, values, coords, limited(of_one, GIVEN_TABLES), **self._limits | attrs)

    def _asked(
        self, name: str, ask: Callable[[Any], Any], coords: Mapping[str, Sequence[Any]], **attrs: Any
    ) -> "xr.DataArray":
        values = self._values(ask)
        mean = self._mean(values)
        return self._answer(name, mean, coords, **self._spread(values, mean) | attrs)

    def _averaged(self, ask: Callable[[DagPosterior], "xr.DataArray"]) -> "xr.DataArray":
        """The mean of labelled answers of all tables."""
        answers = [ask(post) for post in each(self._that_count)]
        values, first = [answer.values for answer in answers], answers[0]
        mean = self._mean(values)
        coords = {str(dim): list(first[dim].values) for dim in first.dims}
        kept = {name: first.attrs[name] for name in ("cause", "effect") if name in first.attrs}
        exactness = first.attrs["exactness"]
        return self._answer(str(first.name), mean, coords, exactness, **self._spread(values, mean), **kept)

    def _drawn(
        self, draws: int, random_seed: Seed, ask: Callable[[DagPosterior, int, np.random.Generator], "xr.DataArray"]
    ) -> "xr.DataArray":
        """Draws of all tables by their shares, in random order."""
        import xarray as xr

        n = count("draws", draws, bytes_each=len(self.names) * (len(self.names) + 16.0))
        rng = np.random.default_rng(random_seed)
        table = rng.choice(len(self.posteriors), n, p=self._shares)
        parts = [ask(self.posteriors[m], int((table == m).sum()), rng) for m in each(np.unique(table))]
        drawn = xr.concat(parts, "draw", coords="different", compat="equals", join="exact", combine_attrs="drop")
        drawn = drawn.isel(draw=np.argsort(np.argsort(table, kind="stable")))
        drawn = drawn.assign_coords(draw=np.arange(n), table=("draw", table))
        kept = {name: parts[0].attrs[name] for name in ("cause", "effect") if name in parts[0].attrs}
        return drawn.assign_attrs(self._answer("draws", 0.0, {}, SIMULATION, **kept).attrs)
