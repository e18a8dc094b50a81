"""Networks read from the Bayesian Interchange Format: what is common is read, all else is refused with its line."""

import gzip
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_spn import FactorGraph
from pymc_spn.factor_graphs import bif

BIF = """
network unknown { }
variable rain { type discrete [ 2 ] { no, yes }; }
variable wet { type discrete [ 3 ] { dry, damp, soaked }; } // a comment
variable cold { type discrete [ 2 ] { "low", "high" }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( wet | rain, cold ) {
  (no, low) 0.9, 0.08, 0.02;
  (no, high) 0.8, 0.1, 0.1;
  default 0.1, 0.3, 0.6;
}
probability ( cold | rain ) { table 0.7, 0.5, 0.3, 0.5; }
"""
JAVABAYES = """
// Bayesian network
network "Dog-Problem" { //5 variables and 5 probability distributions
  property "credal-set constant-density-bounded 1.1; { " ;
}
variable  "light-on" { //2 values
  type discrete[2] {  "true"  "false" };
  property "position = (218, 195)" ;
}
variable  family { type discrete [ 2 ] = { "[0,10]" "(10,20]" }; property see http://example.invalid; }
/* the order: the child varies slowest */
probability (  "light-on"  "family" ) { //2 variable(s) and 4 values
  table 0.6 0.05 0.4 0.95 ;
}
probability ( "family" ) { table 1.5e-1 8.5E-1; };
"""


def tables(fg):
    return {fg.scope_of(f): np.exp(fg.log_table(f)) for f in range(fg.n_factors)}


def test_rows_defaults_and_whole_tables(tmp_path):
    (tmp_path / "a.bif").write_text(BIF)
    (tmp_path / "a.bif.gz").write_bytes(gzip.compress(BIF.encode()))
    fg = FactorGraph.from_bif(tmp_path / "a.bif")
    assert fg.names == ("rain", "wet", "cold") and fg.states[2] == ("low", "high")
    wet = np.exp(fg.log_table(1))  # axes rain, cold, wet
    np.testing.assert_allclose(wet[0, 1], [0.8, 0.1, 0.1], atol=1e-15)
    np.testing.assert_allclose(wet[1, 0], [0.1, 0.3, 0.6], atol=1e-15)
    np.testing.assert_allclose(np.exp(fg.log_table(2)), [[0.7, 0.3], [0.5, 0.5]], atol=1e-15)
    r = FactorGraph.from_bif(str(tmp_path / "a.bif.gz")).compile().infer({"wet": "soaked"})
    p = 0.2 * 0.6
    q = 0.8 * (0.7 * 0.02 + 0.3 * 0.1)
    assert float(r.marginal("rain").sel(rain="yes")) == pytest.approx(p / (p + q), abs=1e-14)


