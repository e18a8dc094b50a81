"""The certified most probable completion: value, bound and certificate against grids and against itself."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st

import pymc_spn as ps
from pymc_spn.circuits.laws.packed_circuits import packed_from_circuit
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.maxima import box_search
from pymc_spn.maxima.box_kernels import falls_at_points, leaf_shifts, log_bounds, taylor_ranges
from pymc_spn.maxima.box_leaves import CONSTANT
from pymc_spn.networks.packed_mixture import packed_from_draws
from pymc_spn.tables import Table
from tests.hand_made_records import law_of, posterior_of, sampled_tree
from tests.random_circuits import column_families, random_circuit
from tests.shared_circuits import build

TOLERANCE = 1e-6


def mixture(family, columns=("x",)):
    """Two leaves of one column under a sum."""
    return Circuit(
        np.array([SUM, LEAF, LEAF], np.int8), [0, 2, 2, 2], [1, 2], [-1, 0, 0], [-1, 0, 0], (family,), columns
    )


def test_a_narrow_high_peak_beats_a_broad_heavy_one():
    """Choosing branches by their weight, or the larger child at every sum, ends at 0 with log density -3.04."""
    found = mixture("gaussian").with_parameters(np.log([0.6, 0.4]), {"gaussian": [[0.0, 5.0], [10.0, 0.1]]}).mpe()
    x = np.linspace(9.9, 10.1, 2_000_001)
    density = 0.6 * np.exp(-0.5 * (x / 5) ** 2) / 5 + 0.4 * np.exp(-0.5 * ((x - 10) / 0.1) ** 2) / 0.1
    exact = np.log(density.max() / np.sqrt(2 * np.pi))
    assert found.certified and float(found.log_density) == pytest.approx(exact, abs=1e-9)
    assert 0 <= float(found.upper_bound - found.log_density) <= TOLERANCE
    assert found.value["x"].item() == pytest.approx(x[np.argmax(density)], abs=1e-6)
    assert found.log_density.attrs == {"exactness": "numerical", "tolerance": TOLERANCE}
    assert found.upper_bound.attrs["exactness"] == "bound"


def test_a_maximum_between_two_modes():
    """Two equal bells half an sd apart: the maximum is where no leaf has its mode."""
    found = mixture("gaussian").with_parameters(np.log([0.5, 0.5]), {"gaussian": [[0.0, 1.0], [1.0, 1.0]]}).mpe()
    assert found.certified and found.value["x"].item() == pytest.approx(0.5, abs=1e-5)


def values_to_try(rng, circuit, best, n):
    """Random rows in the support, and rows near the one that was found."""
    families = column_families(circuit)
    rows = np.concatenate([rng.normal(0, 4, (n, len(families))), best + rng.normal(0, 0.1, (n, len(families)))])
    for d, family in enumerate(families):
        if family == "exponential":
            rows[:, d] = np.abs(rows[:, d]) * (rng.random(2 * n) < 0.5)
        elif family != "gaussian":
            rows[:, d] = rng.integers(0, 3 if family == "categorical" else 20, 2 * n)
    return rows


@pytest.mark.parametrize("block", range(5))
def test_fifty_random_circuits_are_certified(block):
    for seed in range(10 * block, 10 * block + 10):
        rng = np.random.default_rng(seed)
        problem = random_circuit(rng, 1 + seed % 4, mixed=seed % 3 == 0)
        found = ParameterisedCircuit(*problem).mpe()
        best = found.value.to_numpy(float)
        assert found.certified
        circuit, *parameters = problem
        assert circuit.with_parameters(*parameters).log_density(best).values[0] == pytest.approx(
            float(found.log_density), abs=1e-10
        )
        rows = values_to_try(rng, circuit, best, 2_000)
        assert circuit.with_parameters(*parameters).log_density(rows).values.max() <= float(found.upper_bound) + 1e-10


@property_of(seed=st.integers(0, 10_000), n=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_bounds_hold_over_boxes(seed, n):
    """Value, gradient and Hessian at random points of a box lie within their ranges; gradients by differences."""
    rng = np.random.default_rng(seed)
    circuit, log_weights, parameters = random_circuit(rng, n, mixed=False)
    packed = packed_from_circuit(circuit, log_weights, parameters, {})
    centre, half = rng.normal(0, 3, n), np.exp(rng.normal(-1, 1.5, n))
    low, high = (centre - half)[None], (centre + half)[None]
    shift = leaf_shifts(packed, low, high)
    lower, upper = taylor_ranges(packed, low, high, np.arange(n), shift)
    top = log_bounds(packed, low, high)[0]
    total = shift.sum()
    for x in rng.uniform(low[0], high[0], (20, n)):
        here, _ = taylor_ranges(packed, x[None], x[None], np.arange(n), shift)
        slack = 1e-9 * (1.0 + np.abs(here[0]))
        assert (here[0] >= lower[0] - slack).all() and (here[0] <= upper[0] + slack).all()
        log = circuit.with_parameters(log_weights, parameters).log_density(x[None]).values[0]
        assert log <= top + 1e-9 and np.exp(log - total) == pytest.approx(here[0, 0], rel=1e-9, abs=1e-290)
        for d in range(n):
            step = np.zeros(n)
            step[d] = 1e-5
            logs = (
                circuit.with_parameters(log_weights, parameters).log_density(np.array([x + step, x, x - step])) - total
            )
            f = np.exp(logs)
            scale = np.abs(here[0]).max() + 1e-200
            assert here[0, 1 + d] == pytest.approx((f[0] - f[2]) / 2e-5, abs=2e-3 * scale)


@pytest.mark.parametrize("seed", range(12))
def test_falls_of_bounds_are_those_of_boxes_held_at_a_value(seed):
    rng = np.random.default_rng(seed)
    n = 1 + seed % 4
    packed = packed_from_circuit(*random_circuit(rng, n, mixed=seed % 3 == 0), {})
    low = np.floor(rng.normal(0, 3, (5, n)) ** 2)
    high = low + rng.integers(0, 4, (5, n))
    at = np.floor(0.5 * (low + high))
    is_possible = log_bounds(packed, low, high) > -1e200
    low, high, at = low[is_possible], high[is_possible], at[is_possible]
    falls = falls_at_points(packed, low, high, at)
    for d in range(n):
        first, last = low.copy(), high.copy()
        first[:, d] = last[:, d] = at[:, d]
        expected = np.minimum(log_bounds(packed, low, high) - log_bounds(packed, first, last), 300 * np.log(10.0))
        expected[low[:, d] == high[:, d]] = -np.inf
        np.testing.assert_allclose(falls[:, d], expected, rtol=1e-9, atol=1e-9)


def test_a_bound_that_is_too_low_is_found_out(monkeypatch):
    """Planted: boxes bounded by the value at their middle. Ten small bells on one place then stay hidden."""
    kind = np.array([SUM] + [LEAF] * 11, np.int8)
    leaf = [-1] + [0] * 11
    circuit = Circuit(kind, [0, *[11] * 12], range(1, 12), leaf, leaf, ("gaussian",), ("x",))
    bells = np.array([[0.0, 0.05]] + [[3.0, 0.3]] * 10)
    arguments = circuit, np.log([0.05] + [0.095] * 10), {"gaussian": bells}
    monkeypatch.setattr(box_search, "STARTS", 1)
    held, known = ParameterisedCircuit(*arguments), {"x": (-90.0, 90.0)}  # no first answer by climbing
    assert float(held.mpe(known).log_density) == pytest.approx(np.log(0.95 / 0.3 / np.sqrt(2 * np.pi)))
    real = box_search.box_kernels.log_bounds
    monkeypatch.setattr(
        box_search.box_kernels,
        "log_bounds",
        lambda packed, low, high: real(packed, 0.5 * (low + high), 0.5 * (low + high)),
    )
    planted = held.mpe(known)
    assert planted.certified and float(planted.log_density) == pytest.approx(np.log(1.0 / np.sqrt(2 * np.pi)))


def test_evidence_of_all_sorts():
    rng = np.random.default_rng(8)
    circuit, log_weights, parameters = random_circuit(rng, 3, mixed=False)
    x = np.linspace(-12, 12, 401)
    grid = np.array(list(product([0.5], x, x[(x >= -1) & (x <= 0.35)])))
    exact = circuit.with_parameters(log_weights, parameters).log_density(grid).values
    known = circuit.with_parameters(log_weights, parameters).log_density(np.array([[0.5, np.nan, np.nan]])).values[0]
    known = known + float(
        circuit.with_parameters(log_weights, parameters).log_probability({"x2": (-1, 0.35)}, given={"x0": 0.5})
    )
    found = circuit.with_parameters(log_weights, parameters).mpe({"x0": 0.5, "x2": (-1, 0.35)})
    row = found.value.to_numpy(float)[0]
    assert found.certified and row[0] == 0.5 and -1 <= row[2] <= 0.35
    assert exact.max() - known <= float(found.upper_bound) + 1e-12
    near = row + np.array(list(product([0.0], np.linspace(-0.1, 0.1, 101), np.linspace(-0.1, 0.1, 101))))
    near[:, 2] = np.clip(near[:, 2], -1, 0.35)
    best = circuit.with_parameters(log_weights, parameters).log_density(near).values.max() - known
    assert float(found.log_density) == pytest.approx(best, abs=1e-9)


def test_counts_and_levels_by_enumeration():
    rng = np.random.default_rng(3)
    while True:
        circuit, log_weights, parameters = random_circuit(rng, 3, mixed=True)
        families = column_families(circuit)
        if set(families) == {"poisson", "categorical"}:
            break
    rows = np.array(list(product(*(range(40 if f == "poisson" else 3) for f in families))), float)
    logs = circuit.with_parameters(log_weights, parameters).log_density(rows).values
    found = circuit.with_parameters(log_weights, parameters).mpe()
    assert found.certified and float(found.log_density) == pytest.approx(logs.max(), abs=1e-12)
    np.testing.assert_array_equal(found.value.to_numpy(float)[0], rows[np.argmax(logs)])
    column = families.index("categorical")
    some = np.isin(rows[:, column], [0, 2])
    found = circuit.with_parameters(log_weights, parameters).mpe({f"x{column}": {0, 2}})
    expected = logs[some].max() - np.log(np.exp(logs[some]).sum())
    assert float(found.log_density) == pytest.approx(expected, abs=1e-7)  # counts from 40 on are not summed: 2e-8


# ---- leaves that are predictives
PREDICTIVES = ("student_t", "lomax", "negative_binomial", "beta_geometric")


def predictive_circuit():
    """Three products of one leaf of each predictive family; density columns first."""
    nodes = [("sum", [1, 6, 11])]
    for first in (1, 6, 11):
        nodes += [("product", range(first + 1, first + 5)), *[("leaf", d, f) for d, f in enumerate(PREDICTIVES)]]
    circuit = build(nodes, tuple("tlnb"), PREDICTIVES)
    parameters = {
        "student_t": np.array([[0.0, 0.5, 3.0], [0.7, 0.3, 8.0], [2.0, 1.0, 1.0]]),
        "lomax": np.array([[2.0, 1.0], [5.0, 9.0], [1.5, 0.4]]),
        "negative_binomial": np.array([[6.0, 2.0], [0.8, 0.1], [20.0, 3.0]]),
        "beta_geometric": np.array([[3.0, 2.0], [1.2, 6.0], [5.0, 1.0]]),
    }
    return circuit, np.log([0.5, 0.3, 0.2]), parameters


def test_predictive_leaves_against_a_grid():
    circuit, *parameters = predictive_circuit()
    t, x = np.linspace(-1, 3, 801), np.linspace(0, 2, 5)
    grid = np.array(list(product(t, x, range(12), range(4))), float)
    logs = circuit.with_parameters(*parameters).log_density(grid).values
    found = circuit.with_parameters(*parameters).mpe()
    assert found.certified and logs.max() <= float(found.upper_bound) + 1e-12
    assert float(found.log_density) == pytest.approx(logs.max(), abs=2e-4)  # the grid's step of 0.005, curvature 9
    np.testing.assert_allclose(found.value.to_numpy(float)[0], grid[np.argmax(logs)], atol=5e-3)
    row = {"t": np.nan, "l": 0.5, "n": 7.0, "b": None}  # a row with gaps
    of_row = circuit.with_parameters(*parameters).mpe(row)
    known = circuit.with_parameters(*parameters).mpe({"l": 0.5, "n": 7.0})
    assert of_row.certified and of_row.value.equals(known.value) and of_row.log_density.equals(known.log_density)


@pytest.mark.parametrize(("name", "point"), [("t", 0.3), ("l", 0.2), ("n", 4.0), ("b", 1.0)])
def test_any_predictive_leaf_may_be_known(name, point):
    circuit, *parameters = predictive_circuit()
    found = circuit.with_parameters(*parameters).mpe({name: point})
    row = found.value.to_numpy(float)
    known = np.where(np.array(list("tlnb")) == name, point, np.nan)[None]
    both = circuit.with_parameters(*parameters).log_density(np.vstack([row, known])).values
    assert found.certified and float(found.log_density) == pytest.approx(both[0] - both[1], abs=1e-10)
    if name in "nb":  # a mass: sets are events, too
        among = circuit.with_parameters(*parameters).mpe({name: {point, 9}})
        assert among.certified and among.value[name].item() in (point, 9)


@pytest.mark.parametrize("name", ["palette", "missing", "skewed"])
def test_the_posterior_as_a_circuit_has_the_same_most_probable_row(name):
    post = posterior_of(name)
    rounded = post.as_circuit().attrs.get("whole_numbers", ())  # of these the circuit has densities, not masses
    post = post.marginal([c.name for c in post.columns if c.name not in rounded])
    circuit = post.as_circuit()
    expected, found = post.mpe(), circuit.mpe()
    assert expected.certified and found.certified
    assert float(found.log_density) == pytest.approx(float(expected.log_density), abs=TOLERANCE)
    values, exact = (Table.from_frame(best.value, schema=post.columns).values for best in (found, expected))
    np.testing.assert_allclose(values, exact, rtol=1e-3, atol=1e-3)
    if name == "skewed" or rounded:  # 256 draws: one question is enough
        return
    inside = {"x0": (0.4, 2)}
    within, exact = circuit.mpe(inside), post.mpe(inside)
    assert float(within.log_density) == pytest.approx(float(exact.log_density), abs=TOLERANCE)


def test_rows_that_need_no_search_and_rows_that_may_not_search():
    circuit, *parameters = predictive_circuit()
    held, row = circuit.with_parameters(*parameters), {"l": 0.2, "n": 3.0, "b": 1.0}
    full = held.mpe(row)
    assert full.certified and full.n_boxes > 0
    assert held.mpe({"t": 0.1, "l": 0.2, "n": 3.0}).n_boxes == 0  # a level is left, of which all are tried
    few = held.mpe(row, max_boxes=1, tolerance=1e-12)
    assert not few.certified and float(few.upper_bound) >= float(full.log_density)
    assert float(few.log_density) <= float(full.upper_bound) <= float(few.upper_bound)
    with pytest.raises(ValueError, match="max_boxes must be an integer of at least 1, got 0"):
        held.mpe(row, max_boxes=0)
    with pytest.raises(ValueError, match="tolerance must be positive and finite, got -1"):
        held.mpe(row, tolerance=-1)
    with pytest.raises(ValueError, match="given: column 'l' cannot be -1"):
        held.mpe({"l": -1.0, "n": 3.0})


def test_completions_are_values_that_the_column_may_take():
    """Gaussian leaves below 0 in a positive column, and between two counts."""
    columns = (ps.Column("size", "positive", None, "float64"),)
    arguments = np.log([0.5, 0.5]), {"gaussian": np.array([[-1.0, 1.0], [-2.0, 0.5]])}
    for max_boxes in (None, 1):
        found = mixture("gaussian", columns).with_parameters(*arguments).mpe(max_boxes=max_boxes)
        assert 0 < found.value["size"].item() < 1e-6
    kind, leaf = np.array([SUM, LEAF, LEAF], np.int8), [-1, 0, 0]
    counted = Circuit(kind, [0, 2, 2, 2], [1, 2], leaf, [-1, 0, 1], ("gaussian", "poisson"), ("n",))
    found = counted.with_parameters(
        np.log([0.9, 0.1]), {"gaussian": np.array([[2.4, 1.0]]), "poisson": np.array([[3.0]])}
    ).mpe()
    assert found.value["n"].item() == 2.0 and found.certified


# ---- posteriors
@pytest.mark.parametrize("name", ["palette", "missing", "depths", "infinite_splits"])
@pytest.mark.parametrize("known", [None, {"x0": (0.4, 2)}, {"x1": 1}])
def test_mpe_of_a_posterior(name, known):
    post = posterior_of(name)
    if known == {"x1": 1} and name == "palette":
        known = {"x1": {"a", "c"}}
    found = post.mpe(known)
    assert found.certified
    within = post.condition(known) if known else post
    log = within.log_density(found.value[[c.name for c in within.columns]])
    assert float(found.log_density) == pytest.approx(float(log[0]), abs=1e-9)
    x = np.linspace(0.4, 2, 33) if name != "palette" else np.arange(1.0, 3.0)
    values = {"x0": x if known and "x0" in known else np.concatenate([x, [1e-6, 3, 4]])}
    values["x1"] = ["a", "b", "c"] if name == "palette" else np.linspace(-1, 3, 41) if name == "depths" else [0, 1]
    values["x2"] = range(6)
    if name == "palette":
        values["x0"] = np.unique(np.round(values["x0"]))
        values["x1"] = ["a", "c"] if known and "x1" in known else values["x1"]
    grid = pd.DataFrame(
        list(product(*(values[c.name] for c in within.columns))), columns=[c.name for c in within.columns]
    )
    best = float(within.log_density(grid).max())
    assert float(found.log_density) - 2e-2 < best <= float(found.upper_bound) + 1e-12
    if known is None:
        summed = post.marginal(["x0", "x1"]).mpe()
        assert summed.certified and list(summed.value.columns) == ["x0", "x1"]
        best = float(post.marginal(["x0", "x1"]).log_density(grid[["x0", "x1"]]).max())
        assert best <= float(summed.upper_bound) + 1e-12


@pytest.mark.parametrize("known", [False, True])
def test_what_is_not_asked_leaves_a_small_circuit(known):
    """A node for each leaf of the other columns kept the circuit of two columns as long as that of all."""
    post, law = posterior_of("missing"), law_of("missing")
    points, unasked = ({0: 1.0, 2: 1.0}, {}) if known else ({}, {0: None, 2: None})
    packed = packed_from_draws(law.states, points, unasked, law.log_weights)
    below = [packed.child[a:b] for a, b in zip(packed.pointer[:-1], packed.pointer[1:], strict=True) if a < b]
    assert not any((packed.kind[children] == CONSTANT).all() for children in below)
    assert known or not (packed.kind == CONSTANT).any()
    x = np.full((2, 3), [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    rows = pd.DataFrame(x, columns=[c.name for c in post.columns])
    expected = post.log_density(rows) if known else post.marginal(["x1"]).log_density(rows[["x1"]])
    np.testing.assert_allclose(log_bounds(packed, x, x), expected, atol=1e-12)


def test_mpe_of_sampled_chains_and_of_some_draws():
    post = ps.SPNPosterior.from_idata(sampled_tree("infinite"))
    every, some = post.mpe(), post.mpe(max_draws=5)
    assert every.certified and some.certified
    assert "draws" not in every.log_density.attrs and some.log_density.attrs["draws"].startswith("5 of ")
    assert float(post.log_density(some.value)[0]) <= float(every.upper_bound)
    again = post.mpe()
    pd.testing.assert_frame_equal(again.value, every.value)
    stopped = post.mpe(max_boxes=1)
    assert float(stopped.upper_bound) >= float(every.log_density)


def test_a_search_that_stops_early_says_so():
    rng = np.random.default_rng(5)
    problem = random_circuit(rng, 4, mixed=False)
    full, short = (
        ParameterisedCircuit(*problem).mpe(),
        ParameterisedCircuit(*problem).mpe(max_boxes=2, tolerance=1e-12),
    )
    assert not short.certified and short.log_density.attrs["exactness"] == "bound"
    assert float(short.log_density) <= float(full.upper_bound) <= float(short.upper_bound) + 1e-12
    gap = float(short.upper_bound - short.log_density)
    assert short.log_density.attrs["gap"] == pytest.approx(gap)


def test_positive_columns_are_completed_with_positive_values():
    post = posterior_of("missing")
    value = post.mpe().value
    assert value["x0"].item() > 0
    post.log_density(value)  # a row that the table accepts


def test_products_of_constants():
    """A product below the root, and a circuit without a sum."""
    circuit = Circuit(
        np.array([PRODUCT, LEAF, LEAF], np.int8),
        [0, 2, 2, 2],
        [1, 2],
        [-1, 0, 1],
        [-1, 0, 0],
        ("gaussian",),
        ("a", "b"),
    )
    found = circuit.with_parameters(np.zeros(0), {"gaussian": np.array([[1.0, 2.0], [3.0, 0.5]])}).mpe({"b": 4.0})
    assert found.certified and found.value.to_numpy().tolist() == [[1.0, 4.0]]
    assert float(found.log_density) == pytest.approx(-np.log(2.0) - 0.5 * np.log(2 * np.pi))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": {"z": 1}}, "given names column 'z'"),
        ({"given": {"x": 1.0}}, "every column is given at a value"),
        ({"given": {"x": (2, 1)}}, "low must not exceed high"),
        ({"tolerance": 0}, "tolerance must be positive and finite, got 0"),
        ({"max_boxes": 0}, "max_boxes must be an integer of at least 1, got 0"),
        ({"given": {"x": (-3, -1)}}, r"column 'x' cannot be within \(-3, -1\).*is zero under the circuit"),
    ],
)
def test_bad_questions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mixture("exponential").with_parameters(np.log([0.5, 0.5]), {"exponential": np.array([[1.0], [2.0]])}).mpe(
            **options
        )


def test_bad_questions_to_a_posterior():
    post = posterior_of("missing")
    with pytest.raises(ValueError, match="max_draws must be an integer of at least 1, got 0"):
        post.mpe(max_draws=0)
    with pytest.raises(ValueError, match="every column is given at a value"):
        post.mpe({"x0": 1.0, "x1": 1, "x2": 2})
    with pytest.raises(ValueError, match=r"given: column 'x2' cannot be within \(-5, -1\)"):
        post.mpe({"x2": (-5, -1)})


@pytest.mark.parametrize("seed", range(20))
def test_levels_beside_counts(seed):
    """The counts above the last level may be the largest, and only whole numbers are completions."""
    rng = np.random.default_rng(seed)
    n_levels = int(rng.integers(2, 7))
    counts = [
        ps.circuits.leaf("a", "poisson", (rng.uniform(0.1, 9.0),)),
        ps.circuits.leaf("a", "binomial", (float(rng.integers(1, 30)), rng.uniform(0.05, 0.95))),
        ps.circuits.leaf("a", "geometric", (rng.uniform(0.05, 0.9),)),
    ][: 1 + seed % 3]
    levels = ps.circuits.leaf("a", "categorical", tuple(rng.dirichlet(np.full(n_levels, 0.5))))
    circuit = ps.circuits.mixture_of([*counts, levels], weights=rng.dirichlet(np.ones(len(counts) + 1)))
    logs = circuit.log_density(np.arange(100.0)[:, None]).values
    found = circuit.mpe()
    value = found.value["a"].item()
    assert found.certified and float(found.log_density) == pytest.approx(logs.max(), abs=1e-9)
    assert logs[int(value)] == pytest.approx(logs.max(), abs=1e-9) and value == int(value)
