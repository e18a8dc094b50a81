"""Arithmetic in the text of an event: its value at numbers, and the numbers at which it is within an interval."""

import ast
import operator
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.polynomial import Polynomial

from pymc_spn.events.disjoint_events import MOST_PARTS
from pymc_spn.numerics.quoted_values import quoted

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
}
PERIODIC = ("sin", "cos", "tan")
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
OF_POLYNOMIALS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
HIGHEST_DEGREE = 20
SAME_ROOT = 1e-7  # relative distance of roots that count as one: double roots are found to half the digits
Intervals = list[tuple[float, float]]
WHOLE: Intervals = [(-np.inf, np.inf)]


class Source(NamedTuple):
    """Where the parts of a parsed text stand in it: names as they were written, and messages.

    Parameters
    ----------
    argument : str
        Name of the argument that was given the text.
    text : str
    """

    argument: str
    text: str

    def part(self, node: Any) -> str:
        """A part of the text."""
        return self.text.encode()[node.col_offset : node.end_col_offset].decode()

    def name_of(self, node: ast.Name) -> str:
        """Name of a column, without the backticks."""
        part = self.part(node)
        return part[1:-1].replace("``", "`") if part.startswith("`") else part

    def columns_in(self, *parts: ast.expr) -> list[ast.Name]:
        """Names of columns in parts of the text, each as often as it stands there."""
        nodes = [node for part in parts for node in ast.walk(part)]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        return [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]

    def refuse(self, node: Any, rule: str) -> NoReturn:
        """Raise for a part of the text."""
        place = len(self.text.encode()[: node.col_offset].decode())
        part, text = quoted(self.part(node)), quoted(self.text)
        raise ValueError(f"{self.argument}: {rule}: {part} at position {place} of {text}")


def value_of(source: Source, node: ast.expr, x: Any = None) -> Any:
    """Value of an expression where its column is x, an array or None for constants, as NumPy computes it.

    1/0 is inf, log(0) is -inf, and what is undefined is NaN.
    """
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            try:
                return np.float64(value)
            except OverflowError:
                source.refuse(node, "the number is too large")
        case ast.Name() if x is not None:
            return x
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            inner = value_of(source, node.operand, x)
            return -inner if isinstance(node.op, ast.USub) else inner
        case ast.BinOp() if type(node.op) in OPERATIONS:
            sides = value_of(source, node.left, x), value_of(source, node.right, x)
            with np.errstate(all="ignore"):
                return OPERATIONS[type(node.op)](*sides)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            inner = value_of(source, argument, x)
            with np.errstate(all="ignore"):
                return FUNCTIONS[name](inner)
        case ast.Call(func=ast.Name(id=name)) if name in PERIODIC:
            source.refuse(node, f"{name} is within bounds on infinitely many intervals, which is not an event")
        case ast.Call():
            source.refuse(node, f"functions are {', '.join(FUNCTIONS)}, of one expression")
    source.refuse(node, "expressions are numbers, one column, + - * / ** and functions of these")


def preimage(source: Source, node: ast.expr, inside: Intervals) -> Intervals:
    """Closed intervals of a column in which an expression is within one of several closed intervals.

    Ends may belong to them or not: at an end the expression is at the end of an interval or undefined. Intervals that
    meet are not joined, and those of one number are solutions on their own.

    Parameters
    ----------
    source : Source
    node : ast.expr
        Checked by `value_of`, with one column.
    inside : list of (low, high)

    Raises
    ------
    ValueError
        If the column stands in it more than once and it is no polynomial, or a constant in it leaves nothing to solve.
        If a part of it must be within more than `MOST_PARTS` intervals.
    """
    match node:
        case ast.Name():
            return inside
        case ast.UnaryOp():
            return preimage(source, node.operand, inside if isinstance(node.op, ast.UAdd) else _mirrored(inside))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return _preimage_of_inner(source, argument, INVERSES[name](inside))
    assert isinstance(node, ast.BinOp)
    of_left, of_right = bool(source.columns_in(node.left)), bool(source.columns_in(node.right))
    if of_left and of_right:
        return _of_polynomial(source, node, inside)
    number = float(value_of(source, node.right if of_left else node.left))
    if not np.isfinite(number):
        source.refuse(node, f"the constant is {number}")
    if isinstance(node.op, ast.Pow) and number == (0.0 if of_left else 1.0):  # 1 whatever the expression, NaN too
        return _constant(1.0, inside)
    if of_left:
        return _preimage_of_inner(source, node.left, _undo_right(source, node, number, inside))
    return _preimage_of_inner(source, node.right, _undo_left(source, node, number, inside))


