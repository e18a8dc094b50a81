"""Prints the tables of docs/benchmarks_trees.md from the results of `trees_runs`, `trees_remedies` and `trees_bart`.

python -m tests.benchmarks.trees_tables RESULTS.jsonl
"""

import sys

from tests.benchmarks.report import machine, markdown_table, verdict
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


def value(results, prefix, field):
    found = cells(results, prefix, [field])
    return found[0][0] if found else float("nan")


def targets(results):
    rows = []

    def at(name, what, field):
        return value(results, f"{what.split('/')[0]}/{name}/{what.split('/')[1]}", field)

    for name, times, share in (("pendigits", 3.0, 0.2), ("magic04", 5.0, 0.5)):
        ours = at(name, "target/optimal 100", "seconds")
        rows.append(verdict(f"T1 {name}: CPU over CART", ours / at(name, "peer/CART", "seconds"), times, False))
        rows.append(
            verdict(f"T1 {name}: CPU over random forest", ours / at(name, "peer/forest", "seconds"), share, False)
        )
    for name, gain, loss in (("pendigits", 0.01, -0.03), ("magic04", 0.3, 0.03)):
        for m in (100, 10):
            ours = f"target/optimal {m}"
            more = at(name, ours, "log_p") - at(name, "peer/CART", "log_p")
            rows.append(verdict(f"T2 {name}, {m} particles: log predictive − CART smoothed", more, gain))
            more = at(name, ours, "accuracy") - at(name, "peer/CART", "accuracy")
            rows.append(verdict(f"T2 {name}, {m} particles: accuracy − CART", more, loss))
    for name, least in (("pendigits", -0.33), ("magic04", -0.345)):
        rows.append(verdict(f"T3 {name}: log predictive", at(name, "target/50 trees", "log_p"), least))
    ratio = at("pendigits", "target/optimal 100", "tables") / at("pendigits", "target/optimal 100", "expansions")
    rows.append(verdict("T4 pendigits: tables over expansions", ratio, 0.1, False))
    rows.append(verdict("T5 pendigits: CPU s of predict_proba", value(results, "t5/pendigits", "seconds"), 0.1, False))
    return markdown_table(["what", "demand", "measured", "verdict"], rows)


def main():
    results = Results(sys.argv[1])
    fit = ["accuracy", "log_p", "log_z", "seconds"]
    shown = ["accuracy", "log predictive", "log evidence", "CPU s"]
    print(machine() + "\n")
    print("### Targets\n\n" + targets(results))
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
