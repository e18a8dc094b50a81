"""Discrete states back from the draws of a model in which they were summed out."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from pymc_spn.factor_graphs import log_messages, maxima
from pymc_spn.factor_graphs.distributions import EmissionSpec
from pymc_spn.factor_graphs.passes import run
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.interrupts import hold_back_interrupts
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables.fingerprints import BY_LISTS
from pymc_spn.tables.inputs import Seed
from pymc_spn.tables.tree_files import read_results

KINDS = ("marginals", "map", "samples")
MOST_NUMBERS = 4_000_000  # log evidence entries held at a time


def recover_discrete(
    idata: "xr.DataTree | str | PathLike[str]",
    *,
    model: "pm.Model | None" = None,
    what: Sequence[str] = ("marginals", "map", "samples"),
    random_seed: Seed | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Recover the states of the discrete fields of a model, for every draw.

    Parameters
    ----------
    idata : DataTree or path
        With a ``posterior`` that holds the model's free variables.
    model : pm.Model, optional
        By default the model of the context.
    what : sequence of {"marginals", "map", "samples"}
        ``marginals``: probabilities of the states given the draw's parameters and the data; their mean over draws is
        the posterior probability. ``map``: the most probable configuration given the parameters, with its log
        probability. ``samples``: one joint draw of the field for each draw of the parameters, so that the samples
        are draws of the posterior of the field.
    random_seed : int, Generator or None
        For ``samples``.
    progressbar : bool
        Whether a bar shows how far the answer is, if it lasts.

    Returns
    -------
    Dataset
        For a field ``z``: ``z_marginals`` (chain, draw, row, variable, state), ``z_map``, ``z_map_log_probability``,
        ``z_samples``, as labels. The row is left out where the data have none. Where variables differ in their states,
        ``z_marginals`` has one dimension ``z_entry`` over all states of all variables, with coordinates ``z_of`` and
        ``z_state``.

    Raises
    ------
    ValueError
        If the model has no discrete field, the posterior lacks a variable, or the data of a row are impossible under
        some draw.

    Examples
    --------
    >>> chain = ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    >>> with pm.Model() as hidden:
    ...     mu = pm.Normal("mu", sigma=10.0, shape=2)
    ...     states = ps.DiscreteField("z", chain)
    ...     data = {"y": [0.1, 0.3, 5.2, 4.9]}
    ...     y = ps.FieldEmission("y", states, components={"y": pm.Normal.dist(mu, 1.0)}, observed=data)
    >>> drawn = az.from_dict({"posterior": {"mu": np.array([[[0.0, 5.0]]])}})  # as pm.sample gives it: one draw
    >>> states = ps.factor_graphs.recover_discrete(drawn, model=hidden)
    """
    model = pm.modelcontext(model)
    if isinstance(what, str):
        raise TypeError(f"what must be a sequence of {KINDS}, got the single string {quoted(what)}")
    for kind in what:
        if kind not in KINDS:
            raise ValueError(f"what must be among {KINDS}, got {quoted(kind)}")
    if not what:
        raise ValueError(f"what must name at least one of {KINDS}, got none")
    emissions = [rv for rv in model.observed_RVs if isinstance(getattr(rv.tag, "field_emission", None), EmissionSpec)]
    if not emissions:
        raise ValueError("the model has no ps.FieldEmission, so there is no discrete field to recover")
    tree = read_results(idata)
    if "posterior" not in tree.children:
        raise ValueError(f"idata must have the group 'posterior', got the groups {list(tree.children)}")
    posterior = tree["posterior"].to_dataset()
    for dim in ("chain", "draw"):
        if dim not in posterior.dims:
            raise ValueError(f"idata.posterior must have the dimension {dim!r}: {BY_LISTS}")
        if not posterior.sizes[dim]:
            raise ValueError(f"idata.posterior must have at least one draw of one chain, got no {dim}")
    rng = np.random.default_rng(random_seed)
    result: dict[str, xr.DataArray] = {}
    with counted("Recovering states", progressbar):
        for rv in emissions:
            result |= _recover(rv, model, posterior, tuple(what), rng)
    return xr.Dataset(result, coords={c: posterior.coords[c] for c in ("chain", "draw") if c in posterior.coords})


