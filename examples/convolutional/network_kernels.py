"""Convolutional networks over directed acyclic graphs: values, gradients by hand, and training by Adam.

Columns of all matrices are images, which the inner loops run along. A convolution gathers the rows that a pixel's
filters see by index (im2col without the copy). Four channels are worked at a time, and in `forward` four rows with
them, since with one product for each load the loops would wait for memory; rows are indexed and not sliced, because a
slice is counted.
"""

import math

import numpy as np
from numba import njit

from pymc_spn.numerics.elementary import VECTOR_MATH

# Sums along a row may be reordered, or the gradient's inner products are not vectorised.
network_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTOR_MATH | {"reassoc"})


@network_kernel
def forward(weights, layout, values, means, logits):
    """Tensors of all nodes, equation (17), and logits, equation (20) with pixels averaged instead of summed.

    Parameters
    ----------
    weights : (n_weights,) float64
    layout : NetworkLayout
    values : (rows + 1, m) float64
        Out, but for the input's rows and the zero row, which hold the images and 0.
    means : (n_pooled, m) float64
        Out: averages over pixels of what the output sees.
    logits : (n_classes, m) float64
        Out.
    """
    m = values.shape[1]
    for i in range(1, layout.channels.size - 1):
        n_patch, pixels = layout.n_patch[i], layout.pixels[i]
        rows, channels = layout.patch_rows, layout.channels[i]
        for p in range(pixels):
            seen, at, w, c = layout.patch_start[i] + p * n_patch, layout.first_row[i] + p, layout.weight_start[i], 0
            while c + 4 <= channels:
                o0, o1, o2, o3 = at, at + pixels, at + 2 * pixels, at + 3 * pixels
                for b in range(m):
                    values[o0, b] = values[o1, b] = values[o2, b] = values[o3, b] = 0.0
                r = 0
                while r + 4 <= n_patch:
                    x0, x1, x2, x3 = rows[seen + r], rows[seen + r + 1], rows[seen + r + 2], rows[seen + r + 3]
                    k = w + r
                    a0, a1, a2, a3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                    k += n_patch
                    b0, b1, b2, b3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                    k += n_patch
                    c0, c1, c2, c3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                    k += n_patch
                    d0, d1, d2, d3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                    for b in range(m):
                        y0, y1, y2, y3 = values[x0, b], values[x1, b], values[x2, b], values[x3, b]
                        values[o0, b] += a0 * y0 + a1 * y1 + a2 * y2 + a3 * y3
                        values[o1, b] += b0 * y0 + b1 * y1 + b2 * y2 + b3 * y3
                        values[o2, b] += c0 * y0 + c1 * y1 + c2 * y2 + c3 * y3
                        values[o3, b] += d0 * y0 + d1 * y1 + d2 * y2 + d3 * y3
                    r += 4
                while r < n_patch:
                    x0, k = rows[seen + r], w + r
                    a0, b0 = weights[k], weights[k + n_patch]
                    c0, d0 = weights[k + 2 * n_patch], weights[k + 3 * n_patch]
                    for b in range(m):
                        y0 = values[x0, b]
                        values[o0, b] += a0 * y0
                        values[o1, b] += b0 * y0
                        values[o2, b] += c0 * y0
                        values[o3, b] += d0 * y0
                    r += 1
                at, w, c = at + 4 * pixels, w + 4 * n_patch, c + 4
            while c < channels:
                for b in range(m):
                    values[at, b] = 0.0
                for r in range(n_patch):
                    x0, a0 = rows[seen + r], weights[w + r]
                    for b in range(m):
                        values[at, b] += a0 * values[x0, b]
                at, w, c = at + pixels, w + n_patch, c + 1
        for row in range(layout.first_row[i], layout.first_row[i + 1]):
            for b in range(m):
                values[row, b] = max(values[row, b], 0.0)
    w = layout.weight_start[-1]
    logits[:] = 0.0
    for q in range(layout.pooled.size):
        pixels = layout.pooled_pixels[q]
        means[q] = 0.0
        for p in range(pixels):
            for b in range(m):
                means[q, b] += values[layout.pooled[q] + p, b]
        for b in range(m):
            means[q, b] /= pixels
        for c in range(logits.shape[0]):
            w0 = weights[w + c * layout.pooled.size + q]
            for b in range(m):
                logits[c, b] += w0 * means[q, b]


@network_kernel
def log_softmax(logits, labels):
    """Sum of the labels' log probabilities; ``logits`` become probabilities minus one at the label.

    Labels below 0 are not counted.
    """
    total = 0.0
    for b in range(logits.shape[1]):
        highest = logits[0, b]
        for c in range(1, logits.shape[0]):
            highest = max(highest, logits[c, b])
        mass = 0.0
        label = labels[b]
        if label >= 0:
            total += logits[label, b] - highest
        for c in range(logits.shape[0]):
            logits[c, b] = math.exp(logits[c, b] - highest)
            mass += logits[c, b]
        for c in range(logits.shape[0]):
            logits[c, b] /= mass
        if label >= 0:
            total -= math.log(mass)
            logits[label, b] -= 1.0
    return total


