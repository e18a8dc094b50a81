"""Discrete fields inside a PyMC model: summed out exactly, so that NUTS sees only continuous parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size, convert_dims, rv_size_is_none
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_spn.circuits.evaluation.parameters import array_values
from pymc_spn.factor_graphs.evidence import code_values
from pymc_spn.factor_graphs.graph import FactorGraph
from pymc_spn.factor_graphs.ops import field_draws, log_partition, plan_inputs
from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.no_tensor import NoTensor
from pymc_spn.tables import row_labels
from pymc_spn.tables.dimensions import own_dimension
from pymc_spn.tables.frame_kinds import column_array, pandas_frame
from pymc_spn.tables.inputs import Dims


class DiscreteField(NoTensor):
    """Add the variables of a factor graph to the model, summed out.

    A handle and not a tensor: it takes part in the model through one `FieldEmission`.

    Parameters
    ----------
    name : str
    graph : FactorGraph
        Its tables may be tensors of the model.
    dims : str, optional
        Name of the dimension of the field's variables in the answers of `recover_discrete`.
    max_table : int, optional
        As in `FactorGraph.compile`.

    Raises
    ------
    TooWideError
        If the graph has no junction tree within ``max_table``.
    TypeError
        If a table depends on a continuous variable of the model through an operation without gradient.

    Examples
    --------
    >>> chain = ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", sigma=10.0, shape=2)  # one mean for each state
    ...     states = ps.DiscreteField("z", chain)
    ...     data = {"y": [0.1, 0.3, 5.2, 4.9]}
    ...     y = ps.FieldEmission("y", states, components={"y": pm.Normal.dist(mu, 1.0)}, observed=data)
    ...     idata = pm.sample()  # doctest: +SKIP
    """

    instead = (
        "discrete field {name!r} is summed out, so it has no value to compute with: instead of mu[{name}] write "
        "ps.FieldEmission('y', {name}, components={{'y': pm.Normal.dist(mu, sigma)}}, observed={{'y': data}}), with "
        "the states on the last axis of mu, and ask ps.factor_graphs.recover_discrete for its states after sampling"
    )

    def __init__(self, name: str, graph: FactorGraph, *, dims: str | None = None, max_table: int | None = None) -> None:
        if not isinstance(graph, FactorGraph):
            raise TypeError(f"graph must be a FactorGraph, got {type(graph).__name__}")
        model = pm.modelcontext(None)
        self.name = model.name_for(name)
        if self.name in model.named_vars:
            raise ValueError(f"the model already has a variable {self.name!r}")
        self.tree = graph.compile() if max_table is None else graph.compile(max_table)
        self.graph = self.tree.graph
        self.dims = dims or f"{self.name}_variable"
        self.emission: str | None = None
        blocks = [pt.as_tensor_variable(b).ravel().astype("float64") for b in self.graph.blocks]
        tables: Any = pt.concatenate(blocks) if blocks else pt.zeros((0,))
        self.potentials = cast(Any, pt.tensor_copy(tables))
        _check_gradients(self.graph, model)
        self.potentials.name = self.name  # in pictures of the model; PyMC neither draws nor records it
        entry = own_dimension(model, f"{self.name}_table_entry", None, self.graph.n_potentials)
        model.add_named_variable(self.potentials, dims=(entry,))

    def _facts(self) -> Facts:
        return Facts("DiscreteField", {"name": repr(self.name), "graph": repr(self.tree)})


def _check_gradients(graph: FactorGraph, model: Any) -> None:
    """Refuse tables that depend on continuous variables through operations without derivative."""
    for number, block in enumerate(graph.blocks):
        if isinstance(block, np.ndarray):
            continue
        above = set(ancestors([block]))
        free = [v for v in model.free_RVs if v in above and v.type.dtype.startswith("float")]
        if not free:
            continue
        where = f"log_table of factor {_first_scope(graph, number)}"
        blocked = [v for v in free if v not in _differentiable_ancestors(block)]
        if blocked:
            raise TypeError(
                f"{where} depends on {blocked[0].name!r} only through operations without gradient (comparing or "
                f"rounding to integers), so NUTS cannot sample it: {block}"
            )
        try:
            pytensor.grad(block.astype("float64").sum(), free, null_gradients="raise")
        except (NotImplementedError, NullTypeGradError, DisconnectedInputError, AttributeError) as error:
            raise TypeError(f"{where} has no gradient, so NUTS cannot sample it: {error}") from error


def _differentiable_ancestors(block: Any) -> set[Any]:
    """Variables that reach a tensor through floats alone."""
    found: set[Any] = set()
    waiting = [block]
    while waiting:
        x = waiting.pop()
        if x not in found and str(getattr(x.type, "dtype", "")).startswith("float"):
            found.add(x)
            waiting += x.owner.inputs if x.owner else []
    return found


def _first_scope(graph: FactorGraph, block: int) -> tuple[str, ...]:
    start = sum(int(np.prod(shape)) for shape in graph.block_shapes[:block])
    return graph.scope_of(int(np.flatnonzero(graph.offsets() == start)[0]))


@dataclass(frozen=True)
class Component:
    """One component of an emission: which variables it belongs to, and which columns of the data hold it."""

    name: str
    sites: np.ndarray  # variable numbers
    columns: slice
    n_parameters: int
    node: Any  # the Apply of the distribution, as a template
    output: int
    batch_ndim: int
    dtype: str


@dataclass(frozen=True)
class EmissionSpec:
    """What `recover_discrete` needs to know of an emission; kept in the variable's tag."""

    field: DiscreteField
    components: tuple[Component, ...]
    observed_sites: np.ndarray  # of the first columns
    parameters: tuple[Any, ...]
    values: np.ndarray  # (n_rows, n_columns)
    has_rows: bool
    row_dim: str
    rows: Any  # labels of the rows, None where they are numbers
    cells: tuple[str, ...]  # what each column holds

    def evidence(self, value: Any, parameters: Sequence[Any]) -> tuple[Any, Any]:
        """Codes (k, n_variables) and log evidence (k, n_states) of rows of data as tensors; k may be 0."""
        graph, arrays = self.field.graph, self.field.tree.plan.arrays
        n_rows = value.shape[0]
        n_states = int(arrays.state_start[-1])
        codes = pt.zeros((0, len(graph.names)), dtype="int32")
        if self.observed_sites.size:
            given = value[:, : self.observed_sites.size]
            given = pt.switch(pt.isnan(given), -1, given).astype("int32")
            codes = pt.full((n_rows, len(graph.names)), -1, dtype="int32")[:, self.observed_sites].set(given)
        soft, used = None, 0
        for component in self.components:
            own = parameters[used : used + component.n_parameters]
            used += component.n_parameters
            log_p = _log_density(component, own, value[:, component.columns], self.values[:, component.columns])
            k = int(graph.card[component.sites[0]])
            log_p = pt.broadcast_to(log_p, (n_rows, component.sites.size, k)).reshape((n_rows, -1))
            if not np.array_equal(component.sites, np.arange(len(graph.names))):
                states = (arrays.state_start[component.sites][:, None] + np.arange(k)).ravel()
                log_p = pt.zeros((n_rows, n_states))[:, states].set(log_p)
            soft = log_p if soft is None else soft + log_p
        return codes, pt.zeros((0, n_states)) if soft is None else soft.astype("float64")

    def log_density(self, value: Any, potentials: Any, *parameters: Any) -> Any:
        """One term for each row: log Z with the evidence less log Z without."""
        tree = self.field.tree
        plan = plan_inputs(tree.plan.arrays)
        rows = value if self.has_rows else value[None]
        codes, soft = self.evidence(rows, parameters)
        n = rows.shape[0]
        if self.field.graph.is_symbolic:  # one more row, without evidence: the prior's log Z
            if self.components:
                soft = pt.concatenate([soft, pt.zeros((1, soft.shape[1]))])
            if self.observed_sites.size:
                codes = pt.concatenate([codes, pt.full((1, codes.shape[1]), -1, dtype="int32")])
            log_z = log_partition(potentials, codes, soft, pt.zeros((n + 1,)), *plan)
            result = log_z[:-1] - log_z[-1]
        else:
            result = log_partition(potentials, codes, soft, pt.zeros((n,)), *plan) - tree.log_z
        return result if self.has_rows else result[0]

    def draw(self, potentials: Any, *rest: Any) -> Any:
        """Random data of the same shape: states from the field, then data from their components."""
        *parameters, size = rest
        is_table = not rv_size_is_none(size) and size.type.shape != (0,)
        n_rows = size[0] if is_table else 1
        tree = self.field.tree
        uniforms = pm.Uniform.dist(0.0, 1.0, size=(n_rows, tree.plan.n_cliques))
        z = field_draws(potentials, uniforms, *plan_inputs(tree.plan.arrays))
        columns = [z[:, self.observed_sites].astype("float64")] if self.observed_sites.size else []
        used = 0
        for component in self.components:
            own = parameters[used : used + component.n_parameters]
            used += component.n_parameters
            lead = (n_rows, component.sites.size)[: 3 - component.batch_ndim]
            rv = change_dist_size(_rebuilt(component, own), lead, expand=True)
            chosen = z[:, component.sites]
            columns.append(pt.take_along_axis(rv, chosen[..., None], axis=-1)[..., 0].astype("float64"))
        value = pt.concatenate(columns, axis=1)
        return value if is_table else value[0]


