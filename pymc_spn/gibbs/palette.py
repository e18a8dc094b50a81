"""Leaf palettes: which families a column's leaves may have, and their constants in the sampler's units.

Continuous columns are centred and scaled once for the sampler, since sums of squares of uncentred data drift. Results
are reported in the units of the data (the log Jacobian is added to the log joint).
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from pymc_spn.gibbs.network import CELLS, COUNT_CELLS, GENERAL, LEVELS, LOGS, VECTOR
from pymc_spn.gibbs.palette_warnings import (
    MAX_TIE_EXCESS,
    holds_one_value,
    shifted_step,
    ties_and_grid,
    warn_of_coarse_grids,
    warn_of_single_values,
    warn_of_ties,
)
from pymc_spn.leaves.conjugate_pieces import NORMAL_GAMMA_PRIOR
from pymc_spn.leaves.families import CONJUGATES, PREDICTIVES
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.kernel_forms import LEVEL, LOGARITHM, NOT_NEGATIVE, REAL
from pymc_spn.leaves.leaf_statistics import variance_of
from pymc_spn.leaves.levels import Bernoulli, Categorical, Levels
from pymc_spn.leaves.multivariate_gaussian_prior import MultivariateGaussian
from pymc_spn.leaves.palette_entry import PaletteEntry
from pymc_spn.leaves.poisson import Poisson
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import DENSITY_KINDS, WHOLE_KINDS, by_name
from pymc_spn.tables.resolution import resolution as find_resolution

SHARED, MORE = 0.3, 10.0  # see `smooth_columns`
# probability below 0 under smooth leaves: where a column without negative values ends at 0, and where it is in no leaf
# over several columns
LEAST_BELOW, JOINT_BELOW = 1e-3, 0.03
NORMAL_QUARTERS, LOWEST = 1.35, 1.9  # distances in a normal sample: of the quartiles, of the lower one from the least
FEWEST_ZEROS = 3  # rows from which 0 has a leaf of its own
FEWEST_VALUES = 30  # from which a column of real numbers is known to have no negative one
LARGEST_DENSITY = 0.4  # of the standard normal
# of the prior of a covariance, in the column's variance: scales of columns that follow from others would fall to 0
LEAST_VARIANCE = 1e-12

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


class CompiledPalette(NamedTuple):
    """Palette of every column as arrays; E entries in all, D columns."""

    entry_ptr: np.ndarray  # (D+1,) entries of column d: entry_ptr[d]:entry_ptr[d+1]
    family: np.ndarray  # (E,) family codes
    # (E, 4 + K) `PaletteEntry.coded_constants`, relative scale; of each of up to K levels its mass under the prior as
    constants: np.ndarray  # a multiple of the mean one, 1 under a uniform prior
    column_kind: np.ndarray  # (D,) VECTOR, LEVELS, GENERAL or LOGS; in `asked_palette` CELLS or COUNT_CELLS
    n_levels: np.ndarray  # (D,)
    centre: np.ndarray  # (D,) coded value = (x - centre) / scale
    scale: np.ndarray  # (D,)
    offset: np.ndarray  # (D,) centre / scale
    is_density: np.ndarray  # (D,) bool: leaves are densities, not masses
    cell_variance: np.ndarray  # (D,) as in `network`
    is_count: np.ndarray  # (D,) bool: 0 stands for all that Gaussian leaves have below 1/2
    is_joint: np.ndarray  # (D,) bool: the column may be in leaves over several columns (`joint_leaves`)
    joint_constants: np.ndarray  # (D, 3) mean, variance and floor of the prior variance there, coded


def complete_palette(columns, values, leaves=None, resolution="auto", rounded=()):
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
    rounded : sequence of str
        Columns whose values stand for cells (`recorded_cells`): equal ones are no spikes, and nothing to warn of.

    Returns
    -------
    palette : list of list of entries
    resolutions : (D,) float64
        Grid of each column with Gaussian or log-normal leaves, 0 where there is none.

    Raises
    ------
    ValueError
        If a column does not exist, a palette is empty, or a family cannot hold a column of this kind. Also if a count
        is above the number of trials of a binomial entry, or values are too large or too small for their variance.
    """
    leaves, resolution = dict(by_name("leaves", leaves or {})), by_name("resolution", resolution)
    names = [c.name for c in columns]
    _refuse_unknown("leaves", leaves, names)
    if isinstance(resolution, dict):
        _refuse_unknown("resolution", resolution, names)
    palette, grids, excess, width, single, steps = [], np.zeros(len(columns)), {}, {}, {}, {}
    for d, column in enumerate(columns):
        entries = entries_of(column, leaves)
        if not entries:
            raise ValueError(f"leaves[{column.name!r}] must hold at least one leaf family; it is empty")
        for entry in entries:
            if not isinstance(entry, PaletteEntry):
                raise TypeError(
                    f"leaves[{column.name!r}] must hold leaf families such as ps.leaves.Gaussian(); got {quoted(entry)}"
                )
            if column.kind not in entry.kinds:
                raise ValueError(
                    f"leaves[{column.name!r}]: {type(entry).__name__} leaves need a column of kind "
                    f"{' or '.join(entry.kinds)}; {column.name!r} is {column.kind}"
                )
            entry.refuse_column(column.name, values[:, d])
        observed = values[~np.isnan(values[:, d]), d]
        conjugates = [CONJUGATES[entry.code] for entry in entries]
        readings = {conjugate.reading for conjugate in conjugates}
        if REAL in readings or readings == {NOT_NEGATIVE}:  # of such columns squares are taken, or the variance
            _refuse_extreme(column.name, observed)
        if any(conjugate.prior_form == NORMAL_GAMMA_PRIOR for conjugate in conjugates):
            grids[d] = grid_of(column.name, observed, resolution)
            # what stands for cells earns nothing by repeating: whole numbers do
            if column.kind not in WHOLE_KINDS and column.name not in rounded:
                excess[column.name], width[column.name] = ties_and_grid(observed, grids[d])
                if math.isinf(excess[column.name]):
                    steps[column.name] = shifted_step(observed)
                if holds_one_value(observed):
                    single[column.name] = observed[0]
        palette.append([_completed(column, entry, observed, grids[d]) for entry in entries])
    warn_of_single_values(single)
    warn_of_ties(excess, steps)
    warn_of_coarse_grids({c: w for c, w in width.items() if excess[c] <= MAX_TIE_EXCESS})
    return palette, grids


