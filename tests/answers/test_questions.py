"""One suite of questions for all laws: posteriors, fits and what is made of them against their explicit circuits.

The same question with the same arguments has the same answer, labels and kind of mark, whatever answers it; circuits of
levels are enumerated.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.answers.answers import Answers
from tests.hand_made_records import sampled_tree

UNION = [{"x0": (0.2, 1.1)}, {"x2": (4, 6), "x1": 1}]
ROWS = pd.DataFrame({"x0": [0.5, 0.9, 0.6, np.nan], "x1": [0, 1, 1, 1], "x2": [4.0, 5.0, 6.0, 4.0]})


@cache
def draws():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=3))


@cache
def fit():
    rng = np.random.default_rng(0)
    x0 = rng.gamma(3.0, 0.3, 60)
    frame = pd.DataFrame({"x0": x0, "x1": rng.random(60) < 0.3 + 0.4 * (x0 > 1), "x2": rng.poisson(2 + 3 * x0)})
    frame["x1"] = frame["x1"].astype(int)
    tree = ps.circuits.complete_tree(frame.columns, n_children=2)
    leaves = {"x2": [ps.leaves.Poisson()]}  # a circuit has Gaussian leaves of counts before rounding
    options = {"restarts": 1, "random_seed": 0, "progressbar": False}
    return ps.fit_variational(frame, tree, kinds={"x0": "positive"}, leaves=leaves, **options)


LAWS = {
    "draws": draws,
    "condition": lambda: draws().condition({"x0": (0.2, 1.5)}),
    "marginal": lambda: draws().condition({"x1": 1}).marginal(["x0", "x2"]),
    "union": lambda: draws().condition(UNION),
    "marginal of a union": lambda: draws().condition(UNION).marginal(["x0", "x2"]),
    "fit": fit,
    "union of a fit": lambda: fit().condition(UNION),
}
EVENT = {"x0": (0.3, 1.0)}


@cache
def law_and_circuit(name):
    law = LAWS[name]()
    return law, law.as_circuit()


QUESTIONS = {
    "log_density": lambda p, rows: p.log_density(rows, cells=False),
    "probability": lambda p, rows: p.probability(EVENT),
    "probability given": lambda p, rows: p.probability("x2 <= 4 or x2 > 5", given=[EVENT, {"x2": (4, 5)}]),
    "condition": lambda p, rows: p.condition(EVENT).probability({"x2": (0, 4)}),
    "marginal": lambda p, rows: p.marginal("x2").probability({"x2": (0, 4)}),
    "cdf": lambda p, rows: p.cdf([0.4, 0.9], "x0"),
    "cdf given": lambda p, rows: p.cdf(4.0, "x2", given=EVENT),
    "quantile": lambda p, rows: p.quantile([0.2, 0.8], "x0"),
    "quantile of counts": lambda p, rows: p.quantile(0.7, "x2", given="x0 < 1"),
    "mean": lambda p, rows: p.mean({"x0": (0.3, 1.4)}),
    "cov": lambda p, rows: p.cov({"x0": (0.3, 1.4)}),
    "moment": lambda p, rows: p.moment(2, given={"x0": (0.3, 1.4)}),
    "anomaly": lambda p, rows: p.anomaly(rows)["surprise"],
    "explain": lambda p, rows: p.explain(rows.iloc[0])["shapley"],
    "event_information": lambda p, rows: p.event_information(EVENT, "x2 > 4"),
}
INTEGRALS = {
    "entropy": lambda p: p.entropy("x0"),
    "entropy of counts": lambda p: p.entropy("x2", given=EVENT),
    "mutual_information": lambda p: p.mutual_information("x0", "x2"),
    "dependence": lambda p: p.dependence()["mutual_information"],
}
DRAWN = {
    "sample": lambda p, rows: p.sample(4, given=EVENT, random_seed=1),
    "impute": lambda p, rows: p.impute(rows, random_seed=1),
}


def rows_of(law):
    return ROWS[[c.name for c in law.columns]]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("law", LAWS)
def test_a_law_answers_as_its_circuit(law, question):
    asked = law_and_circuit(law)
    ours, theirs = (QUESTIONS[question](one, rows_of(asked[0])) for one in asked)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert ours.dims == theirs.dims and ours.name == theirs.name and ours.attrs["learner"] == theirs.attrs["learner"]
    for dim in ours.dims:
        assert ours[dim].values.tolist() == pytest.approx(theirs[dim].values.tolist())
    own = {k for k in ours.attrs if not k.startswith(("mcse_chain", "draws_after_weighting"))}
    assert own <= {*theirs.attrs, "tolerance", "principal_value"}


@pytest.mark.parametrize("question", INTEGRALS)
@pytest.mark.parametrize("law", ["condition", "union", "union of a fit"])
def test_integrals_agree_within_their_tolerances(law, question):
    ours, theirs = (INTEGRALS[question](one) for one in law_and_circuit(law))
    off = sum(found.attrs.get("tolerance", 0.0) for found in (ours, theirs)) + 1e-9
    if question == "dependence":  # of each draw, and of their mixture: draws add dependence
        assert ours.dims == theirs.dims and np.all((theirs >= ours - 0.05) | np.isnan(ours))
        return
    assert ours.dims == theirs.dims and abs(float(ours) - float(theirs)) < off


@pytest.mark.parametrize("question", DRAWN)
@pytest.mark.parametrize("law", LAWS)
def test_drawn_rows_have_the_columns_and_marks_of_a_table(law, question):
    asked = law_and_circuit(law)
    rows = rows_of(asked[0])
    for one in asked:
        drawn = DRAWN[question](one, rows)
        assert list(drawn.columns) == list(rows) and len(drawn) == 4
        assert not drawn.isna().any(axis=None) and drawn.attrs["exactness"].startswith("exact simulation given the")
        pd.testing.assert_frame_equal(drawn, DRAWN[question](one, rows))


def test_most_probable_rows_agree():
    """Under a condition leaves of a circuit are truncated, which the search does not take: it is asked given it."""
    known = {"x0": (0.3, 1.0), "x1": 1}
    ours, theirs = (one.mpe(given=known) for one in law_and_circuit("draws"))
    assert ours.certified and theirs.certified
    pd.testing.assert_frame_equal(ours.value, theirs.value, rtol=1e-3)
    assert float(ours.log_density) == pytest.approx(float(theirs.log_density), abs=2e-6)


# ---- circuits of levels, enumerated
def joint_of(circuit):
    """All rows of a circuit over levels, with their probabilities."""
    names, levels = [c.name for c in circuit.columns], [c.levels for c in circuit.columns]
    rows = pd.MultiIndex.from_product(levels, names=names).to_frame(index=False)
    p = np.array([float(circuit.probability(row.to_dict())) for _, row in rows.iterrows()])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    return rows, p


def learned():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["p", "q"], 80), "b": rng.choice(["u", "v", "w"], 80)})
    frame.loc[frame["a"] == "p", "b"] = rng.choice(["u", "u", "w"], int((frame["a"] == "p").sum()))
    frame = frame.astype("category")
    return ps.circuits.chow_liu_tree(frame)


def composed():
    leaf, level = ps.circuits.leaf, ps.Column
    a, b = level("a", "binary", ("p", "q"), "str"), level("b", "categorical", ("u", "v", "w"), "str")
    parts = [
        ps.circuits.product_of([leaf(a, "bernoulli", (p,)), leaf(b, "categorical", q)])
        for p, q in ((0.3, (0.2, 0.5, 0.3)), (0.9, (0.6, 0.1, 0.3)))
    ]
    return ps.circuits.mixture_of(parts, [0.4, 0.6])


def field():
    graph = ps.FactorGraph({"a": ["p", "q"], "b": ["u", "v", "w"]})
    graph.add_factor(("a", "b"), np.log([[0.9, 0.3, 0.4], [0.2, 0.8, 0.1]]))
    return graph.compile().to_circuit()


CIRCUITS = {"learned": learned, "composed": composed, "field": field}


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_of_levels_are_enumerated(name):
    circuit = CIRCUITS[name]()
    rows, p = joint_of(circuit)
    assert isinstance(circuit, Answers)
    a, b = (rows[c.name] for c in circuit.columns)
    is_p, is_u = (a == a.iloc[0]).to_numpy(), (b == b.iloc[0]).to_numpy()
    given = {b.name: {b.iloc[0]}}
    np.testing.assert_allclose(circuit.anomaly(rows)["log_density"], np.log(p), rtol=1e-10)
    known = circuit.condition({b.name: b.iloc[0]})
    assert float(known.probability({a.name: a.iloc[0]})) == pytest.approx(p[is_p & is_u].sum() / p[is_u].sum())
    assert float(circuit.entropy()) == pytest.approx(-p @ np.log(p), rel=1e-10)
    assert float(circuit.entropy(a.name, given)) == pytest.approx(float(known.entropy(a.name)), rel=1e-10)
    alone = np.array([p[(a == x).to_numpy()].sum() * p[(b == y).to_numpy()].sum() for x, y in zip(a, b, strict=True)])
    for found in (circuit.mutual_information(a.name, b.name), circuit.dependence()["mutual_information"][0, 1]):
        assert float(found) == pytest.approx(p @ np.log(p / alone), abs=1e-10)
    other = circuit.condition([given, {a.name: {a.iloc[-1]}}])
    q = p * (is_u | (a == a.iloc[-1]).to_numpy())
    q = q / q.sum()
    some = q > 0
    assert float(other.kl(circuit)) == pytest.approx(q[some] @ np.log(q[some] / p[some]), rel=1e-9)
    gaps = rows.assign(**{a.name: None}).astype(dict.fromkeys([a.name], object))
    filled = circuit.impute(gaps, random_seed=1)
    assert filled[b.name].tolist() == b.tolist() and filled[a.name].isin(list(a)).all()
    assert isinstance(circuit.explain(rows.iloc[0]), xr.Dataset)
