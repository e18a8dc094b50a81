"""The posterior as an explicit circuit: the same density, and at work inside another model."""

import numpy as np
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.tables import decode
from tests.hand_made_records import law_of, new_rows, posterior_of, sampled_tree

pytestmark = pytest.mark.usefixtures("integrated")

PROBLEMS = ["palette", "missing", "depths", "infinite_missing", "infinite_splits", "skewed"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_density_is_that_of_the_posterior(name):
    """Weighted draws, shared empty regions, all families, finite and infinite width, gaps, several splits."""
    post = posterior_of(name)
    rows = decode(new_rows(name), post.columns)
    rounded = post.as_circuit().attrs.get("whole_numbers", ())  # of these the circuit has densities, not masses
    post = post.marginal([c.name for c in post.columns if c.name not in rounded])
    rows = rows[[c.name for c in post.columns]]
    found = post.as_circuit()
    np.testing.assert_allclose(found.log_density(rows), post.log_density(rows), rtol=0, atol=1e-10)
    assert found.circuit.columns == post.columns and len(found.draws) == law_of(name).states.n_draws
    names = [c.name for c in post.columns][1:]
    marginal = post.marginal(names)
    np.testing.assert_allclose(
        marginal.as_circuit().log_density(rows[names]), marginal.log_density(rows[names]), rtol=0, atol=1e-10
    )


def test_some_of_the_draws():
    post = ps.SPNPosterior.from_idata(sampled_tree("missing"))
    rows = decode(new_rows("missing"), post.columns)
    some = post.as_circuit(max_draws=5)
    assert some.draws.tolist() == [0, 12, 24, 35, 47]
    each = post.log_density(rows, per_draw=True).values.reshape(48, -1)[some.draws]
    np.testing.assert_allclose(np.exp(some.log_density(rows)), np.exp(each).mean(axis=0), rtol=1e-10)
    one = post.as_circuit(max_draws=1)
    assert one.draws.tolist() == [0] and one.circuit.n_nodes < some.circuit.n_nodes
    drawn = some.sample(20, random_seed=3)
    assert list(drawn.columns) == [c.name for c in post.columns] and not drawn.isna().any().any()
    assert drawn.equals(some.sample(20, random_seed=3)) and not drawn.equals(some.sample(20, random_seed=4))


def test_given_what_is_known_draws_have_the_weights_that_it_gives_them():
    post = posterior_of("missing")
    rows = decode(new_rows("missing"), post.columns)
    known = {"x0": (0.3, 1.4), "x1": 1}
    given = post.condition(known)
    names = [c.name for c in given.columns]
    found = given.as_circuit()
    assert found.circuit.names == tuple(names)
    assert found.attrs["exactness"] == "exact given the draws" and "learner" in found.attrs
    np.testing.assert_allclose(
        np.exp(found.log_density(rows[names])), np.exp(given.log_density(rows[names])), rtol=1e-9, atol=1e-12
    )
    asked = {"x0": (0.5, 2.0)}
    assert float(found.probability(asked)) == pytest.approx(float(given.probability(asked)), abs=1e-10)


def test_refusals():
    post = posterior_of("palette")
    with pytest.raises(ValueError, match="max_draws must be an integer of at least 1, got 0"):
        post.as_circuit(max_draws=0)


def test_as_density_inside_another_model():
    """A learned density scores rows in a model of its own: the log density is the posterior's."""
    post = ps.SPNPosterior.from_idata(sampled_tree("missing"))
    learned = post.as_circuit(max_draws=3)
    rows = decode(np.abs(new_rows("missing")), post.columns)
    with pm.Model() as model:
        ps.CircuitDensity("x", learned.circuit, learned.log_weights, learned.leaf_parameters, observed=rows)
    found = model.compile_fn(model.logp(sum=False)[0])({})
    np.testing.assert_allclose(found, learned.log_density(rows), rtol=1e-11, atol=1e-11)
