"""What could help chains on hard tables and are not part of the sampler, so that this can be checked.

    python -m tests.benchmarks.spn_warm_up DATA annealing --runs cpu_small:2 cpu_act:4 --seconds 15
    python -m tests.benchmarks.spn_warm_up DATA splits --runs german:4 cpu_act:4 cpu_small:2 --seconds 8
    python -m tests.benchmarks.spn_warm_up DATA offers --runs cpu_act:4 cpu_small:4 --seconds 20
    python -m tests.benchmarks.spn_warm_up DATA starts --runs cpu_small:4 cpu_act:4 --seconds 12 --chains 6

Sets, first split, leaf priors and starts are those of the tables of samplers; one start a chain, without the race.

* ``annealing``: leaves begin wide and the network flat. Leaf scale and concentrations are multiplied by a heat that
  falls to 1 over the first 30 % of the time. Several chains, their mean test density and R-hat of the log joint.
* ``splits``: the log ratio of the posterior when the rows on one edge below a product are given a product of their own,
  the partitions below as they are. Proposals are drawn at random from states of a chain. A merge undoes a split: where
  the posterior refuses the one, states in which the other could be proposed do not occur.
* ``offers``: six such splits after every fifth sweep of the first half, taken where they raise the log joint; their
  time counts. The test density less that of the same start without.
* ``starts``: over several starts, the correlation of the log joint after some share of the time with the test density
  at its end: how soon a poor start can be told.
"""

import time

import arviz as az
import numpy as np

from pymc_spn.gibbs.sampler import Sampler
from tests.benchmarks.report import finish, markdown_table, parser
from tests.benchmarks.table_rules import prepare
from tests.benchmarks.table_runs import TimedRun, averaged, chain_seed, structure_of

