"""Leaves over several columns of recorded states in the units of the data: their predictives are Student t's."""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, joint_regions
from pymc_spn.leaves.elliptical_kernels import column_of_pairs, log_densities_of_rows
from pymc_spn.leaves.elliptical_leaves import order_by_flags
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_student_t import MULTIVARIATE_STUDENT_T, predictive_leaves
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.networks.records.joint_cell_blocks import log_masses_of_rows

KEPT_BYTES = 256_000_000  # leaves beyond these are worked out at every question


class JointPredictives(NamedTuple):
    """Leaves over the columns of one region in some networks, one network after the other, in each the prior one first.

    Parameters
    ----------
    columns : (d,) int64
    slots : (n,) int64
        Their slots in the region.
    begin : (S + 1,) int64
        First leaf of each network, and the number of all.
    posterior : NormalInverseWishart
        In the units of the data.
    parameters : (n, P) float64
        Of the predictives.
    log_ratio : (n, d + 1) float64
        See `log_densities_of_rows`.
    """

    columns: np.ndarray
    slots: np.ndarray
    begin: np.ndarray
    posterior: NormalInverseWishart
    parameters: np.ndarray
    log_ratio: np.ndarray

    @property
    def family(self) -> Any:
        """Of the leaves' predictives."""
        return MULTIVARIATE_STUDENT_T.over(self.columns.size)

    @property
    def circuit(self) -> np.ndarray:
        """Network (n,) of each leaf."""
        return np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin))

    def of_networks(self, first: int, stop: int) -> "JointPredictives":
        """Those of some networks."""
        own = slice(int(self.begin[first]), int(self.begin[stop]))
        begin = self.begin[first : stop + 1] - self.begin[first]
        posterior = NormalInverseWishart(*(values[own] for values in self.posterior))
        return JointPredictives(
            self.columns, self.slots[own], begin, posterior, self.parameters[own], self.log_ratio[own]
        )


def joint_predictives(net: Any, compiled: Any, r: int) -> JointPredictives:
    """The leaves over all columns of a region of one network; none where it has no such leaves."""
    return joint_predictives_of([net], compiled, r)


def joint_predictives_of(nets: Sequence[Any], compiled: Any, r: int) -> JointPredictives:
    """The same of some networks."""
    first, last = nets[0].joints.column_ptr[r], nets[0].joints.column_ptr[r + 1]
    columns, d = nets[0].joints.column[first:last], int(last - first)
    t = d * (d + 1) // 2
    each: list[list[np.ndarray]] = [[], [], [], [], []]  # slots, rows, sums, products, psi0
    for net in nets:
        joints, begin, top = net.joints, net.edges.begin[r], net.edges.top[r]
        is_held = net.edges.weight[begin : begin + top] > 0.0
        is_prior = np.arange(top) < net.tree.n_prior[r]
        slots = np.flatnonzero((net.edges.split[begin : begin + top] == joints.split[r]) & (is_prior | is_held))
        own = (
            slots,
            np.where(is_held[slots], joints.n_rows[joints.slot_begin[r] + slots], 0.0),
            joints.sums[joints.sums_begin[r] :][: top * d].reshape(top, d)[slots],
            joints.products[joints.products_begin[r] :][: top * t].reshape(top, t)[slots],
            np.broadcast_to(joints.psi0[first:last], (slots.size, d)),
        )
        for found, values in zip(each, own, strict=True):
            found.append(values)
    n_leaves = np.array([slots.size for slots in each[0]])
    slots, n, sums, products, psi0 = (np.concatenate(found) for found in each)
    held = (n > 0)[:, None]  # of the prior slot nothing is summed
    prior = psi0, PRECISION_RATIO, d + EXCESS, nets[0].joints.centre[first:last]
    mu, k, psi, v = NormalInverseWishart.after(n, np.where(held, sums, 0.0), np.where(held, products, 0.0), *prior)
    scale, centre = compiled.scale[columns], compiled.centre[columns]
    posterior = NormalInverseWishart(mu * scale + centre, k, psi * scale[:, None] * scale, v)
    at = np.concatenate([[0], np.cumsum(n_leaves)]).astype(np.int64)
    parameters = predictive_leaves(posterior)
    log_ratio = log_gamma_ratio(0.5 * parameters[:, :1], 0.5 * np.arange(d + 1.0))
    return JointPredictives(columns, slots, at, posterior, parameters, log_ratio)


def regions_of(structure: Any, d: int) -> np.ndarray:
    """All regions (k,) that hold a column, in preorder."""
    found = set()
    for r in structure.leaf_region[structure.leaf_column == d].tolist():
        while r >= 0:
            found.add(r)
            r = int(structure.parent[r])
    return np.array(sorted(found), np.int64)


