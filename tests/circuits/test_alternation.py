"""Bottom-up sweeps in turns with collapsed ones, against enumeration; and when "auto" takes to them."""

import numpy as np
import pytest

from pymc_spn.circuits.gibbs.alternation import MOST_TURNS, WORTH_IT, bottom_up_nodes, bottom_up_turn, turns
from pymc_spn.circuits.gibbs.bottom_up import BottomUpSampler
from pymc_spn.circuits.gibbs.chain import Chain
from pymc_spn.circuits.structures.builders import complete_tree
from tests.circuits.explicit_chains import tiny_chain, variation_ratio
from tests.circuits.hyperparameter_chains import COLUMNS, fixed_schema
from tests.circuits.tiny import tiny_sampler
from tests.reference import enumerate_states, tiny_problems

PROBLEMS = tiny_problems()


def draw_in_turns(problem, draws, seed=1, concentration=1.0):
    """Digits after each bottom-up turn and each exact sweep, which follow one another."""
    sampler, blocked, rng = tiny_sampler(problem), tiny_chain(BottomUpSampler, problem), np.random.default_rng(seed)
    masses = concentration * np.array([problem.alpha_inner, problem.alpha_leaf])
    blocked.set_priors(masses, blocked.parameters.prior.copy())
    found = np.empty((draws, *sampler.slots.shape), np.int32)
    for i in range(draws):
        for _ in range(2):
            bottom_up_turn(rng, sampler, blocked)
            sampler.sweep(rng)
        if i % 2:
            bottom_up_turn(rng, sampler, blocked)
        found[i] = sampler.digits()
    return found


@pytest.mark.parametrize("name", ["palette", "two_trees"])
@pytest.mark.parametrize("draws", [2500, pytest.param(40_000, marks=pytest.mark.full)])
def test_turns_reach_the_enumerated_posterior(name, draws):
    problem = PROBLEMS[name]
    assert variation_ratio(draw_in_turns(problem, draws), problem, enumerate_states(problem)) < 1.3


def test_a_turn_at_other_concentrations_is_noticed():
    """A bottom-up sampler whose priors were not brought up to date: half of the sweeps are wrong."""
    problem = PROBLEMS["palette"]
    found = draw_in_turns(problem, 2500, concentration=4.0)
    assert variation_ratio(found, problem, enumerate_states(problem)) > 1.6


def test_turns_keep_missing_cells_out():
    problem = PROBLEMS["missing"]
    found = draw_in_turns(problem, 200)
    assert ((found == -1) == (tiny_sampler(problem).digits() == -1)).all()


def chain_of(kernel, n_rows, width):
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.normal(size=n_rows), rng.exponential(size=n_rows), rng.poisson(2.0, n_rows), rng.integers(0, 3, n_rows)]
    )
    chain = Chain(fixed_schema(width), values, kernel)
    chain.start(rng, (np.ones(2), np.ones(4), np.ones(4), np.ones(4)))
    return chain


def kernels_in_order(chain, n):
    """What `n` sweeps would use; only the counter of turns moves."""
    found = []
    for _ in range(n):
        found.append(chain.chosen_kernel())
        chain.run = chain.run + 1 if found[-1] == "bottom_up" else 0
    return found


def test_auto_takes_turns_on_many_rows_and_few_nodes():
    chain = chain_of("auto", 2000, 2)
    n_leaves = chain.sampler.n_occupied_leaves()
    ratio = turns(2000, 4, n_leaves, chain.n_nodes)
    assert chain.n_nodes == chain.schema.structure.n_nodes({c.name: 1 + (c.name == "size") for c in COLUMNS})
    n = min(round(ratio), MOST_TURNS) if ratio >= WORTH_IT else 0
    assert n > 0
    assert kernels_in_order(chain, 3 + 2 * n) == ["exact", *["bottom_up"] * n] * 2 + ["exact"]


@pytest.mark.parametrize(("n_rows", "width"), [(5, 2), (2000, "infinite")])
def test_auto_stays_collapsed_otherwise(n_rows, width):
    assert set(kernels_in_order(chain_of("auto", n_rows, width), 4)) == {"exact"}


def test_the_kernel_takes_turns_whatever_it_costs():
    assert kernels_in_order(chain_of("alternating", 5, 2), 4) == ["exact", "bottom_up"] * 2
    with pytest.raises(ValueError, match="finite n_children"):
        chain_of("alternating", 5, "infinite")


def test_costs_on_known_tables():
    """Bottom-up was measured at a third (abalone, C = 2), three quarters (C = 4) and 2.6 times (C = 6) of exact."""
    cost = [1.0 / turns(4177, 9, leaves, nodes) for leaves, nodes in ((106, 351), (228, 5485), (264, 31_339))]
    assert np.allclose(cost, [0.336, 0.778, 2.63], rtol=0.35)
    structure = complete_tree([f"c{d}" for d in range(21)], n_children=4)
    assert turns(800, 21, 300, structure.n_nodes()) < 0.5  # german
    assert bottom_up_nodes(complete_tree(list("abcd")), fixed_schema(2).compiled) == np.inf
