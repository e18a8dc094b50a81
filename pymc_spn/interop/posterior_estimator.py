"""What all estimators are: parameters, and a posterior object behind them."""

import pickle
from typing import Any

from pymc_spn.interop.scikit_learn import BaseEstimator


class PosteriorEstimator(BaseEstimator):
    """An estimator that keeps its answers in ``posterior_``."""

    posterior_: Any

    # joblib maps the arrays of a pickled estimator into memory, read-only. Kernels would be compiled once more for
    # such arrays, for many seconds, so it is given bytes.

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "posterior_" in state:
            state["posterior_"] = pickle.dumps(state["posterior_"], pickle.HIGHEST_PROTOCOL)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "posterior_" in state:
            state = state | {"posterior_": pickle.loads(state["posterior_"])}
        super().__setstate__(state)
