"""The most probable row: against grids, enumeration and many ascents; its mark and its bound."""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import pymc_spn as ps
from pymc_spn.circuits.structures.circuit import LEAF, SUM, Circuit
from pymc_spn.leaves import leaf_peaks
from pymc_spn.maxima import ascent, most_probable
from pymc_spn.maxima.row_boxes import row_box
from pymc_spn.tables import Table
from tests.hand_made_records import posterior_of, sampled_tree
from tests.random_circuits import column_families, random_circuit
from tests.shared_circuits import build

LOCAL = "local maximum"


def held(problem):
    circuit, *parameters = problem
    return circuit.with_parameters(*parameters)


def mixture(family, parameters, weights, columns=("x",)):
    """Two leaves of one column under a sum."""
    kind, leaf = np.array([SUM, LEAF, LEAF], np.int8), [-1, 0, 0]
    circuit = Circuit(kind, [0, 2, 2, 2], [1, 2], leaf, leaf, (family,), columns)
    return circuit.with_parameters(np.log(weights), {family: np.array(parameters)})


def test_a_narrow_high_peak_beats_a_broad_heavy_one():
    """Choosing branches by their weight, or the larger child at every sum, ends at 0 with log density -3.04."""
    found = mixture("gaussian", [[0.0, 5.0], [10.0, 0.1]], [0.6, 0.4]).mpe()
    x = np.linspace(9.9, 10.1, 2_000_001)
    density = 0.6 * np.exp(-0.5 * (x / 5) ** 2) / 5 + 0.4 * np.exp(-0.5 * ((x - 10) / 0.1) ** 2) / 0.1
    exact = np.log(density.max() / np.sqrt(2 * np.pi))
    assert float(found.log_density) == pytest.approx(exact, abs=1e-9)
    assert found.value["x"].item() == pytest.approx(x[np.argmax(density)], abs=1e-6)
    gap = pytest.approx(float(found.upper_bound - found.log_density))
    assert found.log_density.attrs == {"exactness": LOCAL, "gap": gap} == found.value.attrs
    assert found.upper_bound.attrs == {"exactness": "bound", "gap": gap} and float(found.upper_bound) > exact


def test_a_maximum_between_two_modes():
    """Two equal bells half an sd apart: the maximum is where no leaf has its mode."""
    found = mixture("gaussian", [[0.0, 1.0], [1.0, 1.0]], [0.5, 0.5]).mpe()
    assert found.value["x"].item() == pytest.approx(0.5, abs=1e-5)


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


def slack(problem, n=2_000):
    """How far the row found and its bound are above the densest of many rows; the bound as the trees have it."""
    model, rng = held(problem), np.random.default_rng(0)
    found = model.mpe()
    own = model.log_density(found.value).values[0]
    assert own == pytest.approx(float(found.log_density), abs=1e-10)
    densest = model.log_density(values_to_try(rng, problem[0], found.value.to_numpy(float), n)).values.max()
    bound = model._law.best_trees(row_box(model._law)).upper_bound
    return own - densest, bound - max(own, densest)


@pytest.mark.parametrize("block", range(5))
def test_no_row_is_denser_and_the_bound_holds(block):
    for seed in range(6 * block, 6 * block + 6):
        rows, bound = slack(random_circuit(np.random.default_rng(seed), 1 + seed % 4, mixed=seed % 3 == 0))
        assert rows >= -1e-9 and bound >= -1e-9


def test_bounds_and_ascents_that_are_wrong_are_found_out(monkeypatch):
    """Planted: leaves bounded by their value one beside the mode, ascents that stay at the tree they begin at."""
    problems = [random_circuit(np.random.default_rng(seed), 2, mixed=False) for seed in range(4)]
    real = leaf_peaks.largest_within

    def beside(log_density, mode, *others):
        return real(lambda x: log_density(x + 1.0), mode, *others)

    with monkeypatch.context() as patch:
        patch.setattr(leaf_peaks, "largest_within", beside)
        assert min(slack(problem)[1] for problem in problems) < -0.1
    monkeypatch.setattr(ascent, "ROUNDS", 0)
    assert min(slack(problem)[0] for problem in problems) < -1e-4


