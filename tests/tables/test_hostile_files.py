"""Files that name others, go in circles or state more than they hold are refused before a reader does as they say."""

import os
import struct
import zlib

import h5py
import numpy as np
import pytest
import xarray as xr
from h5py import h5d, h5p, h5s, h5t

import pymc_spn as ps
from pymc_spn.numerics import memory_limits
from pymc_spn.tables import hdf5_contents
from pymc_spn.tables.tree_files import read_tree


def good_tree():
    """Every kind of contents that results have: dimensions, labels, gaps, complex numbers, lists in attributes."""
    data = xr.Dataset(
        {
            "x": (("chain", "draw", "row"), np.arange(24.0).reshape(2, 4, 3)),
            "flag": ("row", [True, False, True]),
            "z": ("row", [1 + 2j, 0j, 3 + 0j]),
            "size": ((), 3),
            "word": (("row", "draw"), np.full((3, 4), "né", object)),
        },
        coords={"row": ["a", "bb", ""], "chain": [0, 1]},
        attrs={"list": ["a", "b"], "empty": "", "none": np.empty(0), "number": 1.5},
    )
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs={"note": "n"}), "posterior": data, "a/b/c": data[["flag"]]})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.nc"
    good_tree().to_netcdf(path, engine="h5netcdf", unlimited_dims={"/posterior": ["draw"]})
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other.create_dataset("x", data=np.arange(8.0), maxshape=(None,))
    (tmp_path / "other.bin").write_bytes(bytes(64))
    return path


def test_what_results_hold_is_read(path):
    xr.testing.assert_identical(read_tree(path), good_tree())


def virtual(file):
    layout = h5py.VirtualLayout((8,), "f8", maxshape=(None,))
    other = os.path.join(os.path.dirname(file.filename), "other.h5")
    source = h5py.VirtualSource(other, "x", (8,), maxshape=(None,))
    layout[0 : h5s.UNLIMITED] = source[0 : h5s.UNLIMITED]
    file.create_virtual_dataset("v", layout)


def external(file):
    other = os.path.join(os.path.dirname(file.filename), "other.bin")
    file.create_dataset("posterior/v", (8,), "f8", external=[(other, 0, 64)])


def link(value):
    return lambda file: file["posterior"].__setitem__("v", value(file) if callable(value) else value)


def array(kind, values=0):
    return lambda file: file.create_dataset("v", (3,), kind, data=None if values == 0 else values)


def attribute(value, kind=None):
    return lambda file: file["posterior/x"].attrs.create("v", value(file) if callable(value) else value, dtype=kind)


def twice_deflated(file):
    how = h5p.create(h5p.DATASET_CREATE)
    how.set_chunk((8,))
    how.set_deflate(4)
    how.set_deflate(4)
    h5d.create(file.id, b"v", h5t.NATIVE_DOUBLE, h5s.create_simple((8,)), how)


def big_part(file):
    file.create_dataset("v", (1,), "f8", maxshape=(None,), chunks=(1 << 28,), compression="gzip")


def bomb(file):
    file.create_dataset("v", (8,), "f8", chunks=(8,), compression="gzip")
    file["v"].id.write_direct_chunk((0,), zlib.compress(bytes(1 << 24)))


def dimension_in_a_group(file):
    scales = file["posterior/x"].attrs["DIMENSION_LIST"]
    scales[1] = np.array([file["posterior"].ref], object)
    file["posterior/x"].attrs.modify("DIMENSION_LIST", scales)


