"""How the graphs of tests are compiled."""

PLAIN = "FAST_COMPILE"  # Python code round our kernels: compiling a model takes seconds less, a value microseconds more
