"""Learners of `table_learners` from packages that are optional: adversarial random forests, a spline flow."""

from itertools import islice

import numpy as np
import pandas as pd
from scipy.special import logsumexp, ndtr

from tests.benchmarks.table_gaussians import LOG_2PI, Linear, level_logs

PACKAGES = {"arfpy": "arfpy", "zuko": "zuko"}  # to import for each method
FEWEST_ROWS = (5, 20)  # of a leaf of arfpy, of which validation rows choose; 5 is its default
ADDED = 0.1  # to the count of each level that a leaf's bounds allow: the default of its authors in R
BLOCK = 200  # rows that meet all leaves at once
MOST_EPOCHS, IDLE_EPOCHS, BATCH = 500, 30, 64
RATE = 1e-3  # of Adam


class Leaves:
    """The density of arfpy's leaves: columns are independent in a leaf, truncated normal or with shares of levels.

    Parameters
    ----------
    forest : arf
        From arfpy, after ``forde``, of columns "0", "1" and so on.
    values : (N, D) float
        The rows that it has learned from.
    numeric : (D,) bool
    n_levels : sequence of int
        Of each column; of numbers it is not read.
    """

    def __init__(self, forest, values, numeric, n_levels):
        bounds = forest.bnds.assign(d=forest.bnds["variable"].astype(int)).sort_values(["tree", "nodeid", "d"])
        shape = -1, len(numeric)
        self.low, self.high = (bounds[side].to_numpy().reshape(shape) for side in ("min", "max"))
        self.log_shares = np.log(bounds["cvg"].to_numpy().reshape(shape)[:, 0] / forest.num_trees)
        inside = forest.clf.apply(forest.x_real)
        places = bounds[["tree", "nodeid"]].to_numpy()[:: len(numeric)]
        members = [values[inside[:, tree] == node] for tree, node in places]
        self.numeric, self.n_leaves = numeric, len(members)
        self.mean = np.array([rows.mean(axis=0) for rows in members])
        self.spread = np.array([rows.std(axis=0, ddof=1) for rows in members])
        # where all rows of a leaf have one value, as its authors do in R: 95 % within the bounds, two rows' weight
        width = np.minimum(self.high, values.max(axis=0)) - np.maximum(self.low, values.min(axis=0))
        n_rows = np.array([len(rows) for rows in members])[:, None]
        self.spread = np.where(self.spread > 0.0, self.spread, np.sqrt(2.0 / n_rows) * width / 3.92)
        self.levels_of = {}
        for d in np.flatnonzero(~numeric):
            levels = np.arange(n_levels[d])
            counts = np.array([np.bincount(rows[:, d].astype(int), minlength=n_levels[d]) for rows in members])
            counts = counts + ADDED * ((levels > self.low[:, d, None]) & (levels < self.high[:, d, None]))
            self.levels_of[d] = counts / counts.sum(axis=1, keepdims=True)

    def leaf_logs(self, values):
        """Log of share times density of the known cells, for each leaf (M, L)."""
        logs = np.tile(self.log_shares, (len(values), 1))
        for d in range(values.shape[1]):
            rows = ~np.isnan(values[:, d])
            x = values[rows, d]
            logs[rows] += self.number_logs(x, d) if self.numeric[d] else self.level_logs(x, d)
        return logs

    def ends(self, d):
        """Standardised bounds of a column, and the mass of the normal distribution between them, each (L,)."""
        a, b = ((side[:, d] - self.mean[:, d]) / self.spread[:, d] for side in (self.low, self.high))
        return a, b, ndtr(b) - ndtr(a)

    def number_logs(self, x, d):
        inside = (x[:, None] > self.low[:, d]) & (x[:, None] <= self.high[:, d])
        scale = 0.5 * LOG_2PI + np.log(self.spread[:, d]) + np.log(self.ends(d)[2])
        return np.where(inside, -0.5 * ((x[:, None] - self.mean[:, d]) / self.spread[:, d]) ** 2 - scale, -np.inf)

    def level_logs(self, x, d):
        with np.errstate(divide="ignore"):
            return np.log(self.levels_of[d][:, x.astype(int)].T)

    def log_density(self, values):
        parts = np.array_split(values, max(len(values) // BLOCK, 1))
        return np.concatenate([logsumexp(self.leaf_logs(part), axis=1) for part in parts])

    def fill(self, values):
        filled = values.copy()
        logs = self.leaf_logs(values)
        weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        for d in np.flatnonzero(np.isnan(values).any(axis=0)):
            rows = np.isnan(values[:, d])
            if self.numeric[d]:
                a, b, mass = self.ends(d)
                shift = (np.exp(-0.5 * a**2) - np.exp(-0.5 * b**2)) / np.exp(0.5 * LOG_2PI) / mass
                filled[rows, d] = weights[rows] @ (self.mean[:, d] + self.spread[:, d] * shift)
            else:
                filled[rows, d] = (weights[rows] @ self.levels_of[d]).argmax(axis=1)
        return filled


def leaves(table, numeric, fewest, seed):
    """Adversarial random forests of a table, ``fewest`` rows in a leaf."""
    from arfpy import arf

    np.in1d = np.isin  # noqa: NPY201 - which NumPy no longer has, and arfpy asks for
    np.random.seed(seed)  # noqa: NPY002 - pandas draws from here
    frame = pd.DataFrame({str(d): x if numeric[d] else pd.Categorical(x) for d, x in enumerate(table.values.T)})
    forest = arf.arf(frame, verbose=False, min_node_size=fewest, random_state=seed)
    forest.forde()
    return Leaves(forest, table.values, numeric, [len(c.levels or ()) for c in table.columns])


def by_forests(prepared, target, seconds, seed):
    """arfpy, whose density is the mixture of the leaves of all trees; validation rows choose the size of leaves."""

    def score(fewest):
        return leaves(prepared.train, prepared.numeric, fewest, seed).log_density(prepared.validation.values).mean()

    fewest = max(FEWEST_ROWS, key=score)
    found = leaves(prepared.learning, prepared.numeric, fewest, seed)
    found.chosen = f"{fewest} rows in a leaf, {found.n_leaves} leaves"
    return found


class Flow:
    """A flow of the standardised numeric columns; coded columns are independent. Rows are complete."""

    def __init__(self, flow, margins, table, numeric, chosen):
        self.flow, self.margins, self.numeric, self.chosen = flow, margins, numeric, chosen
        self.tables = level_logs(table, numeric)

    def log_density(self, values):
        import torch

        logs = np.zeros(len(values))
        for d, table in zip(np.flatnonzero(~self.numeric), self.tables, strict=True):
            logs += table[values[:, d].astype(int)]
        with torch.no_grad():
            logs += self.flow().log_prob(scores(self.margins, values[:, self.numeric])).numpy()
        return logs - sum(np.log(m.spread) for m in self.margins)


def scores(margins, x):
    import torch

    return torch.tensor(np.column_stack([m.scores(v) for m, v in zip(margins, x.T, strict=True)]), dtype=torch.float32)


def by_flow(prepared, target, seconds, seed):
    """zuko's neural spline flow with its defaults; None without numeric columns.

    Validation rows choose the number of epochs; the flow then learns anew from all rows for as many.
    """
    import torch
    import zuko

    numeric, learning = prepared.numeric, prepared.learning
    if not numeric.any():
        return None
    torch.set_num_threads(1)
    margins = [Linear(x) for x in learning.values[:, numeric].T]
    train, rest, both = (scores(margins, t.values[:, numeric]) for t in (prepared.train, prepared.validation, learning))

    def epochs(z):
        torch.manual_seed(seed)
        flow = zuko.flows.NSF(z.shape[1])
        optimiser = torch.optim.Adam(flow.parameters(), lr=RATE)
        while True:
            for batch in torch.randperm(len(z)).split(BATCH):
                optimiser.zero_grad()
                (-flow().log_prob(z[batch]).mean()).backward()
                optimiser.step()
            yield flow

    best, chosen = -np.inf, 0
    for k, flow in enumerate(islice(epochs(train), MOST_EPOCHS)):
        with torch.no_grad():
            value = float(flow().log_prob(rest).mean())
        if value > best:
            best, chosen = value, k
        elif k - chosen == IDLE_EPOCHS:
            break
    flow = next(islice(epochs(both), chosen, None))
    return Flow(flow, margins, learning, numeric, f"{chosen + 1} epochs")
