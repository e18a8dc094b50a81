"""Moments within intervals far narrower than the leaf, against quadrature in sixty decimals."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from pymc_spn.leaves.explicit_leaves import EXPLICIT
from tests.decimals import PRECISION

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def student(mu, scale, dof):
    """Log density up to a constant, of a decimal."""
    return lambda x: -(dof + 1) / 2 * (1 + ((x - mu) / scale) ** 2 / dof).ln()


def exact_moments(log_density, low, high, n_panels=40):
    """Mean less the lower end in widths of the interval, and central moments 2, 3 and 4 in powers of the width."""
    with localcontext() as context:
        context.prec = PRECISION
        low, width = Decimal(low), Decimal(high) - Decimal(low)
        t = [(Decimal(k) + (Decimal(v) + 1) / 2) / n_panels for k in range(n_panels) for v in map(float, NODES)]
        logs = [log_density(low + width * v) for v in t]
        top = max(logs)
        mass = np.array([float((v - top).exp()) for v in logs]) * np.tile(WEIGHTS, n_panels)
    mass, t = mass / mass.sum(), np.array(t, np.float64)
    mean = mass @ t
    return mean, [mass @ (t - mean) ** k for k in (2, 3, 4)]


def compare(name, p, log_density, low, high):
    family, p = EXPLICIT[name], np.array([p])
    (mean, variance), width = (float(v[0]) for v in family.moments_within(p, low, high)), high - low
    exact, central = exact_moments(log_density, low, high)
    assert (mean - low) / width == pytest.approx(exact, abs=1e-12 + 2.0 * np.spacing(abs(low)) / width)
    assert variance / width**2 == pytest.approx(central[0], rel=1e-11)
    moments = family.about_within(p, low, high, np.array([low + exact * width]), 4)[0]
    rounded = float((Decimal(low + exact * width) - Decimal(low)) / (Decimal(high) - Decimal(low)))  # the centre
    shift = exact - rounded
    shifted = [
        central[0] + shift**2,
        central[1] + 3.0 * shift * central[0] + shift**3,
        central[2] + 4.0 * shift * central[1] + 6.0 * shift**2 * central[0] + shift**4,
    ]
    np.testing.assert_allclose(moments[2:] / width ** np.arange(2, 5), shifted, rtol=1e-10, atol=1e-12)


MU, SCALE = 5.0, 3.0
# Distances from the centre and widths in scales: across the centre, beside it, far out; of those the intervals that
# hold numbers enough to speak of their width.
PLACES = [
    (at, width)
    for at in (0.0, 0.3, -2.0, 1e3, -1e8)
    for width in (1e-9, 1e-5, 1e-2)
    if np.spacing(abs(MU + SCALE * at)) < 1e-8 * SCALE * width
]


@pytest.mark.parametrize(("at", "width"), PLACES)
@pytest.mark.parametrize("dof", [0.7, 3.0, 1e4, 1e9])
def test_student_leaves(at, width, dof):
    mu, scale = MU, SCALE
    low = mu + scale * at - 0.25 * scale * width
    high = low + scale * width
    law = student(Decimal(mu), Decimal(scale), Decimal(dof))
    compare("student_t", (mu, scale, dof), law, low, high)


@pytest.mark.parametrize("low", [0.0, 50.0, 1e6])
@pytest.mark.parametrize(("width", "alpha"), [(1e-8, 0.3), (1e-4, 1e3), (0.3, 3.0)])
def test_lomax_leaves(low, width, alpha):
    beta = 2.0 * alpha
    high = low + width * max(low, 1.0)

    def law(x):
        return -Decimal(alpha + 1.0) * (1 + x / Decimal(beta)).ln()

    compare("lomax", (alpha, beta), law, low, high)


@pytest.mark.parametrize(
    ("at", "width", "dof", "scale"),
    [
        (1e-3, 1e-9, 0.7, 1.0),
        (0.9, 1e-5, 0.7, 0.01),
        (1.0, 0.1, 1e4, 0.01),
        (40.0, 1e-5, 1e4, 1.0),
        (40.0, 0.1, 0.7, 0.01),
    ],
)
def test_log_student_leaves(at, width, dof, scale):
    mu = 2.0
    low = np.exp(mu) * at * (1.0 - 0.3 * width)
    high = low * (1.0 + width)
    of_log = student(Decimal(mu), Decimal(scale), Decimal(dof))

    def law(x):
        return of_log(x.ln()) - x.ln()

    compare("log_student_t", (mu, scale, dof), law, low, high)
