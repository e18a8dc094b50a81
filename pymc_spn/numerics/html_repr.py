"""How objects show themselves: one line of text, and a small HTML table in notebooks, from the same facts."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

MOST_NAMES = 12  # of a list in one line; of more, the first and the last are shown, as pandas does
MOST_ROWS = 60  # of the table in a notebook
LONGEST_FACT = 140  # characters
LATER = "chains"  # stands behind a semicolon in the text: how well the chains have mixed
HEAD = "text-align:left;vertical-align:top;font-weight:normal;opacity:0.7"
CELL = "text-align:left"


class Facts(NamedTuple):
    """What an object says of itself.

    Parameters
    ----------
    title : str
        What it is, as a rule the name of its class.
    facts : mapping of str to str
        Phrases that make sense one behind the other, each with a word for what it is about; empty ones are left out.
    name : str
        Stands in front of them.
    """

    title: str
    facts: Mapping[str, str]
    name: str = ""


class Listed(NamedTuple):
    """A table that only the notebook shows.

    Parameters
    ----------
    what : str
        Of what it is, with the number of its rows.
    head : sequence of str
    rows : iterable of sequences
    """

    what: str
    head: Sequence[str]
    rows: Iterable[Sequence[Any]]


class NotebookRepr:
    """`repr` and the notebook's HTML of an object, from its `_facts`; the HTML may add a table and a drawing."""

    def _facts(self) -> Facts:
        raise NotImplementedError

    def _listed(self) -> Listed | None:
        """A table for the notebook."""
        return None

    def _picture(self) -> str:
        """A drawing for the notebook, as SVG."""
        return ""

    def __repr__(self) -> str:
        return one_line(self._facts())

    def _repr_html_(self) -> str:
        return as_html(self._facts(), self._listed(), self._picture())


def one_line(said: Facts) -> str:
    """``Title(name: fact, fact; mixing)``."""
    facts = {key: _cut(words) for key, words in said.facts.items() if words}
    later = facts.pop(LATER, "")
    words = ", ".join(facts.values()) + (f"; {later}" if later else "")
    return f"{said.title}({f'{said.name}: ' if said.name else ''}{words})"


def as_html(said: Facts, listed: Listed | None = None, drawing: str = "") -> str:
    """The facts as rows of a table, the other table folded below it, and the drawing."""
    name = f" {escape(said.name)}" if said.name else ""
    lines = [f"<div><strong>{escape(said.title)}</strong>{name}", "<table><tbody>"]
    lines += [
        f'<tr><th style="{HEAD}">{escape(key)}</th><td style="{CELL}">{escape(_cut(words))}</td></tr>'
        for key, words in said.facts.items()
        if words
    ]
    lines.append("</tbody></table>")
    if listed is not None:
        lines += [f"<details><summary>{escape(listed.what)}</summary>", *_table(listed), "</details>"]
    return "\n".join([*lines, drawing, "</div>"])


def _table(listed: Listed) -> list[str]:
    rows = [tuple(row) for row in listed.rows]
    shown, n_more = rows[:MOST_ROWS], len(rows) - MOST_ROWS
    head = "".join(f'<th style="{CELL}">{escape(str(name))}</th>' for name in listed.head)
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in shown:
        cells = "".join(f'<td style="{CELL}">{escape(_cut(str(value)))}</td>' for value in row)
        lines.append(f"<tr>{cells}</tr>")
    if n_more > 0:
        lines.append(f'<tr><td colspan="{len(listed.head)}">... {n_more:,} more</td></tr>')
    return [*lines, "</tbody></table>"]


def elided(words: Sequence[str], separator: str = ", ", most: int = MOST_NAMES) -> str:
    """A list in one line; of a long one the first and the last entries.

    Examples
    --------
    >>> elided([f"x{i}" for i in range(100)], most=4)
    'x0, x1, ..., x98, x99'
    """
    if len(words) <= most:
        return separator.join(words)
    half = most // 2
    return separator.join([*words[:half], "...", *words[len(words) - half :]])


def _cut(words: str) -> str:
    """A phrase without its middle, if it is long; words stay whole unless one is longer than that."""
    if len(words) <= LONGEST_FACT:
        return words
    half = (LONGEST_FACT - 5) // 2
    start, end = words[: half + 1].rpartition(" ")[0], words[-half - 1 :].partition(" ")[2]
    return f"{start or words[:half]} ... {end or words[-half:]}"
