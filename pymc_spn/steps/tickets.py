"""The free variable that a sampled structure always has: it carries what its step wrote, and has a flat density."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.logprob.abstract import ValuedRV, _logprob
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor.random.op import RandomVariable

from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit, register_funcify_default_op_cache_key


class NoGradient(Op):
    """The derivative by a variable that a step owns: refused where it is compiled.

    ``pm.sample`` builds it when it looks for steps, and never compiles it. What would move all variables at once
    compiles it. It must not be a `NotImplementedError`: ``pm.find_MAP`` would go on without derivatives and return the
    start.

    Parameters
    ----------
    message : str
    """

    __props__ = ("message",)

    def __init__(self, message: str):
        self.message = message

    def make_node(self, value):
        value = pt.as_tensor_variable(value)
        return Apply(self, [value], [value.type()])

    def infer_shape(self, node, shapes):
        return shapes

    def make_thunk(self, *args, **kwargs):
        raise RuntimeError(self.message)

    def perform(self, node, inputs, output_storage):
        raise RuntimeError(self.message)


@register_funcify_default_op_cache_key(NoGradient)
def _(op, node, **kwargs):
    raise RuntimeError(op.message)


class FlatLogDensity(Op):
    """Zero, but connected: PyMC refuses a continuous variable that the log density does not use.

    A step owns the variable, so only what would move all variables at once asks for the derivative, and is told so.

    Parameters
    ----------
    no_gradient : str
        What it is told.
    """

    __props__ = ("no_gradient",)

    def __init__(self, no_gradient: str):
        self.no_gradient = no_gradient

    def make_node(self, value):
        return Apply(self, [pt.as_tensor_variable(value)], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(0.0)

    def pullback(self, inputs, outputs, cotangents):
        return [NoGradient(self.no_gradient)(inputs[0])]


@register_funcify_default_op_cache_key(FlatLogDensity)
def _(op, node, **kwargs):
    @numba_njit
    def flat_log_density(value):
        return np.asarray(0.0)

    return flat_log_density, 1


class LogJointTicket(RandomVariable):
    """Carries the log joint of the step's last draw; 0 until the first."""

    signature, dtype = "()->()", "float64"
    __props__: Any = ("name", "signature", "dtype", "inplace", "no_gradient")
    _print_name = ("LogJoint", "\\operatorname{LogJoint}")

    def __init__(self, name: str = "log_joint", no_gradient: str = "", **kwargs: Any):
        self.no_gradient = no_gradient
        super().__init__(name=name, **kwargs)

    def rng_fn(self, rng, zero, size):
        return np.zeros(() if size is None else size)


@numba_core_rv_funcify.register(LogJointTicket)
def _(op, node):
    @numba_njit
    def ticket(rng, zero):
        return 0.0

    return ticket, 1


@_logprob.register(LogJointTicket)
def _(op, values, rng, size, zero, **kwargs):
    return FlatLogDensity(op.no_gradient)(values[0])


class Ticket(Distribution):
    """Flat: the step alone writes it. A family has its own, with its name and message."""

    rv_op = LogJointTicket()

    @classmethod
    def dist(cls, **kwargs):
        return super().dist([pt.constant(0.0)], **kwargs)

    def support_point(rv, size, zero):
        return pt.zeros(())


def refuse_a_fixed_ticket(ticket: Variable) -> None:
    """Refuse the log density of a structure whose ticket is a number.

    The ticket is what calls the step: without it other variables would be sampled given the structure of the start.

    Parameters
    ----------
    ticket : Variable
        The ticket as the log density gets it.

    Raises
    ------
    ValueError
        If `pm.do` or `pm.observe` has put a number in its place.
    """
    is_valued = ticket.owner is not None and isinstance(ticket.owner.op, ValuedRV)
    value = ticket.owner.inputs[1] if is_valued else ticket  # PyMC puts a variable beside its value
    if isinstance(value, SharedVariable | Constant):
        raise ValueError(
            f"{ticket.name!r} is held fixed, as by pm.do or pm.observe, so that nothing moves the structure whose step "
            "writes it: leave it free; pm.do and pm.observe are for the hyperparameters"
        )
