"""The draws of a sum-product network in a DataTree: how digits are cut into chunks, and read again.

A recorded state is an (N, R) array of digits, one for each row and region. PyMC needs a statistic of the same length at
every draw. So the state of every k-th draw is cut into k chunks, and chunk i is at the i-th draw after it. The record
costs N R / k numbers a draw, and k is recovered from the length of a chunk.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.networks.records import record_checks as checks
from pymc_spn.networks.records.chunks import chunks_per_state, join_digits, n_labels
from pymc_spn.networks.schema import DIMS, HYPERPARAMETERS, NetworkSchema
from pymc_spn.networks.schema import FORMAT as FORMAT_OF_SCHEMA
from pymc_spn.tables import row_labels
from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprint, fingerprints, model_digest_of
from pymc_spn.tables.tree_files import chosen_name

if TYPE_CHECKING:
    import xarray as xr

SCHEMA, DIGITS, EXACT, FILLED, RUN = "_schema", "_digits", "_exact", "_filled", "_run"
LOG_JOINT = "log_joint"
SAVED = "spn_posterior"  # attribute that holds the query of a saved posterior object
FORMAT = 2  # of a saved posterior object


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
        With the group ``<name>`` in place of the raw record: ``digits`` (chain, record, row, region), the number of the
        child that each row takes in each region. It is -1 where all its cells are missing. With columns in cells also
        ``exact``, the exact values as lattice points of their cells. ``draw`` says at which draw the record was made.
        The digit of a single column modulo its number of palette entries is the palette entry.

    Raises
    ------
    ValueError
        If the tree holds no network, several and no name is given, no complete record, or what `SPN` cannot have
        written.
    """
    import xarray as xr

    name = find_name(idata, name)
    tree = idata.copy()
    if _is_unpacked(idata, name):
        return tree
    schema = read_schema(idata, name)
    table = checks.read_table(idata, schema, name)
    rows = f"{name}_row"
    n_rows, n_regions = len(table), schema.structure.n_regions
    stats = idata["sample_stats"].to_dataset()
    chunks = checks.read_chunks(stats, name + DIGITS, n_rows * n_regions)
    digits = join_digits(chunks, n_rows, n_regions)
    step = chunks_per_state(n_rows * n_regions, chunks.shape[2])
    if digits.shape[1] == 0:
        raise ValueError(
            f"{name!r} has no complete record: a state takes {step} draws and there are {chunks.shape[1]}; "
            "draw or select more, record more often, or select records, as in ps.unpack(idata).isel(record=[0])"
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
    used = [name + DIGITS, name + FINGERPRINT]
    marks = fingerprints(stats, name + FINGERPRINT)
    model_digest_of(marks, f"{name!r} of sample_stats", *_described(idata, name))
    group[UNPACKED] = (("chain", "record"), marks.values[:, ::step][:, : digits.shape[1]])
    if name + RUN in stats:
        used.append(name + RUN)
        runs = stats[name + RUN].transpose("chain", "draw").values
        group["run"] = (("chain", "record"), runs[:, ::step][:, : digits.shape[1]])
    if schema.rounded:
        used.append(name + EXACT)
        n_columns = schema.rounded_columns.size
        chunks = checks.read_chunks(stats, name + EXACT, n_rows * n_columns, step)
        exact = join_digits(chunks, n_rows, n_columns, step)
        group["exact"] = (("chain", "record", rows, f"{name}_rounded_column"), exact)
        group[f"{name}_rounded_column"] = [schema.columns[d].name for d in schema.rounded_columns]
    n_filled = n_filled_cells(schema, table.values)
    if n_filled:
        used.append(name + FILLED)
        chunks = checks.read_chunks(stats, name + FILLED, n_filled, step)
        group["filled"] = (("chain", "record", f"{name}_filled_cell"), join_digits(chunks, 1, n_filled, step)[:, :, 0])
    dims = [d for v in used for d in stats[v].dims if d not in ("chain", "draw")]
    tree["sample_stats"] = xr.DataTree(stats.drop_vars(used).drop_dims(dims, errors="ignore"))
    tree[name] = xr.DataTree(group)
    return tree


def n_filled_cells(schema: NetworkSchema, table: np.ndarray) -> int:
    """Missing cells that are drawn where their row is in a leaf over several columns."""
    return int(np.isnan(table[:, schema.filled_cells]).sum())


def find_name(idata: "xr.DataTree", name: str | None) -> str:
    """The name that was asked for, or the only one."""
    nothing = "no sum-product network: no variable <name>_schema with draws <name>_digits"
    return chosen_name(network_names(idata), name, idata, "sum-product networks", nothing)


def read_schema(idata: "xr.DataTree", name: str) -> NetworkSchema:
    """Schema of a network, from the bytes of its JSON text.

    Raises
    ------
    ValueError
        If the variable does not hold such a text, or one of another format.
    """
    vector = np.asarray(idata["constant_data"].dataset[name + SCHEMA].values)
    place, rule = f"variable {name + SCHEMA!r} of constant_data", "hold the bytes of the JSON text of a schema"
    if vector.dtype.kind not in "iu" or vector.ndim != 1:
        checks.refuse(place, rule, f"the dtype {vector.dtype} and {vector.ndim} dimensions")
    bad = (vector < 0) | (vector > 255)
    if bad.any():
        checks.refuse(place, rule, f"{vector[np.argmax(bad)]} at position {np.argmax(bad)}")
    try:
        text = vector.astype(np.uint8).tobytes().decode()
        fields = json.loads(text)
    except ValueError as error:
        checks.refuse(place, rule, f"a text that is none ({error})")
    if not isinstance(fields, dict) or "format" not in fields:
        checks.refuse(place, rule, "a text without a format")
    try:
        return NetworkSchema.from_json(text)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if fields["format"] != FORMAT_OF_SCHEMA:
            raise  # of another version, and says so
        checks.refuse(place, rule, f"a text of another form ({error!r})")


def write_schema(schema: NetworkSchema) -> np.ndarray:
    """Bytes of the JSON text as integers, which every storage keeps."""
    return np.frombuffer(schema.to_json().encode(), np.uint8).astype(np.int16)


def _described(idata: "xr.DataTree", name: str) -> tuple[np.ndarray, str]:
    """What the fingerprints of a network are made of: its schema, and the condition of a saved posterior."""
    return idata["constant_data"].dataset[name + SCHEMA].values, idata.attrs.get(SAVED, "")


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
    runs : (chain, record) integers
        Run of its chain that a state is of.
    hyperparameters : dict of (chain, record, n) float64
        For each of `HYPERPARAMETERS`, (2,) or (D,) numbers a draw.
    variables : dict of (chain, record, ...) float64
        The variables of the posterior that they were read from.
    exact : (chain, record, N, K) uint16, optional
        Of columns in cells the exact values, as lattice points of their cells.
    filled : (chain, record, m) float32, optional
        Missing cells of columns that are in leaves over several columns, row by row, in the sampler's units; NaN in
        rows that are in no such leaf.
    log_joint : (chain, draw) float64, optional
        Of all draws, also of those whose digits are not recorded.
    model_digest : int
        Of the data and constants of the model.
    log_weights : (S,) float64, optional
        Of the draws of a saved posterior that weighs them.
    """

    schema: NetworkSchema
    table: np.ndarray
    rows: np.ndarray
    digits: np.ndarray
    chains: np.ndarray
    draws: np.ndarray
    hyperparameters: dict[str, np.ndarray]
    variables: dict[str, np.ndarray]
    runs: np.ndarray
    exact: np.ndarray | None = None
    filled: np.ndarray | None = None
    log_joint: np.ndarray | None = None
    model_digest: int = 0
    log_weights: np.ndarray | None = None

    @property
    def units(self) -> str:
        """What the draws are parts of, by name."""
        return "runs" if np.ptp(self.runs, axis=1).any() else "chains"


def read_record(idata: "xr.DataTree", name: str | None = None) -> Record:
    """Read the draws of a network from the tree that ``pm.sample`` returned, unpacked or not.

    Raises
    ------
    TypeError, ValueError
        If it is not a tree of data, or holds something that `SPN` cannot have written.
    """
    name = find_name(idata, name)
    digits_place = f"variable {name + DIGITS!r} of sample_stats"
    exact_place = f"variable {name + EXACT!r} of sample_stats"
    filled_place = f"variable {name + FILLED!r} of sample_stats"
    if _is_unpacked(idata, name):
        digits_place, exact_place = f"variable 'digits' of {name}", f"variable 'exact' of {name}"
        filled_place = f"variable 'filled' of {name}"
    tree = unpack_network(idata, name)
    schema = read_schema(tree, name)
    rows = f"{name}_row"
    found = checks.read_table(tree, schema, name)
    labels = found[rows].values if rows in found.coords else np.arange(len(found))
    table = np.ascontiguousarray(found.values, np.float64)
    checks.check_table(schema, f"variable {name!r} of observed_data", table, labels)
    group = tree[name].to_dataset()
    if "record" not in group.dims and "draw" in group.dims:  # one record, selected by its number
        group = group.rename_dims(draw="record").reset_index("draw")
    digits = checks.ordered(digits_place, group["digits"], ("chain", "record", rows, f"{name}_region")).values
    chains, draws = group["chain"].values, group["draw"].values
    if 0 in digits.shape[:2]:
        checks.refuse(digits_place, "hold at least one draw of one chain", f"the shape {digits.shape}")
    digest = model_digest_of(fingerprints(group, UNPACKED), f"the group {name!r}", *_described(tree, name))
    missing = np.isnan(table) & (schema.missing != "draw")
    regions = region_labels(schema.structure)
    most = n_labels(schema.structure, schema.compiled, len(table))
    checks.check_digits(schema, digits_place, digits, missing, most, (chains, draws, regions))
    hyperparameters, variables = {}, {}
    for kind in HYPERPARAMETERS:
        source = schema.hyperparameters[kind]
        if "fixed" in source:
            numbers = source["fixed"]
            full = schema.full_vector(kind, numbers[0] if len(numbers) == 1 else numbers)
            hyperparameters[kind] = np.broadcast_to(full, (*digits.shape[:2], full.size))
            continue
        values = read_draws(tree, name, kind, source["variable"], chains, draws)
        place = f"variable {source['variable']!r} of posterior"
        checks.check_hyperparameter(schema, kind, place, values, (chains, draws))
        variables[source["variable"]] = values
        hyperparameters[kind] = np.array([[schema.full_vector(kind, v) for v in chain] for chain in values])
    if schema.missing == "draw":
        cells = f"{name}_missing"
        variables[cells] = read_draws(tree, name, "missing cells", cells, chains, draws)
        place = f"variable {cells!r} of posterior"
        checks.check_drawn_cells(schema, place, table, variables[cells], (chains, draws))
    exact = None
    if schema.rounded:
        dims = ("chain", "record", rows, f"{name}_rounded_column")
        exact = checks.ordered(exact_place, group["exact"], dims).values
        shape = (*digits.shape[:3], schema.rounded_columns.size)
        checks.check_exact(exact_place, exact, shape, (chains, draws))
    filled = None
    if n_filled_cells(schema, table):
        filled = checks.ordered(filled_place, group["filled"], ("chain", "record", f"{name}_filled_cell")).values
        checks.check_filled(filled_place, filled, (*digits.shape[:2], n_filled_cells(schema, table)), (chains, draws))
    runs = np.zeros(digits.shape[:2], np.int64)
    if "run" in group:
        runs = checks.ordered(f"variable 'run' of {name}", group["run"], ("chain", "record")).values.astype(np.int64)
    weights = None
    if "log_weights" in group:
        weights = np.asarray(group["log_weights"].transpose("chain", "record").values, np.float64).ravel()
        if not (weights < np.inf).all() or not (weights > -np.inf).any():
            checks.refuse(f"variable 'log_weights' of {name}", "be below infinity, and finite for some draw", "others")
    return Record(
        schema=schema,
        table=table,
        rows=labels,
        digits=digits,
        chains=chains,
        draws=draws,
        hyperparameters=hyperparameters,
        variables=variables,
        runs=runs,
        exact=exact,
        filled=filled,
        log_joint=read_log_joint(tree, name, chains),
        model_digest=digest,
        log_weights=weights,
    )


def read_log_joint(tree: "xr.DataTree", name: str, chains: np.ndarray) -> np.ndarray | None:
    """Log joint (chain, draw) of all draws, from a saved posterior object or from the posterior; None without one."""
    places = ((name, LOG_JOINT, f"{name}_draw"), ("posterior", f"{name}_{LOG_JOINT}", "draw"))
    for group, variable, draws in places:
        if group not in tree.children or variable not in tree[group].data_vars:
            continue
        place = f"variable {variable!r} of {group}"
        values = checks.ordered(place, tree[group].dataset[variable], ("chain", draws))
        if values.dtype.kind != "f" or ("chain" in values.coords and not np.array_equal(values["chain"], chains)):
            checks.refuse(place, f"have numbers of the chains of the digits, {chains.tolist()}", values.dtype)
        return values.values
    return None


def read_draws(
    tree: "xr.DataTree", name: str, kind: str, variable: str, chains: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Draws (chain, record, ...) of a variable of the posterior; what `pm.do` or `pm.observe` fixed is repeated."""
    posterior = tree.children.get("posterior")
    if posterior is None or variable not in posterior.data_vars:
        for group in ("constant_data", "observed_data"):
            if group in tree.children and variable in tree.children[group].data_vars:
                fixed = tree.children[group].dataset[variable].values
                return np.broadcast_to(fixed, (chains.size, draws.size, *fixed.shape))
        raise ValueError(
            f"the {kind} of {name!r} is the variable {variable!r}, which the posterior group "
            "does not hold; sample with it among var_names"
        )
    values, place = posterior.dataset[variable], f"variable {variable!r} of posterior"
    if not {"chain", "draw"} <= set(values.dims):
        checks.refuse(place, "have the dimensions 'chain' and 'draw'", list(values.dims))
    if "chain" in values.coords and not np.array_equal(values["chain"], chains):
        checks.refuse(place, f"have the chains of the digits, {chains.tolist()}", values["chain"].values.tolist())
    if "draw" in values.coords and not np.array_equal(values["draw"], draws):
        lost = draws[~np.isin(draws, values["draw"].values)]
        if lost.size:
            rule = f"have a draw for all {draws.size} records of the digits, which are selected by dimension 'record'"
            checks.refuse(place, rule, f"no draw {lost[0]}")
        if not values.get_index("draw").is_unique:
            raise ValueError(
                f"{place} must have each draw once where a record takes several draws, got draws of equal labels, as "
                "where results are put together along draw; put them together along chain"
            )
        values = values.sel(draw=draws)
    values = values.transpose("chain", "draw", ...)
    if values.shape[:2] != (chains.size, draws.size):
        checks.refuse(place, f"have the chains and draws of the digits, {(chains.size, draws.size)}", values.shape[:2])
    return values.values


def _is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    group = idata.children.get(name)
    return group is not None and "digits" in group.data_vars


def labelled_variables(record: Record) -> "xr.Dataset":
    """The variables of the posterior that belong to a network, with the dimensions and labels that `SPN` gives them."""
    import xarray as xr

    name, schema = record.schema.name, record.schema
    labels: dict[str, Any] = {"chain": record.chains, "draw": record.draws}
    variables = {}
    for key, values in record.variables.items():
        own: tuple[str, ...] = tuple(f"{key}_dim_{i}" for i in range(values.ndim - 2))
        group = key.removeprefix(f"{name}_")
        if key == f"{name}_missing":
            own, rows = (f"{name}_cell",), np.argwhere(np.isnan(record.table))
            labels[own[0]] = [f"{record.rows[n]}: {schema.columns[d].name}" for n, d in rows]
        elif group in DIMS and values.ndim == 3:
            dimension, known = schema.labels_of(group, values.shape[2])
            own = (f"{name}_{dimension}",)
            labels[own[0]] = known
        variables[key] = ("chain", "draw", *own), values
    return xr.Dataset(variables, labels)


def write_record(record: Record, query: str, log_weights: np.ndarray) -> "xr.DataTree":
    """A tree that `read_record` reads; ``query`` and weights (S,) are what a posterior object adds to the draws."""
    import xarray as xr

    name, schema = record.schema.name, write_schema(record.schema)
    rows, columns = f"{name}_row", f"{name}_column"
    coords = {rows: row_labels(record.rows), columns: [c.name for c in record.schema.columns]}
    table = xr.Dataset({name: ((rows, columns), record.table)}, coords=coords)
    digits = xr.Dataset(
        {"digits": (("chain", "record", rows, f"{name}_region"), record.digits)},
        coords={
            "chain": record.chains,
            "draw": ("record", record.draws),
            f"{name}_region": region_labels(record.schema.structure),
        },
    )
    if record.log_joint is not None:
        digits[LOG_JOINT] = (("chain", f"{name}_draw"), record.log_joint)
    shape = record.digits.shape[:2]
    digits[UNPACKED] = (("chain", "record"), np.full(shape, fingerprint(record.model_digest, schema, query)))
    if record.runs.any():
        digits["run"] = (("chain", "record"), record.runs)
    if np.any(log_weights):
        digits["log_weights"] = (("chain", "record"), log_weights.reshape(shape))
    if record.exact is not None:
        digits["exact"] = (("chain", "record", rows, f"{name}_rounded_column"), record.exact)
        digits[f"{name}_rounded_column"] = [record.schema.columns[d].name for d in record.schema.rounded_columns]
    if record.filled is not None:
        digits["filled"] = (("chain", "record", f"{name}_filled_cell"), record.filled)
    groups = {
        "/": xr.Dataset(attrs={SAVED: query, "spn_posterior_format": FORMAT}),
        "constant_data": xr.Dataset({name + SCHEMA: (f"{name}_schema_dim", schema)}),
        "observed_data": table,
        "posterior": labelled_variables(record),
        name: digits,
    }
    return xr.DataTree.from_dict(groups)
