"""Supports of leaves, and whether the children of a sum are kept apart by them."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted

Support = int | tuple[float, float] | None


def checked_support(
    leaf_support: Sequence[Any], leaves: np.ndarray, further_columns: Mapping[int, Any]
) -> tuple[Support, ...]:
    """Supports as ints (bit k set if level k is possible), closed intervals of floats, or None."""
    given = tuple(leaf_support)
    if len(given) != leaves.size:
        raise ValueError(f"leaf_support must have one entry per leaf ({leaves.size}), got {len(given)}")
    result: list[Support] = []
    for leaf, support in zip(leaves.tolist(), given, strict=True):
        if support is None:
            result.append(None)
        elif leaf in further_columns:
            raise ValueError(
                f"leaf_support must be None at leaves over several columns, got {quoted(support)} at leaf {leaf}"
            )
        elif isinstance(support, int | np.integer) and not isinstance(support, bool):
            if support <= 0:
                raise ValueError(f"leaf_support must hold a level (a positive mask), got {support} at leaf {leaf}")
            result.append(int(support))
        else:
            try:
                low, high = (float(v) for v in support)
            except (TypeError, ValueError):
                low, high = np.nan, np.nan
            if not low <= high:
                raise ValueError(
                    f"leaf_support must be a mask of levels, an interval (low, high) or None, "
                    f"got {quoted(support)} at leaf {leaf}"
                )
            result.append((low, high))
    return tuple(result)


def supports_meet(first: Support, second: Support) -> bool:
    """Whether two supports have a value in common."""
    if first is None or second is None:
        return True
    if isinstance(first, int) and isinstance(second, int):
        return first & second != 0
    if isinstance(first, int):
        first, second = second, first
    assert isinstance(first, tuple)
    if isinstance(second, int):
        return any(first[0] <= k <= first[1] for k in range(second.bit_length()) if second >> k & 1)
    assert second is not None
    return first[0] <= second[1] and second[0] <= first[1]


def find_overlap(circuit: Any) -> tuple[int, int, int] | None:
    """The first sum and two of its children that are not kept apart, or None."""
    from pymc_spn.circuits.structures.circuit import SUM

    apart = _Apart(circuit)
    for node in np.flatnonzero(circuit.kind == SUM).tolist():
        children = circuit.children_of(node).tolist()
        for i, first in enumerate(children):
            for second in children[i + 1 :]:
                if not apart(first, second):
                    return node, first, second
    return None


class _Apart:
    """Whether the supports of two nodes are disjoint, remembered by pair.

    Sums are opened first (all alternatives must be apart), then products (one factor apart is enough). A
    factor is compared only with nodes that share a column. Circuits may be deeper than Python's recursion
    limit, so the questions wait on a list: each is a generator that yields the pairs it depends on.
    """

    def __init__(self, circuit: Any) -> None:
        self.circuit = circuit
        self.bits = circuit.scope_bits
        self.support = dict(zip(circuit.leaves.tolist(), circuit.leaf_support or (), strict=False))
        self.known: dict[tuple[int, int], bool] = {}

    def __call__(self, first: int, second: int) -> bool:
        pair = (min(first, second), max(first, second))
        waiting = [(pair, self._question(*pair))]
        answer: bool | None = None
        while waiting:
            pair, question = waiting[-1]
            try:
                asked = question.send(answer)
            except StopIteration as end:
                self.known[pair] = answer = end.value
                waiting.pop()
                continue
            asked = (min(asked), max(asked))
            answer = self.known.get(asked)
            if answer is None:
                waiting.append((asked, self._question(*asked)))
        assert answer is not None
        return answer

    def _question(self, first: int, second: int) -> Generator[tuple[int, int], bool | None, bool]:
        from pymc_spn.circuits.structures.circuit import LEAF, SUM

        circuit = self.circuit
        if first == second or not np.any(self.bits[first] & self.bits[second]):
            return False
        for node, other in ((first, second), (second, first)):
            if circuit.kind[node] == SUM:
                for child in circuit.children_of(node).tolist():
                    if not (yield child, other):
                        return False
                return True
        for node, other in ((first, second), (second, first)):
            if circuit.kind[node] != LEAF:
                for child in circuit.children_of(node).tolist():
                    if (yield child, other):
                        return True
                return False
        return not supports_meet(self.support.get(first), self.support.get(second))
