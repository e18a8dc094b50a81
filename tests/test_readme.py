"""The listing of the README runs as it stands there, and prints what stands below it."""

import re

import pytest

from tests.listings import CHECKOUT, run_blocks

pytest.importorskip("sklearn")


def test_the_listing_of_the_readme_prints_what_stands_below_it(capsys):
    page = CHECKOUT / "README.md"
    run_blocks(page)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert shown.strip() in printed
