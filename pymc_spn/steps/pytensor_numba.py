"""What PyTensor has for kernels in its compiled functions.

It is imported from here, because of what must come before: see `numerics.numba_start`.
"""

from importlib import import_module
from typing import Any

from pymc_spn.numerics.numba_start import begin_numba

begin_numba()
_basic: Any = import_module("pytensor.link.numba.dispatch.basic")
_random: Any = import_module("pytensor.link.numba.dispatch.random")

numba_njit = _basic.numba_njit
numba_core_rv_funcify = _random.numba_core_rv_funcify
register_funcify_default_op_cache_key = _basic.register_funcify_default_op_cache_key
