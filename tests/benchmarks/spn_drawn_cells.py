"""What drawn cells cost: a row's move against the sweep over the assignments, and the rest of the model in it.

python -m tests.benchmarks.spn_drawn_cells DATA
"""

import time

import numpy as np
import pymc as pm

import pymc_spn as ps
from tests.benchmarks.report import finish, markdown_table, parser
from tests.benchmarks.spn_problem import read_table


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--table", default="wine")
    arguments.add_argument("--share", type=float, nargs="+", default=[0.02, 0.1])
    arguments.add_argument("--rounds", type=int, default=60)
    options = arguments.parse_args()
    rows = []
    for share in options.share:
        step, point = settled(options, share)
        n_rows, n_gaps = len(step.cells.cells), step.cells.rows.size
        missing, rest = point["x_missing"], step._rest(point)
        seconds = []
        for _ in range(options.rounds):
            begin = time.process_time()
            step.chain.sweep(step.rng)
            middle = time.process_time()
            missing, _ = step.cells.sweep(step.rng, step.chain.sampler, missing, rest)
            end = time.process_time()
            for _ in range(100):
                rest(missing)
            seconds.append((middle - begin, end - middle, (time.process_time() - end) / 100))
        sweep, moves, one = np.median(seconds, axis=0) * 1e3
        rows.append([f"{share:.0%}", n_gaps, n_rows, sweep, moves, moves / sweep, moves / n_rows, one])
    header = ["cells missing", "gaps", "rows with gaps", "sweep, ms", "moves of the cells, ms", "ratio"]
    header += ["a row, ms", "of it the rest of the model, ms"]
    finish(options, [(f"{options.table}: drawn cells", markdown_table(header, rows))], rows)


def settled(options, share):
    """The step of a regression on two numeric columns, after a hundred draws."""
    coded = read_table(options.data, options.table)
    table, numeric = coded.values.copy(), [d for d, c in enumerate(coded.columns) if c.kind == "real"][:2]
    rng = np.random.default_rng(0)
    used = table[:, numeric]
    response = ((used - used.mean(0)) / used.std(0)).sum(1) + rng.normal(size=len(table))
    table[rng.random(table.shape) < share] = np.nan
    coded = ps.Table(coded.columns, table, coded.index)
    with pm.Model() as model:
        x = ps.SPN("x", ps.circuits.complete_tree(coded.columns), observed=coded, missing="draw")
        columns = ps.completed_columns(x)
        beta = pm.Normal("beta", 0.0, 10.0, shape=3)
        first, second = (columns[coded.names[d]] for d in numeric)
        pm.Normal("y", beta[0] + beta[1] * first + beta[2] * second, 1.0, observed=response)
        step = ps.steps.TopDownSPNStep()
    step.setup_chain(np.random.default_rng(1), 100, 100)
    point = model.initial_point()
    for _ in range(100):
        point, _ = step.step(point)
    return step, point


if __name__ == "__main__":
    main()
