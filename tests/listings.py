"""Python listings of the documents: found in a page, and run one after the other as a reader would."""

import re
from pathlib import Path

import pymc as pm

CHECKOUT = Path(__file__).parents[1]


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """Number of the first line, and text, of each block of a page that is marked as Python."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, block.start(1)) + 1, block.group(1)) for block in found]


def run_blocks(page: Path) -> dict[str, object]:
    """Names that the blocks of a page leave, run in order in one namespace; tracebacks show lines of the page."""
    names: dict[str, object] = {"__name__": "__main__"}
    for line, block in python_blocks(page):
        exec(compile("\n" * (line - 1) + block, str(page), "exec"), names)
    return names


def sample_few_draws(monkeypatch, **few):
    """Let `pm.sample` take these arguments whatever a listing asks for, and be silent."""
    sample = pm.sample
    few |= {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}
    monkeypatch.setattr(pm, "sample", lambda draws=None, **asked: sample(**{**asked, **few}))
