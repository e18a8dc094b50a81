"""Kernel A: bottom-up blocked Gibbs on the explicit network, the baseline of Vergari et al. and Trapp et al.

One sweep draws all weights and all leaf parameters given the trees, then every row's tree given these. For a tree it
works out the values of all sum nodes from the leaves up, and draws the 2D - 1 digits from the root down. Nothing is
integrated out, so rows are independent given the parameters, and NumPy works them out in blocks. Vergari et al. (2019),
arXiv:1807.09306; Trapp et al. (2019), arXiv:1905.10884.
"""

import numpy as np

from pymc_spn.gibbs.explicit_layout import (
    child_shares,
    edges_of_digits,
    explicit_layout,
    nodes_below,
    reached_digits,
)
from pymc_spn.gibbs.family_kernels import posteriors
from pymc_spn.gibbs.network import EMPTY_LEAF, spread
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.gibbs.statistics import entry_priors
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.leaves.kernel_forms import LOGARITHM, REAL
from pymc_spn.numerics.gamma_draws import log_dirichlet

BLOCK = 256  # rows at a time


class BottomUpSampler:
    """One chain of bottom-up blocked Gibbs.

    Parameters
    ----------
    structure : RegionTree
        Finite `n_children` in all regions.
    compiled : CompiledPalette
    coded : (N, D) float64
        Table in the units of the palette, NaN where missing.

    Raises
    ------
    ValueError
        If a region has infinitely many children.
    """

    def __init__(self, structure, compiled, coded):
        self.compiled = compiled
        self.layout = explicit_layout(structure, compiled, coded, "bottom_up")
        self.palette, self.entry_source = spread(compiled, structure.leaf_column)
        self.coded = place_columns(structure, coded)
        self._digits = np.full((len(coded), structure.n_regions), -1, np.int32)

    def set_table(self, placed):
        """Take a coded table (N, P) for the present one."""
        self.coded = placed

    def set_hyperparameters(self, concentration, leaf_scale, leaf_shape, precision_ratio):
        """Install concentrations (2,) and the leaf hyperparameters (D,) each."""
        self.set_priors(concentration, entry_priors(self.compiled, leaf_scale, leaf_shape, precision_ratio))

    def set_priors(self, concentration, prior):
        """Install concentrations (2,) and the prior parameters (E, 4) of palette entries, in coded units."""
        self.shares = child_shares(self.layout, self.compiled, concentration)
        self.prior = np.asarray(prior, np.float64)[self.entry_source]

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
        edge = edges_of_digits(self.layout, self._digits)
        log_weights, leaves = self.draw_weights(rng, edge), self.draw_leaves(rng, edge)
        moved = 0
        for first in range(0, len(self._digits), BLOCK):
            rows = slice(first, first + BLOCK)
            digits = draw_trees(rng, self.layout, *self.log_values(log_weights, leaves, rows))
            moved += (digits != self._digits[rows]).any(axis=1).sum()
            self._digits[rows] = digits
        return moved / max(len(self._digits), 1)

    def draw_weights(self, rng, edge):
        """Logs of the weights (nodes, width) of each region given the trees."""
        drawn = []
        for r, share in enumerate(self.shares):
            size = self.layout.n_nodes[r] * share.size
            counts = np.bincount(edge[r][edge[r] >= 0], minlength=size)
            drawn.append(log_dirichlet(rng, counts.reshape(-1, share.size) + share))
        return drawn

    def draw_leaves(self, rng, edge):
        """Parameters of all leaves given the trees: of each place a list of (leaves, family, parameters)."""
        drawn, palette = [], self.palette
        for d, r in enumerate(self.layout.leaf_region):
            n_leaves = self.layout.n_nodes[r] * self.layout.width[r]
            first, last = palette.entry_ptr[d : d + 2]
            entry = first + np.arange(n_leaves) % self.layout.width[r] % (last - first)
            drawn.append([])
            for e in range(first, last):
                own, family = np.flatnonzero(entry == e), palette.family[e]
                rows = np.flatnonzero((edge[r] >= 0) & (entry[edge[r]] == e))
                leaf, y = np.searchsorted(own, edge[r, rows]), self.coded[rows, d]
                part = PREDICTIVES[int(family)]
                if family == CATEGORICAL:
                    alpha = self.prior[e, 0] * palette.constants[e, 4 : 4 + palette.n_levels[d]]
                    learned = np.tile(alpha, (own.size, 1))
                    np.add.at(learned, (leaf, y.astype(np.int64)), 1.0)
                else:
                    reading = part.conjugate.reading
                    x = y if reading == REAL else y + palette.offset[d]
                    x = np.log(x) if reading == LOGARITHM else x
                    cell = palette.cell_variance[d] if reading == REAL else 0.0
                    n, s1, s2 = (np.bincount(leaf, w, own.size) for w in (np.ones(leaf.size), x, x * x + cell))
                    learned = np.empty((own.size, 4))
                    posteriors(np.full(own.size, family), n, s1, s2, np.tile(self.prior[e], (own.size, 1)), learned)
                drawn[d].append((own, family, part.draw_parameters(learned, rng)))
        return drawn

    def leaf_logs(self, leaves, d, rows):
        """Log densities (L, n) of some rows in all leaves of a place, NaN where the cell is missing."""
        y, palette = self.coded[rows, d], self.palette
        out = np.empty((sum(own.size for own, *_ in leaves), y.size))
        for own, family, parameters in leaves:
            if family == CATEGORICAL:
                with np.errstate(divide="ignore"):
                    out[own] = np.log(parameters)[:, np.nan_to_num(y).astype(np.int64)]
                continue
            part = PREDICTIVES[int(family)]
            is_real = part.conjugate.reading == REAL
            log_density = EXPLICIT[part.entry.family].log_density
            out[own] = log_density(parameters[:, None], y if is_real else y + palette.offset[d])
            if is_real and palette.cell_variance[d] > 0.0:  # the mean over the cell of a whole number
                out[own] -= 0.5 * palette.cell_variance[d] / parameters[:, 1:] ** 2
        return np.maximum(out, EMPTY_LEAF)

    def log_values(self, log_weights, leaves, rows):
        """Of each region the logs (nodes, width, n) of weight times child for some rows; which (R, n) are missing."""
        layout = self.layout
        missing = layout.missing[rows].T
        edges, nodes = [None] * len(missing), [None] * len(missing)
        for r in range(len(missing) - 1, -1, -1):
            d = layout.column[r]
            if d >= 0:
                child = self.leaf_logs(leaves[d], d, rows)
            else:
                child = np.zeros((log_weights[r].size, missing.shape[1]))
                for q in layout.parts[layout.part_ptr[r] : layout.part_ptr[r + 1]]:
                    below = nodes_below(layout, q, np.arange(len(child)))
                    child[below >= 0] += nodes[q][below[below >= 0]]
            edges[r] = child.reshape(*log_weights[r].shape, -1) + log_weights[r][:, :, None]
            top = edges[r].max(axis=1)
            nodes[r] = top + np.log(np.exp(edges[r] - top[:, None]).sum(axis=1))
            nodes[r][:, missing[r]] = 0.0
        return edges, missing


def draw_trees(rng, layout, edges, missing):
    """Digits (n, R) of some rows from the root down, from what `BottomUpSampler.log_values` gives."""
    digits, taken = np.full(missing.shape, -1, np.int32), np.full(missing.shape, -1, np.int64)
    for r, logs in enumerate(edges):
        node = nodes_below(layout, r, taken[layout.parent[r]]) if r > 0 else np.zeros(missing.shape[1], np.int64)
        rows = np.flatnonzero(~missing[r] & (node >= 0))
        own = logs[node[rows], :, rows]
        digits[r, rows] = np.argmax(own + rng.gumbel(size=own.shape), axis=1)
        taken[r, rows] = node[rows] * layout.width[r] + digits[r, rows]
    return digits.T
