"""A circuit's layout as one integer vector, so that compiled code for one circuit serves all; random rows from it."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.circuits.evaluation.gradient import log_densities_and_gradient, log_densities_of_rows
from pymc_spn.circuits.evaluation.tape import LEAF, PRODUCT, SUM, Layout
from pymc_spn.leaves.discrete_families import LARGEST_DRAWN
from pymc_spn.leaves.family_codes import (
    BERNOULLI,
    BETA,
    BETA_BINOMIAL,
    BETA_GEOMETRIC,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    GEOMETRIC,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    NEGATIVE_BINOMIAL,
    POISSON,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.leaves.plain_leaves import (
    LARGEST_SHARE,
    LARGEST_SIZE,
    LARGEST_TRIALS,
    SMALLEST_SHARE,
    SMALLEST_SIZE,
)
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

TOLERANCE = 1e-5  # how far weights may be from adding up to 1
HEADER = len(Layout._fields) + 3  # number of columns, number of families, where each array ends


def pack(layout: Layout, n_columns: int, begin: np.ndarray, width: np.ndarray) -> np.ndarray:
    """One int64 vector of the layout, then where each family's parameters begin and how wide a row is."""
    arrays = [np.asarray(a, np.int64) for a in layout] + [np.asarray(begin, np.int64), np.asarray(width, np.int64)]
    ends = np.cumsum([a.size for a in arrays])
    return np.concatenate([[n_columns], ends, *arrays])


@inner_kernel
def field(packed, i):
    """Array number i of the vector that `pack` made."""
    first = packed[i] if i > 0 else 0
    return packed[HEADER + first : HEADER + packed[i + 1]]


@inner_kernel
def unpack(packed):
    """The layout, and begin and width of the families' parameters."""
    layout = Layout(
        field(packed, 0), field(packed, 1), field(packed, 2), field(packed, 3), field(packed, 4), field(packed, 5),
        field(packed, 6), field(packed, 7), field(packed, 8), field(packed, 9), field(packed, 10), field(packed, 11),
        field(packed, 12), field(packed, 13), field(packed, 14),
    )  # fmt: skip
    return layout, field(packed, 15), field(packed, 16)


@inner_kernel
def is_valid(layout, begin, width, log_weights, theta):
    """Whether weights add up to one at each sum and every leaf's parameters are within their bounds."""
    return are_normalised(layout, np.exp(log_weights)) and are_within_bounds(layout, begin, width, theta)


@bare_inner_kernel
def are_normalised(layout, weight):
    """Whether the weights (n_sum_edges,), not their logs, add up to one at each sum."""
    for v in range(layout.kind.size):
        if layout.kind[v] == SUM:
            total = 0.0
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                total += weight[layout.edge_weight[e]]
            if not abs(total - 1.0) < TOLERANCE:
                return False
    return True


@bare_inner_kernel
def are_within_bounds(layout, begin, width, theta):
    """Whether every leaf's parameters are within their bounds."""
    for k in range(layout.leaf_row.size):
        f, code = layout.leaf_family[k], layout.leaf_code[k]
        first = begin[f] + layout.leaf_row[k] * width[f]
        is_located = code == GAUSSIAN or code == LOG_NORMAL or code == STUDENT_T or code == LOG_STUDENT_T
        is_located = is_located or code == LAPLACE
        if code == UNIFORM:
            if not -math.inf < theta[first] < theta[first + 1] < math.inf:
                return False
            continue
        if code == TRIANGULAR:
            lower, mode, upper = theta[first], theta[first + 1], theta[first + 2]
            if not (-math.inf < lower <= mode <= upper < math.inf and lower < upper):
                return False
            continue
        if code == BINOMIAL:
            n = theta[first]
            if not (1.0 <= n <= LARGEST_TRIALS and n == np.floor(n) and 0.0 < theta[first + 1] < 1.0):
                return False
            continue
        if code == HYPERGEOMETRIC:
            if not are_whole_shares(theta[first], theta[first + 1], theta[first + 2]):
                return False
            continue
        if code == BETA_BINOMIAL and not (theta[first] <= LARGEST_TRIALS and theta[first] == np.floor(theta[first])):
            return False
        is_probability = code == BERNOULLI or code == CATEGORICAL or code == GEOMETRIC
        total = 0.0
        for i in range(first, first + width[f]):
            x = theta[i]
            total += x
            if not abs(x) < math.inf:
                return False
            if is_probability and not 0.0 <= x <= 1.0:
                return False
            if not is_probability and not (is_located and i == first) and not x > 0.0:
                return False
        if (code == GEOMETRIC and not 0.0 < total < 1.0) or (code == CATEGORICAL and not abs(total - 1.0) < TOLERANCE):
            return False
    return True


