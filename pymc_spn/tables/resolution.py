"""The grid on which a numeric column was recorded."""

import numpy as np

COVERAGE = 0.98
ARITHMETIC_NOISE = 2.0**-46  # relative
MOST_CLUMPING = 3.0  # of smooth columns, which have 1.0 to 2.7; those of values that come again and again have 3 to 8
FEWEST_PAIRS = 60  # that must be close
PAIRED = 96  # values whose pairwise divisors are tried
LEAST_EXPONENT = -308  # decimal exponent below which numbers are subnormal: few digits, and powers of ten that overflow


def resolution(values):
    """Width of the grid; at least 98 % of the values are multiples of it.

    The decimals that 98 % of the values need are found first, then the greatest common divisor at those decimals. Zeros
    lie on every grid and have no say. Noise of float64 and float32 storage is tolerated. A constant column has the unit
    of its last decimal.

    Parameters
    ----------
    values : array_like of float
        Finite numbers; NaN is ignored.

    Returns
    -------
    float
        In the units of the values; 0.0 where there is no grid (continuous values, none, or all below 1e-308).

    Raises
    ------
    ValueError
        If a value is infinite.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    values = values[~np.isnan(values)]
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"values must be finite or NaN, got {values[row]}")
    constant = values.size > 0 and (values == values[0]).all()
    sizes, counts = np.unique(np.abs(values[values != 0]), return_counts=True)
    if sizes.size == 0:
        return 1.0 if constant else 0.0
    decimals, multiples, on_grid = _decimals(sizes, counts)
    if decimals is None:
        return 0.0
    multiples, weights = multiples[on_grid], counts[on_grid]
    unit = 1 if constant else _common_divisor(multiples, weights, COVERAGE * counts.sum())
    return float(unit / 10.0**decimals if decimals >= 0 else unit * 10.0**-decimals)


def _decimals(sizes, counts):
    """Fewest decimals that hold 98 % of the values, those as integers, and which they are."""
    cumulative = np.cumsum(counts)
    scale = sizes[np.searchsorted(cumulative, COVERAGE * cumulative[-1])]
    magnitude = int(np.floor(np.log10(scale)))
    if magnitude < LEAST_EXPONENT:
        return None, None, None
    highest = min(12 - magnitude, 300)  # twelve digits: beyond, float64 noise looks like a grid
    lowest = min(0, highest) if scale >= 2.0**53 else max(0, -magnitude)
    for decimals in range(lowest, max(lowest, highest) + 1):
        scaled = sizes * 10.0**decimals if decimals >= 0 else sizes / 10.0**-decimals
        rounded = np.rint(scaled)
        # storage noise is relative; one per cent of a cell is more than noise
        tolerance = np.clip(2.0**-23 * scaled, 1e-9, 0.01)
        on_grid = (np.abs(scaled - rounded) <= tolerance) & (rounded < 2.0**53)
        if counts[on_grid].sum() >= COVERAGE * counts.sum() and not _is_coarse(sizes[on_grid], rounded[on_grid]):
            integers = np.where(on_grid, rounded, 0).astype(np.int64)
            return decimals, integers, on_grid & (integers > 0)
    return None, None, None


def _is_coarse(sizes, rounded):
    """Whether different values share a multiple: small differences on a large offset are no storage noise.

    What is stored of equal values is equal; arithmetic leaves differences in the last digits.
    """
    apart = np.diff(sizes) > ARITHMETIC_NOISE * sizes[1:]
    return bool(np.mean(apart & (np.diff(rounded) == 0.0)) > 1.0 - COVERAGE) if sizes.size > 1 else False


def _common_divisor(multiples, weights, needed):
    """Largest integer that divides `needed` of the weight and more than one distinct multiple.

    Two values on the grid have the grid, or a multiple, as their divisor. The divisors of pairs at evenly spaced ranks
    are candidates, so that 2 % of stray values do not hide the grid.
    """
    exact = int(np.gcd.reduce(multiples))
    ranks = np.searchsorted(np.cumsum(weights), np.linspace(0, weights.sum(), PAIRED + 2)[1:-1])
    tried = multiples[ranks]
    candidates = np.unique(np.gcd.outer(tried, tried))[::-1]
    for candidate in candidates[candidates > exact]:
        if np.mean(tried % candidate == 0) < COVERAGE - 0.1:
            continue
        divided = multiples % candidate == 0
        if weights[divided].sum() >= needed and np.unique(multiples[divided]).size > 1:
            return int(candidate)
    return exact


def are_clumped(values, grids):
    """Whether values of columns (N, D) come again and again, more than their grids (D,) explain: (D,) bool.

    Close is within an eighth, a sixteenth ... of the standard deviation, and not below the grid. Of a smooth density a
    pair is as often that close as is expected from those up to eight times as far apart.
    """
    found = np.zeros(values.shape[1], np.bool_)
    for d, grid in enumerate(grids):
        x = np.sort(values[~np.isnan(values[:, d]), d])
        with np.errstate(over="ignore"):  # numbers whose squares are none are refused elsewhere
            spread = x.std() if x.size else 0.0
        width, places = spread / 8.0, np.arange(x.size)
        while width > max(grid, 1e-9 * spread) and not found[d]:
            close, far = ((np.searchsorted(x, x + w, "right") - places - 1).sum() for w in (width, 8.0 * width))
            if close < FEWEST_PAIRS:
                break
            found[d], width = 8.0 * close >= MOST_CLUMPING * far, width / 2.0
    return found
