"""Effective draws a second by the size up to which all parents of a node are drawn together (``parent_sets``).

    python -m tests.benchmarks.indian_chefs_parent_sets --seconds 20

Three observed nodes at reputation 0 and at most twelve nodes; twenty rows of a linear network whose edges all have the
weight 0.8, hidden nodes integrated out, so that the likelihood depends on every edge. One compiled model, one step for
each setting; blocks of draws take turns, so that other work on the machine meets all alike; times are CPU seconds.
Effective draws come from ArviZ's bulk estimate over two chains.
"""

import argparse
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_spn as ps
from tests.benchmarks.report import machine, markdown_table

ROOM, WEIGHT, CHAINS = 12, 0.8, 2
SETTINGS = (0, 2, 3, 4, 6)


def model():
    """Two hidden causes, one of them of all three columns."""
    rng = np.random.default_rng(1)
    causes = rng.normal(size=(20, 2))
    rows = WEIGHT * causes @ np.array([[1, 1, 1], [0, 1, 1]]) + rng.normal(size=(20, 3))
    with pm.Model() as out:
        g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=3, max_nodes=ROOM)
        total = pt.linalg.inv(pt.eye(ROOM) - WEIGHT * pt.cast(g.parents, "float64").T)
        pm.MvNormal("y", np.zeros(3), cov=(total @ total.T)[:3, :3], observed=rows)
    return out


class Chain:
    """One setting and seed, run in blocks of draws."""

    def __init__(self, compiled, parent_sets, seed):
        with compiled:
            self.step = ps.steps.IndianChefsStep(parent_sets=parent_sets)
        self.step.setup_chain(np.random.default_rng(seed), 0, 0)
        self.point = compiled.initial_point()
        self.draws, self.seconds = [], 0.0
        self.run(50)
        self.draws, self.seconds = [], 0.0

    def run(self, n):
        begin = time.process_time()
        for _ in range(n):
            self.point, (stats,) = self.step.step(self.point)
            self.draws.append((stats["g_n_nodes"], stats["g_n_edges"]))
        self.seconds += time.process_time() - begin


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of each setting")
    options = arguments.parse_args()
    import arviz as az

    compiled = model()
    runs = {k: [Chain(compiled, k, s) for s in range(CHAINS)] for k in SETTINGS}
    while min(sum(c.seconds for c in chains) for chains in runs.values()) < options.seconds:
        for chains in runs.values():
            if sum(c.seconds for c in chains) < options.seconds:
                for chain in chains:
                    chain.run(25)
    rows = []
    for k, chains in runs.items():
        shortest = min(len(c.draws) for c in chains)
        drawn = np.array([c.draws[:shortest] for c in chains], float)
        seconds = sum(c.seconds for c in chains) * shortest / np.mean([len(c.draws) for c in chains])
        ess = [float(np.asarray(az.ess(drawn[..., j]))) for j in range(2)]
        rows.append(
            [
                k,
                drawn[..., 0].size,
                1e3 * seconds / drawn[..., 0].size,
                ess[0] / seconds,
                ess[1] / seconds,
                float(drawn[..., 0].mean()),
                float(drawn[..., 1].mean()),
            ]
        )
    print(machine() + "\n")
    header = ["parent_sets", "draws", "ms a draw", "ESS(K+)/s", "ESS(E+)/s", "mean K+", "mean E+"]
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
