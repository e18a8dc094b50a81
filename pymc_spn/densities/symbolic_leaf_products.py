"""Inner products and normalised products of two leaves of one family, as PyTensor expressions.

The families are those whose product is again a leaf of the family; uniform leaves, whose product may be nothing, are
left out. The same in NumPy: `leaves.leaf_inner_products` and `leaves.leaf_products`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class LeafPairs(NamedTuple):
    """What is known of pairs of leaves of one family.

    Parameters
    ----------
    product : callable
        From parameters (n, p) and (n, p) to log inner products (n,) in nats and parameters (n, p) of the products.
    bounds : tuple of (low, high)
        Open interval of each parameter; of levels one for all, closed.
    """

    product: Callable[[Any, Any], tuple[Any, Any]]
    bounds: tuple[tuple[float, float], ...]


def _gaussian(p: Any, q: Any) -> tuple[Any, Any]:
    variance = p[:, 1] ** 2 + q[:, 1] ** 2
    mean = p[:, 0] + p[:, 1] ** 2 / variance * (q[:, 0] - p[:, 0])
    logs = -0.5 * (p[:, 0] - q[:, 0]) ** 2 / variance - 0.5 * pt.log(variance) - HALF_LOG_2PI
    return logs, pt.stack([mean, p[:, 1] * q[:, 1] / pt.sqrt(variance)], axis=1)


def _log_normal(p: Any, q: Any) -> tuple[Any, Any]:
    """As of the logs; of two factors 1/x the density of x keeps one."""
    logs, of_logs = _gaussian(p, q)
    mean, variance = of_logs[:, 0], of_logs[:, 1] ** 2
    return logs - mean + 0.5 * variance, pt.stack([mean - variance, of_logs[:, 1]], axis=1)


def _exponential(p: Any, q: Any) -> tuple[Any, Any]:
    total = p + q
    return (pt.log(p) + pt.log(q) - pt.log(total))[:, 0], total


def _gamma(p: Any, q: Any) -> tuple[Any, Any]:
    a, b, rate = p[:, 0], q[:, 0], p[:, 1] + q[:, 1]
    converges = a + b > 1.0
    shape = pt.switch(converges, a + b - 1.0, 1.0)
    logs = a * pt.log(p[:, 1] / rate) + b * pt.log(q[:, 1] / rate) + pt.log(rate)
    logs += pt.gammaln(shape) - pt.gammaln(a) - pt.gammaln(b)
    return pt.switch(converges, logs, np.inf), pt.stack([shape, rate], axis=1)


def _beta(p: Any, q: Any) -> tuple[Any, Any]:
    shapes = p + q - 1.0
    converges = pt.all(shapes > 0.0, axis=1)
    shapes = pt.switch(converges[:, None], shapes, 1.0)
    logs = _log_beta(shapes) - _log_beta(p) - _log_beta(q)
    return pt.switch(converges, logs, np.inf), shapes


def _log_beta(shapes: Any) -> Any:
    return pt.gammaln(shapes).sum(axis=1) - pt.gammaln(shapes.sum(axis=1))


def _geometric(p: Any, q: Any) -> tuple[Any, Any]:
    total = p + q - p * q
    return (pt.log(p) + pt.log(q) - pt.log(total))[:, 0], total


def _bernoulli(p: Any, q: Any) -> tuple[Any, Any]:
    logs, both = _categorical(*(pt.concatenate([1.0 - r, r], axis=1) for r in (p, q)))
    return logs, both[:, 1:]


def _categorical(p: Any, q: Any) -> tuple[Any, Any]:
    """Of leaves that never agree the product is -inf, with any parameters."""
    both = p * q
    total = both.sum(axis=1, keepdims=True)
    agree = total > 0.0
    total = pt.switch(agree, total, 1.0)
    return pt.switch(agree, pt.log(total), -np.inf)[:, 0], pt.switch(agree, both / total, 1.0 / p.shape[1])


REAL, POSITIVE, SHARE = (-np.inf, np.inf), (0.0, np.inf), (0.0, 1.0)
LEAF_PAIRS = {
    "gaussian": LeafPairs(_gaussian, (REAL, POSITIVE)),
    "log_normal": LeafPairs(_log_normal, (REAL, POSITIVE)),
    "exponential": LeafPairs(_exponential, (POSITIVE,)),
    "gamma": LeafPairs(_gamma, (POSITIVE, POSITIVE)),
    "beta": LeafPairs(_beta, (POSITIVE, POSITIVE)),
    "geometric": LeafPairs(_geometric, (SHARE,)),
    "bernoulli": LeafPairs(_bernoulli, (SHARE,)),
    "categorical": LeafPairs(_categorical, (SHARE,)),
}
