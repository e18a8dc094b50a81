"""Effective draws of the number of nodes a second: the moves of this package over the published ones, in one run.

    python -m tests.benchmarks.indian_chefs_moves --seconds 4

Prior-only chains in compiled code, alpha = 1, gamma = 1.5, phi = 1. Blocks of both samplers take turns, so that other
work on the machine meets both alike; times are CPU seconds. Effective draws come from ArviZ's bulk estimate over all
records of a sampler, each of which is ``repeats`` of its moves; every sampler runs at its best number of repeats.
"""

import argparse
import time

import numpy as np

from pymc_spn.indian_chefs.graph_moves import new_tally, prior_sweep, published_sweep
from pymc_spn.indian_chefs.graph_state import new_state
from pymc_spn.indian_chefs.node_law import expected_graph
from pymc_spn.indian_chefs.prior_density import make_prior
from tests.benchmarks.report import machine, markdown_table

CONFIGURATIONS = {
    "one at 0": [0.0],
    "three at 0": [0.0, 0.0, 0.0],
    "two free": [np.nan, np.nan],
    "two at 1, one at 0": [1.0, 1.0, 0.0],
}
ROOM = 96
SAMPLERS = {"ours": (prior_sweep, (2, 5, 10)), "published": (published_sweep, (1, 5, 20))}


class Chain:
    """One sampler on one configuration, run in blocks of about equal CPU time."""

    def __init__(self, kernel, repeats, reputations, seed):
        theta = np.array(reputations)
        fixed = ~np.isnan(theta)
        self.state = new_state(np.where(fixed, theta, 0.5), fixed, ROOM)
        self.prior = make_prior(1.0, 1.5, 1.0)
        self.kernel, self.repeats = kernel, repeats
        self.rng = np.random.default_rng(seed)
        self.tally = new_tally()
        self.nodes, self.seconds = [], 0.0
        self.sweeps(200)
        begin = time.process_time()
        self.sweeps(500)
        self.block = max(50, int(500 * 0.05 / max(time.process_time() - begin, 1e-4)))
        self.nodes = []

    def sweeps(self, n):
        for _ in range(n):
            self.kernel(self.rng, self.state, self.prior, self.repeats, self.tally)
            self.nodes.append(self.state.count[0])

    def run_block(self):
        begin = time.process_time()
        self.sweeps(self.block)
        self.seconds += time.process_time() - begin

    def rate(self):
        """Effective draws of K+ a second."""
        import arviz as az

        return float(np.asarray(az.ess(np.array(self.nodes, float)[None]))) / self.seconds


def compare(reputations, seconds, seed):
    """Best rate of each sampler, and the mean number of nodes of each."""
    chains = {
        (name, repeats): Chain(kernel, repeats, reputations, seed)
        for name, (kernel, choices) in SAMPLERS.items()
        for repeats in choices
    }
    while min(c.seconds for c in chains.values()) < seconds:
        for chain in chains.values():
            if chain.seconds < seconds:
                chain.run_block()
    out = {}
    for name in SAMPLERS:
        repeats, chain = max(((k[1], c) for k, c in chains.items() if k[0] == name), key=lambda rc: rc[1].rate())
        out[name] = {"repeats": repeats, "ess_per_second": chain.rate(), "mean_nodes": float(np.mean(chain.nodes))}
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=4.0, help="CPU seconds of each chain")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    rows = []
    for name, reputations in CONFIGURATIONS.items():
        found = compare(reputations, options.seconds, options.seed)
        ratio = found["ours"]["ess_per_second"] / found["published"]["ess_per_second"]
        law = expected_graph(1.0, 1.5, 1.0, len(reputations), [None if np.isnan(r) else r for r in reputations])
        exact = float(law.nodes)
        ours, published = found["ours"], found["published"]
        row = [name, *(f["repeats"] for f in (ours, published)), *(f["ess_per_second"] for f in (ours, published))]
        rows.append([*row, ratio, ours["mean_nodes"], published["mean_nodes"], exact])
    header = ["observed", "repeats", "repeats, published", "ESS(K+)/s", "ESS(K+)/s, published", "ratio"]
    header += ["mean K+", "mean K+, published", "exact E K+"]
    print(machine() + "\n")
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
