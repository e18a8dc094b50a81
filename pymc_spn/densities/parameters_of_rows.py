"""Weights and leaf parameters of a `CircuitDensity` that may be each row's own: numbers checked, families joined."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt


def checked_numbers(check: Callable[[Any], np.ndarray], given: Any, n_dims: int | None) -> Any:
    """Numbers as a constant; with ``n_dims`` dimensions they are each row's own."""
    given = given.to_numpy() if hasattr(given, "to_numpy") else given  # a frame would be read by its columns
    try:
        has_rows = np.ndim(given) == n_dims
    except ValueError:  # lists of several lengths: the check says so
        has_rows = False
    if not has_rows:
        return pt.as_tensor_variable(check(given))
    if len(given) == 0:
        raise ValueError("parameters of each row's own must be those of at least one row, got none")
    for n, own in enumerate(given):
        try:
            check(own)
        except ValueError as error:
            raise ValueError(f"{error}; these are the parameters of row {n}") from None
    return pt.as_tensor_variable(np.asarray(given, np.float64))


def check_n_rows(n_rows: Mapping[str, int | None]) -> None:
    """Refuse numbers of rows that differ as far as they are known."""
    known = {argument: n for argument, n in n_rows.items() if n is not None}
    for argument, n in known.items():
        first = next(iter(known))
        if n != known[first]:
            raise ValueError(f"{argument} must have as many rows as {first}, {known[first]}, got {n}")
        if n == 1 and len(known) < len(n_rows):  # the graph would hand it to all rows
            unknown = next(a for a in n_rows if a not in known)
            are_cells = argument == "observed" or argument.startswith("given")
            hint = "have them in a pm.Data, too" if are_cells else "leave the dimension of rows out"
            raise ValueError(f"{argument} must not have one row where {unknown} may have others: {hint}")


def flat_leaf_parameters(parameters: Sequence[Any]) -> Any:
    """Leaf parameters (n, p) of the families as one vector (P,), or (N, P) where some are (N, n, p)."""
    own = [v for v in parameters if v.type.ndim == 3]
    if not own:
        return pt.concatenate([v.ravel() for v in parameters])
    n_rows = own[0].shape[0]
    flat = [v.flatten(2) if v.type.ndim == 3 else pt.broadcast_to(v.ravel(), (n_rows, v.size)) for v in parameters]
    return pt.concatenate(flat, axis=1)


def without_batch(parameter: Any) -> Any:
    """An input of a variable that all rows share, without its batch dimensions of 1."""
    return parameter.squeeze(axis=tuple(range(parameter.type.ndim - 1)))


def of_rows_or_all(parameter: Any) -> Any:
    """An input of a variable as `circuit_rows` takes it: values of each row's own, or those of all rows."""
    return without_batch(parameter) if all(parameter.type.broadcastable[:-1]) else parameter
