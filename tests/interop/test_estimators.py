"""Estimators for scikit-learn: the answers of the functions behind them, mixed frames, pipelines, pickles, refusals."""

import importlib
import pickle
import sys
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps

pytest.importorskip("sklearn")

import joblib
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

skl = ps.sklearn
SMALL = {"max_children": 2, "restarts": 1, "max_steps": 20}
FEW = {"particles": 10, "islands": 2}


@cache
def mixed():
    """Sixty rows of two clusters: real, count, str, category and boolean columns with gaps, and the clusters' names."""
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 2, 60)
    frame = pd.DataFrame(
        {
            "size": rng.normal(4.0 * cluster, 1.0),
            "visits": pd.array(rng.poisson(2.0 + 8.0 * cluster), dtype="Int64"),
            "colour": np.where(rng.random(60) < 0.2, 1 - cluster, cluster).astype(str),
            "grade": pd.Categorical(rng.choice(["a", "b"], 60), categories=["a", "b", "never seen"]),
            "member": rng.random(60) < 0.5,
        },
        index=[f"row {i}" for i in range(60)],
    )
    frame["member"] = frame["member"].astype("boolean")
    frame.iloc[3, 0] = np.nan
    frame.iloc[4, 1] = pd.NA
    frame.iloc[5, [2, 3, 4]] = None
    return frame, np.array(["low", "high"])[cluster]


@cache
def numbers():
    """Eighty rows of three columns, the second a noisy copy of the first."""
    X = np.random.default_rng(4).normal(size=(80, 3))
    X[:, 1] += 2.0 * X[:, 0]
    return X


def by_hand(table, structure, seed=1):
    return ps.fit_variational(table, structure, **SMALL, random_seed=seed, progressbar=False)


# ---- the same answers as without scikit-learn


@pytest.mark.parametrize(
    ("structure", "made"),
    [
        ("complete", lambda table: ps.circuits.complete_tree(table.columns)),
        ("learned", lambda table: ps.circuits.learn_tree(table, random_seed=0)),
        (
            lambda table: ps.circuits.skewed_tree(table.columns, 3),
            lambda table: ps.circuits.skewed_tree(table.columns, 3),
        ),
    ],
)
def test_density_is_that_of_a_fit_by_hand(structure, made):
    frame, _ = mixed()
    table = ps.Table.from_frame(frame, {"member": "categorical"})
    post = by_hand(table, made(table))
    density = skl.SPNDensity(structure=structure, kinds={"member": "categorical"}, random_state=1, **SMALL).fit(frame)
    assert isinstance(density.posterior_, ps.VariationalPosterior) and density.idata_ is None
    np.testing.assert_array_equal(density.score_samples(frame), post.log_density(frame).values)
    assert density.score(frame) == post.log_density(frame).values.mean()
    assert list(density.feature_names_in_) == list(frame) and density.n_features_in_ == 5
    pd.testing.assert_frame_equal(density.sample(4), post.sample(4, random_seed=1))


def test_leaves_and_resolution_reach_the_network():
    frame = pd.DataFrame(np.exp(numbers()), columns=list("abc"))
    own = {"leaves": {"a": ps.leaves.LogNormal()}, "resolution": {"b": 0.5}}
    table = ps.Table.from_frame(frame, {"a": "positive"})
    structure = ps.circuits.complete_tree(table.columns)
    post = ps.fit_variational(table, structure, **own, **SMALL, random_seed=1, progressbar=False)
    density = skl.SPNDensity(structure=structure, kinds={"a": "positive"}, **own, **SMALL, random_state=1).fit(frame)
    np.testing.assert_array_equal(density.score_samples(frame), post.log_density(frame).values)