def _preimage_of_inner(source: Source, node: ast.expr, pieces: Intervals) -> Intervals:
    pieces = _kept(pieces)
    if len(pieces) > MOST_PARTS:  # abs(abs(x - 4) - 2) - 1 has twice as many for each abs
        source.refuse(node, f"this is to be within more than {MOST_PARTS} intervals; ask for less at once")
    return preimage(source, node, pieces)


def poles(source: Source, node: ast.expr) -> Intervals:
    """Numbers, as intervals, at which some part of an expression that `preimage` has solved is infinite.

    What is made of infinity may be finite again, as exp(-1/n) at 0, and no undoing comes back from there.
    """
    nothing, found = [(0.0, 0.0)], []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.BinOp):
            of_left, of_right = bool(source.columns_in(node.left)), bool(source.columns_in(node.right))
            if of_left and of_right:
                break  # a polynomial
            inner, number = (node.left, node.right) if of_left else (node.right, node.left)
            constant, is_power = float(value_of(source, number)), isinstance(node.op, ast.Pow)
            if is_power and constant == (0.0 if of_left else 1.0):
                break
            infinite_at_0 = (is_power and constant < 0.0) if of_left else isinstance(node.op, ast.Div)
        else:
            assert isinstance(node, ast.UnaryOp | ast.Call)
            inner = node.operand if isinstance(node, ast.UnaryOp) else node.args[0]
            infinite_at_0 = isinstance(node, ast.Call) and source.part(node.func).startswith("log")
        found += preimage(source, inner, nothing) if infinite_at_0 else []
        node = inner
    return found


def _undo_right(source: Source, node: ast.BinOp, c: float, inside: Intervals) -> Intervals:
    """Values u with (u operation c) inside."""
    match node.op:
        case ast.Add():
            return [(a - c, b - c) for a, b in inside]
        case ast.Sub():
            return [(a + c, b + c) for a, b in inside]
        case ast.Mult():
            return _constant(0.0, inside) if c == 0.0 else _scaled(inside, lambda y: y / c)
        case ast.Div():
            if c == 0.0:
                source.refuse(node, "an expression is divided by zero")
            return _scaled(inside, lambda y: y * c)
    return _of_power(c, inside)


def _undo_left(source: Source, node: ast.BinOp, c: float, inside: Intervals) -> Intervals:
    """Values u with (c operation u) inside."""
    match node.op:
        case ast.Add() | ast.Mult():
            return _undo_right(source, node, c, inside)
        case ast.Sub():
            return [(c - b, c - a) for a, b in inside]
        case ast.Div():
            if c == 0.0:  # 0 wherever the expression is not
                return [(-np.inf, 0.0), (0.0, np.inf)] if _constant(0.0, inside) else []
            return _reciprocal(_scaled(inside, lambda y: y / c))
    if c <= 0.0:
        source.refuse(node, "the base of a power must be positive")
    log = {2.0: np.log2, 10.0: np.log10}.get(c, lambda y: np.log(y) / np.log(c))
    return _scaled(_positive(inside), log)


def _of_power(p: float, inside: Intervals) -> Intervals:
    """Values u with u**p inside: of both signs for integers, none below 0 for fractions."""
    if p < 0.0:
        return _of_power(-p, _kept(_reciprocal(inside)))

    def root(y: Any) -> Any:
        return np.sqrt(y) if p == 2.0 else np.cbrt(y) if p == 3.0 else y ** (1.0 / p)

    upper = [(root(a), root(b)) for a, b in _positive(inside)]
    if p % 2.0 == 0.0:
        return upper + _mirrored(upper)
    if p % 2.0 == 1.0:
        return upper + _mirrored([(root(a), root(b)) for a, b in _positive(_mirrored(inside))])
    return upper


