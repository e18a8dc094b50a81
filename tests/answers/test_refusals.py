"""Questions that are refused: one table of what is asked and what is said, by what is asked."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from tests.hand_made_records import posterior_of

pytestmark = pytest.mark.usefixtures("integrated")

NAMES = " must be a list of names, got .*; what is known goes into given="
PROB = "prob must be a number within 0 and 1, got"
CELLS = {"x0": 1.2, "x1": 1, "x2": 3}
ROW = pd.DataFrame({"x0": [1.0], "x1": [0], "x2": [1]})
UNION = [{"x0": (0.2, 1.1)}, {"x0": (0.8, None), "x1": 1}, {"x2": [(0, 1), (4, 6)]}, {"x2": {2, 3}, "x1": {0}}]
POSTERIORS = {
    "missing": lambda: posterior_of("missing"),
    "palette": lambda: posterior_of("palette"),
    "union": lambda: posterior_of("missing").condition(UNION),
}


def levels():
    """A law of levels in the same columns."""
    leaves = [ps.circuits.leaf(name, "categorical", (0.5, 0.5)) for name in ("x0", "x1", "x2")]
    return ps.circuits.product_of(leaves)


REFUSED = {
    "missing": [
        (lambda p: p.predict_sd(ROW, "x1"), "target must be numeric, 'x1' is binary; use predict_proba"),
        (lambda p: p.predict_sd(ROW, "z"), r"target must name one of the columns \['x0', 'x1', 'x2'\], got 'z'"),
        (lambda p: p.predict_quantile(ROW, "x0", 1.2), "q must be a number or a sequence of numbers within 0 and 1"),
        (lambda p: p.predict_interval(ROW, "x0", 1.5), "prob must"),
        (lambda p: p.condition({"x0": (4, 5)}).predict_sd(ROW, "x2"), "row 0: column 'x0' cannot be 1"),
        (lambda p: p.predict_cdf(ROW, "x1", 0.5), "target must be numeric, 'x1' is binary"),
        (lambda p: p.predict_cdf(ROW, "x0", "low"), TypeError, "x must be a number or a sequence of numbers"),
        (lambda p: p.predict_cdf(ROW.drop(columns="x0"), "x0"), "x must be given"),
        (lambda p: p.cell_p_value(ROW.assign(x1=7)), "'x1'.*7"),
        (lambda p: p.predictive_p_value(ROW, n=0), "n must be an integer of at least 1, got 0"),
        (lambda p: p.predictive_p_value(ROW, n=1.5), "n must be an integer of at least 1, got 1.5"),
        (
            lambda p: p.predictive_p_value(ROW, n=50),
            r"at least 1 / \(n \+ 1\), with n=50 0.0196, got 0.01",
        ),
        (lambda p: p.predictive_p_value(ROW, level=1.0), "level must be within 0 and 1, got 1.0"),
        (
            lambda p: p.predictive_p_value(ROW, level="low"),
            TypeError,
            "a number within 0 and 1, got 'low'",
        ),
        (lambda p: p.predictive_p_value({"y": [1.0]}), "data must have a column of"),
        (lambda p: p.explain(CELLS, target="z"), "target must name one of the columns"),
        (
            lambda p: p.explain({"x0": 1.0, "x1": None, "x2": 1}, target="x1"),
            "must hold a value of the target 'x1'",
        ),
        (lambda p: p.explain({"x0": None, "x1": None, "x2": None}), "at least one observed cell"),
        (lambda p: p.explain(pd.DataFrame([CELLS] * 2)), "row must hold one row, got 2"),
        (lambda p: p.explain(CELLS, prob=0.0), "prob must be within 0 and 1"),
        (lambda p: p.explain(CELLS, n_permutations=1), "n_permutations must be an integer of at least 2"),
        (lambda p: p.condition({"x1": 1}).co_clustering(), "needs the posterior as sampled"),
        (lambda p: p.marginal(["x0"]).top_clusters(), "needs the posterior as sampled"),
        (lambda p: p.mutual_information("x0", "x0"), "first and second must differ, both name 'x0'"),
        (lambda p: p.mutual_information("x0", "z"), "second must name one of the columns"),
        (lambda p: p.mutual_information("x0", []), "second must name at least one column"),
        (lambda p: p.mutual_information("x0", "x1", method="exact"), "method must be one of"),
        (lambda p: p.mutual_information("x0", "x1", {"x0": 1}), "column 'x0' is given at a value"),
        (lambda p: p.mutual_information("x0", "x2", method="enumeration"), "needs binary or categorical columns"),
        (lambda p: p.mutual_information("x0", "x2", method="quadrature"), "method must be one of"),
        (lambda p: p.mutual_information(["x0", "x2"], "x1", per_draw=True), "per_draw=True is for two single columns"),
        (lambda p: p.mutual_information("x0", "x2", method="monte-carlo", n=1), "n must be an integer of at least 2"),
        (lambda p: p.dependence(prob=1.0), "prob must be within 0 and 1"),
        (lambda p: p.dependence(threshold=-1), "threshold must be at least 0"),
        (lambda p: p.dependence(max_draws=0), "max_draws must be an integer of at least 1"),
        (lambda p: p.marginal(["x0"]).dependence(), "at least two columns"),
        (lambda p: p.entropy(method="quadrature"), "is for a single column"),
        (lambda p: p.entropy([]), "at least one column"),
        (lambda p: p.kl(levels()), "other must have masses in the column 'x0' where this has, or densities"),
        (lambda p: p.mutual_information({"x0": (0.0, 1.0)}, "x1"), TypeError, "first" + NAMES),
        (lambda p: p.mutual_information("x0", {"x1": {"a"}}), TypeError, "second" + NAMES),
        (lambda p: p.entropy({"x0": (0.0, 1.0)}), TypeError, "columns" + NAMES),
        (lambda p: p.marginal({"x0": (0.0, 1.0)}), TypeError, "columns" + NAMES),
        (lambda p: p.entropy(3.5), TypeError, "columns" + NAMES),
        (lambda p: p.kl(3), TypeError, "other must be a posterior, a fit or a circuit"),
        (lambda p: p.explain(3), TypeError, "row must be a mapping"),
        *((lambda p, prob=prob: p.explain(CELLS, prob=prob), TypeError, PROB) for prob in ("a", None, [0.5], True)),
    ],
    "palette": [
        (lambda p: p.cdf(1, "z"), r"column must name one of the columns \['x0', 'x1', 'x2'\], got 'z'"),
        (lambda p: p.cdf(1, "x1"), "column must be numeric, 'x1' is categorical"),
        (lambda p: p.cdf([1, np.nan], "x0"), "x must be a number or a sequence of numbers without NaN"),
        (lambda p: p.cdf(1, "x0", {"x0": 2}), "column 'x0' is given at a value"),
        (lambda p: p.cdf("0.5", "x0"), TypeError, "x must be a number or a sequence of numbers without NaN, got '0.5'"),
        (lambda p: p.quantile("0.5", "x0"), TypeError, "q must be a number or .* within 0 and 1, got '0.5'"),
        (lambda p: p.quantile(True, "x0"), TypeError, "q must be a number or .* within 0 and 1, got True"),
        (lambda p: p.quantile([0.1, True], "x0"), TypeError, "q must be a number or .* within 0 and 1"),
        (lambda p: p.quantile(1.5, "x0"), "q must be a number or a sequence of numbers within 0 and 1, got 1.5"),
        (lambda p: p.moment(0), "order must be an integer within 1 and 8, got 0"),
        (lambda p: p.marginal(["x1"]).moment(1), "moments need a numeric column"),
        (lambda p: p.predict_proba({"x0": [1], "x1": ["a"], "x2": [1]}, "x0"), "target must be binary, categor"),
        (lambda p: p.marginal(["x1"]).predict_proba({"x1": ["a"]}, "x1"), "nothing to predict it from"),
        (lambda p: p.predict({"z": [1]}, "x1"), "data must have a column of"),
    ],
    "union": [
        (lambda p: p.cdf(1.0, "y"), "column must name one of the columns"),
        (lambda p: p.cdf(np.nan, "x0"), "x must be a number or a sequence of numbers without NaN"),
        (lambda p: p.quantile(1.2, "x0"), "q must be a number or a sequence of numbers within 0 and 1"),
        (lambda p: p.cdf(1.0, "x0", given={"x0": 0.5}), "column 'x0' is given at a value"),
        (lambda p: p.mean(given={"x1": 0, "x0": (2, 3), "x2": 9}), "nothing of it can occur within the union"),
        (lambda p: p.predict_proba({"x0": [0.5]}, "x2"), "must be binary, categorical or ordinal, 'x2' is count"),
        (lambda p: p.predict({"x0": [0.5, 0.1], "x2": [1, 9]}, "x1"), "row 1: the union that the posterior"),
        (lambda p: p.mpe(max_draws=0), "max_draws must be an integer of at least 1"),
    ],
}


@pytest.mark.parametrize(("of", "case"), [(of, case) for of, cases in REFUSED.items() for case in cases])
def test_what_is_refused(of, case):
    """A case is a question, what is said, and the error in between where it is no ValueError."""
    ask, *error, message = case
    with pytest.raises(*error or [ValueError], match=message):
        ask(POSTERIORS[of]())