def test_sampling_is_that_of_a_model_by_hand():
    frame, labels = mixed()
    few = {"draws": 15, "tune": 10, "chains": 2}
    with pm.Model():
        ps.SPN("x", observed=frame)
        idata = pm.sample(**few, cores=1, random_seed=2, progressbar=False)
    post = ps.SPNPosterior.from_idata(idata)
    with pm.Model() as around:
        density = skl.SPNDensity(method="sampling", **few, random_state=2).fit(frame)
    assert not around.basic_RVs
    np.testing.assert_array_equal(density.idata_.posterior["x_log_joint"], idata.posterior["x_log_joint"])
    without_answers = len(pickle.dumps(density))
    scores = density.score_samples(frame)
    np.testing.assert_array_equal(scores, post.log_density(frame).values)
    again = pickle.loads(pickle.dumps(density))
    assert len(pickle.dumps(density)) < 1.1 * without_answers  # networks of the draws would be more than all the rest
    np.testing.assert_array_equal(again.score_samples(frame), scores)
    classifier = skl.SPNClassifier(method="sampling", **few, random_state=2).fit(frame, labels)
    proba = classifier.posterior_.predict_proba(frame, "y")
    np.testing.assert_array_equal(classifier.predict_proba(frame), proba.values)
    assert list(proba["level"].values) == list(classifier.classes_)


def test_numbers_are_conditioned_in_the_joint_network():
    frame, _ = mixed()
    X, size = frame.drop(columns="size"), frame["size"].fillna(0.0)
    regressor = skl.SPNRegressor(random_state=1, **SMALL).fit(X, size)
    joint = ps.Table.from_frame(X.assign(y=size))
    post = by_hand(joint, None)
    mean, sd = regressor.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, post.predict(X, "y").values)
    np.testing.assert_array_equal(sd, post.predict_sd(X, "y").values)
    ends = regressor.predict_quantile(X, [0.05, 0.95])
    np.testing.assert_array_equal(ends, post.predict_quantile(X, "y", [0.05, 0.95]).values)
    np.testing.assert_array_equal(regressor.predict_quantile(X, 0.05), ends[:, 0])
    assert regressor.score(X, size) > 0.5 and (ends[:, 0] < mean).all()
    unknown = X.iloc[:1].copy()
    unknown[:] = None  # nothing known: the law of the target itself
    assert regressor.predict_quantile(unknown, 0.3)[0] == pytest.approx(float(post.quantile(0.3, "y")), rel=1e-9)
    visits = skl.SPNRegressor(target_kind="count", random_state=1, **SMALL).fit(
        frame[["size"]], frame["visits"].fillna(2)
    )
    whole = visits.predict_quantile(frame[["size"]], [0.1, 0.9])
    assert visits.posterior_.columns[-1].kind == "count" and (whole == np.round(whole)).all()


def test_classes_are_conditioned_in_the_joint_network():
    frame, labels = mixed()
    classifier = skl.SPNClassifier(random_state=1, **SMALL).fit(frame, labels)
    joint = ps.Table.from_frame(frame.assign(y=pd.Categorical(labels)))
    post = by_hand(joint, None)
    np.testing.assert_array_equal(classifier.predict_proba(frame), post.predict_proba(frame, "y").values)
    assert list(classifier.classes_) == ["high", "low"]
    np.testing.assert_array_equal(classifier.predict(frame), post.predict(frame, "y").values)
    assert classifier.score(frame, labels) > 0.9
    own = skl.SPNClassifier(structure=tree_with_levels(frame, labels, ["high", "low"]), random_state=1, **SMALL)
    np.testing.assert_array_equal(own.fit(frame, labels).predict_proba(frame), classifier.predict_proba(frame))


@pytest.mark.parametrize("values", [[3, 7], [False, True], [1.0, 2.0], np.array(["b", "a"], object)])
def test_classes_keep_their_type(values):
    frame, labels = mixed()
    y = np.asarray(values)[(labels == "high").astype(int)]
    for classifier in (
        skl.SPNClassifier(random_state=1, **SMALL),
        skl.BayesianTreeClassifier(random_state=1, **FEW),
    ):
        classifier.fit(frame.rename(columns={"size": "y"}), y)  # a feature with the name of the target
        assert classifier.classes_.dtype == y.dtype and classifier.classes_.tolist() == sorted(set(y.tolist()))
        assert (classifier.predict(frame.rename(columns={"size": "y"})) == y).mean() > 0.8


