"""What products of two circuits answer: inner products, Rényi entropy of order 2, two distances, the product itself.

A circuit with its parameters is anything that has them as ``circuit``, ``log_weights`` and ``leaf_parameters``, or a
tuple of the three. Examples are a `CircuitFit`, a `CircuitProduct`, a `FieldCircuit`, and the answers of
`SPNPosterior.as_circuit` and `SPNPosterior.draw_circuits`. Every circuit is a distribution: weights are positive, and
nothing is subtracted.

Two circuits are compatible if their products divide columns alike: wherever two products meet, each child's columns
are those of one or several children of the other. Circuits of one region tree with one split a region are, whatever
their widths. A circuit with a split of its own in each product is in general not even compatible with itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.algebra.circuit_pairs import CircuitPairs
from pymc_spn.circuits.algebra.circuit_products import product_circuit
from pymc_spn.circuits.structures.parameterised import CircuitLike, ParameterisedCircuit, operand
from pymc_spn.numerics.html_repr import Facts

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class CircuitProduct(ParameterisedCircuit):
    """The normalised product of two circuits, from `multiply`.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    log_normaliser : float
        Log of the integral of the product before it was normalised, in nats: the log inner product of the two.

    Examples
    --------
    >>> product = ps.circuits.multiply(low, high)
    >>> product.mean().values
    array([2., 2.])
    """

    log_normaliser: float

    def _facts(self) -> Facts:
        normaliser = f"log normaliser {self.log_normaliser:.6g} nats"
        return Facts("CircuitProduct", {"circuit": repr(self.circuit), "normaliser": normaliser})


def log_inner_product(first: CircuitLike, second: CircuitLike) -> "xr.DataArray":
    """Log of the integral of the product of two circuits' densities, in discrete columns the sum of that of masses.

    A recursion over pairs of nodes with the same columns: bilinear in sums, child by child in products, with integrals
    of pairs of leaves at the end. All in logs, so that circuits far apart lose nothing. It costs as many operations as
    there are pairs of edges of the two circuits that have the same columns, and 8 bytes for each such pair of nodes.
    Supports that circuits declare are not consulted.

    Parameters
    ----------
    first, second : CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        Circuits with parameters; a tuple holds circuit, log_weights and leaf_parameters. Their columns are the same,
        in any order.

    Returns
    -------
    DataArray
        A scalar in nats, ``-inf`` if the supports do not meet. ``attrs["exactness"]`` is "exact", or "numerical" where
        a pair of leaves has no closed form, with ``attrs["tolerance"]`` in nats: the largest relative error of such a
        pair, added over columns.

    Raises
    ------
    TypeError
        If an argument is not a circuit with parameters.
    ValueError
        If parameters are not valid, or if columns differ, or one has densities in one circuit and masses in the other.
        If the circuits are not compatible (two products are named), or the integral is infinite (two leaves are named).

    Examples
    --------
    >>> round(float(ps.circuits.log_inner_product(low, low)), 3)
    -2.531

    References
    ----------
    Vergari, Choi, Liu, Teso and Van den Broeck (2021), A compositional atlas of tractable circuit operations for
    probabilistic inference, NeurIPS 34.
    """
    value, tolerance = _log_inner(operand("first", first), operand("second", second))
    return _labelled("log_inner_product", value, tolerance)


def renyi_entropy(circuit: CircuitLike) -> "xr.DataArray":
    """Rényi entropy of order 2 of a circuit: minus the log of the integral of its squared density.

    It is at most the Shannon entropy, which has no closed form for mixtures.

    Parameters
    ----------
    circuit : CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        As for `log_inner_product`; it must be compatible with itself.

    Returns
    -------
    DataArray
        A scalar in nats, marked as in `log_inner_product`.

    Raises
    ------
    TypeError, ValueError
        As `log_inner_product`.

    Examples
    --------
    >>> round(float(ps.circuits.renyi_entropy(low)), 3)
    2.531

    References
    ----------
    Rényi (1961), On measures of entropy and information, Proceedings of the fourth Berkeley symposium on mathematical
    statistics and probability 1.
    """
    given = operand("circuit", circuit)
    value, tolerance = _log_inner(given, given)
    return _labelled("renyi_entropy", -value, tolerance)


def squared_l2_distance(first: CircuitLike, second: CircuitLike) -> "xr.DataArray":
    """Integral of the squared difference of two circuits' densities, in discrete columns the sum of that of masses.

    Parameters
    ----------
    first, second : CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        As for `log_inner_product`; each must be compatible with itself, too.

    Returns
    -------
    DataArray
        A scalar in the units of the densities. It is 0 if rounding would make it negative, and ``inf`` if it exceeds
        the largest float. ``attrs["tolerance"]``, if there is one, is in these units. Three integrals are added and
        subtracted: the distance of circuits that are nearly equal keeps few digits.

    Raises
    ------
    TypeError, ValueError
        As `log_inner_product`.

    Examples
    --------
    >>> round(float(ps.circuits.squared_l2_distance(low, low)), 6)
    0.0
    """
    (both, own, theirs), errors = _three(first, second)
    with np.errstate(over="ignore"):
        sizes = np.exp(np.array([both, own, theirs]))
    if not np.all(np.isfinite(sizes)):
        return _labelled("squared_l2_distance", np.inf, 0.0)
    value = max(float(sizes[1] - 2.0 * sizes[0] + sizes[2]), 0.0)
    tolerance = float(sizes * [2.0, 1.0, 1.0] @ np.array(errors))
    return _labelled("squared_l2_distance", value, tolerance)


def cauchy_schwarz_divergence(first: CircuitLike, second: CircuitLike) -> "xr.DataArray":
    """Cauchy-Schwarz divergence of two circuits: minus the log of the cosine of the angle between their densities.

    With <p, q> the inner product, -log(<p, q> / sqrt(<p, p> <q, q>)): symmetric, 0 for equal circuits alone, and in
    closed form where the Kullback-Leibler divergence has none.

    Parameters
    ----------
    first, second : CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        As for `log_inner_product`; each must be compatible with itself, too.

    Returns
    -------
    DataArray
        A scalar in nats, ``inf`` if the supports do not meet and 0 where rounding would make it negative, marked as in
        `log_inner_product`.

    Raises
    ------
    TypeError, ValueError
        As `log_inner_product`.

    Examples
    --------
    >>> round(float(ps.circuits.cauchy_schwarz_divergence(low, high)), 6)
    8.0

    References
    ----------
    Jenssen, Principe, Erdogmus and Eltoft (2006), The Cauchy-Schwarz divergence and Parzen windowing: connections to
    graph theory and Mercer kernels, Journal of the Franklin Institute 343(6). Kampa, Hasanbelliu and Principe (2011),
    Closed-form Cauchy-Schwarz pdf divergence for mixture of Gaussians, IJCNN.
    """
    (both, own, theirs), errors = _three(first, second)
    value = max(0.5 * (own + theirs) - both, 0.0)
    return _labelled("cauchy_schwarz_divergence", value, errors[0] + 0.5 * (errors[1] + errors[2]))


def multiply(first: CircuitLike, second: CircuitLike) -> CircuitProduct:
    """Normalised product of two compatible circuits' densities, a product of experts, as a circuit.

    It has a node for each pair of nodes with the same columns that are reached together, and an edge for each pair of
    edges. Their numbers are the products of those of the two circuits, region by region. Pairs whose product is 0 are
    left out.

    Parameters
    ----------
    first, second : CircuitFit, CircuitProduct, PosteriorCircuit, DrawnCircuit or tuple
        As for `log_inner_product`. Leaves that meet must have a product that is a leaf again: both Gaussian,
        log-normal, beta, uniform, geometric, exponential or gamma (these two also with each other), or on levels.

    Returns
    -------
    CircuitProduct

    Raises
    ------
    TypeError
        As `log_inner_product`.
    ValueError
        As `log_inner_product`; if leaves of other families meet (the column is named); if the supports do not meet; if
        the product has more than 10,000,000 edges.

    Examples
    --------
    >>> ps.circuits.multiply(low, high).mean().values
    array([2., 2.])

    References
    ----------
    Vergari, Choi, Liu, Teso and Van den Broeck (2021), as for `log_inner_product`. Hinton (2002), Training products of
    experts by minimizing contrastive divergence, Neural Computation 14(8), for the name.
    """
    one, other = operand("first", first), operand("second", second)
    pairs = CircuitPairs(one, other)
    log_normaliser = pairs.log_inner_product()
    if log_normaliser == -np.inf:
        raise ValueError("first and second must have supports that meet, their product is 0 everywhere")
    return CircuitProduct(*product_circuit(pairs, one[0].columns), log_normaliser)


def _three(first: Any, second: Any) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Log inner products of both, of the first and of the second with itself, and their tolerances."""
    one, other = operand("first", first), operand("second", second)
    (both, a), (own, b), (theirs, c) = _log_inner(one, other), _log_inner(one, one), _log_inner(other, other)
    return (both, own, theirs), (a, b, c)


def _log_inner(first: Any, second: Any) -> tuple[float, float]:
    """Log inner product and its tolerance in nats."""
    pairs = CircuitPairs(first, second)
    return pairs.log_inner_product(), float(pairs.relative_error.sum())


def _labelled(name: str, value: float, tolerance: float) -> "xr.DataArray":
    import xarray as xr

    mark: dict[str, Any] = {"exactness": "exact"}
    if tolerance > 0.0:
        mark = {"exactness": "numerical", "tolerance": tolerance}
    return xr.DataArray(value, name=name, attrs=mark)
