"""Circuits made of circuits: densities, moments and draws against those of the parts."""

import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.factor_graphs.circuit_form import FieldCircuit
from tests.modes import PLAIN
from tests.shared_circuits import build, coded, codes_of, random_parameters

NUMBERS = ["x", "y", "n"]


LEVELS = {
    "a": ps.Column("a", "categorical", ("x", "y", "z"), "str"),
    "b": ps.Column("b", "binary", (False, True), "bool"),
    "c": ps.Column("c", "categorical", ("p", "q", "r", "s"), "str"),
}


def of_levels(seed, names):
    """A mixture of two over columns of levels, which it knows."""
    rng = np.random.default_rng(seed)

    def leaf(name):
        column = LEVELS[name]
        shares = rng.dirichlet(np.ones(len(column.levels)))
        return ps.circuits.leaf(
            column, "bernoulli" if name == "b" else "categorical", shares[-1:] if name == "b" else shares
        )

    return ps.circuits.mixture_of(
        [ps.circuits.product_of([leaf(name) for name in names]) for _ in range(2)], [0.4, 0.6]
    )


def level_rows(seed, names, n):
    """Codes (n, D), some of them missing."""
    rng = np.random.default_rng(seed)
    return with_gaps(np.column_stack([rng.integers(0, len(LEVELS[name].levels), n) for name in names]), seed)


def with_gaps(rows, seed, share=0.3):
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, np.nan, rows)


def of_numbers(seed, names=("x", "y", "n"), families=None):
    """A mixture of two over numbers, its columns in this order."""
    family = {"x": "gaussian", "y": "log_normal", "n": "poisson"} | (families or {})
    nodes = [("sum", [1, 2]), ("product", [3, 4, 5]), ("product", [6, 7, 8])]
    nodes += [("leaf", d, family[name]) for _ in range(2) for d, name in enumerate(names)]
    circuit = build(nodes, list(names), tuple(dict.fromkeys(family.values())))
    return circuit, *random_parameters(circuit, np.random.default_rng(seed))


def numbers(seed, n=40):
    rng = np.random.default_rng(seed)
    return with_gaps(np.column_stack([rng.normal(size=n), rng.gamma(2.0, size=n), rng.poisson(3.0, n)]), seed)


def log_density(given, rows):
    circuit, log_weights, parameters = given
    return circuit.with_parameters(log_weights, parameters).log_density(rows).values


def test_rows_of_a_circuit_that_knows_the_levels_of_some_columns():
    """Whole numbers that are levels were read as codes by `CircuitDensity`, and text was refused."""
    g = ps.Column("g", "categorical", (1, 2, 3), "int64")
    leaves = [
        ("x", "gaussian", (0.1, 1.2)),
        (g, "categorical", (0.2, 0.3, 0.5)),
        (LEVELS["a"], "categorical", (0.6, 0.3, 0.1)),
    ]
    both = ps.circuits.product_of([ps.circuits.leaf(*leaf) for leaf in leaves])
    frame = pd.DataFrame({"g": [1, 2, 3, 3], "a": ["z", "y", "x", None], "x": [0.5, -1.0, np.nan, 2.0]})
    codes = np.array([[0.5, 0.0, 2.0], [-1.0, 1.0, 1.0], [np.nan, 2.0, 0.0], [2.0, 2.0, np.nan]])
    exact = both.log_density(frame).values
    np.testing.assert_array_equal(both.log_density(codes), exact)
    for given in (frame, codes):
        with pm.Model() as model:
            ps.CircuitDensity("rows", both.circuit, both.log_weights, both.leaf_parameters, observed=given)
        assert model.compile_logp(mode=PLAIN)({}) == pytest.approx(exact.sum(), rel=1e-13)


