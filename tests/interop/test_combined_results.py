"""Results that were put together, reordered or selected from are read as what they are, or refused in every family."""

import warnings
from functools import cache

import arviz as az
import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from tests.modes import BY_PYTHON
from tests.sampled_runs import draw, model_of

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(
    {"a": RNG.normal(size=12), "b": RNG.normal(size=12), "c": RNG.choice(list("uvw"), 12)},
    index=[f"r{i:02d}" for i in RNG.permutation(12)],
)
NUMBERS = FRAME[["a", "b"]]
K = 2  # draws in which a state of the network is recorded
SORTED = "hold the data of the fit with its rows in the same order"
REFUSED = rf"draws of one model given one table, got several|must be the same for all chains and draws|{SORTED}"
QUESTIONS = {
    "net": (ps.SPNPosterior, lambda p: p.log_density(FRAME, per_draw=True).values),
    "dag": (ps.DagDraws, lambda p: p.graphs().values),
    "g": (ps.GraphDraws, lambda p: p.reputations().values),
    "x": (ps.BeliefNetworkPosterior, lambda p: p.parameters),
    "tree": (ps.TreePosterior, lambda p: p.predict_proba(NUMBERS, per_draw=True).values),
}
ALL = sorted(QUESTIONS)


@cache
def sampled(change="", seed=1):
    """One model with each family."""
    table = FRAME.copy()
    if change == "order":
        table = table.iloc[::-1]
    wide = 2.0 if change == "prior" else 1.0
    numbers = table[["a", "b"]]
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ps.SPN("net", ps.circuits.complete_tree(list("abc"), n_children=2), observed=table, concentration=wide)
        ps.DagPartition("dag", ps.LocalScores.from_data(numbers, prior="fair" if change != "prior" else "uniform"))
        nodes = {"observed_nodes": ["a", "b"], "max_nodes": 16}
        graph = ps.IndianChefsProcess("g", alpha=wide, gamma=pm.Gamma("gamma", 2, 1), phi=1.0, **nodes)
        ps.LinearGaussianNetwork("x", graph, observed=numbers, weight_sd=wide)
        tree = ps.DecisionTree("tree", numbers, alpha_s=0.9 / wide)
        ps.TreeResponse("y", tree, observed=table["c"].to_numpy())
        return pm.sample(
            6, tune=2, chains=1, cores=1, random_seed=seed, progressbar=False, compute_convergence_checks=False,
            spn={"record_every": K}, **BY_PYTHON,
        )  # fmt: skip


def read(idata, name):
    kind, question = QUESTIONS[name]
    return question(kind.from_idata(idata, name))


def of_groups(*results):
    """Draws of several results, the data of the first."""
    draws = {g: xr.concat([d[g].to_dataset() for d in results], "chain") for g in ("posterior", "sample_stats")}
    return xr.DataTree.from_dict({g: node.to_dataset() for g, node in results[0].children.items()} | draws)


def numbered(idata):
    return idata.map_over_datasets(lambda d: d.assign_coords(net_row=range(12)) if "net_row" in d.dims else d)


def first_of_all(*results):
    return xr.concat(results, "chain", data_vars="minimal", coords="minimal", compat="override", join="outer")


