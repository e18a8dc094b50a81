"""Tables in partitions for tests: rows of all kinds, written as files, and limits that make few rows many."""

from itertools import pairwise

import numpy as np
import pandas as pd

from pymc_spn.networks import learners
from pymc_spn.networks.variational import partitioned_fit, partitioned_rows

N_ROWS, BLOCK, GROUPS = 600, 50, 4


def mixed_rows(n=N_ROWS, seed=3):
    """Clusters in two real columns that depend on each other, counts, levels, text and gaps."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 3, n)
    a = rng.normal(4.0 * cluster, 1.0)
    frame = pd.DataFrame({"a": a, "b": a * (cluster - 1.0) + rng.normal(0.0, 0.4, n)})
    frame["count"] = rng.poisson(2.0 + 5.0 * cluster)
    frame["text"] = np.array(["red", "green", "blue"])[(cluster + rng.integers(0, 2, n)) % 3]
    frame["stars"] = 1 + (cluster + rng.integers(0, 2, n)) % 4
    frame.loc[rng.random(n) < 0.1, "b"] = np.nan
    return frame


def write(frame, folder, n_files=3):
    """The frame as files of one folder, the last of them shorter."""
    folder.mkdir(exist_ok=True)
    ends = np.linspace(0, len(frame), n_files + 1).astype(int)
    ends[1:-1] += 7
    for number, (a, b) in enumerate(pairwise(ends)):
        frame[a:b].to_parquet(folder / f"part{number}.parquet", index=False)
    return folder


def lower_limits(monkeypatch):
    """What is large enough for partitions in a fit is so now with some hundred rows."""
    monkeypatch.setattr(learners, "SAMPLE_ROWS", 250)
    monkeypatch.setattr(learners, "MIN_STEPS", 12)
    monkeypatch.setattr(learners, "ROW_VISITS", 1)
    monkeypatch.setattr(partitioned_rows, "BLOCK", BLOCK)
    monkeypatch.setattr(partitioned_fit, "GROUPS", GROUPS)
    monkeypatch.setattr(partitioned_fit, "BATCH", 2)
