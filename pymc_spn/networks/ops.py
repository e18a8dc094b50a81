"""The collapsed log joint of a sum-product network as a PyTensor operation."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_spn.gibbs.statistics import LeafPriors, is_stale, log_joint, slopes_of_log_joint
from pymc_spn.numerics.source_version import source_version
from pymc_spn.steps.pytensor_numba import numba_njit, register_funcify_default_op_cache_key
from pymc_spn.steps.tickets import FlatLogDensity

STALE = (
    "ps.SPN: its log-probability needs the assignments of the running chain and cannot be evaluated from stored draws; "
    "use post = ps.SPNPosterior.from_idata(idata) and post.log_likelihood(), post.log_density(df) or post.sample(n)"
)
NO_GRADIENT = (
    "ps.SPN: only pm.sample moves the assignments of the rows; a method that differentiates the log density in all "
    "variables (pm.find_MAP, pm.fit, pm.NUTS for everything) would hold them at one arbitrary state; sample, or take "
    "ps.fit_variational for one best fit of the table alone"
)


class CollapsedLogJoint(Op):
    """Log p(data, assignments | hyperparameters) from the statistics vector, and its gradient in one pass.

    Inputs: concentration (2,), leaf scale, leaf shape, precision ratio, covariance scale (D,), ticket, state (n,),
    family (E,) int64, constants (E, 4), levels (D,) int64. Then constants of leaves over several columns (D, 3) and
    drawn cells (m,). Outputs: log joint and gradient (2 + 4 D,). A ticket other than zero must equal the state's own,
    and the drawn cells the last m numbers of the state. The assignments belong to the running chain, and a stored draw
    must not be evaluated with another draw's.
    """

    __props__ = ()

    def make_node(self, *inputs):
        inputs = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, inputs, [pt.dscalar(), pt.dvector()])

    def infer_shape(self, node, shapes):
        return [(), (2 + 4 * shapes[1][0],)]

    def perform(self, node, inputs, output_storage):
        *hyperparameters, ticket, state, family, constants, n_levels, joint_constants, missing = inputs
        if is_stale(ticket.item(), state, missing):
            raise RuntimeError(STALE)
        gradient = np.empty(2 + 4 * hyperparameters[1].size)
        palette = LeafPriors(family, constants, n_levels, joint_constants)
        log_p = log_joint(state, palette, *hyperparameters)
        slopes_of_log_joint(state, palette, *hyperparameters, gradient)
        output_storage[0][0], output_storage[1][0] = np.asarray(log_p), gradient

    def connection_pattern(self, node):
        return [[True, True]] * 5 + [[False, False]] * 7

    def pullback(self, inputs, outputs, cotangents):
        g = cotangents[0] * outputs[1]
        n = inputs[1].shape[0]
        parts = [g[:2], *(g[2 + k * n : 2 + (k + 1) * n] for k in range(4))]
        return parts + [disconnected_type() for _ in range(7)]


collapsed_log_joint = CollapsedLogJoint()
flat_log_density = FlatLogDensity(NO_GRADIENT)


@register_funcify_default_op_cache_key(CollapsedLogJoint)
def _(op, node, **kwargs):
    @numba_njit
    def collapsed_log_joint_numba(
        concentration,
        scale,
        shape,
        ratio,
        covariance_scale,
        ticket,
        state,
        family,
        constants,
        n_levels,
        joint_constants,
        missing,
    ):
        if is_stale(ticket.item(), state, missing):
            raise RuntimeError(STALE)
        gradient = np.empty(2 + 4 * scale.size)
        palette = LeafPriors(family, constants, n_levels, joint_constants)
        log_p = log_joint(state, palette, concentration, scale, shape, ratio, covariance_scale)
        slopes_of_log_joint(state, palette, concentration, scale, shape, ratio, covariance_scale, gradient)
        return np.asarray(log_p), gradient

    return collapsed_log_joint_numba, source_version()
