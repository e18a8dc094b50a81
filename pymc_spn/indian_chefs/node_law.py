"""Exact laws of the Indian chefs process: number of nodes, expected nodes and edges, from its pure birth process.

With N nodes at or below t, a hidden node appears at rate lambda_N = alpha gamma (digamma(alpha + N) - digamma(alpha)).
So the number of nodes is a birth process whose transition probabilities are exponentials of a bidiagonal matrix.
Observed nodes at fixed reputations shift N. Free ones follow the base measure. Integrating over their places is one
more exponential, of a matrix with a block for each number of free nodes passed. At an atom of mass m of the base
measure Poisson(m lambda_N) hidden nodes appear together, N being the nodes strictly below.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from pymc_spn.indian_chefs.process import check_base, check_nodes, check_positive, check_reputations

MOST_NODES = 4096
LARGEST_GAMMA = 1e100  # products of rates stay numbers


def node_count_pmf(
    alpha: float,
    gamma: float,
    n_observed: int,
    max_nodes: int,
    reputations: Mapping[str, float] | npt.ArrayLike = 0.0,
    base: float | Mapping[str, float] | None = None,
) -> xr.DataArray:
    """Calculate the exact distribution of the number of nodes.

    Parameters
    ----------
    alpha, gamma : float
        Positive. phi has no influence.
    n_observed : int
    max_nodes : int
    reputations : float, None or sequence
        Of the observed nodes; None is free.
    base : None, float or mapping
        Base measure of the free reputations, as in `IndianChefsProcess`.

    Returns
    -------
    (n_nodes,) DataArray
        P(K+ = n) for n = 0..max_nodes; it sums to less than 1, and ``attrs["beyond"]`` is what is missing.

    Raises
    ------
    TypeError, ValueError
        Arguments out of range.

    Examples
    --------
    >>> ps.indian_chefs.node_count_pmf(1.0, 1.0, n_observed=2, max_nodes=4).round(3).values
    array([0.   , 0.   , 0.223, 0.285, 0.228])
    """
    names = check_nodes(n_observed, max_nodes, "n_observed")
    measure = check_base(base)
    theta = check_reputations(reputations, names, measure)
    rates = _rates(check_positive("alpha", alpha), check_positive("gamma", gamma), max_nodes)
    law = _evolve(theta, rates, max_nodes, measure)[0]
    return xr.DataArray(
        law,
        {"n_nodes": np.arange(max_nodes + 1)},
        ("n_nodes",),
        name="node_count_pmf",
        attrs={"exactness": "exact", "beyond": max(0.0, 1.0 - float(law.sum()))},
    )


def expected_graph(
    alpha: float,
    gamma: float,
    phi: float,
    n_observed: int,
    reputations: Mapping[str, float] | npt.ArrayLike = 0.0,
    base: float | Mapping[str, float] | None = None,
) -> xr.Dataset:
    """Calculate the exact expected numbers of nodes and edges.

    Parameters
    ----------
    alpha, gamma, phi : float
        Positive.
    n_observed : int
    reputations : float or sequence
        Of the observed nodes, all fixed for the expected edges.
    base : None, float or mapping
        Base measure of the free reputations, as in `IndianChefsProcess`.

    Returns
    -------
    Dataset
        0-d ``nodes``, ``hidden_edges`` (out of hidden nodes) and ``observed_edges`` (out of observed nodes); NaN where
        reputations are free. Hidden edges are gamma times the integral of the expected nodes below t over the base
        measure. ``attrs["tolerance"]`` bounds the probability that was left out.

    Raises
    ------
    ValueError
        Arguments out of range, or a distribution with more than 1e-10 of its mass beyond 4096 nodes.

    Examples
    --------
    >>> ps.indian_chefs.expected_graph(1.0, 1.0, 1.0, n_observed=2)["nodes"].round(3).item()
    3.739
    """
    names = check_nodes(n_observed, argument="n_observed")
    measure = check_base(base)
    theta = check_reputations(reputations, names, measure)
    alpha, gamma, phi = (check_positive(n, v) for n, v in (("alpha", alpha), ("gamma", gamma), ("phi", phi)))
    room = 64 + 2 * len(names)
    while True:
        law, integral, joined = _evolve(theta, _rates(alpha, gamma, room), room, measure)
        if 1.0 - law.sum() < 1e-10:
            break
        room *= 2
        if room > MOST_NODES:
            raise ValueError(
                f"alpha and gamma give more than {MOST_NODES} nodes with a probability of {1.0 - law.sum():.2g}; "
                "the expectations are not computed"
            )
    free = np.isnan(theta).any()
    values = {
        "nodes": float(np.arange(room + 1) @ law),
        "hidden_edges": np.nan if free else gamma * integral,
        "observed_edges": np.nan if free else phi / (alpha + phi) * joined,
    }
    return xr.Dataset(values, attrs={"exactness": "numerical", "tolerance": 1e-10})


def _rates(alpha: float, gamma: float, room: int) -> np.ndarray:
    if gamma > LARGEST_GAMMA:
        raise ValueError(f"gamma must be at most {LARGEST_GAMMA:g} for the law of the number of nodes; got {gamma:g}")
    return gamma * np.concatenate([[0.0], np.cumsum(alpha / (alpha + np.arange(room)))])


def _evolve(
    theta: np.ndarray, rates: np.ndarray, room: int, measure: tuple[Any, ...]
) -> tuple[np.ndarray, float, float]:
    """Distribution (room + 1,) of the number of nodes, and two means of the number of nodes below, for fixed nodes
    alone. The first is integrated over the base measure, the second is summed over observed nodes."""
    uniform, levels, masses = measure
    n_free = int(np.isnan(theta).sum())
    size = room + 1
    counts = np.tile(np.arange(size, dtype=float), n_free + 1)
    p = np.zeros(len(counts) + 1)  # a block for each number of free nodes passed, then the integral
    p[0] = 1.0
    joined = 0.0
    at = 0.0
    fixed = theta[~np.isnan(theta)]
    atoms = dict(zip(levels, masses, strict=True))
    for place in sorted({*fixed.tolist(), *atoms, 1.0}):
        if place > at and uniform > 0.0:
            p = _grow(p, rates, n_free, uniform * (place - at))
        at = place
        below = float(p[:-1] @ counts)
        blocks = p[:-1].reshape(n_free + 1, size)
        if place in atoms:
            p[-1] += atoms[place] * below
            blocks = _at_atom(blocks, rates, atoms[place])
        multiple = int((fixed == place).sum())
        joined += multiple * below
        shifted = np.zeros_like(blocks)
        shifted[:, multiple:] = blocks[:, : size - multiple]
        p[:-1] = shifted.ravel()
    last = p[:-1].reshape(n_free + 1, size)[-1]
    # the places of free nodes in order have the density n!
    return np.maximum(last * math.factorial(n_free), 0.0), float(p[-1]), joined


def _grow(p: np.ndarray, rates: np.ndarray, n_free: int, mass: float) -> np.ndarray:
    """State of `_evolve` behind a stretch without nodes of fixed reputation, of this mass of the base measure.

    The exponential of the generator, by uniformisation: a Poisson mixture of powers of a matrix without negative
    entries, of which only the state is multiplied, so that nothing cancels. Where high rates ask for more products than
    a dense exponential costs, that is taken.
    """
    size = len(rates)
    pace = max(float(rates[-1]), 1.0)
    if pace * mass > 1000.0 + len(p) ** 2 / 50.0:
        from scipy.linalg import expm

        return p @ expm(mass * _generator(rates, n_free))
    stays, rises = 1.0 - rates / pace, rates[:-1] / pace
    counts = np.arange(size) / pace
    parts = max(1, math.ceil(pace * mass / 256.0))  # exp(-mean) of each stays far from the smallest number
    mean = pace * mass / parts
    enough = size + n_free + 1  # products until every entry has been reached
    for _ in range(parts):
        term = math.exp(-mean) * p
        total = term.copy()
        k = 0
        while True:
            k += 1
            old = term[:-1].reshape(n_free + 1, size)
            new = old * stays
            new[:, 1:] += old[:, :-1] * rises
            new[1:, 1:] += old[:-1, :-1] / pace
            term = mean / k * np.append(new, term[-1] + float((old @ counts).sum()))
            total += term
            # the terms of an entry rise and then fall, ever faster: the rest is of the size of a small one
            if k >= enough and k % 8 == 0 and (term <= 1e-18 * total).all():
                break
        p = total
    return p


def _generator(rates: np.ndarray, n_free: int) -> np.ndarray:
    """Generator of the births and of free nodes, with the mean number of nodes as its last column."""
    size = len(rates)
    births = np.diag(-rates) + np.diag(rates[:-1], 1)
    inner = np.kron(np.eye(n_free + 1), births) + np.kron(np.eye(n_free + 1, k=1), np.eye(size, k=1))
    out = np.zeros((len(inner) + 1, len(inner) + 1))
    out[:-1, :-1], out[:-1, -1] = inner, np.tile(np.arange(size, dtype=float), n_free + 1)
    return out


def _at_atom(blocks: np.ndarray, rates: np.ndarray, mass: float) -> np.ndarray:
    """Law after an atom: Poisson many hidden nodes given those below, and any number k of free nodes, mass^k / k!."""
    from scipy.special import gammaln, xlogy

    size = len(rates)
    born = np.arange(size) - np.arange(size)[:, None]
    mean = mass * rates[:, None]
    poisson = np.where(born >= 0, np.exp(xlogy(born, mean) - mean - gammaln(np.maximum(born, 0) + 1.0)), 0.0)
    grown = blocks @ poisson
    out = np.zeros_like(grown)
    for k in range(len(blocks)):
        out[k:, k:] += mass**k / math.factorial(k) * grown[: len(blocks) - k, : size - k]
    return out
