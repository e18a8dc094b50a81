"""A recorded draw as a circuit for the passes: what its network has occupied, and what it has not as one more child.

Given a draw, the predictive is a circuit with weights (count + share) / (count + mass) and the leaves' predictives. All
unoccupied sum nodes of a region are alike, so that one node stands for them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT, SUM, Layout
from pymc_spn.gibbs.cell_masses import log_of_value
from pymc_spn.gibbs.network import LOGS, VECTOR
from pymc_spn.leaves.families import families_with
from pymc_spn.leaves.kernel_forms import LEVEL, LINEAR, LOGARITHM, NOT_NEGATIVE, POWER, REAL, STUDENT, TABLE
from pymc_spn.networks.records.predictive_kernels import ROUNDING
from pymc_spn.numerics.kernel_options import bare_kernel
from pymc_spn.numerics.read_only_views import read_only_view

N_READINGS = LEVEL + 1
OF_LOGS = sorted(families_with(LOGARITHM))


class DrawCircuit(NamedTuple):
    """Circuit of one draw of a network with R regions and D columns.

    Leaves stand column by column, within a column as `ColumnLeaves` has them. Behind them stand the parts of leaves
    over several columns, region by region, as `JointPredictives` has them; see `circuits.evaluation.wide_leaves`.

    Parameters
    ----------
    layout : Layout
        Leaves read the table of `KnownRows`, parts have shares of the log of their leaf, which stands behind it.
    log_weights, weight : (n_sum_edges,) float64
    coefficients : (5, L) float64
        Of densities; where no point is known, log 1.
    first_leaf : (D + 1,) int64
        First leaf of each column, and of the parts.
    slot : (L - K,) int64
        Leaf slot of each leaf in the network, of parts none.
    part_node : (K,) int64
        Node of the leaf of each part.
    part_column : (K,) int64
    region : (V - L,) int64
        Of each node that is no leaf.
    children : list of (n + 1,) int64
        Of each region over several columns, the node of each child slot, -1 where not in use, and of the unoccupied.
        Of other regions nothing.
    """

    layout: Layout
    log_weights: np.ndarray
    weight: np.ndarray
    coefficients: np.ndarray
    first_leaf: np.ndarray
    slot: np.ndarray
    part_node: np.ndarray
    part_column: np.ndarray
    region: np.ndarray
    children: list[np.ndarray]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        own = (*self.layout, *(array for array in self[1:9]), *self.children)
        return sum(array.nbytes for array in own)

    def leaves_of(self, d: int) -> np.ndarray:
        """Numbers of the leaves of a column, and of its parts of leaves over several."""
        own = np.arange(self.first_leaf[d], self.first_leaf[d + 1])
        return np.concatenate([own, self.first_leaf[-1] + np.flatnonzero(self.part_column == d)])


class KnownRows(NamedTuple):
    """What is known of M rows, as circuits of draws read it.

    Parameters
    ----------
    table : (M, 2 D) float64
        Coded values; of columns by table which of their values it is. Behind them x / scale, which all but Gaussian
        leaves see. NaN where there is no point.
    seen : (D,) bool
        Columns with a point in some row.
    by_table : (D,) bool
        Columns whose leaves are evaluated once for each different value.
    is_cell : (D,) bool
        Whether these values are intervals.
    value_ptr : (D + 1,) int64
    low, high : (V,) float64
        The values in coded units; points have them alike.
    """

    table: np.ndarray
    seen: np.ndarray
    by_table: np.ndarray
    is_cell: np.ndarray
    value_ptr: np.ndarray
    low: np.ndarray
    high: np.ndarray


def known_rows(palette: Any, coded: np.ndarray, cells: Any, part: slice) -> KnownRows:
    """Some of the coded rows (M, D), of which rounded columns may be ``cells`` (`RoundedCells`)."""
    coded = coded[part]
    n_rows, n_columns = coded.shape
    table = np.full((n_rows, 2 * n_columns), np.nan)
    by_table, is_cell = np.zeros((2, n_columns), np.bool_)
    low: list[np.ndarray] = [np.zeros(0)] * n_columns
    high = list(low)
    for c in range(n_columns):
        place, x = int(palette.place_ptr[c]), coded[:, c]
        k = np.flatnonzero(cells.columns == c) if cells is not None else np.zeros(0)
        is_cell[c] = k.size > 0
        if not is_cell[c] and palette.column_kind[place] in (VECTOR, LOGS):
            offset = palette.offset[place]
            scaled = x + offset
            is_zero = (scaled < 0.0) & (scaled >= -ROUNDING * (1.0 + abs(offset)))
            table[:, c], table[:, n_columns + c] = x, np.where(is_zero, 0.0, scaled)
            continue
        by_table[c] = True
        pairs = cells.low[part, k[0]] + 1j * cells.high[part, k[0]] if is_cell[c] else x + 1j * x
        known = ~np.isnan(pairs)
        found, table[known, c] = np.unique(pairs[known], return_inverse=True)
        low[c], high[c] = found.real, found.imag
    value_ptr = np.concatenate([[0], np.cumsum([v.size for v in low])]).astype(np.int64)
    seen = ~np.isnan(table[:, :n_columns]).all(axis=0)
    return KnownRows(table, seen, by_table, is_cell, value_ptr, np.concatenate(low), np.concatenate(high))


def leaf_arrays(
    net: Any, circuit: DrawCircuit, known: KnownRows, events: Mapping[int, np.ndarray]
) -> tuple[Layout, np.ndarray, np.ndarray]:
    """Layout, coefficients and table of the leaves for some rows.

    ``events`` has the log probabilities of a column's event in its leaves, or whatever else its leaves are worth where
    no point is known.
    """
    layout, first, table = circuit.layout, circuit.first_leaf, np.zeros(0)
    coefficients = circuit.coefficients.copy()
    seen = known.seen.copy()
    for c, logs in events.items():
        coefficients[4, first[c] : first[c + 1]] = logs
        seen[c] = True
    if circuit.part_node.size:  # parts in columns of which nothing is known need no pass
        coefficients[1, first[-1] :] = shares_of_parts(circuit.part_node, seen[circuit.part_column])
    if known.low.size:
        column, n_values = layout.leaf_column, np.diff(known.value_ptr)
        leaves = np.flatnonzero(known.by_table[column[: circuit.slot.size]])
        column = column[leaves]
        sizes = (first[1:] - first[:-1]) * n_values
        form, inputs = layout.leaf_form.copy(), layout.leaf_input.copy()
        form[leaves] = TABLE
        inputs[leaves] = np.searchsorted(layout.input_column * N_READINGS + layout.input_reading, column * N_READINGS)
        coefficients[0, leaves] = n_values[column]
        coefficients[1, leaves] = (np.cumsum(sizes) - sizes)[column] + (leaves - first[column]) * n_values[column]
        table = np.empty(sizes.sum())
        of_rows = known.by_table, known.is_cell, known.value_ptr, known.low, known.high
        fill_table(net.tree, net.palette, net.edges, net.leaves, *of_rows, table)
        layout = layout._replace(leaf_form=read_only_view(form), leaf_input=read_only_view(inputs))
    return layout, read_only_view(coefficients), read_only_view(table)


@bare_kernel
def fill_table(tree, palette, edges, leaves, by_table, is_cell, value_ptr, low, high, table):
    """Log value of each leaf of some columns for each of their values."""
    at = 0
    for c in range(by_table.size):
        if not by_table[c]:
            continue
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                for v in range(value_ptr[c], value_ptr[c + 1]):
                    table[at] = log_of_value(palette, leaves, d, i, is_cell[c], low[v], high[v])
                    at += 1


def circuit_of(net: Any, joints: Sequence[tuple[int, np.ndarray, np.ndarray]] = ()) -> DrawCircuit:
    """Circuit of a network; of regions that have leaves over several columns also these, and the slots of the leaves.

    Nodes are numbered by regions from the root down: sum nodes, that of the unoccupied, products. Leaves are last.
    """
    tree, palette, masses, edges, nodes = net.tree, net.palette, net.masses, net.edges, net.nodes
    n_regions, n_columns = tree.parent.size, palette.place_ptr.size - 1
    top_of_place, n_entries = edges.top[tree.leaf_region], np.diff(palette.entry_ptr)
    first_leaf = np.cumsum(top_of_place) - top_of_place  # of each place
    # all child slots, and which of them are products
    region, local = ragged(edges.top)
    slot, is_leaf = edges.begin[region] + local, tree.column[region] >= 0
    weight, is_prior = edges.weight[slot], local < tree.n_prior[region]
    used = (weight > 0.0) | is_prior
    product = np.flatnonzero(used & ~is_leaf)
    n_products = np.bincount(region[product], minlength=n_regions)
    first_product = np.cumsum(n_products) - n_products
    # sum nodes: below each product that leads to a region
    below = np.where(tree.parent >= 0, n_products[tree.parent], 0)
    sum_region, rank = ragged(below)
    above = product[first_product[tree.parent[sum_region]] + rank]
    leads = (tree.n_splits[region[above]] == 1) | (edges.split[slot[above]] == tree.split[sum_region])
    sum_region, above = np.append(0, sum_region[leads]), above[leads]
    sum_local = np.append(0, local[above])
    n_sums = np.bincount(sum_region, minlength=n_regions)
    # numbers of the nodes
    size = n_sums + 1 + n_products
    start = np.cumsum(size) - size
    sums = start[sum_region] + np.arange(sum_region.size) - (np.cumsum(n_sums) - n_sums)[sum_region]
    empty, n_nodes = start + n_sums, int(size.sum())
    child = np.full(region.size, -1)
    child[is_leaf] = n_nodes + first_leaf[tree.column[region[is_leaf]]] + local[is_leaf]
    child[product] = empty[region[product]] + 1 + np.arange(product.size) - first_product[region[product]]
    sum_place = nodes.begin[sum_region] + sum_local
    sum_at, total = np.zeros(nodes.n_data.size, np.int64), np.ones(nodes.n_data.size)
    sum_at[sum_place], total[sum_place] = sums, nodes.n_data[sum_place] + masses.total[sum_region]
    # edges: occupied children, what is left to others, the unoccupied, products
    held = np.flatnonzero((weight > 0.0) & ~is_prior)
    node = nodes.begin[region[held]] + edges.node[slot[held]]
    found = [(sum_at[node], child[held], weight[held] / total[node])]
    several = np.flatnonzero(tree.column[sum_region] < 0)
    r, place = sum_region[several], sum_place[several]
    free = np.where(tree.width[r] == 0, masses.total[r], masses.share[r] * (tree.width[r] - nodes.n_edges[place]))
    found.append((sums[several], empty[r], free / total[place]))
    one = np.flatnonzero(tree.column[sum_region] >= 0)
    which, i = ragged(n_entries[tree.column[sum_region[one]]])
    one, d = one[which], tree.column[sum_region[one[which]]]
    e = palette.entry_ptr[d] + i
    taken = nodes.occupied[nodes.occupied_begin[d] + sum_local[one] * n_entries[d] + i]
    free = np.where(palette.copies[e] == 0, masses.entry[e], masses.entry_share[e] * (palette.copies[e] - taken))
    found.append((sums[one], n_nodes + first_leaf[d] + i, free / total[sum_place[one]]))
    d, i = ragged(n_entries)
    r, e = tree.leaf_region[d], palette.entry_ptr[d] + i
    found.append((empty[r], n_nodes + first_leaf[d] + i, masses.entry[e] / masses.total[r]))
    r = np.flatnonzero((tree.parent >= 0) & (tree.n_prior[tree.parent] == 0) & (tree.split == 0))  # it stands for all
    found.append((empty[tree.parent[r]], empty[r], np.ones(r.size)))
    prior = product[is_prior[product]]
    found.append((empty[region[prior]], child[prior], 1.0 / tree.n_prior[region[prior]]))
    found.append((child[above], sums[1:], np.ones(above.size)))
    children, part_node, part_column = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for q, own in enumerate(np.split(child, np.cumsum(edges.top)[:-1])):
        children.append(np.append(own, empty[q]) if tree.column[q] < 0 else own[:0])
    for q, columns, slots in joints:
        part_node.append(np.repeat(children[q][slots], columns.size))
        part_column.append(np.tile(columns, slots.size))
    part_of, column_of = np.concatenate(part_node), np.concatenate(part_column)
    n_leaves = int(top_of_place.sum())
    found.append((part_of, n_nodes + n_leaves + np.arange(part_of.size), np.ones(part_of.size)))
    parents, ends, weights = (np.concatenate(own) for own in zip(*found, strict=True))
    kept = np.flatnonzero(weights > 0.0)
    kept = kept[np.argsort(parents[kept], kind="stable")]
    kind = np.full(n_nodes + n_leaves + part_of.size, SUM)
    kind[child[product]], kind[n_nodes:] = PRODUCT, LEAF
    kind[empty[(tree.column < 0) & (tree.n_prior == 0)]] = PRODUCT
    weighted = kind[parents[kept]] == SUM
    of_sums = weights[kept][weighted]
    own_slot = np.concatenate([edges.begin[r] + np.arange(edges.top[r]) for r in tree.leaf_region])
    column, form, inputs, reading, coefficients = leaf_forms(net, own_slot, part_of, column_of)
    # every column may be read by table, as it stands
    pairs = np.unique(np.concatenate([np.arange(n_columns) * N_READINGS, inputs * N_READINGS + reading]))
    zero = np.zeros(column.size, np.int64)
    layout = Layout(
        kind=kind,
        child_ptr=np.searchsorted(parents[kept], np.arange(kind.size + 1)),
        children=ends[kept],
        edge_weight=np.where(weighted, np.cumsum(weighted) - 1, -1),
        leaf_of_node=np.concatenate([np.full(n_nodes, -1), np.arange(column.size)]),
        node_of_leaf=n_nodes + np.arange(column.size),
        leaf_column=column,
        leaf_family=zero,
        leaf_row=zero,
        leaf_code=zero,
        leaf_form=form,
        leaf_input=np.searchsorted(pairs, inputs * N_READINGS + reading),
        input_column=pairs // N_READINGS,
        input_reading=pairs % N_READINGS,
        by_column=np.argsort(column, kind="stable"),
        column_ptr=np.searchsorted(np.sort(column), np.arange(n_columns + 1)),
    )
    return DrawCircuit(
        Layout(*map(read_only_view, layout)),
        read_only_view(np.log(of_sums)),
        read_only_view(of_sums),
        read_only_view(coefficients),
        np.append(first_leaf[palette.place_ptr[:-1]], n_leaves),
        own_slot,
        part_of,
        column_of,
        np.repeat(np.arange(n_regions), size),
        children,
    )


def shares_of_parts(part_node: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Equal shares of those parts of each leaf that are seen, 0 of others."""
    n_seen = np.bincount(part_node, seen)[part_node]
    return np.where(seen, 1.0 / np.maximum(n_seen, 1.0), 0.0)


