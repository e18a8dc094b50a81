"""What the benchmarks run on: tables from a data folder, networks of a given width."""

from pathlib import Path

import numpy as np
import pandas as pd

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.palette import choose_coding, complete_palette
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.tables import Table
from tests.benchmarks.table_rules import NUMERIC


def read_table(data, name):
    """Table of ``name.npz``; every numeric column gets Gaussian leaves, so that all kernels do the same arithmetic."""
    with np.load(Path(data) / f"{name}.npz") as file:
        frame = pd.DataFrame(file["X"], columns=[str(c) for c in file["columns"]])
        kinds = [
            "real" if str(k) in NUMERIC else "binary" if str(k) == "binary" else "categorical" for k in file["kinds"]
        ]
    return Table.from_frame(frame, kinds=dict(zip(frame.columns, kinds, strict=True)))


def network_schema(table, n_children):
    """Complete tree of halves in column order over a table; hyperparameters are left to the caller."""
    palette, grids = complete_palette(table.columns, table.values)
    centre, scale = choose_coding(palette, table.values, table.columns)
    return NetworkSchema(
        name="x",
        structure=complete_tree(table.columns, n_children=n_children),
        columns=tuple(table.columns),
        palette=tuple(map(tuple, palette)),
        resolution=tuple(grids.tolist()),
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        hyperparameters={},
    )
