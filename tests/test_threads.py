"""Every public object answers eight threads at once as it answers one, its first question included."""

import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier, local
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.dags.schema import DagSchema
from pymc_spn.factor_graphs import passes
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.indian_chefs.belief_network_posterior import BeliefNetworkPosterior
from pymc_spn.indian_chefs.belief_network_schema import NONLINEAR, BeliefNetworkSchema, pack_parameters
from pymc_spn.indian_chefs.process import GraphSchema
from pymc_spn.networks.records import recorded_states
from pymc_spn.numerics import interrupts, threads
from tests.hand_made_records import sampled_tree, states_of
from tests.rounded_networks import TABLE, rounded
from tests.shared_circuits import random_parameters

THREADS = 8
GAPS = np.random.default_rng(1).random((60, 3)) < 0.1


@cache
def frame() -> pd.DataFrame:
    """Sixty rows of two clusters, a few cells missing."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 60)
    columns = {"x0": rng.gamma(2.0 + 3.0 * cluster), "x1": 1.0 * cluster, "x2": rng.poisson(1.0 + 4.0 * cluster)}
    return pd.DataFrame(columns).astype(float).mask(GAPS)


@cache
def numbers() -> pd.DataFrame:
    """Forty rows of three real columns that depend on each other."""
    x = np.random.default_rng(2).normal(size=(40, 3))
    x[:, 1] += x[:, 0]
    x[:, 2] -= x[:, 1]
    return pd.DataFrame(x, columns=list("abc"))


KINDS = {"x1": "binary", "x2": "count"}
LABELS = np.where(numbers()["a"] + numbers()["c"] > 0.0, "high", "low")
UNION = [{"x0": (0.2, 1.1)}, {"x2": (4, 6), "x1": 1}]

# ---- objects that nobody has asked yet


@cache
def record() -> Any:
    return sampled_tree("missing", draws=8)


def posterior() -> Any:
    return ps.SPNPosterior.from_idata(record())


@cache
def views() -> bytes:
    """A posterior and three views of it, which share its states."""
    post = posterior()
    views = {"marginal": post.marginal(["x0", "x2"]), "condition": post.condition({"x1": 1})}
    return pickle.dumps(SimpleNamespace(whole=post, union=post.condition(UNION), **views))


def cells() -> Any:
    return ps.SPNPosterior.from_idata(rounded()[1])


@cache
def learned() -> bytes:
    structure = ps.circuits.complete_tree(["x0", "x1", "x2"])
    few = {"max_children": 2, "restarts": 1, "max_steps": 20, "random_seed": 1, "progressbar": False}
    return pickle.dumps(ps.fit_variational(ps.Table.from_frame(frame(), KINDS), structure, **few))


@cache
def circuit() -> tuple[bytes, dict[str, Any]]:
    """A circuit, pickled, and parameters for it."""
    made = ps.circuits.complete_tree(list("abc"), n_children=2).circuit({name: ["gaussian"] for name in "abc"})
    log_weights, leaf_parameters = random_parameters(made, np.random.default_rng(3))
    return pickle.dumps(made), {"log_weights": log_weights, "leaf_parameters": leaf_parameters}


def plain_circuit() -> Any:
    return pickle.loads(circuit()[0])


def component(seed: int) -> tuple[Any, ...]:
    made = plain_circuit()
    return made, *random_parameters(made, np.random.default_rng(seed))


def composed() -> Any:
    return ps.circuits.mixture_of([component(1), component(2)])


def field() -> Any:
    rng = np.random.default_rng(4)
    graph = ps.FactorGraph({f"v{i}": 3 for i in range(6)})
    for i in range(5):
        graph.add_factor([f"v{i}", f"v{i + 1}"], rng.normal(size=(3, 3)))
    graph.add_factor(["v0", "v3"], rng.normal(size=(3, 3)))
    return graph.compile()


CODES = np.random.default_rng(5).integers(0, 3, (30, 6))
EVIDENCE = pd.DataFrame(CODES[:, [0, 3]], columns=["v0", "v3"])


@cache
def scores() -> bytes:
    return pickle.dumps(ps.LocalScores.from_data(numbers().assign(d=numbers()["a"] ** 2, e=numbers()["c"] ** 2)))


def order_posterior(make: Any) -> Any:
    return lambda: make(pickle.loads(scores()))


@cache
def regular() -> bytes:
    return pickle.dumps(ps.OrderSPN.regular(pickle.loads(scores()), [2, 2, 1], random_seed=1, progressbar=False))


def imputed_graphs() -> Any:
    whole = numbers()
    some = whole.mask(np.random.default_rng(3).random(whole.shape) < 0.1)
    return ps.dags.ImputedDagPosterior.from_data(some, [some.fillna(value) for value in (-1.0, 0.0, 1.0)])


def dag_draws() -> Any:
    rng = np.random.default_rng(6)
    schema = DagSchema("g", "order", tuple("abc"), "bge", "uniform", (), "", (0.0,) * 6)
    order = np.argsort(rng.random((2, 30, 3)), axis=-1)
    earlier = (order[..., None] > order[..., None, :]) & (rng.random((2, 30, 3, 3)) < 0.6)  # (child, parent)
    return ps.DagDraws(schema, earlier.swapaxes(-1, -2), order, np.arange(2), np.arange(30))


def graph_draws() -> Any:
    made = ps.indian_chefs.sample_indian_chefs(1.0, 1.5, 1.0, ("a", "b"), [0.0, 0.4], draws=30, random_seed=1)
    n = made.sizes["node"]
    schema = GraphSchema("g", ("a", "b"), (0.0, 0.4), n, (1.0, (), ()), {})
    hyperparameters = {"alpha": np.ones((1, 30)), "phi": np.ones((1, 30))}
    arrays = made["n_active"].values, made["reputations"].values, made["parents"].values.astype(bool)
    return ps.GraphDraws(schema, *(a[None] for a in arrays), xr.Dataset(), hyperparameters, np.arange(1), np.arange(30))


def network() -> Any:
    weights = np.zeros((3, 3))
    weights[2, :2] = 1.5, -2.0
    schema = BeliefNetworkSchema("data", "g", NONLINEAR, ("x", "y"), {}, None, 5)
    packed = pack_parameters(weights, np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 4.0]), 5)[None, None]
    labels: Any = SimpleNamespace(chains=np.arange(1), draws=np.arange(1), _mixing=None, _picture=lambda: "")
    return BeliefNetworkPosterior(schema, packed, labels)


@cache
def trees() -> bytes:
    few = {"particles": 6, "islands": 2, "random_seed": 1, "progressbar": False}
    return pickle.dumps(ps.fit_tree(numbers()[["b", "c"]], LABELS, **few))


def exact_trees() -> Any:
    return ps.trees.exact_tree_evidence(numbers()[["b"]], LABELS, max_depth=2)


SMALL = {"max_children": 2, "max_steps": 10, "restarts": 1, "random_state": 1, "progressbar": False}
SAMPLED = {"method": "sampling", "draws": 6, "tune": 2, "chains": 2, "n_jobs": 1, "random_state": 1}
GAPPED = numbers().mask(np.random.default_rng(7).random((40, 3)) < 0.2)


@cache
def estimator(name: str) -> bytes:
    """A fitted estimator; its pickle has no memo of what was asked."""
    pytest.importorskip("sklearn")
    kind = getattr(ps.sklearn, name)
    if name.startswith("BayesianTree"):
        y = LABELS if name.endswith("Classifier") else numbers()["a"]
        made = kind(particles=6, islands=2, random_state=1, progressbar=False).fit(numbers()[["b", "c"]], y)
    elif name == "SPNClassifier":
        made = kind(**SAMPLED, progressbar=False).fit(numbers(), LABELS)
    elif name == "SPNRegressor":
        made = kind(**SMALL).fit(numbers()[["b", "c"]], numbers()["a"])
    else:
        made = kind(**({} if name == "OrderDAG" else SMALL)).fit(numbers())
    return pickle.dumps(made)


def fresh(pickled: Any, *arguments: Any) -> Any:
    return lambda: pickle.loads(pickled(*arguments))


# ---- questions

ROWS = frame()
OF_A_POSTERIOR: dict[str, Any] = {
    "log_density": lambda p: p.log_density(ROWS),
    "per_draw": lambda p: p.log_density(ROWS[::-1], per_draw=True),
    "marginal": lambda p: p.marginal(["x0", "x2"]).log_density(ROWS[["x0", "x2"]]),
    "condition": lambda p: p.condition({"x1": 1, "x0": (0.2, None)}).log_density(ROWS[["x0", "x2"]]),
    "union": lambda p: p.condition(UNION).log_density(ROWS),
    "probability": lambda p: p.probability({"x0": (0.5, 2.0)}, given={"x2": (0, 3)}),
    "predict": lambda p: p.predict(ROWS[["x0", "x2"]], "x1"),
    "covariance": lambda p: p.cov(given={"x2": (1, 9)}),
    "quantile": lambda p: p.quantile([0.1, 0.5], "x0", given={"x1": 1}),
    "sample": lambda p: p.sample(20, random_seed=1),
    "impute": lambda p: p.impute(ROWS, random_seed=2),
    "as_circuit": lambda p: p.as_circuit(max_draws=3).log_density(ROWS),
    "mpe": lambda p: p.mpe({"x1": 1}),
}
FROM_DRAWS = {
    "leave_one_out": lambda p: p.log_likelihood()["x"],
    "co_clustering": lambda p: p.co_clustering(),
    "nearest_rows": lambda p: p.nearest_rows(ROWS, k=2),
    "draw_circuits": lambda p: p.draw_circuits(2, random_seed=1)[1].log_density(ROWS),
}
OF_A_CIRCUIT = {
    "log_density": lambda c: c.log_density(GAPPED),
    "single rows": lambda c: [c.log_density(GAPPED[i : i + 1]) for i in range(5)],
    "sample": lambda c: c.sample(10, random_seed=1),
    "impute": lambda c: c.impute(GAPPED, random_seed=1),
    "moments": lambda c: c.moments(GAPPED),
    "probability": lambda c: c.probability({"a": (0.0, 1.0)}, given={"b": (None, 1.0)}),
    "log_probability_of_rows": lambda c: c.log_probability_of_rows({"a": GAPPED["a"]}, given={"b": (None, 1.0)}),
    "mpe": lambda c: c.mpe({"a": 0.5}),
}
OF_A_LEARNED_CIRCUIT = {
    "log_density": lambda c: c.log_density(ROWS),
    "sample": lambda c: c.sample(10, random_seed=1),
    "probability": lambda c: c.probability({"x0": (0.5, 2.0)}, given={"x1": 1}),
}
OF_ORDERS = {
    "edges": lambda p: p.edge_probabilities(),
    "given": lambda p: p.edge_probabilities(given={"present": [("a", "b")]}),
    "before": lambda p: p.before_probabilities(),
    "condition": lambda p: p.condition(absent=[("b", "c")]).log_mass,
    "sample": lambda p: p.sample(5, random_seed=1),
    "parents": lambda p: p.parent_set_probabilities("c"),
    "repr": repr,
}

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "SPNPosterior": (posterior, OF_A_POSTERIOR | FROM_DRAWS),
    "views of one posterior": (
        fresh(views),
        {
            "whole": lambda v: v.whole.log_density(ROWS),
            "marginal": lambda v: v.marginal.log_density(ROWS[["x0", "x2"]]),
            "condition": lambda v: v.condition.log_density(ROWS[["x0", "x2"]]),
            "union": lambda v: v.union.log_density(ROWS),
            "cdf": lambda v: v.union.cdf([0.5, 1.0], "x0"),
            "mean": lambda v: [v.condition.mean(), v.marginal.mean(), v.union.mean()],
            "sample": lambda v: [v.marginal.sample(5, random_seed=1), v.union.sample(5, random_seed=1)],
        },
    ),
    "posterior without room": (
        posterior,
        {name: OF_A_POSTERIOR[name] for name in ("log_density", "union", "predict", "sample")},
    ),
    "rounded posterior": (
        cells,
        {
            "log_density": lambda p: p.log_density(TABLE),
            "leave_one_out": lambda p: p.log_likelihood()[p.name],
            "sample": lambda p: p.sample(5, random_seed=1),
        },
    ),
    "VariationalPosterior": (fresh(learned), OF_A_POSTERIOR),
    "PosteriorCircuit": (lambda: posterior().as_circuit(max_draws=3), OF_A_LEARNED_CIRCUIT),
    "DrawnCircuit": (lambda: posterior().draw_circuits(1, random_seed=1)[0], OF_A_LEARNED_CIRCUIT),
    "LabelledCircuit": (
        lambda: posterior().as_circuit(max_draws=3).condition("x0 > 0.2 or x1 == 1"),
        OF_A_LEARNED_CIRCUIT | {"mpe": lambda c: c.mpe(), "mean": lambda c: c.mean()},
    ),
    "Circuit": (
        plain_circuit,
        {
            "log_density": lambda c: c.with_parameters(**circuit()[1]).log_density(GAPPED),
            "impute": lambda c: c.with_parameters(**circuit()[1]).impute(GAPPED, random_seed=1),
            "moments": lambda c: c.with_parameters(**circuit()[1]).moments(GAPPED),
        },
    ),
    "mixture of circuits": (composed, OF_A_CIRCUIT),
    "JunctionTree": (
        field,
        {
            "log_z": lambda t: t.log_z,
            "marginals": lambda t: t.infer(EVIDENCE).marginals(),
            "pairwise": lambda t: t.infer(EVIDENCE[:3]).pairwise("v1", "v5"),
            "map": lambda t: t.infer(EVIDENCE).map(),
            "circuit": lambda t: t.to_circuit().log_density(CODES),
        },
    ),
    "Inference": (
        lambda: field().infer(EVIDENCE),
        {
            "log_evidence": lambda i: i.log_evidence,
            "map": lambda i: i.map(),
            "kbest": lambda i: i.kbest(3),
            "factors": lambda i: i.factor_marginal(1),
            "entropy": lambda i: i.entropy(),
            "sample": lambda i: i.sample(3, random_seed=1),
        },
    ),
    "FieldCircuit": (lambda: field().to_circuit(), {"log_density": lambda c: c.log_density(CODES)}),
    "LocalScores": (fresh(scores), {"log_sums": lambda s: s.log_sums, "of": lambda s: s.of("a"), "repr": repr}),
    "OrderSPN.exact": (order_posterior(lambda s: ps.OrderSPN.exact(s, progressbar=False)), OF_ORDERS),
    "OrderSPN.regular": (fresh(regular), OF_ORDERS | {"tree": lambda p: p.tree.n_orders()}),
    "ImputedDagPosterior": (
        imputed_graphs,
        {k: v for k, v in OF_ORDERS.items() if k != "condition"}
        | {"condition": lambda p: p.condition(absent=[("b", "c")]).edge_probabilities()},
    ),
    "DagDraws": (
        dag_draws,
        {
            "edges": lambda g: g.edge_probabilities(),
            "diagnostics": lambda g: g.edge_diagnostics(),
        },
    ),
    "GraphDraws": (
        graph_draws,
        {
            "ancestors": lambda g: g.common_ancestor_probabilities(),
            "popularities": lambda g: g.popularities(random_seed=1),
        },
    ),
    "BeliefNetworkPosterior": (
        network,
        {
            "log_density": lambda p: p.log_density([[0.2, 0.4], [0.7, 0.3]], n_pool=50, random_seed=1),
            "sample": lambda p: p.sample(20, random_seed=1),
            "given": lambda p: p.sample(20, given={"x": 0.3}, n_pool=50, random_seed=1),
            "predict": lambda p: p.predict([[0.2, np.nan]], "y", n_pool=50, random_seed=1),
            "impute": lambda p: p.impute([[0.2, np.nan]], n_pool=50, random_seed=1),
        },
    ),
    "TreePosterior": (
        fresh(trees),
        {
            "predict_proba": lambda p: p.predict_proba(numbers()[["b", "c"]]),
            "log_predictive": lambda p: p.log_predictive(numbers()[["b", "c"]], LABELS),
            "importance": lambda p: p.variable_importance(),
            "dependence": lambda p: p.partial_dependence("b", grid=[-1.0, 1.0]),
            "log_joint": lambda p: p.log_joint,
        },
    ),
    "ExactTrees": (
        exact_trees,
        {
            "sample": lambda t: [x.decisions for x in t.sample_trees(5, random_seed=1)],
            "splits": lambda t: t.root_splits(),
        },
    ),
    "SPNDensity": (
        fresh(estimator, "SPNDensity"),
        {"scores": lambda e: e.score_samples(numbers()), "sample": lambda e: e.sample(5, random_state=1)},
    ),
    "SPNClassifier": (
        fresh(estimator, "SPNClassifier"),
        {"proba": lambda e: e.predict_proba(numbers()), "predict": lambda e: e.predict(GAPPED)},
    ),
    "SPNRegressor": (fresh(estimator, "SPNRegressor"), {"predict": lambda e: e.predict(GAPPED[["b", "c"]])}),
    "SPNImputer": (fresh(estimator, "SPNImputer"), {"transform": lambda e: e.transform(GAPPED)}),
    "SPNOutlierDetector": (
        fresh(estimator, "SPNOutlierDetector"),
        {"scores": lambda e: e.score_samples(GAPPED), "predict": lambda e: e.predict(numbers())},
    ),
    "BayesianTreeClassifier": (
        fresh(estimator, "BayesianTreeClassifier"),
        {"proba": lambda e: e.predict_proba(numbers()[["b", "c"]])},
    ),
    "BayesianTreeRegressor": (
        fresh(estimator, "BayesianTreeRegressor"),
        {"predict": lambda e: e.predict(numbers()[["b", "c"]])},
    ),
    "OrderDAG": (fresh(estimator, "OrderDAG"), {"edges": lambda e: e.posterior_.edge_probabilities()}),
}  # fmt: skip


# ---- tests


@pytest.fixture
def often():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def no_room(request, monkeypatch):
    """No network is kept where the case is about that."""
    if "posterior without room" in request.node.name:
        monkeypatch.setattr(recorded_states, "KEPT_BYTES", 0)


@pytest.fixture
def small_pieces(monkeypatch):
    """Whatever may go over threads does, in small pieces."""
    whole = threads.for_each

    def for_each(call: Any, pieces: Any, several: bool = True) -> None:
        whole(call, pieces, True)

    for module in list(sys.modules.values()):
        if module.__name__.startswith("pymc_spn.") and getattr(module, "for_each", None) is whole:
            monkeypatch.setattr(module, "for_each", for_each)
    monkeypatch.setattr(passes, "PIECE", 1)


def parts_of(answer: Any) -> Any:
    """An answer as nested dictionaries, lists and arrays."""
    if isinstance(answer, xr.DataTree):
        return {path: parts_of(node.to_dataset()) for path, node in answer.subtree_with_keys}
    if isinstance(answer, xr.Dataset | xr.DataArray):
        return answer.to_dict()
    if isinstance(answer, pd.DataFrame):
        columns = {name: answer[name].tolist() for name in answer}
        return {"index": list(answer.index), "columns": columns, "attrs": answer.attrs}
    if isinstance(answer, Mapping):
        return {name: parts_of(part) for name, part in answer.items()}
    if isinstance(answer, list | tuple):
        return [parts_of(part) for part in answer]
    return parts_of(vars(answer)) if hasattr(answer, "__dict__") and not isinstance(answer, type) else answer


def answers_of(asked: Any, questions: Mapping[str, Any], first: int = 0) -> dict[str, Any]:
    """Answers to all questions, beginning with number ``first``."""
    names = list(questions)
    return {
        names[i % len(names)]: parts_of(questions[names[i % len(names)]](asked))
        for i in range(first, first + len(names))
    }


@pytest.mark.parametrize("case", CASES)
def test_every_object_says_in_a_line_what_it_is(case):
    made = CASES[case][0]()
    for shown in vars(made).values() if isinstance(made, SimpleNamespace) else (made,):
        assert type(shown).__name__ in repr(shown) and len(repr(shown)) <= 300 and "array" not in repr(shown)
        if not hasattr(shown, "get_params"):  # estimators have a page of scikit-learn
            html = shown._repr_html_()
            assert f"<strong>{type(shown).__name__}</strong>" in html and len(html) < 20_000


@pytest.mark.parametrize("case", CASES)
def test_eight_threads_are_answered_as_one_is(case, often):
    make, questions = CASES[case]
    expected = answers_of(make(), questions)
    asked, barrier = make(), Barrier(THREADS)

    def ask(i: int) -> dict[str, Any]:
        barrier.wait()
        return answers_of(asked, questions, i // 2)  # two begin with the same question

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    for answers in [*found, answers_of(asked, questions)]:  # and nothing is wrong afterwards
        for name in questions:
            np.testing.assert_equal(answers[name], expected[name], f"{case}, {name}")


@pytest.mark.parametrize("case", CASES)
def test_answers_do_not_depend_on_the_number_of_threads(case, often, small_pieces):
    make, questions = CASES[case]
    with ps.parallel_config(n_jobs=1):
        expected = answers_of(make(), questions)
    with ps.parallel_config(n_jobs=5):
        np.testing.assert_equal(answers_of(make(), questions), expected)


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(os, "process_cpu_count", lambda: 6, raising=False)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 4)
    found = {}
    for n_jobs in (None, 1, 9, -1, -2, -9):
        with ps.parallel_config(n_jobs):
            found[n_jobs] = threads.n_threads()
            with ps.parallel_config(None):
                assert threads.n_threads() == found[n_jobs]
    assert found == {None: 4, 1: 1, 9: 9, -1: 4, -2: 3, -9: 1} and threads.n_threads() == 4


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "all"])
def test_numbers_of_threads_that_are_none(n_jobs):
    with pytest.raises((TypeError, ValueError), match="n_jobs must"), ps.parallel_config(n_jobs):
        pass


def test_pieces_run_at_once_with_no_further_threads_and_end_after_an_error():
    barrier, within, begun = Barrier(3), [], []

    def piece(i: int) -> None:
        barrier.wait(10)  # which none passes alone
        within.append(threads.n_threads())

    with ps.parallel_config(3):
        threads.for_each(piece, range(3))
    assert within == [1, 1, 1]

    def fails(i: int) -> None:
        begun.append(i)
        if i == 1:
            raise ZeroDivisionError
        wait(lambda: interrupts.interrupt_is_waiting())  # as kernels do

    def on_two() -> None:
        with ps.parallel_config(2):
            threads.for_each(fails, range(100))

    with pytest.raises(ZeroDivisionError), ThreadPoolExecutor(1) as pool:
        pool.submit(on_two).result()  # not from the main thread, which only Ctrl-C stops
    assert len(begun) <= 2
    wait(lambda: not interrupts._told)  # the other thread ends by itself


def wait(until: Any) -> None:
    for _ in range(10_000):
        if until():
            return
        sleep(1e-3)
    raise TimeoutError


def kept_arrays(thing: Any, seen: dict[int, Any]) -> Iterator[np.ndarray]:
    """All arrays that an object of the package holds, each once."""
    if id(thing) in seen or isinstance(thing, Sampler | local):  # what builds networks under a lock, a thread's own
        return
    seen[id(thing)] = thing
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Mapping):
        for part in list(thing.values()):
            yield from kept_arrays(part, seen)
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from kept_arrays(part, seen)
    elif isinstance(thing, SimpleNamespace) or type(thing).__module__.startswith("pymc_spn"):
        yield from kept_arrays(getattr(thing, "__dict__", {}), seen)


@pytest.mark.parametrize("case", CASES)
def test_questions_write_into_nothing_that_is_kept(case):
    """Scratch belongs to the question: what one left in the object, another thread's would read."""
    make, questions = CASES[case]
    asked = make()
    answers_of(asked, questions)
    for name, question in questions.items():
        kept = [(array, array.tobytes()) for array in kept_arrays(asked, {}) if array.dtype != object]
        question(asked)
        assert all(array.tobytes() == before for array, before in kept), name


def test_an_array_that_is_written_is_seen():
    states = states_of(sampled_tree())
    net = states.network(0)
    before = sum(array.sum() for array in kept_arrays(states, {}) if array.dtype == float)
    net.edges.weight[0] += 1.0
    assert sum(array.sum() for array in kept_arrays(states, {}) if array.dtype == float) != before