def test_a_mixture_weighs_the_densities_of_its_parts():
    """Columns in another order, shared nodes, one part with more families; the tolerance is rounding."""
    parts = [of_numbers(0), of_numbers(1, ("n", "x", "y"), {"x": "student_t"}), of_numbers(2, ("y", "n", "x"))]
    rows, weights = numbers(3), [0.5, 0.3, 0.2]
    frame = pd.DataFrame(rows, columns=NUMBERS)
    of_parts = np.array([log_density(p, frame[list(p[0].names)].to_numpy()) for p in parts])
    for given, shares in ((weights, weights), (None, np.ones(3) / 3.0)):
        found = ps.circuits.mixture_of(parts, given)
        logs = found.log_density(rows).values
        np.testing.assert_allclose(logs, logsumexp(of_parts, axis=0, b=np.array(shares)[:, None]), rtol=0, atol=1e-12)
    assert found.circuit.names == tuple(NUMBERS) and found.circuit.children_of(0).tolist() == [1, 10, 19]
    again = ps.circuits.mixture_of([found])  # of one, which is a part itself
    np.testing.assert_allclose(again.log_density(rows).values, logs, rtol=0, atol=1e-12)


def test_a_product_multiplies_the_densities_of_its_parts():
    """Tables of three and of four levels, and a mixture of numbers."""
    parts = [of_levels(0, "ab"), of_levels(1, "c"), ps.circuits.mixture_of([of_numbers(0)])]
    found = ps.circuits.product_of(parts)
    assert found.circuit.names == ("a", "b", "c", *NUMBERS)
    assert found.leaf_parameters["categorical"].shape[1] == 4
    codes = level_rows(1, "abc", 40)
    rows = np.hstack([codes, numbers(2)])
    of_parts = coded(parts[0].circuit, codes[:, :2]), coded(parts[1].circuit, codes[:, 2:]), rows[:, 3:]
    expected = sum(p.log_density(r).values for p, r in zip(parts, of_parts, strict=True))
    np.testing.assert_allclose(found.log_density(rows).values, expected, rtol=0, atol=1e-12)
    assert [found.circuit.scope(v) for v in found.circuit.children_of(0)] == [p.circuit.names for p in parts]


def test_levels_that_a_part_does_not_know_have_no_mass_under_it():
    leaf = build([("leaf", 0, "categorical")], ["a"], ("categorical",))
    narrow, wide = ((leaf, np.zeros(0), {"categorical": np.array([p])}) for p in ([0.4, 0.6], [0.2, 0.3, 0.5]))
    found = ps.circuits.mixture_of([narrow, wide], [0.25, 0.75])
    logs = found.log_density([[0.0], [1.0], [2.0]]).values
    np.testing.assert_allclose(np.exp(logs), [0.25, 0.375, 0.375], rtol=0, atol=1e-15)


def test_mixtures_of_parts_in_other_orders_answer_questions():
    """Every cell of a table of levels: mass one, conditional probabilities, draws within five standard errors."""
    found = ps.circuits.mixture_of([of_levels(1, "abc"), of_levels(2, "cba")], [0.7, 0.3])
    cells = np.array(list(itertools.product(range(3), range(2), range(4))), float)
    mass = np.exp(found.log_density(coded(found.circuit, cells)).values)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    at = (cells[:, 0] == 1) & (cells[:, 1] == 0)
    conditional = found.probability({"c": "s"}, given={"a": "y", "b": False})
    assert float(conditional) == pytest.approx(mass[at & (cells[:, 2] == 3)].sum() / mass[at].sum(), abs=1e-12)
    drawn = codes_of(found.circuit, found.sample(20_000, random_seed=1))
    shares = (drawn[:, None] == cells).all(axis=2).mean(axis=0)
    assert np.all(np.abs(shares - mass) < 5.0 * np.sqrt(mass / 20_000))


def test_a_circuit_that_holds_its_parameters_is_a_part():
    field = FieldCircuit(*LEVEL[0], 0.0)
    found = ps.circuits.product_of([field, of_numbers(0)])
    rows = np.hstack([[[0.0], [np.nan]], numbers(0)[:2]])
    expected = field.log_density(coded(field.circuit, rows[:, :1])).values + log_density(of_numbers(0), rows[:, 1:])
    np.testing.assert_allclose(found.log_density(rows).values, expected, rtol=0, atol=1e-12)


