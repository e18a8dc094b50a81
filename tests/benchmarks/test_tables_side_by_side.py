"""The scores of `tables_side_by_side` against densities and differences that are known, on tables made here."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm
from threadpoolctl import threadpool_limits

from pymc_spn.tables import Table
from tests.benchmarks.report import Store
from tests.benchmarks.side_by_side_report import DENSITY, RMSE, Results, compared, losses
from tests.benchmarks.table_gaussians import GaussianTable, Kernels, Linear, copula, mixture
from tests.benchmarks.table_learners import by_boosting, by_iterated_ridge, by_iterated_trees
from tests.benchmarks.table_rules import Prepared, fold
from tests.benchmarks.tables_side_by_side import KEY, blanked_cells, measure, read_fold, table_sets

MEAN = np.array([1.0, -2.0, 0.5])
ROOT = np.array([[2.0, 0.0, 0.0], [1.2, 0.7, 0.0], [-0.5, 0.4, 1.1]])
SHARES = np.array([0.7, 0.3])


@pytest.fixture(autouse=True)
def one_thread():
    """Small problems, whose threads would wait for one another."""
    with threadpool_limits(1):
        yield


def rows_of_gaussian(n, seed):
    """Three numbers and a level that says nothing of them."""
    rng = np.random.default_rng(seed)
    x = MEAN + rng.normal(size=(n, 3)) @ ROOT.T
    return np.column_stack([x, rng.random(n) < SHARES[1]])


def prepared_gaussian(n=2000):
    x = rows_of_gaussian(n, 1)
    kinds = dict(zip("abc", ["real"] * 3, strict=True)) | {"level": "binary"}
    table = Table.from_frame(pd.DataFrame(x, columns=list(kinds)), kinds=kinds)
    cuts = np.split(x, [int(0.8 * n), int(0.9 * n)])
    parts = [Table(table.columns, part, pd.RangeIndex(len(part))) for part in cuts]
    return Prepared(*parts, np.array([True, True, True, False]), np.zeros(4), [], [], 0)


@pytest.fixture(scope="module")
def prepared():
    return prepared_gaussian()


@pytest.fixture(scope="module")
def truth():
    """The density itself, in scores that are standardised by other constants than its own."""
    margins = [Linear(np.array([-1.0, 3.0]) * k) for k in (1.0, 2.0, 5.0)]
    spread = np.array([m.spread for m in margins])
    means = (MEAN - [m.centre for m in margins]) / spread
    covariance = ROOT @ ROOT.T / np.outer(spread, spread)
    numeric = np.array([True, True, True, False])
    return GaussianTable(numeric, margins, np.ones(1), means[None], covariance[None], [np.log(SHARES)])


def known_logs(values):
    """Log densities of rows with gaps by SciPy."""
    found = []
    for row in values:
        seen = ~np.isnan(row[:3])
        at = (
            multivariate_normal.logpdf(row[:3][seen], MEAN[seen], (ROOT @ ROOT.T)[np.ix_(seen, seen)])
            if any(seen)
            else 0
        )
        found.append(at + (0.0 if np.isnan(row[3]) else np.log(SHARES[int(row[3])])))
    return np.array(found)


def rows_with_gaps():
    values = rows_of_gaussian(40, 2)
    values[np.random.default_rng(3).random(values.shape) < 0.4] = np.nan
    values[0] = np.nan
    return values


def test_density_of_a_known_gaussian_with_gaps(truth):
    values = rows_with_gaps()
    np.testing.assert_allclose(truth.log_density(values), known_logs(values), rtol=1e-12, atol=1e-12)


def test_gaps_are_filled_with_conditional_means(truth):
    values, covariance = rows_with_gaps(), ROOT @ ROOT.T
    filled = truth.fill(values)
    for row, found in zip(values, filled, strict=True):
        seen = ~np.isnan(row[:3])
        gain = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        np.testing.assert_allclose(found[:3][~seen], MEAN[~seen] + gain @ (row[:3] - MEAN)[seen], rtol=1e-10)
        assert found[3] == (0.0 if np.isnan(row[3]) else row[3])  # the more frequent level


def test_mixture_and_copula_come_near_the_truth(prepared):
    values = prepared.test.values
    exact = known_logs(values).mean()
    for kind in ("full", "diag"):
        model = mixture(prepared, 0, kind)
        assert exact - model.log_density(values).mean() < (0.02 if kind == "full" else 0.2)
    assert exact - copula(prepared, 0).log_density(values).mean() < 0.05
    alone = sum(norm.logpdf(values[:, d], MEAN[d], np.linalg.norm(ROOT[d])).mean() for d in range(3))
    levels = np.log(SHARES)[values[:, 3].astype(int)].mean()
    assert copula(prepared, 0, dependent=False).log_density(values).mean() == pytest.approx(alone + levels, abs=0.05)


def test_kernels_are_a_density_and_scores_its_normal_quantiles():
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(0.0, 1.0, 300), rng.normal(6.0, 0.1, 200)])
    kernels = Kernels(x, rng.permutation(x)[:100], rng)
    grid = np.linspace(-40.0, 50.0, 22_501)
    density = np.exp(kernels.log_density(grid))
    assert trapezoid(density, grid) == pytest.approx(1.0, abs=1e-5)
    at = range(8_750, 12_500, 125)
    z = kernels.scores(grid[at])
    below = [trapezoid(density[: i + 1], grid[: i + 1]) for i in at]
    np.testing.assert_allclose(ndtr(z), below, atol=1e-4)
    mean = kernels.means(np.zeros(1), np.ones(1))[0]
    assert mean == pytest.approx(trapezoid(grid * density, grid), abs=0.15)


def test_measures_of_the_truth(prepared, truth):
    mask = blanked_cells("gaussian", 0, prepared.test.values.shape)
    found = measure(truth, prepared, 1, mask)
    rows = prepared.test.values[: len(mask)]
    blanked = np.where(mask, np.nan, rows)
    np.testing.assert_allclose(found["cells"], known_logs(rows) - known_logs(blanked), rtol=1e-10, atol=1e-10)
    spread = prepared.learning.values.std(axis=0)
    errors = np.where(mask, (truth.fill(blanked) - rows) / spread, 0.0)
    np.testing.assert_allclose(found["squares"], np.square(errors[:, :3]).sum(axis=1))
    np.testing.assert_array_equal(found["hits"], mask[:, 3] & (rows[:, 3] == 0.0))
    residual = 1.0 / np.linalg.inv(ROOT @ ROOT.T)[1, 1]  # variance of the target given the others
    assert np.mean(found["target"]) == pytest.approx(residual / spread[1] ** 2, rel=0.3)
    levels = measure(truth, prepared, 3, mask)
    np.testing.assert_allclose(levels["target"], -np.log(SHARES)[rows[:, 3].astype(int)])
    np.testing.assert_array_equal(levels["target_hits"], rows[:, 3] == 0.0)


def test_a_mask_leaves_a_cell_of_each_row():
    mask = blanked_cells("two", 0, (150, 2))
    assert not mask.all(axis=1).any()
    assert mask.mean() == pytest.approx(0.27, abs=0.05)  # 0.3 less the rows that lost both


def linked_levels(n=600):
    """A level that follows from a number, and a number that is twice another one."""
    rng = np.random.default_rng(5)
    a = rng.normal(size=n)
    x = np.column_stack([a, 2.0 * a + rng.normal(0.0, 0.1, n), np.digitize(a, [-0.5, 0.5])])
    kinds = {"a": "real", "b": "real", "level": "categorical"}
    table = Table.from_frame(pd.DataFrame(x, columns=list(kinds)), kinds=kinds)
    parts = [Table(table.columns, part, pd.RangeIndex(len(part))) for part in np.split(x, [400, 450])]
    return Prepared(*parts, np.array([True, True, False]), np.zeros(3), [], [], 0)


@pytest.mark.parametrize(("learner", "share"), [(by_iterated_ridge, 0.75), (by_iterated_trees, 0.9)])
def test_imputers_on_columns_that_determine_one_another(learner, share):
    prepared = linked_levels()
    values = prepared.test.values.copy()
    values[::2, 1], values[1::2, 2] = np.nan, np.nan
    found = learner(prepared, 2, 1.0, 0).fill(values)
    error = (found[::2, 1] - prepared.test.values[::2, 1]) / prepared.learning.values[:, 1].std()
    assert np.sqrt(np.mean(error**2)) < 0.25
    assert np.mean(found[1::2, 2] == prepared.test.values[1::2, 2]) > share  # a line misses the middle level
    np.testing.assert_array_equal(found[~np.isnan(values)], values[~np.isnan(values)])


def test_boosting_answers_levels_and_numbers():
    prepared = linked_levels()
    mask = blanked_cells("linked", 0, prepared.test.values.shape)
    assert np.mean(measure(by_boosting(prepared, 2, 1.0, 0), prepared, 2, mask)["target_hits"]) > 0.95
    number = measure(by_boosting(prepared, 1, 1.0, 0), prepared, 1, mask)
    assert set(number) == {"target"}
    assert np.mean(number["target"]) < 0.05


def record(name, method, density, k=0):
    return {"set": name, "fold": k, "method": method, "density": density, "target_is_level": True}


def test_losses_are_where_the_default_is_more_than_an_error_behind_the_first():
    rows = np.array([-1.0, -2.0, -3.0, -4.0])
    small, large = np.array([-0.1, 0.3, -0.2, 0.2]), np.array([0.5, 0.4, 0.6, 0.5])
    sets = {"won": -large, "level": small, "lost": large}
    records = [record(name, "sampling", rows.tolist()) for name in sets]
    records += [record(name, "copula", (rows + by).tolist()) for name, by in sets.items()]
    records += [record(name, "variational", (rows + 9.0).tolist()) for name in sets]  # ours as well: no loss
    records += [record(name, "independent", (rows - 5.0).tolist()) for name in sets]
    results = {name: Results([r for r in records if r["set"] == name]) for name in sets}
    (line,) = [line for line in losses(results).splitlines() if line.startswith("| Mean log density")]
    assert [cell.strip() for cell in line.strip("|").split("|")][1:] == ["1", "1", "1", "lost (copula, 0.50 ± 0.04)"]
    bold = [line.count("**") for line in compared(results, DENSITY).splitlines()[2:]]
    assert bold == [2, 2, 2]


def test_pairs_share_their_folds_and_roots_are_of_all_cells():
    ours = [{"fold": k, "method": "sampling", "squares": [1.0, 4.0], "blanked": [1, 3]} for k in (0, 1)]
    other = {"fold": 1, "method": "copula", "squares": [2.0, 7.0], "blanked": [1, 3]}
    result = Results([*ours, other])
    assert RMSE.value(result.rows("sampling", RMSE))[0] == pytest.approx(np.sqrt(10.0 / 8.0))
    pair = result.rows("sampling", RMSE, "copula"), result.rows("copula", RMSE, "sampling")
    assert [len(p[0]) for p in pair] == [2, 2]
    assert RMSE.lead(*pair)[0] == pytest.approx(1.5 - np.sqrt(5.0 / 4.0))
    assert result.rows("independent", RMSE) is None


def test_folds_have_each_row_once_and_levels_that_were_learned(tmp_path):
    rng = np.random.default_rng(6)
    codes = np.zeros(103)
    codes[1:40], codes[7] = 1.0, 2.0  # one row alone has the last level
    x = np.column_stack([np.round(rng.normal(size=103), 2), codes])
    x[50, 0] = np.nan
    fields = {"X": x, "kinds": ["continuous", "categorical"], "columns": ["a", "b"], "target_column": "b"}
    np.savez(tmp_path / "small.npz", **fields)
    np.savez(tmp_path / "other.npz", edges=np.ones(3))
    assert table_sets(tmp_path) == ["small"]
    folds = [fold(tmp_path, "small", k) for k in range(5)]
    seen = np.concatenate([p.test.values[:, 0] for p in folds])
    assert len(seen) == len(set(seen)) == 101  # of 102 complete rows, less the one whose level was not learned
    assert folds[0].ceiling == pytest.approx(np.log(100.0))
    assert {len(p.learning.values) for p in folds} == {81, 82}
    assert read_fold(tmp_path, "small", 0)[1] == 1


def test_a_store_keeps_the_last_line_of_a_key(tmp_path):
    store = Store(tmp_path / "found.jsonl", KEY)
    store.add(("a", 0, "copula", 0.0), {"learn": 1.0})
    store.add(("a", 0, "copula", 0.0), {"learn": 2.0})
    again = Store(tmp_path / "found.jsonl", KEY)
    assert ("a", 0, "copula", 0.0) in again
    assert [r["learn"] for r in again.records.values()] == [2.0]
