"""Circuits that hold their parameters: the answers of `Circuit`, checked once and safe from later changes."""

import copy
import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.evaluation.linear_pass import linear_log_densities, tape_coefficients
from pymc_spn.circuits.evaluation.node_values import sum_and_multiply_asked
from pymc_spn.circuits.evaluation.row_pass import log_densities_of_few
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


EVENTS = {
    "box": ({"x0": (0.0, 1.0), "x2": (None, 0.5)}, None),
    "given": ([{"x0": (0.0, 1.0)}, {"x1": (1.0, None)}], {"x3": 0.5}),
    "rows": ({"x0": (np.zeros(3), np.arange(1.0, 4.0))}, None),
}
QUESTIONS = {
    "density": lambda ask, values: ask("log_density")(values),
    "one row": lambda ask, values: ask("log_density")(values[:1]),
    "float32": lambda ask, values: ask("log_density", normal=True)(values, dtype=np.float32),
    "frame": lambda ask, values: ask("log_density")(pd.DataFrame(values[:, ::-1], columns=["x3", "x2", "x1", "x0"])),
    "sample": lambda ask, values: ask("sample")(5, random_seed=1),
    "sample given": lambda ask, values: ask("sample")(5, random_seed=1, given={"x1": (0.0, 2.0)}),
    "complete": lambda ask, values: ask("complete")(values, random_seed=1),
    "mean": lambda ask, values: ask("moments")(values, covariance=False).mean,
    "covariance": lambda ask, values: ask("moments")(values).covariance,
    "mpe": lambda ask, values: ask("mpe", normal=True)(values[:3], search=False).value,
    "mpe search": lambda ask, values: ask("mpe", normal=True)(values[:2], tolerance=1e-3, max_boxes=50).upper_bound,
} | {
    f"{name} {scale}": lambda ask, values, e=event, k=known, q=query: ask(q)(e, given=k)
    for name, (event, known) in EVENTS.items()
    for scale, query in (("probability", "probability"), ("log", "log_probability"))
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_the_circuit(question):
    def of_holder(method, normal=False):
        return getattr(ps.circuits.ParameterisedCircuit(*some_circuit(normal)[:3]), method)

    def of_circuit(method, normal=False):
        circuit, *parameters, _ = some_circuit(normal)
        return lambda first, **others: getattr(circuit, method)(first, *parameters, **others)

    values = some_circuit()[3]
    np.testing.assert_array_equal(QUESTIONS[question](of_holder, values), QUESTIONS[question](of_circuit, values))


def test_leaves_of_scipy_are_held_and_answer():
    leaf = ps.circuits.leaf("x", stats.skewnorm(4.0))
    mixed = ps.circuits.mixture_of([leaf, ps.circuits.leaf("x", stats.gumbel_r(1.0))], [0.3, 0.7])
    x = np.array([[0.3], [1.5]])
    expected = np.log(0.3 * stats.skewnorm(4.0).pdf(x[:, 0]) + 0.7 * stats.gumbel_r(1.0).pdf(x[:, 0]))
    np.testing.assert_allclose(mixed.log_density(x), expected, rtol=1e-13)
    with pytest.raises(
        ValueError, match="dtype must be float64 where leaves are distributions of SciPy or over several columns"
    ):
        mixed.log_density(x, dtype=np.float32)
    again = pickle.loads(pickle.dumps(mixed))
    np.testing.assert_array_equal(again.log_density(x), mixed.log_density(x))


def test_what_is_held_does_not_change_with_what_was_given():
    circuit, log_weights, parameters, values = some_circuit()
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
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
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
    held.log_density(values)
    held.leaf_parameters["gaussian"] = parameters["gaussian"] + [1.0, 0.0]
    moved = parameters | {"gaussian": parameters["gaussian"] + [1.0, 0.0]}
    np.testing.assert_array_equal(held.log_density(values), circuit.log_density(values, log_weights, moved))
    held.leaf_parameters["gaussian"] = -parameters["gaussian"]
    with pytest.raises(ValueError, match="leaf_parameters\\['gaussian'\\]"):
        held.log_density(values)


@pytest.mark.parametrize("again", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy, copy.copy])
def test_copies_hold_the_same_and_nothing_that_was_prepared(again):
    circuit, log_weights, parameters, values = some_circuit()
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
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
        (lambda c, w, p: (c, w[1:], p), ValueError, "log_weights must have shape"),
        (lambda c, w, p: (c, w - 0.1, p), ValueError, "weights of each sum must add up to 1, got 0.9"),
        (lambda c, w, p: (c, w, None), TypeError, "leaf_parameters must be a mapping from families, got None"),
        (lambda c, w, p: (c, w, {"gaussian": p["gaussian"]}), ValueError, "'student_t' is missing"),
        (
            lambda c, w, p: (c, w, changed(p, "gaussian", (2, 1), -1.0)),
            ValueError,
            r"leaf_parameters\['gaussian'\].*-1.0\] at row 2, leaf",
        ),
    ],
)
def test_bad_parameters_are_refused_when_it_is_made(change, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.ParameterisedCircuit(*change(*some_circuit()[:3]))


def test_errors_of_questions_are_those_of_the_circuit():
    circuit, log_weights, parameters, values = some_circuit()
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
    for question, message in (
        (lambda: held.log_density(values[0]), r"values must have shape \(rows, 4\), got \(4,\)"),
        (lambda: held.log_density(values, dtype="int8"), "dtype must be float64 or float32, got int8"),
        (lambda: held.sample(-1), "n must be an integer of at least 0, got -1"),
        (lambda: held.mpe(values, tolerance=0.0), "tolerance must be"),
        (lambda: held.probability({"y": 0.0}), "'y'"),
    ):
        with pytest.raises(ValueError, match=message):
            question()


def test_declared_supports_are_checked_at_every_row():
    circuit = build([("sum", [1, 2]), ("leaf", 0, "gaussian"), ("leaf", 0, "gaussian")], ["a"], ("gaussian",))
    circuit = dataclasses.replace(circuit, leaf_support=[None, (0.0, 1.0)])
    held = ps.circuits.ParameterisedCircuit(
        circuit, np.log([0.5, 0.5]), {"gaussian": np.array([[0.0, 1.0], [0.5, 1.0]])}
    )
    assert np.isfinite(held.log_density([[0.5]]))
    with pytest.raises(ValueError, match="leaf_parameters contradict leaf_support: leaf 2 of 'a'"):
        held.log_density([[2.0]])


def test_threads_may_ask_one_object():
    """Scratch is a call's own."""
    circuit, log_weights, parameters, values = some_circuit()
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
    expected = circuit.log_density(values, log_weights, parameters)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: held.log_density(values[i % 12 : i % 12 + 1])[0], range(4_000)))
    np.testing.assert_allclose(found, np.resize(expected, 4_000), rtol=1e-14)


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
    assert list(drawn["colour"]) == ["green", "green"] and list(drawn.index) == ["a", "b"]
    assert drawn["size"]["a"] == 1.0 and np.isfinite(drawn["size"]["b"]) and drawn.attrs["learner"] == "none"
    assert labelled.log_density(frame).to_numpy()[1] == 0.0
    assert labelled.probability({"colour": "green"}) == 1.0
    assert (labelled.sample(20, random_seed=1, given={"size": (0.0, None)})["size"] >= 0.0).all()


def test_arrays_that_are_held_read_only_compile_no_kernel_again():
    kernels = (linear_log_densities, log_densities_of_few, sum_and_multiply_asked, tape_coefficients)
    circuit, log_weights, parameters, values = some_circuit()
    event, rows = {"x0": (0.0, 1.0)}, np.tile(values, (2, 1))
    for given in (values[:1], rows):
        circuit.log_density(given, log_weights.copy(), parameters)
    circuit.probability(event, log_weights.copy(), parameters)
    before = [len(kernel.signatures) for kernel in kernels]
    held = ps.circuits.ParameterisedCircuit(circuit, log_weights, parameters)
    for given in (values[:1], rows):
        held.log_density(given)
    held.probability(event)
    assert [len(kernel.signatures) for kernel in kernels] == before and min(before) > 0
