"""Values of the leaves of a column for each value that some rows have there: tables, worked out once for all rows."""

import math

from pymc_spn.gibbs.cell_masses import log_cell, log_whole_number
from pymc_spn.gibbs.leaf_kernels import log_predictive
from pymc_spn.gibbs.network import CELLS, EMPTY_LEAF
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.kernel_options import bare_called_kernel

POINTS, INTERVALS = range(2)  # what the values of a table are
LOG2_E = 1.0 / math.log(2.0)


@bare_called_kernel
def leaf_end(pack, s, c):
    """Behind the last leaf of a column in a draw."""
    last = pack.palette.place_ptr[c + 1] - 1
    return pack.leaf_first[s, last] + pack.top[s, pack.tree.leaf_region[last]]


@bare_called_kernel
def fill_table(pack, s, rows, c, base, width, table, shift):
    """Value of each leaf of a column for each value of its table, divided by the largest of these."""
    fill_log_table(pack, s, rows, c, base, width, table)
    shift[:] = EMPTY_LEAF
    for i in range(table.size // width):
        for v in range(width):
            shift[v] = max(shift[v], table[i * width + v])
    for i in range(table.size // width):
        for v in range(width):
            table[i * width + v] = math.exp(table[i * width + v] - shift[v])
    for v in range(width):
        shift[v] *= LOG2_E


@bare_called_kernel
def fill_log_table(pack, s, rows, c, base, width, table):
    """Log value of each leaf of a column for each value of its table, for the event and for nothing known."""
    n_values = width - 2
    first = rows.value_ptr[c]
    is_event = rows.event_ptr[c + 1] > rows.event_ptr[c]
    event = rows.event_ptr[c] + base - pack.leaf_first[0, pack.palette.place_ptr[c]]
    for d in range(pack.palette.place_ptr[c], pack.palette.place_ptr[c + 1]):
        begin = pack.leaf_first[s, d]
        top = pack.top[s, pack.tree.leaf_region[d]]
        for i in range(begin, begin + top):
            at = (i - base) * width
            for v in range(n_values):
                low = rows.low[first + v]
                if pack.palette.family[pack.leaves.entry[i]] == CATEGORICAL:
                    log = math.log(pack.level_mass[pack.level_first[s, d] + int(low) * top + i - begin])
                elif pack.leaves.log_scale[i] == EMPTY_LEAF:
                    log = EMPTY_LEAF
                elif pack.palette.column_kind[d] >= CELLS:
                    log = log_whole_number(pack.palette, pack.leaves, d, i, 0.5 * (low + rows.high[first + v]))
                elif rows.kind[c] == INTERVALS:
                    log = log_cell(pack.palette, pack.leaves, d, i, low, rows.high[first + v])
                else:
                    log = log_predictive(pack.palette, pack.leaves, d, i, low)
                table[at + v] = log
            table[at + n_values] = rows.event_log[event + i - base] if is_event else EMPTY_LEAF
            table[at + n_values + 1] = 0.0