def _rebuilt(component: Component, parameters: Sequence[Any]) -> Any:
    """The component's distribution with other tensors as parameters."""
    left = list(parameters)
    inputs = [left.pop(0) if _is_parameter(x) else x for x in component.node.inputs]
    return component.node.op.make_node(*inputs).outputs[component.output]


def _is_parameter(x: Any) -> bool:
    """A tensor that is no constant."""
    return isinstance(x.type, pt.TensorType) and (x.owner is not None or not hasattr(x, "data"))


def _log_density(component: Component, parameters: Sequence[Any], value: Any, recorded: np.ndarray) -> Any:
    """(n_rows, n_sites, K) log densities, 0 where the value is missing."""
    rv = _rebuilt(component, parameters)
    seen = recorded[~np.isnan(recorded)]
    missing = pt.isnan(value)
    # A missing cell is evaluated at some observed value, so that its derivative, times zero, is finite.
    filled = pt.switch(missing, seen[0] if seen.size else 0.0, value)[..., None]
    if not component.dtype.startswith("float"):
        filled = filled.astype("int64")
    return pt.switch(missing[..., None], 0.0, pm.logp(rv, filled))


def FieldEmission(
    name: str,
    field: DiscreteField,
    *,
    components: Mapping[str, TensorVariable] | None = None,
    observed: Mapping[str, npt.ArrayLike] | pd.DataFrame,
    sites: Mapping[str, Sequence[str]] | None = None,
    dims: Dims | None = None,
) -> TensorVariable:
    """Add observations of a discrete field, whose log density sums the field out.

    Parameters
    ----------
    name : str
    field : DiscreteField
    components : mapping of str to unregistered distributions
        ``pm.Normal.dist(mu, sigma)`` and the like, univariate, with the states of the field's variables on the last
        axis: shape (K,), (n_sites, K) or (n_rows, n_sites, K). Given the field, components are independent.
    observed : mapping or DataFrame of pandas, polars or pyarrow
        For each component data of shape (n_sites,), or (n_rows, n_sites) for independent copies of the field with
        common parameters. NaN is missing and summed out, and so is what an array masks. Other keys are variables of
        the field, observed directly, as labels with gaps: one column of n_rows labels, or a single label.
    sites : mapping of str to sequence of str, optional
        The variables to which a component's columns belong; by default all, in declared order.
    dims : str or (str,), optional
        Name of the dimension of rows; by default ``name_row``.

    Returns
    -------
    TensorVariable
        The observed variable (n_rows, n_columns), data of the components side by side. The labels of its dimension
        ``name_cell`` are the variables of the field, with the component in front where there are several. Its log
        density has one term for each row. `pm.sample_posterior_predictive` draws new fields and data.

    Examples
    --------
    >>> chain = ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    >>> with pm.Model():
    ...     states = ps.DiscreteField("z", chain)
    ...     known = pm.Normal.dist([0.0, 5.0], 1.0)  # one mean for each state
    ...     y = ps.FieldEmission("y", states, components={"y": known}, observed={"y": [0.1, 0.3, 5.2, 4.9]})
    """
    if not isinstance(field, DiscreteField):
        raise TypeError(f"field must be a DiscreteField, got {type(field).__name__}")
    if field.emission is not None:
        raise ValueError(
            f"field {field.name!r} already has the emission {field.emission!r}, and a second one would not be "
            "independent of it given the parameters: put all components into one FieldEmission"
        )
    spec = _specify(name, field, dict(components or {}), observed, dict(sites or {}), dims)
    value = spec.values if spec.has_rows else spec.values[0]
    parameters = (field.potentials, *spec.parameters)
    core = ",".join("(" + ",".join(f"a{i}_{d}" for d in range(p.type.ndim)) + ")" for i, p in enumerate(parameters))
    model = pm.modelcontext(None)
    cell = own_dimension(model, f"{model.name_for(name)}_cell", spec.cells)
    if spec.has_rows and spec.row_dim not in model.coords:
        own_dimension(model, spec.row_dim, spec.rows, len(value))
    rv = pm.CustomDist(
        name,
        *parameters,
        dist=spec.draw,
        logp=spec.log_density,
        signature=f"{core}->(cell)",
        **({"size": value.shape[:-1]} if spec.has_rows else {}),
        class_name="FieldEmission",
        observed=pt.constant(value),  # a constant, so that PyMC does not impute what is missing
        dims=(spec.row_dim, cell) if spec.has_rows else (cell,),
    )
    rv.tag.field_emission = spec
    field.emission = rv.name
    return rv


