"""Numba options shared by every kernel of the package."""

from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from pymc_spn.numerics.elementary import VECTOR_MATH
from pymc_spn.numerics.interrupts import compile_beside, hold_back_interrupts
from pymc_spn.numerics.numba_start import begin_numba

begin_numba()


class _Forwarded:
    """Another object, except for what a subclass defines."""

    def __init__(self, other: Any) -> None:
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


class _WithoutEnvironments(_Forwarded):
    """A code generator for a library that is not in the engine: there is no place to put environments in."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Leave it to the callers, which hold a copy (`set_environments`)."""


class InnerLibrary(JITCodeLibrary):
    """The code of an inner kernel, optimised, and not handed to the engine that makes machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)

    serialize_using_object_code = JITCodeLibrary.serialize_using_bitcode


class InnerPipeline(Compiler):
    """Numba's compiler of one function, into an `InnerLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, library or InnerLibrary(targetctx.codegen(), "inner"), *rest)


class OuterPipeline(Compiler):
    """Numba's compiler of one function that calls inner kernels."""

    def compile_extra(self, func: Callable) -> Any:
        compiled = super().compile_extra(func)
        set_environments(compiled)
        return compiled


class _Unserialising(_Forwarded):
    """A code generator, and the target that has it, that read an `InnerLibrary` from its cached form."""

    def codegen(self) -> Any:
        return _Unserialising(self._other.codegen())

    def unserialize_library(self, state: tuple[str, str, Any]) -> InnerLibrary:
        name, kind, data = state
        library = InnerLibrary(self._other, name)
        library._final_module = binding.parse_bitcode(data[1] if kind == "object" else data)  # as Numba itself keeps it
        library._finalize_final_module()
        return library


class _InnerCached(CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(_Unserialising(target_context), payload)._replace(target_context=target_context)


class InnerCache(FunctionCache):
    """Numba's cache on disk of one function, for an inner kernel."""

    _impl_class = _InnerCached


def set_environments(compiled: Any) -> None:
    """Put the environments of all functions that a library holds in their places, as Numba does when it loads one."""
    for env in compiled._find_referenced_environments():
        compiled.library.codegen.set_env(env.env_name, env)


# Division by zero gives inf as in NumPy: the check that Python's model asks for is a branch, and a branch stops
# vectorisation. `nogil` lets whole sweeps run beside other threads.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": VECTOR_MATH}


class KernelDispatcher(CPUDispatcher):
    """A kernel that other kernels call with whole numbers of one type.

    Numba would compile it once more for a constant 0, also where a loop counts on from there. It would do so for the
    element of an int8 or int32 array, and for each of their combinations. Unsigned integers are bit masks and keep
    their type; constant truth values leave branches out, and so does `None`.
    """

    keeps_constants = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return hold_back_interrupts(super().__call__, *arguments, **named)

    def _compile_for_args(self, *arguments: Any, **named: Any) -> Any:
        return compile_beside(super()._compile_for_args, *arguments, **named)  # type: ignore[misc]

    def get_call_template(self, args: Any, kws: Any) -> Any:
        passed = {name: self._passed(kws[name]) for name in kws}
        return super().get_call_template(tuple(map(self._passed, args)), passed)

    def _passed(self, argument: Any) -> Any:
        """Numba type under which an argument of this type is passed."""
        if isinstance(argument, types.IntegerLiteral) and not self.keeps_constants:
            argument = types.unliteral(argument)
        return types.int64 if argument in types.signed_domain else argument


class InnerDispatcher(KernelDispatcher):
    """A kernel without a way in from Python: calling one without this check would end the process."""

    def __call__(self, *arguments: Any, **named: Any) -> None:
        raise TypeError(f"{self.py_func.__module__}.{self.py_func.__qualname__}: only kernels may call an inner kernel")


class ConstantsDispatcher(InnerDispatcher):
    """An inner kernel that is compiled for each constant integer it is called with."""

    keeps_constants = True


def _with_dispatcher(dispatcher: type[CPUDispatcher], options: dict[str, Any]) -> Callable[[Callable], Any]:
    is_inner = issubclass(dispatcher, InnerDispatcher)
    decorate = njit(**options, pipeline_class=InnerPipeline if is_inner else OuterPipeline)

    def compile_with_dispatcher(function: Callable) -> Any:
        made: Any = decorate(function)
        if isinstance(made, CPUDispatcher):  # with NUMBA_DISABLE_JIT=1 it is the function itself
            made.__class__ = dispatcher
            if is_inner:
                made._cache = InnerCache(made.py_func)  # type: ignore[attr-defined]
        return made

    return compile_with_dispatcher


kernel = _with_dispatcher(KernelDispatcher, _OPTIONS)

# Without reference counts. Handing arrays from one function to the next costs two atomic operations for each of them
# otherwise: 40 of 45 microseconds a row in the exact sampler. The caller owns every array, so such a kernel may slice
# but neither allocate nor return arrays; Numba refuses to compile one that does.
_BARE: dict[str, Any] = _OPTIONS | {"_nrt": False}
bare_kernel = _with_dispatcher(KernelDispatcher, _BARE)


def _inner(options: dict[str, Any], dispatcher: type[CPUDispatcher] = InnerDispatcher) -> Callable[[Callable], Any]:
    return _with_dispatcher(dispatcher, options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})


# Kernels that only kernels call. The ways in from Python and C, which unpack every array of a tuple, took half of the
# time of compiling the samplers.
inner_kernel = _inner(_OPTIONS)
bare_called_kernel = _inner(_BARE)

# The same copied into all that call it: short kernels on plain arrays, and those of networks that every row goes
# through; a sweep takes up to a tenth longer otherwise. The others of networks take arrays in groups (`array_groups`),
# so a call costs little: copying them, too, took a quarter of the time of compiling a first draw.
_COPIED = _BARE | {"forceinline": True}
bare_inner_kernel = _inner(_COPIED)

# A kernel of a few lines, copied into all that call it before Numba types them: it is not compiled on its own.
copied_kernel = njit(inline="always")

# For a short kernel that asks first which of twenty cases it has, where some callers know.
inner_kernel_by_constants = _inner(_OPTIONS, ConstantsDispatcher)

# Sums over the rows of a block. One after the other, as they stand, they take four cycles a row; here
# the compiler may add several at a time, in an order of its own, the same in every run. Kernels of `elementary` are
# inlined with the caller's options, and `fast_exp` rounds by adding a large number and taking it off: never in here.
bare_inner_reduction = _inner(_COPIED | {"fastmath": VECTOR_MATH | {"reassoc"}})
