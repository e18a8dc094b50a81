"""Values as messages quote them: what a user gave may be longer than any message should be."""

import re
from typing import Any

UNKEPT = re.compile("[\0\ud800-\udfff]")
LONGEST = 200  # characters of one value


def quoted(value: Any, longest: int = LONGEST) -> str:
    """The `repr` of a value, cut in the middle if it is long.

    Parameters
    ----------
    value : object
    longest : int
        Most characters of the answer.

    Returns
    -------
    str

    Examples
    --------
    >>> quoted("a < 1 or " * 1000, 40)
    "'a < 1 or a < ... (9002 characters)"
    """
    if isinstance(value, str | bytes) and len(value) > longest:
        return clipped(repr(value[:longest]), longest, len(value) + 2)
    if isinstance(value, list | tuple | set | frozenset) and len(value) > longest:
        kind, length = type(value).__name__, len(value)
        first = ", ".join(quoted(one, longest // 4) for one, _ in zip(value, range(8), strict=False))
        return f"{clipped(first, longest, len(first))}, ... ({kind} of {length})"
    if hasattr(value, "columns") and isinstance(shape := getattr(value, "shape", None), tuple):
        return f"a {type(value).__name__} of shape {shape}"
    try:
        return clipped(repr(value), longest)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to show"


def clipped(text: str, longest: int = LONGEST, length: int | None = None) -> str:
    """A text for a message, cut if it is long; ``length`` is that of the whole where this is its beginning."""
    length = len(text) if length is None else length
    if length <= longest:
        return text
    end = f"... ({length} characters)"
    return text[: max(longest - len(end), 1)] + end


def some(values: Any, limit: int = 8) -> str:
    """The first few of several values for a message."""
    shown = ", ".join(quoted(value, 60) for value, _ in zip(values, range(limit), strict=False))
    return shown if len(values) <= limit else f"{shown}, ... {len(values)} in all"


def refuse_unkept(place: str, text: Any) -> None:
    """Raise for a text with a NUL or half of a surrogate pair, which no file keeps; other things pass."""
    if isinstance(text, str) and (found := UNKEPT.search(text)):
        what = "a NUL" if found[0] == "\0" else "half of a surrogate pair"
        raise ValueError(f"{place} holds {what}, which no file keeps; rename it")
