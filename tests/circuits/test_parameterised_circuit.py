"""Circuits that hold their parameters: checked once and safe from later changes; their answers are labelled."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.evaluation.circuit_passes import log_densities_of_rows, node_coefficients
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.networks.posterior_circuit import LabelledCircuit
from tests.shared_circuits import build, crossed_circuit, random_parameters


def some_circuit(normal=False):
    """Circuit, log weights, leaf parameters and rows with gaps."""
    circuit = crossed_circuit(4, 3, 4, ("gaussian",) if normal else ("gaussian", "student_t"))
    rng = np.random.default_rng(0)
    log_weights, parameters = random_parameters(circuit, rng)
    values = rng.normal(1.0, 1.0, (12, 4))
    values[rng.random(values.shape) < 0.3] = np.nan
    return circuit, log_weights, parameters, values


def test_leaves_of_scipy_are_held_and_answer():
    leaf = ps.circuits.leaf("x", stats.skewnorm(4.0))
    mixed = ps.circuits.mixture_of([leaf, ps.circuits.leaf("x", stats.gumbel_r(1.0))], [0.3, 0.7])
    x = np.array([[0.3], [1.5]])
    expected = np.log(0.3 * stats.skewnorm(4.0).pdf(x[:, 0]) + 0.7 * stats.gumbel_r(1.0).pdf(x[:, 0]))
    np.testing.assert_allclose(mixed.log_density(x), expected, rtol=1e-13)
    again = pickle.loads(pickle.dumps(mixed))
    np.testing.assert_array_equal(again.log_density(x), mixed.log_density(x))


def test_what_is_held_does_not_change_with_what_was_given():
    circuit, log_weights, parameters, values = some_circuit()
    held = ParameterisedCircuit(circuit, log_weights, parameters)
    before = held.log_density(values[:1])
    log_weights += 0.1
    parameters["gaussian"][:, 0] += 1.0
    parameters["student_t"] = parameters["student_t"] + 1.0
    assert held.log_density(values[:1]) == before
    for array in (held.log_weights, *held.leaf_parameters.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_an_array_that_is_exchanged_is_checked_and_used():
    circuit, log_weights, parameters, values = some_circuit()
    held = ParameterisedCircuit(circuit, log_weights, parameters)
    held.log_density(values)
    held.leaf_parameters["gaussian"] = parameters["gaussian"] + [1.0, 0.0]
    moved = parameters | {"gaussian": parameters["gaussian"] + [1.0, 0.0]}
    np.testing.assert_array_equal(
        held.log_density(values), circuit.with_parameters(log_weights, moved).log_density(values)
    )
    held.leaf_parameters["gaussian"] = -parameters["gaussian"]
    with pytest.raises(ValueError, match="leaf_parameters\\['gaussian'\\]"):
        held.log_density(values)


@pytest.mark.parametrize("again", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy, copy.copy])
def test_copies_hold_the_same_and_nothing_that_was_prepared(again):
    circuit, log_weights, parameters, values = some_circuit()
    held = ParameterisedCircuit(circuit, log_weights, parameters)
    size = len(pickle.dumps(held))
    expected = held.log_density(values)
    assert len(pickle.dumps(held)) == size
    copied = again(held)
    np.testing.assert_array_equal(copied.log_density(values), expected)
    assert not copied.log_weights.flags.writeable and not copied.leaf_parameters["gaussian"].flags.writeable
    np.testing.assert_array_equal(copied.log_weights, held.log_weights)


def changed(parameters, family, place, value):
    rows = parameters[family].copy()
    rows[place] = value
    return parameters | {family: rows}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda c, w, p: (None, w, p), TypeError, "circuit must be a Circuit, got NoneType"),
        (lambda c, w, p: (c, w, None), TypeError, "leaf_parameters must be a mapping from families, got None"),
        (
            lambda c, w, p: (c, w, changed(p, "gaussian", (2, 1), -1.0)),
            ValueError,
            r"leaf_parameters\['gaussian'\].*-1.0\] at row 2, leaf",
        ),
    ],
)
def test_bad_parameters_are_refused_when_it_is_made(change, error, message):
    with pytest.raises(error, match=message):
        ParameterisedCircuit(*change(*some_circuit()[:3]))


def test_labelled_circuits_complete_rows_in_labels():
    levels = ps.Column("colour", "categorical", ("red", "green"), "object")
    real = ps.Column("size", "real", None, "float64")
    circuit = build(
        [("product", [1, 2]), ("leaf", 0, "categorical"), ("leaf", 1, "gaussian")],
        [levels, real],
        ("categorical", "gaussian"),
    )
    parameters = {"categorical": np.array([[0.0, 1.0]]), "gaussian": np.array([[0.0, 1.0]])}
    labelled = LabelledCircuit(circuit, np.zeros(0), parameters, attrs={"learner": "none"})
    frame = pd.DataFrame({"colour": [None, "green"], "size": [1.0, np.nan]}, index=["a", "b"])
    drawn = labelled.impute(frame, random_seed=1)
    assert labelled.impute(frame, n=0) == []
    assert list(drawn["colour"]) == ["green", "green"] and list(drawn.index) == ["a", "b"]
    assert drawn["size"]["a"] == 1.0 and np.isfinite(drawn["size"]["b"]) and drawn.attrs["learner"] == "none"
    assert labelled.log_density(frame).to_numpy()[1] == 0.0
    assert labelled.probability({"colour": "green"}) == 1.0
    assert (labelled.sample(20, random_seed=1, given={"size": (0.0, None)})["size"] >= 0.0).all()


def two_clusters():
    """Two columns of numbers and one of levels, whose density at x and y peaks near (0, 0) and (3, 3)."""
    leaf = ps.circuits.leaf
    parts = [
        ps.circuits.product_of(
            [leaf("x", "gaussian", [m, 1.0]), leaf("y", "gaussian", [m, s]), leaf("k", "categorical", p)]
        )
        for m, s, p in ((0.0, 1.0, [0.2, 0.3, 0.5]), (3.0, 2.0, [0.6, 0.3, 0.1]))
    ]
    return ps.circuits.mixture_of(parts, [0.4, 0.6])


CONDITIONS = {
    "interval": ({"x": (1, 2)}, lambda x, y: (x >= 1) & (x <= 2)),
    "union": ([{"x": (1, 2)}, {"y": (4, 5)}], lambda x, y: (x >= 1) & (x <= 2) | (y >= 4) & (y <= 5)),
    "text": ("x < -1 or x > 1 and not 2 < y < 6", lambda x, y: (x < -1) | (x > 1) & ~((y > 2) & (y < 6))),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_the_most_probable_row_of_what_it_leaves(condition):
    given, inside = CONDITIONS[condition]
    model = two_clusters()
    grid = np.linspace(-2.0, 7.0, 181)
    x, y, k = (a.ravel() for a in np.meshgrid(grid, grid, np.arange(3.0)))
    some = inside(x, y)
    logs = model.log_density(np.stack([x, y, k], axis=1)[some]).values - float(model.log_probability(given))
    held = model.condition(given)
    for asked in (held, pickle.loads(pickle.dumps(held)), copy.deepcopy(held), held.condition({"x": (-50, 50)})):
        best = asked.mpe()
        assert logs.max() <= float(best.upper_bound) + 1e-9
        assert float(best.log_density) - logs.max() < 0.01  # the grid is that coarse
        assert inside(best.value["x"][0], best.value["y"][0])
        np.testing.assert_allclose(best.log_density, held.log_density(best.value)[0], atol=1e-9)
        np.testing.assert_allclose(best.log_density, model.mpe(given).log_density, atol=2e-6)
    own = held.circuit.with_parameters(**held.parameters).mpe()  # the same circuit, its leaves of SciPy
    np.testing.assert_allclose(own.log_density, held.mpe().log_density, atol=1e-6)


def test_what_is_summed_out_stays_known_to_the_most_probable_row():
    model = two_clusters()
    only = model.condition({"x": (1, 2), "y": (0, 1)}).marginal(["x"])
    grid = np.linspace(1.0, 2.0, 2001)[:, None]
    best = only.mpe()
    assert float(best.log_density) >= only.log_density(grid).values.max() - 1e-9
    soft = {"k": {0: 0.5, 1: 0.1}}
    assert model.mpe(soft).log_density == model.condition(soft).mpe().log_density
    both = model.condition(soft).condition({"x": (4, None)})
    assert both.mpe().value["x"][0] == 4.0


def test_rows_that_a_condition_excludes_are_refused():
    model = two_clusters()
    frame = pd.DataFrame({"x": [1.5, 5.0], "y": [0.0, 1.0], "k": [0, np.nan]}, index=["a", "b"])
    rule = r"^row 'b': column 'x' cannot be 5\.0: the circuit is conditioned on it being within \(1, 2\)$"
    within = model.condition({"x": (1, 2)})
    for asked in (within, pickle.loads(pickle.dumps(within)), within.condition({"k": {0, 1}})):
        for ask in (
            lambda held: held.impute(frame, random_seed=1),
            lambda held: held.predict(frame, "k"),
            lambda held: held.predict(frame, "y"),
            lambda held: held.predict_proba(frame, "k"),
            lambda held: held.predict_sd(frame, "y"),
        ):
            with pytest.raises(ValueError, match=rule):
                ask(asked)
        assert asked.log_density(frame)[1] == -np.inf
    assert within.predict(frame, "x").shape == (2,)  # the target's own cells are not looked at
    assert within.marginal(["y", "k"]).predict(frame[["y", "k"]], "k").shape == (2,)
    union = model.condition([{"x": (1, 2)}, {"y": (4, 5)}])
    with pytest.raises(ValueError, match=r"^row 'b': the union that the circuit is conditioned on excludes it$"):
        union.predict(frame, "k")
    with pytest.raises(ValueError, match="given: nothing of it can occur within the union"):
        union.condition({"x": (5, 6), "y": (0, 1)})
    with pytest.raises(ValueError, match="column 'k' cannot be 2: the circuit is conditioned on it being with likeli"):
        model.condition({"k": {0: 0.5, 1: 0.1}}).impute(frame.assign(k=2))


ABOUT_ROWS = {
    "log_density": lambda held, rows: held.log_density(rows),
    "moments": lambda held, rows: held.moments(rows),
    "anomaly": lambda held, rows: held.anomaly(rows),
    "impute": lambda held, rows: held.impute(rows),
    "predictive_p_value": lambda held, rows: held.predictive_p_value(rows, n=100),
    "cell_p_value": lambda held, rows: held.cell_p_value(rows),
    "predict": lambda held, rows: held.predict(rows, "x"),
    "predict_sd": lambda held, rows: held.predict_sd(rows, "x"),
    "predict_quantile": lambda held, rows: held.predict_quantile(rows, "x", 0.5),
    "predict_cdf": lambda held, rows: held.predict_cdf(rows, "x"),
}


@pytest.mark.parametrize("question", ABOUT_ROWS)
def test_codes_of_no_level_are_refused_in_the_same_words_by_all_questions(question):
    model, ask = two_clusters(), ABOUT_ROWS[question]
    frame = pd.DataFrame({"x": [1.5, 5.0], "y": [0.0, 1.0], "k": [0.0, 7.0]})
    rule = r"^column 'k', row 1 \(position 1\): unseen level \(the circuit knows codes 0 to 2\), got 7\.0$"
    for rows in (frame, frame.to_numpy(), frame.to_numpy().tolist(), frame.to_dict("list")):
        with pytest.raises(ValueError, match=rule):
            ask(model, rows)
    for wrong in (-1.0, 0.5, np.inf):
        with pytest.raises(ValueError, match=r"column 'k', row 1 .*unseen level"):
            ask(model, frame.assign(k=[0.0, wrong]))
    ask(model, frame.iloc[:0])
    ask(model, frame.iloc[:1])


def test_unseen_levels_may_be_missing_in_frames_and_arrays():
    model = two_clusters()
    frame = pd.DataFrame({"x": [1.5, 5.0], "y": [0.0, 1.0], "k": [0.0, 7.0]})
    gap = frame.assign(k=[0.0, np.nan])
    for rows in (frame, frame.to_numpy(), frame.to_dict("list")):
        np.testing.assert_array_equal(model.log_density(rows, unseen="missing"), model.log_density(gap))
        np.testing.assert_array_equal(model.predict(rows, "x", unseen="missing"), model.predict(gap, "x"))
        np.testing.assert_array_equal(
            model.predict_quantile(rows, "x", 0.3, unseen="missing"), model.predict_quantile(gap, "x", 0.3)
        )
        np.testing.assert_array_equal(model.predict_cdf(rows, "x", unseen="missing"), model.predict_cdf(gap, "x"))
    np.testing.assert_array_equal(
        model.predict(frame[["y", "k"]].to_numpy(), "x", unseen="missing"), model.predict(gap, "x")
    )
    with pytest.raises(ValueError, match='unseen must be "error" or "missing"'):
        model.log_density(frame.to_numpy(), unseen="drop")


def test_a_table_of_columns_that_are_names_only_is_read_as_codes_by_all_questions():
    model = two_clusters()
    frame = pd.DataFrame({"x": [1.5, 5.0], "y": [0.0, 1.0], "k": ["b", "c"]})
    table, codes = ps.Table.from_frame(frame), frame.assign(k=[0, 1])
    for question in ABOUT_ROWS.keys() - {"impute", "predictive_p_value"}:
        assert ABOUT_ROWS[question](model, table).equals(ABOUT_ROWS[question](model, codes)), question
    np.testing.assert_array_equal(model.impute(table), codes)


def test_arrays_that_are_held_read_only_compile_no_kernel_again():
    kernels = (log_densities_of_rows, node_coefficients)
    circuit, log_weights, parameters, values = some_circuit()
    event, rows = {"x0": (0.0, 1.0)}, np.tile(values, (2, 1))
    for given in (values[:1], rows):
        circuit.with_parameters(log_weights.copy(), parameters).log_density(given)
    circuit.with_parameters(log_weights.copy(), parameters).probability(event)
    before = [len(kernel.signatures) for kernel in kernels]
    held = ParameterisedCircuit(circuit, log_weights, parameters)
    for given in (values[:1], rows):
        held.log_density(given)
    held.probability(event)
    assert [len(kernel.signatures) for kernel in kernels] == before and min(before) > 0