def test_trees_are_those_of_fit_tree():
    frame, labels = mixed()
    classifier = skl.BayesianTreeClassifier(alpha=2.0, random_state=1, **FEW).fit(frame, labels)
    post = ps.fit_tree(frame, labels, ps.leaves.ClassLeaves(alpha=2.0), **FEW, random_seed=1, progressbar=False)
    np.testing.assert_array_equal(classifier.predict_proba(frame), post.predict_proba(frame).values)
    np.testing.assert_array_equal(classifier.predict(frame), post.predict(frame).values)
    y = frame["size"].fillna(0.0) + 5.0
    regressor = skl.BayesianTreeRegressor(random_state=1, **FEW).fit(frame, y)
    post = ps.fit_tree(frame, y, "real", **FEW, random_seed=1, progressbar=False)
    mean, sd = regressor.predict(frame, return_std=True)
    np.testing.assert_array_equal(mean, post.predict(frame).values)
    np.testing.assert_array_equal(mean, regressor.predict(frame))
    np.testing.assert_array_equal(sd, post.predict_sd(frame).values)
    ends = regressor.predict_quantile(frame, [0.1, 0.9])
    np.testing.assert_array_equal(ends, post.predict_quantile(frame, [0.1, 0.9]).values)
    rules = {"alpha_s": 0.7, "beta_s": 1.0, "max_depth": 2, "min_size": 4, "categorical": "subset"}
    counts = skl.BayesianTreeRegressor(family="counts", weights="equal", random_state=1, **rules, **FEW)
    counts.fit(frame, y.round())
    post = ps.fit_tree(frame, y.round(), "counts", weights="equal", **rules, **FEW, random_seed=1, progressbar=False)
    np.testing.assert_array_equal(counts.predict(frame), post.predict(frame).values)
    own = skl.BayesianTreeRegressor(family=ps.leaves.NormalLeaves(a0=3.0), random_state=1, **FEW)
    given = ps.fit_tree(frame, y, ps.leaves.NormalLeaves(a0=3.0), **FEW, random_seed=1, progressbar=False)
    np.testing.assert_array_equal(clone(own).fit(frame, y).predict(frame), given.predict(frame).values)


def test_levels_that_trees_have_not_seen():
    frame, labels = mixed()
    new = frame.assign(colour="green")
    with pytest.raises(ValueError, match=r"column 'colour', row 'row 0' .* unseen level .*, got 'green'"):
        skl.BayesianTreeClassifier(random_state=1, **FEW).fit(frame, labels).predict(new)
    lenient = skl.BayesianTreeClassifier(unseen="missing", random_state=1, **FEW).fit(frame, labels)
    np.testing.assert_array_equal(lenient.predict_proba(new), lenient.predict_proba(frame.assign(colour=None)))


@pytest.mark.parametrize(
    ("made", "ask"),
    [
        (skl.SPNDensity, lambda e, X: e.score_samples(X)),
        (skl.SPNClassifier, lambda e, X: e.predict_proba(X)),
        (skl.SPNRegressor, lambda e, X: e.predict_quantile(X, 0.5)),
        (skl.SPNOutlierDetector, lambda e, X: e.score_samples(X)),
        (skl.SPNImputer, lambda e, X: e.transform(X).drop(columns=["colour", "grade"])),
    ],
)
def test_levels_that_networks_have_not_seen(made, ask):
    """One rare level made a fold of a cross-validation NaN."""
    frame, labels = mixed()
    response = {skl.SPNRegressor: (labels == "low") + np.arange(60.0), skl.SPNClassifier: labels}.get(made)
    estimator = made(unseen="missing", random_state=1, **SMALL).fit(frame, response)
    new = frame.assign(colour="green", grade=pd.Categorical(["z"] * 60))
    found, expected = ask(estimator, new), ask(estimator, frame.assign(colour=None, grade=None))
    np.testing.assert_array_equal(np.asarray(found, object), np.asarray(expected, object))
    estimator.unseen = "error"
    with pytest.raises(ValueError, match=r"column 'colour', row 'row \d' .* unseen level .*, got 'green'"):
        ask(estimator, new)
    with pytest.raises(ValueError, match="unseen must be one of"):
        clone(estimator).set_params(unseen="no").fit(frame, response)


