"""Local scores against dense determinants and sequential predictives; constraints; what is refused."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps
from tests.dags.score_tables import gaussian_table, listed_scores


def level_table(d, n=80, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (n, d))
    for i in range(1, d):
        codes[:, i] = np.where(rng.random(n) < 0.6, codes[:, i - 1], codes[:, i])
    return pd.DataFrame({f"v{i}": pd.Categorical(codes[:, i]) for i in range(d)})


def every_set(scores, i):
    for m, value in enumerate(scores.of(scores.names[i])):
        yield [scores.names.index(p) for p in scores.parents_of_index(i, m)], value


@pytest.mark.parametrize("limit", [4, 3])
def test_bge_equals_dense_determinants(limit):
    df = gaussian_table(5)
    scores = ps.LocalScores.from_data(df, prior="uniform", max_candidates=limit)
    for i in range(5):
        for parents, value in every_set(scores, i):
            assert value == pytest.approx(brute.bge(df, i, parents), abs=1e-9)


def test_bge_with_other_hyperparameters():
    df = gaussian_table(4)
    scores = ps.LocalScores.from_data(df, ps.BGe(alpha_mu=0.5, alpha_w=9.0, prior_scale=2.0), prior="uniform")
    for parents, value in every_set(scores, 2):
        assert value == pytest.approx(brute.bge(df, 2, parents, 0.5, 9.0, 2.0), abs=1e-9)


@pytest.mark.parametrize("limit", [3, 2])
def test_bdeu_equals_sequential_predictives(limit):
    df = level_table(4)
    codes = np.column_stack([df[c].cat.codes for c in df])
    levels = [3, 3, 3, 3]
    scores = ps.LocalScores.from_data(df, ps.BDeu(2.5), prior="uniform", max_candidates=limit)
    for i in range(4):
        for parents, value in every_set(scores, i):
            assert value == pytest.approx(brute.bdeu(codes, levels, i, parents, 2.5), abs=1e-9)


@pytest.mark.parametrize("ess", [1e12, 1e15, 1e18, 1e40, 1e300])
def test_bdeu_of_a_large_equivalent_sample_size_is_that_of_equal_probabilities(ess):
    """Differences of log gamma functions were off by 0.01, then by thousands of nats, then no number."""
    scores = ps.LocalScores.from_data(level_table(3), ps.BDeu(ess), prior="uniform")
    np.testing.assert_allclose(scores.log_scores, -80 * np.log(3.0), rtol=1e-9)


def test_scores_of_equivalent_graphs_are_equal():
    for df in (gaussian_table(3), level_table(3)):
        scores = ps.LocalScores.from_data(df, prior="uniform")
        forward = ps.DAG.from_edges(scores.names, [("v0", "v1"), ("v1", "v2")])
        backward = ps.DAG.from_edges(scores.names, [("v2", "v1"), ("v1", "v0")])
        collider = ps.DAG.from_edges(scores.names, [("v0", "v1"), ("v2", "v1")])
        assert scores.log_score(forward.adjacency) == pytest.approx(scores.log_score(backward.adjacency), abs=1e-9)
        assert abs(scores.log_score(forward.adjacency) - scores.log_score(collider.adjacency)) > 0.01


def test_rows_in_which_a_variable_was_set_do_not_count_for_it():
    df = gaussian_table(4)
    mask = np.zeros(df.shape, bool)
    mask[:25, 1] = True
    scores = ps.LocalScores.from_data(df, prior="uniform", interventions=mask)
    plain = ps.LocalScores.from_data(df, prior="uniform")
    np.testing.assert_allclose(scores.of("v0"), plain.of("v0"), atol=1e-9)
    assert np.abs(scores.of("v1") - plain.of("v1")).max() > 1
    centred = df.to_numpy() - df.to_numpy().mean(axis=0)
    kept = centred[25:]
    n, mean = len(kept), kept.mean(axis=0)  # the prior mean stays that of the whole column
    shift = np.sqrt(n / (n + 1)) * mean
    matrix = 0.5 * np.eye(4) + (kept - mean).T @ (kept - mean) + np.outer(shift, shift)
    from math import lgamma, log, pi

    for parents, value in every_set(scores, 1):
        k = len(parents)
        a = 6 - 4
        family, block = [*parents, 1], parents
        expected = (
            0.5 * log(1 / (n + 1))
            - n / 2 * log(pi)
            + lgamma((n + a + k + 1) / 2)
            - lgamma((a + k + 1) / 2)
            + ((a + k + 1) * (k + 1) - (a + k) * k) / 2 * log(0.5)
            - (n + a + k + 1) / 2 * np.linalg.slogdet(matrix[np.ix_(family, family)])[1]
            + (n + a + k) / 2 * (np.linalg.slogdet(matrix[np.ix_(block, block)])[1] if k else 0.0)
        )
        assert value == pytest.approx(expected, abs=1e-9)


def test_frames_of_interventions_are_read_by_their_labels():
    df = gaussian_table(3).sample(frac=1.0, random_state=0)
    mask = pd.DataFrame({"v2": True, "v0": df.v0 > 0, "v1": False}, index=df.index)
    plain = ps.LocalScores.from_data(df, interventions=mask[list(df)].to_numpy()).log_scores
    for frame in (mask, mask.astype("boolean")):
        np.testing.assert_array_equal(ps.LocalScores.from_data(df, interventions=frame).log_scores, plain)
    with pytest.raises(ValueError, match="interventions: its rows must be those of the data, with the same index"):
        ps.LocalScores.from_data(df, interventions=mask.sort_index())
    gap = mask.astype("boolean")
    gap.iloc[3, 1] = pd.NA
    with pytest.raises(ValueError, match="interventions must be bool"):
        ps.LocalScores.from_data(df, interventions=gap)


def test_priors_add_to_the_scores():
    df = gaussian_table(4)
    plain = ps.LocalScores.from_data(df, prior="uniform")
    odds = pd.DataFrame(np.arange(16.0).reshape(4, 4) / 10, index=list(df), columns=list(df))
    for prior, term in [
        ("fair", lambda i, p: brute.fair(4, len(p))),
        (ps.dags.EdgePenalty(0.7), lambda i, p: -0.7 * len(p)),
        (ps.dags.EdgeLogOdds(odds), lambda i, p: sum(odds.iloc[j, i] for j in p)),
    ]:
        scores = ps.LocalScores.from_data(df, prior=prior)
        for i in range(4):
            for (parents, value), (_, base) in zip(every_set(scores, i), every_set(plain, i), strict=True):
                assert value - base == pytest.approx(term(i, parents), abs=1e-9)
    narrow = ps.LocalScores.from_data(df, prior="uniform", max_indegree=1)
    for (parents, value), (_, base) in zip(every_set(narrow, 3), every_set(plain, 3), strict=True):
        assert value == (base if len(parents) <= 1 else -np.inf)


def test_a_callable_gives_the_same_scores():
    df = gaussian_table(4)
    names = list(df)
    direct = ps.LocalScores.from_data(df, prior="uniform")
    asked = ps.LocalScores.from_data(
        df, lambda child, parents: brute.bge(df, names.index(child), [names.index(p) for p in parents]), prior="uniform"
    )
    np.testing.assert_allclose(asked.log_scores, direct.log_scores, atol=1e-9)


def test_scores_are_of_graphs_without_cycles():
    scores = listed_scores({"a": {(): 1.0, ("b",): 2.0}, "b": {(): 4.0, ("a",): 8.0}})
    assert scores.log_score(np.array([[False, True], [False, False]])) == 9.0
    with pytest.raises(ValueError, match="adjacency has a cycle"):
        scores.log_score(np.array([[False, True], [True, False]]))
    with pytest.raises(ValueError, match=r"adjacency must be bool of shape \(2, 2\)"):
        scores.log_score(np.zeros((3, 3), bool))


def greedy_by_hand(score, child, others, wanted):
    """The rule in words: add the u that reaches the best score of S + u over subsets S of what is chosen."""
    chosen = []
    while len(chosen) < wanted:
        best = {
            u: max(score(child, {*s, u}) for k in range(len(chosen) + 1) for s in combinations(chosen, k))
            for u in others
            if u not in chosen
        }
        chosen.append(max(best, key=best.get))
    return sorted(chosen)


def test_greedy_candidates_follow_the_rule():
    df = gaussian_table(9, seed=4)
    scores = ps.LocalScores.from_data(df, max_candidates=4)
    assert scores.restricted == scores.names
    for i in range(9):
        expected = greedy_by_hand(
            lambda c, p: brute.bge(df, c, p) + brute.fair(9, len(p)), i, [j for j in range(9) if j != i], 4
        )
        assert list(scores.candidates[i]) == expected


@pytest.mark.parametrize("df", [gaussian_table(4), level_table(4)], ids=["numbers", "levels"])
def test_required_parents_may_take_all_the_room_of_candidates(df):
    scores = ps.LocalScores.from_data(df, max_candidates=1, required=[("v0", "v1")])
    assert list(scores.n_candidates) == [1, 1, 1, 1] and scores.candidates[1, 0] == 0
    assert scores.restricted == ("v0", "v1", "v2", "v3")
    none = ps.LocalScores.from_data(df, max_candidates=0)
    assert not none.n_candidates.any() and none.log_scores.size == 4


def test_greedy_candidates_of_discrete_columns_follow_the_rule_at_one_step():
    df = level_table(6, seed=2)
    scores = ps.LocalScores.from_data(df, ps.BDeu(1.0), max_candidates=1)
    codes = np.column_stack([df[c].cat.codes for c in df])
    for i in range(6):
        value = {j: brute.bdeu(codes, [3] * 6, i, [j], 1.0) for j in range(6) if j != i}
        assert scores.candidates[i, 0] == max(value, key=value.get)


def test_log_sums_in_linear_and_log_space_agree():
    from pymc_spn.dags.zeta_kernels import LINEAR_RANGE, log_sums_inside

    df = gaussian_table(6)
    wide = ps.LocalScores.from_data(pd.concat([df] * 60, ignore_index=True) * 3)
    narrow = ps.LocalScores.from_data(df)
    assert np.ptp(narrow.of("v0")) < LINEAR_RANGE < max(wide.of(n).max() - wide.of(n)[0] for n in wide.names)
    for scores in (wide, narrow):
        for i, name in enumerate(scores.names):
            slow = scores.of(name).copy()
            log_sums_inside(slow, False)
            np.testing.assert_allclose(scores.log_sums[scores.offsets[i] : scores.offsets[i + 1]], slow, atol=1e-9)


def test_required_forbidden_and_tiers_shape_the_table():
    df = gaussian_table(4)
    scores = ps.LocalScores.from_data(
        df, required=[("v3", "v2")], forbidden=[("v1", "v2")], tiers=[["v0", "v3"], ["v1", "v2"]]
    )
    assert list(scores.candidates[2][: scores.n_candidates[2]]) == [0, 3]
    assert list(scores.candidates[0][: scores.n_candidates[0]]) == [3]
    assert np.isneginf(scores.of("v2")[[0, 1]]).all() and np.isfinite(scores.of("v2")[[2, 3]]).all()
    assert list(scores.precede_sets) == [0, 0b1001, 0b1001, 0]


def test_variables_of_no_tier_may_stand_anywhere():
    scores = ps.LocalScores.from_data(gaussian_table(4), tiers=[["v3"], ["v1"]])
    assert list(scores.precede_sets) == [0, 0b1000, 0, 0]
    assert list(scores.candidate_sets) == [0b1110, 0b1101, 0b1011, 0b0101]


def test_levels_are_refused_standardised_or_not():
    df = gaussian_table(3).assign(town=["a", "b", "c"] * 20)
    for standardize in (False, True):
        with pytest.raises(ValueError, match=r"BGe needs numeric columns, got \{'town': 'categorical'\}"):
            ps.LocalScores.from_data(df, standardize=standardize)
    of_town = ps.LocalScores.from_data(df, ps.ConditionalGaussian(), standardize=True)
    renamed = df.assign(town=df.town.replace({"b": "z"}))
    again = ps.LocalScores.from_data(renamed, ps.ConditionalGaussian(), standardize=True)
    np.testing.assert_allclose(of_town.log_scores, again.log_scores, rtol=1e-12)


def test_standardised_scores_are_those_of_the_standardised_table():
    """Up to a constant for each variable; moments stay in the units of the data."""
    df = gaussian_table(4) * [1.0, 1e-3, 50.0, 1.0] + [0.0, 0.0, 7.0, 0.0]
    scores = ps.LocalScores.from_data(df, standardize=True)
    by_hand = ps.LocalScores.from_data((df - df.mean()) / df.std(ddof=0))
    np.testing.assert_allclose(scores.log_scores, by_hand.log_scores, atol=1e-9)
    units = df.std(ddof=0).to_numpy()
    np.testing.assert_allclose(scores.gaussian.matrices, by_hand.gaussian.matrices * np.outer(units, units), rtol=1e-9)
    mixed = df.assign(v3=pd.Categorical(np.where(df["v3"] > 0, "high", "low")))
    levels = ps.LocalScores.from_data(mixed, ps.ConditionalGaussian(), standardize=True)
    numbers = [*"v0 v1 v2".split()]
    by_hand = mixed.assign(**{n: (mixed[n] - mixed[n].mean()) / mixed[n].std(ddof=0) for n in numbers})
    expected = ps.LocalScores.from_data(by_hand, ps.ConditionalGaussian())
    np.testing.assert_allclose(levels.log_scores, expected.log_scores, atol=1e-9)


def test_earlier_rows_as_columns_that_nothing_causes():
    """The recipe of docs/dags.md: sums run over orders of the present columns alone."""
    df = gaussian_table(2)
    past = df.shift(1).add_suffix("[t-1]")
    both = pd.concat([past, df], axis=1).dropna()
    into = [(a, b) for b in past for a in both if a != b]
    scores = ps.LocalScores.from_data(both, tiers=[[name] for name in past] + [list(df)], forbidden=into)
    assert list(scores.n_candidates) == [0, 0, 3, 3]
    np.testing.assert_array_equal(scores.must_precede, np.tri(4, k=-1) * [1, 1, 0, 0] == 1)
    assert ps.OrderSPN.exact(scores).lattice.n_prefixes == 2 + 4


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"required": [("v0", "v1"), ("v1", "v0")]}, ValueError, "form a cycle through ['v0', 'v1']"),
        (
            {"required": [("v0", "v1")], "forbidden": [("v0", "v1")]},
            ValueError,
            "'v0' -> 'v1' is required and forbidden at once",
        ),
        ({"required": [("v0", "w")]}, ValueError, "required[0] names 'w', which is not a variable"),
        ({"score": ps.BGe}, TypeError, "score must be a BGe, BDeu, ConditionalGaussian or callable"),
        ({"score": ps.BGe(alpha_mu="1")}, TypeError, "BGe: alpha_mu must be a number, got '1'"),
        ({"score": ps.BGe(alpha_w=True)}, TypeError, "BGe: alpha_w must be a number, got True"),
        ({"score": ps.BGe(prior_scale=True)}, TypeError, "BGe: prior_scale must be a number here, got True"),
        ({"score": lambda child, parents: None}, TypeError, "score of 'v0' given [] must be a number, got None"),
        ({"forbidden": ["v0"]}, ValueError, "forbidden[0] must be a (parent, child) pair"),
        ({"forbidden": [("v0", "v0")]}, ValueError, "forbidden[0] is an edge from 'v0' to itself"),
        (
            {"tiers": [["v0", "v1"], ["v2", "v1"]]},
            ValueError,
            "tiers must hold a variable once, got 'v1' in tiers 0 and",
        ),
        (
            {"tiers": [["v0"], ["v2"]], "required": [("v2", "v1"), ("v1", "v0")]},
            ValueError,
            "with the tiers, form a cycle",
        ),
        ({"standardize": "yes"}, TypeError, "standardize must be a bool, got 'yes'"),
        ({"standardize": True, "score": lambda c, p: 0.0}, ValueError, "standardize cannot be combined with a call"),
        (
            {"tiers": [["v0"], ["v1", "v2", "v3"]], "required": [("v1", "v0")]},
            ValueError,
            "required 'v1' -> 'v0' runs against the tiers",
        ),
        ({"prior": "flat"}, ValueError, "prior must be 'fair', 'uniform', 'learned', an EdgePenalty or an EdgeLogOdds"),
        ({"max_indegree": 0, "required": [("v0", "v1")]}, ValueError, "max_indegree = 0, but 'v1' has 1 required"),
        ({"max_candidates": -1}, ValueError, "max_candidates must be an integer of at least 0, got -1"),
        ({"score": "bge"}, TypeError, "score must be a BGe, BDeu, ConditionalGaussian or callable"),
        ({"score": ps.BDeu()}, ValueError, "BDeu needs binary, categorical or ordinal columns"),
        ({"score": ps.BGe(prior_scale=-1.0)}, ValueError, "BGe: prior_scale must be positive and finite, got -1.0"),
        ({"score": lambda c, p: float("nan")}, ValueError, "score of 'v0' given [] must be finite or -inf, got nan"),
        ({"interventions": np.zeros((3, 4), bool)}, ValueError, "interventions must be bool of shape (60, 4)"),
        ({"max_gigabytes": 1e-9}, ValueError, "more than max_gigabytes = 1e-09"),
    ],
)
def test_bad_arguments_are_refused(change, error, sentence):
    with pytest.raises(error) as caught:
        ps.LocalScores.from_data(gaussian_table(4), **change)
    assert sentence in str(caught.value)


def test_a_required_edge_that_the_score_cannot_have_is_named():
    df = gaussian_table(2).assign(c=pd.Categorical(["a", "b"] * 30))
    with pytest.raises(ValueError, match="required 'v1' -> 'c': the score conditional Gaussian rules this edge out"):
        ps.DagPosterior.from_data(df, ps.ConditionalGaussian(), required=[("v0", "v1"), ("v1", "c")])


def test_bad_data_is_refused():
    df = gaussian_table(4)
    mixed = df.assign(v3=pd.Categorical(["a", "b"] * 30))
    with pytest.raises(
        ValueError, match=r"BGe needs numeric columns, got \{'v3': 'categorical'\}; for mixed tables use"
    ):
        ps.LocalScores.from_data(mixed)
    gap = df.copy()
    gap.iloc[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"1 cells are missing, the first in column 'v2', row 7; .*ps.SPN"):
        ps.LocalScores.from_data(gap)
    with pytest.raises(ValueError, match=r"at most 1,000 variables are possible, got 1,001"):
        ps.LocalScores.from_data(np.random.default_rng(0).normal(size=(300, 1_001)))
    with pytest.raises(ValueError, match=r"column 'v1': its sum of squares .* or a larger prior_scale"):
        with pytest.warns(UserWarning, match="more than 10 times"):
            ps.LocalScores.from_data(df.assign(v1=df.v1 * 1e8))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("t", [None, 1e300])
def test_columns_whose_squares_are_no_floats_are_refused_without_warnings(t):
    with pytest.raises(ValueError, match=r"column 'v\d': its sum of squares inf is more than 1e\+13 times BGe's prior"):
        ps.LocalScores.from_data(gaussian_table(4) * 1e300, ps.BGe(prior_scale=t))


@pytest.mark.parametrize(
    ("one", "all_columns", "message"),
    [
        (1e-8, 1.0, "sd of 'v.' .* is more than 10 times that of 'v1'.* edges then depend on the units"),
        (1e3, 1.0, "sd of 'v1' .* is more than 10 times that of 'v.'.* edges then depend on the units"),
        (
            1.0,
            0.03,
            "suits columns whose sd is about 0.71, .* makes edges more probable; score them with standardize=True",
        ),
        (
            1.0,
            1e3,
            "suits columns whose sd is about 0.71, .* makes edges less probable; score them with standardize=True",
        ),
        (1.0, 1e-8, "have sums of squares below BGe's prior_scale"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*sums of squares below:UserWarning")
def test_units_that_the_prior_feels_are_warned_of(one, all_columns, message):
    """All columns times 1,000 took an edge from .22 to 0 without a word."""
    df = gaussian_table(4, n=2000)
    df = df.assign(v1=df.v1 * one) * all_columns
    with pytest.warns(UserWarning, match=message):
        ps.LocalScores.from_data(df)
    ps.LocalScores.from_data(df, standardize=True)  # as the message says: no warning is left


@pytest.mark.filterwarnings("ignore:BGe's prior scale suits columns:UserWarning")
def test_collinear_columns_are_refused_where_rounding_would_decide():
    """The exact log mass of the table with a sum of its columns was another by nats in each order of the columns."""
    df = pd.DataFrame(6e3 * np.random.default_rng(0).normal(size=(20_000, 3)), columns=["a", "b", "c"])
    df["total"] = df.sum(axis=1)
    for names in (["a", "b", "c", "total"], ["total", "c", "a", "b"]):
        with pytest.warns(UserWarning, match="are collinear"):
            with pytest.raises(ValueError, match=r"columns \['(a|total)'.* are collinear\. .* off by \S+ nats"):
                ps.LocalScores.from_data(df[names])
    masses = []
    for names in (["a", "b", "c", "total"], ["total", "c", "a", "b"], ["c", "total", "b", "a"]):
        with pytest.warns(UserWarning, match="are collinear"):
            masses.append(ps.OrderSPN.exact(ps.LocalScores.from_data(df[names] / 300.0)).log_mass)
    assert np.ptp(masses) < 1e-3


def test_degenerate_columns_are_named_and_scores_stay_finite():
    df = gaussian_table(4)
    for change, sentence in [
        ({"v1": 3.0}, r"columns \['v1'\] are constant"),
        ({"v1": 0.1}, r"columns \['v1'\] are constant"),
        ({"v1": df.v0 * 2 + df.v2}, r"columns \['v0', 'v1', 'v2'\] are collinear"),
        ({"v1": df.v1 * 100}, r"sd of 'v1' .* more than 10 times that of"),
    ]:
        with pytest.warns(UserWarning, match=sentence) as caught:
            scores = ps.LocalScores.from_data(df.assign(**change))
        assert np.isfinite(scores.log_scores).all() and {w.filename for w in caught} == {__file__}
    with pytest.warns(UserWarning, match=r"columns \['v0', 'v1', 'v2', 'v3'\] have sums of squares below BGe's prior"):
        # whose squares are no floats: the look for collinear columns ended in LinAlgError
        assert np.isfinite(ps.LocalScores.from_data(df * 1e-200).log_scores).all()
    with pytest.warns(UserWarning, match=r"fewer rows \(3\) than variables \(4\)") as caught:
        assert np.isfinite(ps.LocalScores.from_data(df[:3]).log_scores).all()
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(UserWarning, match=r"columns \['v0'\] have one value only"):
        ps.LocalScores.from_data(level_table(3).assign(v0=pd.Categorical(["a"] * 80)))
