"""Whether long chains of several kernels agree on the density of test rows, beyond the noise of the tables.

    python -m tests.benchmarks.spn_agreement DATA --runs lpga2008:4:4 lpga2008:4:10 breast:4:0

Sets, splits, leaf priors and starts as in the tables of samplers, where a run averages 40 states. Here each kernel has
chains of many states, evenly spaced after the first tenth. The mean over states of the log density of the test rows is
an expectation under the posterior, the same for every kernel; its standard error is the standard deviation over the
root of the effective number of states (ArviZ, bulk, chains together). The log of the average density is what the tables
have.
"""

from itertools import combinations

import arviz as az
import numpy as np

from tests.benchmarks.report import finish, markdown_table, parser
from tests.benchmarks.table_rules import prepare
from tests.benchmarks.table_runs import TimedRun, averaged, chain_seed, structure_of

BURN = 0.1  # of the sweeps


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--runs", nargs="+", required=True, help="set:children:split")
    arguments.add_argument("--kernels", nargs="+", default=["auto", "bottom_up"])
    arguments.add_argument("--chains", type=int, default=4)
    arguments.add_argument("--states", type=int, default=250, help="of each chain")
    arguments.add_argument("--sweeps", type=int, default=100, help="between states")
    options = arguments.parse_args()
    figures, rows = [], []
    for which in options.runs:
        name, width, seed = which.split(":")
        found = {kernel: long_chains(options, name, width, int(seed), kernel) for kernel in options.kernels}
        figures.append({"run": which, **found})
        for kernel, one in found.items():
            rows.append([f"{name}, {width}, {seed}", kernel, f"{one['mean']:.4f} ± {one['error']:.4f}"])
            rows[-1] += [f"{one['average']:.3f}", f"{one['ess']:.0f} of {one['states']}", f"{one['rhat']:.2f}"]
        for first, second in combinations(found, 2):
            a, b = found[first], found[second]
            apart, error = a["mean"] - b["mean"], np.hypot(a["error"], b["error"])
            rows.append([f"{name}, {width}, {seed}", f"{first} − {second}", f"{apart:+.4f} ± {error:.4f}", "", "", ""])
        print(rows[-1], flush=True)
    header = ["set, C, split", "kernel", "mean over states", "average density", "effective states", "R-hat"]
    finish(options, [("Log density of the test rows, nats a row", markdown_table(header, rows))], figures)


def long_chains(options, name, width, seed, kernel):
    """Expectation of the log density of the test rows with its error, by several chains of one kernel."""
    prepared = prepare(options.data, name, seed)
    run = TimedRun(prepared.train, structure_of(width, prepared.train, seed), kernel)
    run.compile(seed)
    logs = []
    for k in range(options.chains):
        run.start(chain_seed(seed, k))
        for _ in range(int(BURN * options.states * options.sweeps)):
            run.sweep()
        run.chain.settle()
        states = []
        for _ in range(options.states):
            for _ in range(options.sweeps):
                run.sweep()
            states.append(run.state())
        logs.append(run.densities(states, (prepared.test,))[0])
    single = np.array([chain.mean(axis=1) for chain in logs])
    ess = float(az.ess(single))
    return {
        "mean": float(single.mean()),
        "error": float(single.std() / np.sqrt(ess)),
        "ess": ess,
        "states": single.size,
        "rhat": float(az.rhat(single)),
        "average": averaged(np.concatenate(logs)),
    }


if __name__ == "__main__":
    main()
