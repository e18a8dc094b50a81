"""What the benchmarks run on: tables from a data folder, networks of a given width, chains timed by the processor."""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.alternation import Turns
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.palette import choose_coding, complete_palette
from pymc_spn.gibbs.starts import kmeans_digits
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.tables import Table

MOST_NODES = 1e6  # larger networks never make bottom-up sweeps by themselves
NUMERIC = ("continuous", "positive", "count")


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


def compile_sweeps(chain, rng):
    """Sweep by all that "auto" or "alternating" may choose, untimed."""
    if chain.kernel not in ("auto", "alternating"):
        return
    for kernel in ("exact", "frontier"):
        chain.sampler.sweep(rng, kernel, chain.frontier)
    if chain.n_nodes < MOST_NODES:
        Turns(chain.schema.structure, chain.schema.compiled, chain.schema.code(chain.values)).sweep(rng, chain.sampler)


class TimedChain:
    """A chain of one kernel on one network, with the CPU seconds of its sweeps.

    Parameters
    ----------
    table : Table
    n_children : int or "infinite"
    kernel : str
        A name of `chain.KERNELS`, or ``"frontier:4"`` for the frontier kernel that sums out four columns.
    leaf_scale : float
        Prior scale of all leaves; the other hyperparameters are concentration 1, shape 1.5, precision ratio 0.05.
    """

    def __init__(self, table, n_children, kernel, leaf_scale=1.0):
        name, _, frontier = kernel.partition(":")
        self.label, self.n_children = kernel, n_children
        self.chain = Chain(network_schema(table, n_children), table.values, name, int(frontier) if frontier else None)
        n_columns = len(table.columns)
        self.chain.set_hyperparameters(
            (
                np.ones(2),
                np.full(n_columns, leaf_scale),
                np.full(n_columns, 1.5),
                np.full(n_columns, 0.05),
            )
        )
        self.seconds, self.n_sweeps, self.moved = 0.0, 0, 0.0

    def start(self, seed, kind="kmeans"):
        """K-means or a draw from the prior; the same seed gives the same assignments whatever the kernel."""
        schema, rng = self.chain.schema, np.random.default_rng(seed)
        if kind == "prior":
            self.chain.sampler.draw_prior(rng)
            self.chain.set_digits(self.chain.sampler.digits())
        else:
            self.chain.set_digits(kmeans_digits(schema.structure, schema.compiled, self.chain.sampler.coded, rng))
        self.rng = np.random.default_rng([seed, 1])

    def sweep(self):
        """One timed sweep. An explicit sampler's state becomes a collapsed one when it is asked for, untimed."""
        begin = time.process_time()
        moved = self.chain.sweep(self.rng)
        self.seconds += time.process_time() - begin
        self.n_sweeps += 1
        self.moved += moved

    def compile(self):
        """Sweep untimed, which compiles all that the kernel may use, and start the clock and the counts again."""
        compile_sweeps(self.chain, self.rng)
        self.sweep()
        self.seconds, self.n_sweeps, self.moved = 0.0, 0, 0.0

    def statistics(self):
        """Collapsed log joint, occupied nodes, edges and leaves of the assignments; never timed."""
        return self.chain.sampler.statistics()[:4]

    def log_joint(self):
        """Collapsed log joint of data and assignments, in nats."""
        return float(self.statistics()[0])
