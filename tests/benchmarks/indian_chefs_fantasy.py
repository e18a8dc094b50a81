"""What the benchmarks of belief networks share: one start from warm-up to fantasy data, distances, tables of R-hat."""

import argparse
import json
import time
from pathlib import Path

import arviz as az
import numpy as np
from scipy.stats import gaussian_kde

from pymc_spn.indian_chefs.graph_moves import MOVE_NAMES, SWAPS, counts_of_moves
from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_draws import ancestral_order, draw_nodes
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.unit_scaling import UnitScaling
from pymc_spn.indian_chefs.warm_up import PooledAscent, RaceStage, race
from tests.benchmarks.report import markdown_table

GRID, FANTASY, FEWEST_SWEEPS = 60, 2000, 50
ICP = make_prior(1.0, 1.0, 1.0)


def resume(path):
    """Lines of a file of results, one finished start each."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def keep(path, result):
    """Append one finished start."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result, default=float) + "\n")


def starts_of(options, one):
    """Runs of each set of ``options.sets``, by name: those that the file has, and what is lacking by ``one``."""
    done = resume(options.out)
    tasks = [[name, seed, options.seconds] for seed in range(options.starts) for name in options.sets]
    left = [key for key in tasks if not any(d["key"] == key for d in done)]
    if left:
        compile_kernels()
    for key in left:
        done.append({"key": key, **one(options, *key[:2])})
        keep(options.out, done[-1])
    found = {name: [] for name in options.sets}
    for d in done:
        if d["key"] in tasks:
            found[d["key"][0]].append(d)
    return found


def arguments_of(text, sets, starts, seconds):
    """Arguments that the benchmarks of starts share."""
    arguments = argparse.ArgumentParser(description=text)
    arguments.add_argument("data", help="folder that holds the sets as .npz files")
    arguments.add_argument("--out", required=True, help="file of JSON lines, continued if it is there")
    arguments.add_argument("--starts", type=int, default=starts)
    arguments.add_argument("--seconds", type=float, default=seconds, help="CPU seconds of a start, warm-up included")
    arguments.add_argument("--sets", nargs="+", default=list(sets), choices=list(sets))
    return arguments


def of_starts(figures, ratio):
    """A table of all starts; ``ratio`` is of a run's distance, and of that after its warm-up."""
    rows = []
    for name, runs in figures.items():
        for r in runs:
            accepted, tried = size_moves(r)
            own = [name, r["key"][1], ratio(r, r["after_warm_up"]), ratio(r, r), r["warm_up_seconds"], r["sweeps"]]
            nodes = f"{r['n_nodes'][0]} to {r['n_nodes'][-1]}"
            rows.append([*own, nodes, int(r["n_edges"]), f"{accepted:,} of {tried:,}"])
    header = ["set", "start", "after warm-up", "ratio", "warm-up s", "sweeps", "K+", "edges", "moves of size accepted"]
    return markdown_table(header, rows)


def compile_kernels():
    """Before any clock runs."""
    n_observed = 2
    rng = np.random.default_rng(0)
    data = rng.normal(size=(50, n_observed))
    start = race(rng, data, 2, 1, stages=(RaceStage(2, 2, 50), RaceStage(1, 2, 50)))
    chain = NetworkChain(data, np.zeros(n_observed), np.ones(n_observed, bool), n_observed + 6)
    chain.start_from(rng, start, 50)
    for _ in range(3):
        chain.sweep(rng, ICP)
        chain.log_joint(ICP)


def distance_to(held_out):
    """The Hellinger distance of a sample's kernel estimate from that of the held-out rows, two columns, on a grid."""
    centre, scale = held_out.mean(0), held_out.std(0)
    z = (held_out - centre) / scale
    axes = [np.linspace(z[:, d].min() - 1.0, z[:, d].max() + 1.0, GRID) for d in range(2)]
    points = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1)

    def masses(sample):
        p = gaussian_kde(((sample - centre) / scale).T)(points)
        return p / p.sum()

    reference = masses(held_out)
    return lambda sample: float(np.sqrt(max(0.0, 1.0 - np.sqrt(masses(sample) * reference).sum())))


