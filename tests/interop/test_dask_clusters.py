"""On a cluster of two processes: chains with the bits of one machine, lost workers, and posteriors loaded once."""

import os
import signal
import threading
import time
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.networks.variational import partitioned_fit
from pymc_spn.numerics import cluster_clients
from pymc_spn.numerics.cluster_clients import check_folder, check_workers, mapped
from tests.sampled_runs import assert_same, bits_of_every_process
from tests.tables_in_partitions import lower_limits, mixed_rows, write

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

RUN = {"draws": 8, "tune": 4, "random_seed": 5, "progressbar": False, "compute_convergence_checks": False}
HERE_ALONE = {"cores": 1, "quiet": True}
HERE = RUN | HERE_ALONE


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


@pytest.fixture
def in_parts(monkeypatch):
    lower_limits(monkeypatch)


def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": rng.normal(size=24), "g": rng.choice(["u", "v", "w"], 24)})


def model():
    with pm.Model() as built:
        ps.SPN("rows", observed=table(), concentration=pm.Gamma("c", 2, 1))
        pm.Deterministic("twice", 2 * pm.Normal("a"))
    return built


def network():
    with pm.Model() as built:
        ps.SPN("rows", observed=table())
    return built


@pytest.fixture(scope="module")
def usual(client):
    with model():
        return pm.sample(chains=2, nuts_sampler="pymc", **HERE)


def test_chains_of_workers_are_those_of_one_machine(client, usual):
    found = ps.sample_chains(model, 2, client, **RUN)
    assert_same(found, usual)
    assert found.posterior["chain"].values.tolist() == [0, 1]
    assert found.children.keys() == usual.children.keys()
    for name in ("constant_data", "observed_data"):
        assert found[name].to_dataset().equals(usual[name].to_dataset())
    one, other = (ps.SPNPosterior.from_idata(idata).log_density(table()) for idata in (found, usual))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(*found.posterior["a"].values)


def test_a_model_is_sent_with_the_start_of_its_own_distributions(client, usual):
    """The prior of the leaf shape is a `pm.CustomDist`, whose methods a pickled model leaves behind."""
    assert_same(ps.sample_chains(model(), 2, client, **RUN), usual)


def steep():
    with pm.Model() as built:
        pm.Normal("y", pm.Normal("a"), observed=[0.0, 1.0])
    return built


@pytest.mark.parametrize("build, draws, tune", [(steep, 3, 2), (network, 2, 0)])
def test_warm_up_few_draws_and_generators(client, build, draws, tune):
    """NUTS alone begins from the mean of the starts of all chains; of few draws PyMC keeps those of short chains."""
    options = RUN | {"draws": draws, "tune": tune, "discard_tuned_samples": False}
    found = ps.sample_chains(build, 2, client, **options | {"random_seed": np.random.default_rng(2)})
    here = ps.sample_chains(build, 2, **options | HERE_ALONE | {"random_seed": np.random.default_rng(2)})
    assert_same(found, here)
    if tune:
        np.testing.assert_array_equal(found.warmup_posterior["a"], here.warmup_posterior["a"])


def test_a_lost_worker_loses_one_run_of_a_chain(client, tmp_path):
    def dies_once():
        number = len(os.listdir(tmp_path))
        (tmp_path / f"{number}-{os.getpid()}").touch()
        if number == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return network()

    before = set(client.run(os.getpid).values())
    long = {"draws": 300}  # more than half a second of draws
    assert_same(ps.sample_chains(dies_once, 2, client, **RUN | long), ps.sample_chains(network, 2, **HERE | long))
    assert len(list(tmp_path.iterdir())) == 3  # two chains, and one of them again
    client.wait_for_workers(2)
    assert len(before & set(client.run(os.getpid).values())) == 1


def test_an_interrupt_ends_chains_on_workers(client):
    def is_busy(dask_worker):
        return len(dask_worker.state.executing) + len(dask_worker.state.long_running)

    def interrupt():
        while not any(client.run(is_busy).values()):
            time.sleep(0.1)
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        ps.sample_chains(network, 2, client, **RUN | {"draws": 100_000})
    other.join()
    began = time.monotonic()
    while any(client.run(threads_at_work).values()):
        assert time.monotonic() - began < 30.0, "a chain of 100,000 draws goes on"
        time.sleep(0.1)


def threads_at_work(dask_worker):
    return len(dask_worker.active_threads)


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


def test_all_workers_have_something_to_do(client, tmp_path):
    def build():
        (tmp_path / str(os.getpid())).touch()
        return network()

    def worker_of(task, shared):
        time.sleep(0.1 * shared)
        return os.getpid()

    own = set(client.run(os.getpid).values())
    ps.sample_chains(build, 2, client, **RUN)
    assert {int(file.name) for file in tmp_path.iterdir()} == own
    assert set(mapped(client, worker_of, range(4), 1)) == own


