"""What an order posterior answers by drawing: graphs, classes of graphs, the structure-modular target."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.labelled_answers import Given, Seed, count, labelled
from pymc_spn.dags.order_queries import OrderQueries
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.marks import GIVEN_DRAWS, limited

if TYPE_CHECKING:
    import xarray as xr


class SampledQueries(OrderQueries):
    """Queries of `OrderSPN` that draw. Draws are exact; averages over them carry their standard errors."""

    # ---- draws

    def sample(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Independent draws from the posterior.

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
            the draw's order, from 0.

        Examples
        --------
        >>> dags.sample(4, random_seed=1).dims
        ('draw', 'parent', 'child')
        """
        from pymc_spn.dags.drawing import draw

        with self._under(given, progressbar) as asked:
            n = count("draws", draws, bytes_each=self.scores.d * (self.scores.d + 16.0))
            orders, graphs = draw(asked, n, np.random.default_rng(random_seed))
            coords = {"draw": range(len(graphs)), "parent": self.names, "child": self.names}
            answer = asked._answer("graph", graphs, coords, "exact simulation")
            return answer.assign_coords(position=(("draw", "child"), np.argsort(orders, axis=1)))

    def equivalence_classes(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.Dataset":
        """Markov equivalence classes of drawn graphs and how often each occurred, most frequent first.

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

        from pymc_spn.dags.dag import to_cpdags

        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            classes = to_cpdags(asked.sample(draws, None, rng).values)
            found, times = np.unique(classes, axis=0, return_counts=True)
            order = np.argsort(-times, kind="stable")
            found, p = found[order], times[order] / draws
            place = {cpdag.tobytes(): k for k, cpdag in enumerate(found)}
            names = list(self.names)
            pairs = {"parent": names, "child": names}

            def parts(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
                known = [place.get(c.tobytes(), p.size) for c in drawn]
                both = drawn & drawn.swapaxes(1, 2)
                share = np.bincount(known, minlength=p.size + 1)[: p.size] / len(drawn)
                return share, (drawn & ~both).mean(axis=0), both.mean(axis=0)

            values = parts(classes)
            sizes = np.cumsum([v.size for v in values])[:-1]
            flat = np.concatenate([v.ravel() for v in values])

            def again(post: Any) -> np.ndarray:
                drawn = to_cpdags(post.sample(asked._n_of_part(draws), None, rng).values)
                return np.concatenate([v.ravel() for v in parts(drawn)])

            error = asked._errors(flat, again).get("mcse", np.sqrt(flat * (1 - flat) / draws))
            errors = [e.reshape(v.shape) for e, v in zip(np.split(error, sizes), values, strict=True)]
            words: Any = ("probability", {"class": range(len(p))}), ("compelled", pairs), ("reversible", pairs)
            data: dict[str, Any] = {
                name: asked._answer(name, v, coords, "monte-carlo", mcse=e)
                for (name, coords), v, e in zip(words, values, errors, strict=True)
            }
            data["cpdag"] = (("class", "parent", "child"), found)
            return xr.Dataset(data, {"parent": names, "child": names}, {"draws": draws, **asked._limits})

    def ancestor_probabilities(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Probability that a directed path leads from one variable to another.

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

            def share(post: Any, n: int) -> np.ndarray:
                reached = post.sample(n, None, rng).values.copy()
                for k in range(self.scores.d):
                    reached |= reached[:, :, k, None] & reached[:, None, k, :]
                return reached.mean(axis=0)

            p = share(asked, draws)
            coords = {"ancestor": self.names, "descendant": self.names}
            mcse = asked._errors(p, lambda post: share(post, asked._n_of_part(draws))) or {
                "mcse": np.sqrt(p * (1 - p) / draws)
            }
            return asked._answer("ancestor_probability", p, coords, "monte-carlo", **mcse)

    # ---- the other target

    def structure_modular(
        self, draws: int = 1_000, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.Dataset":
        """The posterior in which every graph counts once, by reweighting draws.

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
            If a connected part of a drawn graph has more than ten million order ideals.

        Examples
        --------
        >>> list(dags.structure_modular(draws=200, random_seed=1).data_vars)
        ['graph', 'weight', 'edge_probability']
        """
        import xarray as xr

        from pymc_spn.dags.dag import MOST_IDEALS, refuse_wide
        from pymc_spn.dags.graph_kernels import log_linear_extensions, parent_masks

        refuse_wide("structure_modular", self.scores.d)
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            parents = np.empty(self.scores.d, np.int64)

            def drawn(post: Any, n: int) -> tuple[Any, np.ndarray, np.ndarray, float]:
                graphs, logs = post.sample(n, None, rng), np.empty(n)
                for s, graph in enumerate(each(graphs.values)):
                    parent_masks(graph, parents)
                    logs[s] = -log_linear_extensions(parents | self._order_of_tiers, MOST_IDEALS)
                    if np.isnan(logs[s]):  # others take seconds each, for nothing
                        raise ValueError(
                            f"structure_modular: draw {s} has more than {MOST_IDEALS:,} order ideals, so its orders "
                            "are not counted; ps.DagPartition samples this target directly"
                        )
                weight = np.exp(logs - logs.max())
                log_mean = logs.max() + np.log(weight.mean())
                weight /= weight.sum()
                return graphs, weight, np.einsum("s,sij->ij", weight, graphs.values), log_mean

            graphs, weight, edges, _ = drawn(asked, draws)
            mcse = asked._errors(edges, lambda post: drawn(post, asked._n_of_part(draws))[2:]) or {
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
        """Independent draws in the form of an MCMC result, for ArviZ.

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

        n = count("chains", chains) * count("draws", draws)
        drawn = self.sample(n, given, random_seed, progressbar)
        shape = (chains, draws)
        log_score = np.array([self.scores.log_score(graph) for graph in drawn.values])
        numbers = {"chain": np.arange(chains), "draw": np.arange(draws)}
        names = list(self.names)
        posterior = xr.Dataset(
            {
                "log_score": (("chain", "draw"), log_score.reshape(shape)),
                "n_edges": (("chain", "draw"), drawn.values.sum(axis=(1, 2)).reshape(shape)),
            },
            numbers,
        )
        graphs = xr.Dataset(
            {
                "graph": (("chain", "draw", "parent", "child"), drawn.values.reshape(*shape, len(names), len(names))),
                "position": (("chain", "draw", "variable"), drawn.position.values.reshape(*shape, len(names))),
            },
            numbers | {"parent": names, "child": names, "variable": names},
        )
        return xr.DataTree.from_dict({"posterior": posterior, "graphs": graphs})

    # ---- below the surface

    @property
    def _order_of_tiers(self) -> np.ndarray:
        """(d,) int64: what must stand before each variable whatever the graph."""
        return self.scores.precede_sets
