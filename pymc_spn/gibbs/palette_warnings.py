"""Columns that their leaves do not suit: what the data show before anything is sampled, as warnings."""

import math
import warnings

import numpy as np

from pymc_spn.leaves.leaf_statistics import variance_of
from pymc_spn.numerics.trust_warnings import OWN_FILES

MIN_TIES, MAX_TIE_EXCESS = 50, 30.0  # pairs of equal values; how many times what the grid explains
# Recording grid in standard deviations of the column. Rounded normal values, 300 and 3,000 of them, keep the density of
# the unrounded ones up to 0.4; from 0.55 on leaves shrink onto single values, and a row earns one to three nats.
MAX_GRID_WIDTH = 0.4


def ties_and_grid(observed, grid):
    """How many times more frequent equal values are than the grid explains, and the grid in standard deviations.

    Both are 0 where ties are few. On a grid d, a smooth density with standard deviation s makes about d / (2 sqrt(pi)
    s) of all pairs of rows equal.
    """
    counts = np.unique(observed, return_counts=True)[1].astype(np.float64)
    tied = (counts * (counts - 1.0)).sum() / 2.0
    spread = math.sqrt(variance_of(observed)) if observed.size else 0.0
    if tied <= MIN_TIES or spread == 0.0:
        return 0.0, 0.0
    width = grid / spread
    explained = width / (2.0 * math.sqrt(math.pi)) * observed.size * (observed.size - 1.0) / 2.0
    return (tied / explained if explained > 0.0 else math.inf), width


def holds_one_value(observed):
    """Whether a column has the same number in all of its rows, if these are more than a few."""
    return observed.size * (observed.size - 1) / 2 > MIN_TIES and observed.min() == observed.max()


def warn_of_single_values(single):
    """Warn of columns (dict of the value by name) that hold one."""
    if single:
        listed = ", ".join(f"{name!r} ({value:g})" for name, value in single.items())
        _warn(
            f"columns that hold a single value: {listed}. Such a column says nothing about the others, and its density "
            "under Gaussian leaves means nothing. Drop it"
        )


def warn_of_coarse_grids(width):
    """Warn of columns recorded in steps of so many standard deviations (dict by name) where these are large."""
    coarse = {name: w for name, w in width.items() if w > MAX_GRID_WIDTH}
    if coarse:
        listed = ", ".join(f"{name!r} (steps of {w:.2g} standard deviations)" for name, w in coarse.items())
        example = f"kinds={{{next(iter(coarse))!r}: 'ordinal'}}"
        _warn(
            f"values are rounded to coarse steps in {listed}: Gaussian leaves will shrink onto single values, and the "
            f"density of the column then means nothing. Declare whole numbers ordinal or integer with {example}, "
            "make other numbers categories, or treat the values as rounded with rounded=True"
        )


def shifted_step(observed):
    """Step of the grid on which all values stand, wherever it begins; 0 where there is none.

    A column that was rounded and then standardised has such a grid, which `resolution` does not look for.
    """
    values = np.unique(observed)
    gaps = np.diff(values)
    if gaps.size == 0:
        return 0.0
    least, noise = 1e-6 * (values[-1] - values[0]), 1e-9 * np.abs(values).max()
    step = 0.0
    for gap in np.unique(gaps).tolist():
        while gap > noise:  # Euclid's algorithm; what is left of rounding counts as nothing
            step, gap = gap, step % gap
            gap = 0.0 if step - gap <= noise else gap
        if step <= max(least, noise):
            return 0.0
    return step


def warn_of_ties(excess, steps):
    """Warn of columns in which equal values are so many times (dict by name) too frequent where these are many.

    Where there is no grid that could explain any (inf), the step of a shifted grid is named if there is one.
    """
    spiky = {name: ratio for name, ratio in excess.items() if ratio > MAX_TIE_EXCESS}
    if not spiky:
        return
    words = []
    for name, ratio in spiky.items():
        if math.isfinite(ratio):
            words.append(f"{name!r} ({f'{ratio:.0f}' if ratio < 1_000 else 'more than 1,000'} times)")
        elif steps.get(name, 0.0) > 0.0:
            words.append(f"{name!r} (its values are {steps[name]:.4g} apart, as of a standardised column)")
        else:
            words.append(f"{name!r} (its values repeat and have no common step)")
    first = next((name for name in spiky if steps.get(name, 0.0) > 0.0), None)
    raised = "raise its resolution" if first is None else f"say resolution={{{first!r}: {steps[first]:.4g}}}"
    _warn(
        f"equal values are far more frequent than rounding explains in {', '.join(words)}: Gaussian leaves "
        f"will put spikes of density on them. Declare such a column integer or categorical, {raised}, or treat its "
        "values as rounded with rounded=True"
    )


def _warn(message):
    """Warn at the place where a user made the network."""
    warnings.warn(message, UserWarning, skip_file_prefixes=OWN_FILES)
