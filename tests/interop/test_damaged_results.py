"""Saved results and JSON with one thing changed: they are refused in our words or read, and no kernel leaves an array.

What is changed at random is the content, with the checksum of the file left aside: such a file is what somebody wrote
on purpose, and it must be safe to open. Seeds are fixed.
"""

import json
from functools import cache

import h5py
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.networks.schema import NetworkSchema
from tests.edits import edited_json, edited_tree, outcome
from tests.hand_made_records import enumerated_tree, schema_of
from tests.indian_chefs.small_graphs import graph, ring
from tests.interop.saved_results import FRAME, QUESTIONS, chefs, sampled
from tests.modes import BY_PYTHON
from tests.reference import tiny_problems
from tests.shared_circuits import mixture

N_EDITS = 20


def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=30), "b": rng.choice(list("xyz"), 30), "c": rng.choice(list("uvw"), 30)})
    frame.loc[3, "a"] = np.nan
    return frame


def saved(post, folder):
    post.save(folder / "post.nc")
    return xr.load_datatree(folder / "post.nc", engine="h5netcdf")


def circuit(problem):
    def make(folder):
        tree = enumerated_tree(tiny_problems()[problem])[0].isel(draw=slice(0, 60, 6))
        post = ps.SPNPosterior.from_idata(tree)
        numeric = [c.name for c in post.columns if c.levels is None]
        post = post.condition({numeric[0]: (0.0, None)}).marginal(numeric)
        return saved(post, folder), ps.SPNPosterior.from_idata, lambda p: p.mean()

    return make


def variational(folder):
    post = ps.fit_variational(FRAME, ps.circuits.complete_tree(list("abc"), n_children=2), random_seed=1)
    return saved(post, folder), ps.VariationalPosterior.from_idata, lambda p: p.log_density(FRAME[:3])


def orders(folder):
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(FRAME)).condition(present=[("a", "b")])
    return saved(post, folder), ps.OrderSPN.load, lambda p: p.edge_probabilities()


def regular(folder):
    post = ps.OrderSPN.regular(ps.LocalScores.from_data(FRAME), (2, 2), random_seed=1)
    return saved(post, folder), ps.OrderSPN.load, lambda p: p.edge_probabilities()


def imputed(folder):
    df = FRAME.mask(np.random.default_rng(0).random(FRAME.shape) < 0.2)
    post = ps.dags.ImputedDagPosterior.from_data(df, [df.fillna(FRAME), df.fillna(1.0)]).condition([("a", "b")])
    return saved(post, folder), ps.dags.ImputedDagPosterior.load, lambda p: p.edge_probabilities()


def trees(folder):
    X = table()
    post = ps.fit_tree(
        X, X["a"].fillna(0.0) > 0, family="binary", particles=10, categorical={"c": "subset"}, random_seed=1
    )
    return saved(post, folder), ps.TreePosterior.load, lambda p: p.predict_proba(X[:5])


def sampled_as(name):
    kind, question = QUESTIONS[name]
    return lambda folder: (sampled(), lambda tree: kind.from_idata(tree, name), question)


def drawn_graphs(folder):
    return chefs(), ps.GraphDraws.from_idata, lambda p: (p.common_ancestor_probabilities(), p.edge_probabilities())


def network(folder):
    with pm.Model():
        ps.LinearGaussianNetwork("data", graph(), observed=ring())
        idata = pm.sample(4, tune=2, chains=2, cores=1, random_seed=1, progressbar=False, **BY_PYTHON)
    post = ps.BeliefNetworkPosterior.from_idata(idata)
    return saved(post, folder), ps.BeliefNetworkPosterior.from_idata, lambda p: p.log_density(ring(3))


CASES = {f.__name__: f for f in (variational, orders, regular, imputed, trees, drawn_graphs, network)}
CASES |= {f"circuit {name}": circuit(name) for name in ("missing", "infinite_skewed")}
CASES |= {f"sampled {name}": sampled_as(name) for name in QUESTIONS}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return cache(lambda case: CASES[case](tmp_path_factory.mktemp("saved")))


@pytest.mark.parametrize("case", CASES)
def test_edits_of_a_saved_result_are_refused_in_words_or_read(case, made):
    tree, read, ask = made(case)
    ask(read(tree))
    rng = np.random.default_rng(0)
    for _ in range(N_EDITS):
        other, what = edited_tree(tree, rng)
        if other is not None:
            error = outcome(lambda t: ask(read(t)), other)
            if error is not None:
                raise AssertionError(f"{what}: {error!r}") from error


