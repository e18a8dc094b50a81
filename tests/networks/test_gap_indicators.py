"""Gaps that say something: columns that mark them, against enumeration and against columns made by hand."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.record import read_record
from pymc_spn.tables import Column
from tests.hand_made_records import enumerated_tree, schema_of, states_of
from tests.reference import GAUSSIAN, POISSON, Problem, log_evidence
from tests.sampled_runs import draw, model_of

nan = np.nan
# x1 marks the gaps of x0
TABLE = np.array([[0.4, 0.0, 2.0], [nan, 1.0, 5.0], [1.7, 0.0, nan]])
PROBLEM = Problem(
    ((0,), ((1,), (2,))),
    2,
    1.0,
    1.4,
    [[GAUSSIAN], [("bernoulli", {"alpha": (0.1, 0.1)})], [POISSON]],
    TABLE,
)


@pytest.fixture(scope="module")
def enumerated():
    """The exact posterior of the small table: every state a draw."""
    tree, log_weights = enumerated_tree(PROBLEM)
    schema = schema_of(PROBLEM)
    x0, x1, x2 = schema.columns
    x1 = Column("x1", "binary", (False, True), "bool", "x0")
    structure = replace(schema.structure, columns=(x0, x1, x2))
    marked = replace(schema, columns=(x0, x1, x2), structure=structure)
    name = "x_schema"
    bytes_ = marked.to_vector()
    tree["constant_data"] = tree["constant_data"].dataset.drop_vars(name).assign({name: (f"{name}_dim", bytes_)})
    from pymc_spn.tables.fingerprints import fingerprint

    stats = tree["sample_stats"].dataset
    mark = np.full(stats["x_fingerprint"].shape, fingerprint(0, bytes_, ""))
    tree["sample_stats"] = stats.assign(x_fingerprint=(("chain", "draw"), mark))
    return ps.SPNPosterior(RecordedLaw(states_of(tree), chosen=log_weights))


def log_predictive(row):
    """log p(row | table) by the enumerated evidence of both."""
    return log_evidence(replace(PROBLEM, X=np.vstack([TABLE, row]))) - log_evidence(PROBLEM)


def test_the_density_of_a_row_has_the_probability_of_its_gaps(enumerated):
    frame = pd.DataFrame({"x0": [0.9, nan, nan], "x2": [3.0, 3.0, nan]})
    expected = [log_predictive([0.9, 0.0, 3.0]), log_predictive([nan, 1.0, 3.0]), log_predictive([nan, 1.0, nan])]
    for rows in (frame, frame.to_dict("list"), frame.to_numpy(), ps.Table.from_frame(frame, schema=enumerated.columns)):
        np.testing.assert_allclose(enumerated.log_density(rows), expected, rtol=1e-9)
    known = frame.assign(x1=[False, None, True])  # a column that is given says what it says
    by_hand = [log_predictive([0.9, 0.0, 3.0]), log_predictive([nan, nan, 3.0]), log_predictive([nan, 1.0, nan])]
    np.testing.assert_allclose(enumerated.log_density(known), by_hand, rtol=1e-9)
    event = float(np.log(enumerated.probability({"x1": True})))
    np.testing.assert_allclose(event, expected[2], rtol=1e-9)


def test_a_gap_is_predicted_given_that_it_is_missing(enumerated):
    """With the value there it is known to be recorded, without its column nothing is known of that."""
    frame = pd.DataFrame({"x0": [0.9, nan], "x2": [3.0, 3.0]})
    alone = pd.DataFrame({"x2": [3.0]})
    for known, rows in (
        ({"x1": False, "x2": 3}, frame[:1]),
        ({"x1": True, "x2": 3}, frame[1:]),
        ({"x2": 3}, alone),
        ({"x2": 3}, alone.to_numpy()),
        ({"x2": 3}, frame[1:].assign(x1=pd.array([None], dtype="boolean"))),
    ):
        expected = float(enumerated.mean(given=known).sel(column="x0"))
        assert float(enumerated.predict(rows, "x0")[0]) == pytest.approx(expected, rel=1e-9)
    apart = [float(enumerated.mean(given=k).sel(column="x0")) for k in ({"x1": True, "x2": 3}, {"x2": 3})]
    assert abs(apart[0] - apart[1]) > 0.01
    flagged = enumerated.predict_proba(frame, "x1")  # of a row whose mark is not looked at
    for row, known in ((0, {"x0": 0.9, "x2": 3}), (1, {"x2": 3})):
        p = float(enumerated.probability({"x1": True}, given=known))
        assert float(flagged[row].sel(level=True)) == pytest.approx(p, rel=1e-9)


def test_filled_in_tables_have_the_columns_of_the_table(enumerated):
    frame = pd.DataFrame({"x2": [3.0] * 40_000, "x0": [nan] * 40_000})
    found = enumerated.impute(frame, random_seed=1)
    assert list(found) == ["x2", "x0"] and not found.isna().any().any()
    below, bound = {"x0": (None, 0.0)}, 5.0 * np.sqrt(0.2 / 40_000)
    share = (found["x0"] <= 0.0).mean()
    assert abs(share - float(enumerated.probability(below, given={"x1": True, "x2": 3}))) < bound
    # planted: what a network that does not know of the gap would fill in
    assert abs(share - float(enumerated.probability(below, given={"x2": 3}))) > bound
    assert list(enumerated.sample(2, random_seed=1)) == ["x0", "x1", "x2"]


def test_marginals_and_conditions_take_rows_of_what_is_left(enumerated):
    row = pd.DataFrame({"x0": [nan], "x2": [3.0]})
    rest = enumerated.marginal(["x1", "x2"])
    p = float(rest.log_density(row[["x2"]])[0])  # the marked column is not there: nothing is known of its gaps
    assert p == pytest.approx(log_predictive([nan, nan, 3.0]), rel=1e-9)
    given = enumerated.condition({"x1": True})
    assert float(given.log_density(row)[0]) == pytest.approx(
        log_predictive([nan, 1.0, 3.0]) - log_predictive([nan, 1.0, nan]), rel=1e-9
    )


def gappy(n=40):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {"a": rng.normal(4.0 * group, 1.0), "b": rng.normal(-3.0 * group, 1.0), "c": group.astype(str)}
    )
    return frame.assign(a=frame["a"].mask((group == 1) & (rng.random(n) < 0.5)))


def test_the_model_is_that_of_a_column_made_by_hand():
    """Same structure, draws and answers; what is recorded is read again, and more rows go on."""
    frame = gappy()
    by_hand = frame.assign(a_is_missing=frame["a"].isna())
    runs = []
    for table, options in ((by_hand, {}), (frame, {"missing_not_at_random": ["a"]})):
        model = model_of(observed=table, **options)
        runs.append(draw(model, draws=6, tune=4))
    np.testing.assert_array_equal(runs[0]["sample_stats"]["x_digits"], runs[1]["sample_stats"]["x_digits"])
    np.testing.assert_array_equal(runs[0]["posterior"]["x_log_joint"], runs[1]["posterior"]["x_log_joint"])
    first, second = (ps.SPNPosterior.from_idata(run) for run in runs)
    np.testing.assert_array_equal(first.log_density(by_hand), second.log_density(frame))
    assert second.columns[-1].indicates == "a" and first.columns[-1].indicates is None
    assert json.loads(read_record(runs[1]).schema.to_json())["columns"][-1]["indicates"] == "a"
    model = model_of(observed=pd.concat([frame, gappy(50)[40:]]), start=second, missing_not_at_random=["a"])
    assert ps.SPNPosterior.from_idata(draw(model, draws=2, tune=0)).columns == second.columns


def test_a_structure_over_names_holds_the_mark():
    with pm.Model():
        tree = ps.circuits.complete_tree(["a", "a_is_missing", "b", "c"])
        x = ps.SPN("x", tree, observed=gappy(), missing_not_at_random=["a"])
        assert x.eval().shape == (40, 4)


@pytest.mark.parametrize(
    "case",
    [
        (
            {"missing_not_at_random": "a"},
            TypeError,
            "missing_not_at_random must be a list of names of columns, got 'a'",
        ),
        ({"missing_not_at_random": ["z"]}, "must name columns among 'a', 'b', 'c'; got 'z'"),
        ({"missing_not_at_random": ["a", "a"]}, "names column 'a' twice"),
        ({"missing_not_at_random": ["b"]}, "names column 'b', which has no missing cell: leave it out"),
        (
            {"missing_not_at_random": ["a"], "observed": gappy().rename(columns={"b": "a_is_missing"})},
            "adds a column 'a_is_missing', and the table has one: rename that",
        ),
        (
            {"missing_not_at_random": ["a"], "structure": ps.circuits.complete_tree(["a", "b", "c"])},
            r"must have the structure's columns \['a', 'b', 'c'\]; missing \[\], unknown \['a_is_missing'\]",
        ),
        (
            {
                "missing_not_at_random": ["a"],
                "structure": ps.circuits.complete_tree(ps.Table.from_frame(gappy()).columns),
            },
            "columns of the structure have their kinds, and none may be added",
        ),
    ],
)
def test_what_cannot_be_marked_is_refused(case):
    options, *error, message = case
    with pm.Model(), pytest.raises(*error or [ValueError], match=message):
        ps.SPN("x", **({"observed": gappy()} | options))


def test_a_column_that_marks_gaps_has_two_truth_values():
    for levels, kind in (((0, 1), "binary"), (None, "real")):
        with pytest.raises(ValueError, match="indicates must be the name of a column, and the levels False and True"):
            Column("m", kind, levels, "bool", "a")
