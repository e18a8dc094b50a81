"""What `tables_side_by_side` compares: each learns from a prepared set and answers for rows with gaps.

A learner is a function of a prepared set, the number of the target, CPU seconds and a seed. It gives None where it
does not apply, or an object with some of these methods, of which each takes coded rows (M, D) with NaN for gaps:
``log_density`` (M,), ``fill`` (M, D) and ``levels`` (log probabilities (M, L) of the target's levels, or means (M,)).
One with ``log_density`` and without ``fill`` takes complete rows only, and is asked for nothing else.
"""

import time
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning

from pymc_spn.tables import Table
from tests.benchmarks.report import QUIET
from tests.benchmarks.table_gaussians import copula, mixture
from tests.benchmarks.table_peers import by_flow, by_forests

N_CHAINS = 4
MOST_SWEEPS = 1000  # of tuning, and as many draws of a chain: the defaults of ``pm.sample``
FEWEST_SWEEPS = 10
PILOT = 0.1  # of the budget, at most, to find out how long a sweep takes
ROUNDS = 10  # of iterated imputation
LOWEST = 1e-12  # probability of a level that a classifier has not seen


class Posterior:
    """Answers of a posterior of ours."""

    def __init__(self, post, columns, chosen, used):
        self.post, self.columns, self.chosen, self.used = post, tuple(columns), chosen, used

    def table(self, values):
        return Table(self.columns, values, pd.RangeIndex(len(values)))

    def log_density(self, values):
        return self.post.log_density(self.table(values)).values

    def fill(self, values):
        filled = values.copy()
        for d in np.flatnonzero(np.isnan(values).any(axis=0)):
            rows = np.isnan(values[:, d])
            found = self.levels(values[rows], d)
            filled[rows, d] = found if found.ndim == 1 else found.argmax(axis=1)
        return filled

    def levels(self, values, d):
        name, rows = self.columns[d].name, self.table(values)
        if self.columns[d].levels is None:
            return self.post.predict(rows, name).values
        return np.log(np.maximum(self.post.predict_proba(rows, name).values, LOWEST))


