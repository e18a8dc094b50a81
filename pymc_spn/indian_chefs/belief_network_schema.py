"""What a belief network needs to be read again from a DataTree: names, kind, priors, scaling; as JSON bytes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.indian_chefs.draw_checks import check_scaling, checked_room
from pymc_spn.indian_chefs.unit_scaling import UnitScaling
from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables.stored_arrays import refuse

NETWORK_SCHEMA, PARAMETERS = "_network_schema", "_parameters"
NONLINEAR, LINEAR, SIGMOID = "nonlinear gaussian", "linear gaussian", "sigmoid"


@dataclass(frozen=True)
class BeliefNetworkSchema(StoredSchema):
    """A belief network on a graph of a model.

    Parameters
    ----------
    name, graph : str
        Of the observed variable and of its graph.
    kind : str
    columns : tuple of str
    prior : dict
        Fields of `NetworkPrior`.
    scaling : UnitScaling or None
    max_nodes : int
    data : str, optional
        `data_digest` of the observed table as PyMC holds it; None where it was not written down.
    frame : {"polars", "pyarrow"} or None
        What the observed table was, None for pandas and arrays.
    """

    form: ClassVar[int] = 2
    place: ClassVar[str] = "the schema of a belief network"
    graph: str
    kind: str
    columns: tuple[str, ...]
    prior: dict[str, Any]
    scaling: UnitScaling | None
    max_nodes: int
    data: str | None = None
    frame: str | None = None

    @classmethod
    def of_fields(cls, fields: dict[str, Any], place: str) -> "BeliefNetworkSchema":
        """There is room for the columns, and a scaling is one of theirs."""
        if isinstance(fields.get("scaling"), dict):
            own: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields["scaling"].items()}
            fields["scaling"] = UnitScaling(**own)
            check_scaling(fields["scaling"], fields["columns"])
        schema = super().of_fields(fields, place)
        if schema.kind not in (NONLINEAR, LINEAR, SIGMOID):
            refuse(f"kind in {place}", f"be {NONLINEAR}, {LINEAR} or {SIGMOID}", schema.kind)
        checked_room(schema.max_nodes, schema.columns)
        return schema


def pack_parameters(weights: np.ndarray, biases: np.ndarray, precisions: np.ndarray, max_nodes: int) -> np.ndarray:
    """((K + 2) K,) float32: weights, biases, precisions in canonical order; precision 0 where there is no node.

    Precisions below the smallest normal number of single precision are recorded as that number: a unit is then 0 or 1
    whatever its parents are, to 19 digits.
    """
    n = len(biases)
    out = np.zeros((max_nodes + 2, max_nodes), np.float32)
    out[:n, :n], out[max_nodes, :n] = weights, biases
    out[max_nodes + 1, :n] = np.maximum(precisions, np.finfo(np.float32).tiny)
    return out.ravel()


def unpack_parameters(record: np.ndarray, max_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (n, n), biases (n,) and precisions (n,) of one record, as float64."""
    table = np.asarray(record, np.float64).reshape(max_nodes + 2, max_nodes)
    n = int(np.count_nonzero(table[max_nodes + 1]))
    return table[:n, :n], table[max_nodes, :n], table[max_nodes + 1, :n]
