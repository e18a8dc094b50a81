"""Records of sampled networks without PyMC: the tiny problems as DataTrees, all their states as draws."""

from dataclasses import replace
from functools import cache

import numpy as np
import xarray as xr

import pymc_spn as ps
from pymc_spn import leaves
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.gibbs.network import build_scratch
from pymc_spn.gibbs.palette import choose_coding
from pymc_spn.gibbs.sampler import Sampler
from pymc_spn.leaves.families import FAMILIES
from pymc_spn.networks.posterior import SPNPosterior
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.record import chunk_length, chunks_per_state, read_record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.tables import Column
from pymc_spn.tables.fingerprints import fingerprint
from tests.networks.tiny import region_tree
from tests.reference import Problem, digits_from_state, tiny_problems, weighted_states

LETTERS = ("a", "b", "c")
KINDS = {"bernoulli": "binary", "categorical": "categorical", "poisson": "count"}
KINDS |= {"geometric": "count", "binomial": "count", "exponential": "positive", "log_normal": "positive"}


def cut_digits(digits, length):
    """Chunks (k, length) of one state (N, R), padded with zeros."""
    flat = np.ravel(digits)
    out = np.zeros(chunks_per_state(flat.size, length) * length, digits.dtype)
    out[: flat.size] = flat
    return out.reshape(-1, length)


def column_of(d, entries):
    kind = next((k for f, k in KINDS.items() if any(name == f for name, _ in entries)), "real")
    levels = {"binary": (0, 1), "categorical": LETTERS}.get(kind)
    return Column(
        f"x{d}",
        kind,
        levels,
        {"categorical": "str", "binary": "int64", "count": "int64"}.get(kind, "float64"),
    )


def entry_of(family, prior):
    """Palette entry whose prior is this one at leaf scale 1."""
    if family == "gaussian":
        return leaves.Gaussian(mean=prior["mu0"], variance=prior["b0"] / prior["a0"])
    if family == "log_normal":
        return leaves.LogNormal(log_mean=prior["mu0"], log_variance=prior["b0"] / prior["a0"])
    if family in ("bernoulli", "categorical"):
        alpha = np.array(prior["alpha"])
        return FAMILIES[family](relative_scale=1.0 / alpha.mean(), probabilities=alpha / alpha.sum())
    if family == "binomial":
        both = prior["alpha"] + prior["beta"]
        mean = prior["trials"] * prior["alpha"] / both
        return leaves.Binomial(int(prior["trials"]), mean=mean, relative_scale=1.0 / both)
    mean = prior["beta"] / prior["alpha"]
    return FAMILIES[family](mean=1.0 / mean if family == "poisson" else mean, relative_scale=1.0 / prior["alpha"])


def schema_of(problem: Problem, name="x") -> NetworkSchema:
    tree = region_tree(problem)
    columns = tuple(column_of(d, entries) for d, entries in enumerate(problem.palettes))
    structure = RegionTree(columns, tree.order, tree.begin, tree.end, tree.parent, tree.n_children, tree.split)
    palette = tuple(tuple(entry_of(*e) for e in entries) for entries in problem.palettes)
    gaussian = [next((p for f, p in entries if f in ("gaussian", "log_normal")), None) for entries in problem.palettes]
    centre, scale = choose_coding(palette, problem.X, columns)
    return NetworkSchema(
        name=name,
        structure=structure,
        columns=columns,
        palette=palette,
        resolution=(0.0,) * len(columns),
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        hyperparameters={
            "concentration": {"variable": f"{name}_concentration"},
            "leaf_scale": {"variable": f"{name}_scale_of_mine"},
            "leaf_shape": {"fixed": [p["a0"] if p else 1.5 for p in gaussian]},
            "precision_ratio": {"fixed": [p["rho0"] if p else 0.05 for p in gaussian]},
        },
    )


def in_cells(schema, resolution):
    """The schema with values of the columns that have a grid standing for cells."""
    names = tuple(c.name for c, width in zip(schema.columns, resolution, strict=True) if width > 0.0)
    return replace(schema, resolution=tuple(resolution), rounded=names)


