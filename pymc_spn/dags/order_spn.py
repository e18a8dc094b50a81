"""Posterior over orders and graphs as a tractable object: built once, asked often, saved."""

import json
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

import numpy as np

from pymc_spn.dags.dag import DAG, refuse_wide
from pymc_spn.dags.labelled_answers import Evidence, Given, Seed, clashes, in_words, labelled
from pymc_spn.dags.leaf_tables import LeafTables
from pymc_spn.dags.local_scores import Knowledge, LocalScores, Score, StructurePrior, check_scores
from pymc_spn.dags.mcmc_posterior import DagDraws
from pymc_spn.dags.order_queries import OrderQueries, WeightedParts
from pymc_spn.dags.order_sample import LEAST_SHARE, draw_orders, drawn_anew, mixing_of, most_probable
from pymc_spn.dags.parent_set_scores import places_of_orders
from pymc_spn.dags.passes import SUMS_TO_AND_FROM, FullPasses, LatticePasses, Support
from pymc_spn.dags.prefix_lattice import (
    OrderPaths,
    PrefixLattice,
    exact_lattice,
    log_linear_extensions,
    sums_soon,
)
from pymc_spn.dags.regular_tree import RegularTree, TreePaths, grow, measure
from pymc_spn.dags.stored_scores import bit_sets, kept_scores, parts_of_scores, scores_of_parts
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.chain_mixing import Mixing
from pymc_spn.numerics.cluster_clients import check_client
from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.marks import GIVEN_DRAWS, ON_SUPPORT, limited
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.trust_warnings import ConvergenceWarning
from pymc_spn.tables.column import as_name
from pymc_spn.tables.stored_arrays import checked, json_of, refuse
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import distributed
    import xarray as xr

    from pymc_spn.tables.inputs import TableLike

SCOPES = {"exact": "", "regular": ON_SUPPORT, "orders": GIVEN_DRAWS}  # of marks, by the kind of support
KEPT = 16  # samples drawn under evidence that are remembered
NO_PARTS = WeightedParts((), np.empty(0))


class MaximumAPosteriori(NamedTuple):
    """The most probable pair of order and graph."""

    graph: DAG
    order: tuple[str, ...]
    log_probability: float


