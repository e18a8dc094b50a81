"""Log density of explicit circuits: the engine against its physical floor and against a plain loop in logs.

Sixteen Gaussian columns with a tenth of the cells missing. The floor is the vectorised exponential of all leaves; the
plain loop is Numba with libm, one row at a time, log-sum-exp at every sum. All run in one thread; the figures are
medians of CPU seconds, taken in turns. A row counts with the check of the circuit's parameters, one row a call without.
Then what a step of NUTS costs on the same rows, and the other queries.

    python -m tests.benchmarks.circuits_engine
"""

import argparse
import math
import time

import numpy as np
from numba import njit

from pymc_spn.circuits.evaluation.completion import Parameterised, complete
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.numerics.elementary import VECTOR_MATH, fast_exp
from tests.benchmarks.report import machine, markdown_table
from tests.shared_circuits import crossed_circuit, random_parameters


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--blocks", type=int, default=7)
    arguments = arguments.parse_args()
    figures = [measure(*case, arguments.blocks) for case in circuits()]
    print(machine() + "\n\n### Log density\n")
    print(markdown_table(
        ["circuit", "nodes", "rows", "exp, ns", "us a row", "plain loop", "one row, us",
         "to the floor", "plain / ours"],
        [[f["name"], f["nodes"], f["rows"], 1e9 * f["exp"], 1e6 * f["public"], 1e6 * f["plain"], 1e6 * f["one"],
          f["floor ratio"], f["plain"] / f["public"]] for f in figures],
    ))  # fmt: skip
    print("### Gradient\n")
    print(markdown_table(
        ["circuit", "rows", "log density, us a row", "value and gradient", "gradient / density"],
        [[f["name"], f["rows"], 1e6 * f["public"], 1e6 * f["gradient"], f["gradient"] / f["public"]] for f in figures],
    ))  # fmt: skip
    print("### Other queries, us a row\n")
    print(markdown_table(
        ["circuit", "log density", "conditional draw", "draw", "conditional means", "and covariances", "probability"],
        [[f["name"], *(1e6 * f[q] for q in ("public", "complete", "sample", "means", "covariances", "probability"))]
         for f in figures],
    ))  # fmt: skip
    errors = ("error", "outlier error", "far error")
    print("### Errors against logs of 80 bits: a cell of each row at 40 sd, all cells (relative)\n")
    print(markdown_table(["circuit", *errors], [[f["name"], *(f[e] for e in errors)] for f in figures]))


def circuits():
    """(name, circuit, rows): the paper's complete trees, and a network whose nodes are shared."""
    for n_children, n_rows in ((2, 10_000), (4, 512)):
        tree = complete_tree([f"x{d}" for d in range(16)], n_children=n_children)
        circuit = tree.circuit({name: ["gaussian"] for name in tree.names}, max_nodes=30_000)
        yield f"tree, {n_children} children", circuit, n_rows
    yield "crossed, 20 sums", crossed_circuit(16, 20, 20), 2_048


def measure(name, circuit, n_rows, n_blocks):
    rng = np.random.default_rng(0)
    log_weights, parameters = random_parameters(circuit, rng)
    values = rng.normal(size=(n_rows, 16))
    values[rng.random(values.shape) < 0.1] = np.nan
    out = np.empty(n_rows)
    few = min(n_rows, 256)
    at = Parameterised(circuit, log_weights, parameters)
    loop = plain_arguments(circuit, log_weights, parameters)
    arguments, exponentials = -rng.gamma(1.0, size=4096), np.empty(4096)
    errors = []
    far, everywhere = values[:48].copy(), values[:48].copy()
    far[:, 3] = 40.0 * parameters["gaussian"][:, 1].max()
    everywhere[~np.isnan(everywhere)] = far[0, 3]
    for x in (values[:48], far, everywhere):
        exact = extended(circuit, x, log_weights, parameters)
        distance = np.abs(at.log_density(x) - exact)
        errors.append(float(distance.max() if x is not everywhere else (distance / np.abs(exact)).max()))
    flat = flatten(circuit, parameters)
    packed = pack(layout_of(circuit)[0], 16, flat.begin, flat.width)
    ones = np.ones(n_rows)
    event = {"x0": (values[:, 1], values[:, 1] + 1.0), "x5": (None, 0.5)}
    event["x0"] = tuple(np.nan_to_num(end) for end in event["x0"])
    given = log_weights, parameters
    jobs = {
        "exp": (lambda: exp_loop(arguments, exponentials, 100), 100 * 4096),
        "public": (lambda: Parameterised(circuit, *given).log_density(values), n_rows),
        "plain": (lambda: plain_log_densities(*loop, values[:few], out), few),
        "gradient": (lambda: rows_and_gradient_of(packed, values, log_weights, flat.theta, ones), n_rows),
        "one": (lambda: [at.log_density(values[:1]) for _ in range(50)], 50),
        "complete": (lambda: complete(Parameterised(circuit, *given), values, np.random.default_rng(1)), n_rows),
        "sample": (lambda: circuit.with_parameters(*given).sample(n_rows, random_seed=1), n_rows),
        "means": (lambda: circuit.with_parameters(*given).moments(values, covariance=False), n_rows),
        "covariances": (lambda: circuit.with_parameters(*given).moments(values[:few]), few),
        "probability": (lambda: circuit.with_parameters(*given).log_probability_of_rows(event), n_rows),
    }
    seconds = {job: [] for job in jobs}
    for _, (run, _) in jobs.items():
        run()
    for _ in range(n_blocks):
        for job, (run, n) in jobs.items():
            begin = time.process_time()
            run()
            seconds[job].append((time.process_time() - begin) / n)
    found = {job: float(np.median(s)) for job, s in seconds.items()}
    return found | {
        "name": name,
        "nodes": circuit.n_nodes,
        "rows": n_rows,
        "floor ratio": found["public"] / (found["exp"] * circuit.n_leaf),
        "error": errors[0],
        "outlier error": errors[1],
        "far error": errors[2],
    }


