"""Draws whose values stand in another order than their labels are seen, in every family."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from tests.interop.saved_results import chefs, sampled

FIELDS = {"net": "digits", "order": "graphs", "partition": "graphs", "tree": "decisions"}
READERS = {"net": ps.SPNPosterior, "tree": ps.TreePosterior}


def exchanged(tree, group, fields):
    """A result in which the chains of some fields are exchanged, and their labels are not."""
    other = tree.copy(deep=True)
    data = other[group].to_dataset()
    for field in fields:
        data[field] = data[field].copy(data=data[field].values[::-1].copy())
    other[group].dataset = data
    return other


@pytest.mark.parametrize("name", FIELDS)
def test_chains_that_are_exchanged_are_seen(name):
    unpacked = ps.unpack(sampled())
    read = READERS.get(name, ps.DagDraws).from_idata
    read(unpacked, name)
    fields = {"order": ("graphs", "order"), "partition": ("graphs", "partition"), "tree": ("decisions", "n_nodes")}
    mixed = exchanged(unpacked, name, fields.get(name, (FIELDS[name],)))
    assert not mixed[name].to_dataset().identical(unpacked[name].to_dataset())
    with pytest.raises(ValueError, match=f"'{name}' must stand in the order of their labels: .* was recorded at chain"):
        read(mixed, name)


def test_exchanged_graphs_of_unknown_size_are_seen():
    unpacked = ps.unpack(chefs())
    name = next(group for group in unpacked.children if "reputations" in unpacked[group].data_vars)
    ps.GraphDraws.from_idata(unpacked, name)
    mixed = exchanged(unpacked, name, ("n_nodes", "graphs", "reputations"))
    assert not np.array_equal(mixed[name]["graphs"], unpacked[name]["graphs"])
    with pytest.raises(ValueError, match="must stand in the order of their labels"):
        ps.GraphDraws.from_idata(mixed, name)


def test_variables_that_another_step_moves_later_are_read():
    """A step that the user gives comes first: NUTS moves the mass of the classes after the tree has its log joint."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    y = np.where(x["a"] + rng.normal(size=30) > 0, "u", "v")
    with pm.Model():
        tree = ps.DecisionTree("tree", x)
        ps.TreeResponse("y", tree, family=ps.leaves.ClassLeaves(pm.Gamma("alpha", 2, 1)), observed=y)
        ps.SPN("net", observed=x, concentration=pm.Gamma("mass", 2, 1), joint_leaves=None)
        idata = pm.sample(
            3,
            tune=3,
            chains=2,
            cores=1,
            step=[ps.steps.ParticleGibbsTreeStep(), ps.steps.TopDownSPNStep()],
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    unpacked = ps.unpack(idata)
    for name, reader in READERS.items():
        reader.from_idata(idata, name=name)
        mixed = exchanged(unpacked, name, {"tree": ("decisions", "n_nodes")}.get(name, ("digits",)))
        with pytest.raises(ValueError, match=f"'{name}' must stand in the order of their labels: (leaves|occupied)"):
            reader.from_idata(mixed, name=name)
