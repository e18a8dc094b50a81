"""Learners other than sampling: `fit_variational`."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.networks.hyperparameter_inputs import PRIORS, numbers_of_hyperparameter
from pymc_spn.networks.network_tables import JointLeaves, check_supports, draft_of, network_inputs, report_choices
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.fitted_states import FittedStates
from pymc_spn.networks.schema import HYPERPARAMETERS, UNUSED, NetworkSchema
from pymc_spn.networks.variational.fit import fit_by_ascent
from pymc_spn.networks.variational.partitioned_fit import fit_partitions
from pymc_spn.networks.variational_posterior import VariationalPosterior
from pymc_spn.numerics.cluster_clients import check_client
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.threads import parallel_config
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.steps.model_inputs import HyperparameterLike
from pymc_spn.tables import Column, Table
from pymc_spn.tables.column import DENSITY_KINDS, by_name
from pymc_spn.tables.inputs import Kinds, LeafFamilies, PartitionsLike, Resolution, Rounded, TableLike
from pymc_spn.tables.partitioned_tables import (
    PartitionedTable,
    Partitions,
    naming_partition,
    partitions_of,
    read_partitions,
)
from pymc_spn.tables.reading import report_guesses
from pymc_spn.tables.resolution import are_clumped
from pymc_spn.tables.table import warn_of_identifiers

if TYPE_CHECKING:
    import distributed

STARTS = {"concentration": 1.0, "leaf_scale": 0.3, **UNUSED}  # centres of the priors, where learned ones start

RESTARTS, FEW_ROWS = 3, 10_000  # starts of a table of few rows
MAX_STEPS, MIN_STEPS, ROW_VISITS = 500, 40, 15_000_000  # of a restart
ROWS_LOOKED_AT = 20_000  # for values that come again and again
SAMPLE_ROWS, PASSES = 100_000, 6  # of partitions: rows from which a fit starts, passes over all rows


def fit_variational(
    df: TableLike | PartitionsLike,
    structure: RegionTree | Circuit | None = None,
    *,
    leaves: LeafFamilies | None = None,
    concentration: HyperparameterLike | None = None,
    leaf_scale: HyperparameterLike | None = None,
    leaf_shape: HyperparameterLike | None = None,
    precision_ratio: HyperparameterLike | None = None,
    joint_leaves: JointLeaves | None = "auto",
    covariance_scale: HyperparameterLike | None = None,
    resolution: Resolution = "auto",
    rounded: Rounded = "auto",
    max_children: int = 8,
    restarts: int | None = None,
    max_steps: int | None = None,
    tolerance: float = 1e-5,
    name: str = "x",
    n_jobs: int | None = None,
    client: "distributed.Client | None" = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    kinds: Kinds | None = None,
) -> VariationalPosterior:
    """Fit a Bayesian sum-product network by collapsed variational Bayes, in seconds.

    The model is that of `SPN`. Trees of rows, weights and leaf parameters get independent variational posteriors.
    Coordinate ascent raises a lower bound on the log evidence, from a recursive k-means start until it converges.
    Hyperparameters that are not given are point estimates: the maximum of the bound plus their log prior, within four
    prior standard deviations in logs.

    The fit has a single mode. It does not give the uncertainty of the assignments, of the hyperparameters and of the
    number of children. Densities are therefore a little worse than with chains that mix, and intervals are too narrow.
    ``pm.sample`` has no such limits.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, Table, dict of columns or (N, D) array; path; dask DataFrame
        The data; missing cells are summed out. The path is that of a parquet file or of a folder of them. Such a table,
        or one of dask, need not fit in memory if it has more than 100,000 rows: see Notes.
    structure : RegionTree or Circuit, optional
        As in `SPN`: of finite or infinite width, with any splits. None learns the splits from the table.
    leaves, resolution
        As in `SPN`.
    rounded : "auto", bool or list of str
        As in `SPN`, for columns that only have Gaussian leaves. Exact values are spread evenly over their intervals
        while learning, which keeps a lower bound. Whole numbers have their unit intervals in any case.
    concentration, leaf_scale, leaf_shape, precision_ratio, covariance_scale : None, float, array or dict
        As in `SPN`, without variables; None estimates them.
    joint_leaves : "auto", MultivariateGaussian or None
        As in `SPN`. The start decides which children are such leaves: the groups of rows that have a higher bound as
        such a leaf. Each missing cell of a row in such a leaf has a normal factor in the variational posterior.
    max_children : int
        Largest number of children with which a sum node starts. Ascent empties children and opens none. At infinite
        width all further children keep their prior, and their mass counts in every answer.
    restarts : int, optional
        Number of k-means starts; the one with the highest bound is kept. None makes 3, or 1 if the table has more than
        10,000 rows.
    max_steps : int, optional
        Largest number of steps of a restart; each visits every row. None makes up to 500. For more than 30,000 rows it
        makes fewer: as many as visit fifteen million rows, but at least 40. For a table in partitions, these are passes
        over all rows after the first, and None makes 6. A warning says if the limit ends a fit whose bound still gains.
    tolerance : float
        A restart ends when a step gains less than this, in nats a row.
    name : str
        Name of the network in the answers.
    n_jobs : int, optional
        Threads, as in `parallel_config`: by default all processors. The fit does not depend on it.
    client : distributed.Client, optional
        For a table in partitions: workers of this cluster assign the rows in each pass. The fit has the same bits. All
        workers must see the scratch folder of the Notes. This process reads the table and fits the sample. It does
        everything if the table is no larger than the sample.
    random_seed : int, Generator or None
        Seed of the starts; ascent itself draws nothing.
    progressbar : bool
        Show a bar once the fit has taken a second. It counts steps; a restart that converges early leaves some out.
        False also leaves out the line about a learned structure.
    kinds : dict, optional
        As in `SPN`.

    Returns
    -------
    VariationalPosterior

    Raises
    ------
    ValueError, TypeError
        As for `SPN`; or if counts or the tolerance are not positive. If values of a partition break a rule, or its
        columns or dtypes differ from earlier ones, the message names the file or the number of the partition.
    FileNotFoundError, ImportError
        If the path does not exist, or pyarrow is not installed to read it. If workers do not see the scratch folder, or
        have other versions.
    RuntimeError
        If the cluster is gone.

    Notes
    -----
    Files of parquet and partitions of dask are read one after the other, twice. The first time is for the schema and
    a sample of 100,000 rows, the second to check every cell and to write the rows into a scratch folder (see
    `tempfile.tempdir`). Rows take 8 bytes a cell there. Their lists of edges take about as much, and twice that within
    a pass.

    * **Every cell decides** kinds of columns, levels, whole numbers, supports and gaps.
    * **The sample decides** learned splits, recording grids and `rounded`, and centres, scales and constants of
      priors. It also decides which columns may be in leaves over several, and the children that nodes have. It is
      fitted first.
    * **All rows decide** weights, leaf parameters and hyperparameters. A first, stochastic pass gives each row its
      assignment. In later ones the bound rises as in memory: statistics are sums over rows, wherever these are.

    Examples
    --------
    >>> fit = ps.fit_variational(df, random_seed=1)
    >>> fit.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']

    References
    ----------
    Zhao, Adel, Gordon and Amos (2016), Collapsed variational inference for sum-product networks, ICML. Blei and Jordan
    (2006), doi:10.1214/06-BA104, for infinite width. Hoffman, Blei, Wang and Paisley (2013), Stochastic variational
    inference, JMLR 14, 1303-1347, section 2.4, and Neal and Hinton (1998), doi:10.1007/978-94-011-5014-9_12, for tables
    in partitions.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {quoted(name)}")
    if isinstance(df, RegionTree | Circuit):
        got = type(df).__name__
        raise TypeError(f"df must be a table, got {got}. The structure comes second: fit_variational(df, structure)")
    for argument, count in (("max_children", max_children), ("restarts", restarts), ("max_steps", max_steps)):
        is_default = count is None and argument != "max_children"
        if not is_default and (isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1):
            raise ValueError(f"{argument} must be an integer of at least 1, got {quoted(count)}")
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise ValueError(f"tolerance must be positive and finite, got {quoted(tolerance)}")
    check_client(client)
    given_structure, partitions = structure, partitions_of(df)
    if client is not None and partitions is None:
        raise ValueError(
            "client is for a table in partitions: a path of parquet files or a dask DataFrame. Threads fit a table in "
            f"memory; df is {type(df).__name__}"
        )
    whole = None  # all rows of partitions, unless they are so few that they are a table like others
    if partitions is not None:
        whole, df, kinds = _read(partitions, structure, kinds, name, progressbar)
    structure, leaves, table, is_learned = network_inputs(structure, df, leaves, kinds, name, joint_leaves=joint_leaves)
    if restarts is None:
        restarts = RESTARTS if len(table.values) <= FEW_ROWS else 1
    steps = min(MAX_STEPS, max(MIN_STEPS, ROW_VISITS // max(len(table.values), 1)))
    passes = max_steps or PASSES
    if whole is None:
        steps = max_steps or steps
    given = {
        "concentration": concentration,
        "leaf_scale": leaf_scale,
        "leaf_shape": leaf_shape,
        "precision_ratio": precision_ratio,
        "covariance_scale": covariance_scale,
    }
    draft = draft_of(
        name, structure, table, leaves, resolution, rounded, joint_leaves, only_gaussian=True, learned=is_learned
    )
    some = table.values[:: max(1, len(table.values) // ROWS_LOOKED_AT)]
    some = np.where(some == 0.0, np.nan, some)  # a 0 that repeats has leaves of its own
    repeats = are_clumped(some, draft.resolution)
    repeats &= np.isin([column.kind for column in table.columns], DENSITY_KINDS)
    draft = replace(draft, clumped=tuple(np.array(table.names)[repeats].tolist()))
    if progressbar:
        report_choices(draft, given_structure, rounded, joint_leaves)
    n_columns = len(table.columns)
    values, learned = {}, np.zeros((len(HYPERPARAMETERS), max(2, n_columns)), np.bool_)
    for i, group in enumerate(HYPERPARAMETERS):
        size = 2 if group == "concentration" else n_columns
        if given[group] is not None:
            values[group] = numbers_of_hyperparameter(group, given[group], draft, size)
            continue
        values[group] = np.full(size, STARTS[group])
        learned[i, draft.places_of(group)] = True
    rng = np.random.default_rng(random_seed)
    hyperpriors = np.array([PRIORS[group] for group in HYPERPARAMETERS], np.float64)
    with parallel_config(n_jobs):
        if whole is None:
            fit = fit_by_ascent(
                draft, table.values, values, learned, hyperpriors, max_children, restarts, steps, tolerance, rng,
                progressbar,
            )  # fmt: skip
        else:
            fit = fit_partitions(
                draft, table.values, partial(_checked_tables, whole, draft, progressbar), values, learned, hyperpriors,
                max_children, restarts, steps, passes, tolerance, rng, progressbar, client,
            )  # fmt: skip
    schema = replace(draft, hyperparameters={k: {"fixed": v.tolist()} for k, v in fit.hyperparameters.items()})
    if not fit.is_converged:
        warnings.warn(
            f"ps.fit_variational: max_steps={steps if whole is None else passes} ended the fit while its bound still "
            "gained; answers are those of this state, which may not know small groups of rows: set max_steps higher",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return VariationalPosterior(RecordedLaw(FittedStates(schema, fit)))


def _read(
    partitions: Partitions,
    structure: Any,
    kinds: Kinds | None,
    name: str,
    progressbar: bool,
) -> tuple[PartitionedTable | None, Any, Kinds | None]:
    """The partitions with their schema, a sample of rows as a table of it, and kinds that are still to be looked at.

    Where the sample holds all rows, there are no partitions any more. The seed is fixed: what the sample decides does
    not change with the seed of a fit.
    """
    with ProgressBar("Reading partitions", len(partitions.names), progressbar) as bar:
        whole = read_partitions(partitions, kinds, SAMPLE_ROWS, np.random.default_rng(0), bar)
    if whole.n_rows == len(whole.sample):
        return None, whole.sample, kinds
    own = getattr(structure, "columns", ())
    if own and all(isinstance(column, Column) for column in own):
        return whole, whole.sample, kinds  # the structure has its kinds; others are refused
    table = Table.from_frame(whole.sample, schema=whole.columns)
    report_guesses(table.columns, kinds, name)
    warn_of_identifiers(whole.sample, table.columns, by_name("kinds", kinds or {}))
    for d, column in enumerate(table.names):
        if np.isnan(table.values[:, d]).all():
            raise ValueError(
                f"column {column!r} has no value in a sample of {len(table.values):,} of {whole.n_rows:,} rows, from "
                "which structure and priors are learned; drop it"
            )
    return whole, table, None


def _checked_tables(whole: PartitionedTable, schema: NetworkSchema, progressbar: bool) -> Iterator[np.ndarray]:
    """Values of all rows in the order of the network's columns, checked cell by cell."""
    with ProgressBar("Checking partitions", len(whole.partitions.names), progressbar) as bar:
        for partition, table in whole.tables(schema.columns, bar):
            with naming_partition(partition):
                check_supports(schema, table)
                for d, entries in enumerate(schema.palette):
                    for entry in entries:
                        entry.refuse_column(schema.columns[d].name, table.values[:, d])
            yield table.values
