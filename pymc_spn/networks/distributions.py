"""`SPN`: a Bayesian sum-product network over the rows of a table, as an observed variable of a PyMC model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import objmode
from pymc.distributions.distribution import Distribution
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.networks.hyperparameter_inputs import vector_of_hyperparameter
from pymc_spn.networks.missing_cells import MissingCells, first_guess, leaves_of_drawn
from pymc_spn.networks.network_tables import JointLeaves, draft_of, network_inputs, report_choices
from pymc_spn.networks.ops import NO_GRADIENT, STALE, collapsed_log_joint
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.networks.stored_starts import POSTERIOR, stored_start, structure_of_start
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.steps.model_inputs import HyperparameterLike
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.steps.tickets import LogJointTicket, Ticket, refuse_a_fixed_ticket
from pymc_spn.tables import Table
from pymc_spn.tables.dimensions import own_dimension, own_dims
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.inputs import Kinds, LeafFamilies, Resolution, Rounded, TableLike

if TYPE_CHECKING:
    from pymc_spn.networks.posterior import SPNPosterior


class _NetworkTicket(Ticket):
    rv_op = LogJointTicket("InducedTrees", NO_GRADIENT)


class SPNRandomVariable(RandomVariable):
    """The table, given hyperparameters and the running chain's state; ``schema`` is its JSON description."""

    name, dtype = "SPN", "float64"
    signature = "(c),(d),(d),(d),(d),(),(s),(e),(e,k),(l),(d,j),(n,d),(m)->(n,d)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "schema")
    _print_name = ("SPN", "\\operatorname{SPN}")

    def __init__(self, schema="", **kwargs):
        self.schema = schema
        super().__init__(**kwargs)

    def rng_fn(self, rng, *parameters):
        *hyperparameters, ticket, _, _, _, _, _, table, _, _ = parameters
        if ticket != 0.0:
            raise NotImplementedError(STALE)
        chain = Chain(NetworkSchema.from_vector(self.schema), table)
        return chain.draw_prior_table(rng, hyperparameters)


@numba_core_rv_funcify.register(SPNRandomVariable)
def _(op, node):
    def draw(rng, *parameters):
        return op.rng_fn(rng, *parameters, None)

    @numba_njit
    def table(
        rng,
        concentration,
        scale,
        shape,
        ratio,
        covariance,
        ticket,
        state,
        family,
        constants,
        n_levels,
        joint,
        observed,
        missing,
    ):
        with objmode(out="float64[:, ::1]"):  # draws are rare, and the sampler resizes its arrays in Python
            priors = (concentration, scale, shape, ratio, covariance)
            out = draw(rng, *priors, ticket, state, family, constants, n_levels, joint, observed, missing)
        return out

    return table, None


class _SPNDistribution(Distribution):
    """Registers the log density of `SPNRandomVariable`; variables are made by `SPN`."""

    rv_type = SPNRandomVariable

    def logp(
        value,
        concentration,
        scale,
        shape,
        ratio,
        covariance,
        ticket,
        state,
        family,
        constants,
        n_levels,
        joint,
        table,
        missing,
    ):
        refuse_a_fixed_ticket(ticket)
        _install_first_state(state)
        priors = (concentration, scale, shape, ratio, covariance)
        return collapsed_log_joint(*priors, ticket, state, family, constants, n_levels, joint, missing)[0]


