"""Short runs of `pm.sample`, and what two of them have in common."""

import numpy as np
import pymc as pm

# PyTensor orders the terms of sums by the hash seed, and compiles with `fastmath`: in a process started anew, the
# density that NUTS reads may differ in its last bits, and draws after twenty steps by some 1e-13. With another seed
# they differ in the first digit. Our own kernels give the same bits wherever they are compiled.
NUTS_ANEW = 1e-8
TIMES = ("seconds", "perf_counter", "process_time")


def draw(model, draws=12, tune=8, chains=2, cores=1, random_seed=1, **arguments):
    with model:
        return pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=random_seed,
            **{"progressbar": False, "quiet": True, "compute_convergence_checks": False} | arguments,
        )


def recorded(idata):
    """Everything that a run keeps, timings apart."""
    return {
        f"{group}/{name}": variable.values
        for group in ("posterior", "sample_stats")
        for name, variable in idata[group].data_vars.items()
        if not any(t in name for t in TIMES)
    }


def assert_same(one, other, tolerance=0.0):
    """The same bits, or floats within `tolerance`, relative and absolute."""
    one, other = recorded(one), recorded(other)
    assert one.keys() == other.keys()
    for name in one:
        if tolerance and one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