def _specify(name: str, field: DiscreteField, components: Any, observed: Any, sites: Any, dims: Any) -> EmissionSpec:
    graph, observed = field.graph, pandas_frame(observed, "observed")
    if not isinstance(observed, Mapping | pd.DataFrame):
        raise TypeError(f"observed must be a mapping or a DataFrame, got {type(observed).__name__}")
    for key in components:
        if key not in observed:
            raise ValueError(f"observed must hold data for every component, {key!r} is missing")
        if key in graph.number:
            raise ValueError(f"component {key!r} has the name of a variable of the field; rename it")
    for key in sites:
        if key not in components:
            raise ValueError(f"sites names {key!r}, which is not a component")
    direct = [key for key in observed if key not in components]
    for key in direct:
        if key not in graph.number:
            raise ValueError(
                f"observed[{key!r}] is neither a component {tuple(components)} nor a variable of the field"
            )
    if not len(observed):
        raise ValueError("observed must hold data, got none")
    blocks: list[np.ndarray] = []
    n_rows: int | None = None
    has_rows = False
    kept: list[Component] = []
    parameters: list[Any] = []
    at = len(direct)
    for key in direct:
        column = column_array(observed[key])
        scalar = np.ndim(column) == 0 or isinstance(column, str)
        values = column if isinstance(column, pd.Series | np.ma.MaskedArray) else [column] if scalar else list(column)
        codes = code_values(values, graph.states[graph.number[key]], key).astype(np.float64)
        codes[codes < 0] = np.nan
        n_rows, has_rows = _same_rows(n_rows, has_rows, len(codes), not scalar, key)
        blocks.append(codes[:, None])
    for key, dist in components.items():
        if isinstance(observed[key], Variable):
            raise TypeError(f"observed[{key!r}] must hold numbers, got the tensor {observed[key]}; give its values")
        data = array_values(observed[key], f"observed[{key!r}]")
        numbers = graph.numbers(sites[key]) if key in sites else np.arange(len(graph.names))
        cards = set(graph.card[numbers].tolist())
        if len(cards) != 1:
            raise ValueError(
                f"component {key!r} needs variables with equal numbers of states, got {sorted(cards)}; "
                f"name some of them with sites={{{key!r}: [...]}}"
            )
        (k,) = cards
        if data.ndim not in (1, 2) or data.shape[-1] != numbers.size:
            raise ValueError(
                f"observed[{key!r}] must have shape ({numbers.size},) or (rows, {numbers.size}), one column for each "
                f"variable, got {data.shape}"
            )
        if np.any(np.isinf(data)):
            place = tuple(np.argwhere(np.isinf(data))[0].tolist())
            raise ValueError(f"observed[{key!r}] must be finite or NaN, got {data[place]} at {place}")
        if not data.size:
            raise ValueError(f"observed[{key!r}] must have at least one row, got none")
        n_rows, has_rows = _same_rows(n_rows, has_rows, len(np.atleast_2d(data)), data.ndim == 2, key)
        blocks.append(np.atleast_2d(data))
        columns = slice(at, at + numbers.size)
        at += numbers.size
        component, own = _component(key, dist, k, numbers, columns, len(np.atleast_2d(data)))
        if not component.dtype.startswith("float"):
            wrong = ~np.isnan(data) & (data != np.round(data))
            if np.any(wrong):
                place = tuple(np.argwhere(wrong)[0].tolist())
                raise ValueError(
                    f"observed[{key!r}] must hold integers for {dist.owner.op}, got {data[place]} at {place}"
                )
        kept.append(component)
        parameters += own
    row_dims = convert_dims(dims) or ()
    if len(row_dims) > 1:
        raise ValueError(f"dims must name only the dimension of rows, got {row_dims}; columns are {name}_cell")
    if row_dims and not has_rows:
        raise ValueError(
            f"dims must be left out where the data have no rows, got {quoted(dims)}; the variables of the field "
            "have the dimension that ps.DiscreteField was given"
        )
    sites_of = [(component.name, graph.names[i]) for component in kept for i in component.sites]
    cells = [*direct, *(site if len(kept) == 1 else f"{key}: {site}" for key, site in sites_of)]
    index = getattr(observed, "index", None) if has_rows else None
    return EmissionSpec(
        field,
        tuple(kept),
        graph.numbers(direct),
        tuple(parameters),
        np.concatenate(blocks, axis=1),
        has_rows,
        row_dims[0] if row_dims else f"{pm.modelcontext(None).name_for(name)}_row",
        None if index is None else list(row_labels(index)),
        tuple(cells),
    )


