"""`CascadingIndianBuffet`: a graph of layers of unknown number and width as a variable of a PyMC model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba import objmode
from pymc.logprob.abstract import _logprob
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.indian_chefs.cascading import rule_of_layers
from pymc_spn.indian_chefs.cascading_kernels import fill_layers, make_cascade, put_layers
from pymc_spn.indian_chefs.distributions import (
    GraphVariable,
    forward_graphs,
    register_graph,
    source_of,
    stored_graph,
)
from pymc_spn.indian_chefs.graph_laws import CascadeLaw
from pymc_spn.indian_chefs.graph_state import new_state, refresh
from pymc_spn.indian_chefs.ops import CascadeLogDensity, current_graph
from pymc_spn.indian_chefs.packed_graphs import pack, packed_length, room_of
from pymc_spn.indian_chefs.process import CASCADE, EXTENDED_CASCADE, GraphSchema, check_nodes, check_positive
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.model_inputs import NumbersOrVariable
from pymc_spn.steps.tickets import refuse_a_fixed_ticket


class CascadingIndianBuffetRV(RandomVariable):
    """A packed graph of layers: ticket, masses, concentrations, start, state as in `CurrentGraph`."""

    name, dtype = "CascadingIndianBuffet", "float64"
    signature = "(),(l),(l),(p),(r,s)->(p)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "n_observed", "passes_layers")
    _print_name = ("CascadingIndianBuffet", "\\operatorname{CascadingIndianBuffet}")

    def __init__(self, n_observed=1, passes_layers=False, **kwargs):
        self.n_observed, self.passes_layers = n_observed, passes_layers
        super().__init__(**kwargs)

    def rng_fn(self, rng, ticket, masses, concentrations, start, state, size):
        shape = () if size is None else tuple(size)
        if (held := stored_graph(ticket, state, shape)) is not None:
            return held
        for argument, values in (("mass", masses), ("concentration", concentrations)):
            for value in values:
                check_positive(argument, value)
        law, prior = CascadeLaw(self.passes_layers), make_cascade(masses, concentrations, self.passes_layers)
        graph = _observed_alone(self.n_observed, room_of(len(start)))
        said = f"mass = {quoted(masses.tolist())} and concentration = {quoted(concentrations.tolist())}"
        return forward_graphs(shape, graph, lambda: law.draw(rng, graph, prior), said)


@numba_core_rv_funcify.register(CascadingIndianBuffetRV)
def _(op, node):
    def draw(rng, *parameters):
        return op.rng_fn(rng, *parameters, None)

    @numba_njit
    def graph(rng, ticket, masses, concentrations, start, state):
        with objmode(out="float64[::1]"):  # draws are rare, and those beyond the room are made again in Python
            out = draw(rng, ticket, masses, concentrations, start, state)
        return out

    return graph, None


@_logprob.register(CascadingIndianBuffetRV)
def _(op, values, rng, size, ticket, masses, concentrations, start, state, **kwargs):
    if isinstance(state, SharedVariable):  # of a model; `CascadingIndianBuffet.dist` has no step
        refuse_a_fixed_ticket(ticket)
    graph = current_graph(ticket, values[0], state)
    density = CascadeLogDensity(room_of(start.type.shape[-1]), op.n_observed, op.passes_layers)
    return density(graph, masses, concentrations)[0]


class CascadingIndianBuffet:
    """The cascading Indian buffet process: a prior over layered graphs with any number of layers and hidden units.

    The observed nodes are layer 0. Given one layer, the next holds the dishes of a two-parameter Indian buffet whose
    customers are the units of that layer; the parents of a node are its dishes. The cascade ends at a layer without
    units, almost surely. `CascadingIndianBuffetStep`, which ``pm.sample`` picks by itself, moves the graph; `NLGBN`, or
    any term of the model that uses the returned tensors, makes it a posterior.

    Parameters
    ----------
    name : str
    mass, concentration : float, PyMC variable, or sequence of these
        Expected dishes of one customer, and beta of the buffet; positive. A sequence holds one for each layer from the
        first hidden one up, its last goes on above. Named variables of the model are sampled by NUTS or whatever step
        they get; unnamed ones, such as ``pm.Gamma.dist(2, 1)``, become ``<name>_mass`` (in a sequence
        ``<name>_mass_1`` and so on) and are drawn with the graph. One mass of all layers is drawn from its conjugate
        conditional where its prior is a Gamma, others by slice sampling.
    observed_nodes : sequence of str, or int
        Names, such as the columns of a frame, or their number.
    passes_layers : bool
        Whether edges may pass layers: the extended process, whose continued urn is a reconstruction.
    max_nodes : int
        Room for nodes, observed ones included. The target is the joint given that there are no more; births that are
        refused are counted and warned of.
    start : {"prior", "empty"} or (n, n) array
        Where chains start: a forward draw, the observed nodes alone, or one graph, 1 at [k, i] where node k is a parent
        of i, observed nodes first.

    Returns
    -------
    GraphVariable
        As of `IndianChefsProcess`; reputations are l / (1 + l) in layer l. The model also gets ``<name>_log_joint`` and
        the constant ``<name>_graph_schema``.

    Raises
    ------
    TypeError, ValueError
        Arguments out of range; a start that no cascade can make.

    See Also
    --------
    CascadingIBP, ExtendedCascadingIBP : The same priors without PyMC.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.indian_chefs.CascadingIndianBuffet(
    ...         "graph", mass=pm.Gamma.dist(2, 4), concentration=1.0, observed_nodes=["age", "income"]
    ...     )
    ...     prior_draws = pm.sample(**few)
    >>> ps.GraphDraws.from_idata(prior_draws).common_ancestor_probabilities().dims
    ('node', 'other')

    References
    ----------
    Adams, Wallach and Ghahramani (2010), Learning the structure of deep sparse graphical models; Dallaire, Giguere and
    Chaib-draa (2014) for edges that pass layers. Both are recalled, their equations were not read again.
    """

    def __new__(  # type: ignore[misc]
        cls,
        name: str,
        *,
        mass: Any,
        concentration: Any,
        observed_nodes: Any,
        passes_layers: bool = False,
        max_nodes: int = 32,
        start: Any = "prior",
    ) -> GraphVariable:
        model = pm.modelcontext(None)
        full = model.name_for(name)
        names, packed, kind = _settings(observed_nodes, passes_layers, max_nodes, start)
        prior, sources = EXTENDED_CASCADE if passes_layers else CASCADE, {}
        numbers = []
        for argument, value in (("mass", mass), ("concentration", concentration)):
            tensors = []
            for own, one in _of_layers(argument, value):
                tensor, sources[own] = source_of(full, prior, own, one, model)
                tensors.append(tensor)
            numbers.append(tensors)
        schema = GraphSchema(full, prior, names, (0.0,) * len(names), int(max_nodes), (), sources)

        def variable(ticket, state):
            return _packed_layers(ticket, numbers, packed, state, len(names), passes_layers)

        return register_graph(model, name, schema, packed, kind, variable)

    @classmethod
    def dist(
        cls,
        *,
        mass: NumbersOrVariable,
        concentration: NumbersOrVariable,
        observed_nodes: int | Sequence[str],
        passes_layers: bool = False,
        max_nodes: int = 32,
    ) -> TensorVariable:
        """The packed graph as an unregistered variable, for ``pm.draw`` and ``pm.logp``.

        The log density is that of a list of units, those of one layer in a uniformly random order. Draws with more than
        `max_nodes` nodes are made again; the log density is not divided by their probability.

        Examples
        --------
        >>> packed = ps.indian_chefs.CascadingIndianBuffet.dist(mass=1.0, concentration=1.0, observed_nodes=2)
        >>> packed.ndim
        1
        """
        names, packed, _ = _settings(observed_nodes, passes_layers, max_nodes, "empty")
        numbers = []
        for argument, value in (("mass", mass), ("concentration", concentration)):
            pairs = _of_layers(argument, value)
            numbers.append([one if isinstance(one, Variable) else check_positive(own, one) for own, one in pairs])
        state = pt.constant(np.append(0.0, packed)[None])
        return _packed_layers(pt.constant(0.0), numbers, packed, state, len(names), passes_layers)


def _of_layers(argument: str, value: Any) -> list[tuple[str, Any]]:
    """Names and values of a hyperparameter: itself, or one for each layer."""
    if isinstance(value, Variable) or not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return [(argument, value)]
    if not len(value):
        raise ValueError(f"{argument} must hold at least one number")
    return [(f"{argument}_{layer + 1}", one) for layer, one in enumerate(value)]


def _settings(observed_nodes, passes_layers, max_nodes, start):
    """Names, the packed graph to start from, and its kind."""
    if not isinstance(passes_layers, bool):
        raise TypeError(f"passes_layers must be True or False; got {quoted(passes_layers)}")
    names = check_nodes(observed_nodes, max_nodes)
    state, kind = _observed_alone(len(names), max_nodes), start
    if isinstance(start, str):
        if start not in ("prior", "empty"):
            raise ValueError(f'start must be "prior", "empty" or the parents of a graph; got {quoted(start)}')
    else:
        kind, parents = "given", np.asarray(start)
        n = len(parents) if parents.ndim else 0
        if parents.shape != (n, n) or not len(names) <= n <= max_nodes:
            raise ValueError(
                f"start must be parents (n, n) with {len(names)} <= n <= {max_nodes}; got the shape {parents.shape}"
            )
        if not np.isin(parents, (0, 1)).all():
            raise ValueError("start must have parents of 0 and 1")
        state.parents[:n, :n] = parents
        state.count[0] = n
        refresh(state)
        layers = np.zeros(max_nodes, np.int64)
        if not fill_layers(state, make_cascade([1.0], [1.0], passes_layers), layers):
            raise ValueError(f"start must be a graph {rule_of_layers(passes_layers)}")
        put_layers(state, layers)
    packed = np.empty(packed_length(max_nodes))
    pack(state, packed)
    return names, packed, kind


def _observed_alone(n_observed, max_nodes):
    return new_state(np.zeros(n_observed), np.ones(n_observed, bool), max_nodes)


def _packed_layers(ticket, numbers, packed, state, n_observed, passes_layers):
    depth = max(map(len, numbers))
    masses, concentrations = (
        pt.stack([pt.cast(values[min(layer, len(values) - 1)], "float64") for layer in range(depth)])
        for values in numbers
    )
    _, rv = CascadingIndianBuffetRV(n_observed=n_observed, passes_layers=passes_layers)(
        ticket,
        masses,
        concentrations,
        pt.constant(packed),
        state,
        rng=pt.random.shared_rng(seed=None),
        return_next_rng=True,
    )
    return rv
