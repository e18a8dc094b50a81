"""What all estimators are, and how they read rows, classes and seeds: frames by their dtypes, arrays as numbers."""

import pickle
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.interop.scikit_learn import (
    BaseEstimator,
    check_classification_targets,
    check_consistent_length,
    check_is_fitted,
    check_random_state,
    get_config,
    get_tags,
    validate_data,
)
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame
from pymc_spn.tables.table import table_of_kind


class PosteriorEstimator(BaseEstimator):
    """An estimator that keeps its answers in ``posterior_``."""

    posterior_: Any

    def _options(self, *names: str) -> dict[str, Any]:
        """Parameters by name, for the function that has them too."""
        return {name: getattr(self, name) for name in names}

    # joblib maps the arrays of a pickled estimator into memory, read-only. Kernels would be compiled once more for
    # such arrays, for many seconds, so it is given bytes.

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "posterior_" in state:
            state["posterior_"] = pickle.dumps(state["posterior_"], pickle.HIGHEST_PROTOCOL)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "posterior_" in state:
            state = state | {"posterior_": pickle.loads(state["posterior_"])}
        super().__setstate__(state)


def read_training_rows(estimator: Any, X: Any) -> pd.DataFrame:
    """Rows to learn from, (N, D); remembers their names and number of features on the estimator.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and, for a frame whose column names are all str, ``feature_names_in_``.
    X : DataFrame of pandas, polars or pyarrow, or (N, D) array_like of numbers
        A frame keeps its dtypes. The columns of an array are called ``x0``, ``x1``, ...; its masked cells are missing.

    Raises
    ------
    ValueError, TypeError
        If an array is not two-dimensional or holds strings, complex or infinite numbers, or NaN where the estimator
        takes none. Frames are checked by `Table.from_frame`.
    """
    estimator._frame, X = frame_kind(X), pandas_frame(X, "X")
    frame = _as_frame(estimator, X, reset=True)
    estimator._columns = frame.columns
    estimator._from_array = not isinstance(X, pd.DataFrame)
    return frame


def training_table(estimator: Any, rows: pd.DataFrame) -> Table:
    """Rows that `read_training_rows` gave, coded; of the kind of table that the user gave."""
    return table_of_kind(Table.from_frame(rows, estimator.kinds), estimator._frame)


def read_rows(estimator: Any, X: Any) -> pd.DataFrame:
    """New rows with the columns of the training rows; an array's columns are matched by position."""
    check_is_fitted(estimator)
    X = pandas_frame(X, "X")
    frame = _as_frame(estimator, X, reset=False)
    if isinstance(X, pd.DataFrame) and not estimator._from_array:
        return frame
    # positions become names here: a structure may hold the columns in another order than the training rows
    return frame.set_axis(estimator._columns, axis="columns")


def output_kind(estimator: Any, X: Any) -> str | None:
    """What kind of table a transformer answers for one: that of `X`, or what ``set_output`` asks for."""
    asked = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    return frame_kind(X) if asked == "default" else None if asked == "pandas" else asked


def read_classes(estimator: Any, y: Any, X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes (K,) and the class of each row (N,) as 0..K-1.

    Raises
    ------
    ValueError
        If labels are missing, continuous, of one class only, or not one for each row.
    """
    check_response(y, X)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise ValueError(
            f"y must hold at least two classes, got one class in {len(y)} rows: {classes.tolist()[0]!r}; "
            f"{type(estimator).__name__} has nothing to tell apart"
        )
    return classes, codes


def check_response(y: npt.ArrayLike, X: pd.DataFrame) -> None:
    """Refuse a response of another length than the rows, and missing values in it."""
    check_consistent_length(X, y)
    missing = pd.isna(y)
    if missing.any():
        raise ValueError(f"y must not hold missing values; the label of row {X.index[int(np.argmax(missing))]!r} is")


def read_response(estimator: Any, y: Any, **checks: Any) -> Any:
    """The response as scikit-learn checks it; what is masked is missing."""
    return validate_data(estimator, y=_without_mask(y), **checks)


def seed_of(random_state: Any) -> int | None:
    """What ``random_seed=`` gets: an integer or None as it is, a number drawn from a generator."""
    if random_state is None or isinstance(random_state, Integral):
        return None if random_state is None else int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return int(check_random_state(random_state).randint(2**31 - 1))


def one_of(argument: str, value: Any, allowed: Any) -> None:
    """Refuse a word that is not among those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{argument} must be one of {list(allowed)}, got {quoted(value)}")


def _as_frame(estimator: Any, X: Any, reset: bool) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    X = np.asarray(X) if isinstance(X, list | tuple) else _without_mask(X)
    _refuse_strings(X)
    finite: Any = "allow-nan" if get_tags(estimator).input_tags.allow_nan else True
    array = validate_data(estimator, X, reset=reset, ensure_all_finite=finite)
    return pd.DataFrame(array, columns=[f"x{position}" for position in range(array.shape[1])])


def _without_mask(values: Any) -> Any:
    """Masked cells as None: scikit-learn would take what stands below the mask."""
    if not np.ma.is_masked(values):
        return values
    cells = np.ma.getdata(values).astype(object)
    cells[np.ma.getmaskarray(values)] = None
    return cells


def _refuse_strings(X: Any) -> None:
    """scikit-learn would read "1" in an array of objects as the number 1."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "O" or X.ndim != 2:
        return
    for (row, column), cell in np.ndenumerate(X):
        if isinstance(cell, str):
            raise ValueError(
                f"X must hold numbers if it is an array, row {row}, column {column} holds {cell!r}; pass a DataFrame, "
                "in which every column has a kind of its own"
            )
