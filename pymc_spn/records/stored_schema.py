"""What a structure of a model says of itself in a result: the fields of a dataclass, as JSON bytes."""

import json
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Self

import numpy as np

from pymc_spn.tables.saved_files import refusing_damage
from pymc_spn.tables.stored_arrays import ALTERED, checked_kind, json_of, refuse, without_pandas


@dataclass(frozen=True, eq=False)
class StoredSchema:
    """Base of the schemas of all families; a frozen dataclass of numbers, texts, tuples and mappings.

    A subclass checks its fields in `of_fields`, which gets lists as tuples.
    """

    form: ClassVar[int]  # number of the format
    place: ClassVar[str]  # what it is, for messages
    marks: ClassVar[dict[str, str]] = {}  # more fields, which a text of this schema must have
    name: str

    def to_json(self) -> str:
        """JSON text; floats keep every bit."""
        return json.dumps(without_pandas({"format": self.form, **self.marks, **asdict(self)}))

    def to_vector(self) -> np.ndarray:
        """Bytes of the JSON text as integers, which every storage keeps."""
        return bytes_of_text(self.to_json())

    @classmethod
    def from_vector(cls, stored: Any, place: str | None = None) -> Self:
        """Read back what `to_vector` or `to_json` wrote.

        Parameters
        ----------
        stored : (n,) integer array or str
        place : str, optional
            Where it was found, for messages.

        Raises
        ------
        ValueError
            If it is not such a text, or one of another format.
        """
        place = place or cls.place
        fields = json_of(stored, place)
        if fields.pop("format", None) != cls.form:
            raise ValueError(f"{place} has a format other than {cls.form}: use the version that wrote it, or fit again")
        for key, value in cls.marks.items():
            if (found := fields.pop(key, None)) != value:
                refuse(place, f"have the {key} {value!r}", repr(found))
        try:
            with refusing_damage(None):
                return cls.of_fields({k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}, place)
        except ValueError as error:
            why = str(error).removesuffix(f"; {ALTERED}")
            raise ValueError(f"{place} holds no valid schema: {why}; {ALTERED}") from error

    @classmethod
    def of_fields(cls, fields: dict[str, Any], place: str) -> Self:
        """The schema of fields out of a file, checked."""
        names = {field.name for field in dataclass_fields(cls)}
        if "frame" in names:
            fields["frame"] = checked_kind(fields.get("frame"))
        if fields.keys() != names:
            refuse(place, f"have {sorted(names)}", sorted(fields))
        if not isinstance(fields["name"], str):
            refuse(f"the name in {place}", "be a string", fields["name"])
        return cls(**fields)


def bytes_of_text(text: str) -> np.ndarray:
    """Bytes of a text as integers, which every storage keeps."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int16)
