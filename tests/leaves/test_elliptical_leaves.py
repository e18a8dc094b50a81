"""Gaussian and Student t leaves over several columns, against SciPy, ratios of densities and quadrature."""

import numpy as np
import pytest
from scipy import special, stats

from pymc_spn.leaves.elliptical_leaves import groups_of
from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES
from pymc_spn.leaves.gaussian import student_rows
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_gaussian import MultivariateGaussianFamily, draw_leaves
from pymc_spn.leaves.multivariate_student_t import MultivariateStudentT, predictive_leaves

NAN = np.nan
KINDS = [MultivariateGaussianFamily, MultivariateStudentT]


def scale_of(rng, d):
    load = rng.normal(size=(d, 2))
    return load @ load.T + np.diag(rng.uniform(0.1, 1.0, d))


def leaves_of(kind, rng, n, d):
    """Parameters (n, P) with their laws of SciPy's."""
    dof, location, scale = rng.uniform(2.5, 9.0, n), rng.normal(size=(n, d)), [scale_of(rng, d) for _ in range(n)]
    rows = kind(d).leaves_of(dof, location, np.array(scale))
    return rows, [law_of(kind, *own) for own in zip(dof, location, scale, strict=True)]


def law_of(kind, dof, location, scale):
    if kind is MultivariateGaussianFamily:
        return lambda seen: stats.multivariate_normal(location[seen], scale[np.ix_(seen, seen)])
    return lambda seen: stats.multivariate_t(location[seen], scale[np.ix_(seen, seen)], dof)