def logits(train):
    """Scaling of the training rows, and their activations (N, D)."""
    scaling = UnitScaling.from_data(train)
    unit = scaling.transform(train).to_numpy()
    return scaling, np.log(unit) - np.log1p(-unit)


def one_start(rng, train, distances, layers, stages, seconds, max_nodes):
    """Warm-up, sampling for the rest of the CPU seconds, and what came of them.

    Parameters
    ----------
    rng : Generator
    train : (N, D) float64
    distances : dict of callables
        Of fantasy rows, in the units of the data, from the held-out rows.
    layers : (int, int)
    stages : tuple of RaceStage
    seconds : float
    max_nodes : int

    Returns
    -------
    dict
        Distances under their names, ``fantasy`` (the first 1,000 rows), and what the tables show.
    """
    scaling, data = logits(train)
    d = data.shape[1]
    begin = time.process_time()
    start = race(rng, data, *layers, stages=stages)
    chain = NetworkChain(data, np.zeros(d), np.ones(d, bool), max_nodes)
    chain.start_from(rng, start)
    warm_up = time.process_time() - begin
    first = draw_rows(rng, chain.parameters(), scaling, FANTASY)
    nets, nodes, joint = [], [], []
    before = chain.counts()
    while time.process_time() - begin < seconds or len(nodes) < FEWEST_SWEEPS:
        chain.sweep(rng, ICP)
        nodes.append(chain.n_nodes)
        if chain.sweeps % 5 == 0:
            nets.append(chain.parameters())
            joint.append(chain.log_joint(ICP))
    rows = fantasy_rows(rng, nets, scaling)
    found = chain.parameters()
    ascent = PooledAscent(chain.data, found["parents"], ancestral_order(found["weights"]), chain.prior)
    packed = np.vstack([found["weights"], found["biases"], np.log(found["precisions"])])
    tally = named_counts(chain.counts() - before)
    return {
        **{name: distance(rows) for name, distance in distances.items()},
        "after_warm_up": {name: distance(first) for name, distance in distances.items()},
        "score": start.score,
        "score_after": ascent.score(rng, packed),
        "warm_up_seconds": warm_up,
        "sweeps": len(nodes),
        "n_nodes": nodes,
        "n_edges": int(found["parents"].sum()),
        "log_joint": joint,
        "tally": tally,
        "fantasy": rows[:1000].round(4).tolist(),
    }


def draw_rows(rng, net, scaling, n):
    """Fantasy rows of one network in the units of the data."""
    arrays = net["weights"], net["biases"], net["precisions"]
    nodes = draw_nodes(rng, "nonlinear gaussian", ancestral_order(net["weights"]), *arrays, n)
    return scaling.inverse(nodes[: len(scaling.columns)].T).to_numpy()


def fantasy_rows(rng, nets, scaling):
    """Fantasy rows of networks after the first tenth, forty of each that is drawn."""
    first = len(nets) // 10
    return np.concatenate([draw_rows(rng, nets[t], scaling, 40) for t in rng.integers(first, len(nets), FANTASY // 40)])


def rhat(traces):
    """R-hat over the second halves of the starts' traces, NaN for fewer than two."""
    if len(traces) < 2:
        return float("nan")
    shortest = min(len(t) for t in traces)
    halves = np.array([t[shortest // 2 : shortest] for t in traces], float)
    if np.ptp(halves) == 0.0 or halves.shape[1] < 4:
        return float("nan")
    return float(az.rhat(az.from_dict({"posterior": {"x": halves}}))["x"])


def named_counts(tally):
    """How often each move was tried and accepted."""
    return dict(zip(MOVE_NAMES, counts_of_moves(tally)[:, :2].tolist(), strict=True))


def size_moves(run):
    """Accepted and tried births, deaths, splits and merges of one start: the moves that change K+."""
    return tuple(sum(run["tally"][k][column] for k in MOVE_NAMES[:SWAPS]) for column in (1, 0))
