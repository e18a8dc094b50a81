"""Geweke's joint test over assignments and hyperparameters together, with the default priors.

Geweke (2004), doi:10.1198/016214504000001132. Independent draws from the joint distribution against a chain that
takes a sweep, the slice updates, and fresh data given assignments and hyperparameters. At fixed hyperparameters, and
for every kernel, the same is done in `test_joint_distribution`.
"""

from functools import cache

import arviz as az
import numpy as np
import pytest

from pymc_spn.gibbs.chain import Chain
from tests.network_problems import regions_of
from tests.networks import joint_chains
from tests.networks.hyperparameter_chains import (
    LOG_NAMES,
    OWNED,
    PRIOR_TABLE,
    WITH_TRIALS,
    DeafChain,
    draw_joint,
    draw_table,
    fixed_schema,
    install,
    logs,
    make_chain,
    plant_missing_jacobian,
)
from tests.reference import Problem

OBSERVED = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]], bool)
DRAWS, FULL = 6000, 100_000
WIDTHS = [2, "infinite"]


def region_list(schema):
    return Problem(regions_of(schema.structure), 1, 1.0, 1.0, []).region_list


def quantities(schema, h, X, digits):
    """Functions of all unknowns with finite variance that no renaming of labels changes: name to (draws,) values."""
    h, X, digits = map(np.array, (h, X, digits))
    found = {f"log {name}": h[:, i] for i, name in enumerate(LOG_NAMES)}
    prior_mean = [0.42, 0.42, *[np.log(0.3)] * 4, np.log(1.5), np.log(0.05)]
    found |= {f"spread of {n}": (h[:, i] - prior_mean[i]) ** 2 for i, n in enumerate(LOG_NAMES)}
    y = np.arctan((X - [0.5, 1.5, 2.0, 1.0]) / [2.0, 1.5, 2.0, 1.0])
    for d in range(4):
        found[f"y{d}"] = y[:, 0, d]
        found[f"|y{d}|"] = np.abs(y[:, 0, d])
        found[f"pair {d}"] = y[:, 0, d] * y[:, 1, d]
        found[f"scale {d}, difference"] = h[:, 2 + d] * np.abs(y[:, 0, d] - y[:, 1, d])
    found["shape, |y0|"] = h[:, 6] * np.abs(y[:, 0, 0])
    found["ratio, |y0|"] = h[:, 7] * np.abs(y[:, 0, 0])
    for region in region_list(schema):
        path = [*region.ancestors, region.index]
        together = (digits[:, 0, path] == digits[:, 1, path]).all(axis=1).astype(float)
        found[f"together in {region.index}"] = together
        found[f"inner, together in {region.index}"] = h[:, 0] * together
        found[f"univariate, together in {region.index}"] = h[:, 1] * together
        if region.column is not None:
            d = region.column
            apart = together * (y[:, 0, d] - y[:, 1, d]) ** 2
            found[f"scale, together in {region.index}"] = h[:, 2 + d] * together
            found[f"apart {d}"] = apart
            found[f"scale, apart {d}"] = h[:, 2 + d] * apart
    found["entry"] = digits[:, 0, schema.structure.leaf_region[0]] % 2.0
    return found


@cache
def independent(width, draws):
    schema, rng = fixed_schema(width, WITH_TRIALS), np.random.default_rng(1)
    found = [draw_joint(schema, OBSERVED, rng) for _ in range(draws)]
    return quantities(schema, [logs(h) for h, _, _ in found], *zip(*[f[1:] for f in found], strict=True))


def successive(width, draws, seed=2, kind=Chain):
    schema, rng = fixed_schema(width, WITH_TRIALS), np.random.default_rng(seed)
    chain = make_chain(schema, OBSERVED, kind)
    h, table, digits = draw_joint(schema, OBSERVED, rng)
    found = []
    for _ in range(draws):
        install(chain, table, digits, h)
        chain.sweep(rng)
        h = chain.update_hyperparameters(rng, OWNED, PRIOR_TABLE)
        digits = chain.sampler.digits()
        table = draw_table(schema, digits, h, OBSERVED, rng)
        found.append((logs(h), table, digits))
    return quantities(schema, *zip(*found, strict=True))