class OrderSPN(OrderQueries):
    """Posterior over pairs of order and graph, on a support.

    p(order, graph | data) ∝ ∏ exp score_i(parents of i). Each pair of an order and a graph that fits it counts once, so
    a graph is weighted by the number of its orders: the order-modular posterior. Made by `exact` (all orders) or
    `regular` (the paper's tree). On its support the object is the posterior itself. Answers of `exact` are therefore
    "exact", those of `regular` "exact on the support". There ``attrs["coverage"]`` estimates which share of the whole
    posterior over orders the support holds, and ``attrs["coverage_se"]`` is its standard error.

    Parameters
    ----------
    scores : LocalScores
    lattice : PrefixLattice or None
        The support; None for all orders.
    kind : {"exact", "regular", "orders"}
    evidence : pair of tuples of int, optional
        By child: parents that are present, and absent, as bits.
    tables : LeafTables, optional
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

    _seed = 0  # of samples under evidence

    def __init__(
        self,
        scores: LocalScores,
        lattice: PrefixLattice | None,
        kind: str,
        evidence: Evidence | None = None,
        tables: LeafTables | None = None,
        measured: tuple[float, float] | None = None,
    ) -> None:
        self.scores, self._lattice, self.kind = scores, lattice, kind
        self.evidence = ((0,) * scores.d, (0,) * scores.d) if evidence is None else evidence
        self._tables = LeafTables(scores) if tables is None else tables
        self._measured = measured
        self._orders = Support(scores, lattice)

    # ---- making

    @classmethod
    def exact(cls, scores: LocalScores, max_gigabytes: float = 8.0, progressbar: bool = True) -> "OrderSPN":
        """Sum over all orders, by dynamic programming over prefixes.

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
        progressbar: bool = True,
    ) -> "OrderSPN":
        """Grow the paper's network: a tree whose levels halve the variables.

        For comparison with the paper: `DagPosterior.from_data` sums over all orders, or samples them.

        Parameters
        ----------
        scores : LocalScores
        expansion_factors : sequence of int
            Splits of each sum, from the root down; ceil(log2 d) entries. A sum with fewer possible splits has them all.
        oracle : {"order_mcmc", "partition_mcmc", "random"}
            Who proposes splits. Scopes of up to four variables are enumerated and their best splits kept, except by
            "random".
        random_seed : int, Generator or None
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
        check_scores(scores)
        rng = np.random.default_rng(random_seed)
        tree = grow(scores, expansion_factors, oracle, rng, progressbar)
        return measure(cls(scores, tree.paths, "regular"), rng)

    @property
    def tree(self) -> RegularTree:
        """The tree behind `regular`: its sizes, number of orders, weights and other forms.

        Examples
        --------
        >>> ps.OrderSPN.regular(scores, [2, 2], random_seed=1).tree.n_orders()
        4
        """
        if not isinstance(self._lattice, TreePaths):
            raise ValueError(f"only OrderSPN.regular has a tree; this one is of kind {self.kind!r}")
        return self._lattice.tree

    # ---- what it is

    @property
    def lattice(self) -> PrefixLattice:
        """The support as an explicit lattice of prefixes.

        Examples
        --------
        >>> dags.lattice
        PrefixLattice(3 variables, 8 prefixes, 12 edges)
        """
        return self._orders.explicit[0]

    @property
    def log_mass(self) -> "xr.DataArray":
        """Log of the summed weights of order and graph that agree with the evidence.

        For `exact` this is log Z, the log evidence with a prior that is not normalised. So it does not compare priors,
        as `dag_log_evidence` does. Sampled orders do not know it.

        Raises
        ------
        ValueError
            For sampled orders.

        Examples
        --------
        >>> float(dags.condition(present=[("income", "debt")]).log_mass) < float(dags.log_mass)
        True
        """
        if self._paths is not None:
            raise ValueError(
                "log_mass: a sample of orders does not know the log evidence; ps.OrderSPN.exact(scores) does"
            )
        return self._answer("log_mass", self._log_total, {})

    def _facts(self) -> Facts:
        given = in_words(self.names, self.evidence)
        facts = {"variables": f"{self.scores.d} variables"}
        if self._paths is not None:
            facts["draws"] = self._support()
        else:
            size = "all orders" if self._lattice is None else f"orders with {self._lattice.n_prefixes:,} prefixes"
            facts |= {"support": size, "mass": f"log mass {self._log_total:.3f}"}
            if self._measured is not None:
                alone = " before the condition" if given else ""
                facts["coverage"] = "coverage {:.3f} ± {:.3f}".format(*self._measured) + alone
        facts["given"] = f"given {given}" if given else ""
        return Facts(type(self).__name__, facts, self.kind if self._paths is None else "")

    def _support(self) -> str:
        if self._paths is None:
            return "all orders" if self.kind == "exact" else f"regular, log mass {self._log_total:.6f}"
        n_chains, n_draws, _ = self._paths.orders.shape
        size = f"effective size {self._n_effective:,.0f}"
        return f"{n_chains * n_draws:,} orders of {n_chains} chains, R-hat of edges {self._paths.r_hat:.2f}, {size}"

    # ---- questions of one posterior alone

    def order_probability(self, order: Sequence[str], given: Given | None = None) -> "xr.DataArray":
        """Calculate the probability of one complete order, zero outside the support.

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
            If `order` lacks a variable or holds another; for sampled orders, of which a single one says little. As for
            `edge_probabilities`.

        Examples
        --------
        >>> round(float(dags.order_probability(["age", "income", "debt"])), 2)
        0.18
        """
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise TypeError(f"order must be a sequence of names, from first to last, got {quoted(order)}")
        order = [as_name(name) for name in order]
        if len(order) != self.scores.d or set(order) != set(self.names):
            raise ValueError(f"order must hold every variable once, got {quoted(order)}")
        if self._paths is not None:
            raise ValueError(
                "order_probability: this posterior is a sample of orders; before_probabilities answers for pairs of "
                "variables"
            )
        asked = self._given(given)
        orders, log_weight = np.array([[self.scores.position(name) for name in order]]), -np.inf
        if self._holds(orders)[0]:
            log_weight = asked._leaf_tables.flat_log_sums()[places_of_orders(self.scores, orders)].sum()
        return asked._answer("order_probability", float(np.exp(log_weight - asked._log_total)), {})

    def most_probable(self, given: Given | None = None, progressbar: bool = True) -> MaximumAPosteriori:
        """Find the most probable pair of order and graph.

        All pairs of one graph are equally probable, so its graph is that of the highest score. The most probable graph
        may be another one, since it counts once for each of its orders. With sampled orders the pair is the best that
        moves of one variable at a time find from the 50 best orders. There may be a better one. The highest score need
        not be nearest to the truth: `consensus` is nearer on average.

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
        with self._under(given, progressbar) as asked:
            order, graph, log_weight = most_probable(asked)
            names = tuple(self.names[i] for i in order)
            log_total = np.nan if asked.kind == "orders" else asked._log_total  # of sampled orders it is not known
            return MaximumAPosteriori(DAG(self.names, graph), names, float(log_weight - log_total))

    # ---- the other target

    def structure_modular(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.Dataset":
        """Reweight draws to the posterior in which every graph counts once.

        The order-modular posterior counts a graph once for each of its orders. A draw is therefore weighted by one over
        the number of its orders (those that keep the tiers). Where the order posterior covers only part of all orders,
        so does this one.

        Parameters
        ----------
        draws, given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        Dataset
            ``graph`` (draw, parent, child), ``weight`` (draw,), ``edge_probability`` (parent, child) with ``mcse``.
            ``attrs["draws_after_weighting"]`` is the effective number of draws.

        Raises
        ------
        ValueError
            If a connected part of a drawn graph has more than two million order ideals.

        Examples
        --------
        >>> list(dags.structure_modular(draws=200, random_seed=1).data_vars)
        ['graph', 'weight', 'edge_probability']
        """
        import xarray as xr

        refuse_wide("structure_modular", self.scores.d)
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)

            def drawn(post: Any, n: int) -> tuple[Any, np.ndarray, np.ndarray, float]:
                graphs = post.sample(n, None, rng)
                before = graphs.values.swapaxes(1, 2) | self.scores.must_precede
                logs = -log_linear_extensions(before, "structure_modular: draw")
                weight = np.exp(logs - logs.max())
                log_mean = logs.max() + np.log(weight.mean())
                weight /= weight.sum()
                return graphs, weight, np.einsum("s,sij->ij", weight, graphs.values), log_mean

            parts = asked._parts
            graphs, weight, edges, _ = drawn(asked, draws)
            of_parts = [found[2:] for found in parts.ask(lambda post: drawn(post, parts.n_of_each(draws)))]
            mcse = parts.errors([e for e, _ in of_parts], edges, [log for _, log in of_parts]) or {
                "mcse": np.sqrt(np.einsum("s,sij->ij", weight**2, (graphs.values - edges) ** 2))
            }
            ess = 1 / np.sum(weight**2)
            coords = {"parent": self.names, "child": self.names}
            attrs = {"target": "structure-modular", "draws_after_weighting": float(ess)}
            data = {
                "graph": graphs.drop_attrs(),
                "weight": labelled("weight", weight, {"draw": range(draws)}, limited("exact", GIVEN_DRAWS)),
                "edge_probability": asked._answer("edge_probability", edges, coords, "monte-carlo", **mcse, **attrs),
            }
            return xr.Dataset(data, attrs=asked._limits | attrs)

    # ---- trees

    def to_datatree(
        self,
        chains: int = 4,
        draws: int = 500,
        given: Given | None = None,
        random_seed: Seed = None,
        progressbar: bool = True,
    ) -> "xr.DataTree":
        """Draw independent graphs in the form of an MCMC result, for ArviZ.

        Parameters
        ----------
        chains, draws : int
            At least 1; chains are parts of one sequence of independent draws.
        given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        DataTree
            ``posterior``: ``log_score`` and ``n_edges`` of the drawn graphs; ``graphs``: ``graph`` (chain, draw,
            parent, child) and ``position`` (chain, draw, variable).

        Examples
        --------
        >>> dags.to_datatree(chains=2, draws=10, random_seed=1)["posterior"].sizes["draw"]
        10
        """
        import xarray as xr

        n = checked_count("chains", chains, 1) * checked_count("draws", draws, 1)
        drawn = self.sample(n, given, random_seed, progressbar)
        d, dims, numbers = self.scores.d, ("chain", "draw"), {"chain": range(chains), "draw": range(draws)}
        log_score = np.array([self.scores.log_score(graph) for graph in drawn.values]).reshape(chains, draws)
        graph = drawn.values.reshape(chains, draws, d, d)
        position = drawn.position.values.reshape(chains, draws, d)
        posterior = {"log_score": (dims, log_score), "n_edges": (dims, graph.sum(axis=(2, 3)))}
        graphs = {"graph": ((*dims, "parent", "child"), graph), "position": ((*dims, "variable"), position)}
        labels = numbers | {dim: list(self.names) for dim in ("parent", "child", "variable")}
        return xr.DataTree.from_dict(
            {"posterior": xr.Dataset(posterior, numbers), "graphs": xr.Dataset(graphs, labels)}
        )

    # ---- files

    def _saved(self) -> "xr.DataTree":
        import xarray as xr

        data, fields = parts_of_scores(self.scores)
        if isinstance(self._lattice, TreePaths):
            tree = self._lattice.tree
            data["splits"], data["ptr"] = (("product",), tree.splits), (("node",), tree.ptr)
        elif isinstance(self._lattice, OrderPaths):
            paths = self._lattice
            data["orders"] = (("chain", "draw", "place"), paths.orders)
            data["log_starts"] = (("order",), paths.log_starts)
            data["mixing"] = (("figure",), [paths.r_hat, paths.size, paths.log_unit_error])
        fields |= {
            "kind": self.kind,
            "evidence": [list(masks) for masks in self.evidence],
            "coverage": self._measured,
            "class": type(self).__name__,
            "seed": self._seed,
        }
        return xr.DataTree(xr.Dataset(data, attrs={SAVED: json.dumps(fields)}))

    @classmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Any:
        if SAVED not in tree.attrs:
            raise ValueError("this does not hold an OrderSPN")
        fields = json_of(tree.attrs[SAVED], f"attribute {SAVED!r}")
        arrays = {str(name): values.values for name, values in tree.dataset.data_vars.items()}
        scores = scores_of_parts(arrays, fields)
        names = scores.names
        if fields["kind"] not in KINDS:
            refuse("the kind of support", f"be one of {KINDS}", fields["kind"])
        lattice: PrefixLattice | None = None
        if "splits" in arrays:
            splits = bit_sets("splits", arrays["splits"], len(names))
            ptr = checked("ptr", arrays["ptr"], (2 * splits.size + 2,), 0, splits.size, whole=True)
            if (np.diff(ptr) < 0).any():
                refuse("ptr", "rise", ptr.tolist())
            lattice = RegularTree(names, splits, ptr).paths
        elif "orders" in arrays:
            lattice = _paths(arrays, len(names))
        elif fields["kind"] == "exact":
            lattice = exact_lattice(scores, MOST_GIGABYTES)
        else:
            refuse("the support", "be stored, unless it is exact", "none")
        measured = fields.get("coverage")
        if measured is not None:
            checked("coverage", measured, (2,), 0.0)
            measured = tuple(map(float, measured))
        made_by = DagPosterior if fields.get("class") == "DagPosterior" else OrderSPN
        post = made_by(scores, lattice, fields["kind"], _evidence(fields["evidence"], len(names)), None, measured)
        if isinstance(post, DagPosterior):
            post._seed = fields.get("seed", 0)
            if type(post._seed) is not int or not 0 <= post._seed < 2**63:
                refuse("the seed", "be a whole number from 0 to 2**63 - 1", post._seed)
        return post

    # ---- below the surface

    @property
    def _paths(self) -> OrderPaths | None:
        """Sampled orders, where they are the support."""
        return self._lattice if isinstance(self._lattice, OrderPaths) else None

    def _on(self, lattice: PrefixLattice | None, evidence: Evidence) -> Self:
        """Another support under evidence, with the same tables."""
        post = type(self)(self.scores, lattice, self.kind, evidence, self._tables, self._measured)
        post._seed = self._seed
        return post

    def _reweighted(self, evidence: Evidence) -> Self:
        """The same support under other evidence; tables and lattice are shared."""
        if evidence == self.evidence:
            return self
        post = self._on(self._lattice, evidence)
        post._orders = self._orders
        return post

    def _with(self, evidence: Evidence) -> Self:
        """As `_reweighted`; where few sampled orders would count, others are drawn."""
        post = self._reweighted(evidence)
        if self._paths is None or post is self or clashes(evidence) or not post._leaf_tables.possible:
            return post
        if post._share_that_counts >= LEAST_SHARE:
            return post
        kept = self._drawn_under
        if evidence not in kept:
            if len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[evidence] = drawn_anew(self, evidence, self._seed)._warned()
        return kept[evidence]

    @cached_property
    def _drawn_under(self) -> dict[Evidence, Self]:
        return {}

    @cached_property
    def _leaf_tables(self) -> LeafTables:
        return self._tables.given(*self.evidence)

    @cached_property
    def _passes(self) -> FullPasses | LatticePasses:
        return self._orders.passes(self._leaf_tables)

    @cached_property
    def _lattice_passes(self) -> LatticePasses:
        passes = self._passes
        return passes if isinstance(passes, LatticePasses) else LatticePasses(*self._orders.explicit, self._leaf_tables)

    @property
    def _log_total(self) -> float:
        if clashes(self.evidence) or not self._leaf_tables.possible:
            return -np.inf
        return self._passes.log_total

    def _holds(self, orders: np.ndarray) -> np.ndarray:
        return np.ones(len(orders), bool) if self._lattice is None else self._lattice.holds(orders)

    @property
    def _limits(self) -> dict[str, Any]:
        """What every answer says of the posterior that it belongs to."""
        limits: dict[str, Any] = {
            "target": "order-modular",
            "score": self.scores.score,
            "prior": self.scores.prior,
            "support": self._support(),
        }
        if self._paths is not None:
            limits |= {"effective_orders": self._n_effective, "r_hat": self._paths.r_hat}
        if self._measured is not None:
            limits["coverage"], limits["coverage_se"] = self._measured
        if self.scores.restricted:
            limits["candidates"] = self.scores.choice
        if given := in_words(self.names, self.evidence):
            limits["given"] = given
        return limits

    def _marked(self, exactness: str) -> str:
        return limited(exactness, SCOPES[self.kind])

    # ---- sampled orders

    @cached_property
    def _share_that_counts(self) -> float:
        """Effective share of the orders after weighting."""
        if self._log_total == -np.inf:
            return 0.0
        shares = self._lattice_passes.from_source[self.lattice.ptr[-2] :]
        return float(1.0 / (shares.size * np.square(shares).sum()))

    @property
    def _n_effective(self) -> float:
        """Effective number of orders: by their log weights along the chains, times the share that counts."""
        return np.inf if self._paths is None else self._paths.size * self._share_that_counts

    @cached_property
    def _parts(self) -> WeightedParts:
        """Stretches of the chains as posteriors, and the share of each in the whole."""
        if self._paths is None:
            return NO_PARTS
        posts = [self._on(paths, self.evidence) for paths in self._paths.parts()]
        for post in posts:
            post.__dict__["_leaf_tables"] = self._leaf_tables
        return WeightedParts(posts, np.array([post._log_total for post in posts]))

    @property
    def _log_total_error(self) -> float:
        """Standard error of the log of the share of the weight that the evidence leaves, nats."""
        assert self._paths is not None
        shares = np.exp(self._parts.log_shares - self._log_total) / self._parts.log_shares.size
        own = shares.std(ddof=1) * np.sqrt(shares.size) if shares.size > 1 else np.nan
        return float(np.hypot(own, self._paths.log_unit_error))

    def _ratio_errors(self, told: Self, value: float) -> dict[str, Any]:
        if self._paths is not None and told._log_total == -np.inf:
            return {"mcse": np.nan}
        if self._paths is None or told._lattice is self._lattice:
            return super()._ratio_errors(told, value)
        return {"mcse": float(value * np.hypot(told._log_total_error, self._log_total_error))}

    def _warned(self) -> Self:
        """The same, with a warning if the chains of its orders have not met."""
        assert self._paths is not None
        n_chains, n_draws, _ = self._paths.orders.shape
        Mixing("edges", n_chains, n_draws, self._paths.r_hat, np.nan).warn(
            "orders", "answers average over all of them, and their errors are too small (draws=2000 helps)"
        )
        return self


