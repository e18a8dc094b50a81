"""Our defaults and what others have for tables, side by side: densities, blanked cells, targets and CPU seconds.

    python -m tests.benchmarks.tables_side_by_side DATA --out RESULTS.jsonl
    python -m tests.benchmarks.tables_side_by_side DATA --out RESULTS.jsonl --report

DATA is a folder of tables as .npz files. Every set has five folds, of which each is once the test; the other rows are
learned from, one in eight of them as validation rows by the methods that choose a size. A result that RESULTS holds is
not worked out again, so that an interrupted command goes on where it stopped. The rules:

* Complete rows only. Numeric columns are dequantised once, for all methods alike (`table_rules`); levels are mass.
* Of the first test rows some 30 % of the cells are blanked. Numbers are scored by their root mean squared error in
  standard deviations. A method fills in the mean given the other cells of that row.
* The target is asked for given all other columns; sets without one take their last column.
* CPU seconds to learn are of all threads, without compilation, the choice by validation rows included.
* Mixtures, the copula and the spline flow take coded columns as independent: they have nothing else for levels.
* Gaps of a row are left out of the densities of ``arfpy``. The flow has densities of complete rows, and no more.

``arfpy`` and ``zuko`` take part where they can be imported: ``pip install arfpy zuko``.
"""

import argparse
import subprocess
import time
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.benchmarks.report import Store, processor
from tests.benchmarks.table_learners import LEARNERS, OURS
from tests.benchmarks.table_peers import PACKAGES
from tests.benchmarks.table_rules import FOLDS, fold

KEY = ("set", "fold", "method", "seconds")
BLANKED = 0.3  # share of the cells
ANSWERED = 200  # test rows that cells and targets are asked of
DIGITS = 3  # of what is kept for each row


def table_sets(data):
    """Names of the tables in a folder, the smallest first."""
    sizes = {}
    for path in Path(data).glob("*.npz"):
        with np.load(path) as file:
            if "X" in file:
                sizes[path.stem] = file["X"].size
    return sorted(sizes, key=lambda name: (sizes[name], name))


def read_fold(data, name, k):
    """The prepared fold of a set, and the number of its target."""
    with np.load(Path(data) / f"{name}.npz") as file:
        column = str(file["target_column"])
        extra = file["target"] if "target" in file and not column else None
    prepared = fold(data, name, k, extra)
    names = list(prepared.train.names)
    return prepared, names.index(column) if column in names else len(names) - 1