def with_gaps(rng, n, d):
    rows = 2.0 * rng.normal(size=(n, d))
    rows[rng.random((n, d)) < 0.4] = NAN
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_is_the_univariate_family(kind):
    rng = np.random.default_rng(0)
    n, family = 300, kind(1)
    dof, location, width = rng.uniform(0.5, 400.0, n), rng.normal(size=n), rng.gamma(2.0, 1.0, n)
    p = family.leaves_of(dof, location[:, None], np.square(width)[:, None, None])
    own = family.column_leaves(dof, location, width)
    x = location + 30.0 * width * rng.normal(size=n)
    np.testing.assert_allclose(
        family.log_density_of_rows(p, x[:, None]), family.univariate.log_density(own, x), rtol=1e-14, atol=1e-15
    )
    law, found = family.column_of_rows(p, x[:, None], 0)
    assert law is family.univariate
    np.testing.assert_allclose(found, own, rtol=1e-15)
    np.testing.assert_allclose(
        family.log_probability_of_boxes(p, x[:, None], x[:, None] + 1.0), law.log_interval(own, x, x + 1.0), rtol=1e-13
    )
    mean, covariance = family.moments_of_rows(p)
    np.testing.assert_array_equal(mean[:, 0], law.mean(own))
    np.testing.assert_allclose(covariance[:, 0, 0], law.variance(own), rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_each_row", [True, False])
def test_densities_are_those_of_scipy(kind, of_each_row):
    rng = np.random.default_rng(1)
    n, d = 120, 4
    p, laws = leaves_of(kind, rng, n if of_each_row else 1, d)
    rows = with_gaps(rng, n, d)
    rows[0], rows[1], rows[2] = NAN, 1e9, -1e200
    logs = kind(d).log_density_of_rows(p, rows)
    wanted = []
    for i, row in enumerate(rows):
        seen = np.flatnonzero(~np.isnan(row))
        with np.errstate(over="ignore"):
            wanted.append(laws[i % len(laws)](seen).logpdf(row[seen]) if seen.size else 0.0)
    assert logs[0] == 0.0 and logs[2] == -np.inf
    wanted[2] = -np.inf
    np.testing.assert_allclose(logs, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_each_row", [True, False])
def test_conditionals_are_ratios_of_densities(kind, of_each_row):
    rng = np.random.default_rng(2)
    n, d = 150, 5
    family = kind(d)
    p, _ = leaves_of(kind, rng, n if of_each_row else 1, d)
    rows = with_gaps(rng, n, d)
    for columns in ([3], [0, 2], [4, 1, 2], [0, 1, 2, 3, 4]):
        full, without = rows.copy(), rows.copy()
        full[:, columns] = rng.normal(size=(n, len(columns)))
        without[:, columns] = NAN
        law, own = family.columns_of_rows(p, rows, columns)  # what is observed of the columns themselves is left out
        assert law.n_columns == len(columns) and law.name in (LEAF_FAMILIES[law.name].name, family.univariate.name)
        assert law.problem(own) is None
        wanted = family.log_density_of_rows(p, full) - family.log_density_of_rows(p, without)
        np.testing.assert_allclose(law.log_density_of_rows(own, full[:, columns]), wanted, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_moments_of_what_is_missing(kind):
    rng = np.random.default_rng(3)
    n, d = 40_000, 4
    p = kind(d).leaves_of(np.array([7.0]), np.array([[1.0, -2.0, 0.5, 3.0]]), scale_of(rng, d)[None])
    for given in ([NAN] * 4, [2.0, NAN, NAN, 1.5]):
        rows = np.tile(given, (n, 1))
        gaps = np.flatnonzero(np.isnan(given))
        drawn = kind(d).draw_missing(np.broadcast_to(p, (n, p.shape[1])), rows, np.random.default_rng(4))
        np.testing.assert_array_equal(drawn[:, ~np.isnan(given)], rows[:, ~np.isnan(given)])
        law, own = kind(d).columns_of_rows(p, rows[:1], gaps)
        (mean,), (covariance,) = law.moments_of_rows(own)
        x = drawn[:, gaps] - mean
        products = x[:, :, None] * x[:, None]
        assert np.all(np.abs(x.mean(axis=0)) < 5.0 * x.std(axis=0) / np.sqrt(n))
        assert np.all(np.abs(products.mean(axis=0) - covariance) < 5.0 * products.std(axis=0) / np.sqrt(n))
        along = rng.normal(size=gaps.size)
        dof, place, scale = (own[0, 0] if kind is MultivariateStudentT else np.inf), *law.location_and_scale(own)
        t = (drawn[:, gaps] - place[0]) @ along / np.sqrt(along @ scale[0] @ along)
        assert stats.kstest(t, stats.t(dof).cdf if np.isfinite(dof) else stats.norm.cdf).pvalue > 1e-3


def test_moments_that_there_are_not():
    rows = np.column_stack([[0.8, 1.5, 3.0], np.tile([1.0, 2.0, 4.0, 1.0, 1.0, 9.0], (3, 1))])
    mean, covariance = LEAF_FAMILIES["multivariate_student_t[2]"].moments_of_rows(rows)
    np.testing.assert_array_equal(mean, [[NAN, NAN], [1.0, 2.0], [1.0, 2.0]])
    inf = np.inf
    np.testing.assert_array_equal(
        covariance, [[[NAN, NAN], [NAN, NAN]], [[inf, NAN], [NAN, inf]], [[12.0, 3.0], [3.0, 27.0]]]
    )


def by_quadrature(family, p, low, high):
    """Probability of a box by Gauss panels over all columns but the last, which is an interval given the others."""
    k = len(low)
    nodes, weights = special.roots_legendre(24)
    axes = []
    for j in range(k - 1):
        law, own = family.column_of_rows(p, np.full((1, k), NAN), j)
        centre, width = own[0, 0], own[0, 1]
        ends = [np.arcsinh((end - centre) / width) for end in (low[j], high[j])]
        edges = np.linspace(max(ends[0], -14.0), min(ends[1], 14.0), 9)
        w = (edges[:-1, None] + np.diff(edges)[:, None] * 0.5 * (nodes + 1.0)).ravel()
        share = (np.diff(edges)[:, None] * 0.5 * weights).ravel()
        axes.append((centre + width * np.sinh(w), share * width * np.cosh(w)))
    points = np.stack(np.meshgrid(*(x for x, _ in axes), indexing="ij"), axis=-1).reshape(-1, k - 1)
    share = np.prod(np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij"), axis=-1), axis=-1).ravel()
    rows = np.column_stack([points, np.full(len(points), NAN)])
    law, own = family.column_of_rows(p, rows, k - 1)
    ends = np.full(len(rows), low[-1]), np.full(len(rows), high[-1])
    return np.sum(share * np.exp(family.log_density_of_rows(p, rows) + law.log_interval(own, *ends)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3])
def test_boxes_are_within_their_tolerance(kind, k):
    rng = np.random.default_rng(5)
    family = kind(k)
    for _ in range(2 if k == 3 else 6):
        p, _ = leaves_of(kind, rng, 1, k)
        sd = np.sqrt(np.diagonal(family.location_and_scale(p)[1][0]))
        low = rng.normal(size=k) * sd - sd
        high = np.where(rng.random(k) < 0.3, np.inf, low + rng.gamma(2.0, 1.0, k) * sd)
        found = np.exp(family.log_probability_of_boxes(p, low[None], high[None]))[0]
        wanted = by_quadrature(family, p, low, high)
        assert found == pytest.approx(wanted, abs=family.box_tolerance)
        assert found == pytest.approx(wanted, rel=1e-3)
        again = np.exp(family.log_probability_of_boxes(p, np.tile(low, (70, 1)), np.tile(high, (70, 1))))
        np.testing.assert_allclose(again, found, rtol=1e-13)  # the same points, whatever is asked beside it


def test_boxes_of_many_columns_are_within_their_tolerance():
    """One factor, given which the columns are independent: the answer is one integral, two of Student t leaves."""
    k = 9
    load, own, low, high = np.linspace(0.3, 1.2, k), 0.4, -0.8, 1.1
    scale = np.outer(load, load) + own**2 * np.eye(k)

    def inside(s=1.0):
        z = np.linspace(-9.0, 9.0, 4_001)[:, None]
        above, below = (special.ndtr((end * s - load * z) / own) for end in (high, low))
        return np.trapezoid(np.prod(above - below, axis=1) * stats.norm.pdf(z[:, 0]), z[:, 0])

    wanted = inside()
    ends = np.full((1, k), low), np.full((1, k), high)
    gaussian, student = MultivariateGaussianFamily(k), MultivariateStudentT(k)
    p = gaussian.leaves_of(np.zeros(1), np.zeros((1, k)), scale[None])
    assert np.exp(gaussian.log_probability_of_boxes(p, *ends))[0] == pytest.approx(wanted, abs=1e-4)
    near = gaussian.leaves_of(np.zeros(1), np.zeros((1, k)), (np.outer(load, load) + 1e-12 * np.eye(k))[None])
    wanted = special.ndtr(high / load[-1]) - special.ndtr(low / load[-1])  # all columns are nearly the factor itself
    assert np.exp(gaussian.log_probability_of_boxes(near, *ends))[0] == pytest.approx(wanted, abs=1e-4)
    dof = 4.0
    s, weight = special.roots_legendre(60)
    s, weight = 2.0 * (s + 1.0), 2.0 * weight  # root of a chi-squared number over its degrees of freedom
    density = stats.chi(dof).pdf(s * np.sqrt(dof)) * np.sqrt(dof)
    of_scales = [inside(v) for v in s]
    p = student.leaves_of(np.array([dof]), np.zeros((1, k)), scale[None])
    found = np.exp(student.log_probability_of_boxes(p, *ends))[0]
    assert found == pytest.approx(np.sum(weight * density * of_scales), abs=1e-4)


def test_boxes_far_away_narrow_and_empty():
    family = LEAF_FAMILIES["multivariate_student_t[2]"]
    p = np.array([[5.0, 0.0, 0.0, 1.0, 0.6, 0.6, 1.0]])
    for low, high in (([1e4, -1.0], [np.inf, 1e4]), ([-1.0, 50.0], [2.0, 51.0])):
        low, high = np.array(low), np.array(high)
        order = np.argsort(-np.abs(low))  # by quadrature over the far column
        found = family.log_probability_of_boxes(p, low[None], high[None])[0]
        wanted = by_quadrature(family, p, low[order], high[order])
        assert found == pytest.approx(np.log(wanted), abs=1e-4)
    gaussian = LEAF_FAMILIES["multivariate_gaussian[2]"]
    q = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]])
    low, high = np.array([[60.0, 0.0]]), np.array([[np.inf, 1.0]])
    parts = special.log_ndtr(-60.0), np.log(special.ndtr(1.0) - 0.5)
    assert gaussian.log_probability_of_boxes(q, low, high)[0] == pytest.approx(sum(parts), rel=1e-9)
    tiny = np.array([[0.3, 0.2]])
    wanted = gaussian.log_density_of_rows(q, tiny)[0] + 2.0 * np.log(1e-6)
    assert gaussian.log_probability_of_boxes(q, tiny, tiny + 1e-6)[0] == pytest.approx(wanted, abs=1e-5)
    ends = np.array([[1.0, 0.0], [-np.inf, -np.inf], [0.0, 0.0]]), np.array([[0.0, 1.0], [np.inf, np.inf], [0.0, 1.0]])
    np.testing.assert_array_equal(gaussian.log_probability_of_boxes(q, *ends), [-np.inf, 0.0, -np.inf])


def test_bad_parameters_are_named():
    student, gaussian = LEAF_FAMILIES["multivariate_student_t[2]"], LEAF_FAMILIES["multivariate_gaussian[2]"]
    good = [4.0, 0.0, 0.0, 1.0, 0.5, 0.5, 1.0]
    for place, value, rule in (
        (0, 0.0, "degrees of freedom must be positive"),
        (1, NAN, "parameters must be finite"),
        (3, -1.0, "scale matrix must be symmetric and positive definite"),
        (4, 0.6, "scale matrix must be symmetric and positive definite"),
    ):
        bad = np.array([good, good])
        bad[1, place] = value
        assert student.problem(bad) == (1, rule)
    assert gaussian.problem(np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]]))[1].startswith("covariance must be symmetric")
    assert student.problem(np.array([good[:-1]])) == (
        0,
        "rows must be (degrees of freedom, location (2,), scale matrix (2, 2) row by row)",
    )
    assert student.problem(np.array([[4.0, 0.0, 0.0, 1e-200, 0.0, 0.0, 1e200]])) is None
    with pytest.raises(ValueError, match="leaves are over two columns or more, got 1; over one take student_t"):
        LEAF_FAMILIES["multivariate_student_t[1]"]


