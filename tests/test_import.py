"""What ``import pymc_spn`` loads, seen from fresh interpreters, and where the public names lead."""

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from imports import is_kernel, package_imports

import pymc_spn as ps

PACKAGE = Path(ps.__file__).parent
NAMESPACES = [name for name in dir(ps) if find_spec(f"pymc_spn.{name}")]
SPACES = {"": ps, **{name: getattr(ps, name) for name in NAMESPACES}}  # modules that hold public names
PUBLIC = [(space, name) for space, module in SPACES.items() for name in dir(module) if name not in NAMESPACES]

# `import pymc` (6.4.0) loads none of these by itself (measured; asserted below, so that a PyMC release which
# changes this is noticed here and not blamed on us).
ARVIZ = ("arviz", "arviz_base", "arviz_stats", "arviz_plots")
HEAVY = ("numba", "scipy.stats", *ARVIZ, "matplotlib", "sklearn", "jax", "dask")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.fixture(scope="module")
def after_pymc():
    return modules_after("import pymc")


@pytest.fixture(scope="module")
def after_pymc_spn():
    return modules_after("import pymc_spn")


def test_pymc_alone_loads_nothing_heavy(after_pymc):
    assert after_pymc.isdisjoint(HEAVY)


def test_import_adds_nothing_heavy(after_pymc, after_pymc_spn):
    assert (after_pymc_spn - after_pymc).isdisjoint(HEAVY)


def test_import_loads_no_kernel(after_pymc_spn):
    kernels = {module for module, names in package_imports(PACKAGE).items() if is_kernel(names, "pymc_spn")}
    assert after_pymc_spn.isdisjoint(kernels)


def test_all_names_at_once_do_not_ask_for_scikit_learn():
    """Its finder is turned away, as if it were not installed; the other names come."""
    code = (
        "import importlib.machinery as m, sys\n"
        "found = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = lambda n, *a, **k: None if n.startswith('sklearn') else found(n, *a, **k)\n"
        "from pymc_spn import *\n"
        "assert 'OrderSPN' in globals() and 'sklearn' not in globals()\n"
        "import pymc_spn\n"
        "assert pymc_spn.sklearn and pymc_spn.plots and pymc_spn.leaves.Gaussian"
    )
    assert "sklearn" not in modules_after(code)


def test_heavy_modules_would_be_seen():
    assert modules_after("import scipy.stats") & set(HEAVY) == {"scipy.stats"}


@pytest.mark.parametrize(("space", "name"), PUBLIC)
def test_public_names_lead_somewhere(space, name):
    assert getattr(SPACES[space], name) is not None


def test_the_top_offers_what_it_says_and_nothing_else():
    assert dir(ps) == sorted(public_names_in_the_source("")) and len(dir(ps)) <= 50
    for space in SPACES:
        assert sorted(dir(SPACES[space])) == sorted(public_names_in_the_source(space))
    names = [name for _, name in PUBLIC]
    assert len(names) == len(set(names))  # each stands in one place


def of_public_classes():
    """Classes that users hold, and the functions that they find on them."""
    public = [getattr(SPACES[space], name) for space, name in PUBLIC]
    for cls in [c for c in public if inspect.isclass(c)]:
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            member = getattr(member, "__func__", member)
            is_ours = inspect.isfunction(member) and member.__module__.startswith("pymc_spn.")
            if is_ours and (not name.startswith("_") or name == "__init__"):
                yield cls, name, member


def public_names_in_the_source(space):
    """Public names of a module and where each stands, as the type checker sees them."""
    source = ast.parse(Path(SPACES[space].__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in source.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return {
        alias.asname: f"{statement.module}.{alias.name}"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


@pytest.mark.parametrize("space", SPACES)
def test_public_names_are_those_the_type_checker_sees(space):
    for name, place in public_names_in_the_source(space).items():
        module, _, own = place.rpartition(".")
        assert getattr(SPACES[space], name) is getattr(import_module(module), own)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pymc_spn' has no attribute 'Tabel'"):
        _ = ps.Tabel
    with pytest.raises(ImportError):
        import_module("pymc_spn.tabel")


def test_few_public_arguments_are_any():
    """Of the annotated arguments of public functions and methods, each function of the source counted once."""
    functions = {
        getattr(SPACES[space], name) for space, name in PUBLIC if inspect.isfunction(getattr(SPACES[space], name))
    }
    functions |= {inspect.unwrap(member) for _, _, member in of_public_classes()}
    places = {(f.__code__.co_filename, f.__code__.co_firstlineno) for f in functions}
    places = {(file, line) for file, line in places if file.startswith(str(PACKAGE))}
    words, seen = [], set()
    for path in sorted({file for file, _ in places}):
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                arguments = [
                    *node.args.posonlyargs,
                    *node.args.args,
                    *node.args.kwonlyargs,
                    node.args.vararg,
                    node.args.kwarg,
                ]
                if (path, first) in places:
                    seen.add((path, first))
                    words += [
                        ast.unparse(a.annotation) for a in arguments if a is not None and a.annotation is not None
                    ]
    assert seen == places  # none is passed over
    assert sum(re.search(r"\bAny\b", word) is not None for word in words) < 0.06 * len(words)
