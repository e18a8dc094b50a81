"""Forward draws against the exact law and two other samplers; the Indian buffet as a special case; refusals."""

import decimal
import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, chisquare, poisson

import pymc_spn as ps
from pymc_spn.indian_chefs.prior_density import make_prior
from tests import reference_indian_chefs as reference
from tests.indian_chefs.prior_chains import exact_draws, z_scores
from tests.indian_chefs.small_graphs import MIXED_BASE

SETTINGS = [(1.0, 1.5, 1.0), (0.4, 2.0, 2.0), (3.0, 1.2, 0.5)]
FREE = np.nan


def chi2_p(counts, law):
    """p value of counts against a law whose tail is put together."""
    n = counts.sum()
    keep = int((law * n >= 5).sum())
    observed = np.append(counts[:keep], counts[keep:].sum())
    expected = np.append(law[:keep] * n, n - (law[:keep] * n).sum())
    return chisquare(observed, expected * n / expected.sum()).pvalue


@pytest.mark.parametrize("reputations", [[0.0], [0.0] * 3, [FREE] * 2, [1.0, FREE, 0.3]])
@pytest.mark.parametrize("setting", SETTINGS)
def test_number_of_nodes_follows_the_exact_law(setting, reputations):
    drawn = exact_draws(reputations, make_prior(*setting), 50_000, 1, max_nodes=160)[:, 0].astype(int)
    d = len(reputations)
    law = ps.indian_chefs.node_count_pmf(*setting[:2], d, 160, [None if np.isnan(r) else r for r in reputations])
    assert law.attrs["beyond"] < 1e-9
    assert chi2_p(np.bincount(drawn, minlength=161)[d:], law.values[d:]) > 1e-3


def law_by_histories(alpha, gamma, reputations, levels, most):
    """P(n nodes), n up to `most`: every place of the free nodes, every number of hidden nodes at every level."""
    law = np.zeros(most + 1)
    free = [i for i, r in enumerate(reputations) if r is None]
    for places in product(levels, repeat=len(free)):
        weight = float(np.prod([levels[t] for t in places]))
        theta = list(reputations)
        for i, t in zip(free, places, strict=True):
            theta[i] = t
        for born in product(range(most - len(theta) + 1), repeat=len(levels)):
            if len(theta) + sum(born) > most:
                continue
            p = weight
            for j, (level, mass) in enumerate(levels.items()):
                below = sum(t < level for t in theta) + sum(born[:j])
                p *= poisson.pmf(born[j], mass * alpha * gamma * sum(1 / (alpha + i) for i in range(below)))
            law[len(theta) + sum(born)] += p
    return law


@pytest.mark.parametrize("reputations", [[0.0, 0.0], [None, 0.5], [None, None]])
def test_the_law_with_levels_is_the_sum_over_histories(reputations):
    levels = {0.25: 0.3, 0.5: 0.3, 1.0: 0.4}
    law = ps.indian_chefs.node_count_pmf(1.3, 1.1, 2, 8, reputations, levels)
    np.testing.assert_allclose(law, law_by_histories(1.3, 1.1, reputations, levels, 8), atol=1e-12)


@pytest.mark.parametrize("reputations", [[0.0, 0.5], [FREE, 0.3]])
def test_law_and_edges_where_the_base_measure_has_atoms(reputations):
    base = {"uniform": MIXED_BASE[0], **dict(zip(*MIXED_BASE[1:], strict=True))}
    drawn = exact_draws(reputations, make_prior(*SETTINGS[1], MIXED_BASE), 50_000, 1, max_nodes=160)
    given = [None if np.isnan(r) else r for r in reputations]
    law = ps.indian_chefs.node_count_pmf(*SETTINGS[1][:2], 2, 160, given, base)
    assert chi2_p(np.bincount(drawn[:, 0].astype(int), minlength=161)[2:], law.values[2:]) > 1e-3
    expected = ps.indian_chefs.expected_graph(*SETTINGS[1], 2, given, base)
    assert float(expected.nodes) == pytest.approx(float(law.values @ np.arange(161)), abs=1e-8)
    edges = float(expected.hidden_edges + expected.observed_edges)
    error = drawn[:, 1].std() / np.sqrt(len(drawn))
    assert np.isnan(edges) if None in given else abs(drawn[:, 1].mean() - edges) < 4 * error