def test_evidence_of_all_sorts():
    model = held(random_circuit(np.random.default_rng(8), 3, mixed=False))
    known = model.log_density(np.array([[0.5, np.nan, np.nan]])).values[0]
    known = known + float(model.log_probability({"x2": (-1, 0.35)}, given={"x0": 0.5}))
    found = model.mpe({"x0": 0.5, "x2": (-1, 0.35)})
    row = found.value.to_numpy(float)[0]
    assert row[0] == 0.5 and -1 <= row[2] <= 0.35
    x = np.linspace(-12, 12, 401)
    grid = np.array(list(product([0.5], x, x[(x >= -1) & (x <= 0.35)])))
    near = row + np.array(list(product([0.0], np.linspace(-0.1, 0.1, 101), np.linspace(-0.1, 0.1, 101))))
    near[:, 2] = np.clip(near[:, 2], -1, 0.35)
    best = model.log_density(np.concatenate([grid, near])).values.max() - known
    assert float(found.log_density) == pytest.approx(best, abs=1e-9) and best <= float(found.upper_bound)
    either = model.mpe([{"x0": (None, -1.0)}, {"x0": (2.0, None), "x1": (0.0, None)}])
    events = ({"x0": (None, -1.0)}, {"x0": (2.0, None), "x1": (0.0, None)})
    logs = [float(model.mpe(e).log_density) + float(model.log_probability(e)) for e in events]
    whole = float(model.log_probability(list(events)))
    assert float(either.log_density) == pytest.approx(max(logs) - whole, abs=1e-8)


def test_counts_and_levels_by_enumeration():
    rng = np.random.default_rng(3)
    while True:
        problem = random_circuit(rng, 3, mixed=True)
        families = column_families(problem[0])
        if set(families) == {"poisson", "categorical"}:
            break
    rows = np.array(list(product(*(range(40 if f == "poisson" else 3) for f in families))), float)
    logs = held(problem).log_density(rows).values
    found = held(problem).mpe()
    assert float(found.log_density) == pytest.approx(logs.max(), abs=1e-12)
    np.testing.assert_array_equal(found.value.to_numpy(float)[0], rows[np.argmax(logs)])
    column = families.index("categorical")
    some = np.isin(rows[:, column], [0, 2])
    found = held(problem).mpe({f"x{column}": {0, 2}})
    expected = logs[some].max() - np.log(np.exp(logs[some]).sum())
    assert float(found.log_density) == pytest.approx(expected, abs=1e-7)  # counts from 40 on are not summed: 2e-8
    counts = {f"x{d}": 3 for d, f in enumerate(families) if f == "poisson"}
    levels = held(problem).mpe(counts)  # all completions are tried
    at = (rows[:, [d for d, f in enumerate(families) if f == "poisson"]] == 3.0).all(axis=1)
    assert float(levels.log_density) == pytest.approx(logs[at].max() - np.log(np.exp(logs[at]).sum()), abs=1e-10)
    assert levels.log_density.attrs == {"exactness": "exact"}
    assert float(levels.upper_bound) == float(levels.log_density)


@pytest.mark.parametrize("seed", range(8))
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
    assert float(found.log_density) == pytest.approx(logs.max(), abs=1e-9)
    assert logs[int(value)] == pytest.approx(logs.max(), abs=1e-9) and value == int(value)


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
    model = held(predictive_circuit())
    t, x = np.linspace(-1, 3, 801), np.linspace(0, 2, 5)
    grid = np.array(list(product(t, x, range(12), range(4))), float)
    logs = model.log_density(grid).values
    found = model.mpe()
    assert logs.max() <= float(found.upper_bound) + 1e-12
    assert float(found.log_density) == pytest.approx(logs.max(), abs=2e-4)  # the grid's step of 0.005, curvature 9
    np.testing.assert_allclose(found.value.to_numpy(float)[0], grid[np.argmax(logs)], atol=5e-3)
    row = {"t": np.nan, "l": 0.5, "n": 7.0, "b": None}  # a row with gaps
    known = model.mpe({"l": 0.5, "n": 7.0})
    assert model.mpe(row).value.equals(known.value) and model.mpe(row).log_density.equals(known.log_density)


@pytest.mark.parametrize(("name", "point"), [("t", 0.3), ("l", 0.2), ("n", 4.0), ("b", 1.0)])
def test_any_predictive_leaf_may_be_known(name, point):
    model = held(predictive_circuit())
    found = model.mpe({name: point})
    row = found.value.to_numpy(float)
    known = np.where(np.array(list("tlnb")) == name, point, np.nan)[None]
    both = model.log_density(np.vstack([row, known])).values
    assert float(found.log_density) == pytest.approx(both[0] - both[1], abs=1e-10)
    if name in "nb":  # a mass: sets are events, too
        assert model.mpe({name: {point, 9}}).value[name].item() in (point, 9)


