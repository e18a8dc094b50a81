"""`CircuitDensity` on rows in tensors: data that are exchanged, and random batches of a table."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_spn as ps
from tests.modes import PLAIN
from tests.shared_circuits import build

MIXTURE = build([("sum", (1, 2)), *[("leaf", 0, "gaussian")] * 2], ["a"], ("gaussian",))
LEAVES = {"gaussian": [[0.0, 1.0], [2.0, 0.5]]}
WEIGHTS = np.log([0.3, 0.7])


@pytest.fixture(scope="module")
def rows():
    """2,000 cells of the mixture, every fiftieth missing."""
    rng = np.random.default_rng(0)
    second = rng.random((2_000, 1)) < 0.7
    x = np.where(second, rng.normal(2.0, 0.5, second.shape), rng.standard_normal(second.shape))
    x[::50] = np.nan
    return x


def known(observed, **options):
    """A model whose only term is that of the rows."""
    with pm.Model() as model:
        data = observed() if callable(observed) else observed
        ps.CircuitDensity("x", MIXTURE, WEIGHTS, LEAVES, observed=data, **options)
    return model


def logp(model, **options):
    return model.compile_logp(mode=PLAIN, **options)({})


def test_a_shared_variable_has_the_density_of_its_rows_and_keeps_gaps(rows):
    shared = pytensor.shared(rows)
    model = known(shared)
    expected = MIXTURE.with_parameters(WEIGHTS, LEAVES).log_density(rows).values
    np.testing.assert_allclose(logp(model, sum=False)[0], expected, rtol=1e-12, atol=1e-15)
    shared.set_value(rows[:30])
    np.testing.assert_allclose(logp(model, sum=False)[0], expected[:30], rtol=1e-12, atol=1e-15)


def test_data_of_a_model_can_be_exchanged():
    first, then = np.array([[0.5], [1.0], [2.0]]), np.array([[3.0], [-1.0]])
    model = known(lambda: pm.Data("rows", first))
    assert logp(model) == pytest.approx(
        MIXTURE.with_parameters(WEIGHTS, LEAVES).log_density(first).values.sum(), rel=1e-12
    )
    with model:
        pm.set_data({"rows": then})
        draws = pm.sample_prior_predictive(draws=5, random_seed=1).prior_predictive["x"]
    assert logp(model) == pytest.approx(
        MIXTURE.with_parameters(WEIGHTS, LEAVES).log_density(then).values.sum(), rel=1e-12
    )
    assert draws.dims == ("chain", "draw", "x_row", "x_column") and draws.shape == (1, 5, 2, 1)


def test_dimensions_of_the_data_are_those_of_the_variable():
    with pm.Model(coords={"member": ["u", "v"], "size": ["a"]}) as model:
        data = pm.Data("rows", [[0.5], [1.0]], dims=("member", "size"))
        ps.CircuitDensity("x", MIXTURE, WEIGHTS, LEAVES, observed=data)
    assert model.named_vars_to_dims["x"] == ("member", "size")


def test_a_dimension_may_be_given_by_its_name_alone():
    """PyMC's own register_rv would make dimensions of its letters, and 'x' is the name of the variable."""
    with pm.Model(coords={"axis": ["a"]}) as model:
        ps.CircuitDensity("x", MIXTURE, WEIGHTS, LEAVES, dims="axis")
    assert model.named_vars_to_dims["x"] == ("axis",) and list(model.coords) == ["axis"]


def test_codes_in_a_tensor_that_no_level_has_are_impossible():
    circuit = build([("leaf", 0, "categorical")], ["a"], ("categorical",))
    codes = pytensor.shared(np.array([[0], [2], [3], [-1]]))  # whole numbers are read as floats
    with pm.Model() as model:
        ps.CircuitDensity("x", circuit, [], {"categorical": [[0.2, 0.3, 0.5]]}, observed=codes)
    np.testing.assert_allclose(logp(model, sum=False)[0], [np.log(0.2), np.log(0.5), -np.inf, -np.inf])


def test_a_batch_counts_for_the_whole_table(rows):
    """Mean over batches: its error is the deviation of the rows by the root of the rows drawn, 300 x 100."""
    per_row = MIXTURE.with_parameters(WEIGHTS, LEAVES).log_density(rows).values
    model = known(lambda: pm.Minibatch(rows, batch_size=100), total_size=len(rows))
    compiled = model.compile_logp(mode=PLAIN)
    found = np.array([compiled({}) for _ in range(300)])
    error = len(rows) * per_row.std() / np.sqrt(300 * 100)
    assert abs(found.mean() - per_row.sum()) < 4.5 * error  # a normal score exceeds it once in 150,000 runs
    assert found.std() == pytest.approx(error * np.sqrt(300), rel=0.25)  # its own error is 4 %


@pytest.mark.parametrize(
    ("observed", "options", "message"),
    [
        (pt.dmatrix(shape=(None, 3)), {}, r"observed must have shape \(rows, 1\), got \(None, 3\)"),
        (pt.dvector(), {}, r"observed must have shape \(rows, 1\), got \(None,\)"),
        (np.zeros((3, 1)), {"total_size": 0}, "total_size must be a whole number of at least 1, got 0"),
        (np.zeros((3, 1)), {"total_size": 2.5}, "total_size must be a whole number of at least 1, got 2.5"),
        (None, {"total_size": 10}, "total_size must be given only where observed is"),
    ],
)
def test_bad_tensors_and_sizes_are_refused(observed, options, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.CircuitDensity("x", MIXTURE, WEIGHTS, LEAVES, observed=observed, **options)
