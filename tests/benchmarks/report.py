"""Markdown tables, the description of the machine, and the stored results of the benchmark scripts."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

QUIET = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}  # of ``pm.sample``


class Store:
    """Results as JSON lines, one for each key; the last line of a key counts.

    Parameters
    ----------
    path : str or Path
        Appended to. A line that an interruption cut off is ignored.
    names : sequence of str
        Of the fields of a record that are its key.
    """

    def __init__(self, path, names):
        self.path, self.names, self.records = Path(path), tuple(names), {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            self.records[self.key(record)] = record

    def key(self, record):
        return tuple(record[k] for k in self.names)

    def __contains__(self, key):
        return tuple(key) in self.records

    def add(self, key, result):
        """Write one result at once, so that it is there whatever happens next."""
        record = {**dict(zip(self.names, key, strict=True)), **result}
        begin = ""
        if self.path.exists() and self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
            begin = "\n"  # behind a line that was cut off
        with self.path.open("a", encoding="utf-8") as file:
            file.write(begin + json.dumps(record, default=float) + "\n")
        self.records[tuple(key)] = record


def markdown_table(header, rows):
    """A Markdown table; numbers are rounded to three figures and aligned to the right."""
    is_text = [all(isinstance(row[i], str) for row in rows) for i in range(len(header))]
    lines = [header, ["---" if text else "--:" for text in is_text]]
    lines += [[shown(x) for x in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def shown(x):
    """A cell: integers whole, floats to three figures (large ones to a whole number), absent ones as a dash."""
    if isinstance(x, str):
        return x
    if x is None or (isinstance(x, float) and np.isnan(x)):
        return "–"
    if isinstance(x, int | np.integer) or abs(x) >= 1000:
        return f"{x:,.0f}"
    return f"{x:#.3g}".rstrip(".")


def processor():
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def machine():
    """One sentence on processor, memory and versions."""
    parts, info = [processor()], Path("/proc/meminfo")
    if info.exists():
        n_kilobytes = int(info.read_text().split("MemTotal:")[1].split()[0])
        parts += [f"{os.cpu_count()} cores", f"{n_kilobytes / 2**20:.0f} GB of memory"]
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "arviz", "pymc"))
    return f"{', '.join(p for p in parts if p)}; Python {platform.python_version()}, {packages}."


def finish(sections):
    """Print the sections."""
    print(machine() + "\n")
    for title, table in sections:
        print(f"### {title}\n\n{table}")
