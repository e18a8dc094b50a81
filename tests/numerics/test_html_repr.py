"""What objects say of themselves, in a line and in a notebook."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.numerics.graph_pictures import MOST_LABELLED, MOST_SHADED, in_layers, svg_of_edges, svg_of_graph
from pymc_spn.numerics.html_repr import LATER, LONGEST_FACT, MOST_ROWS, Facts, Listed, as_html, elided, one_line

VOID = {"line", "path", "polygon", "rect"}


class Read(HTMLParser):
    """Texts and counts of tags; refuses tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def test_text_and_html_share_the_facts():
    said = Facts("Thing", {"columns": "2 columns", "given": "", LATER: "R-hat 1.00", "draws": "9 <draws>"}, "'x'")
    assert one_line(said) == "Thing('x': 2 columns, 9 <draws>; R-hat 1.00)"
    html = as_html(said, Listed("2 columns", ("column", "kind"), [("<b>", "real"), ("y", "count")]))
    read = Read(html)
    assert "<b>" not in html and "<b>" in read.texts  # escaped
    assert {"columns", "2 columns", "draws", "9 <draws>", "chains", "R-hat 1.00"} <= set(read.texts)
    assert "given" not in read.texts


def test_long_lists_and_long_facts_are_cut():
    assert elided(list("abc")) == "a, b, c" and elided(list("abcdef"), most=4) == "a, b, ..., e, f"
    words = one_line(Facts("Thing", {"given": "a" * 500 + "b" * 500}))
    assert len(words) <= LONGEST_FACT + len("Thing()") and "aaa ... bbb" in words
    names = [f"column{i}" for i in range(100)]
    assert set(one_line(Facts("", {"given": " ".join(names)})).strip("()").split()) <= {*names, "..."}
    rows = [(i,) for i in range(MOST_ROWS + 7)]
    texts = Read(as_html(Facts("Thing", {}), Listed("rows", ("i",), rows))).texts
    assert str(MOST_ROWS - 1) in texts and str(MOST_ROWS) not in texts and "... 7 more" in texts


def test_a_table_shows_kinds_levels_and_gaps():
    frame = pd.DataFrame({"x": [1.5, None, 2.25], "grade": ["a", "b", None], "z": [0.5, 1.5, 3.5]})
    read = Read(ps.Table.from_frame(frame)._repr_html_())
    cells = [text for text in read.texts if text.strip()]
    at = cells.index("missing")
    assert cells[at + 1 :] == ["x", "real", "1", "grade", "categorical", "a, b", "1", "z", "real", "0"]
    assert "2 of 9 cells are missing" in cells
    wide = ps.Table.from_frame(pd.DataFrame(np.eye(3, 100) + 0.5, columns=[f"column{i}" for i in range(100)]))
    assert len(repr(wide)) < 300 and "column0: real" in repr(wide) and "column99: real" in repr(wide)
    levels = ps.Table.from_frame(pd.DataFrame({"c": [f"level {i % 60}" for i in range(180)]}), {"c": "categorical"})
    assert len(repr(levels.columns[0])) < 300 and "..." in repr(levels.columns[0])
    flag = ps.Column("c", "binary", (False, True), "bool", "x")
    assert repr(flag) == "Column(name='c', kind='binary', dtype='bool', levels=(False, True), indicates='x')"


def test_a_graph_is_drawn_with_an_arrow_for_each_edge():
    graph = ps.DAG.from_edges(["a", "b", "c & d"], [("a", "b"), ("a", "c & d"), ("b", "c & d")])
    read = Read(graph._repr_html_())
    assert (read.count("rect"), read.count("line"), read.count("polygon")) == (3, 3, 3)
    assert "c & d" in read.texts and "3 variables" in read.texts
    turned = Read(graph.cpdag()._repr_html_())
    assert (turned.count("line"), turned.count("polygon")) == (3, 0)  # every edge may be turned
    many = ps.DAG(tuple(f"v{i}" for i in range(50)), np.eye(50, k=1, dtype=bool))
    read = Read(many._repr_html_())
    assert not read.count("svg") and "49 edges" in read.texts and "v48" in read.texts