def _of_polynomial(source: Source, node: ast.BinOp, inside: Intervals) -> Intervals:
    """Between neighbouring roots of the polynomial less each end, where its value is inside."""
    polynomial = _polynomial(source, node)
    if polynomial is None:
        name, highest = quoted(source.name_of(source.columns_in(node)[0])), HIGHEST_DEGREE
        source.refuse(
            node,
            f"column {name} occurs more than once, and the expression is not a polynomial of degree {highest} or less",
        )
    if not np.isfinite(polynomial.coef).all():
        source.refuse(node, "the polynomial has coefficients that are not finite")
    polynomial = polynomial.trim()

    def holds(x: float) -> bool:
        y = value_of(source, node, x)
        return any(a <= y <= b for a, b in inside)

    if polynomial.degree() == 0:
        return _constant(float(polynomial.coef[0]), inside)
    ends = {end for interval in inside for end in interval if np.isfinite(end)}
    cuts: list[float] = []
    for root in sorted(float(r.real) for end in ends for r in (polynomial - end).roots()):
        if not cuts or root - cuts[-1] > SAME_ROOT * (1.0 + abs(root)):
            cuts.append(root)
    if not cuts:
        return WHOLE if holds(0.0) else []
    beyond = 1.0 + abs(cuts[0]) + abs(cuts[-1])
    between = [0.5 * (a + b) for a, b in pairwise(cuts)]
    middles = np.array([cuts[0] - beyond, *between, cuts[-1] + beyond])
    truth = [holds(x) for x in middles]
    edges = [
        cut if truth[k] == truth[k + 1] else _flip(holds, middles[k], middles[k + 1]) for k, cut in enumerate(cuts)
    ]
    edges = [-np.inf, *edges, np.inf]
    pieces = [(edges[k], edges[k + 1]) for k, true in enumerate(truth) if true]
    return pieces + [(x, x) for x in edges[1:-1]]


def _flip(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Number between two at which a statement that holds at one of them begins or ceases to hold."""
    first = holds(low)
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if holds(middle) == first else (low, middle)
    return low if first else high


def _polynomial(source: Source, node: ast.expr) -> Polynomial | None:
    """An expression in one column as a polynomial, None where it is none."""
    if not source.columns_in(node):
        return Polynomial([float(value_of(source, node))])
    match node:
        case ast.Name():
            return Polynomial([0.0, 1.0])
        case ast.UnaryOp():
            inner = _polynomial(source, node.operand)
            return -inner if inner is not None and isinstance(node.op, ast.USub) else inner
        case ast.BinOp(op=ast.Div() | ast.Pow()) if not source.columns_in(node.right):
            base, number = _polynomial(source, node.left), float(value_of(source, node.right))
            if base is None or (isinstance(node.op, ast.Div) and number == 0.0):
                return None
            if isinstance(node.op, ast.Div):
                return base / number
            whole = number >= 0.0 and number % 1.0 == 0.0 and number * max(base.degree(), 1) <= HIGHEST_DEGREE
            return base ** int(number) if whole else None
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
            left, right = _polynomial(source, node.left), _polynomial(source, node.right)
            if left is None or right is None or left.degree() + right.degree() > HIGHEST_DEGREE:
                return None
            return OF_POLYNOMIALS[type(node.op)](left, right)
    return None


def _kept(pieces: Iterable[tuple[float, float]]) -> Intervals:
    """Intervals that hold a number, each once, joined where they overlap; an end beyond floating point is infinite."""
    found: Intervals = []
    for a, b in sorted({(float(a), float(b)) for a, b in pieces if a <= b and a < np.inf and b > -np.inf}):
        if found and a < found[-1][1]:  # what only meets stays apart: the end between may belong to neither
            found[-1] = (found[-1][0], max(found[-1][1], b))
        else:
            found.append((a, b))
    return found


def _constant(value: float, inside: Intervals) -> Intervals:
    """All numbers where a constant is inside, else none."""
    return WHOLE if any(a <= value <= b for a, b in inside) else []


def _mirrored(inside: Intervals) -> Intervals:
    return [(-b, -a) for a, b in inside]


def _positive(inside: Intervals) -> Intervals:
    """What is not below 0."""
    return [(a if a > 0.0 else 0.0, b) for a, b in inside if b >= 0.0]  # 0, not -0, whose reciprocal is -inf


def _scaled(inside: Intervals, function: Callable[[Any], Any]) -> Intervals:
    """Images under a monotone function, rising or falling."""
    with np.errstate(all="ignore"):
        ends = [(function(np.float64(a)), function(np.float64(b))) for a, b in inside]
    return [(min(a, b), max(a, b)) for a, b in ends]


def _reciprocal(inside: Intervals) -> Intervals:
    """Values u with 1/u inside."""

    def of_positive(pieces: Intervals) -> Intervals:
        return _scaled([(a, b) for a, b in pieces if b > 0.0], lambda y: 1.0 / y)

    return of_positive(_positive(inside)) + _mirrored(of_positive(_positive(_mirrored(inside))))


INVERSES: dict[str, Callable[[Intervals], Intervals]] = {
    "abs": lambda inside: _positive(inside) + _mirrored(_positive(inside)),
    "sqrt": lambda inside: _scaled(_positive(inside), np.square),
    "exp": lambda inside: _scaled(_positive(inside), np.log),
    "log": lambda inside: _scaled(inside, np.exp),
    "log10": lambda inside: _scaled(inside, lambda y: np.power(10.0, y)),
    "log2": lambda inside: _scaled(inside, np.exp2),
}
