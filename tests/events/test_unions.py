"""Unions of events: sums over the cells that all their ends cut, which know nothing of inclusion and exclusion."""

from decimal import Decimal
from itertools import product

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, settings
from hypothesis import given as property_of
from scipy import stats

from tests.hand_made_records import posterior_of
from tests.random_events import events_of
from tests.shared_circuits import build, mixed_circuit

pytestmark = pytest.mark.usefixtures("integrated")

LARGEST = 6  # of the ends


def holds(what, x):
    if isinstance(what, list):
        return any(holds(part, x) for part in what)
    if isinstance(what, set):
        return x in what
    low, high = what
    return (low is None or low <= x) and (high is None or x <= high)


def by_cells(events, probability, continuous, counts, levels, n_levels, known=({},)):
    """Probability of a union, and of another with it, as sums over cells that are within every event or outside it."""
    parts = [p for e in [*events, *known] for p in ([e[continuous]] if continuous in e else [])]
    parts = [p for part in parts for p in (part if isinstance(part, list) else [part])]
    cuts = sorted({x for part in parts for x in part if x is not None})
    ends = list(zip([None, *cuts], [*cuts, None], strict=True))
    inside = [0.5 * (a + b) if a is not None and b is not None else -9.0 if a is None else 99.0 for a, b in ends]
    cells = {continuous: list(zip(ends, inside, strict=True))}
    cells[counts] = [((k, k), k) for k in range(LARGEST + 1)] + [((LARGEST + 1, None), LARGEST + 1)]
    cells[levels] = [({k}, k) for k in range(n_levels)]
    total = 0.0
    for cell in product(*cells.values()):
        point = dict(zip(cells, (x for _, x in cell), strict=True))
        if all(any(all(holds(what, point[name]) for name, what in e.items()) for e in es) for es in (events, known)):
            total += float(probability({name: what for name, (what, _) in zip(cells, cell, strict=True)}))
    return total


@property_of(events=events_of(["real", "count"], "level", 3))
@settings(max_examples=8)
def test_unions_under_a_circuit(events):
    circuit, *parameters = mixed_circuit()
    expected = by_cells(
        events, lambda e: float(circuit.with_parameters(*parameters).probability(e)), "real", "count", "level", 3
    )
    assert float(circuit.with_parameters(*parameters).probability(events)) == pytest.approx(expected, rel=1e-11)


@property_of(events=events_of(["x0", "x2"], "x1", 2))
@settings(max_examples=8)
def test_unions_under_a_posterior(events):
    post = posterior_of("missing")
    for known in ({}, {"x2": (1, 3)}):
        expected = by_cells(events, lambda e, k=known: post.probability(e, k), "x0", "x2", "x1", 2)
        found = post.probability(events, known)
        assert float(found) == pytest.approx(expected, rel=1e-10, abs=1e-14)
        assert found.attrs["exactness"] == "exact given the draws"


@property_of(events=events_of(["real", "count"], "level", 3), known=events_of(["real", "count"], "level", 3))
@settings(max_examples=4)
def test_unions_given_unions_under_a_circuit(events, known):
    circuit, *parameters = mixed_circuit()
    cells = [lambda e: float(circuit.with_parameters(*parameters).probability(e)), "real", "count", "level", 3]
    both, base = by_cells(events, *cells, known=known), by_cells(known, *cells)
    assume(base > 1e-12)  # an interval between two counts has no probability
    assert float(circuit.with_parameters(*parameters).probability(events, given=known)) == pytest.approx(
        both / base, rel=1e-10, abs=1e-14
    )


def test_what_is_known_may_be_a_list_of_intervals_or_one_of_several_events():
    post = posterior_of("missing")
    lists = post.probability({"x0": (None, 1.0)}, {"x2": [(0, 1), (3, 4)]})
    events = post.probability({"x0": (None, 1.0)}, [{"x2": (0, 1)}, {"x2": (3, 4)}])
    assert float(lists) == pytest.approx(float(events), rel=1e-12)
    assert (
        1.0 <= events.attrs["draws_after_weighting"] == pytest.approx(lists.attrs["draws_after_weighting"])
        and "mcse_chain" in events.attrs
    )
    ratio = post.probability([{"x1": 1}], [{"x2": 1}, {"x2": 2}], per_draw=True)
    top = sum(post.probability({"x1": 1, "x2": k}, per_draw=True) for k in (1, 2))
    np.testing.assert_allclose(ratio, top / sum(post.probability({"x2": k}, per_draw=True) for k in (1, 2)), rtol=1e-11)
    density = post.probability({"x0": 0.3}, [{"x1": 1}, {"x2": (0, 1)}])  # of x0, given a union of others
    low, high = (post.probability({"x0": (a, b)}, [{"x1": 1}, {"x2": (0, 1)}]) for a, b in ((0.299, 0.3), (0.3, 0.301)))
    assert float(density) == pytest.approx(float(low + high) / 0.002, rel=1e-4)
    known = post.condition({"x2": (1, 3)})
    assert float(known.probability({"x1": 1}, [{"x2": (0, 1)}, {"x2": (9, 9)}])) == pytest.approx(
        float(post.probability({"x1": 1}, {"x2": 1})), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"'x2' cannot be .*: the posterior is conditioned on it being within"):
        known.probability({"x1": 1}, [{"x2": 0}, {"x2": (5, 9)}])
    with pytest.raises(ValueError, match=r"given: column 'x2' cannot be within .*, its probability is zero"):
        post.probability({"x1": 1}, [{"x2": (0.1, 0.2)}, {"x2": (-3, -1)}])
    with pytest.raises(ValueError, match=r"given\[1\]: in a union of events, column 'x0' cannot be at a point"):
        post.probability({"x1": 1}, [{"x2": 1}, {"x0": 0.5}])
    circuit, *parameters = mixed_circuit()
    with pytest.raises(ValueError, match=r"given: column 'count' cannot be -1\.0, its probability is zero"):
        circuit.with_parameters(*parameters).probability({"count": 1}, given=[{"count": -1}, {"count": -2}])