class JointLeaves:
    """Leaves over several columns of all recorded draws, region by region; kept while there is room.

    Parameters
    ----------
    network : callable
        Gives the network of a draw.
    n_draws : int
    structure : RegionTree
    compiled
        The compiled columns.
    """

    def __init__(self, network: Callable[[int], Any], n_draws: int, structure: Any, compiled: Any) -> None:
        self._network, self._n_draws, self._structure, self._compiled = network, n_draws, structure, compiled
        self.regions = np.flatnonzero(joint_regions(structure, compiled.is_joint)).tolist()
        self._lock = RLock()  # for what is below
        self._kept: dict[int, JointPredictives] = {}
        self._columns: dict[int, JointColumn] = {}
        self._bytes = 0

    def of(self, r: int) -> JointPredictives:
        """The leaves over all columns of a region, under all draws."""
        found = self._kept.get(r)
        if found is not None:
            return found
        with self._lock:
            found = self._kept.get(r)
            if found is None:
                nets = [self._network(s) for s in range(self._n_draws)]
                found = joint_predictives_of(nets, self._compiled, r)
                size = 2 * found.parameters.nbytes
                if self._bytes + size < KEPT_BYTES:
                    self._bytes += size
                    self._kept[r] = found
            return found

    def column(self, d: int) -> "JointColumn":
        """The leaves that hold a column, under all draws."""
        found = self._columns.get(d)
        if found is None:
            held = [r for r in regions_of(self._structure, d).tolist() if r in self.regions]
            found = JointColumn.of([self.of(r) for r in held], self._n_draws, d)
            if all(r in self._kept for r in held):
                self._columns = {**self._columns, d: found}
        return found


class JointColumn(NamedTuple):
    """Leaves over several columns that hold one column, in some networks: n of them, one network after the other.

    Parameters
    ----------
    begin : (S + 1,) int64
        First leaf of each network.
    circuit : (n,) int64
        Network of each leaf.
    kind : (n,) int64
        Which of `regions` a leaf stands in.
    number : (n,) int64
        Its row among the parameters of the region.
    regions : tuple of (columns, place, family, parameters)
        Columns (d,) of the leaves, the place of the asked one among them, and parameters (n_region, P).
    """

    begin: np.ndarray
    circuit: np.ndarray
    kind: np.ndarray
    number: np.ndarray
    regions: tuple[tuple[np.ndarray, int, Any, np.ndarray], ...]

    @classmethod
    def of(cls, of_regions: Sequence[JointPredictives], n_networks: int, d: int) -> "JointColumn":
        """Of a column: the leaves of the regions that hold it."""
        regions = [(own.columns, own.columns.tolist().index(d), own.family, own.parameters) for own in of_regions]
        each = [np.zeros((3, 0), np.int64)]  # network, kind, number
        for k, own in enumerate(of_regions):
            each.append(np.stack([own.circuit, np.full(own.slots.size, k), np.arange(own.slots.size)]))
        leaves = np.concatenate(each, axis=1)
        leaves = leaves[:, np.argsort(leaves[0], kind="stable")]
        begin = np.searchsorted(leaves[0], np.arange(n_networks + 1))
        return cls(begin, leaves[0], leaves[1], leaves[2], tuple(regions))


class RowsByGaps(NamedTuple):
    """Rows (M, d), those with the same gaps together; see `log_densities_of_rows` and `log_masses_of_rows`.

    Parameters
    ----------
    rows, width : (d, M) float64
    order : (M,) int64
    begin : (G + 1,) int64
    n_points : int
        Sets of gaps that come first, of rows without cells.
    """

    rows: np.ndarray
    width: np.ndarray
    order: np.ndarray
    begin: np.ndarray
    n_points: int

    def sums_over_points(self, numbers: np.ndarray) -> np.ndarray:
        """Sums (..., M) of numbers (..., d) of the columns in which each row has a point."""
        is_point = ~np.isnan(self.rows) & (self.width == 0.0)
        out = np.empty((*numbers.shape[:-1], self.order.size))
        out[..., self.order] = numbers @ is_point
        return out

    @classmethod
    def of(cls, rows: np.ndarray, width: np.ndarray | None = None) -> "RowsByGaps":
        """Of rows (M, d) with NaN where missing, and widths (M, d) of cells in their middles; of points they are 0."""
        flags, n_points = ~np.isnan(rows), len(rows)
        if width is not None:
            is_cell = flags & (width > 0.0)
            has_cells = is_cell.any(axis=1, keepdims=True)
            flags, n_points = np.concatenate([has_cells, flags, is_cell], axis=1), n_points - int(has_cells.sum())
        order, begin = order_by_flags(flags)
        widths = np.zeros(rows.T.shape) if width is None else np.ascontiguousarray(width[order].T)
        n_points = int(np.searchsorted(begin[:-1], n_points))
        return cls(np.ascontiguousarray(rows[order].T), widths, order, begin, n_points)


def log_densities(found: JointPredictives, rows: RowsByGaps) -> np.ndarray:
    """Log densities (n, M) in leaves of what is observed in rows, of cells their mass, in the units of the data."""
    out = np.empty((len(found.parameters), rows.order.size))
    leaves, points, cells = (
        (found.parameters, found.log_ratio),
        rows.begin[: rows.n_points + 1],
        rows.begin[rows.n_points :],
    )
    log_densities_of_rows(*leaves, rows.rows, rows.order, points, out)
    if cells.size > 1:
        log_masses_of_rows(*leaves, rows.rows, rows.width, rows.order, cells, out)
    return out


def students_given(parameters: np.ndarray, leaf: np.ndarray, rows: np.ndarray, place: int) -> np.ndarray:
    """Location, scale and degrees of freedom (n, 3) of one column in leaves (n,), given the others in rows (n, d)."""
    out = np.empty((len(rows), 3))
    column_of_pairs(parameters, leaf, np.ascontiguousarray(rows), place, out)
    return out


def as_gaussian_leaves(students: np.ndarray) -> Leaves:
    """Student t's (n, 3) of location, scale and degrees of freedom as predictives of Gaussian leaves."""
    location, scale, freedom = students.T
    a = 0.5 * freedom
    return Leaves(
        np.full(location.size, GAUSSIAN), np.column_stack([location, np.ones(location.size), a, 0.5 * a * scale**2])
    )
