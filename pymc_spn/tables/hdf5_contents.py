"""What an HDF5 file says of itself, looked at before a reader of netCDF does what it says.

HDF5 lets a file name other files whose bytes it gives out as its own, lets a group hold itself, and states sizes that
it does not hold. Nothing here opens another file or reads an array of numbers.
"""

import math
import mmap
import os
import re
import struct
import zlib
from os import PathLike, fspath
from typing import Any, NoReturn

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5r, h5t, h5z

from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.saved_files import refuse_file

MOST_INFLATED = 1032  # bytes for each one that is stored, the most that deflate can make
MOST = {"groups": 1_000, "arrays": 20_000, "types": 1_000, "attributes": 200_000}
MOST_LEVELS = 16  # of groups within groups
BYTES_A_TEXT = 64  # of Python, and of a pointer to it, besides its characters
BYTES_AT_ONCE = 2**30  # of texts that are read to be measured, if each were as long as the file
FEWEST_AT_ONCE = 64
HEAP = re.compile(rb"GCOL\x01(?=...(.{8}))", re.DOTALL)  # the begin of a collection, with its length
SMALLEST_HEAP = 4096
PART_OF_HEAP = struct.Struct("<H6xQ")  # number of a text, 0 for free space, and its length
BYTES_OF_FLETCHER = 4  # of a checksum that may be deflated with the values
TIES: dict[bytes, Any] = {  # attributes by which netCDF-4 ties arrays to their dimensions, with tests of their types
    b"DIMENSION_LIST": lambda kind: kind.get_class() == h5t.VLEN and kind.get_super().equal(h5t.STD_REF_OBJ),
    b"REFERENCE_LIST": lambda kind: (
        kind.get_class() == h5t.COMPOUND
        and kind.get_nmembers() == 2
        and kind.get_member_type(0).equal(h5t.STD_REF_OBJ)
        and kind.get_member_class(1) == h5t.INTEGER
    ),
}
LINKS = {
    h5l.TYPE_SOFT: "a soft link (the path of another object)",
    h5l.TYPE_EXTERNAL: "an external link (an object of another file)",
}
OWN_VALUES = "an array must hold its values itself, and this one takes them from other {} ({})"


def check_contents(path: "str | PathLike[str]") -> None:
    """Refuse an HDF5 file that reads others, goes in circles, or states more than it can hold.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    ValueError
        It names the file, the place in it and the rule. Links must be hard, one to each object. Arrays must lie in
        the file and hold numbers or texts. References must be those of netCDF's dimensions, to arrays. What is stated
        must be no more than `MOST`, `MOST_LEVELS`, the file's size inflated, and half of the memory.
    """
    _refuse_endless_heaps(path)
    with h5py.File(path, "r") as file:
        _Contents(path).walk(file.id)


