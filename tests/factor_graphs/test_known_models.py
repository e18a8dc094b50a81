"""Models whose likelihood has a form of its own: change points, a topic-like mixture, a Potts ring."""

import re
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_spn as ps
from tests.factor_graphs.hidden_chains import log_emission

PLAIN = "FAST_COMPILE"


def test_change_points_equal_the_sum_over_all_of_them():
    """Left to right through three levels: sum over both change points, with geometric durations."""
    y = np.array([0.1, -0.4, 2.2, 1.7, np.nan, 4.1, 3.8])
    n = y.size
    with pm.Model() as model:
        leave = pm.Beta("leave", 1, 1, shape=2)
        stay = pt.log1p(-leave)
        gone = pt.log(leave)
        table = pt.stack(
            [
                pt.stack([stay[0], gone[0], -np.inf]),
                pt.stack([-np.inf, stay[1], gone[1]]),
                pt.stack([-np.inf, -np.inf, 0.0]),
            ]
        )
        z = ps.DiscreteField("z", ps.FactorGraph.hmm(n, np.array([0.0, -np.inf, -np.inf]), table))
        levels = np.array([0.0, 2.0, 4.0])
        ps.FieldEmission("y", z, components={"v": pm.Normal.dist(levels, 1.0)}, observed={"v": y})
    p = np.array([0.2, 0.6])
    emission = log_emission(y, levels)
    terms = []
    for first in range(1, n + 1):  # the first step of level 1, n if never
        for second in range(first + 1, n + 1):
            states = np.array([0] * first + [1] * (second - first) + [2] * (n - second))
            prior = (first - 1) * np.log(1 - p[0]) + np.log(p[0]) + (second - first - 1) * np.log(1 - p[1])
            terms.append(prior + (np.log(p[1]) if second < n else 0.0) + emission[np.arange(n), states].sum())
        if first == n:
            terms.append((n - 1) * np.log(1 - p[0]) + emission[:, 0].sum())
    (rv,) = model.observed_RVs
    f = model.compile_logp(vars=[rv], mode=PLAIN)
    assert f({"leave_logodds__": np.log(p / (1 - p))}) == pytest.approx(np.logaddexp.reduce(terms), rel=1e-12)
    slope = model.compile_dlogp(mode=PLAIN)({"leave_logodds__": np.log(p / (1 - p))})
    assert np.all(np.isfinite(slope))  # -inf entries of the table do not spoil the gradient


def test_a_topic_like_mixture_with_gaps_equals_its_closed_form():
    """log sum over topics of weight times the product of word probabilities, one term a document."""
    rng = np.random.default_rng(0)
    n_topics, n_words, length = 3, 5, 4
    weight = rng.dirichlet(np.ones(n_topics))
    words = [["tea", "cat", None, "cat"], ["dog", "dog", "sun", None], [None] * 4]
    labels = ["cat", "dog", "sun", "tea", "yes"]
    with pm.Model() as model:
        phi = pm.Dirichlet("phi", np.ones((n_topics, n_words)))
        fg = ps.FactorGraph({"topic": n_topics} | {f"w{i}": labels for i in range(length)})
        fg.add_factor(("topic",), np.log(weight))
        fg.add_factors([("topic", f"w{i}") for i in range(length)], pt.log(phi))
        z = ps.DiscreteField("z", fg)
        ps.FieldEmission("words", z, observed={f"w{i}": [d[i] for d in words] for i in range(length)})
    value = rng.dirichlet(np.ones(n_words), size=n_topics)
    (rv,) = model.observed_RVs
    free = model.free_RVs[0]
    spec = rv.tag.field_emission
    log_p = pytensor.function([free], spec.log_density(pt.constant(spec.values), z.potentials), mode=PLAIN)(value)
    for found, document in zip(log_p, words, strict=True):
        seen = [labels.index(w) for w in document if w is not None]
        assert found == pytest.approx(np.log(np.sum(weight * np.prod(value[:, seen], axis=1))), abs=1e-13)


def test_a_potts_ring_equals_its_transfer_matrix():
    for beta, n, q in ((0.8, 24, 3), (-1.5, 7, 4)):
        ring = ps.FactorGraph.potts(n, q, beta, periodic=True).compile()
        known = np.log((np.exp(beta) + q - 1) ** n + (q - 1) * (np.exp(beta) - 1) ** n)
        assert ring.log_z == pytest.approx(known, rel=1e-13)


def test_the_model_of_the_page_runs_and_its_chains_agree(monkeypatch):
    """Its states switched labels: R-hat was 1.5 to 2.4."""
    page = (Path(ps.__file__).parents[1] / "docs" / "factor_graphs.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (block,) = [one for one in blocks if "FactorGraph.hmm(series" in one]
    sample = pm.sample
    few = {"draws": 250, "tune": 250, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    monkeypatch.setattr(pm, "sample", lambda **own: sample(**few, **own, compute_convergence_checks=False))
    names = {}
    exec(block, names)
    assert float(az.rhat(names["idata"])["mu"].max()) < 1.05
    best = names["states"]["z_map"].isel(chain=0, draw=-1).values
    assert np.mean(best == np.repeat([1, 2, 0, 1], 50)) > 0.95
