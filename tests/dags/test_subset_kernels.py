"""Kernels over all subsets against loops over sets, at sizes that use every path: small, one block, several blocks."""

import numpy as np
import pytest

import pymc_spn as ps
from pymc_spn.dags import passes as passes_module
from pymc_spn.dags import subset_kernels, zeta_kernels
from pymc_spn.dags.bit_kernels import index_lookup
from pymc_spn.dags.passes import FullPasses, LatticePasses

EXACT = 1e-13  # relative; all terms are positive, a sum rounds at most once a bit


def by_bits(table, upward):
    out = table.copy()
    for bit in range(table.size.bit_length() - 1):
        halves = out.reshape(-1, 2, 1 << bit)
        halves[:, 1 - upward] += halves[:, upward]
    return out


@pytest.mark.parametrize("k", [*range(14), 16, 17])  # 2^15 entries are one block of the second-level cache
def test_sums_over_supersets(k):
    table = np.random.default_rng(k).random(1 << k)
    out = table.copy()
    zeta_kernels.sums_inside(out, True)
    np.testing.assert_allclose(out, by_bits(table, 1), rtol=EXACT)


@pytest.mark.parametrize("k", [0, 3, 6, 11, 16])
def test_sums_of_exponentials(k):
    rng = np.random.default_rng(k)
    logs = 50 * rng.normal(size=1 << k)
    logs[rng.random(logs.size) < 0.2] = -np.inf
    logs[-1] = 7.0
    out = np.empty(logs.size)
    top = logs.max()
    sound = zeta_kernels.linear_subset_sums(logs, top, out)
    expected = by_bits(np.exp(logs - top), 0)
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-300)
    assert sound or np.isneginf(logs[0])
    if k:
        logs[0] = logs[1:].max() - 700.0  # alone in its sum, and too small
        assert not zeta_kernels.linear_subset_sums(logs, logs.max(), out)
    assert zeta_kernels.linear_subset_sums(np.full(1 << k, -np.inf), -np.inf, out) and not out.any()


def prefix_sums(weights, factors, backward):
    d = factors.size
    out = np.zeros(1 << d)
    full = out.size - 1
    out[full if backward else 0] = 1.0
    for step in range(1, out.size):
        s = full - step if backward else step
        for i in range(d):
            if s >> i & 1 == (not backward):
                index = (s & ((1 << i) - 1)) | (s >> (i + 1) << i)
                out[s] += factors[i] * weights[i, index] * out[s ^ 1 << i]
    return out


@pytest.mark.parametrize("d", [1, 2, 4, 7, 8, 9, 10, 11])  # from 7 in vectors, too, from 10 in several blocks
def test_sums_to_and_from_every_prefix(d):
    rng = np.random.default_rng(d)
    weights, factors = rng.random((d, 1 << d - 1)), 0.5 + rng.random(d)
    weights[rng.random(weights.shape) < 0.2] = 0.0
    out = np.full(1 << d, np.nan)
    candidates = np.array([[j for j in range(d) if j != i] for i in range(d)], np.int64).reshape(d, d - 1)
    lookup = index_lookup(candidates, np.full(d, d - 1))
    for backward in (False, True):
        expected = prefix_sums(weights, factors, backward)
        offsets = np.arange(d + 1) << d - 1
        subset_kernels.sums_over_orders_restricted(lookup, offsets, weights.ravel(), factors, out, backward)
        np.testing.assert_allclose(out, expected, rtol=EXACT)
        if d >= subset_kernels.LEAST:
            subset_kernels.sums_over_orders(weights, factors, out, backward)
            np.testing.assert_allclose(out, expected, rtol=EXACT)


@pytest.mark.parametrize("d", [7, 8, 10, 13])
def test_posterior_of_parent_sets_and_its_margins(d):
    rng = np.random.default_rng(d)
    prefixes, completions = rng.random(1 << d), rng.random(1 << d)
    logs = rng.normal(size=1 << d - 1)
    index = np.arange(logs.size)
    out, margins = np.empty(logs.size), np.empty(d - 1)
    for i in range(d):
        without = np.array([s for s in range(1 << d) if not s >> i & 1])
        expected = by_bits(prefixes[without] * completions[without | 1 << i], 1) * np.exp(logs - 0.3)
        subset_kernels.parent_set_posterior(i, prefixes, completions, logs, 0.3, out)
        np.testing.assert_allclose(out, expected, rtol=EXACT)
        subset_kernels.inclusion(out, margins)
        np.testing.assert_allclose(margins, [expected[index >> k & 1 == 1].sum() for k in range(d - 1)], rtol=EXACT)


def random_scores(d, seed):
    rng = np.random.default_rng(seed)
    names = tuple(f"v{i}" for i in range(d))
    candidates = np.array([[j for j in range(d) if j != i] for i in range(d)])
    scores = 6 * rng.normal(size=d << d - 1)
    return ps.LocalScores(names, candidates, np.full(d, d - 1), scores, np.zeros((d, d), bool))


def test_eleven_variables_in_vectors_equal_logs_over_the_explicit_lattice(monkeypatch):
    scores = random_scores(11, 0)
    fast = ps.OrderSPN.exact(scores)
    assert isinstance(fast._passes, FullPasses) and fast._passes.unrestricted
    monkeypatch.setattr(passes_module, "nothing_lost", lambda *_: False)
    slow = ps.OrderSPN.exact(scores)
    assert isinstance(slow._passes, LatticePasses)
    given = {"present": [("v3", "v7"), ("v10", "v0")], "absent": [("v1", "v2")]}
    for a, b in ((fast, slow), (fast.condition(**given), slow.condition(**given))):
        assert float(a.log_mass) == pytest.approx(float(b.log_mass), abs=1e-10)
        np.testing.assert_allclose(a.edge_probabilities(), b.edge_probabilities(), atol=1e-11)
        for child in ("v0", "v5", "v10"):
            found, expected = (post.parent_set_probabilities(child, most=None) for post in (a, b))
            np.testing.assert_allclose(found, expected.reindex_like(found), atol=1e-11)


def test_several_threads_answer_alike(monkeypatch):
    from pymc_spn.dags import leaf_tables

    scores = random_scores(10, 1)
    edges = ps.OrderSPN.exact(scores).edge_probabilities()
    for module in (leaf_tables, passes_module):
        monkeypatch.setattr(module, "THREADS_FROM", 1)
    with ps.parallel_config(n_jobs=3):
        np.testing.assert_array_equal(ps.OrderSPN.exact(scores).edge_probabilities(), edges)
