"""Kernel A: bottom-up blocked Gibbs on the explicit network, the baseline of Vergari et al. and Trapp et al.

One sweep draws all weights and all leaf parameters given the trees (`bottom_up_parameters`), then every row's tree
given these. For a tree it works out the values of all sum nodes from the leaves up, and draws the 2D - 1 digits from
the root down. Nothing is integrated out, so rows are independent given the parameters and are worked out in blocks, one
vector lane per row. Vergari et al. (2019), arXiv:1807.09306; Trapp et al. (2019), arXiv:1905.10884.
"""

import math

import numpy as np

from pymc_spn.gibbs.bottom_up_parameters import (
    LOG2_E,
    install_priors,
    make_parameters,
    redraw_parameters,
)
from pymc_spn.gibbs.bottom_up_values import (
    BLOCK,
    edge_bits,
    evaluate_block,
    evaluate_row_by_logs,
    family_term,
    fast_exp2,
    make_points,
    move_points,
    tabulate_column,
)
from pymc_spn.gibbs.explicit_layout import child_shares, explicit_layout, follow, node_below, reached_digits
from pymc_spn.gibbs.network import spread
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.statistics import entry_priors
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel

# Terms below 2^-1020 count as 2^-1020; a root value above this one has then lost at most 1e-26 of itself.
SAFE = 1e-280


class BottomUpSampler:
    """One chain of bottom-up blocked Gibbs.

    Parameters
    ----------
    structure : RegionTree
        Finite `n_children` in all regions.
    compiled : CompiledPalette
    coded : (N, D) float64
        Table in the units of the palette, NaN where missing.
    moving : sequence of int
        Places of the columns that `set_table` changes.

    Raises
    ------
    ValueError
        If a region has infinitely many children.
    """

    def __init__(self, structure, compiled, coded, moving=()):
        self.compiled = compiled
        self.layout = explicit_layout(structure, compiled, coded, "bottom_up")
        self.placed, self.entry_source = spread(compiled, structure.leaf_column)
        self.parameters = make_parameters(self.layout, self.placed)
        self.moving = np.asarray(moving, np.int64)
        self.points = make_points(self.layout, self.placed, place_columns(structure, coded), self.moving)
        n_nodes = int(self.layout.n_nodes.sum())
        self.value = np.ones((n_nodes, BLOCK))
        self.value_bits = np.zeros((n_nodes, 1))
        self._digits = np.full((len(coded), structure.n_regions), -1, np.int32)

    def set_table(self, placed):
        """Take the values of the columns that move from a coded table (N, P)."""
        move_points(self.points, self.placed, placed, self.moving)

    def set_hyperparameters(self, concentration, leaf_scale, leaf_shape, precision_ratio):
        """Install concentrations (2,) and the leaf hyperparameters (D,) each."""
        self.set_priors(concentration, entry_priors(self.compiled, leaf_scale, leaf_shape, precision_ratio))

    def set_priors(self, concentration, prior):
        """Install concentrations (2,) and the prior parameters (E, 4) of palette entries, in coded units."""
        shares = child_shares(self.layout, self.compiled, concentration)
        install_priors(self.parameters, self.layout, self.placed, shares, np.asarray(prior)[self.entry_source])

    def set_digits(self, digits):
        """Start from digits (N, R); what they hold off the trees is ignored."""
        self._digits[:] = reached_digits(self.layout, digits)

    def digits(self):
        """Digits (N, R) of the current trees, -1 where a region is wholly missing or not reached."""
        return self._digits.copy()

    def sweep(self, rng):
        """Redraw all parameters and all trees.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        float
            Fraction of rows that moved.
        """
        moved = bottom_up_sweep(
            rng,
            self.parameters,
            self.layout,
            self.placed,
            self.points,
            self.value,
            self.value_bits,
            self._digits,
        )
        return moved / max(len(self._digits), 1)


