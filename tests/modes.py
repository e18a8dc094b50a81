"""How the graphs of tests are compiled."""

from pytensor.compile.mode import Mode

PLAIN = "FAST_COMPILE"  # Python code round our kernels: compiling a model takes seconds less, a value microseconds more
REWRITTEN = Mode("py", "fast_run")  # rewritten as for users, run as Python: for gradients that rest on rewrites
BY_PYTHON = {"compile_kwargs": {"mode": REWRITTEN}}  # for pm.sample and its like, instead of Numba
