"""Families of leaves that are added as the documents say: over one column and over two of levels."""

from contextlib import contextmanager

import numpy as np
from scipy import stats

from pymc_spn.leaves.explicit_leaves import EXPLICIT, LEAF_FAMILIES, register
from pymc_spn.leaves.family_codes import IN_CIRCUITS
from pymc_spn.leaves.leaf_family import LeafFamily, UnivariateFamily, are_positive


def rayleigh_log_interval(p, low, high):
    with np.errstate(divide="ignore"):
        return np.log(stats.rayleigh.sf(low, scale=p[..., 0]) - stats.rayleigh.sf(high, scale=p[..., 0]))


RAYLEIGH = UnivariateFamily(
    name="rayleigh",
    n_parameters=1,
    is_density=True,
    log_density=lambda p, x: stats.rayleigh.logpdf(x, scale=p[..., 0]),
    check=are_positive("scale"),
    mean=lambda p: p[..., 0] * np.sqrt(np.pi / 2.0),
    variance=lambda p: (2.0 - np.pi / 2.0) * np.square(p[..., 0]),
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: rng.rayleigh(p[..., 0]),
    log_interval=rayleigh_log_interval,
    lowest=0.0,
)


class JointTable(LeafFamily):
    """Two columns of two and three levels: the probability of each pair (6,)."""

    name = "joint_table"
    n_columns = 2

    @property
    def column_families(self):
        return EXPLICIT["categorical"], EXPLICIT["categorical"]

    def problem(self, parameters):
        if parameters.shape[1] != 6:
            return 0, "rows must be six probabilities"
        wrong = (parameters < 0.0).any(axis=1) | (np.abs(parameters.sum(axis=1) - 1.0) > 1e-9)
        return (int(np.argmax(wrong)), "probabilities must add up to 1") if wrong.any() else None

    def _of(self, parameters, n):
        return np.broadcast_to(parameters, (n, 6)).reshape(n, 2, 3)

    @staticmethod
    def _agrees(x, size):
        return np.isnan(x)[:, None] | (x[:, None] == np.arange(float(size)))

    def log_density_of_rows(self, parameters, rows):
        inside = self._agrees(rows[:, 0], 2)[:, :, None] & self._agrees(rows[:, 1], 3)[:, None]
        total = np.where(inside, self._of(parameters, len(rows)), 0.0).sum(axis=(1, 2))
        with np.errstate(divide="ignore"):
            return np.where(np.isnan(rows).all(axis=1), 0.0, np.log(total))

    def column_of_rows(self, parameters, rows, column):
        p = self._of(parameters, len(rows))
        other = self._agrees(rows[:, 1 - column], (3, 2)[column])
        p = np.where(other[:, None] if column == 0 else other[:, :, None], p, 0.0).sum(axis=2 - column)
        return EXPLICIT["categorical"], p / p.sum(axis=1, keepdims=True)

    def log_probability_of_boxes(self, parameters, low, high):
        with np.errstate(divide="ignore"):
            return np.log(self._within(parameters, low, high).sum(axis=(1, 2)))

    def _within(self, parameters, low, high):
        a, b = np.arange(2.0)[:, None], np.arange(3.0)
        ends = low[:, :, None, None], high[:, :, None, None]
        inside = (ends[0][:, 0] <= a) & (a <= ends[1][:, 0]) & (ends[0][:, 1] <= b) & (b <= ends[1][:, 1])
        return np.where(inside, self._of(parameters, len(low)), 0.0)

    def within_boxes(self, parameters, low, high):
        p = self._within(parameters, low, high).reshape(len(low), 6)
        return p / p.sum(axis=1, keepdims=True)

    def moments_of_rows(self, parameters):
        p = self._of(parameters, len(parameters))
        x = np.stack(np.meshgrid([0.0, 1.0], [0.0, 1.0, 2.0], indexing="ij")).reshape(2, 6)
        flat = p.reshape(-1, 6)
        mean = flat @ x.T
        return mean, np.einsum("nk,ik,jk->nij", flat, x, x) - mean[:, :, None] * mean[:, None]


@contextmanager
def toys():
    """These families in the registry, and out of it again."""
    before, known = dict(LEAF_FAMILIES), list(IN_CIRCUITS)
    for family in (RAYLEIGH, JointTable()):
        register(family)
    try:
        yield
    finally:
        for name in set(LEAF_FAMILIES) - set(before):
            LEAF_FAMILIES.pop(name)
            EXPLICIT.pop(name, None)
        IN_CIRCUITS[:] = known
