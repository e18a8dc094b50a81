"""Counts whose palette has Gaussian leaves beside leaves with masses: Gaussian leaves are rounded, of all questions."""

import numpy as np
import pytest
from scipy import stats

from pymc_spn.gibbs.recorded_cells import recorded_cells
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.leaves.family_codes import ROUNDED_GAUSSIAN
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_predictives import Leaves, log_event
from tests.hand_made_records import states_of
from tests.rounded_networks import TABLE, N, rounded

pytestmark = pytest.mark.usefixtures("integrated")

MU, RHO, A, B = 2.3, 4.0, 3.0, 6.0
T = stats.t(2.0 * A, MU, np.sqrt((1.0 + 1.0 / RHO) * B / A))


def leaf(n=1):
    return Leaves(np.full(n, ROUNDED_GAUSSIAN), np.tile([MU, RHO, A, B], (n, 1)))


def mass(k):
    return T.cdf(np.asarray(k) + 0.5) - T.cdf(np.asarray(k) - 0.5)


@pytest.mark.parametrize(
    "event", [Interval(-1.5, 3.9), Interval(2.0, 2.0), Interval(-np.inf, 4.0), frozenset({0.0, 7.0})]
)
def test_events_of_a_leaf_are_sums_of_cells(event):
    whole = np.arange(-4000.0, 4000.0)  # the rest of the t is 1e-19
    is_in = np.isin(whole, list(event)) if isinstance(event, frozenset) else (whole >= event[0]) & (whole <= event[1])
    assert np.exp(log_event(leaf(), event)[0]) == pytest.approx(mass(whole)[is_in].sum(), rel=1e-10)
    law = ColumnLaw(leaf(), np.ones(1), np.zeros(1, np.int64), event)
    np.testing.assert_allclose(law.density(np.array([2.0, 7.0]))[0], np.where(
        [is_in[whole == 2.0][0], is_in[whole == 7.0][0]], mass([2.0, 7.0]) / mass(whole)[is_in].sum(), 0.0
    ), rtol=1e-10)  # fmt: skip


@pytest.mark.parametrize("q", [0.0, 1e-7, 0.02, 0.5, 0.999, 1.0])
def test_quantiles_are_whole_and_may_be_negative(q):
    law = ColumnLaw(leaf(), np.ones(1), np.zeros(1, np.int64))
    x = law.quantile(np.array([q]))[0]
    expected = {0.0: -np.inf, 1.0: np.inf}.get(q, np.ceil(T.ppf(q) - 0.5))
    assert x == expected


def test_rounded_counts_are_unit_cells_without_a_floor():
    schema, _ = rounded()
    assert schema.rounded_columns.tolist() == [0, 1] and schema.mixed_columns.tolist() == [0]
    np.testing.assert_array_equal(schema.cell_widths, [1.0, 0.1])
    assert not schema.compiled.constants[:, 2].any()
    leaves = dict(zip(TABLE.names, schema.palette, strict=True))
    assert recorded_cells(TABLE.columns, TABLE.values, leaves, {"n": 0.0, "x": 0.1}, True).names == ("x",)


def test_the_record_of_rounded_counts_gives_the_state_back():
    """Counts with Poisson leaves are themselves, those with Gaussian leaves somewhere in their cells."""
    schema, idata = rounded()
    states = states_of(idata)
    ticket = idata["posterior"]["s_log_joint"].values.ravel()
    place = int(np.flatnonzero(schema.structure.leaf_column == 0)[0])
    leaf = schema.structure.leaf_region[place]
    apart = []
    for s in range(states.n_draws):
        sampler = states.load(s)
        sampler.jacobian = states.log_jacobian(TABLE.values).sum()
        assert sampler.statistics()[0] == pytest.approx(ticket[s], rel=1e-9)
        x = sampler.coded[:, place] + schema.centre[0]
        is_poisson = states.digits[s][:, leaf] % 2 == 0
        np.testing.assert_array_equal(x[is_poisson], N[is_poisson])
        apart.extend(x[~is_poisson] - N[~is_poisson])
    assert np.abs(apart).max() <= 0.5 and 0.2 < np.std(apart) < 0.4  # of uniform draws 0.29
