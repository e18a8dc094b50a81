"""Questions about rows that take tables of Dask, too: the door to lazy answers, which loads Dask for these alone."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pymc_spn.tables.frame_kinds import is_of_dask


def also_in_parts[**P, R](ask: Callable[P, R]) -> Callable[P, R]:
    """Let a question about the rows of `df` answer tables in partitions or chunks lazily, see `dask_rows`.

    The question must answer each row by itself, and give a DataArray with a dimension ``row`` or a table.
    """

    @wraps(ask)
    def asked(*args: P.args, **named: P.kwargs) -> Any:
        data = args[1] if len(args) > 1 else named.get("df")
        if not (args and (is_of_dask(data) or _is_chunked(data))):
            return ask(*args, **named)
        from pymc_spn.answers.dask_rows import lazy_answer

        post: Any = args[0]
        options = {name: value for name, value in named.items() if name != "df"}
        return lazy_answer(post, ask.__name__, data, args[2:], options)

    return asked


def _is_chunked(data: Any) -> bool:
    """Whether it is a Dataset of xarray with variables in chunks."""
    is_dataset = type(data).__module__.partition(".")[0] == "xarray" and type(data).__name__ == "Dataset"
    return is_dataset and bool(data.chunksizes)