@kernel
def bottom_up_sweep(rng, par, layout, palette, points, value, value_bits, digits):
    """One sweep of blocked Gibbs; returns the number of rows that moved.

    Parameters
    ----------
    rng : numpy.random.Generator
    par : Parameters
    layout : ExplicitLayout
    palette : CompiledPalette
    points : Points
    value : (S, BLOCK) float64
        Scratch space: values of the sum nodes for the rows of a block.
    value_bits : (S, 1) float64
        Scratch space: their logs for one row that underflows.
    digits : (N, R) int32
        State, changed in place.
    """
    redraw_parameters(rng, par, layout, palette, points.y, digits)
    for d in range(points.tabulated.size):
        if points.tabulated[d]:
            tabulate_column(par, layout, palette, points, d)
    moved = 0
    child = np.empty(digits.shape[1], np.int64)
    root = layout.node_begin[0]
    unchecked = np.zeros(1, np.int64)
    for first in range(0, digits.shape[0], BLOCK):
        if must_stop_after(4 * BLOCK * (par.weight.size + digits.shape[1]), unchecked):
            return moved
        evaluate_block(par, layout, palette, points, value, layout.missing, first)
        for n in range(first, min(first + BLOCK, digits.shape[0])):
            if layout.missing[n, 0]:
                continue
            if value[root, n - first] > SAFE:
                moved += draw_tree(rng, par, layout, palette, points, value, n - first, n, child, digits)
            else:
                evaluate_row_by_logs(par, layout, palette, points, value_bits, n)
                moved += draw_tree_by_logs(rng, par, layout, palette, points, value_bits, n, child, digits)
    return moved


@kernel
def draw_tree(rng, par, layout, palette, points, value, j, n, child, digits):
    """Draw the digits of one row from the root down; returns whether any digit changed.

    Parameters
    ----------
    value : (S, BLOCK) float64
        Values of all sum nodes, the row's in column ``j``.
    child : (R,) int64
        Scratch space: the edge taken in each region, numbered within the region.
    """
    changed = False
    for r in range(child.size):
        child[r] = -1
        node = follow(layout, r, child)
        if layout.missing[n, r] or node < 0:
            changed |= digits[n, r] >= 0
            digits[n, r] = -1
            continue
        d = layout.column[r]
        width = layout.width[r]
        edge = layout.edge_begin[r] + node * width
        u = rng.random() * value[layout.node_begin[r] + node, j]
        digit = width - 1  # what rounding leaves of u belongs to the last child
        if d < 0:
            parts = layout.part_ptr[r]
            for c in range(width - 1):
                product = par.weight[edge + c]
                for p in range(parts, layout.part_ptr[r + 1]):
                    q = layout.parts[p]
                    below = node_below(layout, q, node * width + c)
                    if below >= 0:
                        product *= value[layout.node_begin[q] + below, j]
                u -= product
                if u < 0.0:
                    digit = c
                    break
        else:
            y = points.y[d, n]
            for c in range(width - 1):
                i = edge + c
                family = palette.family[par.entry[i]]
                if family == CATEGORICAL:
                    u -= par.level_value[par.cell_begin[d] + (node * width + c) * palette.n_levels[d] + int(y)]
                else:
                    logs = points.logs[d, n]
                    lead, centre, curvature, slope = par.lead[i], par.centre[i], par.curvature[i], par.slope[i]
                    u -= fast_exp2(family_term(family, lead, centre, curvature, slope, y, logs))
                if u < 0.0:
                    digit = c
                    break
        child[r] = node * width + digit
        changed |= digits[n, r] != digit
        digits[n, r] = digit
    return changed


@kernel
def draw_tree_by_logs(rng, par, layout, palette, points, value, n, child, digits):
    """`draw_tree` from logs in bits (S, 1)."""
    changed = False
    for r in range(child.size):
        child[r] = -1
        node = follow(layout, r, child)
        if layout.missing[n, r] or node < 0:
            changed |= digits[n, r] >= 0
            digits[n, r] = -1
            continue
        d = layout.column[r]
        width = layout.width[r]
        total = value[layout.node_begin[r] + node, 0]
        u = rng.random()
        digit = width - 1
        for c in range(width - 1):
            bits = edge_bits(par, layout, palette, points, value, r, d, node * width + c, n)
            u -= math.exp((bits - total) / LOG2_E)
            if u < 0.0:
                digit = c
                break
        child[r] = node * width + digit
        changed |= digits[n, r] != digit
        digits[n, r] = digit
    return changed