def _parameters_of_draws(emission: Any, data: np.ndarray, model: Any, posterior: Any) -> Any:
    """Function from the number of a draw to potentials, codes and log evidence, and the shape (chain, draw)."""
    spec = emission.tag.field_emission
    # The variable's own inputs: those that its tag remembers belong to the model from which `pm.do` made this one.
    potentials, *parameters = emission.owner.op.dist_params(emission.owner)
    outputs = [potentials, *spec.evidence(pt.constant(data), parameters)]
    above = set(ancestors(outputs))
    free = [rv for rv in model.free_RVs if rv in above]
    inputs = [rv.type() for rv in free]
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs if rv in above}
    outputs = clone_replace(outputs, observed | dict(zip(free, inputs, strict=True)), rebuild_strict=False)
    missing = [rv.name for rv in free if rv.name not in posterior]
    if missing:
        raise ValueError(f"idata.posterior must hold the free variables of the model, {missing[0]!r} is missing")
    function = pm.compile(inputs, outputs, on_unused_input="ignore")
    draws = [_draws_of(posterior[rv.name], model) for rv in free]
    shape = tuple(posterior.sizes[d] for d in ("chain", "draw"))
    return lambda i: hold_back_interrupts(function, *(d[i] for d in draws)), shape


def _draws_of(values: xr.DataArray, model: Any) -> np.ndarray:
    """(draw, ...) numbers of a variable, its own dimensions and their labels in the model's order."""
    named = model.named_vars_to_dims.get(values.name) or [None] * (values.ndim - 2)
    own = [f"{values.name}_dim_{i}" if dim is None else dim for i, dim in enumerate(named)]
    if set(values.dims) == {"chain", "draw", *own}:
        values = values.transpose("chain", "draw", *own)
        for dim in own:
            values = _in_order_of_labels(values, dim, model.coords.get(dim))
    missing = values.isnull()
    if missing.any():
        chain, draw = (int(np.argwhere(missing.transpose("chain", "draw", ...).values)[0][i]) for i in (0, 1))
        raise ValueError(
            f"{values.name!r} of idata.posterior must be a number in every draw, and is missing in chain {chain}, draw "
            f"{draw} (positions), as where chains of different lengths are put together"
        )
    return values.stack(_draws=("chain", "draw")).transpose("_draws", ...).values


def _in_order_of_labels(values: xr.DataArray, dim: str, labels: Any) -> xr.DataArray:
    """Numbers along a dimension in the order of the model's labels, which are numbers where it has none."""
    if dim not in values.indexes:
        return values
    found = values.indexes[dim]
    wanted = pd.RangeIndex(len(found)) if labels is None else pd.Index(labels)
    if found.equals(wanted):
        return values
    if len(found) != len(wanted) or not found.is_unique or set(found) != set(wanted):
        raise ValueError(
            f"{values.name!r} of idata.posterior must have the model's labels of dimension {dim!r}, "
            f"{quoted(list(wanted))}; "
            f"got {quoted(list(found))}"
        )
    return values.isel({dim: found.get_indexer(wanted)})