COOLED = 0.3  # share of the time after which the heat is 1
N_STATES = 40  # averaged, of the second half of the time
SHARES = (0.02, 0.05, 0.2, 0.5)
SMALLEST = 20  # rows on both sides of a split that is listed apart
N_PROPOSED, N_AT_ONCE, SWEEPS_BETWEEN = 300, 30, 10  # proposals in all, of one state, sweeps between states
N_OFFERED, OFFERED_EVERY = 6, 5


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("trial", choices=list(TRIALS))
    arguments.add_argument("--runs", nargs="+", required=True, help="set:children")
    arguments.add_argument("--seconds", type=float, default=15.0, help="CPU seconds of a chain")
    arguments.add_argument("--heats", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    arguments.add_argument("--chains", type=int, default=3)
    options = arguments.parse_args()
    header, trial = TRIALS[options.trial]
    rows = []
    for which in options.runs:
        name, width = which.split(":")
        prepared = prepare(options.data, name, 0)
        run = TimedRun(prepared.train, structure_of(width, prepared.train, 0), "auto")
        run.compile(0)
        for row in trial(run, prepared, options):
            rows.append([f"{name}, {width}", *row])
            print(*rows[-1], flush=True)
    table = markdown_table(["set, C", *header], rows)
    finish(options, [(f"{options.trial}, {options.seconds:g} s a chain", table)], rows)


def annealing(run, prepared, options):
    """For each heat the densities of chains and whether they meet."""
    for heat in options.heats:
        densities, traces = [], []
        for k in range(options.chains):
            states, trace = chain(run, chain_seed(0, k), options.seconds, heat)
            densities.append(averaged(run.densities(states, (prepared.test,))[0]))
            traces.append(trace)
        length = min(map(len, traces))
        rhat = float(az.rhat(np.array([t[-length:] for t in traces])))
        spread = f"{np.mean(densities):.3f} ({min(densities):.2f} to {max(densities):.2f})"
        yield f"{heat:g}", spread, f"{np.mean([t.mean() for t in traces]):.0f}", f"{rhat:.2f}"


def chain(run, seed, seconds, heat=1.0, offer=None):
    """States and log joints of the second half of the time; ``offer`` changes the state now and then in the first."""
    run.start(seed)
    first = [np.array(h) for h in run.first]
    due, states, trace, is_hot = np.linspace(0.5, 1.0, N_STATES, endpoint=False) * seconds, [], [], heat != 1.0
    while run.seconds < seconds:
        if is_hot:
            factor = heat ** max(0.0, 1.0 - run.seconds / (COOLED * seconds))
            run.chain.set_hyperparameters([first[0] * factor, first[1] * factor, first[2], first[3]])
            is_hot = factor > 1.0
        if run.seconds >= seconds / 2:
            run.chain.settle()
        run.sweep()
        if offer is not None and run.seconds < seconds / 2 and run.n_sweeps % OFFERED_EVERY == 0:
            begin = time.process_time()
            offer()
            run.seconds += time.process_time() - begin
        if due.size and run.seconds >= due[0]:
            states.append(run.state())
            trace.append(run.log_joint())
            due = due[due > run.seconds]
    return states, np.array(trace)


def splits(run, prepared, options):
    """Log ratios of random splits at states of one chain."""
    run.start(0)
    while run.seconds < options.seconds:
        run.sweep()
    run.chain.settle()
    source, scratch = run.chain.sampler, scratch_of(run)
    rng = np.random.default_rng(0)
    ratios, sizes, full = [], [], 0
    while len(ratios) + full < N_PROPOSED:
        for _ in range(SWEEPS_BETWEEN):
            run.sweep()
        digits = source.digits()
        before = log_joint_at(scratch, digits)
        for _ in range(N_AT_ONCE):
            proposed, size = split(rng, source.structure, digits)
            if proposed is None:
                full += 1
                continue
            ratios.append(log_joint_at(scratch, proposed) - before)
            sizes.append(size)
    ratios, large = np.array(ratios), np.array(sizes) > SMALLEST
    counts = [f"{full} of {len(ratios) + full}", f"{large.sum()}"]
    yield [*counts, *((f"{ratios[large].max():.1f}", f"{np.median(ratios[large]):.1f}") if large.any() else "––")]


def offers(run, prepared, options):
    """Differences in test density by start, and the splits that were taken."""
    run.start(0)
    scratch, source, rng = scratch_of(run), run.chain.sampler, np.random.default_rng(0)
    gains = []

    def offer():
        digits, before = source.digits(), float(source.statistics()[0])
        taken = False
        for _ in range(N_OFFERED):
            proposed, _ = split(rng, source.structure, digits)
            if proposed is not None and (after := log_joint_at(scratch, proposed)) > before:
                gains.append(after - before)
                digits, before, taken = proposed, after, True
        if taken:
            run.chain.set_digits(digits)

    pairs = []
    for k in range(options.chains):
        found = [chain(run, chain_seed(0, k), options.seconds, offer=o)[0] for o in (None, offer)]
        pairs.append([averaged(run.densities(states, (prepared.test,))[0]) for states in found])
    plain, with_splits = np.array(pairs).T
    listed = ", ".join(f"{d:+.2f}" for d in with_splits - plain)
    yield f"{plain.min():.2f} to {plain.max():.2f}", listed, f"{len(gains)}", f"{sum(gains):.0f}"


def scratch_of(run):
    """A sampler of the run's network at which states can be tried."""
    source = run.chain.sampler
    scratch = Sampler(source.structure, source.compiled, run.schema.code(run.train.values), source.jacobian)
    scratch.set_hyperparameters(*source.hyperparameters)
    return scratch


def log_joint_at(sampler, digits):
    sampler.set_digits(digits)
    return float(sampler.statistics()[0])


def split(rng, structure, digits):
    """Digits in which the rows of one edge below a product have a product of their own, and the smaller side's size.

    None where the sum node is full or the product has but one edge below.
    """
    inner = np.setdiff1d(np.arange(structure.n_regions), structure.leaf_region)
    region, row = int(rng.choice(inner)), int(rng.integers(len(digits)))
    path, at = [], region
    while at > 0:
        at = int(structure.parent[at])
        path.append(at)
    rows = np.flatnonzero((digits[:, path] == digits[row, path]).all(axis=1))  # at the sum node of this row
    below = np.flatnonzero(structure.parent == region)
    child = int(rng.choice(below))
    group = rows[digits[rows, region] == digits[row, region]]
    taken = group[digits[group, child] == digits[row, child]]
    limit = structure.n_children[region]
    labels = np.unique(digits[rows, region])
    if taken.size == group.size or (limit > 0 and labels.size >= limit):
        return None, 0
    changed = digits.copy()
    changed[taken, region] = next(k for k in range(labels.size + 1) if k not in labels)
    return changed, min(taken.size, group.size - taken.size)


def starts(run, prepared, options):
    """Correlations over starts of early log joints with the test density at the end."""
    early, final = [], []
    for k in range(max(options.chains, 3)):
        run.start(chain_seed(0, k))
        due, seen = [s * options.seconds for s in SHARES], []
        states, times = [], np.linspace(0.5, 1.0, N_STATES, endpoint=False) * options.seconds
        while run.seconds < options.seconds:
            run.sweep()
            while due and run.seconds >= due[0]:
                seen.append(run.log_joint())
                due.pop(0)
            if times.size and run.seconds >= times[0]:
                states.append(run.state())
                times = times[times > run.seconds]
        early.append(seen)
        final.append(averaged(run.densities(states, (prepared.test,))[0]))
    yield [
        f"{len(final)}",
        f"{min(final):.2f} to {max(final):.2f}",
        *(f"{np.corrcoef(column, final)[0, 1]:+.2f}" for column in np.array(early).T),
    ]


TRIALS = {
    "annealing": (["heat", "test density (of chains)", "mean log joint", "R-hat"], annealing),
    "splits": (["impossible", f"more than {SMALLEST} rows on both sides", "best log ratio", "median"], splits),
    "offers": (["test density without", "with splits less without", "taken", "nats gained"], offers),
    "starts": (["starts", "test density", *(f"after {s:.0%}" for s in SHARES)], starts),
}


if __name__ == "__main__":
    main()
