"""Any saved posterior comes back by one function, as the class that saved it and with the same answers."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from tests.circuits.hand_made_records import enumerated_posterior
from tests.reference import tiny_problems

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))


def circuit():
    return enumerated_posterior(tiny_problems()["missing"]).marginal(["x0", "x2"]), lambda p: p.mean()


def variational():
    post = ps.fit_variational(ps.complete_tree(list("abc"), n_children=2), FRAME, random_seed=1)
    return post, lambda p: p.log_density(FRAME)


def graphs():
    return ps.OrderSPN.exact(ps.LocalScores.from_data(FRAME)), lambda p: p.edge_probabilities()


def trees():
    post = ps.fit_tree(FRAME, FRAME["a"] > 0, family="binary", particles=10, random_seed=1)
    return post, lambda p: p.predict_proba(FRAME)


@pytest.mark.parametrize("make", [circuit, variational, graphs, trees])
def test_what_was_saved_comes_back(make, tmp_path):
    post, question = make()
    post.save(tmp_path / "post.nc")
    again = ps.load(tmp_path / "post.nc")
    assert type(again) is type(post)
    np.testing.assert_array_equal(question(again), question(post))


def test_other_files_are_refused(tmp_path):
    xr.Dataset({"x": 1.0}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"other\.nc holds no posterior object that was saved"):
        ps.load(tmp_path / "other.nc")
    with pytest.raises(FileNotFoundError):
        ps.load(tmp_path / "none.nc")
