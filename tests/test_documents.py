"""Listings of pages run as they stand there, in the order of the page, with fewer draws."""

import re
from pathlib import Path

import pytest

from tests.listings import CHECKOUT, python_blocks, run_blocks, sample_few_draws

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("sklearn")
DOCS = CHECKOUT / "docs"
TABLES = ("circuits", "circuits_engine", "exactness", "queries", "saving", "variational")
PAGES = [
    page.relative_to(DOCS)
    for page in [
        *sorted(DOCS.glob("get_started/*.md")),
        *sorted(DOCS.glob("howto/*.md")),
        *(DOCS / f"{name}.md" for name in TABLES),
    ]
    if python_blocks(page)
]


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """Files of listings go to a folder of their own, and no figure opens a window."""
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.filterwarnings("ignore::pymc_spn.ConvergenceWarning")  # draws are few
@pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")
@pytest.mark.filterwarnings("ignore:stacked. leave-one-out is unreliable:UserWarning")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_listings_of_a_page_run(page, monkeypatch, tmp_path):
    sample_few_draws(monkeypatch, draws=30, tune=10, chains=2)
    run_blocks(DOCS / page)
    shown = {name for name in page_images(DOCS / page) if name.startswith("gallery_")}
    assert {path.name for path in tmp_path.glob("gallery_*.png")} == shown


def page_images(page):
    """Names of the pictures that a page shows."""
    return {
        Path(name).name for name in re.findall(r"^!\[.*\]\((.*)\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_a_listing_that_fails_is_named_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\n```\n\nText.\n\n```python\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        run_blocks(page)
    last = error.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(page), 10)
