"""How a step reaches a graph of a model: hyperparameters at the point, state of the chain, statistics of a draw."""

from typing import Any

import numpy as np

from pymc_spn.indian_chefs.forward_draws import depth, draw_graph
from pymc_spn.indian_chefs.graph_moves import births_of
from pymc_spn.indian_chefs.graph_state import GraphState, count_edges, new_state
from pymc_spn.indian_chefs.packed_graphs import pack, unpack_graph
from pymc_spn.indian_chefs.prior_density import GraphPrior, log_density, make_prior
from pymc_spn.indian_chefs.process import GRAPH, HYPERPARAMETERS, SCHEMA, TICKET, GraphSchema
from pymc_spn.steps.kept_data import kept_data
from pymc_spn.steps.owned_variables import compile_of_the_point, model_digest, named
from pymc_spn.tables.fingerprints import fingerprint

BIRTHS = "births_tried", "births_accepted", "births_refused"
MOST_STARTS = 100


class GraphAccess:
    """One graph of a model, as the step method sees it that moves the graph.

    A likelihood that brings its own step uses this class too. Call `start` for a chain and `prior_at` for a point.
    After each draw `publish` the state with the log joint that goes into the variable `ticket`. Add `statistics` to the
    step's own.

    Parameters
    ----------
    model : Model
    name : str
    compile_kwargs : dict, optional
    """

    def __init__(self, model: Any, name: str, compile_kwargs: Any = None) -> None:
        rv = model[name]
        parameters = rv.owner.op.dist_params(rv.owner)
        self.name, self.ticket = name, f"{name}{TICKET}"
        vector = kept_data(model, f"{name}{SCHEMA}")
        self.schema, self.model_digest = GraphSchema.from_vector(vector), model_digest(model)
        self.fingerprint = fingerprint(self.model_digest, vector)
        *_, start, self.shared = parameters  # found through the variable: a copied model has its own
        self.first = np.array(start.eval())
        if not np.array_equal(model.rvs_to_values[rv].eval(), self.first):
            raise ValueError(
                f"the graph {name!r} was replaced, as by pm.observe, but chains do not begin there: give "
                "the process that graph as start="
            )
        self.kind = getattr(rv.tag, "graph_start", "prior")
        self.value_names = [v.name for v in model.value_vars]
        outputs = model.replace_rvs_by_values(list(parameters[1 : 1 + len(HYPERPARAMETERS)]))
        self.hyperparameters = compile_of_the_point(model, outputs, compile_kwargs)
        self.packed = np.empty(len(self.first))

    def prior_at(self, point: dict) -> GraphPrior:
        """Prior of the graph at the hyperparameters of a point.

        Raises
        ------
        ValueError
            If a hyperparameter is not positive.
        """
        values = self.hyperparameters(*[point[n] for n in self.value_names])
        for argument, value in zip(HYPERPARAMETERS, values, strict=True):
            if not 0.0 < value < np.inf:
                raise ValueError(f"{argument} of {self.name!r} must be positive; its variable is {value}")
        alpha, gamma, phi = values
        return make_prior(alpha, gamma, phi, self.schema.base)

    def log_prior(self, state: GraphState, point: dict) -> float:
        """Log density of a graph at the hyperparameters of a point, over hidden nodes as a set, in nats."""
        return float(log_density(state, self.prior_at(point)))

    def empty(self) -> GraphState:
        """The graph that the variable was given, in a state of its own."""
        theta = self.schema.fixed_reputations
        fixed = ~np.isnan(theta)
        state = new_state(np.where(fixed, theta, 0.0), fixed, self.schema.max_nodes)
        unpack_graph(self.first, state)
        return state

    def reset(self) -> None:
        """Before a chain: other steps may move first, and must not see the graph as the last chain left it."""
        self.shared.set_value(np.append(0.0, self.first)[None], borrow=False)

    def start(self, rng: Any, prior: Any, is_possible: Any = None) -> GraphState:
        """Where a chain begins: a forward draw, or the graph that was given.

        Parameters
        ----------
        is_possible : callable, optional
            Of the state; forward draws for which it is False are made again, up to a hundred times.
        """
        state = self.empty()
        if self.kind != "prior":
            return state
        children = np.zeros(state.order.size, np.uint8)
        for _ in range(MOST_STARTS):
            if draw_graph(rng, state, prior, children) and (is_possible is None or is_possible(state)):
                return state
        unpack_graph(self.first, state)
        return state

    def publish(self, state: GraphState, ticket: float) -> np.ndarray:
        """Hand the graph to the log density; returns the packed graph, which is the record of the draw."""
        pack(state, self.packed)
        self.shared.set_value(np.append(ticket, self.packed)[None], borrow=True)
        return self.packed.copy()

    def statistic_types(self) -> dict[str, Any]:
        """Types of `statistics`."""
        whole = "n_nodes", "n_edges", "depth", "width", "n_orphans", "max_out_degree"
        types = {GRAPH[1:]: np.dtype((np.float64, (len(self.first),))), **dict.fromkeys((*whole, *BIRTHS), np.int64)}
        types |= dict.fromkeys(("hidden_reputation", "log_prior", "log_likelihood"), np.float64)
        return named(self.name, types)

    def statistics(
        self, state: GraphState, packed: np.ndarray, log_prior: float, log_likelihood: float, tally: Any
    ) -> dict[str, Any]:
        """Functions of the graph that no relabelling of hidden nodes changes, and the births of this draw.

        Parameters
        ----------
        tally : (>= 2 M, 3) int64
            Of `graph_moves.new_tally`, since the last draw.
        """
        n = int(state.count[0])
        hidden = np.arange(state.fixed.size, n)
        longest = np.zeros(state.order.size, np.int64)
        deepest = int(depth(state, longest))
        numbers = {
            GRAPH[1:]: packed,
            "n_nodes": n,
            "n_edges": int(count_edges(state)),
            "depth": deepest,
            "width": int(np.bincount(longest[:n]).max()),
            "n_orphans": int((state.n_parents[hidden] == 0).sum()),
            "max_out_degree": int(state.n_children[:n].max()),
            "hidden_reputation": float(state.reputations[hidden].sum()),
            "log_prior": log_prior,
            "log_likelihood": log_likelihood,
        }
        return named(self.name, numbers | dict(zip(BIRTHS, births_of(tally).tolist(), strict=True)))
