"""Unusual rows of tables with gaps: `ps.sklearn.SPNOutlierDetector` and scikit-learn's detectors, and false alarms.

    python -m tests.benchmarks.spn_outliers ../shared/data

Half of the usual rows are learned from, the other half and the unusual ones are scored. Unusual are rows of other
classes, or rows in which a third of the cells (at least two) come from other rows, so that every cell is usual by
itself. Cells are blanked at random in rows of both halves, in each row with a probability of its own between 0 and
twice the share that is stated. Area under the ROC curve, and share of the usual rows held out that are below the level,
those with few gaps and those with many apart, by whole rows and by the smallest p-value of their cells (Bonferroni).
Isolation forests take gaps as they are; the others have them filled in by means and most frequent levels, and levels as
indicators. Standard errors are over splits.
"""

import argparse
import json
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pymc_spn as ps
from tests.benchmarks.report import machine, markdown_table

USUAL = {"wine": [0, 1], "yeast": [0, 1, 2], "pendigits": [0, 1, 2, 3], "magic04": [0], "sachs_full": ["cd3cd28"]}
SHUFFLED = ["crx", "german", "abalone", "cpu_small", "vote_for_clinton", "forest_fires"]
LARGEST = 500  # rows to learn from, and rows of either kind that are scored
LEVELS = (0.05, 0.01)
DRAWN = 499  # rows that rows with the same cells are compared with
METHODS = ("network", "its cells", "its log density", "isolation forest", "local outlier factor", "gaussian mixture")


def read(data, name):
    """The table as a frame, levels as categories, without a column that is the class; and the classes, if any."""
    with np.load(f"{data}/{name}.npz") as file:
        x, kinds, names = file["X"], file["kinds"], file["columns"].tolist()
        labels = file["condition"] if "condition" in file else file["target"] if "target" in file else None
        target, levels = str(file["target_column"]), json.loads(str(file["levels"]))
    frame = pd.DataFrame(x, columns=names)
    for column, kind in zip(names, kinds, strict=True):
        if kind in ("binary", "categorical"):
            codes = frame[column].fillna(-1).astype(int)
            frame[column] = pd.Categorical.from_codes(codes, [str(level) for level in levels[column]])
    return (frame.drop(columns=target) if name in USUAL and target else frame), labels


def problem(data, name, share, rng):
    """Rows to learn from, rows to score, and which of these are unusual."""
    frame, labels = read(data, name)
    order = rng.permutation(len(frame))
    if name in USUAL:
        is_usual = np.isin(labels, USUAL[name])[order]
        usual, unusual = order[is_usual], order[~is_usual]
        half = min(len(usual) // 2, LARGEST)
        train, test = frame.iloc[usual[:half]], frame.iloc[usual[half : half + LARGEST]]
        odd = frame.iloc[unusual[:LARGEST]]
    else:
        third = min(len(order) // 3, LARGEST)
        train, test, odd = (frame.iloc[order[k * third : (k + 1) * third]] for k in range(3))
        odd = with_cells_of_others(odd, rng)
    rows = pd.concat([test, odd], ignore_index=True)
    return blanked(train, share, rng), blanked(rows, share, rng), np.arange(len(rows)) >= len(test)


def with_cells_of_others(rows, rng):
    """A third of the cells of each row exchanged for those of other rows."""
    n, n_columns = rows.shape
    n_changed = max(2, n_columns // 3)
    changed = rng.permuted(np.tile(np.arange(n_columns) < n_changed, (n, 1)), axis=1)
    out = rows.reset_index(drop=True)
    for j, column in enumerate(rows.columns):
        other = out[column].iloc[rng.permutation(n)].reset_index(drop=True)
        out[column] = out[column].where(~changed[:, j], other)
    return out


def blanked(rows, share, rng):
    """Gaps at random; one cell of each row stays."""
    gone = rng.random(rows.shape) < 2.0 * share * rng.random((len(rows), 1))
    gone[np.arange(len(rows)), rng.integers(rows.shape[1], size=len(rows))] = False
    return rows.mask(gone)


def filled(frame):
    """Numbers without gaps, standardised."""
    levels = [c for c in frame if frame[c].dtype == "category"]
    numbers = [c for c in frame if c not in levels]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), levels),
        sparse_threshold=0.0,
    )


def scores(train, rows, seed, method):
    """Scores of the rows by every detector, and p-values by the network."""
    detector = ps.sklearn.SPNOutlierDetector(structure="learned", method=method, random_state=seed).fit(train)
    found = detector.posterior_.predictive_p_value(rows, n=DRAWN, random_seed=seed)
    density = found.log_density.values
    codes = [
        frame.apply(lambda c: c.cat.codes.where(c.notna()) if c.dtype == "category" else c) for frame in (train, rows)
    ]
    full = min(8, len(train) // 20)
    others = {
        "local outlier factor": LocalOutlierFactor(novelty=True),
        "gaussian mixture": BayesianGaussianMixture(n_components=full, reg_covar=1e-3, random_state=seed),
    }
    cells = detector.posterior_.cell_p_value(rows)
    with np.errstate(divide="ignore"):
        smallest = np.log(cells.min("column") * cells.count("column")).values
    out = {"network": density - found.threshold.values, "its cells": smallest, "its log density": density}
    out["isolation forest"] = IsolationForest(random_state=seed).fit(codes[0]).score_samples(codes[1])
    for name, other in others.items():
        out[name] = make_pipeline(filled(train), other).fit(train).score_samples(rows)
    return out, (found.p_value.values, np.exp(smallest))


def run(arguments, name, share):
    """Areas under the curve (splits, methods), and false alarms (splits, levels, few or many gaps)."""
    areas, alarms = [], []
    for seed in range(arguments.splits):
        rng = np.random.default_rng(seed)
        train, rows, is_odd = problem(arguments.data, name, share, rng)
        found, p = scores(train, rows, seed, arguments.method)
        areas.append([roc_auc_score(is_odd, -found[m]) for m in METHODS])
        n_gaps = rows.isna().sum(axis=1).to_numpy()[~is_odd]
        many = n_gaps > np.median(n_gaps)
        below = [own[~is_odd] <= level for own in p for level in LEVELS]
        alarms.append([[b[~many].mean(), b[many].mean() if many.any() else np.nan] for b in below])
    return np.array(areas), np.array(alarms)


def shown(values):
    """Mean over splits with its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--sets", nargs="*", default=[*USUAL, *SHUFFLED])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--shares", nargs="*", type=float, default=[0.0, 0.3])
    parser.add_argument("--method", default="variational", choices=["variational", "sampling"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    areas, alarms = [], []
    for name in arguments.sets:
        for share in arguments.shares:
            area, alarm = run(arguments, name, share)
            areas.append([name, f"{share:.0%}", *(shown(area[:, k]) for k in range(len(METHODS)))])
            alarms.append([name, f"{share:.0%}", *(f"{a:.3f}" for a in alarm.mean(axis=0).ravel())])
            print(areas[-1], alarms[-1][2:], flush=True)
    print(machine())
    print(markdown_table(["set", "gaps", *METHODS], areas))
    header = [
        f"{how} {level:.0%}, {gaps} gaps" for how in ("rows", "cells") for level in LEVELS for gaps in ("few", "many")
    ]
    print(markdown_table(["set", "gaps", *header], alarms))


if __name__ == "__main__":
    main()