def test_the_law_has_its_hand_values():
    np.testing.assert_allclose(
        ps.indian_chefs.node_count_pmf(1.0, 1.5, 1, 40).values[1:7],
        [0.2231, 0.2355, 0.1999, 0.1448, 0.0925, 0.0531],
        atol=5e-5,
    )
    for d, nodes in ((1, 3.0518), (2, 4.7748), (3, 6.2239)):
        assert float(ps.indian_chefs.expected_graph(1.0, 1.5, 1.0, d).nodes) == pytest.approx(nodes, abs=1e-4)
    for alpha, nodes in ((0.1, 3.14), (1.0, 3.97), (10.0, 5.88), (1000.0, 7.36)):
        assert float(ps.indian_chefs.expected_graph(alpha, 2.0, 1.0, 1).nodes) == pytest.approx(nodes, abs=0.01)


def law_in_decimals(alpha, gamma, n_free, most):
    """P(n nodes) where all observed nodes are free: the power series of the exponential, with eighty digits."""
    with decimal.localcontext(prec=80):
        a, g = decimal.Decimal(alpha), decimal.Decimal(gamma)
        rates = g * np.cumsum([decimal.Decimal(0), *(a / (a + n) for n in range(most))])
        term = np.full((n_free + 1, most + 1), decimal.Decimal(0))
        term[0, 0] = decimal.Decimal(1)
        total = term.copy()
        for k in range(1, 200):
            new = -term * rates
            new[:, 1:] += (term * rates)[:, :-1]
            new[1:, 1:] += term[:-1, :-1]
            term = new / k
            total = total + term
        return (total[-1] * math.factorial(n_free)).astype(float)


@pytest.mark.parametrize(("alpha", "gamma", "n_free"), [(1.0, 1.5, 3), (0.001, 0.001, 2), (0.5, 2.0, 12)])
def test_every_probability_of_the_law_has_its_digits(alpha, gamma, n_free):
    law = ps.indian_chefs.node_count_pmf(alpha, gamma, n_free, 24, reputations=None).values
    np.testing.assert_allclose(law, law_in_decimals(alpha, gamma, n_free, 24), rtol=1e-12)


@pytest.mark.parametrize("gamma", [100.0, 1000.0])  # the second by the dense exponential
def test_the_law_at_high_rates_is_that_of_the_matrix_exponential(gamma):
    from scipy.linalg import expm

    rates = gamma * np.cumsum([0.0, *(1.0 / (1.0 + np.arange(60)))])
    start = np.eye(61)[3]
    law = start @ expm(0.7 * (np.diag(-rates) + np.diag(rates[:-1], 1)))
    found = ps.indian_chefs.node_count_pmf(1.0, gamma, 3, 60, base={0.0: 0.3, "uniform": 0.7}).values
    np.testing.assert_allclose(found, law, atol=1e-12)


@pytest.mark.parametrize("reputations", [[0.0], [0.0] * 3, [0.8, 0.3, 0.3]])
def test_expected_edges(reputations):
    for setting in SETTINGS[:2]:
        expected = ps.indian_chefs.expected_graph(*setting, len(reputations), reputations)
        drawn = exact_draws(reputations, make_prior(*setting), 50_000, 2, max_nodes=160)
        edges = float(expected.hidden_edges + expected.observed_edges)
        assert abs(drawn[:, 1].mean() - edges) < 4 * drawn[:, 1].std() / np.sqrt(len(drawn))


def drawn_by(sampler, reputations, setting, n, seed, **options):
    rng = np.random.default_rng(seed)
    graphs = (sampler(rng, np.array(reputations), *setting, **options) for _ in range(n))
    return np.array([reference.statistics(*g, len(reputations)) for g in graphs])