def test_quotes_missing_commas_and_properties():
    fg = FactorGraph.from_bif(JAVABAYES)
    assert fg.names == ("light-on", "family")
    assert fg.states == (("true", "false"), ("[0,10]", "(10,20]"))
    found = tables(fg)
    np.testing.assert_allclose(found["family", "light-on"], [[0.6, 0.4], [0.05, 0.95]], atol=1e-15)
    np.testing.assert_allclose(found[("family",)], [0.15, 0.85], atol=1e-15)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("( wet | rain, cold )", "( wet, rain, cold )"),
        ("( wet | rain, cold )", "( wet rain cold )"),
        ("[ 3 ] {", "[ 3 ] = {"),
        ("[ 3 ] {", "[3]={"),
        ("{ dry, damp, soaked }", "{ dry damp soaked }"),
        ("{ dry, damp, soaked }", '{ "dry" "damp" "soaked" }'),
        ("(no, low) 0.9,", '("no" "low") 0.9'),
        ("0.8, 0.2;", "0.8 0.2; property p = {1};".replace("{1}", '"{1}"')),
        ("}; }", "}; };"),
        ("{ }", "{/* none */ property { }".replace("property {", "property a;")),
    ],
)
def test_common_variants_say_the_same(old, new):
    assert old in BIF
    found, expected = tables(FactorGraph.from_bif(BIF.replace(old, new))), tables(FactorGraph.from_bif(BIF))
    assert found.keys() == expected.keys()
    for scope, table in expected.items():
        np.testing.assert_array_equal(found[scope], table)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("0.3333, 0.3333, 0.3333", [1 / 3] * 3),
        ("0.1667, 0.1667, 0.6667", [0.1667 / 1.0001, 0.1667 / 1.0001, 0.6667 / 1.0001]),
        ("0.5, 0.1667, 0.3334", [0.5 / 1.0001, 0.1667 / 1.0001, 0.3334 / 1.0001]),
        ("0.333, 0.333, 0.333", [1 / 3] * 3),
        ("0.33, 0.33, 0.33", None),  # off by more than rounding to three decimals explains
        ("0.33333, 0.33333, 0.3333", None),  # by more than 0.5e-5 + 0.5e-5 + 0.5e-4
        ("0.333333, 0.333333, 0.3332", None),
        ("0.5, 0.5, -0.0001", None),
        ("0.5, 0.5, nan", None),
        ("0.5, 0.5, 1e999", None),
        ("0.5, 0.5, 1e-99999", None),
        ("0.5, 0.5, 0_0", None),
    ],
)
def test_rows_may_be_rounded_and_are_then_normalised(row, expected):
    text = BIF.replace("0.8, 0.1, 0.1", row)
    if row == "0.33333, 0.33333, 0.3333":
        expected = np.array([0.33333, 0.33333, 0.3333]) / 0.99996  # within 6e-5
    if expected is None:
        with pytest.raises(ValueError, match=r"^text, line 9: "):
            FactorGraph.from_bif(text)
        return
    np.testing.assert_allclose(tables(FactorGraph.from_bif(text))["rain", "cold", "wet"][0, 1], expected, atol=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ no, yes }", "{ no }", "line 3: variable 'rain' declares 2 states and lists 1"),
        ("{ no, yes }", "{ no, no }", "line 3: states of variable 'rain' must differ, but 'no' stands twice"),
        ("discrete [ 2 ] { no", "discrete [ two ] { no", "line 3: variable 'rain' must have 'type discrete"),
        ("type discrete [ 2 ] { no, yes };", "type continuous;", "'type discrete .* got 'continuous'"),
        ("type discrete [ 2 ] { no, yes };", "", "line 3: variable 'rain' must have 'type discrete"),
        ("0.8, 0.2;", "0.8;", "line 6: the table of 'rain' must have 2 entries, got 1"),
        ("0.8, 0.2;", "0.8, x;", "line 6: the table of 'rain' must hold numbers of at least 0, got 'x'"),
        ("0.8, 0.2;", "0.8, 0.2", "line 6: the table of 'rain' is not closed by ';'"),
        ("0.8, 0.2;", "0.8, 0.3;", r"line 6: probabilities of 'rain' must .* got \[0.8, 0.3\] with sum 1.1"),
        ("0.8, 0.1, 0.1", "0.8, 0.1, 0.2", r"line 9: .* with sum 1.1 for \(rain=no, cold=high\)"),
        ("0.5, 0.3, 0.5", "0.5, 0.3, 0.6", r"line 12: .* with sum 1.1 for \(rain=yes\)"),
        ("0.8, 0.2;", "0.8, 0.2; table 0.5, 0.5;", "states values again that are given in line 6"),
        ("(no, low)", "(non, low)", r"line 8: row \('non', 'low'\) of 'wet': 'non' is not a state of 'rain'"),
        ("(no, low)", "(no)", r"row \('no'\) of 'wet' must name 2 states"),
        ("(no, high)", "(no, low)", "line 9: the table of 'wet' states values again that are given in line 8"),
        ("default 0.1, 0.3, 0.6;", "", r"line 7: the table of 'wet' has no row for \(rain=yes, cold=low\)"),
        ("( cold | rain )", "( cold | snow )", "names 'snow', not a variable"),
        ("( cold | rain )", "( cold | rain, rain )", "line 12: the variables of a table must differ"),
        ("( cold | rain )", "( cold, wet | rain )", "one variable must stand before"),
        ("( cold | rain )", "cold | rain", r"must begin with '\( variable \| parents \)', got 'cold'"),
        ("( cold | rain )", "( wet | rain )", "line 12: variable 'wet' has a second probability block; .* in line 7"),
        ("variable cold", "variable wet", "line 5: variable 'wet' has a second variable block; the first is in line 4"),
        ("probability ( rain ) { table 0.8, 0.2; }", "", "line 3: variable 'rain' has no probability block"),
        ("( rain ) { table 0.8, 0.2; }", "( rain | cold ) { default 0.8, 0.2; }", "parents must not close a cycle"),
        ("0.5; }", "0.5;", "line 12: the probability block of 'cold' is not closed"),
        ("// a comment", "/* a comment", "line 4: the comment is not closed"),
        ('"high"', '"high', "line 5: a quotation mark is not closed on its line"),
        ("{ }", "{ property a }", "line 2: a property must end with ';'"),
        ("network", "netz", "line 2: a block must begin with network, variable or probability, got 'netz'"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(tmp_path, old, new, message):
    path = tmp_path / "bad.bif"
    assert old in BIF
    path.write_text(BIF.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"bad\.bif.*" + message):
        FactorGraph.from_bif(path)


def test_encodings(tmp_path):
    path = tmp_path / "latin.bif"
    path.write_bytes(BIF.replace("damp", "détrempé").encode("latin-1"))
    assert FactorGraph.from_bif(path, encoding="latin-1").states[1] == ("dry", "détrempé", "soaked")
    with pytest.raises(ValueError, match=r"latin\.bif, line 4: byte 0xe9 is not valid in encoding 'utf-8'.*latin-1"):
        FactorGraph.from_bif(path)
    with pytest.raises(ValueError, match="encoding must be the name of an encoding such as 'latin-1', got 'latin-0'"):
        FactorGraph.from_bif(path, encoding="latin-0")
    path.write_bytes(b"\xef\xbb\xbf" + BIF.encode())
    assert FactorGraph.from_bif(path).names[0] == "rain"
    with pytest.raises(ValueError, match=r"latin\.bif: no variable block found"):
        path.write_text("network a { }")
        FactorGraph.from_bif(path)


def many_parents(n):
    names = [f"v{i}" for i in range(n)]
    blocks = [f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}" for name in [*names, "child"]]
    return "\n".join([*blocks, f"probability ( child | {', '.join(names)} ) {{ default 0.5, 0.5; }}"])


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (
            30,
            "line 32: with the table of 'child' given 30 parents the network has 2,147,483,648 entries, more than max",
        ),
        (70, "the table of 'child' has 70 parents, more than 63"),
    ],
)
def test_sizes_are_checked_before_tables_are_made(n, message):
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        FactorGraph.from_bif(many_parents(n))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_limits_count_all_tables_and_are_an_argument():
    assert FactorGraph.from_bif(BIF, max_entries=18).n_factors == 3
    with pytest.raises(ValueError, match="the network has 18 entries, more than max_entries=17"):
        FactorGraph.from_bif(BIF, max_entries=17)
    with pytest.raises(ValueError, match="max_entries must be an integer of at least 1, got 0"):
        FactorGraph.from_bif(BIF, max_entries=0)