def SPN(
    name: str,
    structure: RegionTree | Circuit | None = None,
    *,
    observed: TableLike | None = None,
    leaves: LeafFamilies | None = None,
    concentration: HyperparameterLike | None = None,
    leaf_scale: HyperparameterLike | None = None,
    leaf_shape: HyperparameterLike | None = None,
    precision_ratio: HyperparameterLike | None = None,
    joint_leaves: JointLeaves | None = "auto",
    covariance_scale: HyperparameterLike | None = None,
    resolution: Resolution = "auto",
    rounded: Rounded = "auto",
    missing: str = "marginal",
    missing_not_at_random: Sequence[str] | None = None,
    start: "str | SPNPosterior" = "kmeans",
    kinds: Kinds | None = None,
) -> TensorVariable:
    """Bayesian sum-product network with weights and leaf parameters integrated out.

    Rows are independent given the network. Every sum node has Dirichlet weights (a Chinese restaurant at infinite
    width), every leaf a conjugate prior. Both are integrated out. `TopDownSPNStep`, which ``pm.sample`` picks by
    itself, draws the rows' induced trees. Missing cells are summed out exactly.

    Parameters
    ----------
    name : str
        Name of the observed variable; also the prefix of all that it adds to the model.
    structure : RegionTree or Circuit, optional
        From `learn_tree`, `complete_tree` or `skewed_tree`, or an explicit circuit that is a tree: sums over products
        or over leaves of one column. If its columns carry kinds (`Column`), the table is coded by them. None learns
        the splits from the table, by `learn_tree` with seed 0: the same tree for all chains and each time the model is
        built. A line reports it. The posterior is conditional on this tree and does not account for its learning.
    observed : DataFrame of pandas, polars or pyarrow, Table, dict of columns or (N, D) array
        The data, which must be given; NaN, None and pd.NA are missing. Row labels other than numbers, NumPy datetimes
        or text (a MultiIndex, time zones, periods, intervals) stand in the result as their text, ``str(label)``.
    leaves : dict, optional
        Leaf families by column name: one such as ``ps.leaves.Gaussian()`` or a list of them. Other columns have the
        default of their kind. With a `Circuit` as structure they have the families of its leaves.
    concentration : None, float, array or PyMC variable
        Total mass of a sum node over several columns and over one column: one value or two. None learns both with
        Gamma(2, 1) priors.
    leaf_scale : None, float, (D,) array, dict or PyMC variable
        Prior scale of the leaves relative to the column (``families``). None learns one for each column with a
        LogNormal(log 0.3, 1) prior.
    leaf_shape, precision_ratio : None, float, (D,) array, dict or PyMC variable
        a0 and rho0 of Gaussian and log-normal leaves. None learns them for each column. a0 - 1 has a LogNormal(log 0.5,
        1) prior, so that every draw of the posterior has a covariance. rho0 has a LogNormal(log 0.05, 1) prior. A dict
        names every column with such leaves.
    joint_leaves : "auto", MultivariateGaussian or None
        Multivariate leaves of numeric columns, next to the splits. They occur wherever a sum node is over two or more
        of these columns and has infinitely many children. Whole components then move as well as rows. "auto" uses them
        where possible: over columns of real or positive numbers with Gaussian leaves, as for
        ``ps.leaves.MultivariateGaussian()``. If `start` is a posterior, "auto" does what that posterior does. There are
        no such leaves with ``missing="draw"`` or rounded whole numbers (`rounded`). A line reports them. None switches
        them off, which kernels other than "exact" need.
    covariance_scale : None, float, (D,) array, dict or PyMC variable
        Prior scale of the covariances of multivariate leaves, relative to the columns' variances. None learns one for
        each column with a LogNormal(log 0.1, 2) prior. A dict names every column that is in such leaves.
    resolution : "auto", float or dict
        Recording grid d of the columns with Gaussian or log-normal leaves: b0 >= a0 d^2 / 12, of logs with d over the
        geometric mean. The default "auto" finds it from the data. 0 switches the floor off.
    rounded : "auto", bool or list of str
        Columns whose values are rounded (interval-censored). Each value stands for an interval whose width d is that of
        the recording grid. The exact values are part of the state, and the likelihood is that of the intervals. Equal
        values then earn no density, so there is no floor on b0. `log_density` counts an interval by log(mass / d),
        which is comparable with a density. The default "auto" takes columns of real or positive numbers that only have
        Gaussian leaves and a grid on which values repeat. They repeat if there are two or more rows for each distinct
        value on average, or if equal values are so frequent that there would be a warning. True takes all columns with
        a grid and Gaussian or log-normal leaves; a list takes the columns it names. Whole numbers among them have
        intervals of width 1 and need the kernel "exact". With ``missing="draw"``, whole numbers and columns with
        missing cells stay exact.
    missing : {"marginal", "draw"}
        What happens to missing cells: they are summed out, or drawn. Drawn cells are the free vector
        ``<name>_missing``, row by row, which other parts of the model may use (`completed_columns`). The network
        proposes their values, and the rest of the model accepts or rejects them.
    missing_not_at_random : list of str, optional
        Columns whose gaps are informative. Each gets a binary column ``<name>_is_missing`` after the columns of the
        table, which the network learns like any other. If you give a `structure`, it must have this column, too.
        Questions about rows fill it in from the gaps of these rows.
    start : {"kmeans", "prior"} or SPNPosterior
        How each chain starts. If it is a posterior of the same network, the chains continue from it: `observed` begins
        with its rows and may hold more. Each chain takes one of its recorded draws at random, so that these rows keep
        their components. The other rows are placed one after another by their conditional distributions. `structure` is
        then that of the posterior by default. Whatever the start, the posterior of the whole table is sampled.
    kinds : dict, optional
        Kinds of columns that differ from those found by dtypes and values, as in `Table.from_frame`. How whole numbers
        were read is reported once, like the messages of ``pm.sample``.

    Returns
    -------
    TensorVariable
        The observed variable. The model also gets ``<name>_log_joint``, which holds the log joint of data and
        assignments in nats, and the hyperparameters that are learned: ``<name>_concentration``,
        ``<name>_leaf_scale``, ``<name>_leaf_shape``, ``<name>_precision_ratio``. With ``missing="draw"`` it has
        ``<name>_missing`` too, and the log joint is that of the completed table.

    Raises
    ------
    ValueError, TypeError
        If data do not fit their kinds, columns are not those of the structure, or hyperparameters are not positive or
        have the wrong length. The message names the argument, the rule, the value and the place.

    Examples
    --------
    >>> with pm.Model():
    ...     x = ps.SPN("x", observed=df)
    ...     idata = pm.sample(**few)
    >>> post = ps.SPNPosterior.from_idata(idata)
    >>> post.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']

    References
    ----------
    Yokoi and Sato (2024), Top-down Bayesian posterior sampling for sum-product networks, equations 6 to 13.
    """
    model = pm.modelcontext(None)
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {quoted(name)}: ps.SPN('x', observed=df)")
    if missing not in ("marginal", "draw"):
        raise ValueError(
            f'missing must be "marginal", which sums missing cells out, or "draw", which makes them a variable; '
            f"got {quoted(missing)}"
        )
    if missing == "draw":
        if joint_leaves is not None and joint_leaves != "auto":
            raise ValueError(
                'joint_leaves needs missing="marginal": multivariate leaves draw the missing cells of their rows '
                "themselves"
            )
        joint_leaves = None
    if isinstance(start, str) and start not in ("kmeans", "prior"):
        raise ValueError(f'start must be "kmeans", "prior" or an SPNPosterior; got {quoted(start)}')
    stored_structure = None if isinstance(start, str) else structure_of_start(start)
    if stored_structure is not None and joint_leaves == "auto":
        joint_leaves = stored_structure[2]  # and no more is left to the table
    if observed is None:
        is_table = structure is not None and not isinstance(structure, RegionTree | Circuit)
        given = f"structure must be a RegionTree or a Circuit, got {type(structure).__name__}. " if is_table else ""
        between = ", structure" if not is_table and structure is not None else ""
        raise TypeError(f"{given}Give the table as observed: ps.SPN({name!r}{between}, observed=df)")
    name = model.name_for(name)  # a model inside a model puts its own name before it
    chosen = stored_structure[0] if stored_structure is not None and structure is None else structure
    structure, leaves, table, is_learned = network_inputs(
        chosen, observed, leaves, kinds, name, marked=missing_not_at_random, joint_leaves=joint_leaves
    )
    if stored_structure is not None and structure is stored_structure[0]:
        is_learned = stored_structure[1]
    if missing == "draw":
        leaves = leaves_of_drawn(table, leaves)
    sources = {
        "concentration": concentration,
        "leaf_scale": leaf_scale,
        "leaf_shape": leaf_shape,
        "precision_ratio": precision_ratio,
        "covariance_scale": covariance_scale,
    }
    draft = draft_of(
        name, structure, table, leaves, resolution, rounded, joint_leaves, drawn=missing == "draw",
        start=start if isinstance(start, str) else POSTERIOR, missing=missing, learned=is_learned,
        n_rows=len(table.values), data=data_digest(table.names, table.values.astype(pytensor.config.floatX)),
    )  # fmt: skip
    stored = None if isinstance(start, str) else stored_start(start, draft, table)
    dims = own_dims(model, name, table.names, len(table.values), table.index)
    for group in ("concentration", "leaf_shape", "covariance_scale"):
        dimension, labels = draft.labels_of(group, draft.places_of(group).size)
        if labels:
            own_dimension(model, f"{name}_{dimension}", labels)
    vectors, hyperparameters = {}, {}
    # the user's variables first: pm.sample then runs NUTS before our step, and the ticket fits the recorded draw
    for group in sorted(HYPERPARAMETERS, key=lambda g: sources[g] is None):
        vectors[group], hyperparameters[group] = vector_of_hyperparameter(name, group, sources[group], draft, model)
    ticket = _NetworkTicket(f"{name}_log_joint")
    ticket.tag.spn_owner = name
    schema = replace(draft, hyperparameters=hyperparameters)
    compiled = draft.compiled
    gaps, completed = _missing_cells(name, draft, table, model) if missing == "draw" else (np.zeros(0), table.values)
    state = pytensor.shared(np.zeros(0), name=f"{name}_state", shape=(None,))
    state.tag.spn_first = partial(_first_state, draft, completed)
    data = pytensor.shared(np.array(table.values), name=f"{name}_table", shape=table.values.shape)
    _, rv = SPNRandomVariable(schema=schema.to_json())(
        *(vectors[group] for group in HYPERPARAMETERS),
        ticket,
        state,
        compiled.family,
        compiled.constants,
        compiled.n_levels,
        compiled.joint_constants,
        data,
        gaps,
        rng=pt.random.shared_rng(seed=None),
        return_next_rng=True,
    )
    rv = model.register_rv(rv, name, observed=data, dims=dims)
    rv.tag.spn_start = stored
    keep_data(model, f"{name}_schema", schema.to_vector())
    if missing == "draw":
        rv.tag.spn_completed = (schema, np.array(table.values), gaps)
    report_choices(schema, chosen, rounded, joint_leaves)
    return rv


