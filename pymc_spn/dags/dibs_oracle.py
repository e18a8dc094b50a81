"""Orders from DiBS, through the optional package ``dibs-lib``."""

from typing import Any

import numpy as np

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table

INSTALL = 'oracle="dibs" needs the package dibs-lib: pip install dibs-lib; the other oracles need nothing'
_ORDERS = 1024


def dibs_orders(scores: LocalScores, data: Any, rng: np.random.Generator, options: dict[str, Any]) -> np.ndarray:
    """(n, d) orders: random linear extensions of the graphs that DiBS finds.

    The paper runs the oracle again in every node of the tree. Here DiBS runs once, for all variables, and deeper nodes
    are split by these orders restricted to their scope: a deviation.

    Parameters
    ----------
    scores : LocalScores
    data : DataFrame or array
        The rows that the scores were made from.
    rng : numpy.random.Generator
    options : dict
        ``n_particles`` (30) and ``steps`` (3000), the paper's.
    """
    from pymc_spn.dags.graph_kernels import topological_order
    from pymc_spn.dags.order_gibbs_kernels import random_order

    try:
        from dibs.inference import MarginalDiBS
        from dibs.models import BGe, ErdosReniDAGDistribution
        from jax import random
    except ImportError as error:
        raise ImportError(INSTALL) from error
    unknown = sorted(set(options) - {"n_particles", "steps"})
    if unknown:
        raise ValueError(f"dibs must hold n_particles and steps only, got {quoted(unknown)}")
    if data is None:
        raise ValueError('oracle="dibs" needs data=, the rows that the scores were made from')
    table = Table.from_frame(data)
    if table.names != list(scores.names) and tuple(table.names) != scores.names:
        raise ValueError(
            f"data must have the columns of the scores {quoted(list(scores.names))}, got {quoted(list(table.names))}"
        )
    values = table.values - table.values.mean(axis=0)
    d = scores.d
    model = MarginalDiBS(
        x=values.astype(np.float32),
        graph_model=ErdosReniDAGDistribution(n_vars=d, n_edges_per_node=min(2, max(1, (d - 1) // 4))),
        likelihood_model=BGe(n_vars=d),
    )
    key = random.PRNGKey(int(rng.integers(2**31)))
    graphs = np.asarray(
        model.sample(key=key, n_particles=options.get("n_particles", 30), steps=options.get("steps", 3000))
    ).astype(bool)
    kept = [graph for graph in graphs if topological_order(graph, np.empty(d, np.int64))]
    if not kept:
        raise ValueError(
            f"DiBS: none of its {len(graphs)} graphs is acyclic; give it more steps (dibs={{'steps': ...}})"
        )
    out = np.empty((_ORDERS, d), np.int64)
    for s in range(_ORDERS):
        random_order(rng, np.ascontiguousarray(kept[s % len(kept)].T), out[s])
    return out