def test_rows_are_grouped_by_all_their_flags():
    flags = np.random.default_rng(6).random((300, 70)) < 0.02
    groups = groups_of(flags)
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(300))
    assert len(groups) == len(np.unique(flags, axis=0))
    assert all((flags[at] == flags[at[0]]).all() for at in groups)


def posteriors(rng, n_leaves, d):
    """Posteriors of leaves with some rows each, and the rows."""
    centre, psi0, k0, v0 = rng.normal(size=d), rng.gamma(2.0, 1.0, d), 0.3, d + 2.0
    rows = [rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 1.0 for n in range(n_leaves)]
    away = [x - centre for x in rows]
    column, row = np.triu_indices(d)
    products = np.array([(x.T @ x)[row, column] for x in away])
    after = NormalInverseWishart.after(
        [len(x) for x in rows], np.array([x.sum(axis=0) for x in away]), products, psi0, k0, v0, centre
    )
    return after, rows, (centre, np.diag(psi0), k0, v0)


def log_evidence(x, centre, psi0, k0, v0):
    """Murphy (2007), equation 266, from the posterior in its textbook form."""
    (n, d), mean = x.shape, x.mean(axis=0) if len(x) else centre
    k, v = k0 + n, v0 + n
    psi = psi0 + (x - mean).T @ (x - mean) + k0 * n / k * np.outer(mean - centre, mean - centre)
    gammas = special.multigammaln(0.5 * v, d) - special.multigammaln(0.5 * v0, d)
    dets = 0.5 * v0 * np.linalg.slogdet(psi0)[1] - 0.5 * v * np.linalg.slogdet(psi)[1]
    return gammas + dets + 0.5 * d * np.log(k0 / k) - 0.5 * n * d * np.log(np.pi)


