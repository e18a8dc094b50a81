"""The published top-down sampler: starts and refusals; its law is in `test_kernels`."""

import numpy as np
import pytest

from pymc_spn.gibbs.bottom_up import BottomUpSampler
from pymc_spn.gibbs.published import PublishedSampler
from tests.networks.coded_tables import coded_table


def family_chain(kind, n_rows, **options):
    """Sampler of a table of all families with random trees."""
    table = coded_table(n_rows, **({"n_children": 3} | options))
    sampler = kind(table.structure, table.compiled, table.coded)
    sampler.set_hyperparameters(np.array([1.3, 0.7]), np.full(7, 0.4), np.full(7, 1.5), np.full(7, 0.05))
    rng = np.random.default_rng(2)
    sampler.set_digits(rng.integers(0, table.structure.n_children, (n_rows, table.structure.n_regions)))
    return sampler


def test_states_off_the_trees_start_from_weights_given_the_trees():
    """A node that no tree reaches gets its weights from the prior, so its states are far from uniform."""
    table = coded_table(400, n_children=2)
    structure, compiled = table.structure, table.compiled
    s = PublishedSampler(structure, compiled, table.coded)
    s.set_hyperparameters(np.array([0.2, 0.2]), *(np.full(7, v) for v in (0.5, 2.0, 0.1)))
    s.set_digits(np.zeros((400, structure.n_regions), np.int32))
    s.sweep(np.random.default_rng(0))
    d = int(compiled.n_levels.argmax()) + 1  # smokes: two leaves at every node
    r = s.layout.leaf_region[d]
    share = (s.states.digit[:, s.states.place[r] + 1 : s.states.place[r] + s.layout.n_nodes[r]] == 0).mean(axis=0)
    assert (np.abs(share - 0.5) > 0.4).mean() > 0.3  # Beta(0.1, 0.1) puts 0.65 there, uniform states nothing


def test_digits_are_kept_until_the_first_sweep():
    s = family_chain(PublishedSampler, 50)
    digits = s.digits()
    np.testing.assert_array_equal(digits < 0, s.layout.missing)
    other = np.where(digits >= 0, 0, -1)
    s.set_digits(other)
    np.testing.assert_array_equal(s.digits(), other)
    s.sweep(np.random.default_rng(0))
    np.testing.assert_array_equal(s.digits() < 0, s.layout.missing)


def test_wide_nodes_take_two_bytes():
    s = family_chain(PublishedSampler, 40, n_children=(2, 2, 150, 2))
    assert s.states.digit.dtype == np.int16
    assert family_chain(PublishedSampler, 40, n_children=2).states.digit.dtype == np.int8
    s.sweep(np.random.default_rng(0))
    assert s.digits().max() > 2


def test_infinite_width_and_too_much_memory_are_refused():
    table = coded_table(20)
    for kind, name in ((PublishedSampler, "published"), (BottomUpSampler, "bottom_up")):
        with pytest.raises(ValueError, match=rf"'{name}' .* finite n_children; region 0 \(height, "):
            kind(table.structure, table.compiled, table.coded)
    table = coded_table(20, n_children=4)
    with pytest.raises(ValueError, match=r"20 rows at [\d,]+ sum nodes, which takes [\d,]+ bytes; memory_limit is 500"):
        PublishedSampler(table.structure, table.compiled, table.coded, memory_limit=500)