ENGINES = "auto", "exact", "orders"


class DagPosterior(OrderSPN):
    """Posterior over graphs of a table, exact or an average over sampled orders.

    Made by `from_data`, `from_scores` or `from_idata`. Whatever the engine, it is an `OrderSPN` and answers the same
    questions. With sampled orders each answer is exact given each order and averaged over the orders. Its mark is then
    "exact given the draws". ``attrs["mcse"]`` is its Monte Carlo standard error, from the spread between stretches of
    the chains. A condition weights the orders. If fewer than a tenth of them would count, new ones are drawn.

    The target is order-modular: each pair of an order and a graph that fits it counts once.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pymc_spn as ps
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200)
    >>> df = pd.DataFrame({"a": a, "b": a + rng.normal(size=200), "c": rng.normal(size=200)})
    >>> post = ps.DagPosterior.from_data(df)
    >>> post.engine
    'exact'
    >>> edges = post.edge_probabilities()
    >>> bool(edges.sel(parent="a", child="b") + edges.sel(parent="b", child="a") > 0.99)
    True

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095; Koivisto and Sood (2004), JMLR 5:549-573.
    """

    # ---- making

    @classmethod
    def from_data(
        cls,
        data: "TableLike",
        score: Score | None = None,
        prior: StructurePrior = "fair",
        engine: str = "auto",
        chains: int = 4,
        draws: int = 500,
        random_seed: Seed = None,
        max_candidates: int | None = None,
        progressbar: bool = True,
        client: "distributed.Client | None" = None,
        **knowledge: Unpack[Knowledge],
    ) -> Self:
        """Score the parent sets of a table, and make the posterior.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Rows are observations. No missing cells.
        score, prior
            As in `LocalScores.from_data`: by default BDeu if all columns have levels, else BGe.
        engine : {"auto", "exact", "orders"}
            "exact" sums over all orders, "orders" samples them. "auto" is exact up to 22 variables, or more if tiers
            leave few orders. Beyond, it samples.
        chains, draws, random_seed
            As in `from_scores`.
        max_candidates : int, optional
            As in `LocalScores.from_data`: by default all others up to 19 variables, and those that matter beyond.
        progressbar : bool
            Show bars once something has taken a second.
        client : distributed.Client, optional
            As in `from_scores`.
        **knowledge
            ``required``, ``forbidden``, ``tiers``, ``interventions``, ``max_indegree``, ``kinds``, ``standardize``
            and ``max_gigabytes`` of `LocalScores.from_data`.

        Returns
        -------
        DagPosterior

        Raises
        ------
        TypeError, ValueError
            As `LocalScores.from_data` and `from_scores`.

        Warns
        -----
        ConvergenceWarning, CoverageWarning
            As `from_scores` and `LocalScores.from_data`.

        Examples
        --------
        >>> ps.DagPosterior.from_data(numbers, forbidden=[("debt", "age")]).engine
        'exact'
        """
        check_engine(engine)
        check_client(client)
        scores = LocalScores.from_data(data, score, prior, max_candidates, progressbar=progressbar, **knowledge)
        return cls.from_scores(scores, engine, chains, draws, random_seed, progressbar, client)

    @classmethod
    def from_scores(
        cls,
        scores: LocalScores,
        engine: str = "auto",
        chains: int = 4,
        draws: int = 500,
        random_seed: Seed = None,
        progressbar: bool = True,
        client: "distributed.Client | None" = None,
    ) -> Self:
        """Make the posterior of given local scores.

        Parameters
        ----------
        scores : LocalScores
        engine : {"auto", "exact", "orders"}
            See `from_data`.
        chains, draws : int
            Markov chains over orders from random starts, and the orders that are kept of each. Rounds follow each other
            until R-hat of the edges is at most 1.02, five at most. The third and later ones use replica exchange. The
            orders are those of the last round.
        random_seed : int, Generator or None
            The same seed gives the same bits, on any number of threads.
        progressbar : bool
        client : distributed.Client, optional
            The chains over orders run on the workers of this cluster, with the same bits. Nothing else does.

        Returns
        -------
        DagPosterior

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above, or no graph is possible; for "exact" if it would need more than 8 GB.

        Warns
        -----
        ConvergenceWarning
            If R-hat of an edge is above 1.1, with 100 draws of two chains or more: the chains have not converged. One
            chain has no R-hat.

        Examples
        --------
        >>> ps.DagPosterior.from_scores(scores).engine
        'exact'
        """
        check_engine(engine)
        check_scores(scores)
        check_client(client)
        n_chains, n_draws = checked_count("chains", chains, 1), checked_count("draws", draws, 4)
        if engine == "exact" or (engine == "auto" and sums_soon(scores.must_precede)):
            post: Any = cls.exact(scores, progressbar=progressbar)
            return post
        rng, tables = np.random.default_rng(random_seed), LeafTables(scores)
        found = draw_orders(tables, n_chains, n_draws, rng, progressbar, client)
        post = cls(scores, OrderPaths.of(*found), "orders", None, tables)
        post._seed = int(rng.integers(2**63))
        return post._warned()

    @classmethod
    def from_idata(
        cls, idata: "xr.DataTree | str | PathLike[str]", scores: LocalScores | None = None, name: str | None = None
    ) -> Self:
        """Read the orders that ``pm.sample`` drew of a `DagOrder`.

        Parameters
        ----------
        idata : DataTree or path
            Result of ``pm.sample``.
        scores : LocalScores, optional
            Those of the model. Needed only if they hold more than 4,000,000 numbers, which results do not keep.
        name : str, optional
            The variable's name in the model, where there are several.

        Returns
        -------
        DagPosterior

        Raises
        ------
        ValueError
            If the tree holds no orders, the scores are not those of the model, or must be given.

        Warns
        -----
        ConvergenceWarning
            If R-hat of an edge is above 1.1.

        Examples
        --------
        >>> ps.DagPosterior.from_idata(order_idata).engine
        'orders'
        """
        with reading(idata) as tree:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # R-hat of the edges is warned of below
                drawn = DagDraws.from_idata(tree, name)
            scores = kept_scores(tree, drawn.schema.name) if scores is None else scores
        drawn.check_scores(scores)
        tables = LeafTables(scores)
        orders = np.argsort(drawn.state, axis=-1)
        log_weights, mixing = mixing_of(tables, orders)
        return cls(scores, OrderPaths.of(orders, log_weights, mixing), "orders", None, tables)._warned()

    # ---- what it is

    @property
    def engine(self) -> str:
        """Which engine answers: "exact", "orders" or "regular".

        Examples
        --------
        >>> dags.engine
        'exact'
        """
        return self.kind

    @property
    def effective_orders(self) -> float:
        """Effective number of sampled orders.

        That of their log weights along the chains, times the share that counts. Infinite for the other engines.

        Examples
        --------
        >>> sampled = ps.DagPosterior.from_idata(order_idata)
        >>> float(sampled.effective_orders) > 1
        True
        """
        return self._n_effective

    @property
    def r_hat(self) -> float:
        """Largest R-hat of edges and of the log weight; NaN for other engines.

        Edges with a probability between .01 and .99 count.

        Examples
        --------
        >>> sampled = ps.DagPosterior.from_idata(order_idata)
        >>> float(sampled.r_hat) > 0.9
        True
        """
        return np.nan if self._paths is None else self._paths.r_hat

    @property
    def _limits(self) -> dict[str, Any]:
        return super()._limits | {"engine": self.engine}


