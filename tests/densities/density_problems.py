"""Circuits with parameters and rows, and gradients by differences."""

import numpy as np

from pymc_spn.circuits.evaluation.packed_layout import pack
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from tests.shared_circuits import DENSITIES, WITH_A_FORMULA, crossed_circuit, random_parameters

MASSES = tuple(f for f in WITH_A_FORMULA if f not in DENSITIES)


def problem(families, seed=0, n_columns=3, n_rows=7):
    """(circuit, log weights, parameters, flat parameters, packed layout, rows with gaps)."""
    rng = np.random.default_rng(seed)
    circuit = crossed_circuit(n_columns, 2, len(families), families)
    log_weights, parameters = random_parameters(circuit, rng)
    flat = flatten(circuit, parameters)
    packed = pack(layout_of(circuit)[0], n_columns, flat.begin, flat.width)
    values = rng.gamma(2.0, 1.0, (n_rows, n_columns)) + 0.1
    if families[0] in MASSES:
        values = np.minimum(np.floor(values), 1.0 if "bernoulli" in families else 2.0)
    values[rng.random(values.shape) < 0.2] = np.nan
    return circuit, log_weights, parameters, flat, packed, values


def differences(f, x, step=1e-6):
    """Central differences of a scalar function."""
    out = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        if np.isnan(x[i]):
            continue
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        out[i] = (f(up) - f(down)) / (2 * step)
    return out
