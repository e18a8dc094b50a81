"""Random factor graphs for the tests: by Hypothesis, and with their factors in the form of the reference."""

import numpy as np
from hypothesis import strategies as st

from pymc_spn import FactorGraph


def build(cards, factors):
    """`FactorGraph` of variables ``v0``, ``v1``, ... and factors (scope, log table)."""
    fg = FactorGraph({f"v{i}": k for i, k in enumerate(cards)})
    for scope, table in factors:
        fg.add_factor([f"v{i}" for i in scope], table)
    return fg


@st.composite
def graphs(draw, max_variables=6, min_states=1, impossible=True, ties=False):
    """(cards, factors, codes): up to three states, up to seven factors on up to three variables, some evidence.

    Scopes may repeat, the graph may be disconnected or empty, factors may be constants, entries may be -inf. With
    ``ties`` the tables hold small integers, so that maximisers tie.
    """
    n = draw(st.integers(1, max_variables))
    cards = tuple(draw(st.lists(st.integers(min_states, 3), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0]))
    factors = []
    for _ in range(draw(st.integers(0, 7))):
        arity = draw(st.integers(0, min(3, n)))
        scope = tuple(draw(st.permutations(range(n)))[:arity])
        shape = tuple(cards[v] for v in scope)
        table = rng.integers(-1, 2, shape).astype(float) if ties else scale * rng.normal(size=shape)
        if impossible:
            table = np.where(rng.random(shape) < 0.1, -np.inf, table)
        factors.append((scope, table))
    codes = tuple(draw(st.none() | st.integers(0, k - 1)) if draw(st.booleans()) else None for k in cards)
    return cards, factors, codes


def given_labels(codes):
    """Evidence for `JunctionTree.infer` from codes with None."""
    return {f"v{i}": (np.nan if c is None else c) for i, c in enumerate(codes)}
