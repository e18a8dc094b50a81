"""Leaves over several columns of recorded states in the units of the data: their predictives are Student t's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_student_t import MULTIVARIATE_STUDENT_T, predictive_leaves


class JointPredictives(NamedTuple):
    """Leaves over the columns of one region, the prior one first.

    Parameters
    ----------
    columns : (d,) int64
    slots : (n,) int64
        Their slots in the region.
    posterior : NormalInverseWishart
        In the units of the data.
    """

    columns: np.ndarray
    slots: np.ndarray
    posterior: NormalInverseWishart

    @property
    def family(self) -> Any:
        """Of the leaves' predictives."""
        return MULTIVARIATE_STUDENT_T.over(self.columns.size)

    @property
    def parameters(self) -> np.ndarray:
        """Parameters (n, P) of the predictives."""
        return predictive_leaves(self.posterior)


def joint_predictives(net: Any, compiled: Any, r: int) -> JointPredictives:
    """The leaves over all columns of a region; none where it has no such leaves."""
    joints, begin, top = net.joints, net.edges.begin[r], net.edges.top[r]
    first, last = joints.column_ptr[r], joints.column_ptr[r + 1]
    columns, d = joints.column[first:last], last - first
    n = net.edges.n_data[begin : begin + top].astype(np.float64)
    is_prior = np.arange(top) < net.tree.n_prior[r]
    slots = np.flatnonzero((net.edges.split[begin : begin + top] == joints.split[r]) & (is_prior | (n > 0)))
    t = d * (d + 1) // 2
    own_sums = joints.sums_begin[r] + slots[:, None] * d + np.arange(d)
    own_products = joints.products_begin[r] + slots[:, None] * t + np.arange(t)
    n = n[slots]
    held = (n > 0)[:, None]  # of the prior slot nothing is summed
    sums, products = joints.sums[own_sums] * held, joints.products[own_products] * held
    prior = joints.psi0[first:last], PRECISION_RATIO, d + EXCESS, joints.centre[first:last]
    mu, k, psi, v = NormalInverseWishart.after(n, sums, products, *prior)
    scale, centre = compiled.scale[columns], compiled.centre[columns]
    posterior = NormalInverseWishart(mu * scale + centre, k, psi * scale[:, None] * scale, v)
    return JointPredictives(columns, slots, posterior)


class JointColumn(NamedTuple):
    """Leaves over several columns that hold one column, in some networks: n of them, one network after the other.

    Parameters
    ----------
    begin : (S + 1,) int64
        First leaf of each network.
    circuit : (n,) int64
        Network of each leaf.
    slots : (n,) int64
        Place among the slots of the network's regions with such leaves that hold the column, region by region.
    n_slots : (S,) int64
    kind : (n,) int64
        Which of `regions` a leaf stands in.
    number : (n,) int64
        Its row among the parameters of the region.
    regions : tuple of (columns, place, family, parameters)
        Columns (d,) of the leaves, the place of the asked one among them, and parameters (n_region, P).
    """

    begin: np.ndarray
    circuit: np.ndarray
    slots: np.ndarray
    n_slots: np.ndarray
    kind: np.ndarray
    number: np.ndarray
    regions: tuple[tuple[np.ndarray, int, Any, np.ndarray], ...]

    @classmethod
    def of(cls, nets: Sequence[Any], compiled: Any, d: int, path: np.ndarray) -> "JointColumn":
        """Of a column, all regions of which are the path (k,)."""
        joints = nets[0].joints
        held = [r for r in path.tolist() if joints is not None and joints.split[r] >= 0]
        found = [[joint_predictives(net, compiled, r) for net in nets] for r in held]
        regions = []
        for own in found:
            columns, place = own[0].columns, own[0].columns.tolist().index(d)
            regions.append((columns, place, own[0].family, np.concatenate([one.parameters for one in own])))
        before = np.zeros((len(held) + 1, len(nets)), np.int64)  # slots of a network before those of a region
        before[1:] = np.cumsum([[net.edges.top[r] for net in nets] for r in held], axis=0) if held else 0
        each = [np.zeros((4, 0), np.int64)]  # network, slot, kind, number
        for k, own in enumerate(found):
            sizes = [one.slots.size for one in own]
            circuit = np.repeat(np.arange(len(nets)), sizes)
            slots = np.concatenate([one.slots for one in own]) + before[k, circuit]
            each.append(np.stack([circuit, slots, np.full(slots.size, k), np.arange(slots.size)]))
        leaves = np.concatenate(each, axis=1)
        leaves = leaves[:, np.argsort(leaves[0], kind="stable")]
        begin = np.searchsorted(leaves[0], np.arange(len(nets) + 1))
        return cls(begin, leaves[0], leaves[1], before[-1], leaves[2], leaves[3], tuple(regions))


def as_gaussian_leaves(students: np.ndarray) -> Leaves:
    """Student t's (n, 3) of location, scale and degrees of freedom as predictives of Gaussian leaves."""
    location, scale, freedom = students.T
    a = 0.5 * freedom
    return Leaves(
        np.full(location.size, GAUSSIAN), np.column_stack([location, np.ones(location.size), a, 0.5 * a * scale**2])
    )
