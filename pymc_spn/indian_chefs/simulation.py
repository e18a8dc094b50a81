"""Independent forward draws of the Indian chefs process as labelled arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import new_state
from pymc_spn.indian_chefs.packed_graphs import canonical_slots
from pymc_spn.indian_chefs.prior_density import make_prior
from pymc_spn.indian_chefs.process import (
    check_base,
    check_nodes,
    check_positive,
    check_reputations,
    node_labels,
)
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.tables.inputs import Seed

MOST_NODES = 1 << 14


def sample_indian_chefs(
    alpha: float,
    gamma: float,
    phi: float,
    n_observed: int | Sequence[str],
    reputations: Mapping[str, float] | npt.ArrayLike = 0.0,
    draws: int = 1000,
    random_seed: Seed | None = None,
    base: float | Mapping[str, float] | None = None,
) -> xr.Dataset:
    """Draw exact, independent graphs of the process, without truncation.

    Parameters
    ----------
    alpha, gamma, phi : float
        Positive: concentration, mass, and popularity of observed nodes.
    n_observed : int or sequence of str
        Number or names of the observed nodes.
    reputations : float, None, sequence or mapping by node
        Of the observed nodes; None is free.
    draws : int
    random_seed : int, Generator or None
        None draws other graphs in every call.
    base : None, float or mapping
        Base measure of the free reputations, see `IndianChefsProcess`.

    Returns
    -------
    Dataset
        ``n_active`` (draw), ``parents`` (draw, parent, child) bool and ``reputations`` (draw, node), NaN where there is
        no node; padded to the largest graph. Observed nodes come first, hidden ones by ascending reputation.

    Raises
    ------
    TypeError, ValueError
        Arguments out of range, or a draw with more than 16,384 nodes.

    Examples
    --------
    >>> drawn = ps.indian_chefs.sample_indian_chefs(1.0, 1.0, 1.0, n_observed=["a", "b"], draws=5, random_seed=1)
    """
    names = check_nodes(n_observed, argument="n_observed")
    measure = check_base(base)
    theta = check_reputations(reputations, names, measure)
    alpha, gamma, phi = (check_positive(n, v) for n, v in (("alpha", alpha), ("gamma", gamma), ("phi", phi)))
    prior = make_prior(alpha, gamma, phi, measure)
    checked_count("draws", draws, 1, 10.0 * len(names) ** 2)
    return labelled_graphs(names, draw_graphs(np.random.default_rng(random_seed), prior, theta, draws))


def labelled_graphs(names: Sequence[str], graphs: list[tuple[np.ndarray, np.ndarray]]) -> xr.Dataset:
    """Graphs of parents (n, n) and reputations (n,) as a dataset, padded to the largest."""
    draws, room = len(graphs), max(len(t) for _, t in graphs)
    parents = np.zeros((draws, room, room), bool)
    values = np.full((draws, room), np.nan)
    for s, (edges, t) in enumerate(graphs):
        parents[s, : len(t), : len(t)] = edges
        values[s, : len(t)] = t
    labels = node_labels(names, room)
    return xr.Dataset(
        {
            "n_active": ("draw", np.array([len(t) for _, t in graphs])),
            "parents": (("draw", "parent", "child"), parents),
            "reputations": (("draw", "node"), values),
        },
        coords={"draw": np.arange(draws), "parent": labels, "child": labels, "node": labels},
    )


def draw_graphs(rng: Any, prior: Any, theta: np.ndarray, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parents (n, n) bool and reputations (n,) of each draw, hidden nodes in ascending order."""
    room = 32
    fixed = ~np.isnan(theta)
    state = None
    out: list[tuple[np.ndarray, np.ndarray]] = []
    while len(out) < draws:
        if state is None:
            state = new_state(np.where(fixed, theta, 0.0), fixed, max(room, len(theta)))
            children = np.zeros(state.order.size, np.uint8)
        before = rng.bit_generator.state
        if not draw_graph(rng, state, prior, children):
            # the same draw again with more room: a fresh one would make large graphs too rare
            rng.bit_generator.state = before
            room *= 2
            state = None
            if room > MOST_NODES:
                raise ValueError(
                    f"alpha = {prior.alpha:g} and gamma = {prior.gamma:g} gave more than {MOST_NODES:,} nodes"
                )
            continue
        place = canonical_slots(state)
        out.append((state.parents[np.ix_(place, place)].astype(bool), state.reputations[place]))
    return out
