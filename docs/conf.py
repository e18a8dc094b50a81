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
extensions += ["sphinx.ext.viewcode", "numpydoc", "myst_nb", "sphinx_copybutton", "sphinx_design", "reference_links"]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "tasklist"]
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["site_navigation.html"]}
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "footer_end": [],
}

# The notebooks live in examples/, where users look for them; Sphinx only reads below its own folder. They stand here in
# the order in which a reader needs them.
TUTORIALS = {
    "Tables": [
        "sum_product_networks",
        "mixed_table",
        "regression_with_gaps",
        "circuits_engine",
    ],
    "Graphs over the columns": ["posteriors_over_graphs"],
    "Decision trees": ["decision_trees"],
    "Discrete unknowns in a model": [
        "factor_graphs_message_passing",
        "factor_graphs_hidden_markov_model",
        "factor_graphs_potts_image",
    ],
    "Hidden causes": ["belief_network_hidden_causes"],
}
notebooks = HERE / "notebooks"
shutil.rmtree(notebooks, ignore_errors=True)
notebooks.mkdir()
originals = {path.stem: path for path in (HERE.parent / "examples").glob("*.ipynb")}
listed = [name for names in TUTORIALS.values() for name in names]
if sorted(listed) != sorted(originals):
    raise ValueError(f"TUTORIALS and the notebooks of examples/ differ: {sorted({*listed} ^ {*originals})}")
for original in originals.values():
    shutil.copy2(original, notebooks)
lines = [(HERE / "_templates" / "tutorials.md").read_text(encoding="utf-8")]
for caption, names in TUTORIALS.items():
    lines += [f"## {caption}", "```{toctree}", ":maxdepth: 1", *names, "```"]
(notebooks / "index.md").write_text("\n".join(lines), encoding="utf-8")