CASES = [([FREE] * 3, SETTINGS[0]), ([0.0] * 3, SETTINGS[1]), ([0.0], SETTINGS[2])]


@pytest.mark.parametrize(("reputations", "setting"), CASES)
def test_chefs_and_the_finite_model_agree_with_the_birth_process(reputations, setting):
    ours = exact_draws(reputations, make_prior(*setting), 40_000, 3, max_nodes=160)
    chefs = drawn_by(reference.corrected_chefs, reputations, setting, 4000, 4)
    assert np.abs(z_scores(chefs, ours)).max() < 4.5
    finite = drawn_by(reference.finite_model, reputations, setting, 1000, 5, K=1000)
    assert np.abs(z_scores(finite, ours)).max() < 4.5


@pytest.mark.parametrize(
    ("printed", "reputations", "setting"),
    [("whole_map", [FREE] * 3, SETTINGS[1]), ("binomial", [0.0] * 6 + [0.9], SETTINGS[0])],
)
def test_the_published_slips_are_seen(printed, reputations, setting):
    """Chefs that wait counted in (11); Binomial for Beta-binomial in (10), invisible unless observed nodes join."""
    ours = exact_draws(reputations, make_prior(*setting), 40_000, 6, max_nodes=160)
    wrong = drawn_by(reference.corrected_chefs, reputations, setting, 1500, 7, printed=printed)
    right = drawn_by(reference.corrected_chefs, reputations, setting, 1500, 7)
    assert np.abs(z_scores(wrong, ours)).max() > 6.0
    assert np.abs(z_scores(right, ours)).max() < 4.5


def test_hidden_nodes_at_one_are_the_dishes_of_an_indian_buffet():
    d, alpha, gamma = 2, 1.7, 2.0
    graphs = ps.indian_chefs.sample_indian_chefs(alpha, gamma, 1.0, d, draws=20_000, random_seed=1, base=1.0)
    dishes = graphs.n_active.values - d
    rate = gamma * (alpha / (alpha + np.arange(d))).sum()
    counts = np.bincount(dishes)
    law = poisson.pmf(np.arange(len(counts)), rate)
    assert chi2_p(counts, law) > 1e-3
    np.testing.assert_allclose(
        ps.indian_chefs.node_count_pmf(alpha, gamma, d, 40, base=1.0)[d : d + len(law)], law, atol=1e-12
    )
    ours = columns(graphs.parents.values[:, d:, :d])
    rng = np.random.default_rng(2)
    theirs = columns([reference.ibp_draw(rng, d, gamma, alpha) for _ in range(20_000)])
    total = ours + theirs
    statistic = ((ours - theirs) ** 2 / np.maximum(total, 1)).sum()
    assert chi2.sf(statistic, (total > 0).sum()) > 1e-3


def columns(draws):
    """How often each set of customers is the whole company of a dish."""
    out = 0
    for z in draws:
        z = np.asarray(z)[np.asarray(z).any(1)]
        out = out + np.bincount(z @ (1 << np.arange(z.shape[1])), minlength=1 << z.shape[1])
    return out


def test_a_table_is_no_names():
    with pytest.raises(
        TypeError, match=r"(?s)n_observed must be names or their number; got .*take list\(n_observed.columns\)"
    ):
        ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, pd.DataFrame({"a": [0.0]}))


def test_a_number_names_a_node_as_its_digits_do():
    by_number = ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, [7, 8], {7: 0.0, 8: 0.5}, draws=5, random_seed=1)
    by_text = ps.indian_chefs.sample_indian_chefs(
        1.0, 1.5, 1.0, ["7", "8"], {"7": 0.0, "8": 0.5}, draws=5, random_seed=1
    )
    assert by_number.identical(by_text)
    with pytest.raises(ValueError, match="reputations names column '7' twice, by a number and by text"):
        ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, ["7", "8"], {"7": 0.0, 7: 0.5, 8: 0.5})


