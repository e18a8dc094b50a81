"""Milliseconds a sweep of every kernel, and where the exact kernel's time goes.

All kernels start from the same assignments: k-means, then a few exact sweeps, so that the number of occupied edges is
that of a chain at work. Their blocks of sweeps take turns, so that a load that comes and goes hits all alike.

    python -m tests.benchmarks.spn_kernels DATA
"""

import time

import numpy as np
from numba import njit

from pymc_spn.gibbs.exact import SAFE, draw_subtree, evaluate_regions, evaluate_regions_by_logs, exact_sweep
from pymc_spn.gibbs.leaf_kernels import argument_of, evaluate_leaves, exponentiate, log_density_of
from pymc_spn.gibbs.occupancy import attach, detach, mark_missing
from pymc_spn.numerics.elementary import VECTOR_MATH
from tests.benchmarks.report import finish, markdown_table, parser, verdict
from tests.benchmarks.spn_problem import TimedChain, read_table

WIDTHS = (2, 4, 6, "infinite")
SETTLE = {"wine": 300, "abalone": 30}  # exact sweeps between the k-means start and the measurement
STAGES = ("mark missing cells", "detach and attach", "leaf values", "sum nodes", "draws, moved rows")

# As the package's `bare_kernel`, but compiled anew in every run: a cache would not see a changed callee.
timed_kernel = njit(_nrt=False, nogil=True, error_model="numpy", fastmath=VECTOR_MATH)


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--tables", nargs="+", default=["wine", "abalone"])
    arguments.add_argument("--blocks", type=int, default=9)
    arguments.add_argument("--block-seconds", type=float, default=0.08)
    options = arguments.parse_args()
    sections, figures, demands = [], {}, []
    for name in options.tables:
        table = read_table(options.data, name)
        runs = settled_chains(table, SETTLE.get(name, 30))
        rows = measure(runs, options.blocks, options.block_seconds)
        figures[name] = rows
        header = ["children", "kernel", "ms/sweep", "moved", "log joint", "occupied nodes", "all nodes V", "state, kB"]
        cells = [[str(r[0]), *r[1:]] for r in rows]
        sections.append((f"{name}: {len(table.values)} x {len(table.columns)}", markdown_table(header, cells)))
        ms = {(r[0], r[1]): r[2] for r in rows}
        sections.append((f"{name}: ratios in the same run", ratio_table(ms)))
        if name == "wine":
            demands += [
                verdict("wine, C = 4: published / induced_tree", ms[4, "published"] / ms[4, "induced_tree"], 7),
                verdict("wine: induced_tree, C = 6 / C = 2", ms[6, "induced_tree"] / ms[2, "induced_tree"], 2, False),
            ]
        parts = [profile(r, options.blocks) for r in runs if r.label == "exact"]
        figures[f"{name} profile"] = parts
        sections.append((f"{name}: exact kernel, nanoseconds a row", profile_table(parts)))
    if demands:
        sections.append(("Demands", markdown_table(["what", "demand", "measured", "verdict"], demands)))
    finish(options, sections, figures)


def kernels_for(table, n_children):
    half = len(table.columns) // 2
    ours = ["exact", *(f"frontier:{h}" for h in sorted({2, 4, half})), "induced_tree"]
    return ours + ([] if n_children == "infinite" else ["published", "bottom_up"])


def settled_chains(table, n_settle):
    """Chains of every kernel and width, compiled, all of one width in the same state."""
    runs = []
    for n_children in WIDTHS:
        settled = TimedChain(table, n_children, "exact")
        settled.start(0)
        for _ in range(n_settle):
            settled.sweep()
        digits = settled.chain.sampler.digits()
        for kernel in kernels_for(table, n_children):
            run = TimedChain(table, n_children, kernel)
            run.start(0)
            run.chain.set_digits(digits)
            run.compile()
            runs.append(run)
    return runs


def measure(runs, n_blocks, block_seconds):
    """Median over blocks of milliseconds a sweep, with the state after the last block."""
    per_sweep = [[] for _ in runs]
    sizes = []
    for run in runs:
        run.sweep()
        sizes.append(max(1, int(block_seconds / run.seconds)))
        if sizes[-1] > 16:
            sizes[-1] -= sizes[-1] % 16  # as many renumberings in every block
        run.seconds, run.n_sweeps, run.moved = 0.0, 0, 0.0
    for _ in range(n_blocks):
        for run, size, seconds in zip(runs, sizes, per_sweep, strict=True):
            before = run.seconds
            for _ in range(size):
                run.sweep()
            seconds.append((run.seconds - before) / size)
    rows = []
    for run, seconds in zip(runs, per_sweep, strict=True):
        state = run.statistics()
        rows.append(
            [
                run.n_children,
                run.label,
                1e3 * float(np.median(seconds)),
                run.moved / run.n_sweeps,
                float(state[0]),
                int(state[1] + state[2]),
                n_all_nodes(run.chain.schema.structure),
                state_bytes(run) / 1e3,
            ]
        )
    return rows


def n_all_nodes(structure):
    """V of the paper: all sum nodes with all their children; None for an infinite network."""
    if (structure.n_children == 0).any():
        return None
    nodes = np.ones(structure.n_regions, np.int64)
    for r in range(1, structure.n_regions):
        above = structure.parent[r]
        nodes[r] = nodes[above] * structure.n_children[above]
    return int((nodes * (1 + structure.n_children)).sum())


def state_bytes(run):
    """Bytes of the assignments: N (2D - 1) integers, or the N x S states of the published sampler."""
    explicit = run.chain.explicit
    if explicit is None:
        return run.chain.sampler.slots.nbytes
    return explicit.digits().nbytes if run.label == "bottom_up" else explicit.states.digit.nbytes


