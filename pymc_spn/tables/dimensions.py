"""Dimensions of a variable: those that a user names, and its own where he names none."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.row_labels import row_labels


def own_dimension(model: Any, dimension: str, labels: Sequence[Any] | None, length: Any = None) -> str:
    """Register a dimension of a variable that was given no dims, with its labels.

    Parameters
    ----------
    model : Model
    dimension : str
        Name with the variable's in front, so that two variables of a model do not share it.
    labels : sequence or None
        None numbers them: `length` says how many there are.
    length : int or tensor, optional
        A tensor where data that change may change it.

    Returns
    -------
    str
        The dimension.

    Raises
    ------
    ValueError
        If the model has a coordinate of this name with other labels.
    """
    refuse_other_labels(model, dimension, labels)
    model.add_coord(dimension, labels, length=length)
    return dimension


def refuse_other_labels(model: Any, dimension: str, labels: Sequence[Any] | None) -> None:
    """Refuse a dimension that the model has already, with other labels; see `own_dimension`."""
    if dimension in model.coords:
        known, own = model.coords[dimension], None if labels is None else list(labels)
        if known is None or own is None or list(known) != own:
            shown = "numbers" if known is None else quoted(list(known))
            wanted = "numbers" if own is None else quoted(own)
            raise ValueError(
                f"the model has a coordinate {dimension!r} with the labels {shown}, and a variable whose own dimension "
                f"of this name has {wanted}: rename the coordinate or the variable"
            )


def own_dims(model: Any, name: str, columns: Sequence[str], n_rows: Any, index: Any = None) -> tuple[str, str]:
    """Register the dimensions ``<name>_row`` and ``<name>_column`` of a table that was given no dims.

    Parameters
    ----------
    model : Model
    name : str
        Of the variable, in full.
    columns : sequence of str
    n_rows : int or tensor
    index : Index, optional
        Labels of the rows; None numbers them.
    """
    labels = None if index is None else list(row_labels(index))
    rows = own_dimension(model, f"{name}_row", labels, n_rows if labels is None else None)
    return rows, own_dimension(model, f"{name}_column", list(columns))


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
