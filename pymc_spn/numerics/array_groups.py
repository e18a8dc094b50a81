"""Named tuples of arrays that kernels take by their address.

Numba hands a tuple of arrays to a function as seven numbers and more for each array. It works out all of them again in
every function that the tuple goes through. A kernel of five such tuples compiles for seconds, however short it is. A
group is a named tuple in Python. For Numba it is one address: of a table with what Numba knows of each array, from
which a kernel loads the arrays that it uses.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

_NO_OWNER = (0, 0)  # neither a counter of references nor a Python object: the tuple owns its arrays


class GroupType(types.Type):
    """Numba type of a group: its class and the types of its fields."""

    def __init__(self, cls: Any, fields: tuple[types.Type, ...]) -> None:
        self.cls, self.fields = cls, fields
        super().__init__(f"{cls.__module__}.{cls.__qualname__}({', '.join(map(str, fields))})")


def array_group[T: type](cls: T) -> T:
    """Class decorator: kernels take this named tuple of arrays by address.

    Fields are arrays, whole numbers, other groups or None. Kernels read fields by name; they cannot make groups, nor
    return their arrays. The tuple owns the arrays: it must live as long as a call.
    """
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__reduce__": _reduce,
        "_address": property(_address),
    }
    made: Any = type(cls.__name__, (cls,), body)
    typeof_impl.register(made)(_typeof_group)
    return made


def _reduce(self: Any) -> tuple:
    """Copies and pickles have arrays elsewhere, so that they take the fields alone."""
    return type(self), tuple(self)


def _address(self: Any) -> int:
    """Where the table is. It is made once: threads that ask at the same time all keep the one that came first."""
    kept = self.__dict__
    if "address" not in kept:
        kept["address"] = kept.setdefault("table", _table(self)).ctypes.data
    return kept["address"]


def _table(self: Any) -> np.ndarray:
    """What kernels load: of an array the members of Numba's structure, each of eight bytes."""
    words: list[int] = []
    for value in self:
        if isinstance(value, np.ndarray):
            words += [*_NO_OWNER, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
        else:
            words.append(value._address if isinstance(typeof(value), GroupType) else value or 0)
    return np.array(words, np.int64)


def _typeof_group(group: Any, c: Any) -> GroupType:
    fields = tuple(typeof(value) for value in group)
    for name, value, field in zip(group._fields, group, fields, strict=True):
        if not (isinstance(field, types.Array | GroupType | types.NoneType) or field == types.int64):
            where = f"{type(group).__name__}.{name}"
            raise TypeError(f"{where}: a group holds arrays, whole numbers, other groups or None; got {value!r}")
    return GroupType(type(group), fields)


@register_model(GroupType)
class _GroupModel(models.OpaqueModel):
    """An address."""


@unbox(GroupType)
def _unbox_group(typ: GroupType, obj: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(obj, "_address")
    failed = cgutils.is_null(c.builder, address)
    at = cgutils.alloca_once_value(c.builder, ir.Constant(c.context.get_value_type(typ), None))
    with c.builder.if_then(cgutils.is_not_null(c.builder, address)):
        c.builder.store(c.pyapi.long_as_voidptr(address), at)
        c.pyapi.decref(address)
    return NativeValue(c.builder.load(at), is_error=failed)


@infer_getattr
class _GroupAttributes(AttributeTemplate):
    key = GroupType

    def generic_resolve(self, typ, attr):
        names = typ.cls._fields
        return typ.fields[names.index(attr)] if attr in names else None


@lower_getattr_generic(GroupType)
def _load_field(context: Any, builder: Any, typ: GroupType, value: Any, attr: str) -> Any:
    members = ir.LiteralStructType([context.get_value_type(field) for field in typ.fields])
    number = typ.cls._fields.index(attr)
    at = cgutils.gep_inbounds(builder, builder.bitcast(value, members.as_pointer()), 0, number)
    loaded = builder.load(at)
    # Nothing writes to the table while a kernel runs: a load may leave its loop.
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded  # without an owner there are no references to count