@pytest.mark.parametrize("strategy", ["mean", "draw"])
def test_an_imputer_keeps_what_is_observed_and_adds_categories(strategy):
    """A batch whose categories lack the level that is filled in was refused by pandas."""
    frame = mixed()[0]
    imputer = skl.SPNImputer(strategy=strategy, unseen="missing", random_state=1, **SMALL).fit(frame)
    batch = frame[:6].assign(grade=pd.Categorical(["z", None, None, "z", None, None]), colour=["green"] + 5 * ["0"])
    completed = imputer.transform(batch)
    assert completed["grade"].tolist()[0] == completed["grade"].tolist()[3] == "z"
    assert set(completed["grade"].iloc[[1, 2, 4, 5]]) <= {"a", "b"} and isinstance(
        completed["grade"].dtype, pd.CategoricalDtype
    )
    assert completed["colour"].iloc[0] == "green" and not completed.isna().any(axis=None)


def test_edges_are_those_of_the_order_posterior():
    X = pd.DataFrame(numbers(), columns=list("abc"))
    knowledge = {"required": [("c", "b")], "forbidden": [("a", "c")], "max_indegree": 2, "prior": "uniform"}
    dag = skl.OrderDAG(**knowledge, local_score=ps.BGe(prior_scale=1.0)).fit(X)
    scores = ps.LocalScores.from_data(X, score=ps.BGe(prior_scale=1.0), **knowledge)
    edges = ps.OrderSPN.exact(scores).edge_probabilities()
    assert dag.posterior_.kind == "exact"
    np.testing.assert_array_equal(dag.edge_probabilities_, edges.values)
    assert edges.sel(parent="c", child="b") == dag.edge_probabilities_[2, 1] == 1.0


# ---- imputation


def test_an_imputer_fills_gaps_with_what_the_posterior_predicts():
    frame, _ = mixed()
    imputer = skl.SPNImputer(random_state=1, **SMALL).fit(frame)
    completed = imputer.transform(frame)
    assert not completed.isna().any(axis=None)
    assert list(completed.columns) == list(frame.columns) and completed.index.equals(frame.index)
    for column in frame:
        seen = frame[column].notna()
        assert (completed.loc[seen, column] == frame.loc[seen, column]).all()
        predicted = imputer.posterior_.predict(frame[~seen], column).values
        assert completed.loc[~seen, column].tolist() == predicted.tolist()
    assert completed["colour"].dtype == frame["colour"].dtype and completed["grade"].dtype == frame["grade"].dtype
    assert completed["visits"].dtype == "Float64"  # a mean of counts
    assert imputer.get_feature_names_out().tolist() == list(frame.columns)


def test_draws_are_those_of_the_posterior_and_levels_stay_levels():
    frame, _ = mixed()
    imputer = skl.SPNImputer(strategy="draw", random_state=1, **SMALL).fit(frame)
    drawn = imputer.transform(frame)
    pd.testing.assert_frame_equal(drawn, imputer.posterior_.impute(frame, random_seed=1))
    pd.testing.assert_frame_equal(drawn, imputer.transform(frame))
    with pytest.raises(ValueError, match=r"strategy must be one of \['mean', 'draw'\], got 'median'"):
        skl.SPNImputer(strategy="median").fit(frame)


def test_arrays_stay_arrays_and_pipelines_go_on():
    X = numbers().copy()
    truth = X[::4, 1].copy()
    X[::4, 1] = np.nan
    completed = skl.SPNImputer(random_state=1, max_children=6, restarts=1).fit_transform(X)
    assert isinstance(completed, np.ndarray) and not np.isnan(completed).any()
    error, spread = np.sqrt(np.mean((completed[::4, 1] - truth) ** 2)), np.nanstd(X[:, 1])
    assert error < 0.8 * spread  # the column of which it is a copy tells it; the mean has an error of `spread`


