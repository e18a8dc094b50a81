"""What steps and variables ask of the prior of a graph, whichever it is: density, draws, the exponent of its mass."""

from typing import Any, Protocol

import numpy as np

from pymc_spn.indian_chefs.cascading import draw_layers
from pymc_spn.indian_chefs.cascading_kernels import CascadePrior, dish_exposure, layered_log_density, make_cascade
from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import GraphState, refresh
from pymc_spn.indian_chefs.prior_density import GraphPrior, log_density, make_prior, rate_integral
from pymc_spn.indian_chefs.process import CASCADES, EXTENDED_CASCADE, HYPERPARAMETERS, GraphSchema


class GraphLaw(Protocol):
    """A family of priors over graphs."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Hyperparameters in the order of the variable's inputs, after its ticket."""

    @property
    def mass(self) -> str:
        """The argument that has a conjugate prior: a Gamma(s, r) becomes Gamma(s + H, r + exposure), H hidden nodes."""

    def prior(self, values: Any) -> Any:
        """The kernels' form of hyperparameters, given in the order of `arguments`."""

    def log_density(self, state: GraphState, prior: Any) -> float:
        """In nats, over hidden nodes as a set."""

    def draw(self, rng: Any, state: GraphState, prior: Any) -> bool:
        """Overwrite the state by a forward draw; False where that has more nodes than room, the state unfinished."""

    def exposure(self, state: GraphState, prior: Any) -> float:
        """What the mass multiplies in the exponent."""


class ChefsLaw:
    """The Indian chefs process with a base measure."""

    arguments, mass = HYPERPARAMETERS, "gamma"

    def __init__(self, base: tuple) -> None:
        self.base = base

    def prior(self, values: Any) -> GraphPrior:
        """See `GraphLaw`."""
        alpha, gamma, phi = values
        return make_prior(alpha, gamma, phi, self.base)

    def log_density(self, state: GraphState, prior: GraphPrior) -> float:
        """See `GraphLaw`."""
        return float(log_density(state, prior))

    def draw(self, rng: Any, state: GraphState, prior: GraphPrior) -> bool:
        """See `GraphLaw`."""
        return bool(draw_graph(rng, state, prior, np.zeros(state.order.size, np.uint8)))

    def exposure(self, state: GraphState, prior: GraphPrior) -> float:
        """See `GraphLaw`."""
        return prior.alpha * rate_integral(state, prior)


class CascadeLaw:
    """The cascading Indian buffets; hyperparameters are vectors over layers."""

    arguments, mass = ("mass", "concentration"), "mass"

    def __init__(self, passes_layers: bool) -> None:
        self.passes_layers = passes_layers

    def prior(self, values: Any) -> CascadePrior:
        """See `GraphLaw`."""
        masses, concentrations = values
        return make_cascade(masses, concentrations, self.passes_layers)

    def log_density(self, state: GraphState, prior: CascadePrior) -> float:
        """See `GraphLaw`."""
        return float(layered_log_density(state, prior))

    def draw(self, rng: Any, state: GraphState, prior: CascadePrior) -> bool:
        """See `GraphLaw`; the units of a layer stand in a uniformly random order."""
        d, room = state.fixed.size, state.order.size
        drawn = draw_layers(rng, prior.masses, prior.concentrations, bool(prior.passes_layers), d, room)
        if drawn is None:
            return False
        parents, layers = drawn
        order = np.lexsort((rng.random(len(layers)), layers))  # dishes of one layer come by their first customer
        order = np.concatenate([np.arange(d), order[d:]])
        n = len(layers)
        state.parents[:] = 0
        state.parents[:n, :n] = parents[np.ix_(order, order)]
        state.reputations[:n] = layers[order] / (1.0 + layers[order])
        state.count[0] = n
        refresh(state)
        return True

    def exposure(self, state: GraphState, prior: CascadePrior) -> float:
        """See `GraphLaw`."""
        return float(dish_exposure(state, prior))


def law_of_graphs(schema: GraphSchema) -> GraphLaw:
    """The law that a schema names."""
    if schema.prior in CASCADES:
        return CascadeLaw(schema.prior == EXTENDED_CASCADE)
    return ChefsLaw(schema.base)
