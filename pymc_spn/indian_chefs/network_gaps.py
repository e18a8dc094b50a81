"""Missing cells of a training table: values of observed nodes that a chain draws like those of hidden ones."""

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import BeliefNetwork, activation_work, redraw_unit, walk_unit


def filled_at_random(rng: np.random.Generator, data: np.ndarray) -> np.ndarray:
    """A copy of a table (N, D) whose gaps hold other values of their column: where a chain starts."""
    out = data.copy()
    for column in out.T:
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = rng.choice(column[~gaps], gaps.sum())
    return out


class Gaps:
    """The missing cells of one chain's table.

    Parameters
    ----------
    is_gap : (N, D) bool
    n_strata : int
        Candidates of a cell whose node has children.
    """

    def __init__(self, is_gap: np.ndarray, n_strata: int) -> None:
        self.is_gap = is_gap
        self.rows = {d: np.flatnonzero(gaps) for d, gaps in enumerate(is_gap.T) if gaps.any()}
        self.work = {d: activation_work(len(rows), n_strata) for d, rows in self.rows.items()}

    def redraw(self, rng: np.random.Generator, n_nodes: int, network: BeliefNetwork, heat: np.ndarray) -> None:
        """Draw all missing cells given everything else.

        A cell of a node without children has the normal distribution of its node, an exact draw. With children it gets
        the resampling and the random walk of hidden units, in the rows that lack it.

        Parameters
        ----------
        rng : Generator
        n_nodes : int
        network : BeliefNetwork
            In and out; residuals current.
        heat : (K,) float64
            Powers of the nodes' likelihoods, by which cells count too.
        """
        for d, rows in self.rows.items():
            rho = heat[d] * network.precisions[d]
            if network.parents[d, :n_nodes].any():
                # a network of these rows alone, in which the node is as hidden as others
                parts = [np.ascontiguousarray(part[:, rows]) for part in network[4:]]
                precisions = network.precisions.copy()
                precisions[d] = rho
                some = BeliefNetwork(*network[:3], precisions, *parts)
                redraw_unit(rng, d, n_nodes, some, heat, self.work[d])
                walk_unit(rng, d, n_nodes, some, heat, self.work[d])
                for whole, part in zip(network[4:], some[4:], strict=True):
                    whole[:, rows] = part
                continue
            noise = rng.standard_normal(len(rows)) / np.sqrt(rho)
            a = network.activations[d, rows] - network.residuals[d, rows] + noise
            network.activations[d, rows], network.residuals[d, rows] = a, noise
            network.outputs[d, rows] = 1.0 / (1.0 + np.exp(-np.clip(a, -700.0, 700.0)))
