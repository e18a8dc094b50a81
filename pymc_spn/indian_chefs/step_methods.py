"""PyMC step methods for graphs of unknown size: they unpack the point, run a sweep, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels.
"""

import logging
from abc import abstractmethod
from typing import Any, ClassVar, Unpack

import numpy as np
from pymc.step_methods.compound import Competence
from pymc.step_methods.state import dataclass_state
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.steps.owned_variables import (
    StepArguments,
    StructureStep,
    StructureStepState,
    Variables,
    asked_option,
    compile_of_the_point,
    offer,
)

_log = logging.getLogger("pymc")


class GraphStep(StructureStep):
    """What steps share that move a graph of unknown size, with or without a likelihood of its own."""

    _made_by = "ps.IndianChefsProcess"
    _shown: ClassVar[dict[str, tuple[str, str]]] = {"n_nodes": ("Nodes", ":.0f"), "n_edges": ("Edges", ":.0f")}

    @classmethod
    @abstractmethod
    def _moves(cls, rv: Any) -> bool:
        """Whether this step, and not another one, moves the graph of a variable."""

    @classmethod
    def _owner(cls, rv):
        return getattr(rv.tag, "graph_owner", None)

    @classmethod
    def _grouped(cls, vars, model):
        if vars is None:  # graphs that another step moves are left to it
            vars = [v for v, rv in model.values_to_rvs.items() if cls._moves(rv)] or None
        groups = super()._grouped(vars, model)
        for name, group in groups.items():
            if model[name] not in model.rvs_to_values:
                held = [model.values_to_rvs[v].name for v in group]
                claimed = any(getattr(model.values_to_rvs[v].tag, "graph_likelihood", None) for v in group)
                more = "it is learned with the network" if claimed else f"to sample the rest given it, fix {held} too"
                raise ValueError(f"{name!r} is held fixed, as by pm.do, so that its step has nothing to move; {more}")
        return groups

    @classmethod
    def competence(cls, var: Variable, has_grad: bool) -> Competence:
        """The free variables of a graph that this step moves."""
        return Competence.IDEAL if cls._moves(var) else Competence.INCOMPATIBLE

    def _reach(self, model: Any, compile_kwargs: Any) -> None:
        """The graph and its own hyperparameters."""
        from pymc_spn.indian_chefs.graph_access import GraphAccess
        from pymc_spn.indian_chefs.hyperparameter_moves import OwnHyperparameters

        self.access = GraphAccess(model, self.structure, compile_kwargs)
        self.fingerprint = self.access.fingerprint
        self.hyperparameters = OwnHyperparameters(model, self.access, self.vars, compile_kwargs)

    def _refuse_atoms(self) -> None:
        if self.access.schema.base[0] != 1.0:
            raise ValueError('moves must be "all" where the base measure has atoms: equation 14 needs intervals')

    def _warn_of_room(self, refused: bool, remedy: str = "") -> None:
        """Say once of a chain that births were refused."""
        if refused and not self.tune and not self.warned:
            self.warned = True
            _log.warning(
                f"{self.structure}: births were refused, because a graph may have max_nodes = "
                f"{self.access.schema.max_nodes} nodes. Draws are from the posterior given at most so many{remedy}"
            )


@dataclass_state
class GraphStepState(StructureStepState):
    """With the graph."""

    graph: np.ndarray