def without_missing(schema, table, digits):
    """Digits that are -1 where all cells of a region are missing, as the sampler writes them."""
    tree, digits = schema.structure, np.array(digits)
    for r in range(tree.n_regions if schema.missing == "marginal" else 0):
        columns = tree.order[tree.begin[r] : tree.end[r]]
        digits[:, :, np.isnan(table[:, columns]).all(axis=1), r] = -1
    return digits


def tree_of(schema, table, digits, concentration, leaf_scale, record_every=1, exact=None) -> xr.DataTree:
    """What ``pm.sample`` would return for digits (chain, record, N, R) and hyperparameters alike.

    With ``rounded=True`` also lattice points ``exact`` (chain, record, N, K), of records that are made at every draw.
    """
    name = schema.name
    n_chains, n_records = digits.shape[:2]
    digits = without_missing(schema, table, digits)
    cells = digits[0, 0].size
    length = chunk_length(cells, record_every)
    k = chunks_per_state(cells, length)
    chunks = np.stack([np.concatenate([cut_digits(state, length) for state in chain]) for chain in digits])
    draws = {"chain": np.arange(n_chains), "draw": np.arange(n_records * k)}

    def every_draw(values):
        return np.repeat(np.asarray(values, float), k, axis=1)

    posterior = {
        f"{name}_log_joint": (("chain", "draw"), np.zeros(chunks.shape[:2])),
        f"{name}_concentration": (("chain", "draw", f"{name}_sum_node"), every_draw(concentration)),
        f"{name}_scale_of_mine": (("chain", "draw"), every_draw(leaf_scale)),
    }
    stats = {
        f"{name}_digits": (("chain", "draw", f"{name}_digits_dim_0"), chunks),
        f"{name}_moved": (("chain", "draw"), np.zeros(chunks.shape[:2])),
        f"{name}_fingerprint": (("chain", "draw"), np.full(chunks.shape[:2], fingerprint(0, schema.to_vector(), ""))),
    }
    if exact is not None:
        codes = np.asarray(exact, np.uint16).reshape(n_chains, n_records, -1)
        stats[f"{name}_exact"] = (("chain", "draw", f"{name}_exact_dim_0"), codes)
    coords = {
        f"{name}_row": np.arange(len(table)) + 10,
        f"{name}_column": [c.name for c in schema.columns],
    }
    observed = {name: ((f"{name}_row", f"{name}_column"), table)}
    return xr.DataTree.from_dict(
        {
            "constant_data": xr.Dataset({f"{name}_schema": (f"{name}_schema_dim_0", schema.to_vector())}),
            "observed_data": xr.Dataset(observed, coords=coords),
            "posterior": xr.Dataset(posterior, coords=draws),
            "sample_stats": xr.Dataset(stats, coords=draws),
        }
    )


def enumerated_tree(problem: Problem, name="x", record_every=1) -> tuple[xr.DataTree, np.ndarray]:
    """All states of a problem as the draws of one chain, and their log posterior probabilities."""
    states, weights, _ = weighted_states(problem)
    possible = [(s, w) for s, w in zip(states, weights, strict=True) if w > 0]
    digits = np.array([[digits_from_state(problem, s) for s, _ in possible]], dtype=np.int8)
    n = len(possible)
    mass = np.broadcast_to([problem.alpha_inner, problem.alpha_leaf], (1, n, 2))
    tree = tree_of(schema_of(problem, name), problem.X, digits, mass, np.ones((1, n)), record_every)
    return tree, np.log([w for _, w in possible])


def states_of(idata, name=None) -> RecordedStates:
    """The states of a network that ``pm.sample`` has recorded."""
    return RecordedStates(read_record(idata, name))


def enumerated_law(problem: Problem) -> RecordedLaw:
    """The exact posterior of a problem: every state a draw, weighted by its probability."""
    tree, log_weights = enumerated_tree(problem)
    return RecordedLaw(states_of(tree), chosen=log_weights)


def enumerated_posterior(problem: Problem) -> SPNPosterior:
    """The exact posterior of a problem; see `enumerated_law`."""
    return SPNPosterior(enumerated_law(problem))


