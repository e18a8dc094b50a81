"""One suite of questions for all laws: posteriors, fits and what is made of them against their explicit circuits.

The same question with the same arguments has the same answer, labels and kind of mark, whatever answers it; circuits of
levels are enumerated.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import pymc_spn as ps
from pymc_spn.answers.answers import Answers
from pymc_spn.laws.column_of_rows import LeavesInRows
from tests.hand_made_records import sampled_tree

pytestmark = pytest.mark.usefixtures("integrated")

UNION = [{"x0": (0.2, 1.1)}, {"x2": (4, 6), "x1": 1}]
ROWS = pd.DataFrame({"x0": [0.5, 0.9, 0.6, np.nan], "x1": [0, 1, 1, 1], "x2": [4.0, 5.0, 6.0, 4.0]})


@cache
def draws():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=3))


def test_names_of_pandas_for_what_others_answer():
    post = draws()
    cov, q = post.cov(), post.predict_quantile(ROWS, "x0", [0.1, 0.9])
    np.testing.assert_allclose(post.std() ** 2, np.diag(cov), rtol=1e-9)  # moments are added up in another order
    np.testing.assert_allclose(post.corr(), cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov))), rtol=1e-12)
    assert float(post.median("x0")) == float(post.quantile(0.5, "x0")) and post.median("x0").name == "median"
    np.testing.assert_allclose(post.predict_interval(ROWS, "x0", 0.8), q, rtol=1e-13)  # 0.1 up to rounding


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
    circuit = law.as_circuit()
    return law, circuit.condition({"x0": (0, None)}) if name == "fit" else circuit  # leaves go on below 0


QUESTIONS = {
    "log_density": lambda p, rows: p.log_density(rows, cells=False),
    "probability": lambda p, rows: p.probability(EVENT),
    "probability given": lambda p, rows: p.probability("x2 <= 4 or x2 > 5", given=[EVENT, {"x2": (4, 5)}]),
    "log_probability": lambda p, rows: p.log_probability("x2 <= 4 or x2 > 5", given=EVENT),
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
    "predict": lambda p, rows: p.predict(rows, "x0"),
    "predict of counts": lambda p, rows: p.predict(rows, "x2"),
    "predict_sd": lambda p, rows: p.predict_sd(rows, "x0"),
    "predict_quantile": lambda p, rows: p.predict_quantile(rows, "x0", [0.02, 0.5, 0.9]),
    "predict_quantile of counts": lambda p, rows: p.predict_quantile(rows, "x2", 0.7),
    "predict_cdf": lambda p, rows: p.predict_cdf(rows, "x0", [0.4, 0.9]),
    "predict_cdf of own cells": lambda p, rows: p.predict_cdf(rows, "x2"),
    "cell_p_value": lambda p, rows: p.cell_p_value(rows),
    "explain": lambda p, rows: p.explain(rows.iloc[0])["shapley"],
    "event_information": lambda p, rows: p.event_information(EVENT, "x2 > 4"),
}
INTEGRALS = {
    "entropy": lambda p: p.entropy("x0"),
    "entropy of counts": lambda p: p.entropy("x2", given=EVENT),
    "mutual_information": lambda p: p.mutual_information("x0", "x2", n=2_000, random_seed=1),
    "dependence": lambda p: p.dependence(random_seed=1)["mutual_information"],
}
DRAWN = {
    "sample": lambda p, rows: p.sample(4, given=EVENT, random_seed=1),
    "impute": lambda p, rows: p.impute(rows, random_seed=1),
}


def rows_of(law):
    return ROWS[[c.name for c in law.columns]]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("law", ["condition", "marginal of a union", "fit"])
def test_a_law_answers_as_its_circuit(law, question):
    asked = law_and_circuit(law)
    ours, theirs = (QUESTIONS[question](one, rows_of(asked[0])) for one in asked)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert ours.dims == theirs.dims and ours.name == theirs.name and ours.attrs["learner"] == theirs.attrs["learner"]
    for dim in ours.dims:
        assert ours[dim].values.tolist() == pytest.approx(theirs[dim].values.tolist())
    own = {k for k in ours.attrs if not k.startswith(("mcse_chain", "draws_after_weighting"))}
    assert own <= {*theirs.attrs, "tolerance", "principal_value"}


@pytest.mark.parametrize("law", ["condition", "union", "fit"])
def test_levels_are_predicted_as_by_the_circuit(law):
    ours, theirs = (one.predict_proba(ROWS, "x1") for one in law_and_circuit(law))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    assert ours.dims == theirs.dims == ("row", "level") and ours["level"].values.tolist() == [0, 1]
    labels = [one.predict(ROWS, "x1").values.tolist() for one in law_and_circuit(law)]
    assert labels[0] == labels[1] == ours["level"].values[ours.argmax("level")].tolist()
    each = [one.predict_proba(ROWS, "x1", per_draw=True) for one in law_and_circuit(law)]
    assert each[0].dims == each[1].dims == ("chain", "draw", "row", "level")
    np.testing.assert_allclose(each[1][0, 0], theirs)


# ---- one column row by row, by quadrature and sums of the density of whole rows
JUMPS = [0.0, 0.2, 1.1, 1.5]  # where densities of x0, which is positive, may jump
COUNTS = np.arange(600)


def densities(law, row, target, values):
    rows = pd.DataFrame([row] * len(values)).assign(**{target: values})
    return np.exp(law.anomaly(rows[[c.name for c in law.columns]])["log_density"].values)


def part_below(law, row, x, power=0, about=0.0):
    """Integral of (x0 - about)^power over x0 <= x, up to a factor of the row."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    cuts = [c for c in JUMPS if c < x] + ([x] if np.isfinite(x) else [])
    # a column of positive values may have leaves that go on below 0, where the table has no rows
    total = 0.0 if power else float(law.probability({**row, "x0": (None, 0.0)}))
    for low, high in pairwise(cuts):
        at = low + 0.5 * (high - low) * (nodes + 1.0)
        total += 0.5 * (high - low) * weights @ (densities(law, row, "x0", at) * (at - about) ** power)
    if x == np.inf:
        far = 10.0 * (nodes + 1.0)
        at, slope = JUMPS[-1] + 0.3 * np.sinh(far), 0.3 * np.cosh(far)
        total += 10.0 * weights @ (slope * densities(law, row, "x0", at) * (at - about) ** power)
    return total


