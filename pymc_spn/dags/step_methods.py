"""PyMC step methods for `DagOrder` and `DagPartition`: they unpack the point, run a chain, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels; chains are imported when a step is
made.
"""

import time
from collections.abc import Mapping
from typing import Any, ClassVar

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
from pymc_spn.steps.kept_data import kept_data
from pymc_spn.steps.owned_variables import OwnerStep, Variables, grouped_by_owner, model_digest, refuse_incomplete
from pymc_spn.tables.fingerprints import FINGERPRINT, fingerprint
from pymc_spn.tables.inputs import Seed


@dataclass_state
class DagStepState(StepMethodState):
    """What PyMC carries from one chain to the next: whether the chain has begun; its state is the point."""

    begun: bool


class DagOrderStep(OwnerStep):
    """Relocation Gibbs over the order of one `DagOrder`, then a graph given the order.

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
    _state_class = DagStepState
    kind: ClassVar[str] = "dag_order"
    _shown: ClassVar[dict[str, tuple[str, str]]] = {
        "graph_log_score": ("Log score", ":,.1f"),
        "moved": ("Moved", ":0.2f"),
    }

    @classmethod
    def _grouped(cls, vars, model):
        return _by_owner(cls, vars, model)

    def __init__(
        self,
        vars: Variables = None,
        *,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: Mapping[str, object] | None = None,
        rng: Seed | None = None,
        blocked: bool = True,
        sweeps: int = 1,
    ) -> None:
        model = pm.modelcontext(model)
        ((self.dag, self.vars),) = _by_owner(type(self), vars, model).items()
        if isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or sweeps < 1:
            raise ValueError(f"sweeps must be an integer of at least 1; got {quoted(sweeps)}")
        self.sweeps = sweeps
        rv = model[self.dag]
        _refuse_descendants(model, self.dag)
        self.scores = rv.tag.dag_scores
        self.chain = self._make_chain()
        self.fingerprint = fingerprint(model_digest(model), kept_data(model, f"{self.dag}_schema"))
        stats: dict[str, tuple[Any, list[int]]] = {
            f"{self.dag}_parents": (np.dtype((np.int64, (self.scores.d,))), []),
            self.dag + FINGERPRINT: (np.int64, []),
            f"{self.dag}_graph_log_score": (np.float64, []),
            f"{self.dag}_log_score": (np.float64, []),
            f"{self.dag}_moved": (np.float64, []),
            f"{self.dag}_seconds": (np.float64, []),
        }
        self.stats_dtypes_shapes = stats
        self.stats_dtypes = [{k: d for k, (d, _) in stats.items()}]
        self.rng = get_random_generator(rng)
        self.begun = False

    def _make_chain(self):
        from pymc_spn.dags.mcmc_chain import OrderChain

        return OrderChain(self.scores)

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Per-chain state: PyMC may run several chains through one object."""
        super().setup_chain(rng, tune, draws)
        self.begun = False

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """One draw: sweeps over the state, then a graph given the state."""
        begin = time.perf_counter()
        chain = self.chain
        if self.begun:
            chain.state = point[self.dag]
        else:
            chain.start(self.rng)
            self.begun = True
        moved = 0.0
        for _ in range(self.sweeps):
            moved = chain.sweep(self.rng)
        graph_log_score = chain.draw_graph(self.rng)
        new = point.copy()
        new[self.dag] = chain.state
        new[f"{self.dag}_log_score"] = np.asarray(chain.log_score)
        new[f"{self.dag}_n_edges"] = np.asarray(np.bitwise_count(chain.parents.view(np.uint64)).sum(dtype=np.int64))
        stats = {
            f"{self.dag}_parents": chain.parents.copy(),
            self.dag + FINGERPRINT: self.fingerprint,
            f"{self.dag}_graph_log_score": graph_log_score,
            f"{self.dag}_log_score": chain.log_score,
            f"{self.dag}_moved": moved,
            f"{self.dag}_seconds": time.perf_counter() - begin,
        }
        return new, [stats]

    @classmethod
    def competence(cls, var: Variable, has_grad: bool) -> Competence:
        """The free variables of its distribution and nothing else."""
        return Competence.IDEAL if _kind_of(var) == cls.kind else Competence.INCOMPATIBLE


class DagPartitionStep(DagOrderStep):
    """Relocation Gibbs and exchanges over the ordered partition of one `DagPartition`, then a graph given it.

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

    def _make_chain(self):
        from pymc_spn.dags.mcmc_chain import PartitionChain

        return PartitionChain(self.scores)


def _owner(rv):
    """Name of the graph that owns a free variable, None for other variables."""
    return getattr(rv.tag, "dag_owner", None)


def _kind_of(rv):
    return getattr(rv.tag, "dag_kind", None)


def _by_owner(cls, vars, model):
    """Value variables by the graph that owns them."""
    public = {"dag_order": "ps.DagOrder", "dag_partition": "ps.DagPartition"}[cls.kind]

    def owner(rv):
        return _owner(rv) if _kind_of(rv) == cls.kind else None

    groups = grouped_by_owner(vars, model, owner, public, "none")
    for name, group in groups.items():
        refuse_incomplete(name, [name, f"{name}_log_score", f"{name}_n_edges"], group, model)
    return groups


def _refuse_descendants(model, name):
    """The step knows the scores only: what else depends on the state would be ignored."""
    own = {model[name], model[f"{name}_log_score"], model[f"{name}_n_edges"]}
    for variable in [*model.basic_RVs, *model.potentials]:
        if variable in own:
            continue
        inputs = [] if variable.owner is None else variable.owner.inputs
        if own & set(ancestors(inputs)):
            raise ValueError(
                f"{variable.name!r} depends on {name!r}: its step draws graphs from their scores only, and would "
                "ignore it; put what is known of the graph into ps.LocalScores"
            )


for _step in (DagOrderStep, DagPartitionStep):
    if _step not in STEP_METHODS:
        STEP_METHODS.insert(0, _step)