@network_kernel
def backward(weights, layout, values, means, errors, slopes, gradient):
    """Gradient of minus the log likelihood.

    Parameters
    ----------
    values, means
        As `forward` left them.
    errors : (n_classes, m) float64
        Probabilities minus indicators of the labels.
    slopes : (rows + 1, m) float64
        Out: derivatives by the tensors of hidden nodes.
    gradient : (n_weights,) float64
        Out.
    """
    m, n_pooled = values.shape[1], layout.pooled.size
    gradient[:] = 0.0
    slopes[:] = 0.0
    w = layout.weight_start[-1]
    for q in range(n_pooled):
        first = layout.pooled[q]
        slope = slopes[first]
        for c in range(errors.shape[0]):
            total, w0 = 0.0, weights[w + c * n_pooled + q] / layout.pooled_pixels[q]
            for b in range(m):
                total += errors[c, b] * means[q, b]
                slope[b] += w0 * errors[c, b]
            gradient[w + c * n_pooled + q] = total
        for p in range(1, layout.pooled_pixels[q]):
            slopes[first + p] = slope
    for i in range(layout.channels.size - 2, 0, -1):
        n_patch, pixels, channels = layout.n_patch[i], layout.pixels[i], layout.channels[i]
        for p in range(pixels):
            seen = layout.patch_start[i] + p * n_patch
            for c in range(channels):
                row = layout.first_row[i] + c * pixels + p
                for b in range(m):
                    slopes[row, b] *= values[row, b] > 0.0
            for r in range(n_patch):
                row = layout.patch_rows[seen + r]
                if row == layout.first_row[-1]:
                    continue
                x, into = values[row], slopes[row]
                at, w, c = layout.first_row[i] + p, layout.weight_start[i] + r, 0
                while c + 4 <= channels:
                    s0, s1, s2, s3 = slopes[at], slopes[at + pixels], slopes[at + 2 * pixels], slopes[at + 3 * pixels]
                    v0, v1, v2, v3 = w, w + n_patch, w + 2 * n_patch, w + 3 * n_patch
                    w0, w1, w2, w3 = weights[v0], weights[v1], weights[v2], weights[v3]
                    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                    for b in range(m):
                        t0 += s0[b] * x[b]
                        t1 += s1[b] * x[b]
                        t2 += s2[b] * x[b]
                        t3 += s3[b] * x[b]
                        into[b] += w0 * s0[b] + w1 * s1[b] + w2 * s2[b] + w3 * s3[b]
                    gradient[v0] += t0
                    gradient[v1] += t1
                    gradient[v2] += t2
                    gradient[v3] += t3
                    at, w, c = at + 4 * pixels, w + 4 * n_patch, c + 4
                while c < channels:
                    slope, total, w0 = slopes[at], 0.0, weights[w]
                    for b in range(m):
                        total += slope[b] * x[b]
                        into[b] += w0 * slope[b]
                    gradient[w] += total
                    at, w, c = at + pixels, w + n_patch, c + 1


@network_kernel
def train(weights, layout, images, labels, batches, rate, n_classes):
    """Adam (Kingma and Ba 2015) with betas 0.9 and 0.999 on mean losses; the rate falls linearly to 0.

    Parameters
    ----------
    weights : (n_weights,) float64
        Changed in place.
    images : (pixels, n) float64
    labels : (n,) int64
    batches : (steps, m) int64
        Columns of ``images``.
    rate : float
    n_classes : int
    """
    n_steps, m = batches.shape
    values, slopes = np.zeros((layout.first_row[-1] + 1, m)), np.zeros((layout.first_row[-1] + 1, m))
    means, logits = np.zeros((layout.pooled.size, m)), np.zeros((n_classes, m))
    gradient, first, second = np.zeros(weights.size), np.zeros(weights.size), np.zeros(weights.size)
    held = np.zeros(m, np.int64)
    for step in range(n_steps):
        take_columns(images, labels, batches[step], values, held)
        forward(weights, layout, values, means, logits)
        log_softmax(logits, held)
        backward(weights, layout, values, means, logits, slopes, gradient)
        first_scale = 1.0 / (1.0 - 0.9 ** (step + 1))
        second_scale = 1.0 / (1.0 - 0.999 ** (step + 1))
        now = rate * (n_steps - step) / n_steps
        for w in range(weights.size):
            g = gradient[w] / m
            first[w] += 0.1 * (g - first[w])
            second[w] += 0.001 * (g * g - second[w])
            weights[w] -= now * first[w] * first_scale / (math.sqrt(second[w] * second_scale) + 1e-8)


@network_kernel
def evaluate(weights, layout, images, labels, block, out):
    """Log likelihood of the labels, in nats; label probabilities go into ``out`` (n_classes, n).

    ``block`` images are worked at a time; labels below 0 are not counted.
    """
    n = images.shape[1]
    values = np.zeros((layout.first_row[-1] + 1, block))
    means, logits = np.zeros((layout.pooled.size, block)), np.zeros((out.shape[0], block))
    columns, held = np.zeros(block, np.int64), np.zeros(block, np.int64)
    total = 0.0
    for begin in range(0, n, block):
        for b in range(block):
            columns[b] = min(begin + b, n - 1)
        take_columns(images, labels, columns, values, held)
        held[n - begin :] = -1  # the last block is filled up with the last image
        forward(weights, layout, values, means, logits)
        total += log_softmax(logits, held)
        for b in range(min(block, n - begin)):
            for c in range(out.shape[0]):
                out[c, begin + b] = logits[c, b] + (c == held[b])
    return total


@network_kernel
def take_columns(images, labels, columns, values, held):
    """Images of a batch into the input's rows, their labels into ``held``."""
    for b in range(columns.size):
        for p in range(images.shape[0]):
            values[p, b] = images[p, columns[b]]
        held[b] = labels[columns[b]]
