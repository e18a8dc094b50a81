"""What is read of a recorded network is refused where `SPN` cannot have written it, in words that say where."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.networks.records.record import digits_dtype, n_labels, read_record
from pymc_spn.tables.tree_files import read_results
from tests.hand_made_records import enumerated_tree, in_cells, schema_of, tree_of
from tests.reference import tiny_problems

ALTERED = "; the results were altered or damaged"


@cache
def recorded(name="missing", record_every=1):
    return enumerated_tree(tiny_problems()[name], record_every=record_every)[0]


def altered(tree, group, variable, change):
    """A copy of a tree in which a variable holds what `change` makes of its values."""
    tree = tree.copy(deep=True)
    data = tree[group].to_dataset()
    data[variable] = (data[variable].dims, change(data[variable].values.copy()))
    tree[group] = xr.DataTree(data)
    return tree


def put(index, value):
    def change(values):
        values[index] = value
        return values

    return change


def as_float(values):
    return values * 1.0


def refuses(tree, *words):
    with pytest.raises(ValueError) as caught:
        read_record(tree)
    message = str(caught.value)
    assert all(w in message for w in words) and message.endswith(ALTERED), message


@pytest.mark.parametrize("name", ["missing", "depths", "infinite_missing", "splits", "infinite_splits", "two_trees"])
@pytest.mark.parametrize("record_every", [1, 3])
def test_every_state_can_be_read(name, record_every):
    tree = recorded(name, record_every)
    digits = read_record(tree).digits
    np.testing.assert_array_equal(digits, read_record(ps.unpack(tree)).digits)


@pytest.mark.parametrize(
    ("index", "value", "words"),
    [
        (
            (0, 0),
            np.inf,
            ("column 'x0' (positive) must be NaN or finite and at least 0", "got inf in row 10 (position 0)"),
        ),
        ((2, 1), 2.0, ("column 'x1' (binary)", "a whole number in 0..1", "got 2.0 in row 12 (position 2)")),
        ((2, 1), 0.5, ("column 'x1' (binary)", "got 0.5")),
        ((0, 2), -3.0, ("column 'x2' (count) must be NaN or a whole number of at least 0", "got -3.0")),
        ((0, 2), 1.5, ("column 'x2' (count)", "got 1.5")),
    ],
)
def test_cells_are_those_of_their_columns(index, value, words):
    refuses(altered(recorded(), "observed_data", "x", put(index, value)), "variable 'x' of observed_data", *words)


def test_positive_cells_and_trials():
    schema = schema_of(tiny_problems()["skewed"])
    for d, column in enumerate(schema.columns):
        if column.kind == "positive":
            assert not schema.possible(d, [-1.0, np.inf, np.nan]).any() and schema.possible(d, [0.0, 1e-9]).all()
    schema = replace(
        schema_of(tiny_problems()["missing"]), palette=((), (), (ps.leaves.Binomial(4), ps.leaves.Binomial(3)))
    )
    assert schema.possible(2, [-1, 0, 3, 4]).tolist() == [False, True, True, False]
    assert schema.cell_rule(2) == "a whole number of at least 0 and at most 3"


def test_the_table_has_the_rows_and_columns_of_the_record():
    tree = recorded()
    without = xr.DataTree.from_dict({k: v.to_dataset() for k, v in tree.children.items() if k != "observed_data"})
    refuses(without, "hold the network's table, variable 'x' of observed_data", "got none")
    short = tree.copy()
    short["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().isel(x_row=[0, 2]))
    refuses(short, "variable 'x_digits' of sample_stats", "states of 10 numbers, by the rows of observed_data", "15")
    unpacked = ps.unpack(tree)
    unpacked["observed_data"] = short["observed_data"]
    refuses(unpacked, "variable 'digits' of x must have the shape ('any', 'any', 2, 5)", "got (1, 32, 3, 5)")
    turned = tree.copy()
    turned["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().isel(x_column=[1, 0, 2]))
    refuses(turned, "have the columns ['x0', 'x1', 'x2'] in this order, got ['x1', 'x0', 'x2']")
    turned["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().isel(x_column=[0, 1]))
    refuses(turned, "have 3 columns, those of x_schema, got 2")
    flat = tree.copy()
    flat["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().isel(x_row=0))
    refuses(flat, "variable 'x' of observed_data must have the dimensions ['x_row', 'x_column']")


def test_dimensions_in_another_order_are_read_alike():
    tree = recorded(record_every=2).map_over_datasets(lambda data: data.transpose(..., "chain", missing_dims="ignore"))
    tree["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().transpose())
    found, expected = read_record(tree), read_record(recorded(record_every=2))
    np.testing.assert_array_equal(found.digits, expected.digits)
    np.testing.assert_array_equal(found.table, expected.table)
    with pytest.raises(ValueError, match=r"'x_digits' .*must have the dimensions .*chain.*; select by labels that"):
        read_record(recorded().isel(chain=0, drop=True))


@pytest.mark.parametrize(
    ("name", "index", "value", "words"),
    [
        ("missing", (0, 3, 2), 99, ("region 'x1..x2' must be in 0..1", "got 99 at chain 0, draw 3, row position 0")),
        ("missing", (0, 3, 2), -5, ("region 'x1..x2' must be in 0..1", "got -5")),
        ("missing", (0, 3, 0), -1, ("region 'x0..x2' must be in 0..1", "got -1")),
        # the second row has no cell of x0
        ("missing", (0, 3, 5 + 1), 0, ("region 'x0' must be -1, since the row does not reach it", "row position 1")),
        ("infinite_missing", (0, 2, 0), 64, ("region 'x0..x2'", "must be in 0..", "got 64")),
    ],
)
def test_digits_are_children_of_their_nodes(name, index, value, words):
    tree = recorded(name)
    place = "variable 'x_digits' of sample_stats: the digit of "
    refuses(altered(tree, "sample_stats", "x_digits", put(index, value)), place, *words)


@pytest.mark.parametrize("name", ["splits", "infinite_splits", "two_trees"])
def test_a_row_has_a_digit_where_it_goes_and_no_other(name):
    tree = recorded(name)
    digits = tree["sample_stats"]["x_digits"].values
    structure = schema_of(tiny_problems()[name]).structure
    below = structure.n_splits[np.maximum(structure.parent, 0)] > 1
    below[0] = False
    whole = ~np.isnan(tiny_problems()[name].X).any(axis=1)
    seen = digits[0].reshape(digits.shape[1], -1, structure.n_regions) * 1.0
    seen[:, ~whole] = np.nan
    seen[:, :, ~below] = np.nan
    for mask, value, words in ((seen >= 0, -1, "must be in 0.."), (seen == -1, 0, "must be -1, since the row")):
        s, n, r = np.argwhere(mask)[-1]
        where = f"got {value} at chain 0, draw {s}, row position {n}"
        refuses(
            altered(tree, "sample_stats", "x_digits", put((0, s, n * structure.n_regions + r), value)), words, where
        )


def test_digits_and_exact_values_are_integers():
    with pytest.raises(ValueError, match=r"'x_digits' must hold a record of every chain.*dtype float64"):
        read_record(altered(recorded(), "sample_stats", "x_digits", as_float))
    problem = tiny_problems()["missing"]
    schema = in_cells(schema_of(problem), (0.5, 0.0, 0.0))
    whole = read_record(recorded()).digits
    codes = np.zeros((1, whole.shape[1], 3, 1), int)
    tree = tree_of(schema, problem.X, whole, np.ones((*whole.shape[:2], 2)), np.ones(whole.shape[:2]), exact=codes)
    assert read_record(tree).exact.shape == codes.shape
    halves = altered(tree, "sample_stats", "x_exact", lambda x: x + 0.5)
    refuses(halves, "variable 'x_exact' of sample_stats must lie in 0 to 65535 and be whole, got 0.5")
    wide = altered(tree, "sample_stats", "x_exact", lambda x: put((0, 1, 2), 65536)(x.astype(int)))
    refuses(wide, "lie in 0 to 65535 and be whole, got 65536 at position (0, 1, 2, 0)")


def test_draws_that_are_gone_from_the_middle_of_a_state():
    tree = recorded(record_every=3)
    late = tree.map_over_datasets(lambda data: data.isel(draw=slice(1, None), missing_dims="ignore"))
    ways = r"from a multiple of 3 on, all of them, as in .*slice\(3, None\)\), or records, as in ps.unpack.*None, 10"
    with pytest.raises(ValueError, match=rf"chunks of 3 draws .*record_every.*in the draws \[1, 2, 3\]; .*{ways}"):
        read_record(late)
    thin = tree.map_over_datasets(lambda data: data.isel(draw=slice(None, None, 2), missing_dims="ignore"))
    with pytest.raises(ValueError, match=rf"in the draws \[0, 2, 4\]; .*{ways}"):
        read_record(thin)
    later = tree.map_over_datasets(lambda data: data.isel(draw=slice(3, None), missing_dims="ignore"))
    np.testing.assert_array_equal(read_record(later).digits, read_record(tree).digits[:, 1:])


def test_what_the_words_for_selected_draws_say_works():
    tree = recorded(record_every=3)
    whole = read_record(tree).digits
    np.testing.assert_array_equal(read_record(tree.sel(draw=slice(3, None))).digits, whole[:, 1:])
    np.testing.assert_array_equal(read_record(ps.unpack(tree).isel(record=slice(1, None, 2))).digits, whole[:, 1::2])
    np.testing.assert_array_equal(read_record(read_results(tree.sel(chain=0))).digits, whole)
    refuses(ps.unpack(tree).sel(draw=slice(3, None)), "which are selected by dimension 'record', got no draw 0")


@pytest.mark.parametrize("is_unpacked", [False, True])
def test_a_part_of_the_rows_is_no_table_of_the_network(is_unpacked):
    """A third of the rows has chunks of the same length, and was read as states that nobody drew."""
    with pm.Model():
        table = pd.DataFrame({"a": np.arange(60) % 7, "b": np.arange(60) % 2})
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"]), observed=table)
        tree = pm.sample(
            6, tune=6, chains=1, cores=1, progressbar=False, random_seed=1, compute_convergence_checks=False,
            spn={"record_every": 3},
        )  # fmt: skip
    assert read_record(tree).digits.shape[1] == 2
    part = (ps.unpack(tree) if is_unpacked else tree).isel(x_row=slice(0, 20))
    refuses(part, "variable 'x' of observed_data must have the 60 rows of the network", "got 20")


@pytest.mark.parametrize("value", [-0.5, 0.0, np.nan, np.inf])
def test_hyperparameters_are_positive_and_finite(value):
    tree = altered(recorded(), "posterior", "x_scale_of_mine", put((0, 2), value))
    refuses(
        tree, f"variable 'x_scale_of_mine' of posterior must be positive and finite, got {value} at chain 0, draw 2"
    )
    tree = altered(recorded(), "posterior", "x_concentration", put((0, 2, 1), value))
    refuses(tree, "variable 'x_concentration' of posterior", f"got {value} at chain 0, draw 2, number 1")


def test_hyperparameters_have_the_draws_of_the_digits():
    tree, data = recorded().copy(), recorded()["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(data.isel(draw=slice(1, None)))
    refuses(tree, "variable 'x_concentration' of posterior must have a draw for all", "got no draw 0")
    tree["posterior"] = xr.DataTree(data.assign_coords(chain=[7]))
    refuses(tree, "have the chains of the digits, [0], got [7]")
    tree["posterior"] = xr.DataTree(data.assign(x_concentration=data["x_scale_of_mine"].expand_dims(k=5, axis=2)))
    refuses(tree, "must hold one concentration or 2 a draw, got the shape (5,)")


def test_drawn_cells_are_those_of_their_columns():
    problem = tiny_problems()["missing"]
    schema = replace(schema_of(problem), missing="draw")
    holes = np.argwhere(np.isnan(problem.X))
    digits = np.zeros((1, 4, 3, schema.structure.n_regions), np.int8)
    tree = tree_of(schema, problem.X, digits, np.ones((1, 4, 2)), np.ones((1, 4)))
    data = tree["posterior"].to_dataset()
    data["x_missing"] = (("chain", "draw", "x_cell"), np.ones((1, 4, len(holes))))
    tree["posterior"] = xr.DataTree(data)
    assert read_record(tree).variables["x_missing"].shape == (1, 4, len(holes))
    k = int(np.flatnonzero(holes[:, 1] == 1)[0])
    words = (
        "variable 'x_missing' of posterior: column 'x1' (binary) must be a code",
        f"got 7.0 in cell {k} at chain 0",
    )
    refuses(altered(tree, "posterior", "x_missing", put((0, 1, k), 7.0)), *words)
    refuses(altered(tree, "posterior", "x_missing", put((0, 1, 0), np.nan)), "variable 'x_missing' of posterior")
    tree["posterior"] = xr.DataTree(data.isel(x_cell=slice(1)))
    refuses(tree, f"hold {len(holes)} numbers a draw, the missing cells of observed_data")


def test_the_schema_is_ours():
    tree = recorded()
    place = "variable 'x_schema' of constant_data must hold the bytes of a JSON text"
    refuses(altered(tree, "constant_data", "x_schema", put(5, 0)), place, "got a text that is none")
    refuses(altered(tree, "constant_data", "x_schema", put(5, 300)), place, "got 300 at position 5")
    refuses(altered(tree, "constant_data", "x_schema", as_float), place, "float64")
    text = schema_of(tiny_problems()["missing"]).to_json()
    for old, new, words in [
        ('"order"', '"other"', "data must have a list of columns and"),
        ('"begin": [0', '"begin": [1', "the root region must hold all 3 columns"),
    ]:
        values = np.frombuffer(text.replace(old, new).encode(), np.uint8).astype(np.int16)
        place = "variable 'x_schema' of constant_data holds no valid schema"
        refuses(altered(tree, "constant_data", "x_schema", lambda _, v=values: v), place, words)
    values = np.frombuffer(text.replace('"format": 3', '"format": 9', 1).encode(), np.uint8).astype(np.int16)
    with pytest.raises(ValueError, match="format other than 3: use the version that wrote it, or fit again"):
        read_record(altered(tree, "constant_data", "x_schema", lambda _: values))


@pytest.mark.parametrize("idata", [{}, None, xr.Dataset(), 3])
def test_anything_but_a_tree_is_refused(idata):
    with pytest.raises(TypeError, match=r"idata must be the DataTree that pm\.sample returned, or the path"):
        ps.SPNPosterior.from_idata(idata)
    with pytest.raises(TypeError, match="idata must be the DataTree"):
        ps.unpack(idata)


def test_the_type_of_digits_holds_the_labels_of_every_split():
    schema = schema_of(tiny_problems()["infinite_splits"])
    most = int(n_labels(schema.structure, schema.compiled, 100).max())
    assert most == 100 * schema.structure.n_splits.max()  # one child for each row, all of the last split
    assert digits_dtype(schema.structure, schema.compiled, 100) == np.int16
