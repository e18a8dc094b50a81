"""The most probable row where leaves are over several columns: bounds over boxes, and rows against many ascents."""

from functools import cache

import numpy as np
import pytest
from scipy import optimize

import pymc_spn as ps
from pymc_spn.circuits.laws.packed_circuits import packed_from_circuit
from pymc_spn.maxima import box_search
from pymc_spn.maxima.box_kernels import falls_at_points, leaf_shifts, log_bounds, taylor_ranges
from pymc_spn.maxima.quadratic_bounds import quadratic_bound

NAMES = ("x", "y", "z")
TOLERANCE = 1e-6


def scale_of(rng, d):
    """A scale matrix whose axes differ by a factor of some 10."""
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (turned * rng.uniform(0.05, 3.0, d)) @ turned.T


def elliptical(rng, d):
    """A Gaussian or Student t leaf over d columns."""
    location, scale = rng.normal(0.0, 1.5, d), scale_of(rng, d)
    if rng.random() < 0.5:
        return ps.circuits.leaf(NAMES[:d], f"multivariate_gaussian[{d}]", (*location, *scale.ravel()))
    dof = rng.uniform(1.0, 8.0)
    return ps.circuits.leaf(NAMES[:d], f"multivariate_student_t[{d}]", (dof, *location, *scale.ravel()))


def alone(rng, name):
    return ps.circuits.leaf(name, "gaussian", (rng.normal(), rng.uniform(0.3, 2.0)))


@cache
def circuit(seed, d):
    """Leaves over d columns, and in every third circuit one of leaves over single columns beside them."""
    rng = np.random.default_rng(seed)
    parts = [elliptical(rng, d) for _ in range(3)]
    if seed % 3 == 0:
        parts.append(ps.circuits.product_of([alone(rng, name) for name in NAMES[:d]]))
    if seed % 3 == 1 and d == 3:
        parts.append(ps.circuits.product_of([elliptical(rng, 2), alone(rng, "z")]))
    return ps.circuits.mixture_of(parts, weights=rng.dirichlet(np.ones(len(parts))))


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_over_boxes_and_are_those_of_points(seed):
    d = 2 + seed % 2
    model, rng = circuit(seed, d), np.random.default_rng(100 + seed)
    packed = packed_from_circuit(model.circuit, model.log_weights, model.leaf_parameters, {})
    centre, half = rng.normal(0, 2, (8, d)), np.exp(rng.normal(-1, 1.5, (8, d)))
    low, high = centre - half, centre + half
    shift = leaf_shifts(packed, low, high)
    tops, position = log_bounds(packed, low, high), np.arange(d)
    lower, upper = taylor_ranges(packed, low, high, position, shift)
    for b in range(8):
        x = rng.uniform(low[b], high[b], (40, d))
        logs = model.log_density(x).values
        np.testing.assert_allclose(log_bounds(packed, x, x), logs, rtol=1e-10, atol=1e-10)
        assert logs.max() <= tops[b] + 1e-9
        here, _ = taylor_ranges(packed, x, x, position, np.repeat(shift[b : b + 1], 40, axis=0))
        slack = 1e-9 * (1.0 + np.abs(here))
        assert (here >= lower[b] - slack).all() and (here <= upper[b] + slack).all()
        step = 1e-5
        for j in range(d):
            beside = [np.exp(model.log_density(x + s * step * np.eye(d)[j]).values - shift[b].sum()) for s in (1, -1)]
            slope = (beside[0] - beside[1]) / (2.0 * step)
            np.testing.assert_allclose(here[:, 1 + j], slope, atol=1e-5 * (np.abs(here).max() + 1e-200))
            moved = [x + s * step * np.eye(d)[j] for s in (1, -1)]
            same = np.repeat(shift[b : b + 1], 40, axis=0)
            first, last = (taylor_ranges(packed, m, m, position, same)[0] for m in moved)
            at = 1 + d + j * d - j * (j - 1) // 2
            bend = (first[:, 1 + j : 1 + d] - last[:, 1 + j : 1 + d]) / (2.0 * step)
            np.testing.assert_allclose(here[:, at : at + d - j], bend, atol=1e-5 * (np.abs(here).max() + 1e-200))


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_one_leaf_is_its_largest_value_in_the_box(seed):
    rng = np.random.default_rng(seed)
    model = elliptical(rng, 3)
    packed = packed_from_circuit(model.circuit, model.log_weights, model.leaf_parameters, {})
    low = rng.normal(0, 2, 3)
    high = low + rng.uniform(0.1, 2.0, 3)
    best = max(
        -optimize.minimize(
            lambda x: -float(model.log_density(x[None]).values[0]), start, bounds=list(zip(low, high, strict=True))
        ).fun
        for start in rng.uniform(low, high, (4, 3))
    )
    assert log_bounds(packed, low[None], high[None])[0] == pytest.approx(best, abs=1e-6)
    falls = falls_at_points(packed, low[None], high[None], 0.5 * (low + high)[None])
    assert (falls >= 0.0).all() and np.isfinite(falls).all()


