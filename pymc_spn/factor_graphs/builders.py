"""Factor graphs of common shape: chains, lattices, trees, Bayesian networks."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.numerics.memory_limits import refuse_count, refuse_memory
from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.steps.model_inputs import NumbersOrVariable

if TYPE_CHECKING:
    import networkx as nx

BYTES_A_VARIABLE = 500.0  # name, states and number of a variable, and a factor
ROW_TOLERANCE = 1e-6  # how far a conditional probability table's rows may be from adding up to one


class Builders:
    """Class methods of `FactorGraph` that make graphs of common shape."""

    @classmethod
    def hmm(
        cls,
        n_steps: int,
        log_initial: NumbersOrVariable,
        log_transition: NumbersOrVariable,
        *,
        states: int | Sequence[object] | None = None,
        name: str = "z",
    ) -> Self:
        """Build a hidden Markov chain of variables ``<name>0``, ``<name>1``, ...

        Parameters
        ----------
        n_steps : int
        log_initial : (K,) array or tensor
            Log probabilities of the first state.
        log_transition : (K, K) or (n_steps - 1, K, K) array or tensor
            Log probabilities, rows from, columns to; one matrix for all steps or one for each.
        states : int or sequence of labels, optional
            Found from the shapes where these are known.
        name : str

        Returns
        -------
        FactorGraph

        Raises
        ------
        ValueError
            If `n_steps` is not a positive integer, or shapes do not fit.

        Examples
        --------
        >>> stay = np.log([[0.9, 0.1], [0.1, 0.9]])
        >>> chain = ps.FactorGraph.hmm(10, np.log([0.5, 0.5]), stay, states=["low", "high"])
        >>> chain.compile().infer(given={"z0": "low"}).marginal("z1").round(3).values
        array([0.9, 0.1])
        """
        return _hmm(cls, n_steps, log_initial, log_transition, states, name)

    @classmethod
    def ising(
        cls,
        shape: int | tuple[int, int],
        coupling: NumbersOrVariable,
        field: NumbersOrVariable = 0.0,
        *,
        periodic: bool = False,
        name: str = "x",
    ) -> Self:
        """Ising model: log p = sum over neighbours of coupling x_i x_j + sum of field x_i, states -1 and 1.

        Parameters
        ----------
        shape : int or (int, int)
            A chain, with sites ``<name>0``, ..., or a grid, with sites ``<name>0_0``, ``<name>0_1``, ...
        coupling, field : float or scalar tensor
        periodic : bool
            Close the chain to a ring, the grid to a torus; sides are then at least 3.
        name : str

        Returns
        -------
        FactorGraph

        Raises
        ------
        ValueError
            If a side or a number does not fit.

        Examples
        --------
        >>> ps.FactorGraph.ising((3, 3), coupling=0.4).n_factors
        12
        """
        return _ising(cls, shape, coupling, field, periodic, name)

    @classmethod
    def potts(
        cls,
        shape: int | tuple[int, int],
        states: int | Sequence[object],
        coupling: NumbersOrVariable,
        *,
        periodic: bool = False,
        name: str = "x",
    ) -> Self:
        """Potts model: log p = coupling times the number of neighbouring pairs in equal states.

        Parameters
        ----------
        shape, coupling, periodic, name
            As in `ising`.
        states : int or sequence of labels

        Returns
        -------
        FactorGraph

        Examples
        --------
        >>> ps.FactorGraph.potts((2, 3), states=3, coupling=0.5)
        FactorGraph(6 variables, 7 factors)
        """
        return _potts(cls, shape, states, coupling, periodic, name)

    @classmethod
    def tree(
        cls,
        edges: Sequence[tuple[str, str]],
        states: int | Sequence[object] | Mapping[str, int | Sequence[object]],
        pair: NumbersOrVariable,
        unary: NumbersOrVariable | None = None,
    ) -> Self:
        """Build a tree or forest, with a factor for each edge.

        Parameters
        ----------
        edges : sequence of (str, str)
        states : int, sequence of labels, or mapping of names to these
            For all variables, which are then those of the edges in order of appearance; or for each.
        pair : array or tensor
            (K, K) log table for all edges (first end on the rows), or (n_edges, K, K).
        unary : array or tensor, optional
            (K,) or (n_variables, K), or a mapping of names to log tables.

        Returns
        -------
        FactorGraph

        Raises
        ------
        ValueError
            If the edges close a cycle; it names the edge.

        Examples
        --------
        >>> agree = np.log([[0.9, 0.1], [0.1, 0.9]])
        >>> ps.FactorGraph.tree([("a", "b"), ("b", "c")], {"a": 2, "b": 2, "c": 2}, agree)
        FactorGraph(3 variables, 2 factors)
        """
        return _tree(cls, edges, states, pair, unary)

    @classmethod
    def from_bayesian_network(
        cls,
        states: Mapping[str, int | Sequence[object]],
        parents: Mapping[str, Sequence[str]],
        probabilities: Mapping[str, NumbersOrVariable],
    ) -> Self:
        """Build a Bayesian network, with one factor for each variable.

        Parameters
        ----------
        states : mapping of str to int or sequence of labels
        parents : mapping of str to sequence of str
            Missing entries mean no parents.
        probabilities : mapping of str to array
            One axis for each parent, in the order of ``parents``, then the variable's own; rows add up to one.

        Returns
        -------
        FactorGraph

        Raises
        ------
        ValueError
            If a table is missing or no conditional probability table, or the parents close a cycle.

        Examples
        --------
        >>> net = ps.FactorGraph.from_bayesian_network(
        ...     {"rain": ["no", "yes"], "wet": ["no", "yes"]},
        ...     {"rain": [], "wet": ["rain"]},
        ...     {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.2, 0.8]]},
        ... )
        >>> round(net.compile().infer(given={"wet": "yes"}).marginal("rain").sel(rain="yes").item(), 3)
        0.667
        """
        return _bayesian_network(cls, states, parents, probabilities)

    @classmethod
    def from_bif(cls, source: str | PathLike[str], *, encoding: str = "utf-8", max_entries: int = 2**24) -> Self:
        """Read a Bayesian network from a file or text in the Bayesian Interchange Format.

        Rows may be rounded: each entry may be off by half a unit of its last written digit, but by no more than 0.0005.
        A row whose sum differs from one by no more than that allows is divided by its sum. Every other row is refused.

        Parameters
        ----------
        source : str or path-like
            Path of a ``.bif`` file, also gzipped. A `str` with a brace or a line break, or that begins
            as one and is no file, is the text itself.
        encoding : str
            Of the file; older files often need ``"latin-1"``.
        max_entries : int
            Most entries of all tables together, 8 bytes each. They are counted before a table is made, and the text may
            have 16 bytes an entry.

        Returns
        -------
        FactorGraph

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If a block cannot be read, a variable has two blocks of a kind, or the limit is exceeded. It names the file
            and the line.

        Examples
        --------
        >>> text = "variable a { type discrete [ 2 ] { no, yes }; } probability ( a ) { table 0.2, 0.8; }"
        >>> ps.FactorGraph.from_bif(text)
        FactorGraph(1 variables, 1 factors)
        """
        from pymc_spn.factor_graphs.bif import read_bif

        place, network = read_bif(source, encoding, max_entries)
        try:
            return cls.from_bayesian_network(*network)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None

    @classmethod
    def from_pgmpy(cls, model: object) -> Self:
        """Convert a Bayesian or Markov network of pgmpy.

        Examples
        --------
        >>> from pgmpy.factors.discrete import TabularCPD  # doctest: +SKIP
        >>> from pgmpy.models import DiscreteBayesianNetwork  # doctest: +SKIP
        >>> net = DiscreteBayesianNetwork()  # doctest: +SKIP
        >>> net.add_node("rain")  # doctest: +SKIP
        >>> net.add_cpds(TabularCPD("rain", 2, [[0.8], [0.2]]))  # doctest: +SKIP
        >>> fg = ps.FactorGraph.from_pgmpy(net)  # doctest: +SKIP
        """
        from pymc_spn.factor_graphs import exchange

        return exchange.from_pgmpy(cls, model)

    @classmethod
    def from_networkx(cls, graph: "nx.Graph") -> Self:
        """Build a factor graph from a bipartite graph, as `to_networkx` returns it.

        Parameters
        ----------
        graph : networkx.Graph
            Variable nodes carry ``kind="variable"`` and ``states``, factor nodes ``kind="factor"``, ``scope`` and
            ``log_table``.

        Returns
        -------
        FactorGraph

        Raises
        ------
        ValueError
            If a node lacks its attributes, or its edges and its scope differ.

        Examples
        --------
        >>> ps.FactorGraph.from_networkx(fg.to_networkx())
        FactorGraph(2 variables, 2 factors)
        """
        from pymc_spn.factor_graphs import exchange

        return exchange.from_networkx(cls, graph)


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "owner") and hasattr(x, "type")


def _n_steps(n_steps: Any) -> int:
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise ValueError(f"n_steps must be a positive integer, got {quoted(n_steps)}")
    refuse_count("n_steps", int(n_steps), BYTES_A_VARIABLE, "take a shorter chain")
    return int(n_steps)


def _hmm(cls: Any, n_steps: int, log_initial: Any, log_transition: Any, states: Any, name: str) -> Any:
    """`Builders.hmm`."""
    n_steps = _n_steps(n_steps)
    if states is None:
        shapes = [x.type.shape if _is_tensor(x) else np.shape(x) for x in (log_initial, log_transition)]
        known = [k for shape in shapes for k in shape[-1:] if k is not None]
        if not known:
            raise ValueError("states must be given: neither log_initial nor log_transition has a known length")
        states = int(known[0])
    fg = cls({f"{name}{t}": states for t in range(n_steps)})
    fg.add_factor((f"{name}0",), log_initial)
    steps = np.arange(n_steps - 1)
    if n_steps > 1:
        fg._add_numbered(np.stack([steps, steps + 1], axis=1), _stack_of_one(log_transition, n_steps))
    return fg


def _stack_of_one(log_transition: Any, n_steps: int) -> Any:
    """With two steps, a stack of one matrix is that matrix."""
    ndim = log_transition.type.ndim if _is_tensor(log_transition) else np.ndim(log_transition)
    return log_transition[0] if n_steps == 2 and ndim == 3 else log_transition


def _lattice(shape: Any, name: str, periodic: bool) -> tuple[list[str], np.ndarray]:
    """Names of the sites and pairs of neighbours of a chain (int) or grid (n, m)."""
    sides = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else (shape,)
    whole = all(isinstance(s, int | np.integer) and not isinstance(s, bool) for s in sides)
    if len(sides) not in (1, 2) or not whole or min(sides) < 1:
        raise ValueError(f"shape must be a length or (rows, columns), all positive integers, got {quoted(shape)}")
    if periodic and any(s < 3 for s in sides):
        raise ValueError(f"shape must have sides of at least 3 with periodic=True, got {quoted(shape)}")
    refuse_memory(f"shape = {shape}", BYTES_A_VARIABLE * prod(map(int, sides)), "take fewer sites")
    number = np.arange(int(np.prod(sides))).reshape(sides)
    pairs = []
    for axis in range(len(sides)):
        ahead = np.roll(number, -1, axis=axis)
        keep = np.ones(sides, bool)
        if not periodic:
            np.moveaxis(keep, axis, 0)[-1] = False
        pairs.append(np.stack([number[keep], ahead[keep]], axis=1))
    names = [name + "_".join(map(str, at)) for at in np.ndindex(*sides)]
    return names, np.concatenate(pairs)


def _ising(cls: Any, shape: Any, coupling: Any, field: Any, periodic: bool, name: str) -> Any:
    """`Builders.ising`."""
    names, pairs = _lattice(shape, name, periodic)
    fg = cls({n: (-1, 1) for n in names})
    fg._add_numbered(pairs, _scalar("coupling", coupling) * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    if _is_tensor(field) or field != 0.0:
        fg._add_numbered(np.arange(len(names))[:, None], _scalar("field", field) * np.array([-1.0, 1.0]))
    return fg


def _potts(cls: Any, shape: Any, states: Any, coupling: Any, periodic: bool, name: str) -> Any:
    """`Builders.potts`."""
    names, pairs = _lattice(shape, name, periodic)
    fg = cls({n: states for n in names})
    fg._add_numbered(pairs, _scalar("coupling", coupling) * np.eye(fg.card[0]))
    return fg


def _scalar(argument: str, x: Any) -> Any:
    if _is_tensor(x):
        if x.type.ndim:
            raise ValueError(f"{argument} must be a scalar, got a tensor of {x.type.ndim} dimensions")
        return x
    if not isinstance(x, int | float | np.number | np.ndarray) or np.ndim(x) or not np.isfinite(x):
        raise ValueError(f"{argument} must be a finite number, got {quoted(x)}")
    return float(x)


def _tree(cls: Any, edges: Any, states: Any, pair: Any, unary: Any) -> Any:
    """`Builders.tree`."""
    edges = [tuple(e) for e in edges]
    for e in edges:
        if len(e) != 2:
            raise ValueError(f"edges must be pairs of names, got {quoted(e)}")
    if isinstance(states, Mapping):
        variables = dict(states)
    else:
        variables = {name: states for edge in edges for name in edge}
    fg = cls(variables)
    root = {name: name for name in variables}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for a, b in edges:
        fg.numbers((a, b))
        ra, rb = find(a), find(b)
        if ra == rb:
            raise ValueError(f"edges must form a tree or forest, but ({a!r}, {b!r}) closes a cycle")
        root[ra] = rb
    if edges:
        if len(edges) == 1 and (pair.type.ndim if _is_tensor(pair) else np.ndim(pair)) == 3:
            pair = pair[0]
        fg.add_factors(edges, pair)
    if isinstance(unary, Mapping):
        for name, table in unary.items():
            fg.add_factor((name,), table)
    elif unary is not None:
        if len(variables) == 1 and (unary.type.ndim if _is_tensor(unary) else np.ndim(unary)) == 2:
            unary = unary[0]
        fg._add_numbered(np.arange(len(variables))[:, None], unary)
    return fg


def _bayesian_network(
    cls: Any, states: Mapping[str, Any], parents: Mapping[str, Sequence[str]], probabilities: Mapping[str, Any]
) -> Any:
    """`Builders.from_bayesian_network`."""
    fg = cls(states)
    for name in (*parents, *probabilities):
        fg.numbers((name,))
    for name in fg.names:
        if name not in probabilities:
            raise ValueError(f"probabilities must hold a table for every variable, {name!r} is missing")
        table = np.asarray(probabilities[name], dtype=np.float64)
        scope = (*parents.get(name, ()), name)
        shape = tuple(fg.card[fg.numbers(scope)].tolist())
        if table.shape != shape:
            raise ValueError(f"probabilities of {name!r} given {scope[:-1]} must have shape {shape}, got {table.shape}")
        wrong = ~((table >= 0).all(axis=-1) & (np.abs(table.sum(axis=-1) - 1.0) < ROW_TOLERANCE))
        if np.any(wrong):
            at = tuple(np.argwhere(wrong)[0].tolist())
            given = ", ".join(f"{p}={fg.states[fg.number[p]][k]!r}" for p, k in zip(scope, at, strict=False))
            raise ValueError(
                f"probabilities of {name!r} must be at least 0 and add up to 1, got {table[at].tolist()}"
                + (f" given {given}" if given else "")
            )
        with np.errstate(divide="ignore"):
            fg.add_factor(scope, np.log(table))
    _refuse_cycle(fg.names, parents)
    return fg


def _refuse_cycle(names: Sequence[str], parents: Mapping[str, Sequence[str]]) -> None:
    try:
        TopologicalSorter({name: parents.get(name, ()) for name in names}).prepare()
    except CycleError as error:
        raise ValueError(f"parents must not close a cycle, but {some(error.args[1])} do") from None
