"""Handles of structures in a model: no tensors, and where one is used as such it says what to do instead."""

from typing import Any, ClassVar, NoReturn

from pytensor.tensor.basic import _as_tensor_variable

from pymc_spn.numerics.html_repr import NotebookRepr


class NoTensor(NotebookRepr):
    """A handle that stands for something without a value; a subclass says what to do instead."""

    name: str
    instead: ClassVar[str] = ""  # what the message says, with {name} for the name

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self.instead.format(name=self.name))

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or "name" not in self.__dict__:
            raise AttributeError(attribute)
        raise AttributeError(f"no attribute {attribute!r}: {self.instead.format(name=self.name)}")

    __index__ = __array__ = __getitem__ = __iter__ = __len__ = __float__ = __bool__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__


@_as_tensor_variable.register(NoTensor)
def _(x: Any, name: str | None = None, ndim: int | None = None, **kwargs: Any) -> Any:
    x._refuse()
