"""Repeated values: held-out scores as the prior scale of the leaves falls, recorded values as exact and as cells.

python -m tests.benchmarks.spn_rounding DATA

The values of airfoil stand on coarse grids: six chord lengths, four velocities. No proper model of the cells exceeds
the ceiling, minus the sum of the logs of the grids; a density that takes recorded values for exact ones does, and grows
as the prior lets the leaves shrink. The thickness of the boundary layer is left out: it is computed, repeats, and is
printed to so many digits that its cells say nothing.

What cells cost is measured with it, at scales that are learned: CPU time of sweeps of two chains in turns, one of which
takes the values for exact.
"""

import time
import warnings
from dataclasses import replace

import numpy as np
import pymc as pm

import pymc_spn as ps
from pymc_spn.gibbs.chain import Chain
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.records.rounded_sweeps import RoundedSweeps
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.tables.resolution import resolution
from tests.benchmarks.report import QUIET, finish, markdown_table, parser
from tests.benchmarks.spn_problem import network_schema, read_table


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--table", default="airfoil_self_noise")
    arguments.add_argument("--drop", nargs="*", default=["displacement_thickness"])
    arguments.add_argument("--rows", type=int, default=600, help="training rows; 200 others are scored")
    arguments.add_argument("--draws", type=int, default=15)
    arguments.add_argument("--tune", type=int, default=45)
    arguments.add_argument("--scales", type=float, nargs="+", default=[0.1, 0.01, 1e-3, 1e-4, 1e-6, 1e-8])
    options = arguments.parse_args()
    warnings.filterwarnings("ignore", "equal values are far more frequent")  # that is the subject
    table = read_table(options.data, options.table)
    frame = table.to_frame().drop(columns=options.drop)
    order = np.random.default_rng(0).permutation(len(table.values))
    train, test = (frame.iloc[order[a:b]] for a, b in ((0, options.rows), (options.rows, options.rows + 200)))
    grids = {name: resolution(train[name]) for name in train}
    ceiling = -sum(np.log(d) for d in grids.values())
    rows = []
    for scale in options.scales:
        found = [scored(options, train, test, scale, rounded) for rounded in (False, True)]
        (exact, _), (cells, narrow) = found
        rows.append([f"{scale:g}", exact, cells, ceiling, narrow])
    header = ["leaf scale", "recorded values as exact, nats", "as cells, nats", "ceiling, nats"]
    header += ["smallest exact spread in a leaf, cells"]
    costs = [cost_at_learned_scales(table, n_children) for n_children in (4, "infinite")]
    parts = [(f"{options.table}: mean held-out log score", markdown_table(header, rows))]
    header = [
        "children of a sum node",
        "exact: leaves",
        "exact: CPU ms a sweep",
        "cells: leaves",
        "cells: CPU ms a sweep",
    ]
    header += ["columns integrated", "ratio"]
    parts.append(
        (f"{options.table}, all {len(table.values)} rows: cost at learned scales", markdown_table(header, costs))
    )
    finish(options, parts, {"scores": rows, "costs": costs})


def cost_at_learned_scales(table, n_children, sweeps=150):
    """Occupied leaves and median CPU milliseconds of the last third of the sweeps, values exact and as cells."""
    schema, n_columns = network_schema(table, n_children), len(table.columns)
    owned = np.zeros((4, max(n_columns, 2)), np.bool_)
    owned[0, :2] = owned[1, :n_columns] = True
    owned[2:, schema.gaussian_columns] = True
    priors = np.array([PRIORS[group] for group in HYPERPARAMETERS])
    begin = (np.ones(2), np.full(n_columns, 0.3), np.full(n_columns, 1.5), np.full(n_columns, 0.05))
    cells = tuple(column.name for column, width in zip(schema.columns, schema.cell_widths, strict=True) if width)
    rounded = replace(schema, rounded=cells)
    chains = [
        Chain(schema, table.values, "exact"),
        Chain(rounded, table.values, "exact", rounding=RoundedSweeps(RoundedCells(rounded, table.values))),
    ]
    rngs, seconds, n_leaves = [np.random.default_rng(k) for k in range(2)], np.empty((2, sweeps)), np.empty((2, sweeps))
    for chain, rng in zip(chains, rngs, strict=True):
        chain.begin(rng, begin)
    for i in range(sweeps):
        for k, (chain, rng) in enumerate(zip(chains, rngs, strict=True)):
            start = time.process_time()
            chain.sweep(rng)
            seconds[k, i] = time.process_time() - start
            n_leaves[k, i] = chain.sampler.n_occupied_leaves()
            chain.update_hyperparameters(rng, owned, priors)
    (exact, cells), (few, many) = (np.median(x[:, 2 * sweeps // 3 :], axis=1) for x in (seconds, n_leaves))
    integrated = f"{chains[1].rounding.integrated.sum()} of {rounded.rounded_columns.size}"
    return [str(n_children), few, 1e3 * exact, many, 1e3 * cells, integrated, cells / exact]


def scored(options, train, test, scale, rounded):
    """Mean log score, and how narrow the leaves of the widest-celled column get, in cells."""
    with pm.Model():
        ps.SPN(
            "x",
            ps.circuits.complete_tree(list(train)),
            observed=train,
            leaf_scale=scale,
            leaf_shape=1.5,
            precision_ratio=scale,  # the mean of a leaf may be anywhere in the column, whatever its width
            resolution="auto" if rounded else 0.0,
            rounded=rounded,
            joint_leaves=None,
        )
        idata = pm.sample(options.draws, tune=options.tune, chains=1, random_seed=1, quiet=True, **QUIET)
    post = ps.SPNPosterior.from_idata(idata)
    score = float(post.log_density(test).mean())
    if not rounded:
        return score, np.nan
    group = ps.unpack(idata)["x"]
    codes, digits = group["exact"].values[0, -1], group["digits"].values[0, -1]
    schema = post._states.schema
    spreads = []
    for k, d in enumerate(schema.rounded_columns):
        region = int(schema.structure.leaf_region[d])
        path = [region]
        while path[-1] > 0:
            path.append(int(schema.structure.parent[path[-1]]))
        for key in np.unique(digits[:, path], axis=0):
            held = (digits[:, path] == key).all(axis=1)
            values = train.iloc[:, d].to_numpy()[held] / schema.resolution[d] + codes[held, k] / 65536
            spreads += [values.std()] if held.sum() >= 10 else []
    return score, float(min(spreads))


if __name__ == "__main__":
    main()
