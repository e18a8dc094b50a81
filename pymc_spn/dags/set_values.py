"""What is asked when a variable is set: effect, cause, the values that it takes, and the one to compare with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.mixed_rows import MixedRows
from pymc_spn.numerics.quoted_values import quoted


@dataclass(frozen=True, eq=False)
class Setting:
    """A question about an effect when a cause is set.

    Parameters
    ----------
    counts : LevelCounts
    cause, effect : int
        Numbers of variables.
    set_to : sequence
        Levels of the cause, all of them, or values of a numeric one.
    versus : level or number, optional
        What to compare with.
    marks : dict
        Names of the two, for answers.
    """

    counts: LevelCounts
    cause: int
    effect: int
    set_to: Sequence[Any]
    versus: Any
    marks: dict[str, str]

    @property
    def name(self) -> str:
        """Of the answer."""
        return "mean_when_set" if is_numeric(self.counts, self.effect) else "probability_when_set"

    @property
    def coords(self) -> dict[str, Sequence[Any]]:
        """Dimensions of an answer and their labels."""
        if is_numeric(self.counts, self.effect):
            return {"set_to": self.set_to}
        return {"set_to": self.set_to, "level": list(self.counts.levels[self.effect])}

    def answers(self, graphs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """(n, values of the cause[, levels of the effect]), one answer for each graph, drawn if there is an `rng`."""
        from pymc_spn.dags.level_effects import laws_when_set
        from pymc_spn.dags.mixed_effects import means_when_set

        values = list(self.set_to) if self.versus is None else [*self.set_to, self.versus]
        of_number = is_numeric(self.counts, self.cause)
        places = [0] * len(values) if of_number else [self.set_to.index(v) for v in values]
        if isinstance(self.counts, MixedRows) and is_numeric(self.counts, self.effect):
            found = means_when_set(graphs, self.counts, self.cause, self.effect, rng)[:, places]
            found = found[..., 0] + (found[..., 1] * np.array(values) if of_number else 0.0)
        else:
            found = laws_when_set(graphs, self.counts, self.cause, self.effect, rng)[:, places]
        return found if self.versus is None else found[:, :-1] - found[:, -1:]


def is_numeric(counts: LevelCounts, variable: int) -> bool:
    """Whether a variable has numbers instead of levels."""
    return isinstance(counts, MixedRows) and variable in counts.numeric


def read_setting(
    scores: LocalScores, effect: str, cause: str, versus: Any, at: Any, name: str | None = None
) -> Setting:
    """Read the arguments of a question; `name` is that of the answer, where it must be one of a kind.

    Raises
    ------
    ValueError
        If they do not fit the scores or one another.
    """
    counts = scores.counts
    if counts is None:
        hint = "; causal_effects and sample_effects answer for these" if scores.gaussian is not None else ""
        raise ValueError(
            f"answers when a variable is set need BDeu or ConditionalGaussian scores, these are {scores.score!r}{hint}"
        )
    x, y = scores.position(cause), scores.position(effect)
    if x == y:
        raise ValueError(f"effect must be another variable than the cause, got {effect!r} twice")
    if is_numeric(counts, x):
        if at is None:
            raise ValueError(
                f"at must name the values that {cause!r} is set to, for instance at=[0.0, 1.0]: it is numeric"
            )
        set_to: list[Any] = _numbers("at", at)
        base = None if versus is None else _numbers("versus", [versus])[0]
    else:
        set_to, base = list(counts.levels[x]), versus
        if at is not None:
            raise ValueError(f"at is for numeric causes; {cause!r} has levels and is set to each of them: leave it out")
        if base is not None and base not in set_to:
            raise ValueError(f"versus must be a level of {cause!r}, {quoted(set_to)}; got {quoted(base)}")
    setting = Setting(counts, x, y, set_to, base, {"cause": scores.names[x], "effect": scores.names[y]})
    if name is not None and name != setting.name:
        kind, other = "has levels", "probabilities_when_set"
        if is_numeric(counts, y):
            kind, other = "is numeric", "mean_when_set"
        raise ValueError(f"effect: {effect!r} {kind}; ask {other}")
    return setting


def _numbers(argument: str, values: Any) -> list[float]:
    """Finite numbers, at least one."""
    if isinstance(values, Mapping):
        raise ValueError(f"{argument} must be finite numbers, got {quoted(values)}")
    if isinstance(values, np.ndarray):
        values = values.tolist()
    found = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    wrong = [
        v
        for v in found
        if isinstance(v, bool | np.bool_) or not isinstance(v, int | float | np.number) or not np.isfinite(v)
    ]
    if wrong or not found:
        raise ValueError(f"{argument} must be finite numbers, got {quoted(wrong[0] if wrong else values)}")
    return [float(v) for v in found]