def test_forward_draws_differ_without_a_seed():
    """The default was a seed: two simulations of a study were one."""
    first, second = (ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, 2, None, draws=20) for _ in range(2))
    assert not first.identical(second)


def test_forward_draws_are_labelled_and_repeatable():
    first = ps.indian_chefs.sample_indian_chefs(
        1.0, 1.5, 1.0, ["a", "b"], {"a": 0.0, "b": None}, draws=50, random_seed=3
    )
    again = ps.indian_chefs.sample_indian_chefs(
        1.0, 1.5, 1.0, ["a", "b"], {"a": 0.0, "b": None}, draws=50, random_seed=3
    )
    other = ps.indian_chefs.sample_indian_chefs(
        1.0, 1.5, 1.0, ["a", "b"], {"a": 0.0, "b": None}, draws=50, random_seed=4
    )
    assert first.identical(again) and not first.identical(other)
    assert list(first.node.values[:3]) == ["a", "b", "hidden_1"]
    theta = first.reputations.values
    for s, n in enumerate(first.n_active.values):
        assert np.isnan(theta[s, n:]).all() and (np.diff(theta[s, 2:n]) >= 0).all()
        k, i = np.nonzero(first.parents.values[s])
        assert (theta[s, k] > theta[s, i]).all()


def test_large_draws_are_not_cut():
    graphs = ps.indian_chefs.sample_indian_chefs(10.0, 3.0, 1.0, 3, draws=300, random_seed=1)
    expected = float(ps.indian_chefs.expected_graph(10.0, 3.0, 1.0, 3).nodes)
    assert int(graphs.n_active.max()) > 32
    assert abs(float(graphs.n_active.mean()) - expected) < 5 * float(graphs.n_active.std()) / np.sqrt(300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, "alpha must be positive and finite; got 0.0"),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"phi": np.nan}, "phi must be positive"),
        ({"n_observed": 0}, "at least one node"),
        ({"n_observed": ["a", "a"]}, "'a' occurs more than once"),
        ({"reputations": 1.0}, "leave no structure"),
        ({"reputations": 1.5}, r"must lie in \[0, 1\]"),
        ({"reputations": [0.0]}, "one number or 2"),
        ({"reputations": {"x1": 0.0}}, "missing \\['x2'\\]"),
        ({"base": {0.5: 0.4}}, "sum to 0.4"),
        ({"base": {2.0: 1.0}}, "keys"),
        ({"base": {0.5: 1.0}, "reputations": 0.5}, "leave no structure"),
        ({"draws": 0}, "draws must be an integer"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, message):
    settings = {"alpha": 1.0, "gamma": 1.0, "phi": 1.0, "n_observed": 2} | arguments
    with pytest.raises(ValueError, match=message):
        ps.indian_chefs.sample_indian_chefs(**settings)


def test_types_are_named():
    with pytest.raises(TypeError, match="alpha must be a positive number"):
        ps.indian_chefs.sample_indian_chefs("a", 1.0, 1.0, 2)
    for value in (True, "1"):
        with pytest.raises(TypeError, match=f"gamma must be a positive number; got {value!r}"):
            ps.indian_chefs.sample_indian_chefs(1.0, value, 1.0, 2)
    with pytest.raises(TypeError, match=r"max_nodes must be an integer; got 8\.0"):
        ps.indian_chefs.node_count_pmf(1.0, 1.0, 3, 8.0)
    with pytest.raises(TypeError, match="n_observed must be names"):
        ps.indian_chefs.sample_indian_chefs(1.0, 1.0, 1.0, "ab")
    with pytest.raises(ValueError, match="max_nodes must be at least"):
        ps.indian_chefs.node_count_pmf(1.0, 1.0, 3, 2)
    with pytest.raises(ValueError, match=r"gamma must be at most 1e\+100 for the law .*; got 1e\+150"):
        ps.indian_chefs.node_count_pmf(1.0, 1e150, 2, 40)  # was NaN, marked exact