def test_outliers_are_rows_below_the_threshold_of_the_posterior():
    frame, _ = mixed()
    detector = skl.SPNOutlierDetector(random_state=1, level=0.15, n_reference=199, **SMALL).fit(frame)
    found = detector.posterior_.predictive_p_value(frame, n=199, level=0.15, random_seed=1)
    np.testing.assert_array_equal(detector.score_samples(frame), found.log_density - found.threshold)
    np.testing.assert_array_equal(detector.predict(frame) == -1, found.p_value <= 0.15)
    assert detector.offset_ == 0.0 and 0.0 < np.mean(detector.predict(frame) == -1) < 0.3
    odd = frame[:3].assign(size=[40.0, np.nan, np.nan], visits=pd.array([2, 2, None], "Int64"))
    assert detector.predict(odd).tolist() == [-1, 1, 1]  # what is not known is not odd
    share = clone(detector).set_params(contamination=0.2).fit(frame)
    assert np.sum(share.predict(frame) == -1) == 12 and share.offset_ != 0.0
    np.testing.assert_array_equal(share.fit_predict(frame), share.predict(frame))
    np.testing.assert_array_equal(share.decision_function(frame), share.score_samples(frame) - share.offset_)
    free = clone(detector).set_params(random_state=None).fit(frame)  # a seed of its own, that of all its calls
    np.testing.assert_array_equal(free.score_samples(frame)[7:], free.score_samples(frame[7:]))


