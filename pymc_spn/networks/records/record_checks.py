"""Whether what a tree of data holds of a network can be what `SPN` wrote.

Kernels index arrays by what is read here and do not look again: a level beyond the last one writes outside of them.
Each check is a pass or two of NumPy over the whole array.
"""

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pymc_spn.gibbs.joint_leaves import n_kinds
from pymc_spn.networks.schema import UNUSED, NetworkSchema
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.fingerprints import BY_LISTS, refuse_other_data
from pymc_spn.tables.stored_arrays import refuse

if TYPE_CHECKING:
    import xarray as xr

BLOCK_CELLS = 1_000_000  # digits looked at together, where they are looked at region by region
LATTICE = np.iinfo(np.uint16).max  # largest code of an exact value within its cell


def read_table(idata: "xr.DataTree", schema: NetworkSchema, name: str) -> "xr.DataArray":
    """The observed table (N, D) of a network, with all its rows; its values are not looked at."""
    data = idata.children.get("observed_data")
    if data is None or name not in data.data_vars:
        refuse("the tree", f"hold the network's table, variable {name!r} of observed_data", "none")
    table, place = data.dataset[name], f"variable {name!r} of observed_data"
    dims = (f"{name}_row", f"{name}_column")
    table = ordered(place, table, dims)
    names = [c.name for c in schema.columns]
    if table.sizes[dims[1]] != len(names):
        refuse(place, f"have {len(names)} columns, those of {name}_schema", table.sizes[dims[1]])
    found = table[dims[1]].values.tolist() if dims[1] in table.coords else names
    if found != names:
        refuse(place, f"have the columns {quoted(names)} in this order", found)
    if schema.n_rows not in (None, len(table)):
        # chunks of a record are cut by the number of rows, and those of a part could be read as others
        refuse(place, f"have the {schema.n_rows} rows of the network, which no part of them can stand for", len(table))
    refuse_other_data(place, schema.data, names, table.values)
    return table


def ordered(place: str, values: "xr.DataArray", dims: tuple[str, ...]) -> "xr.DataArray":
    """Values with their dimensions in this order."""
    if set(values.dims) != set(dims):
        refuse(place, f"have the dimensions {list(dims)}", list(values.dims))
    return values.transpose(*dims)


