"""Dimensions that a user names for the columns of a variable."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymc_spn.numerics.quoted_values import quoted


def refuse_columns_in_another_order(dims: Any, coords: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a coordinate that has the columns' own names in another order than the variable has the columns.

    Each value would stand under the name of another column. Labels that are no such names are the user's affair.

    Parameters
    ----------
    dims : tuple of str or None
        Of the variable, columns last.
    coords : mapping
        Labels of the model's dimensions, None where it has none.
    names : sequence of str
        Columns in the order of the variable.

    Raises
    ------
    ValueError
        If the labels are the names in another order.
    """
    labels = coords.get(dims[-1]) if dims else None
    found = [str(label) for label in labels] if labels is not None else []
    if found != list(names) and sorted(found) == sorted(names):
        raise ValueError(
            f"dims: the coordinate {dims[-1]!r} must have the columns in the order in which the variable has them, "
            f"{quoted(list(names))}, got {found}"
        )
