"""Lazy answers about tables of Dask: each partition is asked by itself, where and when the answer is computed."""

import inspect
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, decode, row_labels
from pymc_spn.tables.column import LEVEL_KINDS, as_name
from pymc_spn.tables.frame_kinds import pandas_frame

if TYPE_CHECKING:
    import xarray as xr

type Stream = tuple[Any, tuple[int, ...]]  # entropy and key of a seed sequence: what no use of it changes


def lazy_answer(post: AskedLaw, name: str, data: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The answer to a question about each row of a table in partitions or chunks.

    The question is first asked of no rows. This refuses wrong arguments and columns at once, and says labels, dtypes
    and marks of the answer. Attributes with a value for each row, such as ``mcse_chain``, are left out.

    Parameters
    ----------
    post : AskedLaw
    name : str
        Of the question.
    data : dask DataFrame, or Dataset of xarray with variables (row,) in chunks
    args, named
        What else the question was given.

    Returns
    -------
    dask Series or DataFrame
        Of a dask DataFrame, with its index. A list of `n` for ``impute`` where `n` is not 1.
    DataArray or Dataset
        Of a Dataset, in its chunks.

    Raises
    ------
    TypeError, ValueError
        What the question raises of no rows; data of another type; an answer that no dask DataFrame can hold.
    """
    parts = _ChunkedDataset(data) if type(data).__module__.startswith("xarray") else _DaskFrame(data)
    ask = getattr(post, name)
    try:
        options = dict(inspect.signature(ask).bind(parts.no_rows, *args, **named).arguments)
    except TypeError:
        return ask(parts.no_rows, *args, **named)  # Python says which argument
    options.pop("df")
    parameters = inspect.signature(ask).parameters
    if "progressbar" in parameters:
        options["progressbar"] = False
    seeds: list[Stream | None] = [None] * parts.n_parts
    if "random_seed" in parameters:
        seeds = list(streams(options.pop("random_seed", None), parts.n_parts))
        empty = ask(parts.no_rows, **options, random_seed=0)
    else:
        empty = ask(parts.no_rows, **options)
    import dask

    asked, sent = dask.delayed(_asked, pure=False), sent_once(post)
    found = [
        asked(sent, name, part, f"{parts.word} {k}", options, seed)
        for k, (part, seed) in enumerate(zip(parts.delayed(), seeds, strict=True))
    ]
    return parts.joined(post, empty, found, options)


def lazy_sample(post: AskedLaw, n: int, given: Any, random_seed: Any, npartitions: int, on_grid: bool) -> Any:
    """Rows drawn as a dask DataFrame, each partition by a random stream of its own; see `sample`."""
    try:
        import dask
        import dask.dataframe as dd
    except ImportError:
        raise ImportError('npartitions needs Dask: install the extra "dask" of pymc_spn') from None
    count, n_parts = checked_count("n", n), checked_count("npartitions", npartitions, least=1)
    if n_parts > max(count, 1):
        raise ValueError(f"npartitions must be at most n, {count:,}, got {n_parts:,}")
    empty = pandas_frame(post.sample(0, given, 0))  # type: ignore[attr-defined]
    meta = empty.astype({column.name: _drawn_dtype(post, d) for d, column in enumerate(post.columns)})
    starts = [count * k // n_parts for k in range(n_parts + 1)]
    drawn, sent = dask.delayed(_drawn, pure=False), sent_once(post)
    frames = [
        drawn(sent, starts[k], starts[k + 1], given, seed, meta, on_grid)
        for k, seed in enumerate(streams(random_seed, n_parts))
    ]
    return dd.from_delayed(frames, meta=meta, divisions=(*starts[:-1], max(count - 1, 0)))


def sent_once(post: AskedLaw) -> Any:
    """The object as one delayed value, which a worker loads once for all partitions and all questions."""
    import dask

    key = vars(post).setdefault("_sent_as", f"posterior-{uuid4().hex}")
    return dask.delayed(post, name=key, traverse=False)


def streams(random_seed: Any, n: int) -> list[Stream]:
    """Random streams, one for each part, spawned from a seed; from a generator, which moves on, others each time."""
    spawned = np.random.default_rng(random_seed).bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]
    return [(one.entropy, one.spawn_key) for one in spawned]


def _generator(stream: Stream) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(stream[0], spawn_key=stream[1]))


def _asked(post: Any, name: str, part: Any, place: str, options: dict[str, Any], seed: Stream | None) -> Any:
    """The answer about the rows of one part, with the index of these; its place stands before what is wrong with it."""
    frame = part if isinstance(part, pd.DataFrame) else pd.DataFrame(dict(part[0]), index=part[1])
    named = options if seed is None else options | {"random_seed": _generator(seed)}
    try:
        return getattr(post, name)(frame, **named), frame.index
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(f"{place}: {error}") from error


def _drawn(
    post: Any, start: int, stop: int, given: Any, seed: Stream, meta: pd.DataFrame, on_grid: bool
) -> pd.DataFrame:
    frame = pandas_frame(post.sample(stop - start, given, _generator(seed), on_grid=on_grid))
    return frame.astype(meta.dtypes.to_dict()).set_axis(pd.RangeIndex(start, stop))


class _DaskFrame:
    """A dask DataFrame, and answers as collections of dask.dataframe."""

    word = "partition"

    def __init__(self, data: Any) -> None:
        from dask.dataframe import DataFrame
        from dask.dataframe.utils import make_meta

        if not isinstance(data, DataFrame):
            hint = "; name its columns by dask.dataframe.from_dask_array(df, columns=...)" if _is_array(data) else ""
            raise TypeError(f"df must be a dask DataFrame, got a dask {type(data).__name__}{hint}")
        self.data, self.no_rows = data, make_meta(data)
        self.n_parts = data.npartitions

    def delayed(self) -> list[Any]:
        return self.data.to_delayed()

    def joined(self, post: AskedLaw, empty: Any, found: list[Any], options: dict[str, Any]) -> Any:
        index = self.no_rows.index
        if isinstance(empty, list) or isinstance(empty, pd.DataFrame):
            dtypes = _filled_dtypes(post, self.no_rows)
            meta = self.no_rows.astype(dtypes).rename(columns=str)
            if isinstance(empty, pd.DataFrame):
                return self._collected(_filled, found, meta, None)
            return [self._collected(_filled, found, meta, k) for k in range(len(empty))]
        if empty.dims == ("row",):
            dtype = np.dtype(np.float64) if empty.dtype.kind == "f" else _label_dtype(post, options["target"])
            return self._collected(_series, found, pd.Series([], index, dtype, empty.name))
        if len(empty.dims) == 2 and empty.dims[0] == "row":
            labels = pd.Index(empty[empty.dims[1]].values.tolist(), name=empty.dims[1])
            return self._collected(_frame, found, pd.DataFrame(np.empty((0, len(labels))), index, labels))
        raise ValueError(
            f"{empty.name} of a dask DataFrame cannot have the dimensions {quoted(list(empty.dims))}: ask without "
            "per_draw=True, or give a Dataset of xarray in chunks"
        )

    def _collected(self, convert: Callable[..., Any], found: list[Any], meta: Any, *more: Any) -> Any:
        import dask
        import dask.dataframe as dd

        converted = dask.delayed(convert, pure=False)
        return dd.from_delayed([converted(one, meta, *more) for one in found], meta, self.data.divisions)


class _ChunkedDataset:
    """A Dataset of xarray whose variables (row,) are in chunks, and answers in the same chunks."""

    word = "chunk"

    def __init__(self, data: "xr.Dataset") -> None:
        dims = {name: one.dims for name, one in data.data_vars.items()}
        if len(set(dims.values())) != 1 or len(next(iter(dims.values()))) != 1:
            raise ValueError(f"df: the variables of a Dataset must have one dimension, that of the rows, got {dims}")
        (self.dim,) = next(iter(dims.values()))
        self.data = data.unify_chunks()
        self.lengths = self.data.chunksizes[self.dim]
        self.n_parts = len(self.lengths)
        self.index = data.indexes.get(self.dim, pd.RangeIndex(data.sizes[self.dim]))
        self.no_rows = pd.DataFrame({str(n): np.empty(0, v.dtype) for n, v in data.data_vars.items()})

    def delayed(self) -> list[Any]:
        ends = np.cumsum((0, *self.lengths))
        blocks = {
            str(name): variable.data.to_delayed() if variable.chunks else None
            for name, variable in self.data.data_vars.items()
        }
        parts = []
        for k, (start, stop) in enumerate(pairwise(ends)):
            cells = [
                (name, self.data[name].values[start:stop] if own is None else own[k]) for name, own in blocks.items()
            ]
            parts.append((cells, self.index[start:stop]))
        return parts

    def joined(self, post: AskedLaw, empty: Any, found: list[Any], options: dict[str, Any]) -> Any:
        if isinstance(empty, pd.DataFrame):
            return self._filled(found, None)
        if isinstance(empty, list):
            return [self._filled(found, k) for k in range(len(empty))]
        import xarray as xr

        values = self._array(_values, found, empty)
        coords: Mapping[Any, Any] = {n: c for n, c in empty.coords.items() if n != "row"}
        marks = {key: value for key, value in empty.attrs.items() if not isinstance(value, np.ndarray)}
        return xr.DataArray(values, {**coords, "row": row_labels(self.index)}, empty.dims, empty.name, marks)

    def _array(self, convert: Callable[..., Any], found: list[Any], like: Any, *more: Any) -> Any:
        """One array of all chunks, with the shape and dtype of an answer to no rows; object instead of labels."""
        import dask
        import dask.array as da

        axis, dtype = like.dims.index("row"), like.dtype if like.dtype.kind == "f" else np.dtype(object)
        converted = dask.delayed(convert, pure=False)
        blocks = [
            da.from_delayed(converted(one, dtype, *more), (*like.shape[:axis], n, *like.shape[axis + 1 :]), dtype=dtype)
            for one, n in zip(found, self.lengths, strict=True)
        ]
        return da.concatenate(blocks, axis=axis)

    def _filled(self, found: list[Any], k: int | None) -> "xr.Dataset":
        """One completed copy: numbers as float64, all else as objects."""
        import xarray as xr

        made = {}
        for name, variable in self.data.data_vars.items():
            like = xr.DataArray(np.empty(0, np.float64 if variable.dtype.kind in "fiu" else object), dims="row")
            made[name] = (self.dim, self._array(_cells, found, like, str(name), k))
        return xr.Dataset(made, self.data.coords)


def _is_array(data: Any) -> bool:
    return type(data).__module__.startswith("dask.array")


def _values(found: Any, dtype: np.dtype[Any]) -> np.ndarray:
    return found[0].values.astype(dtype)


def _cells(found: Any, dtype: np.dtype[Any], name: str, k: int | None) -> np.ndarray:
    """A column of a completed table as an array that may hold gaps, since rows that are impossible keep theirs."""
    cells = (found[0] if k is None else found[0][k])[name]
    if dtype.kind == "f":
        return cells.to_numpy(dtype, na_value=np.nan)
    return cells.astype(object).where(cells.notna(), None).to_numpy(object)


def _series(found: Any, meta: pd.Series) -> pd.Series:
    answer, index = found
    values = answer.values if answer.dtype.kind == "f" else answer.values.astype(object)
    return pd.Series(values, index, name=meta.name).astype(meta.dtype)


def _frame(found: Any, meta: pd.DataFrame) -> pd.DataFrame:
    answer, index = found
    return pd.DataFrame(answer.values, index, meta.columns)


def _filled(found: Any, meta: pd.DataFrame, k: int | None) -> pd.DataFrame:
    frame = found[0] if k is None else found[0][k]
    return frame.astype(meta.dtypes.to_dict())


def _label_dtype(post: AskedLaw, target: Any) -> Any:
    """The dtype of a column with levels, in the form that holds gaps: a row may have no answer."""
    return _with_gaps(next(column for column in post.columns if column.name == as_name(target)))


def _with_gaps(column: Column) -> Any:
    return decode(np.array([[np.nan], [0.0]]), [column])[column.name].dtype


def _is_whole(post: AskedLaw, d: int) -> bool:
    """Whether all leaves of a column of whole numbers draw whole numbers."""
    return post.columns[d].kind in LEVEL_KINDS or post._law.column(d).is_discrete


def _drawn_dtype(post: AskedLaw, d: int) -> Any:
    """The dtype of drawn cells, whatever numbers they are: they may be larger than those of the training table."""
    column = post.columns[d]
    own = decode(np.zeros((1, 1)), [column])[column.name].dtype
    if column.kind in LEVEL_KINDS or not pd.api.types.is_integer_dtype(own):
        return own
    is_nullable = not isinstance(own, np.dtype)
    if _is_whole(post, d):
        return pd.Int64Dtype() if is_nullable else np.dtype(np.int64)
    return pd.Float64Dtype() if is_nullable else np.dtype(np.float64)


def _filled_dtypes(post: AskedLaw, frame: pd.DataFrame) -> dict[Any, Any]:
    """The dtype of each column once its gaps are filled in, whatever partitions have gaps.

    A column that can have none keeps its own. Others are wide enough for the cells that are there and for drawn ones,
    and for gaps, since rows that are impossible keep theirs.
    """
    numbers = {column.name: d for d, column in enumerate(post.columns)}
    dtypes: dict[Any, Any] = {}
    for label, own in frame.dtypes.items():
        if as_name(label) not in numbers:  # it travels with the answer
            continue
        d = numbers[as_name(label)]
        column = post.columns[d]
        if isinstance(own, np.dtype) and own.kind in "iub":
            dtypes[label] = own
        elif column.kind in LEVEL_KINDS:
            dtypes[label] = _with_gaps(column)
        elif isinstance(own, np.dtype):
            known = pd.api.types.pandas_dtype(column.dtype)
            is_float = isinstance(known, np.dtype) and known.kind == "f" and own.kind == "f"
            dtypes[label] = np.result_type(own, known) if is_float else np.dtype(np.float64)
        elif pd.api.types.is_integer_dtype(own) and _is_whole(post, d):
            dtypes[label] = pd.Int64Dtype()
        else:
            dtypes[label] = pd.Float64Dtype()
    return dtypes
