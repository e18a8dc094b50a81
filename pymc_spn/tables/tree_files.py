"""Trees of data in files, read so that nothing of them is left there."""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


def read_tree(path: "str | PathLike[str]") -> "xr.DataTree":
    """All that a netCDF file holds, in memory; the file is closed and may be written again.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    DataTree
    """
    import xarray as xr

    with xr.open_datatree(path, engine="h5netcdf") as tree:
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
