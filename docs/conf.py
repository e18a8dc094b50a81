"""Sphinx configuration. Notebooks run at build; a failing cell fails it, as does any warning (-W)."""

import os
import shutil
import sys
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

import pymc_spn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference_links  # noqa: E402
import reference_pages  # noqa: E402

project = "pymc_spn"
author = "The pymc_spn developers"
copyright = author
version = release = pymc_spn.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.intersphinx", "sphinx.ext.mathjax"]
extensions += ["sphinx.ext.viewcode", "numpydoc", "myst_nb", "sphinx_copybutton", "reference_links"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "dollarmath", "tasklist"]
myst_heading_anchors = 3

nb_execution_mode = "cache"  # executed once, then reused while the code cells are unchanged
nb_execution_excludepatterns = os.environ.get("NOTEBOOKS_AS_THEY_ARE", "").split()  # shown without running
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "signature"
autosummary_generate = False  # reference_pages writes them
numpydoc_show_class_members = False  # the pages list them already

reference_pages.write_pages(HERE / "api", HERE / "reference.md")
default_role = "py:obj"
reference_names = reference_links.full_names(list(reference_pages.public_names()))
intersphinx_mapping = reference_links.inventories(HERE / "other_projects.txt", HERE / "_build" / "inventories")
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # only the names that stand here become links
numpydoc_xref_aliases = {
    **{name: name for name in DEFAULT_LINKS},  # words of Python stay words
    **{name: full for name, full in reference_names.items() if name != name.lower()},
    **{name: f"pandas.{name}" for name in ("DataFrame", "Series")},
    **{name: f"xarray.{name}" for name in ("DataArray", "Dataset", "DataTree")},
    **{name: "numpy.random.Generator" for name in ("Generator", "numpy.random.Generator")},
    "ndarray": "numpy.ndarray",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

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
