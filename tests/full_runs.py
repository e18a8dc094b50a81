"""The table in `full_runs.md`: when each test that `pytest -m full` alone runs last ran, and what came of it."""

import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

TABLE = Path(__file__).with_suffix(".md")
HEAD = """# Long runs

`pytest -m full` writes this file: the last run of each long test. No check runs them.

| Test | Date | Version | Seconds | Result |
|---|---|---|--:|---|
"""


def read_runs(path: Path = TABLE) -> dict[str, list[str]]:
    """Date, version, seconds and result of each test, by its name."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| `")]
    return {name.strip("`"): found for name, *found in rows}


def write_runs(stats: dict, path: Path = TABLE) -> None:
    """Put the reports of one run into the table; lines of other tests stay if their files do."""
    reports = [r for kind in ("passed", "failed", "error") for r in stats.get(kind, [])]
    if not reports:
        return
    runs = {name: row for name, row in read_runs(path).items() if (TABLE.parents[1] / name.split("::")[0]).exists()}
    at = [datetime.now(UTC).date().isoformat(), version_of_the_package()]
    for name in {r.nodeid for r in reports}:
        own = [r for r in reports if r.nodeid == name]
        result = "passed" if all(r.passed for r in own) else "failed"
        runs[name] = [*at, f"{sum(r.duration for r in own):.0f}", result]
    lines = [f"| `{name}` | {' | '.join(row)} |\n" for name, row in sorted(runs.items())]
    path.write_text(HEAD + "".join(lines), encoding="utf-8")


def version_of_the_package() -> str:
    """Version and commit, with a plus if tracked files were edited."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=TABLE.parent, capture_output=True, text=True).stdout.strip()

    edited = "+" * bool(git("status", "--porcelain", "--untracked-files=no"))
    commit = git("rev-parse", "--short", "HEAD")
    return f"{version('pymc_spn')} ({commit}{edited})" if commit else version("pymc_spn")
