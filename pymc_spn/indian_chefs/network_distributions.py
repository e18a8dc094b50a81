"""`NLGBN`, `LinearGaussianNetwork`, `SigmoidBeliefNetwork`: likelihoods on a graph of unknown size."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import objmode
from pymc.distributions.shape_utils import convert_dims
from pymc.logprob.abstract import _logprob
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammainc

from pymc_spn.indian_chefs.belief_network_schema import LINEAR, NETWORK_SCHEMA, NONLINEAR, SIGMOID, BeliefNetworkSchema
from pymc_spn.indian_chefs.distributions import GraphVariable
from pymc_spn.indian_chefs.network_draws import draw_data
from pymc_spn.indian_chefs.process import TICKET, check_positive
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.unit_scaling import UnitScaling, table_of
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.steps.tickets import refuse_a_fixed_ticket
from pymc_spn.tables.dimensions import own_dims, refuse_columns_in_another_order
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame
from pymc_spn.tables.inputs import Dims, TableLike

STALE = (
    "it needs the hidden units of the running chain, which stored draws do not hold, so that PyMC can neither evaluate "
    "nor predict it; post = ps.BeliefNetworkPosterior.from_idata(idata) has post.log_density(X), post.log_likelihood() "
    "for az.loo and post.sample(n)"
)

SMALLEST_PRECISION = 1e-280  # sums of squares of values with such a precision are still numbers
LARGEST_VALUE = 1e18  # of a linear network: precisions down to its square's inverse are recorded in single precision
LARGEST_LOSS = 1e-9  # of what a prior gives to smaller ones: below one in the births that any run tries


class BeliefNetworkRV(RandomVariable):
    """A table given the graph of the running chain: ticket, reputations, parents, head, template of its shape.

    ``head`` holds the ticket and the log density of parameters, hidden units and data as the step left them.
    """

    name, dtype = "BeliefNetwork", "float64"
    signature = "(),(),(k),(k,k),(h),(n,d)->(n,d)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "kind", "prior")
    _print_name = ("BeliefNetwork", "\\operatorname{BeliefNetwork}")

    def __init__(self, kind=NONLINEAR, prior=NetworkPrior(), **kwargs):  # noqa: B008 - a tuple of numbers
        self.kind, self.prior = kind, tuple(prior)
        super().__init__(**kwargs)

    def rng_fn(self, rng, ticket, n_nodes, reputations, parents, head, template, size):
        if ticket != 0.0:
            raise NotImplementedError(f"ps.NLGBN and its relatives: {STALE}")
        n, d = template.shape[-2:]
        shape = () if size is None else tuple(size)
        out = np.empty((*shape, n, d))
        count = int(n_nodes)
        for place in np.ndindex(*shape):
            graph = parents[:count, :count].astype(bool), reputations[:count]
            out[place] = draw_data(rng, self.kind, NetworkPrior(*self.prior), *graph, n, d)
        return out


@numba_core_rv_funcify.register(BeliefNetworkRV)
def _(op, node):
    def draw(rng, *parameters):
        return op.rng_fn(rng, *parameters, None)

    @numba_njit
    def table(rng, ticket, n_nodes, reputations, parents, head, template):
        with objmode(out="float64[:,::1]"):  # prior predictive draws are rare
            out = draw(rng, ticket, n_nodes, reputations, parents, head, template)
        return out

    return table, None


@_logprob.register(BeliefNetworkRV)
def _(op, values, rng, size, ticket, n_nodes, reputations, parents, head, template, **kwargs):
    refuse_a_fixed_ticket(ticket)
    is_own = pt.or_(pt.eq(ticket, 0.0), pt.eq(ticket, head[0]))
    return CheckAndRaise(RuntimeError, f"ps.NLGBN and its relatives: {STALE}")(head[1], is_own)


def NLGBN(
    name: str,
    graph: GraphVariable,
    *,
    observed: TableLike,
    scaling: UnitScaling | None = None,
    weight_sd: float = 1.0,
    bias_sd: float = 1.0,
    precision: tuple[float, float] = (0.5, 0.5),
    dims: Dims | None = None,
) -> TensorVariable:
    """Nonlinear Gaussian belief network on a graph: u_i = sigmoid(a_i), a_i ~ N(b_i + sum_k w_ki u_k, 1 / rho_i).

    `NLGBNStep`, which ``pm.sample`` picks by itself, moves the graph, the hidden units and all parameters;
    `NLGBNPosterior` reads the draws.

    Parameters
    ----------
    name : str
    graph : GraphVariable
        From `IndianChefsProcess`; a graph has one likelihood.
    observed : DataFrame of pandas, polars or pyarrow, or (N, D) array
        Columns are the observed nodes, by name where it is a frame that has them. Values inside (0, 1), or in their
        own units where `scaling` is given. NaN is a gap: the cell counts as missing at random, and chains draw it.
    scaling : UnitScaling, optional
        Applied to `observed` and kept with the draws, so that the posterior answers in the data's units.
    weight_sd, bias_sd : float
        Standard deviations of the normal priors.
    precision : (float, float)
        Shape and rate of the gamma prior of each node's precision; the shape is 0.05 or more, since vaguer priors put
        weight on precisions that floating point does not hold.
    dims : (str, str), optional
        Names of the dimensions of rows and columns; a coordinate of these has the columns in the order of the nodes.
        By default ``(name_row, name_column)``, with the table's labels.

    Returns
    -------
    TensorVariable
        The observed variable, on the unit scale.

    Raises
    ------
    TypeError, ValueError
        Values outside (0, 1), with their place; a column of gaps; a graph that has a likelihood already.

    Examples
    --------
    >>> columns = numbers[["age", "income"]]
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["age", "income"])
    ...     scaling = ps.indian_chefs.UnitScaling.from_data(columns)
    ...     x = ps.NLGBN("x", graph, observed=columns, scaling=scaling)
    ...     drawn = pm.sample(**few)
    >>> ps.NLGBNPosterior.from_idata(drawn).sample(3, random_seed=1).shape
    (3, 2)
    """
    table = _read(graph, observed, scaling, gaps=True)
    values, gaps = table.values, np.isnan(table.values)
    if gaps.all(0).any():
        raise ValueError(
            f"observed must have a value in every column; {table.names[int(np.argmax(gaps.all(0)))]!r} has none"
        )
    _refuse(
        table,
        ~(gaps | ((values > 0.0) & (values < 1.0))),
        "lie strictly between 0 and 1",
        "; give scaling=ps.indian_chefs.UnitScaling.from_data(X)",
    )
    return _register(name, graph, NONLINEAR, table, weight_sd, bias_sd, precision, dims)


def LinearGaussianNetwork(
    name: str,
    graph: GraphVariable,
    *,
    observed: TableLike,
    weight_sd: float = 1.0,
    bias_sd: float = 1.0,
    precision: tuple[float, float] = (0.5, 0.5),
    dims: Dims | None = None,
) -> TensorVariable:
    """Linear Gaussian belief network on a graph: x_i ~ N(b_i + sum_k w_ki x_k, 1 / rho_i), hidden nodes too.

    `LinearGaussianStep` is picked by ``pm.sample``; `BeliefNetworkPosterior` reads the draws.

    Parameters
    ----------
    name : str
    graph : GraphVariable
        From `IndianChefsProcess`; a graph has one likelihood.
    observed : DataFrame of pandas, polars or pyarrow, or (N, D) array
        Columns are the observed nodes, by name where it is a frame that has them. Any real numbers, so standardise
        columns whose scale is far from one.
    weight_sd, bias_sd, precision
        As in `NLGBN`, in the units of the columns.
    dims : (str, str), optional
        Names of the dimensions of rows and columns; a coordinate of these has the columns in the order of the nodes.
        By default ``(name_row, name_column)``, with the table's labels.

    Returns
    -------
    TensorVariable
        The observed variable.

    Raises
    ------
    TypeError, ValueError
        Values beyond 1e18 or gaps, with their place; a graph that has a likelihood already.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     x = ps.LinearGaussianNetwork("x", graph, observed=rng.normal(size=(20, 2)))
    ...     drawn = pm.sample(**few)
    >>> ps.BeliefNetworkPosterior.from_idata(drawn).graphs.edge_probabilities().dims
    ('parent', 'child')
    """
    table = _read(graph, observed)
    rule = f"lie within {LARGEST_VALUE:g} of 0, or the draws cannot record its precision"
    _refuse(table, np.abs(table.values) > LARGEST_VALUE, rule, "; standardise the column")
    return _register(name, graph, LINEAR, table, weight_sd, bias_sd, precision, dims)


def SigmoidBeliefNetwork(
    name: str,
    graph: GraphVariable,
    *,
    observed: TableLike,
    weight_sd: float = 1.0,
    bias_sd: float = 1.0,
    dims: Dims | None = None,
) -> TensorVariable:
    """Sigmoid belief network on a graph: binary x_i with P(x_i = 1) = sigmoid(b_i + sum_k w_ki x_k).

    `SigmoidNetworkStep` is picked by ``pm.sample``; `BeliefNetworkPosterior` reads the draws.

    Parameters
    ----------
    name : str
    graph : GraphVariable
        From `IndianChefsProcess`; a graph has one likelihood.
    observed : DataFrame of pandas, polars or pyarrow, or (N, D) array
        Columns are the observed nodes, by name where it is a frame that has them; cells are 0 and 1.
    weight_sd, bias_sd : float
        Standard deviations of the normal priors, in logits.
    dims : (str, str), optional
        Names of the dimensions of rows and columns; a coordinate of these has the columns in the order of the nodes.
        By default ``(name_row, name_column)``, with the table's labels.

    Returns
    -------
    TensorVariable
        The observed variable.

    Raises
    ------
    TypeError, ValueError
        Values other than 0 and 1 or gaps, with their place; a graph that has a likelihood already.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     x = ps.SigmoidBeliefNetwork("x", graph, observed=rng.integers(2, size=(20, 2)))
    ...     drawn = pm.sample(**few)
    >>> ps.BeliefNetworkPosterior.from_idata(drawn).graphs.edge_probabilities().dims
    ('parent', 'child')
    """
    table = _read(graph, observed)
    _refuse(table, (table.values != 0.0) & (table.values != 1.0), "be 0 or 1")
    return _register(name, graph, SIGMOID, table, weight_sd, bias_sd, (0.5, 0.5), dims)


class _Observed(NamedTuple):
    """A table (N, D), its columns in the order of the nodes; its index, its kind, the scaling that made it."""

    names: tuple[str, ...]
    values: np.ndarray
    index: Any
    frame: str | None
    scaling: UnitScaling | None


def _read(graph: Any, observed: Any, scaling: Any = None, gaps: bool = False) -> _Observed:
    frame, observed = frame_kind(observed), pandas_frame(observed, "observed")
    names, index = _node_columns(graph, observed), getattr(observed, "index", None)
    if scaling is not None:
        if not isinstance(scaling, UnitScaling):
            raise TypeError(f"scaling must be a ps.indian_chefs.UnitScaling; got {type(scaling).__name__}")
        if len(scaling.columns) != len(names):
            raise ValueError(
                f"scaling must have the columns of observed, {quoted(list(names))}; it has "
                f"{quoted(list(scaling.columns))}"
            )
        if set(scaling.columns) == set(names):
            scaling = scaling.in_order(names)
        elif not hasattr(observed, "columns"):
            scaling = replace(scaling, columns=names)  # an array has columns by place alone
        observed = scaling.transform(observed)
    names, values = table_of(observed, "observed", names, gaps)
    return _Observed(names, values, index, frame, scaling)


def _refuse(table: _Observed, wrong: np.ndarray, rule: str, advice: str = "") -> None:
    """Refuse a table with a cell that is wrong, (N, D) bool."""
    if wrong.any():
        r, c = np.argwhere(wrong)[0]
        place = f"row {r}, column {table.names[c]!r} is {table.values[r, c]:g}"
        raise ValueError(f"observed must {rule}: {place}{advice}")


def _node_columns(graph: Any, observed: Any) -> tuple[str, ...]:
    """Columns of a table in the order of the observed nodes."""
    if not isinstance(graph, GraphVariable):
        raise TypeError(f"graph must come from ps.IndianChefsProcess; got {type(graph).__name__}")
    nodes = graph.observed_nodes
    found = [str(c) for c in getattr(observed, "columns", [])]
    if found and not set(nodes) <= set(found):
        if set(nodes) & set(found) or len(found) != len(nodes):
            lacking = [n for n in nodes if n not in found]
            raise ValueError(
                f"observed must have the columns {quoted(list(nodes))} of the graph; {lacking[0]!r} is missing"
            )
        return tuple(found)  # columns in the order of the nodes, under names of their own
    if not found and not isinstance(observed, np.ndarray | list | tuple):
        return nodes  # no table: refused where it is read, by its type
    width = len(found) if found else np.ndim(observed) == 2 and np.shape(observed)[1]
    if not found and width != len(nodes):
        raise ValueError(
            f"observed must have a column for each of the graph's {len(nodes)} nodes; its shape is {np.shape(observed)}"
        )
    return nodes


def _register(name, graph, kind, table, weight_sd, bias_sd, precision, dims):
    columns, values = table.names, table.values
    model = pm.modelcontext(None)
    full = model.name_for(name)
    claimed = getattr(graph.packed.tag, "graph_likelihood", None)
    if claimed is not None:
        raise ValueError(f"graph {graph.name!r} has the likelihood {claimed!r} already; one graph has one likelihood")
    numbers = [check_positive(a, v) for a, v in (("weight_sd", weight_sd), ("bias_sd", bias_sd))]
    if not isinstance(precision, tuple | list) or len(precision) != 2:
        raise TypeError(f"precision must be a pair (shape, rate); got {quoted(precision)}")
    gamma = [check_positive(f"precision[{i}]", v) for i, v in enumerate(precision)]
    lost = float(gammainc(gamma[0], gamma[1] * SMALLEST_PRECISION))
    if lost > LARGEST_LOSS:
        raise ValueError(
            f"precision = ({gamma[0]:g}, {gamma[1]:g}) gives a probability of {lost:.2g} to precisions below "
            f"{SMALLEST_PRECISION:g}, too small for floating point; take a shape of 0.05 or more"
        )
    dims = convert_dims(dims)
    refuse_columns_in_another_order(dims, model.coords, columns)
    dims = dims or own_dims(model, full, columns, len(values), table.index)
    prior = NetworkPrior(numbers[0] ** -2, numbers[1] ** -2, *gamma)
    ticket = model[f"{graph.name}{TICKET}"]
    head = pytensor.shared(np.zeros(2), name=f"{full}_head", shape=(2,))
    template = pytensor.shared(values, name=f"{full}_template", shape=values.shape)
    _, rv = BeliefNetworkRV(kind=kind, prior=prior)(
        ticket,
        graph.n_nodes,
        graph.reputations,
        graph.parents,
        head,
        template,
        rng=pt.random.shared_rng(seed=None),
        return_next_rng=True,
    )
    rv = model.register_rv(rv, name, observed=pt.constant(values), dims=dims)
    for v in model.free_RVs:
        if getattr(v.tag, "graph_owner", None) == graph.name:
            v.tag.graph_likelihood, v.tag.network_kind = full, kind
    graph.packed.tag.graph_likelihood = full
    digest = data_digest(columns, values.astype(pytensor.config.floatX))
    own = full, graph.name, kind, columns, prior._asdict(), table.scaling, graph.max_nodes, digest, table.frame
    schema = BeliefNetworkSchema(*own)
    keep_data(model, f"{name}{NETWORK_SCHEMA}", schema.to_vector())
    return rv
