"""Every front door takes tables of pandas, polars and pyarrow, answers the same, and gives back what it was given."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.dags.schema import DagSchema
from pymc_spn.tables.frame_kinds import pandas_frame
from tests.indian_chefs.small_graphs import graph, ring
from tests.modes import PLAIN

rng = np.random.default_rng(1)
N = 40
SIZES = ["small", "medium", "large"]
TYPES = {"polars": pl.DataFrame, "pyarrow": pa.Table, "nullable": pd.DataFrame, "pandas": pd.DataFrame}
KINDS = ("polars", "pyarrow", "nullable")
SHORT = {"random_seed": 1, "restarts": 1, "max_steps": 10, "progressbar": False}  # of a fit
BRIEF = {"random_seed": 1, "chains": 1, "tune": 3, "progressbar": False}  # of pm.sample


def table():
    x = rng.normal(size=N)
    sizes = pd.Categorical(rng.choice(SIZES, N), SIZES, ordered=True)
    cells = {"x": x, "z": x + rng.normal(size=N), "n": pd.array(rng.poisson(40, N), dtype="Int64")}
    frame = pd.DataFrame(cells | {"g": rng.choice(["u", "v", "w"], N), "b": rng.random(N) < 0.5, "s": sizes})
    frame.loc[3, "x"], frame.loc[4, "n"], frame.loc[5, "g"] = np.nan, pd.NA, None
    return frame


TABLE = table()


def of_kind(frame, kind):
    """The frame as a table of one kind, by the libraries' own converters."""
    if kind == "polars":
        made = pl.from_pandas(frame)
        ordered = [c for c in frame if getattr(frame[c].dtype, "ordered", False)]
        return made.with_columns(pl.col(c).cast(pl.Enum(list(frame[c].cat.categories))) for c in ordered)
    if kind == "pyarrow":
        return pa.Table.from_pandas(frame, preserve_index=False)
    return frame.convert_dtypes() if kind == "nullable" else frame


def some(frame, *names):
    """Some columns of a table."""
    return frame.select(list(names)) if hasattr(frame, "select") else frame[list(names)]


def complete(frame):
    """The rows without gaps."""
    own = {pl.DataFrame: "drop_nulls", pa.Table: "drop_null"}.get(type(frame), "dropna")
    return getattr(frame, own)()


def check_same(usual, found, kind):
    """An answer is that of pandas to the last bit, and a table is of the kind that was given."""
    if not isinstance(usual, pd.DataFrame):
        np.testing.assert_array_equal(np.asarray(usual), np.asarray(found))
        return
    assert type(found) is TYPES[kind]
    cells = pandas_frame(found)
    if cells.columns[0] in ("quantity", "node"):  # labels of rows, which tables of polars have no other place for
        usual = usual.rename_axis(cells.columns[0]).reset_index()
    assert list(cells.columns) == list(usual.columns)
    for name in usual:
        a, b = (c[name].astype(object).where(c[name].notna(), None).tolist() for c in (usual, cells))
        assert a == b, name


def network(frame):
    post = ps.fit_variational(frame, **SHORT)
    yield post.log_density(frame)
    yield post.predict(frame, "x")
    yield post.predict_proba(frame, "g")
    yield post.predict_quantile(frame, "z", 0.3)
    yield post.cell_p_value(frame)
    yield post.anomaly(frame)["surprise"]
    yield post.predictive_p_value(frame, n=99, random_seed=1)["p_value"]
    yield post.row_similarity(frame, frame)
    yield post.explain(of_kind(TABLE.iloc[[7]], "polars" if type(frame) is pl.DataFrame else "pyarrow"))["shapley"]
    yield post.impute(frame, random_seed=1)
    yield from post.impute(frame, n=2, random_seed=1)
    yield post.sample(5, random_seed=1)
    yield post.condition({"g": "u"}).marginal(["x", "s"]).sample(5, random_seed=1)
    yield post.mpe({"g": "u"}).value


def sampled(frame):
    with pm.Model():
        ps.SPN("rows", observed=frame)
        idata = pm.sample(3, **BRIEF)
    post = ps.SPNPosterior.from_idata(idata)
    yield post.log_density(frame)
    yield post.impute(frame, random_seed=1)
    yield post.sample(5, random_seed=1)
    yield post.log_likelihood(frame)["rows"]
    yield post.diagnose(max_rows=2)


