"""Tables and figures of what `dags_paper` wrote down."""

from pathlib import Path

import numpy as np

from tests.benchmarks.dags_problem import QUERY_SIZES
from tests.benchmarks.report import machine, markdown_table

TABLE_SIZES = (4, 8, 16)  # edges in the evidence of table 2
PEERS = ("sumu", "dibs")
METRICS = {  # name: label, whether more is better
    "e_shd": ("expected SHD between CPDAGs", False),
    "mll": ("mean log p(test rows | graph) in nats", True),
    "auroc": ("AUROC of edges", True),
    "mse_ce": ("MSE of causal effects", False),
}


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


def draw_metrics(rows, d, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(r["method"] for r in rows))
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.2), layout="constrained")
    for axis, (metric, (label, more)) in zip(axes, METRICS.items(), strict=True):
        axis.boxplot([[r[metric] for r in rows if r["method"] == n] for n in names], tick_labels=names)
        axis.set_title(f"{label}\n({'higher' if more else 'lower'} is better)", fontsize=10)
        axis.tick_params(axis="x", rotation=60)
    figure.suptitle(f"d = {d}, {len({r['seed'] for r in rows})} data sets of 100 rows")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_support(rows, d, path):
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for mark, name in zip("os^vDXP", dict.fromkeys(r["method"] for r in rows), strict=False):
        means = [np.mean([r[f"support_{k}"] for r in rows if r["method"] == name]) for k in QUERY_SIZES]
        axis.plot(QUERY_SIZES, means, marker=mark, label=name, alpha=0.8)
    axis.set(
        xlabel="true edges in the query", ylabel="queries with positive probability", xscale="log", ylim=(-0.03, 1.05)
    )
    axis.set_xticks(QUERY_SIZES, [str(k) for k in QUERY_SIZES])
    axis.minorticks_off()
    axis.legend()
    axis.set_title(f"d = {d}, {len({r['seed'] for r in rows})} data sets, 20 queries each")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def report(given, results):
    """Tables and figures of all that is there; a data set that lacks one method still counts for the others."""
    print(machine())
    for what, d in sorted({(r["what"], r["d"]) for r in results.records.values()}):
        rows = [r for r in results.records.values() if (r["what"], r["d"]) == (what, d)]
        print(f"\n{what}, d = {d}\n")
        rows = without_rare_peers(rows)
        print(table(rows, [*METRICS, "cpu", "log_mass", "r_hat"]))
        if what == "figures":
            print(table(rows, [f"support_{k}" for k in QUERY_SIZES]))
            print(table(rows, [f"conditional_{k}" for k in TABLE_SIZES]))
        if given.out:
            out = Path(given.out)
            out.mkdir(parents=True, exist_ok=True)
            draw_metrics(rows, d, out / f"dags_figure{2 if what == 'figures' else 4}_d{d}.png")
            if what == "figures":
                draw_support(rows, d, out / f"dags_figure3_d{d}.png")
