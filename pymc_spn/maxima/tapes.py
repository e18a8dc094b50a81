"""Tapes for the box search, from an explicit circuit with its parameters."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from pymc_spn.circuits.structures.circuit import LEAF, Circuit
from pymc_spn.circuits.structures.circuit import SUM as SUM_NODE
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import Exponential, Gaussian, Poisson
from pymc_spn.leaves.family_codes import (
    BETA,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    GEOMETRIC,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    NEGATIVE_BINOMIAL,
    POISSON,
    PREDICTIVE,
    ROUNDED,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.leaves.leaf_events import beta_probability, beta_trials, gamma_rate, normal_gamma
from pymc_spn.maxima.box_leaves import CONSTANT, NOTHING, PRODUCT, SUM, Tape, log_leaf

LOG_2PI = np.log(2.0 * np.pi)
POSTERIOR = {  # leaves that are predictives: code of the family, and the posterior that predicts so
    "student_t": (GAUSSIAN, normal_gamma),
    "log_student_t": (LOG_NORMAL, normal_gamma),
    "lomax": (EXPONENTIAL, gamma_rate),
    "negative_binomial": (POISSON, gamma_rate),
    "beta_geometric": (GEOMETRIC, beta_probability),
    "beta_binomial": (BINOMIAL, beta_trials),
}


class TapeBuilder:
    """Nodes as they come, children first.

    Constants have numbers below -1 and become nodes only beside what is none: what is known of a wide row leaves a
    small tape of what is asked.
    """

    def __init__(self) -> None:
        self.constants: list[float] = []
        self.kind: list[int] = []
        self.below: list[list[int]] = []
        self.log_weight: list[list[float]] = []
        self.column: list[int] = []
        self.parameter: list[Any] = []
        self.level: list[np.ndarray] = []
        self.n_level = 0

    def add(self, kind: int, below: Any, log_weight: Any, column: int = -1, parameter: Any = (0.0,) * 4) -> int:
        """Number of a new node."""
        self.kind.append(kind)
        self.below.append(list(below))
        self.log_weight.append(list(log_weight))
        self.column.append(column)
        self.parameter.append(parameter)
        return len(self.kind) - 1

    def constant(self, log_value: float) -> int:
        self.constants.append(float(log_value))
        return -1 - len(self.constants)

    def as_node(self, number: int) -> int:
        """Number of a node with the value of what is numbered so."""
        return number if number >= 0 else self.add(CONSTANT, (), (), -1, (self.constants[-2 - number], 0.0, 0.0, 0.0))

    def product(self, below: Any) -> int:
        below = [int(c) for c in below]
        known = sum(self.constants[-2 - c] for c in below if c < 0)
        nodes = [c for c in below if c >= 0]
        if not nodes:
            return below[0] if len(below) == 1 else self.constant(max(known, NOTHING))
        if known != 0.0:
            nodes.append(self.as_node(self.constant(max(known, NOTHING))))
        return nodes[0] if len(nodes) == 1 else self.add(PRODUCT, nodes, [0.0] * len(nodes))

    def sum(self, below: Any, log_weight: Any) -> int:
        below, logs = [int(c) for c in below], [float(w) for w in log_weight]
        if len(below) == 1 and logs[0] == 0.0:
            return below[0]
        known = [self.constants[-2 - c] + w for c, w in zip(below, logs, strict=True) if c < 0]
        if known:
            top = max(known)
            constant = self.constant(max(top + math.log(sum(math.exp(log - top) for log in known)), NOTHING))
            if len(known) == len(below):
                return constant
            kept = [k for k, c in enumerate(below) if c >= 0]
            below = [*(below[k] for k in kept), self.as_node(constant)]
            logs = [*(logs[k] for k in kept), 0.0]
        return self.add(SUM, below, logs)

    def levels(self, column: int, log_p: np.ndarray) -> int:
        start = self.n_level
        self.level.append(np.maximum(log_p, -1e300))
        self.n_level += log_p.size
        return self.add(CATEGORICAL, (), (), column, (float(start), float(log_p.size), 0.0, 0.0))

    def finish(self) -> Tape:
        """The arrays; the last node added is the root."""
        return Tape(
            np.array(self.kind, np.int8),
            np.concatenate([[0], np.cumsum([len(b) for b in self.below])]).astype(np.int64),
            np.array([c for b in self.below for c in b], np.int64),
            np.array([w for b in self.log_weight for w in b], np.float64),
            np.array(self.column, np.int64),
            np.array(self.parameter, np.float64).reshape(-1, 4),
            np.concatenate([*self.level, np.zeros(0)]),
        )


def tape_of_circuit(
    circuit: Circuit,
    log_weights: np.ndarray,
    leaf_parameters: Mapping[str, np.ndarray],
    points: Mapping[int, float],
    unasked: Any = (),
) -> Tape:
    """Tape of an explicit circuit, columns at a point or summed out as constants."""
    builder = TapeBuilder()
    number = np.empty(circuit.n_nodes, np.int64)
    parameters = {}
    for name in circuit.families:
        for leaf, p in zip(circuit.leaves_of(name).tolist(), leaf_parameters.get(name, ()), strict=True):
            parameters[leaf] = np.asarray(p, np.float64)
    edge = np.cumsum(np.where(circuit.kind == SUM_NODE, np.diff(circuit.child_ptr), 0))
    weight = np.asarray(log_weights, np.float64)
    for i in range(circuit.n_nodes - 1, -1, -1):
        children = number[circuit.children_of(i)]
        if circuit.kind[i] == LEAF:
            name, d = circuit.families[circuit.leaf_family[i]], int(circuit.leaf_column[i])
            if d in points:
                log = EXPLICIT[name].log_density(parameters[i], np.float64(points[d]))
                number[i] = builder.constant(max(float(log), -1e300))
            elif d in unasked:
                number[i] = builder.constant(0.0)
            else:
                number[i] = _explicit_leaf(builder, name, d, parameters[i])
        elif circuit.kind[i] == SUM_NODE:
            logs = weight[edge[i] - children.size : edge[i]]
            number[i] = builder.sum(children[logs > -np.inf], logs[logs > -np.inf])
        else:
            number[i] = builder.product(children)
    return rooted(builder, int(number[0]))


def rooted(builder: TapeBuilder, root: int) -> Tape:
    """The tape with its root last."""
    root = builder.as_node(root)
    if root != len(builder.kind) - 1:
        builder.add(SUM, [root], [0.0])
    return builder.finish()


def _explicit_leaf(builder: TapeBuilder, name: str, d: int, p: np.ndarray) -> int:
    if name == "gaussian":
        return builder.add(GAUSSIAN, (), (), d, (p[0], p[1], -np.log(p[1]) - 0.5 * LOG_2PI, 0.0))
    if name == "log_normal":
        return builder.add(LOG_NORMAL, (), (), d, (p[0], p[1], -np.log(p[1]) - 0.5 * LOG_2PI, 0.0))
    if name == "exponential":
        return builder.add(EXPONENTIAL, (), (), d, (p[0], 0.0, 0.0, np.log(p[0])))
    if name == "poisson":
        return builder.add(POISSON, (), (), d, (np.log(p[0]), p[0], np.floor(p[0]), 0.0))
    if name == "laplace":
        return builder.add(LAPLACE, (), (), d, (p[0], p[1], 0.0, -np.log(2.0 * p[1])))
    if name == "uniform":
        return builder.add(UNIFORM, (), (), d, (p[0], p[1], 0.0, -np.log(p[1] - p[0])))
    if name == "triangular":
        return builder.add(TRIANGULAR, (), (), d, (p[0], p[1], p[2], np.log(2.0 / (p[2] - p[0]))))
    if name == "gamma":
        mode = (p[0] - 1.0) / p[1]
        top = float(EXPLICIT[name].log_density(p, mode)) if mode > 0.0 else np.log(p[1])
        return builder.add(GAMMA, (), (), d, (p[0] - 1.0 if mode > 0.0 else 0.0, p[1], top, mode))
    if name == "weibull":
        return builder.add(WEIBULL, (), (), d, (p[0], p[1], np.log(p[0]), float(EXPLICIT[name].mode(p))))
    if name == "beta":
        k, mode = p - 1.0, float(EXPLICIT[name].mode(p))
        top = float(EXPLICIT[name].log_density(p, mode)) - log_leaf.py_func(BETA, k[0], k[1], 0.0, mode, mode)
        return builder.add(BETA, (), (), d, (k[0], k[1], top, mode))
    if name == "binomial":
        constant = gammaln(p[0] + 1.0) + p[0] * np.log1p(-p[1])
        mode = float(EXPLICIT[name].mode(p))
        return builder.add(BINOMIAL, (), (), d, (p[0], np.log(p[1]) - np.log1p(-p[1]), constant, mode))
    if name == "hypergeometric":
        failures, others = p[0] - p[1], p[0] - p[2]
        constant = gammaln(np.array([p[1], failures, p[2], others]) + 1.0).sum() - gammaln(p[0] + 1.0)
        return builder.add(HYPERGEOMETRIC, (), (), d, (p[1], p[2], failures - p[2], constant))
    with np.errstate(divide="ignore"):
        if name == "bernoulli":
            return builder.levels(d, np.log(np.array([1.0 - p[0], p[0]])))
        if name == "categorical":
            return builder.levels(d, np.log(p))
        if name == "geometric":  # a negative binomial of one success
            return builder.add(NEGATIVE_BINOMIAL, (), (), d, (1.0, np.log(p[0]), np.log1p(-p[0]), 0.0))
    code, posterior = POSTERIOR[name]
    return builder.add(PREDICTIVE[code], (), (), d, tuple(predictive_rows(code, posterior(p[None]))[0]))


def predictive_rows(code: int, params: Any) -> np.ndarray:
    """Parameters (n, 4) of the tape's leaves from posteriors of one family."""
    if code in (GAUSSIAN, LOG_NORMAL, *ROUNDED):
        nu, scale = 2.0 * params.a, Gaussian.predictive_scale(params)
        log_scale = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu) - np.log(scale)
        return np.stack([params.mu, scale, nu, log_scale], axis=1)
    if code == EXPONENTIAL:
        mode_log = Exponential.predictive_log_density(params, 0.0)
        return np.stack([params.alpha, params.beta, np.zeros(mode_log.size), mode_log], axis=1)
    if code == POISSON:
        mode = Poisson.predictive_mode(params)
        return np.stack([params.alpha, -np.log1p(1.0 / params.beta), -np.log1p(params.beta), mode], axis=1)
    if code == GEOMETRIC:
        log_norm = np.log(params.alpha) + gammaln(params.alpha + params.beta) - gammaln(params.beta)
        return np.stack([params.alpha, params.beta, log_norm, np.zeros(log_norm.size)], axis=1)
    if code == BINOMIAL:
        alpha, beta, trials = params
        log_norm = gammaln(trials + 1.0) - betaln(alpha, beta) - gammaln(alpha + beta + trials)
        return np.stack([alpha, beta, trials, log_norm], axis=1)
    raise ValueError(f"mpe does not know leaves of family code {code}")
