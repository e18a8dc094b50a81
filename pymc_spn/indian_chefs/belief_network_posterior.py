"""`BeliefNetworkPosterior`: fantasy data, densities and graphs of the belief networks that were drawn."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.indian_chefs.belief_network_schema import (
    LINEAR,
    NETWORK_SCHEMA,
    NONLINEAR,
    BeliefNetworkSchema,
    unpack_parameters,
)
from pymc_spn.indian_chefs.draw_checks import check_parameters
from pymc_spn.indian_chefs.graph_draws import GraphDraws
from pymc_spn.indian_chefs.network_draws import ancestral_order, draw_nodes, expit
from pymc_spn.indian_chefs.network_record import find_network, network_records
from pymc_spn.indian_chefs.process import SCHEMA as GRAPH_SCHEMA
from pymc_spn.indian_chefs.process import GraphSchema, check_count
from pymc_spn.indian_chefs.unit_scaling import table_of
from pymc_spn.numerics.chain_mixing import Questions, diagnosis
from pymc_spn.numerics.marks import GIVEN_DRAWS, error_of_log, limited
from pymc_spn.numerics.own_names import own_names
from pymc_spn.tables import row_labels
from pymc_spn.tables.frame_kinds import frame_of_kind
from pymc_spn.tables.inputs import Seed, TableLike
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SAVED = "belief_network_posterior"  # attribute that holds the format of a saved object
FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class BeliefNetworkPosterior:
    """Draws of a belief network and its graph; made by `from_idata`, which gives a `NLGBNPosterior` where it is one.

    Parameters
    ----------
    schema : BeliefNetworkSchema
    parameters : (chain, draw, (K + 2) K) float32
        Weights, biases and precisions as recorded.
    graphs : GraphDraws
        The graphs, with their own questions.
    tree : DataTree
        What is saved.

    Notes
    -----
    Hidden nodes have no identity from draw to draw, so nothing is ever averaged over them. Densities are integrals over
    the hidden nodes, estimated from ancestral draws: every answer here is marked monte-carlo.

    Examples
    --------
    >>> network = ps.BeliefNetworkPosterior.from_idata(chefs)
    >>> network.sample(3, random_seed=1).shape
    (3, 2)
    """

    schema: BeliefNetworkSchema
    parameters: np.ndarray
    graphs: GraphDraws
    tree: "xr.DataTree"

    @classmethod
    def from_idata(
        cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None
    ) -> "BeliefNetworkPosterior":
        """Read the draws from what ``pm.sample`` returned, or from a file that it was saved to.

        Parameters
        ----------
        idata : DataTree or path
        name : str, optional
            The observed variable's name in the model, where there are several.

        Returns
        -------
        BeliefNetworkPosterior
            A `NLGBNPosterior` where the network is nonlinear.

        Raises
        ------
        ValueError
            If there is no belief network, several and no name is given, or draws are missing.

        Warns
        -----
        ConvergenceWarning
            If R-hat of the log joint is above 1.1 or its effective size below 50, over two chains of 50 draws or more.

        Examples
        --------
        >>> ps.BeliefNetworkPosterior.from_idata(chefs).edge_probabilities().dims
        ('parent', 'child')
        """
        with reading(idata) as idata:
            schema = find_network(idata, name)
            cls._check(schema)
            if cls is BeliefNetworkPosterior and schema.kind == NONLINEAR:
                cls = NLGBNPosterior
            graphs = GraphDraws._read(idata, schema.graph, stacklevel=3)
            parameters = network_records(idata, schema)
            check_parameters(parameters, graphs, len(schema.columns), schema.max_nodes)
            post = cls(schema, parameters, graphs, _kept(idata, schema))
        graphs._warn_of_chains(schema.name)
        return post

    @classmethod
    def _check(cls, schema):
        pass

    def save(self, path: "str | PathLike[str]") -> None:
        """Write everything that the questions need to one netCDF file.

        Parameters
        ----------
        path : str or path-like
            A file that is there is replaced.

        Examples
        --------
        >>> network.save(folder / "network.nc")
        >>> ps.load(folder / "network.nc").edge_probabilities().equals(network.edge_probabilities())
        True
        """
        save_tree(self.tree, path)

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "BeliefNetworkPosterior":
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        BeliefNetworkPosterior

        Examples
        --------
        >>> network.save(folder / "network.nc")
        >>> ps.BeliefNetworkPosterior.load(folder / "network.nc").edge_probabilities().dims
        ('parent', 'child')
        """
        return cls.from_idata(path)

    def __repr__(self) -> str:
        n, m, _ = self.parameters.shape
        return (
            f"{type(self).__name__}({self.schema.kind}, {len(self.schema.columns)} observed nodes, {n} chains of {m} "
            f"draws{f'; {self.graphs._mixing}' if self.graphs._mixing else ''})"
        )

    def diagnose(
        self,
        questions: Questions | None = None,
        X: TableLike | None = None,
        *,
        n_pool: int = 2000,
        max_draws: int = 400,
        random_seed: Seed | None = None,
    ) -> "pd.DataFrame":
        """R-hat and bulk effective size of the log joint, of log densities of rows and of any questions, as a table.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives an array with the dimensions ``chain`` and ``draw``, such as ``{"nodes":
            lambda post: post.graphs.n_nodes()}``.
        X : DataFrame of pandas, polars or pyarrow, or (rows, D) array, optional
            Rows whose log density is asked for; the training rows are not kept.
        n_pool, max_draws, random_seed
            As in `log_density`. The noise of the pools is in the log densities, and makes chains look more alike.

        Returns
        -------
        DataFrame
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat``, NaN where they are not defined.

        Raises
        ------
        TypeError, ValueError
            If `questions` is no mapping to functions, an answer has not one value for each draw, or as in
            `log_density`.

        Examples
        --------
        >>> list(network.diagnose(n_pool=100, max_draws=10, random_seed=1).columns)
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        joint = self.graphs._log_joint
        own = {} if joint is None else {"log_joint": joint}
        if X is not None:
            sizes = {"n_pool": n_pool, "max_draws": max_draws}
            logs = self.log_density(X, **sizes, per_draw=True, random_seed=random_seed)
            own |= {"log_density, mean of rows": logs.mean("row"), "log_density": logs}
        return diagnosis(self, questions, own)

    def _draw(self, chain, draw):
        return unpack_parameters(self.parameters[chain, draw], self.schema.max_nodes)

    def _places(self, rng, n):
        chains, draws, _ = self.parameters.shape
        return rng.integers(0, chains, n), rng.integers(0, draws, n)

    # ---- data

    def sample(self, n: int = 1000, random_seed: Seed | None = None) -> Any:
        """Fantasy data from the posterior predictive, in the units of the training data.

        Each row comes from a draw of its own, taken at random from all chains.

        Parameters
        ----------
        n : int
            Rows, at least 1.
        random_seed : int, Generator or None

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the training data were
            (n, D) float64, the columns of the training data.

        Raises
        ------
        ValueError
            If `n` is no integer of at least 1.

        Examples
        --------
        >>> network.sample(3, random_seed=1).shape
        (3, 2)
        """
        import pandas as pd

        check_count("n", n, 32.0 + 16.0 * len(self.schema.columns))
        rng = np.random.default_rng(random_seed)
        chains, draws = self._places(rng, n)
        out = np.empty((n, len(self.schema.columns)))
        for c, t in np.unique(np.column_stack([chains, draws]), axis=0):
            rows = np.flatnonzero((chains == c) & (draws == t))
            weights, biases, precisions = self._draw(c, t)
            order = ancestral_order(weights)
            nodes = draw_nodes(
                rng,
                self.schema.kind,
                order,
                weights,
                biases,
                precisions,
                len(rows),
            )
            out[rows] = nodes[: out.shape[1]].T
        frame = pd.DataFrame(out, columns=list(self.schema.columns))
        frame = frame if self.schema.scaling is None else self.schema.scaling.inverse(frame)
        return frame_of_kind(frame, self.schema.frame)

    def log_density(
        self,
        X: TableLike,
        *,
        n_pool: int = 2000,
        max_draws: int = 50,
        per_draw: bool = False,
        random_seed: Seed | None = None,
    ) -> "xr.DataArray":
        """Log density (or probability of binary rows) under the posterior predictive, in nats, in the units of `X`.

        Parameters
        ----------
        X : DataFrame of pandas, polars or pyarrow, or (rows, D) array
            In the units of the training data.
        n_pool : int
            Ancestral draws of the hidden nodes for each network; the log of their mean is biased low by about half
            the square of its standard error.
        max_draws : int
            Networks used, spread evenly over each chain.
        per_draw : bool
            The answers of each network, (chain, draw, row).
        random_seed : int, Generator or None

        Returns
        -------
        DataArray
            (row,) log of the mean over networks; ``attrs["mcse"]`` is the largest standard error from the pools (delta
            method; NaN, with a note, above one half: a few draws of a pool then outweigh all others),
            ``attrs["mcse_chain"]`` that of the means of the chains. Rows outside the support are -inf: a cell
            of a nonlinear network that is not inside (0, 1) on the unit scale, one of a sigmoid network that is not
            0 or 1.

        Raises
        ------
        TypeError, ValueError
            If `X` lacks columns or has gaps, a count is no integer of at least 1, or the covariance of a linear network
            is singular in floating point.

        Examples
        --------
        >>> network.log_density(numbers[["age", "income"]].head(2), n_pool=200, max_draws=10, random_seed=1).dims
        ('row',)
        """
        import pandas as pd
        import xarray as xr

        check_count("n_pool", n_pool, 16.0 * self.schema.max_nodes)
        check_count("max_draws", max_draws)
        rng = np.random.default_rng(random_seed)
        values, jacobian = self._coded(X)
        n_chains, n_draws, _ = self.parameters.shape
        chosen = np.unique(np.linspace(0, n_draws - 1, max(1, min(n_draws, max_draws // n_chains))).astype(int))
        each = np.empty((n_chains, len(chosen), len(values)))
        variance = np.empty_like(each)
        for c in range(n_chains):
            for t, draw in enumerate(chosen):
                weights, biases, precisions = self._draw(c, draw)
                each[c, t], variance[c, t] = self._pooled(rng, values, weights, biases, precisions, n_pool)
        each += jacobian
        index = row_labels(X.index) if isinstance(X, pd.DataFrame) else np.arange(len(values))
        attrs: dict[str, Any] = {"exactness": "monte-carlo", "n_pool": n_pool}
        few = f"a few of the n_pool = {n_pool} draws in some rows"
        if per_draw:
            coords = {"chain": self.graphs.chains, "draw": np.asarray(self.graphs.draws)[chosen], "row": index}
            attrs |= error_of_log(float(np.sqrt(variance.max())), few)
            return xr.DataArray(each, coords, ("chain", "draw", "row"), "log_density", attrs)
        top = each.max((0, 1))
        possible = top > -np.inf
        relative = np.exp(each - np.where(possible, top, 0.0))
        mean = np.where(possible, relative.mean((0, 1)), 1.0)  # an impossible row has no error
        error = np.sqrt((relative**2 * variance).sum((0, 1))) / relative[..., 0].size / mean
        attrs |= {"exactness": limited("monte-carlo", GIVEN_DRAWS)} | error_of_log(float(error.max()), few)
        if n_chains > 1:
            chains = relative.mean(1)
            attrs["mcse_chain"] = float((chains.std(0, ddof=1) / np.sqrt(n_chains) / mean).max())
        return xr.DataArray(top + np.log(mean), {"row": index}, ("row",), "log_density", attrs)

    def _coded(self, X):
        """Activations (or values) of rows, and the log derivative of the map to them: -inf outside the support."""
        schema = self.schema
        if schema.scaling is not None:
            X = schema.scaling.transform(X)
        _, values = table_of(X, "X", schema.columns)
        if schema.kind == LINEAR:
            return values, np.zeros(len(values))
        if schema.kind == NONLINEAR:
            inside, some = (values > 0.0) & (values < 1.0), 0.5
        else:
            inside, some = (values == 0.0) | (values == 1.0), 0.0
        values = np.where(inside, values, some)  # of a row without density, which no other cell can change
        support = np.where(inside.all(1), 0.0, -np.inf)
        if schema.kind != NONLINEAR:
            return values, support
        jacobian = support - (np.log(values) + np.log1p(-values)).sum(1)
        if schema.scaling is not None:
            jacobian = jacobian + np.log(schema.scaling.slope).sum()
        return np.log(values) - np.log1p(-values), jacobian

    def _pooled(self, rng, values, weights, biases, precisions, n_pool):
        """Log mean density of rows over ancestral draws of the hidden nodes, and the variance of the estimate."""
        d = values.shape[1]
        if weights[:d].any() and self.schema.kind != LINEAR:
            return self._weighted(rng, values, weights, biases, precisions, n_pool)
        if self.schema.kind == LINEAR:
            return _linear_log_density(values, weights, biases, precisions), np.zeros(len(values))
        order = ancestral_order(weights)
        order = order[order >= d]
        nodes = draw_nodes(rng, self.schema.kind, order, weights, biases, precisions, n_pool)
        means = biases[:d, None] + weights[:, :d].T @ nodes
        return _log_mean(self.schema.kind, values, means, precisions[:d])

    def _weighted(self, rng, values, weights, biases, precisions, n_pool):
        """As `_pooled`, where observed nodes have children: each row clamps its values on the way."""
        d = values.shape[1]
        outputs = expit(values) if self.schema.kind == NONLINEAR else values
        order = ancestral_order(weights)
        log_mean, variance = np.empty(len(values)), np.empty(len(values))
        for r in range(len(values)):
            nodes = np.zeros((len(biases), n_pool))
            log_weight = np.zeros(n_pool)
            for i in order:
                mean = biases[i] + weights[:, i] @ nodes
                if i < d:
                    log_weight += _log_law(self.schema.kind, values[r, i], mean, precisions[i])
                    nodes[i] = outputs[r, i]
                else:
                    lone = [0], np.zeros((1, 1)), np.zeros(1), precisions[[i]]
                    if self.schema.kind == NONLINEAR:  # a linear draw round 0 is the activation's noise
                        nodes[i] = expit(mean + draw_nodes(rng, LINEAR, *lone, n_pool)[0])
                    else:
                        nodes[i] = rng.random(n_pool) < expit(mean)
            log_mean[r : r + 1], variance[r : r + 1] = _summary(log_weight[None])
        return log_mean, variance

    # ---- graphs

    def edge_probabilities(self) -> "xr.DataArray":
        """(parent, child) posterior probability of edges among observed nodes, see `GraphDraws`.

        Examples
        --------
        >>> network.edge_probabilities().dims
        ('parent', 'child')
        """
        return self.graphs.edge_probabilities()

    def functionals(self) -> "xr.Dataset":
        """(chain, draw) numbers of nodes and edges, depth, width and others: functions of the graph as it is.

        Examples
        --------
        >>> functionals = network.functionals()
        >>> functionals["hidden_reputation"].dims
        ('chain', 'draw')
        """
        return self.graphs.scalars


@own_names
class NLGBNPosterior(BeliefNetworkPosterior):
    """`BeliefNetworkPosterior` of a nonlinear Gaussian belief network; other kinds are refused.

    Examples
    --------
    >>> type(ps.NLGBNPosterior.from_idata(chefs)).__name__
    'NLGBNPosterior'
    """

    @classmethod
    def _check(cls, schema):
        if schema.kind != NONLINEAR:
            raise ValueError(f"{schema.name!r} is a {schema.kind} network; read it by ps.BeliefNetworkPosterior")


def _log_law(kind, value, mean, precision):
    if kind == NONLINEAR:
        return 0.5 * (np.log(precision / (2.0 * np.pi)) - precision * (value - mean) ** 2)
    return -np.logaddexp(0.0, np.where(value == 1.0, -mean, mean))


def _log_mean(kind, values, means, precisions):
    log_mean, variance = np.empty(len(values)), np.empty(len(values))
    for first in range(0, len(values), 256):
        block = slice(first, first + 256)
        log_weight = np.zeros((len(values[block]), means.shape[1]))
        for d in range(values.shape[1]):
            log_weight += _log_law(kind, values[block, d, None], means[d], precisions[d])
        log_mean[block], variance[block] = _summary(log_weight)
    return log_mean, variance


def _summary(log_weight):
    """Log of the mean of exp along the last axis, and the relative variance of that mean."""
    top = log_weight.max(-1, keepdims=True)
    w = np.exp(log_weight - top)
    mean = w.mean(-1)
    return top[..., 0] + np.log(mean), w.var(-1) / mean**2 / w.shape[-1]


def _linear_log_density(values, weights, biases, precisions):
    """Exact: nodes of a linear network are jointly normal."""
    n, d = len(biases), values.shape[1]
    inverse = np.linalg.inv(np.eye(n) - weights.T)
    mean, factor = (inverse @ biases)[:d], (inverse * precisions**-0.5)[:d]
    try:
        lower = np.linalg.cholesky(factor @ factor.T)
    except np.linalg.LinAlgError:
        raise ValueError(
            "a recorded network's covariance is singular in floating point: its columns lie far from 0 for their "
            "spread, or on scales far from one; standardise them before sampling"
        ) from None
    away = values - mean
    far = np.maximum(np.abs(away).max(1), 1.0)
    white = np.linalg.solve(lower, (away / far[:, None]).T)
    with np.errstate(over="ignore"):  # -inf is what such a density is to a float
        squares = (white**2).sum(0) * far * far
    return -0.5 * squares - np.log(np.diag(lower)).sum() - 0.5 * d * np.log(2.0 * np.pi)


def _kept(idata, schema):
    """The parts of a DataTree that the object reads."""
    import xarray as xr

    constants = idata["constant_data"].to_dataset()[[schema.name + NETWORK_SCHEMA, schema.graph + GRAPH_SCHEMA]]
    stats = idata["sample_stats"].to_dataset()
    mine = [str(v) for v in stats.data_vars if str(v).startswith((f"{schema.graph}_", f"{schema.name}_"))]
    sources = GraphSchema.from_vector(constants[schema.graph + GRAPH_SCHEMA].values).hyperparameters
    variables = [s["variable"] for s in sources.values() if "variable" in s]
    for group in ("constant_data", "observed_data"):  # where `pm.do` or `pm.observe` fixed them
        if group in idata.children:
            data = idata[group].dataset
            constants = constants.assign({v: data[v] for v in variables if v in data.data_vars})
    groups = {"/": xr.Dataset(attrs={SAVED: FORMAT}), "constant_data": constants, "sample_stats": stats[mine]}
    posterior = idata.children.get("posterior")
    if posterior is not None:
        kept = [v for v in [*variables, f"{schema.graph}_log_joint"] if v in posterior.data_vars]
        groups["posterior"] = posterior.to_dataset()[kept]
    for name in (schema.name, schema.graph):  # where they are unpacked
        if name in idata.children:
            groups[name] = idata[name].to_dataset()
    return xr.DataTree.from_dict(groups)
