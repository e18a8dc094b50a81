"""Four chains in modes of their own: each alone, with equal weights, and stacked by `SPNPosterior.stacked`.

    python -m tests.benchmarks.spn_stacking DATA --runs cpu_act:2:0 forest_fires:2:0

Sets, splits, leaf priors and starts as in the tables of samplers under a CPU budget; every chain has the same share of
it and starts from k-means with a seed of its own. States are read evenly from the second half of each chain.
"""

import arviz as az
import numpy as np

from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.networks.records.record import Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS
from tests.benchmarks.report import finish, markdown_table, parser
from tests.benchmarks.table_rules import prepare
from tests.benchmarks.table_runs import N_CHAINS, THINNED, TimedRun, chain_seed, structure_of


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--runs", nargs="+", required=True, help="set:children:split")
    arguments.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of the four chains together")
    arguments.add_argument("--states", type=int, default=30, help="of each chain")
    options = arguments.parse_args()
    figures, rows = [], []
    for which in options.runs:
        name, width, seed = which.split(":")
        found = compare(options, name, width, int(seed))
        figures.append({"run": which, **found})
        rows.append([f"{name}, {width}, {seed}", listed(found["chains"]), f"{found['equal']:.2f}"])
        rows[-1] += [f"{found['stacked']:.2f}", listed(found["weights"]), f"{found['rhat']:.2f}"]
        print(figures[-1], flush=True)
    header = ["set, C, split", "each chain alone", "equal weights", "stacked", "weights", "R-hat"]
    finish(options, [("Mean log density of the test rows, nats a row", markdown_table(header, rows))], figures)


def compare(options, name, width, seed):
    """Mean log density of the test rows by each chain, by all of them and stacked; weights; R-hat of the log joint."""
    prepared = prepare(options.data, name, seed)
    run = TimedRun(prepared.train, structure_of(width, prepared.train, seed), "exact")
    share, chains, traces = options.seconds / N_CHAINS, [], []
    for k in range(N_CHAINS):
        states, readings = run.run(chain_seed(seed, k), share, n_states=(0, 0, 0, 0, options.states))
        chains.append(states)
        traced = readings[readings[:, 0] > 0.5 * share, 1]
        traces.append(traced[np.linspace(0, len(traced) - 1, min(len(traced), THINNED)).astype(int)])
    shortest, length = min(map(len, chains)), min(map(len, traces))
    together = posterior(run, [states[-shortest:] for states in chains])
    stacked = together.stacked()
    return {
        "chains": [score(posterior(run, [states]), prepared.test) for states in chains],
        "equal": score(together, prepared.test),
        "stacked": score(stacked, prepared.test),
        "weights": stacked.chain_weights.values.tolist(),
        "rhat": float(az.rhat(np.stack([t[-length:] for t in traces]))),
        "states": shortest,
    }


def posterior(run, chains):
    """The posterior object that the recorded states of chains make."""
    digits = np.stack([np.stack([s[1] for s in states]) for states in chains])
    own = {g: np.array([[s[2][i] for s in states] for states in chains]) for i, g in enumerate(HYPERPARAMETERS)}
    rows, draws = np.arange(len(run.train.values)), np.arange(digits.shape[1])
    record = Record(run.schema, run.train.values, rows, digits, np.arange(len(chains)), draws, own, {})
    return SPNPosterior(RecordedStates(record))


def score(post, table):
    return float(post.log_density(table).mean())


def listed(values):
    return ", ".join(f"{v:.2f}" for v in values)


if __name__ == "__main__":
    main()
