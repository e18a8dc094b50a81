"""Pictures of models by PyMC: what is unknown is there as such, and what a result keeps for its reader is not."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pymc.model_graph import ModelGraph

import pymc_spn as ps
from pymc_spn.steps.kept_data import keep_data, kept_data

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": rng.normal(size=6), "b": rng.normal(size=6)})


def network():
    ps.SPN("x", observed=TABLE, joint_leaves=None, rounded=False, leaf_scale=1.0, leaf_shape=2.0, precision_ratio=0.1)


def tree():
    handle = ps.DecisionTree("t", TABLE[["a"]], alpha_s=pm.Beta.dist(2.0, 2.0))
    ps.TreeResponse("y", handle, family="real", observed=TABLE["b"])


def partition():
    ps.DagPartition("g", ps.LocalScores.from_data(TABLE, progressbar=False))


def belief_network():
    graph = ps.IndianChefsProcess("g", alpha=pm.Gamma.dist(2.0, 1.0), gamma=1.0, phi=1.0, observed_nodes=["a", "b"])
    ps.LinearGaussianNetwork("x", graph, observed=TABLE)


def field():
    stays = pm.Beta("stays", 1.0, 1.0)
    table = pm.math.log(pm.math.stack([[stays, 1.0 - stays], [1.0 - stays, stays]]))
    states = ps.DiscreteField("z", ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), table))
    parts = {"y": pm.Normal.dist(pm.Normal("mu", shape=2), 1.0)}
    ps.FieldEmission("y", states, components=parts, observed={"y": [0.1, 0.3, 5.2, 4.9]})


NODES = {  # by family: its nodes, with those that PyMC fills among the observed
    network: ({"x_log_joint ~ InducedTrees", "x_concentration ~ Gamma"}, {"x ~ SPN"}, set()),
    tree: (
        {"t_log_joint ~ DecisionTree", "t_alpha_s ~ Beta"},
        {"y ~ TreeResponse"},
        {"t_X ~ Data", "t_missing ~ Data"},
    ),
    partition: ({"g ~ DagPartition", "g_log_score ~ DagLogScore", "g_n_edges ~ DagEdgeCount"}, set(), set()),
    belief_network: (
        {"g_log_joint ~ UnknownGraph", "g_alpha ~ Gamma"},
        {"g ~ IndianChefsProcess", "x ~ BeliefNetwork"},
        set(),
    ),
    field: ({"stays ~ Beta", "mu ~ Normal", "z ~ Potential"}, {"y ~ FieldEmission"}, set()),
}
EDGES = {
    network: {"x_log_joint --> x", "x_concentration --> x"},
    tree: {"t_log_joint --> y", "t_alpha_s --> y", "t_X --> y", "t_missing --> y"},
    partition: {"g --> g_log_score", "g --> g_n_edges"},
    belief_network: {"g_log_joint --> g", "g_alpha --> g", "g --> x", "g_log_joint --> x"},
    field: {"stays --> z", "z --> y", "mu --> y"},
}


def nodes_of(text):
    """Labels of nodes in a diagram, those that are filled as observed ones, and data."""
    lines = text.splitlines()
    shown = {line.split("([")[1].removesuffix("])") for line in lines if "([" in line}
    filled = {line.split()[1] for line in lines if line.endswith("fill:#757575")}
    seen = {label for label in shown if label.split(" ~ ")[0] in filled}
    data = {line.split("[")[1].removesuffix("]") for line in lines if line.endswith(" ~ Data]")}
    return shown - seen, seen, data


@pytest.mark.parametrize("family", NODES, ids=lambda f: f.__name__)
def test_picture(family):
    with pm.Model() as model:
        family()
    text = pm.model_to_mermaid(model)
    assert nodes_of(text) == NODES[family]
    assert {line for line in text.splitlines() if "-->" in line} == EDGES[family]


def test_a_copied_model_keeps_its_data():
    with pm.Model() as model:
        network()
    copied = pm.do(model, {"x_concentration": np.ones(2)})
    for one in (model, copied):
        np.testing.assert_array_equal(kept_data(one, "x_schema"), kept_data(model, "x_schema"))
    assert kept_data(model, "other") is None


def test_names_are_not_used_twice():
    with pm.Model() as model:
        pm.Normal("x_schema")
        with pytest.raises(ValueError, match="Variable name x_schema already exists"):
            keep_data(model, "x_schema", np.zeros(2))


def test_a_named_table_keeps_its_name():
    """The potentials of a field are a variable of their own, even where they are a variable of the model."""
    with pm.Model() as model:
        own = pm.Normal("own", shape=2)
        graph = ps.FactorGraph({"s": [0, 1]})
        graph.add_factor(["s"], own)
        ps.DiscreteField("z", graph)
    assert (model["own"].name, model["z"].name) == ("own", "z") and ModelGraph(model).get_parent_names(model["z"]) == {
        "own"
    }