def ratio_table(ms):
    rows = []
    for kernel in dict.fromkeys(k for _, k in ms):
        cells = [ms.get((c, kernel)) for c in WIDTHS]
        against = [ms[c, kernel] / ms[c, "exact"] if (c, kernel) in ms else None for c in WIDTHS]
        rows.append([kernel, *against, cells[2] / cells[0]])
    header = ["kernel", *(f"C={c} / exact" for c in WIDTHS[:3]), "infinite / exact", "C=6 / C=2"]
    return markdown_table(header, rows)


def profile(run, n_blocks):
    """Nanoseconds a row of each stage of the exact kernel, in one state."""
    s = run.chain.sampler
    rng = np.random.default_rng(3)
    n_rows = len(s.coded)
    total = [[] for _ in range(6)]
    leaves = [[], []]
    counts, returning = [], []
    size = max(1, 20_000 // n_rows)
    net = s.net
    n_values = sum(int(net.edges.top[r]) for r in net.tree.leaf_region)  # as evaluated: freed slots and prior slots too
    short = student_arrays(n_values)
    long = student_arrays(512)
    exact_stages(rng, *net.of_columns, s.coded, s.slots, 5)
    student(short, 1)
    exact_sweep(rng, *net.of_columns, s.coded, s.slots, n_rows)
    for _ in range(3 * n_blocks):
        s.compact()
        net = s.net
        counts.append(sum(int(net.edges.top[r]) for r in net.tree.leaf_region))
        for stage in range(6):
            begin = time.process_time()
            for _ in range(size):
                if stage == 0:
                    exact_sweep(rng, *net.of_columns, s.coded, s.slots, n_rows)
                else:
                    found = exact_stages(rng, *net.of_columns, s.coded, s.slots, stage)
                    if found < 0:
                        break
            else:
                if stage == 2:
                    returning.append(found / n_rows)
                total[stage].append((time.process_time() - begin) / size / n_rows)
        for arrays, seconds in zip((short, long), leaves, strict=True):
            repeats = 2_000_000 // arrays[0].size
            begin = time.process_time()
            student(arrays, repeats)
            seconds.append((time.process_time() - begin) / repeats / arrays[0].size)
    at = 1e9 * np.array([np.median(t) for t in total])
    n_values = float(np.mean(counts))
    parts = np.diff(at[1:], prepend=0.0)
    parts[0] -= at[0]
    share = float(np.mean(returning))
    parts[4] -= parts[1] / share - parts[1]
    parts[1] /= share
    return {
        "children": str(run.n_children),
        "n_values": n_values,
        "call": at[0],
        **dict(zip(STAGES, parts.tolist(), strict=True)),
        "whole": at[5],
        "per value": parts[2] / n_values,
        "student, same length": 1e9 * float(np.median(leaves[0])),
        "student, 512": 1e9 * float(np.median(leaves[1])),
    }


def profile_table(parts):
    header = [
        "children",
        "leaf values a row",
        "call from Python",
        *STAGES,
        "whole",
        "leaf value",
        "Student-t alone, same length",
    ]
    header += ["Student-t alone, 512 long", "values/s, million", "floor / whole"]
    rows = []
    for p in parts:
        floor = p["n_values"] * p["student, 512"]
        rows.append(
            [
                p["children"],
                p["n_values"],
                p["call"],
                *(p[s] for s in STAGES),
                p["whole"],
                p["per value"],
                p["student, same length"],
                p["student, 512"],
                1e3 * p["n_values"] / p["whole"],
                floor / p["whole"],
            ]
        )
    return markdown_table(header, rows)


@timed_kernel
def exact_stages(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, n_stages):
    """The exact sweep up to a stage; before the last one every row returns to where it was.

    An edge that loses its last row is freed and the row could not return to it: such rows stay where they are, and the
    number of the others is returned. It is -1 when a region ran full.
    """
    returning = 0
    for n in range(y.shape[0]):
        if edges.full[0]:
            return -1
        row = slots[n]
        mark_missing(tree, scratch, y[n])
        if n_stages == 1:
            continue
        alone = False
        for r in range(row.size):
            scratch.old[r] = row[r]
            alone |= edges.n_data[edges.begin[r] + row[r]] == 1
        takes_part = n_stages == 5 or not alone
        returning += not alone
        if takes_part:
            detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        if n_stages >= 3:
            evaluate_leaves(tree, palette, edges, leaves, scratch, y[n])
        if n_stages >= 4:
            evaluate_regions(tree, palette, masses, edges, nodes, scratch)
        if n_stages == 5:
            if scratch.node_value[0] > SAFE:
                draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, row, 0, False)
            else:
                evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch)
                draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, row, 0, True)
        if takes_part:
            attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
    return returning


def student_arrays(size):
    """Parameters of ``size`` Student-t leaves, and two arrays for the results."""
    rng = np.random.default_rng(0)
    gamma = rng.gamma(2.0, size=(3, size))
    return (-gamma[0], gamma[1] + 1.0, rng.normal(size=size), gamma[2], np.zeros(size), np.empty(size), np.empty(size))


@timed_kernel
def student(arrays, repeats):
    """Student-t densities without anything round them: the arithmetic that the exact kernel cannot avoid."""
    log_scale, power, centre, curvature, slope, argument, out = arrays
    for i in range(repeats):
        argument_of(0.001 * (i % 100), 0.0, centre, curvature, slope, argument)
        log_density_of(log_scale, power, argument, out)
        exponentiate(out, argument)


if __name__ == "__main__":
    main()
