"""A plan in two vectors, and what PyTensor's operations run on it.

Compiled functions that take two arrays build several times faster than with twenty.
"""

import numpy as np
from numba.extending import register_jitable

from pymc_spn.factor_graphs.linear_messages import UNDERFLOW, pass_messages
from pymc_spn.factor_graphs.log_messages import draw_rows, finish_in_logs
from pymc_spn.factor_graphs.plan import PlanArrays
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view

MAPS = ("child_map", "term_map")  # int32, the bulk
N_STARTS = 21 + 2  # where each int64 array begins, the last one's end, and where the second map begins


def pack_plan(arrays):
    """Starts and all int64 arrays one after the other, and the two maps; see `unpack_plan`."""
    whole = [getattr(arrays, name) for name in PlanArrays._fields if name not in MAPS]
    starts = N_STARTS + np.cumsum([0, *(a.size for a in whole)])
    plan = np.concatenate([starts, [arrays.child_map.size], *whole]).astype(np.int64)
    return plan, np.concatenate([arrays.child_map, arrays.term_map])


@register_jitable
def unpack_plan(plan, maps):
    """`PlanArrays` as read-only views of the vectors of `pack_plan`."""
    return _unpack_plan(read_only_view(plan), read_only_view(maps))


@kernel
def _unpack_plan(plan, maps):
    start = plan[:N_STARTS]
    return PlanArrays(
        plan[start[0] : start[1]],
        plan[start[1] : start[2]],
        plan[start[2] : start[3]],
        plan[start[3] : start[4]],
        plan[start[4] : start[5]],
        plan[start[5] : start[6]],
        plan[start[6] : start[7]],
        plan[start[7] : start[8]],
        plan[start[8] : start[9]],
        plan[start[9] : start[10]],
        plan[start[10] : start[11]],
        plan[start[11] : start[12]],
        plan[start[12] : start[13]],
        plan[start[13] : start[14]],
        plan[start[14] : start[15]],
        plan[start[15] : start[16]],
        maps[: start[22]],
        plan[start[16] : start[17]],
        plan[start[17] : start[18]],
        plan[start[18] : start[19]],
        plan[start[19] : start[20]],
        maps[start[22] :],
        plan[start[20] : start[21]],
    )


@kernel
def evaluate(potentials, codes, soft, weights, plan, maps, wants_gradient):
    """log Z of every row, and the gradients of its sum with these weights; without them the gradients are empty."""
    arrays = unpack_plan(plan, maps)
    n, n_marginals = weights.shape[0], 0
    if wants_gradient and soft.shape[0]:
        n_marginals = n
    theta = read_only_view(np.ascontiguousarray(potentials).reshape(1, potentials.shape[0]))
    log_z, status = np.empty(n), np.zeros(n, np.int8)
    marginals = np.zeros((n_marginals, soft.shape[1]))
    gradient = np.zeros((1 if wants_gradient else 0, potentials.shape[0]))
    kept, unkept = np.empty((n, 0)), np.full(arrays.parent.size, -1)
    w, c, s = read_only_view(weights[: n if wants_gradient else 0]), read_only_view(codes), read_only_view(soft)
    pass_messages(arrays, theta, c, s, w, unkept, log_z, marginals, gradient, kept, status)
    if np.any(status == UNDERFLOW):
        finish_in_logs(arrays, theta, c, s, w, unkept, log_z, marginals, gradient, kept, status)
    for_soft = marginals
    if wants_gradient and soft.shape[0] != n_marginals:
        for_soft = np.zeros(soft.shape)
        for i in range(n_marginals):
            for_soft[i % soft.shape[0]] += marginals[i]
    return log_z, gradient.reshape(gradient.size), for_soft


@kernel
def draw_states(potentials, uniforms, plan, maps):
    """States (n_draws, n_variables) int64 without evidence."""
    arrays = unpack_plan(plan, maps)
    n = uniforms.shape[0]
    theta = np.ascontiguousarray(potentials).reshape(1, potentials.shape[0])
    u = np.ascontiguousarray(uniforms).reshape(1, n, uniforms.shape[1])
    states = np.empty((1, n, arrays.card.size), np.int32)
    codes, soft = np.empty((0, arrays.card.size), np.int32), np.empty((0, arrays.state_start[-1]))
    read = read_only_view(theta), read_only_view(codes), read_only_view(soft)
    draw_rows(arrays, *read, u, states, np.empty(1))
    return states[0].astype(np.int64)
