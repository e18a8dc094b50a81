"""On a cluster of two processes: chains with the bits of one machine, lost workers, and posteriors loaded once."""

import os
import signal
import threading
from importlib import metadata

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.numerics.cluster_clients import check_workers
from tests.sampled_runs import assert_same, bits_of_every_process

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

RUN = {"draws": 8, "tune": 4, "random_seed": 5, "progressbar": False, "compute_convergence_checks": False}
HERE = RUN | {"cores": 1, "quiet": True}


@pytest.fixture(scope="module")
def client():
    with (
        bits_of_every_process(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": rng.normal(size=24), "g": rng.choice(["u", "v", "w"], 24)})


def model():
    with pm.Model() as built:
        ps.SPN("rows", observed=table(), concentration=pm.Gamma("c", 2, 1))
        pm.Deterministic("twice", 2 * pm.Normal("a"))
    return built


@pytest.fixture(scope="module")
def usual(client):
    return ps.sample_chains(model, 3, **HERE)


def test_chains_of_workers_are_those_of_one_machine(client, usual):
    with model():
        here = pm.sample(chains=3, nuts_sampler="pymc", **HERE)
    assert_same(usual, here)
    found = ps.sample_chains(model, 3, client, **RUN)
    assert_same(found, usual)
    assert found.posterior["chain"].values.tolist() == [0, 1, 2]
    assert found.children.keys() == usual.children.keys()
    for name in ("constant_data", "observed_data"):
        assert found[name].to_dataset().equals(usual[name].to_dataset())
    one, other = (ps.SPNPosterior.from_idata(idata).log_density(table()) for idata in (found, usual))
    np.testing.assert_array_equal(one, other)
    different = ps.sample_chains(model, 3, client, **RUN | {"random_seed": 6})
    assert not np.array_equal(different.posterior["a"], found.posterior["a"])


def test_a_model_is_sent_with_the_start_of_its_own_distributions(client, usual):
    """The prior of the leaf shape is a `pm.CustomDist`, whose methods a pickled model leaves behind."""
    assert_same(ps.sample_chains(model(), 3, client, **RUN), usual)


@pytest.mark.parametrize("lengths", [{"draws": 3, "tune": 2}, {"draws": 2, "tune": 0}])
def test_warm_up_few_draws_and_generators(client, lengths):
    options = RUN | lengths | {"discard_tuned_samples": False}
    found = ps.sample_chains(model, 2, client, **options | {"random_seed": np.random.default_rng(2)})
    here = ps.sample_chains(model, 2, **options | {"cores": 1, "quiet": True, "random_seed": np.random.default_rng(2)})
    assert_same(found, here)
    if lengths["tune"]:
        np.testing.assert_array_equal(found.warmup_posterior["a"], here.warmup_posterior["a"])


def test_a_lost_worker_loses_one_run_of_a_chain(client, usual, tmp_path):
    def dies_once():
        number = len(os.listdir(tmp_path))
        (tmp_path / f"{number}-{os.getpid()}").touch()
        if number == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return model()

    before = set(client.run(os.getpid).values())
    assert_same(ps.sample_chains(dies_once, 3, client, **RUN), usual)
    assert len(list(tmp_path.iterdir())) == 4  # three chains, and one of them again
    client.wait_for_workers(2)
    assert len(before & set(client.run(os.getpid).values())) == 1


def test_a_posterior_is_loaded_once_by_each_worker(client, tmp_path):
    class Noted:
        def __setstate__(self, state):
            self.__dict__.update(state)
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()}\n")

    post = ps.fit_variational(table(), random_seed=1, restarts=1, max_steps=10, progressbar=False)
    post.noted = Noted()
    post.noted.path = str(tmp_path / "loads")
    ddf = dd.from_pandas(table(), npartitions=6)
    found = client.gather(client.compute([post.log_density(ddf), post.predict_proba(ddf, "g")]))
    np.testing.assert_array_equal(found[0], post.log_density(table()))
    np.testing.assert_array_equal(found[1], post.predict_proba(table(), "g"))
    loads = (tmp_path / "loads").read_text().split()
    workers = {str(pid) for pid in client.run(os.getpid).values()}
    of_workers = [pid for pid in loads if pid in workers]
    assert len(of_workers) == len(set(of_workers)) > 0
    lazy = post.impute(ddf.assign(x=ddf["x"].where(ddf["x"] < 1.0)), random_seed=3)
    pd.testing.assert_frame_equal(client.compute(lazy).result(), lazy.compute(scheduler="synchronous"))


def test_islands_of_trees_are_grown_by_workers(client):
    rows = pd.DataFrame({"x": np.arange(20.0), "z": np.arange(20.0) % 3})
    options = {"particles": 20, "islands": 3, "random_seed": 1, "progressbar": False}
    here, there = (ps.fit_tree(rows, rows["x"] > 8, **options, **more) for more in ({}, {"client": client}))
    np.testing.assert_array_equal(there.log_evidence_islands, here.log_evidence_islands)
    np.testing.assert_array_equal(there.predict_proba(rows), here.predict_proba(rows))
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got 3"):
        ps.fit_tree(rows, rows["x"] > 8, **options, client=3)


def test_what_has_no_place_on_a_cluster_is_refused(client, monkeypatch):
    for name in ("cores", "callback", "trace", "return_inferencedata"):
        with pytest.raises(TypeError, match=rf"^{name} has no place on a cluster"):
            ps.sample_chains(model, 2, client, **RUN | {name: 1})
    with pytest.raises(ValueError, match="nuts_sampler must be 'pymc'"):
        ps.sample_chains(model, 2, client, nuts_sampler="nutpie")
    with pytest.raises(TypeError, match=r"model must be a pm.Model or a function"):
        ps.sample_chains(3, 2, client)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got '?tcp"):
        ps.sample_chains(model, 2, "tcp://here:8786")
    with pytest.raises(TypeError, match=r"the function must return a pm.Model, got None"):
        ps.sample_chains(lambda: None, 2, client, **RUN)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="the function cannot be sent to workers"):
        ps.sample_chains(lambda: lock, 2, client)
    locked = model()
    locked.lock = lock
    with pytest.raises(TypeError, match=r"the model cannot be sent to workers .* give a function that builds it"):
        ps.sample_chains(locked, 2, client)
    with model() as populated:
        step = pm.DEMetropolis([populated["a"]])
    with pytest.raises(ValueError, match="step DEMetropolis moves all chains together"):
        ps.sample_chains(populated, 2, client, step=step)

    def random():
        with pm.Model() as built:
            pm.Normal("y", pm.Normal("a"), observed=[float(os.getpid()), np.random.default_rng().normal()])
        return built

    with pytest.raises(ValueError, match="observed_data of chain 1 differs from that of chain 0"):
        ps.sample_chains(random, 2, client, **RUN)
    own = metadata.version
    monkeypatch.setattr("pymc_spn.numerics.cluster_clients.installed", lambda name: own(name) + ".1")
    with pytest.raises(ImportError, match=r"worker tcp://\S+ has pymc-spn \S+, the client \S+; install the same"):
        ps.sample_chains(model, 2, client)
    with pytest.raises(ImportError, match=r"worker tcp://\S+ lacks no-such-package; install no-such-package=="):
        check_workers(client, ["no-such-package"])


def test_a_closed_client_is_named(client):
    other = distributed.Client(client.scheduler.address)
    name = other.id
    other.close()
    with pytest.raises(ValueError, match=rf"client '{name}'.* is closed; make a new one"):
        ps.sample_chains(model, 2, other)
