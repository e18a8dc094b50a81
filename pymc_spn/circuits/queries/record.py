"""The draws of a sum-product network in a DataTree: how digits are cut into chunks, and read again.

A recorded state is an (N, R) array of digits, one for each row and region. PyMC wants a statistic of the
same length at every draw, so the state of every k-th draw is cut into k chunks, and chunk i stands at the
i-th draw after it. The record costs N R / k numbers a draw, and k is recovered from the length of a chunk.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.tables import row_labels

if TYPE_CHECKING:
    import xarray as xr

SCHEMA, DIGITS, EXACT = "_schema", "_digits", "_exact"
SAVED = "spn_posterior"  # attribute that holds the query of a saved posterior object
FORMAT = 1  # of a saved posterior object


def chunk_length(n_cells: int, record_every: int) -> int:
    """Digits in each draw's chunk: `record_every` chunks or fewer hold one state of `n_cells` digits."""
    return -(-n_cells // max(record_every, 1))


def chunks_per_state(n_cells: int, length: int) -> int:
    """Draws from one recorded state to the next; not more than the ``record_every`` that gave the length."""
    return -(-n_cells // length)


def digits_dtype(structure: Any, palette: Any, n_rows: int) -> np.dtype:
    """Smallest signed integer type that holds every digit and -1.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
    n_rows : int
        Sets the largest label of an infinite node.
    """
    n_entries = np.ones(structure.n_regions, np.int64)
    n_entries[structure.leaf_region] = np.diff(palette.entry_ptr)[structure.leaf_column]
    width = np.where(structure.n_children > 0, np.maximum(structure.n_children, n_entries), n_rows * n_entries)
    largest = int(width.max()) - 1
    return next(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max)


def cut_digits(digits: np.ndarray, length: int) -> np.ndarray:
    """Chunks (k, length) of one state (N, R), padded with zeros."""
    flat = np.ravel(digits)
    out = np.zeros(chunks_per_state(flat.size, length) * length, digits.dtype)
    out[: flat.size] = flat
    return out.reshape(-1, length)


def join_digits(chunks: np.ndarray, n_rows: int, n_regions: int, n_chunks: int | None = None) -> np.ndarray:
    """States (chain, record, N, R) from chunks (chain, draw, length); an unfinished last state is dropped.

    ``n_chunks`` of a state follow from their length unless something else was cut into as many.
    """
    n_chains, n_draws, length = chunks.shape
    n_cells = n_rows * n_regions
    k = chunks_per_state(n_cells, length) if n_chunks is None else n_chunks
    n_records = n_draws // k
    joined = chunks[:, : n_records * k].reshape(n_chains, n_records, k * length)
    return joined[..., :n_cells].reshape(n_chains, n_records, n_rows, n_regions)


def region_labels(structure: Any) -> list[str]:
    """Readable and distinct names of the regions: the column, or the first and last of several."""
    names = structure.names
    labels = []
    for r in range(structure.n_regions):
        held = [names[d] for d in structure.order[structure.begin[r] : structure.end[r]]]
        labels.append(held[0] if len(held) == 1 else f"{held[0]}..{held[-1]}")
    return labels


def network_names(idata: "xr.DataTree") -> list[str]:
    """Names of the sum-product networks whose draws a tree holds."""
    constants = idata.children.get("constant_data")
    if constants is None:
        return []
    stats = idata.children.get("sample_stats")
    found = [str(v).removesuffix(SCHEMA) for v in constants.data_vars if str(v).endswith(SCHEMA)]
    return [n for n in found if (stats is not None and n + DIGITS in stats.data_vars) or _is_unpacked(idata, n)]


def unpack_network(idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
    """A tree with the assignments of a sum-product network as labelled digits.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``; not changed.
    name : str, optional
        The network's name in the model, where there are several.

    Returns
    -------
    DataTree
        With the group ``<name>`` in place of the raw record: ``digits`` (chain, record, row, region), the
        number of the child that each row takes in each region, -1 where all its cells are missing; with
        ``rounded=True`` also ``exact``, the exact values as lattice points of their cells. ``draw`` says at
        which draw the record was made. The digit of a single column modulo its number of palette entries is
        the palette entry.

    Raises
    ------
    ValueError
        If the tree holds no network, several and no name is given, or no complete record.
    """
    import xarray as xr

    name = find_name(idata, name)
    tree = idata.copy()
    if _is_unpacked(idata, name):
        return tree
    schema = read_schema(idata, name)
    table = idata["observed_data"].dataset[name]
    rows = f"{name}_row"
    stats = idata["sample_stats"].to_dataset()
    chunks = stats[name + DIGITS]
    digits = join_digits(np.asarray(chunks.values), table.sizes[rows], schema.structure.n_regions)
    step = chunks_per_state(table.sizes[rows] * schema.structure.n_regions, chunks.shape[2])
    if digits.shape[1] == 0:
        raise ValueError(
            f"{name!r} has no complete record: a state takes {step} draws and there are {chunks.shape[1]}; "
            "draw more, or record more often"
        )
    draws = stats["draw"].values if "draw" in stats.coords else np.arange(chunks.shape[1])
    coords = {
        "chain": stats["chain"].values if "chain" in stats.coords else np.arange(digits.shape[0]),
        "draw": ("record", draws[::step][: digits.shape[1]]),
        f"{name}_region": region_labels(schema.structure),
    }
    if rows in table.coords:
        coords[rows] = table[rows].values
    group = xr.Dataset({"digits": (("chain", "record", rows, f"{name}_region"), digits)}, coords=coords)
    used = [name + DIGITS]
    if schema.rounded:
        used.append(name + EXACT)
        exact = join_digits(stats[name + EXACT].values, table.sizes[rows], schema.rounded_columns.size, step)
        group["exact"] = (("chain", "record", rows, f"{name}_rounded_column"), exact)
        group[f"{name}_rounded_column"] = [schema.columns[d].name for d in schema.rounded_columns]
    dims = [str(stats[v].dims[2]) for v in used]
    tree["sample_stats"] = xr.DataTree(stats.drop_vars(used).drop_dims(dims, errors="ignore"))
    tree[name] = xr.DataTree(group)
    return tree


def find_name(idata: "xr.DataTree", name: str | None) -> str:
    """The name that was asked for, or the only one."""
    names = network_names(idata)
    if not names:
        raise ValueError("the tree holds no sum-product network: no variable <name>_schema with draws <name>_digits")
    if name is None:
        if len(names) > 1:
            raise ValueError(f"the tree holds several sum-product networks, give name=, one of {names}")
        return names[0]
    if name not in names:
        raise ValueError(f"name must be one of {names}, got {name!r}")
    return name


def read_schema(idata: "xr.DataTree", name: str) -> NetworkSchema:
    """Schema of a network, from the bytes of its JSON text."""
    vector = np.asarray(idata["constant_data"].dataset[name + SCHEMA].values)
    return NetworkSchema.from_json(vector.astype(np.uint8).tobytes().decode())


def write_schema(schema: NetworkSchema) -> np.ndarray:
    """Bytes of the JSON text as integers, which every storage keeps."""
    return np.frombuffer(schema.to_json().encode(), np.uint8).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Record:
    """All that is known of one sampled network: schema, table and draws.

    Parameters
    ----------
    schema : NetworkSchema
    table : (N, D) float64
        Levels as integers, NaN where missing.
    rows : (N,)
        Row labels.
    digits : (chain, record, N, R) integers
    chains, draws : (n_chains,) and (n_records,)
        Labels.
    hyperparameters : dict of (chain, record, n) float64
        For each of `HYPERPARAMETERS`, (2,) or (D,) numbers a draw.
    variables : dict of (chain, record, ...) float64
        The variables of the posterior that they were read from.
    exact : (chain, record, N, K) uint16, optional
        With ``rounded=True`` the exact values, as lattice points of their cells.
    """

    schema: NetworkSchema
    table: np.ndarray
    rows: np.ndarray
    digits: np.ndarray
    chains: np.ndarray
    draws: np.ndarray
    hyperparameters: dict[str, np.ndarray]
    variables: dict[str, np.ndarray]
    exact: np.ndarray | None = None


def read_record(idata: "xr.DataTree", name: str | None = None) -> Record:
    """Read the draws of a network from the tree that ``pm.sample`` returned, unpacked or not."""
    name = find_name(idata, name)
    tree = unpack_network(idata, name)
    schema = read_schema(tree, name)
    table = tree["observed_data"].dataset[name]
    group = tree[name].dataset
    digits = group["digits"]
    draws = group["draw"].values
    n_chains, n_records = digits.shape[:2]
    hyperparameters, variables = {}, {}
    for kind in HYPERPARAMETERS:
        source = schema.hyperparameters[kind]
        if "fixed" in source:
            numbers = source["fixed"]
            full = schema.full_vector(kind, numbers[0] if len(numbers) == 1 else numbers)
            hyperparameters[kind] = np.broadcast_to(full, (n_chains, n_records, full.size))
            continue
        values = read_draws(tree, name, kind, source["variable"], draws)
        variables[source["variable"]] = values
        hyperparameters[kind] = np.array([[schema.full_vector(kind, v) for v in chain] for chain in values])
    if schema.missing == "draw":
        variables[f"{name}_missing"] = read_draws(tree, name, "missing cells", f"{name}_missing", draws)
    rows = f"{name}_row"
    labels = table[rows].values if rows in table.coords else np.arange(table.sizes[rows])
    return Record(
        schema=schema,
        table=np.ascontiguousarray(table.values, np.float64),
        rows=labels,
        digits=digits.values,
        chains=group["chain"].values,
        draws=draws,
        hyperparameters=hyperparameters,
        variables=variables,
        exact=group["exact"].values if schema.rounded else None,
    )


def read_draws(tree: "xr.DataTree", name: str, kind: str, variable: str, draws: np.ndarray) -> np.ndarray:
    """Draws (chain, record, ...) of a variable of the posterior."""
    posterior = tree.children.get("posterior")
    if posterior is None or variable not in posterior.data_vars:
        raise ValueError(
            f"the {kind} of {name!r} is the variable {variable!r}, which the posterior group "
            "does not hold; sample with it among var_names"
        )
    values = posterior.dataset[variable]
    if "draw" in values.coords:
        values = values.sel(draw=draws)
    return values.transpose("chain", "draw", ...).values


def _is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    group = idata.children.get(name)
    return group is not None and "digits" in group.data_vars


def write_record(record: Record, query: str) -> "xr.DataTree":
    """A tree that `read_record` reads; ``query`` is what a posterior object adds to the draws."""
    import xarray as xr

    name = record.schema.name
    rows, columns = f"{name}_row", f"{name}_column"
    coords = {rows: row_labels(record.rows), columns: [c.name for c in record.schema.columns]}
    table = xr.Dataset({name: ((rows, columns), record.table)}, coords=coords)
    draws = {"chain": record.chains, "draw": record.draws}
    variables = {
        v: (("chain", "draw", *(f"{v}_dim_{i}" for i in range(x.ndim - 2))), x) for v, x in record.variables.items()
    }
    digits = xr.Dataset(
        {"digits": (("chain", "record", rows, f"{name}_region"), record.digits)},
        coords={
            "chain": record.chains,
            "draw": ("record", record.draws),
            f"{name}_region": region_labels(record.schema.structure),
        },
    )
    if record.exact is not None:
        digits["exact"] = (("chain", "record", rows, f"{name}_rounded_column"), record.exact)
        digits[f"{name}_rounded_column"] = [record.schema.columns[d].name for d in record.schema.rounded_columns]
    groups = {
        "/": xr.Dataset(attrs={SAVED: query, "spn_posterior_format": FORMAT}),
        "constant_data": xr.Dataset({name + SCHEMA: (f"{name}_schema_dim", write_schema(record.schema))}),
        "observed_data": table,
        "posterior": xr.Dataset(variables, coords=draws),
        name: digits,
    }
    return xr.DataTree.from_dict(groups)