def test_islands_of_trees_are_grown_by_workers(client):
    rows = pd.DataFrame({"x": np.arange(20.0), "z": np.arange(20.0) % 3})
    options = {"particles": 20, "islands": 3, "random_seed": 1, "progressbar": False}
    here, there = (ps.fit_tree(rows, rows["x"] > 8, **options, **more) for more in ({}, {"client": client}))
    np.testing.assert_array_equal(there.log_evidence_islands, here.log_evidence_islands)
    np.testing.assert_array_equal(there.predict_proba(rows), here.predict_proba(rows))
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got 3"):
        ps.fit_tree(rows, rows["x"] > 8, **options, client=3)


def test_orders_are_drawn_by_workers(client):
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 5)), columns=list("abcde")).cumsum(axis=1)
    options = {"engine": "orders", "chains": 3, "draws": 60, "random_seed": 1, "progressbar": False}
    here, there = (ps.DagPosterior.from_data(table, **options, **more) for more in ({}, {"client": client}))
    np.testing.assert_array_equal(there.edge_probabilities(), here.edge_probabilities())
    assert there.r_hat == here.r_hat and 0.0 < float(here.edge_probabilities().max()) < 1.0 + 1e-9
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got 3"):
        ps.DagPosterior.from_data(table, client=3)


def test_trials_of_tuning_run_on_workers(client):
    pytest.importorskip("optuna")
    structure = ps.circuits.learn_tree(table(), random_seed=1)
    options = {"n_trials": 5, "trials_at_once": 2, "random_seed": 1, "progressbar": False}
    tune = ps.leaves.tune_leaf_priors
    here, there = (tune(table()[:16], structure, table()[16:], **options, **more) for more in ({}, {"client": client}))
    np.testing.assert_array_equal(there.scores, here.scores)
    assert there.ratio == here.ratio and here.scores.size == 5
    alone = tune(table()[:16], structure, table()[16:], **options | {"trials_at_once": 1})
    assert alone.scores[0] == here.scores[0]
    with pytest.raises(ValueError, match="trials_at_once must be an integer of at least 1, got 0"):
        tune(table()[:16], structure, table()[16:], **options | {"trials_at_once": 0})


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("loses_a_worker", [False, True])
def test_rows_in_partitions_are_assigned_by_workers(client, monkeypatch, tmp_path, loses_a_worker):
    before = set(client.run(os.getpid).values())
    counts = []

    def noted(client, function, tasks, *shared):
        for i, done in enumerate(mapped(client, function, tasks, *shared)):
            if loses_a_worker and i == 0 and len(counts) == 6:
                os.kill(min(before), signal.SIGKILL)
            yield done
        counts.append(len(tasks))

    folder = write(mixed_rows(), tmp_path / "table")
    options = {"random_seed": 1, "progressbar": False, "max_steps": 3}
    here = ps.fit_variational(folder, **options)
    monkeypatch.setattr(cluster_clients, "mapped", noted)
    there = ps.fit_variational(folder, client=client, **options)
    client.wait_for_workers(2)
    assert sum(counts) >= 24  # twelve blocks in the first pass, and in each of those that follow
    assert len(before & set(client.run(os.getpid).values())) == (1 if loses_a_worker else 2)
    np.testing.assert_array_equal(there._states.fit.bounds[0], here._states.fit.bounds[0])
    new = mixed_rows(40, 8)
    np.testing.assert_array_equal(there.log_density(new), here.log_density(new))


@pytest.mark.usefixtures("in_parts")
def test_a_fit_says_what_workers_lack(client, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"client is for a table in partitions.*df is DataFrame"):
        ps.fit_variational(table(), client=client)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got 3"):
        ps.fit_variational(str(tmp_path), client=3)
    folder = write(mixed_rows(), tmp_path / "table")
    monkeypatch.setattr(partitioned_fit, "check_folder", lambda client, folder: check_folder(client, folder + "-not"))
    with pytest.raises(FileNotFoundError, match=r"worker .* does not see the scratch folder .*; set TMPDIR to a"):
        ps.fit_variational(folder, client=client, random_seed=1, progressbar=False)


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
    monkeypatch.undo()
    with pytest.raises(ImportError, match=r"worker tcp://\S+ lacks no-such-package; install no-such-package=="):
        check_workers(client, ["no-such-package"])
    frozen = SimpleNamespace(run=lambda *_, **__: {}, status="running")
    assert check_workers(frozen, ["numpy"]) == {"numpy": np.__version__}  # workers may come later


def test_a_closed_client_is_named(client):
    other = distributed.Client(client.scheduler.address)
    name = other.id
    other.close()
    with pytest.raises(ValueError, match=rf"client '{name}'.* is closed; make a new one"):
        ps.sample_chains(model, 2, other)
