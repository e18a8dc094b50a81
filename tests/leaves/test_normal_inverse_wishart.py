"""Leaves over several columns in kernels, against SciPy's multivariate t, the normal-gamma leaf and closed evidence."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import multigammaln

from pymc_spn.leaves import normal_inverse_wishart
from tests.called_kernels import all_called

niw = all_called(normal_inverse_wishart)

D, N, K0 = 4, 7, 0.05
V0 = D + 2.0


class Leaf:
    """A leaf of some rows, with its posterior written out."""

    def __init__(self, rows, psi0):
        self.n, self.d = rows.shape
        self.psi0, self.k, self.v = psi0, K0 + self.n, self.d + 2.0 + self.n
        self.sums, self.products = np.zeros(self.d), np.zeros(niw.triangle_size(self.d))
        for row in rows:
            niw.add_row(self.d, row, 1.0, self.sums, self.products)
        mean = rows.sum(axis=0) / self.k
        self.mean, self.psi = mean, np.diag(psi0) + rows.T @ rows - self.k * np.outer(mean, mean)
        self.f = self.v - self.d + 1.0
        self.scale = self.psi * (self.k + 1.0) / (self.k * self.f)

    def factor(self):
        factor = np.zeros_like(self.products)
        niw.scatter(self.d, self.k, self.sums, self.products, self.psi0, factor)
        half_log = niw.factorise(self.d, self.d, factor, self.psi0)
        return factor, niw.log_scale_of(self.d, self.d, self.k, self.v, half_log)

    def log_predictive(self, x):
        factor, log_scale = self.factor()
        return niw.log_predictive_of_row(self.d, self.k, self.v, log_scale, self.sums, factor, x, np.zeros(self.d))

    def observed(self, x):
        """Log predictive of what is observed, and what `draw_missing_of_row` needs after it."""
        order = np.zeros(self.d, np.int64)
        n_seen = niw.observed_first(self.d, x, order)
        left = np.zeros_like(self.products), np.zeros(self.d), np.zeros(self.d)
        of_leaf = self.k, self.v, self.sums, self.products, self.psi0
        return niw.log_predictive_of_observed(self.d, n_seen, order, *of_leaf, x, *left), (n_seen, order, *left)


def leaf(seed=0, d=D, n=N, spread=1.0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) * spread)
    return Leaf(rows, rng.gamma(2.0, size=d)), rows, 2.0 * rng.normal(size=d)


@pytest.mark.parametrize("n", [0, 1, N, 400])
def test_the_predictive_is_a_multivariate_t(n):
    """A double holds the two forms to some 1e-12 of their terms."""
    own, _, x = leaf(n, n=n)
    assert own.log_predictive(x) == pytest.approx(
        stats.multivariate_t(own.mean, own.scale, df=own.f).logpdf(x), rel=1e-11
    )


@pytest.mark.parametrize("seen", [[0], [1, 3], [2, 0, 1], [0, 1, 2, 3]])
def test_observed_columns_have_the_marginal(seen):
    own, _, x = leaf(1)
    gapped = np.full(D, np.nan)
    gapped[seen] = x[seen]
    expected = stats.multivariate_t(own.mean[seen], own.scale[np.ix_(seen, seen)], df=own.f).logpdf(x[seen])
    assert own.observed(gapped)[0] == pytest.approx(expected, rel=1e-11)
    fewer = stats.multivariate_t(own.mean[seen], own.scale[np.ix_(seen, seen)], df=own.f - len(seen)).logpdf(x[seen])
    assert abs(expected - fewer) > 1e-4  # degrees of freedom that fall with the columns would be seen


def test_missing_columns_are_drawn_from_the_conditional():
    """Means and covariances of 10,000 draws within 5 standard errors of the conditional t's."""
    own, _, x = leaf(2, n=20)
    seen, gaps, n_draws = [1, 3], [0, 2], 10_000
    rng, draws = np.random.default_rng(3), np.empty((n_draws, D))
    for row in draws:
        row[:] = np.nan
        row[seen] = x[seen]
        _, (n_seen, order, triangle, floor, z) = own.observed(row)
        niw.draw_missing_of_row(rng, D, n_seen, order, own.k, own.v, own.sums, triangle, floor, z, row)
    across = own.scale[np.ix_(gaps, seen)] @ np.linalg.inv(own.scale[np.ix_(seen, seen)])
    off = x[seen] - own.mean[seen]
    square = off @ np.linalg.solve(own.scale[np.ix_(seen, seen)], off)
    rest = own.scale[np.ix_(gaps, gaps)] - across @ own.scale[np.ix_(seen, gaps)]
    f = own.f + len(seen)
    expected = (own.f + square) / f * rest * f / (f - 2.0)
    np.testing.assert_array_equal(draws[:, seen], np.broadcast_to(x[seen], (n_draws, 2)))
    error = np.sqrt(np.diag(expected) / n_draws)
    assert np.all(np.abs(draws[:, gaps].mean(axis=0) - own.mean[gaps] - across @ off) < 5.0 * error)
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / n_draws)
    assert np.all(np.abs(np.cov(draws[:, gaps].T) - expected) < 6.0 * spread)  # tails of a t: a sixth, not a fifth
    assert np.all(np.abs(rest - expected) > 6.0 * spread)  # the scale matrix in place of the covariance is seen


def test_evidence_is_the_product_of_predictives_and_has_a_closed_form():
    own, rows, _ = leaf(4)
    total, before = 0.0, Leaf(rows[:0], own.psi0)
    for i, row in enumerate(rows):
        total += before.log_predictive(row)
        before = Leaf(rows[: i + 1], own.psi0)
    evidence = niw.log_evidence(D, N, K0, V0, own.sums, own.products, own.psi0, np.zeros_like(own.products))
    closed = (
        -0.5 * N * D * np.log(np.pi)
        + multigammaln(0.5 * own.v, D)
        - multigammaln(0.5 * V0, D)
        + 0.5 * V0 * np.log(own.psi0).sum()
        - 0.5 * own.v * np.linalg.slogdet(own.psi)[1]
        + 0.5 * D * np.log(K0 / own.k)
    )
    assert evidence == pytest.approx(closed, rel=1e-12)
    assert evidence == pytest.approx(total, rel=1e-11)


def test_rows_are_taken_away_and_nearly_dependent_columns_are_factored():
    """Ratios of 1e12 between eigenvalues: no pivot below the prior's, and what is left is that of the rest."""
    rng = np.random.default_rng(6)
    base = rng.normal(size=(50, 1))
    rows = base * np.array([1.0, 3.0, -2.0, 0.5]) + 1e-7 * rng.normal(size=(50, D))
    own, rest = Leaf(rows, np.full(D, 1e-10)), Leaf(rows[:40], np.full(D, 1e-10))
    for row in rows[40:]:
        niw.add_row(D, row, -1.0, own.sums, own.products)
    np.testing.assert_allclose(own.products, rest.products, rtol=0.0, atol=1e-13 * rest.products.max())
    factor, _ = own.factor()
    diagonal = factor[[niw.column_of_triangle(D, j) for j in range(D)]]
    assert np.isfinite(factor).all() and np.all(diagonal <= 1.0 / np.sqrt(own.psi0) * (1.0 + 1e-9))