def test_layers_lie_below_parents_and_boxes_apart():
    adjacency = np.triu(np.random.default_rng(0).random((9, 9)) < 0.3, 1)
    at = in_layers(adjacency, range(9))
    assert all(at[parent, 1] > at[child, 1] for parent, child in np.argwhere(adjacency))
    assert len({tuple(place) for place in at.tolist()}) == 9
    svg = svg_of_graph([f"a name of variable {i}" for i in range(9)], adjacency, at)
    boxes = [
        [float(attrs[key]) for key in ("x", "y", "width", "height")] for tag, attrs in Read(svg).tags if tag == "rect"
    ]
    for i, (x, y, w, h) in enumerate(boxes):
        for other_x, other_y, *_ in boxes[:i]:
            assert abs(x - other_x) >= w or abs(y - other_y) >= h


def test_factor_graphs_list_their_states():
    graph = ps.FactorGraph({"rain": ["no", "yes"], "wet": 20})
    graph.add_factor(("rain", "wet"), np.zeros((2, 20)))
    texts = Read(graph._repr_html_()).texts
    assert {"2 variables", "1 factors", "no, yes", "20"} <= set(texts)
    tree = graph.compile()
    assert ", ".join(tree.cliques[0]) in Read(tree._repr_html_()).texts
    assert f"1 rows of evidence on {tree!r}" in Read(tree.infer({"rain": "no"})._repr_html_()).texts


@pytest.mark.parametrize("edges", [[], [("a", "b")]])
def test_a_graph_of_one_variable_or_none_is_drawn(edges):
    names = ["a", "b"] if edges else ["a"]
    assert Read(ps.DAG.from_edges(names, edges)._repr_html_()).count("rect") == len(names)
    assert Read(ps.DAG((), np.zeros((0, 0), bool))._repr_html_()).count("svg") == 0


def test_edge_probabilities_are_drawn_as_links_with_heads_where_the_direction_is_known():
    edges = np.zeros((4, 4))
    edges[0, 1], edges[1, 0] = 0.45, 0.4  # linked, direction open
    edges[1, 2], edges[2, 1] = 0.9, 0.05  # an arrow
    edges[2, 3], edges[3, 2] = 0.3, 0.2  # no link: one half is not above one half
    read = Read(svg_of_edges(["a", "b", "<c>", "d"], edges))
    assert (read.count("rect"), read.count("line"), read.count("polygon")) == (4, 2, 1)
    titles = [text for text in read.texts if ";" in text and "->" in text]
    assert titles == ["a -> b: 0.450; b -> a: 0.400", "b -> <c>: 0.900; <c> -> b: 0.050"]
    dark = [float(attrs["opacity"]) for tag, attrs in read.tags if tag == "g"]
    assert dark == [0.76, 0.92]  # 0.2 + 0.8 (2 p - 1) with p the probability of either direction
    assert svg_of_edges((), np.zeros((0, 0))) == ""


@pytest.mark.parametrize("n", [MOST_SHADED, MOST_LABELLED, MOST_LABELLED + 1])
def test_edge_probabilities_of_many_nodes_are_a_heat_map(n):
    edges = np.zeros((n, n))
    edges[0, 1], edges[2, 5], edges[3, 4], edges[1, 7] = 1.0, 0.91, 0.31, 0.01
    read = Read(svg_of_edges([f"node {i}" for i in range(n)], edges))
    paths = [attrs for tag, attrs in read.tags if tag == "path"]
    if n <= MOST_SHADED:
        assert not paths and read.count("polygon") == 2
        return
    assert [(attrs["fill-opacity"], attrs["d"].count("M")) for attrs in paths] == [("0.4", 1), ("1", 2)]
    labels = [text for text in read.texts if text.startswith("node ")]
    assert len(labels) == (n if n <= MOST_LABELLED else 0)
    left, side = (float(v) for v in (paths[0]["d"][1:].split()[0], paths[0]["d"].split("h")[1].split("v")[0]))
    column, row = 4, 3
    assert paths[0]["d"].startswith(f"M{left:g} {1 + side * row:g}h")
    frame = next(attrs for tag, attrs in read.tags if tag == "rect")
    assert left == float(frame["x"]) + side * column
