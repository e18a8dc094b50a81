"""Inputs of kernels under one type, whoever calls.

Numba compiles a kernel once more for each type of its arguments, which takes seconds each time. To Numba, a read-only
array has another type than a writable one, and so has an array that is not contiguous. Tables of users and constants of
a PyTensor graph are read-only, what has just been computed is not.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic, overload


def read_only_view(array):
    """The array, read-only and in C order; copied only where it is not contiguous. From Python and in kernels."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@overload(read_only_view)
def _read_only_view(array):
    return lambda array: _as_read_only(np.ascontiguousarray(array))


@intrinsic
def _as_read_only(typingctx, array):
    """The same array under the type of one that is not written; nothing happens when it runs."""
    if not isinstance(array, types.Array):
        raise TypeError(f"read_only_view: an array is needed, got {array}")

    def codegen(context, builder, signature, args):
        context.nrt.incref(builder, signature.return_type, args[0])
        return args[0]

    return array.copy(readonly=True)(array), codegen
