"""The script that fetches tables of the papers, with files of this machine in place of the network."""

import hashlib
from zipfile import ZipFile

import pandas as pd
import pytest

from tests.benchmarks.fetch_paper_data import SOURCES, main


def test_archives_and_plain_files_are_read_with_their_gaps(tmp_path, capsys):
    rows = "5.1,3.5,a\n?,3.0,b\n"
    archive, plain, out = tmp_path / "some.zip", tmp_path / "red.csv", tmp_path / "out"
    with ZipFile(archive, "w") as file:
        file.writestr("folder/dermatology.data", rows)
        file.writestr("folder/other.txt", "nothing")
    plain.write_text('"fixed acidity";"quality"\n7.4;5\n')
    given = ["--address", f"dermatology={archive.as_uri()}", "--address", f"wine_quality_red={plain.as_uri()}"]
    asked = [str(out), "--only", "dermatology", "wine_quality_red", "--print-hashes", *given]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "dermatology: 2 rows, 3 columns. Cite Ilter" in said
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in said
    found = pd.read_csv(out / "dermatology.csv")
    assert found.shape == (2, 3) and found["0"].isna().tolist() == [False, True]
    assert pd.read_csv(out / "wine_quality_red.csv").columns.tolist() == ["fixed acidity", "quality"]
    assert main(asked) == 0 and "is there already" in capsys.readouterr().out


@pytest.mark.parametrize("content, said", [(None, "cannot be reached"), ("other", "lacks 'iris.data'")])
def test_what_cannot_be_fetched_is_said_and_leaves_no_file(tmp_path, capsys, content, said):
    archive = tmp_path / "a.zip"
    if content:
        with ZipFile(archive, "w") as file:
            file.writestr(content, "1,2\n")
    assert main([str(tmp_path / "out"), "--only", "iris", "--address", f"iris={archive.as_uri()}"]) == 1
    shown = capsys.readouterr().err
    assert said in shown and archive.as_uri() in shown
    assert not list((tmp_path / "out").iterdir())


def test_every_source_has_an_address_and_a_citation():
    assert all(s.address.startswith("https://") and "doi:" in s.citation for s in SOURCES.values())
    with pytest.raises(SystemExit):
        main(["out", "--address", "nothing=here"])