def test_gzipped_files_are_inflated_up_to_the_limit(tmp_path):
    path = tmp_path / "bomb.bif.gz"
    path.write_bytes(gzip.compress(b" " * 2**25))  # 32 MB in 32 kB
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"bomb\.bif\.gz: the file of 3.,... bytes inflates to more than 1,0..,... byt"
    ):
        FactorGraph.from_bif(path, max_entries=100)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    path.write_bytes(b"//" + b" " * 2**21)
    with pytest.raises(ValueError, match="the file has more than 1,050,176 bytes of text; raise max_entries"):
        FactorGraph.from_bif(path, max_entries=100)
    path.write_bytes(gzip.compress(BIF.encode())[:-9])
    with pytest.raises(ValueError, match=r"bomb\.bif\.gz: the gzipped file is damaged"):
        FactorGraph.from_bif(path)


@pytest.mark.parametrize(
    "shape",
    [
        "network " + "{0}(",  # each of these was looked for to the end of the text
        "network {0}",
        BIF + "probability ( rain | cold ) { {0}(",
        BIF + "variable x { type discrete [ 2 ] { {0}[ ",
        "variable {0}a/",
        "{0}/*",
        "network a { property {0}a",
    ],
)
def test_each_part_of_a_text_is_read_once(shape):
    """270 kB took over 40 s: here tokens are counted, of which a text has no more than characters."""
    filler = shape.split("{0}")[1]
    counts = []
    for n in (2_000, 8_000):
        text = shape.replace("{0}", filler * n)
        reader = bif.BifReader(text, "text", 100)
        with pytest.raises(ValueError, match=r"^text, line "):
            reader.network()
        assert reader.n_tokens <= len(text) + 1
        counts.append(reader.n_tokens)
    assert counts[1] <= 4 * counts[0] + 10
    with pytest.raises(ValueError, match=r"^text, line "):
        FactorGraph.from_bif(shape.replace("{0}", filler * 100_000) + "\n{")


