import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_spn.circuits.structures.region_trees import complete_tree, skewed_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.tables import Column, Table

# Yokoi and Sato (2024), Table 9: D, then S and V at C_s = 2 and at C_s = 4; one set for each D.
TABLE_9 = {
    "Abalone": (9, 117, 351, 1_097, 5_485),
    "Ailerons": (41, 2_517, 7_551, 111_177, 555_885),
    "Airfoil Self-Noise": (6, 53, 159, 329, 1_645),
    "Breast": (10, 149, 447, 1_609, 8_045),
    "cpu_act": (22, 725, 2_175, 16_969, 84_845),
    "cpu_small": (13, 245, 735, 3_145, 15_725),
    "Crx": (16, 341, 1_023, 4_681, 23_405),
    "Dermatology": (35, 1_749, 5_247, 62_025, 310_125),
    "elevators": (19, 533, 1_599, 10_825, 54_125),
    "German": (21, 661, 1_983, 14_921, 74_605),
    "Hybrid Price": (4, 21, 63, 73, 365),
    "LPGA2008": (7, 69, 207, 457, 2_285),
    "Parkinsons Telemonitoring (motor)": (17, 405, 1_215, 6_729, 33_645),
    "Wine Quality White": (12, 213, 639, 2_633, 13_165),
    "Wine": (14, 277, 831, 3_657, 18_285),
}


def names(n):
    return [f"x{d}" for d in range(n)]


@pytest.mark.parametrize("dataset", TABLE_9)
def test_table_9_of_the_paper(dataset):
    """V = S + P + L, where every sum has C_s children: P + L = C_s S."""
    n_columns, *printed = TABLE_9[dataset]
    for width, n_sums, n_nodes in [(2, *printed[:2]), (4, *printed[2:])]:
        tree = complete_tree(names(n_columns), n_children=width)
        assert (tree.n_sum_nodes(), tree.n_nodes()) == (n_sums, n_nodes)
        assert tree.n_product_nodes() + tree.n_leaves() == width * n_sums
        assert tree.n_regions == 2 * n_columns - 1
        assert tree.n_induced_trees() == width ** (2 * n_columns - 1)


def count_directly(tree, width):
    """Sums, products, leaves, height and induced trees by walking every node; slow and obvious."""

    def walk(region):
        parts = [int(p) for p in tree.parts[tree.part_ptr[region] : tree.part_ptr[region + 1]]]
        if not parts:
            return np.array([1, 0, width]), 2, width
        below = {p: walk(p) for p in parts}
        counts, induced = np.array([1, 0, 0]), 0
        for c in range(tree.n_children[region]):
            used = [below[p] for p in parts if tree.split[p] == c % tree.n_splits[region]]
            counts = counts + np.array([0, 1, 0]) + sum(b[0] for b in used)
            induced += math.prod(b[2] for b in used)
        return counts, 2 + max(b[1] for b in below.values()), induced

    return walk(0)