def of_families():
    """A circuit of leaves that no network has."""
    parts = [
        ("gaussian", (0.7, 0.2), "poisson", (4.0,)),
        ("log_normal", (0.2, 1.1), "binomial", (9.0, 0.6)),
        ("exponential", (2.0,), "geometric", (0.2,)),
    ]
    leaf, x0, x2 = ps.circuits.leaf, ps.Column("x0", "real", None, "float64"), ps.Column("x2", "count", None, "int64")
    parts = [ps.circuits.product_of([leaf(x0, a, p), leaf(x2, b, q)]) for a, p, b, q in parts]
    return ps.circuits.mixture_of(parts, [0.3, 0.5, 0.2])


def asked_by(name):
    """A law and its circuit, or a circuit alone, and a row."""
    laws = (of_families(),) if name == "families" else law_and_circuit(name)
    row = {"x0": 0.6, "x1": 1, "x2": 5.0}
    return laws, {c.name: row[c.name] for c in laws[0].columns}


def check_numbers(law, row):
    rows = pd.DataFrame([row])
    whole = part_below(law, row, np.inf)
    for x in (0.45, 0.9):
        p = part_below(law, row, x) / whole
        assert float(law.predict_cdf(rows, "x0", x)[0]) == pytest.approx(p, abs=1e-7)
        assert float(law.predict_quantile(rows, "x0", p)[0]) == pytest.approx(x, abs=1e-6)
    p = part_below(law, row, row["x0"]) / whole
    assert float(law.cell_p_value(rows).sel(column="x0")[0]) == pytest.approx(2.0 * min(p, 1.0 - p), abs=1e-7)


@pytest.mark.parametrize("law", ["condition", "marginal of a union", "fit", "families"])
def test_numbers_given_rows_are_integrals(law):
    laws, row = asked_by(law)
    for one in laws:
        check_numbers(one, row)
        if law == "condition":  # bounded, so that the integrals are finite
            whole = part_below(one, row, np.inf)
            mean = part_below(one, row, np.inf, 1) / whole
            assert float(one.predict(pd.DataFrame([row]), "x0")[0]) == pytest.approx(mean, rel=1e-8)
            sd = np.sqrt(part_below(one, row, np.inf, 2, mean) / whole)
            assert float(one.predict_sd(pd.DataFrame([row]), "x0")[0]) == pytest.approx(sd, rel=1e-7)


@pytest.mark.parametrize("law", ["condition", "marginal of a union", "fit", "families"])
def test_counts_given_rows_are_sums(law):
    laws, row = asked_by(law)
    for one in laws:
        rows, p = pd.DataFrame([row]), densities(one, row, "x2", COUNTS)
        p = p / p.sum()
        below = np.cumsum(p)
        assert float(one.predict_cdf(rows, "x2")[0]) == pytest.approx(below[5], rel=1e-9)
        assert float(one.predict_quantile(rows, "x2", 0.7)[0]) == np.searchsorted(below, 0.7)
        assert float(one.predict(rows, "x2")[0]) == pytest.approx(p @ COUNTS, rel=1e-9)
        sd = np.sqrt(p @ (COUNTS - p @ COUNTS) ** 2)
        assert float(one.predict_sd(rows, "x2")[0]) == pytest.approx(sd, rel=1e-9)
        tail = 2.0 * min(below[5], 1.0 - below[4], 0.5)
        assert float(one.cell_p_value(rows).sel(column="x2")[0]) == pytest.approx(tail, rel=1e-9)


