"""Joint draws of the variables of a factor graph, in blocks of what there is room for."""

from typing import Any

import numpy as np

from pymc_spn.factor_graphs import log_messages
from pymc_spn.numerics.answer_steps import each

MOST_UNIFORMS = 4_000_000  # uniform numbers held at a time


def drawn_states(inference: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """(rows, n, variables) int32: draws given each row of evidence of an `Inference`, as numbers of states."""
    n_rows, plan, n_variables = inference.evidence.n_rows, inference.tree.plan, len(inference.tree.graph.names)
    states = np.empty((n_rows, n, n_variables), np.int32)
    draws = max(1, min(n, MOST_UNIFORMS // plan.n_cliques))
    rows = max(1, MOST_UNIFORMS // (plan.n_cliques * draws))

    def draw(part: slice, uniforms: np.ndarray) -> np.ndarray:
        """States (rows, draws, variables) of a part of the rows from uniform numbers (rows, draws, cliques)."""
        found, log_z = np.empty((*uniforms.shape[:2], n_variables), np.int32), np.empty(len(uniforms))

        def ask(some: slice, *inputs: Any) -> None:
            log_messages.draw_rows(plan.arrays, *inputs, uniforms[some], found[some], log_z[some])

        inference._over_rows(ask, part)
        return found

    for i in each(range(0, n_rows, rows)):
        part = slice(i, min(i + rows, n_rows))
        for j in each(range(0, n, draws)):
            some = slice(j, min(j + draws, n))
            states[part, some] = draw(part, rng.random((part.stop - i, some.stop - j, plan.n_cliques)))
    return states
