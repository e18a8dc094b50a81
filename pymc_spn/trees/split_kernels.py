"""Splits of one node: which features can be split, every option with its prior mass and gain, and the two children.

A split is (feature, low, high, side). On a feature that is cut, ``low`` and ``high`` are the codes of two values that
are adjacent among the node's rows; rows up to ``low`` go left. All cut points between them give the same partition, so
they are one option, with the gap's share of the range as prior mass. One-hot splits send the level ``low`` left.
Subset splits send the levels of the bit mask ``low`` left, among those of the mask ``high`` which the node holds. Where
the feature is missing in some of the rows, ``side`` says where they go (0 left, 1 right), a fair coin a priori; -1
otherwise.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.interrupt_checks import must_stop
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.trees.leaf_kernels import CLASSES, gather_statistics, leaf_log_marginal, moments_log_marginal

CUT, ONE_HOT, SUBSET = 0, 1, 2


class FeatureCodes(NamedTuple):
    """Features as ranks: ``codes`` (D, N) int32, -1 missing; ``values`` flat, those of feature d from ``begin[d]``."""

    codes: np.ndarray
    kind: np.ndarray
    values: np.ndarray
    begin: np.ndarray
    weight: np.ndarray


class Rules(NamedTuple):
    """Prior of the tree: a node at depth d splits with probability ``alpha_s (1 + d) ** -beta_s`` where it can."""

    alpha_s: float
    beta_s: float
    max_depth: int
    min_size: int


class Options(NamedTuple):
    """Scratch for the splits of one node, with ``decision`` (n, 4) int32, and for sorting its rows."""

    decision: np.ndarray
    mass: np.ndarray
    gain: np.ndarray
    key: np.ndarray
    row: np.ndarray
    other_key: np.ndarray
    other_row: np.ndarray
    bins: np.ndarray
    counts: np.ndarray


MAX_BITS = 12  # of the digits that rows are sorted by
MANY_ROWS = 1 << 16  # of a node: each feature takes milliseconds
MAX_LEVELS = 60  # of a one-hot feature: bit masks, and scratch


def make_options(n_rows, n_options, n_statistics):
    """Scratch large enough for every node of a table with this many splits at its root."""
    i4 = np.int32
    return Options(
        np.empty((n_options, 4), i4),
        np.empty(n_options),
        np.empty(n_options),
        *(np.empty(n_rows + 1, i4) for _ in range(4)),
        np.zeros(1 << MAX_BITS, np.int64),
        np.zeros((3 + MAX_LEVELS, n_statistics)),
    )


@inner_kernel
def split_probability(rules, depth):
    return rules.alpha_s * (1.0 + depth) ** (-rules.beta_s)


@inner_kernel
def is_usable(code, rows, begin, n):
    """Whether a feature has two distinct values among the rows."""
    first = -1
    for i in range(begin, begin + n):
        c = code[rows[i]]
        if c >= 0:
            if first < 0:
                first = c
            elif c != first:
                return True
    return False


@inner_kernel
def code_range(code, rows, begin, n):
    """Number of rows without a value, smallest and largest code of the others."""
    n_missing, low, high = 0, np.int32(2147483647), np.int32(-1)
    for i in range(begin, begin + n):
        c = code[rows[i]]
        if c >= 0:
            low = min(low, c)
            high = max(high, c)
        else:
            n_missing += 1
    return n_missing, low, high


@kernel
def usable_features(x, rows, begin, n, out):
    """Marks the features with two distinct values among the rows; returns their total weight."""
    total = 0.0
    for d in range(x.codes.shape[0]):
        out[d] = x.weight[d] > 0.0 and is_usable(x.codes[d], rows, begin, n)
        if out[d]:
            total += x.weight[d]
    return total


@inner_kernel
def _insertion_sort(key, row, n):
    for i in range(1, n):
        k, r = key[i], row[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            key[j + 1] = key[j]
            row[j + 1] = row[j]
            j -= 1
        key[j + 1] = k
        row[j + 1] = r


@inner_kernel
def _counting_pass(key, row, other_key, other_row, n, shift, mask, bins):
    for b in range(mask + 1):
        bins[b] = 0
    for i in range(n):
        bins[(key[i] >> shift) & mask] += 1
    total = 0
    for b in range(mask + 1):
        count = bins[b]
        bins[b] = total
        total += count
    for i in range(n):
        b = (key[i] >> shift) & mask
        other_key[bins[b]] = key[i]
        other_row[bins[b]] = row[i]
        bins[b] += 1


@inner_kernel
def sort_rows(code, rows, begin, n, options):
    """Observed rows of a node in ascending order of a feature, into ``options.key`` and ``options.row``; their number.

    Costs O(n) whatever the number of distinct values in the table. The ranks within the node are sorted by their digits
    to the base 2^b, b about log2 n, so no pass touches more bins than rows.
    """
    key, row = options.key, options.row
    m = 0
    low, high = np.int32(2147483647), np.int32(-1)
    for i in range(begin, begin + n):
        c = code[rows[i]]
        if c >= 0:
            key[m] = c
            row[m] = rows[i]
            m += 1
            low = min(low, c)
            high = max(high, c)
    if m <= 40:
        _insertion_sort(key, row, m)
        return m
    for i in range(m):
        key[i] -= low
    span = high - low
    bits = 6
    while (1 << bits) < m and bits < MAX_BITS:
        bits += 1
    shift = 0
    a_key, a_row, b_key, b_row = key, row, options.other_key, options.other_row
    while (span >> shift) > 0:
        left = 0  # bits that are left
        while (span >> (shift + left)) > 0:
            left += 1
        use = min(bits, left)
        _counting_pass(a_key, a_row, b_key, b_row, m, shift, (1 << use) - 1, options.bins)
        a_key, b_key = b_key, a_key
        a_row, b_row = b_row, a_row
        shift += use
    for i in range(m):
        key[i] = a_key[i] + low
        row[i] = a_row[i]
    return m


@inner_kernel
def _add_option(options, j, feature, low, high, side, mass, gain):
    decision = options.decision[j]
    decision[0], decision[1], decision[2], decision[3] = feature, low, high, side
    options.mass[j] = mass
    options.gain[j] = gain


@inner_kernel
def _cut_options(x, d, share, response, leaf, statistics, n, m, own, options, j):
    """Options of a feature that is cut, from the sorted rows; ``share`` is the feature's prior probability."""
    key, row = options.key, options.row
    values = x.values[x.begin[d] : x.begin[d + 1]]
    per_unit = share / (values[key[m - 1]] - values[key[0]])
    n_missing = n - m
    n_s = response.n_statistics
    left, right = options.counts[0], options.counts[1]
    for side in range(2 if n_missing else 1):
        gather_statistics(response, row, 0, m, right)  # of the observed rows, those of the missing ones by difference
        n_left = 0
        for k in range(n_s):
            left[k] = 0.0
            if n_missing and side == 0:
                left[k] = statistics[k] - right[k]
            elif n_missing:
                right[k] = statistics[k]
        if n_missing and side == 0:
            n_left = n_missing
        n_right = n - n_left
        shown = side if n_missing else -1
        factor = 0.5 * per_unit if n_missing else per_unit
        if leaf.family == CLASSES:
            wide = 1 if leaf.step.shape[0] > 1 else 0
            value = 0.0
            for k in range(n_s):
                value += leaf.mass[k * wide, int(left[k])] + leaf.mass[k * wide, int(right[k])]
            for i in range(m - 1):
                k = response.label[row[i]]
                a, b = int(left[k]), int(right[k]) - 1
                value += leaf.step[k * wide, a] - leaf.step[k * wide, b]
                left[k] = a + 1
                right[k] = b
                n_left += 1
                n_right -= 1
                if key[i] != key[i + 1]:
                    gain = value - leaf.total[n_left] - leaf.total[n_right] - own
                    mass = (values[key[i + 1]] - values[key[i]]) * factor
                    _add_option(options, j, d, key[i], key[i + 1], shown, mass, gain)
                    j += 1
        else:
            for i in range(m - 1):
                f, s = response.first[row[i]], response.second[row[i]]
                left[0] += f
                left[1] += s
                right[0] -= f
                right[1] -= s
                n_left += 1
                n_right -= 1
                if key[i] != key[i + 1]:
                    gain = moments_log_marginal(leaf, n_left, left[0], left[1]) - own
                    gain += moments_log_marginal(leaf, n_right, statistics[0] - left[0], statistics[1] - left[1])
                    mass = (values[key[i + 1]] - values[key[i]]) * factor
                    _add_option(options, j, d, key[i], key[i + 1], shown, mass, gain)
                    j += 1
    return j


