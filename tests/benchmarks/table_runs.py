"""One run of the tables: a chain or a variational fit on a prepared set, and what is recorded of it.

CPU seconds count from the start of sampling, after compilation: sweeps, and updates of hyperparameters where they are
learned. Recording, test densities and the k-means start, which is the same for all samplers, are not timed.
"""

import time
from dataclasses import replace

import arviz as az
import numpy as np
from scipy.special import logsumexp
from scipy.stats import skew

from pymc_spn.circuits.structures.learned_tree import learn_tree
from pymc_spn.circuits.structures.region_trees import complete_tree, skewed_tree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.gibbs.palette import choose_coding, complete_palette
from pymc_spn.leaves import Gaussian, LogNormal
from pymc_spn.networks.hyperparameter_inputs import PRIORS
from pymc_spn.networks.learners import STARTS, fit_variational
from pymc_spn.networks.records.record import Record, digits_dtype
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.tables import Table

FIXED = {"concentration": 1.0, "leaf_scale": 0.1, "leaf_shape": 1.5, "precision_ratio": 0.05, "covariance_scale": 0.1}
STATES = 40  # averaged, from the second half of the time
READINGS = 1000  # of the log joint, in the second half
THINNED = 50  # of which the paper reports the effective number
STRUCTURES = {  # of the study: what each setting passes to the builders
    "2": {"n_children": 2},
    "4": {"n_children": 4},
    "8": {"n_children": 8},
    "infinite": {},
    "infinite, random split": {"split": "random"},
    "infinite, 4 repetitions": {"repetitions": 4},
    "infinite, learned splits": {"learned": "mutual_information"},
    "infinite, splits by RDC": {"learned": "rdc"},
    "infinite, skewed": {"builder": skewed_tree},
    "4, split per product": {"n_children": 4, "split": "per_product"},
    "16 above, then 4": {"n_children": (16, 4)},
    "infinite, two scales": {"leaves": "two scales"},
    "infinite, log-normal": {"leaves": "log-normal"},
}
MAX_PER_PRODUCT = 14  # columns: a region of its own for every sum node
MAX_CELLS = 1_000_000_000  # rows times sum nodes, of a byte each, that the published sampler may hold


def structure_of(setting, train, seed):
    """Region tree of a setting; None where it does not exist for so many columns."""
    options = dict(STRUCTURES[setting])
    options.pop("leaves", None)
    if dependence := options.pop("learned", None):
        return learn_tree(train, dependence=dependence, random_seed=seed)
    if options.get("split") == "per_product" and len(train.columns) > MAX_PER_PRODUCT:
        return None
    if isinstance(options.get("n_children"), tuple):
        top, below = options["n_children"]
        depths = int(np.ceil(np.log2(len(train.columns)))) + 1
        options["n_children"] = (top,) + (below,) * (depths - 1)
    return options.pop("builder", complete_tree)(train.columns, random_seed=seed, **options)


def palettes_of(setting, train):
    """The training table and the palettes of a setting; no table where the setting changes nothing.

    Two scales: Gaussian leaves with a tenth of the prior variance beside the usual ones. Log-normal: both families on
    positive columns whose skewness is above 1 and falls when logs are taken.
    """
    which = STRUCTURES[setting].get("leaves")
    if which is None:
        return train, {}
    real = [d for d, c in enumerate(train.columns) if c.kind == "real"]
    if which == "two scales":
        entries = [Gaussian(), Gaussian(relative_scale=0.1)]
        return (train if real else None), {train.columns[d].name: entries for d in real}
    skewed = [d for d in real if is_skewed(train.values[:, d])]
    columns = [replace(c, kind="positive") if d in skewed else c for d, c in enumerate(train.columns)]
    entries = [Gaussian(), LogNormal()]
    table = Table(tuple(columns), train.values, train.index) if skewed else None
    return table, {columns[d].name: entries for d in skewed}


def is_skewed(x):
    return bool(x.min() > 0.0 and skew(x) > 1.0 and abs(skew(np.log(x))) < skew(x))


def make_schema(train, structure, leaves=None):
    palette, grids = complete_palette(train.columns, train.values, leaves, 0.0)
    centre, scale = choose_coding(palette, train.values, train.columns)
    return NetworkSchema(
        "x", structure, tuple(train.columns), tuple(map(tuple, palette)), tuple(grids.tolist()),
        tuple(centre.tolist()), tuple(scale.tolist()), {g: {"fixed": []} for g in HYPERPARAMETERS},
    )  # fmt: skip


