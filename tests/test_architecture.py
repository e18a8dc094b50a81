"""The arrows between rooms, held by reading every import; planted mistakes show that the reading works."""

import re
from pathlib import Path

import networkx as nx
import pytest
from imports import class_names, is_kernel, module_name, package_imports, prefixes, words_of
from tiers import REST

import pymc_spn

PACKAGE = Path(pymc_spn.__file__).parent
CHECKOUT = Path(__file__).parents[1]


def table_rows(text: str, head: str) -> list[list[str]]:
    """Cells of the table with this head in a Markdown document."""
    lines = text[text.index(head) :].splitlines()
    rows = lines[2 : next(i for i, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in rows]


CONTRIBUTING = (CHECKOUT / "docs" / "contributing.md").read_text(encoding="utf-8")
# The document's tables: what each room may import, and what each folder or file of a room may import of that room.
MAY_IMPORT = {
    room.strip("`"): set(re.findall(r"`(\w+)`", imports))
    for room, _, imports in table_rows(CONTRIBUTING, "| Room | Holds | May import |")
}
INSIDE = {
    part.strip("`"): set(re.findall(r"`(\w+)`", imports))
    for part, imports in table_rows(CONTRIBUTING, "| Part of a room | May import |")
}

LARGEST_CIRCLE = 3

WITHOUT_PYMC = {room for room, imports in MAY_IMPORT.items() if "steps" not in imports} - {"steps", "plots", "interop"}
SHOWS_BARS = "numerics.progress_bars"  # asks for PyMC's bar when it first draws one; nothing is computed by it
NOT_IN_KERNELS = {"pymc", "pytensor", "xarray", "pandas"}
EMPTY_NAMES = {"utils", "helpers", "common", "misc", "core", "base"}
ROLES = {  # of the table's rows that begin with the name of a file
    name
    for row in table_rows(CONTRIBUTING, "| File | Holds |")
    if row[0][0] == "`"
    for name in re.findall(r"`(\w+)\.py`", row[0])
}


def violations(package: Path) -> list[str]:
    """Every broken rule in the package folder, as sentences that name file, rule and offender."""
    root = package.name
    found = []
    imports = package_imports(package)
    doors = doors_of(imports, root)
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        found += [
            f"{place}: the name '{part}' says nothing" for part in place.with_suffix("").parts if part in EMPTY_NAMES
        ]
        if module_name(path, package) in doors | {root}:
            continue  # public names may come from every room
        room = place.with_suffix("").parts[0]
        if room not in MAY_IMPORT:
            found.append(f"{place}: '{room}' is no room")
            continue
        part = part_of(module_name(path, package))
        if len(place.parts) > 2 and part is None:
            found.append(f"{place}: '{room}/{place.parts[1]}' is in no table")
        names = imports[module_name(path, package)]
        if room in WITHOUT_PYMC and module_name(path, package) != f"{root}.{SHOWS_BARS}":
            pymc = {name.split(".")[0] for name in names} & {"pymc", "pytensor"}
            found += [f"{place}: '{room}' is without PyMC and may not import {name}" for name in sorted(pymc)]
        for name in sorted({module_of(name, imports) for name in names if name.split(".")[0] == root}):
            other = name.split(".")[1] if "." in name else None
            if name in doors and name != root:
                found.append(f"{place}: imports {name}, which holds public names; name the file that defines it")
                continue
            if other not in MAY_IMPORT:
                found.append(f"{place}: imports {name} from the package itself; import it from its room")
            elif other != room and other not in MAY_IMPORT[room]:
                found.append(f"{place}: room '{room}' may not import '{other}' ({name})")
            elif other == room and part and part_of(name) not in {part, *(f"{room}/{p}" for p in INSIDE[part])}:
                found.append(f"{place}: '{part}' may not import this file of its room ({name})")
    return found + circle_violations(imports, root) + kernel_violations(imports, root) + alike(package)


def module_of(name: str, imports: dict[str, set[str]]) -> str:
    """The module that holds a dotted name, or the name itself where the package has no such module."""
    return max((m for m in prefixes(name) & imports.keys() if "." in m), key=len, default=name)


def part_of(module: str) -> str | None:
    """The part of a room, as in the document's second table, to which a module belongs."""
    part = "/".join(module.split(".")[1:3])
    return part if part in INSIDE else None


def doors_of(imports: dict[str, set[str]], root: str) -> set[str]:
    """Modules of public names, each loaded from its file when it is asked for."""
    return {module for module, names in imports.items() if f"{root}.numerics.lazy_names.lazy_names" in names}


def circle_violations(imports: dict[str, set[str]], root: str) -> list[str]:
    """Circles of imports that are too large; modules of public names, which no file imports from, are left out."""
    graph, doors = nx.DiGraph(), doors_of(imports, root) | {root}
    for module, names in imports.items():
        reached = {module_of(name, imports) for name in names} & imports.keys() - {module, *doors}
        graph.add_edges_from((module, other) for other in reached if module not in doors)
    found = []
    for circle in nx.strongly_connected_components(graph):
        if len(circle) > LARGEST_CIRCLE:
            members = ", ".join(sorted(circle))
            found.append(
                f"a circle of {len(circle)} files that import each other, more than {LARGEST_CIRCLE}: {members}"
            )
    return found


def kernel_violations(imports: dict[str, set[str]], root: str) -> list[str]:
    """Kernel files that reach PyMC, PyTensor, xarray or pandas, directly or through another module."""
    found, doors = [], doors_of(imports, root) | {root}
    for module, names in imports.items():
        if not is_kernel(names, root):
            continue
        seen, waiting = set(), [module]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            heavy = sorted(NOT_IN_KERNELS & {name.split(".")[0] for name in imports[current]})
            if heavy:
                through = "" if current == module else f" through {current}"
                found.append(f"{module}: a kernel file may not import {', '.join(heavy)}{through}")
            reached = {module for name in imports[current] for module in prefixes(name)}
            waiting += reached & imports.keys() - doors
    return found


def alike(package: Path) -> list[str]:
    """Classes, and files of neighbouring rooms, whose names are the same words; names that say a role are left out."""
    classes: dict[tuple[str, ...], list[str]] = {}
    files: dict[tuple[str, ...], list[Path]] = {}
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        for name in class_names(path):
            others = classes.setdefault(words_of(name), [])
            found += [f"{place}: the class {name} has the name of {other}" for other in others]
            others.append(f"{name} in {place}")
        if path.name == "__init__.py" or len(place.parts) == 1 or path.stem in ROLES:
            continue
        room, others = place.parts[0], files.setdefault(words_of(path.stem), [])
        for other in others:
            if other.parts[0] in {room, *MAY_IMPORT[room]} or room in MAY_IMPORT[other.parts[0]]:
                found.append(f"{place}: the file has the name of {other}")
        others.append(place)
    return found


def borrowed_from_tests(folder: Path) -> list[str]:
    """Imports from a module of tests: what two of them need is in one whose name does not begin with test_."""
    return [
        f"{module} imports {name} from a module of tests"
        for module, names in package_imports(folder).items()
        for name in sorted(names)
        if any(part.startswith("test_") for part in name.split("."))
    ]


def plant(folder: Path, files: dict[str, str]) -> Path:
    for place, text in files.items():
        path = folder / "house" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "house"


def test_the_package_keeps_its_rules():
    assert violations(PACKAGE) == []


def test_the_documents_name_the_rooms_that_there_are():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert MAY_IMPORT.keys() == rooms
    parts = {
        path.parent.relative_to(PACKAGE).as_posix() for room in rooms for path in PACKAGE.glob(f"{room}/*/__init__.py")
    }
    assert parts == {part for part in INSIDE if not (PACKAGE / part).with_suffix(".py").exists()}


def test_the_tables_have_no_circle():
    graph = nx.DiGraph((room, other) for room, others in MAY_IMPORT.items() for other in others)
    graph.add_edges_from((p, f"{p.split('/')[0]}/{other}") for p, others in INSIDE.items() for other in others)
    assert nx.is_directed_acyclic_graph(graph)


def test_no_test_imports_from_another_module_of_tests():
    assert borrowed_from_tests(CHECKOUT / "tests") == []


@pytest.mark.parametrize(
    "text",
    [
        "from tests.trees.test_tree import rows",
        "from .test_tree import rows",
        "from tests.trees import test_tree",
        "import test_tree",
        "def f():\n    from house.trees.test_tree import rows",
    ],
)
def test_a_planted_import_from_a_module_of_tests_is_found(tmp_path, text):
    house = plant(
        tmp_path, {"trees/test_leaf.py": text, "trees/small_trees.py": "import pytest", "trees/test_tree.py": ""}
    )
    (found,) = borrowed_from_tests(house)
    assert found.startswith("house.trees.test_leaf imports ")


@pytest.mark.parametrize("folder", ["tests", "examples"])
def test_file_names_say_what_is_inside(folder):
    assert [p for p in (CHECKOUT / folder).rglob("*.py") if p.stem.removeprefix("test_") in EMPTY_NAMES] == []


DOOR = "from house.numerics.lazy_names import lazy_names\nif TYPE_CHECKING:"


def test_a_sound_house_passes(tmp_path):
    house = plant(
        tmp_path,
        {
            "__init__.py": "from house.plots.axes import draw\nfrom house.networks import step_methods",
            "circuits/__init__.py": DOOR + "\n    from house.densities.density import Density",
            "sklearn.py": DOOR + "\n    from house.interop.estimators import Classifier",
            "circuits/structures/circuit.py": "",
            "numerics/lazy_names.py": "",
            "numerics/logspace.py": "import numpy as np\nfrom numba import njit",
            "tables/table.py": "import pandas as pd",
            "gibbs/kernels.py": "import numba\nfrom house.numerics import logspace\nfrom . import network",
            "gibbs/network.py": "import numpy as np",
            "networks/records/record.py": "from house.networks.schema import Schema",
            "networks/schema.py": "from house.gibbs import network",
            "networks/step_methods.py": "import pymc\nfrom house.gibbs import kernels",
            "dags/order.py": "from house.circuits.structures.circuit import Circuit",
            "dags/search.py": "from house.dags import order, graph",
            "dags/graph.py": "def f():\n    from house.dags.search import best",
            "trees/search.py": "",  # of no neighbour
            "trees/tree.py": "from house.steps.tickets import Ticket",
            "plots/axes.py": "from house.trees.tree import Tree\nfrom house.indian_chefs import process",
        },
    )
    assert violations(house) == []


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"tables/table.py": "import house.circuits.structures.circuit"}, "room 'tables' may not import 'circuits'"),
        (
            {"numerics/bitsets.py": "from house.tables import table"},
            "room 'numerics' may not import 'tables'",
        ),
        ({"leaves/family.py": "from house.dags.dag import DAG"}, "room 'leaves' may not import 'dags'"),
        ({"leaves/family.py": "from ..dags.dag import DAG"}, "room 'leaves' may not import 'dags'"),
        ({"leaves/__init__.py": "from ..dags import dag"}, "room 'leaves' may not import 'dags'"),
        ({"leaves/family.py": "from .. import dags"}, "room 'leaves' may not import 'dags'"),
        (
            {"leaves/family.py": "def f():\n    from house import plots"},
            "'leaves' may not import 'plots'",
        ),
        (
            {"leaves/family.py": "if TYPE_CHECKING:\n    from house.dags.dag import DAG"},
            "room 'leaves' may not import 'dags'",
        ),
        (
            {"trees/smc.py": "import importlib\nimportlib.import_module('house.factor_graphs.graph')"},
            "room 'trees' may not import 'factor_graphs'",
        ),
        ({"trees/tree.py": "from house.dags.dag import DAG"}, "room 'trees' may not import 'dags'"),
        ({"plots/axes.py": "from house.interop import networkx"}, "room 'plots' may not import 'interop'"),
        ({"networks/steps.py": "import house as h"}, "imports house from the package itself"),
        ({"networks/steps.py": "from house import Table"}, "imports house.Table from the package itself"),
        ({"flows/flow.py": ""}, "'flows' is no room"),
        ({"flow.py": ""}, "'flow' is no room"),
        (  # what once passed: a folder that reaches the questions through a loose file
            {
                "networks/schema.py": "from house.networks.anything import ask",
                "networks/anything.py": "from house.networks.records.record import ask",
                "networks/records/record.py": "",
            },
            "'networks/schema' may not import this file of its room (house.networks.anything)",
        ),
        (
            {"leaves/family.py": "from house.circuits.anything import ask", "circuits/anything.py": ""},
            "room 'leaves' may not import 'circuits' (house.circuits.anything)",
        ),
        (
            {"networks/schema.py": "import house.networks", "networks/__init__.py": "from . import records"},
            "'networks/schema' may not import this file of its room (house.networks)",
        ),
        (
            {"networks/schema.py": "def f():\n    from house.networks.records import record"},
            "'networks/schema' may not import this file of its room",
        ),
        (
            {
                "trees/tree.py": "from house.circuits import Circuit",
                "circuits/__init__.py": DOOR + "\n    from house.circuits.circuit import Circuit",
            },
            "imports house.circuits, which holds public names",
        ),
        (
            {"leaves/family.py": "from house import sklearn", "sklearn.py": DOOR + " pass"},
            "imports house.sklearn, which holds public names",
        ),
        ({"circuits/flows/flow.py": ""}, "'circuits/flows' is in no table"),
        (
            {
                "dags/a.py": "from house.dags.b import f",
                "dags/b.py": "if TYPE_CHECKING:\n    from house.dags import c",
                "dags/c.py": "def f():\n    import house.dags.d",
                "dags/d.py": "from .a import g",
            },
            "a circle of 4 files that import each other, more than 3: house.dags.a, house.dags.b",
        ),
        (
            {"trees/smc.py": "import numba\n\ndef f():\n    import xarray as xr"},
            "house.trees.smc: a kernel file may not import xarray",
        ),
        ({"trees/smc.py": "from numba import njit\nimport pytensor.tensor as pt"}, "may not import pytensor"),
        (
            {"trees/smc.py": "import numba\nfrom .prior import f", "trees/prior.py": "import pymc, pandas"},
            "house.trees.smc: a kernel file may not import pandas, pymc through house.trees.prior",
        ),
        (
            {"trees/smc.py": "from house.numerics.kernel_options import kernel\nimport pymc"},
            "house.trees.smc: a kernel file may not import pymc",
        ),
        (
            {"circuits/structures/circuit.py": "def f():\n    import pymc as pm"},
            "'circuits' is without PyMC and may not import pymc",
        ),
        ({"dags/utils.py": ""}, "the name 'utils' says nothing"),
        (
            {
                "dags/a.py": "class LeafDraws:\n    pass",
                "trees/b.py": "class _DrawsOfLeaf:\n    pass\n\n\nclass DrawLeaf: ...",
            },
            "trees/b.py: the class DrawLeaf has the name of LeafDraws in dags/a.py",
        ),
        (
            {"circuits/laws/circuit_fits.py": "", "plots/fit_circuit.py": ""},
            "plots/fit_circuit.py: the file has the name of circuits/laws/circuit_fits.py",
        ),
        ({"dags/core.py": ""}, "the name 'core' says nothing"),
    ],
)
def test_a_planted_mistake_is_found(tmp_path, files, sentence):
    (found,) = violations(plant(tmp_path, files))
    assert sentence in found


def test_files_of_the_second_tier_exist():
    there = {(path.parent.name, path.stem) for path in (CHECKOUT / "tests").rglob("test_*.py")}
    named = {(folder, f"test_{name}") for folder, names in REST.items() for name in names.split()}
    assert named - there == set()
