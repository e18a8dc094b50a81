"""Answers for blocks of rows under packed draws, against one row and one draw at a time."""

import numpy as np
import pytest

from pymc_spn.leaves.intervals import Interval
from pymc_spn.networks.records import draw_blocks, predictive_kernels
from pymc_spn.networks.records.draw_blocks import LeafQuestion
from pymc_spn.networks.records.share_kernels import column_shares, regions_of
from tests.hand_made_records import law_of
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


def row_by_row(states, values, events, d):
    """Log densities (S, M), and probabilities of the leaves of column d (M, n) for each draw."""
    coded, path = states.coded_rows(values), np.array(regions_of(states.structure, d))
    logs, shares = np.empty((states.n_draws, len(values))), []
    for s in range(states.n_draws):
        net = states.network(s)
        share = np.zeros((len(values), states.leaves(s, d).family.size))
        column_shares(*net, coded, *states.event_logs(s, net, events), path, logs[s], share, share[:, :0])
        predictive_kernels.log_density_of_rows(*net, coded, *states.event_logs(s, net, events), logs[s])
        shares.append(share)
    return logs, shares


@pytest.mark.parametrize("name", PROBLEMS)
def test_blocks_answer_as_single_rows(name, monkeypatch):
    states, values, events = rows_of(name)
    monkeypatch.setattr(draw_blocks, "ROWS", 64)  # pieces of rows and of draws
    monkeypatch.setattr(draw_blocks, "DRAWS", 2)
    blocks = draw_blocks.DrawBlocks(states)
    for given in ({}, events):
        for d in range(values.shape[1]):
            asked = values.copy()
            asked[:40, d] = np.nan
            logs, shares = row_by_row(states, asked, given, d)
            begin = np.concatenate([[0], np.cumsum([share.shape[1] for share in shares])])
            laws = np.random.default_rng(2).normal(size=(begin[-1], 2))
            question = LeafQuestion(asked, given, None, d, begin, laws)
            found, each = blocks.shares(question)
            np.testing.assert_allclose(found, logs, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(each, np.concatenate(shares, axis=1), rtol=1e-9, atol=1e-14)
            if not given:
                np.testing.assert_array_equal(found[:, 5], 0.0)  # nothing is known
            _, mean = blocks.averages(question, variance=True)
            for s, share in enumerate(shares):
                own = laws[begin[s] : begin[s + 1]]
                np.testing.assert_allclose(mean[s, :, :2], share @ own, rtol=1e-11, atol=1e-12)
                spread = (share * (own[:, 0] - mean[s, :, :1]) ** 2).sum(axis=1)
                np.testing.assert_allclose(mean[s, :, 2], spread, rtol=1e-9, atol=1e-12)
        whole = states.log_densities(values, given)
        np.testing.assert_allclose(states.log_densities(values[7:8], given)[:, 0], whole[:, 7], rtol=1e-13)
