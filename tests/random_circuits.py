"""Random explicit circuits with their parameters, for queries that must hold whatever the circuit."""

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit

FAMILIES = ("gaussian", "exponential", "poisson", "categorical")
WIDTHS = {"gaussian": 2, "exponential": 1, "poisson": 1, "categorical": 3}


def random_circuit(rng, n_columns, mixed):
    """Circuit, log weights and leaf parameters; each column has leaves of one family."""
    family = rng.choice([0, 0, 0, 1, 2, 3], n_columns) if mixed else np.zeros(n_columns, int)
    nodes = []

    def leaf(d):
        nodes.append((LEAF, (), None, d))
        return len(nodes) - 1

    def reserve():
        nodes.append(None)
        return len(nodes) - 1

    def build(scope):
        at = reserve()
        children = []
        for _ in range(rng.integers(2, 4)):
            if len(scope) == 1:
                children.append(leaf(scope[0]))
                continue
            product, shuffled = reserve(), rng.permutation(scope).tolist()
            children.append(product)
            half = len(scope) // 2
            nodes[product] = (PRODUCT, (build(shuffled[:half]), build(shuffled[half:])), None, -1)
        nodes[at] = (SUM, children, rng.dirichlet(np.ones(len(children))), -1)
        return at

    build(list(range(n_columns)))
    rows = {name: [] for name in FAMILIES}
    draw = {
        "gaussian": lambda: [rng.normal(0, 3), np.exp(rng.normal(-0.5, 1))],
        "exponential": lambda: [np.exp(rng.normal())],
        "poisson": lambda: [rng.gamma(2, 4)],
        "categorical": lambda: rng.dirichlet(np.ones(3)).tolist(),
    }
    for kind, _, _, d in nodes:
        if kind == LEAF:
            name = FAMILIES[family[d]]
            rows[name].append(draw[name]())
    circuit = Circuit(
        np.array([n[0] for n in nodes], np.int8),
        np.concatenate([[0], np.cumsum([len(n[1]) for n in nodes])]),
        np.array([c for n in nodes for c in n[1]]),
        np.array([n[3] for n in nodes]),
        np.array([family[n[3]] if n[0] == LEAF else -1 for n in nodes]),
        FAMILIES,
        tuple(f"x{d}" for d in range(n_columns)),
    )
    log_weights = np.log(np.concatenate([n[2] for n in nodes if n[0] == SUM]))
    return (
        circuit,
        log_weights,
        {name: np.array(rows[name]).reshape(-1, WIDTHS[name]) for name in FAMILIES if rows[name]},
    )


def column_families(circuit):
    """Family of each column."""
    leaves = circuit.leaves
    return [
        circuit.families[circuit.leaf_family[leaves[circuit.leaf_column[leaves] == d][0]]]
        for d in range(len(circuit.columns))
    ]
