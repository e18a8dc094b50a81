"""Where the search over boxes begins: modes and jumps of the leaves, and boxes that hold a maximum."""

from typing import Any

import numpy as np

from pymc_spn.leaves.family_codes import (
    BETA,
    BETA_BINOMIAL,
    BETA_GEOMETRIC,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    NEGATIVE_BINOMIAL,
    POISSON,
    ROUNDED_COUNT,
    ROUNDED_GAUSSIAN,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.maxima.box_leaves import Tape, beta_binomial_mode, log_student_turn


def modes_of(tape: Tape) -> np.ndarray:
    """Mode (n,) of every leaf, NaN off the leaves and for levels."""
    p, kind = tape.parameter, tape.kind
    out = np.full(kind.size, np.nan)
    for centred in (GAUSSIAN, STUDENT_T, LAPLACE):
        out[kind == centred] = p[kind == centred, 0]
    for whole, lowest in ((ROUNDED_GAUSSIAN, -np.inf), (ROUNDED_COUNT, 0.0)):
        out[kind == whole] = np.maximum(np.round(p[kind == whole, 0]), lowest)
    for falling in (EXPONENTIAL, LOMAX, BETA_GEOMETRIC):
        out[kind == falling] = 0.0
    for at_fourth in (NEGATIVE_BINOMIAL, GAMMA, WEIBULL, BETA, BINOMIAL):
        out[kind == at_fourth] = p[kind == at_fourth, 3]
    out[kind == POISSON] = p[kind == POISSON, 2]
    out[kind == TRIANGULAR] = p[kind == TRIANGULAR, 1]
    urn = kind == HYPERGEOMETRIC
    out[urn] = np.floor((p[urn, 0] + 1.0) * (p[urn, 1] + 1.0) / (p[urn, :3].sum(axis=1) + 2.0))
    flat, skew = kind == UNIFORM, kind == LOG_NORMAL
    out[flat] = 0.5 * (p[flat, 0] + p[flat, 1])
    out[skew] = np.exp(p[skew, 0] - p[skew, 1] ** 2)
    for i in np.flatnonzero(kind == LOG_STUDENT_T):
        out[i] = np.exp(p[i, 0] + p[i, 1] * log_student_turn(p[i, 1], p[i, 2], 1.0))
    for i in np.flatnonzero(kind == BETA_BINOMIAL):
        out[i] = beta_binomial_mode(*p[i, :3])
    return out


def jumps_of(tape: Tape, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Where leaves of a column jump up and where down: ends that belong to uniform and one-sided triangular ones."""
    ends = tape.parameter[(tape.kind == UNIFORM) & (tape.column == d)]
    tents = tape.parameter[(tape.kind == TRIANGULAR) & (tape.column == d)]
    rises, falls = tents[tents[:, 0] == tents[:, 1], 0], tents[tents[:, 1] == tents[:, 2], 2]
    return np.unique(np.append(ends[:, 0], rises)), np.unique(np.append(ends[:, 1], falls))


def kinks_of(tape: Tape, d: int) -> np.ndarray:
    """Where leaves of a column have kinks at which their slope falls: only there may the sum have a largest value."""
    here = tape.column == d
    centres = tape.parameter[here & (tape.kind == LAPLACE), 0]
    return np.append(centres, tape.parameter[here & (tape.kind == TRIANGULAR), 1])


def first_boxes(tape: Tape, allowed: dict[int, list[tuple[float, float]]], is_discrete: np.ndarray) -> list[Any]:
    """Boxes that hold a maximum: hulls of the leaves' modes within what is allowed, cut at support edges."""
    n_columns = is_discrete.size
    modes, p = modes_of(tape), tape.parameter
    boxes: list[Any] = [(np.zeros(n_columns), np.zeros(n_columns))]
    for d in range(n_columns):
        here = tape.column == d
        if not here.any():
            continue
        kinds = tape.kind[here]
        levels = here & (tape.kind == CATEGORICAL)
        highest = float(p[levels, 1].max() - 1.0) if levels.any() else 0.0
        if levels.sum() == here.sum():
            cells = allowed.get(d, [(0.0, highest)])
        else:
            others = modes[here & ~levels]
            low, high = float(others.min()), float(others.max())
            if levels.any():  # beside counts: any of them may be the largest
                low, high = min(low, 0.0), max(high, highest)
            if np.isin(kinds, (LOG_STUDENT_T, ROUNDED_COUNT)).any():
                low = min(low, 0.0)  # these may be large at 0, so the least value that is allowed counts, too
            two = p[here & (tape.kind == BETA_BINOMIAL) & (p[:, 0] < 1.0) & (p[:, 1] < 1.0)]
            if len(two):  # these are largest at both ends
                low, high = min(low, 0.0), max(high, float(two[:, 2].max()))
            if is_discrete[d]:
                low, high = np.floor(low), np.ceil(high)
            cells = []
            for start, stop in allowed.get(d, [(-np.inf, np.inf)]):
                a, b = max(min(low, stop), start), min(max(high, start), stop)
                one_sided = np.isin(kinds, (EXPONENTIAL, LOMAX, LOG_NORMAL, GAMMA, WEIBULL)).any()
                cells += [(a, 0.0), (0.0, b)] if one_sided and a < 0.0 <= b else [(a, b)]
        boxes = [(with_column(low, d, cell[0]), with_column(high, d, cell[1])) for low, high in boxes for cell in cells]
    return boxes


def with_column(values: np.ndarray, d: int, value: float) -> np.ndarray:
    """A copy with another value in one column."""
    out = values.copy()
    out[d] = value
    return out
