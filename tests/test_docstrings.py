"""The reference has all public names, and the examples in their docstrings run as they stand there."""

import doctest
import importlib.util
import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pymc_spn.numerics import progress_bars

pytest.importorskip("sklearn")
matplotlib = pytest.importorskip("matplotlib")

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")


def module_of_the_docs(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = module_of_the_docs("reference_pages")
PUBLIC = PAGES.public_names()
OWN_CONTRACT = ("pymc_spn.steps.", "pymc_spn.leaves.")  # their methods are for the package, not for its users


def function_behind(cls, name):
    """The function that a user finds under a name, without the copies that carry the names of classes."""
    member = inspect.getattr_static(cls, name)
    member = member.fget if isinstance(member, property) else getattr(member, "func", member)
    return inspect.unwrap(getattr(member, "__func__", member))


def documented():
    """Public name: its docstring, each docstring once."""
    found, seen = {}, set()
    for name, value in PUBLIC.items():
        found[name] = value.__doc__
        if inspect.isclass(value):
            for member in PAGES.members(value):
                function = function_behind(value, member)
                if function.__code__ not in seen:
                    seen.add(function.__code__)
                    found[f"{name}.{member}"] = function.__doc__
    return found


DOCUMENTED = documented()


# Arguments that may be anything: what they are is said by other packages, or differs from class to class.
OPAQUE = {
    "from_json": {"fields"},  # JSON
    "sample_chains": {"sample_kwargs"},  # of pm.sample
    "__new__": {"kwargs"},  # of PyMC
}


def untyped_arguments(label, function):
    """Arguments of a function without a type, or of any type, and its return value if that has none."""
    signature = inspect.signature(function)
    types = {name: p.annotation for name, p in signature.parameters.items() if name not in ("self", "cls")}
    plain = (inspect.Parameter.empty, Any, "Any", "Any | None")
    bad = {name for name, told in types.items() if told in plain} - OPAQUE.get(label.split(".")[-1], set())
    return bad | ({"return"} if signature.return_annotation is inspect.Signature.empty else set())


def public_functions():
    """Functions behind public names, with the constructors of classes, by the name that users know."""
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            for member in ("__new__", "__init__", *PAGES.members(value)):
                yield f"{name}.{member}", inspect.unwrap(function_behind(value, member))
        else:
            yield name, inspect.unwrap(value)


def without_example(docstrings):
    names = [n for n in docstrings if n in PUBLIC or not n.startswith((*OWN_CONTRACT, "pymc_spn.sklearn."))]
    return {n.removeprefix("pymc_spn.") for n in names if ">>>" not in (docstrings[n] or "")}


def test_each_public_name_has_a_place_in_the_reference():
    tables = re.findall(r"```{eval-rst}\n(.*?)```", REFERENCE, re.DOTALL)
    listed = [f"pymc_spn.{n}" for table in tables for n in re.findall(r"^   ([\w.]+)$", table, re.MULTILINE)]
    assert sorted(listed) == sorted(PUBLIC)


def test_pages_show_all_members_once():
    post = PAGES.page("pymc_spn.SPNPosterior", PUBLIC["pymc_spn.SPNPosterior"])
    assert ".. automethod:: pymc_spn.SPNPosterior.impute\n" in post  # inherited
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            topics = PAGES.topics(value)
            shown = [member for members in topics.values() for member in members]
            assert sorted(shown) == sorted(PAGES.members(value))
            assert len(topics.get("Methods", [])) <= 12, f"{name} has many members: give them topics"


def test_members_of_other_packages_stay_out():
    assert set(PAGES.members(PUBLIC["pymc_spn.sklearn.SPNImputer"])) == {"fit", "transform"}
    assert "astep" not in PAGES.members(PUBLIC["pymc_spn.steps.TopDownSPNStep"])


def test_each_public_name_has_an_example():
    assert without_example(DOCUMENTED) == set()
    assert without_example({**DOCUMENTED, "pymc_spn.SPN": "Text alone."}) == {"SPN"}


def test_public_functions_have_types():
    own = {n: f for n, f in public_functions() if inspect.isfunction(f) and f.__module__.startswith("pymc_spn.")}
    assert len(own) > 400
    assert {name: bad for name, function in own.items() if (bad := untyped_arguments(name, function))} == {}
    assert untyped_arguments("f", lambda x: x) == {"x", "return"}


def test_text_names_what_is_documented():
    pytest.importorskip("sphinx")
    links = module_of_the_docs("reference_links")
    known = links.full_names(list(PUBLIC))
    for short, full in {
        "ps.fit_variational": "pymc_spn.fit_variational",
        "SPNPosterior.impute": "pymc_spn.SPNPosterior.impute",
        "circuits.leaf": "pymc_spn.circuits.leaf",
        "pm.sample": "pymc.sample",
        "leaf": "leaf",  # a word
        "load": "load",
        "psalm.SPN": "psalm.SPN",
    }.items():
        assert links.spelled_out(short, known) == full


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The names that the reference makes for all examples."""
    matplotlib.use("Agg")
    (block,) = re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # chains are short
        exec(block, names)
    return {**names, "folder": tmp_path_factory.mktemp("examples")}


def failures(docstring, name, names):
    """What doctest says about the examples of a docstring; empty if all is as it stands there."""
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(docstring), dict(names), name, None, 0)
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # questions to few draws warn of that
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    matplotlib.pyplot.close("all")
    return "".join(said)


@pytest.fixture(autouse=True)
def no_bar(monkeypatch):
    """First calls compile for seconds, and a bar would stand in what an example prints."""
    monkeypatch.setattr(progress_bars, "PATIENCE", np.inf)


@pytest.mark.parametrize("name", [name for name, text in DOCUMENTED.items() if ">>>" in (text or "")])
def test_example_runs(name, shared):
    assert failures(DOCUMENTED[name], name, shared) == ""


def test_a_wrong_example_is_found(shared):
    right = DOCUMENTED["pymc_spn.circuits.leaf"]
    assert ".item()\n" in right
    wrong = re.sub(r"(\.item\(\)\n\s*)\S+", r"\g<1>0.25", right)
    assert "Expected:\n    0.25" in failures(wrong, "leaf", shared)
