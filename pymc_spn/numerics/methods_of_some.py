"""Methods that only some objects of a class have."""

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, overload


class MethodOfSome[**P, R]:
    """A method that an object lacks where its ``_lacks`` gives a reason: `hasattr` is false, and the error says why.

    Parameters
    ----------
    __func__ : callable
        ``_lacks`` of the object is asked by its name.
    """

    def __init__(self, __func__: Callable[Concatenate[Any, P], R]) -> None:
        self.__func__, self.__doc__ = __func__, __func__.__doc__

    @overload
    def __get__(self, asked: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(self, asked: Any, owner: type) -> Callable[P, R]: ...

    def __get__(self, asked: Any, owner: type) -> Any:
        if asked is None:
            return self.__func__
        reason = asked._lacks(self.__func__.__name__)
        if reason:
            raise AttributeError(reason, name=self.__func__.__name__, obj=asked)
        return MethodType(self.__func__, asked)
