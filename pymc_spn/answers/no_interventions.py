"""`do()`, which models of a joint distribution refuse."""

from typing import Any, NoReturn


def do(self: Any, *args: object, **interventions: object) -> NoReturn:
    """Raise an error: a model of a joint distribution does not know the effects of interventions.

    Examples
    --------
    >>> post.do(age=30)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    NotImplementedError: do() is not offered: ...
    """
    raise NotImplementedError(
        "do() is not offered: a sum-product network models the joint distribution and does not know what happens "
        "if you set a column. given= answers what is seen when a column is observed. For effects of interventions "
        "use a causal model, such as ps.DagPosterior"
    )
