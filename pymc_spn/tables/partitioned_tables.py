"""Tables that need not fit in memory: parquet files and dask DataFrames, read part by part."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.tables import coding
from pymc_spn.tables.column import Column, as_name, by_name, check_kind
from pymc_spn.tables.frame_kinds import pandas_frame, refuse_duplicates
from pymc_spn.tables.table import Table, refuse_other_columns


class TableFacts:
    """Facts of all columns in the rows read so far."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds, self.n_rows = kinds, 0
        self.columns: dict[str, coding.ColumnFacts] = {}

    def add(self, frame: pd.DataFrame) -> None:
        """Add the rows of a frame, whose columns are those of the frames before."""
        if self.columns and list(self.columns) != list(frame.columns):
            raise ValueError(
                f"its columns are {some(list(frame.columns))}, and {some(list(self.columns))} before: give all "
                "partitions the same"
            )
        for name, cells in frame.items():
            kind = self.kinds.get(name)
            facts = coding.ColumnFacts.of(cells, name, kind)
            if facts.numbers is not None:
                infinite = np.isinf(coding.numbers_of(cells, name))
                coding.raise_at(cells, name, infinite, "needs finite values (missing is NaN)")
            self.columns[name] = self.columns[name].merged(facts, name, kind) if name in self.columns else facts
        self.n_rows += len(frame)

    def schema(self) -> tuple[Column, ...]:
        """Columns as all rows decide them."""
        return tuple(facts.column(name, self.kinds.get(name)) for name, facts in self.columns.items())


AT_ONCE = 2**17  # rows of a parquet file that are read at a time
SUFFIXES = ".parquet", ".parq", ".pq"  # of parquet files, in letters of any case


class ParquetFiles:
    """The parquet files of a folder, in the order of their names, or one file.

    Parameters
    ----------
    path : str or path
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(f"df = {os.fspath(path)!r} is read by pyarrow: pip install pyarrow") from error
        self._parquet = pyarrow.parquet
        if not os.fspath(path):
            raise ValueError("df must name a file or folder, got ''")
        root = Path(path)
        if not root.exists():
            raise FileNotFoundError(f"df: there is no file or folder {os.fspath(path)!r}")
        self.files = [root]
        if root.is_dir():
            self.files = sorted(f for f in root.rglob("*") if f.is_file() and f.name[0] not in "._")
            other = next((f for f in self.files if f.suffix.lower() not in SUFFIXES), None)
            if other is not None:
                raise ValueError(
                    f"df: the folder {os.fspath(path)!r} holds {str(other.relative_to(root))!r}, which by its name is "
                    f"not a parquet file ({', '.join(SUFFIXES)}); move or rename it"
                )
            if not self.files:
                raise ValueError(f"df: the folder {os.fspath(path)!r} holds no file *.parquet")
            inside = [f.relative_to(root).parent for f in self.files]
            hive = next((folder for folder in inside if "=" in str(folder)), None)
            if hive is not None:
                raise ValueError(
                    f"df: the name of the folder {str(hive)!r} says the values of a column. Read such tables by "
                    "dask.dataframe.read_parquet, and give its DataFrame"
                )
        self.names: list[str | int] = [str(f.relative_to(root)) if root.is_dir() else f.name for f in self.files]

    def frames(self, number: int) -> Iterator[pd.DataFrame]:
        """The rows of a file as frames of pandas; row labels count from 0 in each file."""
        import pyarrow as pa

        try:
            file = self._parquet.ParquetFile(self.files[number], pre_buffer=False)
        except pa.ArrowInvalid as error:
            raise ValueError(f"it is not a parquet file: {error}") from error
        with file:
            about = file.schema_arrow.pandas_metadata or {}
            labels = {label for label in about.get("index_columns", ()) if isinstance(label, str)}
            columns = [name for name in file.schema_arrow.names if name not in labels]
            begin = 0
            for batch in file.iter_batches(AT_ONCE, columns=columns):
                frame = pandas_frame(pa.Table.from_batches([batch]))
                frame.index = pd.RangeIndex(begin, begin + len(frame))
                begin += len(frame)
                yield frame


class DaskPartitions:
    """The partitions of a dask DataFrame, computed one at a time by the scheduler that dask is told to use.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names: list[str | int] = list(range(frame.npartitions))

    def frames(self, number: int) -> Iterator[pd.DataFrame]:
        """The one frame of a partition."""
        computed = self.frame.get_partition(number).compute()
        if not isinstance(computed, pd.DataFrame):
            raise TypeError(f"it must be a DataFrame of pandas once it is computed, got {type(computed).__name__}")
        frame = pandas_frame(computed)
        labels = [as_name(label) for label in frame.columns]
        refuse_duplicates(labels)
        yield frame.set_axis(pd.Index(labels, dtype=object), axis="columns")


type Partitions = ParquetFiles | DaskPartitions


def partitions_of(data: Any) -> Partitions | None:
    """The partitions of a path or of a dask DataFrame; None for anything else."""
    if isinstance(data, str | os.PathLike):
        return ParquetFiles(data)
    if type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "get_partition"):
        return DaskPartitions(data)
    return None


