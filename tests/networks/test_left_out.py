"""Rows without each of their cells, all at once, against rows in which the cell is missing."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.leaves.intervals import Interval
from pymc_spn.networks.records import predictive_kernels
from tests.hand_made_records import law_of, states_of, with_scratch
from tests.reference import tiny_problems
from tests.rounded_networks import ROWS, narrow_leaves

PROBLEMS = {name: p for name, p in tiny_problems().items() if name != "infinite_discrete"}  # levels that may be counts


def one_by_one(states, values, events, cells_of=None):
    """(S, M, D) by a pass for each column."""
    out = []
    for d in range(values.shape[1]):
        without = values.copy()
        without[:, d] = np.nan
        rest = {c: e for c, e in events.items() if c != d}
        out.append(states.log_densities(without, rest, cells_of(without) if cells_of else None))
    return np.stack(out, axis=-1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_cells_are_left_out_as_if_they_were_missing(name):
    """Of new rows with gaps, values that no leaf can hold among them."""
    states, table = law_of(name).states, PROBLEMS[name].X
    rng = np.random.default_rng(1)
    values = np.array([[rng.choice(column) for column in table.T] for _ in range(9)])
    positive = [c.kind == "positive" for c in states.schema.columns]
    values[3, positive] = 1e-3
    values[4, [c.kind == "real" for c in states.schema.columns]] = -40.0  # no Exponential leaf holds it
    values[5] = np.nan
    events = {}
    if states.schema.columns[0].kind in ("real", "count"):
        events = {0: Interval(0.2, 1.7)}
        values[6:, 0] = np.nan
    whole, without = states.log_densities_left_out(values, events)
    np.testing.assert_array_equal(whole, states.log_densities(values, events))
    np.testing.assert_allclose(without, one_by_one(states, values, events), rtol=1e-12, atol=1e-12)


def two_clusters(n_columns=250, n_rows=40):
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, n_rows)[:, None]
    return pd.DataFrame(rng.normal(size=(n_rows, n_columns)) + 40.0 * side)


def test_rows_whose_value_is_too_small_for_a_number():
    """Cells of either cluster in turn: each leaf of the one excludes half of them by tens of nats a cell."""
    df = two_clusters()
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(list(df), n_children=3), observed=df)
        idata = pm.sample(draws=3, tune=20, chains=1, progressbar=False, compute_convergence_checks=False)
    states = states_of(idata)
    values = np.where(np.arange(df.shape[1]) % 2, 0.0, 40.0) + np.array([[0.0], [0.3]])
    values[1, 5] = 1e9
    net = with_scratch(states.network(0))
    assert predictive_kernels.evaluate_row(*net.of_columns, states.coded_rows(values)[0])[1]
    whole, without = states.log_densities_left_out(values, {})
    np.testing.assert_array_equal(whole, states.log_densities(values, {}))
    np.testing.assert_allclose(without, one_by_one(states, values, {}), rtol=1e-12)


def test_cells_of_rounded_columns_are_left_out():
    law = narrow_leaves()[0]
    values = ps.Table.from_frame(ROWS, schema=law.columns).values
    found = law.log_density_left_out(values)
    np.testing.assert_array_equal(found[0], law.log_density(values, cells=True))
    np.testing.assert_allclose(found[1], one_by_one(law.states, values, {}, law.cells), rtol=1e-9)
