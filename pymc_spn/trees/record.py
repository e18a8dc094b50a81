"""Trees of ``pm.sample`` in a DataTree: finding them, reading them, and lending them to a model for predictions."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.tables.fingerprints import FINGERPRINT, UNPACKED, fingerprints, model_digest_of
from pymc_spn.tables.stored_arrays import checked
from pymc_spn.tables.tree_files import chosen_name, draws_of_record, hint_of_groups, read_record, reading
from pymc_spn.trees import draw_checks as checks
from pymc_spn.trees.draws import TreeDraws
from pymc_spn.trees.leaves import FAMILIES
from pymc_spn.trees.schema import RECORD, SCHEMA, TICKET, TreeSchema, described
from pymc_spn.trees.state import simulation_nodes
from pymc_spn.trees.tree import Tree

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

_APART = (
    "keep the DataTree of pm.sample apart from predictions at other rows: after pm.set_data, "
    "pm.sample_posterior_predictive(idata, extend_inferencedata=True) replaces them unless predictions=True"
)
TERMS = "feature", "low", "high", "side"  # of a node's decision


def tree_names(idata: "xr.DataTree") -> list[str]:
    """Names of the decision trees whose draws a DataTree holds."""
    constants, stats = idata.children.get("constant_data"), idata.children.get("sample_stats")
    if constants is None:
        return []
    found = [str(v).removesuffix(SCHEMA) for v in constants.data_vars if str(v).endswith(SCHEMA)]
    return [n for n in found if (stats is not None and n + RECORD in stats.data_vars) or _is_unpacked(idata, n)]


def unpack_trees(idata: "xr.DataTree", name: str | None = None) -> "xr.DataTree":
    """A tree of data with the decision trees of a `DecisionTree` as labelled arrays.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``; not changed.
    name : str, optional
        The name of the `DecisionTree`, where there are several.

    Returns
    -------
    DataTree
        With the group ``<name>`` in place of the raw record. Nodes stand in breadth-first order, the root first;
        draws of fewer nodes are padded. The group holds ``n_nodes`` (chain, draw), ``decisions`` (chain, draw, node,
        term) int32, and ``child`` (chain, draw, node, side) int32, -1 for none. The first term of a decision is
        ``feature``: number of the column, -1 for a leaf, -2 for padding. Then come ``low`` and ``high``: ranks of the
        training values between which the cut lies, or levels. The last is ``side``, which missing values take.

    Raises
    ------
    ValueError
        If there is no tree, or several and no name is given.
    """
    import xarray as xr

    name = find_name(idata, name)
    out = idata.copy()
    if _is_unpacked(idata, name):
        return out
    stats = idata["sample_stats"].to_dataset()
    record = read_record(stats[name + RECORD], "SUO")
    codes = record.values.reshape(record.shape[:2])
    schema = TreeSchema.from_bytes(idata["constant_data"].dataset[name + SCHEMA].values)
    most_nodes = 2 * len(idata["constant_data"].dataset[schema.x_name]) - 1  # each leaf holds a training row
    trees = [[Tree.decode(_as_bytes(code), most_nodes) for code in chain] for chain in codes]
    n_nodes = np.array([[len(t.decisions) for t in chain] for chain in trees])
    decisions = np.full((*codes.shape, n_nodes.max(initial=1), len(TERMS)), -1, np.int32)
    decisions[..., 0] = -2
    child = np.full((*decisions.shape[:3], 2), -1, np.int32)
    for (c, d), n in np.ndenumerate(n_nodes):
        decisions[c, d, :n], child[c, d, :n] = trees[c][d].decisions, trees[c][d].children
    group = xr.Dataset(
        {
            "n_nodes": (("chain", "draw"), n_nodes),
            "decisions": (("chain", "draw", "node", "term"), decisions),
            "child": (("chain", "draw", "node", "side"), child),
            UNPACKED: (("chain", "draw"), fingerprints(stats, name + FINGERPRINT).transpose("chain", "draw").values),
        },
        coords={
            "chain": record["chain"].values if "chain" in record.coords else np.arange(codes.shape[0]),
            "draw": record["draw"].values if "draw" in record.coords else np.arange(codes.shape[1]),
            "term": list(TERMS),
            "side": ["left", "right"],
        },
        attrs={"features": [c.name for c in schema.column_objects]},
    )
    left = stats.drop_vars([name + RECORD, name + FINGERPRINT])
    for dim in record.dims[2:]:
        left = left.drop_dims(str(dim), errors="ignore")
    out["sample_stats"] = xr.DataTree(left)
    out[name] = xr.DataTree(group)
    return out


def find_name(idata: "xr.DataTree", name: str | None) -> str:
    """The name that was asked for, or the only one."""
    nothing = f"no decision tree: no <name>{SCHEMA} with draws <name>{RECORD}"
    return chosen_name(tree_names(idata), name, idata, "decision trees", nothing)


def read_draws(idata: "xr.DataTree", name: str | None = None) -> TreeDraws:
    """All draws of one tree.

    Raises
    ------
    ValueError
        If there is no tree, or several and no name is given. If data or hyperparameters are missing from the DataTree,
        or its data are not those of the draws.
    """
    name = find_name(idata, name)
    constants = idata["constant_data"].dataset
    schema = TreeSchema.from_bytes(constants[name + SCHEMA].values)
    mask = constants[schema.missing_name].values if schema.missing_name else None
    values = schema.values(constants[schema.x_name].values, mask)
    features = checks.checked_features(schema.column_objects, values, schema.splits, schema.weights)
    observed = idata.children.get("observed_data")
    if observed is None or schema.response not in observed.data_vars:
        raise ValueError(f"the observed_data group lacks {schema.response!r}, the response of the tree {name!r}")
    y = observed.dataset[schema.response].values
    if y.shape != (len(values),):
        raise ValueError(
            f"{schema.x_name!r} has {len(values)} rows, {schema.response!r} of observed_data {y.shape}; {_APART}"
        )
    y = checks.checked_response(schema.family, y, len(values))
    group = unpack_trees(idata, name)[name].dataset
    n_nodes = read_record(group["n_nodes"], "iu").values
    # ends of cuts are ranks of the training values, so other data of as many rows would give wrong trees
    marks = fingerprints(group, UNPACKED)
    model_digest_of(marks, f"the trees of {name!r}", *described(schema, values, y), remedy=_APART)
    n_chains, n_draws = n_nodes.shape
    padded = group["decisions"].transpose("chain", "draw", "node", "term").values
    checked("n_nodes", n_nodes, padded.shape[:2], 1, padded.shape[2], whole=True)
    begin = np.concatenate([[0], np.cumsum(n_nodes)])
    decisions = padded[np.arange(padded.shape[2]) < n_nodes[..., None]]
    decisions, begin = checks.checked_nodes(features, decisions, begin)
    labels = group["chain"].values, group["draw"].values
    rules = [_draws_of(idata, schema.rules[k], labels, name) for k in ("alpha_s", "beta_s")]
    parameters = [
        _draws_of(idata, schema.parameters[k], labels, name) for k in FAMILIES[schema.family["family"]].parameters
    ]
    n = n_nodes.size
    chains = labels[0]
    if len(np.unique(chains)) < n_chains:  # results put together, which name their chains alike
        chains = np.arange(n_chains)
    return TreeDraws(
        name=name,
        features=features,
        y=y,
        family=schema.family,
        decisions=decisions,
        begin=begin,
        weights=np.full(n, 1.0 / n),
        group=np.repeat(chains, n_draws),
        draw=np.tile(labels[1], n_chains),
        parameters=checks.checked_parameters(schema.family, np.column_stack([p.ravel() for p in parameters]), n),
        rules=checks.checked_rules(np.column_stack([r.ravel() for r in rules]), n),
        max_depth=-1 if schema.max_depth is None else checks.checked_limit("max_depth", schema.max_depth, 0),
        min_size=checks.checked_limit("min_size", schema.min_size, 1),
        notes={"method": "pm.sample"},
    )


def read_log_joint(idata: "xr.DataTree", draws: TreeDraws) -> np.ndarray | None:
    """(chain, draw) log joint of the trees as it was recorded; None where it was not."""
    posterior = idata.children.get("posterior")
    if posterior is None or draws.name + TICKET not in posterior.data_vars:
        return None
    values = posterior.dataset[draws.name + TICKET].transpose("chain", "draw").values
    return values if values.size == draws.n_trees else None


def load_trees(idata: "xr.DataTree | str | PathLike[str]", model: "pm.Model | None" = None) -> None:
    """Lends the recorded trees to the model, so that ``pm.sample_posterior_predictive(idata)`` finds them.

    Parameters
    ----------
    idata : DataTree or path
        Result of ``pm.sample``, also reloaded in another process.
    model : Model, optional
        The model in whose context this is called.

    Raises
    ------
    ValueError
        If there is no tree, the model lacks its response, or the posterior group lacks ``<name>_log_joint``.

    Notes
    -----
    A draw is recognised by its ``<name>_log_joint``. If several have the same, each is given the tree of any of them.
    That does not change the distribution of all draws together. After ``pm.set_data(tree.data(new_X))`` the predictive
    is that at the new rows: cuts drawn from their gaps, leaf parameters from their posterior, then responses.

    Examples
    --------
    >>> with pm.Model():
    ...     tree = ps.DecisionTree("tree", X)
    ...     response = ps.TreeResponse("y", tree, observed=y)
    ...     ps.trees.load_trees(tree_idata)  # from here the model can evaluate the stored draws
    """
    import pymc as pm

    model = pm.modelcontext(model)
    with reading(idata) as idata:
        names = tree_names(idata)
        if not names:
            raise ValueError("idata holds no decision tree" + hint_of_groups(idata))
        for name in names:
            idata = unpack_trees(idata, name)
            draws, group = read_draws(idata, name), idata[name].dataset
            response = TreeSchema.from_bytes(idata["constant_data"].dataset[name + SCHEMA].values).response
            if response not in model.named_vars:
                raise ValueError(f"the model has no response {response!r} of {name!r}, whose draws idata holds")
            posterior, ticket = idata.children.get("posterior"), name + TICKET
            if posterior is None or ticket not in posterior.data_vars:
                raise ValueError(f"the posterior group of idata lacks {ticket!r}; sample with it among var_names")
            recorded = draws_of_record(posterior.dataset[ticket], group["chain"].values, group["draw"].values)
            rv = model[response]
            tickets, nodes, leaves = rv.owner.op.dist_params(rv.owner)[-3:]
            table, statistics = simulation_nodes(draws)
            tickets.set_value(np.ravel(recorded.values).astype(np.float64))
            nodes.set_value(table)
            leaves.set_value(statistics)


def _draws_of(idata: Any, source: dict[str, Any], labels: tuple[Any, Any], name: str) -> np.ndarray:
    shape = len(labels[0]), len(labels[1])
    if "fixed" in source:
        return np.full(shape, source["fixed"])
    for fixed in ("constant_data", "observed_data"):  # by `pm.do` or `pm.observe`
        if fixed in idata.children and source["variable"] in idata[fixed].data_vars:
            return np.full(shape, float(idata[fixed].dataset[source["variable"]]))
    posterior = idata.children.get("posterior")
    if posterior is None or source["variable"] not in posterior.data_vars:
        raise ValueError(
            f"a parameter of {name!r} is the variable {source['variable']!r}, which the posterior group does not hold; "
            "sample with it among var_names"
        )
    return draws_of_record(posterior.dataset[source["variable"]], *labels).values


def _is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    group = idata.children.get(name)
    return group is not None and "decisions" in group.data_vars


def _as_bytes(code: Any) -> bytes:
    return code.encode() if isinstance(code, str) else bytes(code)
