"""The report of `spn_tables`: Markdown tables from the store of results."""

from collections import Counter

import numpy as np

from tests.benchmarks.paper_tables import EFFECTIVE, LIKELIHOOD, SECONDS, best_likelihood
from tests.benchmarks.report import machine, markdown_table
from tests.benchmarks.table_runs import averaged

AVERAGE = "average of all"  # of the settings: the equal mixture of their densities
RIVALS = ("published", "bottom_up", "variational")
KERNELS = ("exact", "published", "bottom_up")


def report(options, store):
    """All sections, as far as the store goes."""
    found = list(store.records.values())
    names = [n for n in options.sets if any(r["set"] == n for r in found)]
    machines = Counter(r["processor"] for r in found if "processor" in r)
    parts = [f"Runs on {', '.join(f'{m} ({n})' for m, n in machines.most_common())}; report: {machine()}\n"]
    for c in options.children:
        runs = chosen(found, str(c), names)
        parts += section(f"Samplers, C = {c}: mean log density of the test rows, nats a row", samplers(runs, names, c))
        parts += section(f"Samplers, C = {c}: milliseconds a sweep", speeds(runs, names, c))
        parts += section(f"Samplers, C = {c}: effective draws", effective(runs, names, c))
    settings = [r for r in found if r["sampler"] == "learned" and "test" in r]
    parts += section("Ours at its best", best(settings, names))
    parts += section("Width and splits: mean log density of the test rows, nats a row", study(settings, names, "test"))
    parts += section("Width and splits: milliseconds a sweep", study(settings, names, "ms"))
    parts += section("Width and splits: occupied nodes", study(settings, names, "nodes"))
    return "\n".join(parts)


def section(title, table):
    return [f"### {title}\n", table] if table else []


def chosen(found, width, names):
    """Runs of one width by (set, sampler, seed), of the longest budget under which the set has the default's runs."""
    runs = {}
    for name in names:
        wanted = ("exact", *RIVALS)
        own = [r for r in found if r["set"] == name and r["width"] == width and r["sampler"] in wanted]
        budgets = Counter(r["seconds"] for r in own if "test" in r)
        if not budgets:
            continue
        seconds = max(budgets, key=lambda b: (budgets[b], b))
        runs |= {(name, r["sampler"], r["seed"]): r for r in own if r["seconds"] == seconds}
    return runs


def seeds_of(runs, name, *samplers):
    """Seeds that all these samplers have finished."""
    sets = [{s for (n, k, s), r in runs.items() if n == name and k == sampler and "test" in r} for sampler in samplers]
    return sorted(set.intersection(*sets)) if sets else []


def column(runs, name, sampler, seeds, key="test"):
    return np.array([runs[name, sampler, s][key] for s in seeds], np.float64)


def paired(difference):
    """Mean and standard error of a paired difference; no error from one seed."""
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
    return float(difference.mean()), float(error)


def samplers(runs, names, c):
    """The default against each other sampler, paired over the seeds that both have finished."""
    rows = []
    for name in names:
        pairs = {k: seeds for k in RIVALS if (seeds := seeds_of(runs, name, "exact", k))}
        if not pairs:
            continue
        own = seeds_of(runs, name, "exact")
        leads = {k: paired(column(runs, name, "exact", s) - column(runs, name, k, s)) for k, s in pairs.items()}
        most = max(map(len, pairs.values()))
        top = min((k for k in pairs if len(pairs[k]) == most), key=lambda k: leads[k][0])
        cells = []
        for k in RIVALS:
            seeds = pairs.get(k, [])
            fewer = f" ({len(seeds)})" if len(seeds) < len(own) else ""
            cells.append(f"{column(runs, name, k, seeds).mean():.2f}{fewer}" if seeds else "–")
        paper = LIKELIHOOD[name][c]
        row = [name, f"{runs[name, 'exact', own[0]]['seconds']:g}", f"{len(own)}"]
        row += [f"{column(runs, name, 'exact', own).mean():.2f}", *cells]
        rows.append([*row, f"{top}: {shown(leads[top])}", f"{paper[0][0]:g} / {paper[1][0]:g}"])
    header = ["set", "seconds", "seeds", "default", *(f"{k} (seeds, if fewer)" for k in RIVALS)]
    header += ["default − best other", "paper, top-down / bottom-up"]
    return markdown_table(header, rows) if rows else ""


def shown(lead):
    value, error = lead
    return f"{value:+.3f} ± {error:.3f}" if error == error else f"{value:+.3f}"