def _completed(column, entry, observed, grid):
    if not isinstance(entry, Levels):
        return entry.completed(observed, grid)
    try:
        centre = entry.centre(observed, n_levels_of(column))
    except ValueError as error:
        raise ValueError(f"leaves[{column.name!r}]: {error}") from None
    return replace(entry, probabilities=tuple(centre.tolist()))


def taken_centres(columns, values, palette, grids):
    """Which of all palette entries (E,) have the centre that they take from their column where none is given."""
    found = []
    for column, own, entries, grid in zip(columns, values.T, palette, grids, strict=True):
        for entry in entries:
            centre = {name: None for name in ("mean", "log_mean", "probabilities") if hasattr(entry, name)}
            found.append(_completed(column, replace(entry, **centre), own[~np.isnan(own)], grid) == entry)
    return np.array(found)


def n_levels_of(column):
    """Levels of a binary, ordinal or categorical column."""
    return 2 if column.kind == "binary" else len(column.levels)


def entries_of(column, leaves):
    """Palette entries of a column as a list: those of ``leaves``, else the default of its kind."""
    entries = leaves.get(column.name, DEFAULT_ENTRY[column.kind])
    return list(entries) if isinstance(entries, list | tuple) else [entries]


def leaves_near_zero(columns, values, leaves=None):
    """Palettes of columns with zeros and no negative value, and what is known of 0 in columns without negative values.

    Columns of real numbers are those that have the default leaves, columns of positive numbers all that have Gaussian
    leaves. Where 0 repeats and other values come near it, it has narrow leaves of its own.

    Returns
    -------
    leaves : dict
        With the palettes of the columns in which 0 repeats.
    nonnegative : dict of str to float or None
        None where all values are far from 0. Else distributions end at 0: half of the smallest value above 0 where 0
        has leaves of its own, within which values count as 0, and 0 elsewhere.
    """
    leaves, nonnegative = dict(by_name("leaves", leaves or {})), {}
    for column, own in zip(columns, values.T, strict=True):
        observed, is_given = own[~np.isnan(own)], column.name in leaves
        least = {"real": FEWEST_VALUES, "positive": 1}.get(column.kind, math.inf)
        if observed.size < least or observed.min() < 0.0:
            continue
        gaussian = all(isinstance(entry, Gaussian) for entry in entries_of(column, leaves))
        if not gaussian or (is_given and column.kind == "real"):
            continue
        above, below = observed[observed > 0.0], mass_below_zero(observed)
        nonnegative[column.name] = 0.0 if below > LEAST_BELOW else None
        if below > LEAST_BELOW and above.size and observed.size - above.size >= FEWEST_ZEROS:
            nonnegative[column.name] = width = 0.5 * float(above.min())
            if not is_given:
                leaves[column.name] = [Gaussian(), Gaussian(mean=0.0, variance=(0.25 * width) ** 2)]
    return leaves, nonnegative


