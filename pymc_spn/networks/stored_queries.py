"""What a saved posterior object asks of its draws: columns that are kept, and a condition."""

import json
import math
from typing import Any

import numpy as np

from pymc_spn.events.events import Events, Interval, events_from_json, events_to_json
from pymc_spn.laws.law import Law
from pymc_spn.laws.mixed_law import MixedLaw
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.tables.stored_arrays import checked, json_of, refuse


def written_law(law: Law, n_draws: int = 1, chosen: str | None = None) -> str:
    """Columns and conditions of a law as JSON, how many draws of each chain answer, a digest of the chains' weights."""
    parts = [part for part in law.parts if isinstance(part, RecordedLaw)]
    query = {"kept": list(parts[0].kept), "evidence": [events_to_json(part.evidence) for part in parts]}
    return json.dumps(query | {"draws": n_draws, "log_weights": chosen})


def read_draws(text: Any) -> int:
    """How many draws of each chain answer."""
    place = "the query of the saved posterior"
    return int(checked(f"{place}: draws", [json_of(text, place)["draws"]], (1,), 1, whole=True)[0])


def read_law(text: Any, states: RecordedStates, chosen: np.ndarray | None = None) -> Law:
    """The law from which `written_law` made the text.

    Raises
    ------
    ValueError
        If a column does not exist, or cannot have the value that it is said to have.
    """
    place, schema = "the query of the saved posterior", states.schema
    query = json_of(text, place)
    n_columns = len(schema.columns)
    kept = checked(f"{place}: columns", query["kept"], (None,), 0, n_columns - 1, whole=True).tolist()
    if len(set(kept)) < len(kept):
        refuse(f"{place}: columns", "be distinct", kept)
    if not isinstance(query["evidence"], list) or not query["evidence"]:
        refuse(f"{place}: conditions", "be a list of one or more", query["evidence"])
    events = [_checked_events(place, schema, events_from_json(one)) for one in query["evidence"]]
    laws = [RecordedLaw(states, kept, one, chosen) for one in events]
    return laws[0] if len(laws) == 1 else MixedLaw(laws)


def _checked_events(place: str, schema: Any, events: Events) -> Events:
    n_columns = len(schema.columns)
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
    return events
