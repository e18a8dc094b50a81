"""A circuit given a union of events, as a law: a circuit that is a sum over the parts of the union, and these parts."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.laws.circuit_law import CircuitLaw
from pymc_spn.circuits.laws.circuit_parts import mixed_parts
from pymc_spn.events.events import Events
from pymc_spn.laws.law import Law, Marks
from pymc_spn.laws.mixed_law import in_words_of_parts


class CircuitUnion(CircuitLaw):
    """One circuit given that one of several events holds.

    Parameters
    ----------
    parts : sequence of CircuitLaw
        Over the same columns, given disjoint events; log weights as for one circuit.
    """

    def __init__(self, parts: Sequence[CircuitLaw]) -> None:
        logs = np.array([part.log_weights[0] for part in parts])
        shares = np.exp(logs - logs.max())
        some = shares > 0.0
        found = [part.part for part, is_used in zip(parts, some, strict=True) if is_used]
        mixture = mixed_parts(found, shares[some] / shares[some].sum())
        super().__init__(Parameterised(*mixture), parts[0].columns, parts[0].marks)
        self._parts = tuple(parts)

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self._parts}

    @property
    def parts(self) -> tuple[CircuitLaw, ...]:
        """What is mixed."""
        return self._parts

    @property
    def is_given(self) -> bool:
        """See `CircuitLaw`."""
        return True

    def in_words(self) -> str:
        """See `Law`."""
        return in_words_of_parts(self)

    def marked(self, marks: Marks) -> "CircuitUnion":
        """See `CircuitLaw`."""
        law = super().marked(marks)
        law._parts = tuple(part.marked(marks) for part in self.parts)
        return law

    def reduced(self) -> "CircuitUnion":
        """See `CircuitLaw`: the parts have log weights under one circuit."""
        return self

    def given(self, event: Events) -> CircuitLaw:
        """See `Law`."""
        some = [part for part in self.parts if part.log_event(event)[0] > -np.inf]
        if not some:
            raise ValueError("given: nothing of it can occur within the union that the circuit is conditioned on")
        found = [part.given(event) for part in some]
        return found[0] if len(found) == 1 else CircuitUnion(found)

    def of(self, columns: Sequence[int]) -> "CircuitUnion":
        """See `Law`."""
        return CircuitUnion([part.of(columns) for part in self.parts])

    def possible(self, rows: np.ndarray, cells: bool = True) -> np.ndarray:
        """See `Law`."""
        return np.any([part.possible(rows, cells) for part in self.parts], axis=0)

    def refuse_row(self, where: str, row: np.ndarray) -> NoReturn:
        """See `Law`."""
        if not self.possible(row[None])[0]:
            raise ValueError(f"{where}: the union that the circuit is conditioned on excludes it")
        Law.refuse_row(self, where, row)
