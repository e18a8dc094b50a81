"""Fantasy data of nonlinear Gaussian belief networks against held-out data: Hellinger distances on three toy sets.

    python -m tests.benchmarks.indian_chefs_toys DATA --out RESULTS.jsonl [--starts 6] [--seconds 30]

For each start: a race of over-complete two-layer networks by gradient ascent on a pooled likelihood (a warm-up, no
sampling), then exact sweeps over graph, parameters and hidden units for the rest of the CPU seconds. Fantasy data come
from the sweeps after the first tenth. The distance is that of two Gaussian kernel estimates (Scott's rule, columns
standardised, a grid of 60 x 60), as a ratio to the distance of the first 2,000 rows, on which the networks are
fitted, from the last.

A line of RESULTS is one start; starts that it holds already are not run again. The starts are reported all; the median
is over all, and "selected" is the start with the best pooled score on its training rows. R-hat is over starts.
"""

import argparse
import json
import time
from pathlib import Path

import arviz as az
import numpy as np
from scipy.stats import gaussian_kde

from pymc_spn.indian_chefs.network_chain import NetworkChain
from pymc_spn.indian_chefs.network_draws import ancestral_order, draw_nodes
from pymc_spn.indian_chefs.network_sweep import COLLAPSED, GUIDED, PRIOR, SPLITS, TWINS
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.unit_scaling import UnitScaling
from pymc_spn.indian_chefs.warm_up import PooledAscent, RaceStage, race
from tests.benchmarks.report import finish, markdown_table

LAYERS = {"ring": (10, 3), "two_moons": (10, 3), "pinwheel": (16, 4)}
TARGETS = {"ring": (2.4, 1.7), "two_moons": (5.5, 3.3), "pinwheel": (2.3, 1.25)}
RACE = {
    "ring": (RaceStage(8, 120, 700), RaceStage(3, 300, 1000), RaceStage(1, 1000, 2000)),
    "two_moons": (RaceStage(8, 120, 700), RaceStage(3, 300, 1000), RaceStage(1, 1000, 2000)),
    "pinwheel": (RaceStage(6, 150, 700), RaceStage(2, 400, 1500), RaceStage(1, 2400, 3000)),
}
GRID, FANTASY = 60, 2000


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", help="folder that holds toy_ring.npz and the others")
    arguments.add_argument("--out", required=True, help="file of JSON lines, continued if it is there")
    arguments.add_argument("--json", help="also write all figures to this file")
    arguments.add_argument("--starts", type=int, default=6)
    arguments.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of a start, warm-up included")
    arguments.add_argument("--sets", nargs="+", default=list(LAYERS), choices=list(LAYERS))
    arguments.add_argument("--max-nodes", type=int, default=40)
    options = arguments.parse_args()
    out = Path(options.out)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    compile_kernels()
    for name in options.sets:
        for seed in range(options.starts):
            key = [name, seed, options.seconds]
            if any(d["key"] == key for d in done):
                continue
            done.append({"key": key, **one_start(options, name, seed)})
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[-1], default=float) + "\n")
    figures = {
        name: [d for d in done if d["key"][0] == name and d["key"][2] == options.seconds][: options.starts]
        for name in options.sets
    }
    finish(options, sections(figures), figures)


def compile_kernels():
    """Before any clock runs."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(50, 2))
    start = race(rng, data, 2, 1, stages=(RaceStage(2, 2, 50), RaceStage(1, 2, 50)))
    chain = NetworkChain(data, np.zeros(2), np.ones(2, bool), 8)
    chain.start_from(rng, start, 50)
    for _ in range(3):
        chain.sweep(rng, make_prior(1.0, 1.0, 1.0))
        chain.log_joint(make_prior(1.0, 1.0, 1.0))


def distance_to(held_out):
    """The Hellinger distance of a sample's kernel estimate from that of the held-out rows."""
    centre, scale = held_out.mean(0), held_out.std(0)
    z = (held_out - centre) / scale
    axes = [np.linspace(z[:, d].min() - 1.0, z[:, d].max() + 1.0, GRID) for d in range(2)]
    points = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1)

    def masses(sample):
        p = gaussian_kde(((sample - centre) / scale).T)(points)
        return p / p.sum()

    reference = masses(held_out)
    return lambda sample: float(np.sqrt(max(0.0, 1.0 - np.sqrt(masses(sample) * reference).sum())))


