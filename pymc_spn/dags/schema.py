"""What a `DagOrder` or `DagPartition` says of itself in a DataTree, as JSON; and how its draws are found again."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.dag import MOST_VARIABLES
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.stored_arrays import checked, checked_kind, json_of, refuse, schema_fields, without_pandas
from pymc_spn.tables.tree_files import chosen_name

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.dags.local_scores import LocalScores

FORMAT = 2
SCHEMA, PARENTS, SCORES = "_schema", "_parents", "_scores_"


@dataclass(frozen=True)
class DagSchema:
    """A sampled graph.

    Parameters
    ----------
    name : str
        Name of the variable in the model.
    state : {"order", "partition"}
        What is traced: positions in an order, or block numbers of an ordered partition.
    variables : tuple of str
    score, prior : str
    restricted : tuple of str
        Variables for which allowed parents were left out of the candidates.
    candidates : str
        `data_digest` of the candidate parents and of the parent sets that knowledge rules out.
    scores : tuple of float
        From `summary_of_scores`.
    frame : {"polars", "pyarrow"} or None
        What the data were, None for pandas.
    """

    name: str
    state: str
    variables: tuple[str, ...]
    score: str
    prior: str
    restricted: tuple[str, ...]
    candidates: str
    scores: tuple[float, ...]
    frame: str | None = None

    @property
    def target(self) -> str:
        """ "order-modular" or "structure-modular"."""
        return "order-modular" if self.state == "order" else "structure-modular"

    def to_vector(self) -> np.ndarray:
        """Bytes of the JSON text as integers, which every storage keeps."""
        return bytes_of_json(without_pandas({"format": FORMAT, "kind": "dag", **asdict(self)}))

    @classmethod
    def from_vector(cls, vector: Any) -> "DagSchema":
        """Read back what `to_vector` wrote.

        Raises
        ------
        ValueError
            When it is no schema of a graph, or of another format version.
        """
        place = "the schema of a graph"
        fields = schema_fields(vector, place, FORMAT)
        if fields.pop("kind", None) != "dag":
            raise ValueError("the vector must hold the schema of a ps.DagOrder or ps.DagPartition, and does not")
        fields["frame"] = checked_kind(fields.get("frame"))
        if fields.keys() != cls.__dataclass_fields__.keys() or fields["state"] not in ("order", "partition"):
            refuse(place, f"have {list(cls.__dataclass_fields__)}", fields)
        for key in ("variables", "restricted"):
            if not isinstance(fields[key], list) or not all(isinstance(n, str) for n in fields[key]):
                refuse(f"{key} of a graph", "be a list of strings", fields[key])
            fields[key] = tuple(fields[key])
        if not 1 <= len(set(fields["variables"])) == len(fields["variables"]) <= MOST_VARIABLES:
            refuse("the variables of a graph", f"be distinct and 1 to {MOST_VARIABLES}", fields["variables"])
        found = checked("scores of a graph", fields["scores"], (2 * len(fields["variables"]),))
        return cls(**fields | {"scores": tuple(found.tolist())})


def bytes_of_json(fields: dict[str, Any]) -> np.ndarray:
    """Bytes of a JSON text as integers, which every storage keeps."""
    return np.frombuffer(json.dumps(fields).encode(), np.uint8).astype(np.int16)


def summary_of_scores(scores: "LocalScores") -> tuple[float, ...]:
    """Largest and mean log score of each variable to nine digits.

    Digits beyond these depend on the order in which rows were added up, and the posterior does not.
    """
    finite = np.isfinite(scores.log_scores)
    sums = np.add.reduceat(np.where(finite, scores.log_scores, 0.0), scores.offsets[:-1])
    means = sums / np.add.reduceat(finite.astype(np.int64), scores.offsets[:-1])
    return tuple(float(f"{x:.9g}") for x in (*scores.tops, *means))


def digest_of_candidates(scores: "LocalScores") -> str:
    """`data_digest` of the candidate parents and of the parent sets that knowledge rules out."""
    ruled_out = np.packbits(np.isneginf(scores.log_scores))
    return data_digest(scores.names, scores.candidates, scores.n_candidates, scores.precede_sets, ruled_out)


def dag_schemas(idata: "xr.DataTree") -> dict[str, DagSchema]:
    """Schemas of the sampled graphs that a tree holds, by name."""
    if "constant_data" not in idata.children:
        return {}
    constants = idata["constant_data"].dataset
    found: dict[str, DagSchema] = {}
    for variable in constants.data_vars:
        name = str(variable).removesuffix(SCHEMA)
        if name == str(variable):
            continue
        try:
            kind = json_of(constants[variable].values, name).get("kind")
        except ValueError:
            continue  # of another family, and damaged
        if kind == "dag":
            found[name] = DagSchema.from_vector(constants[variable].values)
    return found


def graph_names(idata: "xr.DataTree") -> list[str]:
    """Names of the sampled graphs whose draws a tree holds, unpacked or not."""
    stats = idata.children.get("sample_stats")
    return [
        name
        for name in dag_schemas(idata)
        if is_unpacked(idata, name) or (stats is not None and name + PARENTS in stats.data_vars)
    ]


def is_unpacked(idata: "xr.DataTree", name: str) -> bool:
    """Whether the graphs stand in a group of their own."""
    group = idata.children.get(name)
    return group is not None and "graphs" in group.data_vars


def find_schema(idata: "xr.DataTree", name: str | None) -> DagSchema:
    """The schema that was asked for, or the only one."""
    found = dag_schemas(idata)
    return found[chosen_name(found, name, idata, "sampled graphs", "no draws of a ps.DagOrder or ps.DagPartition")]
