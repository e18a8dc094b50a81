"""Collapsed log joint against CPU seconds from one start: how fast each kernel climbs.

All kernels start from the same assignments and keep the same hyperparameters. Assignments drawn from the prior know
nothing of the data, and all kernels have the same way to go; those of k-means stand near the plateau already. The last
columns say what "auto" may decide from: occupied leaves, leaf values computed in a sweep.

    python -m tests.benchmarks.spn_climb DATA
"""

import numpy as np

from tests.benchmarks.report import finish, markdown_table, parser
from tests.benchmarks.spn_problem import TimedChain, read_table

READINGS = 50  # of the log joint until the first time, and in each interval between two


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--table", default="abalone")
    arguments.add_argument("--children", default="4", help='a number or "infinite"')
    arguments.add_argument("--times", type=float, nargs="+", default=[2.5, 10.0, 60.0])
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--start", choices=["kmeans", "prior"], default="prior")
    arguments.add_argument("--leaf-scale", type=float, default=1.0)
    arguments.add_argument(
        "--kernels", nargs="+", default=["auto", "exact", "frontier:4", "induced_tree", "published", "bottom_up"]
    )
    arguments.add_argument("--brief", nargs="*", default=[], help="kernels that are spared the last time")
    options = arguments.parse_args()
    n_children = options.children if options.children == "infinite" else int(options.children)
    table = read_table(options.data, options.table)
    rows, figures = [], []
    for seed in options.seeds:
        for kernel in options.kernels:
            record = climb(table, n_children, kernel, seed, options)
            figures.append(record)
            rows.append([str(seed), record["label"], record["ms"], record["moved"], record["start"]])
            rows[-1] += [*record["log_joint"], record["leaves"], record["values"]]
    header = ["seed", "kernel", "ms/sweep", "moved", "start", *(f"{t:g} s" for t in options.times)]
    header += ["occupied leaves", "leaf values a sweep"]
    shape = f"{len(table.values)} x {len(table.columns)}"
    sections = [
        (
            f"{options.table} ({shape}), C = {n_children}: collapsed log joint from a {options.start} start",
            markdown_table(header, rows),
        ),
        ("Lead of auto at these times, in nats", leads(figures, options, "log_joint")),
        ("Lead of auto in the mean log joint since a fifth of these times", leads(figures, options, "mean")),
    ]
    finish(options, sections, figures)


def climb(table, n_children, kernel, seed, options):
    """Log joints at the given CPU seconds and their means since a fifth of that time, and counts of the state reached.

    A sweep in progress at a time counts for the next one. At most about `READINGS` sweeps an interval are recorded.
    """
    run = TimedChain(table, n_children, kernel, options.leaf_scale)
    run.start(seed, options.start)
    start = run.log_joint()
    run.compile()
    run.start(seed, options.start)
    sampler = run.chain.sampler
    seconds, log_joint = [0.0], [start]
    values = n_counted = 0
    chosen = set()
    times = options.times[:-1] if kernel in options.brief else options.times
    spacing, following = times[0] / READINGS, 0.0
    for t in times:
        while run.seconds < t:
            work = sampler.work
            counted = int(work.values[0])
            run.sweep()
            if sampler.work is work:  # made anew, and the count with it, when arrays grow
                values += int(work.values[0]) - counted
                n_counted += 1
            chosen.add(run.chain.chosen_kernel())
            if run.seconds >= min(following, t - 3.0 * run.seconds / run.n_sweeps):
                seconds.append(run.seconds)
                log_joint.append(run.log_joint())
                following = run.seconds + spacing
        spacing = t / READINGS
    seconds, log_joint = np.array(seconds), np.array(log_joint)
    readings = [np.nan] * len(options.times), [np.nan] * len(options.times)
    for i, t in enumerate(times):
        readings[0][i] = log_joint[seconds <= t][-1]
        kept = (seconds > 0.2 * t) & (seconds <= t)
        # each reading stands for the time since the one before
        readings[1][i] = (
            np.average(log_joint[kept], weights=np.diff(seconds, prepend=0.0)[kept]) if kept.any() else start
        )
    used = chosen.pop() if len(chosen) == 1 else "both"
    per_sweep = values / n_counted if values > 0 and used != "both" else None
    if used == "exact":
        per_sweep = sum(int(sampler.net.edges.top[r]) for r in sampler.net.tree.leaf_region) * len(table.values)
    return {
        "kernel": kernel,
        "label": f"{kernel} ({used})" if kernel == "auto" else kernel,
        "seed": seed,
        "ms": 1e3 * run.seconds / run.n_sweeps,
        "moved": run.moved / run.n_sweeps,
        "start": start,
        "log_joint": readings[0],
        "mean": readings[1],
        "leaves": int(run.statistics()[3]),
        "values": per_sweep,
        "trace": [seconds.tolist(), log_joint.tolist()],
    }


def leads(figures, options, key):
    """Per rival and time: by how much "auto" leads, over the seeds."""
    by = {(f["kernel"], f["seed"]): np.array(f[key]) for f in figures}
    rows = []
    for rival in (k for k in options.kernels if k != "auto"):
        lead = np.array([by["auto", s] - by[rival, s] for s in options.seeds])
        for i, t in enumerate(options.times):
            if np.isnan(lead[:, i]).any():
                continue
            ahead = int((lead[:, i] > 0).sum())
            error = lead[:, i].std(ddof=1) / len(lead) ** 0.5 if len(lead) > 1 else None
            rows.append([rival, f"{t:g} s", lead[:, i].min(), lead[:, i].mean(), error, f"{ahead} of {len(lead)}"])
    return markdown_table(["rival", "CPU seconds", "smallest lead", "mean lead", "standard error", "seeds ahead"], rows)


if __name__ == "__main__":
    main()