class TimedRun:
    """A chain that keeps the time of its sweeps, some states and log joints.

    Parameters
    ----------
    train : Table
    structure : RegionTree
    kernel : str
    learned : bool
        Whether all hyperparameters are learned from their centres on, or fixed at `FIXED`.
    leaves : dict, optional
        Palettes of columns; the default of their kind elsewhere.
    """

    def __init__(self, train, structure, kernel, learned=False, leaves=None):
        self.schema, self.train, self.learned = make_schema(train, structure, leaves), train, learned
        self.chain = Chain(self.schema, train.values, kernel)
        n_columns = len(train.columns)
        first = STARTS if learned else FIXED
        self.first = tuple(np.full(2 if g == "concentration" else n_columns, first[g]) for g in HYPERPARAMETERS)
        self.owned = np.zeros((len(HYPERPARAMETERS), max(2, n_columns)), np.bool_)
        if learned:
            self.owned[0, :2] = self.owned[1, :n_columns] = True
            self.owned[2:4, self.schema.gaussian_columns] = True
        self.priors = np.array([PRIORS[g] for g in HYPERPARAMETERS], np.float64)
        self.kind = digits_dtype(structure, self.schema.compiled, len(train.values))

    def start(self, seed):
        """K-means assignments by the seed, whatever the kernel."""
        self.chain.start(np.random.default_rng(seed), self.first)
        self.rng = np.random.default_rng([seed, 1])
        self.seconds, self.n_sweeps = 0.0, 0

    def compile(self, seed):
        """One sweep that is not timed."""
        self.start(seed)
        self.sweep()
        self.log_joint()

    def sweep(self):
        """One sweep, and the hyperparameters where they are learned."""
        begin = time.process_time()
        self.chain.sweep(self.rng)
        if self.learned:
            self.chain.update_hyperparameters(self.rng, self.owned, self.priors)
        self.seconds += time.process_time() - begin
        self.n_sweeps += 1

    def statistics(self):
        """Log joint in nats, occupied nodes, edges and leaves."""
        return self.chain.sampler.statistics()[:4]

    def log_joint(self):
        return float(self.statistics()[0])

    def state(self):
        """Time, digits and hyperparameters."""
        digits = self.chain.sampler.digits().astype(self.kind)
        return self.seconds, digits, [np.array(h) for h in self.chain.sampler.hyperparameters]

    def run(self, seed, budget, n_states=STATES):
        """Sample for a budget of CPU seconds; returns states and readings (seconds, log joints)."""
        self.compile(seed)
        self.start(seed)
        due, states, readings, next_reading = budget * np.linspace(0.5, 1.0, n_states, endpoint=False), [], [], 0.0
        while self.seconds < budget:
            if self.seconds >= budget / 2:
                self.chain.settle()
            self.sweep()
            if due.size and self.seconds >= due[0]:
                states.append(self.state())
                due = due[due > self.seconds]
            if self.seconds >= next_reading:
                readings.append((self.seconds, self.log_joint()))
                step = budget / 100 if self.seconds < budget / 2 else budget / 2 / READINGS
                next_reading = self.seconds + step
        if not states:
            states.append(self.state())
        return states, np.array(readings)

    def densities(self, states, tables):
        """Log predictive (S, M) of each table's rows at each state."""
        digits = np.stack([s[1] for s in states])[None]
        own = {g: np.stack([s[2][i] for s in states])[None] for i, g in enumerate(HYPERPARAMETERS)}
        one, draws = np.zeros(1, np.int64), np.arange(len(states))
        rows = np.arange(len(self.train.values))
        recorded = RecordedStates(
            Record(self.schema, self.train.values, rows, digits, one, draws, own, {}, np.zeros((1, len(draws)), int))
        )
        return [recorded.log_densities(t.values, {}) for t in tables]


def row_logs(logs):
    """Log of the mean density over states (S, M), for each row."""
    return logsumexp(logs, axis=0) - np.log(len(logs))


def averaged(logs):
    """Mean over rows of the log of the mean density over states (S, M)."""
    return float(np.mean(row_logs(logs)))


def sample(prepared, structure, kernel, seed, budget, learned=False, leaves=None, n_states=STATES):
    """Figures of one chain, as a dict for the store; where hyperparameters are learned, with a density for each row."""
    run = TimedRun(prepared.train, structure, kernel, learned, leaves)
    states, readings = run.run(seed, budget, n_states)
    at = np.array([s[0] for s in states])
    test, validation = run.densities(states, (prepared.test, prepared.validation))
    last = at > 0.5 * budget
    last = last if last.any() else at == at[-1]
    traced = readings[readings[:, 0] > 0.5 * budget, 1]
    thinned = traced[np.linspace(0, len(traced) - 1, THINNED).astype(int)] if len(traced) >= THINNED else None
    occupied = run.statistics()
    rows = {}
    if learned:
        rows = {"rows": [row_logs(logs[last]).round(4).tolist() for logs in (validation, test)]}
    return {
        "test": averaged(test[last]),
        "validation": averaged(validation[last]),
        "single": float(test[last].mean()),
        "states": int(last.sum()),
        "sweeps": run.n_sweeps,
        "ms": 1e3 * run.seconds / run.n_sweeps,
        "used": run.seconds,
        "log_joint": float(traced.mean()) if len(traced) else float(readings[-1, 1]),
        "ess": float(az.ess(traced[None])) if len(traced) >= 8 and np.ptp(traced) > 0 else None,
        "ess50": float(az.ess(thinned[None])) if thinned is not None and np.ptp(thinned) > 0 else None,
        "occupied": [int(v) for v in occupied[1:]],
        **rows,
    }


def vary(prepared, structure, seed, budget):
    """Figures of collapsed variational Bayes: k-means restarts until the budget is used, the highest bound kept.

    A restart that would take longer than the budget is cut short by the number of steps.
    """
    train = prepared.train
    fixed = {"resolution": 0.0, "restarts": 1, "joint_leaves": None, "progressbar": False, **FIXED}

    def fit(number, n_steps):
        begin = time.process_time()
        post = fit_variational(train, structure, max_steps=n_steps, random_seed=1000 * seed + number, **fixed)
        return post, time.process_time() - begin

    fit(0, 1)  # compiles
    start, several = fit(0, 1)[1], fit(0, 6)[1]
    step = max((several - start) / 5, 1e-6)
    n_steps = int(np.clip((budget - start) / step, 1, 500))
    used, restarts, best = 0.0, 0, None
    while restarts == 0 or used * (1.0 + 1.0 / restarts) < budget:
        post, seconds = fit(restarts, n_steps)
        used, restarts = used + seconds, restarts + 1
        value = float(post.trace().max())
        if best is None or value > best[0]:
            best = (value, post, float(post.log_density(prepared.test).mean()))
    return {
        "test": best[2],
        "validation": float(best[1].log_density(prepared.validation).mean()),
        "sweeps": restarts,
        "ms": 1e3 * step,
        "used": used,
        "bound": best[0],
        "converged": bool(best[1].converged),
    }
