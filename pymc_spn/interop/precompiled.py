"""Compile ahead what the default path of each family needs: first answers on small tables, asked once.

Numba keeps what it compiles next to the package, or in ``NUMBA_CACHE_DIR``. Later processes load it.
"""

import argparse
import logging
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pymc as pm

from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.dags.order_spn import DagPosterior, OrderSPN
from pymc_spn.factor_graphs.graph import FactorGraph
from pymc_spn.indian_chefs.belief_network_posterior import NLGBNPosterior
from pymc_spn.indian_chefs.distributions import IndianChefsProcess
from pymc_spn.indian_chefs.network_distributions import NLGBN
from pymc_spn.indian_chefs.simulation import sample_indian_chefs
from pymc_spn.indian_chefs.unit_scaling import UnitScaling
from pymc_spn.networks.distributions import SPN
from pymc_spn.networks.learners import fit_variational
from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.numerics.threads import n_threads
from pymc_spn.trees.fit import fit_tree

QUIET = {
    "tune": 3,
    "draws": 3,
    "chains": 1,
    "cores": 1,
    "random_seed": 0,
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}


def _table(n: int = 60) -> pd.DataFrame:
    """Numbers, recorded numbers, counts, levels, truth values and gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    x[:, 1] += x[:, 0]
    table = pd.DataFrame(
        {
            "number": x[:, 0],
            "other": x[:, 1],
            "rounded": x[:, 2].round(1),
            "count": rng.poisson(3.0, n),
            "level": rng.choice(["a", "b", "c"], n),
            "truth": rng.random(n) < 0.5,
        }
    )
    table.loc[3, "number"] = table.loc[4, "rounded"] = np.nan
    return table


def _tables() -> None:
    for table in (_table(), _table()[["level", "truth"]], _table().dropna()[["number", "other"]]):
        with pm.Model():
            SPN("x", observed=table)
            post = SPNPosterior.from_idata(pm.sample(**QUIET))
        first = table.columns[0]
        post.log_likelihood(), post.log_density(table)
        post.predict(table, first)
        post.predict_proba(table, first) if first == "level" else None
        post.impute(table, random_seed=0)
        post.sample(3, random_seed=0)
        post.anomaly(table)
        post.cell_p_value(table.head(3))
        post.dependence()
        post.mpe(given={first: table[first].iloc[0]})
    fit = fit_variational(_table(), restarts=1, tolerance=1e3, random_seed=0, progressbar=False)  # ends soon
    fit.log_density(_table())


def _trees() -> None:
    table = _table()
    for response, family in ((table["truth"], "binary"), (table["level"], "classes"), (table["other"], "real")):
        features = table[["rounded", "count", "level"]].drop(columns=response.name, errors="ignore")
        post = fit_tree(features, response, family, particles=10, random_seed=0, progressbar=False)
        post.predict(features)


def _graphs() -> None:
    table = _table().dropna()
    for columns, score in ((["number", "other", "rounded"], None), (["level", "truth"], None)):
        scores = LocalScores.from_data(table[columns], score, progressbar=False)
        OrderSPN.exact(scores, progressbar=False).edge_probabilities(progressbar=False)
    DagPosterior.from_data(table[["number", "other", "rounded"]], progressbar=False).edge_probabilities(
        progressbar=False
    )


def _fields() -> None:
    chain = FactorGraph.hmm(5, np.log(np.full(2, 0.5)), np.log(np.full((2, 2), 0.5)))
    answers = chain.compile().infer(given={"z0": 1}, progressbar=False)
    answers.marginal("z3")


def _chefs() -> None:
    sample_indian_chefs(1.0, 1.0, 1.0, 2, draws=3, random_seed=0)
    table = _table().dropna()[["number", "other"]]
    with pm.Model():
        graph = IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=list(table))
        NLGBN("x", graph, observed=table, scaling=UnitScaling.from_data(table))
        NLGBNPosterior.from_idata(pm.sample(**QUIET)).log_density(table, progressbar=False)


FAMILIES: dict[str, Callable[[], None]] = {
    "tables": _tables,
    "graphs": _graphs,
    "trees": _trees,
    "fields": _fields,
    "chefs": _chefs,
}


def _compile_one(name: str) -> str:
    logging.getLogger("pymc").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains too short to say anything
        FAMILIES[name]()
    return name


def precompile(families: Sequence[str] = (), n_jobs: int | None = None) -> None:
    """Compile the default path of some families, side by side in processes.

    Parameters
    ----------
    families : sequence of {"tables", "graphs", "trees", "fields", "chefs"}
        All by default.
    n_jobs : int, optional
        Processes; one for each processor by default.

    Raises
    ------
    ValueError
        If a family has another name, or `n_jobs` is not an integer of at least 1.
    """
    chosen = list(families) or list(FAMILIES)
    for name in chosen:
        if name not in FAMILIES:
            raise ValueError(f"families must be among {', '.join(FAMILIES)}; got {name!r}")
    workers = min(n_threads() if n_jobs is None else checked_count("n_jobs", n_jobs, 1), len(chosen))
    bar = ProgressBar("Compiling", len(chosen), True)
    with bar, ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for made in as_completed([pool.submit(_compile_one, name) for name in chosen]):
            made.result()
            bar.advance()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line of ``python -m pymc_spn.precompile``."""
    parser = argparse.ArgumentParser(prog="python -m pymc_spn.precompile", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("-j", "--jobs", type=int, default=None, help="processes; one for each processor by default")
    found = parser.parse_args(arguments)
    try:
        precompile(found.families, found.jobs)
    except ValueError as error:
        parser.error(str(error))
