"""Multivariate leaves of recorded states in the units of the data: their predictives are Student t's.

The density of the points and the probability of one interval are in closed form, that of several intervals is by a
fixed quasi-Monte-Carlo rule. What follows for other columns is an average over nodes: points of the intervals, with
weights. Intervals are those of a condition, the same for all rows, or the cells of a recorded row (`RoundedCells`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.events.events import Interval
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, joint_regions, statistics_of
from pymc_spn.leaves.elliptical_boxes import N_SHIFTS, lattice, nodes_within, step
from pymc_spn.leaves.elliptical_cells import log_values_of_rows, moments_in_cells
from pymc_spn.leaves.elliptical_kernels import column_of_rows, columns_of_rows
from pymc_spn.leaves.elliptical_leaves import distinct_leaves, groups_of, order_by_flags
from pymc_spn.leaves.family_codes import GAUSSIAN
from pymc_spn.leaves.leaf_predictives import Leaves
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.multivariate_student_t import MULTIVARIATE_STUDENT_T, predictive_leaves
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.networks.records.rounded_cells import RoundedCells

KEPT_BYTES = 256_000_000  # leaves beyond these are worked out at every question
MOST_PAIRS = 200_000  # of leaves and rows at a time
ONE = 48, 384, 3072  # nodes of one interval: the next rule serves columns that follow closely from its own
SEVERAL = 512, 4096, 32768  # nodes of several, also where the shifts of a rule do not agree
CLOSE = 2.0, 16.0  # a column's scale as a multiple of that given the columns of intervals, up to which a rule serves
NODES_AGREE = 5e-3  # error of a mean in standard deviations: probabilities are off by less than half of that
MOST_NUMBERS = 1 << 25  # of nodes at a time: a finer rule that needs more is not tried
GAUSS = tuple((0.5 * (nodes + 1.0), weights) for nodes, weights in map(np.polynomial.legendre.leggauss, ONE[:2]))
TOLERANCES = (0.0, 2e-4, 2e-3)  # of averages over nodes of no interval, one, several; tests compare with probabilities


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
        See `log_values_of_rows`.
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


def joint_predictives(nets: Sequence[Any], compiled: Any, r: int) -> JointPredictives:
    """The leaves over all columns of a region of some networks; none where it has no such leaves."""
    each: list[list[np.ndarray]] = [[], [], [], []]  # slots, rows, sums, products
    for net in nets:
        own = statistics_of(net, r)
        begin, top = net.edges.begin[r], own[0].size
        is_held = net.edges.weight[begin : begin + top] > 0.0
        is_prior = np.arange(top) < net.tree.n_prior[r]
        slots = np.flatnonzero((net.edges.split[begin : begin + top] == net.joints.split[r]) & (is_prior | is_held))
        held = is_held[slots, None]  # of the prior slot nothing is summed
        of_slots = (np.where(held, values[slots].reshape(slots.size, -1), 0.0) for values in own)
        for part, values in zip(each, (slots, *of_slots), strict=True):
            part.append(values)
    n_leaves = np.array([slots.size for slots in each[0]])
    slots, n, sums, products = map(np.concatenate, each)
    psi0 = [net.joints.psi0[slice(*net.joints.column_ptr[r : r + 2])] for net in nets]
    at = np.concatenate([[0], np.cumsum(n_leaves)]).astype(np.int64)
    prior = np.repeat(psi0, n_leaves, axis=0)
    found = predictives_after(nets[0].joints, r, n[:, 0], sums, products, prior, compiled)
    columns, posterior, parameters, log_ratio = found
    return JointPredictives(columns, slots, at, posterior, parameters, log_ratio)


def predictives_after(
    joints: Any, r: int, n: np.ndarray, sums: np.ndarray, products: np.ndarray, psi0: np.ndarray, compiled: Any
) -> tuple[np.ndarray, NormalInverseWishart, np.ndarray, np.ndarray]:
    """Columns of a region, and posteriors, parameters and log ratios of leaves with such statistics over them."""
    own = slice(*joints.column_ptr[r : r + 2])
    columns = joints.column[own]
    prior = psi0, PRECISION_RATIO, columns.size + EXCESS, joints.centre[own]
    mu, k, psi, v = NormalInverseWishart.after(n, sums, products, *prior)
    scale, centre = compiled.scale[columns], compiled.centre[columns]
    posterior = NormalInverseWishart(mu * scale + centre, k, psi * scale[:, None] * scale, v)
    parameters = predictive_leaves(posterior)
    log_ratio = log_gamma_ratio(0.5 * parameters[:, :1], 0.5 * np.arange(columns.size + 1.0))
    return columns, posterior, parameters, log_ratio


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
                found = joint_predictives(nets, self._compiled, r)
                size = 2 * found.parameters.nbytes
                if self._bytes + size < KEPT_BYTES:
                    self._bytes += size
                    self._kept[r] = found
            return found

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns (R,) of the leaves of each region that has such, and leaves (R, S) in each draw."""
        each = [self.of(r) for r in self.regions]
        counts = np.array([np.diff(own.begin) for own in each], np.int64).reshape(len(each), self._n_draws)
        return np.array([own.columns.size for own in each], np.int64), counts

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
    """Rows (M, d), those with the same gaps and the same leaf together; see `log_values_of_rows`.

    Parameters
    ----------
    rows, width : (d, M) float64
    order : (M,) int64
    begin : (G + 1,) int64
    leaf : (G,) int64
    """

    rows: np.ndarray
    width: np.ndarray
    order: np.ndarray
    begin: np.ndarray
    leaf: np.ndarray

    def sums_over_points(self, numbers: np.ndarray) -> np.ndarray:
        """Sums (..., M) of numbers (..., d) of the columns in which each row has a point."""
        is_point = ~np.isnan(self.rows) & (self.width == 0.0)
        out = np.empty((*numbers.shape[:-1], self.order.size))
        out[..., self.order] = numbers @ is_point
        return out

    @classmethod
    def of(cls, rows: np.ndarray, width: np.ndarray | None = None, leaf: np.ndarray | None = None) -> "RowsByGaps":
        """Of rows (M, d) with NaN where missing, and widths (M, d) of cells in their middles; of points they are 0.

        With ``leaf`` (M,) each row is asked in one leaf, else in all. Rows of one leaf should then stand together.
        """
        flags = ~np.isnan(rows)
        if width is not None:
            flags = np.concatenate([flags, flags & (width > 0.0)], axis=1)
        if leaf is None:
            order, begin = order_by_flags(flags)
            leaf = np.full(begin.size - 1, -1)
        else:
            is_new = (leaf[1:] != leaf[:-1]) | (flags[1:] != flags[:-1]).any(axis=1)
            begin = np.concatenate([[0], np.flatnonzero(is_new) + 1, [len(rows)][: len(rows)]]).astype(np.int64)
            order, leaf = np.arange(len(rows)), leaf[begin[:-1]]
        widths = np.zeros(rows.T.shape) if width is None else np.ascontiguousarray(width[order].T)
        return cls(np.ascontiguousarray(rows[order].T), widths, order, begin, leaf)


