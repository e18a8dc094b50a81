"""The one state of a variational fit in the place of a chain's recorded states, and its netCDF form."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.gibbs.joint_leaves import joint_regions
from pymc_spn.gibbs.palette import asked_palette
from pymc_spn.laws.law import Marks
from pymc_spn.networks.records.record import NETWORKS, SCHEMA, Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.rounded_cells import RoundedCells
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.networks.variational.fit import VariationalFit
from pymc_spn.networks.variational.fit_checks import checked_fit
from pymc_spn.networks.variational.fitted_network import fitted_network
from pymc_spn.numerics.marks import GIVEN_FIT

if TYPE_CHECKING:
    import xarray as xr

LEARNER = "variational: one mode, no uncertainty of the assignments and hyperparameters"
GROUP = "variational_fit"
QUERY = "spn_variational_posterior"  # attribute that holds the query of a saved posterior object
FORMAT = 2  # 1: no leaves over several columns
DIMENSIONS = "edge", "leaf", "level", "sum", "product", "sum_node", "column", "step", "restart"
EDGES, LEAVES = ("region", "node", "option", "count"), ("s1", "s2")


class FittedStates(RecordedStates):
    """The network of a variational fit: one draw of one chain to everything that asks, and no assignments.

    Parameters
    ----------
    schema : NetworkSchema
    fit : VariationalFit
    """

    def __init__(self, schema: NetworkSchema, fit: VariationalFit) -> None:
        one, nothing = np.zeros(1, np.int64), np.zeros(0, np.int64)
        hyperparameters = {k: fit.hyperparameters[k][None, None] for k in HYPERPARAMETERS}
        self.digits = np.zeros((1, 0, schema.structure.n_regions), np.int8)
        table = np.zeros((0, len(schema.columns)))
        self.record = Record(schema, table, nothing, self.digits[None], one, one, hyperparameters, {}, one[None])
        self.schema, self.structure, self.compiled = schema, schema.structure, schema.compiled
        self.coded = schema.code(table)
        self.hyperparameters = [fit.hyperparameters[k][None] for k in HYPERPARAMETERS]
        self.fit, self.rounded = fit, RoundedCells(schema, table) if schema.rounded else None
        self._keep_nothing()

    def __reduce__(self) -> Any:
        return FittedStates, (self.schema, self.fit)

    @property
    def marks(self) -> Marks:
        """What answers say of where the one state comes from."""
        chains, draws, ended = self.record.chains, self.record.draws, None if self.fit.is_converged else 0
        return Marks(GIVEN_FIT, LEARNER, chains, draws, False, "under the fit", converged=ended)

    def load(self, s: int, sampler: Any = None) -> Any:
        """Refused: it would be a sampler with the assignments of draw s."""
        raise ValueError("a variational fit holds no assignments of rows, only their expected statistics")

    def _build(self, s: int) -> Any:
        """Network with fractional counts."""
        tree = self.fit.tree(self.structure, self.compiled)
        hyperparameters = tuple(self.fit.hyperparameters[k] for k in HYPERPARAMETERS)
        return fitted_network(self.structure, asked_palette(self.compiled), tree, self.fit.statistics, hyperparameters)

    def rows_on_entries(self, d: int) -> np.ndarray:
        """Expected training rows (1, n) whose leaf of a column has each entry of its palette.

        Of a column that is in leaves over several columns, the rows in these follow, those with a gap in it, too.
        """
        tree, fit = self.structure, self.fit
        here = np.isin(fit.region, tree.leaf_region[tree.leaf_column == d])
        own = np.bincount(fit.option[here], fit.count[here], len(self.schema.palette[d]))
        if d in self.schema.joint_columns:
            held = [d in tree.order[a:b] for a, b in zip(tree.begin, tree.end, strict=True)]
            several = joint_regions(tree, self.compiled.is_joint) & np.array(held)
            here = several[fit.region] & (fit.option == tree.n_splits[fit.region])
            own = np.append(own, fit.count[here].sum())
        return own[None]

    def children_with_rows(self, net: Any) -> slice:
        """Slots of the top sum node that hold training rows; what it leaves to all others has a slot behind them."""
        every = super().children_with_rows(net)
        return slice(every.start, every.start + int(np.count_nonzero(self.fit.region == 0)))


def write_fit(states: FittedStates, query: str) -> "xr.DataTree":
    """A tree that `read_fit` reads; ``query`` is what a posterior object adds to the fit."""
    import xarray as xr

    fit, name = states.fit, states.schema.name
    columns = [c.name for c in states.schema.columns]
    sized = {"edge": EDGES, "leaf": LEAVES, "level": ("levels",), "sum": ("sums",), "product": ("products",)}
    data: dict[str, tuple[Any, Any]] = {
        field: (dim, getattr(fit, field)) for dim, fields in sized.items() for field in fields
    }
    for kind, vector in fit.hyperparameters.items():
        data[kind] = ("sum_node" if kind == "concentration" else "column", vector)
    data["bounds"] = ("step", np.concatenate(fit.bounds))
    data["n_steps"] = ("restart", np.array([b.size for b in fit.bounds]))
    data["converged"] = ("restart", fit.converged.astype(np.int8))
    data["log_prior"] = ((), fit.log_prior)
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={QUERY: query, "spn_variational_format": FORMAT}),
            "constant_data": xr.Dataset({name + SCHEMA: (f"{name}_schema_dim", states.schema.to_vector())}),
            GROUP: xr.Dataset(data, coords={"sum_node": ["inner", "univariate"], "column": columns}),
        }
    )


def read_fit(tree: "xr.DataTree") -> FittedStates:
    """The states that `write_fit` wrote.

    Raises
    ------
    ValueError
        If the tree holds no variational fit, one of another format, or arrays that are no fit of this network.
    """
    if GROUP not in tree.children or QUERY not in tree.attrs:
        raise ValueError(f"the file holds no variational fit: no group {GROUP!r}")
    if str(tree.attrs.get("spn_variational_format")) != str(FORMAT):
        raise ValueError(f"the variational fit has a format other than {FORMAT}: use the version that wrote it")
    several = [v for v in tree[GROUP].dims if v not in DIMENSIONS]
    if several:
        raise ValueError(
            f"the group {GROUP!r} must hold one variational fit, got several along {several}: fits are no draws of one "
            "posterior; read each file and compare their bounds"
        )
    found = [str(v) for v in tree["constant_data"].dataset.data_vars if str(v).endswith(SCHEMA)]
    schema = NETWORKS.read_schema(tree, found[0].removesuffix(SCHEMA))
    data = {str(k): np.asarray(v.values) for k, v in tree[GROUP].dataset.data_vars.items()}
    return FittedStates(schema, checked_fit(schema, data))
