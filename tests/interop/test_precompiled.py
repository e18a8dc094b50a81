"""`python -m pymc_spn.precompile`: what it compiles, a later process loads."""

import os
import subprocess
import sys

import pytest

from pymc_spn.interop.precompiled import FAMILIES, main, precompile

COUNT_COMPILED = """
import sys
from numba.core import event
from pymc_spn.interop.precompiled import FAMILIES
with event.install_recorder("numba:compile") as recorder:
    FAMILIES[sys.argv[1]]()
print(len([e for _, e in recorder.buffer if e.is_start and "pymc_spn" in e.data["dispatcher"].py_func.__module__]))
"""


def compiled_by(family, folder):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", COUNT_COMPILED, family]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return int(out.split()[-1])


def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "ahead")}
    subprocess.run([sys.executable, "-m", "pymc_spn.precompile", "fields", "-j", "1"], env=environment, check=True)
    assert compiled_by("fields", tmp_path / "ahead") == 0
    assert compiled_by("fields", tmp_path / "empty") > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_families_run(family):
    FAMILIES[family]()


def test_other_names_are_refused(capsys):
    with pytest.raises(ValueError, match="families must be among tables, graphs, trees, fields, chefs; got 'spn'"):
        precompile(["spn"])
    with pytest.raises(SystemExit):
        main(["spn"])
    assert "got 'spn'" in capsys.readouterr().err


@pytest.mark.parametrize("n_jobs", [0, -1, 1.5, True])
def test_jobs_are_counted(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be an integer of at least 1"):
        precompile(["fields"], n_jobs)
