"""Bad input of `fit_tree`, `exact_tree_evidence` and the posterior: every message once."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [4.0, 2.0]])
Y = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha_s": 1.0}, r"alpha_s must lie in \(0, 1\).*got 1\.0"),
        ({"alpha_s": 0.0}, r"alpha_s must lie in \(0, 1\)"),
        ({"beta_s": -0.1}, "beta_s must be at least 0 and finite, got -0.1"),
        ({"max_depth": -1}, "max_depth must be None or an integer of at least 0, got -1"),
        ({"max_depth": 1.5}, "max_depth must be None or an integer"),
        ({"min_size": 0}, "min_size must be an integer of at least 1, got 0"),
        ({"particles": 1}, "particles must be an integer of at least 2, got 1"),
        ({"particles": 7}, "particles must be at least 2 for each of 4 islands, got 7"),
        ({"islands": 0}, "islands must be an integer of at least 1"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"proposal": "best"}, r"proposal must be one of \['prior', 'optimal', 'empirical'\], got 'best'"),
        ({"expansion": "wide"}, "expansion must be one of"),
        ({"weights": "best"}, "weights must be one of"),
        ({"ess_threshold": 1.5}, r"ess_threshold must lie in \[0, 1\]"),
        ({"ess_threshold": "a"}, r"ess_threshold must lie in \[0, 1\]"),
        ({"split_weights": [1.0]}, r"split_weights must hold one number for each of 2 columns"),
        ({"split_weights": {"z": 1.0}}, r"split_weights names unknown columns \['z'\]"),
        ({"split_weights": [1.0, -1.0]}, "split_weights must be finite and at least 0; 'x1' has -1.0"),
        ({"split_weights": [0.0, 0.0]}, "split_weights must have a positive sum"),
        ({"categorical": "many"}, None),
        ({"missing": "drop"}, 'missing must be "branch" or "error"'),
        ({"family": "poisson"}, r"family must be one of \['classes', 'binary', 'real', 'counts'\]"),
        ({"family": ps.leaves.ClassLeaves(0.0)}, "ClassLeaves: alpha must be positive and finite, got 0.0"),
        ({"exact": True, "draws": 0}, "draws must be an integer of at least 1"),
    ],
)
def test_arguments(arguments, message):
    if message is None:  # only a column of levels asks for it
        frame = pd.DataFrame({"c": list("uvwu")})
        with pytest.raises(ValueError, match='categorical must be "onehot", "subset" or a dict'):
            ps.fit_tree(frame, Y, **arguments)
        return
    with pytest.raises(ValueError, match=message):
        ps.fit_tree(X, Y, **arguments)


@pytest.mark.parametrize(
    ("y", "family", "message"),
    [
        ([0, 1, 0], "classes", "X and y must have the same length, X has 4 rows and y 3"),
        ([1, 1, 1, 1], "classes", "y must hold at least two classes, all 4 labels are 1"),
        ([0.0, 1.0, 0.25, 1.0], "classes", r'y must hold labels, no fractions: say family="real".*; row 2 is 0\.25'),
        ([0, 1, None, 1], "classes", "y must not hold missing values; row 2 is missing"),
        ([0.0, np.nan, 1.0, 2.0], "real", "y must not hold missing values; row 1 is missing"),
        (
            np.ma.masked_equal([0.0, 3.0, -999.0, 2.0], -999.0),
            "real",
            "y must not hold missing values; row 2 is missing",
        ),
        (np.ma.masked_equal(["a", "b", "?", "a"], "?"), "classes", "y must not hold missing values; row 2 is missing"),
        ([0.0, np.inf, 1.0, 2.0], "real", "y must hold finite numbers; row 1 is inf"),
        ([2.0] * 4, "real", "y must vary for the default b0"),
        ([1e200, -1e200, 0.0, 1.0], "real", r"squares of its deviations exceed floating point, its range is 2e\+200"),
        ([1e-200, -1e-200, 0.0, 0.0], "real", "squares of its deviations exceed floating point"),
        ([1e15, 2e15, 0, 1], "counts", "y sums to 3e[+]15: a log factorial of that is rounded to 12 nats"),
        ([0, 1, 2, -1], "counts", "y must hold whole numbers >= 0 for ps.leaves.CountLeaves; row 3 is -1"),
        ([0, 0, 0, 0], "counts", "y must hold a count above zero"),
        ([0, 1, 2, 1], "binary", "y must hold 0 and 1, or bool, for ps.leaves.BinaryLeaves; row 2 is 2"),
        ([0, 1, 2, 1], ps.leaves.ClassLeaves(1.0, levels=[0, 1]), r"y must hold the classes \[0, 1\]; row 2 is 2"),
        ([0, 1, 0, 1], ps.leaves.ClassLeaves(1.0, levels=[0, 0, 1]), "levels must be distinct"),
        ([[0, 1], [1, 0]], "classes", r"y must be one-dimensional, got shape \(2, 2\)"),
        ([], "classes", "y must have at least one row"),
    ],
)
def test_responses(y, family, message):
    for make in (ps.fit_tree, ps.trees.exact_tree_evidence):
        with pytest.raises(ValueError, match=message):
            make(X, y, family)


def test_a_response_of_words_is_no_number():
    for name in ("kind", None):
        with pytest.raises(
            TypeError, match=rf"y must hold a response for each row, got {name!r}; give the column itself"
        ):
            ps.fit_tree(X, name)
    with pytest.raises(TypeError, match="y must hold numbers for this family"):
        ps.fit_tree(X, list("abab"), "real")
    with pytest.raises(TypeError, match="y must hold either strings or numbers as labels"):
        ps.fit_tree(X, np.array([1, "a", 1, "a"], dtype=object))


def test_variables_are_for_models():
    import pymc as pm

    with pytest.raises(TypeError, match="ClassLeaves: alpha must be a number here"):
        ps.fit_tree(X, Y, ps.leaves.ClassLeaves(pm.Gamma.dist(1, 1)))


def test_features():
    with pytest.raises(ValueError, match=r"column 'x0': X must be finite|inf"):
        ps.fit_tree(np.array([[np.inf, 1.0], [0.0, 2.0]]), [0, 1])
    for values in ([-1.7e308, 1.7e308, 0.0, 1.0], [5e-324, 1e-323, 0.0, 0.0]):
        with pytest.raises(ValueError, match=r"column 'a': the range of its values is .*, no normal float; rescale it"):
            ps.fit_tree(pd.DataFrame({"a": values}), Y)
    for name in ("alpha_s", "beta_s"):
        with pytest.raises(TypeError, match=f"{name} must be a number or a variable of a model, got None"):
            ps.fit_tree(X, Y, **{name: None})
    with pytest.raises(TypeError, match="alpha_s must be a number or a variable of a model, got "):
        ps.fit_tree(X, Y, alpha_s=pd.DataFrame({"a": [1.0]}))
    with pytest.raises(ValueError, match='categorical must be "onehot", "subset" or a dict'):
        ps.fit_tree(pd.DataFrame({"a": list("uvuv")}), Y, categorical=pd.DataFrame())
    gaps = X.copy()
    gaps[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"X must not hold missing values.*column 'x1', row 2 is"):
        ps.fit_tree(gaps, Y, missing="error")
    many = pd.DataFrame({"c": pd.Categorical([f"level {i}" for i in range(61)])})
    with pytest.raises(ValueError, match=r"column 'c': \"onehot\" splits take up to 60 levels, got 61"):
        ps.fit_tree(many, [0] * 60 + [1])
    few = many.iloc[:13].astype(str)
    with pytest.raises(ValueError, match=r"\"subset\" splits take up to 12 levels, got 13"):
        ps.fit_tree(few, [0] * 12 + [1], categorical="subset")
    with pytest.raises(ValueError, match=r"categorical names unknown columns \['z'\]"):
        ps.fit_tree(few, [0] * 12 + [1], categorical={"z": "subset"})


def test_rows_that_do_not_belong_together():
    """The labels of two pandas objects are those of the same rows; what has no labels goes by position."""
    frame = pd.DataFrame(X, columns=["a", "b"], index=list("qrst"))
    y = pd.Series(Y, index=list("qrst"))
    message = "y must have the row labels of X, got 't' for 'q' at position 0; say y.loc"
    for make in (ps.fit_tree, ps.trees.exact_tree_evidence):
        for features in (frame, ps.Table.from_frame(frame)):
            with pytest.raises(ValueError, match=message):
                make(features, y[::-1])
    post = ps.fit_tree(frame, y, weights="equal", random_seed=1)
    again = ps.fit_tree(frame, y[::-1].loc[frame.index].to_numpy(), weights="equal", random_seed=1)
    assert post.log_evidence == again.log_evidence
    with pytest.raises(ValueError, match=message):
        post.log_predictive(frame, y[::-1])
    np.testing.assert_array_equal(post.log_predictive(frame, Y), post.log_predictive(frame, y))
    with pm.Model():  # it put them together by position
        tree = ps.DecisionTree("t", frame)
        with pytest.raises(ValueError, match=message):
            ps.TreeResponse("y", tree, observed=y[::-1])
        ps.TreeResponse("y", tree, observed=y)


@pytest.mark.parametrize(
    ("y", "family", "message"),
    [
        (pd.cut(pd.Series([0.0, 1.0, 2.0, 3.0]), 2), "classes", r"of type Interval; convert by astype\(str\)"),
        (pd.date_range("2020", periods=4), "classes", "got Timestamp"),
        ([1, "a", 1, "a"], "classes", "either strings or numbers as labels"),
        (np.array([1.0 + 2.0j, 0.0, 1.0, 2.0]), "real", "must hold numbers for this family, got dtype complex128"),
    ],
)
def test_responses_that_no_file_holds_or_that_would_be_changed(y, family, message):
    """Labels without a place in a file were found out at `save`; numbers beside strings became strings."""
    with pytest.raises(TypeError, match=message):
        ps.fit_tree(X, y, family=family, random_seed=1)


def test_constant_columns_are_said():
    with pytest.warns(UserWarning, match=r"X: constant columns \['x1'\] can never be split"):
        post = ps.fit_tree(np.array([[0.0, 1.0], [1.0, 1.0]]), [0, 1], weights="equal", random_seed=1)
    assert post.variable_inclusion().sel(feature="x1").sum() == 0.0


def test_predictions():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "c": list("uvuv")})
    post = ps.fit_tree(frame, Y, weights="equal", random_seed=1)
    with pytest.raises(ValueError, match=r"column 'c', row 0 .*unseen level"):
        post.predict_proba(pd.DataFrame({"a": [0.0], "c": ["w"]}))
    np.testing.assert_array_equal(post.predict(frame[["a"]]), post.predict(frame.assign(c=None)))
    with pytest.raises(ValueError, match="data must have a column of 'a', 'c', got 'b'"):
        post.predict(pd.DataFrame({"b": [0.0]}))
    with pytest.raises(ValueError, match="grid must be a sequence of finite numbers, got 'b'"):
        post.partial_dependence("a", "b")
    with pytest.raises(ValueError, match='unseen must be "error" or "missing"'):
        post.predict(frame, unseen="drop")
    with pytest.raises(ValueError, match="X and y must have the same length, X has 4 rows and y 3"):
        post.log_predictive(frame, Y[:3])
    with pytest.raises(ValueError, match="X and y must be given together"):
        post.variable_importance(frame)
    for number in (100, -1, 1.5):
        with pytest.raises(ValueError, match=rf"number must be an integer in 0\.\.99, got {number}"):
            post.tree(number)
    with pytest.raises(ValueError, match="n must be an integer of at least 0, got -1"):
        post.sample_trees(-1)
    exact = ps.trees.exact_tree_evidence(np.array([[0.0], [1.0]]), ["u", "v"])
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match=f"n must be an integer of at least 0, got {wrong}"):
            exact.sample_trees(wrong)
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, got 0"):
        exact.posterior(0)
    with pytest.raises(ValueError, match="X must have at least one row to average over"):
        post.partial_dependence("a", X=frame.iloc[:0])
    assert post.predict_proba(frame.iloc[:0]).shape == (0, 2)  # nothing asked, nothing answered
    with pytest.raises(ValueError, match=r"mass must lie in \(0, 1\)"):
        post.leaf_posterior(mass=1.0)
    with pytest.raises(ValueError, match="predict_sd is for responses that are numbers; use predict_proba"):
        ps.fit_tree(frame, list("uvuv"), weights="equal", random_seed=1).predict_sd(frame)
    with pytest.raises(ValueError, match="log_likelihood needs the unweighted draws"):
        post.log_likelihood()
    real = ps.fit_tree(frame, [0.0, 1.0, 2.0, 5.0], "real", weights="equal", random_seed=1)
    with pytest.raises(ValueError, match="the response is of family 'real', not of classes"):
        real.predict_proba(frame)


def test_foreign_files(tmp_path):
    import xarray as xr

    xr.DataTree(xr.Dataset({"x": 1.0})).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"holds no draws of a ps\.DecisionTree"):
        ps.TreePosterior.load(tmp_path / "other.nc")
