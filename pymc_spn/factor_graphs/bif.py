"""Reader of the Bayesian Interchange Format (BIF 0.15), in which most published networks are distributed."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLOCK = re.compile(r"\b(network|variable|probability)\b([^{;]*)\{", re.DOTALL)
_STATES = re.compile(r"type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}\s*;?", re.DOTALL)
_ROW = re.compile(r"\(([^)]*)\)([^;]*);|\btable\b([^;]*);|\bdefault\b([^;]*);", re.DOTALL)


def read_bif(path: Any) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, np.ndarray]]:
    """States, parents and conditional probability tables of a ``.bif`` or ``.bif.gz`` file.

    Rows that are off by rounding are normalised.

    Raises
    ------
    ValueError
        If a block cannot be read; it names the variable.
    """
    path = Path(path)
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    return parse_bif(text, str(path))


def parse_bif(text: str, place: str = "text") -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """`read_bif` of a text; ``place`` names it in messages."""
    text = _COMMENT.sub(" ", text)
    states: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    tables: dict[str, np.ndarray] = {}
    for kind, head, body in _blocks(text, place):
        if kind == "variable":
            name = _word(head)
            found = _STATES.search(body)
            if not found:
                raise ValueError(f"{place}: variable {name!r} must have 'type discrete [ n ] {{ states }}'")
            labels = [_word(s) for s in found.group(2).split(",")]
            if len(labels) != int(found.group(1)):
                raise ValueError(f"{place}: variable {name!r} declares {found.group(1)} states and lists {len(labels)}")
            states[name] = labels
        elif kind == "probability":
            inner = head.strip()
            if not (inner.startswith("(") and inner.endswith(")")):
                raise ValueError(
                    f"{place}: a probability block must begin with '( variable | parents )', got {inner!r}"
                )
            child, _, given = inner[1:-1].partition("|")
            name = _word(child)
            if name in tables:
                raise ValueError(f"{place}: variable {name!r} has two probability blocks")
            parents[name] = [_word(p) for p in given.split(",") if p.strip()]
            tables[name] = _table(body, name, parents[name], states, place)
    if not states:
        raise ValueError(f"{place}: no variable block found; is this a BIF file?")
    return states, parents, tables


def _blocks(text: str, place: str) -> list[tuple[str, str, str]]:
    result, at = [], 0
    while found := _BLOCK.search(text, at):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if depth:
            raise ValueError(f"{place}: the block '{found.group(1)} {found.group(2).strip()}' is not closed")
        result.append((found.group(1), found.group(2), text[found.end() : end - 1]))
        at = end
    return result


def _table(body: str, name: str, parents: list[str], states: dict[str, list[str]], place: str) -> np.ndarray:
    for v in (name, *parents):
        if v not in states:
            raise ValueError(f"{place}: the table of {name!r} names {v!r}, which is no variable")
    shape = [len(states[p]) for p in parents]
    table = np.full((*shape, len(states[name])), np.nan)
    for found in _ROW.finditer(body):
        labels, row, whole, default = found.groups()
        if whole is not None:
            values = _numbers(whole, name, place)
            if values.size != table.size:
                raise ValueError(f"{place}: the table of {name!r} must have {table.size} entries, got {values.size}")
            table = np.moveaxis(values.reshape(len(states[name]), *shape), 0, -1)  # the child varies slowest
            continue
        values = _numbers(row if default is None else default, name, place)
        if values.size != len(states[name]):
            raise ValueError(f"{place}: a row of {name!r} must have {len(states[name])} entries, got {values.size}")
        if default is not None:
            table[np.isnan(table).any(axis=-1)] = values
            continue
        words = [_word(w) for w in labels.split(",")]
        if len(words) != len(parents):
            raise ValueError(f"{place}: row ({labels}) of {name!r} must name {len(parents)} states")
        for p, w in zip(parents, words, strict=True):
            if w not in states[p]:
                raise ValueError(f"{place}: row ({labels}) of {name!r}: {w!r} is no state of {p!r}")
        table[tuple(states[p].index(w) for p, w in zip(parents, words, strict=True))] = values
    if np.any(np.isnan(table)):
        at = np.argwhere(np.isnan(table).any(axis=-1))[0].tolist()
        given = ", ".join(f"{p}={states[p][k]}" for p, k in zip(parents, at, strict=True))
        raise ValueError(f"{place}: the table of {name!r} has no row for ({given})")
    total = table.sum(axis=-1, keepdims=True)
    return table / total if np.all(np.abs(total - 1.0) < 1e-6) else table


def _numbers(text: str, name: str, place: str) -> np.ndarray:
    try:
        return np.array([float(x) for x in text.replace(",", " ").split()])
    except ValueError:
        raise ValueError(f"{place}: the table of {name!r} must hold numbers, got {text.strip()!r}") from None


def _word(text: str) -> str:
    return text.strip().strip('"').strip()
