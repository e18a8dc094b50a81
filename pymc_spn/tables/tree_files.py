"""Trees of data in files, read so that nothing of them is left there."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


@contextmanager
def open_tree(path: "str | PathLike[str]") -> "Iterator[xr.DataTree]":
    """A netCDF file as a tree, closed at the end.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    TypeError
        If it is no path.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no netCDF-4 file, but a folder (a Zarr store, say) or something else.
    """
    import xarray as xr

    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be that of a netCDF file, got {path!r}")
    try:
        tree = xr.open_datatree(path, engine="h5netcdf")
    except (FileNotFoundError, PermissionError):
        raise  # these say what is wrong
    except OSError as error:
        kind = "a folder" if isinstance(error, IsADirectoryError) else "no netCDF-4 file"
        raise ValueError(
            f"{fspath(path)!r} is {kind}, and paths must be those of netCDF files; a result in another format, such as "
            "Zarr, can be opened by xr.open_datatree, and from_idata takes the tree"
        ) from error
    with tree:
        yield tree


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
    TypeError, FileNotFoundError, ValueError
        As for `open_tree`.
    """
    with open_tree(path) as tree:
        # DataTree.load passes over variables that have the name of a group (xarray 2026.9), as observed_data/<name> has
        # that of /<name>, and reading one later would open the file again, for good
        for node in tree.subtree:
            for variable in node.variables.values():
                variable.load()
    return tree


def check_dimensions(array: "xr.DataArray") -> None:
    """Refuse draws that were selected by one number: records are read by chain and draw.

    Raises
    ------
    ValueError
        If a dimension is missing.
    """
    for dimension in ("chain", "draw"):
        if dimension not in array.dims:
            raise ValueError(
                f"{array.name!r} must have the dimensions chain and draw, got {list(array.dims)}; select by a list, "
                f"as in idata.sel({dimension}=[0])"
            )
