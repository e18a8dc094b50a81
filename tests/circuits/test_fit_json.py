"""Fitted circuits written as JSON text and read again, whole or damaged."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from tests.shared_circuits import FIT, fit_of


@pytest.mark.parametrize("seed", range(5))
def test_text_gives_the_same_fit_to_the_bit(seed):
    fit = fit_of(("gaussian", "categorical", "log_normal", "binomial"), seed)
    text = json.dumps(fit.to_json(), allow_nan=False)
    again = ps.circuits.CircuitFit.from_json(json.loads(text))
    assert again.circuit == fit.circuit and again.leaf_parameters.keys() == fit.leaf_parameters.keys()
    for family, own in fit.leaf_parameters.items():
        np.testing.assert_array_equal(again.leaf_parameters[family], own)
    for name in ("log_weights", "objective", "of_restarts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fit, name))
    assert (again.log_likelihood, again.converged, again.epochs) == (-math.pi, False, 2)
    assert json.dumps(again.to_json()) == text and repr(again) == repr(fit)


def test_a_fit_from_rows_answers_as_before():
    df = pd.DataFrame({"g": pd.Categorical(list("aab") * 10), "h": pd.Categorical(list("uvwuv") * 6)})
    fit = ps.circuits.chow_liu_tree(df)
    again = ps.circuits.CircuitFit.from_json(json.loads(json.dumps(fit.to_json())))
    rows = pd.DataFrame({"g": ["a", "b"], "h": ["w", None]})
    np.testing.assert_array_equal(again.log_density(rows).values, fit.log_density(rows).values)
    assert again.circuit.columns == fit.circuit.columns


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": "circuit/1"}, ValueError, "data must have format 'circuit_fit/1', got 'circuit/1'"),
        ({"note": 1}, ValueError, "data must have .'circuit', 'log_weights'.* got .*'note'"),
        ({"circuit": {"format": "circuit/2"}}, ValueError, "data must have format 'circuit/1'"),
        ({"log_weights": "all"}, TypeError, "log_weights must be a list, got 'all'"),
        ({"log_weights": [-0.5, -0.5]}, ValueError, r"log_weights must have shape \(3,\), got \(2,\)"),
        (
            {"log_weights": [-0.5, True, -0.5]},
            ValueError,
            "log_weights must hold finite numbers .* got True at place 1",
        ),
        ({"log_weights": [-0.5, math.nan, -0.5]}, ValueError, "log_weights must hold finite numbers .* got nan"),
        ({"log_weights": [-0.5, -0.5, -0.5]}, ValueError, "weights of each sum must add up to 1"),
        ({"objective": []}, ValueError, "objective must hold at least one number, got none"),
        ({"converged": 1}, TypeError, "converged must be true or false, got 1"),
        ({"epochs": -1}, ValueError, "epochs must be an integer of at least 0, got -1"),
        ({"log_likelihood": None}, ValueError, "log_likelihood must hold finite numbers .* got None"),
        ({"leaf_parameters": []}, TypeError, "leaf_parameters must be a mapping from families to rows"),
        ({"leaf_parameters": {"poisson": 3}}, TypeError, r"leaf_parameters\['poisson'\] must be a list of rows, got 3"),
        ({"leaf_parameters": {"log_normal": [[1.0, 2.0]]}}, ValueError, "'gaussian' is missing"),
        (
            {"leaf_parameters": {"log_normal": [[1.0, 2.0], [1.0]]}},
            ValueError,
            r"leaf_parameters\['log_normal'\] must have rows of one length, got 1 numbers at row 1, 2 at 0",
        ),
    ],
)
def test_damaged_data_are_named(change, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.CircuitFit.from_json({**FIT.to_json(), **change})


def test_other_values_and_missing_parts_are_refused():
    with pytest.raises(TypeError, match="data must be the mapping that to_json returned, got str"):
        ps.circuits.CircuitFit.from_json("text")
    whole = FIT.to_json()
    del whole["epochs"]
    with pytest.raises(ValueError, match="data must have"):
        ps.circuits.CircuitFit.from_json(whole)
    whole = FIT.to_json()
    whole["leaf_parameters"]["gaussian"][1][1] = -1.0
    with pytest.raises(ValueError, match=r"leaf_parameters\['gaussian'\].* got .* at row 1, leaf"):
        ps.circuits.CircuitFit.from_json(whole)
