"""The report of `tables_side_by_side`: Markdown tables from its results, the losses first."""

from collections import Counter

import numpy as np

from tests.benchmarks.report import markdown_table
from tests.benchmarks.table_learners import LEARNERS, OURS

DEFAULT = OURS[0]  # that the others are compared with


class Results:
    """Records of one set by method, and scores of their rows over folds.

    Parameters
    ----------
    records : list of dict
    """

    def __init__(self, records):
        self.by_method = {}
        for r in records:
            if "skipped" not in r:
                self.by_method.setdefault(r["method"], {})[r["fold"]] = r
        self.folds = sorted(self.by_method.get(DEFAULT, {}))

    def rows(self, method, measure, against=None):
        """Scores and counts (each (n,)) of the rows of all folds that the methods have finished; None without any."""
        methods = [self.by_method.get(m, {}) for m in (method, against or method)]
        folds = [k for k in self.folds if all(k in m and measure.field in m[k] for m in methods)]
        if not folds:
            return None
        records = [methods[0][k] for k in folds]
        scores = np.concatenate([r[measure.field] for r in records]).astype(float)
        counts = np.concatenate([r[measure.counts] for r in records]) if measure.counts else np.ones(len(scores))
        return (scores, counts.astype(float)) if counts.sum() else None


class Measure:
    """A score that is averaged over rows, or over the cells of rows.

    Parameters
    ----------
    field : str
        Of the records: a value for each row.
    sign : int
        1 if a higher value is better, else -1.
    is_root : bool
        Whether the root of the average is shown.
    counts : str, optional
        Field that says of how many cells a row's value is the sum.
    """

    def __init__(self, field, sign, is_root=False, counts=None):
        self.field, self.sign, self.is_root, self.counts = field, sign, is_root, counts

    def value(self, rows):
        """The average and its standard error, the rows independent."""
        scores, counts = rows
        mean = scores.sum() / counts.sum()
        error = standard_error(scores - mean * counts, counts)
        return (np.sqrt(mean), error / max(2.0 * np.sqrt(mean), 1e-12)) if self.is_root else (mean, error)

    def lead(self, ours, other):
        """By how much ours is better, and the standard error of that paired difference."""
        (a, counts), (b, _) = ours, other
        difference = (a - b).sum() / counts.sum()
        error = standard_error(a - b - difference * counts, counts)
        if self.is_root:  # of roots the difference is that of the squares divided by their sum
            both = self.value(ours)[0] + self.value(other)[0]
            difference, error = difference / max(both, 1e-12), error / max(both, 1e-12)
        return self.sign * difference, error


def standard_error(residuals, counts):
    n = len(residuals)
    return float(np.sqrt(np.square(residuals).sum() * n / max(n - 1, 1)) / counts.sum())


DENSITY, RMSE = Measure("density", 1), Measure("squares", -1, True, "blanked")
LOG_LOSS, ERROR = Measure("target", -1), Measure("target", -1, True)
MEASURES = {
    "Mean log density of the test rows, nats a row": DENSITY,
    "Root mean squared error of blanked numbers, standard deviations": RMSE,
    "Log loss of the target's levels, nats": LOG_LOSS,
    "Root mean squared error of numeric targets, standard deviations": ERROR,
}


def report(records, sets, budgets):
    """All sections, as far as the results go; ``budgets`` are the CPU seconds to learn by method."""
    records = [r for r in records if r["seconds"] == budgets.get(r["method"], 0.0)]
    names = [n for n in sets if any(r["set"] == n and r["method"] == DEFAULT for r in records)]
    results = {n: Results([r for r in records if r["set"] == n]) for n in names}
    parts = [heading(records, budgets)]
    parts += section("Losses: where the default is not first within one standard error", losses(results))
    for title, measure in MEASURES.items():
        parts += section(title, compared(results, measure))
    return "\n".join(parts)


def section(title, table):
    return [f"### {title}\n", table] if table else []


def heading(records, budgets):
    """What was run where, at which commits."""
    commits = Counter(r["commit"] for r in records if r["method"] in OURS)
    machines = Counter(r["processor"] for r in records)
    said, where = (", ".join(f"{x} ({n})" for x, n in found.most_common()) for found in (commits, machines))
    given = ", ".join(f"{m} {s:g}" for m, s in budgets.items())
    return (
        f"CPU seconds to learn: {given}; commit of our runs: {said}; processors: {where}. Values ± standard error; in "
        "brackets by how much the default is ahead, row by row, ± the standard error of that difference.\n"
    )


def is_for(measure, result):
    """Whether a measure is about this set's kind of target."""
    if measure.field != "target":
        return True
    is_level = next(iter(result.by_method[DEFAULT].values()))["target_is_level"]
    return is_level != (measure is ERROR)


def leads(result, measure):
    """Lead of the default over every other method that has the measure, our variational fit left out."""
    found = {}
    for method in result.by_method:
        ours, other = result.rows(DEFAULT, measure, method), result.rows(method, measure, DEFAULT)
        if method not in OURS and ours is not None and other is not None:
            found[method] = measure.lead(ours, other)
    return found


def losses(results):
    """A line for each measure: on how many sets the default is first, or level with it, and who leads elsewhere."""
    rows = []
    for title, measure in MEASURES.items():
        first, level, lost = 0, 0, []
        for name, result in results.items():
            found = leads(result, measure) if is_for(measure, result) else {}
            if not found:
                continue
            best = min(found, key=lambda m: found[m][0])
            lead, error = found[best]
            first += lead >= 0.0
            level += -error <= lead < 0.0
            if lead < -error:
                lost.append(f"{name} ({best}, {-lead:.2f} ± {error:.2f})")
        if first or level or lost:
            rows.append([title, first, level, len(lost), "; ".join(lost) or "none"])
    header = ["measure", "sets: first", "within one standard error", "lost", "lost on (who is first, by how much)"]
    return markdown_table(header, rows) if rows else ""


def compared(results, measure):
    """Values of every method, of the others with the default's lead; the best of a set in bold type."""
    has = {m for r in results.values() for m in r.by_method if r.rows(m, measure) is not None}
    methods, rows = [m for m in LEARNERS if m in has], []
    for name, result in results.items():
        ours = result.rows(DEFAULT, measure) if is_for(measure, result) else None
        if ours is None:
            continue
        cells, values = [], []
        for method in methods:
            own = result.rows(method, measure, DEFAULT)
            if own is None:
                cells.append("–")
                values.append(-np.inf)
                continue
            value, error = measure.value(own)
            values.append(measure.sign * value)
            lead = measure.lead(result.rows(DEFAULT, measure, method), own)
            cells.append(f"{value:.3f} ± {error:.3f}" if method == DEFAULT else f"{value:.3f} ({shown(lead)})")
        best = int(np.argmax(values))
        cells[best] = f"**{cells[best]}**"
        rows.append([f"{name} ({len(ours[0])} rows)", *cells])
    header = ["set", *("default, by sampling" if m == DEFAULT else m for m in methods)]
    return markdown_table(header, rows) if rows else ""


def shown(lead):
    return f"{lead[0]:+.3f} ± {lead[1]:.3f}"
