"""Sphinx configuration. Notebooks run at build; a failing cell fails it, as does any warning (-W)."""

import os
import shutil
from pathlib import Path

import pymc_spn

HERE = Path(__file__).parent

project = "pymc_spn"
author = "The pymc_spn developers"
copyright = author
version = release = pymc_spn.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_nb"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "dollarmath", "tasklist"]
myst_heading_anchors = 3

nb_execution_mode = "cache"  # executed once, then reused while the code cells are unchanged
nb_execution_excludepatterns = os.environ.get("NOTEBOOKS_AS_THEY_ARE", "").split()  # shown without running
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
numpydoc_show_class_members = False  # autodoc lists them already

html_theme = "pydata_sphinx_theme"
html_title = "pymc_spn"
html_show_sourcelink = False

# The notebooks live in examples/, where users look for them; Sphinx only reads below its own folder.
notebooks = HERE / "notebooks"
shutil.rmtree(notebooks, ignore_errors=True)
notebooks.mkdir()
originals = sorted((HERE.parent / "examples").glob("*.ipynb"))
for original in originals:
    shutil.copy2(original, notebooks)
lines = [
    "# Examples",
    "One notebook for each family: a question, and an answer compared with a known value.",
    "```{toctree}",
    *(original.stem for original in originals),
    "```",
]
(notebooks / "index.md").write_text("\n".join(lines), encoding="utf-8")
