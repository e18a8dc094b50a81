"""Logarithms, powers and distribution functions of eight values at a time, against NumPy and SciPy."""

import numpy as np
import pytest
from scipy.special import betainc, betaln

from pymc_spn.numerics.kernel_options import bare_kernel
from pymc_spn.numerics.lane_functions import log2_of_1_plus, power_of_2
from pymc_spn.numerics.lanes import LANES, load, splat, store
from pymc_spn.numerics.student_lanes import n_terms, student_below, student_density


@bare_kernel
def logs_and_powers(t, x, logs, powers):
    for k in range(t.size // LANES):
        store(logs, k, log2_of_1_plus(load(t, k)))
        store(powers, k, power_of_2(load(x, k)))


@bare_kernel
def below(z, log2_scale, power, terms, out):
    for k in range(z.size // LANES):
        density = student_density(load(z, k), splat(log2_scale), splat(power))
        store(out, k, student_below(load(z, k), density, splat(power), splat(1.0), terms))


def test_logs_and_powers_are_those_of_numpy():
    t = np.concatenate([np.geomspace(1e-300, 1e300, 4000), [0.0] * 8, np.linspace(0.0, 3.0, 992)])
    x = np.linspace(-1019.0, 1022.0, t.size)
    logs, powers = np.empty_like(t), np.empty_like(t)
    logs_and_powers(t, x, logs, powers)
    np.testing.assert_allclose(logs, np.log1p(t) / np.log(2.0), rtol=1e-15)
    np.testing.assert_allclose(powers, 2.0**x, rtol=1e-15)


@pytest.mark.parametrize("freedom", [0.2, 1.0, 2.5, 9.9, 10.1, 50.0, 51.0, 300.0, 2000.0, 30_000.0])
def test_distribution_functions_of_student_t(freedom):
    t = np.concatenate([np.geomspace(1e-9, 1e6, 2000), np.linspace(0.01, 9.0, 2000)])
    z = t / np.sqrt(freedom)
    near = 1.0 / (1.0 + z * z)
    centre = 0.5 - 0.5 * betainc(0.5, 0.5 * freedom, z * z * near)
    tail = np.where(centre > 0.2, centre, 0.5 * betainc(0.5 * freedom, 0.5, near))
    lower, upper = np.empty_like(z), np.empty_like(z)
    arguments = -betaln(0.5, 0.5 * freedom) / np.log(2.0), 0.5 * (freedom + 1.0), int(n_terms(freedom))
    below(-z, *arguments, lower)
    below(z, *arguments, upper)
    atol = 2e-14 if freedom <= 100.0 else 2e-12
    np.testing.assert_allclose(lower, tail, rtol=0.0, atol=atol)
    np.testing.assert_allclose(upper, 1.0 - tail, rtol=0.0, atol=atol)
    if freedom < 20.0:  # far tails keep their digits
        np.testing.assert_allclose(lower[tail < 0.2], tail[tail < 0.2], rtol=1e-11)
