"""Rubin's rules: compared with statsmodels, with published figures, and by the coverage of the intervals."""

import math
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import t as student

import pymc_spn as ps

N, SLOPE, TABLES = 40, 0.6, 5
GAPPY = pd.DataFrame({"a": [1.0], "b": [np.nan]})


def regression(table):
    """Coefficients of y on x with their covariance matrix, by least squares."""
    x = np.column_stack([np.ones(len(table)), table["x"]])
    inverse = np.linalg.inv(x.T @ x)
    b = inverse @ x.T @ table["y"].to_numpy()
    scale = np.sum((table["y"] - x @ b) ** 2) / (len(table) - 2)
    return pd.Series(b, ["level", "slope"]), pd.DataFrame(scale * inverse, ["level", "slope"], ["level", "slope"])


def variances(table):
    b, covariance = regression(table)
    return b, np.diag(covariance)


def gappy(rng, n=N, missing=0.5):
    x = rng.normal(size=n)
    y = 1.0 + SLOPE * x + rng.normal(scale=0.8, size=n)
    return pd.DataFrame({"x": x, "y": np.where(rng.random(n) < missing, np.nan, y)})


def proper_imputations(df, m, rng):
    """Completed tables: y given x by draws of coefficients and scale from their posterior under the reference prior."""
    seen = df["y"].notna().to_numpy()
    x = np.column_stack([np.ones(len(df)), df["x"]])
    inverse = np.linalg.inv(x[seen].T @ x[seen])
    b = inverse @ x[seen].T @ df["y"].to_numpy()[seen]
    rest = np.sum((df["y"].to_numpy()[seen] - x[seen] @ b) ** 2)
    tables = []
    for _ in range(m):
        scale = rest / rng.chisquare(seen.sum() - 2)
        drawn = rng.multivariate_normal(b, scale * inverse)
        tables.append(df.assign(y=np.where(seen, df["y"], x @ drawn + math.sqrt(scale) * rng.normal(size=len(df)))))
    return tables


def test_the_rules_are_those_of_statsmodels():
    mice = pytest.importorskip("statsmodels.imputation.mice")
    from statsmodels.regression.linear_model import OLS

    rng = np.random.default_rng(1)
    tables = proper_imputations(gappy(rng), 7, rng)
    held = mice.MICE("y ~ x", OLS, mice.MICEData(gappy(rng)))
    held.results_list = [OLS.from_formula("y ~ x", table).fit() for table in tables]
    held.exog_names, held.endog_names = ["Intercept", "x"], "y"
    theirs, own = held.combine(), ps.pool_estimates(tables, regression)
    np.testing.assert_allclose(own["estimate"], theirs.params, rtol=1e-12)
    np.testing.assert_allclose(own["covariance"], theirs.cov_params(), rtol=1e-12)
    np.testing.assert_allclose(own["std_error"], theirs.bse, rtol=1e-12)
    np.testing.assert_allclose((1 + 1 / 7) * own["between"] / own["total"], theirs.frac_miss_info, rtol=1e-12)
    np.testing.assert_array_equal(ps.pool_estimates(tables, variances)["total"], own["total"])
    assert own["estimate"].attrs["exactness"] == "exact given the imputed tables"


def test_degrees_of_freedom_by_hand():
    """Barnard and Rubin (1999), with W = 1, B = 2 and two tables, whose T is 4."""
    tables = [pd.DataFrame({"q": [q]}) for q in (-1.0, 1.0)]

    def number(table):
        return table["q"].iloc[0], 1.0

    large = ps.pool_estimates(tables, number).isel(parameter=0)
    assert (float(large["within"]), float(large["between"]), float(large["total"])) == (1.0, 2.0, 4.0)
    assert float(large["dof"]) == pytest.approx((1 + 1 / 3) ** 2)  # Rubin (1987), equation 3.1.6, with r = 3
    small = ps.pool_estimates(tables, number, complete_dof=9).isel(parameter=0)
    observed = 10 / 12 * 9 * (1 - 3 / 4)
    assert float(small["dof"]) == pytest.approx(1 / (9 / 16 + 1 / observed))
    assert float(small["fraction_missing"]) == pytest.approx((3 + 2 / (float(small["dof"]) + 3)) / 4)
    assert float(small["estimate"].attrs["mcse"].item()) == pytest.approx(1.0)


def test_tables_that_agree_give_the_usual_interval():
    table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.1, 0.9, 2.2, 2.8]})
    pooled = ps.pool_estimates([table] * 5, regression)
    _, covariance = regression(table)
    np.testing.assert_allclose(pooled["high"] - pooled["low"], 2 * 1.959963984540054 * np.sqrt(np.diag(covariance)))
    assert np.all(pooled["fraction_missing"] == 0.0) and np.all(np.isinf(pooled["dof"]))


