"""The transition matrix of conditional particle filtering over trees, by enumeration of all its random choices.

Two particles, node-wise expansion, resampling after every stage but the last. Independent of the package.
"""

import math
from collections import defaultdict

from tests.reference_trees import splits


class Tiny:
    """A table of a few rows: its trees as breadth-first decisions, and what one decision is worth."""

    def __init__(self, X, y, kinds, alpha_s, beta_s, log_leaf):
        self.X, self.y, self.kinds, self.weights = X, y, kinds, [1.0] * len(kinds)
        self.alpha_s, self.beta_s, self.log_leaf = alpha_s, beta_s, log_leaf

    def f(self, rows):
        return math.exp(self.log_leaf([self.y[r] for r in rows]))

    def options(self, rows):
        return splits(self.X, self.kinds, self.weights, list(rows))

    def next_open(self, decisions):
        """Rows and depth of the oldest open node after the forced stops; the decisions with those; None at the end."""
        decisions = list(decisions)
        while True:
            queue = [(tuple(range(len(self.X))), 0)]
            for h, d in enumerate(decisions):
                if d is not None:
                    rows, depth = queue[h]
                    left, right = next((a, b) for k, rule, _, a, b in self.options(rows) if (k, rule) == d)
                    queue += [(tuple(left), depth + 1), (tuple(right), depth + 1)]
            if len(decisions) == len(queue):
                return tuple(decisions), None
            rows, depth = queue[len(decisions)]
            if self.options(rows):
                return tuple(decisions), (rows, depth)
            decisions.append(None)

    def decisions_at(self, node, proposal):
        """(decision, proposal probability, increment of the weight) at an open node."""
        rows, depth = node
        p = self.alpha_s * (1 + depth) ** -self.beta_s
        gains = [(None, 1 - p, 1.0)]
        for k, rule, mass, left, right in self.options(rows):
            gains.append(((k, rule), p * mass, self.f(left) * self.f(right) / self.f(rows)))
        if proposal == "prior":
            return gains
        total = sum(q * g for _, q, g in gains)
        return [(d, q * g / total, total) for d, q, g in gains]


def kernel_row(tiny, retained, proposal, ancestors="multinomial"):
    """Probabilities of the next tree, by its decisions, from the retained one.

    ``ancestors="overwritten"`` plants systematic resampling in which slot 0 is simply kept for the retained particle.
    """
    start = ((), (), 1.0, 1.0)  # decisions of the retained particle and of the other, and their weights
    states, out = {start: 1.0}, defaultdict(float)
    while states:
        following = defaultdict(float)
        for (mine, other, w0, w1), probability in states.items():
            mine, node0 = tiny.next_open(mine)
            other, node1 = tiny.next_open(other)
            if node0 is None and node1 is None:
                out[mine] += probability * w0 / (w0 + w1)
                out[other] += probability * w1 / (w0 + w1)
                continue
            step0 = [(mine, 1.0)]
            if node0 is not None:
                d0 = retained[len(mine)]
                gain = next(g for d, _, g in tiny.decisions_at(node0, proposal) if d == d0)
                step0 = [((*mine, d0), gain)]
            step1 = [(other, 1.0, 1.0)]
            if node1 is not None:
                step1 = [((*other, d), q, g) for d, q, g in tiny.decisions_at(node1, proposal)]
            ((a, g0),) = step0
            for b, q, g1 in step1:
                v0, v1 = w0 * g0, w1 * g1
                a_done = tiny.next_open(a)
                b_done = tiny.next_open(b)
                if a_done[1] is None and b_done[1] is None:  # no resampling after the last stage
                    following[a_done[0], b_done[0], v0, v1] += probability * q
                    continue
                share = v0 / (v0 + v1)
                if ancestors == "overwritten":
                    share = max(0.0, 2.0 * share - 1.0)  # threshold (1 + u) / 2 of the second slot
                following[a, a, 1.0, 1.0] += probability * q * share
                following[a, b, 1.0, 1.0] += probability * q * (1.0 - share)
        states = following
    return out
