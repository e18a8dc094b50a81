"""Normal-inverse-Wishart leaves over d columns in kernels: posterior, predictive of what is observed, draws, evidence.

`(mu, Sigma) ~ NIW(0, k0, diag(psi0), v0)` about the centre of the prior, from which values are counted. A leaf keeps
the number of its rows, their sums (d,) and the sums of their products. Symmetric matrices are lower triangles, one
column after the other: entry (i, j), i >= j, stands at ``j d - j (j - 1) / 2 + i - j``, so that every inner loop runs
along memory. A factor (Cholesky) holds the reciprocals of its diagonal.

The predictive of the observed columns o of a row is a Student t with f = v - d + 1 degrees of freedom whatever o is.
Missing columns given o have f + |o|. Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section
9, equations 250 to 266; Ding (2016), doi:10.1080/00031305.2016.1164678, for the conditional.
"""

import math

from pymc_spn.numerics.elementary import digamma, fast_log1p, larger
from pymc_spn.numerics.kernel_options import bare_called_kernel, copied_kernel

LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)


@copied_kernel
def triangle_size(d):
    """Numbers of a lower triangle."""
    return d * (d + 1) // 2


@copied_kernel
def column_of_triangle(d, j):
    """Where column j of a lower triangle begins: its diagonal."""
    return j * d - j * (j - 1) // 2


@bare_called_kernel
def add_row(d, x, sign, sums, products):
    """Add (sign 1) or take away (sign -1) a complete row."""
    at = 0
    for j in range(d):
        step = sign * x[j]
        sums[j] += step
        column = products[at : at + d - j]
        below = x[j:d]
        for i in range(column.size):
            column[i] += step * below[i]
        at += d - j


@bare_called_kernel
def scatter(d, k, sums, products, psi0, out):
    """Psi of the posterior: psi0 + products - sums sums' / k, with k = k0 + n."""
    at = 0
    for j in range(d):
        share = sums[j] / k
        column = out[at : at + d - j]
        product = products[at : at + d - j]
        below = sums[j:d]
        for i in range(column.size):
            column[i] = product[i] - share * below[i]
        column[0] += psi0[j]
        at += d - j


@bare_called_kernel
def gathered_scatter(d, order, k, sums, products, psi0, out):
    """`scatter` with its rows and columns in another order (d,)."""
    at = 0
    for j in range(d):
        a = order[j]
        for i in range(j, d):
            b = order[i]
            low = a + b - larger(a, b)
            out[at] = products[column_of_triangle(d, low) + larger(a, b) - low] - sums[a] * sums[b] / k
            at += 1
        out[at - (d - j)] += psi0[a]


@bare_called_kernel
def factorise(d, n_first, triangle, floor):
    """Factor the first columns in place, the rest becoming their Schur complement; returns half the log determinant.

    ``floor`` (d,) is the diagonal that was added to a positive semidefinite matrix: no pivot is less, up to rounding.
    """
    half_log = 0.0
    at = 0
    for j in range(n_first):
        size = d - j
        column = triangle[at : at + size]
        pivot = math.sqrt(larger(column[0], floor[j]))
        half_log += math.log(pivot)
        inverse = 1.0 / pivot
        for i in range(1, size):
            column[i] *= inverse
        column[0] = inverse
        following = at + size
        for k in range(1, size):
            weight = column[k]
            target = triangle[following : following + size - k]
            source = column[k:]
            for i in range(target.size):
                target[i] -= weight * source[i]
            following += size - k
        at += size
    return half_log


@bare_called_kernel
def solve(d, n_first, factor, z):
    """Solve the factored part in place, and return the square of its length; what follows is what the part predicts.

    With z = (x_o - m_o, 0) the rest becomes -(E[x_u | x_o] - m_u).
    """
    square = 0.0
    at = 0
    for j in range(n_first):
        size = d - j
        column = factor[at : at + size]
        below = z[j:d]
        own = below[0] * column[0]
        below[0] = own
        square += own * own
        for i in range(1, size):
            below[i] -= own * column[i]
        at += size
    return square


@bare_called_kernel
def log_scale_of(d, n_seen, k, v, half_log):
    """What the log predictive of n_seen columns has before its power: k = k0 + n, v = v0 + n."""
    f = v - d + 1.0
    gammas = math.lgamma(0.5 * (f + n_seen)) - math.lgamma(0.5 * f)
    return gammas - 0.5 * n_seen * (LOG_PI + math.log1p(1.0 / k)) - half_log


@bare_called_kernel
def log_predictive_of_row(d, k, v, log_scale, sums, factor, x, z):
    """Log predictive of a complete row; ``z`` (d,) is scratch."""
    share = 1.0 / k
    for i in range(d):
        z[i] = x[i] - sums[i] * share
    square = solve(d, d, factor, z)
    return log_scale - 0.5 * (v + 1.0) * fast_log1p(square * k / (k + 1.0))


