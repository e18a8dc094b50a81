"""A compiled factor graph: the plan, its limits, and the entry to inference."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.factor_graphs.graph import FactorGraph
from pymc_spn.factor_graphs.plan import Blocked, Plan, TooWideError, make_plan
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr, elided
from pymc_spn.numerics.progress_bars import counted

if TYPE_CHECKING:
    from pymc_spn.factor_graphs.circuit_form import FieldCircuit
    from pymc_spn.factor_graphs.inference import Inference


class JunctionTree(NotebookRepr):
    """A factor graph with the plan of its exact inference; made by `FactorGraph.compile`.

    Parameters
    ----------
    graph : FactorGraph
        Later changes of the graph do not reach the tree.
    max_table : int
        Largest clique table, in entries.

    Raises
    ------
    TooWideError
        If min-fill finds no junction tree within the limit.

    Examples
    --------
    >>> junction = fg.compile()
    >>> junction.cliques
    (('wet', 'rain'),)
    """

    def __init__(self, graph: FactorGraph, max_table: int) -> None:
        checked_count("max_table", max_table, 1)
        if max_table >= 2**31:  # entries are numbered by 32-bit integers
            raise ValueError(f"max_table must be below 2^31, got {max_table:,}")
        if not graph.names:
            raise ValueError("the graph must have at least one variable, got none")
        self.graph = _frozen(graph)
        ptr, scope = graph.scopes()
        try:
            self.plan: Plan = make_plan(graph.card, ptr, scope, graph.offsets(), int(max_table))
        except Blocked as blocked:
            raise TooWideError(_too_wide(graph, blocked.args[0], int(max_table))) from None
        self._log_z: float | None = None
        self.indexes: dict[Any, Any] = {}  # xarray's indexes over states and variables, made when first used

    def _facts(self) -> Facts:
        facts = {"variables": f"{len(self.graph.names)} variables", "cliques": f"{self.plan.n_cliques} cliques"}
        return Facts("JunctionTree", facts | {"width": f"width {self.width}"})

    def _listed(self) -> Listed:
        rows = ((elided(names),) for names in self.cliques)
        return Listed(f"{self.plan.n_cliques} cliques", ("variables of a clique",), rows)

    @property
    def width(self) -> int:
        """Variables of the largest clique less one, as found by min-fill: an upper bound on the treewidth.

        Examples
        --------
        >>> junction.width
        1
        """
        return int(np.diff(self.plan.clique_ptr).max()) - 1

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """Names of the variables of all cliques, children before parents.

        Examples
        --------
        >>> junction.cliques
        (('wet', 'rain'),)
        """
        return tuple(self._named(self.plan.variables_of(c)) for c in range(self.plan.n_cliques))

    def _named(self, variables: Any) -> tuple[str, ...]:
        return tuple(self.graph.names[v] for v in variables)

    @property
    def n_entries(self) -> int:
        """Table entries of all cliques.

        Examples
        --------
        >>> fg.compile().n_entries
        4
        """
        return int(np.sum(self.plan.arrays.n_rows * self.plan.arrays.n_cols))

    @property
    def memory(self) -> int:
        """Bytes of tables and index maps, and of messages for eight rows.

        Examples
        --------
        >>> fg.compile().memory > 0
        True
        """
        arrays = self.plan.arrays
        per_row = 2 * arrays.message_start[-1] + 2 * arrays.own_start[-1] + arrays.state_start[-1]
        tables = 2 * arrays.table_start[-1]
        return int(8 * tables + 64 * per_row + sum(a.nbytes for a in arrays))

    def report(self) -> str:
        """Width found, the largest clique, table entries and memory, as text.

        Examples
        --------
        >>> junction.report().splitlines()[0]
        '2 variables, 2 factors, 1 cliques'
        """
        arrays = self.plan.arrays
        sizes = arrays.n_rows * arrays.n_cols
        largest = int(np.argmax(sizes))
        names = ", ".join(self._named(self.plan.variables_of(largest)))
        return "\n".join(
            [
                f"{len(self.graph.names)} variables, {self.graph.n_factors} factors, {self.plan.n_cliques} cliques",
                f"width found by min-fill: {self.width}",
                f"largest clique: {{{names}}}, {int(sizes[largest]):,} entries",
                f"table entries: {self.n_entries:,}, in distinct tables {int(arrays.table_start[-1]):,}",
                f"memory: {self.memory / 2**20:.3g} MiB for plan, tables and eight rows of messages",
            ]
        )

    @property
    def log_z(self) -> float:
        """Log of the sum over all configurations, without evidence.

        Examples
        --------
        >>> abs(float(junction.log_z)) < 1e-9
        True
        """
        if self._log_z is None:
            from pymc_spn.factor_graphs.passes import run

            self._log_z = float(run(self.plan, self.graph.potentials()[None], None, None, 1).log_z[0])
        return self._log_z

    def infer(
        self,
        given: Mapping[str, object] | pd.DataFrame | None = None,
        soft_evidence: Mapping[str, npt.ArrayLike] | None = None,
        progressbar: bool = True,
    ) -> "Inference":
        """Condition on evidence, row by row.

        Parameters
        ----------
        given : DataFrame of pandas, polars or pyarrow, mapping of names to columns or to scalars, optional
            Observed states by label; NaN, None and pd.NA are unobserved and summed out. With scalars, answers have no
            ``row`` dimension.
        soft_evidence : mapping of str to (K,) or (rows, K) array, optional
            Log likelihoods of the variable's states, which multiply its marginal.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        Inference

        Raises
        ------
        ValueError
            If a name is not a variable, a value is not a state, or a soft value is NaN or +inf; it names the place.

        Warns
        -----
        UserWarning
            If the evidence of some rows has probability zero; it names them.

        Examples
        --------
        >>> junction.infer(given={"wet": 1}).marginal("rain").round(3).values
        array([0.333, 0.667])
        """
        from pymc_spn.factor_graphs.evidence import code_evidence
        from pymc_spn.factor_graphs.inference import Inference

        evidence = code_evidence(self.graph, given, soft_evidence, self.plan.arrays.state_start)
        with counted("Passing messages", progressbar):
            return Inference(self, evidence)

    def to_circuit(self) -> "FieldCircuit":
        """The distribution as a smooth, decomposable circuit with its parameters: see `FieldCircuit`.

        Examples
        --------
        >>> junction.to_circuit().probability({"rain": "yes"}, given={"wet": 1}).round(3).item()
        0.667
        """
        from pymc_spn.factor_graphs.circuit_form import build_circuit

        return build_circuit(self)


def _frozen(graph: FactorGraph) -> FactorGraph:
    copy = FactorGraph.__new__(FactorGraph)
    copy.__dict__.update(graph.__dict__)
    copy._scopes, copy._offsets, copy.blocks = list(graph._scopes), list(graph._offsets), list(graph.blocks)
    copy.block_shapes, copy._sources = list(graph.block_shapes), dict(graph._sources)
    return copy


def _too_wide(graph: FactorGraph, clique: np.ndarray, max_table: int) -> str:
    names = [graph.names[v] for v in clique]
    shown = ", ".join(names[:40]) + (f", ... ({len(names)} variables)" if len(names) > 40 else "")
    entries = float(np.sum(np.log10(graph.card[clique])))
    size = f"{10**entries:,.0f}" if entries < 15 else f"1e{entries:.0f}"
    return (
        f"the graph is too wide for exact inference: the smallest clique that min-fill can make next, {{{shown}}}, has "
        f"{size} entries, more than max_table={max_table:,}. Raise max_table if memory allows, observe or remove some "
        "of these variables, cut edges between them (a narrower strip of a grid), or lower their numbers of states"
    )
