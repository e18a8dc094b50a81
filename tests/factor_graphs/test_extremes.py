"""Where linear arithmetic would fail: long chains, steep potentials, impossible evidence; known partition functions."""

import numpy as np
import pytest
import xarray as xr

from pymc_spn import FactorGraph
from pymc_spn.factor_graphs import linear_messages
from pymc_spn.factor_graphs.passes import run
from pymc_spn.numerics.read_only_views import read_only_view
from tests.factor_graphs.graphs import build
from tests.reference_factor_graphs import hmm_log_likelihood, joint, log_sum, log_values, probabilities


def transfer_matrix_log_z(n, coupling, ring):
    """Ising chain without field: l1^n + l2^n on a ring, 2 l1^(n-1) otherwise."""
    l1, l2 = np.log(2 * np.cosh(coupling)), np.log(2 * np.sinh(coupling))
    return n * l1 + np.log1p(np.exp(n * (l2 - l1))) if ring else np.log(2) + (n - 1) * l1


@pytest.mark.parametrize("n", [3, 50, 5000])
def test_ising_chain_and_ring_equal_the_transfer_matrix(n):
    for ring in (False, True):
        tree = FactorGraph.ising(n, 0.7, periodic=ring).compile()
        assert tree.width == 1 + ring
        expected = transfer_matrix_log_z(n, 0.7, ring)
        assert tree.log_z == pytest.approx(expected, rel=1e-13)


def test_a_torus_of_four_by_four_equals_enumeration():
    tree = FactorGraph.ising((4, 4), 0.3, 0.1, periodic=True).compile()
    spins = 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1).reshape(-1, 4, 4) - 1
    energy = 0.1 * spins.sum(axis=(1, 2))
    for axis in (1, 2):
        energy = energy + 0.3 * np.sum(spins * np.roll(spins, 1, axis=axis), axis=(1, 2))
    assert tree.log_z == pytest.approx(log_sum(energy.tolist()), rel=1e-13)
    top = energy.max()
    p_up = np.sum(np.exp(energy - top) * (spins[:, 1, 2] == 1)) / np.sum(np.exp(energy - top))
    assert float(tree.infer().marginal("x1_2").sel(x1_2=1)) == pytest.approx(p_up, abs=1e-13)


def test_a_chain_of_a_hundred_thousand_with_steep_potentials():
    n = 100_000
    fg = FactorGraph({f"v{i}": 2 for i in range(n)})
    fg.add_factors([(f"v{i}", f"v{i + 1}") for i in range(n - 1)], 8.0 * np.eye(2))
    tree = fg.compile()
    expected = np.log(2) + (n - 1) * np.logaddexp(8.0, 0.0)
    r = tree.infer()
    assert float(r.log_z) == pytest.approx(expected, rel=1e-13)
    assert r.marginal("v77777").values == pytest.approx([0.5, 0.5], abs=1e-10)


def steep_problem():
    """Factors whose products span more than the range of float64; x2 = 1 is possible through a path of 1e-400."""
    rng = np.random.default_rng(3)
    cards = (2, 2, 2, 3)
    factors = [
        ((0, 1), np.array([[0.0, -500.0], [-480.0, -900.0]])),
        ((1, 2), np.array([[0.0, -np.inf], [-450.0, -30.0]])),
        ((2, 3), -300.0 * rng.random((2, 3))),
        ((0,), np.array([0.0, -250.0])),
    ]
    return cards, factors


def test_rows_that_underflow_are_done_in_the_log_domain_and_agree_with_enumeration():
    cards, factors = steep_problem()
    fg = build(cards, factors)
    tree = fg.compile()
    codes = np.array([[-1, -1, 1, -1], [-1, -1, -1, -1], [1, -1, 1, 2], [1, 1, 1, 1]], dtype=np.int32)
    potentials = fg.potentials()[None]
    out = run(tree.plan, potentials, codes, None, 4, marginals=True, gradient=True, keep=(0,))
    linear = run_linear_only(tree, potentials, codes)
    assert np.any(linear == linear_messages.UNDERFLOW)  # the fallback is what is tested here
    gradient = np.zeros(potentials.shape[1])
    for i in range(4):
        values = log_values(cards, factors, [None if c < 0 else c for c in codes[i]])
        p = probabilities(values)
        assert out.log_z[i] == pytest.approx(log_sum(values), rel=1e-13)
        marginal = np.concatenate([joint(cards, p, [v]) for v in range(4)])
        np.testing.assert_allclose(out.marginals[i], marginal, atol=1e-12)
        gradient += np.concatenate([joint(cards, p, s).ravel() for s, _ in factors])
        assert out.kept[i].sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(out.gradient[0], gradient, atol=1e-12)


def run_linear_only(tree, potentials, codes):
    arrays = tree.plan.arrays
    status = np.zeros(len(codes), np.int8)
    none = np.empty((0, 0))
    soft = np.empty((0, int(arrays.state_start[-1])))
    unkept = np.full(tree.plan.n_cliques, -1)
    linear_messages.pass_messages(
        arrays, *map(read_only_view, (potentials, codes, soft, np.empty(0))), unkept, np.empty(len(codes)), none, none,
        np.empty((len(codes), 0)), status,
    )  # fmt: skip
    return status