def one_start(options, name, seed):
    """Warm-up, sampling, and what came of them."""
    X = np.load(Path(options.data) / f"toy_{name}.npz")["X"]
    train, held_out = X[:2000], X[-2000:]
    distance = distance_to(held_out)
    scaling = UnitScaling.from_data(train)
    unit = scaling.transform(train).to_numpy()
    rng = np.random.default_rng((seed, len(name)))
    prior = make_prior(1.0, 1.0, 1.0)
    begin = time.process_time()
    start = race(rng, np.log(unit / (1.0 - unit)), *LAYERS[name], stages=RACE[name])
    chain = NetworkChain(np.log(unit / (1.0 - unit)), np.zeros(2), np.ones(2, bool), options.max_nodes)
    chain.start_from(rng, start)
    warm_up = time.process_time() - begin
    first = distance(fantasy(rng, chain, scaling, FANTASY))
    nets, trace = [], []
    while time.process_time() - begin < options.seconds:
        chain.sweep(rng, prior)
        trace.append([chain.n_nodes, chain.n_edges])
        if len(trace) % 5 == 0:
            nets.append(chain.parameters())
            trace[-1].append(chain.log_joint(prior))
    nets = nets[len(nets) // 10 :]
    rows = [draw_rows(rng, nets[t], scaling, 40) for t in rng.integers(0, len(nets), FANTASY // 40)]
    joint = np.array([t[2] for t in trace if len(t) == 3])
    ascent = PooledAscent(chain.data, *graph_of(chain), chain.prior)
    tried, accepted = chain.tally[[GUIDED, PRIOR, COLLAPSED, SPLITS, TWINS]].sum(0)
    return {
        "baseline": distance(train),
        "hellinger": distance(np.concatenate(rows)),
        "after_warm_up": first,
        "score": start.score,
        "score_after": ascent.score(rng, packed_parameters(chain)),
        "warm_up_seconds": warm_up,
        "sweeps": len(trace),
        "n_nodes": [t[0] for t in trace][:: max(1, len(trace) // 200)],
        "n_edges": trace[-1][1],
        "log_joint": joint[:: max(1, len(joint) // 200)].tolist(),
        "moves_of_size": [int(tried), int(accepted)],
    }


def graph_of(chain):
    """Parents and an order of the current graph."""
    found = chain.parameters()
    return found["parents"], ancestral_order(found["weights"])


def packed_parameters(chain):
    """Weights, biases, log precisions (n + 2, n)."""
    found = chain.parameters()
    return np.vstack([found["weights"], found["biases"], np.log(found["precisions"])])


def fantasy(rng, chain, scaling, n):
    return draw_rows(rng, chain.parameters(), scaling, n)


def draw_rows(rng, net, scaling, n):
    """Fantasy rows of one network in the units of the data."""
    arrays = net["weights"], net["biases"], net["precisions"]
    nodes = draw_nodes(rng, "nonlinear gaussian", ancestral_order(net["weights"]), *arrays, n)
    return scaling.inverse(nodes[:2].T).to_numpy()


def rhat(traces):
    """R-hat over the second halves of the starts' traces, NaN for fewer than two."""
    if len(traces) < 2:
        return float("nan")
    shortest = min(len(t) for t in traces)
    halves = np.array([t[shortest // 2 : shortest] for t in traces], float)
    if np.ptp(halves) == 0.0 or halves.shape[1] < 4:
        return float("nan")
    return float(az.rhat(az.from_dict({"posterior": {"x": halves}}))["x"])


def sections(figures):
    """Tables of all starts and of the verdicts."""
    starts, verdicts = [], []
    for name, runs in figures.items():
        if not runs:
            continue
        ratios = np.array([r["hellinger"] / r["baseline"] for r in runs])
        for r, ratio in zip(runs, ratios, strict=True):
            starts.append(
                [
                    name,
                    r["key"][1],
                    r["after_warm_up"] / r["baseline"],
                    ratio,
                    r["score"],
                    r["score_after"],
                    r["warm_up_seconds"],
                    r["sweeps"],
                    int(r["n_nodes"][-1]),
                    int(r["n_edges"]),
                    f"{r['moves_of_size'][1]:,} of {r['moves_of_size'][0]:,}",
                ]
            )
        selected = int(np.argmax([r["score_after"] for r in runs]))
        target, stretch = TARGETS[name]
        median = float(np.median(ratios))
        verdicts.append(
            [
                name,
                runs[0]["baseline"],
                len(runs),
                median,
                float(ratios[selected]),
                f"{target:g}, {stretch:g}",
                "stretch met" if median <= stretch else "met" if median <= target else "missed",
                rhat([r["n_nodes"] for r in runs]),
                rhat([r["log_joint"] for r in runs]),
            ]
        )
    header = ["set", "start", "after warm-up", "ratio", "score", "score after", "warm-up s", "sweeps", "K+", "edges"]
    top = ["set", "baseline", "starts", "median ratio", "selected", "targets", "verdict", "R-hat K+", "R-hat log joint"]
    return [
        ("All starts: ratios to the baseline", markdown_table([*header, "births, deaths, splits accepted"], starts)),
        ("Verdicts", markdown_table(top, verdicts)),
    ]


if __name__ == "__main__":
    main()
