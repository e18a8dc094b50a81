"""How the assignments of a draw are cut into chunks, and joined again: digits of the rows in every region."""

from typing import Any

import numpy as np

from pymc_spn.gibbs.joint_leaves import n_kinds


def chunk_length(n_cells: int, record_every: int) -> int:
    """Digits in each draw's chunk: `record_every` chunks or fewer hold one state of `n_cells` digits."""
    return -(-n_cells // max(record_every, 1))


def chunks_per_state(n_cells: int, length: int) -> int:
    """Draws from one recorded state to the next; not more than the ``record_every`` that gave the length."""
    return -(-n_cells // length)


def digits_dtype(structure: Any, palette: Any, n_rows: int) -> np.dtype:
    """Smallest signed integer type that holds every digit and -1.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
    n_rows : int
        Sets the largest label of an infinite node.
    """
    largest = int(n_labels(structure, palette, n_rows).max()) - 1
    return next(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max)


def n_labels(structure: Any, palette: Any, n_rows: int) -> np.ndarray:
    """Digits (R,) that a sum node can have: its children, of an infinite one as many of each option as there are rows.

    Arguments as for `digits_dtype`. The options are splits, or palette entries; a digit modulo their number says which.
    """
    n_options = n_kinds(structure, palette)
    return np.where(structure.n_children > 0, np.maximum(structure.n_children, n_options), n_rows * n_options)


def cut_digits(digits: np.ndarray, length: int) -> np.ndarray:
    """Chunks (k, length) of one state (N, R), padded with zeros."""
    flat = np.ravel(digits)
    out = np.zeros(chunks_per_state(flat.size, length) * length, digits.dtype)
    out[: flat.size] = flat
    return out.reshape(-1, length)


def join_digits(chunks: np.ndarray, n_rows: int, n_regions: int, n_chunks: int | None = None) -> np.ndarray:
    """States (chain, record, N, R) from chunks (chain, draw, length); an unfinished last state is dropped.

    ``n_chunks`` of a state follow from their length unless something else was cut into as many.
    """
    n_chains, n_draws, length = chunks.shape
    n_cells = n_rows * n_regions
    k = chunks_per_state(n_cells, length) if n_chunks is None else n_chunks
    n_records = n_draws // k
    joined = chunks[:, : n_records * k].reshape(n_chains, n_records, k * length)
    return joined[..., :n_cells].reshape(n_chains, n_records, n_rows, n_regions)