def _refuse_endless_heaps(path: "str | PathLike[str]") -> None:
    """Look at the collections that hold texts: at a part of no length HDF5 2.0 stays for good."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        n_left = len(raw)
        for found in HEAP.finditer(raw):
            place, end = found.start() + PART_OF_HEAP.size, found.start() + int.from_bytes(found[1], "little")
            if not found.start() + SMALLEST_HEAP <= end <= len(raw):
                continue  # HDF5 refuses it, or it is no collection
            n_left -= end - found.start()
            while place + PART_OF_HEAP.size <= end:
                index, size = PART_OF_HEAP.unpack_from(raw, place)
                length = (PART_OF_HEAP.size + -(-size // 8) * 8 if index else size) % 2**64
                if not length or n_left < 0:
                    refuse_file(
                        path,
                        f"the collection of texts at byte {found.start():,} has a part of no length, or is not alone",
                    )
                place += length


class _Contents:
    """A walk from object to object, by addresses."""

    def __init__(self, path: "str | PathLike[str]") -> None:
        self.path = path
        self.place = "/"
        self.size = os.path.getsize(path)
        self.n_at_once = max(FEWEST_AT_ONCE, BYTES_AT_ONCE // self.size)
        self.stated = 0  # bytes that arrays and texts take in memory
        self.stored = 0  # bytes of the file in parts of arrays
        self.n = dict.fromkeys(MOST, 0)
        self.arrays: set[int] = set()  # their addresses
        self.references: list[tuple[str, Any]] = []

    def refuse(self, rule: str) -> NoReturn:
        raise ValueError(f"{fspath(self.path)!r}, at {quoted(self.place)}: {rule}")

    def count(self, what: str) -> None:
        self.n[what] += 1
        if self.n[what] > MOST[what]:
            self.refuse(f"a file may hold at most {MOST[what]:,} {what}")

    def state(self, n_bytes: int) -> None:
        """Refuse, before memory is asked for, what is larger than the file can hold when it is inflated."""
        self.stated += n_bytes
        most = MOST_INFLATED * self.size
        if self.stated > most:
            refuse_file(self.path, f"it states arrays of {self.stated:.3g} bytes, and can hold at most {most:.3g}")
        refuse_memory(f"{fspath(self.path)!r}", self.stated, "read a part of it with xr.open_datatree, and pass that")

    def walk(self, file: Any) -> None:
        seen: set[int] = set()
        waiting = [("/", 0, h5g.open(file, b"/"))]
        while waiting:
            self.place, level, found = waiting.pop()
            address = h5o.get_info(found).addr
            if address in seen:
                self.refuse("each object must have one link, and another one led to this already")
            seen.add(address)
            self.look_at_attributes(found)
            if isinstance(found, h5g.GroupID):
                waiting += self.members(found, self.place.rstrip("/"), level + 1)
            elif isinstance(found, h5d.DatasetID):
                self.arrays.add(address)
                self.look_at_array(found)
            else:
                self.count("types")
                self.look_at_type(found)
        for place, reference in self.references:
            self.place = place
            if not reference or h5o.get_info(h5r.dereference(reference, file)).addr not in self.arrays:
                self.refuse("references must be to arrays that links lead to")

    def members(self, group: Any, within: str, level: int) -> list[tuple[str, int, Any]]:
        self.count("groups")
        if level > MOST_LEVELS:
            self.refuse(f"groups may lie in each other to a depth of {MOST_LEVELS}")
        links: list[tuple[bytes, int]] = []

        def note(name: bytes, info: Any) -> bool | None:
            links.append((name, info.type))
            return len(links) > sum(MOST.values()) or None

        group.links.iterate(note, info=True)
        members = []
        for name, kind in links:
            self.place = f"{within}/{_shown(name)}"
            if kind != h5l.TYPE_HARD:
                self.refuse(f"links must be hard links, got {LINKS.get(kind, 'one of a kind of its own')}")
            if b"/" in name:
                self.refuse("names must not hold '/'")
            members.append((self.place, level, h5o.open(group, name)))
        return members

    def look_at_array(self, array: Any) -> None:
        self.count("arrays")
        how = array.get_create_plist()
        if how.get_layout() == h5d.VIRTUAL:  # before its shape, for which HDF5 opens the others
            self.refuse(OWN_VALUES.format("arrays", "a virtual dataset"))
        if how.get_external_count():
            self.refuse(OWN_VALUES.format("files", "external storage"))
        filters = [how.get_filter(k)[0] for k in range(how.get_nfilters())]
        if len([f for f in filters if f not in (h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)]) > 1:
            self.refuse(f"an array must be compressed once, and this one has the filters {filters}")
        kind = array.get_type()
        is_text = self.look_at_type(kind)
        shape = array.shape or ()
        n_chunk = math.prod(how.get_chunk()) * kind.get_size() if how.get_layout() == h5d.CHUNKED else 0
        self.state(max(math.prod(shape) * kind.get_size(), n_chunk))
        if how.get_layout() == h5d.CHUNKED:
            self.look_at_parts(array, n_chunk, h5z.FILTER_DEFLATE in filters)
        if is_text and array.shape is not None:
            values = h5py.Dataset(array)
            for row in np.ndindex(shape[:-1]):
                for begin in range(0, shape[-1] if shape else 1, self.n_at_once):
                    self.measure(values[(*row, slice(begin, begin + self.n_at_once)) if shape else ()])

    def look_at_parts(self, array: Any, n_bytes: int, are_deflated: bool) -> None:
        """Refuse bytes that are inflated again and again, and those that become more than a part of the array."""
        long = []

        def note(part: Any) -> bool | None:  # an exception from within HDF5 would be lost
            self.stored += part.size
            if are_deflated and MOST_INFLATED * part.size > BYTES_AT_ONCE:
                long.append(part.chunk_offset)
            return self.stored > self.size or None

        array.chunk_iter(note)
        if self.stored > self.size:
            self.refuse("arrays must not share bytes, and the parts up to here have more than the file")
        most = n_bytes + BYTES_OF_FLETCHER
        for place in long:
            if len(zlib.decompressobj().decompress(array.read_direct_chunk(place)[1], most + 1)) > most:
                self.refuse(f"a part of this array has {n_bytes:,} bytes, and what is stored of it inflates to more")

    def measure(self, texts: Any) -> None:
        """Count texts, of which a file may name one many times."""
        self.state(sum(BYTES_A_TEXT + len(text) for text in np.ravel(np.asarray(texts, object))))

    def look_at_type(self, kind: Any) -> bool:
        """Whether it is that of texts of any length, which lie elsewhere in the file."""
        if kind.get_class() == h5t.STRING:
            return kind.is_variable_str()
        is_complex = kind.get_class() == h5t.COMPOUND and all(
            kind.get_member_class(k) == h5t.FLOAT for k in range(kind.get_nmembers())
        )
        if not is_complex and kind.get_class() not in (h5t.INTEGER, h5t.FLOAT):
            self.refuse(f"arrays and attributes must hold numbers or texts, got HDF5's {type(kind).__name__}")
        return False

    def look_at_attributes(self, found: Any) -> None:
        place = self.place
        names: list[bytes] = []

        def note(name: bytes) -> bool | None:
            names.append(name)
            return self.n["attributes"] + len(names) > MOST["attributes"] or None

        h5a.iterate(found, note)
        for name in names:
            self.place = f"{place}@{_shown(name)}"
            self.count("attributes")
            self.look_at_attribute(h5a.open(found, name), name)
        self.place = place

    def look_at_attribute(self, attribute: Any, name: bytes) -> None:
        kind, shape = attribute.get_type(), attribute.shape
        n_values = 0 if shape is None else math.prod(shape)
        self.state(n_values * kind.get_size())
        ties = TIES.get(name, lambda kind: False)(kind)
        is_text = not ties and self.look_at_type(kind)
        if not n_values or not (ties or is_text):
            return
        if n_values > self.n_at_once and kind.get_class() != h5t.COMPOUND:
            self.refuse(f"an attribute may hold at most {self.n_at_once} texts in a file of {self.size:,} bytes")
        values = np.empty(shape, attribute.dtype)
        attribute.read(values)
        if is_text:
            self.measure(values)
        elif values.dtype.names:
            self.references += [(self.place, reference) for reference in values[values.dtype.names[0]].flat]
        else:
            self.references += [(self.place, reference) for several in values.flat for reference in several]
            self.state(np.dtype(object).itemsize * len(self.references))


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
