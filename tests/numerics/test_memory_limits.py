"""Sizes are refused with a number before anything is allocated, and messages are short whatever they quote."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.numerics import memory_limits
from pymc_spn.numerics.memory_limits import memory_limit, refuse_count, refuse_memory
from pymc_spn.numerics.quoted_values import quoted, some

BIG = 10**12
COLUMNS = ["a", "b", "c", "d"]
LEAVES = dict.fromkeys(COLUMNS, "gaussian")
MIXTURE = ps.circuits.complete_tree(["a", "b"], n_children=2).circuit({"a": ["gaussian"], "b": ["gaussian"]})


def drawn_rows():
    n_sums, n_leaves = MIXTURE.n_sum_edges, int(np.sum(np.asarray(MIXTURE.kind) == 2))
    parameters = {"gaussian": np.tile([0.0, 1.0], (n_leaves, 1))}
    weights = np.log(1.0 / np.bincount(MIXTURE.edge_sum)[MIXTURE.edge_sum])
    assert weights.size == n_sums
    MIXTURE.with_parameters(weights, parameters).sample(BIG)


REFUSED = {
    "trees": (
        lambda: ps.circuits.complete_tree(COLUMNS, repetitions=BIG),
        "repetitions = 1,000,000,000,000 makes more",
    ),
    "copies": (
        lambda: ps.circuits.complete_tree(COLUMNS, n_children=10**5).circuit(LEAVES, max_nodes=10**30),
        "the explicit tree of 4,000,060,000,300,001 nodes needs 256,003,840 gigabytes",
    ),
    "circuit draws": (drawn_rows, "n = 1,000,000,000,000 needs 32,000 gigabytes"),
    "columns": (
        lambda: ps.LocalScores.from_data(pd.DataFrame(np.broadcast_to(np.nan, (2, 10_000)))),
        "at most 1,000 variables are possible, got 10,000; choose some columns",
    ),
    "nodes": (
        lambda: ps.indian_chefs.node_count_pmf(1.0, 1.0, ["x"], BIG),
        r"max_nodes = 1,000,000,000,000: a graph needs 2e\+15 gigabytes",
    ),
    "observed": (
        lambda: ps.indian_chefs.node_count_pmf(1.0, 1.0, BIG, BIG),
        "n_observed = 1,000,000,000,000: a graph needs",
    ),
    "graphs": (
        lambda: ps.indian_chefs.sample_indian_chefs(1.0, 1.0, 1.0, 2, draws=BIG),
        "draws = 1,000,000,000,000 needs 40,000",
    ),
    "particles": (
        lambda: ps.fit_tree(np.array([[1.0], [2.0]]), [0, 1], particles=BIG),
        "particles = 1,000,000,000,000 needs 500,000 gigabytes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_absurd_sizes_are_refused_before_anything_is_allocated(name):
    call, message = REFUSED[name]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            call()
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_the_limit_is_half_of_the_memory_or_what_is_asked_for(monkeypatch):
    limit = memory_limit()
    assert 2**28 < limit < 2**50
    refuse_count("n", 1000, limit / 1000)
    with pytest.raises(
        ValueError, match=r"^n = 1,001 needs .* of memory, more than half of this machine's memory \(.*\); a"
    ):
        refuse_count("n", 1001, limit / 1000)
    refuse_memory("a table", 1e30, "take less", max_gigabytes=1e21)
    with pytest.raises(
        ValueError, match=r"^a table needs 2 gigabytes of memory, more than max_gigabytes = 1.5; take less$"
    ):
        refuse_memory("a table", 2 * 10**9, "take less", max_gigabytes=1.5)
    with pytest.raises(ValueError, match=r"n = 10\^18 or more needs over 1e\+291 gigabytes"):
        refuse_count("n", 10**5000, 8)
    monkeypatch.delattr(memory_limits.os, "sysconf")
    assert memory_limit() == 2**33


def test_quoted_values_are_short():
    assert quoted("a") == "'a'" and quoted([1, 2]) == "[1, 2]" and quoted(1.5) == "1.5"
    many = [
        "x" * 10**6,
        ["y"] * 10**6,
        tuple(range(10**5)),
        {"k": "z" * 10**5},
        set(range(1000)),
        10**5000,
        b"b" * 10**4,
    ]
    for value in many:
        assert len(quoted(value)) < 300 and len(some([value] * 50)) < 900
    assert quoted("x" * 10**6, 40).endswith("... (1000002 characters)")
    assert some(range(20), 3) == "0, 1, 2, ... 20 in all"
