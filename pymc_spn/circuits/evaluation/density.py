"""What is worked out once for the structure of a circuit, and how many rows the passes take at a time."""

from typing import Any, NamedTuple

from pymc_spn.circuits.evaluation.layout import Layout
from pymc_spn.circuits.evaluation.wide_leaves import WideLeaves, layout_of
from pymc_spn.numerics.lanes import LANES

CACHE = 256 * 1024  # bytes of node values of a block: half of a second-level cache
FEWEST, MOST = 32, 128  # rows of a block, where there are as many


class Compiled(NamedTuple):
    """What is worked out once for a structure."""

    layout: Layout
    wide: WideLeaves


def compile_circuit(circuit: Any) -> Compiled:
    """Layout of a circuit, kept with it."""
    if "_compiled" not in circuit.__dict__:
        object.__setattr__(circuit, "_compiled", Compiled(*layout_of(circuit)))
    return circuit.__dict__["_compiled"]


def rows_at_a_time(n_nodes: int, n_rows: int) -> int:
    """A multiple of eight: as many rows as keep the values of all nodes in the cache, no more than there are."""
    size = min(max(CACHE // (8 * n_nodes), FEWEST), MOST, n_rows + LANES - 1)
    return max(size // LANES, 1) * LANES
