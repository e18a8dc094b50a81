"""Trees of ``pm.sample`` in a DataTree: their record, and trees lent to a model for predictions."""

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.records.structure_records import Field, Recorded, StructureRecord, refuse_other_order
from pymc_spn.tables.stored_arrays import refuse
from pymc_spn.tables.tree_files import reading
from pymc_spn.trees import draw_checks as checks
from pymc_spn.trees.draws import TreeDraws
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


class TreeRecord(StructureRecord):
    """Nodes stand in breadth-first order, the root first; draws of fewer nodes are padded.

    The first term of a decision is ``feature``: number of the column, -1 for a leaf, -2 for padding. Then come ``low``
    and ``high``: ranks of the training values between which the cut lies, or levels. The last is ``side``, which
    missing values take. A child is -1 for none.
    """

    kinds, made_by = "decision trees", "ps.DecisionTree"
    suffix, raw, raw_dtypes, mark = SCHEMA, RECORD, "SUO", "n_nodes"
    schema, remedy = TreeSchema, _APART
    posterior = "pymc_spn.trees.posterior:TreePosterior"

    def fields(self, schema: TreeSchema) -> dict[str, Field]:
        """Numbers of nodes, decisions and children."""
        most = checks.INT32.max
        return {
            "n_nodes": Field((), np.int64, 1, most),
            "decisions": Field(("node", "term"), np.int32, checks.INT32.min, most),
            "child": Field(("node", "side"), np.int32, -1, most),
        }

    def labels(self, schema: TreeSchema) -> dict[str, Any]:
        """Terms of a decision, and sides."""
        return {"term": TERMS, "side": ("left", "right")}

    def attrs(self, schema: TreeSchema) -> dict[str, Any]:
        """Names of the features, which decisions number."""
        return {"features": [c.name for c in schema.column_objects]}

    def compared(self, recorded: Recorded) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
        """Numbers of leaves, of all draws. `trees_of_record` compares log joints, too, which need the training data."""
        stats = recorded.statistics()
        leaves = (recorded.arrays["decisions"][..., 0] == -1).sum(axis=2)
        return [("leaves", leaves, stats["leaves"].values)] if "leaves" in stats else []

    def described(self, idata: "xr.DataTree", name: str) -> tuple[Any, ...]:
        """The schema, and a digest of the training data, whose ranks the decisions are."""
        return described(self.read_schema(idata, name), *self.training_data(idata, name))

    def training_data(self, idata: "xr.DataTree", name: str) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, D) and response (N,) that stand next to the draws; ValueError if they do not fit together."""
        schema, constants = self.read_schema(idata, name), idata["constant_data"].dataset
        mask = constants[schema.missing_name].values if schema.missing_name else None
        values = schema.values(constants[schema.x_name].values, mask)
        observed = idata.children.get("observed_data")
        if observed is None or schema.response not in observed.data_vars:
            raise ValueError(f"the observed_data group lacks {schema.response!r}, the response of the tree {name!r}")
        y = observed.dataset[schema.response].values
        if y.shape != (len(values),):
            raise ValueError(
                f"{schema.x_name!r} has {len(values)} rows, {schema.response!r} of observed_data {y.shape}; {_APART}"
            )
        return values, y

    def arrays(self, idata: "xr.DataTree", schema: TreeSchema, raw: np.ndarray) -> dict[str, np.ndarray]:
        """Trees of the texts (chain, draw) that a step recorded."""
        codes = raw.reshape(raw.shape[:2])
        most_nodes = 2 * len(idata["constant_data"].dataset[schema.x_name]) - 1  # each leaf holds a training row
        trees = [[Tree.decode(_as_bytes(code), most_nodes) for code in chain] for chain in codes]
        n_nodes = np.array([[len(t.decisions) for t in chain] for chain in trees])
        decisions = np.full((*codes.shape, n_nodes.max(initial=1), len(TERMS)), -1, np.int32)
        decisions[..., 0] = -2
        child = np.full((*decisions.shape[:3], 2), -1, np.int32)
        for (c, d), n in np.ndenumerate(n_nodes):
            decisions[c, d, :n], child[c, d, :n] = trees[c][d].decisions, trees[c][d].children
        return {"n_nodes": n_nodes, "decisions": decisions, "child": child}


TREES = TreeRecord()


def trees_of_record(recorded: Recorded) -> TreeDraws:
    """The trees of a record, with the data that they were drawn given."""
    schema, name = recorded.schema, recorded.schema.name
    values, y = TREES.training_data(recorded.tree, name)
    n_nodes, padded = recorded.arrays["n_nodes"], recorded.arrays["decisions"]
    if (n_nodes > padded.shape[2]).any():
        refuse(f"variable 'n_nodes' of {name}", f"be at most {padded.shape[2]}, the nodes there are", n_nodes.max())
    rules = [recorded.needed(schema.rules[k]).ravel() for k in ("alpha_s", "beta_s")]
    n, (n_chains, n_draws) = n_nodes.size, n_nodes.shape
    chains = recorded.chains
    if len(np.unique(chains)) < n_chains:  # results put together, which name their chains alike
        chains = np.arange(n_chains)
    draws = TreeDraws.checked(
        (schema.column_objects, values, schema.splits, schema.weights),
        schema.family,
        y,
        (padded[np.arange(padded.shape[2]) < n_nodes[..., None]], np.concatenate([[0], np.cumsum(n_nodes)])),
        np.column_stack([recorded.needed(source).ravel() for source in schema.parameters.values()]),
        np.column_stack(rules),
        (-1 if schema.max_depth is None else schema.max_depth, schema.min_size),
        name=name,
        weights=np.full(n, 1.0 / n),
        group=np.repeat(chains, n_draws),
        draw=np.tile(recorded.draws, n_chains),
    )
    if all("fixed" in source for source in (*schema.rules.values(), *schema.parameters.values())):
        # a variable of the model may have been moved after the log joint was recorded
        def only(t: int) -> TreeDraws:
            return draws.only(draws.tree(t).decisions, draws.parameters[t], draws.rules[t])

        firsts = [only(t).log_joint for t in range(0, n, n_draws)]
        refuse_other_order(recorded, "log joint", np.array(firsts), recorded.of_posterior(name + TICKET))
    return draws


def load_trees(idata: "xr.DataTree | str | PathLike[str]", model: "pm.Model | None" = None) -> None:
    """Lend the recorded trees to the model, for posterior predictive sampling.

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
        for recorded, drawn in TREES.with_log_joints(idata):
            draws, response = trees_of_record(recorded), recorded.schema.response
            if response not in model.named_vars:
                raise ValueError(f"the model has no response {response!r} of {draws.name!r}, whose draws idata holds")
            rv = model[response]
            tickets, nodes, leaves = rv.owner.op.dist_params(rv.owner)[-3:]
            table, statistics = simulation_nodes(draws)
            tickets.set_value(np.ravel(drawn).astype(np.float64))
            nodes.set_value(table)
            leaves.set_value(statistics)


def _as_bytes(code: Any) -> bytes:
    return code.encode() if isinstance(code, str) else bytes(code)
