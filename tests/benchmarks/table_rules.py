"""How the tables of data are prepared, so that densities can be compared: outliers, recording grids, splits, peers.

Coded columns are scored as probability mass. Numeric columns are dequantised: uniform noise of the width of their
recording grid is added once to all rows, by these rules and not by a model. For cells of width delta the mean log
density of any proper model is then at most minus the sum of the log deltas, the *ceiling*; a value above it shows
that a model earns from repeated values. The mean log density is a lower bound of the log mass of a cell.
"""

import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

from pymc_spn.tables import Table
from pymc_spn.tables.resolution import resolution

NUMERIC = ("continuous", "positive", "count")
NEIGHBOURS = 5
COMPONENTS = (1, 2, 3, 5, 8, 12, 18, 26)
REGULARISATION = (1e-6, 1e-3, 3e-2)  # of standardised columns
# rows of the paper where it removed outliers; of the other sets it kept all (complete) rows. Of vote_for_clinton, a
# subset of the paper's counties, nothing is removed.
ROWS_KEPT = {
    "abalone": 3850,
    "ailerons": 12614,
    "airfoil_self_noise": 1398,
    "computer_hardware": 192,
    "cpu_act": 7486,
    "cpu_small": 7486,
    "forest_fires": 474,
    "hybrid_price": 146,
    "kin8nm": 7688,
    "lpga2008": 145,
    "wine_quality_white": 4495,
}


class Prepared(NamedTuple):
    """A set under the rules, split 8:1:1."""

    train: Table
    validation: Table
    test: Table
    numeric: np.ndarray  # (D,) bool
    grid: np.ndarray  # (D,) width of the recording grid; 0 for codes, and for columns without a grid
    disguised: list  # numeric columns that take few values although no grid holds them
    dropped: list  # constant columns
    n_removed: int  # outliers

    @property
    def ceiling(self):
        """Largest mean log density of a proper model, in nats a row; infinite where a numeric column has no grid."""
        grid = self.grid[self.numeric]
        return float(-np.log(grid).sum()) if (grid > 0).all() else np.inf


def prepare(data, name, seed):
    """Read ``name.npz`` and apply the rules; the split alone depends on the seed."""
    with np.load(Path(data) / f"{name}.npz") as file:
        x, kinds = file["X"].astype(np.float64), np.array([str(k) for k in file["kinds"]])
        columns = np.array([str(c) for c in file["columns"]])
    numeric = np.isin(kinds, NUMERIC)
    x = x[~np.isnan(x).any(axis=1)]
    kept = rows_without_outliers(x, numeric, ROWS_KEPT.get(name, len(x)))
    n_removed = len(x) - len(kept)
    x = x[kept]
    varies = x.max(axis=0) > x.min(axis=0)
    dropped = columns[~varies].tolist()
    x, kinds, columns, numeric = x[:, varies], kinds[varies], columns[varies], numeric[varies]
    grid = np.array([resolution(x[:, d]) if numeric[d] else 0.0 for d in range(x.shape[1])])
    disguised = [str(columns[d]) for d in np.flatnonzero(numeric) if is_disguised(x[:, d], grid[d])]
    noise = np.random.default_rng(zlib.crc32(name.encode())).random(x.shape)  # the same for every split
    x = x + np.where(numeric, grid * (noise - 0.5), 0.0)
    kind = ["real" if n else "binary" if k == "binary" else "categorical" for n, k in zip(numeric, kinds, strict=True)]
    table = Table.from_frame(pd.DataFrame(x, columns=columns), kinds=dict(zip(columns.tolist(), kind, strict=True)))
    order = np.random.default_rng(seed).permutation(len(x))
    cuts = np.split(order, [int(0.8 * len(x)), int(0.9 * len(x))])
    parts = [Table(table.columns, table.values[rows], pd.RangeIndex(rows.size)) for rows in cuts]
    return Prepared(*parts, numeric, grid, disguised, dropped, n_removed)


def rows_without_outliers(x, numeric, n_kept):
    """The ``n_kept`` rows that are nearest to their fifth neighbour, in order; codes are indicators."""
    if n_kept >= len(x):
        return np.arange(len(x))
    z = x[:, numeric]
    spread = z.std(axis=0)
    blocks = [(z - z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)]
    for d in np.flatnonzero(~numeric):
        blocks.append((x[:, d, None] == np.unique(x[:, d])) / np.sqrt(2.0))  # two levels are at distance 1
    points = np.hstack(blocks)
    distance = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(points).kneighbors(points)[0][:, -1]
    return np.sort(np.argsort(distance, kind="stable")[:n_kept])


def is_disguised(x, grid):
    """Whether a numeric column is discrete although dequantising cannot spread it: few values, far more than a cell
    apart."""
    values = np.unique(x)
    if values.size >= 0.5 * x.size or grid == 0.0:
        return False
    return bool(np.quantile(np.diff(values), 0.1) > 5.0 * grid)


def independent(prepared):
    """Mean log density of the test rows under one Gaussian or categorical a column, from the training rows."""
    train, test = prepared.train.values, prepared.test.values
    total = 0.0
    for d, is_numeric in enumerate(prepared.numeric):
        total += gaussian(train[:, d], test[:, d]) if is_numeric else categorical(train[:, d], test[:, d])
    return float(total)


def gaussian(train, test):
    mean, sd = train.mean(), train.std()
    return np.mean(-0.5 * np.log(2.0 * np.pi * sd**2) - 0.5 * ((test - mean) / sd) ** 2)


def categorical(train, test):
    """One count is added to each level, so that no level has probability 0."""
    n_levels = int(max(train.max(), test.max())) + 1
    counts = np.bincount(train.astype(int), minlength=n_levels) + 1.0
    return np.mean(np.log(counts / counts.sum())[test.astype(int)])


def mixtures(prepared, seed):
    """Mean test log densities of scikit-learn's mixtures, by covariance type, and the components chosen on validation.

    Numeric columns are standardised; coded columns enter as independent categoricals, since the library has no mass.
    """
    tables = [t.values for t in (prepared.train, prepared.validation, prepared.test)]
    numeric = prepared.numeric
    coded = sum(categorical(tables[0][:, d], tables[2][:, d]) for d in np.flatnonzero(~numeric))
    if not numeric.any():
        return {}
    centre, spread = tables[0][:, numeric].mean(axis=0), tables[0][:, numeric].std(axis=0)
    train, validation, test = ((t[:, numeric] - centre) / spread for t in tables)
    found = {}
    for covariance in ("full", "diag"):
        best = -np.inf
        for k in (k for k in COMPONENTS if 4 * k <= len(train)):
            for r in REGULARISATION:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = GaussianMixture(k, covariance_type=covariance, reg_covar=r, random_state=seed).fit(train)
                if (score := model.score(validation)) > best:
                    best, density = score, model.score(test) - np.log(spread).sum() + coded
                    found[covariance] = {"test": float(density), "components": k}
    return found
