"""One way to read any posterior object that was saved."""

from os import PathLike
from typing import Any

from pymc_spn.circuits.queries.fitted_states import QUERY as VARIATIONAL_POSTERIOR
from pymc_spn.circuits.queries.record import SAVED as SPN_POSTERIOR
from pymc_spn.dags.storage import SAVED as ORDER_SPN
from pymc_spn.indian_chefs.network_posterior import SAVED as BELIEF_NETWORK
from pymc_spn.trees.draws import GROUP as TREES


def load(path: str | PathLike[str]) -> Any:
    """Read a posterior object from the netCDF file that its ``save`` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    SPNPosterior, VariationalPosterior, OrderSPN, BeliefNetworkPosterior or TreePosterior
        Every query gives the same bits as before.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file holds none of these, or was written in a format that this version does not read.
    """
    import xarray as xr

    with xr.open_datatree(path, engine="h5netcdf") as tree:
        attributes, groups = set(tree.attrs), set(tree.children)
    if ORDER_SPN in attributes:
        from pymc_spn.dags.order_spn import OrderSPN

        return OrderSPN.load(path)
    if BELIEF_NETWORK in attributes:
        from pymc_spn.indian_chefs.network_posterior import BeliefNetworkPosterior

        return BeliefNetworkPosterior.load(path)
    if TREES in groups:
        from pymc_spn.trees.posterior import TreePosterior

        return TreePosterior.load(path)
    if VARIATIONAL_POSTERIOR in attributes:
        from pymc_spn.circuits.queries.variational_posterior import VariationalPosterior

        return VariationalPosterior.from_idata(path)
    if SPN_POSTERIOR in attributes:
        from pymc_spn.circuits.queries.posterior import SPNPosterior

        return SPNPosterior.from_idata(path)
    raise ValueError(
        f"{path} holds no posterior object that was saved; a result of pm.sample is read by the from_idata of its "
        "family's class"
    )
