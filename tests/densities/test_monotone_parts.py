"""Weights of either sign at every sum: against the recursion, sums over all cells, and numbers for tensors."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_spn as ps
from tests.modes import PLAIN

COLUMNS = ["k", "on", "off", "n"]
CELLS = np.array(list(product(range(3), range(2), range(2), range(2))), np.float64)


def signed_circuit(seed, balance=0.5):
    """Two children a sum, three a product; weights of either sign, some 0, parameters of the leaves."""
    rng = np.random.default_rng(seed)
    columns = ps.circuits.complete_tree(COLUMNS[:2], n_children=2).circuit({"k": ["categorical"], "on": ["bernoulli"]})
    others = [ps.circuits.complete_tree([name], n_children=2).circuit({name: ["bernoulli"]}) for name in COLUMNS[2:]]
    parts = [with_parameters(c, rng) for c in (columns, *others)]
    whole = ps.circuits.mixture_of(
        [ps.circuits.product_of(parts), ps.circuits.product_of([with_parameters(c, rng) for c in (columns, *others)])]
    )
    circuit = whole.circuit
    weights = rng.normal(size=circuit.n_sum_edges) * np.where(rng.random(circuit.n_sum_edges) < balance, 1.0, -1.0)
    return circuit, weights, whole.leaf_parameters


def with_parameters(circuit, rng):
    degree = np.bincount(circuit.edge_sum, minlength=circuit.n_nodes)
    given = {
        "categorical": lambda n: rng.dirichlet(np.ones(3), n),
        "bernoulli": lambda n: rng.uniform(0.1, 0.9, (n, 1)),
    }
    parameters = {name: given[name](circuit.leaves_of(name).size) for name in circuit.families}
    return circuit, -np.log(degree[circuit.edge_sum]), parameters


def value(circuit, weights, leaf_parameters, rows):
    """What the sums and products of the circuit come to (n,), node by node."""
    found = np.empty((circuit.n_nodes, len(rows)))
    row_of = {leaf: (name, i) for name in circuit.families for i, leaf in enumerate(circuit.leaves_of(name))}
    for node in range(circuit.n_nodes - 1, -1, -1):
        below = found[circuit.children_of(node)]
        if circuit.kind[node] == 2:
            name, i = row_of[node]
            cells, parameters = rows[:, circuit.leaf_column[node]].astype(int), leaf_parameters[name][i]
            found[node] = (parameters if name == "categorical" else np.array([1.0 - parameters[0], parameters[0]]))[
                cells
            ]
        elif circuit.kind[node] == 1:
            found[node] = below.prod(axis=0)
        else:
            found[node] = weights[circuit.edge_sum == node] @ below
    return found[0]


def of_parts(parts, rows):
    logs = [
        circuit.with_parameters(log_weights, own).log_density(rows) for circuit, log_weights, own in parts.components
    ]
    return parts.coefficients @ np.exp(logs)


@pytest.mark.parametrize("seed", range(4))
def test_parts_differ_by_the_circuit(seed):
    """Up to one factor for all rows, for weights of either sign or 0."""
    circuit, weights, leaf_parameters = signed_circuit(seed)
    weights[seed::5] = 0.0

    found = of_parts(ps.circuits.monotone_parts(circuit, weights, leaf_parameters), CELLS)

    expected = value(circuit, weights, leaf_parameters, CELLS)
    at = np.argmax(np.abs(expected))
    np.testing.assert_allclose(
        found * abs(expected[at] / found[at]), expected, rtol=1e-12, atol=1e-13 * abs(expected[at])
    )


def test_a_circuit_of_one_sign_is_one_part():
    circuit, weights, leaf_parameters = signed_circuit(1)

    for sign in (1.0, -1.0):
        root = np.where(circuit.edge_sum == 0, sign, 1.0) * np.abs(weights)
        parts = ps.circuits.monotone_parts(circuit, root, leaf_parameters)

        assert len(parts.components) == 1
        assert parts.coefficients.tolist() == [sign]
        expected = np.abs(value(circuit, root, leaf_parameters, CELLS))
        np.testing.assert_allclose(of_parts(parts, CELLS) * sign, expected / expected.sum(), rtol=1e-12)


def test_the_square_is_a_density():
    """Each row's probability, and that of rows with gaps: the square of the recursion over its sum over all cells."""
    circuit, weights, leaf_parameters = signed_circuit(2)
    squares = ps.circuits.SumOfSquares(*ps.circuits.monotone_parts(circuit, weights, leaf_parameters))
    square = value(circuit, weights, leaf_parameters, CELLS) ** 2

    # what cancels in the normaliser costs a factor of the terms that are left
    rtol = 1e-13 / squares.acceptance_rate
    np.testing.assert_allclose(np.exp(squares.log_density(CELLS)), square / square.sum(), rtol=rtol)
    gap = np.array([[1.0, np.nan, 0.0, np.nan]])
    agree = (CELLS[:, 0] == 1.0) & (CELLS[:, 2] == 0.0)
    assert np.exp(squares.log_density(gap)[0]) == pytest.approx(square[agree].sum() / square.sum(), rel=100 * rtol)