@pytest.mark.parametrize("n_parts", [2, 3])
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("n_splits", [0, 1, 2, 3])
def test_table_2_complete(n_parts, width, n_splits):
    """Complete column of Table 2, as printed, with h = log D / log C_p a whole number."""
    n_columns = n_parts**n_splits
    tree = complete_tree(names(n_columns), n_children=width, n_parts=n_parts)
    power = (n_parts * width) ** n_splits
    assert tree.n_sum_nodes() == (power * n_parts * width - 1) // (n_parts * width - 1)
    assert tree.n_product_nodes() == (width * power - width) // (n_parts * width - 1)
    assert tree.n_leaves() == width * power
    assert tree.n_induced_trees() == width ** (n_parts * (n_columns - 1) // (n_parts - 1) + 1)
    assert tree.height() == 2 * n_splits + 2


@pytest.mark.parametrize("n_parts", [2, 3])
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("n_splits", [0, 1, 2, 4])
def test_table_2_skewed(n_parts, width, n_splits):
    """Skewed column of Table 2, with h = (D - 1) / (C_p - 1) a whole number.

    P and the number of induced trees are right as printed. S and L are not:

    * S is printed as (C_p C_s^(h+1) + (1 - C_p) C_s) / (C_s - 1), one 1 short in the numerator:
      S = 1 + C_p (C_s + ... + C_s^h) = (C_p C_s^(h+1) + (1 - C_p) C_s - 1) / (C_s - 1).
      The printed value is too large by 1 / (C_s - 1): by 1 at C_s = 2, no whole number above.
    * L is printed as (C_p C_s - 1) C_s^(h+1) / (C_s - 1) + (1 - C_p) C_s^2; the second term belongs into the
      fraction: L = ((C_p C_s - 1) C_s^(h+1) + (1 - C_p) C_s^2) / (C_s - 1), from h >= 1 splits. The two agree
      at C_s = 2 only. With h = 0, L = C_s, which the corrected formula gives as well.
    """
    n_columns = 1 + n_splits * (n_parts - 1)
    tree = skewed_tree(names(n_columns), n_children=width, n_parts=n_parts)
    top = width ** (n_splits + 1)
    numerator_s = n_parts * top + (1 - n_parts) * width
    numerator_l = (n_parts * width - 1) * top + (1 - n_parts) * width**2
    counted, height, induced = count_directly(tree, width)
    assert tree.n_sum_nodes() == counted[0] == (numerator_s - 1) // (width - 1)
    assert (numerator_s - 1) % (width - 1) == 0 and numerator_l % (width - 1) == 0
    assert tree.n_product_nodes() == counted[1] == (top - width) // (width - 1)
    assert tree.n_leaves() == counted[2] == numerator_l // (width - 1)
    assert tree.n_induced_trees() == induced == width ** (n_parts * n_splits + 1)
    assert tree.height() == height == 2 * n_splits + 2
    # as printed
    assert (width - 1) * tree.n_sum_nodes() != numerator_s
    printed_l = (n_parts * width - 1) * top + (width - 1) * (1 - n_parts) * width**2
    assert ((width - 1) * tree.n_leaves() == printed_l) == (width == 2)


@given(
    n_columns=st.integers(1, 7),
    n_parts=st.integers(2, 3),
    width=st.integers(1, 3),
    repetitions=st.integers(1, 3),
    split=st.sampled_from(["order", "random", "per_product"]),
    build=st.sampled_from([complete_tree, skewed_tree]),
    seed=st.integers(0, 100),
)
def test_any_tree_with_several_splits(n_columns, n_parts, width, repetitions, split, build, seed):
    repetitions = repetitions if n_columns > 1 else 1
    tree = build(names(n_columns), width, n_parts, split, repetitions, seed)
    for r in range(tree.n_regions):
        if split != "per_product" and repetitions == 1:  # parts alike in size, or one column after the other
            sizes = tree.size[tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]]]
            assert sizes.size == (0 if tree.size[r] == 1 else min(n_parts, tree.size[r]))
            if build is complete_tree:
                assert np.all(np.diff(sizes) <= 0)
                assert sizes.size == 0 or sizes.max() - sizes.min() <= 1
            else:
                assert np.all(sizes[:-1] == 1)
            inside = [q for q in range(tree.n_regions) if set(tree.scope(q)) <= set(tree.scope(r))]
            assert inside == list(range(r, tree.subtree_end[r]))
        parts = tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]]
        own = [parts[tree.split[parts] == s] for s in range(tree.n_splits[r])]
        for group in own if parts.size else []:
            held = [name for q in group for name in tree.scope(int(q))]
            assert sorted(held) == sorted(tree.scope(r))
        if split == "per_product" and parts.size and (r > 0 or repetitions == 1):
            shared = tree.size[parts].max() == 1  # columns can be set apart in one way only
            assert tree.n_splits[r] == (1 if shared else width)
            assert tree.copies(tree.width(None))[r] == 1 or tree.size[r] <= n_parts
    assert tree.n_splits[0] == repetitions or repetitions == 1
    assert tree.leaf_column.tolist() == sorted(tree.leaf_column.tolist())
    assert [tree.scope(int(r)) for r in tree.leaf_region] == [(f"x{d}",) for d in tree.leaf_column]
    counted, height, induced = count_directly(tree, width)
    counts = (tree.n_sum_nodes(), tree.n_product_nodes(), tree.n_leaves())
    assert (*counts, tree.height(), tree.n_induced_trees()) == (*counted, height, induced)
    assert RegionTree.from_json(json.loads(json.dumps(tree.to_json()))) == tree
    circuit = tree.circuit({name: ["gaussian"] for name in tree.names})
    assert circuit.n_nodes == tree.n_nodes() == sum(counted)


def test_per_product_has_as_many_nodes_as_shared_splits():
    """Sizes alone fix S and V, so Table 9 cannot tell the two."""
    for width, n_sums in [(2, 277), (4, 3_657)]:
        tree = complete_tree(names(14), width, split="per_product", random_seed=1)
        assert tree.n_sum_nodes() == n_sums
        assert tree.n_regions > 27


