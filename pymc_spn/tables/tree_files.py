"""Trees of data as a posterior object takes them: from files, which are not touched again, and from memory."""

from contextlib import contextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.interrupts import call_beside
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.fingerprints import AGAIN, BY_LISTS, GAPS
from pymc_spn.tables.saved_files import CHECKSUM, NO_NETCDF, check_bytes, refuse_file, refusing_damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import xarray as xr

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WHOLE = (
    "pass the whole result of pm.sample: az.thin and az.extract return one group alone, and "
    "idata.isel(draw=slice(None, None, 10)) keeps every tenth draw of all groups"
)


def read_tree(path: "str | PathLike[str]") -> "xr.DataTree":
    """All that a netCDF file holds, in memory; the file is closed and may be written again.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    DataTree

    Raises
    ------
    TypeError
        If it is not a path.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a netCDF-4 file, but a folder (a Zarr store, say) or something else. If it is damaged: its bytes
        are not those that its checksum was made of, or HDF5 cannot read them. If it holds what
        `hdf5_contents.check_contents` refuses, as links to other files.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be that of a netCDF file, got {quoted(path)}")
    has_checksum = check_bytes(path)
    with open(path, "rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise ValueError(f"{fspath(path)!r} is not a netCDF-4 file, and {NO_NETCDF}")
    try:
        tree = call_beside(_in_memory, path)  # a KeyboardInterrupt within it is lost
    except (ImportError, MemoryError, FileNotFoundError, PermissionError, Warning):
        raise  # these say what is wrong
    except Exception as error:
        if type(error) is ValueError and fspath(path) in str(error):
            raise
        refuse_file(path, f"HDF5 cannot read it ({error})", error)
    if tree.attrs.pop(CHECKSUM, None) is not None and not has_checksum:
        refuse_file(
            path,
            "the checksum that it was saved with is gone. If xr.load_datatree read it, and you wrote it again, do so "
            f"without the attribute {CHECKSUM!r} of the tree: nothing is compared then",
        )
    return tree


def _in_memory(path: "str | PathLike[str]") -> "xr.DataTree":
    import xarray as xr

    from pymc_spn.tables.hdf5_contents import check_contents

    check_contents(path)  # without it, h5netcdf leaves a second error behind at damage, which Python prints
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        # DataTree.load passes over variables that have the name of a group (xarray 2026.9), as
        # observed_data/<name> has that of /<name>, and reading one later would open the file again, for good
        for node in tree.subtree:
            for variable in node.variables.values():
                variable.load()
    return tree


@contextmanager
def reading(source: Any) -> "Iterator[xr.DataTree]":
    """A result or file by `read_results`, with whatever its readers stumble over as a ValueError that names the file.

    Parameters
    ----------
    source : DataTree or path

    Raises
    ------
    TypeError, FileNotFoundError, ValueError
        As `read_results` says; ValueError if it is damaged.
    """
    tree = read_results(source)
    with refusing_damage(source):
        yield tree


def read_results(idata: Any) -> "xr.DataTree":
    """Return a result of ``pm.sample``, or of its file, as a tree whose data and schemas stand there once.

    ``xr.concat`` of several results, chain after chain, repeats the groups that have no chains, too. A chain or a draw
    that was selected by its number, as in ``idata.sel(chain=0)``, is one chain or one draw again.

    Parameters
    ----------
    idata : DataTree or path
        Not changed.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If data or schemas differ between chains or draws, or as `read_tree` says.
    """
    import xarray as xr

    if isinstance(idata, str | PathLike):
        idata = read_tree(idata)
    if not isinstance(idata, xr.DataTree):
        more = f"; {WHOLE}" if isinstance(idata, xr.Dataset | xr.DataArray) else ""
        raise TypeError(
            "idata must be the DataTree that pm.sample returned, or the path of its netCDF file, got "
            f"{type(idata)}{more}"
        )
    idata = with_sample_dimensions(idata)
    for group in ("constant_data", "observed_data"):
        if group not in idata.children:
            continue
        data = idata[group].to_dataset()
        repeated = [d for d in ("chain", "draw") if d in data.dims]
        once = data.isel(dict.fromkeys(repeated, 0), drop=True)
        for name, values in data.data_vars.items():
            # schemas of two lengths are aligned with gaps at the end
            is_padded = str(name).endswith("_schema") and bool(values.isnull().any())
            if is_padded or not once[name].variable.broadcast_equals(values.variable):
                raise ValueError(
                    f"variable {name!r} of {group} must be the same for all chains and draws. These are results of "
                    "different models or data, or of one table whose rows stand in another order or have other "
                    "labels, and not draws of one posterior; " + AGAIN
                )
        if repeated:
            idata = idata.copy()
            idata[group] = xr.DataTree(once)
    return idata


def with_sample_dimensions(idata: "xr.DataTree") -> "xr.DataTree":
    """Return results in which a chain or draw that was selected by one number has its dimension again."""
    import xarray as xr

    out = idata
    for group, node in idata.children.items():
        data = node.to_dataset()
        lost = [d for d in ("draw", "chain") if d in data.coords and data[d].ndim == 0]
        if lost:
            out = idata.copy() if out is idata else out
            for dimension in lost:
                data = data.expand_dims(dimension)
            out[group] = xr.DataTree(data.transpose("chain", "draw", ..., missing_dims="ignore"))
    return out


def hint_of_groups(idata: "xr.DataTree") -> str:
    """Return what to do about results without the groups that `pm.sample` writes, for the end of a message."""
    return "" if "constant_data" in idata.children else f"; {WHOLE}"


def chosen_name(names: "Iterable[str]", name: str | None, idata: "xr.DataTree", kind: str, nothing: str) -> str:
    """The name that was asked for, or the only one.

    Parameters
    ----------
    names : iterable of str
        Of what a tree of data holds.
    name : str or None
    idata : DataTree
    kind : str
        What they are, in the plural.
    nothing : str
        What the tree lacks if there are none.

    Raises
    ------
    ValueError
        If there are none, several and no name is given, or none of that name.
    """
    names = sorted(names)
    if not names:
        raise ValueError(f"the result holds {nothing}{hint_of_groups(idata)}")
    if name is None and len(names) > 1:
        raise ValueError(f"the result holds several {kind}. Choose one with name=, one of {quoted(names)}")
    if name is not None and name not in names:
        raise ValueError(f"name must be one of {quoted(names)}, got {quoted(name)}")
    return names[0] if name is None else name


def read_record(record: "xr.DataArray", kinds: str) -> "xr.DataArray":
    """What was recorded of each draw as (chain, draw, ...).

    Parameters
    ----------
    record : DataArray
    kinds : str
        Kinds of dtypes that it can have, as NumPy names them by letters.

    Raises
    ------
    ValueError
        If a dimension is missing, as where draws were selected by one number, or there are no draws, or gaps.
    """
    for dimension in ("chain", "draw"):
        if dimension not in record.dims:
            raise ValueError(
                f"{record.name!r} must have the dimensions chain and draw, got {list(record.dims)}; " + BY_LISTS
            )
        if not record.sizes[dimension]:
            raise ValueError(f"{record.name!r} must hold at least one draw of one chain, got no {dimension}")
    if record.dtype.kind not in kinds or record.isnull().any():
        raise ValueError(
            f"{record.name!r} must hold a record of every chain and draw, got gaps or what had them (dtype "
            f"{record.dtype}), {GAPS}"
        )
    return record.transpose("chain", "draw", ...)


def draws_of_record(values: "xr.DataArray", chains: Any, draws: Any) -> "xr.DataArray":
    """Draws of a variable as (chain, draw, ...), where they are those of a record.

    Parameters
    ----------
    values : DataArray
        Of the group ``posterior``.
    chains, draws : (n_chains,) and (n_draws,) arrays
        Labels of the record.

    Raises
    ------
    ValueError
        If they are others, as where draws were selected from one group alone, or hold no numbers.
    """
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{values.name!r} must hold numbers, got the dtype {values.dtype}; the results were altered")
    for dimension, labels in (("chain", chains), ("draw", draws)):
        there = values[dimension].values if dimension in values.coords else np.arange(values.sizes.get(dimension, 0))
        if len(there) != len(labels) or (dimension in values.coords and not np.array_equal(there, labels)):
            raise ValueError(
                f"{values.name!r} must have the labels of dimension {dimension!r} that the record in "
                f"sample_stats has, {_few(labels)}, got {_few(there)}; select draws of all groups together, as in "
                "idata.isel(draw=slice(100, None))"
            )
    return values.transpose("chain", "draw", ...)


def _few(labels: Any) -> str:
    shown = ", ".join(map(str, labels[:3]))
    return f"[{shown}, ...] ({len(labels)})" if len(labels) > 3 else f"[{shown}]"
