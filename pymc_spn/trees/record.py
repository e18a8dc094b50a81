"""Trees of ``pm.sample`` in a DataTree: finding them, reading them, and lending them to a model for predictions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.trees.draws import TreeDraws
from pymc_spn.trees.features import Features
from pymc_spn.trees.leaves import FAMILIES
from pymc_spn.trees.schema import RECORD, SCHEMA, TICKET, TreeSchema
from pymc_spn.trees.state import simulation_nodes
from pymc_spn.trees.tree import Tree

if TYPE_CHECKING:
    import xarray as xr


def tree_names(idata: "xr.DataTree") -> list[str]:
    """Names of the decision trees whose draws a DataTree holds."""
    constants, stats = idata.children.get("constant_data"), idata.children.get("sample_stats")
    if constants is None or stats is None:
        return []
    found = [str(v).removesuffix(SCHEMA) for v in constants.data_vars if str(v).endswith(SCHEMA)]
    return [n for n in found if n + RECORD in stats.data_vars]


def read_draws(idata: "xr.DataTree", name: str | None = None) -> TreeDraws:
    """All draws of one tree.

    Raises
    ------
    ValueError
        If there is no tree, several and no name is given, or data or hyperparameters are missing from the DataTree.
    """
    names = tree_names(idata)
    if not names:
        raise ValueError(f"the DataTree holds no decision tree: no <name>{SCHEMA} with draws <name>{RECORD}")
    if name is None:
        if len(names) > 1:
            raise ValueError(f"the DataTree holds several decision trees, give name=, one of {names}")
        name = names[0]
    if name not in names:
        raise ValueError(f"name must be one of {names}, got {name!r}")
    constants = idata["constant_data"].dataset
    schema = TreeSchema.from_bytes(constants[name + SCHEMA].values)
    mask = constants[schema.missing_name].values if schema.missing_name else None
    values = schema.values(constants[schema.x_name].values, mask)
    features = Features(schema.column_objects, values, schema.splits, np.asarray(schema.weights))
    y = np.asarray(idata["observed_data"].dataset[schema.response].values, np.float64)
    if len(y) != len(values):
        raise ValueError(
            f"{schema.x_name!r} has {len(values)} rows, {schema.response!r} of observed_data {len(y)}; "
            "keep the DataTree of pm.sample apart from predictions at other rows"
        )
    record = idata["sample_stats"].dataset[name + RECORD]
    codes = record.values.reshape(record.shape[0], record.shape[1])
    n_chains, n_draws = codes.shape
    trees = [Tree.decode(_as_bytes(codes[c, d])) for c in range(n_chains) for d in range(n_draws)]
    rules = [_draws_of(idata, schema.rules[k], (n_chains, n_draws), name) for k in ("alpha_s", "beta_s")]
    parameters = [
        _draws_of(idata, schema.parameters[k], (n_chains, n_draws), name)
        for k in FAMILIES[schema.family["family"]].parameters
    ]
    chains = record["chain"].values if "chain" in record.coords else np.arange(n_chains)
    draws = record["draw"].values if "draw" in record.coords else np.arange(n_draws)
    n = len(trees)
    return TreeDraws(
        name=name,
        features=features,
        y=y,
        family=schema.family,
        decisions=np.concatenate([t.decisions for t in trees]),
        begin=np.cumsum([0] + [len(t.decisions) for t in trees]).astype(np.int64),
        weights=np.full(n, 1.0 / n),
        group=np.repeat(chains, n_draws),
        draw=np.tile(draws, n_chains),
        parameters=np.column_stack([p.ravel() for p in parameters]),
        rules=np.column_stack([r.ravel() for r in rules]),
        max_depth=-1 if schema.max_depth is None else schema.max_depth,
        min_size=schema.min_size,
        notes={"method": "pm.sample"},
    )


def load_trees(idata: "xr.DataTree", model: Any = None) -> None:
    """Lends the recorded trees to the model, so that ``pm.sample_posterior_predictive(idata)`` finds them.

    Parameters
    ----------
    idata : DataTree
        Result of ``pm.sample``, also reloaded in another process.
    model : Model, optional
        The model in whose context this is called.

    Notes
    -----
    A draw is recognised by its ``<name>_log_joint``. After ``pm.set_data(tree.data(new_X))`` the predictive is that at
    the new rows: cuts drawn from their gaps, leaf parameters from their posterior, then responses.
    """
    import pymc as pm

    model = pm.modelcontext(model)
    names = tree_names(idata)
    if not names:
        raise ValueError("idata holds no decision tree")
    for name in names:
        draws = read_draws(idata, name)
        rv = model[TreeSchema.from_bytes(idata["constant_data"].dataset[name + SCHEMA].values).response]
        tickets, nodes, leaves = rv.owner.op.dist_params(rv.owner)[-3:]
        table, statistics = simulation_nodes(draws)
        tickets.set_value(np.ravel(idata["posterior"].dataset[name + TICKET].values).astype(np.float64))
        nodes.set_value(table)
        leaves.set_value(statistics)


def _draws_of(idata: Any, source: dict[str, Any], shape: tuple[int, ...], name: str) -> np.ndarray:
    if "fixed" in source:
        return np.full(shape, source["fixed"])
    posterior = idata.children.get("posterior")
    if posterior is None or source["variable"] not in posterior.data_vars:
        raise ValueError(
            f"a parameter of {name!r} is the variable {source['variable']!r}, which the posterior group does not hold; "
            "sample with it among var_names"
        )
    return posterior.dataset[source["variable"]].transpose("chain", "draw").values


def _as_bytes(code: Any) -> bytes:
    return code.encode() if isinstance(code, str) else bytes(code)