HOSTILE = {
    "virtual": (virtual, r"a\.nc', at '/v': an array must hold its values itself.* other arrays \(a virtual dataset\)"),
    "external": (external, r"at '/posterior/v': an array .* from other files \(external storage\)"),
    "soft": (link(h5py.SoftLink("/posterior/x")), r"at '/posterior/v': links must be hard links, got a soft link"),
    "file": (link(h5py.ExternalLink("other.h5", "/x")), r"links must be hard links, got an external link"),
    "circle": (link(lambda f: f["/"]), r"at '/posterior/v': each object must have one link, and another one led"),
    "group": (link(lambda f: f["a/b"]), r"at '/a/b': each object must have one link"),
    "array": (link(lambda f: f["posterior/x"]), r"at '/posterior/.*': each object must have one link"),
    "regions": (array(h5py.regionref_dtype), r"at '/v': arrays and attributes must hold numbers or texts, got HDF5's"),
    "references": (array(h5py.ref_dtype), r"at '/v': .* numbers or texts, got HDF5's TypeReferenceID"),
    "lists": (array(h5py.vlen_dtype("i4")), r"at '/v': .* got HDF5's TypeVlenID"),
    "enumeration": (array(h5py.enum_dtype({"a": 1})), r"at '/v': .* got HDF5's TypeEnumID"),
    "opaque": (array(np.dtype("V5")), r"at '/v': .* got HDF5's TypeOpaqueID"),
    "fields": (array(np.dtype([("a", h5py.string_dtype()), ("b", "f8")])), r"at '/v': .* got HDF5's TypeCompoundID"),
    "type": (lambda f: f.__setitem__("v", h5py.vlen_dtype("i4")), r"at '/v': .* got HDF5's TypeVlenID"),
    "attribute": (attribute(lambda f: f["posterior"].ref, h5py.ref_dtype), r"at '/posterior/x@v': .* TypeReferenceID"),
    "dimension": (dimension_in_a_group, r"at '/posterior/x@DIMENSION_LIST': references must be to arrays that links"),
    "filters": (twice_deflated, r"at '/v': an array must be compressed once, and this one has the filters \[1, 1\]"),
    "part": (big_part, r"damaged file .* it states arrays of 2\.15e\+09 bytes, and can hold at most"),
    "bomb": (bomb, r"at '/v': a part of this array has 64 bytes, and what is stored of it inflates to more"),
    "texts": (attribute(["a"] * 3000), r"at '/posterior/x@v': an attribute may hold at most .. texts in a file of"),
    "levels": (lambda f: f.create_group("/".join("v" * 5)), r"at '/v(/v)+': groups may lie in each other to a depth"),
    "groups": (lambda f: [f.create_group(f"v{k}") for k in range(8)], r"at '/.*': a file may hold at most 9 groups"),
    "arrays": (
        lambda f: [f.create_dataset(f"v{k}", data=1.0) for k in range(9)],
        r"at '/.*': a file may hold at most 15 arrays",
    ),
    "attributes": (
        lambda f: f.attrs.update({f"v{k}": 1 for k in range(200)}),
        r"at '/@v.*': .* at most 100 attributes",
    ),
}


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(hdf5_contents, "MOST", {"groups": 9, "arrays": 15, "types": 2, "attributes": 100})
    monkeypatch.setattr(hdf5_contents, "MOST_LEVELS", 4)
    monkeypatch.setattr(hdf5_contents, "BYTES_AT_ONCE", 1 << 20)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_contents_are_refused_with_their_place(case, path, small_limits):
    change, message = HOSTILE[case]
    read_tree(path)
    with h5py.File(path, "r+", libver="latest" if case == "attributes" else None) as file:
        change(file)
    for read in (read_tree, ps.load):
        with pytest.raises(ValueError, match=message):
            read(path)


def test_no_other_file_is_opened(path, tmp_path):
    """Opening a pipe that nobody writes to would wait for good."""
    with h5py.File(path, "r+") as file:
        virtual(file)
    (tmp_path / "other.h5").unlink()
    os.mkfifo(tmp_path / "other.h5")
    with pytest.raises(ValueError, match="a virtual dataset"):
        read_tree(path)


def test_parts_that_share_bytes_are_refused(tmp_path):
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("x", (40, 1000), "u1", chunks=(1, 1000))
        file.flush()
        array[...] = 1
        begins = sorted(array.id.get_chunk_info(k).byte_offset for k in range(40))
    raw = path.read_bytes()
    for begin in begins[1:]:
        raw = raw.replace(struct.pack("<Q", begin), struct.pack("<Q", begins[0]))
    end = begins[1]
    path.write_bytes(raw[:40] + struct.pack("<Q", end) + raw[48:end])
    with h5py.File(path) as file:
        assert file["x"][...].sum() == 40000  # HDF5 does as the file says
    with pytest.raises(ValueError, match=r"at '/x': arrays must not share bytes"):
        read_tree(path)


@pytest.mark.parametrize("shape", [(3000,), (100, 30)])
def test_one_text_that_many_places_name_is_refused(shape, tmp_path):
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        texts = file.create_dataset("x", shape, h5py.string_dtype())
        texts[(0,) * len(shape)] = "a" * 100_000
        begin = texts.id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[begin : begin + 16 * 3000] = raw[begin : begin + 16] * 3000
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"damaged file .* it states arrays of .* bytes, and can hold at most"):
        read_tree(path)


@pytest.mark.parametrize("part", [b"", struct.pack("<HHIQ", 1, 1, 0, 2**64 - 16)])
def test_texts_in_which_hdf5_stays_for_good_are_refused(part, path):
    raw = path.read_bytes()
    first = raw.index(b"GCOL") + 16
    path.write_bytes(raw[:first] + part.ljust(16, b"\0") + raw[first + 16 :])
    with pytest.raises(ValueError, match=r"damaged file .*: the collection of texts at byte .* a part of no length"):
        read_tree(path)


def test_arrays_larger_than_memory_are_refused(path, monkeypatch):
    monkeypatch.setattr(memory_limits, "memory_limit", lambda: 1000.0)
    with pytest.raises(
        ValueError, match=r"a\.nc' needs 1.*e-06 gigabytes of memory, more than half .* xr.open_datatree"
    ):
        read_tree(path)
