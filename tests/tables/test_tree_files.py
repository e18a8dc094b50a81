"""What is no netCDF file is refused in words, wherever a path is taken."""

import pytest

import pymc_spn as ps
from pymc_spn.tables.tree_files import read_tree

READERS = (
    read_tree,
    ps.load,
    ps.SPNPosterior.from_idata,
    ps.VariationalPosterior.from_idata,
    ps.TreePosterior.from_idata,
    ps.DagDraws.from_idata,
    ps.GraphDraws.from_idata,
    ps.BeliefNetworkPosterior.from_idata,
)


@pytest.mark.parametrize("read", READERS)
def test_stores_and_other_files_are_named_as_what_they_are(read, tmp_path):
    store, text = tmp_path / "x.zarr", tmp_path / "x.csv"
    store.mkdir()
    text.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"x\.zarr' is a folder, .* netCDF .* Zarr, can be opened by xr.open_datatree"):
        read(store)
    with pytest.raises(ValueError, match=r"x\.csv' is no netCDF-4 file, and paths must be those of netCDF files"):
        read(str(text))
    with pytest.raises(FileNotFoundError, match=r"none\.nc"):
        read(tmp_path / "none.nc")


def test_what_is_no_path_is_refused(tmp_path):
    for path in (b"x.nc", 3, None):
        with pytest.raises(TypeError, match="path must be that of a netCDF file, got"):
            ps.load(path)
