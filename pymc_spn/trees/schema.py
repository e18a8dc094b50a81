"""What a model's tree needs to be read again, as JSON bytes; and the statistics that its log density is made of."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pymc_spn.tables import Column
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.stored_arrays import schema_fields

FORMAT = 2
SCHEMA, RECORD, TICKET = "_tree_schema", "_record", "_log_joint"


@dataclass(frozen=True)
class TreeSchema:
    """Names and settings of one tree and its response.

    Parameters
    ----------
    name, response : str
        Of the tree and of the observed variable.
    columns : tuple of dict
        ``Column.to_json`` of each feature.
    splits : tuple of str
    weights : tuple of float
    x_name, missing_name : str, str or None
        Data containers of features and of the mask of missing cells; without a mask -1 is missing where ``x_is_int``.
    x_is_int : bool
    max_depth : int or None
    min_size : int
    rules : dict
        For alpha_s and beta_s ``{"fixed": number}`` or ``{"variable": name}``.
    family : dict
        From ``family_to_json``.
    parameters : dict
        For each parameter of the family, as for ``rules``.
    """

    name: str
    response: str
    columns: tuple
    splits: tuple
    weights: tuple
    x_name: str
    missing_name: str | None
    x_is_int: bool
    max_depth: int | None
    min_size: int
    rules: dict
    family: dict
    parameters: dict

    def to_bytes(self) -> np.ndarray:
        """JSON text as small integers, which every storage keeps."""
        text = json.dumps({"format": FORMAT} | asdict(self))
        return np.frombuffer(text.encode(), np.uint8).astype(np.int16)

    @classmethod
    def from_bytes(cls, stored: Any) -> "TreeSchema":
        """Read back what `to_bytes` wrote."""
        fields = schema_fields(stored, "the tree's schema", FORMAT, cls.__dataclass_fields__)
        for key in ("columns", "splits", "weights"):
            fields[key] = tuple(fields[key])
        return cls(**fields)

    @property
    def column_objects(self) -> tuple[Column, ...]:
        """The features' columns."""
        return tuple(Column.from_json(c) for c in self.columns)

    def values(self, x: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """(N, D) floats with NaN where missing, from the containers."""
        values = np.array(x, np.float64)
        if mask is not None:
            if mask.shape != values.shape:
                raise ValueError(
                    f"{self.missing_name} must have shape {values.shape} as {self.x_name}, got {mask.shape}; set both"
                )
            values[mask != 0] = np.nan
        elif self.x_is_int:
            values[values == -1.0] = np.nan
        return values


def described(schema: TreeSchema, values: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, str]:
    """What the fingerprints of a tree are made of: its schema, features (N, D) and response (N,).

    Features and response stand in data containers, which ``pm.set_data`` can fill again, and a result takes what the
    model has now.
    """
    return schema.to_bytes(), data_digest([], values, y)
