"""What it is worth that all unoccupied copies share one value: occupied edges only, against all V nodes.

The same kernels evaluate the same rows of wine in two networks: one that holds the table alone, in the state of a chain
at work, and one in which synthetic rows, resampled from the table, occupy every edge of the complete tree and stay.

    python -m tests.benchmarks.spn_empty_copies DATA
"""

import time

import numpy as np
from numba import njit

from pymc_spn.gibbs.exact import evaluate_regions, exact_sweep
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.gibbs.occupancy import mark_missing
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.numerics.elementary import VECTOR_MATH
from tests.benchmarks.report import finish, markdown_table, parser, verdict
from tests.benchmarks.spn_problem import TimedChain, read_table

timed_kernel = njit(_nrt=False, nogil=True, error_model="numpy", fastmath=VECTOR_MATH)


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--table", default="wine")
    arguments.add_argument("--children", type=int, nargs="+", default=[2, 4])
    arguments.add_argument("--blocks", type=int, default=15)
    options = arguments.parse_args()
    table = read_table(options.data, options.table)
    rows, demands = [], []
    for n_children in options.children:
        few, n_first = settled(table, n_children), 0
        full, n_all = filled(few, n_children)
        ms = np.median([[*times(few, n_first), *times(full, n_all)] for _ in range(options.blocks)], axis=0)
        counts = [n_edges(s) for s in (few, full)]
        rows.append(
            [str(n_children), *counts, counts[1] / counts[0], *ms[[0, 2]], ms[2] / ms[0], *ms[[1, 3]], ms[3] / ms[1]]
        )
        if n_children == 4:
            demands.append(verdict(f"{options.table}, C = 4: sweep, all nodes / occupied", ms[3] / ms[1], 40))
    header = ["children", "edges, occupied", "edges, all", "ratio", "values of a table, ms", "all, ms", "ratio"]
    header += ["sweep, ms", "all, ms", "ratio"]
    sections = [
        (f"{options.table}: occupied edges against all of them", markdown_table(header, rows)),
        ("Target", markdown_table(["what", "target", "measured", "verdict"], demands)),
    ]
    finish(options, sections, rows)


def settled(table, n_children):
    """A sampler after 300 exact sweeps from k-means."""
    run = TimedChain(table, n_children, "exact")
    run.start(0)
    for _ in range(300):
        run.sweep()
    return run.chain.sampler


def filled(few, n_children):
    """The same state below enough synthetic rows to occupy every edge; also their number."""
    structure = few.structure
    n_levels = int(structure.depth.max()) + 1
    numbers = np.arange(n_children**n_levels)
    path = np.column_stack([numbers // n_children**k % n_children for k in range(n_levels)])
    digits = path[:, structure.depth].astype(np.int32)
    rng = np.random.default_rng(0)
    values = few.coded[rng.integers(0, len(few.coded), numbers.size)]
    full = Sampler(structure, few.compiled, np.vstack([values, few.coded]))
    full.set_hyperparameters(*few.hyperparameters)
    full.set_digits(np.vstack([digits, few.digits()]))
    return full, numbers.size


def n_edges(sampler):
    return int(sampler.statistics()[2])


def times(sampler, first):
    """Milliseconds to evaluate all rows from ``first`` on, and to redraw them."""
    rng = np.random.default_rng(1)
    found = []
    for sweep in (evaluate_rows, exact_sweep):
        sampler.compact()
        if sweep is evaluate_rows:
            arguments = (sampler.net, sampler.coded, first)
        else:
            arguments = (rng, sampler.net, sampler.coded, sampler.slots, first)
        begin = time.process_time()
        n = 0
        while time.process_time() - begin < 0.02:
            sweep(*arguments)
            n += 1
        found.append(1e3 * (time.process_time() - begin) / n)
        if sampler.net.edges.full[0]:
            sampler.compact()
    return found


@timed_kernel
def evaluate_rows(tree, palette, masses, edges, nodes, leaves, scratch, y, first):
    """Values of all sum nodes for every row; returns the last value of the root."""
    for n in range(first, y.shape[0]):
        mark_missing(tree, scratch, y[n])
        evaluate_leaves(tree, palette, edges, leaves, scratch, y[n])
        evaluate_regions(tree, palette, masses, edges, nodes, scratch)
    return scratch.node_value[0]


if __name__ == "__main__":
    main()
