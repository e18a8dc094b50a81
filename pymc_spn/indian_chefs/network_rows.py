"""Rows with gaps under one belief network: densities, means and completions given what is observed.

Nodes of a linear network are jointly normal, so everything is exact there. Else the hidden nodes are drawn from their
ancestors, and a row weighs the draws by the density of its observed cells. Where no observed node has a child, one pool
of draws serves all rows. Otherwise each row has draws of its own, in which its observed cells are put in their places.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_spn.indian_chefs.belief_network_schema import LINEAR, NONLINEAR, SIGMOID
from pymc_spn.indian_chefs.network_draws import ancestral_order, draw_nodes, expit

ROWS = 256  # weighed at once
CELLS = 4_000_000  # of arrays over rows, nodes and draws
STRATA = 8  # of a cell's own noise round each draw of the hidden nodes


class OneNetwork(NamedTuple):
    """Parameters of one recorded network; `weights` (n, n) from row to column, the others (n,)."""

    kind: str
    weights: np.ndarray
    biases: np.ndarray
    precisions: np.ndarray


def outputs(kind: str, cells: np.ndarray) -> np.ndarray:
    """What children read of coded cells: activations, values or bits."""
    return expit(cells) if kind == NONLINEAR else cells


class LogMeans(NamedTuple):
    """Logs of the mean density of rows over draws, (N,) each.

    Parameters
    ----------
    every, known : (N,) float64
        Of all observed cells, and of those among them that are known.
    errors : (3, N) float64
        Relative variances of both means, and their covariance.
    """

    every: np.ndarray
    known: np.ndarray
    errors: np.ndarray


class CellMoments(NamedTuple):
    """One cell of each row given the others, (N,) each.

    Parameters
    ----------
    log_mean : (N,) float64
        Of the density of the observed cells.
    mean : (N,) float64
        Of the cell's output.
    squares : (3, N) float64
        Sums over draws of the squared weight times 1, the output and its square: what errors follow from.
    """

    log_mean: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


class _WeighedDraws(NamedTuple):
    """Draws for some rows.

    Parameters
    ----------
    rows : slice
    log_weights : (B, M)
    means : (D, 1 or B, M)
        Of observed nodes given their parents (logits, in a sigmoid network).
    cells : (D, B, M) or None
        Coded cells as drawn or observed, where rows have draws of their own.
    """

    rows: slice
    log_weights: np.ndarray
    means: np.ndarray
    cells: np.ndarray | None


def log_means(
    rng: np.random.Generator, network: OneNetwork, cells: np.ndarray, known: np.ndarray | None, n_draws: int
) -> LogMeans:
    """Log densities of rows under one network, hidden nodes and gaps integrated out.

    Parameters
    ----------
    rng : Generator
    network : OneNetwork
    cells : (N, D) float64
        Coded; NaN where there is a gap.
    known : (N, D) bool or None
        Observed cells whose own density is wanted too.
    n_draws : int
    """
    n = len(cells)
    every, errors = np.zeros(n), np.zeros((3, n))
    some = None if known is None else np.where(known, cells, np.nan)
    if network.kind == LINEAR:
        rest = np.zeros(n) if some is None else _normal_log_density(network, some)
        return LogMeans(_normal_log_density(network, cells), rest, errors)
    log_known = np.zeros(n)
    if some is None or _is_clamped(network, cells.shape[1]):
        for block in _blocks(rng, network, cells, n_draws):
            every[block.rows], _, errors[0, block.rows] = _summary(block.log_weights)
        if some is not None:  # by draws of their own, in which the other cells are not put in their places
            for block in _blocks(rng, network, some, n_draws):
                log_known[block.rows], _, errors[1, block.rows] = _summary(block.log_weights)
        return LogMeans(every, log_known, errors)
    for block in _blocks(rng, network, cells, n_draws):
        rows = block.rows
        log_some = _log_weights(network, some[rows], block.means)
        every[rows], a, errors[0, rows] = _summary(block.log_weights)
        log_known[rows], b, errors[1, rows] = _summary(log_some)
        errors[2, rows] = (((a - 1.0) * (b - 1.0)).mean(1)) / n_draws
    return LogMeans(every, log_known, errors)


def moments(rng: np.random.Generator, network: OneNetwork, cells: np.ndarray, target: int, n_draws: int) -> CellMoments:
    """Mean of the output of one observed node in each row, whose own cells are gaps.

    Parameters
    ----------
    rng, network, cells, n_draws
        As of `log_means`.
    target : int
    """
    n = len(cells)
    log_mean, mean, squares = np.zeros(n), np.zeros(n), np.zeros((3, n))
    if network.kind == LINEAR:
        for rows, seen, joint in _patterns(network, cells):
            log_mean[rows] = joint.log_density(cells[rows][:, seen])
            mean[rows] = joint.given(cells[rows][:, seen])[:, target]
        return CellMoments(log_mean, mean, squares)
    for block in _blocks(rng, network, cells, n_draws):
        top, w, _ = _summary(block.log_weights)
        w = w / w.shape[1]
        value = _output_means(rng, network, block, target)
        log_mean[block.rows], mean[block.rows] = top, (w * value).sum(1)
        squares[:, block.rows] = [(w * w * value**p).sum(1) for p in range(3)]
    return CellMoments(log_mean, mean, squares)


def complete(
    rng: np.random.Generator, network: OneNetwork, cells: np.ndarray, n: int, n_draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of the gaps of rows given their observed cells.

    Parameters
    ----------
    rng, network, cells, n_draws
        As of `log_means`.
    n : int
        Completions of each row.

    Returns
    -------
    log_mean : (N,) float64
        Of the density of the observed cells.
    completed : (n, N, D) float64
        Coded, observed cells as they are.
    squares : (N,) float64
        Sum of squared weights: 1 over the number of draws that count.
    """
    log_mean, squares = np.zeros(len(cells)), np.zeros(len(cells))
    out = np.tile(cells, (n, 1, 1))
    if network.kind == LINEAR:
        for rows, seen, joint in _patterns(network, cells):
            log_mean[rows] = joint.log_density(cells[rows][:, seen])
            for one in out:
                one[rows] = np.where(seen, cells[rows], joint.draw(rng, cells[rows][:, seen]))
        return log_mean, out, squares
    for block in _blocks(rng, network, cells, n_draws):
        log_mean[block.rows], w, _ = _summary(block.log_weights)
        squares[block.rows] = (w * w).sum(1) / w.shape[1] ** 2
        total = np.cumsum(w, 1)
        left = rng.random((n, len(w))) * total[:, -1]
        pick = np.array([np.searchsorted(t, x, side="right") for t, x in zip(total, left.T, strict=True)]).T
        pick = np.minimum(pick, w.shape[1] - 1)
        if block.cells is None:
            drawn = _noisy(rng, network, np.arange(cells.shape[1])[:, None, None], block.means[:, 0, pick])
        else:
            drawn = block.cells[:, np.arange(len(w)), pick]
        seen = cells[block.rows]
        out[:, block.rows] = np.where(np.isnan(seen), np.moveaxis(drawn, 0, -1), seen)
    return log_mean, out, squares


