"""Posterior over orders and graphs as a tractable object: built once, asked often."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.dags.effect_queries import EffectQueries
from pymc_spn.dags.exact_queries import ExactQueries, refuse_left_out
from pymc_spn.dags.labelled_answers import (
    Edges,
    Evidence,
    Given,
    Seed,
    clashes,
    in_words,
    joined,
    labelled,
    read_evidence,
    read_given,
)
from pymc_spn.dags.local_scores import LocalScores, check_scores
from pymc_spn.dags.order_queries import ASKING
from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.marks import ON_SUPPORT, limited
from pymc_spn.numerics.progress_bars import ProgressBar, counted
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.dags.leaf_tables import BaseTables
    from pymc_spn.dags.passes import FullPasses, LatticePasses
    from pymc_spn.dags.prefix_lattice import PrefixLattice
    from pymc_spn.dags.regular_tree import RegularTree


class OrderSPN(ExactQueries, EffectQueries):
    """Posterior over pairs of order and graph, p(order, graph | data) ∝ ∏ exp score_i(parents of i), on a support.

    Each pair of an order and a graph that fits it counts once, so a graph is weighted by the number of its orders: the
    order-modular posterior. Made by `exact` (all orders) or `regular` (the paper's tree). On its support the object is
    the posterior itself. Answers of `exact` are therefore "exact", those of `regular` "exact on the support". There
    ``attrs["coverage"]`` estimates which share of the whole posterior over orders the support holds, and
    ``attrs["coverage_se"]`` is its standard error.

    Parameters
    ----------
    scores : LocalScores
    lattice : PrefixLattice or None
        The support; None for all orders.
    kind : {"exact", "regular"}
    evidence : pair of tuples of int, optional
        By child: parents that are present, and absent, as bits.
    tables : BaseTables, optional
        Shared with the object that this one is a condition of.
    measured : pair of float, optional
        Coverage of the support, without evidence, and its standard error.

    Examples
    --------
    >>> support = ps.OrderSPN.exact(scores)
    >>> round(float(support.probability(present=[("income", "debt")])), 1)
    0.5

    References
    ----------
    Koivisto and Sood (2004), JMLR 5:549-573; Wang, Wicker and Kwiatkowska (2022), arXiv:2204.14170.
    """

    def __init__(
        self,
        scores: LocalScores,
        lattice: "PrefixLattice | None",
        kind: str,
        evidence: Evidence | None = None,
        tables: "BaseTables | None" = None,
        measured: tuple[float, float] | None = None,
    ) -> None:
        from pymc_spn.dags.leaf_tables import BaseTables

        self.scores, self._lattice, self.kind = scores, lattice, kind
        self.evidence = ((0,) * scores.d, (0,) * scores.d) if evidence is None else evidence
        self._tables = BaseTables(scores) if tables is None else tables
        self._measured = measured
        self._unconditioned: OrderSPN | None = None

    # ---- making

    @classmethod
    def exact(cls, scores: LocalScores, max_gigabytes: float = 8.0, progressbar: bool = True) -> "OrderSPN":
        """Posterior over all orders, by dynamic programming over prefixes.

        Parameters
        ----------
        scores : LocalScores
        max_gigabytes : float
            Refused if more memory would be needed. Without tiers or required edges there are 2^d prefixes.
        progressbar : bool
            Show a bar once it has taken a second.

        Returns
        -------
        OrderSPN

        Raises
        ------
        ValueError
            If it would need more memory; the message says how much. Or if no order gives every variable a possible
            parent set.

        Examples
        --------
        >>> ps.OrderSPN.exact(scores).names
        ('age', 'income', 'debt')
        """
        from pymc_spn.dags.passes import SUMS_TO_AND_FROM
        from pymc_spn.dags.prefix_lattice import exact_lattice

        check_scores(scores)
        with ProgressBar("Summing over orders", scores.d + SUMS_TO_AND_FROM * scores.d, progressbar) as bar:
            post = cls(scores, exact_lattice(scores, max_gigabytes), "exact")
            post._tables.bar = bar
            if post._log_total == -np.inf:  # the work of building
                raise ValueError("scores: no order was found in which every variable has a possible parent set")
        return post

    @classmethod
    def regular(
        cls,
        scores: LocalScores,
        expansion_factors: Sequence[int],
        oracle: str = "order_mcmc",
        random_seed: Seed = None,
        data: TableLike | None = None,
        dibs: Mapping[str, object] | None = None,
        progressbar: bool = True,
    ) -> "OrderSPN":
        """The paper's network: a tree in which every level halves the variables, with closed-form weights.

        For comparison with the paper: `DagPosterior.from_data` sums over all orders, or samples them.

        Parameters
        ----------
        scores : LocalScores
        expansion_factors : sequence of int
            Splits of each sum, from the root down; ceil(log2 d) entries. A sum with fewer possible splits has them all.
        oracle : {"order_mcmc", "partition_mcmc", "random", "dibs"}
            Who proposes splits. Scopes of up to four variables are enumerated and their best splits kept, except by
            "random". "dibs" needs the package ``dibs-lib``. It runs once, and deeper nodes are split by its orders
            restricted to their scope. The paper would run it again.
        random_seed : int, Generator or None
        data : DataFrame or array, optional
            For "dibs": the rows that the scores were made from.
        dibs : mapping, optional
            For "dibs": ``n_particles`` (30) and ``steps`` (3000).
        progressbar : bool
            Show a bar if growing takes longer than a second. Each level of splits is an equal part of it.

        Returns
        -------
        OrderSPN

        Warns
        -----
        CoverageWarning
            If the tree holds less than half of the posterior over orders. That share is estimated by 200 orders of 40
            Gibbs chains over all orders. The chains have the candidate parents of `scores` as well, so what these leave
            out is not in it.

        Examples
        --------
        >>> ps.OrderSPN.regular(scores, [2, 2], random_seed=1).names
        ('age', 'income', 'debt')

        References
        ----------
        Wang, Wicker and Kwiatkowska (2022), arXiv:2204.14170, sections 4.2 and 5.1.
        """
        from pymc_spn.dags.regular_growth import grow, measure

        check_scores(scores)
        rng = np.random.default_rng(random_seed)
        tree = grow(scores, expansion_factors, oracle, rng, data, None if dibs is None else dict(dibs), progressbar)
        return measure(cls(scores, tree.paths, "regular"), rng)

    @property
    def tree(self) -> "RegularTree":
        """The tree behind `regular`: its sizes, number of orders, weights and other forms.

        Examples
        --------
        >>> ps.OrderSPN.regular(scores, [2, 2], random_seed=1).tree.n_orders()
        4
        """
        from pymc_spn.dags.regular_tree import TreePaths

        if not isinstance(self._lattice, TreePaths):
            raise ValueError(f"only OrderSPN.regular has a tree; this one is of kind {self.kind!r}")
        return self._lattice.tree

    # ---- what it is

    @cached_property
    def lattice(self) -> "PrefixLattice":
        """The support as an explicit lattice of prefixes.

        Examples
        --------
        >>> dags.lattice
        PrefixLattice(3 variables, 8 prefixes, 12 edges)
        """
        from pymc_spn.dags.prefix_lattice import PrefixLattice

        if self._unconditioned is not None:
            return self._unconditioned.lattice
        return PrefixLattice.all_prefixes(self.scores.d) if self._lattice is None else self._lattice

    @cached_property
    def log_mass(self) -> "xr.DataArray":
        """Log of the summed weight of all pairs of order and graph on the support that agree with the evidence.

        For `exact` this is log Z, the log evidence with a prior that is not normalised. So it does not compare priors,
        as `dag_log_evidence` does.

        Examples
        --------
        >>> exact = ps.OrderSPN.exact(scores)
        >>> float(exact.condition(present=[("income", "debt")]).log_mass) < float(exact.log_mass)
        True
        """
        return self._scalar("log_mass", self._log_total)

    def _facts(self) -> Facts:
        size = "all orders" if self._lattice is None else f"{self._lattice.n_prefixes:,} prefixes"
        given, covered = in_words(self.names, self.evidence), ""
        if self._measured is not None:
            covered = "coverage {:.3f} ± {:.3f}".format(*self._measured) + (" without what is given" if given else "")
        facts = {"variables": f"{self.scores.d} variables", "support": size, "mass": f"log mass {self._log_total:.3f}"}
        facts |= {"coverage": covered, "given": f"given {given}" if given else ""}
        return Facts(type(self).__name__, facts, self.kind)

    def condition(
        self, present: Edges | None = None, absent: Edges | None = None, progressbar: bool = True
    ) -> "OrderSPN":
        """The posterior given that some edges are present and others absent.

        Parameters
        ----------
        present, absent : sequence of (parent, child), optional
            Pairs of names.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        OrderSPN
            On the same support; what was known before is still known.

        Raises
        ------
        ValueError
            If that has probability zero on the support, or an edge names no variable or leads to its own parent.

        Examples
        --------
        >>> known = dags.condition(present=[("income", "debt")])
        >>> round(float(known.probability(present=[("income", "debt")])), 6)
        1.0
        """
        both = joined(self.evidence, refuse_left_out(self.scores, read_evidence(self.names, present, absent)))
        with counted(ASKING, progressbar):
            post = self._with(both)
            if clashes(both) or post._log_total == -np.inf:
                raise ValueError(f"the evidence has probability zero: {in_words(self.names, both)}")
            return post

    # ---- files

    def _saved(self) -> "xr.DataTree":
        from pymc_spn.dags.storage import to_tree

        return to_tree(self)

    @classmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Any:
        from pymc_spn.dags.storage import from_tree

        return from_tree(tree)

    # ---- below the surface

    def _with(self, evidence: Evidence) -> "OrderSPN":
        """The same support under other evidence; tables and lattice are shared."""
        if evidence == self.evidence:
            return self
        post = type(self)(self.scores, self._lattice, self.kind, evidence, self._tables, self._measured)
        post._unconditioned = self if self._unconditioned is None else self._unconditioned
        return post

    def _given(self, given: Given | None) -> "OrderSPN":
        evidence = joined(self.evidence, refuse_left_out(self.scores, read_given(self.names, given)))
        post = self._with(evidence)
        if post is not self and (clashes(evidence) or post._log_total == -np.inf):
            raise ValueError(f"given has probability zero: {in_words(self.names, evidence)}")
        return post

    @cached_property
    def _leaf_tables(self) -> Any:
        from pymc_spn.dags.leaf_tables import LeafTables

        return LeafTables(self._tables, *self.evidence)

    @cached_property
    def _passes(self) -> "FullPasses | LatticePasses":
        """The cheapest passes that are exact: over all prefixes at once, or over the explicit lattice."""
        from pymc_spn.dags.passes import FullPasses

        if self._lattice is None:
            passes = FullPasses(self._leaf_tables)
            if passes.exact:
                return passes
        return self._lattice_passes

    @cached_property
    def _lattice_passes(self) -> "LatticePasses":
        from pymc_spn.dags.passes import LatticePasses, passes_of

        if self._unconditioned is None:
            return passes_of(self.scores, self.lattice, self._leaf_tables)
        first = self._unconditioned._lattice_passes
        return LatticePasses(self.lattice, first.index, self._leaf_tables, first.weights)

    @property
    def _log_total(self) -> float:
        if clashes(self.evidence) or not self._leaf_tables.possible:
            return -np.inf
        return self._passes.log_total

    def _holds(self, orders: np.ndarray) -> np.ndarray:
        return np.ones(len(orders), bool) if self._lattice is None else self._lattice.holds(orders)

    def _log_weight(self, order: list[int]) -> float:
        from pymc_spn.dags.order_mcmc_kernels import order_log_weights

        orders, log_weight = np.array([order]), np.full(1, -np.inf)
        if self._holds(orders)[0]:
            sums = self._leaf_tables.flat_log_sums()
            order_log_weights(orders, self.scores.slots, self.scores.offsets, sums, log_weight)
        return float(log_weight[0])

    @property
    def _limits(self) -> dict[str, Any]:
        """What every answer says of the posterior that it belongs to."""
        limits: dict[str, Any] = {
            "target": "order-modular",
            "score": self.scores.score,
            "prior": self.scores.prior,
            "support": "all orders" if self.kind == "exact" else f"regular, log mass {self._log_total:.6f}",
        }
        if self._measured is not None:
            limits["coverage"], limits["coverage_se"] = self._measured
        if self.scores.restricted:
            limits["candidates"] = self.scores.choice
        if given := in_words(self.names, self.evidence):
            limits["given"] = given
        return limits

    def _answer(
        self, name: str, values: Any, coords: Mapping[str, Sequence[Any]], exactness: str = "exact", **attrs: Any
    ) -> "xr.DataArray":
        mark = exactness if self.kind == "exact" else limited(exactness, ON_SUPPORT)
        return labelled(name, values, coords, mark, **self._limits | attrs)

    def _asked(
        self, name: str, ask: Callable[[Any], Any], coords: Mapping[str, Sequence[Any]], **attrs: Any
    ) -> "xr.DataArray":
        """The answer ``ask(self)``, with its standard errors where it has any."""
        values = self._value(ask)
        return self._answer(name, values, coords, **self._errors(values, ask) | attrs)

    def _value(self, ask: Callable[[Any], Any]) -> Any:
        """The answer alone."""
        return ask(self)

    def _errors(self, found: Any, ask: Callable[[Any], Any]) -> dict[str, Any]:
        """Standard errors of what was found by a question: none of an answer from a sum over orders."""
        return {}

    def _ratio_errors(self, told: Self, value: float) -> dict[str, Any]:
        """As `_errors`, of the probability of what `told` knows beyond this."""
        return {}
