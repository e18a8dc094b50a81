"""What a model's tree needs to be read again."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables import Column
from pymc_spn.tables.fingerprints import data_digest

SCHEMA, RECORD, TICKET = "_tree_schema", "_record", "_log_joint"


@dataclass(frozen=True)
class TreeSchema(StoredSchema):
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

    form: ClassVar[int] = 2
    place: ClassVar[str] = "the tree's schema"
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
    return schema.to_vector(), data_digest([], values, y)