def by_sampling(prepared, target, seconds, seed, **arguments):
    """The default of ``ps.SPN``, or with arguments, sampled by four chains."""
    import pymc_spn as ps

    idata, n_sweeps, used = default_draws(prepared.learning, seconds, seed, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # R-hat is in the report
        post = ps.SPNPosterior.from_idata(idata)
    rhat = post.diagnose(df=prepared.test.to_frame().iloc[:1], max_rows=0)["r_hat"].iloc[0]
    return Posterior(post, prepared.train.columns, f"4 x {n_sweeps} draws, R-hat {rhat:.2f}", used)


def default_draws(table, seconds, seed, **arguments):
    """Draws of the default model, or with arguments, by four chains, the sweeps of a chain and the CPU seconds used.

    Half of the sweeps tune. A pilot chain tells how long a sweep takes; it is not counted, nor what compiles.
    """
    import pymc as pm

    import pymc_spn as ps

    options = {"quiet": True, **QUIET}
    begin = time.process_time()
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ps.SPN("x", observed=table, **arguments)
        built = time.process_time() - begin
        pm.sample(2, tune=2, chains=1, random_seed=seed, **options)  # compiles
        cost = sweep_seconds(PILOT * seconds, seed, options)
        n_sweeps = int((seconds - built) / (2 * N_CHAINS * cost))
        n_sweeps = min(max(n_sweeps, FEWEST_SWEEPS), MOST_SWEEPS)
        begin = time.process_time()
        idata = pm.sample(n_sweeps, tune=n_sweeps, chains=N_CHAINS, random_seed=seed, **options)
    return idata, n_sweeps, built + time.process_time() - begin


class EnoughError(Exception):
    """A pilot chain has shown what it is for."""


def sweep_seconds(limit, seed, options):
    """CPU seconds of a sweep, from the second half of a chain that is stopped at the limit."""
    import pymc as pm

    clock = []

    def stop(trace, draw):
        clock.append(time.process_time())
        if len(clock) > FEWEST_SWEEPS and clock[-1] - clock[0] > limit:
            raise EnoughError

    with suppress(EnoughError):
        pm.sample(100, tune=100, chains=1, random_seed=seed, callback=stop, **options)
    half = len(clock) // 2
    return (clock[-1] - clock[half]) / (len(clock) - 1 - half)


def by_variational_fit(prepared, target, seconds, seed):
    """The default of ``fit_variational``, its steps limited so that its one or more starts keep to the seconds."""
    from pymc_spn.networks.learners import fit_variational

    def fit(**limits):
        begin = time.process_time()
        post = fit_variational(prepared.learning, random_seed=seed, progressbar=False, **limits)
        return post, time.process_time() - begin

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a start has not converged
        fit(max_steps=1, restarts=1)  # compiles
        one, several = fit(max_steps=1, restarts=1)[1], fit(max_steps=6, restarts=1)[1]
        step = max((several - one) / 5, 1e-6)
        restarts = int(np.clip(seconds / (one + 20 * step), 1, 3))
        n_steps = int(np.clip((seconds / restarts - one) / step, 1, 500))
        post, used = fit(max_steps=n_steps, restarts=restarts)
    return Posterior(post, prepared.train.columns, f"{restarts} starts of at most {n_steps} steps", used)


class Filler:
    """Iterated imputation: a predictor of each column from the others, and rounds over the gaps of new rows."""

    def __init__(self, fill):
        self.fill = fill


def by_iterated_ridge(prepared, target, seconds, seed):
    """scikit-learn's IterativeImputer with its Bayesian ridge; levels as indicators, the largest of which is chosen.

    The first level has none: with all of them each would follow from the others, and never move from its mean. The
    imputer learns from all rows and the rows with gaps together, as it is meant to be used.
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    columns, learning = prepared.train.columns, prepared.learning.values
    centre, spread = learning.mean(axis=0), learning.std(axis=0)

    def wide(values):
        parts = []
        for d, column in enumerate(columns):
            if column.levels is None:
                parts.append((values[:, d, None] - centre[d]) / spread[d])
            else:
                indicator = (values[:, d, None] == np.arange(1, len(column.levels))).astype(float)
                parts.append(np.where(np.isnan(values[:, d, None]), np.nan, indicator))
        return parts

    def fill(values):
        filled, parts = values.copy(), wide(np.concatenate([learning, values]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = IterativeImputer(max_iter=ROUNDS, random_state=seed).fit_transform(np.hstack(parts))
        ends = np.cumsum([p.shape[1] for p in parts])[:-1]
        for d, part in enumerate(np.split(found[len(learning) :], ends, axis=1)):
            gaps = np.isnan(values[:, d])
            if columns[d].levels is None:
                filled[gaps, d] = centre[d] + spread[d] * part[gaps, 0]
            else:
                filled[gaps, d] = np.column_stack([1.0 - part[gaps].sum(axis=1), part[gaps]]).argmax(axis=1)
        return filled

    return Filler(fill)


class Boosted:
    """Gradient boosting of the target given the other columns."""

    def __init__(self, model, n_levels, centre, spread):
        self.model, self.n_levels, self.centre, self.spread = model, n_levels, centre, spread

    def levels(self, values, d):
        others = np.delete(values, d, axis=1)
        if self.n_levels is None:
            return self.centre + self.spread * self.model.predict(others)
        found = np.full((len(values), self.n_levels), LOWEST)
        found[:, self.model.classes_.astype(int)] = np.maximum(self.model.predict_proba(others), LOWEST)
        return np.log(found)


def by_boosting(prepared, target, seconds, seed):
    """scikit-learn's HistGradientBoosting with its default settings, numbers standardised: it stops by their size."""
    x, column = prepared.learning.values, prepared.train.columns[target]
    coded = np.delete(~prepared.numeric, target)
    kind = HistGradientBoostingRegressor if column.levels is None else HistGradientBoostingClassifier
    y = x[:, target]
    centre, spread = (y.mean(), y.std()) if column.levels is None else (0.0, 1.0)
    model = kind(categorical_features=coded, random_state=seed).fit(np.delete(x, target, axis=1), (y - centre) / spread)
    return Boosted(model, None if column.levels is None else len(column.levels), centre, spread)


LEARNERS = {
    "sampling": by_sampling,
    "sampling, one column": partial(by_sampling, joint_leaves=None),
    "variational": by_variational_fit,
    "arfpy": by_forests,
    "zuko": by_flow,
    "mixture, full": lambda prepared, target, seconds, seed: mixture(prepared, seed, "full"),
    "mixture, diagonal": lambda prepared, target, seconds, seed: mixture(prepared, seed, "diag"),
    "copula": lambda prepared, target, seconds, seed: copula(prepared, seed),
    "iterated ridge": by_iterated_ridge,
    "boosting": by_boosting,
}
OURS = ("sampling", "sampling, one column", "variational")
