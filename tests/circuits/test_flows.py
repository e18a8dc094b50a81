"""Values up and flows down: a block in linear space and one that falls back to logs give the same."""

import numpy as np
import pytest

from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of, rows_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from tests.shared_circuits import (
    APART,
    APART_PARAMETERS,
    build,
)

BETWEEN = np.array([[-40.0, 40.0], [41.0, -39.0]])


def gradients(circuit, log_weights, parameters, rows):
    flat = flatten(circuit, parameters)
    packed = pack(layout_of(circuit)[0], len(circuit.columns), flat.begin, flat.width)
    found = rows_and_gradient_of(packed, rows, log_weights, flat.theta, np.linspace(0.5, 2.0, len(rows)))
    np.testing.assert_array_equal(found[0], rows_of(packed, rows, log_weights, flat.theta))
    return found


def test_gradients_of_ordinary_rows_do_not_change_beside_rows_that_need_logs():
    usual = np.random.default_rng(0).choice([-40.0, 40.0], (20, 1)) + np.random.default_rng(1).normal(size=(20, 2))
    together = gradients(APART, *APART_PARAMETERS, np.vstack([usual, BETWEEN]))  # in logs, all of them
    weights = np.linspace(0.5, 2.0, 22)
    flat = flatten(APART, APART_PARAMETERS[1])
    packed = pack(layout_of(APART)[0], 2, flat.begin, flat.width)
    alone = rows_and_gradient_of(packed, usual, APART_PARAMETERS[0], flat.theta, weights[:20])  # in linear space
    between = rows_and_gradient_of(packed, BETWEEN, APART_PARAMETERS[0], flat.theta, weights[20:])
    np.testing.assert_allclose(together[0], np.concatenate([alone[0], between[0]]), rtol=1e-13)
    for i in (1, 2):
        np.testing.assert_allclose(together[i], alone[i] + between[i], rtol=1e-12)
    np.testing.assert_allclose(together[3], np.vstack([alone[3], between[3]]), rtol=1e-12, atol=1e-14)
    # exp(-3200) of the first component in column b against exp(-80^2 / 2 / 2.25) of the second in column a
    assert between[0][0] == pytest.approx(
        APART.with_parameters(*APART_PARAMETERS).log_density(BETWEEN).values[0], rel=1e-14
    )
    assert between[0].max() < -1_000.0


def test_shares_in_logs_are_those_of_bayes_rule():
    """Column a is so far from its one component that the block runs in logs; column b has two, both of which count."""
    circuit = build(
        [("sum", (1, 2)), ("product", (3, 5)), ("product", (4, 5)), *[("leaf", 0, "gaussian")] * 2, ("sum", (6, 7)),
         *[("leaf", 1, "gaussian")] * 2],
        ["a", "b"], ("gaussian",),
    )  # fmt: skip
    parameters = {"gaussian": np.array([[60.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])}
    log_weights = np.array([-np.inf, 0.0, np.log(0.3), np.log(0.7)])
    rows, *gradient = gradients(circuit, log_weights, parameters, np.array([[60.0, 0.3]]))
    parts = np.log([0.3, 0.7]) - 0.5 * (0.3 - np.array([0.0, 1.0])) ** 2
    share = np.exp(parts - np.logaddexp(*parts))
    assert rows[0] == pytest.approx(-1800.0 - np.log(2.0 * np.pi) + np.logaddexp(*parts), rel=1e-14)
    np.testing.assert_allclose(gradient[0], 0.5 * np.array([0.0, 1.0, *share]), rtol=1e-13, atol=1e-300)
    assert gradient[1][4] == pytest.approx(0.5 * share[0] * 0.3, rel=1e-13)
