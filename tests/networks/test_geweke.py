"""Geweke's joint test over assignments, hyperparameters, drawn cells and data together, with the default priors.

Geweke (2004), doi:10.1198/016214504000001132. Independent draws from the joint distribution against a chain that
takes a sweep, the slice updates, and fresh data given assignments and hyperparameters. Leaves are over one column and
over several, whose missing cells are part of the state. `test_kernels` holds each kernel to enumerated posteriors.
"""

from functools import cache

import arviz as az
import numpy as np
import pytest

from tests.networks import joint_chains

GAPS = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1]], bool)
DRAWS = 2500


def quantities(h, X, digits, joint):
    """Functions of all unknowns that no renaming changes, by name (draws,); drawn cells count as observed ones."""
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
def independent(draws):
    rng, chain = np.random.default_rng(1), joint_chains.make_chain(GAPS)
    found = []
    for _ in range(draws):
        h, table, digits = joint_chains.draw_joint(chain, rng)
        found.append((joint_chains.logs(h), table, digits, joint_chains.is_joint(chain)))
    return quantities(*zip(*found, strict=True))


def successive(draws, seed=2, degrees=2.0):
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
    return quantities(*zip(*found, strict=True))


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


def test_joint_distribution_is_kept():
    name, score = worst(scores(independent(DRAWS), successive(DRAWS)))
    assert abs(score) < 5, name


@pytest.mark.full
def test_joint_distribution_is_kept_in_many_passes():
    """A hundred thousand passes see what moves a mean by a sixtieth of its standard deviation. Some five minutes."""
    name, score = worst(scores(independent(100_000), successive(100_000)))
    assert abs(score) < 5, name


# In 2,000 draws a wrong degree of freedom is off by 9 standard errors.
def test_a_wrong_degree_of_freedom_is_noticed():
    found = scores(independent(DRAWS), successive(2000, degrees=3.0))
    assert abs(worst(found)[1]) > 6