def test_circuits_fill_in_values_that_the_table_could_hold():
    rng = np.random.default_rng(2)
    numbers = {"visits": rng.poisson(1.0, 60), "year": rng.integers(1950, 2000, 60), "dose": rng.integers(2, 9, 60) / 2}
    df = pd.DataFrame(numbers).astype({"visits": "Int64", "year": "Int64"})
    df = df.mask(rng.random(df.shape) < 0.3)
    with pm.Model():
        ps.SPN("t", observed=df, kinds={"visits": "count", "dose": "real"}, rounded=["dose"], joint_leaves=None)
        idata = pm.sample(1, tune=2, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    (circuit,) = ps.SPNPosterior.from_idata(idata).draw_circuits(1, random_seed=1)
    table = circuit.impute(df, random_seed=1)
    assert (table.dtypes == df.dtypes).all() and (table["visits"] >= 0).all() and (table["dose"] % 0.5 == 0.0).all()
    exact = circuit.impute(df, random_seed=1, on_grid=False)  # what the circuit itself draws
    assert (exact["year"] % 1.0 > 0.0).any() and (exact["dose"] % 0.5 > 0.0).any() and (exact["visits"] < 0).any()
    assert (circuit.marginal(["dose"]).impute(df[["dose"]], random_seed=1)["dose"] % 0.5 == 0.0).all()
    # one circuit fits all of these tables, each of the others has its own
    shared, own = circuit.impute(df, n=2, random_seed=1), [circuit.impute(df, random_seed=seed) for seed in (1, 2)]
    with pytest.warns(UserWarning, match=r"share one model.*too small. Use \[one.impute"):
        ps.pool_estimates(shared, lambda t: (t["dose"].mean(), t["dose"].var() / 60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.pool_estimates(own, lambda t: (t["dose"].mean(), t["dose"].var() / 60))


def test_names_of_several_levels_become_text():
    names = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    pooled = ps.pool_estimates([1, 2], lambda table: (pd.Series([1.0, 2.0], names), [1.0, 1.0]))
    assert pooled["parameter"].values.tolist() == ["('a', 1)", "('b', 2)"]


@pytest.mark.parametrize(
    "tables, estimate, error, message",
    [
        ([pd.DataFrame({"a": [1.0]})], lambda t: (1.0, 1.0), ValueError, "at least two completed tables.*got 1"),
        (pd.DataFrame({"a": [1.0, 2.0]}), lambda t: (1.0, 1.0), ValueError, "tables must be a list.*got one DataFrame"),
        ([1, 2], lambda t: 1.0, TypeError, r"as a pair .* for tables\[0\] it returned 1.0"),
        ([1, 2], lambda t: (1.0, 1.0, 2.0), TypeError, r"as a pair .* for tables\[0\] it returned tuple of 3"),
        ([GAPPY.fillna(1.0), GAPPY], lambda t: (1.0, 1.0), ValueError, r"tables\[1\] has missing cells in column 'b'"),
        ([1, 2], lambda t: ([1.0, 2.0], [[1, 5], [0, 1]]), ValueError, r"tables\[0\] the matrix is no covariance"),
        ([1, 2], lambda t: ([1.0, 2.0], [[1, 5], [5, 1]]), ValueError, r"tables\[0\] the matrix is no covariance"),
        ([1, 2], lambda t: (pd.Series([1, 2], ["a", "a"]), [1, 1]), ValueError, r"distinct names; .* \['a', 'a'\]"),
        ([1, 2], lambda t: ([], []), ValueError, r"at least one .* got \[\]"),
        ([1, 2], lambda t: ("a", 1.0), TypeError, "no numbers"),
        (
            [1, 2],
            lambda t: ({"a": 1.0}, 0.0),
            ValueError,
            r"'a' in tables\[0\] .* the variance 0",
        ),
        ([1, 2], lambda t: ([1.0, np.nan], [1, 1]), ValueError, r"1 in tables\[0\] has the estimate nan"),
        ([1, 2], lambda t: ([1.0, 2.0], [1.0]), ValueError, r"shapes are \(2,\) and \(1,\)"),
        ([1, 2], lambda t: ({f"a{t}": 1.0}, 1.0), ValueError, r"\['a1'\] in tables\[0\], \['a2'\] in tables\[1\]"),
        ([1, 2], lambda t: ({"a": 1, "b": 2}, pd.Series({"b": 1, "a": 2})), ValueError, "in the same order"),
    ],
)
def test_bad_input_is_refused(tables, estimate, error, message):
    with pytest.raises(error, match=message):
        ps.pool_estimates(tables, estimate)


@pytest.mark.parametrize("asked", [{"prob": 1.0}, {"complete_dof": 0}, {"complete_dof": float("nan")}])
def test_bad_options_are_refused(asked):
    with pytest.raises(ValueError, match=next(iter(asked))):
        ps.pool_estimates([1, 2], lambda t: (1.0, 1.0), **asked)


def test_intervals_cover_the_truth():
    """Their number is within three standard deviations; the planted mistake leaves out the spread between tables."""
    rng, repetitions, held, too_narrow = np.random.default_rng(3), 500, 0, 0
    for _ in range(repetitions):
        pooled = ps.pool_estimates(proper_imputations(gappy(rng), TABLES, rng), variances, complete_dof=N - 2)
        slope = {name: float(value[1]) for name, value in pooled.data_vars.items()}
        held += slope["low"] < SLOPE < slope["high"]
        too_narrow += abs(slope["estimate"] - SLOPE) < student.ppf(0.975, N - 2) * math.sqrt(slope["within"])
    sd = math.sqrt(0.95 * 0.05 * repetitions)
    assert abs(held - 0.95 * repetitions) < 3.0 * sd
    assert too_narrow - 0.95 * repetitions < -6.0 * sd
