"""Messages that lead on where a user guesses a name, an argument or a way to make an object."""

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pymc_spn.numerics.methods_of_some import MethodOfSome
from pymc_spn.numerics.quoted_values import quoted


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that a user may have meant, whatever its case; None if none is near."""
    known = {one.lower(): one for one in sorted(names)}
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return known[found[0]] if found else None


class LeadsOn:
    """An object whose missing attributes say what to ask instead, and that offers only what it can answer.

    `_instead` maps names that other packages use to what is said of them; those of base classes count, too. It says
    under ``"[]"`` what to ask in place of ``post["age"]``, and under ``"()"`` what in place of ``post(df)``.
    `_refused` names methods that only refuse: they are there, but not offered.
    """

    _instead: ClassVar[dict[str, str]] = {}
    _refused: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "()" in vars(cls).get("_instead", {}):  # others stay what `callable` says no to
            cls.__call__ = _refuse_call  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # to a type checker, a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            there = next((vars(cls)[name] for cls in type(self).__mro__ if name in vars(cls)), None)
            if hasattr(type(there), "__get__"):  # its own error, which Python has dropped to ask here
                return there.__get__(self, type(self))
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name.startswith("_"):
                raise AttributeError(said)
            for way in _ways(self, name):
                raise AttributeError(f"{said}: {way}")
            meant = nearest(name, (one for one in dir(self) if not one.startswith("_")))
            raise AttributeError(said + (f"; did you mean {meant!r}?" if meant else ""))

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(": ".join([f"{type(self).__name__!r} object is not subscriptable", *_ways(self, "[]")]))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._refused and self._answers(name)]

    def _answers(self, name: str) -> bool:
        method = inspect.getattr_static(type(self), name, None)
        return not isinstance(method, MethodOfSome) or hasattr(self, name)


def _ways(asked: LeadsOn, name: str) -> list[str]:
    """What is said of a name, by the first class that says something; empty if none does."""
    found = (way for cls in type(asked).__mro__ if (way := vars(cls).get("_instead", {}).get(name)))
    return list(islice(found, 1))


def _refuse_call(self: LeadsOn, *_: Any, **__: Any) -> NoReturn:
    raise TypeError(": ".join([f"{type(self).__name__!r} object is not callable", *_ways(self, "()")]))


def _is_of_the_call(error: TypeError) -> bool:
    """Whether arguments did not fit the function that was called, and none within it."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def led[**P, R](ask: Callable[P, R]) -> Callable[P, R]:
    """A method of a posterior, or a function, that says which arguments it takes where a call does not fit them.

    One with an attribute `elsewhere` is asked by that, as ``elsewhere(ask, args, named)``, where it returns an answer
    and not None.
    """
    if getattr(ask, "is_led", False):
        return ask
    elsewhere: Callable[..., R | None] | None = getattr(ask, "elsewhere", None)

    @wraps(ask)
    def asked(*args: P.args, **named: P.kwargs) -> R:
        if elsewhere is not None and (found := elsewhere(ask, args, named)) is not None:
            return found
        try:
            return ask(*args, **named)
        except TypeError as error:
            if not _is_of_the_call(error):
                raise
            parameters = list(inspect.signature(ask).parameters)
            is_method = parameters[:1] in (["self"], ["cls"])
            parameters = parameters[is_method:]
            odd = [name for name in named if name not in parameters]
            columns = {column.name for column in getattr(args[0], "columns", ())} if is_method else set()
            ends = "" if str(error).endswith("?") else "."
            takes = f"Its arguments are {', '.join(parameters)}" if parameters else "It takes no arguments"
            words = f"{error}{ends} {takes}"
            if columns.intersection(odd):
                known = ", ".join(f"{name!r}: {named[name]!r}" for name in odd if name in columns)
                words += f"; columns go into a dict, {{{known}}}"
            raise TypeError(words) from None

    asked.is_led = True  # type: ignore[attr-defined]
    return asked


def made_by[Class: type](way: str) -> Callable[[Class], Class]:
    """A class that is seldom made by its own arguments: where these do not fit, the message says how it is made.

    Parameters
    ----------
    way : str
        As in ``"ps.LocalScores.from_data(df)"``.
    """

    def change(cls: Class) -> Class:
        make = cls.__init__  # type: ignore[misc]

        @wraps(make)
        def __init__(self: Any, *args: Any, **named: Any) -> None:
            try:
                make(self, *args, **named)
            except TypeError as error:
                if not _is_of_the_call(error):
                    raise
                raise TypeError(f"{error}. Make it by {way}") from None

        cls.__init__ = __init__  # type: ignore[misc]
        return cls

    return change


def in_a_model[Make: Callable[..., Any]](way: str) -> Callable[[Make], Make]:
    """What is made within a model, by a name: where the call does not fit, the message says how it is written.

    Parameters
    ----------
    way : str
        What stands behind ``with pm.Model():``, as in ``"ps.SPN('x', observed=df)"``.
    """
    said = f"Write with pm.Model(): {way}"

    def change(made: Make) -> Make:
        place = "__new__" if "__new__" in vars(made) else "__init__"
        make: Callable[..., Any] = getattr(made, place) if isinstance(made, type) else made
        before = 1 if isinstance(made, type) else 0  # arguments before the name

        @wraps(make)
        def asked(*args: Any, **named: Any) -> Any:
            for name in (*args[before : before + 1], *([named["name"]] if "name" in named else [])):
                if not isinstance(name, str):
                    raise TypeError(f"name must be a string, got {quoted(name)}. {said}")
            try:
                return make(*args, **named)
            except TypeError as error:
                if not _is_of_the_call(error) and not str(error).startswith("No model on context stack"):
                    raise
                raise TypeError(f"{str(error).rstrip('.')}. {said}") from None

        if not isinstance(made, type):
            return asked  # type: ignore[return-value]
        setattr(made, place, staticmethod(asked) if place == "__new__" else asked)
        return made

    return change
