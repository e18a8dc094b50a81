"""Leaf priors from subsamples of the columns: the empirical Bayes of section 3.4 of Yokoi and Sato (2024)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.circuits.structures.tree_circuits import tree_and_leaves
from pymc_spn.gibbs.palette import DEFAULT_ENTRY, _refuse_unknown, grid_of
from pymc_spn.leaves.families import CONJUGATES
from pymc_spn.leaves.kernel_forms import LEVEL
from pymc_spn.leaves.palette_entry import PaletteEntry
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.column import by_name
from pymc_spn.tables.inputs import LeafFamilies, Resolution, TableLike

USUAL_ENTRIES = 4  # of a column in infinite nodes


def empirical_leaf_priors(
    table: TableLike,
    structure: RegionTree | Circuit,
    ratio: float | Mapping[str, float],
    *,
    leaves: LeafFamilies | None = None,
    n_entries: int | None = None,
    floor: float = 1e-4,
    resolution: Resolution = "auto",
    random_seed: int | np.random.Generator | None = None,
) -> dict[str, list[Any]]:
    """Fit leaf families to random subsamples of their columns.

    Each entry gets the closed-form maximiser of the marginal likelihood of a subsample x without replacement, given the
    shape of the prior. That is mu0 = mean(x), b0 = a0 var(x) for Gaussian leaves, beta = alpha mean(x) for Exponential
    and beta = alpha / mean(x) for Poisson ones. Log-normal leaves are treated as Gaussian leaves of the logs. Geometric
    and binomial leaves have no closed form and take the mean. Levels have none and keep their entry. At ratio 1 all
    entries of a column are equal; towards 0 they differ more. Give the result to `SPN` or `fit_variational` with
    ``leaf_scale=1``.

    Parameters
    ----------
    table : DataFrame of pandas, polars or pyarrow, Table, dict of columns or (N, D) array
        Training rows; missing cells are left out.
    structure : RegionTree or Circuit
        As in `SPN`.
    ratio : float or dict by column
        Share of a column's observed values in a subsample, in (0, 1]; at least two values are drawn where there are.
    leaves : dict, optional
        Families by column name, as in `SPN`; each is repeated, with its ``relative_scale``.
    n_entries : int, optional
        Entries of each family in a column. By default each child of a univariate sum node gets its own entry; at
        infinite width there are 4.
    floor : float
        Smallest variance of a Gaussian entry relative to the variance of all observed values of its column. Without
        a floor b0 is 0, and the density of repeated values infinite, wherever a subsample is constant. The floor of
        the recording grid, ``resolution``, holds as well.
    resolution : "auto", float or dict
        As in `SPN`.
    random_seed : int, Generator or None

    Returns
    -------
    dict of str to list of leaf families

    Raises
    ------
    ValueError, TypeError
        If columns are not those of the structure, a ratio is outside (0, 1], or a floor is not positive.

    Examples
    --------
    >>> structure = ps.circuits.learn_tree(df, random_seed=1)
    >>> families = ps.leaves.empirical_leaf_priors(df, structure, 0.2, random_seed=1)
    >>> sorted(families)
    ['age', 'income', 'job']

    References
    ----------
    Yokoi and Sato (2024), Top-down Bayesian posterior sampling for sum-product networks, equation 15 and table 8.
    """
    structure, leaves = tree_and_leaves(structure, leaves)
    table = table if isinstance(table, Table) else Table.from_frame(table)
    structure.check_names("table", dict.fromkeys(table.names))
    ratios = checked_ratios(ratio, table.names)
    if not (np.isfinite(floor) and floor > 0.0):
        raise ValueError(f"floor must be positive and finite, got {quoted(floor)}: without it b0 can be 0")
    if n_entries is not None and (
        isinstance(n_entries, bool) or not isinstance(n_entries, int | np.integer) or n_entries < 1
    ):
        raise ValueError(f"n_entries must be an integer of at least 1, got {quoted(n_entries)}")
    families = dict(leaves or {})
    _refuse_unknown("leaves", families, list(table.names))
    rng = np.random.default_rng(random_seed)
    out = {}
    for d, column in enumerate(table.columns):
        entries = families.get(column.name, DEFAULT_ENTRY[column.kind])
        entries = list(entries) if isinstance(entries, Sequence) else [entries]
        for entry in entries:
            if not isinstance(entry, PaletteEntry):
                raise TypeError(f"leaves must hold leaf families such as ps.leaves.Gaussian(), got {quoted(entry)}")
        observed = table.values[~np.isnan(table.values[:, d]), d]
        if observed.size == 0:
            raise ValueError(f"table: column {column.name!r} has no observed value")
        copies = _copies(structure, column.name, len(entries)) if n_entries is None else int(n_entries)
        grid = grid_of(column.name, observed, resolution)
        fitted = []
        for _ in range(copies):
            size = min(max(round(ratios[column.name] * observed.size), 2), observed.size)
            sample = rng.choice(observed, size, replace=False)
            fitted += [entry.fitted(sample, observed, floor, grid) for entry in entries]
        is_level = all(CONJUGATES[entry.code].reading == LEVEL for entry in entries)
        out[column.name] = entries if is_level else fitted
    return out


def checked_ratios(ratio: Any, names: Sequence[str]) -> dict[str, float]:
    """A ratio for each column, in (0, 1]."""
    if isinstance(ratio, Mapping):
        ratio = by_name("ratio", ratio)
        _refuse_unknown("ratio", ratio, list(names))
        lacking = [n for n in names if n not in ratio]
        if lacking:
            raise ValueError(f"ratio must have an entry for every column, got none for {lacking[0]!r}")
        found = dict(ratio)
    else:
        found = dict.fromkeys(names, ratio)
    for name, r in found.items():
        if isinstance(r, bool) or not isinstance(r, int | float | np.floating | np.integer) or not 0.0 < r <= 1.0:
            raise ValueError(f"ratio must be in (0, 1], got {quoted(r)} for column {name!r}")
    return {name: float(r) for name, r in found.items()}


def _copies(structure: RegionTree, name: str, n_families: int) -> int:
    """Entries of each family, so that every child of the widest univariate node of the column has its own."""
    regions = structure.leaf_region[structure.leaf_column == structure.names.index(name)]
    width = structure.n_children[regions]
    return USUAL_ENTRIES if np.any(width == 0) else max(int(width.max()) // n_families, 1)
