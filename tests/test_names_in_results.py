"""Dimensions of what PyMC keeps of each family: names of columns, nodes and variables, without any ``dims=``."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps

rng = np.random.default_rng(0)
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat"]
TABLE = pd.DataFrame({"a": rng.normal(size=6), "b": rng.normal(size=6)}, index=DAYS)
COLUMNS, ROWS, NUMBERS = ["a", "b"], DAYS, [*range(6)]
LAW = ps.circuits.mixture_of(
    [ps.circuits.product_of([ps.circuits.leaf(c, "gaussian", [m, 1.0]) for c in COLUMNS]) for m in (0.0, 3.0)],
    [0.5, 0.5],
)
CHAIN = ps.FactorGraph.hmm(2, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))


def network():
    ps.SPN("x", observed=TABLE, joint_leaves=None, rounded=False)


def densities():
    log_weights = ps.circuits.dirichlet_log_weights(LAW.circuit)
    ps.CircuitDensity("x", LAW.circuit, log_weights, LAW.leaf_parameters, observed=TABLE)
    ps.CircuitDensity("row", LAW.circuit, LAW.log_weights, LAW.leaf_parameters)
    ps.CircuitDensity("rows", LAW.circuit, LAW.log_weights, LAW.leaf_parameters, shape=(3, 2))


def tree():
    ps.TreeResponse("y", ps.DecisionTree("t", TABLE), observed=TABLE["a"])


def orders():
    ps.DagOrder("o", ps.LocalScores.from_data(TABLE, progressbar=False))


def belief_network():
    graph = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=COLUMNS)
    ps.LinearGaussianNetwork("x", graph, observed=TABLE)


def fields():
    for name, observed in (("x", {"y": [0.1, 5.0]}), ("y", pd.DataFrame({"z1": [0, 1, 0]}, index=["r", "s", "t"]))):
        parts = {"y": pm.Normal.dist([0.0, 5.0], 1.0)} if "y" in observed else None
        ps.FieldEmission(name, ps.DiscreteField(f"field_{name}", CHAIN), components=parts, observed=observed)
    both = {"u": pm.Normal.dist([0.0, 5.0], 1.0), "v": pm.Normal.dist([0.0, 5.0], 1.0)}
    data = {"z0": [0, 1], "u": np.zeros((2, 2)), "v": np.zeros((2, 1))}
    ps.FieldEmission("w", ps.DiscreteField("field_w", CHAIN), components=both, observed=data, sites={"v": ["z1"]})


LABELS = {  # by family: dimensions of its variables and their labels
    network: {
        "x": {"x_row": ROWS, "x_column": COLUMNS},
        "x_leaf_scale": {"x_column": COLUMNS},
        "x_leaf_shape": {"x_gaussian_column": COLUMNS},
        "x_concentration": {"x_sum_node": ["inner", "univariate"]},
    },
    densities: {
        "x": {"x_row": ROWS, "x_column": COLUMNS},
        "weights": {"weights_sum": [LAW.circuit.edge_sum[0]], "weights_child": [0, 1]},
        "row": {"row_column": COLUMNS},
        "rows": {"rows_dim_0": [0, 1, 2], "rows_column": COLUMNS},
    },
    tree: {"y": {"t_row": NUMBERS}, "t_X": {"t_row": NUMBERS, "t_feature": COLUMNS}},
    belief_network: {"x": {"x_row": ROWS, "x_column": COLUMNS}},
    fields: {
        "x": {"x_cell": ["z0", "z1"]},
        "y": {"y_row": ["r", "s", "t"], "y_cell": ["z1"]},
        "w": {"w_row": [0, 1], "w_cell": ["z0", "u: z0", "u: z1", "v: z1"]},
    },
}


@pytest.mark.parametrize("family", LABELS, ids=lambda f: f.__name__)
def test_dimensions_carry_names(family):
    with pm.Model():
        family()
        drawn = pm.sample_prior_predictive(draws=2, random_seed=1)
    for name, wanted in LABELS[family].items():
        found = [group[name] for group in drawn.children.values() if name in group.data_vars]
        assert found, name
        for values in found:
            own = [d for d in values.dims if d not in ("chain", "draw")]
            assert {d: values[d].values.tolist() for d in own} == wanted, name


def test_rows_of_a_tree_may_change():
    with pm.Model() as model:
        handle = ps.DecisionTree("t", TABLE)
        ps.TreeResponse("y", handle, observed=TABLE["a"])
        pm.set_data(handle.data(TABLE.head(2)))
        assert [int(model.dim_lengths[d].eval()) for d in ("t_row", "t_feature")] == [2, 2]


def test_a_response_takes_the_dimension_of_its_data():
    with pm.Model(coords={"day": DAYS}) as model:
        X = pm.Data("X", TABLE.to_numpy(), dims=("day", None))
        ps.TreeResponse("y", ps.DecisionTree("t", X), observed=TABLE["a"].to_numpy())
        assert model.named_vars_to_dims["y"] == ("day",)
        ps.TreeResponse("z", ps.DecisionTree("u", TABLE), observed=pm.Data("Z", TABLE["a"].to_numpy(), dims="day"))
        assert model.named_vars_to_dims["z"] == ("day",)


@pytest.mark.parametrize(
    ("family", "clash"),
    [
        (network, "x_column"),
        (densities, "x_column"),
        (tree, "t_feature"),
        (tree, "t_row"),
        (orders, "o_variable"),
        (belief_network, "x_row"),
        (fields, "x_cell"),
    ],
)
def test_a_coordinate_with_other_labels_is_refused(family, clash):
    with pm.Model(coords={clash: ["p", "q"]}):
        with pytest.raises(ValueError, match=rf"coordinate '{clash}' with the labels \['p', 'q'\].*rename"):
            family()


def test_the_same_labels_are_shared():
    with pm.Model(coords={"x_column": COLUMNS}) as model:
        network()
        assert model.named_vars_to_dims["x"] == ("x_row", "x_column")


def test_a_hyperparameter_over_all_columns_has_their_dimension():
    """Among Gaussian columns alone its numbers would have no place for the others."""
    mixed = TABLE.assign(job=["x", "y"] * 3)
    with pm.Model() as model:
        ps.SPN("x", observed=mixed, leaf_shape=pm.Gamma.dist(2.0, 1.0, shape=3), joint_leaves=None, rounded=False)
        assert model.named_vars_to_dims["x_leaf_shape"] == ("x_column",)
        assert model.named_vars_to_dims["x_precision_ratio"] == ("x_gaussian_column",)