def test_leaves_that_are_distributions_of_scipy():
    """Ends, kinks and skewness; no bound, since SciPy says no mode."""
    leaves = [
        ps.circuits.leaf("a", stats.skewnorm(4.0)),
        ps.circuits.leaf("a", stats.uniform(1.0, 0.4)),
        ps.circuits.leaf("a", stats.laplace(0.3, 0.5)),
    ]
    x = np.concatenate([np.linspace(-3.0, 5.0, 80_001), [1.0, 1.4, 0.3]])
    for weights in ([0.6, 0.3, 0.1], [0.5, 0.2, 0.3], [0.1, 0.1, 0.8]):
        model = ps.circuits.mixture_of(leaves, weights=weights)
        found = model.mpe()
        assert float(found.log_density) == pytest.approx(model.log_density(x[:, None]).values.max(), abs=1e-7)
        assert found.upper_bound is None and found.log_density.attrs == {"exactness": LOCAL}
    within = ps.circuits.mixture_of(leaves, weights=[0.6, 0.3, 0.1]).condition({"a": (1.5, 4.0)})
    assert within.mpe().value["a"].item() == pytest.approx(1.5)
    counts = ps.circuits.mixture_of(
        [ps.circuits.leaf("n", stats.skellam(7.0, 1.0)), ps.circuits.leaf("n", "poisson", (2.0,))]
    )
    logs = counts.log_density(np.arange(40.0)[:, None]).values
    assert counts.mpe().value["n"].item() == np.argmax(logs)


def test_completions_are_values_that_the_column_may_take():
    """Gaussian leaves below 0 in a positive column, and between two counts."""
    columns = (ps.Column("size", "positive", None, "float64"),)
    found = mixture("gaussian", [[-1.0, 1.0], [-2.0, 0.5]], [0.5, 0.5], columns).mpe()
    assert 0 < found.value["size"].item() < 1e-6
    kind, leaf = np.array([SUM, LEAF, LEAF], np.int8), [-1, 0, 0]
    counted = Circuit(kind, [0, 2, 2, 2], [1, 2], leaf, [-1, 0, 1], ("gaussian", "poisson"), ("n",))
    parameters = {"gaussian": np.array([[2.4, 1.0]]), "poisson": np.array([[3.0]])}
    assert counted.with_parameters(np.log([0.9, 0.1]), parameters).mpe().value["n"].item() == 2.0


# ---- leaves over several columns
NAMES = ("x", "y", "z")
QUESTIONS = {
    "nothing": {},
    "a point": {"x": 0.7},
    "an interval": {"x": (1.5, 4.0)},
    "a half line": {"y": (2.5, None)},
    "a point and an interval": {"x": -0.4, "y": (0.5, 2.0)},
}


def elliptical(rng, d):
    """A Gaussian or Student t leaf over d columns, of a scale matrix whose axes differ by a factor of some 10."""
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    location, scale = rng.normal(0.0, 1.5, d), (turned * rng.uniform(0.05, 3.0, d)) @ turned.T
    if rng.random() < 0.5:
        return ps.circuits.leaf(NAMES[:d], f"multivariate_gaussian[{d}]", (*location, *scale.ravel()))
    dof = rng.uniform(1.0, 8.0)
    return ps.circuits.leaf(NAMES[:d], f"multivariate_student_t[{d}]", (dof, *location, *scale.ravel()))