@inner_kernel
def _level_options(x, d, share, response, leaf, statistics, n, m, own, options, j):
    """One-hot or subset options of a categorical feature, from the sorted rows."""
    key, row = options.key, options.row
    n_s = response.n_statistics
    counts = options.counts  # rows 3.. hold the statistics of the levels present, rows 0 and 1 those of the children
    size = np.zeros(MAX_LEVELS, np.int64)
    level = np.empty(MAX_LEVELS, np.int64)
    n_levels = 0
    begin = 0
    for i in range(1, m + 1):
        if i == m or key[i] != key[begin]:
            level[n_levels] = key[begin]
            size[n_levels] = i - begin
            gather_statistics(response, row, begin, i - begin, counts[3 + n_levels])
            n_levels += 1
            begin = i
    n_missing = n - m
    present = 0
    for a in range(n_levels):
        present |= 1 << level[a]
    one_hot = x.kind[d] == ONE_HOT
    n_options = n_levels if one_hot else (1 << n_levels) - 2
    for side in range(2 if n_missing else 1):
        mass = share / n_options * (0.5 if n_missing else 1.0)
        for o in range(n_options):
            chosen = (1 << o) if one_hot else o + 1
            counts[0] = 0.0
            n_left, low = 0, 0
            for a in range(n_levels):
                if (chosen >> a) & 1:
                    n_left += size[a]
                    low |= 1 << level[a]
                    for k in range(n_s):
                        counts[0, k] += counts[3 + a, k]
            if n_missing and side == 0:
                n_left += n_missing
                for k in range(n_s):
                    counts[0, k] += statistics[k]
                    for a in range(n_levels):
                        counts[0, k] -= counts[3 + a, k]
            for k in range(n_s):
                counts[1, k] = statistics[k] - counts[0, k]
            gain = leaf_log_marginal(leaf, n_left, counts[0]) - own
            gain += leaf_log_marginal(leaf, n - n_left, counts[1])
            shown = side if n_missing else -1
            _add_option(options, j, d, level[o] if one_hot else low, 0 if one_hot else present, shown, mass, gain)
            j += 1
    return j


