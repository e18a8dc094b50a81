"""Hidden Markov models in PyMC and as plain loops, for the tests of fields in models."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_spn as ps

INITIAL = np.log([0.5, 0.3, 0.2])


def hmm_model(data, n_states=3, sd=1.0):
    """Normal emissions with unknown means, unknown transitions; ``data`` (rows, steps) or (steps,)."""
    with pm.Model() as model:
        mu = pm.Normal("mu", [-2.0, 0.0, 2.0][:n_states], 1.0, shape=n_states)
        transition = pm.Dirichlet("P", np.full(n_states, 2.0), shape=(n_states, n_states))
        fg = ps.FactorGraph.hmm(np.shape(data)[-1], INITIAL[:n_states], pt.log(transition))
        z = ps.DiscreteField("z", fg, dims="time")
        ps.FieldEmission("y", z, components={"level": pm.Normal.dist(mu, sd)}, observed={"level": data})
    return model


def log_emission(data, mu, sd=1.0):
    """(steps, K) log densities, 0 where the datum is missing."""
    out = -0.5 * ((np.asarray(data)[:, None] - mu) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return np.where(np.isnan(out), 0.0, out)


def simulate(rng, n_rows, n_steps, mu=(-2.0, 0.0, 2.0), stay=0.9):
    """Sticky chains with some gaps."""
    k = len(mu)
    z = np.empty((n_rows, n_steps), int)
    z[:, 0] = rng.integers(k, size=n_rows)
    for t in range(1, n_steps):
        move = rng.random(n_rows) > stay
        z[:, t] = np.where(move, rng.integers(k, size=n_rows), z[:, t - 1])
    y = np.asarray(mu)[z] + rng.normal(size=z.shape)
    y[rng.random(y.shape) < 0.05] = np.nan
    return z, y
