"""What PyTensor has for kernels in its compiled functions.

It is imported from here, because of what must come before: see `numerics.numba_start`.
"""

# ruff: noqa: E402, F401
from pymc_spn.numerics.numba_start import begin_numba

begin_numba()
from pytensor.link.numba.dispatch.basic import numba_funcify, numba_njit, register_funcify_default_op_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
