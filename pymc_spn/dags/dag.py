"""Directed acyclic graphs and their equivalence classes, with names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.numerics.graph_pictures import FEW, MOST_DRAWN, in_layers, on_a_circle, svg_of_graph
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr
from pymc_spn.numerics.quoted_values import quoted, refuse_unkept
from pymc_spn.tables.column import as_name

if TYPE_CHECKING:
    import networkx as nx

MOST_VARIABLES = 64  # of which a set is one 64-bit word


def refuse_wide(what: str, n_variables: int) -> None:
    """Refuse more variables than a set of them has bits, where sets are bits.

    Raises
    ------
    ValueError
        If there are more than `MOST_VARIABLES`.
    """
    if n_variables > MOST_VARIABLES:
        raise ValueError(
            f"{what}: at most {MOST_VARIABLES} variables are possible, got {n_variables:,}; ps.DagPosterior with "
            "engine='orders', its default for so many, takes more"
        )


class NamedGraph(NotebookRepr):
    """What graphs of both kinds share: equality, and the forms in which other programs read them.

    Graphs are equal that are of one kind, with the same names in the same order and the same edges.
    """

    names: tuple[str, ...]
    adjacency: np.ndarray

    @property
    def directed(self) -> list[tuple[str, str]]:
        """(parent, child) pairs whose direction is known.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b", "c"], [("a", "c"), ("b", "c")]).cpdag().directed
        [('a', 'c'), ('b', 'c')]
        """
        return self._named(self.adjacency & ~self.adjacency.T)

    @property
    def undirected(self) -> list[tuple[str, str]]:
        """Edges that may be turned, each once; a `DAG` has none.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).cpdag().undirected
        [('a', 'b')]
        """
        return self._named(np.triu(self.adjacency & self.adjacency.T))

    def to_networkx(self) -> "nx.DiGraph":
        """Convert the graph to networkx.

        Returns
        -------
        networkx.DiGraph
            The names are its nodes. An edge that may be turned is there both ways.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).to_networkx().edges
        OutEdgeView([('a', 'b')])
        """
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_edges_from(self._named(self.adjacency))
        return graph

    def to_dot(self) -> str:
        """Write the graph as text for Graphviz.

        Returns
        -------
        str
            A ``digraph``; edges that may be turned have no arrow head.

        Examples
        --------
        >>> import pymc_spn as ps
        >>> print(ps.DAG.from_edges(["a", "b"], [("a", "b")]).to_dot())
        digraph {
          "a";
          "b";
          "a" -> "b";
        }
        """
        return self._text("digraph", '"{}" -> "{}" [dir=none]', {"\\": "\\\\", '"': '\\"'})

    def to_dagitty(self) -> str:
        """Write the graph as text for dagitty.

        Returns
        -------
        str
            A ``dag``; with edges that may be turned, ``a -- b``, a ``pdag``.

        Raises
        ------
        ValueError
            If a name holds a double quote, which dagitty cannot read.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).to_dagitty()
        'dag {\\n  "a";\\n  "b";\\n  "a" -> "b";\\n}'
        """
        for name in self.names:
            if '"' in name:
                raise ValueError(f"names must not hold double quotes for dagitty, got {name!r}")
        return self._text("pdag" if self.undirected else "dag", '"{}" -- "{}"', {})

    def _text(self, kind: str, may_turn: str, escapes: dict[str, str]) -> str:
        table = {ord(letter): written for letter, written in escapes.items()}

        def safe(name: str) -> str:
            return name.translate(table)

        lines = [f'"{safe(name)}"' for name in self.names]
        lines += [f'"{safe(parent)}" -> "{safe(child)}"' for parent, child in self.directed]
        lines += [may_turn.format(safe(one), safe(other)) for one, other in self.undirected]
        return "\n".join([f"{kind} {{", *(f"  {line};" for line in lines), "}"])

    def _facts(self) -> Facts:
        n_edges, n_turned = len(self.directed), len(self.undirected)
        edges = f"{n_edges} edges" + (f", {n_turned} without direction" if n_turned else "")
        return Facts(type(self).__name__, {"variables": f"{len(self.names)} variables", "edges": edges})

    def _listed(self) -> Listed | None:
        if len(self.names) <= MOST_DRAWN:
            return None
        pairs = [(*pair, "") for pair in self.directed] + [(*pair, "without direction") for pair in self.undirected]
        return Listed(f"{len(pairs):,} edges", ("parent", "child", ""), pairs)

    def _picture(self) -> str:
        return svg_of_graph(self.names, self.adjacency, self._positions())

    def _positions(self) -> np.ndarray:
        """(d, 2) places for a drawing: on a circle; of a `DAG` with many variables in layers below their parents."""
        return on_a_circle(len(self.names))

    def _named(self, matrix: np.ndarray) -> list[tuple[str, str]]:
        return [(self.names[j], self.names[i]) for j, i in np.argwhere(matrix)]

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.names == other.names and bool(np.array_equal(self.adjacency, other.adjacency))

    def __hash__(self) -> int:
        return hash((self.names, self.adjacency.tobytes()))


@dataclass(frozen=True, eq=False, repr=False)
class DAG(NamedGraph):
    """A directed acyclic graph.

    Parameters
    ----------
    names : sequence of str
        The d variables; an integer stands for its digits, here and in edges.
    adjacency : (d, d) bool
        True at [parent, child].

    Raises
    ------
    TypeError
        If `adjacency` holds names.
    ValueError
        If the shape does not fit, names repeat, or there is a cycle.

    Examples
    --------
    >>> dag = ps.DAG.from_edges(["a", "b", "c"], [("a", "b"), ("a", "c")])
    >>> dag.edges
    [('a', 'b'), ('a', 'c')]
    """

    names: tuple[str, ...]
    adjacency: np.ndarray

    def __post_init__(self) -> None:
        names = tuple(as_name(name) for name in self.names)
        matrix = np.array(self.adjacency)
        if matrix.dtype.kind in "US":
            raise TypeError("adjacency must be bool, got names; edges go into ps.DAG.from_edges(names, edges)")
        if matrix.shape != (len(names), len(names)) or matrix.dtype != bool:
            raise ValueError(
                f"adjacency must be bool of shape {(len(names),) * 2}, got {matrix.dtype} of shape {matrix.shape}"
            )
        if len(set(names)) < len(names):
            raise ValueError(f"names must be distinct, got {quoted(list(names))}")
        for name in names:
            refuse_unkept(f"names: {quoted(name)}", name)
        matrix.flags.writeable = False
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "adjacency", matrix)
        self.order  # noqa: B018  refuses cycles

    @classmethod
    def from_edges(cls, names: Sequence[str], edges: Iterable[tuple[str, str]]) -> "DAG":
        """Build the graph with the given edges.

        Parameters
        ----------
        names : sequence of str
        edges : sequence of (parent, child)

        Returns
        -------
        DAG

        Raises
        ------
        ValueError
            If an edge has an unknown end, or there is a cycle.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).edges
        [('a', 'b')]
        """
        from pymc_spn.dags.constraints import edge_list

        names = [as_name(name) for name in names]
        if pairs := [name for name in names if isinstance(name, tuple | list)]:
            raise TypeError(f"names must hold a name for each variable, got {quoted(pairs[0])}; edges come after names")
        matrix = np.zeros((len(names), len(names)), bool)
        for parent, child in edge_list(names, edges, "edges"):
            matrix[parent, child] = True
        return cls(tuple(names), matrix)

    @classmethod
    def from_networkx(cls, graph: "nx.DiGraph") -> "DAG":
        """Read a graph of networkx, whose nodes are the names.

        Parameters
        ----------
        graph : networkx.DiGraph
            Attributes of nodes and edges are not read.

        Returns
        -------
        DAG

        Raises
        ------
        TypeError
            If it is not a directed graph, or may hold an edge several times.
        ValueError
            As `from_edges`.

        Examples
        --------
        >>> import networkx as nx
        >>> ps.DAG.from_networkx(nx.DiGraph([("a", "b")])).edges
        [('a', 'b')]
        """
        if not hasattr(graph, "is_directed") or not graph.is_directed() or graph.is_multigraph():
            raise TypeError(f"graph must be a networkx.DiGraph; got {type(graph).__name__}")
        return cls.from_edges(list(graph.nodes), list(graph.edges))

    @property
    def order(self) -> tuple[str, ...]:
        """Return an order in which parents stand before their children.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("b", "a")]).order
        ('b', 'a')
        """
        from pymc_spn.dags.graph_kernels import topological_order

        out = np.empty(len(self.names), np.int64)
        if not topological_order(self.adjacency, out):
            raise ValueError("adjacency has a cycle")
        return tuple(self.names[i] for i in out)

    @property
    def edges(self) -> list[tuple[str, str]]:
        """(parent, child) pairs.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).edges
        [('a', 'b')]
        """
        return self._named(self.adjacency)

    def cpdag(self) -> "CPDAG":
        """Return the equivalence class of the graph.

        Examples
        --------
        >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).cpdag().undirected
        [('a', 'b')]
        """
        (matrix,) = to_cpdags(self.adjacency[None])
        return CPDAG(self.names, matrix)

    def _positions(self) -> np.ndarray:
        if len(self.names) <= FEW:
            return super()._positions()
        number = {name: i for i, name in enumerate(self.names)}
        return in_layers(self.adjacency, [number[name] for name in self.order])


@dataclass(frozen=True, eq=False, repr=False)
class CPDAG(NamedGraph):
    """A Markov equivalence class of DAGs.

    Parameters
    ----------
    names : tuple of str
    adjacency : (d, d) bool
        True at [j, i] if j -> i in every graph of the class, and at both [j, i] and [i, j] if the edge may be turned.

    Examples
    --------
    >>> ps.DAG.from_edges(["a", "b"], [("a", "b")]).cpdag().undirected
    [('a', 'b')]
    """

    names: tuple[str, ...]
    adjacency: np.ndarray


def to_cpdags(graphs: Any) -> np.ndarray:
    """Equivalence classes of many DAGs.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.

    Returns
    -------
    (n, d, d) bool
        As `CPDAG.adjacency`.

    Raises
    ------
    ValueError
        If one has a cycle.
    """
    from pymc_spn.dags.graph_kernels import equivalence_classes

    graphs = np.ascontiguousarray(graphs, bool)
    out = np.empty_like(graphs)
    cyclic = equivalence_classes(graphs, out)
    if cyclic >= 0:
        raise ValueError(f"graphs[{cyclic}] has a cycle")
    return out
