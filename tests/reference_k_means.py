"""Lloyd's algorithm, row by row."""

import numpy as np


def lloyd(x, k, rng, rounds):
    """Labels of rows x (n, W) from the same draws."""
    centres = []
    for c in range(k):
        pick = rng.integers(len(x))
        if c > 0:
            nearest = np.min([((x - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
            pick = np.searchsorted(nearest.cumsum(), rng.random() * nearest.sum())
        centres.append(x[pick])
    for _ in range(rounds + 1):
        label = np.argmin([((x - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        centres = [x[label == c].mean(axis=0) if c in label else centres[c] for c in range(k)]
    return label
