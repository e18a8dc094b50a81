"""R-hat and effective sizes of chains: ArviZ's numbers, the words, the rule of the warning, the table."""

import re
import warnings

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats

import pymc_spn as ps
from pymc_spn.numerics.chain_mixing import FEWEST_DRAWS, Mixing, diagnosis, r_hat_and_size
from pymc_spn.numerics.marks import error_of_log, limited, scope_of


def noise(*shape, apart=0.0):
    """Independent draws (chain, draw, ...), the chains apart by a number of standard deviations."""
    values = np.random.default_rng(1).normal(size=shape)
    return values + apart * np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1))


def test_numbers_are_those_of_arviz_where_they_are_defined():
    values = noise(3, 40, 5, apart=0.4)
    values[..., 1] = 2.0
    values[0, 0, 2] = -np.inf
    r_hat, size = r_hat_and_size(values)
    for d in (0, 3, 4):
        assert r_hat[d] == array_stats.rhat(values[..., d], chain_axis=0, draw_axis=1)
        assert size[d] == array_stats.ess(values[..., d], chain_axis=0, draw_axis=1)
    assert np.isnan(r_hat[[1, 2]]).all() and np.isnan(size[[1, 2]]).all()
    r_hat, size = r_hat_and_size(values[:1])
    assert np.isnan(r_hat).all() and size[0] > 10.0
    assert np.isnan(r_hat_and_size(values[:, :3])).all()


def test_words_and_the_rule_of_the_warning():
    assert re.fullmatch(r"log joint: R-hat (0\.9|1\.0)\d, effective size \d+", str(Mixing.of(noise(2, 60))))
    assert str(Mixing.of(noise(1, 60))).endswith("R-hat needs two chains")
    assert "too few draws" in str(Mixing.of(noise(2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Mixing.of(noise(2, FEWEST_DRAWS // 2)).warn("x")  # chains that agree
        Mixing.of(noise(2, FEWEST_DRAWS // 2 - 1, apart=3.0)).warn("x")  # too short
        Mixing.of(noise(1, FEWEST_DRAWS)).warn("x")
    with pytest.warns(
        ps.ConvergenceWarning,
        match=r"'x': R-hat of the log joint is \d\.\d+ .* over 2 chains of 50 draws: .* not converged, so hm. Tune ",
    ) as seen:
        Mixing.of(noise(2, FEWEST_DRAWS // 2, apart=3.0)).warn("x", "hm")
    assert len(seen) == 1 and seen[0].filename == __file__


def test_chains_of_runs_that_stay_apart_are_warned_of():
    """Eight runs in each of two chains, at the same places in other turns: R-hat is that of chains which have met."""
    turns = [[0, 7, 3, 4, 1, 6, 2, 5], [5, 2, 6, 1, 4, 3, 7, 0]]
    values = noise(2, 800) * 0.1 + np.repeat(np.linspace(-2.0, 2.0, 8)[turns], 100, axis=1)
    found = Mixing.of(values)
    assert found.r_hat < 1.1 and found.size < 50
    with pytest.warns(ps.ConvergenceWarning, match="move slowly"):
        found.warn("x")


def test_table_has_a_row_for_each_number():
    values = xr.DataArray(noise(30, 2, 3).transpose(1, 0, 2), {"level": list("abc")}, ("chain", "draw", "level"))
    found = diagnosis("post", {"P": lambda post: values.assign_attrs(of=post)}, {"own": values[..., 0]})
    assert found.index.tolist() == ["own", "P[a]", "P[b]", "P[c]"]
    assert list(found.columns) == ["mean", "sd", "ess_bulk", "r_hat"]
    np.testing.assert_allclose(found.loc["own"], found.loc["P[a]"])
    assert (found.r_hat < 1.2).all()
    assert found.loc["P[b]", "mean"] == pytest.approx(float(values[..., 1].mean()))
    with pytest.raises(TypeError, match="questions must map names to functions"):
        diagnosis("post", [lambda post: values], {})
    with pytest.raises(ValueError, match="question 'P' must have one value for each draw"):
        diagnosis("post", {"P": lambda post: values.mean("draw")}, {})


def test_marks_name_their_scope_once():
    mark = limited("exact", " given the draws")
    assert limited(mark, " given the draws") == mark == "exact given the draws"
    assert limited("one draw", " given the draws") == "one draw"
    assert scope_of(mark) == " given the draws" and scope_of("exact") == ""


@pytest.mark.parametrize("n", [2, 4, 100])
def test_an_error_at_its_bound_is_none(n):
    """Whatever the terms are, the relative error of their mean is 1 where one of them outweighs the others."""
    terms = np.exp(-120.0 * (np.arange(n) > 0))
    relative = terms.std(ddof=1) / np.sqrt(n) / terms.mean()
    assert relative == pytest.approx(1.0)
    found = error_of_log(relative, "1.0 of them")
    assert np.isnan(found["mcse"]) and "rests on 1.0 of them" in found["mcse_note"]
    assert error_of_log(0.3, "") == {"mcse": 0.3}
