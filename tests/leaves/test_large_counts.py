"""Leaves of counts that no integer holds, or of parameters whose log gammas have no digits after the point."""

from decimal import Decimal

import numpy as np
import pytest
from numba import njit
from scipy import stats

from pymc_spn.circuits.evaluation.packed_layout import draw_leaf
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.family_codes import BETA_GEOMETRIC, GEOMETRIC, NEGATIVE_BINOMIAL, POISSON
from tests import decimals
from tests.shared_circuits import build

N = 4000


@njit
def draws(rng, code, theta, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = draw_leaf(code, rng, theta)
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
    by_circuit = np.ravel(circuit.with_parameters(np.zeros(0), {family: [theta]}).sample(N, random_seed=1).to_numpy())
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
    x = np.ravel(
        circuit.with_parameters(np.zeros(0), {"beta_geometric": [[1e-4, 1.0]]}).sample(100, random_seed=1).to_numpy()
    )
    by_kernel = draws(np.random.default_rng(2), BETA_GEOMETRIC, np.array([1e-4, 1.0]), 100)
    assert np.isfinite(x).all() and np.isfinite(by_kernel).all() and min(x.max(), by_kernel.max()) > 1e300


PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def student(x, location, scale, dof):
    norm = decimals.log_rising(dof / 2, Decimal("0.5")) - (PI * dof).ln() / 2 - scale.ln()
    return norm - (dof + 1) / 2 * (1 + ((x - location) / scale) ** 2 / dof).ln()


@pytest.mark.parametrize(
    ("family", "theta", "log_density", "x", "tolerance"),
    [
        ("student_t", [0.0, 1.0, 1e9], student, [0.3, 2.0, 40.0], 1e-12),
        ("student_t", [1.0, 2.0, 1e17], student, [0.3, 2.0, 40.0], 1e-12),
        ("beta_geometric", [3.0, 1e12], decimals.beta_geometric, [0.0, 1.0, 3e11, 1e15, 1e19, 1e22], 1e-12),
        ("beta_geometric", [1e6, 1e12], decimals.beta_geometric, [0.0, 1.0, 1e6, 3e7], 1e-8),
        ("geometric", [1e-18], lambda x, p: p.ln() + x * (1 - p).ln(), [0.0, 1e18, 1e20], 1e-12),
    ],
)
def test_log_densities_keep_their_digits(family, theta, log_density, x, tolerance):
    circuit, x = build([("leaf", 0, family)], ["a"], (family,)), np.array(x)
    true = decimals.in_decimals(log_density, x, *theta)
    few = circuit.with_parameters(np.zeros(0), {family: [theta]}).log_density(x[:, None]).values
    blocks = (
        circuit.with_parameters(np.zeros(0), {family: [theta]})
        .log_density(np.tile(x[:, None], (8, 1)))
        .values[-x.size :]
    )
    for found in (few, blocks, EXPLICIT[family].log_density(np.array(theta), x)):
        np.testing.assert_allclose(found, true, rtol=1e-13, atol=tolerance)