def test_outliers_by_their_most_extreme_cell():
    frame, _ = mixed()
    detector = skl.SPNOutlierDetector(by="cells", level=0.1, random_state=1, **SMALL).fit(frame)
    cells = detector.posterior_.cell_p_value(frame)
    n_cells = frame.notna().sum(axis=1).to_numpy()
    np.testing.assert_allclose(detector.score_samples(frame), np.log(n_cells * cells.min("column")), rtol=1e-12)
    np.testing.assert_array_equal(detector.predict(frame) == -1, n_cells * cells.min("column") < 0.1)
    odd = frame[:4].assign(size=[40.0, np.nan, np.nan, 1e300])
    assert detector.predict(odd).tolist() == [-1, 1, 1, -1]
    assert detector.score_samples(frame[:1].mask(np.ones((1, 5), bool))).tolist() == [0.0]
    share = clone(detector).set_params(contamination=0.2).fit(frame)
    assert np.sum(share.predict(frame) == -1) == 12
    strict = clone(detector).set_params(level=1e-5).fit(frame)  # no drawn rows, which could not tell such a level
    assert strict.offset_ == np.log(1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_narrow_floats_stay_narrow(dtype):
    X = numbers().astype(dtype)
    X[3, 1] = np.nan
    imputer = skl.SPNImputer(random_state=1, **SMALL).fit(X)
    completed = imputer.transform(X)
    assert completed.dtype == dtype
    assert completed[3, 1] == imputer.posterior_.predict(pd.DataFrame(X[3:4], columns=["x0", "x1", "x2"]), "x1")[
        0
    ].astype(dtype)
    assert imputer.set_params(strategy="draw").transform(X).dtype == dtype
    frame = pd.DataFrame(X, columns=list("abc")).assign(a=np.arange(80) % 30)
    completed = skl.SPNImputer(random_state=1, **SMALL).fit_transform(frame)
    assert completed.dtypes.equals(frame.dtypes) and not completed.isna().any(axis=None)


def test_masked_cells_are_missing_and_masked_labels_refused():
    X = numbers().copy()
    X[3, 1] = np.nan
    masked = np.ma.masked_equal(np.where(np.isnan(X), -999.0, X), -999.0)
    density = skl.SPNDensity(random_state=1, **SMALL).fit(X)
    np.testing.assert_array_equal(density.score_samples(masked), density.score_samples(X))
    np.testing.assert_array_equal(clone(density).fit(masked).score_samples(X), density.score_samples(X))
    whole = np.ma.masked_array(np.arange(80) % 2, mask=np.arange(80) == 5)
    for estimator in (
        skl.SPNClassifier(),
        skl.BayesianTreeClassifier(),
        skl.BayesianTreeRegressor(),
        skl.SPNRegressor(),
    ):
        with pytest.raises(ValueError, match=r"y must not hold missing values; .*row 5 is"):
            estimator.fit(X, whole)


# ---- inside scikit-learn's tools


def test_mixed_frames_pass_through_pipelines_and_searches():
    frame, labels = mixed()
    scaled = ColumnTransformer([("scale", StandardScaler(), ["size"])], remainder="passthrough")
    scaled.set_output(transform="pandas")
    pipeline = make_pipeline(scaled, skl.SPNClassifier(random_state=1, **SMALL))
    scores = cross_val_score(pipeline, frame, labels, cv=3, error_score="raise")
    assert scores.shape == (3,) and scores.min() > 0.7
    search = GridSearchCV(skl.SPNDensity(random_state=1, **SMALL), {"max_children": [1, 2]}, cv=3, error_score="raise")
    search.fit(frame)
    assert search.best_params_ == {"max_children": 2}  # two clusters
    assert search.score(frame) == search.best_estimator_.score(frame)


def fitted():
    frame, labels = mixed()
    yield skl.SPNDensity(random_state=1, **SMALL).fit(frame), lambda e: e.score_samples(frame)
    yield skl.SPNClassifier(random_state=1, **SMALL).fit(frame, labels), lambda e: e.predict_proba(frame)
    yield (
        skl.SPNRegressor(random_state=1, **SMALL).fit(frame, numbers()[:60, 0]),
        lambda e: e.predict_quantile(frame, 0.4),
    )
    yield skl.SPNOutlierDetector(random_state=1, **SMALL).fit(frame), lambda e: e.decision_function(frame)
    yield skl.BayesianTreeClassifier(random_state=1, **FEW).fit(frame, labels), lambda e: e.predict_proba(frame)
    yield (
        skl.BayesianTreeRegressor(random_state=1, **FEW).fit(frame, labels == "low"),
        lambda e: e.predict(frame),
    )
    yield skl.OrderDAG().fit(numbers()), lambda e: e.posterior_.edge_probabilities().values


def test_clones_pickles_and_memory_maps_answer_alike(tmp_path):
    for estimator, question in fitted():
        answer = question(estimator)
        name = type(estimator).__name__
        twin = clone(estimator)
        assert not hasattr(twin, "posterior_") and twin.get_params() == estimator.get_params()
        with pytest.raises(NotFittedError, match=name) if name != "OrderDAG" else pytest.raises(AttributeError):
            question(twin)
        np.testing.assert_array_equal(question(pickle.loads(pickle.dumps(estimator))), answer)
        joblib.dump(estimator, tmp_path / name)
        mapped = joblib.load(tmp_path / name, mmap_mode="r")
        np.testing.assert_array_equal(question(mapped), answer)
        estimator.posterior_.save(tmp_path / f"{name}.nc")
        assert type(ps.load(tmp_path / f"{name}.nc")) is type(estimator.posterior_)
    # kernels are not compiled for a second time: what is mapped into memory is read-only
    density, _ = next(fitted())
    joblib.dump(density, tmp_path / "density")
    assert joblib.load(tmp_path / "density", mmap_mode="r").posterior_._states.fit.count.flags.writeable


def test_a_seed_decides_and_another_differs():
    frame, labels = mixed()

    def answers(seed, particles=4):
        trees = skl.BayesianTreeClassifier(particles=particles, islands=1, random_state=seed).fit(frame, labels)
        density = skl.SPNDensity(random_state=seed, **SMALL).fit(frame)
        return np.hstack([trees.predict_proba(frame).ravel(), density.sample(5)["size"]])

    for same in (lambda: 1, lambda: np.random.RandomState(1), lambda: np.random.default_rng(1)):
        np.testing.assert_array_equal(answers(same()), answers(same()))
    assert not np.array_equal(answers(1), answers(2))
    state = np.random.RandomState(1)
    assert not np.array_equal(answers(state), answers(state))  # a generator moves on
    density = skl.SPNDensity(random_state=1, **SMALL).fit(frame)
    assert density.sample(3, random_state=7).equals(density.sample(3, random_state=7))
    assert not density.sample(3, random_state=7).equals(density.sample(3, random_state=8))


# ---- names, arrays and frames


def test_columns_go_by_name_whatever_their_order_in_the_structure():
    X = numbers() + np.array([0.0, 10.0, 20.0])
    density = skl.SPNDensity(
        structure=lambda table: ps.circuits.complete_tree(table.columns[::-1]), random_state=1, **SMALL
    )
    density.fit(X)
    assert [c.name for c in density.posterior_.columns] == ["x2", "x1", "x0"]
    expected = density.posterior_.log_density(pd.DataFrame(X, columns=["x0", "x1", "x2"])).values
    np.testing.assert_array_equal(density.score_samples(X), expected)
    np.testing.assert_array_equal(density.score_samples(X.tolist()), expected)
    drawn = density.sample(200)
    assert isinstance(drawn, np.ndarray) and drawn.shape == (200, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.0, 10.0, 20.0], atol=1.0)  # five standard errors of the widest
    with pytest.warns(UserWarning, match="X has feature names, but SPNDensity was fitted without feature names"):
        np.testing.assert_array_equal(density.score_samples(pd.DataFrame(X, columns=list("abc"))), expected)
    tree = skl.BayesianTreeRegressor(random_state=1, **FEW).fit(pd.DataFrame(X[:, :2], columns=["a", "b"]), X[:, 2])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        by_position = tree.predict(X[:, :2])
    np.testing.assert_array_equal(by_position, tree.predict(pd.DataFrame(X[:, :2], columns=["a", "b"])))


