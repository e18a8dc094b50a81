"""Questions about graphs and orders, asked of a posterior or of an average over several."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.causal_effects import draw_effects, mean_effects
from pymc_spn.dags.dag import DAG, to_cpdags
from pymc_spn.dags.labelled_answers import (
    Edges,
    Evidence,
    Given,
    Level,
    Seed,
    clashes,
    consensus_of_edges,
    in_words,
    joined,
    labelled,
    read_evidence,
    read_given,
    table_of_edges,
)
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.order_sample import draw, must_stand_before
from pymc_spn.dags.passes import edge_probabilities
from pymc_spn.dags.set_effects import read_setting
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import Listed
from pymc_spn.numerics.marks import SIMULATION
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.records.posterior_of_draws import StoredPosterior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True, eq=False)
class WeightedParts:
    """Posteriors of which another is the mean: stretches of chains over orders, or one for each imputed table.

    Parameters
    ----------
    posteriors : sequence of OrderSPN
        None of a sum over orders, whose answers have no Monte Carlo error.
    log_shares : (n,) float64
        Log of what each counts for, not normalised.
    are_tables : bool
        Whether they are all that there is. Then an answer is the mean of theirs; else they say its error alone.
    """

    posteriors: Sequence[Any]
    log_shares: np.ndarray
    are_tables: bool = False

    @cached_property
    def shares(self) -> np.ndarray:
        """(n,) what each counts for; zeros if none does."""
        top = self.log_shares.max(initial=-np.inf)
        weights = np.exp(self.log_shares - top) if top > -np.inf else np.zeros(self.log_shares.size)
        return weights / max(weights.sum(), 1.0)

    @property
    def n_effective(self) -> float:
        """Effective number of parts."""
        return float(1.0 / np.square(self.shares).sum())

    @property
    def that_count(self) -> np.ndarray:
        """Numbers of the parts with a share."""
        return np.flatnonzero(self.shares)

    def n_of_each(self, draws: int) -> int:
        """How many of so many draws each part has, at least one."""
        return max(1, draws // max(1, self.that_count.size))

    def ask(self, question: Callable[[Any], Any]) -> list[Any]:
        """Answers of the parts that count."""
        return [question(self.posteriors[m]) for m in each(self.that_count)]

    def mean(self, values: Sequence[Any]) -> np.ndarray:
        """Of the answers of the parts that count."""
        shares = self.shares[self.that_count]
        return np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))

    def errors(self, values: Sequence[Any], mean: Any, log_weights: Any = 0.0) -> dict[str, Any]:
        """Standard error of a ratio of means over parts; of tables also the standard deviation between them.

        Parameters
        ----------
        values : sequence of float64 arrays
            Answers of the parts that count.
        mean : float64 array
            The answer to which they belong.
        log_weights : (n,) float64, optional
            Log of what multiplies the share of each of them.

        Returns
        -------
        dict
            Arrays of the shape of `mean`, NaN if fewer than two parts count; empty if there are no parts.
        """
        n = len(self.posteriors)
        if not n:
            return {}
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares[self.that_count]) + log_weights
        shares = np.exp(logs - np.logaddexp.reduce(logs, initial=-np.inf)) if logs.size > 1 else np.full(1, np.nan)
        squares = [np.square(np.asarray(value) - mean) for value in values]
        error = np.asarray(sum(share**2 * square for share, square in zip(shares, squares, strict=False)))
        found = {"mcse": np.sqrt(error * n / max(n - 1, 1))}
        if self.are_tables:
            between = np.asarray(sum(share * square for share, square in zip(shares, squares, strict=False)))
            found["sd_between_tables"] = np.sqrt(between / (1.0 - np.square(shares).sum()))
        return found

    def draw(
        self, n: int, rng: np.random.Generator, ask: Callable[[Any, int], tuple[np.ndarray, ...]]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """What ``ask(part, how many)`` draws of all parts by their shares, in random order, and the part of each."""
        which = rng.choice(len(self.posteriors), n, p=self.shares)
        found = [ask(self.posteriors[m], int((which == m).sum())) for m in each(np.unique(which))]
        place = np.argsort(np.argsort(which, kind="stable"))
        return [np.concatenate(arrays)[place] for arrays in zip(*found, strict=True)], which


ASKING = "Asking the posterior over graphs"  # what its bar says
MOST_FOR_PICTURE = 1 << 24  # parent sets: a second of edge probabilities, for an object that is only shown


class OrderQueries(StoredPosterior):
    """Questions of `OrderSPN` and of averages over several.

    A subclass has `scores` and `evidence`, and says by `_parts` what its answers average, by `_log_total` and `_with`
    how probable evidence is, and by `_limits` and `_marked` what holds of all answers.
    """

    scores: LocalScores
    evidence: Evidence

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables.

        Examples
        --------
        >>> dags.names
        ('age', 'income', 'debt')
        """
        return self.scores.names

    @property
    def _all_scores(self) -> list[LocalScores]:
        return [self.scores]

    def _listed(self) -> Listed | None:
        return self.scores._listed()

    def _picture(self) -> str:
        if sum(scores.log_scores.size for scores in self._all_scores) > MOST_FOR_PICTURE:
            return ""
        return svg_of_edges(self.names, self.edge_probabilities(progressbar=False).values)

    def condition(self, present: Edges | None = None, absent: Edges | None = None, progressbar: bool = True) -> Self:
        """Return the posterior given that some edges are present and others absent.

        Parameters
        ----------
        present, absent : sequence of (parent, child), optional
            Pairs of names.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        OrderSPN or ImputedDagPosterior
            On the same support; what was known before is still known. Each imputed table counts by the probability of
            what it is told.

        Raises
        ------
        ValueError
            If that has probability zero on the support of all tables, or an edge names no variable or leads to its own
            parent.

        Examples
        --------
        >>> known = dags.condition(present=[("income", "debt")])
        >>> round(float(known.probability(present=[("income", "debt")])), 6)
        1.0
        """
        with counted(ASKING, progressbar):
            return self._told(read_evidence(self.names, present, absent), "the evidence")

    # ---- edges and parent sets

    def edge_probabilities(self, given: Given | None = None, progressbar: bool = True) -> "xr.DataArray":
        """Calculate the posterior probability of every edge, (parent, child).

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            Sequences of (parent, child) edges that are known.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (parent, child) float64, zero on the diagonal. Edges whose parent is not a candidate have the estimates of
            `LocalScores.outside`, whatever is given, where there are any: the mark is then "monte-carlo", and ``mcse``
            of these is NaN.

        Raises
        ------
        ValueError
            If `given` has another key, names no variable, or has probability zero on the support.

        Examples
        --------
        >>> edges = dags.edge_probabilities()
        >>> bool(edges.sel(parent="income", child="debt") + edges.sel(parent="debt", child="income") > 0.99)
        True
        """
        with self._under(given, progressbar) as asked:
            coords = {"parent": self.names, "child": self.names}
            exactness = "exact" if self.scores.outside is None else "monte-carlo"
            answer = asked._asked("edge_probability", edges_of, coords, exactness)
            return answer if asked._parts.are_tables else without_errors_of_left_out(asked, answer)

    def edge_table(self, least: float = 0.0, given: Given | None = None, progressbar: bool = True) -> "pd.DataFrame":
        """Return edges and their probabilities as a table, most probable first.

        Parameters
        ----------
        least : float
            Edges of smaller probability are left out.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the data were
            Columns ``parent``, ``child``, ``probability``, ``mcse`` (zero where nothing is sampled) and ``reversed``.
            The last is the probability of the edge from the child to the parent.

        Raises
        ------
        ValueError
            If `least` is not a number from 0 to 1; as for `edge_probabilities`.

        Examples
        --------
        >>> dags.edge_table(least=0.1).columns.tolist()
        ['parent', 'child', 'probability', 'mcse', 'reversed']
        """
        edges = self.edge_probabilities(given, progressbar)
        return table_of_edges(self.names, edges.values, edges.attrs.get("mcse", 0.0), least, self.scores.frame)

    def consensus(self, threshold: float = 0.5, given: Given | None = None, progressbar: bool = True) -> DAG:
        """Return one graph: the edges above a threshold, without cycles.

        Edges enter from the most to the least probable. One that would close a cycle with those before it is left
        out, so a circle loses its weakest edge. The graph sums up `edge_probabilities`; it need not be probable itself.

        Parameters
        ----------
        threshold : float
            From 0 to 1; an edge must be more probable than that.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DAG

        Raises
        ------
        ValueError
            If `threshold` is not a number from 0 to 1; as for `edge_probabilities`.

        Examples
        --------
        >>> dags.consensus(threshold=0.3).names
        ('age', 'income', 'debt')
        """
        with self._under(given, progressbar) as asked:  # without the errors of edges, which take most of the time
            return consensus_of_edges(self.names, asked._value(edges_of), threshold)

    def probability(
        self,
        present: Edges | None = None,
        absent: Edges | None = None,
        given: Given | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Calculate the probability that some edges are present and others absent.

        Parameters
        ----------
        present, absent : sequence of (parent, child), optional
            Pairs of names; those of a cycle have probability zero.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            A scalar.

        Raises
        ------
        ValueError
            If an edge names no variable, leads to its own parent, or is both present and absent; as for
            `edge_probabilities`.

        Examples
        --------
        >>> round(float(dags.probability(present=[("income", "debt")])), 1)
        0.5
        """
        with self._under(given, progressbar) as asked:
            both = asked._and(read_evidence(self.names, present, absent))
            if clashes(both):
                return self._answer("probability", 0.0, {})
            told = asked._with(both)
            value = min(float(np.exp(told._log_total - asked._log_total)), 1.0)
            return self._answer("probability", value, {}, **asked._ratio_errors(told, value))

    def parent_set_probabilities(
        self, child: str, most: int | None = 50, given: Given | None = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Calculate the posterior of the parent sets of one variable.

        Parameters
        ----------
        child : str
        most : int or None
            How many sets are returned, None for all among the candidates.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (parents,) float64, labelled by the sets as text: names with commas between, or "(none)".
            ``attrs["shown"]`` is the probability of those returned.

        Raises
        ------
        ValueError
            If there is no such variable, or `most` is not an integer of at least 1. If imputed tables chose other
            candidate parents of the variable than one another; as for `edge_probabilities`.

        Examples
        --------
        >>> dags.parent_set_probabilities("debt", most=2).dims
        ('parents',)
        """
        with self._under(given, progressbar) as asked:
            i = self.scores.position(child)
            if len({scores.candidate_sets[i] for scores in self._all_scores}) > 1:
                raise ValueError(
                    f"parent_set_probabilities: tables chose other candidate parents of {self.names[i]!r} than one "
                    "another; raise max_candidates"
                )
            table = asked._value(lambda post: post._passes.parent_sets(i))
            shown = table.size if most is None else min(checked_count("most", most, 1), table.size)
            best = np.argsort(-table, kind="stable")[:shown]
            labels = [", ".join(self.scores.parents_of_index(i, m)) or "(none)" for m in best]
            marks: dict[str, Any] = {"child": self.names[i], "shown": float(table[best].sum())}
            of_best = {"parents": labels}
            return asked._asked("parent_set_probability", lambda p: p._passes.parent_sets(i)[best], of_best, **marks)

    # ---- orders

    def before_probabilities(self, given: Given | None = None, progressbar: bool = True) -> "xr.DataArray":
        """Calculate how probably one variable stands before another in the order.

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (before, after) float64, zero on the diagonal.

        Examples
        --------
        >>> before = dags.before_probabilities()
        >>> round(float(before.sel(before="age", after="debt") + before.sel(before="debt", after="age")), 6)
        1.0
        """

        def ask(post: Any) -> np.ndarray:
            return np.minimum(post._passes.before(), 1.0)  # a sum that should be one may round above it

        with self._under(given, progressbar) as asked:
            return asked._asked("before_probability", ask, {"before": self.names, "after": self.names})

    # ---- draws

    def sample(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Draw independent graphs from the posterior.

        Parameters
        ----------
        draws : int
            At least 1.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        random_seed : int, Generator or None
            The same seed gives the same draws.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (draw, parent, child) bool, with the coordinate ``position`` (draw, child): the place of each variable in
            the draw's order, from 0. Of imputed tables also ``table`` (draw).

        Examples
        --------
        >>> dags.sample(4, random_seed=1).dims
        ('draw', 'parent', 'child')
        """
        with self._under(given, progressbar) as asked:
            n = checked_count("draws", draws, 1, bytes_each=self.scores.d * (self.scores.d + 16.0))
            rng = np.random.default_rng(random_seed)
            (orders, graphs), coords = asked._drawn(n, rng, lambda post, m: draw(post, m, rng))
            labels = {"draw": range(n), "parent": self.names, "child": self.names}
            answer = asked._answer("graph", graphs, labels, SIMULATION)
            return answer.assign_coords(position=(("draw", "child"), np.argsort(orders, axis=1)), **coords)

    def equivalence_classes(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.Dataset":
        """Count the Markov equivalence classes of drawn graphs, most frequent first.

        Parameters
        ----------
        draws, given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        Dataset
            ``probability`` (class,) with ``mcse``, and ``cpdag`` (class, parent, child): True both ways where an edge
            may be turned. What the classes share: ``compelled`` (parent, child), the probability that the edge is there
            and the same way in all graphs of the class. ``reversible`` (parent, child), symmetric, the probability that
            the two are joined by an edge that may be turned. Both have ``mcse``. A class is that of the graph alone:
            tiers, which may settle a direction, are not part of it.

        Examples
        --------
        >>> classes = dags.equivalence_classes(draws=200, random_seed=1)  # most frequent first
        """
        import xarray as xr

        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            graphs = asked.sample(draws, None, rng).values
            found, times = np.unique(to_cpdags(graphs), axis=0, return_counts=True)
            order = np.argsort(-times, kind="stable")
            found, p = found[order], times[order] / draws
            place = {cpdag.tobytes(): k for k, cpdag in enumerate(found)}
            names = list(self.names)
            pairs = {"parent": names, "child": names}

            def shares(graphs: np.ndarray) -> tuple[np.ndarray, ...]:
                drawn = to_cpdags(graphs)
                known = [place.get(c.tobytes(), p.size) for c in drawn]
                both = drawn & drawn.swapaxes(1, 2)
                share = np.bincount(known, minlength=p.size + 1)[: p.size] / len(drawn)
                return share, (drawn & ~both).mean(axis=0), both.mean(axis=0)

            words: Any = ("probability", {"class": range(len(p))}), ("compelled", pairs), ("reversible", pairs)
            data: dict[str, Any] = {
                name: asked._answer(name, v, coords, "monte-carlo", mcse=errors["mcse"])
                for (name, coords), (v, errors) in zip(words, asked._of_graphs(graphs, shares, rng), strict=True)
            }
            data["cpdag"] = (("class", "parent", "child"), found)
            return xr.Dataset(data, {"parent": names, "child": names}, {"draws": draws, **asked._limits})

    def ancestor_probabilities(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Estimate how probably a directed path leads from one variable to another.

        Parameters
        ----------
        draws, given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        DataArray
            (ancestor, descendant) float64, zero on the diagonal; the share of draws, with ``mcse`` of the same shape.

        Examples
        --------
        >>> dags.ancestor_probabilities(draws=100, random_seed=1).dims
        ('ancestor', 'descendant')
        """
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)

            def share(graphs: np.ndarray) -> tuple[np.ndarray]:
                reached = graphs.copy()
                for k in range(self.scores.d):
                    reached |= reached[:, :, k, None] & reached[:, None, k, :]
                return (reached.mean(axis=0),)

            ((p, errors),) = asked._of_graphs(asked.sample(draws, None, rng).values, share, rng)
            coords = {"ancestor": self.names, "descendant": self.names}
            return asked._answer("ancestor_probability", p, coords, "monte-carlo", **errors)

    # ---- linear effects

    def causal_effects(
        self, given: Given | None = None, max_gigabytes: float = 8.0, progressbar: bool = True
    ) -> "xr.DataArray":
        """Calculate the exact posterior mean of every total causal effect.

        The change of the effect's mean, in its units, when the cause is set one unit higher. Needs BGe scores.

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        max_gigabytes : float
            Refused if the mean coefficients of all parent sets would need more memory.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (cause, effect) float64, in units of the effect per unit of the cause; one on the diagonal.

        Raises
        ------
        ValueError
            If the scores are not BGe, or more memory would be needed; as for `edge_probabilities`.

        Examples
        --------
        >>> effects = dags.causal_effects()
        >>> effects.dims
        ('cause', 'effect')
        """
        with self._under(given, progressbar) as asked:
            coords = {"cause": self.names, "effect": self.names}
            return asked._asked("causal_effect", mean_effects(max_gigabytes), coords)

    def sample_effects(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Draw all total causal effects: a graph, then coefficients given it.

        Parameters
        ----------
        draws : int
            At least 1.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        random_seed : int, Generator or None
            The same seed gives the same draws.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (draw, cause, effect) float64, in units of the effect per unit of the cause. It is one on the diagonal, and
            zero where no path leads from the cause to the effect.

        Raises
        ------
        ValueError
            If the scores are not BGe.

        Examples
        --------
        >>> dags.sample_effects(5, random_seed=1).dims
        ('draw', 'cause', 'effect')
        """
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            n = checked_count("draws", draws, 1, bytes_each=9.0 * self.scores.d**2)
            (values,), coords = asked._drawn(n, rng, lambda post, m: (draw_effects(post, m, rng),))
            labels = {"draw": range(n), "cause": self.names, "effect": self.names}
            return asked._answer("causal_effect", values, labels, SIMULATION).assign_coords(coords)

    # ---- when a variable is set

    def probabilities_when_set(
        self,
        effect: str,
        cause: str,
        versus: Level | None = None,
        draws: int = 1_000,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Calculate the probabilities of an effect's levels when a variable is set.

        Needs BDeu or `ConditionalGaussian` scores. An average over drawn graphs. In each of them the answer is exact:
        the conditional probabilities are integrated out.

        Parameters
        ----------
        effect, cause : str
            In a conditional Gaussian network a numeric cause changes no probability of levels.
        versus : level or number, optional
            Give differences from the probabilities when the cause is set to this value: risk differences.
        draws, given, random_seed, progressbar
            As in `sample`.
        at : sequence of float, optional
            Values that a numeric cause is set to. A cause with levels is set to each of them.

        Returns
        -------
        DataArray
            (set_to, level) float64: values of the cause by levels of the effect, with ``mcse`` of the same shape.

        Raises
        ------
        ValueError
            If the scores are others, the effect is numeric, or the two are one variable. If `versus` is not a level of
            the cause, or `at` does not fit the cause. As in `sample`.

        Examples
        --------
        >>> mixed = ps.DagPosterior.from_data(full[["job"]].assign(old=full["age"] > 45), ps.BDeu())
        >>> mixed.probabilities_when_set("job", "old", draws=50, random_seed=1).dims
        ('set_to', 'level')
        """
        setting = effect, cause, versus, at, "probability_when_set"
        return self._mean_when_set(setting, draws, given, random_seed, progressbar)

    def mean_when_set(
        self,
        effect: str,
        cause: str,
        versus: Level | None = None,
        draws: int = 1_000,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Calculate the mean of a numeric effect when another variable is set.

        Needs `ConditionalGaussian` scores. An average over drawn graphs. In each of them the answer is exact:
        probabilities, intercepts, coefficients and variances are integrated out.

        Parameters
        ----------
        effect, cause : str
        versus : level or number, optional
            Give differences from the mean when the cause is set to this value.
        draws, given, random_seed, progressbar
            As in `sample`.
        at : sequence of float, optional
            Values that a numeric cause is set to, in which the mean is linear. A cause with levels is set to each of
            them.

        Returns
        -------
        DataArray
            (set_to,) float64 in units of the effect, with ``mcse`` of the same shape.

        Raises
        ------
        ValueError
            If the scores are others, the effect has levels; as `probabilities_when_set`.

        Examples
        --------
        >>> import numpy as np, pandas as pd, pymc_spn as ps
        >>> rng = np.random.default_rng(0)
        >>> drug = rng.integers(2, size=300)
        >>> df = pd.DataFrame({"drug": pd.Categorical(drug), "pain": 5.0 - 2.0 * drug + rng.normal(size=300)})
        >>> post = ps.DagPosterior.from_data(df, ps.ConditionalGaussian())
        >>> post.mean_when_set("pain", "drug", versus=0, random_seed=1).values.round()
        array([ 0., -2.])
        """
        setting = effect, cause, versus, at, "mean_when_set"
        return self._mean_when_set(setting, draws, given, random_seed, progressbar)

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
        """Draw what `probabilities_when_set` or `mean_when_set` averages.

        Parameters
        ----------
        effect, cause, versus, at
            As there.
        draws, given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        DataArray
            (draw, set_to, level) float64 where the effect has levels, else (draw, set_to) in its units.

        Raises
        ------
        ValueError
            As `probabilities_when_set`, but any effect will do.

        Examples
        --------
        >>> mixed = ps.DagPosterior.from_data(full, ps.ConditionalGaussian(), standardize=True)
        >>> mixed.sample_when_set("income", "job", draws=5, random_seed=1).dims
        ('draw', 'set_to')
        """
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            setting = read_setting(self.scores, effect, cause, versus, at)
            n = checked_count("draws", draws, 1, bytes_each=self.scores.d * (self.scores.d + 16.0))

            def ask(post: Any, m: int) -> tuple[np.ndarray]:
                own = read_setting(post.scores, effect, cause, versus, at)  # of its own counts
                return (own.answers(post.sample(m, None, rng).values, rng),)

            (drawn,), coords = asked._drawn(n, rng, ask)
            labels = {"draw": range(n), **setting.coords}
            return asked._answer(setting.name, drawn, labels, SIMULATION, **setting.marks).assign_coords(coords)

    def _mean_when_set(
        self, words: tuple[Any, ...], draws: int, given: Given | None, random_seed: Seed, progressbar: bool
    ) -> "xr.DataArray":
        """Average over graphs of what is exact in each; imputed tables share the draws."""
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            setting = read_setting(self.scores, *words)
            n = checked_count("draws", draws, 2)

            def of_graphs(post: Any, m: int) -> np.ndarray:
                return read_setting(post.scores, *words).answers(post.sample(m, None, rng).values, None)

            parts, of_each = asked._parts, asked._parts.n_of_each(n)
            if parts.are_tables:
                mean, mcse = asked._found(lambda post: of_graphs(post, max(2, of_each)).mean(axis=0))
            else:
                drawn = of_graphs(asked, n)
                mean = drawn.mean(axis=0)
                mcse = asked._errors(mean, lambda post: of_graphs(post, of_each).mean(axis=0)) or {
                    "mcse": drawn.std(axis=0, ddof=1) / np.sqrt(n)
                }
            return asked._answer(
                setting.name, mean, setting.coords, "monte-carlo", given_graph="exact", **mcse, **setting.marks
            )

    # ---- below the surface

    @property
    @abstractmethod
    def _parts(self) -> WeightedParts:
        """What its answers average."""

    @property
    @abstractmethod
    def _log_total(self) -> float:
        """Log probability of the evidence on the support, up to a constant of the posterior."""

    @property
    @abstractmethod
    def _limits(self) -> dict[str, Any]:
        """What every answer says of the posterior that it belongs to."""

    @abstractmethod
    def _with(self, evidence: Evidence) -> Self:
        """The same posterior under other evidence."""

    @abstractmethod
    def _marked(self, exactness: str) -> str:
        """The mark of an answer that is as exact as that on the support."""

    def _and(self, more: Evidence) -> Evidence:
        """More evidence and what is known, if no present edge was left out as improbable."""
        for scores in self._all_scores:
            refuse_left_out(scores, more)
        return joined(self.evidence, more)

    def _told(self, more: Evidence, what: str) -> Self:
        """The same posterior under more evidence, which must be possible."""
        evidence = self._and(more)
        post = self._with(evidence)
        if post is not self and (clashes(evidence) or post._log_total == -np.inf):
            raise ValueError(f"{what} has probability zero: {in_words(self.names, evidence)}")
        return post

    def _given(self, given: Given | None) -> Self:
        return self._told(read_given(self.names, given), "given")

    @contextmanager
    def _under(self, given: Given | None, progressbar: bool) -> Iterator[Self]:
        """The posterior under what is given, with a bar for what it is asked."""
        with counted(ASKING, progressbar):
            yield self._given(given)

    def _value(self, ask: Callable[[Any], Any]) -> np.ndarray:
        """The answer to a question that an `OrderSPN` answers."""
        return self._parts.mean(self._parts.ask(ask)) if self._parts.are_tables else np.asarray(ask(self))

    def _errors(self, found: Any, ask: Callable[[Any], Any]) -> dict[str, Any]:
        """Standard errors of an answer, from those of the parts."""
        return self._parts.errors(self._parts.ask(ask), found)

    def _found(self, ask: Callable[[Any], Any]) -> tuple[np.ndarray, dict[str, Any]]:
        """The answer and its standard errors, where it has any."""
        value = None if self._parts.are_tables else self._value(ask)  # before the parts, as it may be refused
        of_parts = self._parts.ask(ask)
        value = self._parts.mean(of_parts) if value is None else value
        return value, self._parts.errors(of_parts, value)

    def _ratio_errors(self, told: Self, value: float) -> dict[str, Any]:
        """Standard errors of the probability of what `told` knows beyond this."""
        known = self._parts.that_count
        logs = told._parts.log_shares[known] - self._parts.log_shares[known]
        return self._parts.errors(np.exp(logs), value)

    def _of_graphs(
        self, graphs: np.ndarray, shares: Callable[[np.ndarray], tuple[np.ndarray, ...]], rng: np.random.Generator
    ) -> list[tuple[np.ndarray, dict[str, Any]]]:
        """Shares of drawn graphs that have something, each with its standard errors: those of the parts, if any."""
        values, n = shares(graphs), self._parts.n_of_each(len(graphs))
        of_parts = self._parts.ask(lambda post: shares(post.sample(n, None, rng).values))
        alone = [{"mcse": np.sqrt(p * (1 - p) / len(graphs))} for p in values]
        errors = [self._parts.errors([found[k] for found in of_parts], p) or alone[k] for k, p in enumerate(values)]
        return list(zip(values, errors, strict=True))

    def _drawn(
        self, n: int, rng: np.random.Generator, ask: Callable[[Any, int], tuple[np.ndarray, ...]]
    ) -> tuple[Sequence[np.ndarray], dict[str, Any]]:
        """What ``ask(post, how many)`` draws, and the coordinate of its tables where there are any."""
        if not self._parts.are_tables:
            return ask(self, n), {}
        arrays, which = self._parts.draw(n, rng, ask)
        return arrays, {"table": ("draw", which)}

    def _answer(
        self, name: str, values: Any, coords: Mapping[str, Sequence[Any]], exactness: str = "exact", **attrs: Any
    ) -> "xr.DataArray":
        """A labelled answer with its marks."""
        return labelled(name, values, coords, self._marked(exactness), **self._limits | attrs)

    def _asked(
        self,
        name: str,
        ask: Callable[[Any], Any],
        coords: Mapping[str, Sequence[Any]],
        exactness: str = "exact",
        **attrs: Any,
    ) -> "xr.DataArray":
        """The labelled answer to a question that an `OrderSPN` answers, with its standard errors."""
        values, errors = self._found(ask)
        return self._answer(name, values, coords, exactness, **errors | attrs)


def refuse_left_out(scores: LocalScores, evidence: Evidence) -> None:
    """Refuse evidence with a present edge that was left out as improbable.

    Raises
    ------
    ValueError
        It names the first edge that was.
    """
    if scores.outside is None:
        return
    for child, mask in enumerate(evidence[0]):
        for parent in bits_of(mask & ~scores.candidate_sets[child]):
            if not np.isnan(scores.outside[parent, child]):
                one, other = scores.names[parent], scores.names[child]
                raise ValueError(
                    f"present names {one!r} -> {other!r}, but {one!r} is not a candidate parent of {other!r} (its "
                    f"probability is about {scores.outside[parent, child]:.2g}); score more of them with "
                    "max_candidates="
                )


def possible_edges(post: Any) -> np.ndarray:
    """(d, d) bool: whether neither evidence nor tiers tell of an edge from one variable to another."""
    scores, evidence = post.scores, post.evidence
    told = [present | absent for present, absent in zip(*evidence, strict=True)]
    possible = ~np.array([[mask >> j & 1 for mask in told] for j in range(scores.d)], bool)
    before = must_stand_before(post._leaf_tables)
    return possible & ~(scores.must_precede if before is None else before)  # of what stands in front nothing is a child


def edges_of(post: Any) -> np.ndarray:
    """(d, d) edge probabilities of an `OrderSPN`, with the estimates of edges that were left out and may be there."""
    edges = edge_probabilities(post._passes)
    outside = post.scores.outside
    return edges if outside is None else np.where(~np.isnan(outside) & possible_edges(post), outside, edges)


def without_errors_of_left_out(post: Any, edges: "xr.DataArray") -> "xr.DataArray":
    """Edge probabilities of an `OrderSPN`, without standard errors that are not known.

    Those are the errors of edges that were left out, and of edges that no sampled order allows.
    """
    scores, mcse, possible = post.scores, edges.attrs.get("mcse"), possible_edges(post)
    if mcse is not None:
        mcse = np.where(possible & (edges.values == 0.0) & (scores.slots.T >= 0), np.nan, mcse)
        edges = edges.assign_attrs(mcse=mcse)
    if scores.outside is None:
        return edges
    mcse = np.where(~np.isnan(scores.outside) & possible, np.nan, 0.0 if mcse is None else mcse)
    return edges.assign_attrs(exactness="monte-carlo", mcse=mcse)