def test_quantiles_at_the_ends_of_leaves_given_rows():
    leaf, x, y = ps.circuits.leaf, ps.Column("x", "real", None, "float64"), ps.Column("y", "binary", (0, 1), "int64")
    ends = [((0.0, 1.0), 0.5), ((2.0, 3.0), 0.5), ((8.0, 9.0), 0.0)]
    parts = [ps.circuits.product_of([leaf(x, stats.uniform(e[0], 1.0)), leaf(y, "bernoulli", (p,))]) for e, p in ends]
    circuit = ps.circuits.mixture_of(parts, [0.4, 0.4, 0.2])
    found = circuit.predict_quantile({"y": [1, 0]}, "x", [0.0, 0.4, 0.5, 0.75, 1.0])
    # half of what there is stands below 1, the smallest number where that is reached
    np.testing.assert_allclose(found[0], [0.0, 0.8, 1.0, 2.5, 3.0], rtol=1e-9)
    assert found[1, 0] == 0.0 and found[1, -1] == 9.0


@pytest.mark.parametrize("law", ["condition", "union"])
def test_a_planted_mistake_is_found(law, monkeypatch):
    """Leaves of the column weighed as if nothing were known of the row."""
    laws, row = asked_by(law)
    for kind in LeavesInRows.__subclasses__():
        own = kind.__init__
        monkeypatch.setattr(
            kind, "__init__", lambda self, of, d, rows, own=own: own(self, of, d, np.full_like(rows, np.nan))
        )
    for one in laws:
        with pytest.raises(AssertionError):
            check_numbers(one, row)


@pytest.mark.parametrize("question", INTEGRALS)
@pytest.mark.parametrize("law", ["condition", "union of a fit"])
def test_integrals_agree_within_their_errors(law, question):
    ours, theirs = (INTEGRALS[question](one) for one in law_and_circuit(law))
    off = sum(found.attrs.get("tolerance", 0.0) for found in (ours, theirs)) + 1e-9
    off += 5.0 * np.hypot(*(np.max(found.attrs.get("mcse", 0.0)) for found in (ours, theirs)))
    if question == "dependence":  # of each draw, and of their mixture: draws add dependence
        assert ours.dims == theirs.dims and np.all((theirs >= ours - 0.05) | np.isnan(ours))
        return
    assert ours.dims == theirs.dims and abs(float(ours) - float(theirs)) < off


@pytest.mark.parametrize("question", DRAWN)
@pytest.mark.parametrize("law", ["draws", "marginal of a union", "fit"])
def test_drawn_rows_have_the_columns_and_marks_of_a_table(law, question):
    asked = law_and_circuit(law)
    rows = rows_of(asked[0])
    for one in asked:
        drawn = DRAWN[question](one, rows)
        assert list(drawn.columns) == list(rows) and len(drawn) == 4
        assert not drawn.isna().any(axis=None) and drawn.attrs["exactness"].startswith("exact simulation given the")
        pd.testing.assert_frame_equal(drawn, DRAWN[question](one, rows))


def test_most_probable_rows_agree():
    known = {"x0": (0.3, 1.0), "x1": 1}
    ours, theirs = (one.mpe(given=known) for one in law_and_circuit("draws"))
    pd.testing.assert_frame_equal(ours.value, theirs.value, rtol=1e-3)
    assert float(ours.log_density) == pytest.approx(float(theirs.log_density), abs=2e-6)


def test_circuits_of_posteriors_are_shown_and_refuse_as_others():
    circuit = law_and_circuit("draws")[1]
    for one in (circuit, circuit.condition(EVENT)):
        assert repr(one) == f"{type(one).__name__}({one.circuit!r})"
        with pytest.raises(ValueError, match="given must leave a column"):
            one.condition({"x0": 0.6, "x1": 1, "x2": 5})


# ---- circuits of levels, enumerated
def joint_of(circuit):
    """All rows of a circuit over levels, with their probabilities."""
    names, levels = [c.name for c in circuit.columns], [c.levels for c in circuit.columns]
    rows = pd.MultiIndex.from_product(levels, names=names).to_frame(index=False)
    p = np.array([float(circuit.probability(row.to_dict())) for _, row in rows.iterrows()])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    return rows, p


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


CIRCUITS = {"composed": composed, "field": field}


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
    proba = circuit.predict_proba(rows, a.name)
    given_b = np.array(
        [
            p[(a == x).to_numpy() & (b == y).to_numpy()].sum() / p[(b == y).to_numpy()].sum()
            for y in b
            for x in proba["level"].values
        ]
    ).reshape(proba.shape)
    np.testing.assert_allclose(proba, given_b, rtol=1e-10)
    assert circuit.predict(rows, a.name).values.tolist() == proba["level"].values[given_b.argmax(axis=1)].tolist()
    own = given_b[np.arange(len(a)), [proba["level"].values.tolist().index(x) for x in a]]
    tails = (given_b * (given_b <= own[:, None] * (1 + 1e-10))).sum(axis=1)
    np.testing.assert_allclose(circuit.cell_p_value(rows).sel(column=a.name), tails, rtol=1e-10)
    gaps = rows.assign(**{a.name: None}).astype(dict.fromkeys([a.name], object))
    filled = circuit.impute(gaps, random_seed=1)
    assert filled[b.name].tolist() == b.tolist() and filled[a.name].isin(list(a)).all()
    assert isinstance(circuit.explain(rows.iloc[0]), xr.Dataset)