def _same_rows(n_rows: int | None, has_rows: bool, n: int, is_table: bool, key: str) -> tuple[int, bool]:
    if n_rows is not None and (n_rows != n or has_rows != is_table):
        raise ValueError(f"observed must have equal numbers of rows, {key!r} has {n} and those before it {n_rows}")
    return n, is_table


def _component(
    key: str, dist: Any, k: int, numbers: np.ndarray, columns: slice, n_rows: int
) -> tuple[Component, list[Any]]:
    owner = getattr(dist, "owner", None)
    if owner is None or getattr(owner.op, "ndim_supp", None) is None:
        raise TypeError(f"component {key!r} must be an unregistered distribution such as pm.Normal.dist(mu, 1)")
    if owner.op.ndim_supp != 0:
        raise ValueError(f"component {key!r} must be univariate, {owner.op} draws vectors; use one component a column")
    shape = dist.type.shape
    lead = (n_rows, numbers.size, k)
    fits = 1 <= len(shape) <= 3 and all(
        s is None or s == n or (s == 1 and n != k) for s, n in zip(shape, lead[-len(shape) :], strict=True)
    )
    if not fits or shape[-1] not in (None, k):
        raise ValueError(
            f"component {key!r} must have the {k} states on its last axis: shape ({k},), ({numbers.size}, {k}) or "
            f"{lead}, got {shape}"
        )
    own = [x for x in owner.inputs if _is_parameter(x)]
    component = Component(
        key, numbers, columns, len(own), owner, owner.outputs.index(dist), len(shape), dist.type.dtype
    )
    return component, own