def test_a_function_of_the_graph_is_one_number_for_each_draw():
    tree = chefs().copy()
    stats = tree["sample_stats"].to_dataset()
    name = next(v for v in stats.data_vars if str(v).endswith("_log_likelihood"))
    tree["sample_stats"] = xr.DataTree(stats.assign({name: stats[name].expand_dims(more=2)}))
    with pytest.raises(ValueError, match=f"variable '{name}' of sample_stats must have chains and draws alone, got"):
        ps.GraphDraws.from_idata(tree)


def region_tree():
    columns = [ps.Column("a", "real", None, "float64"), ps.Column("b", "categorical", ("u", "v", "w"), "str")]
    return RegionTree(
        [*columns, "c", "d"],
        order=[0, 1, 2, 3, 2, 3, 0, 1],
        begin=[0, 0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7],
        end=[4, 2, 1, 2, 4, 3, 4, 6, 5, 6, 8, 7, 8],
        parent=[-1, 0, 1, 1, 0, 4, 4, 0, 7, 7, 0, 10, 10],
        n_children=[4, 0, 2, 3, 2, 2, 2, 3, 2, 2, 2, 2, 2],
        split=[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0],
    )


def count_nodes(tree):
    if (tree.n_children > 0).all():
        tree.n_leaves(), tree.n_induced_trees()


SCHEMA = schema_of(tiny_problems()["infinite_skewed"])
READERS = {
    "region tree": (region_tree().to_json(), RegionTree.from_json, count_nodes),
    "circuit": (mixture(("gaussian", "categorical", "log_normal"), 3).to_json(), ps.Circuit.from_json, repr),
    "schema": (json.loads(SCHEMA.to_json()), lambda data: NetworkSchema.from_vector(json.dumps(data)), vars),
}


@pytest.mark.parametrize("kind", READERS)
def test_edits_of_json_are_refused_in_words_or_read(kind):
    """Numbers of splits and of children up to 2**64, for one, are looked at before any work."""
    data, read, ask = READERS[kind]
    ask(read(data))
    rng = np.random.default_rng(0)
    for _ in range(60):
        other, what = edited_json(data, rng)
        error = outcome(lambda d: ask(read(d)), other)
        if error is not None:
            raise AssertionError(f"{what}: {error!r}") from error
    for other in (None, [], "text", 3, {}):
        assert outcome(read, other) is None


@pytest.mark.parametrize("number", [2**31, 2**40, 2**62])
def test_a_number_of_splits_that_parts_cannot_have_is_refused_at_once(number):
    data = region_tree().to_json()
    data["split"][-1] = number
    with pytest.raises(ValueError, match=r"parts .* must be numbered by splits 0, 1, \.\.\. in ascending order"):
        RegionTree.from_json(data)
    data["split"] = [0] * 13
    data["split"][10] = number
    with pytest.raises(ValueError, match="must be numbered by splits"):
        RegionTree.from_json(data)


def test_a_plain_result_is_refused_in_words_or_read(tmp_path):
    """What ``idata.to_netcdf`` wrote has no checksum: cut off, or with flipped bits in the numbers that it holds."""
    path = tmp_path / "idata.nc"
    groups = {g: sampled()[g].to_dataset() for g in ("constant_data", "posterior", "sample_stats")}
    groups = {g: data[[v for v in data.data_vars if str(v).startswith("order")]] for g, data in groups.items()}
    xr.DataTree.from_dict(groups).to_netcdf(path, engine="h5netcdf")
    good = path.read_bytes()
    places = []
    with h5py.File(path) as file:
        for group, data in groups.items():
            for name in data.data_vars:
                stored = file[f"{group}/{name}"]
                places.append((stored.id.get_offset(), stored.id.get_storage_size()))
    for size in (0, 4, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match=r"damaged file '.*idata\.nc'" if size > 8 else "is not a netCDF-4 file"):
            ps.load(path, "order")
    rng = np.random.default_rng(0)
    for begin, size in places * 3:
        changed = bytearray(good)
        changed[begin + rng.integers(size)] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        error = outcome(lambda: ps.load(path, "order").edge_probabilities())
        if error is not None:
            raise error