@bare_inner_kernel
def are_whole_shares(population, successes, draws):
    """Whether the last two are whole numbers from 0 to the first, which is at least 1."""
    if not 1.0 <= population < math.inf or population != np.floor(population):
        return False
    if not (0.0 <= successes <= population and 0.0 <= draws <= population):
        return False
    return successes == np.floor(successes) and draws == np.floor(draws)


@register_jitable
def rows_of(packed, values, log_weights, theta):
    """Log densities (N,) of rows (N, D); ``-inf`` for all if the parameters are none of a circuit."""
    return _rows_of(read_only_view(packed), read_only_view(values), read_only_view(log_weights), read_only_view(theta))


@kernel
def _rows_of(packed, values, log_weights, theta):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    if not is_valid(layout, begin, width, log_weights, theta):
        return out
    block = min(32, max(1, values.shape[0]))
    log_densities_of_rows(layout, log_weights, theta, begin, width, values, block, out)
    return out


@register_jitable
def rows_and_gradient_of(packed, values, log_weights, theta, cotangent):
    """Log densities and the gradient in log weights, leaf parameters and values; zero where `rows_of` is ``-inf``."""
    return _rows_and_gradient_of(
        read_only_view(packed),
        read_only_view(values),
        read_only_view(log_weights),
        read_only_view(theta),
        read_only_view(cotangent),
    )


@kernel
def _rows_and_gradient_of(packed, values, log_weights, theta, cotangent):
    layout, begin, width = unpack(packed)
    out = np.full(values.shape[0], -math.inf)
    grad_weights, grad_theta = np.zeros(log_weights.size), np.zeros(theta.size)
    grad_values = np.zeros(values.shape)
    if not is_valid(layout, begin, width, log_weights, theta):
        return out, grad_weights, grad_theta, grad_values
    block = min(32, max(1, values.shape[0]))
    log_densities_and_gradient(
        layout, log_weights, theta, begin, width, values, cotangent, block, grad_weights, grad_theta, grad_values,
        out,
    )  # fmt: skip
    return out, grad_weights, grad_theta, grad_values


@register_jitable
def draw_row(rng, packed, log_weights, theta):
    """One random row (D,), from the root down."""
    return _draw_row(rng, read_only_view(packed), read_only_view(log_weights), read_only_view(theta))


@kernel
def _draw_row(rng, packed, log_weights, theta):
    layout, begin, width = unpack(packed)
    out = np.empty(packed[0])
    stack = np.empty(layout.kind.size, np.int64)
    stack[0], depth = 0, 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        first, last = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == LEAF:
            k = layout.leaf_of_node[v]
            f = layout.leaf_family[k]
            at = begin[f] + layout.leaf_row[k] * width[f]
            out[layout.leaf_column[k]] = draw_leaf(rng, layout.leaf_code[k], theta[at : at + width[f]])
        elif layout.kind[v] == PRODUCT:
            for e in range(first, last):
                stack[depth] = layout.children[e]
                depth += 1
        else:
            left, chosen = rng.random(), first
            for e in range(first, last):
                share = math.exp(log_weights[layout.edge_weight[e]])
                if share > 0.0:
                    chosen = e  # what rounding leaves goes to the last possible child
                    left -= share
                    if left < 0.0:
                        break
            stack[depth] = layout.children[chosen]
            depth += 1
    return out