def test_labels_that_are_integers_and_integer_arrays():
    X = np.random.default_rng(6).poisson(3.0, size=(50, 2))
    density = skl.SPNDensity(random_state=1, **SMALL).fit(pd.DataFrame(X, columns=[10, 20]))
    assert not hasattr(density, "feature_names_in_")
    assert list(density.sample(2).columns) == [10, 20]
    plain = skl.SPNDensity(random_state=1, **SMALL).fit(X)
    assert {c.kind for c in plain.posterior_.columns} == {"count"} and plain.sample(3).dtype == X.dtype
    np.testing.assert_array_equal(plain.score_samples(X), density.score_samples(pd.DataFrame(X, columns=[10, 20])))
    with pytest.raises(ValueError, match=r"kind 'count' needs whole numbers, got 0\.5"):
        plain.score_samples(np.full((1, 2), 0.5))


# ---- refusals


def tree_with_levels(frame, labels, levels):
    joint = frame.assign(y=pd.Categorical(labels, categories=levels))
    return ps.circuits.learn_tree(joint, random_seed=0)


def array_with(cell):
    X = numbers()[:4].astype(object)
    X[1, 2] = cell
    return X


REFUSED = [
    (lambda f, y: skl.SPNDensity(method="nuts").fit(f), "method must be one of .*, got 'nuts'"),
    (lambda f, y: skl.SPNDensity(structure="tree").fit(f), "structure must be one of .* got 'tree'"),
    (lambda f, y: skl.SPNDensity(structure=repr).fit(f), "structure must return a RegionTree", TypeError),
    (lambda f, y: skl.SPNDensity(restarts=0).fit(f), "restarts must be an integer of at least 1"),
    (lambda f, y: skl.SPNDensity(random_state="one").fit(f), "'one' cannot be used to seed"),
    (lambda f, y: skl.SPNDensity(kinds={"wide": "real"}).fit(f), "kinds names column 'wide'"),
    (lambda f, y: skl.SPNDensity().fit(f.assign(size=np.inf)), "'size', row 'row 0'"),
    (lambda f, y: skl.SPNDensity().fit(array_with("1")), "row 1, column 2 holds '1'; pass a DataFrame"),
    (lambda f, y: skl.SPNDensity().fit([["a", 1], ["b", 2]]), "not compatible with arrays of bytes/str"),
    (lambda f, y: skl.SPNDensity(**SMALL).fit(f).sample(0), "n_samples must be .* at least 1, got 0"),
    (
        lambda f, y: skl.SPNOutlierDetector(contamination=0.6).fit(f),
        "contamination must be 'auto' or a number above 0 and up to 0.5, got 0.6",
    ),
    (lambda f, y: skl.SPNOutlierDetector(by="rows").fit(f), "by must be one of .*'rows'"),
    (lambda f, y: skl.SPNOutlierDetector(contamination="few").fit(f), "must be 'auto' or .*got 'few'", TypeError),
    (
        lambda f, y: skl.SPNOutlierDetector(n_reference=50).fit(f),
        r"level must be at least 1 / \(n_reference \+ 1\), with n_reference=50 0.0196, got 0.01",
    ),
    (lambda f, y: skl.SPNOutlierDetector(by="cells", level=0.0).fit(f), "level must be within 0 and 1"),
    (lambda f, y: skl.SPNClassifier().fit(f, y[:9]), r"inconsistent numbers of samples: \[60, 9\]"),
    (lambda f, y: skl.SPNClassifier().fit(f, ["x"] * 60), "one class in 60 rows: 'x'; SPNClassifier"),
    (
        lambda f, y: skl.SPNClassifier().fit(f, np.where(f.index == "row 2", None, y)),
        "y must not hold missing values; the label of row 'row 2' is",
    ),
    (
        lambda f, y: skl.SPNClassifier(structure=tree_with_levels(f, y, ["low", "high"])).fit(f, y),
        r"structure must have the classes \('high', 'low'\) as levels of 'y', in this order",
    ),
    (lambda f, y: skl.SPNClassifier().fit(f, f["size"].fillna(0)), "Unknown label type: continuous"),
    (lambda f, y: skl.SPNRegressor(target_kind="levels").fit(f, [1.0] * 60), "target_kind must be one of"),
    (lambda f, y: skl.SPNRegressor().fit(f, [1.0] * 9), r"inconsistent numbers of samples: \[60, 9\]"),
    (lambda f, y: skl.SPNRegressor(target_kind="count").fit(f, np.arange(60) + 0.5), "column 'y', row 0.*needs"),
    (
        lambda f, y: skl.SPNRegressor(structure=tree_with_levels(f, y, ["high", "low"])).fit(f, np.arange(60.0)),
        "structure must have 'y' of the kind 'real' or .*, as target_kind says; it is 'categorical' there",
    ),
    (lambda f, y: skl.BayesianTreeClassifier(unseen="no").fit(f, y), "unseen must be one of"),
    (lambda f, y: skl.BayesianTreeClassifier(particles=1).fit(f, y), "particles must be"),
    (lambda f, y: skl.BayesianTreeRegressor(family="classes").fit(f, y), "family must be .* 'classes'"),
    (lambda f, y: skl.BayesianTreeRegressor().fit(f, y), "y must hold numbers", TypeError),
    (lambda f, y: skl.BayesianTreeRegressor().fit(f[:1], [1.0]), "X must have at least two rows, got 1"),
    (lambda f, y: skl.OrderDAG(method="regular").fit(f), "method must be one of .*, got 'regular'"),
    (lambda f, y: skl.OrderDAG().fit(f[["size"]]), "1 cells are missing, the first in column 'size'"),
]


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_reason(case):
    call, message, *error = case
    with pytest.raises(*error or [ValueError], match=message):
        call(*mixed())


