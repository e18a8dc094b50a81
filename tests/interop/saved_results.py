"""Results of pm.sample of every family, and a question to each."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm

import pymc_spn as ps
from tests.modes import BY_PYTHON

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))


@cache
def sampled():
    """One model with each family, two of one."""
    scores = ps.LocalScores.from_data(FRAME)
    with pm.Model():
        ps.SPN("net", ps.circuits.complete_tree(list("abc"), n_children=2), observed=FRAME)
        ps.DagOrder("order", scores)
        ps.DagPartition("partition", scores)
        tree = ps.DecisionTree("tree", FRAME[["b", "c"]])
        ps.TreeResponse("y", tree, observed=(FRAME["a"] > 0).to_numpy(), family=ps.leaves.BinaryLeaves())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pm.sample(
                12, tune=3, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False,
                **BY_PYTHON,
            )  # fmt: skip


QUESTIONS = {
    "net": (ps.SPNPosterior, lambda p: p.log_density(FRAME)),
    "order": (ps.DagDraws, lambda p: p.graphs()),
    "partition": (ps.DagDraws, lambda p: p.graphs()),
    "tree": (ps.TreePosterior, lambda p: p.predict_proba(FRAME[["b", "c"]])),
}


def chefs():
    """Draws of a graph of unknown size, whose record is of floats."""
    with pm.Model():
        ps.IndianChefsProcess("g", alpha=1.0, gamma=pm.Gamma("gamma", 2, 1), phi=1.0, observed_nodes=["a", "b"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pm.sample(
                6, tune=2, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False,
                **BY_PYTHON,
            )  # fmt: skip
