"""What a saved posterior object asks of its draws: columns that are kept, and a condition."""

import math
from typing import Any

import numpy as np

from pymc_spn.events.events import Events, events_from_json
from pymc_spn.networks.records.leaf_predictives import Interval
from pymc_spn.tables.stored_arrays import checked, json_of, refuse


def read_query(text: Any, schema: Any) -> tuple[list[int], Events]:
    """Columns and condition of a saved posterior.

    Raises
    ------
    ValueError
        If a column does not exist, or cannot have the value that it is said to have.
    """
    place = "the query of the saved posterior"
    query = json_of(text, place)
    n_columns = len(schema.columns)
    kept = checked(f"{place}: columns", query["kept"], (None,), 0, n_columns - 1, whole=True).tolist()
    if len(set(kept)) < len(kept):
        refuse(f"{place}: columns", "be distinct", kept)
    events = events_from_json(query["evidence"])
    for d, event in events.items():
        if not 0 <= d < n_columns:
            refuse(f"{place}: conditions", f"be about columns 0..{n_columns - 1}", d)
        column = schema.columns[d]
        if isinstance(event, Interval):
            numbers = all(isinstance(end, float | int) for end in event) and not any(map(math.isnan, event))
            fits = numbers and event.low <= event.high and column.levels is None
        else:
            values = np.array(sorted(event) if isinstance(event, frozenset) else [event], np.float64)
            fits = values.size > 0 and bool(schema.possible(d, values).all())
        if not fits:
            refuse(f"{place}: the condition on column {column.name!r}", f"be of kind {column.kind}", event)
    return kept, events
