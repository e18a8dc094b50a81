"""Compiled functions with a branch for each family, whose bodies stand in the files of the families.

Numba cannot call a function that it finds in a table while it runs. A chain of calls would do, but each function that
is compiled on its own costs some thirty milliseconds, and there are twenty families for each of a dozen functions. So
the bodies are put together before they are compiled, as if one had written the whole chain by hand.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any


def by_family(
    name: str,
    selector: str,
    pieces: Iterable[tuple[int, Any]],
    decorate: Callable[[Callable[..., Any]], Any],
    file: str,
    otherwise: Any = None,
) -> Any:
    """A compiled function ``name(selector, ...)`` that does what the function of the selected code does.

    Parameters
    ----------
    name, selector : str
        Of the function, and of its first argument, the code.
    pieces : iterable of (int, function or kernel)
        Bodies by code, all with the same arguments. One function may stand for several codes.
    decorate : callable
        Of `numerics.kernel_options`.
    file : str
        ``__file__`` of the module that holds the function, next to which Numba keeps it.
    otherwise : function or kernel, optional
        What is done for all other codes; without it what the last piece does.
    """
    codes: dict[Any, list[int]] = {}
    for code, piece in pieces:
        codes.setdefault(_function(piece), []).append(code)
    functions = [*codes, *([] if otherwise is None else [_function(otherwise)])]  # the last one without a test
    arguments = list(inspect.signature(functions[0]).parameters)
    scope: dict[str, Any] = {"__name__": functions[0].__module__}
    bodies = [_body(function, arguments, f"_{k}", scope) for k, function in enumerate(functions)]
    chain = bodies[-1]
    for numbers, body in reversed(list(zip(list(codes.values())[: len(bodies) - 1], bodies[:-1], strict=True))):
        tests: list[ast.expr] = [
            ast.Compare(ast.Name(selector, ast.Load()), [ast.Eq()], [ast.Constant(number)]) for number in numbers
        ]
        chain = [ast.If(tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests), body, chain)]
    head = ast.parse(f"def {name}({', '.join([selector, *arguments])}): pass").body[0]
    assert isinstance(head, ast.FunctionDef)
    head.body = chain
    exec(compile(ast.fix_missing_locations(ast.Module([head], [])), file, "exec"), scope)
    return decorate(scope[name])


def _function(piece: Any) -> FunctionType:
    """The Python function of a kernel."""
    return getattr(piece, "py_func", piece)


def _body(function: FunctionType, arguments: list[str], mark: str, scope: dict[str, Any]) -> list[ast.stmt]:
    """Statements of a function, whose own names get a mark; what it reads of its module goes into the scope."""
    own = list(inspect.signature(function).parameters)
    if own != arguments:
        raise TypeError(f"{function.__module__}.{function.__name__} must take {arguments}, takes {own}")
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = {local: local + mark for local in function.__code__.co_varnames if local not in arguments}
    for read in function.__code__.co_names:
        if read in function.__globals__:
            value = function.__globals__[read]
            names[read] = read if scope.setdefault(read, value) is value else read + mark
            scope[names[read]] = value
    is_docstring = ast.get_docstring(tree) is not None
    return [_Renamed(names).visit(statement) for statement in tree.body[is_docstring:]]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node
