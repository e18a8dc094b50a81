"""Prints the tables of docs/benchmarks_trees.md from the results of `trees_runs`, `trees_remedies` and `trees_bart`.

python -m tests.benchmarks.trees_tables RESULTS.jsonl
"""

import sys

from tests.benchmarks.report import machine, markdown_table
from tests.benchmarks.trees_problem import Results
from tests.benchmarks.trees_runs import PARTICLES, VARIANTS

NAMES = ("pendigits", "magic04")
SEEDS = range(20)


def cells(results, prefix, fields):
    """Means of the fields over the seeds that are there, and their number; None where nothing is."""
    keys = [f"{prefix}/{s}" for s in SEEDS if f"{prefix}/{s}" in results.cells]
    if not keys:
        return None
    means = [results.mean(keys, f) if f in results.cells[keys[0]] else None for f in fields]
    return [m[0] if m else None for m in means], len(keys)


def table(results, header, rows, fields):
    """Rows of (labels..., prefix) that have results."""
    out = []
    for *labels, prefix in rows:
        found = cells(results, prefix, fields)
        if found:
            out.append([*labels, *found[0], str(found[1])])
    return markdown_table([*header, "seeds"], out) if out else "no results\n"


def main():
    results = Results(sys.argv[1])
    fit = ["accuracy", "log_p", "log_z", "seconds"]
    shown = ["accuracy", "log predictive", "log evidence", "CPU s"]
    print(machine() + "\n")
    for name in NAMES:
        rows = [(m, f"peer/{name}/{m}") for m in ("CART", "CART tuned", "forest")]
        rows += [(f"particles, {m}", f"target/{name}/{m}") for m in ("optimal 10", "optimal 100", "50 trees")]
        rows += [("pymc-bart", f"bart/{name}")]
        print(f"### Peers, {name}\n\n" + table(results, ["method", *shown], rows, fit))
    for name in NAMES:
        rows = [
            (p, e, str(m), f"fig1/{name}/{p}/{e}/{m}")
            for p in ("optimal", "prior", "empirical")
            for e in ("node", "layer")
            for m in PARTICLES
        ]
        print(f"### Figures 1 and 3, {name}\n\n")
        print(table(results, ["proposal", "expansion", "particles", *shown], rows, fit))
    for name in NAMES:
        rows = [
            (str(n), w, f"islands/{name}/{n}/{w}") for n in (1, 5, 20, 100) for w in ("evidence", "equal", "stacking")
        ]
        header = ["islands", "weights", "accuracy", "log predictive", "log evidence", "sd of islands", "CPU s"]
        fields = ["accuracy", "log_p", "log_z", "spread", "seconds"]
        print(f"### Figure 2, {name}\n\n" + table(results, header, rows, fields))
    for name in NAMES:
        rows = []
        for label in VARIANTS:
            rows += [
                (label, f"{p} {m}", f"hyper/{name}/{label}/{p}/{m}") for p in ("optimal", "prior") for m in PARTICLES
            ]
        print(f"### Figures 4 to 7, {name}\n\n" + table(results, ["prior", "method", *shown], rows, fit))
    rows = [(k.split("/")[1], k.split("/")[2], k.rsplit("/", 1)[0]) for k in results.cells if k.startswith("remedy/")]
    rows = list(dict.fromkeys(rows))
    header = ["table", "method", "log evidence", "sd over runs", "best log joint", "log predictive", "CPU s"]
    fields = ["log_z", "spread", "log_joint", "log_p", "seconds"]
    print("### Remedies\n\n" + table(results, header, rows, fields))
    rows = [(k.split("/")[1], k.rsplit("/", 1)[0]) for k in results.cells if k.startswith("learned/")]
    header = ["table", "alpha, mean", "alpha, sd", "log joint", "accuracy", "log predictive", "CPU s"]
    fields = ["alpha", "alpha_sd", "log_joint", "accuracy", "log_p", "seconds"]
    print("### Learned alpha\n\n" + table(results, header, list(dict.fromkeys(rows)), fields))


if __name__ == "__main__":
    main()
