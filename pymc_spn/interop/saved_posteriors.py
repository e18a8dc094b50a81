"""One way to read any posterior object that was saved."""

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from pymc_spn.dags.order_spn import IMPUTED
from pymc_spn.dags.order_spn import SAVED as ORDER_SPN
from pymc_spn.indian_chefs.belief_network_posterior import SAVED as BELIEF_NETWORK
from pymc_spn.interop.sampled_structures import NOTHING, sampled_structures, whole_structures
from pymc_spn.networks.records.fitted_states import QUERY as VARIATIONAL_POSTERIOR
from pymc_spn.networks.records.record import SAVED as SPN_POSTERIOR
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.tree_files import reading
from pymc_spn.trees.draws import GROUP as TREES

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.dags.imputed_posterior import ImputedDagPosterior
    from pymc_spn.dags.mcmc_posterior import DagDraws
    from pymc_spn.dags.order_spn import OrderSPN
    from pymc_spn.indian_chefs.belief_network_posterior import BeliefNetworkPosterior
    from pymc_spn.indian_chefs.graph_draws import GraphDraws
    from pymc_spn.networks.posterior import SPNPosterior
    from pymc_spn.networks.variational_posterior import VariationalPosterior
    from pymc_spn.trees.posterior import TreePosterior

# what marks a file of `save`, and the class of the object
KEPT = (
    (ORDER_SPN, "pymc_spn.dags.order_spn:OrderSPN"),
    (IMPUTED, "pymc_spn.dags.imputed_posterior:ImputedDagPosterior"),
    (BELIEF_NETWORK, "pymc_spn.indian_chefs.belief_network_posterior:BeliefNetworkPosterior"),
    (TREES, "pymc_spn.trees.posterior:TreePosterior"),
    (VARIATIONAL_POSTERIOR, "pymc_spn.networks.variational_posterior:VariationalPosterior"),
    (SPN_POSTERIOR, "pymc_spn.networks.posterior:SPNPosterior"),
)
type Posterior = (
    "SPNPosterior | VariationalPosterior | OrderSPN | ImputedDagPosterior | DagDraws | GraphDraws "
    "| BeliefNetworkPosterior | TreePosterior"
)


def load(path: str | PathLike[str], name: str | None = None) -> Posterior:
    """Read a posterior from a netCDF file that ``save`` or ``pm.sample`` wrote.

    Parameters
    ----------
    path : str or path-like
    name : str, optional
        For a result of ``pm.sample`` with several networks, graphs or decision trees: the name of one. A belief
        network and its graph count as one, the network.

    Returns
    -------
    SPNPosterior, VariationalPosterior, OrderSPN, ImputedDagPosterior, DagDraws, GraphDraws, BeliefNetworkPosterior or
    TreePosterior
        Every query gives the same bits as before saving.

    Raises
    ------
    TypeError
        If `path` is not a path.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a netCDF-4 file (for example a Zarr store), is damaged, or was written in a format that this
        version does not read. Also if it holds no posterior, or several and no name is given.

    Notes
    -----
    A file of ``save`` ends in a checksum of its bytes, which is compared first. A file of ``idata.to_netcdf`` has none.
    In both, every array is checked before it is used.

    Examples
    --------
    >>> fit.save(folder / "fit.nc")
    >>> type(ps.load(folder / "fit.nc")).__name__
    'VariationalPosterior'
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(
            f"path must be that of a netCDF file, got {quoted(path)}; a result of pm.sample in memory is read by "
            "from_idata, as in ps.SPNPosterior.from_idata(idata), and a table by ps.Table.from_frame"
        )
    with reading(path) as tree:
        for mark, title in KEPT:
            if mark in tree.attrs or mark in tree.children:
                return _class_of(title)._from_tree(tree)
        return _sampled(tree, path, name)


def _sampled(idata: "xr.DataTree", path: str | PathLike[str], name: str | None) -> Posterior:
    """The posterior object of one structure among those that ``pm.sample`` drew."""
    found = sampled_structures(idata)
    if not found:
        raise ValueError(f"{path} holds no posterior object that was saved, and {NOTHING}")
    whole = whole_structures(idata)
    if name is None and len(whole) > 1:
        raise ValueError(f"{path} holds several structures. Choose one with name=, one of {quoted(sorted(found))}")
    chosen = whole[0] if name is None else name
    if chosen not in found:
        raise ValueError(f"name must be one of {quoted(sorted(found))}, got {quoted(name)}")
    return _class_of(found[chosen].posterior)._from_tree(idata, chosen)


def _class_of(title: str) -> Any:
    """The class of ``module:name``, loaded where it is needed."""
    module, _, name = title.partition(":")
    return getattr(import_module(module), name)