def test_repetitions_put_a_sum_node_above_several_trees():
    tree = complete_tree(names(4), n_children=[3, 2, 2], repetitions=2, random_seed=2)
    assert tree.n_children[:2].tolist() == [2, 3]  # one number per depth of each tree; the node above has two
    assert tree.n_regions == 1 + 2 * 7 and tree.leaf_column.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert tree.scope(1) == tree.scope(8) == tree.scope(0)
    assert tree.order[:4].tolist() == [0, 1, 2, 3] != tree.order[4:].tolist()
    assert "up to 2 splits a region" in repr(tree)


def test_counts_do_not_overflow():
    tree = skewed_tree(names(2_000), n_children=7)
    assert tree.n_induced_trees() == 7**3_999
    assert tree.n_product_nodes() == (7**2_000 - 7) // 6


def test_splits():
    columns = names(5)
    tree = complete_tree(columns)
    assert tree.scope(1) == ("x0", "x1", "x2")  # the larger part first
    named = complete_tree(columns, split=["x4", "x0", "x2", "x3", "x1"])
    assert named.scope(1) == ("x0", "x2", "x4")
    drawn = [complete_tree(columns, split="random", random_seed=s).order.tolist() for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert skewed_tree(columns, n_parts=3).scope(1) == ("x0",)
    assert skewed_tree(columns, n_parts=3).scope(3) == ("x2", "x3", "x4")


def test_width_by_depth_and_palette():
    tree = complete_tree(names(3), n_children=[3, 2, 1])
    assert tree.depth.tolist() == [0, 1, 2, 2, 1]
    assert tree.n_children.tolist() == [3, 2, 1, 1, 2]
    assert tree.n_sum_nodes() == 1 + 3 + 6 + 6 + 3
    palette = {"x0": 4, "x1": 1, "x2": 2}
    assert tree.n_leaves() == 6 + 6 + 3 * 2
    assert tree.n_leaves(palette) == 6 * 4 + 6 * 1 + 3 * 2
    assert tree.n_nodes(palette) == 19 + (3 + 3 * 2) + 36
    assert tree.n_induced_trees(palette) == 3 * 2 * 4 * 1 * 2
    lazy = complete_tree(names(3), n_children=["infinite", 2, "infinite"])
    assert lazy.n_children.tolist() == [0, 2, 0, 0, 2]
    assert complete_tree(names(3)).n_children.tolist() == [0] * 5
    with pytest.raises(ValueError, match="finite n_children, region 0 has infinitely many"):
        lazy.n_nodes()


def test_columns_may_carry_their_schema():
    columns = (Column("age", "real", None, "float64"), Column("sex", "categorical", ("F", "M"), "object"))
    tree = complete_tree(columns, n_children=2)
    assert tree.names == ("age", "sex")
    assert tree.columns == columns
    back = RegionTree.from_json(json.loads(json.dumps(tree.to_json())))
    assert back == tree and back.columns == columns


def test_frozen_and_copied():
    tree = complete_tree(names(4), n_children=2)
    for array in (tree.order, tree.parts, tree.n_children, tree.leaf_region):
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        tree.order = None
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree == copy.deepcopy(tree) and hash(again) == hash(tree)
    assert not again.order.flags.writeable
    assert tree != complete_tree(names(4), n_children=3) and tree != "tree"
    assert repr(tree) == "RegionTree(4 columns, 7 regions, n_children 2)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": "abc"}, "columns must be a sequence of columns or names, got the single string 'abc'"),
        ({"columns": []}, "columns must hold at least one column"),
        ({"columns": ["a", "b", "a"]}, "distinct names, got 'a' at positions 0 and 2"),
        ({"columns": ["a", "b\0"]}, r"columns: the name 'b.x00' holds a NUL, which no file keeps"),
        ({"columns": ["a", 3.5]}, "got 3.5 at position 1"),
        ({"n_children": 0}, "n_children must be an integer of at least 1, .* got 0"),
        ({"n_children": True}, "n_children must be .* got True"),
        ({"n_children": 2.0}, "n_children must be .* got 2.0"),
        ({"n_children": "many"}, "n_children must be .* got 'many'"),
        ({"n_children": [2, 2]}, r"one entry per depth of the region tree \(3\), got 2"),
        ({"n_children": [2, 2, -1]}, "got -1 at depth 2"),
        ({"n_parts": 1}, "n_parts must be an integer of at least 2, got 1"),
        ({"split": "half"}, "split must be 'order', 'random', 'per_product' or a sequence of column names, got 'half'"),
        ({"split": ["a", "b", "z"]}, "got 'z' at position 2, which is not a column"),
        ({"split": ["a", "b", "a"]}, "got 'a' at positions 0 and 2"),
        ({"split": ["a", "b"]}, "'c' is missing"),
        ({"repetitions": 0}, "repetitions must be an integer of at least 1, got 0"),
        ({"repetitions": True}, "repetitions must be an integer of at least 1, got True"),
        ({"columns": ["a"], "repetitions": 2}, "repetitions must be 1 for a single column"),
        ({"split": "per_product"}, "gives each product a split of its own and needs finite n_children"),
        (
            {"columns": names(60), "split": "per_product", "n_children": 9},
            "the tree has more than 100,000 sum nodes: .*split='per_product' fewer children",
        ),
    ],
)
@pytest.mark.parametrize("build", [complete_tree, skewed_tree])
def test_bad_arguments_are_refused(build, arguments, message):
    with pytest.raises(ValueError, match=message):
        build(**({"columns": ["a", "b", "c"]} | arguments))