def test_without_scikit_learn_a_name_says_what_to_install(monkeypatch):
    for module in [m for m in sys.modules if m.startswith("pymc_spn.interop.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [n for n in sys.modules if n.startswith("sklearn.")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in (
        "SPNDensity",
        "SPNClassifier",
        "BayesianTreeClassifier",
        "BayesianTreeRegressor",
        "OrderDAG",
        "SPNRegressor",
        "SPNOutlierDetector",
    ):
        monkeypatch.delitem(vars(ps.sklearn), name, raising=False)
        with pytest.raises(ImportError, match=r'need scikit-learn, 1\.6 or later: install the extra "sklearn"'):
            getattr(ps.sklearn, name)
    assert importlib.import_module("pymc_spn.interop.saved_posteriors").load  # the rest of the room needs none


def test_graphs_know_of_cells_that_were_set():
    rng = np.random.default_rng(0)
    a = rng.normal(size=60)
    df = pd.DataFrame({"a": a, "b": 20.0 * (a + rng.normal(size=60))})
    mask = np.zeros(df.shape, bool)
    mask[:30, 1] = True
    found = skl.OrderDAG(standardize=True).fit(df, interventions=mask).edge_probabilities_
    asked = ps.DagPosterior.from_data(df, interventions=mask, standardize=True, progressbar=False)
    np.testing.assert_array_equal(found, asked.edge_probabilities())
    assert np.abs(found - skl.OrderDAG(standardize=True).fit(df).edge_probabilities_).max() > 0.01
