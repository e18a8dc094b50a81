"""The log density of a sum of squares of circuits as a PyTensor expression, and what draws from it need."""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from pymc_spn.circuits.algebra.sums_of_squares import LEAST_SHARE, without_product
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import TOLERANCE, pack
from pymc_spn.circuits.evaluation.signed_draws import bundle
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.densities.circuit_density import packed_inputs
from pymc_spn.densities.circuit_ops import circuit_rows
from pymc_spn.densities.symbolic_products import LEAF_PAIRS, SymbolicProduct
from pymc_spn.leaves.explicit_leaves import EXPLICIT


class Summand(NamedTuple):
    """One circuit of the sum, and where its parameters stand in the vector of all.

    Parameters
    ----------
    circuit : Circuit
    packed : (s,) int64
    first : int
        Place of the first log weight; leaf parameters follow, family by family.
    widths : dict of str to int
        Parameters of a leaf of each family in use.
    """

    circuit: Circuit
    packed: np.ndarray
    first: int
    widths: dict[str, int]

    def split(self, theta: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Log weights, all leaf parameters in a row, and these by family (n, p)."""
        at = self.first + self.circuit.n_sum_edges
        log_weights, begin, families = theta[self.first : at], at, {}
        for name, width in self.widths.items():
            n = self.circuit.leaves_of(name).size
            families[name] = theta[at : at + n * width].reshape((n, width))
            at += n * width
        return log_weights, theta[begin:at], families


class Terms(NamedTuple):
    """The square multiplied out: a mixture of normalised products.

    Parameters
    ----------
    log_normaliser : scalar
        Log of the integral of the sum of squares, in nats.
    weights : (M,)
        Of either sign; they add up to 1.
    is_left : scalar bool
        Whether the terms of the normaliser leave more than rounding.
    log_weights, theta : list of (E,) and list of (P,)
        Parameters of each product.
    """

    log_normaliser: Any
    weights: Any
    is_left: Any
    log_weights: list[Any]
    theta: list[Any]


class SymbolicSquares:
    """Structure of a sum of squares: its circuits, and the products of all pairs.

    Compared and hashed as one object, by identity: it is a property of operations, which PyTensor merges where they
    are equal.

    Parameters
    ----------
    components : sequence of Summand
    has_gaps : bool
        Whether rows may have missing cells.
    """

    def __init__(self, components: Sequence[Summand], has_gaps: bool) -> None:
        self.components, self.has_gaps = components, has_gaps
        self.n_columns = len(components[0].circuit.columns)
        widths: dict[str, int] = {}
        for k, component in enumerate(components):
            for name, width in component.widths.items():
                if widths.setdefault(name, width) != width:
                    raise ValueError(
                        f"components must have categorical leaves of as many levels, components[{k}] has {width} and "
                        f"one before it {widths[name]}"
                    )
        self.widths = widths
        self.pairs = list(combinations_with_replacement(range(len(components)), 2))
        self.products = []
        for k, m in self.pairs:
            first, second = components[k].circuit, components[m].circuit
            try:
                self.products.append(SymbolicProduct(first, second, widths.get("categorical", 2)))
            except ValueError as error:
                raise ValueError(f"{without_product(k, m)}: {error}") from error
        self.packed = []
        for product in self.products:
            wide = np.array([widths[name] for name in product.circuit.families])
            size = np.array([product.circuit.leaves_of(name).size for name in product.circuit.families]) * wide
            layout = compile_circuit(product.circuit).layout
            self.packed.append(pack(layout, self.n_columns, np.cumsum(size) - size, wide))

    @classmethod
    def of(cls, operands: Sequence[tuple[Circuit, Any, Any]], has_gaps: bool) -> tuple["SymbolicSquares", Any]:
        """The structure for circuits with parameters, and a vector of all parameters."""
        components: list[Summand] = []
        vectors: list[Any] = []
        first = 0
        for circuit, log_weights, leaf_parameters in operands:
            try:
                packed, weights, theta = packed_inputs(circuit, log_weights, leaf_parameters)
            except (TypeError, ValueError) as error:
                raise type(error)(f"components[{len(components)}]: {error}") from error
            of_families = packed.data[packed.data.size - len(circuit.families) :].tolist()
            widths = {name: w for name, w in zip(circuit.families, of_families, strict=True) if w}
            components.append(Summand(circuit, packed.data, first, widths))
            vectors += [weights, theta]
            first += circuit.n_sum_edges + sum(circuit.leaves_of(name).size * w for name, w in widths.items())
        return cls(components, has_gaps), pt.concatenate(vectors)

    def terms(self, coefficients: Any, theta: Any) -> Terms:
        """The square multiplied out, for coefficients (J, K) and the vector of all parameters."""
        own = [component.split(theta) for component in self.components]
        square = coefficients.T @ coefficients
        logs, factors, log_weights, vectors = [], [], [], []
        for (k, m), product in zip(self.pairs, self.products, strict=True):
            log_inner, weights, leaves = product.evaluate(*((own[i][0], own[i][2]) for i in (k, m)))
            logs.append(log_inner)
            factors.append(square[k, m] * (1.0 if k == m else 2.0))
            log_weights.append(weights)
            vectors.append(pt.concatenate([leaves[name].ravel() for name in product.circuit.families]))
        sizes = pt.stack(logs)
        top = disconnected_grad(sizes.max())
        signed = pt.stack(factors) * pt.exp(sizes - top)
        total, added = signed.sum(), pt.abs(signed).sum()
        is_left = total > LEAST_SHARE * added  # not where all coefficients are 0, nor where an integral is infinite
        return Terms(top + pt.log(pt.switch(is_left, total, 1.0)), signed / total, is_left, log_weights, vectors)

    def inputs(self, coefficients: Any, theta: Any) -> tuple[Any, ...]:
        """What `SumOfSquaresRV` takes: beside these two, layouts, and weights and parameters of all products."""
        terms = self.terms(coefficients, theta)
        sizes = [
            ([c.circuit for c in self.components], [c.packed for c in self.components]),
            ([product.circuit for product in self.products], self.packed),
        ]
        circuits, products = (
            bundle(packed, [c.n_sum_edges for c in of], [self.n_parameters(c) for c in of]) for of, packed in sizes
        )
        parts = zip(terms.log_weights, terms.theta, strict=True)
        of_products = pt.concatenate([x for part in parts for x in part])
        return coefficients, pt.constant(circuits), theta, terms.weights, pt.constant(products), of_products

    def n_parameters(self, circuit: Circuit) -> int:
        """How many leaf parameters a circuit has."""
        return sum(
            circuit.leaves_of(name).size * width for name, width in self.widths.items() if name in circuit.families
        )

    def log_density(self, rows: Any, coefficients: Any, theta: Any) -> Any:
        """Log densities (N,) of rows (N, D), in nats.

        Complete rows square one sum of the circuits' densities; those with gaps add the products' with their signs.
        """
        terms = self.terms(coefficients, theta)
        gaps = pt.isnan(rows).any(axis=1)
        if self.has_gaps:
            whole, partial = pt.nonzero(~gaps)[0], pt.nonzero(gaps)[0]
            logs = [
                circuit_rows(pt.as_tensor_variable(packed), rows[partial], weights, leaves)
                for packed, weights, leaves in zip(self.packed, terms.log_weights, terms.theta, strict=True)
            ]
            found = pt.zeros(rows.shape[0])
            found = pt.set_subtensor(found[whole], self._of_whole_rows(rows[whole], coefficients, theta, terms))
            found = pt.set_subtensor(found[partial], _log_of_sum(pt.stack(logs, axis=1), terms.weights, 1.0))
        else:
            found = pt.switch(gaps, np.nan, self._of_whole_rows(rows, coefficients, theta, terms))
        return pt.switch(self._is_valid(theta) & terms.is_left, found, -np.inf)

    def _of_whole_rows(self, rows: Any, coefficients: Any, theta: Any, terms: Terms) -> Any:
        logs = []
        for component in self.components:
            log_weights, leaves, _ = component.split(theta)
            logs.append(circuit_rows(pt.as_tensor_variable(component.packed), rows, log_weights, leaves))
        return _log_of_sum(pt.stack(logs, axis=1), coefficients.T, 2.0) - terms.log_normaliser

    def _is_valid(self, theta: Any) -> Any:
        """Whether weights add up to one at each sum and leaf parameters are within their bounds."""
        conditions = [pt.all(pt.isfinite(theta) | pt.eq(theta, -np.inf))]
        for component in self.components:
            circuit = component.circuit
            log_weights, _, families = component.split(theta)
            total = pt.inc_subtensor(pt.zeros(circuit.n_nodes)[circuit.edge_sum], pt.exp(log_weights))
            at_sums = np.unique(circuit.edge_sum)
            conditions.append(pt.all(pt.abs(total[at_sums] - 1.0) < TOLERANCE))
            for name, parameters in families.items():
                bounds = LEAF_PAIRS[name].bounds
                for i in range(component.widths[name]):
                    low, high = bounds[min(i, len(bounds) - 1)]
                    x = parameters[:, i]
                    inside = (
                        (x >= low) & (x <= high) if EXPLICIT[name].probabilities is not None else (x > low) & (x < high)
                    )
                    conditions.append(pt.all(inside))
                if EXPLICIT[name].n_parameters is None:
                    conditions.append(pt.all(pt.abs(parameters.sum(axis=1) - 1.0) < TOLERANCE))
        return pt.all(pt.stack(conditions))


def _log_of_sum(logs: Any, weights: Any, power: float) -> Any:
    """Log (n,) of sums over j of (exp(logs (n, K)) @ weights (K,) or (K, J)) ** power; -inf unless positive."""
    top = disconnected_grad(logs.max(axis=1, keepdims=True))
    top = pt.switch(pt.isinf(top), 0.0, top)
    total = pt.exp(logs - top) @ weights
    total = (total**2).sum(axis=1) if power == 2.0 else total
    positive = total > 0.0
    return pt.switch(positive, pt.log(pt.switch(positive, total, 1.0)) + power * top[:, 0], -np.inf)
