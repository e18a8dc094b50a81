"""How the tables of data are prepared, so that densities can be compared: outliers, recording grids, splits and folds.

Coded columns are scored as probability mass. Numeric columns are dequantised: uniform noise of the width of their
recording grid is added once to all rows, by these rules and not by a model. For cells of width delta the mean log
density of any proper model is then at most minus the sum of the log deltas, the *ceiling*; a value above it shows
that a model earns from repeated values. The mean log density is a lower bound of the log mass of a cell.
"""

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from pymc_spn.tables import Table
from pymc_spn.tables.resolution import resolution

NUMERIC = ("continuous", "positive", "count")
NEIGHBOURS = 5
FOLDS = 5
VALIDATION = 8  # one of so many rows that are learned from, where a method chooses something by validation
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
    """A set under the rules, in three parts."""

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

    @property
    def learning(self):
        """Training and validation rows together, for methods that choose nothing by validation."""
        return Table(self.train.columns, *stacked(self.train.values, self.validation.values))


def stacked(*values):
    together = np.concatenate(values)
    return together, pd.RangeIndex(len(together))


def prepare(data, name, seed):
    """Read ``name.npz`` and apply the rules of the paper's tables; the split 8:1:1 alone depends on the seed."""
    with np.load(Path(data) / f"{name}.npz") as file:
        n_kept = ROWS_KEPT.get(name, len(file["X"]))
    whole = dequantised(data, name, n_kept)
    order = np.random.default_rng(seed).permutation(len(whole.train.values))
    return parted(whole, np.split(order, [int(0.8 * len(order)), int(0.9 * len(order))]))


def fold(data, name, k, target=None):
    """All complete rows of ``name.npz``, every fifth for the test: the folds 0 to 4 have each row once.

    Test rows with a level that no row to learn from has are left out.

    Parameters
    ----------
    data : str or Path
    name : str
    k : int
    target : array, optional
        Codes of a column ``target`` that is put behind the others.
    """
    whole = dequantised(data, name, extra=target)
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(len(whole.train.values))
    test, learning = order[k::FOLDS], np.delete(order, np.s_[k::FOLDS])
    values = whole.train.values
    known = [np.isin(values[test, d], values[learning, d]) for d in np.flatnonzero(~whole.numeric)]
    test = test[np.all(known, axis=0)] if known else test
    cut = len(learning) // VALIDATION
    return parted(whole, [learning[cut:], learning[:cut], test])


def parted(whole, rows):
    """Training, validation and test rows of a set that stands in ``whole.train``."""
    table = whole.train
    train, validation, test = (Table(table.columns, table.values[r], pd.RangeIndex(r.size)) for r in rows)
    return whole._replace(train=train, validation=validation, test=test)


def dequantised(data, name, n_kept=None, extra=None):
    """Complete rows of ``name.npz`` but outliers, noise of one cell on numeric columns; all of them in ``train``."""
    with np.load(Path(data) / f"{name}.npz") as file:
        x, kinds = file["X"].astype(np.float64), np.array([str(k) for k in file["kinds"]])
        columns = np.array([str(c) for c in file["columns"]])
    if extra is not None:
        kind = "binary" if extra.max() == 1 else "categorical"
        x, kinds, columns = np.column_stack([x, extra]), np.append(kinds, kind), np.append(columns, "target")
    numeric = np.isin(kinds, NUMERIC)
    x = x[~np.isnan(x).any(axis=1)]
    kept = rows_without_outliers(x, numeric, len(x) if n_kept is None else n_kept)
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
    return Prepared(table, None, None, numeric, grid, disguised, dropped, n_removed)


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