def speeds(runs, names, c):
    rows = []
    for name in names:
        ms = {k: column(runs, name, k, s, "ms").mean() for k in KERNELS if (s := seeds_of(runs, name, k))}
        if "exact" not in ms:
            continue
        row = [name, *(ms.get(k) for k in KERNELS)]
        for a, b in (("bottom_up", "exact"), ("published", "exact")):
            row.append(ms[a] / ms[b] if a in ms else None)
        down, up = SECONDS[name][c]
        rows.append([*row, up / down, f"{1e3 * down:g} / {1e3 * up:g}"])
    header = ["set", "default", "published", "bottom-up", "bottom-up / default", "published / default"]
    return markdown_table([*header, "paper: speed-up", "paper, ms: top-down / bottom-up"], rows) if rows else ""


def effective(runs, names, c):
    """Effective draws among 50 of the second half, and a CPU second, of the log joint of one chain."""
    rows = []
    for name in names:
        if not seeds_of(runs, name, "exact"):
            continue
        row = [name]
        for key in ("ess50", "ess"):
            for kernel in KERNELS:
                seeds = seeds_of(runs, name, kernel)
                values = [runs[name, kernel, s][key] for s in seeds]
                values = [v for v in values if v is not None]
                half = 0.5 * runs[name, kernel, seeds[0]]["seconds"] if seeds and key == "ess" else 1.0
                row.append(float(np.mean(values)) / half if values else None)
        down, up = EFFECTIVE[name][c]
        rows.append([*row, f"{down:g} / {up:g}" if up else f"{down:g} / –"])
    kernels = ("default", "published", "bottom-up")
    header = ["set", *(f"{k}, of 50" for k in kernels), *(f"{k}, a second" for k in kernels)]
    return markdown_table([*header, "paper, of 50: top-down / bottom-up"], rows) if rows else ""


def best(settings, names):
    """For each seed what has the highest validation density: a setting, or the average of all; its test density."""
    rows = []
    for name in names:
        own = longest([r for r in settings if r["set"] == name])
        if not own:
            continue
        seeds = sorted({r["seed"] for r in own})
        choices = [candidates([r for r in own if r["seed"] == s]) for s in seeds]
        picked = [max(c, key=lambda c: c[1]) for c in choices]
        averages = [density for c in choices for which, _, density in c if which == AVERAGE]
        test = np.array([p[2] for p in picked])
        value, sd = best_likelihood(name)
        spread = f" ± {test.std(ddof=1):.2f}" if len(test) > 1 else ""
        n_settings = len({r["width"] for r in own})
        row = [name, f"{own[0]['seconds']:g}", f"{n_settings}", f"{len(test)}", f"{test.mean():.2f}{spread}"]
        row.append(f"{value:g} ± {sd:g}")
        row.append(f"{np.mean(averages):.2f}" if len(averages) == len(seeds) else "–")
        which = Counter(p[0] for p in picked).most_common()
        rows.append([*row, "; ".join(f"{w} ({n})" if n > 1 else w for w, n in which)])
    header = ["set", "seconds a setting", "settings", "seeds", "ours ± sd", "paper's best ± sd"]
    header += [AVERAGE, "chosen on validation"]
    return markdown_table(header, rows) if rows else ""


def candidates(records):
    """(name, validation, test) of each setting of one split, and of the equal mixture of their densities."""
    found = [(r["width"], r["validation"], r["test"]) for r in records]
    if len(records) > 1 and all("rows" in r for r in records):
        parts = [np.array([r["rows"][i] for r in records]) for i in (0, 1)]
        found.append((AVERAGE, *(averaged(logs) for logs in parts)))
    return found


def longest(records):
    """Those of the budget that most runs have, the longer one among equals."""
    budgets = Counter(r["seconds"] for r in records)
    most = max(budgets, key=lambda b: (budgets[b], b)) if budgets else None
    return [r for r in records if r["seconds"] == most]


def study(settings, names, key):
    """One row for each set, over the seeds that all its settings have."""
    columns = list(dict.fromkeys(r["width"] for r in settings))
    rows = []
    for name in names:
        own = longest([r for r in settings if r["set"] == name])
        seeds = [{r["seed"] for r in own if r["width"] == w} for w in columns]
        seeds = set.intersection(*(s for s in seeds if s)) if own else set()
        if not seeds:
            continue
        row = [name, ", ".join(map(str, sorted(seeds)))]
        for width in columns:
            kept = [r for r in own if r["width"] == width and r["seed"] in seeds]
            values = [r["occupied"][0] if key == "nodes" else r[key] for r in kept]
            row.append("–" if not values else f"{np.mean(values):.2f}" if key == "test" else float(np.mean(values)))
        rows.append(row)
    return markdown_table(["set", "seeds", *columns], rows) if rows else ""