@njit(fastmath=VECTOR_MATH, error_model="numpy")
def exp_loop(x, out, repeats):
    for _ in range(repeats):
        for i in range(x.size):
            out[i] = fast_exp(x[i])


def extended(circuit, values, log_weights, parameters):
    """Log densities by the log path in eighty-bit floats."""
    wide = np.longdouble
    logs = np.zeros((circuit.n_nodes, len(values)), wide)
    leaves = circuit.leaves_of("gaussian")
    mean, sd = (parameters["gaussian"].astype(wide)[:, i, None] for i in (0, 1))
    x = values.T[circuit.leaf_column[leaves]].astype(wide)
    density = -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * wide(np.pi) + wide(2.4492935982947064e-16))
    logs[leaves] = np.where(np.isnan(x), 0.0, density)
    first = np.searchsorted(circuit.edge_sum, np.arange(circuit.n_nodes))
    for v in range(circuit.n_nodes - 1, -1, -1):
        below = logs[circuit.children_of(v)]
        if circuit.kind[v] == PRODUCT:
            logs[v] = below.sum(axis=0)
        elif circuit.kind[v] == SUM:
            below = below + log_weights[first[v] : first[v] + len(below), None].astype(wide)
            top = below.max(axis=0)
            logs[v] = top + np.log(np.exp(below - top).sum(axis=0))
    return logs[0].astype(np.float64)


def plain_arguments(circuit, log_weights, parameters):
    edge = np.full(circuit.n_edges, -1)
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
    edge[circuit.kind[owner] == SUM] = np.arange(circuit.n_sum_edges)
    theta = np.zeros((circuit.n_nodes, 3))  # mean, 1 / sd, log of the density there
    mean, sd = parameters["gaussian"].T
    theta[circuit.leaves_of("gaussian")] = np.column_stack([mean, 1.0 / sd, -np.log(sd) - 0.5 * np.log(2.0 * np.pi)])
    return circuit.kind, circuit.child_ptr, circuit.children, edge, circuit.leaf_column, theta, log_weights


@njit
def plain_log_densities(kind, child_ptr, children, edge, column, theta, log_weights, values, out):
    """What one writes first."""
    logs = np.empty(kind.size)
    for n in range(values.shape[0]):
        for v in range(kind.size - 1, -1, -1):
            if kind[v] == LEAF:
                x = values[n, column[v]]
                logs[v] = 0.0
                if not math.isnan(x):
                    z = (x - theta[v, 0]) * theta[v, 1]
                    logs[v] = theta[v, 2] - 0.5 * z * z
            elif kind[v] == PRODUCT:
                logs[v] = 0.0
                for e in range(child_ptr[v], child_ptr[v + 1]):
                    logs[v] += logs[children[e]]
            else:
                top = -math.inf
                for e in range(child_ptr[v], child_ptr[v + 1]):
                    top = max(top, log_weights[edge[e]] + logs[children[e]])
                total = 0.0
                for e in range(child_ptr[v], child_ptr[v + 1]):
                    total += math.exp(log_weights[edge[e]] + logs[children[e]] - top)
                logs[v] = top + math.log(total)
        out[n] = logs[0]


if __name__ == "__main__":
    main()