@cache
def of_several(seed):
    """Leaves over two or three columns, in some circuits beside leaves over single columns."""
    rng, d = np.random.default_rng(seed), 2 + seed % 2
    parts = [elliptical(rng, d) for _ in range(3)]
    if seed % 3 == 0:
        alone = [ps.circuits.leaf(name, "gaussian", (rng.normal(), rng.uniform(0.3, 2.0))) for name in NAMES[:d]]
        parts.append(ps.circuits.product_of(alone))
    return ps.circuits.mixture_of(parts, weights=rng.dirichlet(np.ones(len(parts))))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_are_as_dense_as_many_ascents_find(question, seed):
    d, known = 2 + seed % 2, QUESTIONS[question]
    model = of_several(seed)
    found = model.mpe(known)
    points = {c: v for c, v in known.items() if not isinstance(v, tuple)}
    rest = model.condition(points) if points else model
    names = [c for c in NAMES[:d] if c not in points]
    ends = [known.get(c, (None, None)) for c in names]
    rng = np.random.default_rng(seed)
    low, high = ([(-9.0, 9.0)[s] if e[s] is None else e[s] for e in ends] for s in (0, 1))
    starts = rng.uniform(low, high, (6, len(names)))
    best = max(
        -optimize.minimize(lambda x: -float(rest.log_density(x[None]).values[0]), x, bounds=ends).fun for x in starts
    )
    within = {c: v for c, v in known.items() if isinstance(v, tuple)}
    best -= float(rest.log_probability(within)) if within else 0.0
    assert float(found.log_density) == pytest.approx(best, abs=1e-6) and best <= float(found.upper_bound) + 1e-7
    own = float(rest.log_density(found.value[list(names)].to_numpy(float)).values[0])
    own -= float(rest.log_probability(within)) if within else 0.0
    assert float(found.log_density) == pytest.approx(own, abs=1e-8)


# ---- posteriors
@pytest.mark.parametrize("name", ["palette", "missing", "skewed"])
def test_the_posterior_as_a_circuit_has_the_same_most_probable_row(name):
    post = posterior_of(name)
    rounded = post.as_circuit().attrs.get("whole_numbers", ())  # of these the circuit has densities, not masses
    post = post.marginal([c.name for c in post.columns if c.name not in rounded])
    circuit = post.as_circuit()
    expected, found = post.mpe(), circuit.mpe()
    assert float(found.log_density) == pytest.approx(float(expected.log_density), abs=1e-6)
    assert float(found.upper_bound) == pytest.approx(float(expected.upper_bound), abs=1e-6)
    values, exact = (Table.from_frame(best.value, schema=post.columns).values for best in (found, expected))
    np.testing.assert_allclose(values, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["palette", "missing", "depths", "infinite_splits"])
@pytest.mark.parametrize("known", [None, {"x0": (0.4, 2)}, {"x1": 1}])
def test_mpe_of_a_posterior(name, known):
    post = posterior_of(name)
    if known == {"x1": 1} and name == "palette":
        known = {"x1": {"a", "c"}}
    found = post.mpe(known)
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
    assert float(found.log_density) - 2e-2 < best <= float(found.log_density) + 1e-9 <= float(found.upper_bound) + 1e-8
    if known is None:
        summed = post.marginal(["x0", "x1"]).mpe()
        assert list(summed.value.columns) == ["x0", "x1"]
        best = float(post.marginal(["x0", "x1"]).log_density(grid[["x0", "x1"]]).max())
        assert best <= float(summed.log_density) + 1e-9 <= float(summed.upper_bound) + 1e-8
        assert summed.value["x0"].item() > 0 or name != "missing"  # a positive column


def test_mpe_of_sampled_chains_and_of_some_draws(monkeypatch):
    post = ps.SPNPosterior.from_idata(sampled_tree("infinite"))
    every, some = post.mpe(), post.mpe(max_draws=5)
    assert "draws" not in every.log_density.attrs and some.log_density.attrs["draws"].startswith("5 of ")
    assert every.log_density.attrs["exactness"] in (f"{LOCAL} given the draws", "exact given the draws")
    assert float(post.log_density(some.value)[0]) <= float(every.log_density) + 1e-9
    pd.testing.assert_frame_equal(post.mpe().value, every.value)
    monkeypatch.setattr(most_probable, "FEW", 2)  # ascents begin under two draws of many
    assert float(post.mpe().log_density) == pytest.approx(float(every.log_density), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": {"z": 1}}, "given names column 'z'"),
        ({"given": {"x": 1.0}}, "every column is given at a value"),
        ({"given": {"x": (2, 1)}}, "low must not exceed high"),
        ({"max_draws": 0}, "max_draws must be an integer of at least 1, got 0"),
        ({"given": {"x": (-3, -1)}}, r"column 'x' cannot be within \(-3, -1\).*is zero under the circuit"),
    ],
)
def test_bad_questions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mixture("exponential", [[1.0], [2.0]], [0.5, 0.5]).mpe(**options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_boxes'"):
        posterior_of("missing").mpe(max_boxes=3)
