"""An explicit circuit as a graph of networkx."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx

KIND_NAMES = ("sum", "product", "leaf")


def graph_of(circuit: Any) -> "nx.DiGraph":
    """See `Circuit.to_networkx`."""
    import networkx as nx

    graph, names = nx.DiGraph(), circuit.names
    for node, kind in enumerate(circuit.kind.tolist()):
        extra: dict[str, Any] = {}
        if KIND_NAMES[kind] == "leaf":
            family = circuit.families[circuit.leaf_family[node]]
            extra = {"columns": tuple(names[d] for d in circuit.columns_of(node)), "family": family}
        graph.add_node(node, kind=KIND_NAMES[kind], **extra)
    for node in range(circuit.n_nodes):
        for position, child in enumerate(circuit.children_of(node).tolist()):
            graph.add_edge(node, child, position=position)
    return graph