def test_rows_in_linear_and_in_log_arithmetic_agree_side_by_side():
    """The same rows with one shifted by soft evidence so far that it underflows."""
    rng = np.random.default_rng(8)
    fg = FactorGraph.hmm(6, np.log(rng.dirichlet(np.ones(3))), np.log(rng.dirichlet(np.ones(3), size=3)))
    soft = {f"z{t}": rng.normal(size=(9, 3)) for t in range(6)}
    for t in range(6):
        soft[f"z{t}"][4] = -400.0 * rng.random(3)
    tree = fg.compile()
    r = tree.infer(soft_evidence=soft)
    initial, transition = fg.log_table(0), fg.log_table(1)
    for i in range(9):
        emission = np.array([soft[f"z{t}"][i] for t in range(6)])
        assert float(r.log_z[i]) == pytest.approx(hmm_log_likelihood(initial, transition, emission), rel=1e-12)


def test_impossible_evidence_is_minus_infinity_and_names_the_row():
    fg = FactorGraph({"a": ["no", "yes"], "b": 2})
    with np.errstate(divide="ignore"):
        fg.add_factor(("a", "b"), np.log([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.warns(UserWarning, match=r"^row 2: evidence of probability zero; log_z is -inf"):
        r = fg.compile().infer({"a": ["yes", None, "no"], "b": [1, 1, 1]})
    assert r.log_z.values[2] == -np.inf and r.log_evidence.values[2] == -np.inf
    assert np.all(np.isfinite(r.log_z[:2]))
    assert not any(np.any(np.isnan(m)) for m in [*r.marginals().values(), r.factor_marginal(0), r.entropy()])
    assert np.all(r.marginal("a")[2] == 0.0)
    with pytest.raises(ValueError, match="map: row 2 has probability zero"):
        r.map()


def test_a_graph_without_any_possible_configuration():
    fg = FactorGraph({"a": 2})
    fg.add_factor((), -np.inf)
    with pytest.warns(UserWarning, match="the evidence: evidence of probability zero"):
        r = fg.compile().infer()
    assert float(r.log_z) == -np.inf and np.all(r.marginal("a") == 0)
    with pytest.raises(ValueError, match="to_circuit: every configuration of the graph is impossible"):
        fg.compile().to_circuit()
    with pytest.raises(ValueError, match="log_evidence: every configuration of the graph is impossible"):
        _ = r.log_evidence  # was NaN: nothing over nothing


def test_answers_are_marked_and_labelled():
    fg = FactorGraph.tree([("p", "q")], {"p": ["x", "y"], "q": 3}, np.zeros((2, 3)))
    r = fg.compile().infer({"q": [0, np.nan]})
    assert r.log_z.attrs["exactness"] == r.map().attrs["exactness"] == "exact"
    assert r.sample(2, random_seed=1).attrs["exactness"] == "exact simulation"
    joint_pq = r.pairwise("q", "p")
    assert isinstance(joint_pq, xr.DataArray) and joint_pq.dims == ("row", "q", "p")
    assert joint_pq.coords["p"].values.tolist() == ["x", "y"]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_underflows_early_and_wins_in_the_end_is_not_lost(backwards):
    """Two states that never change: the second falls behind by 1e-313 at once, the first by 1e-190 twice."""
    soft = np.array([[0.0, -720.0], [-437.0, 0.0], [-437.0, 0.0], [0.0, 0.0]])[:: -1 if backwards else 1]
    tree = FactorGraph.hmm(4, np.log([0.5, 0.5]), [[0.0, -np.inf], [-np.inf, 0.0]]).compile()
    r = tree.infer(soft_evidence={f"z{t}": soft[t] for t in range(4)})
    assert float(r.log_z) == pytest.approx(np.log(0.5) - 720.0, abs=1e-10)
    for t in range(4):
        assert r.marginal(f"z{t}").values == pytest.approx([0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize("n", [700, 5000])
@pytest.mark.parametrize("second", [0.95, 0.6])
def test_a_hub_multiplies_any_number_of_messages(n, second):
    """Messages of 1.95 or 1.6, which no power of two brings to one: 1.6 ** 5000 is no float."""
    leaves = [f"l{i}" for i in range(n)]
    fg = FactorGraph({name: 2 for name in ("hub", *leaves)})
    fg.add_factors([("hub", leaf) for leaf in leaves], np.log([[1.0, second], [0.1, 0.2]]))
    r = fg.compile().infer()
    assert float(r.log_z) == pytest.approx(n * np.log(1.0 + second), rel=1e-12)
    assert r.marginal("hub").values == pytest.approx([1.0, 0.0], abs=1e-12)
    assert r.marginal("l7").values == pytest.approx(np.array([1.0, second]) / (1.0 + second), abs=1e-12)
