"""Where the tensors and weights of a convolutional network lie on flat arrays."""

from typing import NamedTuple

import numpy as np

from examples.convolutional.architecture import Architecture


class NetworkLayout(NamedTuple):
    """Places of a network's tensors and weights, and the gather indices of its convolutions (im2col).

    A tensor of c channels and s x s pixels fills c s s rows, channel by channel; columns are images. The row behind the
    last is zero and stands for pixels outside.

    Parameters
    ----------
    first_row : (n + 1,) int64
        First row of each node; the output has none. The last entry is the number of rows, and the zero row.
    channels, pixels : (n,) int64
        Shape of each node's tensor; 0 channels for the output.
    patch_start, n_patch : (n,) int64
        The patch rows of a hidden node i: ``patch_rows[patch_start[i] :]`` holds, pixel by pixel, the `n_patch[i]` rows
        which its filters see there.
    patch_rows : (p,) int64
    weight_start : (n,) int64
        Filters of a hidden node, (channels, n_patch) in rows; those of the output are (n_classes, n_pooled).
    pooled : (q,) int64
        First rows of the channels that the output averages; q is n_pooled.
    pooled_pixels : (q,) int64
        Pixels of each.
    n_weights : int
    """

    first_row: np.ndarray
    channels: np.ndarray
    pixels: np.ndarray
    patch_start: np.ndarray
    n_patch: np.ndarray
    patch_rows: np.ndarray
    weight_start: np.ndarray
    pooled: np.ndarray
    pooled_pixels: np.ndarray
    n_weights: int


def make_layout(architecture: Architecture, side: int, n_extra: int, n_classes: int) -> NetworkLayout:
    """Layout of an architecture on images of side x side pixels.

    Equations (18) and (19): bin b has 2^b + `n_extra` channels of side / 2^b pixels a side; the input has one channel.
    Between sides in the ratio r the filters have max(3, r) pixels a side and stride r, so that they see every pixel and
    are the usual 3 x 3 where r is 1.
    """
    bins, parents = architecture.bins, architecture.parents
    n = len(bins)
    sides = side >> bins
    channels = (1 << bins) + n_extra
    sides[0], channels[0], channels[-1] = side, 1, 0
    pixels = sides**2
    first_row = np.concatenate([[0], np.cumsum(channels * pixels)])
    zero_row = int(first_row[-1])
    start, n_patch, weight_start = (np.zeros(n, np.int64) for _ in range(3))
    blocks, n_rows, n_weights = [], 0, 0
    for i in range(1, n - 1):
        patches = [
            _patch_rows(int(first_row[k]), int(channels[k]), int(sides[k]), int(sides[i]), zero_row)
            for k in np.flatnonzero(parents[:, i])
        ]
        rows = np.concatenate(patches, axis=1)
        blocks.append(rows.ravel())
        start[i], n_patch[i], weight_start[i] = n_rows, rows.shape[1], n_weights
        n_rows += rows.size
        n_weights += int(channels[i]) * rows.shape[1]
    weight_start[-1] = n_weights
    feeding = np.flatnonzero(parents[:, -1])
    pooled = [first_row[k] + c * pixels[k] for k in feeding for c in range(channels[k])]
    return NetworkLayout(
        first_row,
        channels,
        pixels,
        start,
        n_patch,
        np.concatenate(blocks) if blocks else np.zeros(0, np.int64),
        weight_start,
        np.array(pooled, np.int64),
        np.repeat(pixels[feeding], channels[feeding]),
        n_weights + n_classes * len(pooled),
    )


def _patch_rows(first: int, channels: int, side: int, out_side: int, zero_row: int) -> np.ndarray:
    """(out_side^2, channels m^2) rows that filters of m x m pixels see of one parent."""
    stride = side // out_side
    m = max(3, stride)
    outside = (m - stride + 1) // 2  # rows above the image that the first filter covers
    at = stride * np.arange(out_side)[:, None] + np.arange(m) - outside  # (out_side, m)
    inside = (at >= 0) & (at < side)
    pixel = at[:, None, :, None] * side + at[None, :, None, :]  # (y, x, dy, dx)
    valid = inside[:, None, :, None] & inside[None, :, None, :]
    rows = first + side**2 * np.arange(channels)[:, None, None] + pixel[:, :, None]  # (y, x, channel, dy, dx)
    return np.where(valid[:, :, None], rows, zero_row).reshape(out_side**2, channels * m**2).astype(np.int64)
