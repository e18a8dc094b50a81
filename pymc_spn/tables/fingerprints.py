"""Numbers by which draws know the model and the data that they were drawn given.

xarray aligns tables by their row labels, and a record of rows has none. Results of two fits can therefore be put
together, or a table be sorted, so that draws stand next to data that they do not belong to. Each draw carries a number
for its model and data, and each schema a digest of its table.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

FINGERPRINT = "_fingerprint"  # after the name of a structure: the statistic of each draw
UNPACKED = "fingerprint"  # the same in the group of an unpacked structure
GAPS = (
    "as where chains of different lengths are put together: cut them to one length before that, as in "
    "idata.isel(draw=slice(0, 500))"
)
BY_LISTS = (
    "select by labels that stay, as in idata.sel(chain=0) or idata.sel(chain=[0]), not with drop=True, and use the "
    "result as it was before stack"
)
KIND_OF_TABLE = re.compile(rb', "frame": "[a-z]+"')  # in the JSON of a schema; inside a name its quotes are escaped
AGAIN = "fit again with one model and one table, its rows in one order, and put those results together"


def data_digest(names: Iterable[str], *arrays: Any) -> str:
    """Return the SHA-256 of named columns and arrays of numbers, with their order.

    Parameters
    ----------
    names : iterable of str
    *arrays : array_like of numbers
        Compared as float64, whatever they are stored as. All NaN are alike, and so are 0 and -0.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    found = hashlib.sha256("\0".join(names).encode())
    for array in arrays:
        values = np.array(array, "<f8", order="C", ndmin=1) + 0.0  # -0 becomes 0
        values[np.isnan(values)] = np.nan
        found.update(repr(values.shape).encode())
        found.update(values.data)
    return found.hexdigest()


def fingerprint(model_digest: int, *parts: Any) -> int:
    """Return the number that each draw of a structure carries.

    Parameters
    ----------
    model_digest : int
        Below 2**32, for the data and constants of the whole model: the lower bits.
    *parts : bytes, str or integer vector of bytes
        What the reader of the draws finds again, such as the schema: the upper bits. Whether the table was of pandas or
        of polars does not count.
    """
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part if isinstance(part, bytes) else _as_bytes(part)
        data = KIND_OF_TABLE.sub(b"", data)
        found.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(found.digest()[:4], "little") >> 1 << 32 | model_digest


def fingerprints(draws: "xr.Dataset", variable: str) -> "xr.DataArray":
    """Return the fingerprints of draws, the dimension chain first.

    Raises
    ------
    ValueError
        If there are none, or the chains were lost.
    """
    if variable not in draws.data_vars:
        raise ValueError(
            f"variable {variable!r} must say of each draw which model and data it belongs to, got none; the results "
            "were altered, or an earlier version wrote them: fit again"
        )
    if "chain" not in draws[variable].dims:
        raise ValueError(f"{variable!r} must have the dimension chain, got {list(draws[variable].dims)}; {BY_LISTS}")
    return draws[variable].transpose("chain", ...)


def model_digest_of(
    found: "xr.DataArray", place: str, *parts: Any, remedy: str = "keep all groups of one result together"
) -> int:
    """Check that all draws were made by one model given one set of data, and return the digest of these.

    Parameters
    ----------
    found : DataArray
        From `fingerprints`.
    place : str
        Of the draws, for messages.
    *parts
        As for `fingerprint`.
    remedy : str
        What to do where the draws belong to another model or other data than those that stand next to them.

    Raises
    ------
    ValueError
        If there are gaps, the draws differ, or they were not made by what `parts` describe.
    """
    if found.dtype.kind not in "iu":
        raise ValueError(
            f"{place} must hold a record of every chain and draw, got gaps in {str(found.name)!r} (dtype "
            f"{found.dtype}), {GAPS}"
        )
    numbers = found.values
    if not numbers.size:
        return 0
    first = numbers.flat[0]
    other = numbers != first
    if other.any():
        chains = np.flatnonzero(other.reshape(len(numbers), -1).any(axis=1)).tolist()
        where = f"chains {chains}" if len(chains) > 1 else f"chain {chains[0]}"
        raise ValueError(
            f"{place} must be draws of one model given one table, got several. Those of {where} (positions) differ "
            "from the first draw in the model, the data or the order of the rows; " + AGAIN
        )
    model_digest = int(first) & 0xFFFFFFFF
    if fingerprint(model_digest, *parts) != first:
        raise ValueError(
            f"{place} must be drawn given the model and the data that constant_data and observed_data hold, and others "
            f"stand there; {remedy}"
        )
    return model_digest


def without_kind_of_table(vector: np.ndarray) -> np.ndarray:
    """A schema as a vector of bytes, without what kind of table the data were."""
    return np.frombuffer(KIND_OF_TABLE.sub(b"", _as_bytes(vector)), np.uint8)


def refuse_other_data(place: str, digest: str | None, names: Iterable[str], values: Any) -> None:
    """Refuse a table that is not the one of the fit, row by row.

    Parameters
    ----------
    place : str
    digest : str or None
        From `data_digest` of the table as PyMC holds it, which may be at half the width of a double; None where it was
        not written down.
    names : sequence of str
    values : (N, D) array_like

    Raises
    ------
    ValueError
    """
    with np.errstate(over="ignore"):
        widths = values, np.asarray(values).astype(np.float32)
    if digest is not None and digest not in [data_digest(names, at_width) for at_width in widths]:
        raise ValueError(
            f"{place} must hold the data of the fit with its rows in the same order, got others: rows were sorted or "
            "selected, or cells were changed. The draws belong to the rows as they were. Take observed_data as "
            "pm.sample returned it, and sort the answers instead"
        )


def _as_bytes(vector: Any) -> bytes:
    return np.asarray(vector).astype(np.uint8).tobytes()
