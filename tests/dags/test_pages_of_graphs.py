"""The listing about interventions in the documents runs as it stands, and ends in the numbers that stand there."""

import re
from pathlib import Path

import pytest

import pymc_spn as ps


def test_telling_interventions_gains_what_the_page_says():
    text = (Path(__file__).parents[2] / "docs" / "dags.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall("```python\n(.*?)```", text, re.DOTALL) if "def auroc(" in b)
    found = {"ps": ps}
    exec(block, found)
    stated = re.search(r"auroc\(untold\), auroc\(told\)  # ([0-9.]+), ([0-9.]+)", block)
    for name, value in zip(("untold", "told"), stated.groups(), strict=True):
        assert found["auroc"](found[name]) == pytest.approx(float(value), abs=0.0005)
