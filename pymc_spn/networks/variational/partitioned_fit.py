"""A fit from rows that are not in memory: a start on a sample, one stochastic pass, then full passes.

The stochastic pass is that of Hoffman, Blei, Wang and Paisley (2013). After each batch the statistics move towards
those of the batch, as if all rows were like it. It gives every row its first list of edges. The full passes are those
of `coordinate_ascent`. The statistics of one group of rows after the other are replaced (Neal and Hinton 1998), so that
the bound rises in each, without step sizes. Statistics are sums over rows, so where the rows are makes no difference.
"""

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_spn.gibbs.palette import log_jacobian_of_counts
from pymc_spn.networks.schema import HYPERPARAMETERS
from pymc_spn.networks.variational.active_tree import ActiveTree, Statistics
from pymc_spn.networks.variational.assignments import ListSearch, expected_logs, total_of
from pymc_spn.networks.variational.coordinate_ascent import climb
from pymc_spn.networks.variational.fit import VariationalFit, fit_by_ascent, fit_of, spread_palette
from pymc_spn.networks.variational.partitioned_rows import PartitionedRows, RowGroup
from pymc_spn.networks.variational.summaries import summaries_of
from pymc_spn.numerics.cluster_clients import check_folder
from pymc_spn.numerics.progress_bars import ProgressBar

GROUPS = 16  # of rows, whose statistics are kept; a full pass replaces one after the other
BATCH, BATCHES = 8, 256  # blocks of a batch of the stochastic pass at least, batches of the pass at most
# From the top a row tries the two children of each node that suit it best: more would cost more than the pass is worth.
FROM_THE_TOP = ListSearch(breadth=2, descent=2, enter=1e-3, leave=1e-4)
FORGETTING = 0.7  # step t of the stochastic pass moves the statistics by (t + 1) ** -0.7


def fit_partitions(
    schema: Any,
    sample: np.ndarray,
    tables: Callable[[], Iterable[np.ndarray]],
    hyperparameters: dict[str, np.ndarray],
    learned: np.ndarray,
    priors: np.ndarray,
    max_children: int,
    n_restarts: int,
    sample_steps: int,
    max_passes: int,
    tolerance: float,
    rng: np.random.Generator,
    progressbar: bool,
    client: Any = None,
) -> VariationalFit:
    """Fit to all rows of some tables, none of which need fit in memory together.

    Parameters
    ----------
    schema, hyperparameters, learned, priors, max_children, n_restarts, tolerance, rng, progressbar
        As in `fit_by_ascent`.
    sample : (n, D) float64
        Rows from which the fit starts.
    tables : callable
        Gives parts of the table (N_i, D), in its own units; called once.
    sample_steps : int
        Steps on the sample at most.
    max_passes : int
        Full passes at most, after the stochastic one.
    client : distributed.Client, optional
        Whose workers assign the blocks of rows.
    """
    structure, spread = schema.structure, spread_palette(schema)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pymc_spn_"))
        if client is not None:
            check_folder(client, folder)
        rows = PartitionedRows(folder, structure, spread, client=client)
        for values in tables():
            rows.add(values)
        rows.end()
        start = fit_by_ascent(
            schema, sample, hyperparameters, learned, priors, max_children, n_restarts, sample_steps, tolerance, rng,
            progressbar,
        )  # fmt: skip
        tree = start.tree(structure, spread)
        own = tuple(start.hyperparameters[k] for k in HYPERPARAMETERS)
        total = (max_passes + 1) * rows.n_rows
        bar = stack.enter_context(ProgressBar("Passes over the rows", total, progressbar))
        rows.advance = bar.advance
        order = rng.permutation(len(rows.sizes))

        def stochastic_pass(hyper: tuple) -> list[RowGroup]:
            return first_pass(rows, order, tree, start.statistics, len(sample), hyper)

        jacobian = log_jacobian_of_counts(spread, rows.observed)
        run = climb(
            structure, spread, tree, stochastic_pass, rows.n_rows, jacobian, own, learned, priors, max_passes,
            tolerance, n_batches=GROUPS, rows=rows, searches=1,
        )  # fmt: skip
    return fit_of([run])


def first_pass(
    rows: PartitionedRows, order: np.ndarray, tree: ActiveTree, statistics: Statistics, n_sample: int, hyper: tuple
) -> list[RowGroup]:
    """The rows in groups, with assignments of a stochastic pass.

    Parameters
    ----------
    rows : PartitionedRows
    order : (B,) int
        Order in which the pass takes the blocks.
    tree : ActiveTree
    statistics : Statistics
        Of a fit to ``n_sample`` rows: where the pass starts.
    hyper : tuple
    """
    structure, compiled, n_rows = rows.structure, rows.compiled, rows.n_rows
    guess = Statistics(*(x * (n_rows / n_sample) for x in statistics))
    groups, step, batch = [], 0, max(BATCH, len(order) // BATCHES)
    for a, b in pairwise(np.linspace(0, len(order), min(GROUPS, len(order)) + 1).astype(int)):
        parts = []
        for begin in range(a, b, batch):
            blocks = order[begin : min(begin + batch, b)]
            summaries = summaries_of(tree, structure, compiled, guess)
            logs = expected_logs(tree, guess, summaries, compiled, hyper)
            (done,) = rows.assigned(tree, summaries, logs, [rows.without_lists(blocks, tree)], FROM_THE_TOP)
            parts.append(done)
            step += 1
            rate, share = (step + 1.0) ** -FORGETTING, n_rows / sum(rows.sizes[block] for block in blocks)
            guess = Statistics(
                *((1.0 - rate) * x + rate * share * y for x, y in zip(guess, done.statistics, strict=True))
            )
        groups.append(_joined(parts))
    return groups


def _joined(parts: list[RowGroup]) -> RowGroup:
    """One group of the rows of several."""
    return RowGroup(
        tuple(block for part in parts for block in part.blocks),
        total_of(parts),
        sum(part.entropy for part in parts),
        sum(part.log_value for part in parts),
    )
