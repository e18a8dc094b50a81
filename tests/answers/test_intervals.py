"""How often intervals of answers hold the truth, and what one draw of weights and leaf parameters is."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.leaves import Categorical, Gaussian, Poisson
from pymc_spn.networks.records import recorded_states
from pymc_spn.networks.records.record import Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.tables import Column
from tests.hand_made_records import weighted_posterior
from tests.network_problems import reference_problem
from tests.reference import simulate
from tests.sampled_runs import draw, model_of

pytestmark = pytest.mark.filterwarnings("ignore:.*R-hat of the log joint")  # of short chains
COLUMNS = (
    Column("y", "real", None, "float64"),
    Column("b", "binary", ("no", "yes"), "str"),
    Column("n", "count", None, "int64"),
)
PALETTE = ((Gaussian(mean=0.5, variance=2.0),), (Categorical(probabilities=(0.5, 0.5)),), (Poisson(mean=2.0),))
ROWS, STATES, THIN = 40, 30, 2
QUESTIONS = {
    "share": lambda of, **how: of.probability({"b": "yes"}, **how),
    "mean": lambda of, **how: of.mean(**how).sel(column="y"),
    "mean of counts": lambda of, **how: of.mean(**how).sel(column="n"),
    "conditional probability": lambda of, **how: of.probability({"b": "yes"}, {"y": (0.5, None)}, **how),
    "quantile": lambda of, **how: of.quantile(0.8, "y", **how),
}


def fixed_schema(width):
    tree = complete_tree([c.name for c in COLUMNS], n_children=width)
    scaled = dict(resolution=(0.0,) * 3, centre=(0.3, 0.0, 0.0), scale=(1.7, 1.0, 1.0))
    return NetworkSchema("x", tree, COLUMNS, PALETTE, **scaled, hyperparameters={}, start="prior")


def posterior(schema, table, digits, h):
    """The posterior object of assignments (S, N, R), hyperparameters known."""
    n = len(digits)
    known = {k: np.tile(v, (1, n, 1)) for k, v in zip(HYPERPARAMETERS, h, strict=True)}
    labels = np.arange(len(table)), np.array([digits]), np.zeros(1, int), np.arange(n)
    own = Record(schema, table, *labels, known, {}, np.zeros((1, n), int))
    return weighted_posterior(RecordedStates(own))


def coverage(width, runs, seed=1, prob=0.9):
    """How many of the 90 % intervals of each question hold the truth of a network that was drawn from the prior."""
    schema, rng = fixed_schema(width), np.random.default_rng(seed)
    h, held = [np.ones(2), np.ones(3), np.full(3, 2.0), np.ones(3), np.ones(3)], dict.fromkeys(QUESTIONS, 0)
    for _ in range(runs):
        table, digits = simulate(reference_problem(schema, None, h), ROWS, rng, np.ones((ROWS, 3), bool))
        truth = posterior(schema, table, digits[None], h).draw_circuits(1, rng)[0]
        chain = Chain(schema, table, "exact")
        chain.set_hyperparameters(h)
        chain.set_digits(digits.astype(np.int32))  # a draw of the posterior
        states = []
        for i in range(STATES * THIN):
            chain.sweep(rng)
            if i % THIN == THIN - 1:
                states.append(chain.sampler.digits())
        post = posterior(schema, table, np.array(states), h)
        for name, ask in QUESTIONS.items():
            _, lower, upper = ask(post, interval=prob).values
            held[name] += lower <= ask(truth).item() <= upper
    return held


def bounds(runs, prob=0.9):
    """Counts of intervals that hold, within which a calibrated sampler stays but once in 10,000 questions."""
    expected = prob * (STATES - 1) / (STATES + 1)  # of ends that are quantiles of so many draws
    return stats.binom(runs, expected).ppf([5e-5, 1.0 - 5e-5])


def test_intervals_hold_the_truth_as_often_as_they_say():
    held, (least, most) = coverage(3, 40), bounds(40)
    assert all(least <= n <= most for n in held.values()), held


@pytest.mark.full
def test_intervals_of_infinite_networks_hold_the_truth():
    """400 networks of infinite width. Some ten minutes."""
    held, (least, most) = coverage("infinite", 400, seed=2), bounds(400)
    assert all(least <= n <= most for n in held.values()), held


def test_conditional_means_are_no_posterior(monkeypatch):
    """What was taught before: 40 networks are enough to see that these intervals are too narrow."""
    monkeypatch.setattr(recorded_states, "draw_parameters", lambda net, *rest: net)
    held, (least, _) = coverage(3, 40), bounds(40)
    assert sum(held[name] < least for name in ("share", "mean", "mean of counts", "quantile")) >= 3, held


def sampled(df, draws, **arguments):
    return ps.SPNPosterior.from_idata(draw(model_of(observed=df, **arguments), draws=draws, tune=draws))


def test_one_draw_answers_all_questions_alike():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"y": rng.normal(size=40), "b": rng.random(40) < 0.3, "n": rng.poisson(3, 40)})
    post = sampled(df, 100)
    yes, no = (post.probability({"b": b}, {"y": (0, None)}, per_draw=True) for b in (True, False))
    np.testing.assert_allclose(yes + no, 1.0, rtol=1e-12)
    joint, above = (post.probability(e, per_draw=True) for e in ({"b": True, "y": (0, None)}, {"y": (0, None)}))
    np.testing.assert_allclose(joint / above, yes, rtol=1e-9)
    q = post.quantile(0.3, "y", per_draw=True)
    at = np.unique(q.values)[::20]
    below = post.cdf(at, "y", per_draw=True).values
    for k, x in enumerate(at):
        np.testing.assert_allclose(below[..., k][q.values == x], 0.3, atol=1e-9)
    means = np.exp(post.log_density(df.head(5), per_draw=True)).mean(("chain", "draw"))
    np.testing.assert_allclose(np.log(means), post.log_density(df.head(5)), atol=0.1)  # 200 draws
    assert post.mean(per_draw=True).equals(ps.SPNPosterior(post._law).mean(per_draw=True))


def test_centres_are_known_where_they_are_given():
    """Those of the table are unknown means of leaves, those that were given are not."""
    df = pd.DataFrame({"y": np.arange(30.0) ** 1.5, "n": np.arange(30) % 7, "b": np.arange(30) % 3 == 0})
    found = []
    for leaves in (None, {"y": Gaussian(mean=3.0), "n": Poisson(mean=2.0), "b": Categorical(probabilities=(0.5, 0.5))}):
        post = sampled(df, 4, leaves=leaves, kinds={"n": "count"}, joint_leaves=None)
        found.append(post._states.taken.tolist())
    assert all(found[0]) and len(found[1]) == 3 and not any(found[1])


def test_what_has_no_interval_says_so():
    fit = ps.fit_variational(pd.DataFrame({"y": np.arange(20.0) ** 1.5}), random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match=r"interval needs draws .* VariationalPosterior has one state"):
        fit.mean(interval=0.9)
    post = sampled(pd.DataFrame({"b": [True, False] * 10}), 4)
    with pytest.raises(ValueError, match="interval must be within 0 and 1, got 90"):
        post.probability({"b": True}, interval=90)


def normal_gamma_mean(x):
    """Law of the mean under the prior mean 0.5, ratio 1, shape 1.5 and variance 2."""
    rho, a = 1.0 + x.size, 1.5 + 0.5 * x.size
    b = 3.0 + 0.5 * ((x - x.mean()) ** 2).sum() + 0.5 * x.size / rho * (x.mean() - 0.5) ** 2
    return stats.t(2.0 * a, (0.5 + x.sum()) / rho, np.sqrt(b / (a * rho)))


CONJUGATE = {
    # kind, leaves, values, and the law of the leaf's mean after them: prior constants are those of scale 1
    "normal": ("real", Gaussian(mean=0.5, variance=2.0), lambda rng: rng.normal(1.0, 2.0, 120), normal_gamma_mean),
    "exponential": (
        "positive",
        ps.leaves.Exponential(mean=1.5),
        lambda rng: rng.exponential(2.0, 120),
        lambda x: stats.invgamma(x.size + 1.5, scale=x.sum() + 1.5),
    ),
    "poisson": (
        "count",
        Poisson(mean=2.0),
        lambda rng: rng.poisson(3.0, 120),
        lambda x: stats.gamma(x.sum() + 2.0, scale=1.0 / (x.size + 1.0)),
    ),
    "binomial": (
        "count",
        ps.leaves.Binomial(6, mean=2.0),
        lambda rng: rng.binomial(6, 0.3, 120),
        lambda x: stats.beta(x.sum() + 2.0, 6 * x.size - x.sum() + 4.0, scale=6.0),
    ),
    "geometric": (
        "count",
        ps.leaves.Geometric(mean=2.0),
        lambda rng: rng.geometric(0.3, 120) - 1,
        lambda x: stats.betaprime(x.sum() + 2.0, x.size + 1.0),
    ),
    "binary": (
        "binary",
        Categorical(probabilities=(0.5, 0.5)),
        lambda rng: rng.random(120) < 0.3,
        lambda x: stats.beta(x.sum() + 1.0, x.size - x.sum() + 1.0),
    ),
}


def test_each_leaf_has_the_posterior_of_its_family():
    """One leaf for each column, 2,000 draws: ends within four standard errors, and a share of the prior, of the exact
    ones."""
    rng, names = np.random.default_rng(4), list(CONJUGATE)
    x = np.column_stack([values(rng) for _, _, values, _ in CONJUGATE.values()]).astype(float)
    dtypes = {"real": "float64", "positive": "float64", "count": "int64", "binary": "int64"}
    columns = tuple(
        Column(name, kind, (0, 1) if kind == "binary" else None, dtypes[kind]) for name, (kind, *_) in CONJUGATE.items()
    )
    d, tree = len(names), complete_tree(names, n_children=1)
    scaled = dict(resolution=(0.0,) * d, centre=(0.0,) * d, scale=(1.0,) * d)
    palette = tuple((entry,) for _, entry, *_ in CONJUGATE.values())
    schema = NetworkSchema("x", tree, columns, palette, **scaled, hyperparameters={}, start="prior")
    h = [np.ones(2), np.ones(d), np.full(d, 1.5), np.ones(d), np.ones(d)]
    post = posterior(schema, x, np.zeros((2_000, len(x), tree.n_regions), int), h)
    mean, q = post.mean(per_draw=True), np.array([0.05, 0.95])
    for name, (*_, law), values in zip(names, CONJUGATE.values(), x.T, strict=True):
        found, exact = mean.sel(column=name).values.ravel(), law(values)
        ends = exact.ppf(q)
        error = 4.0 * np.sqrt(q * (1.0 - q) / found.size) / exact.pdf(ends)
        assert (np.abs(np.quantile(found, q) - ends) < error + 0.03 * np.diff(ends)).all(), (name, ends)


def test_leaves_over_several_columns_have_their_posterior():
    """Means and a covariance of 200 normal rows: ends within a sixth of the width of those of large samples."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=(200, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    r = (y[:, 0] * y[:, 1]).mean()
    post = sampled(pd.DataFrame(y, columns=["a", "b"]), 250)
    assert post._states.has_joints
    for found, centre, sd in (
        (post.mean(interval=0.9).sel(column="a"), 0.0, np.sqrt(1.0 / 200)),
        (post.cov(interval=0.9).sel(column="a", other="b"), r, np.sqrt((1.0 + r**2) / 200)),
    ):
        width = 2.0 * 1.645 * sd
        np.testing.assert_allclose(found[1:], [centre - 0.5 * width, centre + 0.5 * width], atol=width / 6.0)
