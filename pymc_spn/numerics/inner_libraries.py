"""Inner kernels without machine code of their own.

Numba makes machine code of each function when it is compiled, and of the same function once more in each that calls it.
What only kernels call never runs by itself, so the first is for nothing; it took 7 % of the time of compiling a
first draw. Such a kernel stays in LLVM's form, in memory and in the cache on disk, for its callers to take in.
"""

from typing import Any

from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


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