def check_engine(engine: Any) -> None:
    """Check that this is the name of an engine."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {quoted(engine)}")


SAVED = "order_spn"  # attribute that marks the file
IMPUTED = "imputed_dag_posterior"  # that of a file of several, one for each imputed table
KINDS = ("exact", "regular", "orders")
MOST_GIGABYTES = 1_000.0  # it was made on some machine


def _paths(arrays: dict[str, np.ndarray], d: int) -> OrderPaths:
    """Sampled orders, with the factors of their paths."""
    orders = checked("orders", arrays["orders"], (None, None, d), 0, d - 1, whole=True)
    if (np.sort(orders, axis=-1) != np.arange(d)).any() or not orders.size:
        refuse("orders", f"hold each of {d} variables once", "others")
    starts = checked("log_starts", arrays["log_starts"], (orders.shape[0] * orders.shape[1],))
    r_hat, size, error = checked("mixing", arrays["mixing"], (3,), 0.0, gaps=True).tolist()
    return OrderPaths.of(orders, -starts - np.log(starts.size), (r_hat, size), 0.0, error)


def _evidence(stored: Any, d: int) -> Evidence:
    """Present and absent parents of each child, as bits."""
    if not isinstance(stored, list) or len(stored) != 2 or not all(isinstance(masks, list) for masks in stored):
        refuse("the evidence", "be sets of present and of absent parents", stored)
    present, absent = map(tuple, stored)
    for masks in (present, absent):
        if len(masks) != d:
            refuse("the evidence", f"have a set of parents for each of {d} variables", len(masks))
        for i, mask in enumerate(masks):
            if type(mask) is not int or not 0 <= mask < 1 << d or mask >> i & 1:
                refuse("the evidence", f"be sets of {d} variables without the child, as bits", mask)
    return present, absent
