"""Leaves of counts that no integer holds, or of which log gammas have no digits after the point."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from pymc_spn.circuits.evaluation.leaf_forms import BETA_GEOMETRIC, GEOMETRIC, NEGATIVE_BINOMIAL, POISSON
from pymc_spn.circuits.evaluation.packed_layout import draw_leaf
from tests.circuits.shared_circuits import build

N = 4000


@njit
def draws(rng, code, theta, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = draw_leaf(rng, code, theta)
    return out


LARGE = [  # of what logarithms are taken, and of which law of it; beyond 2^53 a count is a real number
    ("poisson", POISSON, [1e24], lambda x: (x - 1e24) / 1e12, stats.norm()),
    ("poisson", POISSON, [1e19], lambda x: (x - 1e19) / np.sqrt(1e19), stats.norm()),
    ("negative_binomial", NEGATIVE_BINOMIAL, [2.5, 1e-25], lambda x: x * 1e-25, stats.gamma(2.5)),
    ("geometric", GEOMETRIC, [1e-25], lambda x: x * 1e-25, stats.expon()),
    # log of (1 - p) / p is logistic for alpha = beta = 1; a beta of small alpha is a power of a uniform number
    ("beta_geometric", BETA_GEOMETRIC, [0.05, 1.0], lambda x: np.exp(-0.05 * np.log1p(x)), None),
]


@pytest.mark.parametrize(("family", "code", "theta", "scaled", "law"), LARGE)
def test_draws_are_as_large_as_they_should_be(family, code, theta, scaled, law):
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    by_circuit = np.ravel(circuit.sample(N, np.zeros(0), {family: [theta]}, random_seed=1))
    by_kernel = draws(np.random.default_rng(2), code, np.array(theta), N)
    for x in (by_circuit, by_kernel):
        assert np.isfinite(x).all() and (x >= 0.0).all() and (x == np.floor(x)).all()
        assert x.max() > 2.0**63
        if law is None:  # both within the errors of samples of this size
            assert x.max() > 1e40
        else:
            assert stats.kstest(scaled(x), law.cdf).pvalue > 1e-3
    assert stats.ks_2samp(by_circuit, by_kernel).pvalue > 1e-3


def test_what_exceeds_all_numbers_is_the_largest():
    circuit = build([("leaf", 0, "beta_geometric")], ["a"], ("beta_geometric",))
    x = np.ravel(circuit.sample(100, np.zeros(0), {"beta_geometric": [[1e-4, 1.0]]}, random_seed=1))
    by_kernel = draws(np.random.default_rng(2), BETA_GEOMETRIC, np.array([1e-4, 1.0]), 100)
    assert np.isfinite(x).all() and np.isfinite(by_kernel).all() and min(x.max(), by_kernel.max()) > 1e300
