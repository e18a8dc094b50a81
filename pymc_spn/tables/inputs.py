"""Types of what users give, as annotations name them."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pymc_spn.tables.table import Table

if TYPE_CHECKING:
    import dask.dataframe
    from narwhals.typing import IntoDataFrame

type TableLike = IntoDataFrame | Table | Mapping[str, npt.ArrayLike] | np.ndarray | Sequence[Sequence[object]]
"""DataFrame of pandas, polars or pyarrow, Table, columns by name or rows and columns of an array."""

type PartitionsLike = str | PathLike[str] | dask.dataframe.DataFrame
"""Path of parquet files or dask DataFrame."""

type EventLike = Mapping[str, object] | Sequence[Mapping[str, object]] | str
"""What columns satisfy, alternatives of it, or text such as ``"height > 1.5 and colour == 'red'"``."""

type Kinds = Mapping[str, str]
"""Kinds of columns by name."""

type LeafFamilies = Mapping[str, object]
"""Leaf families by column: one or a list."""

type Resolution = str | float | Mapping[str, float]
"""Recording grids: "auto", one number or numbers by column."""

type Rounded = str | bool | Sequence[str]
"""Columns whose values are rounded: "auto", all, none or names."""

type Dims = str | Sequence[str]
"""Names of dimensions."""

type Seed = int | np.random.Generator
"""Where random numbers come from."""

type EstimatorSeed = int | np.random.RandomState | np.random.Generator
"""`Seed`, and scikit-learn's."""
