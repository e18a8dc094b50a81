"""PyMC step methods for `DagOrder` and `DagPartition`: they unpack the point, run a chain, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels; chains are imported when a step is
made.
"""

from typing import Any, ClassVar, Unpack

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.steps.kept_data import kept_data
from pymc_spn.steps.owned_variables import (
    StepArguments,
    StructureStep,
    Variables,
    model_digest,
    named,
    offer,
)
from pymc_spn.tables.fingerprints import fingerprint


class DagOrderStep(StructureStep):
    """Sample the order of one `DagOrder` by Gibbs, then a graph given the order.

    ``pm.sample`` picks it by itself. Several `DagOrder` in one model get one step each. Chains start from random
    states, whatever the initial point.

    Parameters
    ----------
    vars : list of variables, optional
        Variables of `DagOrder`; all of them by default.
    sweeps : int
        Sweeps of d relocations for each draw.

    Examples
    --------
    >>> with pm.Model():
    ...     g = ps.DagOrder("graph", scores)
    ...     order_idata = pm.sample(step=ps.steps.DagOrderStep(sweeps=5), **few)

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095; the full conditional of a place takes the place of their
    Metropolis moves.
    """

    name = "dag_order"
    kind: ClassVar[str] = "dag_order"
    _made_by = "ps.DagOrder"
    _shown: ClassVar[dict[str, tuple[str, str]]] = {
        "graph_log_score": ("Log score", ":,.1f"),
        "moved": ("Moved", ":0.2f"),
    }

    def __init__(self, vars: Variables = None, *, sweeps: int = 1, **made_by: Unpack[StepArguments]) -> None:
        self.sweeps = checked_count("sweeps", sweeps, 1)
        self._make(vars, made_by)

    @classmethod
    def _owner(cls, rv):
        return getattr(rv.tag, "dag_owner", None) if getattr(rv.tag, "dag_kind", None) == cls.kind else None

    @classmethod
    def _written(cls, name):
        return [name, f"{name}_log_score", f"{name}_n_edges"]

    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        _refuse_descendants(model, self._written(self.structure))
        self.scores = model[self.structure].tag.dag_scores
        self.chain = self._make_chain()
        self.fingerprint = fingerprint(model_digest(model), kept_data(model, f"{self.structure}_schema"))
        numbers = dict.fromkeys(("graph_log_score", "log_score", "moved"), np.float64)
        return named(self.structure, {"parents": np.dtype((np.int64, (self.scores.d,)))} | numbers)

    def _make_chain(self):
        from pymc_spn.dags.mcmc_chain import OrderChain

        return OrderChain(self.scores)

    def _start(self, point):
        self.chain.start(self.rng)

    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        chain, name = self.chain, self.structure
        if self.begun:
            chain.state = point[name]
        moved = 0.0
        for _ in range(self.sweeps):
            moved = chain.sweep(self.rng)
        log_score = chain.log_score
        numbers = {"graph_log_score": chain.draw_graph(self.rng), "log_score": log_score, "moved": moved}
        point[name] = chain.state
        point[f"{name}_log_score"] = np.asarray(log_score)
        point[f"{name}_n_edges"] = np.asarray(np.bitwise_count(chain.parents.view(np.uint64)).sum(dtype=np.int64))
        return named(name, {"parents": chain.parents.copy()} | numbers)


class DagPartitionStep(DagOrderStep):
    """Sample the ordered partition of one `DagPartition`, then a graph given it.

    Parameters and use are those of `DagOrderStep`. A sweep is d relocations and d exchanges, and then d reversals of
    an edge in a graph given the partition (Grzegorczyk and Husmeier 2008, doi:10.1007/s10994-008-5057-7).

    Examples
    --------
    >>> with pm.Model():
    ...     g = ps.DagPartition("graph", scores)
    ...     dag_idata = pm.sample(step=ps.steps.DagPartitionStep(sweeps=5), **few)
    """

    name = "dag_partition"
    kind = "dag_partition"
    _made_by = "ps.DagPartition"

    def _make_chain(self):
        from pymc_spn.dags.mcmc_chain import PartitionChain

        return PartitionChain(self.scores)


def _refuse_descendants(model, names):
    """The step knows the scores only: what else depends on the state would be ignored."""
    name, own = names[0], {model[name] for name in names}
    for variable in [*model.basic_RVs, *model.potentials]:
        if variable in own:
            continue
        inputs = [] if variable.owner is None else variable.owner.inputs
        if own & set(ancestors(inputs)):
            raise ValueError(
                f"{variable.name!r} depends on {name!r}: its step draws graphs from their scores only, and would "
                "ignore it; put what is known of the graph into ps.LocalScores"
            )


offer(DagOrderStep, DagPartitionStep)