# ---- draws of the hidden nodes


def _is_clamped(network: OneNetwork, n_observed: int) -> bool:
    """Whether observed nodes have children, so that each row needs draws of its own."""
    return bool(network.weights[:n_observed].any())


def _blocks(rng: np.random.Generator, network: OneNetwork, cells: np.ndarray, n_draws: int) -> Iterator[_WeighedDraws]:
    """Draws for some rows at a time, with their weights by the observed cells."""
    n, d = cells.shape
    if _is_clamped(network, d):
        size = max(1, min(ROWS, CELLS // (len(network.biases) * n_draws)))
        for first in range(0, n, size):
            rows = slice(first, min(first + size, n))
            yield _clamped(rng, network, cells[rows], rows, n_draws)
        return
    order = ancestral_order(network.weights)
    nodes = draw_nodes(
        rng, network.kind, order[order >= d], network.weights, network.biases, network.precisions, n_draws
    )
    means = (network.biases[:d, None] + network.weights[:, :d].T @ nodes)[:, None]
    size = max(1, min(ROWS, CELLS // n_draws))
    for first in range(0, n, size):
        rows = slice(first, min(first + size, n))
        yield _WeighedDraws(rows, _log_weights(network, cells[rows], means), means, None)


def _clamped(
    rng: np.random.Generator, network: OneNetwork, cells: np.ndarray, rows: slice, n_draws: int
) -> _WeighedDraws:
    """Draws of all nodes in their order, in which observed cells take the place of a draw and weigh it."""
    n, d = cells.shape
    nodes = np.zeros((len(network.biases), n, n_draws))
    log_weights = np.zeros((n, n_draws))
    means, drawn = np.zeros((d, n, n_draws)), np.zeros((d, n, n_draws))
    for i in ancestral_order(network.weights):
        parents = np.flatnonzero(network.weights[:, i])
        mean = network.biases[i] + np.tensordot(network.weights[parents, i], nodes[parents], 1)
        cell = _noisy(rng, network, i, mean)
        if i < d:
            seen = ~np.isnan(cells[:, i])
            log_weights[seen] += _log_law(network, i, cells[seen, i, None], mean[seen])
            cell[seen] = cells[seen, i, None]
            means[i], drawn[i] = mean, cell
        nodes[i] = outputs(network.kind, cell)
    return _WeighedDraws(rows, log_weights, means, drawn)


def _log_weights(network: OneNetwork, cells: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(B, M) log densities of the observed cells of rows under draws that serve all of them."""
    out = np.zeros((len(cells), means.shape[-1]))
    for i in range(cells.shape[1]):
        seen = ~np.isnan(cells[:, i])
        if seen.all():
            out += _log_law(network, i, cells[:, i, None], means[i])
        elif seen.any():
            out[seen] += _log_law(network, i, cells[seen, i, None], means[i])
    return out


def _log_law(network: OneNetwork, i: int, cell: np.ndarray, mean: np.ndarray) -> np.ndarray:
    if network.kind == SIGMOID:
        return -np.logaddexp(0.0, np.where(cell == 1.0, -mean, mean))
    rho = network.precisions[i]
    return 0.5 * (np.log(rho / (2.0 * np.pi)) - rho * (cell - mean) ** 2)


def _noisy(rng: np.random.Generator, network: OneNetwork, i: int | np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Coded cells of node(s) i drawn given their means."""
    if network.kind == SIGMOID:
        return (rng.random(mean.shape) < expit(mean)).astype(np.float64)
    return mean + rng.standard_normal(mean.shape) * network.precisions[i] ** -0.5


def _output_means(rng: np.random.Generator, network: OneNetwork, block: _WeighedDraws, target: int) -> np.ndarray:
    """(1 or B, M) unbiased estimates of the output's mean given each draw; exact for bits."""
    if block.cells is not None:  # what the draw has in the gap, whose children may have weighed it
        return outputs(network.kind, block.cells[target])
    mean = block.means[target]
    if network.kind == SIGMOID:
        return expit(mean)
    out = np.zeros_like(mean)
    for stratum in range(STRATA):
        z = ndtri((stratum + rng.random(mean.shape)) / STRATA)
        out += expit(mean + z * network.precisions[target] ** -0.5)
    return out / STRATA


def _summary(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log of the mean of exp along the last axis, weights whose mean is 1, and the relative variance of the mean."""
    top = log_weights.max(-1, keepdims=True)
    w = np.exp(log_weights - top)
    mean = w.mean(-1, keepdims=True)
    w /= mean
    return (top + np.log(mean))[..., 0], w, w.var(-1) / w.shape[-1]


# ---- linear networks


class _JointNormal(NamedTuple):
    """Joint normal of the observed nodes, and which of them (D,) are observed in a group of rows."""

    mean: np.ndarray
    cov: np.ndarray
    seen: np.ndarray
    lower: np.ndarray

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Of observed cells (B, number seen)."""
        away = values - self.mean[self.seen]
        far = np.maximum(np.abs(away).max(1, initial=0.0), 1.0)
        white = np.linalg.solve(self.lower, (away / far[:, None]).T)
        with np.errstate(over="ignore"):  # -inf is what such a density is to a float
            squares = (white**2).sum(0) * far * far
        return -0.5 * squares - np.log(np.diag(self.lower)).sum() - 0.5 * values.shape[1] * np.log(2.0 * np.pi)

    def given(self, values: np.ndarray) -> np.ndarray:
        """(B, D) means of all nodes given the observed ones."""
        away = np.linalg.solve(self.lower, (values - self.mean[self.seen]).T)
        return self.mean + (np.linalg.solve(self.lower, self.cov[self.seen]).T @ away).T

    def draw(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """(B, D) all nodes given the observed ones."""
        half = np.linalg.solve(self.lower, self.cov[self.seen])
        rest = self.cov - half.T @ half
        root = np.zeros_like(rest)
        gaps = np.flatnonzero(~self.seen)
        if gaps.size:
            root[np.ix_(gaps, gaps)] = _cholesky(rest[np.ix_(gaps, gaps)])
        return self.given(values) + rng.standard_normal((len(values), len(self.mean))) @ root.T


def _patterns(network: OneNetwork, cells: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, _JointNormal]]:
    """Rows, observed columns and the joint normal, for each pattern of gaps."""
    n, d = len(network.biases), cells.shape[1]
    inverse = np.linalg.inv(np.eye(n) - network.weights.T)
    mean, factor = (inverse @ network.biases)[:d], (inverse * network.precisions**-0.5)[:d]
    cov = factor @ factor.T
    patterns, which = np.unique(~np.isnan(cells), axis=0, return_inverse=True)
    for p, seen in enumerate(patterns):
        lower = _cholesky(cov[np.ix_(seen, seen)]) if seen.any() else np.zeros((0, 0))
        yield np.flatnonzero(which.ravel() == p), seen, _JointNormal(mean, cov, seen, lower)


def _cholesky(cov: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        raise ValueError(
            "a recorded network's covariance is singular in floating point: its columns lie far from 0 for their "
            "spread, or on scales far from one; standardise them before sampling"
        ) from None


def _normal_log_density(network: OneNetwork, cells: np.ndarray) -> np.ndarray:
    out = np.zeros(len(cells))
    for rows, seen, joint in _patterns(network, cells):
        out[rows] = joint.log_density(cells[rows][:, seen])
    return out