class PartitionedTable(NamedTuple):
    """What one pass over the partitions found.

    ``sample`` are rows in the order of the table, labelled by partition and row: all of them where they are few.
    ``columns`` is the schema that all rows decide.
    """

    partitions: Partitions
    columns: tuple[Column, ...]
    n_rows: int
    sample: pd.DataFrame

    def tables(self, columns: tuple[Column, ...], bar: ProgressBar) -> Iterator[tuple[str | int, Table]]:
        """All rows, coded by some columns, with the name of their partition; errors name it, too.

        Raises
        ------
        ValueError
            If there are other rows than in the pass before.
        """
        n_rows = 0
        for number, name in enumerate(self.partitions.names):
            for frame in _named_frames(self.partitions, number, name):
                with naming_partition(name):
                    refuse_other_columns(frame, columns)
                    table = Table.from_frame(frame, schema=columns)
                n_rows += len(table.values)
                yield name, table
            bar.advance()
        if n_rows != self.n_rows:
            raise ValueError(
                f"df had {self.n_rows:,} rows when it was read first, and {n_rows:,} rows the second time: a table in "
                "partitions must give the same rows each time"
            )


def read_partitions(
    partitions: Partitions,
    kinds: Mapping[str, str] | None,
    n_sample: int,
    rng: np.random.Generator,
    bar: ProgressBar,
) -> PartitionedTable:
    """One pass over all rows: the schema, and a sample of rows in which each is as likely.

    Every row draws a number from a generator of its partition, and the rows with the smallest stay. So the sample
    depends neither on the order nor on the number of threads in which partitions are read.

    Parameters
    ----------
    partitions : Partitions
    kinds : dict, optional
        As in `Table.from_frame`.
    n_sample : int
        Rows of the sample at most.
    rng : Generator
    bar : ProgressBar
        Counts partitions.

    Raises
    ------
    ValueError, TypeError
        As `Table.from_frame`, with the name of the partition; if partitions have different schemas, or there are no
        rows.
    """
    if kinds is not None and not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must map column names to kinds, got {quoted(kinds)}")
    kinds = by_name("kinds", kinds or {})
    for name, kind in kinds.items():
        check_kind(kind, name)
    facts, sample = TableFacts(kinds), _Sample(n_sample)
    generators = rng.spawn(len(partitions.names))
    for number, name in enumerate(partitions.names):
        for frame in _named_frames(partitions, number, name):
            with naming_partition(name):
                facts.add(frame)
            sample.add(name, frame, generators[number].random(len(frame)))
        bar.advance()
    unknown = [name for name in kinds if name not in facts.columns]
    if unknown and facts.columns:
        raise ValueError(
            f"kinds names column {unknown[0]!r}, which does not exist; the columns are {some(list(facts.columns))}"
        )
    if facts.n_rows == 0:
        raise ValueError(f"df has no rows in {len(partitions.names)} partitions")
    return PartitionedTable(partitions, facts.schema(), facts.n_rows, sample.frame())


@contextmanager
def naming_partition(name: str | int) -> Iterator[None]:
    """Put the name of a partition, or its number, in front of what is wrong in it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"partition {name!r}: {error}") from error


def _named_frames(partitions: Partitions, number: int, name: str | int) -> Iterator[pd.DataFrame]:
    """Frames of a partition; what goes wrong in reading them names it."""
    frames = partitions.frames(number)
    while True:
        with naming_partition(name):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


def _of_one_dtype(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """The frames; columns of objects without a value have the dtype that the column has in other frames."""
    frames = [frame.copy(deep=False) for frame in frames]
    for name in frames[0].columns:
        empty = [f for f in frames if f[name].dtype == object and f[name].isna().all()]
        known = next((f[name].dtype for f in frames if f[name].dtype != object), None)
        if known is None:
            continue
        if isinstance(known, np.dtype) and known.kind in "iub":
            known = pd.Series(dtype=known).convert_dtypes().dtype  # one that has a missing value
        for frame in empty:
            frame[name] = pd.Series(None, index=frame.index, dtype=known)
    return frames


class _Sample:
    """The rows with the smallest keys so far; twice as many are held at most, and a part of the table."""

    def __init__(self, size: int) -> None:
        self.size, self.limit = size, np.inf
        self.parts: list[tuple[np.ndarray, pd.DataFrame]] = []
        self.held = 0

    def add(self, name: str | int, frame: pd.DataFrame, keys: np.ndarray) -> None:
        """Add the rows of a frame of a partition that have small keys (n,)."""
        rows = np.flatnonzero(keys < self.limit)
        if rows.size == 0:
            return
        kept = frame.iloc[rows].copy()
        kept.index = pd.MultiIndex.from_arrays([[name] * len(kept), kept.index], names=["partition", "row"])
        self.parts.append((keys[rows], kept))
        self.held += rows.size
        if self.held > 2 * self.size:
            self._shrink()

    def frame(self) -> pd.DataFrame:
        """The rows in the order of the table."""
        self._shrink()
        frames = _of_one_dtype([rows for _, rows in self.parts])
        frame = pd.concat(frames)
        apart = [name for name in frame.columns if isinstance(frames[0][name].dtype, pd.CategoricalDtype)]
        return frame.astype(dict.fromkeys(apart, "category"))  # parts with different categories have become objects

    def _shrink(self) -> None:
        keys = np.concatenate([keys for keys, _ in self.parts])
        if keys.size <= self.size:
            return
        self.limit = np.partition(keys, self.size)[self.size]
        kept = []
        for own, rows in self.parts:
            has = own < self.limit
            if has.any():
                kept.append((own[has], rows[has]))
        self.parts, self.held = kept, sum(own.size for own, _ in kept)
