"""The table of the last runs of long tests."""

from types import SimpleNamespace

from full_runs import read_runs, write_runs


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
