"""What is no netCDF file is refused in words, wherever a path is taken; files are written whole or not at all."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr
from interrupts import outcomes_of_interrupts

import pymc_spn as ps
from pymc_spn.tables.saved_files import check_bytes, save_tree
from pymc_spn.tables.tree_files import read_tree

CHECKOUT = Path(__file__).parents[2]

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
    with pytest.raises(ValueError, match=r"x\.csv' is not a netCDF-4 file, and paths must be those of netCDF files"):
        read(str(text))
    with pytest.raises(FileNotFoundError, match=r"none\.nc"):
        read(tmp_path / "none.nc")


def test_what_is_no_path_is_refused(tmp_path):
    for path in (b"x.nc", 3, None):
        with pytest.raises(TypeError, match="path must be that of a netCDF file, got"):
            ps.load(path)


def tree_of(number):
    rows = xr.Dataset({"x": ("row", np.full(2000, float(number)))}, coords={"row": [f"r{i}" for i in range(2000)]})
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs={"note": number}), "rows": rows})


def test_a_saved_tree_comes_back_and_the_tree_is_not_changed(tmp_path):
    path = tmp_path / "a.nc"
    for number in (1, 2):
        tree = tree_of(number)
        save_tree(tree, path)
        xr.testing.assert_identical(tree, tree_of(number))
        xr.testing.assert_identical(read_tree(str(path)), tree)
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]
    assert check_bytes(path)
    with xr.open_datatree(path) as opened:  # for any other reader it is an ordinary netCDF-4 file
        assert opened["rows"]["x"].values[0] == 2.0


FULL_DISK = """
import resource, signal, sys
import numpy as np, xarray as xr
from pymc_spn.tables.saved_files import save_tree
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
tree = xr.DataTree(xr.Dataset({"x": ("row", np.ones(2000))}))
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
try:
    save_tree(tree, sys.argv[1])
except OSError as error:
    print("alive", error.errno, error.filename == sys.argv[1])
"""


def test_a_full_disk_leaves_the_process_and_the_old_file(tmp_path):
    pytest.importorskip("resource")
    path = tmp_path / "a.nc"
    save_tree(tree_of(1), path)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False, cwd=CHECKOUT
    )
    assert (done.returncode, done.stdout.split()) == (0, ["alive", str(errno.EFBIG), "True"]), done.stderr
    xr.testing.assert_identical(read_tree(path), tree_of(1))
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


@pytest.mark.parametrize("what", ["write", "replace", "interrupt"])
def test_whatever_fails_the_old_file_is_there_and_no_other(what, tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    save_tree(tree_of(1), path)

    def fail(*args):
        raise KeyboardInterrupt if what == "interrupt" else OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace" if what == "replace" else "fsync", fail)
    with pytest.raises(KeyboardInterrupt if what == "interrupt" else OSError) as caught:
        save_tree(tree_of(2), path)
    if what != "interrupt":
        assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    monkeypatch.undo()
    xr.testing.assert_identical(read_tree(path), tree_of(1))
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_ctrl_c_while_a_file_is_written_or_read(tmp_path):
    """xarray runs Python code when objects are deleted, where a KeyboardInterrupt is lost."""
    path = tmp_path / "a.nc"
    many = xr.DataTree(xr.Dataset({f"x{k}": (f"d{k}", np.ones(2)) for k in range(60)}))
    save_tree(many, path)

    def again_and_again(begin):
        xr.testing.assert_identical(read_tree(path), many)  # after the interrupt before, too
        begin()
        while True:
            save_tree(many, path)
            read_tree(path)

    outcomes = outcomes_of_interrupts(again_and_again, np.linspace(0.0, 0.5, 12))
    assert [outcome for outcome, _ in outcomes] == ["KeyboardInterrupt"] * 12
    assert max(seconds for _, seconds in outcomes) < 2.0
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_a_file_is_replaced_as_if_it_were_written_over(tmp_path):
    path, link = tmp_path / "a.nc", tmp_path / "link.nc"
    save_tree(tree_of(1), path)
    path.chmod(0o640)
    link.symlink_to(path)
    save_tree(tree_of(2), link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    xr.testing.assert_identical(read_tree(path), tree_of(2))
    (tmp_path / "plain").touch()
    save_tree(tree_of(1), tmp_path / "new.nc")
    assert (tmp_path / "new.nc").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with pytest.raises(FileNotFoundError, match=r"none.a\.nc"):
        save_tree(tree_of(1), tmp_path / "none" / "a.nc")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        save_tree(tree_of(1), tmp_path)
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        save_tree(tree_of(1), "/dev/full")
    with pytest.raises(TypeError, match="path must be that of a netCDF file, got 3"):
        save_tree(tree_of(1), 3)


def test_changed_bytes_are_a_damaged_file(tmp_path):
    path = tmp_path / "a.nc"
    save_tree(tree_of(1), path)
    good = path.read_bytes()
    message = r"damaged file '.*a\.nc'"
    rng = np.random.default_rng(1)
    for place in [*rng.integers(0, len(good), 200), 0, len(good) - 1, len(good) - 2, len(good) - 70]:
        changed = bytearray(good)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=message):
            read_tree(path)
    for size in [*rng.integers(0, len(good), 30), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match=message if size > 8 else "is not a netCDF-4 file"):
            read_tree(path)
    path.write_bytes(good[:-3000] + bytes(3000))
    with pytest.raises(ValueError, match=message):
        read_tree(path)
    path.write_bytes(good)
    xr.testing.assert_identical(read_tree(path), tree_of(1))


def test_a_file_that_was_written_again_is_not_what_was_saved(tmp_path):
    path = tmp_path / "a.nc"
    save_tree(tree_of(1), path)
    with h5py.File(path, "r+") as file:
        file["rows/x"][3] = 7.0
    with pytest.raises(ValueError, match=r"damaged file '.*a\.nc': the checksum that it was saved with is gone"):
        read_tree(path)
    tree = xr.load_datatree(path, engine="h5netcdf")
    del tree.attrs["checksum"]
    tree.to_netcdf(path, engine="h5netcdf")
    assert read_tree(path)["rows"]["x"].values[3] == 7.0


def test_arrays_larger_than_the_file_can_hold_are_refused_before_memory_is_asked_for(tmp_path):
    path = tmp_path / "a.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"n": 1 << 40}
        file.create_variable("x", ("n",), "f8", chunks=(1 << 16,), compression="gzip")
    with pytest.raises(ValueError, match=r"damaged file .* it states arrays of 8\.8e\+12 bytes, and can hold at most"):
        read_tree(path)
