"""The files that a host of the repository and an index of packages read agree with each other and with the checkout."""

import re
import tomllib

import pytest

from tests.listings import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")


def relative_links(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?:|#)([^)#]*)", text)


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_to_files(page):
    assert [
        t for t in relative_links((CHECKOUT / page).read_text(encoding="utf-8")) if not (CHECKOUT / t).exists()
    ] == []


def test_the_description_of_archives_has_no_relative_links():
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    description = ProjectMetadata(str(CHECKOUT), PluginManager()).core.readme
    assert relative_links(description) == [] and "![" not in description
    assert "A first look" in description and relative_links("[a](docs/a.md)") == ["docs/a.md"]


def test_the_citation_is_of_this_version():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_workflows_run_the_check_on_all_versions_of_python():
    yaml = pytest.importorskip("yaml")
    supported = {c.removeprefix("Programming Language :: Python :: ") for c in PROJECT["classifiers"] if "3." in c}
    for name, command in {"check": "bash .ci/run", "archives": "bash .ci/archives dist"}.items():
        text = (CHECKOUT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
        job = yaml.safe_load(text)["jobs"][name]
        assert set(job["strategy"]["matrix"]["python"]) == supported
        assert command in [step.get("run") for step in job["steps"]]


def test_nobody_is_told_to_install_from_an_index():
    told = re.compile(r"pip install[^\n]*\bpymc[-_]spn\b")
    files = [p for f in ("pymc_spn", "docs", "examples", ".github") for p in (CHECKOUT / f).rglob("*") if p.is_file()]
    texts = [p for p in [*files, CHECKOUT / "README.md"] if p.suffix in {".py", ".md", ".ipynb", ".yml"}]
    assert len(texts) > 100 and told.search('pip install "pymc-spn[dask]"')
    assert [p for p in texts if told.search(p.read_text(encoding="utf-8"))] == []