@pytest.mark.parametrize("build", [complete_tree, skewed_tree])
def test_what_holds_no_columns_is_refused(build):
    for columns in (None, 3):
        with pytest.raises(TypeError, match=f"columns must be a sequence of columns or names, got {columns}$"):
            build(columns)
    with pytest.raises(TypeError, match=r"got Table\(2 rows; a: count\); pass its \.columns"):
        build(Table.from_frame({"a": [1, 2]}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": [0, 1, 1]}, "order must be a permutation of 0..2"),
        ({"order": [0.0, 1.0, 2.0]}, "order must be a one-dimensional array of integers"),
        ({"begin": [0, 0, 0, 1]}, r"begin must have one entry per region \(5, from parent\), got 4"),
        ({"end": [2, 2, 1, 2, 3]}, "the root region must hold all 3 columns, got 0:2"),
        ({"end": [3, 2, 2, 2, 3]}, r"parts \[2, 3\] of region 1 must partition its columns"),
        ({"parent": [0, 0, 1, 1, 0]}, "root"),
        ({"parent": [-1, 0, 3, 1, 0]}, "parent of region 2 must be an earlier region, got 3"),
        (
            {"parent": [-1, 0, 1, 0, 0]},
            "region 1 holds 2 columns and must have two parts or more, got 1|partition",
        ),
        ({"n_children": [2, 2, -1, 2, 2]}, "or 0 for infinite, got -1 at region 2"),
        ({"split": [0, 0, 0, 2, 0]}, r"parts \[2, 3\] of region 1 must be numbered by splits .* got split \[0, 2\]"),
        ({"split": [0, 0, 0, 1, 0]}, r"parts \[2\] of region 1 must partition its columns"),
        (
            {"split": [0, 0, 0, 1, 0], "n_children": [2, 1, 2, 2, 2]},
            "n_children of region 1 must be at least its 2 splits",
        ),
        ({"order": [0, 1, 2, 3]}, "order must hold columns 0..2"),
    ],
)
def test_broken_trees_are_refused(change, message):
    good = complete_tree(["a", "b", "c"], n_children=2)
    arrays = {k: getattr(good, k) for k in ("order", "begin", "end", "parent", "n_children")}
    with pytest.raises(ValueError, match=message):
        RegionTree(columns=good.columns, **(arrays | change))


def test_preorder_is_required():
    with pytest.raises(ValueError, match="depth-first preorder, got region 3 where 2 was due"):
        RegionTree(
            columns=("a", "b", "c"),
            order=[0, 1, 2],
            begin=[0, 0, 2, 0, 1],
            end=[3, 2, 3, 1, 2],
            parent=[-1, 0, 0, 1, 1],
            n_children=[2] * 5,
        )


def test_foreign_json_is_refused():
    with pytest.raises(ValueError, match="data must have format 'region_tree/1', got 'x'"):
        RegionTree.from_json({"format": "x"})


def test_explicit_tree_is_bounded_and_needs_leaves():
    tree = complete_tree(["a", "b"], n_children=2)
    with pytest.raises(ValueError, match="leaves must have an entry for every column, got none for 'b'"):
        tree.circuit({"a": ["gaussian"]})
    with pytest.raises(ValueError, match="leaves has an entry for 'c', which is not a column"):
        tree.circuit({"a": ["gaussian"], "b": ["gaussian"], "c": ["gaussian"]})
    with pytest.raises(ValueError, match="at least one family for every column, got none for 'a'"):
        tree.circuit({"a": [], "b": ["gaussian"]})
    with pytest.raises(ValueError, match="the explicit tree has 15 nodes, more than max_nodes=14"):
        tree.circuit({"a": ["gaussian"], "b": ["gaussian"]}, max_nodes=14)
    with pytest.raises(ValueError, match="region 0 has infinitely many"):
        complete_tree(["a", "b"]).circuit({"a": ["gaussian"], "b": ["gaussian"]})
