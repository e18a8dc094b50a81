"""What holds for all tests: no time limit of an example, since first calls compile and machines are shared.

Properties try new examples in every run; where `CI` is set they try the same ones each time, so that a check which
passes today passes tomorrow.

Tests are in two tiers. `pytest` runs the first: of every family what is essential, in a few minutes with empty caches.
`pytest --tier rest` runs the others, and paths, ``-k`` and ``-m`` choose among all. `pytest -m full` runs the long
statistical validation and writes what it found to `full_runs.md`.
"""

import os

import pytest
from full_runs import write_runs
from hypothesis import settings
from tiers import REST

settings.register_profile("untimed", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "untimed")


def pytest_addoption(parser):
    parser.addoption(
        "--tier",
        choices=["first", "rest", "all"],
        help="which tests run: by default the first tier, and all where paths, -k or -m are given",
    )


def pytest_configure(config):
    if config.option.tier is None:  # in pytest-xdist's workers it has been decided
        given = config.args_source is pytest.Config.ArgsSource.ARGS
        given = given or config.option.keyword or config.option.markexpr != "not full"  # that of pyproject.toml
        config.option.tier = "all" if given else "first"


def pytest_ignore_collect(collection_path, config):
    if config.option.tier == "all" or collection_path.suffix != ".py":
        return None
    folder, name = collection_path.parent.name, collection_path.stem.removeprefix("test_")
    in_rest = name in REST.get(folder, "").split()
    return True if in_rest != (config.option.tier == "rest") else None


def pytest_terminal_summary(terminalreporter, config):
    """Keep what long tests found; pytest-xdist's workers do not come here."""
    if config.option.markexpr == "full":
        write_runs(terminalreporter.stats)


@pytest.fixture(scope="module")
def integrated():
    """Answers by draw with weights and leaf parameters integrated out, which enumeration can check."""
    from pymc_spn.networks.posterior import SPNPosterior

    with pytest.MonkeyPatch.context() as patch:  # properties hide what a posterior has cached
        patch.setattr(SPNPosterior, "_drawn", property(lambda self: self))
        patch.setattr(SPNPosterior, "_drawn_with_all_draws", property(lambda self: self._with_all_draws))
        yield
