"""Factor graphs from and to networkx and pgmpy objects."""

from typing import Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted


def to_networkx(fg: Any) -> Any:
    """Bipartite graph: variables carry ``kind="variable"`` and ``states``, factors ``kind="factor"``, ``scope`` and
    ``log_table``; factors are named ``("factor", 0)``, ... and edges carry ``axis``.

    The factor nodes stand in the order in which the factors were added.
    """
    import networkx as nx

    graph = nx.Graph()
    for name, states in zip(fg.names, fg.states, strict=True):
        graph.add_node(name, kind="variable", states=states, bipartite=0)
    for f, log_table in enumerate(fg.log_tables(range(fg.n_factors))):
        scope = fg.scope_of(f)
        node = ("factor", f)
        graph.add_node(node, kind="factor", scope=scope, log_table=log_table, bipartite=1)
        for axis, name in enumerate(scope):
            graph.add_edge(node, name, axis=axis)
    return graph


def from_networkx(cls: Any, graph: Any) -> Any:
    """Graph from the form of `to_networkx`; edges must agree with each factor's ``scope``.

    Raises
    ------
    ValueError
        If a node lacks its attributes, or edges and scope differ.
    """
    variables, factors = {}, []
    for node, data in graph.nodes(data=True):
        kind = data.get("kind")
        if kind == "variable":
            if "states" not in data:
                raise ValueError(f"variable node {node!r} must carry 'states'")
            variables[node] = data["states"]
        elif kind == "factor":
            missing = {"scope", "log_table"} - data.keys()
            if missing:
                raise ValueError(f"factor node {node!r} must carry {', '.join(map(repr, sorted(missing)))}")
            if set(graph.neighbors(node)) != set(data["scope"]):
                raise ValueError(
                    f"factor node {node!r} must be joined to exactly its scope {tuple(data['scope'])}, "
                    f"but its neighbours are {tuple(graph.neighbors(node))}"
                )
            factors.append((data["scope"], data["log_table"]))
        else:
            raise ValueError(f"node {node!r} must have kind 'variable' or 'factor', got {quoted(kind)}")
    fg = cls(variables)
    for scope, table in factors:
        fg.add_factor(scope, table)
    return fg


def from_pgmpy(cls: Any, model: Any) -> Any:
    """Graph of a pgmpy Bayesian network (``get_cpds``) or Markov network or factor graph (``get_factors``).

    States are named as in the model; pgmpy itself is not imported.

    Raises
    ------
    TypeError
        If the object offers neither method.
    ValueError
        If variables lack a table, or tables disagree on the states of a variable.
    """
    if hasattr(model, "get_cpds"):
        tables = model.get_cpds()
    elif hasattr(model, "get_factors"):
        tables = model.get_factors()
    else:
        raise TypeError(f"model must be a network of pgmpy with get_cpds or get_factors, got {type(model).__name__}")
    states: dict[str, list[Any]] = {}
    for table in tables:
        for name in table.variables:
            labels = list(table.state_names[name])
            if states.setdefault(str(name), labels) != labels:
                raise ValueError(f"tables disagree on the states of {name!r}: {states[str(name)]} and {labels}")
    nodes = [str(n) for n in model.nodes() if not hasattr(n, "variables")]
    without = [n for n in nodes if n not in states]
    if without:
        raise ValueError(f"every variable must occur in a table, {without[0]!r} occurs in none")
    fg = cls({n: states[n] for n in nodes})
    for table in tables:
        values = np.asarray(table.values, dtype=np.float64)
        if np.any(values < 0):
            raise ValueError(f"tables must not be negative, that of {tuple(table.variables)} has {values.min()}")
        with np.errstate(divide="ignore"):
            fg.add_factor([str(n) for n in table.variables], np.log(values))
    return fg