def blanked_cells(name, k, shape):
    """Which cells of the first test rows are blanked; one of each row at least stays."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), k])
    mask = rng.random((min(shape[0], ANSWERED), shape[1])) < BLANKED
    mask[mask.all(axis=1), 0] = False
    return mask


def measure(model, prepared, target, mask):
    """Scores of each row, as a dict; what a model does not answer is left out.

    Parameters
    ----------
    model : object
        See `table_learners`.
    prepared : Prepared
    target : int
    mask : (m, D) bool
        Cells that are blanked in the first m test rows.
    """
    values, numeric = prepared.test.values, prepared.numeric
    spread = prepared.learning.values.std(axis=0)
    rows, found = values[: len(mask)], {}
    blanked, untold = np.where(mask, np.nan, rows), rows.copy()
    untold[:, target] = np.nan
    joint, fills = hasattr(model, "log_density"), hasattr(model, "fill")
    if joint:
        found["density"] = model.log_density(values)
    if fills:
        wrong = np.where(mask & numeric, (model.fill(blanked) - rows) / spread, 0.0)
        found["squares"] = np.square(wrong).sum(axis=1)
    if joint == fills:  # not of imputers, nor of densities that take complete rows
        found |= of_target(model, untold, rows[:, target], target, prepared, spread[target])
    return found


def of_target(model, untold, truth, target, prepared, spread):
    """Losses of the target: squared errors in variances of a number, log losses of a level."""
    if prepared.numeric[target]:
        told = model.levels(untold, target) if hasattr(model, "levels") else model.fill(untold)[:, target]
        return {"target": np.square((told - truth) / spread)}
    if hasattr(model, "levels"):
        logs = model.levels(untold, target)
    else:
        n_levels = len(prepared.train.columns[target].levels)
        copies = np.repeat(untold, n_levels, axis=0)
        copies[:, target] = np.tile(np.arange(n_levels), len(untold))
        logs = model.log_density(copies).reshape(len(untold), n_levels)
    logs = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
    return {"target": -logs[np.arange(len(truth)), truth.astype(int)]}


def carry_out(options, key):
    """The record of one method on one fold; with a reason where it does not apply."""
    name, k, method, seconds = key
    if method in PACKAGES and not find_spec(PACKAGES[method]):
        return {"skipped": "not installed"}
    prepared, target = read_fold(options.data, name, k)
    begin = time.process_time()
    model = LEARNERS[method](prepared, target, seconds, k)
    learned = time.process_time() - begin
    if model is None:
        return {"skipped": "no numeric column"}
    mask = blanked_cells(name, k, prepared.test.values.shape)
    found = measure(model, prepared, target, mask)
    kept = {q: np.round(v, DIGITS).tolist() if isinstance(v, np.ndarray) else v for q, v in found.items()}
    coded = ~prepared.numeric
    kept |= {"blanked": (mask & ~coded).sum(axis=1).tolist(), "target_is_level": bool(coded[target])}
    kept |= {"n_learned": len(prepared.learning.values), "columns": len(coded)}
    return {"learn": getattr(model, "used", learned), "chosen": getattr(model, "chosen", ""), **kept}


def commit():
    """Short name of the last commit of the package, with a plus if its files were edited; empty outside of git."""

    def git(*words):
        at = Path(__file__).parents[2]
        return subprocess.run(["git", *words, "--", "pymc_spn"], cwd=at, capture_output=True, text=True).stdout.strip()

    return git("log", "-1", "--format=%h") + "+" * bool(git("status", "--porcelain", "-uno"))


def budgets(options):
    """CPU seconds to learn of the methods that are given them."""
    return dict.fromkeys(OURS, options.seconds)


def run(options):
    """Do what the store lacks, all methods of a fold together."""
    store, at = Store(options.out, KEY), commit()
    asked = [
        (name, k, method, budgets(options).get(method, 0.0))
        for name in options.sets
        for k in options.splits
        for method in options.methods
    ]
    for key in asked:
        if key in store:
            continue
        result = carry_out(options, key)
        if result.get("skipped") == "not installed":  # may be installed next time
            print(*key, "not installed", flush=True)
            continue
        store.add(key, {**result, "commit": at, "processor": processor()})
        shown = f"{np.mean(result['density']):.3f}" if "density" in result else result.get("skipped", "")
        print(*key, shown, result.get("chosen", ""), f"{result.get('learn', 0.0):.1f} s", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="folder that holds the sets as .npz files")
    arguments.add_argument("--out", required=True, help="file of JSON lines, which is appended to")
    arguments.add_argument("--sets", nargs="+", help="by default all, the smallest first")
    arguments.add_argument("--splits", nargs="+", type=int, default=list(range(FOLDS)), choices=range(FOLDS))
    arguments.add_argument("--seconds", type=float, default=60.0, help="CPU seconds to learn, of ours")
    arguments.add_argument("--methods", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    arguments.add_argument("--report", action="store_true", help="print Markdown tables of what RESULTS holds")
    options = arguments.parse_args()
    options.sets = options.sets or table_sets(options.data)
    if options.report:
        from tests.benchmarks.side_by_side_report import report

        print(report(list(Store(options.out, KEY).records.values()), options.sets, budgets(options)))
    else:
        run(options)


if __name__ == "__main__":
    main()
