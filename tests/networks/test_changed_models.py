"""Networks in models that PyMC changes or draws: `pm.do`, `pm.observe`, pictures."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest

import pymc_spn as ps
from tests.sampled_runs import model_of

FEW = {"draws": 12, "tune": 8, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}


@cache
def two_columns():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 40)
    return pd.DataFrame({"a": rng.normal(4.0 * group), "b": rng.normal(-3.0 * group)})


def network(**arguments):
    model = model_of(ps.circuits.complete_tree(["a", "b"]), observed=two_columns(), **arguments)
    return model


def sampled(model):
    with model:
        return pm.sample(**FEW, compute_convergence_checks=False)


def test_other_data_are_refused():
    """The palette, the coding and the state are those of the first table."""
    with pytest.raises(ValueError, match=r"the data of 'x' were replaced, as by pm.observe"):
        sampled(pm.observe(network(), {"x": 100.0 * two_columns().to_numpy()}))
    with pytest.raises(ValueError, match=r"'x' is held fixed, as by pm.do"):  # AttributeError of None
        sampled(pm.do(network(), {"x": two_columns().to_numpy()}))
    again = sampled(pm.observe(network(), {"x": two_columns().to_numpy()}))
    assert again["posterior"]["x_log_joint"].equals(sampled(network())["posterior"]["x_log_joint"])


@pytest.mark.parametrize("change", [pm.do, pm.observe])
def test_a_fixed_hyperparameter_is_read_where_pymc_keeps_it(change, tmp_path):
    fixed = np.array([0.7, 1.3])
    post = ps.SPNPosterior.from_idata(sampled(change(network(), {"x_concentration": fixed})))
    by_number = ps.SPNPosterior.from_idata(sampled(network(concentration=fixed)))
    rows = two_columns()[:5]
    np.testing.assert_array_equal(post.log_density(rows), by_number.log_density(rows))
    post.save(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(ps.load(tmp_path / "posterior.nc").log_density(rows), post.log_density(rows))


@pytest.mark.parametrize("change", [pm.do, pm.observe])
def test_fixed_cells_are_refused_by_name(change):
    table = two_columns().copy()
    table.loc[3, "a"] = np.nan
    model = model_of(ps.circuits.complete_tree(["a", "b"]), observed=table, missing="draw")
    with pytest.raises(ValueError, match=r"'x_missing' is held fixed, .* give them in the observed of ps\.SPN\('x'"):
        sampled(change(model, {"x_missing": [0.5]}))


@pytest.mark.parametrize("change", [pm.do, pm.observe])
def test_a_fixed_log_joint_is_refused(change):
    """Without the variable that calls our step NUTS sampled the scale given the rows as they stand at the start."""
    with pm.Model() as model:
        scale = pm.LogNormal("scale")
        numbers = {"concentration": 1.0, "leaf_shape": 1.5, "precision_ratio": 0.05}
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"]), observed=two_columns(), leaf_scale=scale, **numbers)
    changed = change(model, {"x_log_joint": 0.0})
    with pytest.raises(ValueError, match=r"'x_log_joint' is held fixed, as by pm.do or pm.observe.*leave it free"):
        sampled(changed)


def test_numbers_of_half_the_width_draw_nearly_the_same():
    """PyMC rounds observed values to floatX, which were taken for other data, and so are our hyperparameters."""
    rows = two_columns()[:5]
    usual = ps.SPNPosterior.from_idata(sampled(network()))
    with pytensor.config.change_flags(floatX="float32"):
        idata = sampled(network())
    assert idata.posterior["x_concentration"].dtype == np.float32
    post = ps.SPNPosterior.from_idata(idata)
    np.testing.assert_allclose(post.log_density(rows), usual.log_density(rows), atol=1.0)