def mass_below_zero(observed):
    """What smooth leaves would have below 0: the mass of a kernel density of Silverman's width.

    The width is not above that of the lowest quarter of the values, if this were of a normal distribution.
    """
    lower, upper = np.quantile(observed, [0.25, 0.75])
    widths = math.sqrt(variance_of(observed)), (upper - lower) / NORMAL_QUARTERS, (lower - observed.min()) / LOWEST
    width = min((w for w in widths if w > 0.0), default=0.0)
    return float(ndtr(-observed / (0.9 * width * observed.size**-0.2)).mean()) if width > 0.0 else 0.0


def choose_coding(palette, values, columns):
    """Centre and scale (D,) of the sampler's units: standardised where all leaves are densities, else unscaled.

    A column with log-normal leaves is divided by its geometric mean and not centred: its logs then are.
    """
    centre, scale = np.zeros(len(palette)), np.ones(len(palette))
    for d, entries in enumerate(palette):
        readings = {CONJUGATES[entry.code].reading for entry in entries}
        observed = values[~np.isnan(values[:, d]), d]
        if observed.size == 0 or readings == {LEVEL}:
            continue
        if LOGARITHM in readings:
            scale[d] = np.exp(np.log(observed).mean())
        elif _are_densities(entries) and columns[d].kind not in WHOLE_KINDS:
            centre[d] = observed.mean()
            scale[d] = math.sqrt(variance_of(observed)) or 1.0
        else:
            centre[d] = np.round(observed.mean())  # whole numbers stay on the unit grid
    return centre, scale


