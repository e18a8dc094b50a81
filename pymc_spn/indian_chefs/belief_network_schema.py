"""What a belief network needs to be read again from a DataTree: names, kind, priors, scaling; as JSON bytes."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pymc_spn.indian_chefs.draw_checks import check_scaling, checked_room
from pymc_spn.indian_chefs.unit_scaling import UnitScaling
from pymc_spn.tables.stored_arrays import checked_kind, refuse, schema_fields, without_pandas

FORMAT = 2
NETWORK_SCHEMA, PARAMETERS = "_network_schema", "_parameters"
NONLINEAR, LINEAR, SIGMOID = "nonlinear gaussian", "linear gaussian", "sigmoid"


@dataclass(frozen=True)
class BeliefNetworkSchema:
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

    name: str
    graph: str
    kind: str
    columns: tuple[str, ...]
    prior: dict[str, Any]
    scaling: UnitScaling | None
    max_nodes: int
    data: str | None = None
    frame: str | None = None

    def to_vector(self) -> np.ndarray:
        """Bytes of the JSON text as integers, which every storage keeps."""
        text = json.dumps(without_pandas({"format": FORMAT, **asdict(self)}))
        return np.frombuffer(text.encode(), np.uint8).astype(np.int16)

    @classmethod
    def from_vector(cls, vector: Any) -> "BeliefNetworkSchema":
        """Read back what `to_vector` wrote.

        Raises
        ------
        ValueError
            If it is of another format version.
        """
        place = "the schema of a belief network"
        fields = schema_fields(vector, place, FORMAT)
        fields["frame"] = checked_kind(fields.get("frame"))
        if fields.keys() != cls.__dataclass_fields__.keys():
            refuse(place, f"have {list(cls.__dataclass_fields__)}", list(fields))
        if fields["kind"] not in (NONLINEAR, LINEAR, SIGMOID):
            refuse(f"kind in {place}", f"be {NONLINEAR}, {LINEAR} or {SIGMOID}", fields["kind"])
        fields["columns"] = tuple(fields["columns"])
        fields["max_nodes"] = checked_room(fields["max_nodes"], fields["columns"])
        if fields["scaling"] is not None:
            scaling: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields["scaling"].items()}
            fields["scaling"] = UnitScaling(**scaling)
            check_scaling(fields["scaling"], fields["columns"])
        return cls(**fields)


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
