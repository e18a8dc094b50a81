"""The draws of a sum-product network in a DataTree: how digits are cut into chunks, and read again.

A recorded state is an (N, R) array of digits, one for each row and region. PyMC needs a statistic of the same length at
every draw. So the state of every k-th draw is cut into k chunks, and chunk i is at the i-th draw after it. The record
costs N R / k numbers a draw, and k is recovered from the length of a chunk.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.gibbs.joint_leaves import n_kinds
from pymc_spn.networks.records import record_checks as checks
from pymc_spn.networks.schema import DIMS, HYPERPARAMETERS, NetworkSchema
from pymc_spn.records.structure_records import Field, StructureRecord
from pymc_spn.tables import row_labels
from pymc_spn.tables.fingerprints import UNPACKED, fingerprint, fingerprints, model_digest_of

if TYPE_CHECKING:
    import xarray as xr

SCHEMA, DIGITS, EXACT, FILLED, RUN = "_schema", "_digits", "_exact", "_filled", "_run"
LOG_JOINT = "log_joint"
SAVED = "spn_posterior"  # attribute that holds the query of a saved posterior object
FORMAT = 2  # of a saved posterior object


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
    largest = int(n_labels(structure, palette, n_rows).max()) - 1
    return next(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max)


def n_labels(structure: Any, palette: Any, n_rows: int) -> np.ndarray:
    """Digits (R,) that a sum node can have: its children, of an infinite one as many of each option as there are rows.

    Arguments as for `digits_dtype`. The options are splits, or palette entries; a digit modulo their number says which.
    """
    n_options = n_kinds(structure, palette)
    return np.where(structure.n_children > 0, np.maximum(structure.n_children, n_options), n_rows * n_options)


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


class SPNRecord(StructureRecord):
    """``digits``: the number of the child that each row takes in each region, -1 where all its cells are missing.

    ``draw`` says at which draw a record was made. The digit of a single column modulo its number of leaf families says
    which of them its leaf has. ``exact`` are values of rounded columns, as lattice points of their cells; ``filled``
    are missing cells in multivariate leaves, row by row.
    """

    kinds, made_by = "sum-product networks", "ps.SPN"
    suffix, raw, raw_dtypes, mark = SCHEMA, DIGITS, "iu", "digits"
    more_raw = RUN, EXACT, FILLED
    schema = NetworkSchema
    posterior = "pymc_spn.networks.posterior:SPNPosterior"
    draw_dim = "record"

    def fields(self, schema: NetworkSchema) -> dict[str, Field]:
        """Digits, and what belongs to them."""
        name = schema.name
        return {
            "digits": Field((f"{name}_row", f"{name}_region"), None),
            "run": Field((), None, is_optional=True),
            "exact": Field((f"{name}_row", f"{name}_rounded_column"), None, 0, checks.LATTICE, is_optional=True),
            "filled": Field((f"{name}_filled_cell",), np.float32, gaps=True, is_optional=True),
            "log_weights": Field((), np.float64, is_optional=True),
        }

    def labels(self, schema: NetworkSchema) -> dict[str, Any]:
        """Regions, and rounded columns."""
        rounded = [schema.columns[d].name for d in schema.rounded_columns]
        return {f"{schema.name}_region": region_labels(schema.structure), f"{schema.name}_rounded_column": rounded}

    def described(self, idata: "xr.DataTree", name: str) -> tuple[Any, ...]:
        """The schema, and the condition of a saved posterior."""
        return *super().described(idata, name), idata.attrs.get(SAVED, "")

    def _step(self, idata: "xr.DataTree", schema: NetworkSchema) -> int:
        """Draws that each recorded state is cut into."""
        name = schema.name
        n_cells = idata["observed_data"].dataset[name].sizes[f"{name}_row"] * schema.structure.n_regions
        chunks = checks.read_chunks(idata["sample_stats"].dataset, name + DIGITS, n_cells)
        return chunks_per_state(n_cells, chunks.shape[2])

    def places(self, idata: "xr.DataTree", schema: NetworkSchema, n_draws: int) -> np.ndarray:
        """Draws with the first chunk of a state; the last state may be cut off."""
        step = self._step(idata, schema)
        if n_draws < step:
            raise ValueError(
                f"{schema.name!r} has no complete record: a state takes {step} draws and there are {n_draws}; draw or "
                "select more, record more often, or select records, as in ps.unpack(idata).isel(record=[0])"
            )
        return np.arange(n_draws // step) * step

    def arrays(self, idata: "xr.DataTree", schema: NetworkSchema, raw: np.ndarray) -> dict[str, np.ndarray]:
        """States of their chunks (chain, draw, length)."""
        name, stats = schema.name, idata["sample_stats"].dataset
        table = idata["observed_data"].dataset[name].transpose(f"{name}_row", f"{name}_column")
        n_rows, step = len(table), self._step(idata, schema)
        n_columns, n_filled = schema.rounded_columns.size, n_filled_cells(schema, table.values)
        sizes = {"digits": (DIGITS, n_rows, schema.structure.n_regions)}
        if n_columns:
            sizes["exact"] = EXACT, n_rows, n_columns
        if n_filled:
            sizes["filled"] = FILLED, 1, n_filled
        found = {}
        for part, (suffix, n, m) in sizes.items():
            chunks = checks.read_chunks(stats, name + suffix, n * m, step)
            found[part] = join_digits(chunks, n, m, step)
        if n_filled:
            found["filled"] = found["filled"][:, :, 0]
        if name + RUN in stats:
            found["run"] = (
                stats[name + RUN].transpose("chain", "draw").values[:, self.places(idata, schema, raw.shape[1])]
            )
        return found

    def unpack(self, idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
        """The result with the states of a network as labelled digits."""
        name = self.chosen(idata, name)
        checks.read_table(idata, self.read_schema(idata, name), name)
        out = super().unpack(idata, name)
        rows = f"{name}_row"
        if not self.is_unpacked(idata, name) and rows in (table := out["observed_data"].dataset[name]).coords:
            out[name].dataset = out[name].to_dataset().assign_coords({rows: table[rows].values})
        return out


NETWORKS = SPNRecord()


def n_filled_cells(schema: NetworkSchema, table: np.ndarray) -> int:
    """Missing cells that are drawn where their row is in a leaf over several columns."""
    return int(np.isnan(table[:, schema.filled_cells]).sum())


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
    first_numbers : dict of str to (n_chains, 1) float64
        Statistics at the first recorded state of each chain, where the result has them.
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
    first_numbers: dict[str, np.ndarray] = field(default_factory=dict)

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
    name = NETWORKS.chosen(idata, name)
    is_unpacked = NETWORKS.is_unpacked(idata, name)
    tree = NETWORKS.unpack(idata, name)
    schema = NETWORKS.read_schema(tree, name)
    rows = f"{name}_row"
    found = checks.read_table(tree, schema, name)
    labels = found[rows].values if rows in found.coords else np.arange(len(found))
    table = np.ascontiguousarray(found.values, np.float64)
    checks.check_table(schema, f"variable {name!r} of observed_data", table, labels)
    group = tree[name].to_dataset()
    if "record" not in group.dims and "draw" in group.dims:  # one record, selected by its number
        group = group.rename_dims(draw="record").reset_index("draw")
    fields = NETWORKS.fields(schema)

    def read(field: str, suffix: str, *shape: int) -> np.ndarray:
        place = f"variable {field!r} of {name}" if is_unpacked else f"variable {name + suffix!r} of sample_stats"
        if field not in group:
            checks.refuse(place, "be there", "none")
        return fields[field].read(place, group[field], ("chain", "record", *fields[field].dims), (None, None, *shape))

    digits_place = f"variable 'digits' of {name}" if is_unpacked else f"variable {name + DIGITS!r} of sample_stats"
    digits = read("digits", DIGITS, len(table), schema.structure.n_regions)
    chains, draws = group["chain"].values, group["draw"].values
    if 0 in digits.shape[:2]:
        checks.refuse(digits_place, "hold at least one draw of one chain", f"the shape {digits.shape}")
    digest = model_digest_of(fingerprints(group, UNPACKED), f"the group {name!r}", *NETWORKS.described(tree, name))
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
    exact = read("exact", EXACT, len(table), schema.rounded_columns.size) if schema.rounded else None
    filled = read("filled", FILLED, n) if (n := n_filled_cells(schema, table)) else None
    runs = read("run", RUN).astype(np.int64) if "run" in group else np.zeros(digits.shape[:2], np.int64)
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
        first_numbers=_first_numbers(tree, name, chains, draws),
    )


def _first_numbers(tree: "xr.DataTree", name: str, chains: np.ndarray, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics (n_chains, 1) at the first recorded draw, by their names; those that the result lacks are left out."""
    stats, found = tree.children.get("sample_stats"), {}
    for number in (LOG_JOINT, "occupied_nodes", "occupied_leaves"):
        variable = f"{name}_{number}"
        if stats is None or variable not in stats.data_vars or not {"chain", "draw"} <= set(stats[variable].coords):
            continue
        values = stats[variable].transpose("chain", "draw")
        at = np.flatnonzero(values["draw"].values == draws[0])
        # else draws of the record were selected alone
        if at.size == 1 and np.array_equal(values["chain"].values, chains):
            found[number] = values.values[:, at]
    return found


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

    name, schema = record.schema.name, record.schema.to_vector()
    rows, columns = f"{name}_row", f"{name}_column"
    labels = row_labels(record.rows)
    coords = {rows: labels, columns: [c.name for c in record.schema.columns]}
    table = xr.Dataset({name: ((rows, columns), record.table)}, coords=coords)
    arrays = {"digits": record.digits, "exact": record.exact, "filled": record.filled}
    arrays |= {"run": record.runs if record.runs.any() else None}
    shape = record.digits.shape[:2]
    arrays |= {"log_weights": log_weights.reshape(shape) if np.any(log_weights) else None}
    marks = np.full(shape, fingerprint(record.model_digest, schema, query))
    held = {field: array for field, array in arrays.items() if array is not None}
    group = NETWORKS.group(record.schema, held, record.chains, record.draws, marks).assign_coords({rows: labels})
    if record.log_joint is not None:
        group[LOG_JOINT] = (("chain", f"{name}_draw"), record.log_joint)
    groups = {
        "/": xr.Dataset(attrs={SAVED: query, "spn_posterior_format": FORMAT}),
        "constant_data": xr.Dataset({name + SCHEMA: (f"{name}_schema_dim", schema)}),
        "observed_data": table,
        "posterior": labelled_variables(record),
        name: group,
    }
    return xr.DataTree.from_dict(groups)