def compile_palette(columns, palette, resolutions, centre, scale, rounded=(), joint=frozenset()):
    """Arrays of a completed palette in the units given by ``centre`` and ``scale``.

    In the columns named by ``rounded``, grids put no floor under the variances of leaves, and whole numbers have no
    cells: there leaves hold exact values. ``joint`` are the names of the columns that leaves over several may have.
    """
    n_columns = len(columns)
    kind = np.full(n_columns, GENERAL, np.int64)
    n_levels = np.zeros(n_columns, np.int64)
    is_density = np.zeros(n_columns, np.bool_)
    cell_variance = np.zeros(n_columns)
    is_joint, joint_constants = np.zeros(n_columns, np.bool_), np.zeros((n_columns, 3))
    family, constants, levels = [], [], []
    for d, entries in enumerate(palette):
        conjugates = [CONJUGATES[entry.code] for entry in entries]
        readings = {conjugate.reading for conjugate in conjugates}
        if all(conjugate.is_vector for conjugate in conjugates):
            kind[d] = LOGS if LOGARITHM in readings else VECTOR
        if _are_densities(entries):
            is_density[d] = columns[d].kind not in WHOLE_KINDS
        elif readings == {LEVEL}:
            n_levels[d] = n_levels_of(columns[d])
            kind[d] = LEVELS if len(entries) == 1 else GENERAL
        grid = 0.0 if columns[d].name in rounded else resolutions[d]
        if REAL in readings and not is_density[d] and grid > 0.0:
            cell_variance[d] = 1.0 / 12.0 / scale[d] ** 2
        for entry in entries:
            family.append(entry.code)
            constants.append((*entry.coded_constants(centre[d], scale[d], grid), entry.relative_scale))
            levels.append(getattr(entry, "probabilities", None))
            if columns[d].name in joint and isinstance(entry, Gaussian) and is_density[d] and not is_joint[d]:
                mean, variance, floor = constants[-1][:3]
                is_joint[d], joint_constants[d] = True, (mean, variance, max(floor, LEAST_VARIANCE * variance))
    factors = np.ones((len(family), n_levels.max(initial=0)))
    for own, centre_of_levels in zip(factors, levels, strict=True):
        if centre_of_levels is not None:  # of files without it, the centre is uniform
            own[: len(centre_of_levels)] = np.array(centre_of_levels) * len(centre_of_levels)
    return CompiledPalette(
        entry_ptr=np.concatenate([[0], np.cumsum([len(p) for p in palette])]).astype(np.int64),
        family=np.asarray(family, np.int64),
        constants=np.concatenate([np.asarray(constants, np.float64).reshape(-1, 4), factors], axis=1),
        column_kind=kind,
        n_levels=n_levels,
        centre=centre,
        scale=scale,
        offset=np.where(n_levels > 0, 0.0, centre / scale),
        is_density=is_density,
        cell_variance=cell_variance,
        is_count=np.array([column.kind == "count" for column in columns]),
        is_joint=is_joint,
        joint_constants=joint_constants,
    )


def smooth_columns(columns, values):
    """Names of the columns of real and positive numbers without a value that very many rows share.

    A value is one of those if more than three tenths of the rows have it, and ten times more than a normal distribution
    would put into its cell. Zeros of what is rare are an example. A Gaussian over several columns says little of them.
    Columns that come near 0 and have no negative value are left out: it would have much mass below 0.
    """
    names = []
    for column, own in zip(columns, values.T, strict=True):
        observed = own[~np.isnan(own)]
        if column.kind not in DENSITY_KINDS or observed.size == 0:
            continue
        if observed.size >= FEWEST_VALUES and observed.min() >= 0.0 and mass_below_zero(observed) > JOINT_BELOW:
            continue
        most = np.unique(observed, return_counts=True)[1].max(initial=0)
        spread = _spread_of(observed)
        usual = LARGEST_DENSITY * find_resolution(observed) / spread if spread > 0.0 else 1.0
        if most <= SHARED * observed.size or most <= MORE * usual * observed.size:
            names.append(column.name)
    return names


def joint_columns(columns, values, palette, leaves):
    """Names of the columns that leaves over several columns may have.

    Raises
    ------
    TypeError, ValueError
        If ``leaves`` is neither "auto", a `MultivariateGaussian` nor None, or names a column without Gaussian
        densities.
    """
    if leaves is None:
        return ()
    if isinstance(leaves, str) and leaves == "auto":
        leaves = MultivariateGaussian()
    if not isinstance(leaves, MultivariateGaussian):
        raise TypeError(
            f'joint_leaves must be "auto", ps.leaves.MultivariateGaussian(...) or None; got {quoted(leaves)}'
        )
    able = [
        column.name
        for column, entries in zip(columns, palette, strict=True)
        if column.kind in DENSITY_KINDS and any(isinstance(entry, Gaussian) for entry in entries)
    ]
    if leaves.columns is None:
        smooth = smooth_columns(columns, values)
        return tuple(name for name in able if name in smooth)
    _refuse_unknown("joint_leaves", leaves.columns, [c.name for c in columns])
    for name in leaves.columns:
        if name not in able:
            raise ValueError(f"joint_leaves: column {name!r} must be of real or positive numbers with Gaussian leaves")
    return leaves.columns


