"""Names of a module that are imported from their places on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from pymc_spn.numerics.first_guesses import nearest

FOREIGN = {  # what other packages call things
    "sumproductnetwork": "SPN",
    "bayesiannetwork": "DagPosterior, which learns its graph, or FactorGraph, which answers for given tables",
    "discretebayesiannetwork": "FactorGraph, or DagPosterior, which learns the graph",
    "markovnetwork": "FactorGraph",
    "decisiontreeclassifier": "fit_tree, or sklearn.BayesianTreeClassifier",
    "decisiontreeregressor": "fit_tree, or sklearn.BayesianTreeRegressor",
    "learn_spn": "SPN in a model, or fit_variational",
    "normal": "leaves.Gaussian",
}
METHODS = {  # functions of other packages that are methods here
    "save": "results save themselves, post.save(path), and ps.load(path) reads them",
    "fit": "ps.fit_variational(df), ps.fit_tree(X, y) and ps.DagPosterior.from_data(df) learn from a table, "
    "pm.sample() from a model",
    "sample": "pm.sample() draws from a model, and post.sample(n) rows from a posterior",
    "predict": "posteriors answer, post.predict(df, target)",
}


def lazy_names(
    module: str, places: Mapping[str, str], namespaces: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names stand elsewhere in the package.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    places : mapping
        Name: the module of the package that defines it, without the package's own name.
    namespaces : tuple of str
        Submodules that are offered as well, imported when they are asked for.
    """
    package = module.partition(".")[0]

    def load(name: str) -> Any:
        if name in namespaces:
            return import_module(f"{module}.{name}")
        if name not in places:
            meant = None if name.startswith("_") else _meant(package, module, name)
            said = f"module {module!r} has no attribute {name!r}"
            if name in METHODS:
                raise AttributeError(f"{said}: {METHODS[name]}")
            raise AttributeError(said + (f"; did you mean {meant}?" if meant else ""))
        value = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*places, *namespaces})

    return load, names


def _meant(package: str, module: str, name: str) -> str | None:
    """What a user may have meant: the name in another namespace, one that is nearly it, or what it is called here."""
    top = sys.modules[package]
    every = {one: f"ps.{one}" for one in dir(top)}
    for space in [one for one in every if one in getattr(top, "_NAMESPACES", ())]:
        every |= {one: f"ps.{space}.{one}" for one in dir(import_module(f"{package}.{space}")) if one not in every}
    if name in every:
        return every[name]
    if name.lower() in FOREIGN:
        return f"ps.{FOREIGN[name.lower()]}"
    own = nearest(name, dir(sys.modules[module])) or nearest(name, every)
    return every.get(own) if own else None