@inner_kernel
def draw_count(rng, rate):
    """A Poisson count; beyond what integers hold a normal variate, as in `discrete_families.draw_counts`."""
    if rate <= LARGEST_DRAWN:
        return float(rng.poisson(rate))
    rate = min(rate, LARGEST_SIZE)
    return min(np.rint(rate + math.sqrt(rate) * rng.standard_normal()), LARGEST_SIZE)


@inner_kernel
def draw_leaf(rng, code, theta):
    """One random value from a leaf."""
    if code == GAUSSIAN:
        return theta[0] + theta[1] * rng.standard_normal()
    if code == LOG_NORMAL:
        return math.exp(theta[0] + theta[1] * rng.standard_normal())
    if code == EXPONENTIAL:
        return rng.standard_exponential() / theta[0]
    if code == POISSON:
        return draw_count(rng, theta[0])
    if code == GEOMETRIC:
        return min(np.floor(-rng.standard_exponential() / math.log1p(-theta[0])), LARGEST_SIZE)
    if code == BERNOULLI:
        return 1.0 if rng.random() < theta[0] else 0.0
    if code == CATEGORICAL:
        left = rng.random()
        for v in range(theta.size - 1):
            left -= theta[v]
            if left < 0.0:
                return float(v)
        return float(theta.size - 1)
    if code == STUDENT_T or code == LOG_STUDENT_T:
        x = theta[0] + theta[1] * rng.standard_normal() / math.sqrt(rng.standard_gamma(0.5 * theta[2]) * 2.0 / theta[2])
        return x if code == STUDENT_T else math.exp(x)
    if code == LOMAX:
        return theta[1] * math.expm1(rng.standard_exponential() / theta[0])
    if code == NEGATIVE_BINOMIAL:
        return draw_count(rng, rng.standard_gamma(theta[0]) / theta[1])
    if code == BETA_GEOMETRIC:
        log_odds = log_gamma_draw(rng, theta[0]) - log_gamma_draw(rng, theta[1])
        return min(np.floor(rng.standard_exponential() / math.log1p(math.exp(log_odds))), LARGEST_SIZE)
    if code == LAPLACE:
        away = rng.standard_exponential()
        return theta[0] + theta[1] * (away if rng.random() < 0.5 else -away)
    if code == UNIFORM:
        return theta[0] + (theta[1] - theta[0]) * rng.random()
    if code == TRIANGULAR:
        width, below = theta[2] - theta[0], rng.random()
        rise, fall = (theta[1] - theta[0]) / width, (theta[2] - theta[1]) / width
        left, right = theta[0] + width * math.sqrt(below * rise), theta[2] - width * math.sqrt((1.0 - below) * fall)
        return min(max(left if below < rise else right, theta[0]), theta[2])
    if code == GAMMA:
        return min(max(rng.standard_gamma(theta[0]) / theta[1], SMALLEST_SIZE), LARGEST_SIZE)
    if code == WEIBULL:
        return min(max(theta[1] * rng.standard_exponential() ** (1.0 / theta[0]), SMALLEST_SIZE), LARGEST_SIZE)
    if code == BETA:
        log_odds = log_gamma_draw(rng, theta[0]) - log_gamma_draw(rng, theta[1])
        return min(max(1.0 / (1.0 + math.exp(-log_odds)), SMALLEST_SHARE), LARGEST_SHARE)
    if code == BINOMIAL:
        return float(rng.binomial(int(theta[0]), theta[1]))
    if code == HYPERGEOMETRIC:
        drawn = 0.0
        for i in range(int(theta[2])):
            if rng.random() * (theta[0] - i) < theta[1] - drawn:
                drawn += 1.0
        return drawn
    if code == BETA_BINOMIAL:
        log_odds = log_gamma_draw(rng, theta[1]) - log_gamma_draw(rng, theta[2])
        return float(rng.binomial(int(theta[0]), 1.0 / (1.0 + math.exp(-log_odds))))
    return math.nan
