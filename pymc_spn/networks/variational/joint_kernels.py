"""Leaves over several columns in the ascent: expected log densities, statistics of rows with gaps, integrals, scales.

The variational posterior of a leaf is normal-inverse-Wishart. Missing cells of a row have a factor q(missing | leaf),
whose optimum is normal (`normal_inverse_wishart.log_integral_of_missing`). Their mean and covariance matrix enter the
statistics and their entropy the bound, which so stays one. A value that stands for a cell is spread evenly over it.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.gibbs.joint_statistics import joint_scales
from pymc_spn.leaves.normal_inverse_wishart import (
    add_covariance_of_missing,
    add_row,
    column_of_triangle,
    expected_constant,
    factorise,
    form_of_observed,
    inverse_at,
    log_integral_of_missing,
    observed_first,
    scatter,
    solve,
    triangle_size,
)
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import bare_called_kernel, inner_kernel, kernel


@array_group
class ExpectedJoints(NamedTuple):
    """Leaves over several columns of an active tree, and their posteriors: J leaves, K columns of their regions."""

    of_edge: np.ndarray  # (E,) leaf of an edge, else -1
    region: np.ndarray  # (J,)
    column_ptr: np.ndarray  # (R+1,)
    columns: np.ndarray  # (K,)
    place: np.ndarray  # (K,) one place of each column
    centre: np.ndarray  # (K,)
    cell_variance: np.ndarray  # (K,)
    psi0: np.ndarray  # (K,)
    sums_ptr: np.ndarray  # (J+1,)
    products_ptr: np.ndarray  # (J+1,)
    n_rows: np.ndarray  # (J,)
    sums: np.ndarray
    products: np.ndarray
    factor: np.ndarray  # of Psi, like products
    half_log: np.ndarray  # (J,) half the log determinant of Psi
    constant: np.ndarray  # (J,) `expected_constant`
    loss: np.ndarray  # like sums: what a value loses that is spread over its cell


class RowScratch(NamedTuple):
    """What is worked out for one row and leaf."""

    x: np.ndarray  # (d,)
    z: np.ndarray  # (d,)
    floor: np.ndarray  # (d,)
    order: np.ndarray  # (d,)
    triangle: np.ndarray  # (d (d + 1) / 2,)


def expected_joints(tree, statistics, compiled, covariance_scale):
    """The leaves' posteriors given expected statistics; None where no region may have such leaves."""
    if tree.columns.size == 0:
        return None
    edges = np.flatnonzero(tree.joint >= 0)
    place = np.searchsorted(tree.column_of_place, tree.columns)
    joints = ExpectedJoints(
        of_edge=tree.joint,
        region=tree.region_of_edge[edges].astype(np.int64),
        column_ptr=tree.column_ptr,
        columns=tree.columns,
        place=place,
        centre=compiled.joint_constants[tree.columns, 0],
        cell_variance=tree.cell_variance[place],
        psi0=joint_scales(compiled.joint_constants, covariance_scale)[tree.columns],
        sums_ptr=tree.sums_ptr,
        products_ptr=tree.products_ptr,
        n_rows=statistics.edge_count[edges],
        sums=statistics.sums,
        products=statistics.products,
        factor=np.empty(statistics.products.size),
        half_log=np.empty(edges.size),
        constant=np.empty(edges.size),
        loss=np.empty(statistics.sums.size),
    )
    expect_joints(joints)
    return joints


@inner_kernel
def row_scratch(joints):
    """Room for a row in the widest leaf."""
    d = 0
    for r in range(joints.column_ptr.size - 1):
        d = max(d, joints.column_ptr[r + 1] - joints.column_ptr[r])
    return RowScratch(np.empty(d), np.empty(d), np.empty(d), np.empty(d, np.int64), np.empty(triangle_size(d)))


@kernel
def expect_joints(joints):
    """Factors of all leaves, and what the expected log density of a row has before its square."""
    scratch = row_scratch(joints)
    for i in range(joints.region.size):
        first = joints.column_ptr[joints.region[i]]
        d = joints.column_ptr[joints.region[i] + 1] - first
        k = PRECISION_RATIO + joints.n_rows[i]
        v = d + EXCESS + joints.n_rows[i]
        factor = joints.factor[joints.products_ptr[i] : joints.products_ptr[i + 1]]
        psi0 = joints.psi0[first : first + d]
        sums = joints.sums[joints.sums_ptr[i] : joints.sums_ptr[i + 1]]
        scatter(d, k, sums, joints.products[joints.products_ptr[i] : joints.products_ptr[i + 1]], psi0, factor)
        joints.half_log[i] = factorise(d, d, factor, psi0)
        joints.constant[i] = expected_constant(d, k, v, joints.half_log[i])
        loss = joints.loss[joints.sums_ptr[i] : joints.sums_ptr[i + 1]]
        for j in range(d):
            loss[j] = 0.5 * v * joints.cell_variance[first + j] * inverse_at(d, j, factor, scratch.z)