GOOD, OTHER = of_numbers(0), of_numbers(1, ("n", "x", "y"))
LEVEL = [
    (build([("leaf", 0, "categorical")], [ps.Column("a", "categorical", tuple(names), "str")], ("categorical",)),
     np.zeros(0), {"categorical": np.array([[0.5, 0.5]])})
    for names in ("xy", "xz")
]  # fmt: skip


@pytest.mark.parametrize(
    ("circuits", "weights", "error", "message"),
    [
        ([], None, ValueError, "circuits must hold at least one circuit, got none"),
        (5, None, TypeError, "circuits must be a sequence of circuits with parameters, got int"),
        (GOOD[0], None, TypeError, "circuits must be a sequence of circuits with parameters, got Circuit"),
        ({"a": GOOD}, None, TypeError, "circuits must be a sequence of circuits with parameters, got dict"),
        ([(GOOD[0], "none", GOOD[2])], None, ValueError, r"circuits\[0\]: log_weights must hold numbers, got str"),
        ([(*GOOD[:2], None)], None, TypeError, r"circuits\[0\]: leaf_parameters must be a mapping .* got None"),
        ([(*GOOD[:2], GOOD[2] | {"gaussian": "wide"})], None, ValueError,
         r"circuits\[0\]: leaf_parameters\['gaussian'\] must hold numbers, got str"),
        ([GOOD, GOOD[0]], None, TypeError, r"circuits\[1\] must have a circuit, .* got Circuit"),
        ([GOOD, (GOOD[0], np.zeros(1), GOOD[2])], None, ValueError, r"circuits\[1\]: log_weights must have shape"),
        ([GOOD, LEVEL[0]], None, ValueError, r"'x' is in circuits\[0\] and not in circuits\[1\]"),
        (LEVEL, None, ValueError, r"column 'a' must be of the same kind and levels .*\('x', 'z'\) in circuits\[1\]"),
        (
            [GOOD, of_numbers(0, families={"n": "exponential"})], None, ValueError,
            r"column 'n' must have densities in all circuits .* masses in circuits\[0\] and densities in circuits\[1\]",
        ),
        ([GOOD, OTHER], [1.0], ValueError, r"weights must hold a number for each of the 2 circuits, got \[1.0\]"),
        ([GOOD, OTHER], 1.0, ValueError, "weights must hold a number for each of the 2 circuits, got 1.0"),
        ([GOOD, OTHER], np.array(0.5), ValueError, r"a number for each of the 2 circuits, got array\(0.5\)"),
        ([GOOD, OTHER], {0.3, 0.7}, ValueError, r"weights must hold a number for each of the 2 circuits, got \{0"),
        ([GOOD, OTHER], {0.3: 1, 0.7: 2}, ValueError, "weights must hold a number for each of the 2 circuits, got"),
        ([GOOD, OTHER], [1.0, 0.0], ValueError, "weights must be positive finite numbers, got 0.0 at place 1"),
        ([GOOD, OTHER], [np.nan, 1.0], ValueError, "weights must be positive finite numbers, got nan at place 0"),
        ([GOOD, OTHER], [True, 1.0], ValueError, "weights must be positive finite numbers, got True at place 0"),
        ([GOOD, OTHER], [0.5, 0.6], ValueError, r"weights must add up to 1, got \[0.5, 0.6\], which add up to 1.1"),
    ],
)  # fmt: skip
def test_what_a_mixture_refuses(circuits, weights, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.mixture_of(circuits, weights)


def test_a_product_refuses_columns_twice():
    with pytest.raises(ValueError, match=r"disjoint columns, 'n' is in circuits\[0\] and circuits\[2\]"):
        ps.circuits.product_of([GOOD, LEVEL[0], OTHER])
