"""Short runs of `pm.sample`, and what two of them have in common."""

import os
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_spn as ps
from pymc_spn.networks.schema import NetworkSchema

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


@contextmanager
def bits_of_every_process():
    """PyTensor without `fastmath`, here and in processes started anew.

    With it, the last bits of the density that NUTS reads depend on which process has compiled a part first, and on
    whether it is loaded. Our own kernels give the same bits either way.
    """
    flags = [f for f in [os.environ.get("PYTENSOR_FLAGS")] if f]
    with pytest.MonkeyPatch.context() as patch, pytensor.config.change_flags(numba__fastmath=False):
        patch.setenv("PYTENSOR_FLAGS", ",".join([*flags, "numba__fastmath=False"]))
        yield


def recorded(idata):
    """Everything that a run keeps, timings apart."""
    return {
        f"{group}/{name}": variable.values
        for group in ("posterior", "sample_stats")
        for name, variable in idata[group].data_vars.items()
        if not any(t in name for t in TIMES)
    }


def assert_same(one, other):
    one, other = recorded(one), recorded(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def model_of(structure=None, *, name="x", **arguments):
    """A model of one network."""
    with pm.Model() as model:
        ps.SPN(name, structure, **arguments)
    return model


def schema_of_model(model):
    """The schema of the one network of a model."""
    (rv,) = (rv for rv in model.observed_RVs if hasattr(rv.owner.op, "schema"))
    return NetworkSchema.from_vector(rv.owner.op.schema)