# -- any network in any style, and any damage ------------------------------------------------------------


LABELS = st.text(st.sampled_from("ab.<=+-%0129'é"), min_size=1, max_size=3)
QUOTED = st.text(st.sampled_from("ab ,;[](){}|/*=#"), min_size=1, max_size=5).map(str.strip).filter(bool)


@st.composite
def networks(draw):
    n = draw(st.integers(1, 4))
    names = [f"{draw(LABELS)}_{i}" for i in range(n)]
    states, parents, probabilities = {}, {}, {}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for i, name in enumerate(names):
        labels = draw(st.lists(st.one_of(LABELS, QUOTED), min_size=1, max_size=3, unique=True))
        states[name] = labels
        parents[name] = draw(st.lists(st.sampled_from(names[:i]), unique=True, max_size=2)) if i else []
        shape = (*(len(states[p]) for p in parents[name]), len(labels))
        probabilities[name] = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    return states, parents, probabilities


def written(network, style):
    """The network as text, with quotes, commas, comments and forms of tables drawn by the style."""
    states, parents, probabilities = network
    lines = []

    def word(label):
        plain = all(c not in " ,;[](){}|/\"'" for c in label) and label[0] not in "=" and "#" not in label
        return label if plain and style.random() < 0.5 else f'"{label}"'

    def listed(words):
        comma = style.random() < 0.5
        return (", " if comma else " ").join(words)

    for name, labels in states.items():
        equals = style.choice(["", " = ", "="])
        known = listed([word(label) for label in labels])
        lines.append(f"variable {word(name)} {{ type discrete[{len(labels)}]{equals}{{ {known} }}; }}")
    for name, table in probabilities.items():
        bar = style.choice([" | ", ", "]) if parents[name] else ""
        lines.append(f"probability ({word(name)}{bar}{', '.join(word(p) for p in parents[name])}) {{ // {{")
        digits = style.choice([4, 6, 17])
        if style.random() < 0.4:
            lines.append(f"table {listed([f'{x:.{digits}f}' for x in np.moveaxis(table, -1, 0).ravel()])};")
        else:
            for at in np.ndindex(*table.shape[:-1]):
                row = listed([word(states[p][k]) for p, k in zip(parents[name], at, strict=True)])
                lines.append(f"({row}) {listed([f'{x:.{digits}f}' for x in table[at]])};")
        lines.append("}")
    return style.choice(["\n", "\n\n/* a * b */ "]).join(lines)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(networks(), st.integers(0, 2**32 - 1))
def test_what_is_written_is_read(network, seed):
    states, parents, probabilities = network
    fg = FactorGraph.from_bif(written(network, random.Random(seed)) + "\n")
    assert dict(zip(fg.names, fg.states, strict=True)) == {name: tuple(labels) for name, labels in states.items()}
    for f, name in enumerate(states):
        assert fg.scope_of(f) == (*parents[name], name)
        np.testing.assert_allclose(np.exp(fg.log_table(f)), probabilities[name], atol=3e-4)


PIECES = [
    *'{}()[],;|"/=\n .-e',
    "//",
    "/*",
    "*/",
    "table",
    "default",
    "property",
    "variable x",
    "probability (",
    "9" * 9,
]


