"""What a `DagOrder` or `DagPartition` says of itself in a result."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pymc_spn.dags.dag import MOST_VARIABLES
from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.stored_arrays import checked, refuse

if TYPE_CHECKING:
    from pymc_spn.dags.local_scores import LocalScores

SCHEMA, PARENTS, SCORES = "_schema", "_parents", "_scores_"


@dataclass(frozen=True)
class DagSchema(StoredSchema):
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

    form: ClassVar[int] = 2
    place: ClassVar[str] = "the schema of a graph"
    marks: ClassVar[dict[str, str]] = {"kind": "dag"}
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

    @classmethod
    def of_fields(cls, fields: dict[str, Any], place: str) -> "DagSchema":
        """Names are distinct strings, and there are two scores of each variable."""
        schema = super().of_fields(fields, place)
        if schema.state not in ("order", "partition"):
            refuse(f"the state in {place}", "be 'order' or 'partition'", schema.state)
        for key in ("variables", "restricted"):
            if not isinstance(fields[key], tuple) or not all(isinstance(n, str) for n in fields[key]):
                refuse(f"{key} of a graph", "be a list of strings", fields[key])
        if not 1 <= len(set(schema.variables)) == len(schema.variables) <= MOST_VARIABLES:
            refuse("the variables of a graph", f"be distinct and 1 to {MOST_VARIABLES}", schema.variables)
        checked("scores of a graph", schema.scores, (2 * len(schema.variables),))
        return schema


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