def ragged(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of lists of these sizes, one after the other, the list of each member and its place there."""
    of_list = np.repeat(np.arange(sizes.size), sizes)
    return of_list, np.arange(of_list.size) - (np.cumsum(sizes) - sizes)[of_list]


def leaf_forms(net: Any, slot: np.ndarray, part_node: np.ndarray, part_column: np.ndarray) -> tuple[np.ndarray, ...]:
    """Column, form, input and its reading (L,) of leaves in slots and of parts; those of a leaf read the same.

    Coefficients (5, L) are those of the passes.
    """
    palette, leaves, n_columns, n_parts = net.palette, net.leaves, net.palette.place_ptr.size - 1, part_node.size
    leaf_of_part = np.cumsum(np.diff(part_node, prepend=part_node[:1]) != 0)
    column = np.repeat(palette.source, net.edges.top[net.tree.leaf_region])
    has_slope, is_log = leaves.slope[slot] != 0.0, np.isin(palette.family[leaves.entry[slot]], OF_LOGS)
    reading = np.where(has_slope, NOT_NEGATIVE, np.where(is_log, LOGARITHM, REAL))
    b = np.where(has_slope, leaves.slope[slot], np.sqrt(np.maximum(leaves.curvature[slot], 0.0)))
    own = np.stack([leaves.log_scale[slot], leaves.centre[slot], b, leaves.power[slot], np.zeros(slot.size)])
    of_parts = np.zeros((5, n_parts))
    of_parts[1] = shares_of_parts(part_node, np.ones(n_parts, np.bool_))
    return (
        np.concatenate([column, part_column]),
        np.concatenate([np.where(has_slope, POWER, STUDENT), np.full(n_parts, LINEAR)]),
        np.concatenate([np.where(reading == REAL, column, n_columns + column), 2 * n_columns + leaf_of_part]),
        np.concatenate([reading, np.full(n_parts, REAL)]),
        np.concatenate([own, of_parts], axis=1),
    )
