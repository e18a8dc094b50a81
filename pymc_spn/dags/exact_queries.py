"""What an order posterior answers by sums over its support: edges, parent sets, orders."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.dag import DAG
from pymc_spn.dags.edge_summaries import consensus_of_edges, table_of_edges
from pymc_spn.dags.labelled_answers import (
    Edges,
    Evidence,
    Given,
    clashes,
    count,
    joined,
    most_probable_first,
    read_evidence,
)
from pymc_spn.dags.order_queries import OrderQueries
from pymc_spn.dags.order_sample import must_stand_before
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.numerics.graph_pictures import svg_of_edges
from pymc_spn.numerics.html_repr import Listed
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


MOST_FOR_PICTURE = 1 << 24  # parent sets: a second of edge probabilities, for an object that is only shown


class MaximumAPosteriori(NamedTuple):
    """The most probable pair of order and graph."""

    graph: DAG
    order: tuple[str, ...]
    log_probability: float


class ExactQueries(OrderQueries):
    """Queries of `OrderSPN` that draw nothing."""

    def _listed(self) -> Listed | None:
        return self.scores._listed()

    def _picture(self) -> str:
        if self._n_scores > MOST_FOR_PICTURE:
            return ""
        return svg_of_edges(self.names, self.edge_probabilities(progressbar=False).values)

    @property
    def _n_scores(self) -> int:
        """Parent sets over which `edge_probabilities` sums."""
        return int(self.scores.log_scores.size)

    # ---- edges and parent sets

    def edge_probabilities(self, given: Given | None = None, progressbar: bool = True) -> "xr.DataArray":
        """Posterior probability of every edge, (parent, child).

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
            answer: xr.DataArray = asked._asked("edge_probability", lambda post: post._passes.edges(), coords)
            return with_left_out(asked, answer)

    def edge_table(self, least: float = 0.0, given: Given | None = None, progressbar: bool = True) -> "pd.DataFrame":
        """Edges and their probabilities as a table, most probable first.

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
        """One graph: the edges above a threshold, without those that would close a cycle.

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
            values = asked._value(lambda post: post._passes.edges())
            coords = {"parent": self.names, "child": self.names}
            edges = with_left_out(asked, asked._answer("edge_probability", values, coords))
            return consensus_of_edges(self.names, edges.values, threshold)

    def probability(
        self,
        present: Edges | None = None,
        absent: Edges | None = None,
        given: Given | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Probability that some edges are present and others absent.

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
            both = joined(asked.evidence, refuse_left_out(self.scores, read_evidence(self.names, present, absent)))
            if clashes(both):
                return self._scalar("probability", 0.0)
            told = asked._with(both)
            value = min(float(np.exp(told._log_total - asked._log_total)), 1.0)
            return self._answer("probability", value, {}, **asked._ratio_errors(told, value))

    def parent_set_probabilities(
        self, child: str, most: int | None = 50, given: Given | None = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Posterior of the parent sets of one variable, most probable first.

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
            If there is no such variable, or `most` is not an integer of at least 1; as for `edge_probabilities`.

        Examples
        --------
        >>> dags.parent_set_probabilities("debt", most=2).dims
        ('parents',)
        """
        with self._under(given, progressbar) as asked:
            i = self.scores.position(child)
            table = asked._value(lambda post: post._passes.parent_sets(i))
            shown = table.size if most is None else min(count("most", most), table.size)
            best = most_probable_first(table, shown)
            labels = [", ".join(self.scores.parents_of_index(i, m)) or "(none)" for m in best]
            marks = {"child": self.names[i], "shown": float(table[best].sum())}
            of_best = {"parents": labels}
            return asked._asked("parent_set_probability", lambda p: p._passes.parent_sets(i)[best], of_best, **marks)

    # ---- orders

    def before_probabilities(self, given: Given | None = None, progressbar: bool = True) -> "xr.DataArray":
        """Probability that one variable stands before another in the order.

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
            found: np.ndarray = post.lattice.before(post._lattice_passes.edge)
            return np.minimum(found, 1.0)  # a sum that should be one may round above it

        with self._under(given, progressbar) as asked:
            answer: xr.DataArray = asked._asked("before_probability", ask, {"before": self.names, "after": self.names})
        return answer

    def order_probability(self, order: Sequence[str], given: Given | None = None) -> "xr.DataArray":
        """Probability of one complete order, zero outside the support.

        Parameters
        ----------
        order : sequence of str
            Every variable once, from first to last.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.

        Returns
        -------
        DataArray
            A scalar.

        Raises
        ------
        ValueError
            If `order` lacks a variable or holds another; as for `edge_probabilities`.

        Examples
        --------
        >>> exact = ps.OrderSPN.exact(scores)
        >>> round(float(exact.order_probability(["age", "income", "debt"])), 2)
        0.18
        """
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise TypeError(f"order must be a sequence of names, from first to last, got {quoted(order)}")
        order = [as_name(name) for name in order]
        if len(order) != self.scores.d or set(order) != set(self.names):
            raise ValueError(f"order must hold every variable once, got {quoted(order)}")
        asked = self._given(given)
        log_weight = asked._log_weight([self.scores.position(name) for name in order])
        return asked._scalar("order_probability", float(np.exp(log_weight - asked._log_total)))

    def most_probable(self, given: Given | None = None, progressbar: bool = True) -> MaximumAPosteriori:
        """The most probable pair of order and graph.

        All pairs of one graph are equally probable, so its graph is that of the highest score. The graph with the
        largest probability here is another one: it is counted once for each of its orders. Of sampled orders it is the
        best that is found by moving one variable at a time, from the 50 best orders: no proof that there is no better.
        The highest score need not be nearest to the truth: `consensus` is nearer on average.

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        MaximumAPosteriori
            ``graph`` (a `DAG`), ``order`` (names from first to last) and ``log_probability`` of the pair, in nats: NaN
            for sampled orders, which do not know their log evidence. Graphs of one class have the same score under BGe
            or BDeu and an edge penalty, so arrows may be arbitrary: ``graph.cpdag()`` shows which.

        Examples
        --------
        >>> best = dags.most_probable()
        >>> best.graph.names
        ('age', 'income', 'debt')
        """
        from pymc_spn.dags.drawing import most_probable

        with self._under(given, progressbar) as asked:
            order, graph, log_weight = most_probable(asked)
            names = tuple(self.names[i] for i in order)
            log_total = np.nan if asked.kind == "orders" else asked._log_total  # of sampled orders it is not known
            return MaximumAPosteriori(DAG(self.names, graph), names, float(log_weight - log_total))


def refuse_left_out(scores: ParentSetScores, evidence: Evidence) -> Evidence:
    """The evidence, if no present edge was left out as improbable.

    Raises
    ------
    ValueError
        It names the first edge that was.
    """
    if scores.outside is None:
        return evidence
    for child, mask in enumerate(evidence[0]):
        for parent in bits_of(mask & ~scores.candidate_sets[child]):
            if not np.isnan(scores.outside[parent, child]):
                one, other = scores.names[parent], scores.names[child]
                raise ValueError(
                    f"present names {one!r} -> {other!r}, but {one!r} is not a candidate parent of {other!r} (its "
                    f"probability is about {scores.outside[parent, child]:.2g}); score more of them with "
                    "max_candidates="
                )
    return evidence


def with_left_out(post: Any, edges: "xr.DataArray") -> "xr.DataArray":
    """Edge probabilities of a posterior, with the estimates of edges that were left out and may still be there.

    The standard errors of these are not known, nor that of an edge that no sampled order allows.
    """
    scores, evidence = post.scores, post.evidence
    told = [present | absent for present, absent in zip(*evidence, strict=True)]
    possible = ~np.array([[mask >> j & 1 for mask in told] for j in range(scores.d)], bool)
    before = must_stand_before(post._leaf_tables)
    possible &= ~(scores.must_precede if before is None else before)  # of what stands in front nothing is a child
    mcse = edges.attrs.get("mcse")
    if mcse is not None:
        mcse = np.where(possible & (edges.values == 0.0) & (scores.slots.T >= 0), np.nan, mcse)
        edges = edges.assign_attrs(mcse=mcse)
    if scores.outside is None:
        return edges
    estimated = ~np.isnan(scores.outside) & possible
    mcse = np.where(estimated, np.nan, 0.0 if mcse is None else mcse)
    values = np.where(estimated, scores.outside, edges.values)
    return edges.copy(data=values).assign_attrs(exactness="monte-carlo", mcse=mcse)
