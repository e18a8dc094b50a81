"""`fit_em` in batches: what epochs of stepwise EM save of the steps over all rows.

Rows drawn from random circuits; a circuit of the same shape is fitted from one random start with steps alone, and with
epochs in batches before them. CPU seconds in one thread; log posteriors in nats a row, less the end of the steps alone.

    python -m tests.benchmarks.circuits_fit_batches
"""

import argparse
import time

import numpy as np

from pymc_spn.circuits.estimation.fit_starts import random_start
from pymc_spn.circuits.estimation.fit_steps import Batches, ExpectationMaximisation
from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.leaf_updates import pool
from pymc_spn.circuits.structures.circuit_builders import rat_spn
from pymc_spn.numerics.progress_bars import ProgressBar
from tests.benchmarks.report import machine, markdown_table
from tests.shared_circuits import random_parameters

CASES = {"Gaussian": (8, ("gaussian",)), "Gaussian, levels, Poisson": (9, ("gaussian", "categorical", "poisson"))}
NEAR = 0.01  # nats a row from the end
TOLERANCE = 1e-5
SHARPER = 3.0  # power of the random weights, so that the kinds of rows are far apart


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=50_000)
    arguments.add_argument("--batch-size", type=int, default=500)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments = arguments.parse_args()
    rows = [
        [name, seed, *measure(*case, seed, arguments.rows, arguments.batch_size)]
        for name, case in CASES.items()
        for seed in range(1, arguments.seeds + 1)
    ]
    print(machine() + "\n")
    print(markdown_table(
        ["leaves", "seed", "parameters", "epochs, s", "end of the epochs", "steps alone to there, s", "ratio",
         "steps alone to 0.01, s", "with epochs", "steps alone to the end, s", "with epochs ", "its end"],
        rows,
    ))  # fmt: skip


def measure(n_columns, families, seed, n_rows, batch_size):
    circuit, values = problem(n_columns, families, seed, n_rows)
    ascent = ExpectationMaximisation(circuit, values, range(n_rows), pool(circuit, values), 0.1, 1.0)
    start = random_start(circuit, values, ascent.pooled, (None, {}), np.random.default_rng(seed))
    at = Parameterised(circuit, *start)
    ascent.expectation(at)  # compiles
    alone, seconds = steps(ascent, at)
    begin = time.process_time()
    _, expected = ascent.expectation(at)
    best = ascent.maximum(at, expected)
    batches = Batches(batch_size, 10, 0.55, np.random.default_rng(0))
    with ProgressBar("", 1, show=False) as bar:
        end, _ = ascent.through_batches(best, ascent.recentred(expected, at, best), batches, 0.0, bar)
    in_batches = time.process_time() - begin
    after, more = steps(ascent, end)
    there, target = reached(alone, seconds, after[0]), alone[-1] - NEAR
    n_parameters = circuit.n_sum_edges + sum(own.size for own in start[1].values())
    return (
        n_parameters, in_batches, after[0] - alone[-1], there, in_batches / there, reached(alone, seconds, target),
        in_batches + reached(after, more, target), seconds[-1], in_batches + more[-1], after[-1] - alone[-1],
    )  # fmt: skip


def problem(n_columns, families, seed, n_rows):
    """A circuit, and rows that random parameters of it gave."""
    names = [f"x{d}" for d in range(n_columns)]
    leaves = {name: families[d % len(families)] for d, name in enumerate(names)}
    circuit = rat_spn(names, leaves, depth=2, repetitions=2, n_sums=3, n_leaves=4, random_seed=seed)
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(seed), 4)
    total = np.bincount(circuit.edge_sum, np.exp(SHARPER * log_weights), circuit.n_nodes)[circuit.edge_sum]
    parameters["gaussian"][:, 0] *= 2.0
    drawn = (
        circuit.with_parameters(SHARPER * log_weights - np.log(total), parameters)
        .sample(n_rows, random_seed=seed)
        .to_numpy()
    )
    return circuit, np.asarray(drawn, np.float64)


def steps(ascent, at):
    """Log posteriors a row before each step over all rows, and the seconds until they were known."""
    objective, seconds = [], []
    begin = time.process_time()
    while True:
        log_likelihood, expected = ascent.expectation(at)
        objective.append((log_likelihood + ascent.log_prior(at)) / len(ascent.values))
        seconds.append(time.process_time() - begin)
        if len(objective) > 1 and objective[-1] - objective[-2] < TOLERANCE:
            return np.array(objective), np.array(seconds)
        at = ascent.maximum(at, expected)


def reached(objective, seconds, target):
    """When the objective first was as high as the target; infinite if never."""
    return seconds[np.argmax(objective >= target)] if objective.max() >= target else np.inf


if __name__ == "__main__":
    main()
