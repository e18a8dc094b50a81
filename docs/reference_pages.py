"""A page for each public class and function under its public name, written at build from what the package offers.

A class has a summary table of its members first, then each of them. What it inherits from this package counts, what it
inherits from others does not. Classes with many members group them by the topics below.
"""

import inspect
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import pymc_spn

# Topics of classes with many members, by the name of the class itself or of the first of its bases that is here.
TOPICS = {
    "Answers": {
        "Make and save": "from_idata from_json to_json save",
        "Trust": "diagnose converged bound trace epochs run_weights stacked",
        "Events": "probability log_probability log_probability_of_rows condition marginal sample mpe",
        "Columns": "columns mean median std cov corr moment moments cdf quantile",
        "Rows": """
            log_density log_likelihood anomaly explain impute predictive_p_value cell_p_value row_similarity
            nearest_rows
        """,
        "Predictions": "predict predict_proba predict_sd predict_quantile predict_interval predict_cdf",
        "Dependence and information": "dependence mutual_information entropy event_information kl",
        "Clusters": "co_clustering top_clusters",
        "What the law is made of": "name parameters hyperparameters leaf_types draw_circuits as_circuit",
    },
    "OrderQueries": {
        "Make and save": "from_data from_scores from_idata exact regular save load to_datatree",
        "Trust": "r_hat effective_orders",
        "Edges": "edge_probabilities edge_table ancestor_probabilities consensus",
        "Graphs": """
            sample most_probable equivalence_classes probability parent_set_probabilities before_probabilities
            order_probability structure_modular condition
        """,
        "Effects": "causal_effects sample_effects probabilities_when_set mean_when_set sample_when_set",
        "Evidence": "log_mass",
        "What the posterior is made of": "names engine lattice tree",
    },
    "DagDraws": {
        "Make and save": "from_idata save load to_group",
        "Edges": "edge_probabilities edge_table consensus",
        "Graphs": "names graphs",
        "Trust": "edge_diagnostics diagnose check_scores",
    },
    "TreePosterior": {
        "Make and save": "from_idata save load",
        "Trust": "diagnose log_joint",
        "Predictions": """
            predict predict_proba predict_sd predict_quantile predict_cdf log_predictive log_likelihood classes
        """,
        "Trees": "most_probable sample_trees tree rules leaf_posterior weights",
        "Features": "variable_inclusion variable_importance partial_dependence ice",
        "Evidence": "log_evidence log_evidence_se log_evidence_islands",
    },
    "FactorGraph": {
        "Build": "add_factor add_factors",
        "Well-known models": "tree hmm ising potts",
        "Other formats": "from_bayesian_network from_bif from_pgmpy from_networkx to_networkx",
        "Ask": "compile",
        "Factors": "n_factors scopes scope_of offsets potentials log_table log_tables is_symbolic",
        "Labels": "labels numbers",
    },
    "GraphDraws": {
        "Make and save": "from_idata save load",
        "Trust": "diagnose",
        "Graphs": "graphs to_networkx n_nodes reputations",
        "Answers": """
            summary edge_probabilities common_ancestor_probabilities node_count_probabilities popularities
        """,
    },
    "NamedGraph": {
        "Make": "from_edges from_networkx",
        "Edges": "directed undirected edges order cpdag",
        "Other formats": "to_networkx to_dot to_dagitty",
    },
    "LocalScores": {
        "Make": "from_data",
        "Ask": "log_score of choice candidate_list left_out",
        "Indices": "position parents_of_index index_of_parents lookup slots",
        "Arrays": "d offsets tops candidate_sets precede_sets log_sums",
    },
    "Circuit": {
        "Use and save": "with_parameters to_json from_json to_networkx",
        "Size": "n_nodes n_edges n_sum n_sum_edges n_product n_leaf names steps",
        "Nodes": "children_of columns_of leaves leaves_of leaf_row scope scope_bits",
        "Checks": "check_smooth check_decomposable",
    },
    "PaletteEntry": {
        "Constants": "code completed fitted centre coded_constants refuse_column relative_scale largest mean",
    },
}

SHARED = "The examples share the names that :ref:`this listing <names-in-the-examples>` makes."


def public_names() -> dict[str, Any]:
    """Full public name, such as ``pymc_spn.circuits.leaf``: the class or function."""
    spaces = {
        "pymc_spn": pymc_spn,
        **{f"pymc_spn.{name}": getattr(pymc_spn, name) for name in pymc_spn._NAMESPACES},
    }
    return {f"{space}.{name}": getattr(module, name) for space, module in spaces.items() for name in module._PUBLIC}


def members(cls: type) -> dict[str, str]:
    """Public methods and properties which this package defines: name, and the directive that documents it."""
    found = {}
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        inner = member.fget if isinstance(member, property) else getattr(member, "func", member)
        inner = getattr(inner, "__func__", inner)  # of class methods, and of methods that some objects lack
        if not name.startswith("_") and inspect.isfunction(inner) and inner.__module__.startswith("pymc_spn."):
            is_property = isinstance(member, property | cached_property)
            if inner.__doc__ or not is_property:  # constants of a contract, which have no words of their own
                found[name] = "autoproperty" if is_property else "automethod"
    return found


def topics(cls: type) -> dict[str, list[str]]:
    """Members of a class by topic, in the order in which a reader meets them; one topic where there are few."""
    own = members(cls)
    known = next((TOPICS[base.__name__] for base in cls.__mro__ if base.__name__ in TOPICS), {})
    grouped = {topic: [name for name in names.split() if name in own] for topic, names in known.items()}
    left = [name for name in own if not any(name in names for names in grouped.values())]
    return {topic: names for topic, names in {**grouped, "Methods": left}.items() if names}


def page(name: str, value: Any) -> str:
    """What the page of a public name says, in reStructuredText."""
    short = name.rpartition(".")[2]
    lines = [short, "=" * len(short), ""]
    if not inspect.isclass(value):
        return "\n".join([*lines, f".. autofunction:: {name}", "", SHARED, ""])
    directives, grouped = members(value), topics(value)
    lines += [f".. autoclass:: {name}", "", SHARED, ""]
    for topic, names in grouped.items():
        lines += [f".. rubric:: {topic}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [*(f"   ~{name}.{member}" for member in names), ""]
    for topic, names in grouped.items():
        lines += [topic, "-" * len(topic), ""]
        for member in names:
            lines += [f".. {directives[member]}:: {name}.{member}", ""]
    return "\n".join(lines)


def topic_pages(reference: str) -> dict[str, str]:
    """A page for each heading of the reference that has tables: the same tables, with the pages of its names below."""
    pages = {}
    for part in reference.split("\n## ")[1:]:
        title = part.partition("\n")[0]
        tables = re.findall(r"(?:\*\*([^*\n]*)\*\*\n\n)?```{eval-rst}\n(.*?)```", part, re.DOTALL)
        if tables:
            lines = [title, "=" * len(title), ""]
            for heading, table in tables:
                lines += [*([f".. rubric:: {heading}", ""] if heading else []), table]
            text = "\n".join(lines).replace(".. autosummary::", ".. autosummary::\n   :toctree: .")
            pages[title.lower().replace(" ", "_")] = text
    return pages


def write_pages(folder: Path, reference: Path) -> None:
    """Write all pages; a file whose text is the same keeps its time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    pages = topic_pages(reference.read_text(encoding="utf-8"))
    pages |= {name: page(name, value) for name, value in public_names().items()}
    for path in folder.iterdir():
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
