"""Entropy, divergence and mutual information of a law by grids: numbers with their tolerance, and bounds."""

import numpy as np

from pymc_spn.answers.asked_law import relative
from pymc_spn.answers.integrals import Grids, beyond, joint_masses, nested_grids, refined, tree_informations
from pymc_spn.events.events import Event
from pymc_spn.events.unions import groups_that_meet
from pymc_spn.laws.draw_laws import Grid, divergence, information
from pymc_spn.laws.information_bounds import NO_MASS
from pymc_spn.laws.law import Law

PANELS = 24


def entropy_of_column(law: Law, d: int) -> tuple[float, np.ndarray, float]:
    """Entropy of one column, what each circuit (S,) adds to it, and its tolerance."""
    influence, grid = np.zeros(0), None
    column, weight = law.column(d), relative(law)

    def ask(grids: Grids) -> float:
        nonlocal influence, grid
        grid = grids[d]
        each = column.density(grid.x)
        p = weight @ each / weight.sum()
        surprise = -np.log(np.where(p > 0.0, p, 1.0)) * grid.weight
        value = float(p @ surprise)
        influence = weight * (each @ surprise - value)
        return value

    value, change = refined(law, [d], ask)
    assert grid is not None
    return value, influence, change + beyond(law, d, grid)


def divergence_of_column(law: Law, other: Law, d: int, e: int) -> tuple[float, tuple[np.ndarray, np.ndarray], float]:
    """Divergence of one column, what circuits (S,) of both laws add to it, and its tolerance."""
    influences = np.zeros(0), np.zeros(0)
    last: Grid | None = None
    columns, weights = (law.column(d), other.column(e)), (relative(law), relative(other))

    def ask(grids: Grids) -> float:
        nonlocal influences, last
        grid = last = grids[d]
        each, theirs = (column.density(grid.x) for column in columns)
        p, q = weights[0] @ each / weights[0].sum(), weights[1] @ theirs / weights[1].sum()
        inside = (p > 0.0) & ((q > 0.0) | (grid.weight * p > NO_MASS))
        if np.any(q[inside] <= 0.0):
            influences = np.full(weights[0].size, np.inf), np.zeros(weights[1].size)
            return np.inf
        # mass of the other beyond the grid is not scaled away: it is part of the divergence
        ratio, slope = np.zeros(p.size), np.zeros(p.size)
        ratio[inside] = np.log(p[inside] / q[inside]) * grid.weight[inside]
        slope[inside] = p[inside] / q[inside] * grid.weight[inside]
        value = max(float(p @ ratio), 0.0)
        influences = weights[0] * (each @ ratio - value), weights[1] * (1.0 - theirs @ slope)
        return value

    beside: list[Event | None] = []
    if len(law.parts) + len(other.parts) > 2:
        beside = [part.known(e) for part in other.parts if part.known(e) is not None]
    value, change = refined(law, [d], ask, beside)
    assert last is not None
    tolerance = 0.0 if np.isinf(value) else change + beyond(law, d, last, is_ratio=True)
    return value, influences, tolerance


def information_of_pair(law: Law, a: int, b: int) -> tuple[float, np.ndarray, float]:
    """Mutual information of two columns, what each circuit (S,) adds to it, and its tolerance."""
    last: Grids = {}

    def ask(grids: Grids) -> float:
        last.update(grids)
        return information(next(joint_masses(law, [(a, b)], grids)))

    value, tolerance = refined(law, [a, b], ask)
    mass = next(joint_masses(law, [(a, b)], last))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(mass / (mass.sum(axis=1, keepdims=True) * mass.sum(axis=0)))
    ratio = np.where(mass > 0.0, ratio, 0.0)
    weight = relative(law)
    own = np.zeros(weight.size)  # first order: each circuit's mean of the mixture's log ratio
    for s in np.flatnonzero(weight > 0.0).tolist():
        circuit = law.on_grids(s)
        own[s] = np.sum(ratio * circuit.pair(a, b, circuit.masses(a, last[a]), circuit.masses(b, last[b])))
    return value, weight * (own - value), tolerance


def entropy_bounds_of(law: Law) -> tuple[np.ndarray, float]:
    """Lower and upper bound of the entropy of all columns, and how far they are measured to be off."""
    columns = range(len(law.columns))
    weight = np.exp(np.array([part.log_weights for part in law.parts]) - law.log_weights.max())
    weight = weight / weight.sum()  # of parts and circuits
    panels = [(n, max(n // PANELS, 1)) for n in (PANELS // 2, PANELS, 2 * PANELS)]
    few, grids, fine = nested_grids(law, columns, panels)
    nested = np.zeros((2, 2))  # grids and fine ones; lower and upper
    for j, s in np.argwhere(weight > 0.0).tolist():
        circuit = law.parts[j].on_grids(s)
        nested += weight[j, s] * np.array([circuit.entropy_bounds(g) for g in (grids, fine)])
    used = weight[weight > 0.0]
    nested[:, 1] -= float(used @ np.log(used))  # which part and circuit it is
    if len(law.parts) > 1:  # the columns tell parts apart that do not meet in them
        events = [{d: part.known(d) for d in columns} for part in law.parts]
        group = groups_that_meet([{d: e for d, e in one.items() if e is not None} for one in events])
        apart = np.bincount(group, weight.sum(axis=1))
        nested[:, 0] -= float(apart @ np.log(np.where(apart > 0.0, apart, 1.0)))
    tolerance = float(np.abs(nested[1] - nested[0]).max()) + sum(beyond(law, d, fine[d]) for d in columns)
    parts = [entropy_of_column(law, d) for d in columns]
    singles, off = sum(p[0] for p in parts), sum(p[2] for p in parts)
    # joint densities of pairs are dear: their panels are halved instead
    shared, rough = tree_informations(law, columns, grids, few)
    return np.array([nested[1, 0], min(nested[1, 1], singles - shared)]), float(
        max(tolerance, off + abs(shared - rough))
    )


def divergence_bound_of(law: Law, other: Law) -> float:
    """By convexity: the divergence of the circuits' weights, and the mean divergence within circuits."""
    if not law.is_same(other) or len(law.parts) + len(other.parts) > 2:
        return float("inf")
    p, q = relative(law), relative(other)
    if np.any((p > 0.0) & (q <= 0.0)):
        return float("inf")
    columns = range(len(law.columns))
    within = sum(
        p[s] / p.sum() * law.on_grids(s).divergence_bound(other.on_grids(s), columns)
        for s in np.flatnonzero(p > 0.0).tolist()
    )
    return float(within + divergence(p, q))
