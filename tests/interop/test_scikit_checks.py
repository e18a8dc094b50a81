"""scikit-learn's own checks of an estimator's manners, all of them; none is expected to fail."""

import pytest

import pymc_spn as ps

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

NETWORK = {"max_children": 2, "restarts": 1, "max_steps": 5}
TREES = {"particles": 8, "islands": 2}
ESTIMATORS = [
    ps.sklearn.SPNDensity(**NETWORK),
    ps.sklearn.SPNClassifier(**NETWORK),
    ps.sklearn.SPNRegressor(**NETWORK),
    ps.sklearn.SPNImputer(**NETWORK),
    ps.sklearn.SPNOutlierDetector(**NETWORK, level=0.05, n_reference=99),
    ps.sklearn.BayesianTreeClassifier(**TREES),
    ps.sklearn.BayesianTreeRegressor(**TREES),
    ps.sklearn.OrderDAG(),
]


# some checks have responses of three whole numbers, of which the networks rightly warn where they are to be densities;
# one check shifts the iris table off its grid, which the networks rightly notice; one of the array API (run where
# SCIPY_ARRAY_API is set) has collinear columns, as BGe says
@pytest.mark.filterwarnings("ignore:columns .* are collinear")
@pytest.mark.filterwarnings("ignore:values are rounded to coarse steps in 'y'")
@pytest.mark.filterwarnings("ignore:equal values are far more frequent")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_finds_no_fault(estimator, check):
    check(estimator)
