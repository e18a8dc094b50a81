"""A table of two clusters and its variational fit."""

from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import pymc_spn as ps
from pymc_spn.networks.records.fitted_states import read_fit
from pymc_spn.tables.tree_files import reading


@cache
def table():
    """Sixty rows of two clusters, with gaps in every column."""
    rng = np.random.default_rng(5)
    cluster = rng.integers(0, 2, 60)
    frame = pd.DataFrame(
        {
            "a": rng.normal(6.0 * cluster, 1.0),
            "b": rng.normal(-4.0 * cluster, 0.5),
            "n": pd.array(rng.poisson(2.0 + 9.0 * cluster), dtype="Int64"),
            "c": np.where(rng.random(60) < 0.15, 1 - cluster, cluster).astype(str),
        }
    )
    frame.loc[3, "a"] = np.nan
    frame.loc[4, ["b", "c"]] = None
    frame.loc[5, "n"] = pd.NA
    return frame


@cache
def fitted(n_children="infinite", seed=1):
    structure = ps.circuits.complete_tree(ps.Table.from_frame(table()).columns, n_children=n_children)
    return ps.fit_variational(table(), structure, leaves={"n": ps.leaves.Poisson()}, random_seed=seed)


def states_of_fit(post):
    """What a posterior object saves of a variational fit."""
    with TemporaryDirectory() as folder:
        post.save(f"{folder}/fit.nc")
        with reading(f"{folder}/fit.nc") as tree:
            return read_fit(tree)
