"""Products of two leaves' densities or masses that are, once normalised, leaves again."""

import numpy as np

from pymc_spn.leaves.explicit_leaves import EXPLICIT


def leaf_products(family: str, p: np.ndarray, other: str, q: np.ndarray) -> tuple[str, np.ndarray] | None:
    """Family and parameters of normalised products, pair by pair.

    Parameters
    ----------
    family, other : str
        Names in `EXPLICIT`.
    p, q : (n, k) and (n, l) float64
        Their parameters, one pair a row, with inner products that are positive and finite.

    Returns
    -------
    (str, (n, m) float64), or None
        None if the products are no leaves of a known family.
    """
    if other in EXPLICIT[family].products:
        result, multiply = EXPLICIT[family].products[other]
        return result, multiply(p, q)
    if family in EXPLICIT[other].products:
        result, multiply = EXPLICIT[other].products[family]
        return result, multiply(q, p)
    return None