def successive_in_turns(draws, seed=4):
    """As `successive` at width two, by the kernel that makes bottom-up and exact sweeps in turns."""
    schema, rng = fixed_schema(2, WITH_TRIALS), np.random.default_rng(seed)
    chain = make_chain(schema, OBSERVED, kernel="alternating")
    h, table, digits = draw_joint(schema, OBSERVED, rng)
    found = []
    for _ in range(draws):
        chain.set_cells(*np.nonzero(OBSERVED), table[OBSERVED])  # the bottom-up sampler is made anew for them
        chain.set_hyperparameters(h)
        chain.set_digits(np.ascontiguousarray(digits, np.int32))
        chain.sweep(rng)
        h = chain.update_hyperparameters(rng, OWNED, PRIOR_TABLE)
        digits = chain.sampler.digits()
        table = draw_table(schema, digits, h, OBSERVED, rng)
        found.append((logs(h), table, digits))
    return quantities(schema, *zip(*found, strict=True))


def scores(one, other):
    """Differences of means in standard errors; the chain's by its effective sample size."""
    found = {}
    for name in one:
        a, b = one[name], other[name]
        ess = min(float(az.ess(b[None], method="mean")), b.size)
        found[name] = (b.mean() - a.mean()) / np.sqrt(a.var() / a.size + b.var() / ess)
    return found


def worst(found):
    return max(found.items(), key=lambda item: abs(item[1]))


@pytest.mark.parametrize("width", WIDTHS)
def test_joint_distribution_is_kept(width):
    name, score = worst(scores(independent(width, DRAWS), successive(width, DRAWS)))
    assert abs(score) < 5, name


@pytest.mark.parametrize("draws", [DRAWS // 3, pytest.param(FULL, marks=pytest.mark.full)])
def test_joint_distribution_is_kept_in_turns(draws):
    name, score = worst(scores(independent(2, max(draws, DRAWS)), successive_in_turns(draws)))
    assert abs(score) < 5, name


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
def test_joint_distribution_is_kept_in_many_passes(width):
    name, score = worst(scores(independent(width, FULL), successive(width, FULL, seed=3)))
    assert abs(score) < 5, name


# The power at this length: 29 to 63 standard errors on each hyperparameter.
def test_a_missing_jacobian_is_noticed(monkeypatch):
    plant_missing_jacobian(monkeypatch)
    found = scores(independent(2, DRAWS), successive(2, DRAWS))
    assert all(abs(found[f"log {name}"]) > 8 for name in LOG_NAMES)


# 10 standard errors at infinite width; 3.6 at width two, which only the full length notices.
@pytest.mark.parametrize("width", [pytest.param(2, marks=pytest.mark.full), "infinite"])
def test_hyperparameters_that_do_not_reach_the_sweep_are_noticed(width):
    draws = FULL if width == 2 else DRAWS
    found = scores(independent(width, draws), successive(width, draws, kind=DeafChain))
    assert abs(worst(found)[1]) > 6


# ---- leaves over several columns, whose missing cells are part of the state
GAPS = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1]], bool)
JOINT_DRAWS = 4000


