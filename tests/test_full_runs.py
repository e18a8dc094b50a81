"""The long tests: few, and each with its last run in `full_runs.md`."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from full_runs import read_runs, write_runs

TESTS = Path(__file__).parent
MOST = 10


def test_long_tests_are_few_and_their_last_runs_are_kept():
    files = [path for path in TESTS.rglob("test_*.py") if "pytest.mark.full" in path.read_text(encoding="utf-8")]
    files = sorted(str(path) for path in files if path != Path(__file__))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "full", "-p", "no:cacheprovider", *files]
    said = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True).stdout
    names = {line for line in said.splitlines() if "::" in line}
    assert 0 < len({name.split("[")[0] for name in names}) <= MOST
    assert names == read_runs().keys()


def test_runs_are_merged_in_order(tmp_path):
    def report(name, duration, passed=True):
        return SimpleNamespace(nodeid=f"tests/test_full_runs.py::{name}", duration=duration, passed=passed)

    path = tmp_path / "runs.md"
    write_runs({"passed": [report("b[1, 2]", 3.0)], "deselected": []}, path)
    write_runs({"passed": [report("a", 2.0)], "error": [report("a", 0.6, False)]}, path)
    write_runs({"passed": []}, path)
    found = read_runs(path)
    assert [name.split("::")[1] for name in found] == ["a", "b[1, 2]"]
    assert [row[2:] for row in found.values()] == [["3", "failed"], ["3", "passed"]]
    assert all(row[0].count("-") == 2 and row[1].startswith("0.1.0") for row in found.values())
    gone = path.read_text(encoding="utf-8").replace("tests/test_full_runs.py::a", "tests/test_gone.py::a")
    path.write_text(gone, encoding="utf-8")
    write_runs({"failed": [report("b[1, 2]", 3.0, False)]}, path)
    assert [row[3] for row in read_runs(path).values()] == ["failed"]
