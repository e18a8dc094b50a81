"""Tables of what `dags_paper` wrote down."""

import numpy as np

from tests.benchmarks.dags_problem import QUERY_SIZES
from tests.benchmarks.report import machine, markdown_table

TABLE_SIZES = (4, 8, 16)  # edges in the evidence of table 2
PEERS = ("sumu", "dibs")
METRICS = ("e_shd", "mll", "auroc", "mse_ce")


def table(rows, columns):
    names = list(dict.fromkeys(r["method"] for r in rows))
    lines = []
    for name in names:
        line = [name]
        for column in columns:
            values = np.array([r[column] for r in rows if r["method"] == name and column in r])
            error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
            digits = 0 if column == "mll" else 3 if "auroc" in column or "cond" in column else 2
            digits = 4 if column in ("mse_ce", "r_hat") else digits
            scatter = f" ± {error:.{max(digits, 1)}f}" if values.size > 1 else ""
            line.append(f"{values.mean():,.{digits}f}{scatter}" if values.size else "–")
        lines.append([*line, str(sum(r["method"] == name for r in rows))])
    return markdown_table(["", *columns, "data sets"], lines)


def without_rare_peers(rows):
    """The rows of methods that met every data set; peers that met some only get a table with all methods on those."""
    seeds = {name: {r["seed"] for r in rows if r["method"] == name} for name in {r["method"] for r in rows}}
    most = max(map(len, seeds.values()))
    rare = [name for name in PEERS if 0 < len(seeds.get(name, ())) < most]
    for name in rare:
        beside = [r for r in rows if r["seed"] in seeds[name] and r["method"] not in set(rare) - {name}]
        print(f"Data sets that {name} met: {sorted(seeds[name])}\n")
        print(table(beside, [*METRICS, "cpu"]))
        print(table(beside, [f"support_{k}" for k in QUERY_SIZES]))
        print(table(beside, [f"conditional_{k}" for k in TABLE_SIZES]))
    return [r for r in rows if r["method"] not in rare]


def report(results):
    """Tables of all that is there; a data set that lacks one method still counts for the others."""
    print(machine())
    for what, d in sorted({(r["what"], r["d"]) for r in results.records.values()}):
        rows = [r for r in results.records.values() if (r["what"], r["d"]) == (what, d)]
        print(f"\n{what}, d = {d}\n")
        rows = without_rare_peers(rows)
        print(table(rows, [*METRICS, "cpu", "log_mass", "r_hat"]))
        if what == "figures":
            print(table(rows, [f"support_{k}" for k in QUERY_SIZES]))
            print(table(rows, [f"conditional_{k}" for k in TABLE_SIZES]))
