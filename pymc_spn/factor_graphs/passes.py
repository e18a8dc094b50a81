"""Runs of the message kernels over rows: linear arithmetic first, the log domain for what that cannot hold."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.factor_graphs import linear_messages, log_messages
from pymc_spn.numerics.lanes import LANES
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.threads import for_each, parts_of_rows

PIECE = 1 << 22  # entries of cliques that a thread takes at a time


class Pass(NamedTuple):
    """What one run of `run` computed."""

    log_z: np.ndarray  # (n_rows,)
    marginals: np.ndarray  # (n_rows or 0, n_states)
    gradient: np.ndarray  # (n_sets or 0, n_potentials)
    kept: np.ndarray  # (n_rows, entries of the kept cliques)
    status: np.ndarray  # (n_rows,) int8


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
    found: dict[int, Pass] = {}

    def ask(rows, potentials, codes, soft):
        size = rows.stop - rows.start
        out = found[rows.start] = Pass(
            np.empty(size),
            np.zeros((size if marginals else 0, arrays.state_start[-1])),
            np.zeros((len(potentials) if gradient else 0, potentials.shape[1])),
            np.zeros((size, at)),
            np.zeros(size, np.int8),
        )
        read = map(read_only_view, (potentials, codes, soft, np.empty(0)))
        arguments = (arrays, *read, kept_start, *out)
        linear_messages.pass_messages(*arguments)
        if np.any(out.status == linear_messages.UNDERFLOW):
            log_messages.finish_in_logs(*arguments)

    over_rows(ask, arrays, potentials, codes, soft, n_rows, whole=gradient)
    parts = [found[start] for start in sorted(found)]
    return parts[0] if len(parts) == 1 else Pass(*map(np.concatenate, zip(*parts, strict=True)))


def over_rows(
    ask: Callable[..., None],
    arrays: Any,
    potentials: np.ndarray,
    codes: np.ndarray,
    soft: np.ndarray,
    n_rows: int,
    whole: bool = False,
) -> None:
    """Call ``ask(rows, potentials, codes, soft)`` for parts of the rows, over threads, with what they read.

    ``whole`` asks for all rows at once: what `ask` sums over rows would depend on the parts otherwise. Parts begin at
    multiples of the lanes, or of the rows of one set of potentials, so that no row's answer depends on them.
    """
    n_sets = len(potentials)
    per_set = n_rows // n_sets
    unit = LANES if n_sets == 1 else per_set
    fits = all(len(x) in (0, 1, n_rows) or (n_sets > 1 and per_set % len(x) == 0) for x in (codes, soft))
    entries = max(int(np.sum(arrays.n_rows * arrays.n_cols)), 1)
    rows = unit * max(PIECE // (entries * max(unit, 1)), 1)
    parts = parts_of_rows(n_rows, n_rows if whole or not fits else rows) or [slice(0, 0)]

    def of_part(part: slice) -> None:
        sets = potentials if n_sets == 1 else potentials[part.start // per_set : part.stop // per_set]
        ask(part, sets, *(read_only_view(x[part] if len(x) == n_rows else x) for x in (codes, soft)))

    for_each(of_part, parts)
