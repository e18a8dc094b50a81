"""Reader of the Bayesian Interchange Format (BIF 0.15), in which most published networks are distributed.

It also reads the common variants. Labels may be quoted, and then hold commas and brackets. Lists may have no commas.
``= {`` may follow the number of states, and parents a comma instead of a bar. Each character of a text is looked at
once.
"""

import errno
import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.quoted_values import clipped, quoted, some

MAX_ENTRIES = 2**24  # table entries of a network, 128 MB
BYTES_AN_ENTRY = 16  # of text, beyond which a file does not hold what it may hold
MOST_PARENTS = 63  # NumPy's arrays have at most 64 axes
FEWEST_DECIMALS = 3  # to which an entry may be rounded
SLACK = 1e-6  # what rows may be off whatever their digits

TOKEN = re.compile(
    r"""\s+|//[^\n]*|(?P<comment>/\*)|"(?P<quoted>[^"\n]*)"|(?P<mark>[{}()\[\],;|])"""
    r"""|(?P<word>(?:[^\s{}()\[\],;|"/]|/(?![/*]))+)"""
)
PROPERTY = re.compile(r"""(?:[^;{}"]++|"[^"]*+")*+;""")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,4}))?", re.ASCII)
BEGIN = re.compile(r"\s*(?:network|variable|probability)\s")
OTHERS = {  # formats, by how a text in them begins
    "UAI": re.compile(r"\s*(?:MARKOV|BAYES)\s+\d"),
    "XMLBIF": re.compile(r"\s*<"),
    "the NET format of Hugin": re.compile(r"\s*(?:%[^\n]*\s*)*(?:net|class|node|potential)\b"),
}
FUNCTIONS = re.compile("noisy|leak|function|equation|deterministic", re.IGNORECASE)
Network = tuple[dict[str, list[str]], dict[str, list[str]], dict[str, np.ndarray]]


def read_bif(source: Any, encoding: str = "utf-8", max_entries: int = MAX_ENTRIES) -> tuple[str, Network]:
    """Name of a source for messages, and its states, parents and conditional probability tables.

    Parameters
    ----------
    source : str or path-like
        The text itself, if it is a `str` with a brace or a line break, or begins as one. Else the path of a ``.bif``
        file, also gzipped.
    encoding : str
        Of a file.
    max_entries : int
        Most entries of all tables together.

    Raises
    ------
    TypeError
        If the source is neither.
    ValueError
        If it cannot be read or is too large; it names the file and the line.
    """
    checked_count("max_entries", max_entries, 1)
    if not isinstance(source, str | PathLike):
        raise TypeError(f"source must be the path or the text of a BIF network, got {type(source).__name__}")
    if isinstance(source, str) and not source.strip():
        raise ValueError("source must be the path or the text of a BIF network, got an empty text")
    if isinstance(source, str) and (re.search("[{\n]", source) or _begins_as_text(source)):
        return "text", parse_bif(source, "text", int(max_entries))
    path = Path(source)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "No such file, and no text of a network (with braces)", str(path))
    text = _decoded(_content(path, 2**20 + BYTES_AN_ENTRY * int(max_entries)), encoding, path)
    return str(path), parse_bif(text, str(path), int(max_entries))


def parse_bif(text: str, place: str = "text", max_entries: int = MAX_ENTRIES) -> Network:
    """`read_bif` of a text; ``place`` names it in messages."""
    for other, begin in OTHERS.items():
        if begin.match(text):
            raise ValueError(f"{place}: this is {other}, and only BIF, the Bayesian Interchange Format, is read")
    return BifReader(text, place, max_entries).network()


def _begins_as_text(source: str) -> bool:
    """Whether a line begins as a text does, in whatever format, and is not the path of a file."""
    begins = any(begin.match(source) for begin in (BEGIN, OTHERS["UAI"], OTHERS["XMLBIF"]))
    return begins and not os.path.exists(source)


def _content(path: Path, most: int) -> bytes:
    """Bytes of a file, inflated if it is gzipped; no more than the limit is read or inflated."""
    rule = f"more than {most:,} bytes of text; raise max_entries if it is a network of that size"
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"{path}: the file has {rule}")
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as inflated:
            text = inflated.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: the gzipped file is damaged ({error})") from None
    if len(text) > most:
        raise ValueError(f"{path}: the file of {len(raw):,} bytes inflates to {rule}")
    return text


def _decoded(raw: bytes, encoding: str, path: Path) -> str:
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise ValueError(f"encoding must be the name of an encoding such as 'latin-1', got {encoding!r}") from None
    except UnicodeDecodeError as error:
        line, byte = raw.count(b"\n", 0, error.start) + 1, raw[error.start]
        raise ValueError(
            f"{path}, line {line}: byte 0x{byte:02x} is not valid in encoding {encoding!r}; pass another one, such as "
            "encoding='latin-1'"
        ) from None


