"""One Markov chain over assignments and hyperparameters, without PyMC: starts, sweeps by any kernel, prior draws."""

import math

import numpy as np

from pymc_spn.gibbs.bottom_up import BottomUpSampler
from pymc_spn.gibbs.chain_runs import ChainRuns, kinds_of_runs, number_of
from pymc_spn.gibbs.hyperparameters import update_hyperparameters
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.gibbs.network import LARGEST_LOG
from pymc_spn.gibbs.palette import log_jacobian
from pymc_spn.gibbs.published import PublishedSampler
from pymc_spn.gibbs.sampler import Sampler, place_columns
from pymc_spn.gibbs.starts import kmeans_digits
from pymc_spn.gibbs.statistics import pack_statistics
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.geometric import LARGEST_COUNT
from pymc_spn.leaves.kernel_forms import LOGARITHM, REAL


class Chain:
    """State of one chain: assignments in a `Sampler`, hyperparameters, and the kernel that moves them.

    Parameters
    ----------
    schema : NetworkSchema
    values : (N, D) float64
        The table in its own units, levels as integers, NaN where missing.
    kernel : {"exact", "published", "bottom_up"}
    rounding : RoundedSweeps, optional
        Sweeps over exact values where recorded ones stand for cells (`records.rounded_cells`).
    """

    def __init__(self, schema, values, kernel="exact", rounding=None):
        self.schema, self.values, self.kernel = schema, np.array(values, np.float64), kernel
        coded = schema.code(self.values)
        self._sampler = Sampler(schema.structure, schema.compiled, coded, log_jacobian(schema.compiled, self.values))
        self.rounding = rounding
        if rounding is not None:
            self._sampler.cells = rounding.none_integrated
        self.ahead = None  # a sampler with explicit parameters that has moved on since the collapsed state was made
        self.explicit = None
        self.is_settled = False  # whether the columns whose exact values are integrated stay as they are
        self.runs = None  # if they are of several kinds
        if kernel != "exact" and self._sampler.net.joints is not None:
            raise ValueError(
                f'kernel must be "exact" with multivariate leaves, got "{kernel}"; '
                "ps.SPN(..., joint_leaves=None) has no such leaves"
            )
        if kernel != "exact":
            kind = PublishedSampler if kernel == "published" else BottomUpSampler
            self.explicit = kind(schema.structure, schema.compiled, coded)

    @property
    def sampler(self):
        """The collapsed state, made from that of an explicit sampler when it is asked for and not before."""
        if self.ahead is not None:
            self._sampler.set_digits(self.ahead.digits())
            self.ahead = None
        return self._sampler

    def start(self, rng, hyperparameters, tune=0, draws=0):
        """Install hyperparameters (five vectors) and the schema's start; nothing of an earlier chain remains.

        ``tune`` and ``draws`` are the numbers of sweeps before the first draw that counts and from there. Chains that
        start from k-means and have leaves over several columns are divided into several runs (`chain_runs`).
        """
        self.runs = None
        if draws > 0 and self.schema.start == "kmeans" and self.sampler.net.joints is not None:
            kinds = kinds_of_runs(self.schema, self.values)
            self.runs = ChainRuns(kinds, number_of(rng), tune, draws, hyperparameters)
        self.begin(rng, hyperparameters)

    def start_at(self, rng, hyperparameters, digits):
        """Install hyperparameters and digits (n, R) of the first rows; place the others by their conditionals."""
        self.runs = None
        self._forget(hyperparameters)
        self._sampler.seat(rng, digits)
        self.set_digits(self._sampler.digits())

    def _forget(self, hyperparameters):
        """Install hyperparameters, without any assignments of an earlier chain."""
        self.ahead = None
        if self.rounding is not None:
            self.set_table(self.rounding.cells.exact(values=self.values))
        self._sampler.reset()
        self.is_settled = False
        self.set_hyperparameters(hyperparameters)

    def begin(self, rng, hyperparameters):
        """One start, of the present run where there are several."""
        self._forget(hyperparameters)
        if self.schema.start == "kmeans":
            coded = self.schema.code(self.values)
            if self.runs is not None:
                self.sampler.open_joints(self.runs.is_open)
            is_open = self.sampler.net.joints is None or self.sampler.net.joints.is_open
            self.set_digits(kmeans_digits(self.schema.structure, self.schema.compiled, coded, rng, is_open))
        else:
            self.sampler.draw_prior(rng)
            self.set_digits(self.sampler.digits())

    def set_digits(self, digits):
        """Install assignments."""
        self.ahead = None
        self._sampler.set_digits(digits)
        if self.explicit is not None:
            self.explicit.set_digits(digits)

    def set_table(self, placed):
        """Install a coded table (N, P) before the assignments to it: exact values of what is recorded in cells."""
        self._sampler.set_table(placed)
        if self.explicit is not None and self.rounding is not None:
            self.explicit.set_table(placed)

    def set_cells(self, rows, columns, values):
        """Write cells into the table; what is rebuilt from it afterwards has them."""
        self.values[rows, columns] = values
        placed = place_columns(self.schema.structure, self.schema.code(self.values))
        if self.rounding is not None:
            placed[:, self.rounding.moving] = self.sampler.coded[:, self.rounding.moving]
        self.sampler.coded = placed

    def set_hyperparameters(self, hyperparameters):
        """Install concentrations (2,), leaf scale, shape, precision ratio and covariance scale (D,) each."""
        self._sampler.set_hyperparameters(*hyperparameters)
        if self.explicit is not None:
            self.explicit.set_hyperparameters(*hyperparameters[:4])

    def sweep(self, rng):
        """One sweep of the assignments; returns the fraction of rows that moved."""
        if self.runs is not None:
            self.runs.before_sweep(self, rng)
        if self.explicit is not None:
            moved = self.explicit.sweep(rng)
            self.ahead = self.explicit
            if self.rounding is not None:
                self.rounding.draw_exact(rng, self.sampler)
                self.explicit.set_table(self.sampler.coded)
            return moved
        if not self.is_settled:
            self.plan()
        return self.sampler.sweep(rng) if self.rounding is None else self.rounding.sweep(rng, self.sampler)

    def settle(self):
        """Keep what suits the present state until the next start.

        A choice that follows the state is no longer a draw from kernels that keep the posterior, so it ends with the
        tuning. Before that, a chain that has grown or shrunk is given what suits it, before each sweep.
        """
        if self.runs is not None:
            self.runs.begin_draws(self)
        if not self.is_settled:
            self.plan()
            self.is_settled = True

    def plan(self):
        """Choose the rounded columns whose exact values are integrated out, those with narrow leaves."""
        if self.rounding is not None:
            self.rounding.plan(self.sampler)

    def update_hyperparameters(self, rng, owned, priors):
        """Slice updates of the owned hyperparameters; returns the five vectors."""
        h = [np.array(x) for x in self._sampler.hyperparameters]
        if owned.any():
            n_groups = len(h) - (self.sampler.net.joints is None)
            groups = owned[:n_groups], priors[:n_groups]
            update_hyperparameters(rng, pack_statistics(self.sampler.net, 0.0), self.schema.compiled, *groups, h)
            self.set_hyperparameters(h)
        return h

    def statistics_of_one_cluster(self):
        """Statistics with all rows on the first child of everything; ticket 0: a state before any sweep."""
        n, n_columns = self.values.shape
        ones = np.ones(n_columns)
        self.sampler.set_hyperparameters(np.ones(2), ones, ones, ones, ones)
        self.sampler.set_digits(np.zeros((n, self.schema.structure.n_regions), np.int32))
        state = self.sampler.statistics()
        state[0] = 0.0
        return state

    def draw_prior_table(self, rng, hyperparameters):
        """A table from the prior, with the gaps of the data: assignments, leaf parameters, values."""
        self.set_hyperparameters(hyperparameters)
        self.sampler.draw_prior(rng)
        s, c = self.sampler, self.schema.compiled
        table = np.full(self.values.shape, np.nan)
        for r, d in zip(s.structure.leaf_region, s.structure.leaf_column, strict=True):
            rows = np.flatnonzero(s.slots[:, r] >= 0)
            slots, inverse = np.unique(s.slots[rows, r], return_inverse=True)
            for k, slot in enumerate(slots):
                e = s.net.leaves.entry[s.net.edges.begin[r] + slot]
                prior, family = s.net.palette.prior[e], s.net.palette.family[e]
                n = int((inverse == k).sum())
                factors = s.net.palette.level_factor[s.net.palette.entry_source[e], : c.n_levels[d]]
                table[rows[inverse == k], d] = _draw_leaf(rng, family, prior, factors, c.offset[d], n)
        if s.net.joints is not None:
            fill_joint_leaves(rng, s, table)
            table[np.isnan(self.values)] = np.nan
        table = table * c.scale + c.centre
        mixed = self.schema.mixed_columns
        table[:, mixed] = np.round(table[:, mixed]) + 0.0
        table[:, c.is_count] = np.maximum(table[:, c.is_count], 0.0)
        for d in self.schema.rounded_columns:
            table[:, d] = self.schema.on_grid(d, table[:, d])
        return table