def log_values(
    parameters: np.ndarray, log_ratio: np.ndarray, rows: RowsByGaps, left_out: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Log values (n, M) of what is known of rows in leaves, in units of the data, and (n, d, M) without each column.

    Of rows with a leaf of their own n is 1.
    """
    (d, n_rows), n = rows.rows.shape, 1 if rows.leaf.max(initial=-1) >= 0 else len(parameters)
    out, without = np.empty((n, n_rows)), np.empty((n if left_out else 0, d, n_rows))
    log_values_of_rows(parameters, log_ratio, *rows, out, without)
    return out, without


def students_of_rows(parameters: np.ndarray, rows: np.ndarray, place: int) -> np.ndarray:
    """Location, scale and degrees of freedom (3, L, M) of one column in all leaves, given the others in rows (M, d)."""
    by_gaps, out = RowsByGaps.of(rows), np.empty((3, len(parameters), len(rows)))
    column_of_rows(parameters, by_gaps.rows, *by_gaps[2:], place, out)
    return out


def students_given(parameters: np.ndarray, leaf: np.ndarray, rows: np.ndarray, place: int) -> np.ndarray:
    """Location, scale and degrees of freedom (n, 3) of one column in leaves (n,), given the others in rows (n, d)."""
    by_gaps, out = RowsByGaps.of(rows, leaf=leaf), np.empty((3, 1, len(rows)))
    column_of_rows(parameters, by_gaps.rows, *by_gaps[2:], place, out)
    return out[:, 0].T


def students_of_columns(
    parameters: np.ndarray, leaf: np.ndarray, rows: np.ndarray, place: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """Each column (3, d, n) given the rest of its row, and slopes (d, n) of the one at ``place``: `columns_of_rows`."""
    by_gaps, shape = RowsByGaps.of(rows, leaf=leaf), rows.T.shape
    out, slopes = np.empty((3, *shape)), np.empty(shape)
    columns_of_rows(parameters, by_gaps.rows, *by_gaps[2:], place, out, slopes)
    return out, slopes


def means_in_cells(
    parameters: np.ndarray, leaf: np.ndarray, rows: np.ndarray, ends: np.ndarray, place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the means of exact values, and what their variances add (n,) to that of the column at ``place``.

    Parameters
    ----------
    parameters, leaf
        As of `students_given`.
    rows : (n, d) float64
        With the middles of the cells; NaN where nothing is known, and in the column itself.
    ends : (2, n, d) float64
        Ends of the cells, NaN where there is none.
    """
    laws, slopes = students_of_columns(parameters, leaf, rows, place)
    is_cell = ~np.isnan(ends[0] + rows).T
    low, high = (end.T[is_cell] for end in ends)
    mean, variance = np.empty((2, low.size))
    moments_in_cells(laws[:, is_cell], low, high, mean, variance)
    out, spread = rows.copy(), np.zeros(rows.T.shape)
    out.T[is_cell], spread[is_cell] = mean, np.square(slopes[is_cell]) * variance
    return out, spread.sum(axis=0)


def as_gaussian_leaves(students: np.ndarray) -> Leaves:
    """Student t's (n, 3) of location, scale and degrees of freedom as predictives of Gaussian leaves."""
    location, scale, freedom = students.T
    a = 0.5 * freedom
    return Leaves(
        np.full(location.size, GAUSSIAN), np.column_stack([location, np.ones(location.size), a, 0.5 * a * scale**2])
    )


def known_in(columns: np.ndarray, events: Mapping[int, Any]) -> list[int]:
    """Places of the columns of a leaf that are known to lie in an interval."""
    return [j for j, d in enumerate(columns.tolist()) if isinstance(events.get(d), Interval)]


def logs_of_leaves(
    found: JointPredictives,
    compiled: Any,
    values: np.ndarray,
    events: Mapping[int, Any],
    by_gaps: RowsByGaps | None = None,
) -> np.ndarray:
    """Log values (n, M) of leaves over several columns for rows (M, D) together with intervals, in coded units.

    ``by_gaps`` are the same rows of the leaves' columns, if they are known. They may have cells, which count by
    their mass; intervals are then given their middles, which are in the rows.
    """
    places, rows = known_in(found.columns, events), values[:, found.columns]
    by_gaps = RowsByGaps.of(rows) if by_gaps is None else by_gaps
    logs, _ = log_values(found.parameters, found.log_ratio, by_gaps)
    out = logs + by_gaps.sums_over_points(np.log(compiled.scale[found.columns]))
    if not places:
        return out
    lacking = np.isnan(rows[:, places])
    for at in groups_of(lacking):  # an interval says nothing more of a column of which the row has a point
        own = [j for j, is_lacking in zip(places, lacking[at[0]], strict=True) if is_lacking]
        ends = np.array([events[int(found.columns[j])] for j in own]).reshape(-1, 2)
        if own:
            out[:, at] += _log_of_intervals(found, rows[at], own, ends)
    return out


def logs_left_out(found: JointPredictives, compiled: Any, rows: RowsByGaps) -> tuple[np.ndarray, np.ndarray]:
    """Log values (n, M) of leaves for rows in coded units, and (n d, M) without each of their d columns."""
    logs, without = log_values(found.parameters, found.log_ratio, rows, True)
    of_points = rows.sums_over_points(np.diag(np.log(compiled.scale[found.columns])))
    whole = of_points.sum(axis=0)
    return logs + whole, (without + whole - of_points).reshape(-1, len(whole))


def logs_without_rows(
    net: Any,
    compiled: Any,
    values: np.ndarray,
    widths: np.ndarray,
    by_gaps: dict[int, RowsByGaps],
    filled: np.ndarray,
    slots: np.ndarray,
) -> np.ndarray:
    """Log values (M, J) of rows in all slots of leaves over several columns of a network, in coded units.

    Parameters
    ----------
    net : Network
    compiled
        The compiled columns.
    values, widths : (M, D) float64
        As of `RowsByGaps`.
    by_gaps : dict of int to RowsByGaps
        The same rows of the columns of each region, which are kept for the next network.
    filled : (M, D) float64
        Completed rows in coded units, as they are in the leaves.
    slots : (M, R) int32
        Of the rows in the network, which are left out of their leaves; empty if they are not in it.
    """
    joints = net.joints
    out = np.full((len(values), joints.log_scale.size), -np.inf)
    for r in np.flatnonzero(joints.split >= 0).tolist():
        found = joint_predictives([net], compiled, r)
        columns, first = found.columns, joints.slot_begin[r]
        if r not in by_gaps:
            by_gaps[r] = RowsByGaps.of(values[:, columns], widths[:, columns])
        out[:, first + found.slots] = logs_of_leaves(found, compiled, values, {}, by_gaps[r]).T
        at = np.flatnonzero(np.isin(slots[:, r], found.slots)) if len(slots) else np.zeros(0, np.int64)
        own = slice(*joints.column_ptr[r : r + 2])
        a, b = np.triu_indices(columns.size)
        size = max(1, MOST_NUMBERS // (8 * found.parameters.shape[1]))
        for start in range(0, at.size, size):
            some = at[start : start + size]
            slot, place = slots[some, r], np.ix_(some, columns)
            x = filled[place] - joints.centre[own]
            n, sums, products = (held[slot] for held in statistics_of(net, r))
            rest = n - 1.0, sums - x, products - x[:, a] * x[:, b], joints.psi0[own]
            _, _, parameters, log_ratio = predictives_after(joints, r, *rest, compiled)
            rows = RowsByGaps.of(values[place], widths[place], np.arange(some.size))
            logs = log_values(parameters, log_ratio, rows)[0][0]
            logs += rows.sums_over_points(np.log(compiled.scale[columns]))
            out[some, first + slot] = np.where(n > 1.0, logs, -np.inf)
    return out


def _log_of_intervals(found: JointPredictives, rows: np.ndarray, places: list[int], ends: np.ndarray) -> np.ndarray:
    """Log probabilities (n, M) of intervals (k, 2) of some columns in leaves, given the points of rows (M, d)."""
    out = np.empty((found.slots.size, len(rows)))
    n, size = len(rows), max(1, MOST_PAIRS // len(rows))
    for first in range(0, len(out), size):
        part = np.arange(first, min(first + size, len(out)))
        if len(places) == 1:
            law, given = found.family.univariate, students_of_rows(found.parameters[part], rows, places[0])
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                logs = law.log_interval(np.moveaxis(given, 0, -1), *ends[0])
        else:
            leaf, of_rows = np.repeat(part, n), np.tile(rows, (part.size, 1))
            low, high = (np.broadcast_to(end, (len(leaf), len(places))) for end in ends.T)
            law, given = found.family.columns_of_rows(found.parameters[leaf], of_rows, places)
            logs = law.log_probability_of_boxes(given, low, high)
        out[part] = logs.reshape(part.size, n)
    return out


def nodes_of(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rule: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with some columns at nodes of their intervals, and weights of the nodes.

    Parameters
    ----------
    family : EllipticalFamily
    parameters : (n, P) float64
    rows : (n, d) float64
        The points, which stay also in columns of intervals; NaN elsewhere.
    places : list of int
        Columns (k,) of the intervals.
    ends : (k, 2) float64
    rule : int
        The coarsest that will do, of `ONE` or `SEVERAL`. Of several intervals a finer one is taken where shifts of the
        lattice do not agree.

    Returns
    -------
    rows : (n, G, d) float64
    weights : (n, G) float64
        They add up to 1.
    """
    if len(places) == 1:
        return _nodes_of_one(family, parameters, rows, places[0], ends[0], rule)
    while True:
        out, logs = _nodes_of_several(family, parameters, rows, places, ends, rule)
        top = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - top)
        mass = weights.sum(axis=1, keepdims=True)
        weights /= mass
        rule += 1
        if rule == len(SEVERAL) or rows.size * SEVERAL[rule] > MOST_NUMBERS:
            return out, weights
        log_mass = (top + np.log(mass))[:, 0]
        share = np.exp(log_mass - log_mass.max(initial=-1e300))  # 0 where a box has no probability
        if _shifts_agree(out[:, :, places], weights, share):
            return out, weights


def _shifts_agree(x: np.ndarray, weights: np.ndarray, share: np.ndarray) -> bool:
    """Whether the shifts of a lattice give columns (n, G, k) the same means, by the shares (n,) that laws may have."""
    away = x - np.einsum("ng,ngk->nk", weights, x)[:, None]
    sd = np.sqrt(np.einsum("ng,ngk->nk", weights, np.square(away)))
    each = weights[:, :, None] * away
    error = np.sqrt(np.square(each.reshape(len(x), N_SHIFTS, -1, x.shape[2]).sum(axis=2)).sum(axis=1))
    return bool((error * share[:, None] <= NODES_AGREE * sd).all())


def columns_within(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n r, d), r of each one after the other, with one column after the other at a point of its interval.

    Parameters
    ----------
    family, parameters, rows, places, ends
        As of `nodes_of`.
    points : (k, n r) float64
        Within 0 and 1: shares of the probability in the interval, given the columns before.

    Returns
    -------
    rows : (n r, d) float64
    logs : (k, n r) float64
        Log probabilities of the intervals, given the columns before; 0 where the row has a point.
    """
    r, logs = points.shape[1] // max(len(rows), 1), np.zeros(points.shape)
    out = np.repeat(rows, r, axis=0)
    for i, j in enumerate(places):
        if i == 0:  # they have the first column's law in common
            own = np.repeat(family.column_of_rows(parameters, rows, j)[1], r, axis=0)
        else:
            own = family.column_of_rows(np.repeat(parameters, r, axis=0), out, j)[1]
        location, scale, dof = own.T
        low, high = ((end - location) / scale for end in ends[i])
        log_p, z = step(dof, low, high, points[i])
        is_gap = np.repeat(np.isnan(rows[:, j]), r)
        out[:, j] = np.where(is_gap, location + scale * z, out[:, j])
        logs[i] = np.where(is_gap, log_p, 0.0)
    return out, logs


def _nodes_of_several(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows at the nodes of several intervals, and log probabilities (n, G) of the nodes, times their number."""
    n, n_nodes = len(rows), SEVERAL[rule]
    points = np.tile(lattice(n_nodes // N_SHIFTS, len(places)), n)
    out, logs = columns_within(family, parameters, rows, places, ends, points)
    return out.reshape(n, n_nodes, rows.shape[1]), logs.sum(axis=0).reshape(n, n_nodes)


def _nodes_of_one(
    family: Any, parameters: np.ndarray, rows: np.ndarray, j: int, ends: np.ndarray, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """`nodes_of` one interval: by Gauss rules, or of like probability."""
    n, n_nodes = len(rows), ONE[rule]
    if rule == len(GAUSS):
        middles = np.tile((np.arange(n_nodes) + 0.5) / n_nodes, n)
        out, _ = columns_within(family, parameters, rows, [j], ends[None], middles[None])
        return out.reshape(n, n_nodes, rows.shape[1]), np.full((n, n_nodes), 1.0 / n_nodes)
    location, scale, dof = family.column_of_rows(parameters, rows, j)[1].T
    low, high = ((end - location) / scale for end in ends)
    z, weights = nodes_within(dof, low, high, *GAUSS[rule])
    out = np.repeat(rows[:, None], n_nodes, axis=1)
    out[:, :, j] = np.where(np.isnan(rows[:, j, None]), location[:, None] + scale[:, None] * z, rows[:, j, None])
    return out, weights


def column_given(
    column: JointColumn,
    d: int,
    leaf: np.ndarray,
    row: np.ndarray,
    values: np.ndarray,
    events: Mapping[int, Any],
    ends: np.ndarray | None = None,
) -> tuple[Leaves, np.ndarray]:
    """Laws of a column in leaves (P,) given other cells of rows (P,) and intervals: mixtures of G leaves each.

    Rows are those of ``values`` (M, D). Where recorded values stand for cells, ``ends`` (2, M, D) are the ends of
    these, NaN elsewhere, and the values are their middles. Each cell then counts by mean and variance of its exact
    value given the other cells' middles.

    Returns
    -------
    leaves : Leaves
        (P G,), one pair after the other; without the interval of the column itself.
    weights : (P, G) float64
    """
    own = events.get(d)
    rest = {c: event for c, event in events.items() if c != d}
    known = [known_in(columns, rest) for columns, *_ in column.regions]
    kinds, parts = column.kind[leaf], []
    for k, (columns, place, family, parameters) in enumerate(column.regions):
        of_values = values[:, columns]
        of_values[:, place] = np.nan
        gaps = np.isnan(of_values) @ 0.5 ** np.arange(columns.size)
        at = np.flatnonzero(kinds == k)
        if np.ptp(gaps) > 0.0 or np.any(np.diff(leaf[at]) < 0):  # of one leaf and one set of gaps there is one factor
            at = at[np.lexsort((gaps[row[at]], leaf[at]))]
        of_rows, number, spread = of_values[row[at]], column.number[leaf[at]], np.zeros(at.size)
        if ends is not None and not np.isnan(ends[0][:, columns]).all():
            own_ends = ends[:, :, columns][:, row[at]]
            of_rows, spread = means_in_cells(parameters, number, of_rows, own_ends, place)
        nodes, weight = of_rows[:, None], np.ones((at.size, 1))
        if known[k]:
            of_events = np.array([rest[int(columns[j])] for j in known[k]])
            rule = _rule_of(parameters, number, of_rows, place, known[k], columns.size)
            nodes, weight = nodes_of(family, parameters[number], of_rows, known[k], of_events, rule)
        n = weight.shape[1]
        each = students_given(parameters, np.repeat(number, n), nodes.reshape(-1, columns.size), place)
        if isinstance(own, Interval) and n > 1:
            location, scale, dof = each.T
            inside = step(dof, (own.low - location) / scale, (own.high - location) / scale, None)[0].reshape(-1, n)
            weight = weight * np.exp(inside - inside.max(axis=1, keepdims=True))
            weight = weight / weight.sum(axis=1, keepdims=True)
        each = each.reshape(-1, n, 3)
        each[:, :, 1] = np.hypot(each[:, :, 1], np.sqrt(spread)[:, None])
        parts.append((at, each, weight))
    n_nodes = max((weight.shape[1] for _, _, weight in parts), default=1)
    students, weights = np.ones((leaf.size, n_nodes, 3)), np.zeros((leaf.size, n_nodes))
    students[:, :, 0] = 0.0
    for at, each, weight in parts:
        students[at, : weight.shape[1]], weights[at, : weight.shape[1]] = each, weight
    return as_gaussian_leaves(students.reshape(-1, 3)), weights


def _rule_of(
    parameters: np.ndarray, number: np.ndarray, rows: np.ndarray, place: int, places: list[int], d: int
) -> int:
    """The coarsest rule for intervals that leaves no gaps in the law of a column which follows from their columns.

    Given a node a column has a scale of its own; where it is small, a mixture over few nodes is a row of spikes.
    """
    if not number.size:
        return 0
    alone, given = rows.copy(), rows.copy()
    centre = parameters[number, 1 : 1 + d]
    given[:, places] = np.where(np.isnan(given[:, places]), centre[:, places], given[:, places])
    wide, narrow = (students_given(parameters, number, x, place)[:, 1] for x in (alone, given))
    rule = int(np.searchsorted(CLOSE, (wide / narrow).max()))
    sizes = ONE if len(places) == 1 else SEVERAL
    while rule and rows.size * sizes[rule] > MOST_NUMBERS:
        rule -= 1
    return rule


def moments_of_leaves(found: Any, values: np.ndarray, events: Mapping[int, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Means (n, d) and covariances (n, d, d) of leaves given points (d,) and intervals."""
    n, d = found.slots.size, values.size
    rows, weights = np.tile(values, (n, 1, 1)), np.ones((n, 1))
    places = known_in(found.columns, events)
    if places:
        ends = np.array([events[int(found.columns[j])] for j in places])
        rows, weights = nodes_of(found.family, found.parameters, rows[:, 0], places, ends)
    n_nodes = weights.shape[1]
    lacking = np.flatnonzero(np.isnan(rows[0, 0])).tolist() if n else []
    within = np.zeros((n, n_nodes, d, d))
    if lacking:
        own = np.repeat(found.parameters, n_nodes, axis=0)
        law, given = found.family.columns_of_rows(own, rows.reshape(n * n_nodes, d), lacking)
        mean, cov = law.moments_of_rows(given)
        rows[:, :, lacking] = mean.reshape(n, n_nodes, len(lacking))
        within[np.ix_(range(n), range(n_nodes), lacking, lacking)] = cov.reshape(n, n_nodes, *cov.shape[1:])
    centre = np.einsum("ng,ngd->nd", weights, rows)
    away = rows - centre[:, None]
    return centre, np.einsum("ng,ngab->nab", weights, within + away[..., :, None] * away[..., None, :])


def draw_with_events(
    leaves: JointLeaves,
    draw: np.ndarray,
    part: np.ndarray,
    row: np.ndarray,
    values: np.ndarray,
    events: Mapping[int, Any],
    rng: np.random.Generator,
    cells: RoundedCells | None = None,
) -> np.ndarray:
    """Draw rows (n, D) in their leaves over several columns given points and intervals; NaN in other cells.

    Parameters
    ----------
    leaves : JointLeaves
    draw : (n,) int64
        Of the chain, for each row.
    part : (n, D) int64
        Which part of the draw's leaves each cell has, below 0 where it has none; see `DrawCircuit`.
    row : (n,) int64
        Among those of ``values`` (M, D) and of the cells that recorded values stand for.
    """
    out = np.full(part.shape, np.nan)
    first = np.zeros(int(draw.max(initial=0)) + 1, np.int64)  # part of the region in each draw
    for r in leaves.regions:
        found = leaves.of(r)
        columns, count = found.columns, np.diff(found.begin)[: first.size]
        leaf = (part[:, columns[0]] - first[draw]) // columns.size
        first += count * columns.size
        which = np.flatnonzero((leaf >= 0) & (leaf < count[draw]))
        leaf = found.begin[draw[which]] + leaf[which]
        order, places = np.argsort(leaf, kind="stable"), known_in(columns, events)
        of_events = np.array([events[int(columns[j])] for j in places])
        size = max(1, MOST_NUMBERS // (8 * found.parameters.shape[1]))
        for start in range(0, order.size, size):
            some = order[start : start + size]
            at, parameters = which[some], found.parameters[leaf[some]]
            rows = values[np.ix_(row[at], columns)]
            if cells is not None:
                own = cells.of_rows(row[at])
                rows = draw_in_cells(parameters, own.middles[:, columns], own.ends_of_columns[:, :, columns], rng)
            if places:
                rows = draw_in_boxes(found.family, parameters, rows, places, of_events, rng)
            out[np.ix_(at, columns)] = found.family.draw_missing(parameters, rows, rng)
    return out


def draw_in_cells(parameters: np.ndarray, rows: np.ndarray, ends: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows (n, d), each of a leaf of its own, with exact values drawn within their cells of these ends (2, n, d).

    Each is taken given the points of its row and the middles of the other cells.
    """
    out, is_cell = np.array(rows), ~np.isnan(ends[0] + rows)
    laws = students_of_columns(*distinct_leaves(parameters, len(rows)), rows)[0]
    location, scale, dof = (own.T[is_cell] for own in laws)
    low, high = ((end[is_cell] - location) / scale for end in ends)
    out[is_cell] = location + scale * step(dof, low, high, rng.random(low.size))[1]
    return out


def draw_in_boxes(
    family: Any, parameters: np.ndarray, rows: np.ndarray, places: list[int], ends: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) with the columns of intervals drawn in them, given the points.

    One column after the other is drawn in its interval, and all of them are kept with the probability that those behind
    the first one are there. What is kept has the law within the box.
    """
    out, left = np.array(rows), np.arange(len(rows))
    while left.size:
        points = rng.random((len(places), left.size))
        tried, logs = columns_within(family, parameters[left], rows[left], places, ends, points)
        kept = np.log(rng.random(left.size)) < logs[1:].sum(axis=0)
        out[left[kept]] = tried[kept]
        left = left[~kept]
    return out
