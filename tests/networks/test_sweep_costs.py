"""What is said of the costs of many rows, before they are sampled."""

import logging
import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.networks import sweep_costs


def test_arrays_are_counted_once_and_views_with_what_they_look_at():
    whole = np.zeros(1_000)
    held = {"a": whole, "b": [whole, whole[:10]], "c": (np.zeros(5, np.int8),)}
    assert sweep_costs.bytes_of(held, set()) == 8_005


def test_costs_of_many_rows_are_said_before_they_come(monkeypatch, caplog):
    monkeypatch.setattr(sweep_costs, "MANY_ROWS", 300)
    monkeypatch.setattr(sweep_costs, "SOME_ROWS", 50)
    rng = np.random.default_rng(1)
    with pm.Model(), caplog.at_level(logging.INFO, "pymc"):
        ps.SPN(
            "x",
            ps.circuits.complete_tree(["a", "b"]),
            observed=pd.DataFrame(rng.normal(size=(400, 2)), columns=list("ab")),
        )
        idata = pm.sample(
            6, tune=4, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    (said,) = [record.message for record in caplog.records if "a sweep" in record.message]
    found = re.fullmatch(
        r"x: 400 rows take about (\S+) s a sweep, .* and (\d+) MB a chain, "
        r"and (\d+) MB for the recorded draws of all chains\. ps\.fit_variational takes minutes",
        said,
    )
    recorded = idata.sample_stats["x_digits"]
    assert float(found[1]) > 0.0 and int(found[3]) == round(recorded.nbytes / 6 * 10 / 1e6) == 0


@pytest.mark.parametrize("n_rows", [400, 800])
def test_time_and_memory_grow_with_the_rows(n_rows, monkeypatch):
    class Run:
        draws, tune, chains = 100, 50, 2

    def sweep():
        return {"state": np.zeros((sweep_costs.SOME_ROWS, 125))}  # 1,000 bytes a row

    monkeypatch.setattr("time.perf_counter", iter([0.0, 9.0, 9.0, 11.0, 11.0, 16.0]).__next__)
    said = sweep_costs.said_of_costs("x", n_rows * 1_000, sweep, 3, Run, 2e6)
    seconds = n_rows * 1_000 / sweep_costs.SOME_ROWS * 2.0  # of the fastest
    assert f"about {seconds:.2g} s a sweep, {seconds * 3 * 150 / 60:,.0f} minutes and {n_rows} MB a chain" in said
    assert "and 600 MB for the recorded draws" in said
