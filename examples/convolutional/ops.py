"""The evidence of architectures as a term of a PyMC model."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import objmode
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from examples.convolutional.evidence import ArchitectureEvidence
from pymc_spn.indian_chefs.distributions import GraphVariable
from pymc_spn.numerics.quoted_values import quoted


class ArchitectureLogEvidence(Op):
    """`ArchitectureEvidence.log_evidence` of a graph's number of nodes, reputations (K,) and parents (K, K)."""

    __props__ = ("evidence", "input_node", "output_node")

    def __init__(self, evidence: ArchitectureEvidence, input_node: int, output_node: int) -> None:
        self.evidence, self.input_node, self.output_node = evidence, input_node, output_node

    def make_node(self, n_nodes, reputations, parents):
        return Apply(self, [pt.as_tensor_variable(x) for x in (n_nodes, reputations, parents)], [pt.dscalar()])

    def infer_shape(self, node, shapes):
        return [()]

    def value(self, n_nodes, reputations, parents):
        n = int(n_nodes)
        return np.asarray(
            self.evidence.log_evidence(reputations[:n], parents[:n, :n], self.input_node, self.output_node)
        )

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = self.value(*inputs)

    def connection_pattern(self, node):
        return [[False]] * 3

    def pullback(self, inputs, outputs, cotangents):
        return [disconnected_type() for _ in range(3)]


@register_funcify_and_cache_key(ArchitectureLogEvidence)
def _(op, node, **kwargs):
    value = op.value

    @numba_njit
    def architecture_log_evidence(n_nodes, reputations, parents):
        with objmode(out="float64[:]"):  # training takes a thousand times what the way through Python does
            out = value(n_nodes, reputations, parents).reshape(1)
        return np.asarray(out[0])

    return architecture_log_evidence, None  # bound to one data set, so not kept on disk


def architecture_log_evidence(
    graph: GraphVariable, evidence: ArchitectureEvidence, input_node: str, output_node: str
) -> Any:
    """Approximate log evidence of the architecture that a graph induces, for ``pm.Potential``.

    Parameters
    ----------
    graph : GraphVariable
        An `IndianChefsProcess` whose only observed nodes are the input, at reputation 1, and the output, at 0.
    evidence : ArchitectureEvidence
    input_node, output_node : str

    Returns
    -------
    () float64 tensor
        In nats.

    Raises
    ------
    ValueError
        If the graph's observed nodes are others, or stand elsewhere.
    """
    if not isinstance(graph, GraphVariable):
        raise TypeError(f"graph must be what ps.IndianChefsProcess returns; got {type(graph).__name__}")
    if not isinstance(evidence, ArchitectureEvidence):
        raise TypeError(f"evidence must be an ArchitectureEvidence; got {type(evidence).__name__}")
    names = list(graph.observed_nodes)
    if sorted(names) != sorted([input_node, output_node]):
        raise ValueError(
            f"graph must have the observed nodes {input_node!r} and {output_node!r} alone; it has {quoted(names)}"
        )
    places = dict(zip(names, graph.schema.reputations, strict=True))
    for node, reputation, role in ((input_node, 1.0, "input"), (output_node, 0.0, "output")):
        if places[node] != reputation:
            stands = "free" if places[node] is None else f"at {places[node]:g}"
            raise ValueError(f"{role} node {node!r} must have reputation {reputation:g} in the graph; it is {stands}")
    op = ArchitectureLogEvidence(evidence, names.index(input_node), names.index(output_node))
    return op(graph.n_nodes, graph.reputations, graph.parents)
