"""The operations of `circuit_ops` as JAX functions, for PyTensor's JAX mode and the samplers that build on it.

Loaded by a rewrite of that mode, so that nobody else imports JAX.
"""

from typing import Any

import jax
from pytensor.graph.basic import Apply, Constant
from pytensor.link.jax.dispatch.basic import jax_funcify

from pymc_spn.circuits.evaluation.jax_pass import log_densities_in_jax
from pymc_spn.densities.circuit_ops import CircuitRows, CircuitRowsAndGradient


@jax_funcify.register(CircuitRows)
def _(op, node, **kwargs):
    log_densities = _log_densities(node)

    def circuit_rows_in_jax(packed, values, log_weights, theta):
        return log_densities(values, log_weights, theta)

    return circuit_rows_in_jax


@jax_funcify.register(CircuitRowsAndGradient)
def _(op, node, **kwargs):
    log_densities = _log_densities(node)

    def circuit_rows_and_gradient_in_jax(packed, values, log_weights, theta, cotangent):
        rows, pull_back = jax.vjp(log_densities, values, log_weights, theta)
        grad_values, grad_weights, grad_theta = pull_back(cotangent)
        return rows, grad_weights, grad_theta, grad_values

    return circuit_rows_and_gradient_in_jax


def _log_densities(node: Apply) -> Any:
    """The circuit as a JAX function: its layout decides on the operations, so that it cannot be one of their inputs."""
    packed = node.inputs[0]
    if node.op.is_wide:
        raise NotImplementedError(
            "a CircuitDensity whose circuit has leaves over several columns does not run in JAX; compile the model in "
            "PyTensor's default mode, and sample it with pm.sample() or nutpie"
        )
    if not isinstance(packed, Constant):
        raise ValueError(
            f"{node.op}: in JAX the packed layout of a circuit must be a constant of the graph, got {packed}"
        )
    shared = log_densities_in_jax(packed.data)
    own = [None if x.type.ndim == 1 else 0 for x in node.inputs[2:4]]
    if own == [None, None]:
        return shared
    return jax.vmap(lambda row, log_weights, theta: shared(row[None], log_weights, theta)[0], in_axes=(0, *own))