@kernel
def all_options(x, response, leaf, rows, begin, n, statistics, own, usable, weight, options):
    """Every split of a node into ``options``: prior mass given that it splits (sum one) and gain in log likelihood.

    Parameters
    ----------
    own : float
        Log marginal likelihood of the node as a leaf.
    usable, weight : (D,) int8 and float
        From `usable_features`.

    Returns
    -------
    int
        Number of options.
    """
    j = 0
    for d in range(x.codes.shape[0]):
        if usable[d]:
            if n >= MANY_ROWS and must_stop():
                return j
            m = sort_rows(x.codes[d], rows, begin, n, options)
            share = x.weight[d] / weight
            if x.kind[d] == CUT:
                j = _cut_options(x, d, share, response, leaf, statistics, n, m, own, options, j)
            else:
                j = _level_options(x, d, share, response, leaf, statistics, n, m, own, options, j)
    return j


@inner_kernel
def weigh_options(options, n_options, p):
    """Turns masses into proposal weights ``mass exp(gain)``, cumulated; returns the log of p sum + 1 - p, and parts.

    Returns
    -------
    log_normaliser, stop, total : float
        ``stop`` and ``total`` are the weights of stopping and of splitting on one scale.
    """
    top = 0.0
    for j in range(n_options):
        top = max(top, options.gain[j])
    total = 0.0
    for j in range(n_options):
        g = options.gain[j] - top
        if g > -60.0:
            total += options.mass[j] * fast_exp(g)
        options.gain[j] = total
    total *= p
    stop = (1.0 - p) * math.exp(-top)
    return top + math.log(stop + total), stop, total


@inner_kernel
def choose_option(options, n_options, u):
    """First option whose cumulated weight exceeds ``u`` times the total."""
    target = u * options.gain[n_options - 1]
    low, high = 0, n_options - 1
    while low < high:
        middle = (low + high) >> 1
        if options.gain[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@inner_kernel
def goes_left(kind, code, low, side):
    """Whether a row of the node with this code goes left."""
    if code < 0:
        return side == 0
    if kind == CUT:
        return code <= low
    if kind == ONE_HOT:
        return code == low
    return (low >> code) & 1 == 1


@inner_kernel
def split_rows(x, rows, begin, n, feature, low, side, out, at):
    """Copies the rows of a node to ``out[at:]``, those of the left child first, all in order; the number of these."""
    code, kind = x.codes[feature], x.kind[feature]
    a, b = at, at + n
    for i in range(begin, begin + n):
        if goes_left(kind, code[rows[i]], low, side):
            out[a] = rows[i]
            a += 1
        else:
            b -= 1
            out[b] = rows[i]
    for i in range((at + n - a) // 2):  # the right ones came from the back
        out[a + i], out[at + n - 1 - i] = out[at + n - 1 - i], out[a + i]
    return a - at