def asked_palette(compiled):
    """The palette of networks that answer questions: a whole number has the mass of its unit cell in Gaussian leaves.

    While learning it has the mean log density over the cell (`leaf_kernels`), which is conjugate and lower, or with
    ``rounded`` a value within the cell.
    """
    whole = np.where(compiled.is_count, COUNT_CELLS, CELLS)
    return compiled._replace(column_kind=np.where(is_rounded(compiled), whole, compiled.column_kind))


def with_spread_values(compiled, widths):
    """The palette of variational fits: each value that stands for a cell is spread evenly over it.

    A uniform law of the exact value within the cell is a factor of the variational posterior, so the bound is one on
    the density of cells, mass over width. Of a Gaussian leaf it needs the variance of the cell alone.

    Parameters
    ----------
    compiled : CompiledPalette
    widths : (D,) float64
        Of the cells in the units of the data, 0 where values are exact; under Gaussian leaves alone.
    """
    return compiled._replace(cell_variance=compiled.cell_variance + (widths / compiled.scale) ** 2 / 12.0)


def is_rounded(compiled):
    """(D,) bool, columns of whole numbers that have Gaussian leaves."""
    with_cells = [code for code, part in CONJUGATES.items() if part.log_whole_number is not None]
    own = np.isin(compiled.family, with_cells)
    return np.logical_or.reduceat(own, compiled.entry_ptr[:-1]) & ~compiled.is_density


def code_values(compiled, values):
    """Coded table of the sampler: (x - centre) / scale, levels unchanged, NaN kept."""
    return np.ascontiguousarray((np.asarray(values, np.float64) - compiled.centre) / compiled.scale)


def log_jacobian(compiled, values):
    """Sum over the observed density-valued cells of log(d coded / d x), in nats."""
    return log_jacobian_of_counts(compiled, (~np.isnan(values)).sum(axis=0))


def log_jacobian_of_counts(compiled, observed):
    """`log_jacobian` of so many observed cells in each column (D,)."""
    return float(-(observed * compiled.is_density * np.log(compiled.scale)).sum())


def _are_densities(entries):
    """Whether no leaf of these entries has masses, but where a column of whole numbers gives them to it."""
    return not any(PREDICTIVES[entry.code].has_masses for entry in entries)


def grid_of(name, observed, resolution):
    """Recording grid of a column, found or given; 0 where there is none."""
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


def _spread_of(observed):
    """Standard deviation of any numbers, also of those whose squares float64 cannot hold."""
    largest = float(np.abs(observed).max(initial=0.0))
    return math.sqrt(variance_of(observed / largest)) * largest if largest > 0.0 else 0.0


def _refuse_extreme(name, observed):
    """Refuse a column whose variance float64 cannot hold, by its name rather than by what fails later."""
    largest = float(np.abs(observed).max(initial=0.0))
    if largest == 0.0:
        return
    spread = _spread_of(observed) if largest <= LARGEST else math.inf
    if largest > LARGEST or largest < SMALLEST or 0.0 < spread < SMALLEST:
        what = (
            f"values of size {largest:.3g}" if largest > LARGEST or largest < SMALLEST else f"a spread of {spread:.3g}"
        )
        raise ValueError(
            f"column {name!r} must have values and a spread within {SMALLEST:g} and {LARGEST:g}, whose squares "
            f"float64 can hold; it has {what}: rescale it, e.g. divide it by its largest value"
        )


def _refuse_unknown(argument, mapping, names):
    unknown = [k for k in mapping if k not in names]
    if unknown:
        raise ValueError(
            f"{argument} names the column {unknown[0]!r}, which is not in the table; columns: {quoted(names)}"
        )