def _recover(emission: Any, model: Any, posterior: Any, what: tuple[str, ...], rng: Any) -> dict[str, Any]:
    spec: EmissionSpec = emission.tag.field_emission
    field = spec.field
    # The variable's own data: `pm.observe` puts others in the place of those that its tag remembers.
    data = model.rvs_to_values[emission].eval()
    data = data if spec.has_rows else data[None]
    plan, arrays, n_rows = field.tree.plan, field.tree.plan.arrays, len(data)
    evaluate, shape = _parameters_of_draws(emission, data, model, posterior)
    n_draws = shape[0] * shape[1]
    n_states, n_variables = int(arrays.state_start[-1]), arrays.card.size
    size = 8.0 * n_states * ("marginals" in what) + 12.0 * n_variables * (("map" in what) + ("samples" in what))
    refuse_memory(
        f"recover_discrete of {n_draws:,} draws and {n_rows:,} rows",
        size * n_draws * n_rows,
        "ask for less with what=, or give fewer draws, as in idata.isel(draw=slice(None, None, 10))",
    )
    marginals = np.empty((n_draws if "marginals" in what else 0, n_rows, n_states))
    best = np.empty((n_draws if "map" in what else 0, n_rows, n_variables), np.int32)
    log_best = np.empty(best.shape[:2])
    samples = np.empty((n_draws if "samples" in what else 0, n_rows, n_variables), np.int32)
    block = max(1, MOST_NUMBERS // (n_rows * (n_states + plan.n_cliques) + field.graph.n_potentials))
    for start in range(0, n_draws, block):
        part = slice(start, min(start + block, n_draws))
        values = [evaluate(i) for i in each(range(part.start, part.stop))]
        potentials = read_only_view(np.array([v[0] for v in values], dtype=np.float64))
        codes = read_only_view(np.asarray(values[0][1], dtype=np.int32))  # data: the same for all draws
        soft = read_only_view(np.concatenate([v[2] for v in values]).astype(np.float64))
        n = n_rows * len(values)
        done = run(plan, potentials, codes, soft, n, marginals="marginals" in what)
        if np.any(done.log_z == -np.inf):
            i = int(np.argmax(done.log_z == -np.inf))
            raise ValueError(
                f"the data of row {i % n_rows} of {field.emission!r} are impossible under draw {start + i // n_rows}"
            )
        if "marginals" in what:
            marginals[part] = done.marginals.reshape(-1, n_rows, n_states)
        if "map" in what:
            value, states, count = np.empty(n), np.empty((n, n_variables), np.int32), np.empty(n)
            maxima.maximise_rows(arrays, potentials, codes, soft, value, states, count, np.empty((n, n_states)))
            best[part] = states.reshape(-1, n_rows, n_variables)
            log_best[part] = (value - done.log_z).reshape(-1, n_rows)
        if "samples" in what:
            states = np.empty((n, 1, n_variables), np.int32)
            uniforms = rng.random((n, 1, plan.n_cliques))
            log_messages.draw_rows(arrays, potentials, codes, soft, uniforms, states, np.empty(n))
            samples[part] = states.reshape(-1, n_rows, n_variables)
    graph = field.graph
    names = model.coords.get(field.dims)
    names = list(graph.names) if names is None or len(names) != len(graph.names) else list(names)
    rows: dict[str, Any] = {}
    if spec.has_rows:
        given = model.coords.get(spec.row_dim)
        rows = {spec.row_dim: np.arange(n_rows) if given is None else list(given)}
    variable = {field.dims: names}

    def array(
        values: np.ndarray, more: dict[str, Any], tail: tuple[str, ...], exactness: str = "exact"
    ) -> xr.DataArray:
        values = values.reshape(*shape, *values.shape[1:])
        values = values if spec.has_rows else values[:, :, 0]
        dims, attrs = ("chain", "draw", *rows, *tail), {"exactness": exactness}
        return xr.DataArray(values, dims=dims, coords=rows | more, attrs=attrs)

    result: dict[str, Any] = {}
    if "marginals" in what:
        if len(set(graph.states)) == 1:
            state = f"{field.name}_state"
            by_variable = marginals.reshape(*marginals.shape[:2], len(names), -1)
            result[f"{field.name}_marginals"] = array(
                by_variable, variable | {state: list(graph.states[0])}, (field.dims, state)
            )
        else:
            entry = f"{field.name}_entry"
            of = [n for n, states in zip(names, graph.states, strict=True) for _ in states]
            labels = np.array([s for states in graph.states for s in states], dtype=object)
            more = {f"{field.name}_of": (entry, of), f"{field.name}_state": (entry, labels.astype(str))}
            result[f"{field.name}_marginals"] = array(marginals, more, (entry,))
    if "map" in what:
        result[f"{field.name}_map"] = array(graph.labels(best), variable, (field.dims,))
        result[f"{field.name}_map_log_probability"] = array(log_best, {}, ())
    if "samples" in what:
        result[f"{field.name}_samples"] = array(graph.labels(samples), variable, (field.dims,), "exact simulation")
    return result
