"""`do()` refused by everything that is a model of a joint distribution and of nothing else."""

from typing import Any, NoReturn


def do(self: Any, *args: object, **interventions: object) -> NoReturn:
    """Refused: a circuit of a joint distribution has no interventions."""
    raise NotImplementedError(
        "do() is not offered: a sum-product network is a model of the joint distribution and says nothing of "
        "what would happen if a column were set. given= answers what is seen when the column is observed; "
        "effects of interventions need a causal model, such as a posterior over directed graphs"
    )