@bare_called_kernel
def observed_first(d, x, order):
    """Write the columns with the observed ones first, in order; returns how many are observed."""
    n_seen = 0
    for i in range(d):
        if not math.isnan(x[i]):
            order[n_seen] = i
            n_seen += 1
    at = n_seen
    for i in range(d):
        if math.isnan(x[i]):
            order[at] = i
            at += 1
    return n_seen


@bare_called_kernel
def form_of_observed(d, n_seen, order, k, sums, products, psi0, x, triangle, floor, z):
    """Quadratic form of the observed columns of a row, and half the log determinant of their part of Psi."""
    gathered_scatter(d, order, k, sums, products, psi0, triangle)
    for i in range(d):
        floor[i] = psi0[order[i]]
        z[i] = x[order[i]] - sums[order[i]] / k if i < n_seen else 0.0
    half_log = factorise(d, n_seen, triangle, floor)
    return solve(d, n_seen, triangle, z), half_log


@bare_called_kernel
def log_predictive_of_observed(d, n_seen, order, k, v, sums, products, psi0, x, triangle, floor, z):
    """Log predictive of the observed columns of a row, which ``order`` has first.

    ``triangle``, ``floor`` (d,) and ``z`` (d,) are scratch; `draw_missing_of_row` goes on from what is left in them.
    """
    square, half_log = form_of_observed(d, n_seen, order, k, sums, products, psi0, x, triangle, floor, z)
    log_scale = log_scale_of(d, n_seen, k, v, half_log)
    return log_scale - 0.5 * (v - d + 1.0 + n_seen) * fast_log1p(square * k / (k + 1.0))


@bare_called_kernel
def draw_missing_of_row(rng, d, n_seen, order, k, v, sums, triangle, floor, z, x):
    """Draw the missing columns of a row into x, after `log_predictive_of_observed` of the same row and leaf."""
    square = 0.0
    at = 0
    for j in range(n_seen):
        square += z[j] * z[j]
        at += d - j
    rest = d - n_seen
    factorise(rest, rest, triangle[at:], floor[n_seen:])
    width = math.sqrt(((k + 1.0) / k + square) / (2.0 * rng.standard_gamma(0.5 * (v - d + 1.0 + n_seen))))
    for i in range(n_seen, d):
        z[i] = sums[order[i]] / k - z[i]
    for j in range(n_seen, d):
        step = width * rng.standard_normal()
        z[j] += step / triangle[at]
        for i in range(j + 1, d):
            z[i] += step * triangle[at + i - j]
        at += d - j
    for i in range(n_seen, d):
        x[order[i]] = z[i]


@bare_called_kernel
def log_evidence(d, n, k0, v0, sums, products, psi0, triangle):
    """Log marginal likelihood of the rows of a leaf, in nats; ``triangle`` is scratch and has their factor after it."""
    k = k0 + n
    v = v0 + n
    scatter(d, k, sums, products, psi0, triangle)
    log_p = 0.5 * d * (math.log(k0 / k) - n * LOG_PI) - v * factorise(d, d, triangle, psi0)
    for i in range(d):
        log_p += math.lgamma(0.5 * (v - i)) - math.lgamma(0.5 * (v0 - i)) + 0.5 * v0 * math.log(psi0[i])
    return log_p


@bare_called_kernel
def expected_constant(d, k, v, half_log):
    """What the expected log density of a row has before -v/2 times its square, under the posterior of a leaf."""
    total = -0.5 * d * (LOG_PI + 1.0 / k) - half_log
    for i in range(d):
        total += 0.5 * digamma(0.5 * (v - i))
    return total


@bare_called_kernel
def log_integral_of_missing(n_missing, v, half_log):
    """Log of the integral over the missing columns of exp(-v/2 (square of the whole row - square of what is observed)).

    They are normal then: about what the observed columns predict, with the Schur complement over v for a covariance
    matrix; ``half_log`` is half the log determinant of that complement. Their entropy is more by half their number.
    """
    return 0.5 * n_missing * (LOG_2PI - math.log(v)) + half_log


@bare_called_kernel
def add_covariance_of_missing(d, n_seen, order, weight, triangle, products):
    """Add a weight times the Schur complement that `factorise` left behind the first columns to sums of products."""
    at = 0
    for j in range(n_seen):
        at += d - j
    for j in range(n_seen, d):
        for i in range(j, d):
            low = min(order[i], order[j])
            products[column_of_triangle(d, low) + max(order[i], order[j]) - low] += weight * triangle[at]
            at += 1


@copied_kernel
def inverse_at(d, j, factor, z):
    """Entry (j, j) of the inverse of a factored matrix; ``z`` (d,) is scratch."""
    z[:d] = 0.0
    z[j] = 1.0
    return solve(d, d, factor, z)
