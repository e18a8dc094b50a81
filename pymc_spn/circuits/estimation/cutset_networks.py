"""`cutset_network`: columns of levels divided on one after the other, with forests below, as a circuit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.estimation.chow_liu import GrowingLevels, positive, shares_given_parent, table_of_levels
from pymc_spn.circuits.estimation.fitted_circuit import CircuitFit
from pymc_spn.circuits.structures.circuit import PRODUCT
from pymc_spn.circuits.structures.circuit_builders import grow_states
from pymc_spn.circuits.structures.level_scores import BayesianInformation, DirichletEvidence, LevelCounter
from pymc_spn.circuits.structures.or_trees import Divided, Forest, Growth, grow_or_tree
from pymc_spn.numerics.asked_numbers import is_int
from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import TableLike


def cutset_network(
    data: TableLike,
    *,
    score: str | None = "evidence",
    equivalent_sample_size: float = 1.0,
    max_depth: int | None = None,
    min_rows: int = 20,
    n_candidates: int | None = None,
    n_networks: int = 1,
    prior_rows: float = 1.0,
    kinds: Mapping[str, str] | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> CircuitFit:
    """Cutset network of columns of levels: an OR tree that divides the rows, with Chow-Liu trees at its ends.

    An inner node of the OR tree divides its rows by the levels of a column, with the shares of the rows as weights. At
    its ends stands the forest of largest score over the columns that were not divided by: a Chow-Liu tree without the
    edges that lose. A node is divided by the column whose division raises the score of the whole network most, if one
    does. What depends on what may so differ from one part of the rows to another. One estimate in closed form, without
    a posterior; the circuit is deterministic for a single network, a mixture with equal weights for several.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow, Table, dict or array
        What ``ps.SPN(observed=)`` takes, binary and categorical columns. Rows with a gap in one of two columns are left
        out of what these two say about each other. Rows with a gap in a column that divides them are left out of
        everything below it. `fit_em` with ``leaf_prior_rows=0``, started here, sums gaps out.
    score : {"evidence", "bic"} or None
        The exact log marginal likelihood of the structure under Dirichlet priors (BDeu), or the Bayesian information
        criterion; with gaps, of the rows that are left. None draws the column and divides by it whatever is gained, and
        the forests are those of largest evidence: extremely randomised networks.
    equivalent_sample_size : float
        Rows that the priors of the evidence are worth, spread evenly over all joint levels; each division leaves to
        each level its part of them. Positive.
    max_depth : int, optional
        Divisions above a forest at most; 0 is one forest.
    min_rows : int
        Nodes of fewer rows are not divided.
    n_candidates : int, optional
        Columns drawn at each node; the best is taken. By default all for one network, and the square root of
        their number, rounded up, for several, which would be all alike otherwise. Columns with fewer than two levels
        among the rows of a node are no candidates.
    n_networks : int
        Networks in the mixture.
    prior_rows : float
        As in `chow_liu_tree`, in the tables of the forests, of their rows; the levels of a column that divides get as
        many rows more, spread evenly. Positive.
    kinds : dict, optional
        As in `Table.from_frame`.
    random_seed : int, Generator or None
        Of the columns that are drawn; nothing is where all are candidates.

    Returns
    -------
    CircuitFit
        With one leaf for each level of each column, shared by all nodes. For a single network with a score, `objective`
        holds the score in nats of the forest of all rows and after each division; it never falls. A division by a
        column with gaps adds what it gains on the rows without.

    Raises
    ------
    ValueError
        For columns of numbers, data that `Table.from_frame` refuses, arguments out of range, and more than
        `circuit_builders.MAX_EDGES` edges.

    Examples
    --------
    >>> found = ps.circuits.cutset_network(pd.DataFrame({"job": full["job"], "old": full["age"] > 45}))
    >>> found.predict(pd.DataFrame({"old": [True]}), "job").values.tolist()
    ['clerk']

    References
    ----------
    Rahman, Kothalkar and Gogate (2014), Cutset networks: a simple, tractable, and scalable approach for improving the
    accuracy of Chow-Liu trees, ECML PKDD. Di Mauro, Vergari and Esposito (2015), Learning accurate cutset networks by
    exploiting decomposability, AI*IA, for the scores. Di Mauro, Gala, Iannotta and Basile (2021), Random probabilistic
    circuits, UAI, for columns drawn at random and mixtures.
    """
    rows, size = positive("prior_rows", prior_rows), positive("equivalent_sample_size", equivalent_sample_size)
    if score is not None and (not isinstance(score, str) or score not in ("evidence", "bic")):
        raise ValueError(f"score must be 'evidence', 'bic' or None, got {quoted(score)}")
    whole_numbers: dict[str, tuple[Any, int]] = {"min_rows": (min_rows, 1), "n_networks": (n_networks, 1)}
    if max_depth is not None:
        whole_numbers["max_depth"] = max_depth, 0
    for name, (value, least) in whole_numbers.items():
        if not is_int(value) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {quoted(value)}")
    refuse_count("n_networks", n_networks, 1000.0, "take fewer")
    table, n_levels = table_of_levels(data, kinds)
    growth = Growth(
        score=BayesianInformation(math.log(len(table.values))) if score == "bic" else DirichletEvidence(size),
        asks=score is not None,
        max_depth=max_depth,
        min_rows=min_rows,
        n_candidates=_candidates(n_candidates, score, n_networks, len(n_levels)),
    )
    counter = LevelCounter.of(table.values, n_levels)
    counts = counter.pairs(np.arange(len(table.values)))
    rng = np.random.default_rng(random_seed)
    grown = GrowingLevels(table.columns)
    shares: dict[int, np.ndarray] = {}
    tops, path = [], np.zeros(0)
    for _ in range(n_networks):
        nodes, path = grow_or_tree(counter, counts, growth, rng)
        parts = _network(grown, nodes, n_levels, rows, shares)
        tops.append(parts[0] if len(parts) == 1 else grown.add(PRODUCT, parts))
    if n_networks > 1:
        (mixture,) = grown.sums(tops, 1)
        shares[mixture] = np.full(n_networks, 1.0 / n_networks)
    return grown.fit(shares, table.values, path if growth.asks and n_networks == 1 else None)


def _candidates(given: Any, score: str | None, n_networks: int, n_columns: int) -> int:
    """How many columns are drawn at a node."""
    if score is None:
        if given is not None:
            raise ValueError(
                f"n_candidates must be None where score is None, which draws one column, got {quoted(given)}"
            )
        return 1
    if given is None:
        return n_columns if n_networks == 1 else math.isqrt(n_columns - 1) + 1
    if not is_int(given) or not 1 <= given <= n_columns:
        raise ValueError(
            f"n_candidates must be an integer from 1 to the {n_columns} columns, or None; got {quoted(given)}"
        )
    if given == n_columns and n_networks > 1:
        raise ValueError(
            f"n_candidates must be below the {n_columns} columns for n_networks={n_networks}, "
            f"which would be all alike; got {given}"
        )
    return int(given)


def _network(
    grown: GrowingLevels,
    nodes: Sequence[Divided | Forest],
    n_levels: list[int],
    prior_rows: float,
    shares: dict[int, np.ndarray],
) -> list[int]:
    """Nodes whose product is the network; the weights of new sums go to `shares`."""
    parts: list[list[int]] = [[]] * len(nodes)
    for i in range(len(nodes) - 1, -1, -1):  # children first
        node = nodes[i]
        if isinstance(node, Divided):
            levels = [grown.leaf(node.column, k) for k in range(n_levels[node.column])]
            below = [parts[child] for child in node.children]
            products = [grown.add(PRODUCT, [at, *b]) if b else at for at, b in zip(levels, below, strict=True)]
            parts[i] = grown.sums(products, 1)
            shares[parts[i][0]] = shares_given_parent(node.counts, None, prior_rows)[0]
            continue
        sums = grow_states(grown, node.parent, n_levels)
        for d, own in sums.items():
            tables = shares_given_parent(node.counts[d], node.pairs.get(d), prior_rows)
            shares |= zip(own, tables, strict=True)
        parts[i] = [sums[d][0] for d, above in node.parent.items() if above is None]
    return parts[0]