def read_chunks(stats: "xr.Dataset", variable: str, n_cells: int, n_chunks: int | None = None) -> np.ndarray:
    """Chunks (chain, draw, length) of states of `n_cells` numbers, which are cut into as many as possible or given."""
    place = f"variable {variable!r} of sample_stats"
    if variable not in stats.data_vars:
        refuse(place, "be there", "none")
    found = stats[variable]
    if found.ndim != 3 or not {"chain", "draw"} <= set(found.dims):
        rule = "have the dimensions 'chain', 'draw' and one of its own"
        raise ValueError(f"{place} must {rule}, got {list(found.dims)}; {BY_LISTS}")
    found = found.transpose("chain", "draw", ...)
    length = found.shape[2]
    k = -(-n_cells // max(length, 1)) if n_chunks is None else n_chunks
    # chunks are as short as they can be: of another number of rows the same length is rarely right
    if length == 0 or length != -(-n_cells // max(k, 1)):
        refuse(place, f"hold states of {n_cells} numbers, by the rows of observed_data", f"chunks of {length}")
    _check_chunks_are_of_one_state(place, found, k)
    return found.values


def _check_chunks_are_of_one_state(place: str, found: "xr.DataArray", k: int) -> None:
    """Refuse draws if some were taken away and each holds a part of a state."""
    if k == 1 or "draw" not in found.coords:
        return
    draws = found["draw"].values[: found.shape[1] // k * k].reshape(-1, k)
    apart = (draws[:, 0] % k != 0) | (draws != draws[:, :1] + np.arange(k)).any(axis=1)
    if apart.any():
        ways = (
            f"select the draws from a multiple of {k} on, all of them, as in idata.sel(draw=slice({k}, None)), or "
            f"records, as in ps.unpack(idata).isel(record=slice(None, None, 10)), or sample with record_every=1"
        )
        raise ValueError(
            f"{place} must hold whole states, each cut into the chunks of {k} draws that follow each other "
            f"(record_every), got a state in the draws {draws[np.argmax(apart)].tolist()}; {ways}"
        )


def check_table(schema: NetworkSchema, place: str, table: np.ndarray, rows: np.ndarray) -> None:
    """Refuse cells (N, D) that are neither missing nor values of their columns."""
    for d, column in enumerate(schema.columns):
        bad = ~(np.isnan(table[:, d]) | schema.possible(d, table[:, d]))
        if bad.any():
            n = int(np.argmax(bad))
            where = f"{table[n, d]} in row {rows[n : n + 1].tolist()[0]!r} (position {n})"
            refuse(f"{place}: column {column.name!r} ({column.kind})", f"be NaN or {schema.cell_rule(d)}", where)


def check_drawn_cells(schema: NetworkSchema, place: str, table: np.ndarray, cells: np.ndarray, labels: Any) -> None:
    """Refuse drawn values (chain, record, m) of the missing cells of a table that are none of their columns."""
    columns = np.nonzero(np.isnan(table))[1]
    if cells.shape[2:] != columns.shape:
        refuse(place, f"hold {columns.size} numbers a draw, the missing cells of observed_data", cells.shape[2:])
    for d in np.unique(columns):
        mine = np.flatnonzero(columns == d)
        bad = ~schema.possible(d, cells[:, :, mine])
        if bad.any():
            c, s, i = np.argwhere(bad)[0]
            column, found = schema.columns[d], cells[c, s, mine[i]]
            where = f"{found} in cell {mine[i]} at {_draw(labels, c, s)}"
            refuse(f"{place}: column {column.name!r} ({column.kind})", f"be {schema.cell_rule(d)}", where)


def check_hyperparameter(schema: NetworkSchema, kind: str, place: str, values: np.ndarray, labels: Any) -> None:
    """Refuse a hyperparameter (chain, record, ...) that is not positive and finite, or has a size of its own."""
    size = 2 if kind == "concentration" else len(schema.columns)
    sizes = {(), (1,), (size,)} | ({(schema.places_of(kind).size,)} if kind in UNUSED else set())
    if values.shape[2:] not in sizes:
        refuse(place, f"hold one {kind} or {size} a draw", f"the shape {values.shape[2:]}")
    bad = ~((values > 0.0) & (values < np.inf))
    if bad.any():
        c, s, *i = np.argwhere(bad)[0]
        where = f"{values[c, s, *i]} at {_draw(labels, c, s)}" + "".join(f", number {k}" for k in i)
        refuse(place, "be positive and finite", where)


def _draw(labels: Any, chain: int, draw: int) -> str:
    return f"chain {labels[0].tolist()[chain]}, draw {labels[1].tolist()[draw]}"


def check_digits(
    schema: NetworkSchema, place: str, digits: np.ndarray, missing: np.ndarray, n_labels: np.ndarray, labels: Any
) -> None:
    """Refuse digits that are no children of their sum nodes, or absent where the row reaches one.

    Parameters
    ----------
    schema : NetworkSchema
    place : str
        Of the digits, for messages.
    digits : (chain, record, N, R)
    missing : (N, D) bool
        Cells that the network sums out.
    n_labels : (R,) int64
        Digits that the sum nodes of a region can have.
    labels : (n_chains,), (n_records,) and (R,)
    """
    structure, kinds = schema.structure, n_kinds(schema.structure, schema.compiled)
    expected = missing.shape[0], structure.n_regions
    if digits.shape[2:] != expected:
        refuse(place, f"hold {expected} numbers a draw, rows of observed_data and regions", digits.shape[2:])
    ends = zip(structure.begin, structure.end, strict=True)
    absent = np.stack([missing[:, structure.order[a:b]].all(axis=1) for a, b in ends], axis=1)
    states = digits.reshape(-1, *expected)
    lowest, highest = states.min(axis=0), states.max(axis=0)
    # below a region with splits, which of its parts a row reaches changes from draw to draw
    varies = np.zeros(structure.n_regions, np.bool_)
    for r in range(1, structure.n_regions):
        varies[r] = varies[structure.parent[r]] or kinds[structure.parent[r]] > 1
    bad = (highest >= n_labels) | (lowest < -1) | np.where(absent, highest >= 0, (lowest < 0) & ~varies)
    if bad.any():
        row, region = np.argwhere(bad)[0].tolist()
        x, is_absent = states[:, row, region], bool(absent[row, region])
        wrong = x != -1 if is_absent else (x >= n_labels[region]) | (x < (-1 if varies[region] else 0))
        _refuse_digit(place, digits, (int(np.argmax(wrong)), row, region), is_absent, n_labels, labels)
    below = np.flatnonzero(varies).tolist()
    block = max(1, BLOCK_CELLS // max(absent.size, 1))
    for first in range(0, len(states) if below else 0, block):
        part = np.ascontiguousarray(np.moveaxis(states[first : first + block], 2, 0))  # (R, draws, N)
        splits: dict[int, np.ndarray] = {}
        for r in below:
            above = int(structure.parent[r])
            if above not in splits:
                splits[above] = _split_of(part[above], int(kinds[above]))
            # the part of another split than that of the row's product is not reached, nor what is below it
            reached = (part[above] >= 0) & (splits[above] == int(structure.split[r])) & ~absent[:, r]
            wrong = (part[r] >= 0) != reached
            if wrong.any():
                s, n = np.argwhere(wrong)[0].tolist()
                _refuse_digit(place, digits, (first + s, n, r), not reached[s, n], n_labels, labels)


def _split_of(digits: np.ndarray, n_splits: int) -> np.ndarray:
    """Split of each product; in the type of the digits, since small types are faster."""
    if n_splits == 1:
        return np.zeros(1, digits.dtype)
    return digits % digits.dtype.type(n_splits) if n_splits <= np.iinfo(digits.dtype).max else digits


def _refuse_digit(
    place: str, digits: np.ndarray, where: tuple[int, int, int], absent: bool, n_labels: np.ndarray, labels: Any
) -> NoReturn:
    s, n, r = where
    found = digits.reshape(-1, *digits.shape[2:])[s, n, r]
    rule = "be -1, since the row does not reach it" if absent else f"be in 0..{n_labels[r] - 1}"
    draw = _draw(labels, s // digits.shape[1], s % digits.shape[1])
    refuse(f"{place}: the digit of region {labels[2][r]!r}", rule, f"{found} at {draw}, row position {n}")
