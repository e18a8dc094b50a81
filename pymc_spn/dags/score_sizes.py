"""How many variables and parent sets can be scored: checked before any work."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.dags.constraints import Constraints
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import Table

MOST_SCORED = 1_000  # variables that can be scored


def n_columns(data: Any) -> int:
    """Columns of data that have not been read; 0 where only reading tells."""
    if isinstance(data, Mapping):
        return len(data)
    shape = data.values.shape if isinstance(data, Table) else getattr(data, "shape", ())
    return int(shape[1]) if len(shape) == 2 and isinstance(shape[1], int | np.integer) else 0


def refuse_many(n_variables: int) -> None:
    """Refuse more variables than can be scored.

    Raises
    ------
    ValueError
        If there are more than `MOST_SCORED`.
    """
    if n_variables > MOST_SCORED:
        raise ValueError(f"at most {MOST_SCORED:,} variables are possible, got {n_variables:,}; choose some columns")


def check_names(names: Sequence[str]) -> None:
    """Refuse no variables, or too many."""
    if not names:
        raise ValueError("there must be at least one variable")
    refuse_many(len(names))


def check_table(table: Table) -> None:
    """Refuse missing and infinite cells; warn of few rows."""
    names = table.names
    check_names(names)
    bad = np.argwhere(np.isnan(table.values))
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"data: {len(bad)} cells are missing, the first in column {names[column]!r}, row {table.index[row]!r}; "
            "complete the table first, for instance with post.impute(df) of a ps.SPN posterior. To average over "
            "several completed tables use ps.dags.ImputedDagPosterior.from_data(df, post.impute(df, n=20))"
        )
    if not np.isfinite(table.values).all():
        row, column = np.argwhere(~np.isfinite(table.values))[0]
        raise ValueError(f"data: column {names[column]!r}, row {table.index[row]!r} must be finite")
    if len(table.index) < len(names):
        warnings.warn(
            f"data: there are fewer rows ({len(table.index)}) than variables ({len(names)}), so answers depend on the "
            "prior",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )


def refuse_table(constraints: Constraints, limits: Sequence[int], max_gigabytes: float) -> None:
    """Refuse a table of all parent sets that needs more memory than it may take.

    Raises
    ------
    ValueError
        It says how much.
    """
    sizes = zip(constraints.allowed, limits, strict=True)
    entries = sum(1 << min(mask.bit_count(), most) for mask, most in sizes)
    advice = "fewer candidates or required parents, tiers or forbidden edges make it smaller"
    refuse_memory(f"up to {max(limits)} candidate parents: the score table", 8 * entries, advice, max_gigabytes)