def test_weights_that_are_tensors():
    """The same parts as of numbers, and slopes as of differences, also where one of the parts is empty."""
    circuit, weights, leaf_parameters = signed_circuit(3)
    symbol = pt.vector("weights")
    parts = ps.circuits.monotone_parts(circuit, symbol, leaf_parameters)
    with pm.Model():
        ps.circuits.SumOfSquaresDensity("x", *ps.circuits.monotone_parts(circuit, symbol, leaf_parameters), CELLS)
        total = pm.modelcontext(None).logp()
    numbers = [part[1] for part in parts.components]
    compiled = pytensor.function([symbol], [total, pt.grad(total, symbol), parts.coefficients, *numbers], mode=PLAIN)

    for given in (weights, np.abs(weights)):
        logp, slope, coefficients, *log_weights = compiled(given)

        tensors = [(c, w, own) for (c, _, own), w in zip(parts.components, log_weights, strict=True)]
        whole = ps.circuits.monotone_parts(circuit, given, leaf_parameters)
        np.testing.assert_allclose(
            of_parts(parts._replace(components=tensors, coefficients=coefficients), CELLS),
            of_parts(whole, CELLS),
            rtol=1e-12,
        )
        assert logp == pytest.approx(ps.circuits.SumOfSquares(*whole).log_density(CELLS).sum(), rel=1e-10)
        direction = np.random.default_rng(0).normal(size=given.size)
        ends = [compiled(given + step * direction)[0] for step in (1e-5, -1e-5)]
        # rounding of a sum near 100 by 2e-5 is 1e-9, the third derivative 1e-10 times itself
        assert direction @ slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_bad_input():
    circuit, weights, leaf_parameters = signed_circuit(1)
    masked = np.ma.masked_greater(weights, 0.0)
    for given, error, message in [
        (weights[1:], ValueError, r"weights must have shape \(\d+,\), got"),
        (weights[:, None], ValueError, "weights must have shape"),
        (pt.vector("w", shape=(3,)), ValueError, "weights must have shape"),
        (pt.zvector("w"), TypeError, "real numbers, got complex128"),
        (list("abc"), TypeError, "weights must be an array of real numbers or one tensor"),
        (weights > 0.0, TypeError, "weights must be an array of real numbers or one tensor"),
        (masked, TypeError, "weights must be an array of real numbers or one tensor"),
        (np.where(np.arange(weights.size) == 3, np.nan, weights), ValueError, "finite, got nan at entry 3, of sum"),
        (0.0 * weights, ValueError, "weights must leave something"),
    ]:
        with pytest.raises(error, match=message):
            ps.circuits.monotone_parts(circuit, given, leaf_parameters)
    with pytest.raises(TypeError, match=r"circuit must be a ps\.Circuit, got str"):
        ps.circuits.monotone_parts("circuit", weights, leaf_parameters)
    with pytest.raises(ValueError, match="'bernoulli' is missing"):
        ps.circuits.monotone_parts(circuit, weights, {"categorical": leaf_parameters["categorical"]})
