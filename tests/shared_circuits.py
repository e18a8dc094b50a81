"""Circuits whose nodes have several parents, random parameters, and their densities by textbook formulas."""

import math

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logsumexp

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.scipy_leaves import SCIPY as DISTRIBUTIONS
from pymc_spn.tables import Table


def build(nodes, columns, families):
    """Circuit from (kind, children) and ("leaf", column, family) entries, given from the root down."""
    kind, ptr, children, column, family = [], [0], [], [], []
    for node in nodes:
        is_leaf = node[0] == "leaf"
        kind.append(LEAF if is_leaf else SUM if node[0] == "sum" else PRODUCT)
        children += [] if is_leaf else list(node[1])
        ptr.append(len(children))
        column.append(node[1] if is_leaf else -1)
        family.append(families.index(node[2]) if is_leaf else -1)
    arrays = (np.array(a, np.int64) for a in (kind, ptr, children, column, family))
    return Circuit(*arrays, families, columns)


def coded(circuit, rows):
    """Rows of codes as a table of the columns of a circuit that knows their levels; an array where these are names."""
    values = np.array(rows, float)
    if any(isinstance(column, str) for column in circuit.columns):
        return values
    return Table(circuit.columns, values, pd.RangeIndex(len(values)))


def codes_of(circuit, frame):
    """The codes of a frame of such rows."""
    return Table.from_frame(frame, schema=circuit.columns).values


def crossed_circuit(n_columns, n_sums, n_leaves, families=("gaussian",)):
    """Random-tensorised-network shape: halves of the columns, sums over all pairs of nodes of the two halves.

    Nodes of a region are shared by all products above it.
    """
    below = []  # regions in preorder, each a list of entries with region-relative children

    def region(first, last):
        index = len(below)
        below.append(None)
        if last - first == 1:
            below[index] = [("leaf", first, families[i % len(families)]) for i in range(n_leaves)]
            return index
        middle = (first + last) // 2
        parts = region(first, middle), region(middle, last)
        below[index] = (parts, 1 if index == 0 else n_sums)
        return index

    region(0, n_columns)
    n_top = {i: (len(e) if isinstance(e, list) else e[1]) for i, e in enumerate(below)}
    n_products = {i: 0 if isinstance(e, list) else n_top[e[0][0]] * n_top[e[0][1]] for i, e in enumerate(below)}
    first, at = {}, 0
    for i in range(len(below)):
        first[i] = at
        at += n_top[i] + n_products[i]
    nodes = []
    for i, entry in enumerate(below):
        if isinstance(entry, list):
            nodes += entry
            continue
        (left, right), n = entry
        products = range(first[i] + n, first[i] + n + n_products[i])
        nodes += [("sum", products)] * n
        nodes += [
            ("product", (first[left] + a, first[right] + b)) for a in range(n_top[left]) for b in range(n_top[right])
        ]
    return build(nodes, [f"x{d}" for d in range(n_columns)], families)


PARAMETERS = {
    "gaussian": lambda rng, n, k: np.column_stack([rng.normal(size=n), rng.gamma(3.0, 0.4, n)]),
    "log_normal": lambda rng, n, k: np.column_stack([rng.normal(size=n), rng.gamma(3.0, 0.3, n)]),
    "exponential": lambda rng, n, k: rng.gamma(3.0, size=(n, 1)),
    "poisson": lambda rng, n, k: rng.gamma(3.0, size=(n, 1)),
    "geometric": lambda rng, n, k: rng.uniform(0.1, 0.9, (n, 1)),
    "bernoulli": lambda rng, n, k: rng.uniform(0.1, 0.9, (n, 1)),
    "categorical": lambda rng, n, k: rng.dirichlet(np.ones(k), n),
    "student_t": lambda rng, n, k: np.column_stack([rng.normal(size=n), rng.gamma(3.0, 0.4, n), rng.gamma(3.0, 2, n)]),
    "log_student_t": lambda rng, n, k: np.column_stack(
        [rng.normal(size=n), rng.gamma(3.0, 0.3, n), rng.gamma(3.0, 2, n)]
    ),
    "lomax": lambda rng, n, k: 1.0 + rng.gamma(3.0, size=(n, 2)),
    "negative_binomial": lambda rng, n, k: rng.gamma(3.0, size=(n, 2)),
    "beta_geometric": lambda rng, n, k: 2.0 + rng.gamma(3.0, size=(n, 2)),
    "binomial": lambda rng, n, k: np.column_stack([rng.integers(4, 9, n), rng.uniform(0.1, 0.9, n)]),
    "beta_binomial": lambda rng, n, k: np.column_stack([rng.integers(4, 9, n), rng.gamma(2.0, size=(n, 2))]),
}
SCIPY = {
    "gaussian": lambda p: stats.norm(p[0], p[1]),
    "log_normal": lambda p: stats.lognorm(p[1], scale=math.exp(p[0])),
    "exponential": lambda p: stats.expon(scale=1 / p[0]),
    "poisson": lambda p: stats.poisson(p[0]),
    "geometric": lambda p: stats.geom(p[0], loc=-1),
    "bernoulli": lambda p: stats.bernoulli(p[0]),
    "categorical": lambda p: stats.rv_discrete(values=(np.arange(len(p)), p)),
    "student_t": lambda p: stats.t(p[2], p[0], p[1]),
    "lomax": lambda p: stats.lomax(p[0], scale=p[1]),
    "negative_binomial": lambda p: stats.nbinom(p[0], p[1] / (p[1] + 1)),
    "beta_geometric": lambda p: stats.betanbinom(1, p[0], p[1]),
    "binomial": lambda p: stats.binom(p[0], p[1]),
    "beta_binomial": lambda p: stats.betabinom(p[0], p[1], p[2]),
}
WITH_A_FORMULA = tuple(name for name in EXPLICIT if name not in DISTRIBUTIONS)
DENSITIES = ("gaussian", "log_normal", "exponential", "student_t", "log_student_t", "lomax")