def test_predictive_leaves_are_ratios_of_evidences():
    rng = np.random.default_rng(7)
    after, rows, prior = posteriors(rng, 6, 3)
    leaves = predictive_leaves(after)
    family = LEAF_FAMILIES["multivariate_student_t[3]"]
    assert family.problem(leaves) is None
    x = rng.normal(size=(6, 3))
    wanted = [log_evidence(np.vstack([r, y]), *prior) - log_evidence(r, *prior) for r, y in zip(rows, x, strict=True)]
    np.testing.assert_allclose(family.log_density_of_rows(leaves, x), wanted, rtol=1e-11)
    single, _, _ = posteriors(rng, 6, 1)  # one column: half of v and psi are the normal-gamma leaf's
    own = student_rows(np.stack([single.mu[:, 0], single.k, 0.5 * single.v, 0.5 * single.psi[:, 0, 0]], axis=1))
    y = rng.normal(size=6)
    np.testing.assert_allclose(
        MultivariateStudentT(1).log_density_of_rows(predictive_leaves(single), y[:, None]),
        EXPLICIT["student_t"].log_density(own, y),
        rtol=1e-13,
    )


def test_drawn_leaves_are_from_the_posterior():
    rng = np.random.default_rng(8)
    n, d = 20_000, 3
    after, _, _ = posteriors(rng, 6, d)
    mu, k, psi, v = (part[5] for part in after)
    many = NormalInverseWishart(*(np.repeat(part[5:], n, axis=0) for part in after))
    family = LEAF_FAMILIES["multivariate_gaussian[3]"]
    leaves = draw_leaves(many, rng)
    assert family.problem(leaves) is None
    mean, covariance = family.location_and_scale(leaves)
    law = stats.invwishart(df=v, scale=psi)
    inverse = np.linalg.inv(covariance)
    for found, wanted in ((covariance, law.mean()), (inverse, v * np.linalg.inv(psi))):
        assert np.all(np.abs(found.mean(axis=0) - wanted) < 5.0 * found.std(axis=0) / np.sqrt(n))
    other = law.rvs(n, random_state=9)
    for of in (lambda s: s[:, 0, 0], lambda s: s[:, 0, 1], lambda s: s[:, 1, 2], lambda s: np.linalg.slogdet(s)[1]):
        assert stats.ks_2samp(of(covariance), of(other)).pvalue > 1e-3
    away = mean - mu
    assert stats.kstest(k * np.einsum("ni,nij,nj->n", away, inverse, away), stats.chi2(d).cdf).pvalue > 1e-3
    x = np.array([[0.5, 1.0, 2.0]])  # densities average to that of the predictive
    density = np.exp(family.log_density_of_rows(leaves, np.repeat(x, n, axis=0)))
    t = MultivariateStudentT(d).log_density_of_rows(predictive_leaves(after)[5:], x)[0]
    assert abs(density.mean() - np.exp(t)) < 5.0 * density.std() / np.sqrt(n)