def _first_state(schema: NetworkSchema, completed: np.ndarray) -> np.ndarray:
    return Chain(schema, completed).statistics_of_one_cluster()


def _install_first_state(state: TensorVariable) -> None:
    """Fill the state that is to be read, if it is still empty: this compiles for seconds, and `SPN` does not wait."""
    for variable in graph_inputs([state]):
        first = getattr(variable.tag, "spn_first", None)
        if first is None or not isinstance(variable, SharedVariable):
            continue
        if variable.get_value(borrow=True).size == 0:
            variable.set_value(first(), borrow=True)


def _missing_cells(
    name: str, schema: NetworkSchema, table: Table, model: pm.Model
) -> tuple[TensorVariable, np.ndarray]:
    """The variable of the missing cells, and the table with the values at which they start."""
    rows, places = np.nonzero(np.isnan(table.values))
    if not rows.size:
        raise ValueError('missing="draw" needs a missing cell, and observed has none: leave it at "marginal"')
    start = first_guess(table)[places]
    labels = [f"{table.index[n]}: {table.names[d]}" for n, d in zip(rows, places, strict=True)]
    dims = own_dimension(model, f"{name}_cell", labels)
    cells = MissingCells(f"{name}_missing", start, schema.lowest[places], dims=dims)
    cells.tag.spn_owner = name
    completed = np.array(table.values)
    completed[rows, places] = start
    return cells, completed