def random_parameters(circuit, rng, n_levels=3):
    """(log_weights, leaf_parameters)."""
    weights = rng.gamma(1.0, size=circuit.n_sum_edges) + 0.05
    total = np.bincount(circuit.edge_sum, weights=weights, minlength=circuit.n_nodes)
    parameters = {f: PARAMETERS[f](rng, circuit.leaves_of(f).size, n_levels) for f in circuit.families}
    return np.log(weights / total[circuit.edge_sum]), parameters


def leaf_log_density(family, theta, x):
    """By scipy.stats; a log-Student has none there and is carried over from the Student t."""
    if family == "gaussian":  # a thousand times faster than scipy's frozen distributions
        return -0.5 * ((x - theta[0]) / theta[1]) ** 2 - math.log(theta[1]) - 0.5 * math.log(2 * math.pi)
    if family == "log_student_t":
        return stats.t(theta[2], theta[0], theta[1]).logpdf(math.log(x)) - math.log(x) if x > 0 else -math.inf
    if math.isinf(x):
        return -math.inf
    frozen = SCIPY[family](theta)
    return float(frozen.logpdf(x) if family in DENSITIES else frozen.logpmf(x))


def reference_log_density(circuit, row, log_weights, parameters):
    """Log density of one row, node by node from the last to the root, log-sum-exp at every sum."""
    logs = np.empty(circuit.n_nodes)
    position = {}
    for f in circuit.families:
        position.update({int(v): r for r, v in enumerate(circuit.leaves_of(f))})
    first_edge = np.searchsorted(circuit.edge_sum, np.arange(circuit.n_nodes))
    with np.errstate(divide="ignore"):
        for v in range(circuit.n_nodes - 1, -1, -1):
            if circuit.kind[v] == LEAF:
                x, f = row[circuit.leaf_column[v]], circuit.families[circuit.leaf_family[v]]
                logs[v] = 0.0 if math.isnan(x) else leaf_log_density(f, parameters[f][position[v]], x)
                continue
            below = logs[circuit.children_of(v)]
            if circuit.kind[v] == PRODUCT:
                logs[v] = below.sum()
            else:
                logs[v] = logsumexp(below + log_weights[first_edge[v] : first_edge[v] + below.size])
    return logs[0]


APART = build(  # rows between the two components are so improbable that the root underflows in linear space
    [("sum", (1, 2)), ("product", (3, 4)), ("product", (5, 6)), *[("leaf", d, "gaussian") for d in (0, 1, 0, 1)]],
    ["a", "b"], ("gaussian",),
)  # fmt: skip
APART_PARAMETERS = np.log([0.3, 0.7]), {"gaussian": np.array([[-40.0, 1.0], [-40.0, 1.0], [40.0, 1.0], [40.0, 1.5]])}

COLUMNS = ("real", "count", "level")


def mixed_circuit():
    """Two products below a sum, the second with a mixture of its own; one column of each kind."""
    families = ("gaussian", "exponential", "poisson", "geometric", "categorical")
    nodes = [
        ("sum", [1, 2]), ("product", [3, 4, 5]), ("product", [6, 7, 10]), ("leaf", 0, "gaussian"),
        ("leaf", 1, "poisson"), ("leaf", 2, "categorical"), ("leaf", 0, "exponential"), ("sum", [8, 9]),
        ("leaf", 1, "poisson"), ("leaf", 1, "geometric"), ("leaf", 2, "categorical"),
    ]  # fmt: skip
    parameters = {
        "gaussian": [[1.0, 0.7]],
        "exponential": [[0.8]],
        "poisson": [[2.0], [6.0]],
        "geometric": [[0.3]],
        "categorical": [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]],
    }
    return build(nodes, COLUMNS, families), np.log([0.4, 0.6, 0.7, 0.3]), parameters


def mixture(families, n_components=2):
    """A sum over products with one leaf for each column."""
    n = len(families)
    nodes = [("sum", range(1, n_components + 1))]
    first = 1 + n_components
    nodes += [("product", range(first + k * n, first + (k + 1) * n)) for k in range(n_components)]
    nodes += [("leaf", d, f) for _ in range(n_components) for d, f in enumerate(families)]
    return build(nodes, [f"x{d}" for d in range(n)], tuple(dict.fromkeys(families)))


ARRAYS = ("kind", "child_ptr", "children", "leaf_column", "leaf_family")


def circuit_of(nodes, columns, families=("categorical",)):
    """As `build`, from a list in which leaves are (name of the column, family)."""
    inner = "sum", "product"
    numbered = [(what, detail) if what in inner else ("leaf", columns.index(what), detail) for what, detail in nodes]
    return build(numbered, tuple(columns), families)


def changed(circuit, **arrays):
    kept = {a: getattr(circuit, a) for a in (*ARRAYS, "families", "columns")}
    return Circuit(**(kept | arrays))
