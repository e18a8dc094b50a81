"""The factor graph: named discrete variables and log tables, checked when added."""

from collections.abc import Hashable, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr, elided
from pymc_spn.numerics.memory_limits import refuse_count, refuse_memory
from pymc_spn.numerics.quoted_values import quoted, refuse_unkept, some
from pymc_spn.steps.model_inputs import NumbersOrVariable

if TYPE_CHECKING:
    import networkx as nx

    from pymc_spn.factor_graphs.junction_tree import JunctionTree

DEFAULT_MAX_TABLE = 2**24  # entries: 128 MB a table
BYTES_A_VARIABLE = 500.0  # name, states and number of a variable, and a factor
ROW_TOLERANCE = 1e-6  # how far a conditional probability table's rows may be from adding up to one


class FactorGraph(NotebookRepr):
    """Discrete variables joined by factors: p(x) is proportional to the product of all tables.

    Parameters
    ----------
    variables : mapping of str to int or sequence
        States of each variable: how many (then the labels are 0, 1, ...), or their labels, which are all str, all int
        or all bool. The order of declaration breaks ties in `Inference.map`.

    Examples
    --------
    >>> fg = ps.FactorGraph({"rain": ["no", "yes"], "wet": 2})
    >>> fg.add_factor(["rain", "wet"], np.log([[0.9, 0.1], [0.2, 0.8]]))
    >>> round(fg.compile().infer(given={"wet": 1}).marginal("rain").sel(rain="yes").item(), 3)
    0.889
    """

    def __init__(self, variables: Mapping[str, int | Sequence[object]]) -> None:
        if not isinstance(variables, Mapping):
            raise TypeError(
                f"variables must be a mapping of names to states, such as {{'wet': 2}}, got {type(variables).__name__}"
            )
        self.names: tuple[str, ...] = tuple(variables)
        self.states: tuple[tuple[Any, ...], ...] = tuple(_labels(name, variables[name]) for name in self.names)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.card = np.array([len(s) for s in self.states], dtype=np.int64)
        self._scopes: list[np.ndarray] = []  # (n_factors, arity) variable numbers, one array a call
        self._offsets: list[np.ndarray] = []  # (n_factors,) where the tables start
        self.blocks: list[Any] = []  # distinct tables: float64 arrays or tensors, concatenated to the potentials
        self.block_shapes: list[tuple[int, ...]] = []
        self._sources: dict[int, tuple[Any, int, int]] = {}  # id of a given table: itself, its block, its offset
        self.n_potentials = 0
        self._csr: tuple[int, np.ndarray, np.ndarray] | None = None  # calls that `scopes` has seen, and what it says

    def _facts(self) -> Facts:
        facts = {"variables": f"{len(self.names)} variables", "factors": f"{self.n_factors} factors"}
        return Facts("FactorGraph", facts | {"tables": "with tensors" if self.is_symbolic else ""})

    def _listed(self) -> Listed:
        states = zip(self.names, self.states, strict=True)
        rows = ((name, len(labels), elided([str(label) for label in labels])) for name, labels in states)
        return Listed(f"{len(self.names)} variables", ("variable", "states", "labels"), rows)

    @property
    def n_factors(self) -> int:
        """Number of factors.

        Examples
        --------
        >>> fg.n_factors
        2
        """
        return sum(len(o) for o in self._offsets)

    @property
    def is_symbolic(self) -> bool:
        """Whether some table is a PyTensor tensor.

        Examples
        --------
        >>> fg.is_symbolic
        False
        """
        return any(not isinstance(b, np.ndarray) for b in self.blocks)

    def add_factor(self, variables: Sequence[str], log_table: NumbersOrVariable) -> None:
        """Add one factor.

        Parameters
        ----------
        variables : sequence of str
            Distinct names, one for each axis of the table, in its order; empty for a constant.
        log_table : array or TensorVariable, shape (states of the first variable, ...)
            Natural logs, -inf for impossible configurations. A table that is passed several times, as the same object,
            is stored once, and its gradient is summed.

        Raises
        ------
        ValueError
            If a variable is unknown or repeated, the shape does not fit, or an entry is NaN or +inf.

        Examples
        --------
        >>> fg = ps.FactorGraph({"rain": ["no", "yes"], "wet": 2})
        >>> fg.add_factor(["rain", "wet"], np.log([[0.9, 0.1], [0.2, 0.8]]))
        >>> fg.n_factors
        1
        """
        if isinstance(variables, str):
            raise TypeError(f"variables must be a sequence of names, got the single string {quoted(variables)}")
        scope = self.numbers(variables)
        self._add(scope[None, :], log_table, tuple(self.card[scope].tolist()), may_stack=False)

    def add_factors(self, scopes: Sequence[Sequence[str]], log_tables: NumbersOrVariable) -> None:
        """Add many factors of equal shape.

        Parameters
        ----------
        scopes : sequence of sequence of str
            The variables of each factor, as in `add_factor`.
        log_tables : array or TensorVariable
            One table for all, or a stack with one table each on its first axis.

        Raises
        ------
        ValueError
            If scopes differ in length or in state counts, or as in `add_factor`.

        Examples
        --------
        >>> chain = ps.FactorGraph({"a": 2, "b": 2, "c": 2})
        >>> chain.add_factors([["a", "b"], ["b", "c"]], np.zeros((2, 2, 2)))
        >>> chain.n_factors
        2
        """
        numbers = [self.numbers(scope) for scope in scopes]
        different = [i for i, scope in enumerate(numbers) if len(scope) != len(numbers[0])]
        if different:
            a, b = self._named(numbers[0]), self._named(numbers[different[0]])
            raise ValueError(f"scopes must have equal length in one call of add_factors, but {a} and {b} differ")
        self._add_numbered(np.array(numbers, dtype=np.int64), log_tables)

    def _add_numbered(self, scopes: np.ndarray, log_tables: Any) -> None:
        if not len(scopes):
            return
        cards = self.card[scopes]
        different = np.flatnonzero(np.any(cards != cards[0], axis=1))
        if different.size:
            i = int(different[0])
            raise ValueError(
                f"scopes must have equal state counts in one call of add_factors, but {self._named(scopes[0])} has "
                f"{tuple(cards[0].tolist())} and {self._named(scopes[i])} has {tuple(cards[i].tolist())}"
            )
        self._add(scopes, log_tables, tuple(cards[0].tolist()))

    def _named(self, scope: Any) -> tuple[str, ...]:
        return tuple(self.names[v] for v in scope)

    def _add(self, scopes: np.ndarray, log_table: Any, shape: tuple[int, ...], may_stack: bool = True) -> None:
        where = f"log_table of factor {self._named(scopes[0])}"
        is_tensor = _is_tensor(log_table)
        given: Any = log_table if is_tensor else np.asarray(log_table)
        actual = given.type.shape if is_tensor else given.shape  # None where a tensor does not know it
        is_stack = may_stack and len(actual) == len(shape) + 1
        stack = (len(scopes), *shape)
        expected = stack if is_stack else shape
        if len(actual) != len(expected) or any(a not in (None, b) for a, b in zip(actual, expected, strict=True)):
            stacked = f" or {stack}, one table for each of {len(scopes)} factors" if len(scopes) > 1 else ""
            raise ValueError(f"{where} must have shape {shape}, one axis for each variable{stacked}, got {actual}")
        offset = self._store(log_table, given, expected, where, scopes, is_tensor)
        self._scopes.append(scopes)
        self._offsets.append(offset + prod(shape) * np.arange(len(scopes)) * int(is_stack))

    def _store(
        self, source: Any, given: Any, shape: tuple[int, ...], where: str, scopes: np.ndarray, is_tensor: bool
    ) -> int:
        if id(source) in self._sources:
            _, block, offset = self._sources[id(source)]
            if is_tensor or np.array_equal(self.blocks[block], given):
                return offset
        if not is_tensor:
            if given.dtype.kind not in "fiu":
                raise TypeError(f"{where} must hold numbers, got dtype {given.dtype}")
            given = np.array(given, dtype=np.float64)
            wrong = np.isnan(given) | (given == np.inf)
            if np.any(wrong):
                place = np.argwhere(wrong)[0].tolist()
                if len(place) > scopes.shape[1]:
                    scope, place = scopes[place[0]], place[1:]
                else:
                    scope = scopes[0]
                entry = ", ".join(f"{self.names[v]}={self.states[v][k]!r}" for v, k in zip(scope, place, strict=True))
                raise ValueError(
                    f"log_table of factor {self._named(scope)} must be finite or -inf, "
                    f"got {given[tuple(np.argwhere(wrong)[0])]} at ({entry})"
                )
            given.setflags(write=False)
        elif given.type.dtype.startswith(("complex", "bool")):
            raise TypeError(f"{where} must hold real numbers, got dtype {given.type.dtype}")
        offset = self.n_potentials
        self._sources[id(source)] = (source, len(self.blocks), offset)
        self.blocks.append(given)
        self.block_shapes.append(shape)
        self.n_potentials += prod(shape)
        return offset

    def numbers(self, variables: Sequence[str]) -> np.ndarray:
        """Return the numbers (k,) int64 of distinct variables.

        Examples
        --------
        >>> fg.numbers(["wet"])
        array([1])
        """
        result = np.empty(len(variables), dtype=np.int64)
        for i, name in enumerate(variables):
            if not isinstance(name, Hashable) or name not in self.number:
                raise ValueError(f"unknown variable {name!r}; the variables are {some(self.names)}")
            result[i] = self.number[name]
        if len(set(result.tolist())) < len(result):
            raise ValueError(f"variables must be distinct, got {quoted(tuple(variables))}")
        return result

    def labels(self, codes: np.ndarray) -> np.ndarray:
        """Return the labels of state codes (..., n_variables); None for -1.

        Examples
        --------
        >>> fg.labels(np.array([1, 0])).tolist()
        ['yes', 0]
        """
        result = np.empty(codes.shape, dtype=object)
        for v, states in enumerate(self.states):
            table = np.empty(len(states) + 1, dtype=object)
            table[:-1], table[-1] = states, None
            result[..., v] = table[codes[..., v]]
        kinds = {type(s[0]) for s in self.states}
        if len(kinds) == 1 and not np.any(codes < 0):
            return result.astype({str: np.str_, int: np.int64, bool: np.bool_}[kinds.pop()])
        return result

    # -- common shapes --------------------------------------------------------------------------------

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
        n_steps = checked_count("n_steps", n_steps, 1)
        refuse_count("n_steps", n_steps, BYTES_A_VARIABLE, "take a shorter chain")
        if states is None:
            tables: Any = (log_initial, log_transition)
            shapes = [x.type.shape if _is_tensor(x) else np.shape(x) for x in tables]
            known = [k for shape in shapes for k in shape[-1:] if k is not None]
            if not known:
                raise ValueError("states must be given: neither log_initial nor log_transition has a known length")
            states = int(known[0])
        fg = cls({f"{name}{t}": states for t in range(n_steps)})
        fg.add_factor((f"{name}0",), log_initial)
        steps = np.arange(n_steps - 1)
        if n_steps > 1:
            fg._add_numbered(np.stack([steps, steps + 1], axis=1), log_transition)
        return fg

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
        names, pairs = _lattice(shape, name, periodic)
        fg = cls({n: (-1, 1) for n in names})
        fg._add_numbered(pairs, _scalar("coupling", coupling) * np.array([[1.0, -1.0], [-1.0, 1.0]]))
        if _is_tensor(field) or field != 0.0:
            fg._add_numbered(np.arange(len(names))[:, None], _scalar("field", field) * np.array([-1.0, 1.0]))
        return fg

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
        names, pairs = _lattice(shape, name, periodic)
        fg = cls({n: states for n in names})
        fg._add_numbered(pairs, _scalar("coupling", coupling) * np.eye(fg.card[0]))
        return fg

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
        pairs: Any = [tuple(e) for e in edges]
        for e in pairs:
            if len(e) != 2:
                raise ValueError(f"edges must be pairs of names, got {quoted(e)}")
        if isinstance(states, Mapping):
            variables = dict(states)
        else:
            variables = {name: states for edge in pairs for name in edge}
        fg = cls(variables)
        root = {name: name for name in variables}

        def find(name: str) -> str:
            while root[name] != name:
                root[name] = root[root[name]]
                name = root[name]
            return name

        for a, b in pairs:
            fg.numbers((a, b))
            ra, rb = find(a), find(b)
            if ra == rb:
                raise ValueError(f"edges must form a tree or forest, but ({a!r}, {b!r}) closes a cycle")
            root[ra] = rb
        if pairs:
            fg.add_factors(pairs, pair)
        if isinstance(unary, Mapping):
            for name, table in unary.items():
                fg.add_factor((name,), table)
        elif unary is not None:
            fg._add_numbered(np.arange(len(variables))[:, None], unary)
        return fg

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
                raise ValueError(
                    f"probabilities of {name!r} given {scope[:-1]} must have shape {shape}, got {table.shape}"
                )
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

    # -- flat form ------------------------------------------------------------------------------------

    def scopes(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR (n_factors + 1,), variable numbers of all factors; not to be changed.

        Examples
        --------
        >>> fg.scopes()
        (array([0, 1, 3]), array([0, 0, 1]))
        """
        if self._csr is not None and self._csr[0] == len(self._scopes):
            return self._csr[1:]
        arity = np.concatenate([[0], *(np.full(len(s), s.shape[1]) for s in self._scopes)]).astype(np.int64)
        flat = np.concatenate([np.empty(0, np.int64), *(s.ravel() for s in self._scopes)])
        self._csr = len(self._scopes), np.cumsum(arity), flat
        return self._csr[1:]

    def offsets(self) -> np.ndarray:
        """(n_factors,) int64, where each factor's table starts in `potentials`.

        Examples
        --------
        >>> fg.offsets()
        array([0, 2])
        """
        return np.concatenate([np.empty(0, np.int64), *self._offsets])

    def scope_of(self, factor: int) -> tuple[str, ...]:
        """Return the names of the variables of one factor, in the order of its axes.

        Examples
        --------
        >>> fg.scope_of(1)
        ('rain', 'wet')
        """
        ptr, flat = self.scopes()
        is_whole = isinstance(factor, int | np.integer) and not isinstance(factor, bool)
        if not is_whole or not 0 <= factor < ptr.size - 1:
            raise ValueError(f"factor must be an integer within 0..{ptr.size - 2}, got {quoted(factor)}")
        return self._named(flat[ptr[factor] : ptr[factor + 1]])

    def potentials(self) -> np.ndarray:
        """(n_potentials,) float64, all distinct tables one after the other.

        Raises
        ------
        ValueError
            If some table is a tensor.

        Examples
        --------
        >>> np.exp(fg.potentials()).round(3)
        array([0.8, 0.2, 0.9, 0.1, 0.2, 0.8])
        """
        for block in self.blocks:
            if not isinstance(block, np.ndarray):
                raise ValueError(
                    f"the log table {block} is a tensor, so the graph has no numbers of its own. Put the graph into a "
                    "model as ps.DiscreteField and call ps.factor_graphs.recover_discrete, or build it with NumPy "
                    "tables"
                )
        return np.concatenate([np.empty(0), *(b.ravel() for b in self.blocks)])

    def log_table(self, factor: int) -> np.ndarray:
        """Return the log table of one factor of a graph without tensors.

        Parameters
        ----------
        factor : int
            In the order in which they were added, from 0.

        Returns
        -------
        ndarray of float64
            One axis for each variable of `scope_of`; a copy.

        Raises
        ------
        ValueError
            If there is no such factor, or some table is a tensor.

        Examples
        --------
        >>> np.exp(fg.log_table(0)).round(3)
        array([0.8, 0.2])
        """
        self.scope_of(factor)
        return self.log_tables([factor])[0]

    def log_tables(self, factors: Sequence[int]) -> list[np.ndarray]:
        """Return the log tables of factors of a graph without tensors.

        Examples
        --------
        >>> fg.log_tables([0])[0].shape
        (2,)
        """
        ptr, flat = self.scopes()
        offsets, potentials = self.offsets(), self.potentials()
        shapes = [tuple(self.card[flat[ptr[f] : ptr[f + 1]]].tolist()) for f in factors]
        return [
            potentials[offsets[f] : offsets[f] + prod(shape)].reshape(shape).copy()
            for f, shape in zip(factors, shapes, strict=True)
        ]

    def compile(self, max_table: int = DEFAULT_MAX_TABLE) -> "JunctionTree":
        """Plan exact inference by a junction tree.

        Parameters
        ----------
        max_table : int
            Largest clique table, in entries of 8 bytes.

        Raises
        ------
        TooWideError
            A ValueError that names the clique and what would help.

        Examples
        --------
        >>> fg.compile().width
        1
        """
        from pymc_spn.factor_graphs.junction_tree import JunctionTree

        return JunctionTree(self, max_table)

    def to_networkx(self) -> "nx.Graph":
        """Return the bipartite graph of variables and factors, for networkx.

        Returns
        -------
        networkx.Graph
            Variables by name, factors as ``("factor", 0)``, ... in order; edges carry ``axis``.

        Examples
        --------
        >>> fg.to_networkx().number_of_nodes()
        4
        """
        from pymc_spn.factor_graphs import exchange

        return exchange.to_networkx(self)


def _labels(name: Any, states: Any) -> tuple[Any, ...]:
    if not isinstance(name, str):
        raise TypeError(f"a variable's name must be a str, got {quoted(name)}")
    refuse_unkept(f"variable {name!r}: its name", name)
    # A set's order differs from run to run: tables would belong to other states.
    if isinstance(states, bool | str | float | Set | Mapping) or states is None:
        raise TypeError(f"states of variable {name!r} must be a count or a sequence of labels, got {quoted(states)}")
    if isinstance(states, int | np.integer):
        if states < 1:
            raise ValueError(f"variable {name!r} must have at least one state, got {states}")
        refuse_count(f"states of variable {name!r}", int(states), 48.0, "code it with fewer states")
        return tuple(range(int(states)))
    labels = tuple(s.item() if isinstance(s, np.generic) else s for s in states)
    if not labels:
        raise ValueError(f"variable {name!r} must have at least one state, got none")
    if len({type(s) for s in labels}) > 1 or not isinstance(labels[0], str | int):
        raise TypeError(f"states of variable {name!r} must be all str, all int or all bool, got {quoted(labels)}")
    for label in labels:
        refuse_unkept(f"variable {name!r}: its state {quoted(label)}", label)
    if len(set(labels)) < len(labels):
        raise ValueError(f"states of variable {name!r} must differ, got {quoted(labels)}")
    return labels


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "owner") and hasattr(x, "type")


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


def _scalar(argument: str, x: Any) -> Any:
    if _is_tensor(x):
        if x.type.ndim:
            raise ValueError(f"{argument} must be a scalar, got a tensor of {x.type.ndim} dimensions")
        return x
    if not isinstance(x, int | float | np.number | np.ndarray) or np.ndim(x) or not np.isfinite(x):
        raise ValueError(f"{argument} must be a finite number, got {quoted(x)}")
    return float(x)


def _refuse_cycle(names: Sequence[str], parents: Mapping[str, Sequence[str]]) -> None:
    try:
        TopologicalSorter({name: parents.get(name, ()) for name in names}).prepare()
    except CycleError as error:
        raise ValueError(f"parents must not close a cycle, but {some(error.args[1])} do") from None
