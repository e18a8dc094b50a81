"""Recorded graphs lent to a model, so that its other terms can be predicted or evaluated given each of them."""

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.indian_chefs.graph_draws import GraphDraws
from pymc_spn.indian_chefs.packed_graphs import pack_arrays
from pymc_spn.indian_chefs.process import TICKET
from pymc_spn.indian_chefs.recorded_graphs import graph_names
from pymc_spn.tables.tree_files import draws_of_record, hint_of_groups, reading

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr


def load_graphs(idata: "xr.DataTree | str | PathLike[str]", model: "pm.Model | None" = None) -> None:
    """Lend the recorded graphs of unknown size to the model, so that stored draws can be evaluated.

    ``pm.sample_posterior_predictive(idata)`` and ``pm.compute_log_likelihood(idata)`` then find the graph of every
    draw, also of a result that was reloaded in another process. A belief network's own variable stays closed: its
    hidden units are not recorded, and `BeliefNetworkPosterior` answers for it.

    Parameters
    ----------
    idata : DataTree or path
        Result of ``pm.sample``.
    model : Model, optional
        The model in whose context this is called.

    Raises
    ------
    ValueError
        If there is no graph, the model lacks it or has another room, or the posterior group lacks ``<name>_log_joint``.
        Also if two draws with different graphs have the same log joint, since a draw is recognised by it. That has
        probability zero unless graphs can differ without differing in a reputation, as those on levels alone can.

    Examples
    --------
    >>> with pm.Model():
    ...     graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=2)
    ...     drawn = pm.sample(**few)
    ...     ps.indian_chefs.load_graphs(drawn)  # from here the model can evaluate the stored draws
    """
    import pymc as pm

    model = pm.modelcontext(model)
    with reading(idata) as idata:
        names = graph_names(idata)
        if not names:
            raise ValueError("idata holds no draws of a ps.IndianChefsProcess" + hint_of_groups(idata))
        for name in names:
            draws = GraphDraws._read(idata, name)
            ticket = name + TICKET
            if name not in model.named_vars:
                raise ValueError(f"the model has no graph {name!r}, whose draws idata holds")
            shared = model[name].owner.op.dist_params(model[name].owner)[-1]
            packed = pack_arrays(draws.counts, draws.places, draws.parents)
            if shared.get_value(borrow=True).shape[1] != packed.shape[-1] + 1:
                raise ValueError(f"{name!r} of the model must have max_nodes = {draws.schema.max_nodes}, as idata has")
            if "posterior" not in idata.children or ticket not in idata["posterior"].data_vars:
                raise ValueError(f"the posterior group of idata lacks {ticket!r}; sample with it among var_names")
            tickets = draws_of_record(idata["posterior"].dataset[ticket], draws.chains, draws.draws).values
            rows = np.unique(np.concatenate([tickets[..., None], packed], axis=-1).reshape(tickets.size, -1), axis=0)
            same = np.flatnonzero(rows[1:, 0] == rows[:-1, 0])
            if same.size:
                raise ValueError(
                    f"{name!r} has different graphs with the same log joint, {rows[same[0], 0]:g}, so that stored "
                    "draws cannot be told apart; ps.GraphDraws.from_idata(idata) holds them"
                )
            shared.set_value(rows)
