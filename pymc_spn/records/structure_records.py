"""The draws of a structure in a result: declared once for each family, then found, unpacked, checked and written.

A step method records a draw of its structure as one statistic of fixed length, next to a fingerprint of model and data.
In a result these stand in ``sample_stats``, and the schema of the structure in ``constant_data``. Unpacked, they are
the labelled arrays of a group with the structure's name.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprint, fingerprints, model_digest_of
from pymc_spn.tables.stored_arrays import checked, refuse
from pymc_spn.tables.tree_files import chosen_name, draws_of_record, hint_of_groups, read_record

if TYPE_CHECKING:
    import xarray as xr

FIXED = "constant_data", "observed_data"  # where `pm.do` or `pm.observe` puts a variable


@dataclass(frozen=True)
class Field:
    """One array of each draw.

    Parameters
    ----------
    dims : tuple of str
        Dimensions behind those of the draws.
    dtype : dtype or None
        None: integers, of whatever size.
    low, high : float
        Smallest and largest number.
    gaps : bool
        Whether NaN may occur.
    is_optional : bool
        Whether a record may lack it.
    """

    dims: tuple[str, ...]
    dtype: Any
    low: float = -np.inf
    high: float = np.inf
    gaps: bool = False
    is_optional: bool = False

    def read(self, place: str, values: "xr.DataArray", dims: tuple[str, ...], shape: tuple[int | None, ...]) -> Any:
        """The array with its dimensions in order, of this dtype; ValueError if it cannot be that."""
        if set(values.dims) != set(dims):
            refuse(place, f"have the dimensions {list(dims)}", list(values.dims))
        array = values.transpose(*dims).values
        whole, fits = self.dtype is None or np.dtype(self.dtype).kind in "biu", False
        if array.dtype.kind in "biu" and len(shape) == array.ndim:
            fits = all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
            fits = fits and (not array.size or self.low <= array.min() <= array.max() <= self.high)
        if not fits:
            array = checked(place, array, shape, self.low, self.high, whole=whole, gaps=self.gaps)
        return np.ascontiguousarray(array, self.dtype)  # of no dtype: as small as it was stored


@dataclass(frozen=True, eq=False)
class Recorded:
    """All draws of one structure.

    Parameters
    ----------
    schema : StoredSchema
    arrays : dict of (chain, draw, ...) arrays
        By the names of the record's fields.
    chains, draws : (n_chains,) and (n_draws,)
        Labels.
    model_digest : int
        Of the data and constants of the model.
    tree : DataTree
        The result, unpacked.
    """

    schema: Any
    arrays: dict[str, np.ndarray]
    chains: np.ndarray
    draws: np.ndarray
    model_digest: int
    tree: "xr.DataTree"

    def numbers_of(self, source: Mapping[str, Any]) -> np.ndarray | None:
        """Numbers (chain, draw, ...) of a hyperparameter; None where the posterior group does not hold it.

        Parameters
        ----------
        source : mapping
            ``{"fixed": number}`` or ``{"variable": name}``.
        """
        shape = len(self.chains), len(self.draws)
        if "fixed" in source:
            return np.full(shape, source["fixed"])
        variable = source["variable"]
        for group in FIXED:
            if group in self.tree.children and variable in self.tree[group].data_vars:
                return np.full(shape, float(self.tree[group].dataset[variable]))
        return self.of_posterior(variable)

    def needed(self, source: Mapping[str, Any]) -> np.ndarray:
        """As `numbers_of`; ValueError where the posterior group does not hold them."""
        found = self.numbers_of(source)
        if found is None:
            raise ValueError(
                f"a parameter of {self.schema.name!r} is the variable {source['variable']!r}, which the posterior "
                "group does not hold; sample with it among var_names"
            )
        return found

    def of_posterior(self, variable: str) -> np.ndarray | None:
        """Draws (chain, draw, ...) of a variable; None where the posterior group does not hold it."""
        posterior = self.tree.children.get("posterior")
        if posterior is None or variable not in posterior.data_vars:
            return None
        return draws_of_record(posterior.dataset[variable], self.chains, self.draws).values

    def statistics(self) -> "xr.Dataset":
        """Numbers (chain, draw) that the step recorded, without the structure's name before theirs.

        Raises
        ------
        ValueError
            If one is not a single number for each draw.
        """
        import xarray as xr

        prefix, stats = f"{self.schema.name}_", self.tree.children.get("sample_stats")
        found = {}
        for key, values in {} if stats is None else stats.to_dataset().data_vars.items():
            if str(key).startswith(prefix) and key != self.schema.name + FINGERPRINT:
                drawn = draws_of_record(values, self.chains, self.draws)
                if drawn.ndim != 2:
                    refuse(f"variable {key!r} of sample_stats", "have chains and draws alone", drawn.dims)
                found[str(key).removeprefix(prefix)] = ("chain", "draw"), drawn.values
        return xr.Dataset(found, {"chain": self.chains, "draw": self.draws})


class StructureRecord(ABC):
    """Declaration of one family's record; a subclass says what the fields are, and how a statistic becomes them."""

    kinds: ClassVar[str]  # what the structures are, in the plural, for messages
    made_by: ClassVar[str]  # the public names that record them
    suffix: ClassVar[str]  # of the schema, behind the structure's name
    raw: ClassVar[str]  # of the statistic
    raw_dtypes: ClassVar[str]  # letters of the dtypes that it can have
    more_raw: ClassVar[tuple[str, ...]] = ()  # other statistics that become fields
    mark: ClassVar[str]  # a field that the group of an unpacked structure always has
    schema: ClassVar[type[StoredSchema]]
    posterior: ClassVar[str]  # module and class that answers
    remedy: ClassVar[str] = (
        "keep all groups of one result together"  # where the data are others than those of the draws
    )
    draw_dim: ClassVar[str] = "draw"  # dimension of the draws that hold a record

    # ---- what a family declares

    @abstractmethod
    def fields(self, schema: Any) -> dict[str, Field]:
        """Arrays of each draw by their names in the group."""

    @abstractmethod
    def arrays(self, idata: "xr.DataTree", schema: Any, raw: np.ndarray) -> dict[str, np.ndarray]:
        """The fields, from the statistic (chain, draw, ...)."""

    def places(self, idata: "xr.DataTree", schema: Any, n_draws: int) -> np.ndarray:
        """Numbers of the draws at which a record begins."""
        return np.arange(n_draws)

    def labels(self, schema: Any) -> dict[str, Sequence[Any]]:
        """Labels of dimensions of the fields, which then have these sizes."""
        return {}

    def attrs(self, schema: Any) -> dict[str, Any]:
        """Attributes of the group."""
        return {}

    def described(self, idata: "xr.DataTree", name: str) -> tuple[Any, ...]:
        """What the fingerprints of the draws are made of, besides the digest of the model."""
        return (idata["constant_data"].dataset[name + self.suffix].values,)

    def compared(self, recorded: Recorded) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
        """Numbers of draws by the arrays, and as the step recorded them: arguments of `refuse_other_order`."""
        return []

    def parts(self, idata: "xr.DataTree", name: str) -> list[str]:
        """Names of other structures that are read with it."""
        return []

    # ---- what follows

    def names(self, idata: "xr.DataTree") -> list[str]:
        """Names of the structures whose draws a result holds, unpacked or not."""
        constants, stats = idata.children.get("constant_data"), idata.children.get("sample_stats")
        if constants is None:
            return []
        found = [str(v).removesuffix(self.suffix) for v in constants.data_vars if str(v).endswith(self.suffix)]
        recorded = () if stats is None else stats.data_vars
        return [n for n in found if n + self.raw in recorded or self.is_unpacked(idata, n)]

    def is_unpacked(self, idata: "xr.DataTree", name: str) -> bool:
        """Whether the draws stand in a group of the structure's name."""
        group = idata.children.get(name)
        return group is not None and self.mark in group.data_vars

    def chosen(self, idata: "xr.DataTree", name: str | None) -> str:
        """The name that was asked for, or the only one; ValueError if there is no such."""
        nothing = f"no draws of a {self.made_by}: no variable <name>{self.suffix} with draws <name>{self.raw}"
        return chosen_name(self.names(idata), name, idata, self.kinds, nothing)

    def read_schema(self, idata: "xr.DataTree", name: str) -> Any:
        """The schema of a structure; ValueError if it is none."""
        stored = idata["constant_data"].dataset[name + self.suffix].values
        return self.schema.from_vector(stored, f"variable {name + self.suffix!r} of constant_data")

    def unpack(self, idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
        """The result with one structure as labelled arrays in a group of its name, in place of the raw record.

        Parameters
        ----------
        idata : DataTree
            Not changed.
        name : str, optional
            The structure, where there are several.

        Raises
        ------
        ValueError
            If there is none, or several and no name is given, or what is recorded was drawn given other data.
        """
        import xarray as xr

        name, out = self.chosen(idata, name), idata.copy()
        if self.is_unpacked(idata, name):
            return out
        schema, stats = self.read_schema(idata, name), idata["sample_stats"].to_dataset()
        record = read_record(stats[name + self.raw], self.raw_dtypes)
        marks = fingerprints(stats, name + FINGERPRINT)
        model_digest_of(marks, f"{name!r} of sample_stats", *self.described(idata, name), remedy=self.remedy)
        places, arrays = self.places(idata, schema, record.shape[1]), self.arrays(idata, schema, record.values)
        raw = [f"{name}{suffix}" for suffix in (self.raw, FINGERPRINT, *self.more_raw)]
        out["sample_stats"] = xr.DataTree(without_records(stats, *(v for v in raw if v in stats)))
        labels = label_of(record, "chain"), label_of(record, "draw")[places]
        out[name] = xr.DataTree(self.group(schema, arrays, *labels, marks.transpose("chain", "draw").values[:, places]))
        return out

    def read(self, idata: "xr.DataTree", name: str | None = None) -> Recorded:
        """All draws of one structure, checked.

        Raises
        ------
        ValueError
            As `unpack`, or if an array cannot be what the family declares.
        """
        name = self.chosen(idata, name)
        tree = self.unpack(idata, name)
        schema, group = self.read_schema(tree, name), tree[name].dataset
        record = read_record(group[self.mark], "biuf" if self.fields(schema)[self.mark].gaps is False else "f")
        chains, draws = (label_of(record, d) for d in ("chain", "draw"))
        marks = fingerprints(group, UNPACKED)
        digest = model_digest_of(marks, f"the group {name!r}", *self.described(tree, name), remedy=self.remedy)
        labels, arrays = self.labels(schema), {}
        for key, field in self.fields(schema).items():
            place = f"variable {key!r} of {name}"
            if key not in group:
                if not field.is_optional:
                    refuse(place, "be there", "none")
                continue
            shape = (len(chains), len(draws), *(len(labels[d]) if d in labels else None for d in field.dims))
            arrays[key] = field.read(place, group[key], ("chain", "draw", *field.dims), shape)
        recorded = Recorded(schema, arrays, chains, draws, digest, tree)
        for what, found, told in self.compared(recorded):
            refuse_other_order(recorded, what, found, told)
        return recorded

    def with_log_joints(self, idata: "xr.DataTree") -> list[tuple[Recorded, np.ndarray]]:
        """All structures of a result with their log joints (chain, draw), by which a model recognises each draw.

        Raises
        ------
        ValueError
            If there are none, or the posterior group lacks a ``<name>_log_joint``.
        """
        names, found = self.names(idata), []
        if not names:
            raise ValueError(f"idata holds no draws of a {self.made_by}{hint_of_groups(idata)}")
        for name in names:
            recorded, variable = self.read(idata, name), f"{name}_log_joint"
            if (drawn := recorded.of_posterior(variable)) is None:
                raise ValueError(f"the posterior group of idata lacks {variable!r}; sample with it among var_names")
            found.append((recorded, drawn))
        return found

    def group(
        self, schema: Any, arrays: Mapping[str, np.ndarray], chains: Any, draws: Any, marks: np.ndarray
    ) -> "xr.Dataset":
        """The group of a structure; ``marks`` (chain, draw) are the fingerprints of the draws."""
        import xarray as xr

        fields, labels = self.fields(schema), self.labels(schema)
        dims = "chain", self.draw_dim
        data: dict[str, Any] = {key: ((*dims, *fields[key].dims), array) for key, array in arrays.items()}
        used = {d for key in arrays for d in fields[key].dims}
        coords = {"chain": chains, "draw": (self.draw_dim, draws)}
        coords |= {d: list(own) for d, own in labels.items() if d in used}
        return xr.Dataset(data | {UNPACKED: (dims, marks)}, coords, self.attrs(schema))

    def marked(self, post: Any, arrays: Mapping[str, np.ndarray], *parts: Any) -> "xr.Dataset":
        """The group of the draws of a posterior object, with fingerprints made again."""
        mark = fingerprint(post.model_digest, *(parts or (post.schema.to_vector(),)))
        chains, draws = post._labels.values()
        return self.group(post.schema, arrays, chains, draws, np.full((len(chains), len(draws)), mark))


def refuse_other_order(
    recorded: Any, what: str, found: np.ndarray, told: np.ndarray | None, tolerance: float = 1e-5
) -> None:
    """Refuse draws of which the arrays say one number and the step recorded another one.

    Parameters
    ----------
    recorded : Recorded
        Or anything with its ``schema``, ``chains`` and ``draws``.
    what : str
        The number.
    found : (n_chains, n) float64
        Of the first draws of each chain, by the arrays.
    told : (n_chains, n_draws) float64, optional
        As it was recorded.
    tolerance : float
        Relative, of numbers above 1. By default for single precision, in which PyMC may keep them.
    """
    if told is None:
        return
    other = np.abs(told[:, : found.shape[1]] - found) > tolerance * np.maximum(1.0, np.abs(found))
    if other.any():
        c, t = map(int, np.argwhere(other)[0])
        refuse(
            f"the draws of {recorded.schema.name!r}",
            f"stand in the order of their labels: {what} {told[c, t]:g} was recorded at chain {recorded.chains[c]}, "
            f"draw {recorded.draws[t]}",
            f"one of {found[c, t]:g}",
        )


def label_of(record: "xr.DataArray", dimension: str) -> np.ndarray:
    """Labels of a dimension, or places where it has none."""
    size = record.sizes[dimension]
    return np.asarray(record[dimension].values) if dimension in record.coords else np.arange(size)


def without_records(stats: "xr.Dataset", *variables: str) -> "xr.Dataset":
    """Sampler statistics without raw records and the dimensions that are theirs alone."""
    dims = [d for v in variables for d in stats[v].dims if d not in ("chain", "draw")]
    return stats.drop_vars(list(variables)).drop_dims(dims, errors="ignore")
