"""Results as files: written whole or not at all, and read only where every byte is as it was written."""

import hashlib
import io
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from pymc_spn.numerics.interrupts import call_beside
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray as xr

CHECKSUM = "checksum"  # attribute of the root: the file ends in a checksum, and without one it is damaged
ENDING = re.compile(rb"pymc_spn sha256 ([0-9a-f]{64})\n")
LENGTH = 81  # of the ending; HDF5 does not look at what stands behind its own end
BLOCK = 1 << 20


def save_tree(tree: "xr.DataTree", path: "str | PathLike[str]") -> None:
    """Write a tree of data to one netCDF file that ends in a checksum of its bytes.

    The bytes are made in memory, since HDF5 can end the process where it cannot write. They replace what is at `path`
    after all of them are on the disk: whatever goes wrong before that, the old file is still there.

    Parameters
    ----------
    tree : DataTree
        Not changed.
    path : str or path-like
        A file that is there is replaced; a symbolic link goes on to point to it.

    Raises
    ------
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be written, with its path: no such folder, no permission, a full disk.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be that of a netCDF file, got {quoted(path)}")
    marked = tree.copy()
    marked.attrs = tree.attrs | {CHECKSUM: "sha256 of the bytes before the last line"}
    buffer = io.BytesIO()
    call_beside(marked.to_netcdf, buffer, engine="h5netcdf")  # a KeyboardInterrupt within it is lost
    try:
        _replace(os.path.realpath(path), memoryview(buffer.getvalue()))
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), fspath(path)) from error


def _write(file: BinaryIO, data: memoryview) -> None:
    """Bytes and the line with their checksum, so few at once that Ctrl-C need not wait."""
    digest = hashlib.sha256()
    for begin in range(0, len(data), BLOCK):
        digest.update(data[begin : begin + BLOCK])
        file.write(data[begin : begin + BLOCK])
    file.write(f"pymc_spn sha256 {digest.hexdigest()}\n".encode())


def _replace(target: str, data: memoryview) -> None:
    """Put a new file in the place of another one, with its permissions."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):  # a device or a pipe: there is nothing to lose
        with open(target, "wb") as file:
            _write(file, data)
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    spare = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(spare, "xb") as file:
            _write(file, data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            os.chmod(spare, stat.S_IMODE(old.st_mode))
            if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
                with suppress(PermissionError):  # only root may give files away
                    os.chown(spare, old.st_uid, old.st_gid)
        with open(spare, "rb") as file:
            if not _ends_in_its_checksum(file):
                raise OSError(5, "the file system returned other bytes than were written")
        os.replace(spare, target)
    except BaseException:
        with suppress(OSError):
            os.remove(spare)
        raise
    if hasattr(os, "O_DIRECTORY"):
        with suppress(OSError):  # some file systems cannot: the new name may then be lost with the power, not the data
            folder = os.open(os.path.dirname(target), os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _ends_in_its_checksum(file: BinaryIO) -> bool | None:
    """Whether the last line is the checksum of the bytes before it; None if there is no such line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - LENGTH, 0))
    found = ENDING.fullmatch(file.read())
    if found is None:
        return None
    file.seek(0)
    digest, left = hashlib.sha256(), size - LENGTH
    while left and (block := file.read(min(BLOCK, left))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest() == found[1].decode()


def check_bytes(path: "str | PathLike[str]") -> bool:
    """Refuse a file whose bytes have changed since `save_tree` wrote them; say whether it ends in a checksum at all.

    Raises
    ------
    FileNotFoundError, PermissionError
    ValueError
        If the checksum does not fit, or the path is that of a folder.
    """
    try:
        with open(path, "rb") as file:
            fits = _ends_in_its_checksum(file)
    except IsADirectoryError as error:
        raise ValueError(f"{fspath(path)!r} is a folder, and {NO_NETCDF}") from error
    if fits is False:
        refuse_file(path, "its bytes do not fit the checksum in its last line")
    return fits is not None


NO_NETCDF = (
    "paths must be those of netCDF files; a result in another format, such as Zarr, can be opened by "
    "xr.open_datatree, and from_idata takes the tree"
)


def refuse_file(path: "str | PathLike[str]", why: str, error: Exception | None = None) -> NoReturn:
    """Refuse a damaged file."""
    raise ValueError(f"damaged file {fspath(path)!r}: {why}; restore it from a copy, or make it again") from error


def _is_refusal(error: Exception) -> bool:
    """Whether the package raised an error, and not a library that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or str(trace.tb_frame.f_globals.get("__name__", "")).startswith("pymc_spn.")


@contextmanager
def refusing_damage(source: Any) -> "Iterator[None]":
    """Say of stored results that cannot be read that they are damaged, and where they come from.

    Whatever the readers did not look at first ends in some error of Python. A missing variable ends in a KeyError, a
    text that is not a number in a TypeError, an array of another shape in a ValueError of xarray.

    Parameters
    ----------
    source : path, or anything else that has none
    """
    is_file = isinstance(source, str | PathLike)
    try:
        yield
    except (ImportError, MemoryError, OSError, Warning):
        raise  # not about what was stored
    except Exception as error:
        if type(error) is ValueError and _is_refusal(error):
            if not is_file or fspath(source) in str(error):
                raise
            raise ValueError(f"{fspath(source)}: {error}") from error
        if is_file:
            refuse_file(source, f"what it holds cannot be read ({error!r})", error)
        raise ValueError(f"what is stored is damaged or was made by something else ({error!r})") from error
