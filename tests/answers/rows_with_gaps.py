"""Rows with gaps, and what they say of a column."""

import numpy as np
import pandas as pd


def rows_of(post):
    """Three rows with gaps, the last one all but empty."""
    df = pd.DataFrame({c.name: [1.0, 2.0, np.nan] for c in post.columns}, index=["a", "b", "c"])
    for c in post.columns:
        if c.levels is not None:
            df[c.name] = [c.levels[0], None, None]
    return df


def others(df, label, target):
    """What a row says of the other columns."""
    return {n: v for n, v in df.loc[label].items() if n != target and not pd.isna(v)}