def trees(frame):
    X, z = some(frame, "x", "b", "s", "g"), frame["z"]
    options = {"particles": 20, "islands": 1, "random_seed": 1, "progressbar": False}
    post = ps.fit_tree(X, z, **options)
    yield post.predict(X)
    yield post.log_predictive(X, z)
    yield ps.fit_tree(some(frame, "x", "z"), frame["s"], **options).predict_proba(some(frame, "x", "z"))
    with pm.Model():
        ps.TreeResponse("y", ps.DecisionTree("tree", X), observed=z)
        idata = pm.sample(5, **BRIEF)
    drawn = ps.TreePosterior.from_idata(idata)
    yield drawn.predict(X)
    yield drawn.diagnose(max_rows=2)
    yield drawn.leaf_posterior()
    yield drawn.variable_importance()
    yield ps.trees.exact_tree_evidence(some(frame, "b"), z).root_splits()


def graphs(frame):
    whole = complete(some(frame, "x", "z"))
    mask = pd.DataFrame(np.arange(2 * len(whole)).reshape(-1, 2) < 10, columns=["x", "z"])
    made = {pl.DataFrame: pl.DataFrame, pa.Table: pa.table}.get(type(whole))
    mask = mask.set_axis(whole.index) if made is None else made(mask.to_dict("list"))
    post = ps.DagPosterior.from_data(whole, interventions=mask, progressbar=False)
    yield post.edge_probabilities()
    yield post.edge_table()
    yield ps.sklearn.OrderDAG().fit(whole).posterior_.edge_table()
    with pm.Model():
        ps.DagOrder("graph", ps.LocalScores.from_data(whole, progressbar=False))
        idata = pm.sample(20, **BRIEF | {"chains": 2})
    yield ps.DagDraws.from_idata(idata).edge_table()
    gaps = some(frame, "x", "z")
    tables = ps.fit_variational(gaps, **SHORT).impute(gaps, n=2, random_seed=1)
    yield ps.dags.ImputedDagPosterior.from_data(gaps, tables, progressbar=False).edge_table()


def belief_networks(frame):
    X = of_kind(ring(40), {own: kind for kind, own in TYPES.items()}[type(frame)])
    scaling = ps.indian_chefs.UnitScaling.from_data(X)
    yield scaling.transform(X)
    with pm.Model():
        ps.NLGBN("data", graph(), observed=X, scaling=scaling)
        idata = pm.sample(5, **BRIEF)
    post = ps.NLGBNPosterior.from_idata(idata)
    yield post.sample(5, random_seed=1)
    yield post.log_density(X, random_seed=1)
    yield post.diagnose()


def factor_graphs(frame):
    fg = ps.FactorGraph({"s": SIZES, "b": [False, True], "g": ["u", "v", "w"]})
    fg.add_factor(("s", "b"), np.arange(6.0).reshape(3, 2))
    fg.add_factor(("g", "b"), np.arange(6.0).reshape(3, 2) ** 2)
    given = some(frame, "s", "g", "b")
    yield fg.compile().infer(given=some(frame, "s", "g")).marginal("b")
    with pm.Model() as model:
        ps.FieldEmission("y", ps.DiscreteField("z", fg), observed=given)
    yield model.compile_logp(sum=False, mode=PLAIN)({})[0]


def circuits(frame):
    schema = ps.Table.from_frame(some(frame, "s", "g", "b")).columns
    levels = {"s": (0.2, 0.3, 0.5), "g": (0.5, 0.1, 0.4)}
    leaves = [ps.circuits.leaf(column, "categorical", levels[column.name]) for column in schema[:2]]
    answers = ps.circuits.product_of([*leaves, ps.circuits.leaf(schema[2], "bernoulli", (0.4,))])
    yield answers.log_density(some(frame, "b", "g", "s"))
    yield answers.impute(some(frame, "b", "g", "s"), random_seed=1)
    yield answers.sample(5, random_seed=1)
    yield answers.log_probability_of_rows({"g": frame["g"]})
    with pm.Model() as model:
        ps.CircuitDensity("y", answers.circuit, **answers.parameters, observed=some(frame, "s", "g", "b"))
    yield model.compile_logp(sum=False, mode=PLAIN)({})[0]


def estimators(frame):
    short = {"random_state": 1, "restarts": 1, "max_steps": 10}
    for strategy in ("draw", "mean"):
        yield ps.sklearn.SPNImputer(strategy=strategy, **short).fit(frame).transform(frame)
    density = ps.sklearn.SPNDensity(**short).fit(frame)
    yield density.score_samples(frame)
    yield density.sample(4, random_state=1)
    X = some(frame, "x", "n", "g")
    for made, y in (
        (ps.sklearn.SPNClassifier(**short), "s"),
        (ps.sklearn.BayesianTreeClassifier(random_state=1, particles=20), "s"),
        (ps.sklearn.SPNRegressor(**short), "z"),
        (ps.sklearn.BayesianTreeRegressor(random_state=1, particles=20), "z"),
    ):
        yield made.fit(X, frame[y]).predict(X)
    yield ps.sklearn.SPNOutlierDetector(**short).fit(frame).predict(frame)


