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
