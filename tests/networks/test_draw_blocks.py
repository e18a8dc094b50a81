"""Passes over the circuits of draws, against the sampler's kernel for one row."""

from functools import partial

import numpy as np
import pytest

from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.law import Law
from pymc_spn.leaves.intervals import Interval
from pymc_spn.networks.records import draw_blocks, draw_pairs
from pymc_spn.networks.records.draw_blocks import Asked
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from tests.hand_made_records import law_of, with_scratch
from tests.reference import tiny_problems

OTHERS = (
    "infinite_discrete",
    "mixed",
    "two_trees",
    "infinite",
)  # levels that may be counts; like others
PROBLEMS = {name: p for name, p in tiny_problems().items() if name not in OTHERS}


def rows_of(name, n=83):
    """Rows with gaps, values far out and one without a cell, and an event where there is no point."""
    states, table = law_of(name).states, PROBLEMS[name].X
    rng = np.random.default_rng(1)
    values = np.stack([rng.choice(column[~np.isnan(column)], n) for column in table.T], axis=1)
    values[rng.random(values.shape) < 0.2] = np.nan
    real = [c.kind == "real" for c in states.schema.columns]
    values[3, real] = -40.0  # no Exponential leaf holds it
    values[4, real] = 1e6
    values[5] = np.nan
    events = {}
    if states.schema.columns[0].kind in ("real", "count"):
        events = {0: Interval(0.2, 1.7)}
        values[60:, 0] = np.nan
    return states, values, events


def row_by_row(states, values, events):
    """Log densities (S, M) by the sampler's own kernel."""
    coded, out = states.coded_rows(values), np.empty((states.n_draws, len(values)))
    for s in range(states.n_draws):
        net = with_scratch(states.network(s))
        cells = np.full((2, coded.shape[1]), np.nan)
        for d, event in events.items():
            ends = (1.0, 1.0) if states.schema.columns[d].kind == "count" else event  # 1 is the count within it
            ends = (np.array(ends) - states.compiled.centre[d]) / states.compiled.scale[d]
            cells[:, net.palette.source == d] = ends[:, None]  # an event counts as a cell
        for m, row in enumerate(coded):
            out[s, m] = evaluate_row(*net.of_columns, row, None, cells)[0]
    return out


@pytest.mark.parametrize("name", PROBLEMS)
def test_passes_answer_as_the_kernel_of_single_rows(name, monkeypatch):
    """Densities; leaves' probabilities by what they make of the densities of values of their column."""
    states, values, events = rows_of(name)
    monkeypatch.setattr(draw_blocks, "ROWS", 64)  # pieces of rows and of draws
    monkeypatch.setattr(draw_blocks, "DRAWS", 2)
    blocks = draw_blocks.DrawBlocks(states)
    for given in ({}, events):
        np.testing.assert_allclose(
            blocks.log_densities(Asked(values, given)), row_by_row(states, values, given), rtol=1e-12, atol=1e-12
        )
        for d in range(values.shape[1]):
            asked = values.copy()
            asked[:, d] = np.nan
            leaves, begin = states.all_leaves(d)
            laws = np.random.default_rng(2).normal(size=(begin[-1], 2))
            rest = {c: event for c, event in given.items() if c != d}
            question = Asked(asked, rest), d, begin
            found, shares = blocks.shares(*question)
            if not given:
                np.testing.assert_array_equal(found[:, 5], 0.0)  # nothing is known
            value = np.nanmin(PROBLEMS[name].X[:, d])
            of_leaves = np.exp(ColumnLaw(leaves, np.ones(begin[-1]), begin[:-1]).leaf_log_density(np.array([value])))
            whole = np.where(np.arange(values.shape[1]) == d, value, asked)
            exact = np.exp(row_by_row(states, whole, rest) - found) / states.compiled.scale[d]
            of_draws = np.add.reduceat(shares * of_leaves[:, 0], begin[:-1], axis=1).T
            np.testing.assert_allclose(of_draws, exact, rtol=1e-9)
            _, mean = blocks.averages(*question, laws, variance=True)
            for s in range(states.n_draws):
                share, own = shares[:, begin[s] : begin[s + 1]], laws[begin[s] : begin[s + 1]]
                np.testing.assert_allclose(mean[s, :, :2], share @ own, rtol=1e-11, atol=1e-12)
                spread = (share * (own[:, 0] - mean[s, :, :1]) ** 2).sum(axis=1)
                np.testing.assert_allclose(mean[s, :, 2], spread, rtol=1e-9, atol=1e-12)
        whole = states.log_densities(values, given)
        np.testing.assert_allclose(states.log_densities(values[7:8], given)[:, 0], whole[:, 7], rtol=1e-13)


def pairs_of(law, seed=3):
    """Log densities of pairs by their pass, and column by column and pair by pair; of drawn rows."""
    rng, used = np.random.default_rng(seed), np.arange(0, law.n_circuits, 2)
    first, second = (law.draw(19, rng) for _ in range(2))
    return [ask(used)(first, second) for ask in (law.log_density_of_pairs, partial(Law.log_density_of_pairs, law))]


@pytest.mark.parametrize("name", PROBLEMS)
def test_pairs_of_columns_are_those_of_rows_with_two_cells(name):
    law = law_of(name)
    known = frozenset([0]) if law.columns[0].levels else Interval(0.2, 1.7)
    for given in (
        {},
        {0: known},
        {law.states.network(0).palette.place_ptr.size - 2: law.draw(1, np.random.default_rng(4))[0, -1]},
    ):
        for found, exact in zip(*pairs_of(law.given(given) if given else law), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


def test_pairs_by_weights_that_forget_what_is_known_are_found_out(monkeypatch):
    law = law_of("missing").given({0: 0.5})
    monkeypatch.setattr(draw_pairs, "weights_given", lambda circuit, logs: circuit.weight)
    found, exact = pairs_of(law)
    assert np.abs(found.both - exact.both).max() > 1e-3