@pytest.mark.parametrize("seed", range(12))
def test_a_quadratic_bounds_what_it_leaves_and_loses_nothing_better(seed):
    """Of 4,000 points of a box those that are better than some value stay in the box, and below the bound."""
    d = 2 + seed % 2
    model, rng = circuit(seed, d), np.random.default_rng(200 + seed)
    packed = packed_from_circuit(model.circuit, model.log_weights, model.leaf_parameters, {})
    n_narrowed = 0
    for _ in range(12):
        centre, half = rng.normal(0, 2, d), np.exp(rng.normal(-0.5, 1.5, d))
        low, high = centre - half, centre + half
        x = rng.uniform(low, high, (4_000, d))
        logs = model.log_density(x).values
        best = float(np.quantile(logs, rng.choice([0.5, 0.9, 0.999, 1.0])))
        first, last = low.copy(), high.copy()
        start = x[np.argmax(logs)] if rng.random() < 0.5 else rng.normal(0, 4, d)
        bound = quadratic_bound(packed, first, last, np.zeros(d, np.bool_), start, best, 12)
        better = logs > best + 1e-9
        assert logs.max() <= max(bound, best) + 1e-9
        assert bound <= max(log_bounds(packed, low[None], high[None])[0], best) + 1e-9
        assert ((x[better] >= first) & (x[better] <= last)).all()
        n_narrowed += bool(bound <= best or (last - first).sum() < 0.9 * (high - low).sum())
    assert n_narrowed > 0


QUESTIONS = {
    "nothing": {},
    "a point": {"x": 0.7},
    "an interval": {"x": (1.5, 4.0)},
    "a half line": {"y": (2.5, None)},
    "a point and an interval": {"x": -0.4, "y": (0.5, 2.0)},
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_are_as_dense_as_many_ascents_find(question, seed):
    d, known = 2 + seed % 2, QUESTIONS[question]
    model = circuit(seed, d)
    found = model.mpe(known)
    points = {c: v for c, v in known.items() if not isinstance(v, tuple)}
    rest = model.condition(points) if points else model
    names = [c for c in NAMES[:d] if c not in points]
    ends = [known.get(c, (None, None)) for c in names]
    rng = np.random.default_rng(seed)
    low, high = ([(-9.0, 9.0)[s] if e[s] is None else e[s] for e in ends] for s in (0, 1))
    starts = rng.uniform(low, high, (24, len(names)))
    best = max(
        -optimize.minimize(lambda x: -float(rest.log_density(x[None]).values[0]), x, bounds=ends).fun for x in starts
    )
    within = {c: v for c, v in known.items() if isinstance(v, tuple)}
    if within:
        best -= float(rest.log_probability(within))
    assert found.certified and 0.0 <= float(found.upper_bound - found.log_density) <= TOLERANCE
    assert best <= float(found.upper_bound) + 1e-7
    assert float(found.log_density) == pytest.approx(best, abs=1e-6)
    row = found.value[list(names)]
    own = float(rest.log_density(row.to_numpy(float)).values[0])
    own -= float(rest.log_probability(within)) if within else 0.0
    assert float(found.log_density) == pytest.approx(own, abs=1e-8)


def test_a_maximum_beyond_the_locations(monkeypatch):
    """Within an interval the other column follows. Planted: boxes that end at the locations, as of single columns."""
    scale, known = (4.0, 3.9, 3.9, 4.0), {"x": (3.0, 9.0)}
    leaves = [ps.circuits.leaf(("x", "y"), "multivariate_gaussian[2]", (0.0, y, *scale)) for y in (0.0, -1.0)]
    model = ps.circuits.mixture_of(leaves, weights=[0.5, 0.5])
    grid = np.array([[3.0, y] for y in np.linspace(-1.0, 8.0, 901)])
    best = model.log_density(grid).values.max() - float(model.log_probability(known))
    found = model.mpe(known)
    assert found.certified and -1e-9 <= float(found.log_density) - best <= 1e-3
    assert 1.0 < found.value["y"].item() < 4.0

    def at_locations(*arguments):
        (low, high), *_ = real(*arguments)
        return [(np.array([low[0], -1.0]), np.array([high[0], 0.0]))]

    real = box_search.first_boxes
    monkeypatch.setattr(box_search, "first_boxes", at_locations)
    planted = model.mpe(known)
    assert planted.certified and float(planted.upper_bound) < best - 1.0