def joint_quantities(h, X, digits, joint):
    """As `quantities`; cells that were drawn in such leaves count as those that are observed do."""
    h, X, digits, joint = map(np.array, (h, X, digits, joint))
    found = {f"log {name}": h[:, i] for i, name in enumerate(joint_chains.LOG_NAMES)}
    found |= {f"spread of {name}": (h[:, i] - h[:, i].mean()) ** 2 for i, name in enumerate(joint_chains.LOG_NAMES)}
    y = np.nan_to_num(np.arctan((X - joint_chains.MEAN) / np.sqrt(joint_chains.VARIANCE)))
    scale = {r: h[:, -joint_chains.D :].mean(axis=1) for r in range(2)}
    for r in range(2):  # all columns, and the first two of them
        together = joint[:, 0, r] & joint[:, 1, r] & (digits[:, 0, r] == digits[:, 1, r])
        together &= (digits[:, 0, :r] == digits[:, 1, :r]).all(axis=1)
        found[f"joint in {r}"] = joint[:, :, r].mean(axis=1)
        found[f"scale, joint in {r}"] = scale[r] * found[f"joint in {r}"]
        found[f"together in {r}"] = together.astype(float)
        found[f"scale, together in {r}"] = scale[r] * together
        for a, b in ((0, 1), (1, 2))[: 2 - r]:
            within = joint[:, :, r] * y[:, :, a] * y[:, :, b]
            found[f"product {a} {b} in {r}"] = within.mean(axis=1)
        for d in range(3 - r):
            for n in np.flatnonzero(~GAPS[:, d] & GAPS[:, : 3 - r].any(axis=1)).tolist():
                found[f"drawn {n} {d} in {r}"] = joint[:, n, r] * np.abs(y[:, n, d])
                found[f"drawn {n} {d} from row 0 in {r}"] = (
                    joint[:, n, r] * (digits[:, n, r] == digits[:, 0, r]) * np.abs(y[:, n, d] - y[:, 0, d])
                )
    for d in range(3):
        found[f"y{d}"] = y[:, 0, d]
        found[f"|y{d}|"] = np.abs(y[:, 0, d])
        found[f"pair {d}"] = y[:, 0, d] * y[:, 1, d]
        found[f"scale {d}, difference"] = h[:, -joint_chains.D + d] * np.abs(y[:, 0, d] - y[:, 1, d])
    return found


@cache
def independent_with_joints(draws):
    rng, chain = np.random.default_rng(1), joint_chains.make_chain(GAPS)
    found = []
    for _ in range(draws):
        h, table, digits = joint_chains.draw_joint(chain, rng)
        found.append((joint_chains.logs(h), table, digits, joint_chains.is_joint(chain)))
    return joint_quantities(*zip(*found, strict=True))


def successive_with_joints(draws, seed=2, degrees=2.0):
    rng, chain = np.random.default_rng(seed), joint_chains.make_chain(GAPS)
    h, table, digits = joint_chains.draw_joint(chain, rng)
    found = []
    for _ in range(draws):
        joint_chains.install(chain, GAPS, table, digits, h)
        chain.sweep(rng)
        h, digits = (
            chain.update_hyperparameters(rng, joint_chains.OWNED, joint_chains.PRIOR_TABLE),
            chain.sampler.digits(),
        )
        table = joint_chains.completed(chain, GAPS)
        found.append((joint_chains.logs(h), table, digits, joint_chains.is_joint(chain)))
        table = joint_chains.draw_table(chain, h, rng, degrees)
    return joint_quantities(*zip(*found, strict=True))


@pytest.mark.parametrize("draws", [JOINT_DRAWS, pytest.param(FULL, marks=pytest.mark.full)])
def test_joint_distribution_is_kept_with_leaves_over_several_columns(draws):
    name, score = worst(scores(independent_with_joints(draws), successive_with_joints(draws)))
    assert abs(score) < 5, name


# In half as many draws a wrong degree of freedom is off by 9 standard errors, cells with a wrong scale by 10.
def test_a_wrong_degree_of_freedom_is_noticed():
    found = scores(independent_with_joints(JOINT_DRAWS), successive_with_joints(JOINT_DRAWS // 2, degrees=3.0))
    assert abs(worst(found)[1]) > 6


def test_missing_cells_of_a_wrong_scale_are_noticed(monkeypatch):
    joint_chains.plant_wrong_cells(monkeypatch)
    found = scores(independent_with_joints(JOINT_DRAWS), successive_with_joints(JOINT_DRAWS // 2))
    assert abs(worst(found)[1]) > 6