def test_overlapping_intervals_are_joined_whatever_numbers_their_ends_are():
    """Soft evidence beside intervals that are not joined would count twice where they overlap."""
    post, seen = posterior_of("missing"), {"x1": {0: 0.2, 1: 0.9}}
    expected = float(post.probability({"x0": (0.0, 2.0), **seen}))
    for number in (float, np.float32, np.asarray, xr.DataArray, Decimal):
        parts = [(number(0.0), number(1.0)), (number(0.5), number(2.0))]
        assert float(post.probability({"x0": parts, **seen})) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(TypeError, match=r"ends of an interval are numbers or None, column 'x0' has \('0', '2'\)"):
        post.probability({"x0": ("0", "2")})


def test_many_intervals_of_one_column_are_no_union_of_events():
    post = posterior_of("missing")
    parts = [(k, k + 0.5) for k in range(300)]  # disjoint: no pair of them is looked at
    assert 0.0 < float(post.probability({"x0": parts})) < 1.0
    circuit, *parameters = mixed_circuit()
    low = np.linspace(0.0, 3.0, 700)  # rows in several blocks
    held = circuit.with_parameters(*parameters)
    found = np.exp(held.log_probability_of_rows({"real": (low, low + 1.0), "count": (1, 4)}))
    each = [float(held.probability({"real": (x, x + 1.0), "count": (1, 4)})) for x in low[::233]]
    np.testing.assert_allclose(found[::233], each, rtol=1e-13)


def test_a_union_for_each_draw_and_each_row():
    post, event = posterior_of("missing"), [{"x0": (0.5, 2.0)}, {"x1": 1}]
    a, b = (post.probability(e, per_draw=True) for e in event)
    both = post.probability(event[0] | event[1], per_draw=True)
    np.testing.assert_allclose(post.probability(event, per_draw=True), a + b - both, rtol=1e-12)
    circuit, *parameters = mixed_circuit()
    low = np.array([0.0, 1.0, 2.0])
    held = circuit.with_parameters(*parameters)
    found = np.exp(held.log_probability_of_rows([{"real": (low, low + 0.5)}, {"count": 3}]))
    each = [float(held.probability([{"real": (x, x + 0.5)}, {"count": 3}])) for x in low]
    np.testing.assert_allclose(found, each, rtol=1e-13)


def test_what_excludes_and_what_repeats_itself():
    post = posterior_of("missing")
    whole = post.probability([{"x1": 0}, {"x1": 1}])
    assert float(whole) == pytest.approx(1.0, abs=1e-12)
    assert float(post.probability([{"x1": 1}] * 5)) == pytest.approx(float(post.probability({"x1": 1})), rel=1e-12)
    assert float(post.probability([{"x1": 1}], {"x1": 0})) == 0.0
    assert float(post.probability([{"x1": 1}, {}])) == 1.0
    part = post.condition({"x2": (1, 3)}).probability([{"x0": (0.5, 2.0)}, {"x1": 1}])
    assert float(part) == pytest.approx(float(post.probability([{"x0": (0.5, 2.0)}, {"x1": 1}], {"x2": (1, 3)})))
    tiny = [{"x0": (k, k + 0.5)} for k in range(60, 75)]  # far in the tail: no digits are lost
    assert float(post.probability(tiny)) == pytest.approx(sum(float(post.probability(e)) for e in tiny), rel=1e-11)


def test_lists_of_one_column_are_joined_and_go_with_a_point_of_another():
    post = posterior_of("missing")
    found = post.probability({"x0": 0.5, "x2": [(0, 1), (1, 2), (3, 4)]})
    each = [float(post.probability({"x0": 0.5, "x2": k})) for k in range(5)]  # densities in x0
    assert float(found) == pytest.approx(sum(each), rel=1e-11)
    nested = post.probability({"x2": [(0, k) for k in range(1, 40)]})
    assert float(nested) == pytest.approx(float(post.probability({"x2": (0, 39)})), rel=1e-12)
    circuit, *parameters = mixed_circuit()
    held = circuit.with_parameters(*parameters)
    whole = held.probability([{"level": {0, 1, 2}, "count": [(k, k) for k in range(9)]}] * 9)
    assert float(whole) == pytest.approx(float(held.probability({"count": (0, 8)})), rel=1e-12)


def test_a_column_of_densities_and_masses():
    """Its sets have a probability, its points a density as well."""
    circuit = build([("sum", [1, 2]), ("leaf", 0, "gaussian"), ("leaf", 0, "poisson")], ["x"], ("gaussian", "poisson"))
    parameters = np.log([0.5, 0.5]), {"gaussian": [[1.0, 0.01]], "poisson": [[1.0]]}
    exact = 0.5 * (stats.norm(1.0, 0.01).sf(2.0) + stats.poisson(1.0).pmf([1, 2, 3]).sum())
    found = circuit.with_parameters(*parameters).probability([{"x": {1}}, {"x": (2, 3)}])
    assert float(found) == pytest.approx(exact, rel=1e-12)
    with pytest.raises(
        ValueError, match=r"event\[0\]: in a union of events, column 'x' cannot be at a point, 1, where"
    ):
        circuit.with_parameters(*parameters).probability([{"x": 1}, {"x": (2, 3)}])