@bare_called_kernel
def value_in_joint(joints, i, row, scratch):
    """Expected log density of a row in a leaf, the missing cells integrated out as `log_integral_of_missing` says."""
    first = joints.column_ptr[joints.region[i]]
    d = joints.column_ptr[joints.region[i] + 1] - first
    for j in range(d):
        scratch.x[j] = row[joints.place[first + j]] - joints.centre[first + j]
    n_seen = observed_first(d, scratch.x, scratch.order)
    k = PRECISION_RATIO + joints.n_rows[i]
    v = d + EXCESS + joints.n_rows[i]
    value = joints.constant[i]
    for j in range(n_seen):
        value -= joints.loss[joints.sums_ptr[i] + scratch.order[j]]
    if n_seen == d:
        share = 1.0 / k
        sums = joints.sums[joints.sums_ptr[i] : joints.sums_ptr[i + 1]]
        for j in range(d):
            scratch.z[j] = scratch.x[j] - sums[j] * share
        factor = joints.factor[joints.products_ptr[i] : joints.products_ptr[i + 1]]
        return value - 0.5 * v * solve(d, d, factor, scratch.z)
    square, half_log = predict_missing(joints, i, d, n_seen, k, scratch)
    return value - 0.5 * v * square + log_integral_of_missing(d - n_seen, v, half_log)


@bare_called_kernel
def predict_missing(joints, i, d, n_seen, k, scratch):
    """Fill in what the observed columns of a row predict; their square, and half the log determinant of the rest.

    Leaves the Schur complement of the missing columns in ``scratch.triangle``.
    """
    first = joints.column_ptr[joints.region[i]]
    sums = joints.sums[joints.sums_ptr[i] : joints.sums_ptr[i + 1]]
    products = joints.products[joints.products_ptr[i] : joints.products_ptr[i + 1]]
    psi0 = joints.psi0[first : first + d]
    triangle = scratch.triangle[: triangle_size(d)]
    square, half_log = form_of_observed(
        d, n_seen, scratch.order, k, sums, products, psi0, scratch.x, triangle, scratch.floor, scratch.z
    )
    for j in range(n_seen, d):
        c = scratch.order[j]
        scratch.x[c] = sums[c] / k - scratch.z[j]
    return square, joints.half_log[i] - half_log


@bare_called_kernel
def add_to_joint(joints, i, row, flow, scratch, sums, products):
    """Add a row with a weight to the statistics of a leaf; returns the entropy of its missing cells."""
    first = joints.column_ptr[joints.region[i]]
    d = joints.column_ptr[joints.region[i] + 1] - first
    for j in range(d):
        scratch.x[j] = row[joints.place[first + j]] - joints.centre[first + j]
    n_seen = observed_first(d, scratch.x, scratch.order)
    own = products[joints.products_ptr[i] : joints.products_ptr[i + 1]]
    entropy = 0.0
    if n_seen < d:
        v = d + EXCESS + joints.n_rows[i]
        half_log = predict_missing(joints, i, d, n_seen, PRECISION_RATIO + joints.n_rows[i], scratch)[1]
        entropy = log_integral_of_missing(d - n_seen, v, half_log) + 0.5 * (d - n_seen)
        add_covariance_of_missing(d, n_seen, scratch.order, flow / v, scratch.triangle[: triangle_size(d)], own)
    add_row(d, scratch.x, flow, sums[joints.sums_ptr[i] : joints.sums_ptr[i + 1]], own)
    for j in range(n_seen):
        c = scratch.order[j]
        own[column_of_triangle(d, c)] += flow * joints.cell_variance[first + c]
    return entropy


@bare_called_kernel
def pool_of_joint(joints, i, j, out, is_held, pool_count, pool_s1, pool_s2):
    """Statistics of column j of a leaf as those of a Gaussian leaf of the column, if the summary has one."""
    at = joints.column_ptr[joints.region[i]] + j
    d = joints.column_ptr[joints.region[i] + 1] - joints.column_ptr[joints.region[i]]
    if is_held:
        n = joints.n_rows[i]
        centre = joints.centre[at]
        total = joints.sums[joints.sums_ptr[i] + j]
        pool_count[out] += n
        pool_s1[out] += total + n * centre
        pool_s2[out] += joints.products[joints.products_ptr[i] + column_of_triangle(d, j)]
        pool_s2[out] += centre * (2.0 * total + n * centre)
