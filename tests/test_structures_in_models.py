"""Structures of all families in a PyMC model, used as if they were numbers: the message says what to do instead."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": rng.normal(size=20), "b": rng.normal(size=20)})


def network():
    ps.SPN("x", observed=TABLE, concentration=1.0, leaf_scale=0.3, leaf_shape=1.5, precision_ratio=0.05)


def tree():
    handle = ps.DecisionTree("t", TABLE)
    ps.TreeResponse("y", handle, family=ps.leaves.NormalLeaves(0.0, 1.0, 1.0, 1.0), observed=TABLE["a"].to_numpy())
    return handle


def order():
    ps.DagOrder("o", ps.LocalScores.from_data(TABLE, progressbar=False))


def partition():
    ps.DagPartition("o", ps.LocalScores.from_data(TABLE, progressbar=False))


def graph():
    handle = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["a", "b"])
    ps.LinearGaussianNetwork("x", handle, observed=TABLE)
    return handle


def field():
    return ps.DiscreteField("z", ps.FactorGraph.ising(3, 1.0))


@pytest.mark.parametrize(
    ("made", "way_out"),
    [
        (network, r"only pm\.sample moves the assignments.*ps\.fit_variational"),
        (tree, r"only pm\.sample moves the tree.*ps\.TreePosterior"),
        (order, r"only pm\.sample moves them.*ps\.OrderSPN"),
        (partition, r"only pm\.sample moves them.*ps\.OrderSPN"),
        (graph, r"only pm\.sample moves the graph.*log_joint"),
    ],
)
@pytest.mark.filterwarnings("ignore:`find_MAP` will return:FutureWarning")
def test_find_map_is_refused(made, way_out):
    """PyMC went on without derivatives, met the step's own variable and returned the start."""
    with pm.Model():
        made()
        with pytest.raises(RuntimeError, match=way_out):
            pm.find_MAP(progressbar=False, jitter=False)


@pytest.mark.parametrize(
    ("made", "way_out"),
    [
        (tree, r"tree 't' is no tensor: give it to a response, ps\.TreeResponse"),
        (graph, r"graph 'g' is no tensor, but it has some: g\.n_nodes"),
        (field, r"discrete field 'z' is summed out.*ps\.FieldEmission"),
    ],
)
@pytest.mark.parametrize("use", [lambda h: pm.Normal("w", h, 1.0), lambda h: 2.0 * h, np.asarray])
def test_a_handle_is_no_tensor(made, way_out, use):
    """PyTensor's own message held the whole repr of the handle and no word of what to do."""
    with pm.Model():
        handle = made()
        with pytest.raises(TypeError, match=way_out) as caught:
            use(handle)
    assert len(str(caught.value)) < 400


def test_what_pymc_looks_for_on_a_variable_a_handle_says_it_has_not():
    with pm.Model():
        handle = graph()
        with pytest.raises(AttributeError, match=r"no attribute 'owner': graph 'g' is no tensor, but it has some"):
            pm.draw(handle)
