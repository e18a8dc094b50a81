"""Everything about a sum-product network of a model except its data and its draws, as JSON."""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.gibbs.joint_leaves import MOST_COLUMNS, joint_regions
from pymc_spn.gibbs.palette import code_values, compile_palette, is_rounded, n_levels_of
from pymc_spn.leaves.families import FAMILIES, LOCATED, families_with
from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables import Column
from pymc_spn.tables.column import WHOLE_KINDS
from pymc_spn.tables.stored_arrays import checked, refuse

HYPERPARAMETERS = ("concentration", "leaf_scale", "leaf_shape", "precision_ratio", "covariance_scale")
# of columns without Gaussian or log-normal leaves, or in no leaf over several columns
UNUSED = {"leaf_shape": 1.5, "precision_ratio": 0.05, "covariance_scale": 0.1}
# fields that every stored schema has
REQUIRED = ("name", "structure", "columns", "palette", "resolution", "centre", "scale", "hyperparameters", "start")
# by hyperparameter: what comes after the network's name in the dimension of its variable
DIMS = {
    "concentration": "sum_node",
    "leaf_scale": "column",
    "leaf_shape": "gaussian_column",
    "precision_ratio": "gaussian_column",
    "covariance_scale": "joint_column",
}


@dataclass(frozen=True, eq=False)
class NetworkSchema(StoredSchema):
    """Structure, columns, completed palette, coding and the source of each hyperparameter.

    Parameters
    ----------
    name : str
        Name of the variable in the model.
    structure : RegionTree
    columns : tuple of Column
        In the order of the structure's columns.
    palette : tuple of tuples
        Palette entries of each column with all constants filled in, in the units of the data.
    resolution, centre, scale : tuple of float
        Per column: recording grid, and coded value = (x - centre) / scale.
    hyperparameters : dict
        For each of `HYPERPARAMETERS` either ``{"fixed": [numbers]}`` or ``{"variable": name}``, the variable in
        ``posterior`` that holds it.
    start : str
        How chains start: "kmeans" or "prior".
    missing : str
        "marginal" where missing cells are summed out, "draw" where they are the variable ``<name>_missing``.
    rounded : tuple of str
        Columns whose values stand for their cells; their leaves have no floor. See `recorded_cells`.
    grid_points : tuple of float
        Per column a point of its recording grid, where that does not hold 0; empty where all hold 0.
    learned : bool
        Whether the splits of the structure were learned from the same table, which the posterior does not know.
    joint : tuple of str
        Columns that leaves over several columns may have.
    nonnegative : dict of str to float or None
        Columns without negative values, and how far from 0 values count as 0. See `leaves_near_zero`.
    clumped : tuple of str
        Of a variational fit the columns of real numbers whose values come again and again.
    n_rows : int, optional
        Rows of the table, by which a record is read; None where it was not written down.
    data : str, optional
        `data_digest` of the table as PyMC holds it; None where it was not written down.
    """

    form: ClassVar[int] = 3
    place: ClassVar[str] = "the network's schema"
    structure: RegionTree
    columns: tuple
    palette: tuple
    resolution: tuple
    centre: tuple
    scale: tuple
    hyperparameters: dict
    start: str = "kmeans"
    missing: str = "marginal"
    rounded: tuple = ()
    grid_points: tuple = ()
    learned: bool = False
    joint: tuple = ()
    nonnegative: dict = field(default_factory=dict)
    clumped: tuple = ()
    n_rows: int | None = None
    data: str | None = None

    def to_json(self) -> str:
        """JSON text; floats keep every bit."""
        own = {f.name: getattr(self, f.name) for f in fields(self)} | {
            "structure": self.structure.to_json(),
            "columns": [c.to_json() for c in self.columns],
            "palette": [[{"family": e.family, **asdict(e)} for e in entries] for entries in self.palette],
        }
        return json.dumps({"format": self.form, **own})

    @classmethod
    def of_fields(cls, stored: dict[str, Any], place: str) -> "NetworkSchema":
        """The schema of fields out of a file; some may be missing, which files of earlier versions do not have."""
        own = {f.name: stored[f.name] for f in fields(cls) if f.name in stored or f.name in REQUIRED} | {
            "structure": RegionTree.from_json(stored["structure"]),
            "columns": tuple(Column.from_json(c) for c in stored["columns"]),
            "palette": tuple(tuple(map(_entry_from_json, entries)) for entries in stored["palette"]),
            "hyperparameters": {
                "covariance_scale": {"fixed": [UNUSED["covariance_scale"]]},
                **stored["hyperparameters"],
            },
            "nonnegative": dict(stored.get("nonnegative", {})),
        }
        schema = cls(**own)
        schema.check()
        return schema

    def check(self) -> None:
        """Refuse what does not fit together, with a ValueError."""
        names = [c.name for c in self.columns]
        if list(self.structure.names) != names or len(self.palette) != len(names):
            refuse("structure, columns and leaf families", f"be of the columns {names}", list(self.structure.names))
        for column, entries in zip(self.columns, self.palette, strict=True):
            if not entries or any(column.kind not in e.kinds for e in entries):
                refuse(
                    f"the leaf families of column {column.name!r}", f"hold families for kind {column.kind!r}", entries
                )
            for entry in entries:
                given = asdict(entry) | {"n_trials": 1}
                shares = given.pop("probabilities", None) or ()
                what, numbers = f"the leaf families of column {column.name!r}", [*given.values(), *shares]
                checked(what, numbers, (len(numbers),))
                if shares and len(shares) != n_levels_of(column):
                    refuse(what, f"be of {n_levels_of(column)} levels", shares)
        tiny = np.finfo(np.float64).tiny
        for name, low in (("resolution", 0.0), ("centre", -np.inf), ("scale", tiny)):
            checked(f"the {name} of the columns", getattr(self, name), (len(names),), low)
        for kind in HYPERPARAMETERS:
            source = self.hyperparameters[kind]
            if "fixed" in source:
                if len(source["fixed"]) not in (1, 2 if kind == "concentration" else len(names)):
                    refuse(kind, "be one number or one for each part", source["fixed"])
                checked(kind, source["fixed"], (None,), tiny)
            elif not isinstance(source["variable"], str):
                refuse(kind, "be a number or the name of a variable", source)
        if self.missing not in ("marginal", "draw") or not isinstance(self.learned, bool):
            refuse("missing and learned", "be 'marginal' or 'draw', and a truth value", (self.missing, self.learned))
        checked("the grid_points of the columns", self.grid_points, (len(names) if self.grid_points else 0,))
        wide = [c.name for c, width in zip(self.columns, self.cell_widths, strict=True) if width > 0.0]
        if any(name not in wide for name in self.rounded):
            refuse("rounded", f"name columns with a recording grid, {wide}", self.rounded)
        for what, named in (("nonnegative", self.nonnegative), ("clumped", self.clumped)):
            if not set(named) <= set(names):
                refuse(what, f"name columns of {names}", list(named))
        widths = [width for width in self.nonnegative.values() if width is not None]
        checked("the widths of nonnegative columns", widths, (len(widths),), 0.0)
        if not isinstance(self.name, str) or not (self.n_rows is None or type(self.n_rows) is int):
            refuse("name and n_rows", "be a string and a whole number or None", (self.name, self.n_rows))

    @cached_property
    def compiled(self):
        """The palette as arrays in the sampler's units."""
        units = np.array(self.centre), np.array(self.scale)
        return compile_palette(
            self.columns, self.palette, np.array(self.resolution), *units, self.rounded, frozenset(self.joint)
        )

    @cached_property
    def rounded_columns(self) -> np.ndarray:
        """Indices of the columns whose values stand for cells."""
        return np.array([d for d, column in enumerate(self.columns) if column.name in self.rounded], np.int64)

    @cached_property
    def cell_widths(self) -> np.ndarray:
        """(D,) float64: of what a value would stand for, rounded; 0 where it is no cell.

        Columns of densities have their recording grid. Counts have 1 beside leaves with masses, which are of every
        whole number, whatever the grid; a grid of 0 says that they are exact.
        """
        grid = np.array(self.resolution)
        widths = np.where(self.compiled.is_density, grid, 0.0)
        widths[self.mixed_columns] = grid[self.mixed_columns] > 0.0
        return widths

    def on_grid(self, d: int, values: Any) -> np.ndarray:
        """Values of a column as a table records them: the nearest points of its grid."""
        point, width = self.grid_points[d] if self.grid_points else 0.0, self.cell_widths[d]
        return np.round((values - point) / width) * width + point + 0.0

    @cached_property
    def zero_widths(self) -> dict[int, float]:
        """By the index of each column without negative values: how far from 0 its values count as 0."""
        number = {column.name: d for d, column in enumerate(self.columns)}
        return {number[c]: width or 0.0 for c, width in self.nonnegative.items()}

    @cached_property
    def lowest(self) -> np.ndarray:
        """(D,) float64: what counts as 0 in columns without negative values, -inf in others."""
        return -np.array([self.zero_widths.get(d, np.inf) for d in range(len(self.columns))])

    @cached_property
    def cut_at_zero(self) -> dict[int, float]:
        """`zero_widths` of the columns whose distributions are cut at 0.

        In others, which are far from 0 or in leaves over several columns, the little mass below 0 counts as 0.
        """
        joint, all_widths = set(self.joint_columns.tolist()), self.zero_widths
        near = {column.name for column in self.columns if self.nonnegative.get(column.name) is not None}
        return {d: w for d, w in all_widths.items() if self.columns[d].name in near and d not in joint}

    def columns_reading(self, reading: int) -> np.ndarray:
        """(D,) bool: columns that have a leaf which reads values so, see `kernel_forms`."""
        c = self.compiled
        return np.logical_or.reduceat(np.isin(c.family, families_with(reading)), c.entry_ptr[:-1])

    @cached_property
    def gaussian_columns(self) -> np.ndarray:
        """Indices of the columns that have a Gaussian or log-normal leaf, and so a shape and a precision ratio."""
        c = self.compiled
        return np.flatnonzero(np.logical_or.reduceat(np.isin(c.family, LOCATED), c.entry_ptr[:-1]))

    @cached_property
    def mixed_columns(self) -> np.ndarray:
        """Indices of the columns of counts with Gaussian leaves, which are rounded, beside leaves with masses."""
        return np.flatnonzero(is_rounded(self.compiled))

    @cached_property
    def joint_columns(self) -> np.ndarray:
        """Indices of the columns that are in leaves over several columns, of the regions that have such leaves."""
        tree, inside = self.structure, joint_regions(self.structure, self.compiled.is_joint)
        return np.unique([d for r in np.flatnonzero(inside) for d in tree.order[tree.begin[r] : tree.end[r]]]).astype(
            int
        )

    def with_joint_leaves(self, asked: Any) -> "NetworkSchema":
        """The schema without leaves over several columns where it cannot have them.

        Raises
        ------
        ValueError
            If they are asked for all the same: ``asked`` is neither "auto" nor None.
        """
        whole = [self.columns[d].name for d in self.rounded_columns if not self.compiled.is_density[d]]
        if asked is None or asked == "auto":
            return self if self.joint_columns.size and not whole else replace(self, joint=())
        if not self.joint_columns.size:
            raise ValueError(
                f"joint_leaves needs a region of 2 to {MOST_COLUMNS} real or positive columns with infinite "
                "n_children: multivariate leaves stand there; the structure has none"
            )
        if whole:
            raise ValueError(
                f"rounded: whole numbers cannot be treated as rounded together with joint_leaves; leave out {whole}"
            )
        return self

    @cached_property
    def filled_cells(self) -> np.ndarray:
        """(D,) bool: columns whose missing cells are drawn where a row is in a leaf over several columns."""
        return np.isin(np.arange(len(self.columns)), self.joint_columns)

    def places_of(self, group: str) -> np.ndarray:
        """Columns that have a hyperparameter; of the concentration the two classes of sum nodes."""
        if group == "concentration":
            return np.arange(2)
        if group == "covariance_scale":
            return self.joint_columns
        return self.gaussian_columns if group in UNUSED else np.arange(len(self.columns))

    def labels_of(self, group: str, length: int) -> tuple[str, list[str] | None]:
        """Dimension and labels of a hyperparameter over so many places; no labels where they are none of its own."""
        if group == "concentration":
            names = ["inner", "univariate"]
        else:
            names = [self.columns[d].name for d in self.places_of(group)]
        if length == len(names):
            return DIMS[group], names
        names = [c.name for c in self.columns]
        return "column", names if length == len(names) and group != "concentration" else None

    def cell_rule(self, d: int) -> str:
        """What an observed cell of a column must be, in words."""
        column = self.columns[d]
        if column.levels is not None:
            return f"a code of its levels, a whole number in 0..{len(column.levels) - 1}"
        if column.kind == "count":
            most = self._most_trials(d)
            return "a whole number of at least 0" + (f" and at most {most:g}" if most < np.inf else "")
        if column.kind == "integer":
            return "a whole number"
        return "finite and at least 0" if column.kind == "positive" else "finite"

    def possible(self, d: int, values: Any) -> np.ndarray:
        """Whether values can be observed cells of a column and of its leaves; NaN cannot."""
        column, x = self.columns[d], np.asarray(values, np.float64)
        fits = np.isfinite(x)
        if column.levels is not None:
            fits &= (x >= 0) & (x < len(column.levels))
        elif column.kind == "count":
            fits &= (x >= 0) & (x <= self._most_trials(d))
        elif column.kind == "positive":
            fits &= x >= 0
        return fits & (np.floor(x) == x) if column.levels is not None or column.kind in WHOLE_KINDS else fits

    def _most_trials(self, d: int) -> float:
        """The largest count that all leaves of a column can hold."""
        return float(min(entry.largest for entry in self.palette[d]))

    def code(self, values: Any) -> np.ndarray:
        """Coded table in the sampler's units."""
        return code_values(self.compiled, values)

    def log_jacobians(self, values: Any) -> np.ndarray:
        """Log density of the coding of each cell (M, D), in nats; 0 where missing."""
        return np.where(np.isnan(values), 0.0, -(self.compiled.is_density * np.log(self.compiled.scale)))

    def full_vector(self, group: str, value: Any) -> np.ndarray:
        """Hyperparameter as the kernels want it, (2,) or (D,), from a scalar or what ``posterior`` holds."""
        size = 2 if group == "concentration" else len(self.columns)
        value = np.asarray(value, np.float64)
        if group in UNUSED and value.ndim == 1 and value.size != size:
            out = np.full(size, UNUSED[group])
            out[self.places_of(group)] = value
            return out
        return np.array(np.broadcast_to(value, size))


def _entry_from_json(fields: Any) -> Any:
    """A palette entry from its family and its numbers."""
    numbers = {k: v for k, v in fields.items() if k != "family"}
    for name, value in numbers.items():
        if name != "probabilities" and type(value) not in (int, float):
            refuse(f"{name} of {fields['family']!r} leaves", "be a number", repr(value))
    return FAMILIES[fields["family"]](**numbers)
