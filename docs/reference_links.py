"""Names in running text become links where they name something that is documented, and stay as they are elsewhere.

``ps.fit_tree(...)`` in a page or a docstring leads to the page of `fit_tree`, ``pm.sample`` to the documents of PyMC.
No name is looked for that Python would not find: a name is taken as it stands, under its module or its public class.
"""

import re
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SHORT = {"ps": "pymc_spn", "pm": "pymc", "az": "arviz", "xr": "xarray", "pd": "pandas", "np": "numpy"}
CALL = re.compile(r"(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)(\(.*\))?", re.DOTALL)


def inventories(listed: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Write the inventory of each project in the list, and return what `intersphinx_mapping` says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(line for line in listed.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    mapping = {}
    for block in text.strip().split("\n\n"):
        (project, address), *names = [line.split() for line in block.splitlines()]
        entries = "".join(f"{name} {kind} 1 {page} -\n" for name, kind, page in names)
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# Compressed with zlib.\n"
        path = folder / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress(entries.encode()))
        mapping[project] = (address, str(path))
    return mapping


def full_names(public: list[str]) -> dict[str, str]:
    """Other ways to write a public name, such as ``SPN`` and ``circuits.leaf``: the full name."""
    found = {}
    for full in public:
        inside, short = full.removeprefix("pymc_spn."), full.rpartition(".")[2]
        is_word = short == short.lower() and "_" not in short  # ``load`` and ``leaf`` alone say nothing
        found |= {name: full for name in (inside, short) if "." in name or not is_word}
    return found


def spelled_out(target: str, known: dict[str, str]) -> str:
    """The full name of what a text calls ``ps.SPN``, ``SPNPosterior.impute`` or ``pm.sample``."""
    first, dot, rest = target.partition(".")
    if first in SHORT:
        return f"{SHORT[first]}{dot}{rest}"
    parts = target.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in known:
            return ".".join([known[".".join(parts[:n])], *parts[n:]])
    return target


class LinkedLiterals(SphinxTransform):
    """Code in running text that names something becomes a reference, which stays code where nothing is found."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        known = self.config.reference_names
        for literal in list(self.document.findall(nodes.literal)):
            match = CALL.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, nodes.title | nodes.reference | addnodes.pending_xref):
                continue
            target = spelled_out(match["name"], known)
            if target == match["name"] or self.env.docname.endswith(f"/{target}"):
                continue
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refdoc=self.env.docname, refwarn=False
            )
            literal.replace_self(link)
            link += literal


def find_by_short_name(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Spell a name out that Sphinx did not find, and look again; intersphinx comes after and sees the long name.

    In the summary table of a class, a name may be that of a member.
    """
    if node.get("refdomain") != "py":
        return None
    short = node["reftarget"]
    node["reftarget"] = spelled_out(short, app.config.reference_names)
    for target in (node["reftarget"], f"{node['refdoc'].rpartition('/')[2]}.{short}"):
        found = env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)
        if found is not None:
            return found
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("reference_names", {}, "env")
    app.add_transform(LinkedLiterals)
    app.connect("missing-reference", find_by_short_name, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
