"""Pairs of rows that partitions have together, counted row by row."""

import numpy as np

from pymc_spn.numerics.kernel_options import bare_kernel


@bare_kernel
def add_togetherness(own, others, weight, together):
    """Add the weights of the partitions that have two rows together.

    Parameters
    ----------
    own : (N, S) int32
        Clusters of rows.
    others : (S, M) int32
        Clusters of other rows, few enough to stay in the cache.
    weight : (S,) float64
    together : (N, M) float64
        Added to, partition by partition.
    """
    for i in range(own.shape[0]):
        row = together[i]
        for s in range(weight.size):
            w = weight[s]
            label = own[i, s]
            for j in range(row.size):
                row[j] += w if others[s, j] == label else 0.0


@bare_kernel
def pairs_in_common(code, order, count, common):
    """Pairs of rows that each two partitions have together, ordered and with those of a row and itself.

    Parameters
    ----------
    code : (S, N) int32
        Clusters of each partition, from 0.
    order : (S, N) int32
        Rows by the clusters of each partition.
    count : (N,) int64
        Zeros, before and after: rows of one cluster in each of another partition.
    common : (S, S) float64
        Out: sums over clusters a of one and b of the other of the squared number of rows in both.
    """
    for s in range(code.shape[0]):
        for t in range(s + 1):
            total = np.int64(0)
            start = 0
            while start < code.shape[1]:
                cluster = code[s, order[s, start]]
                stop = start
                while stop < code.shape[1] and code[s, order[s, stop]] == cluster:
                    total += 2 * count[code[t, order[s, stop]]] + 1  # (n + 1)^2 - n^2
                    count[code[t, order[s, stop]]] += 1
                    stop += 1
                for k in range(start, stop):
                    count[code[t, order[s, k]]] = 0
                start = stop
            common[s, t] = total
            common[t, s] = total