@pytest.mark.parametrize("seed", range(4))
def test_edited_texts_end_in_our_errors(seed):
    """Pieces are put in, taken out, doubled and moved; the answer is a graph or an error that names the place."""
    rng = random.Random(seed)
    n_read = 0
    for _ in range(700):
        text = rng.choice([BIF, JAVABAYES])
        for _ in range(rng.randint(1, 3)):
            a, b = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
            b = min(b, a + rng.choice([0, 1, 5, 60]))
            text = rng.choice(
                [text[:a] + rng.choice(PIECES) + text[b:], text[:b] + text[a:b] + text[b:], text[:a] + text[b:]]
            )
        try:
            n_read += FactorGraph.from_bif(text + "\n{").n_factors
        except ValueError as error:
            assert str(error).startswith("text"), error
            assert len(str(error)) < 900
    for _ in range(300):
        text = rng.choice([BIF, JAVABAYES])
        a = rng.randrange(len(text))
        try:
            n_read += FactorGraph.from_bif(text[:a] + rng.choice(["", " ", "\n", "é"]) + text[a:]).n_factors
        except ValueError as error:
            assert str(error).startswith("text"), error
    assert n_read > 0


def test_edited_gzipped_files_end_in_our_errors(tmp_path):
    rng = random.Random(0)
    path, whole = tmp_path / "edited.bif.gz", gzip.compress(BIF.encode())
    for _ in range(200):
        raw = bytearray(whole)
        raw[rng.randrange(2, len(raw))] ^= 1 << rng.randrange(8)
        path.write_bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw))])])
        try:
            FactorGraph.from_bif(path, max_entries=1000)
        except ValueError as error:
            assert str(error).startswith(str(path)), error


def test_what_is_no_source_is_refused():
    for source in ("", " \t"):
        with pytest.raises(ValueError, match="source must be the path or the text of a BIF network, got an empty text"):
            FactorGraph.from_bif(source)
    for source in (None, BIF.encode(), 3):
        with pytest.raises(TypeError, match=f"got {type(source).__name__}"):
            FactorGraph.from_bif(source)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n", "UAI"),
        ("BAYES 1 2 1 1 0 2 .5 .5", "UAI"),
        ('<?xml version="1.0"?>\n<BIF VERSION="0.3"></BIF>', "XMLBIF"),
        ('<BIF VERSION="0.3"></BIF>', "XMLBIF"),
        ("% of Hugin\nnet\n{ node_size = (80 40); }\nnode a\n{ }\n", "the NET format of Hugin"),
    ],
)
def test_other_formats_are_named(text, format, tmp_path):
    path = tmp_path / "a.bif"
    path.write_text(text)
    for source, place in ((text, "text"), (path, str(path))):
        with pytest.raises(ValueError, match=f"{place}: this is {format}, and only BIF"):
            FactorGraph.from_bif(source)


def test_a_text_in_one_line_is_no_path(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="text, line 1: the network block must have"):
        FactorGraph.from_bif("network unknown")
    with pytest.raises(FileNotFoundError, match=r"No such file, and no text of a network .*: '.*none\.bif'"):
        FactorGraph.from_bif(str(tmp_path / "none.bif"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network a").write_text(BIF)
    assert FactorGraph.from_bif("network a").names == ("rain", "wet", "cold")


@pytest.mark.parametrize("edit", [("default", "function noisy-or"), ("type discrete [ 3 ]", "type noisy-max [ 3 ]")])
def test_functions_in_place_of_tables_are_named(edit):
    with pytest.raises(ValueError, match="a distribution must be a table here, and not a function as noisy-or is"):
        FactorGraph.from_bif(BIF.replace(*edit))


@pytest.mark.parametrize(
    ("edit", "place"), [("rain", "variable '.*': its name"), ("damp", "variable 'wet': its state")]
)
def test_names_that_no_file_keeps_are_refused(edit, place):
    for letter, what in (("\0", "a NUL"), ("\ud800", "half of a surrogate pair")):
        with pytest.raises(ValueError, match=f"{place}.* holds {what}, which no file keeps"):
            FactorGraph.from_bif(BIF.replace(edit, edit + letter))
