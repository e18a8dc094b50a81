"""Runs of the message kernels over rows: linear arithmetic first, the log domain for what that cannot hold."""

from typing import NamedTuple

import numpy as np

from pymc_spn.factor_graphs import linear_messages, log_messages
from pymc_spn.numerics.read_only_views import read_only_view


class Pass(NamedTuple):
    """What one run of `run` computed."""

    log_z: np.ndarray  # (n_rows,)
    marginals: np.ndarray  # (n_rows or 0, n_states)
    gradient: np.ndarray  # (n_sets or 0, n_potentials)
    kept: np.ndarray  # (n_rows, entries of the kept cliques)
    status: np.ndarray  # (n_rows,) int8


def run_arrays(arrays, potentials, codes, soft, weights, kept_start, kept_size, n_rows, marginals, gradient):
    """`run` on plain arrays; ``marginals`` and ``gradient`` say what is wanted."""
    out = Pass(
        np.empty(n_rows),
        np.zeros((n_rows if marginals else 0, arrays.state_start[-1])),
        np.zeros((len(potentials) if gradient else 0, potentials.shape[1])),
        np.zeros((n_rows, kept_size)),
        np.zeros(n_rows, np.int8),
    )
    arguments = (arrays, *map(read_only_view, (potentials, codes, soft, weights)), kept_start, *out)
    linear_messages.pass_messages(*arguments)
    if np.any(out.status == linear_messages.UNDERFLOW):
        log_messages.finish_in_logs(*arguments)
    return out


def run(plan, potentials, codes, soft, n_rows, marginals=False, gradient=False, keep=()):
    """Messages for all rows; ``keep`` lists cliques whose beliefs are returned, in this order.

    ``potentials`` (n_sets, n_potentials); ``codes`` and ``soft`` as for `linear_messages.pass_messages`, or None.
    """
    arrays = plan.arrays
    codes = np.empty((0, arrays.card.size), np.int32) if codes is None else codes
    soft = np.empty((0, int(arrays.state_start[-1]))) if soft is None else soft
    kept_start = np.full(plan.n_cliques, -1)
    at = 0
    for c in keep:
        kept_start[c] = at
        at += int(arrays.n_rows[c] * arrays.n_cols[c])
    return run_arrays(arrays, potentials, codes, soft, np.empty(0), kept_start, at, n_rows, marginals, gradient)
