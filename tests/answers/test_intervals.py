"""How often intervals of answers hold the truth, and what one draw of weights and leaf parameters is."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.chain import Chain
from pymc_spn.leaves.families import Categorical, Gaussian, Poisson
from pymc_spn.networks.records import recorded_states
from pymc_spn.networks.records.record import Record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.tables import Column
from tests.hand_made_records import weighted_posterior
from tests.network_problems import reference_problem
from tests.reference import simulate

COLUMNS = (
    Column("y", "real", None, "float64"),
    Column("b", "binary", ("no", "yes"), "str"),
    Column("n", "count", None, "int64"),
)
PALETTE = ((Gaussian(mean=0.5, variance=2.0),), (Categorical(probabilities=(0.5, 0.5)),), (Poisson(mean=2.0),))
ROWS, STATES, THIN = 40, 60, 2
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
    own = Record(schema, table, np.arange(len(table)), np.array([digits]), np.zeros(1, int), np.arange(n), known, {})
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
