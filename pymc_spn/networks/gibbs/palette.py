"""Leaf palettes: which families a column's leaves may have, and their constants in the sampler's units.

Continuous columns are centred and scaled once for the sampler, since sums of squares of uncentred data drift; results
are reported in the units of the data (the log Jacobian is added to the log joint).
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.families import (
    Bernoulli,
    Binomial,
    Categorical,
    Exponential,
    Gaussian,
    Geometric,
    LogNormal,
    Poisson,
)
from pymc_spn.leaves.family_codes import BINOMIAL, CATEGORICAL, EXPONENTIAL, GAUSSIAN, GEOMETRIC, LOG_NORMAL, POISSON
from pymc_spn.leaves.leaf_statistics import variance_of
from pymc_spn.networks.gibbs.network import CELLS, COUNT_CELLS, GENERAL, LEVELS, LOGS, VECTOR
from pymc_spn.networks.gibbs.palette_warnings import (
    MAX_TIE_EXCESS,
    holds_one_value,
    shifted_step,
    ties_and_grid,
    warn_of_coarse_grids,
    warn_of_single_values,
    warn_of_ties,
)
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import WHOLE_KINDS, by_name
from pymc_spn.tables.resolution import resolution as find_resolution

FAMILY_CODE = {
    Gaussian: GAUSSIAN,
    LogNormal: LOG_NORMAL,
    Exponential: EXPONENTIAL,
    Poisson: POISSON,
    Geometric: GEOMETRIC,
    Binomial: BINOMIAL,
    Bernoulli: CATEGORICAL,
    Categorical: CATEGORICAL,
}
LARGEST_COUNT = 1e11  # of which log masses are off by 1e-4 nats; they are sums of terms k log k
DENSITIES = {GAUSSIAN, LOG_NORMAL, EXPONENTIAL}
DEFAULT_ENTRY = {
    "real": Gaussian(),
    "positive": Gaussian(),
    "integer": Gaussian(),
    "count": (Poisson(), Gaussian()),
    "ordinal": Categorical(),
    "binary": Bernoulli(),
    "categorical": Categorical(),
}
SMALLEST, LARGEST = 1e-140, 1e150  # of values and of their spread: squares and their sums stay within float64
ALLOWED_KINDS = {
    Gaussian: ("real", "positive", "integer", "count"),
    LogNormal: ("positive",),
    Exponential: ("positive",),
    Poisson: ("count",),
    Geometric: ("count",),
    Binomial: ("count",),
    Bernoulli: ("binary",),
    Categorical: ("ordinal", "binary", "categorical"),
}


class CompiledPalette(NamedTuple):
    """Palette of every column as arrays; E entries in all, D columns."""

    entry_ptr: np.ndarray  # (D+1,) entries of column d: entry_ptr[d]:entry_ptr[d+1]
    family: np.ndarray  # (E,) family codes
    constants: np.ndarray  # (E, 4) mean, variance, floor of the prior variance (coded units), relative scale;
    #                         of binomial entries mean, number of trials, 0, relative scale
    column_kind: np.ndarray  # (D,) VECTOR, LEVELS, GENERAL or LOGS; in `asked_palette` CELLS or COUNT_CELLS
    n_levels: np.ndarray  # (D,)
    centre: np.ndarray  # (D,) coded value = (x - centre) / scale
    scale: np.ndarray  # (D,)
    offset: np.ndarray  # (D,) centre / scale
    is_density: np.ndarray  # (D,) bool: leaves are densities, not masses
    cell_variance: np.ndarray  # (D,) as in `network`
    is_count: np.ndarray  # (D,) bool: 0 stands for all that Gaussian leaves have below 1/2


def complete_palette(columns, values, leaves=None, resolution="auto", rounded=False):
    """Palette of every column with all constants filled in from the data.

    Parameters
    ----------
    columns : sequence of Column
    values : (N, D) float64
        Coded table (levels as integers), NaN where missing.
    leaves : dict, optional
        Column name to a palette entry or a list of them; other columns get the default of their kind.
    resolution : {"auto"}, float or dict
        Recording grid of the real columns: found from the data, one number for all, or by name.
    rounded : bool
        Whether the likelihood is that of rounded values, under which equal values are no spikes: nothing to warn of.

    Returns
    -------
    palette : list of list of entries
    resolutions : (D,) float64
        Grid of each column with Gaussian or log-normal leaves, 0 where there is none.

    Raises
    ------
    ValueError
        A column that does not exist, an empty palette, a family that cannot hold a column of this kind, a count above
        the number of trials of a binomial entry, or values too large or too small for their variance.
    """
    leaves, resolution = dict(by_name("leaves", leaves or {})), by_name("resolution", resolution)
    names = [c.name for c in columns]
    _refuse_unknown("leaves", leaves, names)
    if isinstance(resolution, dict):
        _refuse_unknown("resolution", resolution, names)
    palette, grids, excess, width, single, steps = [], np.zeros(len(columns)), {}, {}, {}, {}
    for d, column in enumerate(columns):
        entries = leaves.get(column.name, DEFAULT_ENTRY[column.kind])
        entries = list(entries) if isinstance(entries, list | tuple) else [entries]
        if not entries:
            raise ValueError(f"leaves[{column.name!r}] must hold at least one palette entry; it is empty")
        for entry in entries:
            kinds = ALLOWED_KINDS.get(type(entry))
            if kinds is None:
                raise TypeError(
                    f"leaves[{column.name!r}] must hold palette entries such as ps.leaves.Gaussian(); "
                    f"got {quoted(entry)}"
                )
            if column.kind not in kinds:
                raise ValueError(
                    f"leaves[{column.name!r}]: {type(entry).__name__} leaves need a column of kind "
                    f"{' or '.join(kinds)}; {column.name!r} is {column.kind}"
                )
            if isinstance(entry, Binomial):
                _refuse_more_than(entry.n_trials, column.name, values[:, d])
        observed = values[~np.isnan(values[:, d]), d]
        _refuse_long_counts(column.name, entries, observed)
        if any(isinstance(e, Gaussian) for e in entries) or all(isinstance(e, Exponential) for e in entries):
            _refuse_extreme(column.name, observed)
        if any(isinstance(e, Gaussian | LogNormal) for e in entries):
            grids[d] = _grid(column.name, observed, resolution)
            if column.kind not in WHOLE_KINDS:  # whole numbers stand for their cells, and earn nothing by repeating
                excess[column.name], width[column.name] = ties_and_grid(observed, grids[d])
                if math.isinf(excess[column.name]):
                    steps[column.name] = shifted_step(observed)
                if holds_one_value(observed):
                    single[column.name] = observed[0]
        palette.append([_with_constants(e, observed, grids[d]) for e in entries])
    if not rounded:
        warn_of_single_values(single)
        warn_of_ties(excess, steps)
        warn_of_coarse_grids({c: w for c, w in width.items() if excess[c] <= MAX_TIE_EXCESS})
    return palette, grids


def _refuse_long_counts(name, entries, observed):
    """Counts of which log masses lose digits, as do those of the bottom-up kernels, sums of terms k log k."""
    leaf = next((type(e).__name__ for e in entries if isinstance(e, Poisson | Geometric)), None)
    if leaf is not None and observed.size and observed.max() > LARGEST_COUNT:
        raise ValueError(
            f"observed: counts must be at most {LARGEST_COUNT:g} under {leaf} leaves, whose log masses lose digits "
            f"beyond; column {name!r} has {observed.max():.0f}. Declare it integer, or leave an identifier out"
        )


def choose_coding(palette, values, columns):
    """Centre and scale (D,) of the sampler's units: standardised where all leaves are densities, else unscaled.

    A column with log-normal leaves is divided by its geometric mean and not centred: its logs then are.
    """
    centre, scale = np.zeros(len(palette)), np.ones(len(palette))
    for d, entries in enumerate(palette):
        codes = {FAMILY_CODE[type(e)] for e in entries}
        observed = values[~np.isnan(values[:, d]), d]
        if observed.size == 0 or codes == {CATEGORICAL}:
            continue
        if LOG_NORMAL in codes:
            scale[d] = np.exp(np.log(observed).mean())
        elif codes <= DENSITIES and columns[d].kind not in WHOLE_KINDS:
            centre[d] = observed.mean()
            scale[d] = math.sqrt(variance_of(observed)) or 1.0
        else:
            centre[d] = np.round(observed.mean())  # whole numbers stay on the unit grid
    return centre, scale


def compile_palette(columns, palette, resolutions, centre, scale, rounded=False):
    """Arrays of a completed palette in the units given by ``centre`` and ``scale``.

    With ``rounded`` grids put no floor under the variances of leaves, and whole numbers have no cells: in rounded
    networks leaves hold exact values.
    """
    n_columns = len(columns)
    kind = np.full(n_columns, GENERAL, np.int64)
    n_levels = np.zeros(n_columns, np.int64)
    is_density = np.zeros(n_columns, np.bool_)
    cell_variance = np.zeros(n_columns)
    family, constants = [], []
    for d, entries in enumerate(palette):
        codes = {FAMILY_CODE[type(e)] for e in entries}
        if codes <= DENSITIES:
            kind[d] = LOGS if LOG_NORMAL in codes else VECTOR
            is_density[d] = columns[d].kind not in WHOLE_KINDS
        elif codes == {CATEGORICAL}:
            n_levels[d] = 2 if columns[d].kind == "binary" else len(columns[d].levels)
            kind[d] = LEVELS if len(entries) == 1 else GENERAL
        grid = 0.0 if rounded else resolutions[d]
        if GAUSSIAN in codes and not is_density[d] and grid > 0.0:
            cell_variance[d] = 1.0 / 12.0 / scale[d] ** 2
        for e in entries:
            code = FAMILY_CODE[type(e)]
            family.append(code)
            constants.append(_coded_constants(e, code, centre[d], scale[d], grid))
    return CompiledPalette(
        entry_ptr=np.concatenate([[0], np.cumsum([len(p) for p in palette])]).astype(np.int64),
        family=np.asarray(family, np.int64),
        constants=np.asarray(constants, np.float64).reshape(-1, 4),
        column_kind=kind,
        n_levels=n_levels,
        centre=centre,
        scale=scale,
        offset=np.where(n_levels > 0, 0.0, centre / scale),
        is_density=is_density,
        cell_variance=cell_variance,
        is_count=np.array([column.kind == "count" for column in columns]),
    )


def asked_palette(compiled):
    """The palette of networks that answer questions: a whole number has the mass of its unit cell in Gaussian leaves.

    While learning it has the mean log density over the cell (`leaf_kernels`), which is conjugate and lower, or with
    ``rounded`` a value within the cell.
    """
    whole = np.where(compiled.is_count, COUNT_CELLS, CELLS)
    return compiled._replace(column_kind=np.where(is_rounded(compiled), whole, compiled.column_kind))


def is_rounded(compiled):
    """(D,) bool, columns of whole numbers that have Gaussian leaves."""
    return np.logical_or.reduceat(compiled.family == GAUSSIAN, compiled.entry_ptr[:-1]) & ~compiled.is_density


def code_values(compiled, values):
    """Coded table of the sampler: (x - centre) / scale, levels unchanged, NaN kept."""
    return np.ascontiguousarray((np.asarray(values, np.float64) - compiled.centre) / compiled.scale)


def log_jacobian(compiled, values):
    """Sum over the observed density-valued cells of log(d coded / d x), in nats."""
    observed = (~np.isnan(values)).sum(axis=0)
    return float(-(observed * compiled.is_density * np.log(compiled.scale)).sum())


def _coded_constants(entry, code, centre, scale, grid):
    relative = entry.relative_scale
    if code == GAUSSIAN:
        return (entry.mean - centre) / scale, entry.variance / scale**2, grid**2 / 12.0 / scale**2, relative
    if code == LOG_NORMAL:
        floor = (grid / math.exp(entry.log_mean)) ** 2 / 12.0
        return entry.log_mean - math.log(scale), entry.log_variance, floor, relative
    if code == CATEGORICAL:
        return 0.0, 0.0, 0.0, relative
    if code == BINOMIAL:
        return entry.mean, float(entry.n_trials), 0.0, relative
    return entry.mean / scale, 0.0, 0.0, relative


def _with_constants(entry, observed, grid):
    """The entry with `None` replaced by the moments of the observed column."""
    if isinstance(entry, Bernoulli | Categorical):
        return entry
    changes = {}
    if isinstance(entry, LogNormal):
        logs = np.log(observed) if observed.size else np.zeros(1)
        if entry.log_mean is None:
            changes["log_mean"] = float(logs.mean())
        if entry.log_variance is None:
            step = grid / math.exp(changes.get("log_mean", entry.log_mean))
            changes["log_variance"] = variance_of(logs) or _constant_variance(logs, step)
        return replace(entry, **changes)
    if isinstance(entry, Binomial) and entry.mean is None:
        return replace(entry, mean=entry.constants(observed).mean if observed.size else 0.5 * entry.n_trials)
    if entry.mean is None:
        mean = float(observed.mean()) if observed.size else 1.0
        if isinstance(entry, Exponential | Poisson | Geometric) and mean <= 0.0:
            mean = 1.0 / (observed.size + 1.0)  # a column of zeros: as if one more row had counted one
        changes["mean"] = mean
    if isinstance(entry, Gaussian) and entry.variance is None:
        variance = variance_of(observed) if observed.size else 1.0
        changes["variance"] = variance if variance > 0.0 else _constant_variance(observed, grid)
    return replace(entry, **changes) if changes else entry


def _constant_variance(observed, grid):
    """Prior variance for a column without spread: its grid, else a hundredth of its size, else one."""
    level = abs(float(observed[0])) if observed.size else 0.0
    return grid**2 if grid > 0.0 else (0.01 * level) ** 2 if level > 0.0 else 1.0


def _grid(name, observed, resolution):
    value: Any = resolution.get(name, "auto") if isinstance(resolution, dict) else resolution
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f'resolution must be "auto", a number or a dict of numbers by column; got {quoted(value)}')
        return find_resolution(observed)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f'resolution of column {name!r} must be "auto" or a number; got {type(value).__name__}')
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"resolution of column {name!r} must be finite and not negative; got {quoted(value)}")
    return float(value)


def _refuse_extreme(name, observed):
    """Refuse a column whose variance float64 cannot hold, by its name rather than by what fails later."""
    largest = float(np.abs(observed).max(initial=0.0))
    if largest == 0.0:
        return
    spread = math.sqrt(variance_of(observed / largest)) * largest if largest <= LARGEST else math.inf
    if largest > LARGEST or largest < SMALLEST or 0.0 < spread < SMALLEST:
        what = (
            f"values of size {largest:.3g}" if largest > LARGEST or largest < SMALLEST else f"a spread of {spread:.3g}"
        )
        raise ValueError(
            f"column {name!r} must have values and a spread within {SMALLEST:g} and {LARGEST:g}, whose squares "
            f"float64 can hold; it has {what}: rescale it, e.g. divide it by its largest value"
        )


def _refuse_more_than(n_trials, name, column):
    above = np.flatnonzero(column > n_trials)
    if above.size:
        raise ValueError(
            f"leaves[{name!r}]: Binomial leaves with n_trials={n_trials} need counts of at most {n_trials}; column "
            f"{name!r} has {column[above[0]]:g} at position {above[0]}"
        )


def _refuse_unknown(argument, mapping, names):
    unknown = [k for k in mapping if k not in names]
    if unknown:
        raise ValueError(
            f"{argument} names the column {unknown[0]!r}, which is not in the table; columns: {quoted(names)}"
        )
