"""Every answer says how exact it is, who learned the draws, and how far it may be off: all queries, both classes."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from tests.answers.variational_fits import fitted
from tests.hand_made_records import sampled_tree

pytestmark = pytest.mark.usefixtures("integrated")

MARKS = {"exact", "numerical", "bound", "monte-carlo", "exact simulation", "one draw", "local maximum"}
SCOPES = {"mcmc": " given the draws", "variational": " given the fit"}
ROWS = pd.DataFrame({"x0": [1.2, np.nan], "x1": [1, 0], "x2": [3, 2]})
FITTED_ROWS = pd.DataFrame({"a": [0.3, np.nan], "b": [-4.0, 0.1], "n": [3, 2], "c": ["1", "0"]})


@cache
def sampled():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=10, chains=2))


@cache
def stacked():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=2)).stacked()


def questions(post, rows, number, level, other):
    """Every query that has an answer, by name; ``number``, ``level`` and ``other`` are columns, ``other`` numeric."""
    given = {other: (0, 4)}
    monte_carlo = {"method": "monte-carlo", "n": 40, "random_seed": 1}
    some = post.condition(given)
    return {
        "log_density": lambda: post.log_density(rows),
        "log_density per draw": lambda: post.log_density(rows, per_draw=True),
        "log_likelihood": lambda: post.log_likelihood(rows)[post.name],
        "probability": lambda: post.probability({other: (1, None)}, given),
        "mean": lambda: post.mean(given),
        "cov": lambda: post.cov(),
        "moment": lambda: post.moment(2, given),
        "cdf": lambda: post.cdf([0.1, 1.0], number),
        "quantile": lambda: post.quantile(0.5, number, given),
        "quantile of counts": lambda: post.quantile([0.5, 1.0], other),
        "predict_proba": lambda: post.predict_proba(rows, level),
        "predict a level": lambda: post.predict(rows, level),
        "predict a number": lambda: post.predict(rows, number),
        "predict within a condition": lambda: some.predict(rows, other),
        "predict_sd": lambda: post.predict_sd(rows, other),
        "predict_sd within a condition": lambda: some.predict_sd(rows, other),
        "predict_quantile": lambda: post.predict_quantile(rows, number, [0.1, 0.5]),
        "predict_quantile of counts": lambda: post.predict_quantile(rows, other, 0.5),
        "predict_cdf": lambda: post.predict_cdf(rows, number, [0.1, 1.0]),
        "predict_cdf of own values": lambda: post.predict_cdf(rows, number),
        "cell_p_value": lambda: post.cell_p_value(rows),
        "leaf_types": lambda: post.leaf_types(number),
        "leaf_types by entry": lambda: post.leaf_types(number, by_entry=True),
        "mutual_information": lambda: post.mutual_information(number, level, n=40, random_seed=1),
        "mutual_information per draw": lambda: post.mutual_information(
            number, level, per_draw=True, n=40, random_seed=1
        ),
        "mutual_information simulated": lambda: post.mutual_information([number, other], level, **monte_carlo),
        "dependence": lambda: post.dependence(max_draws=4, n=40, random_seed=1),
        "entropy of levels": lambda: post.entropy(level),
        "entropy of a number": lambda: post.entropy(number),
        "entropy simulated": lambda: post.entropy(**monte_carlo),
        "kl of levels": lambda: some.kl(post, level),
        "kl of a number": lambda: some.kl(post, number),
        "kl simulated": lambda: some.kl(post, [number, level], **monte_carlo),
        "anomaly": lambda: post.anomaly(rows),
        "predictive_p_value": lambda: post.predictive_p_value(rows, n=99, random_seed=1),
        "explain": lambda: post.explain(rows.iloc[0]),
        "explain by orders": lambda: post.explain(rows.iloc[0], n_permutations=4, random_seed=1),
        "co_clustering": lambda: post.co_clustering(rows),
        "mpe": lambda: post.mpe(given),
        "sample": lambda: post.sample(3, given, random_seed=1),
        "impute": lambda: post.impute(rows, n=2, random_seed=1)[1],
        "as_circuit": lambda: post.as_circuit(max_draws=1).log_density(rows),
        "sample of as_circuit": lambda: post.as_circuit(max_draws=1).sample(2, random_seed=1),
    }


OF_CHAINS = {
    "run_weights": lambda post: post.run_weights,
    "log_likelihood of training rows": lambda post: post.log_likelihood()[post.name],
    "co_clustering of training rows": lambda post: post.co_clustering(),
    "row_similarity": lambda post: post.row_similarity([11]),
    "row_similarity of new rows": lambda post: post.row_similarity(ROWS),
    "nearest_rows": lambda post: post.nearest_rows([11], k=1),
    "top_clusters": lambda post: post.top_clusters(),
    "draw_circuits": lambda post: post.draw_circuits(1, random_seed=1)[0],
    "log_density of a drawn circuit": lambda post: post.draw_circuits(1, random_seed=1)[0].log_density(ROWS),
}
OF_ONE_DRAW = {"top_clusters", "draw_circuits", "log_density of a drawn circuit", "trace"}  # trace: of the evidence
OF_FITS = {
    "trace": lambda post: post.trace(),
    "hyperparameters": lambda post: post.hyperparameters(),
    "row_similarity": lambda post: post.row_similarity(FITTED_ROWS, FITTED_ROWS),
    "nearest_rows": lambda post: post.nearest_rows(FITTED_ROWS, FITTED_ROWS, k=2),
}
WITHOUT_AVERAGE = ("as_circuit", "circuit", "trace", "hyperparameters")  # of draws that are in it, or of one draw


def marked_parts(answer):
    """(name, attributes, whether each draw has its own) of all that an answer holds."""
    if isinstance(answer, xr.Dataset):
        yield "dataset", answer.attrs, True
        for name, part in answer.data_vars.items():
            if part.attrs or not answer.attrs.get("exactness", "").startswith("exact"):
                yield str(name), part.attrs, "draw" in part.dims
    elif isinstance(answer, xr.DataArray):
        yield "", answer.attrs, "draw" in answer.dims
    elif isinstance(answer, pd.DataFrame):
        yield (
            "table",
            answer.attrs,
            "draws_after_weighting" not in answer.attrs and "mcse_chain_note" not in answer.attrs,
        )
    elif hasattr(answer, "upper_bound"):
        for part in (answer.value, answer.log_density, answer.upper_bound):
            yield type(part).__name__, part.attrs, False
    else:
        yield type(answer).__name__, answer.attrs, True


@pytest.mark.parametrize("kind", ["mcmc", "mcmc stacked", "variational"])
def test_every_answer_is_marked(kind):
    if kind == "mcmc stacked":
        asked = questions(stacked(), ROWS, "x0", "x1", "x2") | {"run_weights": lambda: stacked().run_weights}
    elif kind == "mcmc":
        post = sampled()
        asked = questions(post, ROWS, "x0", "x1", "x2") | {k: lambda f=f: f(post) for k, f in OF_CHAINS.items()}
    else:
        post = fitted()
        asked = questions(post, FITTED_ROWS, "a", "c", "n") | {k: lambda f=f: f(post) for k, f in OF_FITS.items()}
    seen, wrong, scope = set(), [], SCOPES[kind.split()[0]]
    for name, ask in asked.items():
        for part, attrs, own in marked_parts(ask()):
            mark = attrs.get("exactness", "none")
            limited, mark = mark.endswith(scope), mark.removesuffix(scope)
            seen.add(mark)
            alone = name in OF_ONE_DRAW or (
                kind != "variational" and own and part != "dataset" and "circuit" not in name
            )
            error = any(k.startswith("mcse_chain") for k in attrs)
            right = {
                "one of the marks": mark in MARKS,
                "given what": limited != alone,
                "learner": attrs.get("learner", "").startswith(kind.split()[0]),
                "tolerance": mark != "numerical" or 0.0 <= attrs["tolerance"] < 1e-3,
                "bound": mark != "bound" or name == "trace" or not {"tolerance", "gap"}.isdisjoint(attrs),
                "mcse": mark != "monte-carlo"
                or part == "dataset"
                or "mcse_note" in attrs
                or np.all(np.isfinite(attrs["mcse"])),
                "mcse_chain": own or any(w in name for w in WITHOUT_AVERAGE) or error == kind.startswith("mcmc"),
            }
            wrong += [f"{name} {part}: {what} in {attrs}" for what, fits in right.items() if not fits]
    assert not wrong, "\n".join(wrong)
    assert seen >= MARKS - (set() if kind == "mcmc" else {"one draw"})


def test_errors_of_simulated_answers_are_those_of_the_others():
    """``mcse_chain`` by weighted rows against that by sums and quadrature: within half the noise of the rows."""
    post = sampled()
    some = post.condition({"x2": 6})
    for ask in (
        lambda **o: post.entropy("x0", **o),
        lambda **o: some.kl(post, "x1", **o),
    ):
        exact, drawn = ask(), ask(method="monte-carlo", n=2_000, random_seed=1)
        assert abs(drawn.attrs["mcse_chain"] - exact.attrs["mcse_chain"]) < 0.5 * drawn.attrs["mcse"]
        assert exact.attrs["mcse_chain"] > 0.0
    other = ps.SPNPosterior.from_idata(sampled_tree("infinite_missing", draws=10, chains=2))
    exact, drawn = post.kl(other, "x0"), post.kl(other, "x0", method="monte-carlo", n=2_000, random_seed=1)
    assert drawn.attrs["mcse_chain"] == pytest.approx(exact.attrs["mcse_chain"], rel=0.35)