WAYS = {
    "all": lambda one, two, name: xr.concat([one, two], "chain", data_vars="all", join="outer"),
    "numbered": lambda one, two, name: xr.concat(
        [numbered(one), numbered(two)], "chain", data_vars="all", join="outer"
    ),
    "first": lambda one, two, name: first_of_all(one, two),
    "groups": lambda one, two, name: of_groups(one, two),
    "unpacked": lambda one, two, name: first_of_all(ps.unpack(one, name), ps.unpack(two, name)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALL)
def test_two_results_of_one_model_and_table_are_one(name, way):
    one, two = sampled(), sampled(seed=2)
    expected = [read(d, name) for d in (one, two)]
    if (
        way == "unpacked"
        and name == "tree"
        and len({int(d["sample_stats"]["tree_leaves"].max()) for d in (one, two)}) > 1
    ):
        pytest.skip("numbers of nodes differ")
    found = read(WAYS[way](one, two, name), name)
    assert not np.array_equal(*expected)
    np.testing.assert_array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize("change", ["order", "prior"])
@pytest.mark.parametrize("name", ALL)
def test_results_of_other_models_or_data_are_refused(name, change):
    """Rows in another order are aligned by their labels, and the record of a draw has none."""
    one, other = sampled(), sampled(change)
    for way, together in WAYS.items():
        if way == "unpacked" and name == "tree":
            continue
        with pytest.raises(ValueError, match=REFUSED):
            read(together(one, other, name), name)
    with pytest.raises(ValueError, match=r"got several\. Those of chains \[1, 2\] \(positions\) differ from"):
        read(of_groups(one, other, other), name)


def with_group(idata, group, change):
    return xr.DataTree.from_dict(
        {g: change(d) if g == group else d for g, d in ((g, n.to_dataset()) for g, n in idata.children.items())}
    )


def swapped(data):
    return data.map(lambda v: v.copy(data=v.values[::-1]) if v.ndim and v.size else v)


CHANGES = {
    "sorted": lambda d: d.sortby("net_row"),
    "reindexed": lambda d: d.reindex(net_row=[*FRAME.index[:-1], "r99"]),
    "rows": swapped,
    "cell": lambda d: d.assign({n: d[n].copy(data=np.where(d[n] == d[n].max(), d[n].min(), d[n])) for n in "xy"}),
}


@pytest.mark.parametrize(
    ("name", "change"),
    [("net", "sorted"), ("net", "reindexed"), *((n, c) for n in ("net", "x", "tree") for c in ("rows", "cell"))],
)
def test_data_that_were_sorted_or_changed_are_refused(name, change):
    if (name, change) == ("net", "cell"):
        altered = sampled().copy(deep=True)
        altered["observed_data"]["net"][2, 0] += 1e-9
    else:
        altered = with_group(sampled(), "observed_data", CHANGES[change])
    with pytest.raises(ValueError, match=f"{SORTED}|and others stand there"):
        read(altered, name)
    if name == "net":
        with pytest.raises(ValueError, match=SORTED):
            ps.unpack(altered, name)


def test_groups_of_two_results_are_refused():
    one, other = sampled(), sampled("prior")
    mixed = with_group(one, "constant_data", lambda _: other["constant_data"].to_dataset())
    for name in ALL:
        with pytest.raises(ValueError, match="and others stand there"):
            read(mixed, name)


SELECTIONS = {
    "chain by number": lambda d: d.sel(chain=0),
    "chain by list": lambda d: d.sel(chain=[0]),
    "chain by place": lambda d: d.isel(chain=0),
    "late": lambda d: d.isel(draw=slice(K, None)),
    "some": lambda d: d.sel(draw=[0, 1, 4, 5]),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_selected_draws_are_read(name, selection):
    whole = sampled()
    chosen = SELECTIONS[selection](whole)
    draws = np.flatnonzero(np.isin(whole["posterior"]["draw"], chosen["posterior"]["draw"]))
    places = draws[::K] // K if name == "net" else draws
    expected = read(whole, name)
    expected = expected[places] if name == "tree" else expected[:, places]
    np.testing.assert_array_equal(read(chosen, name), expected)
    np.testing.assert_array_equal(read(ps.unpack(chosen), name), expected)


@pytest.mark.parametrize("name", ALL)
def test_one_draw_and_thinned_draws_are_read_or_say_how(name):
    whole = sampled()
    expected = read(whole, name)
    for thinned, places in ((lambda d: d.sel(draw=4), [4]), (lambda d: d.isel(draw=slice(None, None, 2)), [0, 2, 4])):
        if name == "net":
            with pytest.raises(
                ValueError, match=r"ps\.unpack\(idata\)\.isel\(record=(\[0\]|slice\(None, None, 10\))\)"
            ):
                read(thinned(whole), name)
        else:
            chosen = expected[places] if name == "tree" else expected[:, places]
            np.testing.assert_array_equal(read(thinned(whole), name), chosen)
            np.testing.assert_array_equal(read(thinned(ps.unpack(whole, name)), name), chosen)
    if name == "net":  # what the messages say
        np.testing.assert_array_equal(read(ps.unpack(whole).isel(record=slice(None, None, 10)), name), expected[:, :1])
        for one in ([1], 1):
            np.testing.assert_array_equal(read(ps.unpack(whole).isel(record=one), name), expected[:, 1:2])
    together = xr.concat([whole, sampled(seed=2)], "draw", data_vars="all", join="outer")
    if name == "net":
        with pytest.raises(ValueError, match="put them together along chain"):
            read(together, name)
    else:
        both = [expected, read(sampled(seed=2), name)]
        np.testing.assert_array_equal(read(together, name), np.concatenate(both, axis=0 if name == "tree" else 1))


@pytest.mark.parametrize("name", ALL)
def test_parts_of_results_say_what_to_pass(name):
    kind, _ = QUESTIONS[name]
    whole = sampled()
    way = r"az\.thin and az\.extract return one group alone, and idata\.isel\(draw=slice\(None, None, 10\)\) keeps"
    for part in (az.thin(whole, factor=2, var_names="gamma"), whole.filter(lambda node: node.name == "posterior")):
        with pytest.raises(ValueError, match=way):
            kind.from_idata(part, name)
    with pytest.raises(TypeError, match=way):
        kind.from_idata(az.extract(whole, var_names="gamma", keep_dataset=True), name)
    bare = whole.sel(chain=0, drop=True)
    stacked = whole.map_over_datasets(lambda d: d.stack(sample=("chain", "draw")) if "chain" in d.dims else d)
    for part in (bare, stacked):
        with pytest.raises(ValueError, match=r"as in idata\.sel\(chain=0\) .* not with drop=True"):
            kind.from_idata(part, name)


def test_saved_posteriors_are_put_together_where_they_are_alike(tmp_path):
    posts = [ps.SPNPosterior.from_idata(sampled(seed=s)) for s in (1, 2)]
    given = [p.condition({"a": (-1.0, None)}) for p in posts] + [posts[1].condition({"a": (-0.5, None)})]
    files = []
    for i, post in enumerate(given):
        post.save(tmp_path / f"{i}.nc")
        with xr.open_datatree(tmp_path / f"{i}.nc", engine="h5netcdf") as tree:
            files.append(tree.load())
    both = xr.concat(files[:2], "chain", data_vars="all", join="outer")
    found = ps.SPNPosterior.from_idata(both).log_density(FRAME, per_draw=True).values
    np.testing.assert_array_equal(found, np.concatenate([p.log_density(FRAME, per_draw=True) for p in given[:2]]))
    with pytest.raises(ValueError, match=REFUSED):
        ps.SPNPosterior.from_idata(xr.concat(files[1:], "chain", data_vars="all", join="outer"))
    late = ps.SPNPosterior.from_idata(files[0].isel(record=slice(1, None)))
    np.testing.assert_array_equal(late.log_density(FRAME, per_draw=True), found[:1, 1:])


def test_variational_fits_are_not_put_together(tmp_path):
    tree = ps.circuits.complete_tree(["a", "b"], n_children=2)
    ps.fit_variational(NUMBERS, tree, random_seed=1, progressbar=False).save(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as fit:
        both = xr.concat([fit.load()] * 2, "chain", data_vars="all", join="outer")
    with pytest.raises(ValueError, match=r"must hold one variational fit, got several along \['chain'\]"):
        ps.VariationalPosterior.from_idata(both)


def test_runs_of_one_table_of_pandas_and_of_polars_are_put_together():
    plain = FRAME.reset_index(drop=True)
    tables = plain, pl.from_pandas(plain), pl.from_pandas(plain.assign(a=plain["a"].to_numpy()[::-1]))
    tree = ps.circuits.complete_tree(list("abc"), n_children=2)
    one, two, moved = (draw(model_of(tree, name="net", observed=table), draws=4, chains=1) for table in tables)
    both = ps.SPNPosterior.from_idata(of_groups(one, two))
    assert both.log_density(plain, per_draw=True).sizes["chain"] == 2
    with pytest.raises(ValueError, match=REFUSED):
        ps.SPNPosterior.from_idata(of_groups(one, moved))