DOORS = [network, sampled, trees, graphs, belief_networks, factor_graphs, circuits, estimators]


@pytest.fixture(scope="module")
def usual():
    """Answers for the pandas table, by front door, worked out once."""
    held = {}
    return lambda door: held[door] if door in held else held.setdefault(door, list(door(TABLE)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_answers_are_those_of_pandas(door, kind, usual):
    found = list(door(of_kind(TABLE, kind)))
    for a, b in zip(usual(door), found, strict=True):
        check_same(a, b, kind)


def test_a_planted_mistake_is_found(usual):
    wrong = of_kind(TABLE, "polars").with_columns(pl.col("x").fill_null(0.0))
    with pytest.raises(AssertionError):
        for a, b in zip(usual(trees), trees(wrong), strict=True):
            check_same(a, b, "polars")


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pandas"])
def test_transformers_answer_what_set_output_asks_for(kind):
    frame = of_kind(TABLE, kind)
    imputer = ps.sklearn.SPNImputer(random_state=1, restarts=1, max_steps=10).fit(frame)
    usual = pandas_frame(imputer.transform(frame))
    for asked in ("polars", "pandas", "default"):
        found = imputer.set_output(transform=asked).transform(frame)
        check_same(usual, found, kind if asked == "default" else asked)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_files_keep_what_tables_are_given_back_in(kind, tmp_path):
    frame = of_kind(TABLE, kind)
    fit = ps.fit_variational(frame, **SHORT)
    fit.save(tmp_path / "fit.nc")
    assert type(ps.load(tmp_path / "fit.nc").sample(2)) is TYPES[kind]
    post = ps.DagPosterior.from_data(complete(some(frame, "x", "z")), progressbar=False)
    post.save(tmp_path / "graphs.nc")
    assert type(ps.load(tmp_path / "graphs.nc").edge_table()) is TYPES[kind]
    assert type(fit.impute(TABLE, random_seed=1)) is pd.DataFrame  # a table that is given decides
    assert type(fit.impute(TABLE.to_dict("list"), random_seed=1)) is TYPES[kind]


def test_refusals_name_the_argument():
    fit = ps.fit_variational(TABLE[["x", "z"]], **SHORT)
    lazy = pl.LazyFrame({"x": [1.0], "z": [1.0]})
    for argument, ask in (
        ("df", lambda: fit.impute(lazy)),
        ("df", lambda: fit.predict(lazy, "x")),
        ("data", lambda: fit.log_density(lazy)),
        ("row", lambda: fit.explain(lazy)),
        ("X", lambda: ps.sklearn.SPNDensity().fit(lazy)),
        ("given", lambda: ps.FactorGraph({"a": 2}).compile().infer(given=lazy)),
        ("y", lambda: ps.fit_tree(TABLE[["x"]], lazy)),
    ):
        with pytest.raises(TypeError, match=f"{argument} must be a table in memory, got a polars LazyFrame"):
            ask()
    with pytest.raises(TypeError, match=r"needs a pandas DataFrame .*, whose rows have names; got polars.DataFrame"):
        ps.LocalScores.from_data(TABLE[["z"]], prior=ps.dags.EdgeLogOdds(pl.DataFrame({"z": [0.0]})))


def test_schemas_of_pandas_are_those_of_earlier_files():
    """Fingerprints of recorded draws are made of these bytes."""
    own = "graph", "order", ("a",), "BGe", "fair", (), "digest", (0.0, 0.0)
    for frame in (None, "polars"):
        vector = DagSchema(*own, frame).to_vector()
        assert DagSchema.from_vector(vector).frame == frame
        assert (b"frame" in vector.astype(np.uint8).tobytes()) == (frame is not None)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_pictures_take_the_tables_that_answers_give(kind):
    p = xr.DataArray(np.full((N, 2), 0.5), {"column": ["x", "z"]}, ["row", "column"])
    p = p.assign_coords(row=np.arange(N))
    axes = ps.plots.plot_pairs(of_kind(TABLE, kind), of_kind(TABLE, kind), columns=["x", "g", "s"])
    assert axes.shape == (3, 3)
    ps.plots.plot_cells(p, of_kind(TABLE, kind))
    plt.close("all")
