"""The arrows between rooms, held by reading every import; planted mistakes show that the reading works."""

from pathlib import Path

import pytest
from imports import is_kernel, module_name, package_imports, prefixes
from tiers import REST

import pymc_spn

PACKAGE = Path(pymc_spn.__file__).parent
CHECKOUT = Path(__file__).parents[1]

GROUND = {"numerics", "tables"}
MODELS = {"circuits", "dags", "indian_chefs", "trees", "factor_graphs"}
MAY_IMPORT = {
    "numerics": set(),
    "tables": {"numerics"},
    "circuits": GROUND,
    "dags": GROUND | {"circuits"},
    "indian_chefs": GROUND | {"circuits", "dags"},
    "trees": GROUND | {"circuits"},
    "factor_graphs": GROUND | {"circuits"},
    "plots": GROUND | MODELS,
    "interop": GROUND | MODELS,
}
INSIDE_CIRCUITS = {  # folders of the room, and which of the others each may import
    "leaves": set(),
    "evaluation": {"leaves"},
    "structures": {"leaves", "evaluation"},
    "gibbs": {"leaves", "structures"},
    "variational": {"leaves", "structures", "gibbs"},
    "records": {"leaves", "evaluation", "structures", "gibbs", "variational"},
    "events": {"leaves", "evaluation", "structures", "records"},
    "laws": {"leaves", "evaluation", "structures", "gibbs", "records", "events"},
    "maxima": {"leaves", "evaluation", "structures", "gibbs", "records", "events", "laws"},
    "queries": {"leaves", "evaluation", "structures", "gibbs", "variational", "records", "events", "laws", "maxima"},
    "estimation": {"leaves", "evaluation", "structures"},
    "squares": {"leaves", "evaluation", "structures", "events", "laws"},
}
NOT_IN_KERNELS = {"pymc", "pytensor", "xarray", "pandas"}
EMPTY_NAMES = {"utils", "helpers", "common", "misc", "core", "base"}
LONGEST_MODULE = 450


def violations(package: Path) -> list[str]:
    """Every broken rule in the package folder, as sentences that name file, rule and offender."""
    root = package.name
    found = []
    imports = package_imports(package)
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        if n_lines > LONGEST_MODULE:
            found.append(f"{place}: {n_lines} lines, more than {LONGEST_MODULE}")
        found += [
            f"{place}: the name '{part}' says nothing" for part in place.with_suffix("").parts if part in EMPTY_NAMES
        ]
        if place.name == "__init__.py" and len(place.parts) == 1:
            continue  # the public names may come from every room
        room = place.with_suffix("").parts[0]
        if room not in MAY_IMPORT:
            found.append(f"{place}: '{room}' is no room")
            continue
        inside = place.parts[1] if place.parts[0] == "circuits" and len(place.parts) > 2 else None
        for name in sorted(imports[module_name(path, package)]):
            if name.split(".")[0] != root:
                continue
            folder = name.split(".")[2] if name.startswith(f"{root}.circuits.") else None
            if inside and folder in INSIDE_CIRCUITS.keys() - INSIDE_CIRCUITS[inside] - {inside}:
                found.append(f"{place}: '{inside}' may not import '{folder}' ({name})")
            other = name.split(".")[1] if "." in name else None
            if other not in MAY_IMPORT:
                found.append(f"{place}: imports {name} from the package itself; import it from its room")
            elif other != room and other not in MAY_IMPORT[room]:
                found.append(f"{place}: room '{room}' may not import '{other}' ({name})")
    return found + kernel_violations(imports, root)


def kernel_violations(imports: dict[str, set[str]], root: str) -> list[str]:
    """Kernel files that reach PyMC, PyTensor, xarray or pandas, directly or through another module."""
    found = []
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
            waiting += reached & imports.keys() - {root}
    return found


def plant(folder: Path, files: dict[str, str]) -> Path:
    for place, text in files.items():
        path = folder / "house" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "house"


def test_the_package_keeps_its_rules():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize("folder", ["tests", "examples"])
def test_file_names_say_what_is_inside(folder):
    assert [p for p in (CHECKOUT / folder).rglob("*.py") if p.stem.removeprefix("test_") in EMPTY_NAMES] == []


def test_a_sound_house_passes(tmp_path):
    house = plant(
        tmp_path,
        {
            "__init__.py": "from house.plots.axes import draw\nfrom house.circuits import steps",
            "numerics/logspace.py": "import numpy as np\nfrom numba import njit",
            "tables/table.py": "import pandas as pd",
            "circuits/kernels.py": "import numba\nfrom house.numerics import logspace\nfrom . import circuit",
            "circuits/circuit.py": "import numpy as np",
            "circuits/steps.py": "import pymc\nfrom house.circuits import kernels",
            "dags/order.py": "from house.circuits.structures.circuit import Circuit",
            "indian_chefs/process.py": "from house.dags import order",
            "trees/tree.py": "from house.circuits.structures.circuit import Circuit",
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
        ({"circuits/circuit.py": "from house.dags.dag import DAG"}, "room 'circuits' may not import 'dags'"),
        ({"circuits/circuit.py": "from ..dags.dag import DAG"}, "room 'circuits' may not import 'dags'"),
        ({"circuits/__init__.py": "from ..dags import dag"}, "room 'circuits' may not import 'dags'"),
        ({"circuits/circuit.py": "from .. import dags"}, "room 'circuits' may not import 'dags'"),
        (
            {"circuits/circuit.py": "def f():\n    from house import plots"},
            "'circuits' may not import 'plots'",
        ),
        (
            {"circuits/circuit.py": "if TYPE_CHECKING:\n    from house.dags.dag import DAG"},
            "room 'circuits' may not import 'dags'",
        ),
        (
            {"trees/smc.py": "import importlib\nimportlib.import_module('house.factor_graphs.graph')"},
            "room 'trees' may not import 'factor_graphs'",
        ),
        ({"trees/tree.py": "from house.dags.dag import DAG"}, "room 'trees' may not import 'dags'"),
        ({"plots/axes.py": "from house.interop import networkx"}, "room 'plots' may not import 'interop'"),
        ({"circuits/steps.py": "import house as h"}, "imports house from the package itself"),
        ({"circuits/steps.py": "from house import Table"}, "imports house.Table from the package itself"),
        ({"flows/flow.py": ""}, "'flows' is no room"),
        ({"flow.py": ""}, "'flow' is no room"),
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
        ({"circuits/utils.py": ""}, "the name 'utils' says nothing"),
        (
            {"circuits/gibbs/chain.py": "from house.circuits.queries.posterior import SPNPosterior"},
            "'gibbs' may not import 'queries'",
        ),
        ({"circuits/core/kernels.py": ""}, "the name 'core' says nothing"),
        ({"circuits/kernels.py": "x = 1\n" * 451}, "circuits/kernels.py: 451 lines, more than 450"),
    ],
)
def test_a_planted_mistake_is_found(tmp_path, files, sentence):
    (found,) = violations(plant(tmp_path, files))
    assert sentence in found


def test_files_of_the_second_tier_exist():
    files = [CHECKOUT / "tests" / d / f"test_{name}.py" for d, names in REST.items() for name in names.split()]
    assert [file for file in files if not file.exists()] == []
