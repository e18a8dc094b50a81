"""Any saved posterior comes back by one function, as the class that saved it and with the same answers."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.trees.record import TREES, trees_of_record
from tests.hand_made_records import enumerated_posterior
from tests.interop.saved_results import FRAME, QUESTIONS, chefs, sampled
from tests.reference import tiny_problems


def circuit():
    return enumerated_posterior(tiny_problems()["missing"]).marginal(["x0", "x2"]), lambda p: p.mean()


def variational():
    post = ps.fit_variational(FRAME, ps.circuits.complete_tree(list("abc"), n_children=2), random_seed=1)
    return post, lambda p: p.log_density(FRAME)


def graphs():
    return ps.OrderSPN.exact(ps.LocalScores.from_data(FRAME)), lambda p: p.edge_probabilities()


def trees():
    post = ps.fit_tree(FRAME, FRAME["a"] > 0, family="binary", particles=10, random_seed=1)
    return post, lambda p: p.predict_proba(FRAME)


@pytest.mark.parametrize("make", [circuit, variational, graphs, trees])
def test_what_was_saved_comes_back(make, tmp_path):
    post, question = make()
    post.save(tmp_path / "post.nc")
    again = ps.load(tmp_path / "post.nc")
    assert type(again) is type(post)
    np.testing.assert_array_equal(question(again), question(post))


def test_draws_of_every_family_unpack_and_load(tmp_path):
    idata = sampled()
    before = idata.copy(deep=True)
    unpacked = ps.unpack(idata)
    xr.testing.assert_identical(idata, before)
    xr.testing.assert_identical(ps.unpack(unpacked), unpacked)
    raw = {f"{name}_{what}" for name, what in zip(QUESTIONS, ("digits", "parents", "parents", "record"), strict=True)}
    assert raw <= set(idata["sample_stats"].data_vars)
    assert not raw & set(unpacked["sample_stats"].data_vars) and "tree_moved" not in raw
    assert unpacked["order"]["graphs"].dims == ("chain", "draw", "parent", "child")
    assert unpacked["partition"]["graphs"].dtype == bool
    for group in ("order", "partition"):
        edges = unpacked[group]["graphs"].sum(("parent", "child"))
        np.testing.assert_array_equal(edges, idata["posterior"][f"{group}_n_edges"])
        np.testing.assert_array_equal(unpacked[group][group], idata["posterior"][group])
    only = ps.unpack(idata, "tree")
    assert "tree" in only.children and "order" not in only.children
    unpacked.to_netcdf(tmp_path / "unpacked.nc", engine="h5netcdf")
    idata.to_netcdf(tmp_path / "raw.nc", engine="h5netcdf")
    for name, (kind, question) in QUESTIONS.items():
        expected = question(kind.from_idata(idata, name))
        np.testing.assert_array_equal(question(kind.from_idata(unpacked, name)), expected)
        for file in ("raw.nc", "unpacked.nc"):
            again = ps.load(tmp_path / file, name)
            assert type(again) is kind
            np.testing.assert_array_equal(question(again), expected)
    with pytest.raises(
        ValueError, match=r"several structures. Choose one with name=, one of \['net', 'order', 'partition', 'tree'\]"
    ):
        ps.load(tmp_path / "raw.nc")
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'x'"):
        ps.load(tmp_path / "raw.nc", "x")
    draws = ps.DagDraws.from_idata(idata, "partition")
    draws.save(tmp_path / "draws.nc")
    xr.testing.assert_identical(ps.load(tmp_path / "draws.nc").graphs(), draws.graphs())


def test_chains_of_one_label_are_several():
    """Two results put together both have a chain 0."""
    idata = sampled()
    alike = xr.DataTree.from_dict(
        {
            group: node.to_dataset().assign_coords(chain=[0, 0]) if "chain" in node.dims else node.to_dataset()
            for group, node in idata.children.items()
        }
    )
    for name, (kind, question) in QUESTIONS.items():
        np.testing.assert_array_equal(question(kind.from_idata(alike, name)), question(kind.from_idata(idata, name)))
    one, two = (ps.TreePosterior.from_idata(d) for d in (alike, idata))
    xr.testing.assert_identical(one.log_likelihood(), two.log_likelihood())
    assert one.diagnose().equals(two.diagnose())


def with_posterior(idata, change):
    """The tree with another group of the posterior draws, the statistics left as they are."""
    groups = {name: node.to_dataset() for name, node in idata.children.items()}
    return xr.DataTree.from_dict(groups | {"posterior": change(groups["posterior"])})


@pytest.mark.parametrize("name", [*QUESTIONS, "g"])
def test_draws_that_are_missing_or_of_one_group_alone_are_refused(name):
    """Chains of two lengths are padded by xarray, and what padded integers become reads as draws that nobody made."""
    idata = chefs() if name == "g" else sampled()
    kind = ps.GraphDraws if name == "g" else QUESTIONS[name][0]
    ragged = [idata.sel(chain=[0]), idata.isel(chain=[1], draw=slice(0, 4))]
    padded = xr.concat(ragged, dim="chain", data_vars="all", join="outer")
    with pytest.raises(
        ValueError, match=r"must hold (integers, got the dtype|a record of every chain and draw, got gaps)"
    ):
        kind.from_idata(padded, name)
    if name not in ("net", "tree"):  # whose lengths xarray refuses to put together
        unpacked = xr.concat([ps.unpack(part, name) for part in ragged], dim="chain", data_vars="all", join="outer")
        with pytest.raises(ValueError, match="must hold a record of every chain and draw, got gaps"):
            kind.from_idata(unpacked, name)
    for nothing in (idata.sel(chain=[]), idata.isel(draw=slice(0, 0))):
        with pytest.raises(ValueError, match=r"at least one draw|no complete record"):
            kind.from_idata(nothing, name)
    xr.testing.assert_identical(ps.unpack(idata.map_over_datasets(turned), name)[name], ps.unpack(idata, name)[name])


def turned(data):
    return data.transpose(..., "draw", "chain", missing_dims="ignore")


@pytest.mark.parametrize("change", ["draws", "order", "chains"])
def test_the_posterior_group_has_the_draws_of_the_record(change):
    places = {"draws": {"draw": slice(2, None)}, "order": {"draw": slice(None, None, -1)}, "chains": {"chain": [1, 0]}}
    place = places[change]
    for idata, name, kind in ((sampled(), "order", ps.DagDraws), (chefs(), "g", ps.GraphDraws)):
        with pytest.raises(ValueError, match=r"must have the labels of dimension '(draw|chain)' that"):
            kind.from_idata(with_posterior(idata, lambda d: d.isel(place)), name)


@pytest.mark.parametrize(
    "read",
    [ps.unpack, ps.trees.load_trees, ps.indian_chefs.load_graphs, *(kind.from_idata for kind, _ in QUESTIONS.values())],
)
def test_a_group_alone_is_no_result(read):
    with pm.Model(), pytest.raises(TypeError, match=r"idata must be the DataTree that pm\.sample returned"):
        read(sampled()["posterior"].to_dataset())


def test_unpacked_trees_are_the_drawn_ones():
    idata = sampled()
    group = ps.unpack(idata, "tree")["tree"].dataset
    draws = trees_of_record(TREES.read(idata, "tree"))
    trees = [draws.tree(t) for t in range(draws.n_trees)]
    assert max(t.n_leaves for t in trees) > min(t.n_leaves for t in trees)
    assert group["n_nodes"].values.ravel().tolist() == [len(t.decisions) for t in trees]
    for t, tree in enumerate(trees):
        chain, draw = divmod(t, group.sizes["draw"])
        here, n = group.isel(chain=chain, draw=draw), len(tree.decisions)
        np.testing.assert_array_equal(here["decisions"].values[:n], tree.decisions)
        np.testing.assert_array_equal(here["child"].values[:n], tree.children)
        assert (here["decisions"].sel(term="feature").values[n:] == -2).all()


def test_other_files_are_refused(tmp_path):
    xr.Dataset({"x": 1.0}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"other\.nc holds no posterior object that was saved"):
        ps.load(tmp_path / "other.nc")
    with pytest.raises(FileNotFoundError):
        ps.load(tmp_path / "none.nc")
