"""The factor graph: named discrete variables and log tables, checked when added."""

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.factor_graphs.builders import Builders
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr, elided
from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted, refuse_unkept, some
from pymc_spn.steps.model_inputs import NumbersOrVariable

if TYPE_CHECKING:
    import networkx as nx

    from pymc_spn.factor_graphs.junction_tree import JunctionTree

DEFAULT_MAX_TABLE = 2**24  # entries: 128 MB a table


class FactorGraph(Builders, NotebookRepr):
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
        self._add(scope[None, :], log_table, tuple(self.card[scope].tolist()))

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

    def _add(self, scopes: np.ndarray, log_table: Any, shape: tuple[int, ...]) -> None:
        arity = len(shape)
        stack = (len(scopes), *shape)
        where = f"log_table of factor {self._named(scopes[0])}"
        is_tensor = hasattr(log_table, "owner") and hasattr(log_table, "type")
        given: Any = log_table if is_tensor else np.asarray(log_table)
        ndim = given.type.ndim if is_tensor else given.ndim
        is_stack = ndim == arity + 1 and len(scopes) > 0
        expected = stack if is_stack else shape
        if is_tensor:
            static = given.type.shape
            fits = ndim in (arity, arity + 1) and all(
                a is None or a == b for a, b in zip(static, expected, strict=True)
            )
            fits = fits and (not is_stack or len(scopes) > 1 or static[0] == 1)
            actual: Any = static
        else:
            fits, actual = given.shape == expected and (ndim == arity or len(scopes) > 1), given.shape
        if not fits:
            stacked = f" or {stack}, one table for each of {len(scopes)} factors" if len(scopes) > 1 else ""
            raise ValueError(f"{where} must have shape {shape}, one axis for each variable{stacked}, got {actual}")
        offset = self._store(log_table, given, expected, where, scopes, is_tensor)
        size = int(np.prod(shape, dtype=np.int64))
        self._scopes.append(scopes)
        self._offsets.append(offset + size * np.arange(len(scopes)) * int(is_stack))

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
        self.n_potentials += int(np.prod(shape, dtype=np.int64))
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
            potentials[offsets[f] : offsets[f] + int(np.prod(shape, dtype=np.int64))].reshape(shape).copy()
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

    def report(self, max_table: int = DEFAULT_MAX_TABLE) -> str:
        """Describe the width, the largest clique, table entries and memory.

        Examples
        --------
        >>> fg.report().splitlines()[0]
        '2 variables, 2 factors, 1 cliques'
        """
        return self.compile(max_table).report()

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
