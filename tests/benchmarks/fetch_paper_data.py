"""Fetch tables of the paper benchmarks from their public addresses: one CSV file for each, as its source has it.

Run ``python -m tests.benchmarks.fetch_paper_data OUT [--only NAME ...] [--print-hashes]``. A table that is there stays.
Addresses can change: ``--address NAME=URL`` gives another one, which may be a ``file://`` address.
``--print-hashes`` writes the SHA-256 of each file that came: two people see by it whether they have the same bytes.
"""

import argparse
import hashlib
import sys
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen
from zipfile import ZipFile

import pandas as pd

UCI = "https://archive.ics.uci.edu/static/public"
PATIENCE = 60.0  # seconds until a server must answer


class Source(NamedTuple):
    """Where a table is, how it is read, and what to cite."""

    address: str
    citation: str
    member: str = ""  # of a zip archive
    separator: str = ","
    header: int | None = None


SOURCES = {
    "iris": Source(f"{UCI}/53/iris.zip", "Fisher (1936), doi:10.24432/C56C76", "iris.data"),
    "wine": Source(f"{UCI}/109/wine.zip", "Aeberhard and Forina (1992), doi:10.24432/C5PC7J", "wine.data"),
    "abalone": Source(f"{UCI}/1/abalone.zip", "Nash and others (1994), doi:10.24432/C55C7W", "abalone.data"),
    "dermatology": Source(
        f"{UCI}/33/dermatology.zip", "Ilter and Guvenir (1998), doi:10.24432/C5FK5P", "dermatology.data"
    ),
    "wine_quality_red": Source(
        f"{UCI}/186/wine+quality.zip", "Cortez and others (2009), doi:10.24432/C56S3T", "winequality-red.csv", ";", 0
    ),
    "wine_quality_white": Source(
        f"{UCI}/186/wine+quality.zip", "Cortez and others (2009), doi:10.24432/C56S3T", "winequality-white.csv", ";", 0
    ),
    "parkinsons_telemonitoring": Source(
        f"{UCI}/189/parkinsons+telemonitoring.zip",
        "Tsanas and Little (2009), doi:10.24432/C5ZS3N",
        "parkinsons_updrs.data",
        header=0,
    ),
    "yacht_hydrodynamics": Source(
        f"{UCI}/243/yacht+hydrodynamics.zip",
        "Gerritsma, Onnink and Versluis (1981), doi:10.24432/C5XG7R",
        "yacht_hydrodynamics.data",
        r"\s+",
    ),
}


def fetched(name: str, source: Source) -> tuple[pd.DataFrame, str]:
    """A table from its source, and the SHA-256 of the bytes that came.

    Raises
    ------
    ValueError
        If the address cannot be reached, or what came is no such archive or table.
    """
    try:
        with urlopen(source.address, timeout=PATIENCE) as answer:
            data = answer.read()
    except (URLError, TimeoutError, OSError) as error:
        raise ValueError(
            f"{name}: {source.address} cannot be reached ({error}). Check the network, or give the file another "
            f"address: --address {name}=file:///path/of/the/file"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    try:
        if data[:2] == b"PK":
            with ZipFile(BytesIO(data)) as archive:
                members = [m for m in archive.namelist() if Path(m).name == source.member]
                if not members:
                    raise ValueError(f"the archive lacks {source.member!r} and holds {archive.namelist()}")
                data = archive.read(members[0])
        table = pd.read_csv(BytesIO(data), sep=source.separator, header=source.header, na_values="?")
    except Exception as error:
        raise ValueError(f"{name}: what came from {source.address} cannot be read: {error}") from error
    return table.rename(columns=str), digest


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is asked for; 1 if something is missing in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for NAME.csv")
    parser.add_argument("--only", nargs="+", choices=sorted(SOURCES), help="tables; all by default")
    parser.add_argument("--address", action="append", default=[], metavar="NAME=URL", help="another address of a table")
    parser.add_argument("--print-hashes", action="store_true", help="write the SHA-256 of each file that came")
    chosen = parser.parse_args(arguments)
    sources = dict(SOURCES)
    for given in chosen.address:
        name, _, address = given.partition("=")
        if name not in SOURCES or not address:
            parser.error(f"--address must be NAME=URL with a name among {', '.join(sorted(SOURCES))}, got {given!r}")
        sources[name] = sources[name]._replace(address=address)
    chosen.out.mkdir(parents=True, exist_ok=True)
    missing = 0
    for name in chosen.only or sorted(SOURCES):
        path = chosen.out / f"{name}.csv"
        if path.exists():
            print(f"{name}: {path} is there already")
            continue
        try:
            table, digest = fetched(name, sources[name])
        except ValueError as error:
            print(error, file=sys.stderr)
            missing += 1
            continue
        part = path.with_suffix(".part")  # renamed when whole
        table.to_csv(part, index=False)
        part.rename(path)
        print(f"{name}: {len(table):,} rows, {table.shape[1]} columns. Cite {sources[name].citation}")
        if chosen.print_hashes:
            print(f"  sha256 {digest}")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
