"""PyMC step methods for belief networks on a graph: they unpack the point, run sweeps, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Unpack

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_spn.indian_chefs.step_methods import GraphStep
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import kept_data
from pymc_spn.steps.owned_variables import (
    StepArguments,
    Variables,
    asked_option,
    named,
    offer,
    variable_with_parameters,
)
from pymc_spn.tables.fingerprints import FINGERPRINT, fingerprint


def network_kind(rv):
    """Kind of the belief network that moves the graph of a free variable, None for other variables."""
    return getattr(rv.tag, "network_kind", None)


class _NetworkStep(GraphStep):
    """What the steps of all kinds of network share; every chain begins from a start of its own."""

    _likelihood = "and add post.log_likelihood() of the network's posterior object: idata['log_likelihood'] = ..."
    kind = ""
    rates: tuple[str, ...] = ("moved",)
    diagnostics: tuple[str, ...] = ("log_density",)

    @classmethod
    def _moves(cls, rv):
        return network_kind(rv) == cls.kind

    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        from pymc_spn.indian_chefs.belief_network_schema import NETWORK_SCHEMA, PARAMETERS, BeliefNetworkSchema
        from pymc_spn.indian_chefs.regression_kernels import NetworkPrior

        graph = self.structure
        likelihood = getattr(model[graph].tag, "graph_likelihood", None)
        if likelihood is None or network_kind(model.values_to_rvs[self.vars[0]]) != self.kind:
            raise ValueError(f"vars: the graph {graph!r} has no likelihood of the kind {self.kind!r}")
        self._reach(model, compile_kwargs)
        vector = kept_data(model, f"{likelihood}{NETWORK_SCHEMA}")
        self.schema = BeliefNetworkSchema.from_vector(vector)
        self.fingerprint_of_network = fingerprint(self.access.model_digest, vector)
        rv, parameters = variable_with_parameters(likelihood, model)
        self.head = parameters[4]  # found through the variable: a copied model has its own
        self.data = np.asarray(model.rvs_to_values[rv].eval(), np.float64)
        self.prior = NetworkPrior(**self.schema.prior)
        self._refuse_other_terms(model, graph, likelihood)
        room = self.access.schema.max_nodes
        numbers = dict.fromkeys((*self.rates, *self.diagnostics), np.float64)
        types = {likelihood + PARAMETERS: np.dtype((np.float32, ((room + 2) * room,)))}
        types |= {likelihood + FINGERPRINT: np.int64}
        self.chain: Any = None
        return self.access.statistic_types() | types | named(likelihood, numbers)

    def _refuse_other_terms(self, model, graph, likelihood):
        for variable in [*model.basic_RVs, *model.potentials]:
            if variable.name in (graph, likelihood, self.access.ticket):
                continue
            inputs = [] if variable.owner is None else variable.owner.inputs
            if self.access.shared in set(ancestors(inputs)):
                raise ValueError(
                    f"{variable.name!r} depends on the graph {graph!r}, whose likelihood {likelihood!r} has a step of "
                    "its own that would ignore it; give it a graph of its own"
                )

    def _reset(self, tune, draws):
        self.n_tune, self.n_steps, self.chain = int(tune), 0, None
        self.access.reset()
        self.head.set_value(np.zeros(2))

    def _start(self, point):
        # of its own, so that a diagnostic changes no draw
        self.diagnostic_rng = np.random.default_rng(deepcopy(self.rng).integers(2**63))
        self.chain = self._new_chain(self.access.prior_at(point))

    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        from pymc_spn.indian_chefs.belief_network_schema import PARAMETERS, pack_parameters

        access, chain, name = self.access, self.chain, self.schema.name
        prior = access.prior_at(point)
        before = chain.counts()
        self._before_sweeps()
        for _ in range(self.sweeps):
            chain.sweep(self.rng, prior)
        self.n_steps += 1
        rates, births = chain.rates_since(before)
        self.hyperparameters.update(self.rng, point, chain.state)
        log_prior = access.log_prior(chain.state, point)
        rest = chain.log_network()
        ticket = log_prior + rest
        if not np.isfinite(ticket):
            raise ValueError(
                f"{name!r}: the log joint of the network became {ticket}; columns of observed or priors on "
                "scales far from one leave no digits, standardise them"
            )
        point[access.ticket] = np.asarray(ticket)
        packed = access.publish(chain.state, ticket)
        self.head.set_value(np.array([ticket, rest]), borrow=True)
        self._warn_of_room(bool(births[:, 2].any()))
        found = chain.parameters()
        record = pack_parameters(found["weights"], found["biases"], found["precisions"], access.schema.max_nodes)
        numbers = {key: rates[key] for key in self.rates}
        if self.diagnostics:
            # of draws that are kept: it may cost as much as a sweep
            logs = np.nan if self.tune else chain.log_data(self.diagnostic_rng) + self._log_slope()
            numbers["log_density"] = logs
        stats = {name + PARAMETERS: record, name + FINGERPRINT: self.fingerprint_of_network}
        return access.statistics(chain.state, packed, log_prior, rest, births) | stats | named(name, numbers)

    def _before_sweeps(self):
        pass

    def _log_slope(self):
        """Log derivative of the map from the data to what the chain sees, over all observed cells."""
        return 0.0


class NLGBNStep(_NetworkStep):
    """Sample graph, hidden units and parameters of one `NLGBN` jointly.

    ``pm.sample`` picks it by itself. A sweep holds edges, births and deaths of hidden units with and without parents,
    splits and merges of edges, and exchanges of neighbours in the order, all with the weights integrated out. It also
    holds conjugate draws of weights, biases and precisions, and stratified resampling and random walks of hidden units.
    Then come exchanges of whole hidden vectors with a shared pool, Gibbs draws of the reputations, and draws of missing
    cells. It is exact whatever the settings.

    Parameters
    ----------
    vars : list of variables, optional
    sweeps : int
        For each draw.
    start : {"auto", "warm_up", "process"}
        "warm_up" looks for a start by gradient ascent on a pooled likelihood. It is no part of the sampler, costs
        seconds, and leaves an over-complete graph that sampling thins slowly. With "process", the step starts from
        the graph's own start. With "auto", it warms up where at least 100 rows and all observed reputations at 0
        allow it, and the graph was given no start but that from its prior.
    hidden_layers : (int, int), optional
        Units of the lower layer and roots of a warm-up's graph; (10, 3), or what `max_nodes` allows.
    race : sequence of (int, int, int), optional
        Stages of the warm-up: how many starts it keeps, steps of each, size of the pool; (8, 120, 700), (3, 300, 1000),
        (1, 1000, 2000).
    pool : int
        Hidden vectors of each pool.
    births : int
        Births or deaths of units with and without parents, splits or merges: of each.
    moves : {"all", "published"}
        "published": of the graph only equations 13 to 16 of the paper, each `births` times in a sweep at a random node.
        They draw its edges, a birth or death of a parent of it alone (activations from their prior), and its
        reputation, with the weights summed out. Exact too, and for comparisons: it mixes more slowly.
    tempered : float
        Share of the tuning draws in which the likelihood of the observed nodes has a power that rises from 0.02 to 1.
        Nothing is tempered afterwards.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     x = ps.NLGBN("x", graph, observed=rng.uniform(0.2, 0.8, size=(20, 2)))
    ...     nonlinear = pm.sample(step=ps.steps.NLGBNStep(sweeps=2), **few)

    References
    ----------
    Dallaire et al. (2020), The Indian chefs process: section 4.1 for the model, section 3 for the published moves of
    the graph; Frey (1997) for the networks.
    """

    name = "nlgbn"
    kind = "nonlinear gaussian"
    rates = ("moved", "exchanged", "orphans", "rooted", "splits", "singletons", "swaps", "relocations", "heat")

    def __init__(
        self,
        vars: Variables = None,
        *,
        sweeps: int = 1,
        start: str = "auto",
        hidden_layers: tuple[int, int] | None = None,
        race: Sequence[tuple[int, int, int]] | None = None,
        pool: int = 1000,
        births: int = 10,
        moves: str = "all",
        tempered: float = 0.0,
        **made_by: Unpack[StepArguments],
    ) -> None:
        self.sweeps, self.births = checked_count("sweeps", sweeps, 1), checked_count("births", births, 1)
        self.pool = checked_count("pool", pool, 1)
        self.moves = asked_option("moves", moves, ("all", "published"))
        asked_option("start", start, ("auto", "warm_up", "process"))
        if not 0.0 <= tempered <= 1.0:
            raise ValueError(f"tempered must be a share between 0 and 1; got {quoted(tempered)}")
        for stage in race or ():
            if np.shape(stage) != (3,) or any(not isinstance(v, int | np.integer) or v < 1 for v in stage):
                raise ValueError(
                    f"race must hold triples of positive integers (starts, steps, pool); got {quoted(stage)}"
                )
        self.race, self.tempered = race, float(tempered)
        self._make(vars, made_by)
        if moves == "published":
            self._refuse_atoms()
        self.start_kind, self.hidden_layers = self._choose_start(start, hidden_layers)

    def _choose_start(self, start, layers):
        graph = self.access.schema
        theta, d = graph.fixed_reputations, len(graph.observed_nodes)
        room = graph.max_nodes - d
        if layers is None:
            roots = min(3, max(1, room // 4))
            layers = (min(10, room - roots), roots)
        elif (
            np.shape(layers) != (2,)
            or any(not isinstance(h, int | np.integer) or h < 1 for h in layers)
            or sum(layers) > room
        ):
            raise ValueError(
                f"hidden_layers must be two positive integers of at most {room} in all; got {quoted(layers)}"
            )
        is_free = graph.base[0] == 1.0  # reputations of hidden nodes stand where they like
        possible = bool((theta == 0.0).all()) and is_free and room >= 2
        if start == "warm_up" and not possible:
            raise ValueError(
                'start="warm_up" needs all observed nodes at reputation 0, a uniform base measure and room for two '
                'hidden nodes; use start="process"'
            )
        if start == "auto":
            wanted = len(self.data) >= 100 and self.tempered == 0.0 and self.access.kind == "prior"
            start = "warm_up" if possible and wanted else "process"
        return start, tuple(int(h) for h in layers)

    def _new_chain(self, prior):
        from pymc_spn.indian_chefs.network_chain import filled_at_random
        from pymc_spn.indian_chefs.warm_up import DEFAULT_RACE, RaceStage, race

        logits = filled_at_random(self.rng, np.log(self.data) - np.log1p(-self.data))
        chain = self._chain_of(logits)
        if self.start_kind == "warm_up":
            stages = tuple(RaceStage(*s) for s in self.race) if self.race else DEFAULT_RACE
            start = race(self.rng, chain.data, *self.hidden_layers, prior=self.prior, stages=stages)
            chain.start_from(self.rng, start)
        else:
            chain.start_at(self.rng, self.access.start(self.rng, prior))
        return chain

    def _chain_of(self, logits):
        from pymc_spn.indian_chefs.network_chain import NetworkChain
        from pymc_spn.indian_chefs.network_sweep import sweep_plan

        theta = self.access.schema.fixed_reputations
        return NetworkChain(
            logits,
            np.nan_to_num(theta),
            ~np.isnan(theta),
            self.access.schema.max_nodes,
            self.prior,
            sweep_plan(self.births, self.moves == "published"),
            n_pool=self.pool,
            is_gap=np.isnan(self.data),
        )

    def _log_slope(self):
        slope = 1.0 if self.schema.scaling is None else self.schema.scaling.slope
        return float(np.nansum(np.log(slope / (self.data * (1.0 - self.data)))))

    def _before_sweeps(self):
        n = self.tempered * self.n_tune
        power = 1.0 if not self.tune or self.n_steps >= n else 0.02 ** (1.0 - self.n_steps / n)
        self.chain.set_heat(power)


class LinearGaussianStep(_NetworkStep):
    """Sample graph, hidden nodes and parameters of a `LinearGaussianNetwork`.

    ``pm.sample`` picks it by itself. Edges with the weights integrated out, births and deaths with the new values
    integrated out, conjugate parameters, exact joint draws of all hidden values.

    Parameters
    ----------
    vars : list of variables, optional
    sweeps : int
        For each draw.
    births : int
        Births or deaths of each kind in a sweep.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     x = ps.LinearGaussianNetwork("x", graph, observed=rng.normal(size=(20, 2)))
    ...     linear = pm.sample(step=ps.steps.LinearGaussianStep(sweeps=2), **few)
    """

    name = "linear_gaussian_network"
    kind = "linear gaussian"
    rates = ("orphans",)

    def __init__(
        self, vars: Variables = None, *, sweeps: int = 1, births: int = 2, **made_by: Unpack[StepArguments]
    ) -> None:
        self.sweeps, self.births = checked_count("sweeps", sweeps, 1), checked_count("births", births, 1)
        self._make(vars, made_by)

    def _new_chain(self, prior):
        from pymc_spn.indian_chefs.network_chain import LinearChain

        return LinearChain(self.rng, self.data, self.access.start(self.rng, prior), self.prior, self.births)


class SigmoidNetworkStep(LinearGaussianStep):
    """Sample graph, hidden nodes and parameters of a `SigmoidBeliefNetwork`.

    ``pm.sample`` picks it by itself. Hidden values by their two-point conditionals, births and deaths with the new
    node's values summed out, edges by their weights' prior, weights of a node by elliptical slices. Parameters are
    those of `LinearGaussianStep`.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     x = ps.SigmoidBeliefNetwork("x", graph, observed=rng.integers(2, size=(20, 2)))
    ...     binary = pm.sample(step=ps.steps.SigmoidNetworkStep(sweeps=2), **few)
    """

    name = "sigmoid_network"
    kind = "sigmoid"
    diagnostics = ()

    def _new_chain(self, prior):
        from pymc_spn.indian_chefs.network_chain import SigmoidChain

        return SigmoidChain(self.rng, self.data, self.access.start(self.rng, prior), self.prior, self.births)


offer(NLGBNStep, LinearGaussianStep, SigmoidNetworkStep)
