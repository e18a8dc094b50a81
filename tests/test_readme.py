"""The listings of the README run as they stand there, with fewer draws."""

import re
from pathlib import Path

import pandas as pd
import pymc as pm
import xarray as xr


def test_the_listing_of_the_readme_runs(monkeypatch):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    sample, few = pm.sample, {"draws": 10, "tune": 10, "chains": 1, "progressbar": False, "quiet": True}
    monkeypatch.setattr(pm, "sample", lambda **asked: sample(**few, **asked, compute_convergence_checks=False))
    lines, names, answers = block.splitlines(), {}, []
    is_question = [line.startswith("post.") for line in lines]
    exec("\n".join(line for line, asks in zip(lines, is_question, strict=True) if not asks), names)
    for line, asks in zip(lines, is_question, strict=True):
        if asks:
            answers.append(eval(line.split("  #")[0], names))
    mean, chance, tables, odd = answers
    assert isinstance(mean, xr.DataArray) and 11.0 < float(mean.sel(column="alcohol")) < 15.0
    assert 0.0 < float(chance) < 1.0
    assert len(tables) == 20 and all(isinstance(t, pd.DataFrame) and not t.isna().any(axis=None) for t in tables)
    assert odd["log_density"].shape == (178,)
