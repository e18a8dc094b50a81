"""Leaves of a circuit in JAX: what `leaf_forms` has for one leaf, for all leaves of a family and all rows at once.

JAX differentiates both sides of a choice, and a NaN or infinity on the side that is not taken spoils the gradient.
Where a result is not used, its argument is therefore replaced by a harmless one first.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from pymc_spn.leaves.explicit_leaves import SYMBOLS
from pymc_spn.leaves.family_codes import CODE
from pymc_spn.leaves.kernel_forms import FACTORIAL, LOG_ODDS, LOGARITHM, NOT_NEGATIVE, REAL

BY_CODE = {CODE[name]: symbols for name, symbols in SYMBOLS.items()}


def log_of_zero(dtype: Any) -> float:
    """A finite number in its place, so that no difference of two is NaN; sums over 10⁸ columns stay finite."""
    return 1e-8 * float(jnp.finfo(dtype).min)


class ReadValues(NamedTuple):
    """Cells as leaves of one reading see them, each (I, N); see `leaf_forms.read_value`."""

    u: Any
    base: Any
    is_possible: Any  # observed, and a value that the leaves can take
    otherwise: Any  # log density where not; that of a missing cell is 0


def read(x: Any, reading: int) -> ReadValues:
    """Cells from values (I, N), NaN where missing."""
    if reading == REAL:
        is_possible = jnp.isfinite(x)
    elif reading == NOT_NEGATIVE:
        is_possible = (x >= 0.0) & (x < math.inf)
    elif reading == LOGARITHM:
        is_possible = (x > 0.0) & (x < math.inf)
    elif reading == LOG_ODDS:
        is_possible = (x > 0.0) & (x < 1.0)
    else:
        is_possible = (x >= 0.0) & (x < math.inf) & (x == jnp.floor(x))
    otherwise = jnp.where(jnp.isnan(x), 0.0, log_of_zero(x.dtype))
    u = jnp.where(is_possible, x, 0.5 if reading == LOG_ODDS else 1.0)
    if reading == LOGARITHM:
        u = jnp.log(u)
        return ReadValues(u, -u, is_possible, otherwise)
    if reading == LOG_ODDS:
        y, z = jnp.log(u), jnp.log1p(-u)
        return ReadValues(y - z, -(y + z), is_possible, otherwise)
    if reading not in (REAL, NOT_NEGATIVE):
        u = jax.lax.stop_gradient(u)  # masses have no derivative in the value
    base = -gammaln(u + 1.0) if reading == FACTORIAL else jnp.zeros_like(u)
    return ReadValues(u, base, is_possible, otherwise)


def leaf_log_densities(code: int, theta: Any, cells: ReadValues) -> Any:
    """Log densities (L, N) of leaves of one family, from parameters (L, p) within their bounds and cells (L, N)."""
    zero = log_of_zero(theta.dtype)
    logs = BY_CODE[code].in_jax(JAX, theta, cells.u, zero) + cells.base
    return jnp.where(cells.is_possible, jnp.where(logs > zero, logs, zero), cells.otherwise)


def are_within_bounds(code: int, theta: Any) -> Any:
    """Whether all parameters (L, p) of a family are, as in `packed_layout.is_valid`."""
    symbols = BY_CODE[code]
    is_inside = theta > 0.0 if symbols.are_valid is None else symbols.are_valid(JAX, theta)
    return is_inside.all() & jnp.isfinite(theta).all()


def chosen(condition: Any, f: Callable[[Any], Any], x: Any, otherwise: Any) -> Any:
    """f(x) where the condition holds, and without an infinite derivative where not."""
    return jnp.where(condition, f(jnp.where(condition, x, 1.0)), otherwise)


def columns(theta: Any) -> Any:
    """Each parameter as (L, 1)."""
    return theta.T[:, :, None]


# what families need of JAX
JAX = SimpleNamespace(
    **{name: getattr(jnp, name) for name in ("abs", "arange", "concatenate", "exp", "floor", "log", "log1p", "sign")},
    **{name: getattr(jnp, name) for name in ("sqrt", "where")},
    softplus=jax.nn.softplus,
    constant=jax.lax.stop_gradient,
    gammaln=gammaln,
    chosen=chosen,
    columns=columns,
)