def weighted_posterior(states, log_weights=None) -> SPNPosterior:
    """The posterior of recorded states, each of its own weight."""
    return SPNPosterior(RecordedLaw(states, chosen=log_weights))


def with_scratch(net):
    """A network of recorded states that the sampler's kernels can evaluate."""
    sizes = net.edges.weight, net.nodes.n_data, net.leaves.entry, net.tree.parent, net.palette.source
    return net._replace(scratch=build_scratch(*(own.size for own in sizes), net.palette.place_ptr.size - 1))


@cache
def problem_of(name):
    return tiny_problems()[name]


@cache
def law_of(name):
    return enumerated_law(problem_of(name))


@cache
def posterior_of(name):
    return SPNPosterior(law_of(name))


def new_rows(name, n=6):
    """Coded rows within the support, some with gaps, the last one empty."""
    post, rng = posterior_of(name), np.random.default_rng(3)
    rows = np.abs(rng.normal(1.0, 1.0, (n, len(post.columns))))
    for d, column in enumerate(post.columns):
        if column.kind != "real" and column.kind != "positive":
            rows[:, d] = rng.integers(0, 2 if column.kind == "binary" else 3, n)
    rows[0, 0] = rows[1, 1] = np.nan
    rows[-1] = np.nan
    return rows


def sampled_tree(name="missing", draws=24, chains=2, record_every=1, network="x"):
    """Record of chains of the exact kernel, with hyperparameters that change from draw to draw."""
    problem = problem_of(name)
    schema = schema_of(problem, network)
    digits, mass, scale = [], [], []
    for chain in range(chains):
        rng = np.random.default_rng(chain)
        sampler = Sampler(schema.structure, schema.compiled, schema.code(problem.X))
        for draw in range(draws):
            concentration, leaf_scale = rng.gamma(4.0, 0.5, 2), rng.gamma(8.0, 0.1)
            ones = np.ones(len(schema.columns))
            shape, ratio = (schema.hyperparameters[k]["fixed"] for k in ("leaf_shape", "precision_ratio"))
            sampler.set_hyperparameters(concentration, leaf_scale * ones, np.array(shape), np.array(ratio))
            if draw == 0:
                sampler.set_digits(np.zeros(sampler.slots.shape, np.int32))
            sampler.sweep(rng)
            digits.append(sampler.digits(np.int8))
            mass.append(concentration)
            scale.append(leaf_scale)
    shaped = [np.reshape(v, (chains, draws, *np.shape(v)[1:])) for v in (digits, mass, scale)]
    return tree_of(schema, problem.X, *shaped, record_every)


def two_groups(sizes=(10, 10)):
    """One draw in which two columns hang together by two far groups of rows."""
    from tests.reference import Problem

    rng, n = np.random.default_rng(0), sum(sizes)
    side = np.repeat([-1.0, 1.0], sizes)[:, None]
    X = side * [6.0, 4.0] + rng.normal(size=(n, 2))
    leaf = ("gaussian", {"mu0": 0.0, "rho0": 0.01, "a0": 3.0, "b0": 3.0})
    problem = Problem(((0,), (1,)), 2, 1.0, 0.5, [[leaf], [leaf]], X)
    digits = np.zeros((1, 1, n, 3), np.int8)
    digits[0, 0, :, 0] = side[:, 0] > 0
    return ps.SPNPosterior.from_idata(tree_of(schema_of(problem), X, digits, np.ones((1, 1, 2)), np.ones((1, 1))))


def posterior_on_a_grid(width):
    """Two draws of a network over a positive and a real column, the second on a grid of some width."""
    problem = problem_of("depths")
    schema = replace(schema_of(problem), resolution=(0.0, width))
    digits = np.zeros((1, 2, *problem.X.shape[:1], schema.structure.n_regions), np.int8)
    digits[0, 0, 2:, 0] = 1
    mass = np.ones((1, 2, 2))
    return ps.SPNPosterior.from_idata(tree_of(schema, problem.X, digits, mass, 0.2 * np.ones((1, 2))))


@cache
def sampled_posterior():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=2))
