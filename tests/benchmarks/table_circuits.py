"""Circuits with shared nodes by expectation maximisation: one estimate, its size chosen on validation rows."""

import time
import warnings

import numpy as np

from pymc_spn.circuits.estimation.fit_em import fit_em
from pymc_spn.circuits.structures.circuit_builders import hidden_chow_liu_tree, rat_spn

STATES = (2, 4, 8, 16, 32)
PRIOR_ROWS = (0.3, 3.0)  # of each leaf
CIRCUITS = ("hidden Chow-Liu tree", "random tensorised network")


def circuit_of(kind, train, n, seed):
    """Circuit with n states of every hidden variable, or n sums and n leaves in every region."""
    leaves = {c.name: "gaussian" if c.kind == "real" else "categorical" for c in train.columns}
    if kind == CIRCUITS[0]:
        return hidden_chow_liu_tree(train, n, leaves)
    depth = max(1, int(np.log2(len(train.columns))) - 1)
    return rat_spn(train.columns, leaves, depth=depth, n_sums=n, n_leaves=n, random_seed=seed)


def maximise(prepared, kind, seed):
    """Test density of the fit with the highest validation density; sizes grow until two in turn do not gain."""
    best, behind, begin = None, 0, time.process_time()
    for n in STATES:
        if 2 * n > len(prepared.train.values):
            break
        circuit, gained = circuit_of(kind, prepared.train, n, seed), False
        for rows in PRIOR_ROWS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                fit = fit_em(
                    circuit, prepared.train, leaf_prior_rows=rows, restarts=2, tolerance=1e-4, random_seed=seed,
                    progressbar=False,
                )  # fmt: skip
            validation = circuit.with_parameters(**fit.parameters).log_density(prepared.validation).values.mean()
            if best is None or validation > best["validation"]:
                test = circuit.with_parameters(**fit.parameters).log_density(prepared.test).values.mean()
                best = {"test": float(test), "validation": float(validation), "states": n, "prior_rows": rows}
                gained = True
        behind = 0 if gained else behind + 1
        if behind == 2:
            break
    return {**best, "used": time.process_time() - begin}
