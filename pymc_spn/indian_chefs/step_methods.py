"""PyMC step methods for graphs of unknown size: they unpack the point, run a sweep, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels.
"""

import logging
import time
from collections.abc import Mapping

import numpy as np
import pymc as pm
from pymc.blocking import PointType, StatsType
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.owned_variables import (
    OwnerStep,
    Variables,
    compile_of_the_point,
    grouped_by_owner,
    refuse_incomplete,
)
from pymc_spn.tables.inputs import Seed

_log = logging.getLogger("pymc")
SHOWN = {"n_nodes": ("Nodes", ":.0f"), "n_edges": ("Edges", ":.0f")}  # in the progress bar


def graph_of(rv):
    """Name of the graph that owns a free variable, None for other variables."""
    return getattr(rv.tag, "graph_owner", None)


def is_claimed(rv):
    """Whether a likelihood moves the graph of this variable by a step of its own."""
    return getattr(rv.tag, "graph_likelihood", None) is not None


def group_by_graph(vars, model):
    """Value variables by the graph that owns them.

    Raises
    ------
    ValueError
        If there is no graph, a variable belongs to none, or the graph or its own variable is missing or held fixed.
    """
    groups = grouped_by_owner(vars, model, graph_of, "ps.IndianChefsProcess", "no graph")
    for name, group in groups.items():
        refuse_incomplete(name, [f"{name}_log_joint"], group, model)
        if model[name] not in model.rvs_to_values:
            held = [model.values_to_rvs[v].name for v in group]
            claimed = any(is_claimed(model.values_to_rvs[v]) for v in group)
            more = "it is learned with the network" if claimed else f"to sample the rest given it, fix {held} too"
            raise ValueError(f"{name!r} is held fixed, as by pm.do, so that its step has nothing to move; {more}")
    return groups


@dataclass_state
class GraphStepState(StepMethodState):
    """What PyMC carries from one chain to the next, and what a restart needs."""

    tune: bool
    begun: bool
    graph: np.ndarray


