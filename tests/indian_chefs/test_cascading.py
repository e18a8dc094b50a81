"""The two cascading buffets: probabilities of graphs against frequencies of draws, the law of a layer, refusals."""

from collections import Counter

import numpy as np
import pytest

import pymc_spn as ps

Cascade = ps.indian_chefs.CascadingIBP


def canonical(parents, layers):
    """Units of each layer ordered by their children; None where two that are alike have different parents."""
    n = len(layers)
    order = sorted(range(n), key=lambda k: (layers[k], tuple(~parents[k]) if layers[k] else (k,)))
    for _ in range(int(layers.max()) + 1):
        z = parents[np.ix_(order, order)].astype(int)
        at = layers[order]
        place = sorted(range(n), key=lambda k: (at[k], tuple(-z[k]) if at[k] else (k,)))
        order = [order[p] for p in place]
    z = parents[np.ix_(order, order)]
    at = layers[order]
    for k in range(n - 1):
        if at[k] == at[k + 1] > 0 and (z[k] == z[k + 1]).all() and (z[:, k] != z[:, k + 1]).any():
            return None
    return z.tobytes(), tuple(at)


@pytest.mark.parametrize("passes_layers", [False, True])
@pytest.mark.parametrize(("mass", "beta"), [(0.6, 1.0), ((0.8, 0.5), (2.0, 0.7))])
def test_probabilities_are_the_frequencies_of_draws(passes_layers, mass, beta):
    prior = Cascade(mass, beta, 2, passes_layers)
    draws = prior.sample(30_000, random_seed=1)
    found, held = Counter(), {}
    for s, n in enumerate(draws.n_active.values):
        parents, layers = draws.parents.values[s, :n, :n], draws.layers.values[s, :n]
        key = canonical(parents, layers)
        if key is not None:
            found[key] += 1
            held[key] = parents, layers
    seen = 0
    for key, count in found.most_common(25):
        p = np.exp(prior.log_density(*held[key]))
        assert abs(count / 30_000 - p) < 4.5 * np.sqrt(p * (1 - p) / 30_000)
        seen += len(key[1]) > 3
    assert seen > 3


def test_first_layer_is_poisson_and_edges_respect_layers():
    prior = Cascade(1.0, 2.0, ["a", "b", "c"])
    draws = prior.sample(5000, random_seed=2)
    width = (draws.layers == 1).sum("node").values
    rate = (2.0 / (2.0 + np.arange(3))).sum()
    assert abs(width.mean() - rate) < 5 * np.sqrt(rate / 5000)
    assert abs(width.var() - rate) < 0.25
    k, i = np.nonzero(draws.parents.values[0])
    assert (draws.layers.values[0][k] - draws.layers.values[0][i] == 1).all()
    assert list(draws.node.values[:3]) == ["a", "b", "c"]


def test_only_the_extended_prior_passes_layers():
    parents = np.zeros((3, 3), bool)
    parents[1, 0] = parents[2, 1] = parents[2, 0] = True
    layers = np.array([0, 1, 2])
    assert Cascade(1.0, 1.0, 1).log_density(parents, layers) == -np.inf
    assert np.isfinite(Cascade(1.0, 1.0, 1, True).log_density(parents, layers))
    draws = Cascade(1.0, 1.0, 2, True).sample(300, random_seed=3)
    drop = draws.layers.values[:, :, None] - draws.layers.values[:, None, :]
    assert (drop[draws.parents.values] > 1).any()


@pytest.mark.parametrize("passes_layers", [False, True])
def test_what_is_no_layered_graph_is_impossible_or_refused(passes_layers):
    prior = Cascade(1.0, 1.0, 2, passes_layers)
    childless = np.zeros((3, 3), bool)
    assert prior.log_density(childless, np.array([0, 0, 1])) == -np.inf
    assert prior.log_density(np.eye(3, k=-2, dtype=bool), np.array([0, 0, 2])) == -np.inf
    with pytest.raises(ValueError, match="parents must be"):
        prior.log_density(np.zeros((2, 3)), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="layers must be 0"):
        prior.log_density(childless, np.array([0, 1, 1]))
    with pytest.raises(ValueError, match="mass must be positive"):
        Cascade(0.0, 1.0, 2, passes_layers)
    with pytest.raises(ValueError, match="draws must be"):
        prior.sample(0)
