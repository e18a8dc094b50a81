"""The posterior of a sum-product network as variational Bayes has it: the same questions, one state."""

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.networks.records.fitted_states import QUERY, FittedStates, read_fit, write_fit
from pymc_spn.networks.row_similarity import RowSimilarity
from pymc_spn.networks.stored_queries import read_law, written_law
from pymc_spn.numerics.html_repr import Facts, elided
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import xarray as xr


class VariationalPosterior(RowSimilarity):
    """Posterior of a variational fit, made by `fit_variational`.

    It answers the questions of `SPNPosterior` that need no chains and no training rows. Weights and leaf parameters are
    integrated out under their variational posterior, which is exact: ``exactness`` is about the query given the fit.
    A fit knows neither how uncertain the assignments of rows and the hyperparameters are, nor that there are other
    modes. No answer has a standard error for this. ``per_draw=True`` returns the one answer there is, as chain 0
    and draw 0.

    Examples
    --------
    >>> fit = ps.fit_variational(df, random_seed=1)
    >>> int(fit.impute(df, random_seed=1).isna().sum().sum())
    0
    """

    @property
    def _states(self) -> FittedStates:
        states = self._first.states
        assert isinstance(states, FittedStates)
        return states

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "VariationalPosterior":
        """Read a fit that `save` wrote.

        Parameters
        ----------
        idata : DataTree or path of a netCDF file
        name : str, optional
            Name of the network; checked if given.

        Raises
        ------
        ValueError
            If it holds no variational fit, or one of another name.

        Examples
        --------
        >>> fit.save(folder / "fit.nc")
        >>> ps.VariationalPosterior.from_idata(folder / "fit.nc").converged
        True
        """
        with reading(idata) as tree:
            return cls._of_tree(tree, name)

    @classmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> "VariationalPosterior":
        states = read_fit(tree)
        if name is not None and name != states.schema.name:
            raise ValueError(f"name must be {states.schema.name!r}, the network in the file; got {quoted(name)}")
        return cls(read_law(tree.attrs[QUERY], states))

    def _saved(self) -> "xr.DataTree":
        return write_fit(self._states, written_law(self._law))

    def _facts(self) -> Facts:
        ended = "" if self.converged else ", not converged: raise max_steps"
        names = [column.name for column in self.columns if column.name in self._first.schema.clumped]
        repeat = f"{elided(names, most=4)} repeat{'s' * (len(names) == 1)} values"
        better = f"{repeat}: chains fit better (2 to 20 nats a row in tests)" if names else ""
        return self._said({"fit": f"bound {self.bound:.1f} nats{ended}", "repeats": better})

    @property
    def bound(self) -> float:
        """Lower bound on the log evidence log p(data | hyperparameters), in nats.

        Examples
        --------
        >>> fit.bound < 0
        True
        """
        return float(max(b[-1] for b in self._states.fit.bounds)) - self._states.fit.log_prior

    @property
    def converged(self) -> bool:
        """Whether the fit has converged before the limit of steps.

        It has if the last step of the kept restart gained less than the tolerance. If it is False, the repr says so,
        and ``attrs["converged"]`` of each answer is 0.

        Examples
        --------
        >>> fit.converged
        True
        """
        return self._states.fit.is_converged

    def trace(self) -> "xr.DataArray":
        """Objective (restart, step) of each step in nats, NaN after the end.

        It is the bound plus the log prior of the learned hyperparameters. It never falls. Restarts that end at
        different values are different modes; the highest is kept.

        Examples
        --------
        >>> fit.trace().dims
        ('restart', 'step')
        """
        import xarray as xr

        bounds = self._states.fit.bounds
        out = np.full((len(bounds), max(b.size for b in bounds)), np.nan)
        for i, b in enumerate(bounds):
            out[i, : b.size] = b
        coords = {"restart": np.arange(len(bounds)), "step": np.arange(out.shape[1])}
        return xr.DataArray(out, coords, ["restart", "step"], "bound", self._attrs() | {"exactness": "bound"})

    def hyperparameters(self) -> "xr.Dataset":
        """Hyperparameters as given, or their point estimates.

        They are concentration, leaf_scale, leaf_shape and precision_ratio. With multivariate leaves, there is also
        covariance_scale for the columns in them.

        Examples
        --------
        >>> list(fit.hyperparameters())
        ['concentration', 'leaf_scale', 'leaf_shape', 'precision_ratio', 'covariance_scale']
        """
        import xarray as xr

        found, schema = self._states.fit.hyperparameters, self._first.schema
        names = [c.name for c in schema.columns]
        data = {kind: ("sum_node" if kind == "concentration" else "column", vector) for kind, vector in found.items()}
        coords = {"sum_node": ["inner", "univariate"], "column": names}
        _, scales = data.pop("covariance_scale")
        if schema.joint_columns.size:
            data["covariance_scale"] = "joint_column", scales[schema.joint_columns]
            coords["joint_column"] = [names[d] for d in schema.joint_columns]
        return xr.Dataset(data, coords, self._attrs())

    def log_likelihood(self, df: TableLike) -> "xr.DataTree":
        """Return the log predictive of new rows as the group ``log_likelihood``.

        Parameters
        ----------
        df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
            As for `log_density`.

        Returns
        -------
        DataTree
            One variable of the network's name, (chain, draw, <name>_row) float64, in nats.

        Examples
        --------
        >>> fit.log_likelihood(df.head(4))["x"].shape
        (1, 1, 4)
        """
        return self._log_likelihood(df)

    def co_clustering(self, df: TableLike) -> "xr.DataArray":
        """Calculate how probably two rows use the same child of the top sum node.

        Rows on children that hold no training row count as apart. The training rows are not kept: pass them as `df`;
        each is then assigned by itself, with what the fit has learned from all of them.

        Parameters
        ----------
        df : DataFrame of pandas, polars or pyarrow, mapping, array or Table

        Returns
        -------
        DataArray
            (row, other), 1 on the diagonal; NaN for rows whose density is zero, which a warning names.

        Examples
        --------
        >>> fit.co_clustering(df.head(4)).shape
        (4, 4)
        """
        return self._co_clustering(df)
