"""Draws of the hyperparameters that a graph owns, given the graph."""

from typing import Any

import numpy as np
from pymc.distributions.transforms import LogTransform
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.tensor.random.basic import GammaRV

from pymc_spn.indian_chefs.graph_access import GraphAccess
from pymc_spn.indian_chefs.graph_state import GraphState
from pymc_spn.indian_chefs.prior_density import rate_integrals
from pymc_spn.steps.owned_variables import compile_of_the_point

MOST_STEPS = 100


class OwnHyperparameters:
    """Hyperparameters of a graph where these are variables of its own.

    gamma with a Gamma(s, r) prior: Gamma(s + H, r + exposure), H the hidden nodes. The exposure
    is what the mass multiplies in the exponent of the density.
    Others, and one variable that stands for two of them, are sliced on the unconstrained scale.

    Parameters
    ----------
    model : Model
    access : GraphAccess
    vars : list of value variables
    compile_kwargs : dict, optional
    """

    def __init__(self, model: Any, access: GraphAccess, vars: list, compile_kwargs: Any = None) -> None:
        self.access = access
        self.conjugate: tuple[str, Any] | None = None
        self.sliced: list[tuple[str, Any]] = []
        others = [v for v in model.basic_RVs + model.potentials if v.name not in (access.name, access.ticket)]
        terms = model.logp(vars=others, sum=False) if others else []
        names = [source.get("variable") for source in access.schema.hyperparameters.values()]
        for place, (argument, name) in enumerate(zip(access.schema.hyperparameters, names, strict=True)):
            value = next((v for v in vars if model.values_to_rvs[v].name == name), None)
            if value is None or name in names[:place]:
                continue
            rv = model.values_to_rvs[value]
            mine = [t.sum() for t in terms if value in set(explicit_graph_inputs([t]))]
            is_gamma = isinstance(rv.owner.op, GammaRV) and isinstance(model.rvs_to_transforms[rv], LogTransform)
            if argument == "gamma" and is_gamma and len(mine) == 1 and names.count(name) == 1:
                shape, scale = rv.owner.op.dist_params(rv.owner)
                outputs = model.replace_rvs_by_values([shape, 1.0 / scale])
                self.conjugate = value.name, compile_of_the_point(model, outputs, compile_kwargs)
            else:
                self.sliced.append((value.name, compile_of_the_point(model, sum(mine), compile_kwargs)))

    def update(self, rng: Any, point: dict, state: GraphState) -> None:
        """Overwrite the hyperparameters of a point."""
        access = self.access
        if self.conjugate is not None:
            name, parameters = self.conjugate
            shape, rate = (float(x) for x in parameters(*[point[n] for n in access.value_names]))
            prior = access.prior_at(point)
            shape += state.count[0] - state.fixed.size
            rate += prior.alpha * rate_integrals(state, prior)[0]
            point[name] = np.asarray(np.log(rng.gamma(shape) / rate), point[name].dtype)
        for name, log_terms in self.sliced:
            point[name] = self._slice(rng, dict(point), name, log_terms, state)

    def _slice(self, rng, point, name, log_terms, state):
        """One univariate slice update with stepping out (Neal 2003, doi:10.1214/aos/1056562461)."""
        access, dtype = self.access, point[name].dtype  # of PyTensor's floatX

        def target(value):
            point[name] = np.asarray(value, dtype)
            value = float(log_terms(*[point[n] for n in access.value_names]))
            if not np.isfinite(value):
                return -np.inf
            return value + access.log_prior(state, point)

        current = float(point[name])
        level = target(current) - rng.standard_exponential()
        low = current - rng.random()
        high = low + 1.0
        left = int(rng.integers(MOST_STEPS))
        right = MOST_STEPS - 1 - left
        while left > 0 and target(low) > level:
            low, left = low - 1.0, left - 1
        while right > 0 and target(high) > level:
            high, right = high + 1.0, right - 1
        while True:
            value = low + rng.random() * (high - low)
            if target(value) >= level:
                return np.asarray(value, dtype)
            if value < current:
                low = value
            else:
                high = value
