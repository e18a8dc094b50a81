"""Soft evidence: a likelihood for each level or count of a column, against sums over its values."""

import numpy as np
import pytest

from pymc_spn.networks.posterior import SPNPosterior
from tests.hand_made_records import posterior_of, sampled_tree
from tests.shared_circuits import mixed_circuit

pytestmark = pytest.mark.usefixtures("integrated")

LEVELS = {0: 0.5, 2: 3.0}  # likelihoods of two levels of three


def test_soft_evidence_weighs_the_levels():
    """The expectation of the likelihood, and Bayes' rule where it is given."""
    circuit, *parameters = mixed_circuit()
    held = circuit.with_parameters(*parameters)
    ask = lambda event, given=None: float(held.probability(event, given))  # noqa: E731
    low = {"real": (None, 0.7)}
    assert ask({"level": LEVELS}) == pytest.approx(sum(w * ask({"level": k}) for k, w in LEVELS.items()), rel=1e-12)
    top = sum(w * ask({**low, "level": k}) for k, w in LEVELS.items())
    assert ask({**low, "level": LEVELS}) == pytest.approx(top, rel=1e-12)
    assert ask(low, {"level": LEVELS}) == pytest.approx(top / ask({"level": LEVELS}), rel=1e-12)
    counts = {k: 1.0 / (1.0 + k) for k in range(4)}
    weighed = sum(w * ask({"count": k, "level": 2}) for k, w in counts.items() if k >= 2) * LEVELS[2]
    found = ask({"count": (2, None), "level": {1, 2}}, {"count": counts, "level": LEVELS})
    assert found == pytest.approx(weighed / ask({"count": counts, "level": LEVELS}), rel=1e-12)
    both = ask({"level": {0: 2.0, 1: 5.0}}, {"level": LEVELS})  # two independent sights of one cell
    assert both == pytest.approx(2.0 * 0.5 * ask({"level": 0}) / ask({"level": LEVELS}), rel=1e-12)
    assert ask({"level": {1: 5.0}}, {"level": LEVELS}) == 0.0
    points = np.array([0.0, 1.0, 2.0])  # soft evidence, and the level itself
    expected = [w * ask({"level": int(k)}) for k, w in zip(points, (0.5, 0.0, 3.0), strict=True)]
    top = np.exp(held.log_probability_of_rows({"level": points}, {"level": LEVELS})) * ask({"level": LEVELS})
    np.testing.assert_allclose(top, expected, rtol=1e-12)
    tiny = {"level": {2: 1e-200}}
    assert ask(tiny, tiny) == pytest.approx(1e-200, rel=1e-12)
    ends = np.array([0.0, 1.0])
    each = [ask({"real": (None, x), "level": LEVELS}) for x in ends]
    found = held.log_probability_of_rows({"real": (np.full(2, -np.inf), ends), "level": LEVELS})
    np.testing.assert_allclose(np.exp(found), each, rtol=1e-13)


def test_soft_evidence_under_a_posterior():
    post = posterior_of("missing")
    seen = {0: 0.2, 1: 0.9}
    each = [post.probability({"x1": k}, per_draw=True) for k in (0, 1)]
    total = 0.2 * each[0] + 0.9 * each[1]
    np.testing.assert_allclose(post.probability({"x1": seen}, per_draw=True), total, rtol=1e-12)
    found = post.probability({"x1": 1}, {"x1": seen}, per_draw=True)
    np.testing.assert_allclose(found, 0.9 * each[1] / total, rtol=1e-12)
    answer = post.probability({"x0": (None, 1.0)}, {"x1": seen})
    joint = [float(post.probability({"x0": (None, 1.0), "x1": k})) for k in (0, 1)]
    base = [float(post.probability({"x1": k})) for k in (0, 1)]
    expected = (0.2 * joint[0] + 0.9 * joint[1]) / (0.2 * base[0] + 0.9 * base[1])
    assert float(answer) == pytest.approx(expected, rel=1e-12)
    assert answer.attrs["exactness"] == "exact given the draws" and answer.attrs["draws_after_weighting"] >= 1.0
    asked = float(post.probability({"x1": seen}, {"x1": 1}))  # asked, where the level is known
    assert asked == pytest.approx(0.9, rel=1e-12)
    sampled = SPNPosterior.from_idata(sampled_tree())
    assert "draws_after_weighting" not in sampled.probability({"x1": seen}).attrs
    assert sampled.probability({"x1": 1}, {"x1": seen}).attrs["draws_after_weighting"] > 1.0
    tiny = {"x1": {1: 1e-200}}
    assert float(post.probability(tiny, tiny)) == pytest.approx(1e-200, rel=1e-12)
    counts = {k: 0.5**k for k in range(5)}
    lists = post.probability({"x2": counts, "x0": [(0, 0.5), (1, 2)]})
    sums = sum(
        w * float(post.probability({"x2": k, "x0": ends})) for k, w in counts.items() for ends in ((0, 0.5), (1, 2))
    )
    assert float(lists) == pytest.approx(sums, rel=1e-11)
    known = post.condition({"x2": (1, 3)}).probability({"x1": 1}, {"x2": counts})
    top = sum(w * float(post.probability({"x1": 1, "x2": k})) for k, w in counts.items() if 1 <= k <= 3)
    base = sum(w * float(post.probability({"x2": k})) for k, w in counts.items() if 1 <= k <= 3)
    assert float(known) == pytest.approx(top / base, rel=1e-11)
