"""`IndianChefsProcess`: a directed acyclic graph of unknown size as a variable of a PyMC model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import objmode
from pymc.distributions.distribution import Distribution
from pytensor.graph.basic import Variable
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import new_state, put_graph
from pymc_spn.indian_chefs.ops import NO_GRADIENT, STALE, GraphLogDensity, GraphParts, current_graph
from pymc_spn.indian_chefs.packed_graphs import pack, packed_length, room_of, row_of_ticket
from pymc_spn.indian_chefs.prior_density import log_density, make_prior
from pymc_spn.indian_chefs.process import (
    CHEFS,
    HYPERPARAMETERS,
    SCHEMA,
    TICKET,
    GraphSchema,
    check_base,
    check_graph,
    check_nodes,
    check_positive,
    check_reputations,
)
from pymc_spn.numerics.html_repr import Facts, elided
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.steps.model_inputs import NumbersOrVariable, scalar_hyperparameter
from pymc_spn.steps.no_tensor import NoTensor
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.steps.tickets import LogJointTicket, Ticket, refuse_a_fixed_ticket

MOST_TRIES = 10_000


class _GraphTicket(Ticket):
    rv_op = LogJointTicket("UnknownGraph", NO_GRADIENT)


class IndianChefsRV(RandomVariable):
    """A packed graph: ticket, alpha, gamma, phi, reputations, base measure, start, state as in `CurrentGraph`."""

    name, dtype = "IndianChefsProcess", "float64"
    signature = "(),(),(),(),(d),(),(l),(l),(p),(r,s)->(p)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "room")
    _print_name = ("IndianChefs", "\\operatorname{IndianChefs}")

    def __init__(self, room=1, **kwargs):
        self.room = room
        super().__init__(**kwargs)

    def rng_fn(self, rng, ticket, alpha, gamma, phi, reputations, uniform, levels, masses, start, state, size):
        shape = () if size is None else tuple(size)
        if ticket != 0.0:
            row = row_of_ticket(float(ticket), state)
            if row < 0:
                raise NotImplementedError(STALE)
            return np.broadcast_to(state[row, 1:], (*shape, state.shape[1] - 1)).copy()
        numbers = [check_positive(a, v) for a, v in zip(HYPERPARAMETERS, (alpha, gamma, phi), strict=True)]
        prior = make_prior(*numbers, (uniform, levels, masses))
        fixed = ~np.isnan(reputations)
        graph = new_state(np.where(fixed, reputations, 0.0), fixed, self.room)
        children = np.zeros(self.room, np.uint8)
        out = np.empty((*shape, packed_length(self.room)))
        for place in np.ndindex(*shape):
            for _ in range(MOST_TRIES):
                if draw_graph(rng, graph, prior, children):
                    break
            else:
                raise ValueError(
                    f"max_nodes = {self.room} is too small: {MOST_TRIES:,} draws with alpha = {float(alpha):g} and "
                    f"gamma = {float(gamma):g} all had more nodes"
                )
            pack(graph, out[place])
        return out


@numba_core_rv_funcify.register(IndianChefsRV)
def _(op, node):
    def draw(rng, *parameters):
        return op.rng_fn(rng, *parameters, None)

    @numba_njit
    def graph(rng, ticket, alpha, gamma, phi, reputations, uniform, levels, masses, start, state):
        with objmode(out="float64[::1]"):  # draws are rare, and those beyond the room are made again in Python
            out = draw(rng, ticket, alpha, gamma, phi, reputations, uniform, levels, masses, start, state)
        return out

    return graph, None


class _PackedGraph(Distribution):
    """Registers the log density of `IndianChefsRV`."""

    rv_type = IndianChefsRV

    def support_point(rv, size, *parameters):
        return parameters[-2]

    def logp(value, ticket, alpha, gamma, phi, reputations, uniform, levels, masses, start, state):
        refuse_a_fixed_ticket(ticket)
        room = room_of(start.type.shape[-1])
        graph = current_graph(ticket, value, state)
        return GraphLogDensity(room)(graph, reputations, alpha, gamma, phi, uniform, levels, masses)[0]


@dataclass(frozen=True, eq=False, repr=False)
class GraphVariable(NoTensor):
    """A graph of unknown size in a model: its parts as tensors that other terms of the model may use.

    Parameters
    ----------
    name : str
    schema : GraphSchema
    packed : TensorVariable
        The graph as one vector, an observed variable in PyMC's eyes: the step holds its value.
    n_nodes : () int64 tensor
    reputations : (K,) float64 tensor
        0 where there is no node.
    parents : (K, K) int8 tensor
        1 at [k, i] where node k is a parent of node i. Observed nodes come first, hidden ones by ascending reputation.

    Notes
    -----
    The tensors are for log densities and for forward draws. ``pm.Deterministic`` of them raises where chains run in
    processes of their own, since PyMC evaluates it away from the chain. `GraphDraws` answers from the recorded graphs,
    and `load_graphs` lends them to the model for ``pm.sample_posterior_predictive``.
    """

    name: str
    schema: GraphSchema
    packed: TensorVariable
    n_nodes: TensorVariable
    reputations: TensorVariable
    parents: TensorVariable

    instead: ClassVar[str] = (
        "graph {name!r} is no tensor, but it has some: {name}.n_nodes, {name}.reputations and {name}.parents; for a "
        "table whose columns are its observed nodes give it to ps.LinearGaussianNetwork('x', {name}, observed=df), "
        "ps.NLGBN or ps.SigmoidBeliefNetwork"
    )

    def _facts(self) -> Facts:
        nodes = f"{len(self.observed_nodes)} observed nodes ({elided(self.observed_nodes)})"
        facts = {"name": repr(self.name), "process": CHEFS, "observed": nodes}
        return Facts("GraphVariable", facts | {"most": f"at most {self.schema.max_nodes} nodes"})

    @property
    def observed_nodes(self) -> tuple[str, ...]:
        """Names of the observed nodes."""
        return self.schema.observed_nodes

    @property
    def max_nodes(self) -> int:
        """Largest number of nodes."""
        return self.schema.max_nodes


class IndianChefsProcess:
    """Indian chefs process: a prior over graphs with any number of hidden nodes.

    Every node has a reputation in [0, 1] and may be a parent only of nodes with a lower one. `IndianChefsStep`, which
    ``pm.sample`` picks by itself, moves the graph; a likelihood on it, or any term of the model that uses the returned
    tensors, makes it a posterior.

    Parameters
    ----------
    name : str
    alpha, gamma, phi : float or PyMC variable
        Concentration, mass of hidden nodes, popularity of observed nodes; positive. Named variables of the model are
        sampled by NUTS or whatever step they get; unnamed ones, such as ``pm.Gamma.dist(2, 1)``, become
        ``<name>_alpha`` and so on and are drawn with the graph. The step draws gamma from its conjugate conditional
        where its prior is a Gamma, others by slice sampling.
    observed_nodes : sequence of str, or int
        Names, such as the columns of a frame, or their number.
    reputations : float, None, sequence or mapping by node
        Of the observed nodes; None is free. 0.0 forbids edges between observed nodes, inputs stand at 1.0.
    max_nodes : int
        Room for nodes. The target is the joint given that there are no more; births that are refused are counted and
        warned of. Choose it by `node_count_pmf`.
    base : None, float or mapping
        Base measure of the free reputations. It may be uniform, a point mass (``base=1.0`` with the observed nodes at
        0.0 is the two-parameter Indian buffet process), or masses of levels, together with that of "uniform".
    start : {"prior", "empty"} or (parents, reputations)
        Where chains start: a forward draw, the observed nodes alone, or one graph, (n, n) and (n,).

    Returns
    -------
    GraphVariable
        The model also gets ``<name>_log_joint``, the log density of the graph and of the terms that depend on it as the
        step left them, and the constant ``<name>_graph_schema``.

    Raises
    ------
    TypeError, ValueError
        Arguments out of range; reputations that leave no structure; a start that violates its order.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["age", "income"])
    ...     prior_draws = pm.sample(**few)
    >>> ps.GraphDraws.from_idata(prior_draws).edge_probabilities().dims
    ('parent', 'child')

    References
    ----------
    Dallaire et al. (2020), The Indian chefs process, proceedings of UAI; equation (9) in its corrected form.
    """

    def __new__(  # type: ignore[misc]
        cls,
        name: str,
        *,
        alpha: NumbersOrVariable,
        gamma: NumbersOrVariable,
        phi: NumbersOrVariable,
        observed_nodes: int | Sequence[str],
        reputations: Mapping[str, float] | npt.ArrayLike = 0.0,
        max_nodes: int = 32,
        base: float | Mapping[str, float] | None = None,
        start: str | tuple[npt.ArrayLike, npt.ArrayLike] = "prior",
    ) -> GraphVariable:
        model = pm.modelcontext(None)
        full = model.name_for(name)
        names, measure, theta, packed = _settings(observed_nodes, reputations, max_nodes, base, start)
        values, sources = [], {}
        for argument, value in zip(HYPERPARAMETERS, (alpha, gamma, phi), strict=True):
            given = value if isinstance(value, Variable) else check_positive(argument, value)
            known = set(model.named_vars)
            tensor, sources[argument] = scalar_hyperparameter(full, argument, given, model)
            if sources[argument].get("variable", full) not in known | {full}:  # drawn with the graph
                tensor.tag.graph_owner = full
            values.append(tensor)
        places = tuple(None if np.isnan(t) else float(t) for t in theta)
        schema = GraphSchema(full, names, places, int(max_nodes), measure, sources)
        ticket = _GraphTicket(f"{name}{TICKET}")
        ticket.tag.graph_owner = full
        state = pytensor.shared(np.append(0.0, packed)[None], name=f"{full}_state", shape=(None, len(packed) + 1))
        rv = _packed_graph(ticket, values, theta, measure, packed, state, max_nodes)
        rv = model.register_rv(rv, name, observed=pt.constant(packed))
        rv.tag.graph_start, rv.tag.is_start = "given" if isinstance(start, tuple) else start, True
        keep_data(model, f"{name}{SCHEMA}", schema.to_vector())
        parts: Any = GraphParts(schema.max_nodes)(current_graph(ticket, rv, state))
        return GraphVariable(full, schema, rv, *parts)


def _settings(observed_nodes, reputations, max_nodes, base, start):
    """Checked settings and the packed graph to start from."""
    names = check_nodes(observed_nodes, max_nodes)
    measure = check_base(base)
    theta = check_reputations(reputations, names, measure)
    uniform, levels, _ = measure
    fixed = ~np.isnan(theta)
    state = new_state(np.where(fixed, theta, 0.5 if uniform > 0.0 else levels[0]), fixed, max_nodes)
    if isinstance(start, str):
        if start not in ("prior", "empty"):
            raise ValueError(f'start must be "prior", "empty" or a pair (parents, reputations); got {quoted(start)}')
    else:
        parents, places = check_graph(start, names, theta, max_nodes)
        put_graph(state, parents, places)
        if log_density(state, make_prior(1.0, 1.0, 1.0, measure)) == -np.inf:
            raise ValueError("start has a reputation that the base measure does not allow")
    packed = np.empty(packed_length(max_nodes))
    pack(state, packed)
    return names, measure, theta, packed


def _packed_graph(ticket, values, theta, measure, packed, state, max_nodes):
    uniform, levels, masses = measure
    _, rv = IndianChefsRV(room=int(max_nodes))(
        ticket,
        *(pt.cast(v, "float64") for v in values),
        pt.constant(theta),
        pt.constant(float(uniform)),
        pt.constant(np.array(levels, np.float64)),
        pt.constant(np.array(masses, np.float64)),
        pt.constant(packed),
        state,
        rng=pt.random.shared_rng(seed=None),
        return_next_rng=True,
    )
    return rv