class IndianChefsStep(GraphStep):
    """Sample the graph of one `IndianChefsProcess` and its own hyperparameters.

    Reversible jumps change the number of nodes. ``pm.sample`` picks the step by itself. Terms of the model that depend
    on the graph enter by acceptance. If a likelihood has a step of its own, that step moves the graph instead.

    Parameters
    ----------
    vars : list of variables, optional
        Variables of graphs; by default of all that have no likelihood with a step of its own.
    moves : {"all", "published"}
        "all": Gibbs draws of edges and of reputations, births and deaths of orphans with any children, splits and
        merges of edges, swaps of neighbours. With "published": equations 13 to 16 of the paper in their correct form,
        each `repeats` times at a node drawn uniformly; for a uniform base measure.
    repeats : int
        Births or deaths, splits or merges, and swaps in each sweep.
    sweeps : int
        Sweeps for each draw.
    parent_sets : int
        Where other terms depend on the graph: parents of a node with at most so many candidates are drawn together, by
        2^candidates evaluations of those terms. For parents that exclude each other.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     prior_draws = pm.sample(step=ps.steps.IndianChefsStep(sweeps=2), **few)

    References
    ----------
    Dallaire et al. (2020), The Indian chefs process, equations 13 to 16.
    """

    name = "indian_chefs"
    _state_class = GraphStepState

    def __init__(
        self,
        vars: Variables = None,
        *,
        moves: str = "all",
        repeats: int = 5,
        sweeps: int = 1,
        parent_sets: int = 2,
        **made_by: Unpack[StepArguments],
    ) -> None:
        self.repeats, self.sweeps = checked_count("repeats", repeats, 1), checked_count("sweeps", sweeps, 1)
        self.parent_sets = checked_count("parent_sets", parent_sets, 0)
        self.moves = asked_option("moves", moves, ("all", "published"))
        self._make(vars, made_by)

    @classmethod
    def _moves(cls, rv):
        return cls._owner(rv) is not None and getattr(rv.tag, "graph_likelihood", None) is None

    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        likelihood = getattr(model[self.structure].tag, "graph_likelihood", None)
        if likelihood is not None:
            raise ValueError(
                f"vars: the graph {self.structure!r} is moved by the step of its likelihood {likelihood!r}, which "
                "pm.sample picks by itself"
            )
        self._reach(model, compile_kwargs)
        access = self.access
        if self.moves == "published":
            self._refuse_atoms()
        others = [v for v in model.basic_RVs + model.potentials if v.name not in (self.structure, access.ticket)]
        terms = model.logp(vars=others, sum=False) if others else []
        terms = [t.sum() for t in terms if access.shared in set(ancestors([t]))]
        self.log_terms = compile_of_the_point(model, sum(terms), compile_kwargs) if terms else None
        self.graph = access.first.copy()
        return access.statistic_types()

    def _reset(self, tune, draws):
        self.graph = self.access.first.copy()
        self.access.reset()

    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        from pymc_spn.indian_chefs.graph_moves import new_tally
        from pymc_spn.indian_chefs.packed_graphs import unpack_graph

        access = self.access
        prior = access.prior_at(point)
        log_rest = self._rest(point)
        if self.begun:
            state = access.empty()
            unpack_graph(self.graph, state)
        else:
            state = access.start(self.rng, prior, log_rest and (lambda s: np.isfinite(log_rest(s))))
        tally = new_tally()
        self._sweep(state, prior, log_rest, tally)
        if log_rest is not None:  # terms of a hyperparameter may use the graph too: they must read this one
            access.publish(state, 1.0)
            point[access.ticket] = np.asarray(1.0)
        self.hyperparameters.update(self.rng, point, state)
        log_prior = access.log_prior(state, point)
        rest = 0.0 if log_rest is None else self._rest(point)(state)
        if rest == -np.inf and not self.tune:
            raise ValueError(
                f"{self.structure!r}: the terms of the model that depend on it had no density at any graph that was "
                "tried; give start=(parents, reputations) of a possible graph"
            )
        point[access.ticket] = np.asarray(log_prior + rest)
        self.graph = access.publish(state, log_prior + rest)
        self._warn_of_room(bool(tally[:, 2].any()), f". See {self.structure}_births_refused, and raise max_nodes")
        return access.statistics(state, self.graph, log_prior, rest, tally)

    def _rest(self, point):
        """Log density of the terms that depend on the graph, at this point, as a function of the graph."""
        if self.log_terms is None:
            return None
        values = [point[n] for n in self.access.value_names]
        # the terms read the shared graph under any ticket but 0, which stands for the graph at the start
        values[self.access.value_names.index(self.access.ticket)] = np.asarray(1.0)

        def log_rest(state):
            self.access.publish(state, 1.0)
            value = float(self.log_terms(*values))
            return -np.inf if np.isnan(value) else value

        return log_rest

    def _sweep(self, state, prior, log_rest, tally):
        from pymc_spn.indian_chefs.rest_moves import sweep_graph

        for _ in range(self.sweeps):
            sweep_graph(self.rng, state, prior, log_rest, self.moves, self.repeats, self.parent_sets, tally)


offer(IndianChefsStep)
