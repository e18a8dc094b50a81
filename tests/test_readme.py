"""The listings of the README run as they stand there, with fewer draws."""

import pandas as pd
import xarray as xr

from tests.listings import CHECKOUT, python_blocks, sample_few_draws


def test_the_listing_of_the_readme_runs(monkeypatch):
    ((_, block),) = python_blocks(CHECKOUT / "README.md")
    sample_few_draws(monkeypatch, draws=10, tune=10, chains=1)
    lines, names, answers = block.splitlines(), {}, []
    is_question = [line.startswith("post.") for line in lines]
    exec("\n".join(line for line, asks in zip(lines, is_question, strict=True) if not asks), names)
    for line, asks in zip(lines, is_question, strict=True):
        if asks:
            answers.append(eval(line.split("  #")[0], names))
    mean, chance, tables, odd = answers
    assert isinstance(mean, xr.DataArray) and 1.0 < float(mean.sel(column="petal width (cm)")) < 2.5
    assert 0.0 < float(chance) < 1.0
    assert len(tables) == 20 and all(isinstance(t, pd.DataFrame) and not t.isna().any(axis=None) for t in tables)
    assert odd["log_density"].shape == (150,)