def check_integer(argument, value, least):
    """Refuse an argument that is not an integer of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{argument} must be an integer of at least {least}; got {quoted(value)}")


class IndianChefsStep(OwnerStep):
    """Reversible jumps over the graph of one `IndianChefsProcess`, and draws of the hyperparameters that it owns.

    ``pm.sample`` picks it by itself. Terms of the model that depend on the graph enter by acceptance; a likelihood with
    a step of its own, which moves the graph too, takes this one's place.

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
    _shown = SHOWN
    _state_class = GraphStepState

    def __init__(
        self,
        vars: Variables = None,
        *,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: Mapping[str, object] | None = None,
        rng: Seed | None = None,
        blocked: bool = True,
        moves: str = "all",
        repeats: int = 5,
        sweeps: int = 1,
        parent_sets: int = 2,
    ) -> None:
        for argument, value, least in (("repeats", repeats, 1), ("sweeps", sweeps, 1), ("parent_sets", parent_sets, 0)):
            check_integer(argument, value, least)
        if moves not in ("all", "published"):
            raise ValueError(f'moves must be "all" or "published"; got {quoted(moves)}')
        self.moves, self.repeats, self.sweeps, self.parent_sets = moves, repeats, sweeps, parent_sets
        self._set_up(vars, model, compile_kwargs, rng)
        if moves == "published" and self.access.schema.base[0] != 1.0:
            raise ValueError('moves must be "all" where the base measure has atoms: equation 14 needs intervals')

    @classmethod
    def _grouped(cls, vars, model):
        if vars is None:  # graphs that a likelihood moves are left to its step
            vars = [v for v, rv in model.values_to_rvs.items() if cls._moves(rv)] or None
        return group_by_graph(vars, model)

    @classmethod
    def _moves(cls, rv):
        return graph_of(rv) is not None and not is_claimed(rv)

    def _set_up(self, vars, model, compile_kwargs, rng):
        from pymc_spn.indian_chefs.graph_access import GraphAccess
        from pymc_spn.indian_chefs.hyperparameter_moves import OwnHyperparameters

        model = pm.modelcontext(model)
        ((self.graph_name, self.vars),) = self._grouped(vars, model).items()
        likelihood = getattr(model[self.graph_name].tag, "graph_likelihood", None)
        if likelihood is not None:
            raise ValueError(
                f"vars: the graph {self.graph_name!r} is moved by the step of its likelihood {likelihood!r}, which "
                "pm.sample picks by itself"
            )
        self.access = access = GraphAccess(model, self.graph_name, compile_kwargs)
        self.hyperparameters = OwnHyperparameters(model, access, self.vars, compile_kwargs)
        others = [v for v in model.basic_RVs + model.potentials if v.name not in (self.graph_name, access.ticket)]
        terms = model.logp(vars=others, sum=False) if others else []
        terms = [t.sum() for t in terms if access.shared in set(ancestors([t]))]
        self.log_terms = compile_of_the_point(model, sum(terms), compile_kwargs) if terms else None
        stats = access.statistic_types()
        self.stats_dtypes_shapes = stats
        self.stats_dtypes = [{k: d for k, (d, _) in stats.items()}]
        self.rng = get_random_generator(rng)
        self.tune, self.begun, self.graph = True, False, access.first.copy()

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Per-chain state: PyMC may run several chains through one object."""
        super().setup_chain(rng, tune, draws)
        self.tune, self.begun, self.graph = tune > 0, False, self.access.first.copy()
        self.warned = False
        self.access.reset()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """One draw: sweeps over the graph, then the hyperparameters; the new graph is handed to the log density."""
        from pymc_spn.indian_chefs.graph_moves import new_tally
        from pymc_spn.indian_chefs.packed_graphs import unpack_graph

        begin = time.perf_counter()
        access, new = self.access, point.copy()
        prior = access.prior_at(point)
        log_rest = self._rest(new)
        if self.begun:
            state = access.empty()
            unpack_graph(self.graph, state)
        else:
            state = access.start(self.rng, prior, log_rest and (lambda s: np.isfinite(log_rest(s))))
            self.begun = True
        tally = new_tally()
        self._sweep(state, prior, log_rest, tally)
        if log_rest is not None:  # terms of a hyperparameter may use the graph too: they must read this one
            access.publish(state, 1.0)
            new[access.ticket] = np.asarray(1.0)
        self.hyperparameters.update(self.rng, new, state)
        log_prior = access.log_prior(state, new)
        rest = 0.0 if log_rest is None else self._rest(new)(state)
        if rest == -np.inf and not self.tune:
            raise ValueError(
                f"{self.graph_name!r}: the terms of the model that depend on it had no density at any graph that was "
                "tried; give start=(parents, reputations) of a possible graph"
            )
        new[access.ticket] = np.asarray(log_prior + rest)
        self.graph = access.publish(state, log_prior + rest)
        if tally[:, 2].any() and not self.tune and not getattr(self, "warned", False):
            self.warned = True
            _log.warning(
                f"{self.graph_name}: births were refused, with room for max_nodes = {access.schema.max_nodes} only; "
                f"the posterior is that given no more nodes. See {self.graph_name}_births_refused and raise max_nodes"
            )
        seconds = time.perf_counter() - begin
        return new, [access.statistics(state, self.graph, log_prior, rest, tally, seconds)]

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

    @classmethod
    def competence(cls, var: Variable, has_grad: bool) -> Competence:
        """The free variables of a graph, unless a likelihood moves it."""
        return Competence.IDEAL if cls._moves(var) else Competence.INCOMPATIBLE

    def _sweep(self, state, prior, log_rest, tally):
        from pymc_spn.indian_chefs.rest_moves import sweep_graph

        for _ in range(self.sweeps):
            sweep_graph(self.rng, state, prior, log_rest, self.moves, self.repeats, self.parent_sets, tally)


if IndianChefsStep not in STEP_METHODS:
    STEP_METHODS.insert(0, IndianChefsStep)
