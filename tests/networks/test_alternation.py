"""Bottom-up sweeps in turns with collapsed ones, against enumeration; and when "auto" takes to them."""

import numpy as np
import pytest

from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.gibbs.alternation import TURNS, WORTH_IT, Turns, bottom_up_nodes, how_much_cheaper, n_turns
from tests.networks.explicit_chains import variation_ratio
from tests.networks.hyperparameter_chains import COLUMNS, chain_of, fixed_schema
from tests.networks.tiny import palette_and_priors, region_tree, tiny_sampler
from tests.reference import enumerate_states, tiny_problems

PROBLEMS = tiny_problems()


def draw_in_turns(problem, draws, seed=1, concentration=1.0):
    """Digits after exact sweeps and after bottom-up ones, which follow one another."""
    rng = np.random.default_rng(seed)
    compiled, priors = palette_and_priors(problem)
    sampler = tiny_sampler(problem)
    sampler.hyperparameters = ()  # the priors of these problems are given as they are
    turns = Turns(region_tree(problem), compiled, np.ascontiguousarray(problem.X, np.float64))
    turns.priors = ()
    turns.sampler.set_priors(concentration * np.array([problem.alpha_inner, problem.alpha_leaf]), priors)
    found = np.empty((draws, *sampler.slots.shape), np.int32)
    for i in range(draws):
        for _ in range(2):
            turns.sweep(rng, sampler)
            sampler.set_digits(turns.sampler.digits())
            sampler.sweep(rng)
            turns.is_behind = True
        for _ in range(i % 3):  # none, one, or a second one without a look at the collapsed state
            turns.sweep(rng, sampler)
        if i % 3:
            sampler.set_digits(turns.sampler.digits())
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


def kernels_in_order(chain, n):
    """What `n` sweeps would use; only the counter of turns moves."""
    found = []
    for _ in range(n):
        found.append(chain.chosen_kernel())
        chain.n_bottom_up = chain.n_bottom_up + 1 if found[-1] == "bottom_up" else 0
    return found


def test_auto_takes_turns_on_many_rows_and_few_nodes(monkeypatch):
    chain = chain_of("auto", 2000, 2)
    monkeypatch.setattr(chain.sampler, "n_occupied_leaves", lambda: 60)
    assert chain.n_nodes == chain.schema.structure.n_nodes({c.name: 1 + (c.name == "size") for c in COLUMNS})
    cheaper = how_much_cheaper(2000, 4, chain.sampler.n_occupied_leaves(), chain.n_nodes)
    turns = n_turns(cheaper)
    assert cheaper >= WORTH_IT and turns / cheaper == pytest.approx(3.0, abs=0.5 / cheaper)
    assert kernels_in_order(chain, turns + 2) == ["exact", *["bottom_up"] * turns, "exact"]


def test_what_is_settled_does_not_follow_the_state(monkeypatch):
    """Kernels chosen by the state would not keep the posterior although each of them does."""
    chain = chain_of("auto", 2000, 2)
    monkeypatch.setattr(chain.sampler, "n_occupied_leaves", lambda: 4000)
    wide = chain.plan()
    monkeypatch.setattr(chain.sampler, "n_occupied_leaves", lambda: 20)
    narrow = chain.plan()
    assert wide[0] == "frontier" and narrow[0] == "exact" and wide[1] > narrow[1]
    chain.settle()
    monkeypatch.setattr(chain.sampler, "n_occupied_leaves", lambda: 4000)
    chain.settle()
    assert chain.is_settled and chain.planned == narrow and chain.chosen_kernel() == "exact"
    chain.start(np.random.default_rng(0), (np.ones(2), np.ones(4), np.ones(4), np.ones(4)))
    assert not chain.is_settled


@pytest.mark.parametrize(("n_rows", "width"), [(5, 2), (2000, "infinite")])
def test_auto_stays_collapsed_otherwise(n_rows, width):
    assert "bottom_up" not in kernels_in_order(chain_of("auto", n_rows, width), 4)


def test_the_kernel_takes_turns_whatever_it_costs():
    assert kernels_in_order(chain_of("alternating", 5, 2), 5) == ["exact", *["bottom_up"] * TURNS, "exact"]
    with pytest.raises(ValueError, match="finite n_children"):
        chain_of("alternating", 5, "infinite")


def test_costs_on_known_tables():
    """Exact sweeps over bottom-up ones with their conversion, as measured: wine, abalone, cpu_small at C = 2 and 4."""
    sizes = (
        (142, 14, 177, 831), (142, 14, 268, 18_285), (3080, 9, 124, 351),
        (3080, 9, 350, 5485), (5988, 13, 299, 735), (5988, 13, 992, 15_725),
    )  # fmt: skip
    assert np.allclose([how_much_cheaper(*s) for s in sizes], [1.32, 0.21, 1.92, 0.99, 1.87, 0.76], rtol=0.25)
    structure = complete_tree([f"c{d}" for d in range(21)], n_children=4)
    assert how_much_cheaper(800, 21, 300, structure.n_nodes()) < 0.5  # german at C = 4: measured 0.23
    assert bottom_up_nodes(complete_tree(list("abcd")), fixed_schema(2).compiled) == np.inf
