"""`DecisionTree` and `TreeResponse`: a Bayesian decision tree inside a PyMC model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba import objmode
from pymc.distributions.shape_utils import convert_dims
from pymc.logprob.abstract import _logprob
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_spn.numerics.html_repr import Facts
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import keep_data, kept_data
from pymc_spn.steps.model_inputs import NumbersOrVariable, scalar_hyperparameter
from pymc_spn.steps.no_tensor import NoTensor
from pymc_spn.steps.pytensor_numba import numba_core_rv_funcify, numba_njit
from pymc_spn.steps.tickets import LogJointTicket, Ticket, refuse_a_fixed_ticket
from pymc_spn.tables import describe_columns
from pymc_spn.tables.dimensions import own_dimension, refuse_other_labels
from pymc_spn.tables.inputs import Dims, TableLike
from pymc_spn.trees.features import check_rules, check_same_labels, make_features, row_labels_of
from pymc_spn.trees.leaves import FAMILIES, ResponseFamily, as_family, family_to_json, log_marginals
from pymc_spn.trees.schema import SCHEMA, TICKET, TreeSchema

STALE = (
    "ps.TreeResponse: its log-probability needs the tree of the running chain and cannot be evaluated from stored "
    "draws; use post = ps.TreePosterior.from_idata(idata) and post.log_likelihood() or post.log_predictive(X, y)"
)


@dataclass(frozen=True, eq=False, repr=False)
class TreeHandle(NoTensor):
    """A decision tree of a model; `TreeResponse` gives it a response. It is not a tensor.

    Parameters
    ----------
    name : str
    columns : tuple of Column
    """

    name: str
    columns: tuple
    settings: dict
    x: Any
    mask: Any
    alpha_s: Any
    beta_s: Any
    ticket: TensorVariable
    labels: Any = None  # of the rows of X, where it has some

    instead: ClassVar[str] = (
        "tree {name!r} is no tensor: give it to a response, ps.TreeResponse('y', {name}, family='real', observed=y), "
        "whose leaves have their mean and their noise integrated out (or family='classes', 'binary', 'counts')"
    )

    def _facts(self) -> Facts:
        features = f"{len(self.columns)} features ({describe_columns(self.columns)})"
        return Facts("DecisionTree", {"name": repr(self.name), "features": features})

    def data(self, X: Any, unseen: str = "error") -> dict[str, np.ndarray]:
        """Return new rows in the form that ``pm.set_data`` takes.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            Checked by the columns of the training table; NaN is missing.
        unseen : {"error", "missing"}
            What to do with levels that the training table does not have.
        """
        from pymc_spn.trees.features import code_rows

        values = code_rows(self.columns, X, unseen)
        missing = np.isnan(values)
        if self.mask is None:
            if self.settings["x_is_int"]:
                return {self.settings["x_name"]: np.where(missing, -1, values).astype(np.int64)}
            if missing.any():
                raise ValueError(f"X: the container {self.settings['x_name']!r} cannot hold missing values")
            return {self.settings["x_name"]: values}
        return {
            self.settings["x_name"]: np.where(missing, 0.0, values),
            self.settings["missing_name"]: missing.astype(np.int8),
        }


def DecisionTree(
    name: str,
    X: TableLike | SharedVariable,
    *,
    alpha_s: NumbersOrVariable = 0.95,
    beta_s: NumbersOrVariable = 0.5,
    max_depth: int | None = None,
    min_size: int = 2,
    split_weights: Mapping[str, float] | npt.ArrayLike | None = None,
    categorical: str | Mapping[str, str] = "onehot",
    missing: str = "branch",
    kinds: dict | None = None,
) -> TreeHandle:
    """Create a random decision tree over the features ``X``, for `TreeResponse`.

    Parameters
    ----------
    name : str
    X : DataFrame of pandas, polars or pyarrow, mapping, array, Table or pm.Data
        Features as in `fit_tree`. An integer data container holds -1 where a cell is missing. Otherwise the model
        gets the containers ``<name>_X`` and ``<name>_missing``, with the dimensions ``<name>_row`` and
        ``<name>_feature``; ``handle.data(new)`` makes what ``pm.set_data`` takes.
    alpha_s, beta_s : float or PyMC variable
        A node at depth d splits with probability ``alpha_s (1 + d) ** -beta_s``; as variables they are learned.
    max_depth, min_size, split_weights, categorical, missing, kinds
        As in `fit_tree`.

    Returns
    -------
    TreeHandle
        The model gets ``<name>_log_joint``, which holds the log joint of tree and response in nats.

    Raises
    ------
    ValueError, TypeError
        Arguments out of range; the message names argument, rule and value.

    Examples
    --------
    >>> with pm.Model():
    ...     tree = ps.DecisionTree("tree", X)
    ...     response = ps.TreeResponse("y", tree, observed=y)
    ...     tree_idata = pm.sample(**few)
    >>> ps.TreePosterior.from_idata(tree_idata).predict(X.head(2)).dims
    ('row',)
    """
    model = pm.modelcontext(None)
    name = model.name_for(name)
    check_rules(alpha_s, beta_s, max_depth, min_size)
    mask, x_is_int = None, False
    if isinstance(X, Variable):
        if not isinstance(X, SharedVariable) or X.name not in model.named_vars:
            raise TypeError("X must be a table or a pm.Data container of the model; got a tensor expression")
        stored = X.get_value()
        x_is_int = np.issubdtype(stored.dtype, np.integer)
        raw = stored.astype(np.float64)
        if x_is_int:
            raw[stored == -1] = np.nan
        features, x = make_features(raw, categorical, split_weights, missing=missing, kinds=kinds), X
    else:
        features = make_features(X, categorical, split_weights, missing=missing, kinds=kinds)
        gaps = np.isnan(features.values)
        refuse_other_labels(model, f"{name}_row", None)
        feature = own_dimension(model, f"{name}_feature", [c.name for c in features.columns])
        x = pm.Data(f"{name}_X", np.where(gaps, 0.0, features.values), dims=(f"{name}_row", feature))
        mask = pm.Data(f"{name}_missing", gaps.astype(np.int8), dims=(f"{name}_row", feature))
    ticket = FlatTicket(f"{name}{TICKET}")
    ticket.tag.tree_owner = name
    alpha_v, alpha_source = scalar_hyperparameter(name, "alpha_s", alpha_s, model)
    beta_v, beta_source = scalar_hyperparameter(name, "beta_s", beta_s, model)
    settings = {
        "columns": tuple(c.to_json() for c in features.columns),
        "splits": features.splits,
        "weights": tuple(map(float, features.weights)),
        "x_name": x.name,
        "missing_name": None if mask is None else mask.name,
        "x_is_int": bool(x_is_int),
        "max_depth": None if max_depth is None else int(max_depth),
        "min_size": int(min_size),
        "rules": {"alpha_s": alpha_source, "beta_s": beta_source},
    }
    return TreeHandle(name, features.columns, settings, x, mask, alpha_v, beta_v, ticket, row_labels_of(X))


def TreeResponse(
    name: str,
    tree: TreeHandle,
    *,
    family: ResponseFamily | None = None,
    observed: npt.ArrayLike | SharedVariable,
    dims: Dims | None = None,
) -> TensorVariable:
    """Create the response of a `DecisionTree`, with leaf parameters integrated out.

    Parameters
    ----------
    name : str
    tree : TreeHandle
        Each tree has one response.
    family : {"classes", "binary", "real", "counts"} or leaf family, optional
        As in `fit_tree`.
        The parameters of ``ps.leaves.ClassLeaves(alpha)`` and the others are numbers or named variables of the model,
        which NUTS samples together with the trees.
    observed : sequence of N, or pm.Data
        The response; a data container holds classes as 0..K-1.
    dims : str or (str,), optional
        Name of the dimension of rows; by default that of a ``pm.Data`` that has one, else ``<tree>_row``.

    Returns
    -------
    TensorVariable
        The observed variable. ``ParticleGibbsTreeStep`` is picked by ``pm.sample``.

    Raises
    ------
    ValueError, TypeError
        A response that does not fit the family or the features.

    Examples
    --------
    >>> with pm.Model():
    ...     tree = ps.DecisionTree("tree", X, max_depth=3)
    ...     response = ps.TreeResponse("y", tree, family=ps.leaves.NormalLeaves(), observed=y)
    """
    model = pm.modelcontext(None)
    if not isinstance(tree, TreeHandle):
        raise TypeError(f"tree must come from ps.DecisionTree, got {type(tree).__name__}")
    if kept_data(model, f"{tree.name}{SCHEMA}") is not None:
        raise ValueError(f"tree {tree.name!r} has a response already; make one DecisionTree for each response")
    container = observed if isinstance(observed, SharedVariable) else None
    response: Any = observed if container is None else container.get_value()
    coded, family = as_family(family, response).code(response)
    levels = list(family.levels or ())
    if container is not None and levels != list(range(len(levels))):
        raise ValueError(
            f"observed: a data container must hold the classes as 0..K-1, got {quoted(levels)}; code "
            f"them first, "
            "or give the labels themselves"
        )
    n_rows = tree.x.get_value(borrow=True).shape[0]
    if len(coded) != n_rows:
        raise ValueError(f"X and observed must have the same length, X has {n_rows} rows and observed {len(coded)}")
    check_same_labels(tree.labels, observed)
    values, sources = [], {}
    for parameter in FAMILIES[family.family].parameters:
        given = getattr(family, parameter)
        value, sources[parameter] = scalar_hyperparameter(tree.name, parameter, given, model)
        values.append(value)
    full = model.name_for(name)
    schema = TreeSchema(
        name=tree.name, response=full, family=family_to_json(family), parameters=sources, **tree.settings
    )
    n_statistics = len(levels) or 2
    dtype = "int64" if family.family != "real" else "float64"
    shapes = {
        "head": (2,),
        "depths": (2, None),
        "sizes": (None,),
        "statistics": (None, n_statistics),
        "tickets": (None,),  # from here on of recorded trees, as yet none
        "nodes": (None, 9),
        "leaves": (None, n_statistics),
    }
    shared: list[Any] = []
    for label, shape in shapes.items():
        start = np.zeros([int(len(shared) < 4) if n is None else n for n in shape])
        shared.append(pytensor.shared(start, name=f"{tree.name}_{label}", shape=shape))
    observed = container if container is not None else coded.astype(dtype)
    mask = pt.zeros_like(tree.x, dtype="int8") if tree.mask is None else tree.mask
    op = TreeResponseRV(schema=schema.to_json(), dtype=dtype)
    _, rv = op(
        tree.ticket,
        pt.stack([tree.alpha_s, tree.beta_s]),
        pt.stack(values),
        *shared[:4],
        pt.cast(tree.x, "float64"),
        pt.cast(mask, "int64"),
        *shared[4:],
        rng=pt.random.shared_rng(seed=None),
        return_next_rng=True,
    )
    dims = convert_dims(dims) or _dims_of_rows(model, tree, container)  # register_rv reads a string by its letters
    rv = model.register_rv(rv, name, observed=observed, dims=dims)
    keep_data(model, f"{tree.name}{SCHEMA}", schema.to_vector())
    return rv


def _dims_of_rows(model: Any, tree: TreeHandle, container: Any) -> tuple[str]:
    """The dimension of rows where the user names none: that of the data, else one of the tree; numbers may change."""
    for data in (container, tree.x):
        named = model.named_vars_to_dims.get(getattr(data, "name", None)) or (None,)
        if named[0] is not None:
            return (named[0],)
    return (own_dimension(model, f"{tree.name}_row", None, tree.x.shape[0]),)


class TreeResponseRV(RandomVariable):
    """A response given the tree of the running chain, or a recorded one; ``schema`` is its JSON description."""

    name = "TreeResponse"
    signature = "(),(r),(p),(h),(z,d),(l),(l,s),(n,c),(n,c),(t),(q,e),(q,s)->(n)"
    __props__: Any = ("name", "signature", "dtype", "inplace", "schema")
    _print_name = ("TreeResponse", "\\operatorname{TreeResponse}")

    def __init__(self, schema="", dtype="float64", **kwargs):
        self.schema = schema
        self.family = json.loads(schema)["family"]["family"] if schema else ""
        super().__init__(dtype=dtype, **kwargs)

    def rng_fn(
        self, rng, ticket, rules, parameters, head, depths, sizes, statistics, x, mask, tickets, nodes, leaves, size
    ):
        from pymc_spn.trees.forward import draw_response

        return draw_response(self.schema, rng, ticket, rules, parameters, x, mask, tickets, nodes, leaves)


@numba_core_rv_funcify.register(TreeResponseRV)
def _(op, node):
    kind = np.dtype(op.dtype)

    def draw(rng, *parameters):
        return op.rng_fn(rng, *parameters, None).view(np.int64)

    # draws are rare, and growing a tree is Python; Numba wants the type of what comes back written out
    @numba_njit
    def response(rng, ticket, rules, parameters, head, depths, sizes, statistics, x, mask, tickets, nodes, leaves):
        with objmode(out="int64[::1]"):
            out = draw(rng, ticket, rules, parameters, head, depths, sizes, statistics, x, mask, tickets, nodes, leaves)
        return out.view(kind)

    return response, None


@_logprob.register(TreeResponseRV)
def _(op, values, rng, size, ticket, rules, parameters, head, depths, sizes, statistics, *others, **kwargs):
    refuse_a_fixed_ticket(ticket)
    is_own = pt.or_(pt.eq(ticket, 0.0), pt.eq(ticket, head[0]))
    joint = tree_log_joint(op.family, rules, parameters, head, depths, sizes, statistics)
    return CheckAndRaise(RuntimeError, STALE)(joint, is_own)


def tree_log_joint(family, rules, parameters, head, depths, sizes, statistics):
    """Log prior of the tree plus log marginal likelihood of its leaves, from their statistics.

    Parameters
    ----------
    family : str
    rules : (2,) tensor
        alpha_s, beta_s.
    parameters : (p,) tensor
    head : (2,) tensor
        Ticket; sum of the log prior masses of features and gaps.
    depths : (2, L) tensor
        Splits and free stops at each depth.
    sizes, statistics : (l,) and (l, s) tensor
        Of the leaves.
    """
    depth = pt.arange(depths.shape[1])
    p = rules[0] * (1.0 + depth) ** (-rules[1])
    # a depth that nothing has reached must not turn 0 log 0 into NaN
    prior = head[1] + (depths[0] * pt.log(p)).sum() + (depths[1] * pt.log1p(-p)).sum()
    n_classes = statistics.type.shape[1]
    leaves = [parameters[i] for i in range(parameters.type.shape[0])]
    if family == "classes":
        leaves = parameters[0] / n_classes * pt.ones((1, n_classes))
    elif family == "binary":
        leaves = parameters[::-1][None]
    return prior + log_marginals(FAMILIES[family].kernel, leaves, sizes, statistics, pt.log, pt.gammaln).sum()


NO_GRADIENT = (
    "ps.DecisionTree: only pm.sample moves the tree; a method that differentiates the log density in all variables "
    "(pm.find_MAP, pm.fit, pm.NUTS for everything) would hold it at one arbitrary state; sample, and take "
    "ps.TreePosterior.from_idata(idata), whose log_joint says which draw is the most probable"
)


class FlatTicket(Ticket):
    """Flat: the step alone writes it."""

    rv_op = LogJointTicket("DecisionTree", NO_GRADIENT)
