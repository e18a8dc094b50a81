"""Imputed tables, checked against the table whose gaps they fill."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import pandas_frame

DRAWN = 20  # tables that an imputer is asked for


class Imputer(Protocol):
    """What fills in the gaps of a table: posteriors and fits of `SPN`, and circuits with their parameters."""

    def impute(self, df: Any, n: int = 1, random_seed: Any = None) -> Any:
        """A completed copy of a table, or a list of `n`."""


Imputations = Sequence[pd.DataFrame] | Imputer


def completed_tables(data: pd.DataFrame, imputations: Imputations, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Completed copies of a table.

    Parameters
    ----------
    data : DataFrame
        With gaps.
    imputations : sequence of DataFrame, or an object with ``impute``
    rng : Generator
        Of the imputations, where they are drawn here.

    Raises
    ------
    TypeError
        If these are no DataFrames.
    ValueError
        If there are fewer than two, or one has other rows or columns than `data`, a gap, or another value in an
        observed cell.
    """
    frame = pandas_frame(data)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"data must be a DataFrame with gaps, got {type(data).__name__}")
    if hasattr(imputations, "impute"):
        imputations = imputations.impute(data, n=DRAWN, random_seed=rng)
    one = pandas_frame(imputations, "imputations")
    if isinstance(one, pd.DataFrame | str) or not isinstance(imputations, Sequence):
        raise TypeError(
            "imputations must be a sequence of completed DataFrames, as impute(df, n=20) returns, or an object with "
            f"such a method; got {type(imputations).__name__}"
        )
    if len(imputations) < 2:
        raise ValueError(f"imputations must be at least two tables, got {len(imputations)}; take 20")
    for m, table in enumerate(imputations):
        _check(f"imputations[{m}]", pandas_frame(table, f"imputations[{m}]"), frame)
    return list(imputations)


def _check(place: str, table: Any, data: pd.DataFrame) -> None:
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{place} must be a DataFrame, got {type(table).__name__}")
    if not table.index.equals(data.index):
        raise ValueError(f"{place} must have the rows of data, with the same index in the same order")
    if list(map(str, table.columns)) != list(map(str, data.columns)):
        raise ValueError(
            f"{place} must have the columns of data, {quoted(list(data.columns))}, got {quoted(list(table.columns))}"
        )
    for k, name in enumerate(data.columns):
        own, observed = table.iloc[:, k], data.iloc[:, k].notna().to_numpy()
        if own.isna().any():
            row = table.index[int(np.argmax(own.isna().to_numpy()))]
            raise ValueError(f"{place} must be complete: column {name!r}, row {row!r} is missing")
        pairs = zip(own[observed].tolist(), data.iloc[:, k][observed].tolist(), strict=True)
        changed = [row for row, (a, b) in zip(data.index[observed], pairs, strict=True) if a != b]
        if changed:
            raise ValueError(f"{place} must keep what is observed: column {name!r}, row {changed[0]!r} differs")


def refuse_unlike(posteriors: Sequence[Any]) -> None:
    """Refuse posteriors of tables that do not have the same variables, score, levels or evidence."""
    if len(posteriors) < 2:
        raise ValueError(f"posteriors must be at least two, one for each imputed table, got {len(posteriors)}")
    first = posteriors[0]
    for m, post in enumerate(posteriors):
        for what, found, of_first in (
            ("variables", post.names, first.names),
            ("score", post.scores.score, first.scores.score),
            ("evidence", post.evidence, first.evidence),
            ("engine", post.engine, first.engine),
            ("levels", getattr(post.scores.counts, "levels", None), getattr(first.scores.counts, "levels", None)),
        ):
            if found != of_first:
                raise ValueError(
                    f"imputed table {m} has another {what} than table 0: {quoted(found)} in place of {quoted(of_first)}"
                )
