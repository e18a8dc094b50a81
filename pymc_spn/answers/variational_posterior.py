"""The posterior of a sum-product network as variational Bayes has it: the same questions, one state."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.posterior import SPNPosterior
from pymc_spn.answers.stored_queries import read_query
from pymc_spn.events.events import Events, events_to_json
from pymc_spn.networks.records.fitted_states import QUERY, FittedStates, read_fit, write_fit
from pymc_spn.numerics.marks import GIVEN_FIT
from pymc_spn.numerics.own_names import own_names
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.answers.drawn_circuits import DrawnCircuit
    from pymc_spn.answers.union_posterior import UnionPosterior

LEARNER = "variational: one mode, no uncertainty of the assignments and hyperparameters"


@own_names
class VariationalPosterior(SPNPosterior):
    """Answers from a variational fit, made by `fit_variational`.

    It has the methods of `SPNPosterior`. Weights and leaf parameters are integrated out under their variational
    posterior, which is exact: ``exactness`` is about the query given the fit. What a fit does not know is how far the
    assignments of rows and the hyperparameters are uncertain, and that there are other modes; no answer carries a
    standard error for that, and ``per_draw=True`` returns the one answer there is, as chain 0 and draw 0.
    """

    _states: FittedStates

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "VariationalPosterior":
        """Read what `save` wrote.

        Parameters
        ----------
        idata : DataTree or path of a netCDF file
        name : str, optional
            Name of the network; checked if given.

        Raises
        ------
        ValueError
            If it holds no variational fit, or one of another name.
        """
        with reading(idata) as idata:
            states = read_fit(idata)
            if name is not None and name != states.schema.name:
                raise ValueError(f"name must be {states.schema.name!r}, the network in the file; got {quoted(name)}")
            kept, evidence = read_query(idata.attrs[QUERY], states.schema)
            return cls(states, kept, evidence)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that `from_idata` needs to one netCDF file; training rows are not in it."""
        query = {"kept": list(self._kept), "evidence": events_to_json(self._evidence)}
        save_tree(write_fit(self._states, json.dumps(query)), path)

    def __repr__(self) -> str:
        given = self._in_words(self._evidence)
        return (
            f"VariationalPosterior({self._schema.name!r}: {self._read_as}, bound {self.bound:.1f} nats"
            f"{', given ' + given if given else ''})"
        )

    @property
    def bound(self) -> float:
        """Lower bound on the log evidence log p(data | hyperparameters), in nats."""
        return float(max(b[-1] for b in self._states.fit.bounds)) - self._states.fit.log_prior

    @property
    def converged(self) -> bool:
        """Whether the restart that was kept gained less than the tolerance in its last step."""
        best = int(np.argmax([b[-1] for b in self._states.fit.bounds]))
        return bool(self._states.fit.converged[best])

    def trace(self) -> "xr.DataArray":
        """The bound plus the log prior of the learned hyperparameters (restart, step) in nats; NaN after the end.

        It never falls. Restarts that end apart are different modes, of which the highest is kept.
        """
        import xarray as xr

        bounds = self._states.fit.bounds
        out = np.full((len(bounds), max(b.size for b in bounds)), np.nan)
        for i, b in enumerate(bounds):
            out[i, : b.size] = b
        coords = {"restart": np.arange(len(bounds)), "step": np.arange(out.shape[1])}
        return xr.DataArray(out, coords, ["restart", "step"], "bound", self._attrs() | {"exactness": "bound"})

    def hyperparameters(self) -> "xr.Dataset":
        """Concentration, leaf_scale, leaf_shape and precision_ratio: as given, or their point estimates."""
        import xarray as xr

        data = {
            kind: ("sum_node" if kind == "concentration" else "column", vector)
            for kind, vector in self._states.fit.hyperparameters.items()
        }
        names = [c.name for c in self._schema.columns]
        return xr.Dataset(data, {"sum_node": ["inner", "univariate"], "column": names}, self._attrs())

    def condition(
        self, given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str
    ) -> "VariationalPosterior | UnionPosterior":
        """The predictive given some of a row. Columns fixed at a value leave the object, those in an interval stay."""
        found = super().condition(given)
        return self._own(found) if isinstance(found, SPNPosterior) else found

    def marginal(self, columns: Sequence[str]) -> "VariationalPosterior":
        """The predictive of some columns, the others summed out."""
        return self._own(super().marginal(columns))

    def log_likelihood(self, df: Any = None) -> "xr.DataTree":
        """Log predictive of new rows, as a group; the training rows are not kept, so `df` must be given."""
        if df is None:
            raise ValueError("df must be given: a variational fit keeps no training rows to leave out one by one")
        return super().log_likelihood(df)

    def draw_circuits(self, n: int, random_seed: int | np.random.Generator | None = None) -> "list[DrawnCircuit]":
        """Refused: the fit's posterior of weights has no form that a drawn circuit with its integer counts has."""
        raise ValueError(
            "draw_circuits needs draws of the sampler (SPNPosterior); a variational fit answers from mean weights and "
            "leaf predictives, which is exact for every other query"
        )

    def co_clustering(self, df: Any = None) -> "xr.DataArray":
        """Probability that two new rows use the same child of the top sum node.

        Rows on children that hold no training row count as apart. The training rows are not kept: pass them as `df`;
        each is then assigned by itself, with what the fit has learned from all of them.
        """
        if df is None:
            raise ValueError("df must be given: a variational fit keeps no training rows and none of their assignments")
        return super().co_clustering(df)

    def top_clusters(self) -> "xr.DataArray":
        """Refused: it shows the assignments of one draw, and a fit has none."""
        raise ValueError(
            "top_clusters shows the assignments of one draw (SPNPosterior), and a variational fit holds none; "
            "co_clustering(df) gives the probabilities that rows belong together"
        )

    def _part(self, known: Events) -> "VariationalPosterior":
        return self._own(super()._part(known))

    def _own(self, other: SPNPosterior) -> "VariationalPosterior":
        return VariationalPosterior(self._states, other._kept, other._evidence)

    def _weight_mark(self, logs: np.ndarray, is_known: bool) -> dict[str, Any]:
        return {}

    @property
    def _learner(self) -> str:
        return LEARNER

    _scope = GIVEN_FIT

    def _attrs(self, **attrs: Any) -> dict[str, Any]:
        return super()._attrs(**{k: v for k, v in attrs.items() if not k.startswith("mcse_chain")})

    def _attrs_of_one(self, **attrs: Any) -> dict[str, Any]:
        return self._attrs(**attrs)

    def _draw_error(self, influence: np.ndarray) -> dict[str, Any]:
        return {"mcse_chain": np.zeros(influence.shape[1:])[()]}  # there is one state