def _draw_leaf(rng, family, prior, level_factors, offset, n):
    """Values of one leaf with parameters drawn from its prior, in coded units."""
    if family == CATEGORICAL:
        return rng.choice(level_factors.size, size=n, p=rng.dirichlet(prior[0] * level_factors)).astype(np.float64)
    part = PREDICTIVES[int(family)]
    parameters = np.repeat(part.draw_parameters(prior[None], rng), n, axis=0)
    with np.errstate(over="ignore"):
        drawn = EXPLICIT[part.entry.family].draw(parameters, rng)
    if part.conjugate.reading == REAL:
        return drawn
    if part.conjugate.reading == LOGARITHM:
        drawn = np.clip(drawn, math.exp(-LARGEST_LOG), math.exp(LARGEST_LOG))
    return (np.minimum(drawn, LARGEST_COUNT) if part.has_masses else drawn) - offset


def fill_joint_leaves(rng, sampler, table):
    """Draw the coded cells (N, D) of rows in leaves over several columns, whose parameters come from their prior."""
    from scipy.stats import invwishart  # takes a second to load, and tables from the prior are rare

    net, joints = sampler.net, sampler.net.joints
    for r in np.flatnonzero(joints.split >= 0):
        own = slice(joints.column_ptr[r], joints.column_ptr[r + 1])
        columns, d = joints.column[own], joints.column_ptr[r + 1] - joints.column_ptr[r]
        slots = sampler.slots[:, r]
        for slot in np.unique(slots[slots >= 0]):
            if net.edges.split[net.edges.begin[r] + slot] != joints.split[r]:
                continue
            rows = np.flatnonzero(slots == slot)
            covariance = invwishart(d + EXCESS, np.diag(joints.psi0[own])).rvs(random_state=rng)
            factor = np.linalg.cholesky(covariance)
            mean = joints.centre[own] + factor @ rng.standard_normal(d) / np.sqrt(PRECISION_RATIO)
            table[np.ix_(rows, columns)] = mean + rng.standard_normal((rows.size, d)) @ factor.T
