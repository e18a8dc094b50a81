"""How a kernel that may run for seconds learns of Ctrl-C.

A kernel that must stop returns at once, anything of the right type: `numerics.interrupts.hold_back_interrupts`, through
which Python calls every kernel, raises KeyboardInterrupt in its place. What the kernel was to fill is then not valid.

A check takes the lock of the interpreter, so kernels check once in millions of operations. It touches no random
numbers: results do not depend on it.
"""

import ctypes
from typing import Any

from llvmlite import binding
from numba import config, types

from pymc_spn.numerics.interrupts import interrupt_is_waiting
from pymc_spn.numerics.kernel_options import inner_kernel

OPERATIONS_BETWEEN_CHECKS = 1 << 22  # some 10 milliseconds

_NAME = "pymc_spn_interrupt_is_waiting"  # under which compiled code on disk finds it in another process
_callback = ctypes.CFUNCTYPE(ctypes.c_int32)(interrupt_is_waiting)
binding.add_symbol(_NAME, ctypes.cast(_callback, ctypes.c_void_p).value)
_interrupt_is_waiting: Any = types.ExternalFunction(_NAME, types.int32())
if config.DISABLE_JIT:  # type: ignore[attr-defined]
    _interrupt_is_waiting = interrupt_is_waiting


@inner_kernel
def must_stop():
    """Whether Ctrl-C was pressed since the kernel began."""
    return _interrupt_is_waiting() != 0


@inner_kernel
def must_stop_after(operations, unchecked):
    """As `must_stop`, but checked only once in many operations.

    Parameters
    ----------
    operations : int
        Elementary ones, of a nanosecond or a few, since the last call.
    unchecked : (1,) int64
        Operations since the last check; zero when the kernel begins.
    """
    unchecked[0] += operations
    if unchecked[0] < OPERATIONS_BETWEEN_CHECKS:
        return False
    unchecked[0] = 0
    return must_stop()