class BifReader:
    """A text, the token at which the reader stands, and the network read so far."""

    def __init__(self, text: str, place: str, max_entries: int) -> None:
        self.text, self.place, self.max_entries = text, place, max_entries
        self.n_tokens = 0
        self.kind, self.word, self.start, self.end = "", "", 0, 0
        self.states: dict[str, list[str]] = {}
        self.codes: dict[str, dict[str, int]] = {}  # of the labels
        self.parents: dict[str, list[str]] = {}
        self.tables: dict[str, np.ndarray] = {}
        self.declared: dict[tuple[str, str], int] = {}  # where a block begins, by its kind and variable
        self.n_entries = 0
        self.advance()

    # -- tokens ---------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Go to the next token: a mark, a word, a quoted text, or the end."""
        while True:
            self.n_tokens += 1
            self.start = self.end
            found = TOKEN.match(self.text, self.start)
            if found is None:
                if self.start < len(self.text):
                    self.refuse("a quotation mark is not closed on its line")
                self.kind, self.word = "end", ""
                return
            self.end, self.kind = found.end(), found.lastgroup or ""
            if self.kind == "comment":
                self.end = self.text.find("*/", self.end) + 2
                if self.end < 2:
                    self.refuse("the comment is not closed by */")
            elif self.kind:
                self.word = found[self.kind]
                return

    def is_mark(self, marks: str) -> bool:
        """Whether the reader stands at one of these marks."""
        return self.kind == "mark" and self.word in marks

    def line(self, at: int | None = None) -> int:
        """Line of a place in the text, from 1; by default of the token."""
        return self.text.count("\n", 0, self.start if at is None else at) + 1

    def refuse(self, rule: str, at: int | None = None) -> NoReturn:
        """Raise for the token, or another place."""
        if FUNCTIONS.match(self.word):
            rule += "; a distribution must be a table here, and not a function as noisy-or is"
        raise ValueError(f"{self.place}, line {self.line(at)}: {rule}")

    def take(self, marks: str, rule: str) -> str:
        """Go past one of these marks, or refuse."""
        if not self.is_mark(marks):
            self.refuse(f"{rule}, got {quoted(self.word) if self.word else 'the end'}")
        mark = self.word
        self.advance()
        return mark

    def listed(self, closing: str, what: str) -> list[list[str]]:
        """Words up to a closing mark, where the reader stays: those between two commas, or a quoted text by itself."""
        found: list[list[list[int]]] = []  # where each word begins and ends
        begun, is_new = self.start, True
        while not self.is_mark(closing):
            if self.kind == "end" or self.is_mark("{};"):
                self.refuse(f"{what} must end with {' or '.join(map(repr, closing))}", begun)
            if self.kind == "quoted":
                found.append([[self.start + 1, self.end - 1]])
                is_new = True
            elif self.is_mark(","):
                is_new = True
            elif is_new:
                found.append([[self.start, self.end]])
                is_new = False
            elif found[-1][-1][1] == self.start:  # as the brackets of [0-10]
                found[-1][-1][1] = self.end
            else:
                found[-1].append([self.start, self.end])
            self.advance()
        return [[self.text[first:last].strip() for first, last in words] for words in found]

    def skip_property(self) -> None:
        """Go past ``property ... ;``, which may hold anything."""
        found = PROPERTY.match(self.text, self.end)
        if found is None:
            self.refuse("a property must end with ';'")
        self.end = found.end()
        self.advance()

    # -- blocks ---------------------------------------------------------------------------------------

    def network(self) -> Network:
        """The whole text."""
        blocks = {"network": self.skip_network, "variable": self.read_variable, "probability": self.read_probability}
        while self.kind != "end":
            if self.is_mark(";"):
                self.advance()
                continue
            if self.kind != "word" or self.word not in blocks:
                self.refuse(f"a block must begin with network, variable or probability, got {quoted(self.word)}")
            begin, start = blocks[self.word], self.start
            self.advance()
            begin(start)
        if not self.states:
            raise ValueError(f"{self.place}: no variable block found; is this a BIF file?")
        for name in self.states:
            if name not in self.tables:
                self.refuse(f"variable {quoted(name)} has no probability block", self.declared["variable", name])
        return self.states, self.parents, self.tables

    def statements(self, what: str, start: int) -> Any:
        """The first token of each statement of a block, properties left out; the caller reads the rest of it."""
        self.take("{", f"{what} must have '{{'")
        while not self.is_mark("}"):
            if self.kind == "end":
                self.refuse(f"{what} is not closed by '}}'", start)
            if self.kind == "word" and self.word == "property":
                self.skip_property()
            elif self.is_mark(";"):
                self.advance()
            else:
                yield self.word
        self.advance()

    def declare(self, kind: str, name: str, start: int) -> None:
        """Note where a block begins; a second one for a variable is refused."""
        if (kind, name) in self.declared:
            first = self.line(self.declared[kind, name])
            self.refuse(f"variable {quoted(name)} has a second {kind} block; the first is in line {first}", start)
        self.declared[kind, name] = start

    def skip_network(self, start: int) -> None:
        """The network block, of which nothing is used."""
        while not self.is_mark("{"):
            if self.kind == "end":
                self.refuse("the network block must have '{'", start)
            self.advance()
        for _ in self.statements("the network block", start):
            self.refuse(f"the network block must hold properties only, got {quoted(self.word)}")

    def read_variable(self, start: int) -> None:
        """``variable name { type discrete [ n ] { labels }; }``."""
        name = " ".join(word for words in self.listed("{", "the name of a variable") for word in words)
        if not name:
            self.refuse("a variable must have a name", start)
        self.declare("variable", name, start)
        rule = f"variable {quoted(name)} must have 'type discrete [ n ] {{ states }}'"
        for _ in self.statements(f"the block of variable {quoted(name)}", start):
            if name in self.states:
                self.refuse(f"{rule} and nothing else, got {quoted(self.word)}")
            for word in ("type", "discrete"):
                if self.kind != "word" or self.word != word:
                    self.refuse(f"{rule}, got {quoted(self.word)}")
                self.advance()
            self.take("[", rule)
            n_states = int(self.word) if re.fullmatch("[0-9]{1,9}", self.word) else 0
            if n_states < 1:
                self.refuse(f"{rule} with a positive number of states, got {quoted(self.word)}")
            self.advance()
            self.take("]", rule)
            if self.word == "=":
                self.advance()
            self.take("{", rule)
            labels = _names(self.listed("}", f"the states of {quoted(name)}"), n_states)
            self.advance()
            if len(labels) != n_states:
                self.refuse(f"variable {quoted(name)} declares {n_states} states and lists {len(labels)}", start)
            self.codes[name] = {label: k for k, label in enumerate(labels)}
            if len(self.codes[name]) < n_states:
                twice = next(label for k, label in enumerate(labels) if self.codes[name][label] != k)
                self.refuse(f"states of variable {quoted(name)} must differ, but {quoted(twice)} stands twice", start)
            self.states[name] = labels
        if name not in self.states:
            self.refuse(rule, start)

    def read_probability(self, start: int) -> None:
        """``probability ( child | parents ) { rows }``; a comma may stand for the bar."""
        self.take("(", "a probability block must begin with '( variable | parents )'")
        what = "the variables of a probability block"
        names = self.known(self.listed("|)", what))
        if self.take("|)", what) == "|":
            if len(names) != 1:
                self.refuse(f"one variable must stand before '|', got {some(names)}", start)
            names += self.known(self.listed(")", what))
            self.advance()
        if not names:
            self.refuse("a probability block must begin with '( variable | parents )'", start)
        child, given = names[0], names[1:]
        self.declare("probability", child, start)
        if len(given) > MOST_PARENTS:
            self.refuse(f"the table of {quoted(child)} has {len(given)} parents, more than {MOST_PARENTS}", start)
        for k, name in enumerate(names):
            if name not in self.states:
                self.refuse(
                    f"the table of {quoted(child)} names {quoted(name)}, not a variable of a block above", start
                )
            if name in names[:k]:
                self.refuse(
                    f"the variables of a table must differ, but that of {quoted(child)} names {quoted(name)} twice",
                    start,
                )
        shape = tuple(len(self.states[p]) for p in given)
        self.n_entries += math.prod(shape) * len(self.states[child])
        if self.n_entries > self.max_entries:
            self.refuse(
                f"with the table of {quoted(child)} given {len(given)} parents the network has {self.n_entries:,} "
                f"entries, more than max_entries={self.max_entries:,}; raise it if memory allows (8 bytes an entry)",
                start,
            )
        self.parents[child] = given
        self.tables[child] = self.table(child, given, shape, start)

    def known(self, listed: list[list[str]]) -> list[str]:
        """Names of variables; words between two commas are one name if there is such a variable."""
        joined = [" ".join(words) for words in listed]
        whole = zip(joined, listed, strict=True)
        return [name for one, words in whole for name in ([one] if one in self.states else words)]

    # -- tables ---------------------------------------------------------------------------------------

    def table(self, child: str, given: list[str], shape: tuple[int, ...], start: int) -> np.ndarray:
        """The body of a probability block: (states of the parents, ..., states of the child)."""
        n = len(self.states[child])
        what = f"the table of {quoted(child)}"
        table = np.zeros((*shape, n))
        rows: dict[Any, int] = {}  # where each was read, by the states of the parents, or "table", or "default"
        default: np.ndarray | None = None
        for word in self.statements(f"the probability block of {quoted(child)}", start):
            at = self.start
            if self.is_mark("("):
                self.advance()
                key = self.row_of(child, given, _names(self.listed(")", "the states of a row"), len(given)), at)
                self.advance()
            elif self.kind == "word" and word in ("table", "default"):
                key = word
                self.advance()
            else:
                self.refuse(f"{what} must have rows '(states) numbers;', 'table' or 'default', got {quoted(word)}")
            if key in rows or "table" in rows or (key == "table" and rows):
                first = rows.get(key, next(iter(rows.values())))
                self.refuse(f"{what} states values again that are given in line {self.line(first)}", at)
            rows[key] = at
            if key == "table":  # the child varies slowest
                numbers, slack = (
                    np.moveaxis(np.reshape(part, (n, *shape)), 0, -1) for part in self.numbers(what, table.size)
                )
                table[:] = self.normalised(numbers, slack.sum(axis=-1), child, given, None, at)
                continue
            numbers, slack = self.numbers(f"a row of {quoted(child)}", n)
            named = ([], ()) if key == "default" else (given, key)
            row = self.normalised(numbers, slack.sum(), child, *named, at)
            if key == "default":
                default = row
            else:
                table[key] = row
        if "table" not in rows and len(rows) - ("default" in rows) < math.prod(shape):
            missing = np.ones(shape, bool)
            for key in rows.keys() - {"default"}:
                missing[key] = False
            if default is None:
                codes = np.argwhere(missing)[0].tolist()
                self.refuse(f"{what} has no row{self.given(given, codes)}", start)
            table[missing] = default
        return table

    def row_of(self, child: str, given: list[str], labels: Sequence[str], at: int) -> tuple[int, ...]:
        """Codes of the states that a row names."""
        row = f"row ({some(labels)}) of {quoted(child)}"
        if len(labels) != len(given):
            self.refuse(f"{row} must name {len(given)} states", at)
        for p, label in zip(given, labels, strict=True):
            if label not in self.codes[p]:
                self.refuse(f"{row}: {quoted(label)} is not a state of {quoted(p)}", at)
        return tuple(self.codes[p][label] for p, label in zip(given, labels, strict=True))

    def numbers(self, what: str, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(size,) numbers up to a semicolon, and by how much rounding may have changed each."""
        start = self.start
        numbers, slack = [], []
        while not self.is_mark(";"):
            if not self.is_mark(","):
                found = NUMBER.fullmatch(self.word) if self.kind == "word" else None
                number = float(self.word) if found else math.nan
                if found is None or not 0.0 <= number < math.inf:
                    if self.kind == "end" or self.is_mark("{}()"):
                        self.refuse(f"{what} is not closed by ';'", start)
                    self.refuse(f"{what} must hold numbers of at least 0, got {quoted(self.word)}")
                n_decimals = len(found[1] or found[2] or "") - int(found[3] or 0)
                numbers.append(number)
                slack.append(0.5 * 10.0 ** -min(max(n_decimals, FEWEST_DECIMALS), 300))
            self.advance()
        self.advance()
        if len(numbers) != size:
            self.refuse(f"{what} must have {size} entries, got {len(numbers)}", start)
        return np.array(numbers), np.array(slack)

    def normalised(
        self, rows: np.ndarray, slack: np.ndarray, child: str, given: list[str], codes: Sequence[int] | None, at: int
    ) -> np.ndarray:
        """Rows (..., states) divided by their sums, which may differ from one by what rounding explains."""
        total = rows.sum(axis=-1)
        wrong = np.abs(total - 1.0) > slack + SLACK
        if np.any(wrong):
            place = tuple(np.argwhere(wrong)[0].tolist())
            known = self.given(given, place if codes is None else codes)
            self.refuse(
                f"probabilities of {quoted(child)} must be at least 0 and add up to 1, up to rounding to "
                f"{FEWEST_DECIMALS} decimals or more, got {quoted(rows[place].tolist())} with sum "
                f"{float(total[place]):.6g}{known}",
                at,
            )
        return rows / total[..., None]

    def given(self, given: list[str], codes: Sequence[int]) -> str:
        """States of the parents for a message."""
        named = ", ".join(f"{p}={self.states[p][k]}" for p, k in zip(given, codes, strict=True))
        return f" for ({clipped(named)})" if named else ""


def _names(listed: list[list[str]], n: int) -> list[str]:
    """Labels between commas; if these are not n, but the words are, words without commas."""
    words = [word for one in listed for word in one]
    return words if len(listed) != n and len(words) == n else [" ".join(one) for one in listed]
