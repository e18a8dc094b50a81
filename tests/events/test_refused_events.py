"""Events that are refused: one table of what is asked and what is said, for posteriors and circuits alike."""

import re

import numpy as np
import pytest

from pymc_spn.events import unions
from tests.hand_made_records import posterior_of

REFUSED = [  # x0 is positive, x1 has the levels 0 and 1, x2 is a count
    (3, TypeError, "event must map column names"),
    (None, TypeError, "event must map column names"),
    ("x0", ValueError, r"event: a condition is a comparison, .*'x0' at position 0 of 'x0'"),
    ({"x9": 1}, ValueError, r"event names column 'x9'; the columns are \['x0', 'x1', 'x2'\]"),
    ({"x0": {0.5}}, ValueError, "column 'x0' is continuous, a set of values has probability zero"),
    ({"x0": (2, 1)}, ValueError, r"low must not exceed high, column 'x0' has \(2, 1\)"),
    ({"x0": (1, 2, 3)}, ValueError, r"an interval is \(low, high\), column 'x0'"),
    ({"x1": 3}, ValueError, r"event: column 'x1' cannot be 3; the levels are \[0, 1\]"),
    ({"x2": set()}, ValueError, "the set of column 'x2' is empty"),
    ([], ValueError, "event: the list of events is empty"),
    ([{"x2": 1}, 3], TypeError, "a list holds events, each a mapping of column names, number 1 is 3"),
    ([{"x2": 1}, {"z": 1}], ValueError, r"event\[1\] names column 'z'"),
    ([{"x2": 1}, {"x0": 0.5}], ValueError, r"event\[1\]: in a union of events, column 'x0' cannot be at a point, 0.5,"),
    ([{"x2": []}], ValueError, "the list of intervals of column 'x2' is empty"),
    ({"x2": [(1, 2), (3, 1)]}, ValueError, "low must not exceed high"),
    ({"x2": [(1, 2), 3]}, TypeError, r"a list holds intervals \(low, high\).*column 'x2' has 3"),
    ({"x0": {1.0: 0.5}}, ValueError, "event: column 'x0' is continuous, likelihoods are for levels"),
    ({"x1": {1: -0.5}}, ValueError, r"likelihoods that are finite and at least 0, 1 has -0\.5"),
    ({"x1": {1: 0.0}}, ValueError, "no value with a positive likelihood"),
    ({"x1": {7: 0.5}}, ValueError, "event: column 'x1' cannot be 7; the levels are"),
    ({"x1": {None: 0.5, 1: 0.1}}, ValueError, "event: column 'x1' has the missing value None among"),
    ({"x1": {np.nan, 1}}, ValueError, "event: column 'x1' has the missing value nan among"),
    ([{"x1": {1: 0.5}}, {"x1": 0}], TypeError, r"event\[0\]: column 'x1' must have a value, \(low, high\) or a set"),
]
IMPOSSIBLE = [
    ({"x0": -1.0}, "given: column 'x0' cannot be -1.0; it is positive, of finite numbers of at least 0"),
    ({"x2": (0.2, 0.8)}, r"given: column 'x2' cannot be within \(0.2, 0.8\), its probability is zero"),
    ({"x0": (1.0, 1.0)}, r"given: column 'x0' cannot be within \(1, 1\), its probability is zero"),
    ({"x2": (-5, -1)}, r"given: column 'x2' cannot be within \(-5, -1\)"),
    ([{"x2": (-3, -1)}, {"x2": (0.2, 0.4)}], "given: nothing of it can occur"),
]


@pytest.mark.parametrize("law", [posterior_of, lambda name: posterior_of(name).as_circuit(max_draws=5)])
@pytest.mark.parametrize(("event", "error", "message"), REFUSED)
def test_what_is_no_event_is_refused(law, event, error, message):
    with pytest.raises(error, match=message):
        law("missing").probability(event)
    if event is not None:
        with pytest.raises(error, match=re.sub("^event", "given", message)):
            law("missing").probability({"x2": (0, 3)}, given=event)


@pytest.mark.parametrize(("given", "message"), IMPOSSIBLE)
def test_conditions_that_cannot_be(given, message):
    post = posterior_of("missing")
    for query in (post.condition, lambda given: post.sample(1, given=given)):
        with pytest.raises(ValueError, match=message):
            query(given)


def test_unions_that_overlap_in_too_many_ways(monkeypatch):
    ask = posterior_of("missing").probability
    monkeypatch.setattr(unions, "LARGEST_UNION", 20)
    with pytest.raises(ValueError, match="event and given overlap in more than 20 ways"):
        ask([{"x2": (0, 1 + k)} for k in range(3)], [{"x2": (0, 9 + k)} for k in range(3)])
    with pytest.raises(ValueError, match="the events overlap in more than 20 ways"):
        ask([{"x2": (0, k)} for k in range(1, 10)])
    many = [(k, k + 0.5) for k in range(101)]
    with pytest.raises(ValueError, match=r"lists of intervals of \['x0', 'x2'\] make 10201 events, at most 10000"):
        ask({"x0": many, "x2": many})
