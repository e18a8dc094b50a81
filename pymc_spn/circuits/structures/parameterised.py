"""A circuit with its parameters: what mixtures, products and posteriors as circuits have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.answers.answers import Answers
from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.row_questions import log_density
from pymc_spn.circuits.evaluation.parameters import checked_parameters, checked_weights
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.coded_rows import codes_of_rows
from pymc_spn.laws.law import Law, Marks
from pymc_spn.numerics.html_repr import Facts, Listed
from pymc_spn.tables import Column, Table, row_labels
from pymc_spn.tables.inputs import EventLike, TableLike
from pymc_spn.tables.unseen_levels import known_codes, known_levels

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.circuits.evaluation.completion import Parameterised
    from pymc_spn.circuits.laws.circuit_law import CircuitLaw
    from pymc_spn.circuits.laws.joined_circuits import Part


@dataclass(frozen=True, eq=False, repr=False)
class ParameterisedCircuit(Answers):
    """Circuit with its parameters, made by `Circuit.with_parameters`.

    The parameters are checked once, when the object is made. It answers the questions of a posterior, with the same
    arguments and labels. Mixtures and products of circuits are such objects, and so are the results of
    `SPNPosterior.as_circuit`.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
        Log weight of each edge below a sum in the order of `Circuit.edge_sum`; weights of a sum add up to 1. Held as a
        read-only copy.
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
        Rows of each family in node order (`Circuit.leaves_of`), see the table of `Circuit`. Held as read-only copies.

    Raises
    ------
    TypeError
        If the first is not a circuit, or parameters are not numbers.
    ValueError
        If a shape is wrong, or weights or parameters are not valid.

    Notes
    -----
    If all columns are `Column` objects, rows are read as by a posterior. If a column is only a name, it holds numbers,
    levels as codes 0..K-1, in a DataFrame and in an array. The columns of an array are those of the circuit by
    position. In a Table they are its codes. NaN marks a missing cell, and a code without a level is refused. The log
    density of a row is exact to rounding: rows run in linear space, divided by their largest leaves, and again in logs
    where that would lose anything.

    Examples
    --------
    >>> law = low.circuit.with_parameters(low.log_weights, low.leaf_parameters)
    >>> law.probability({"x": (None, 0.0)}).item()
    0.5
    """

    circuit: Circuit
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        if not isinstance(self.circuit, Circuit):
            raise TypeError(f"circuit must be a Circuit, got {type(self.circuit).__name__}")
        self._hold(
            checked_weights(self.circuit, self.log_weights), checked_parameters(self.circuit, self.leaf_parameters)
        )

    def _hold(self, log_weights: np.ndarray, leaf_parameters: Mapping[str, np.ndarray]) -> None:
        """Keep copies that nobody can write into; what is given for families without leaves stays as it is."""
        own = dict(self.leaf_parameters) | {name: rows.copy() for name, rows in leaf_parameters.items()}
        object.__setattr__(self, "log_weights", log_weights.copy())
        object.__setattr__(self, "leaf_parameters", own)
        for held in (self.log_weights, *(own[name] for name in leaf_parameters)):
            held.flags.writeable = False

    @property
    def _given(self) -> "Parameterised":
        """Circuit and parameters in the forms that the answers need; made again if an array was exchanged."""
        held = self.log_weights, *self.leaf_parameters.values()
        kept = self.__dict__.get("_prepared")
        if kept is None or len(kept[0]) != len(held) or any(a is not b for a, b in zip(kept[0], held, strict=True)):
            from pymc_spn.circuits.evaluation.completion import Parameterised

            kept = held, Parameterised(self.circuit, self.log_weights, self.leaf_parameters)
            self.__dict__["_prepared"] = kept
        return kept[1]

    @property
    def _law(self) -> "CircuitLaw":  # type: ignore[override]  # made with the first question
        from pymc_spn.circuits.laws.circuit_law import CircuitLaw, labelled_columns

        whole, held = self._given, self.__dict__.get("_held_law")
        if held is None or held[0] is not whole:
            held = whole, CircuitLaw(whole, labelled_columns(whole), self._marks, grid=self._grid)
            self.__dict__["_held_law"] = held
        return held[1]

    def _know(self, law: "CircuitLaw") -> None:
        """Answer by the law of which circuit and parameters are those: it knows what excludes values."""
        if law.is_given:
            self.__dict__["_held_law"] = self._given, law.reduced().marked(self._marks)

    @property
    def _marks(self) -> Marks:
        """What answers say of where the circuit comes from."""
        return Marks()

    @property
    def _grid(self) -> Mapping[str, tuple[float, float]]:
        """Grids of the table that columns come from, as for `CircuitLaw`."""
        return {}

    def _of(self, law: Law) -> "Self | ParameterisedCircuit":  # what a fit knows is not kept
        if not law.columns:
            raise ValueError(f"given must leave a column, got values of all of them: {law.in_words()}")
        found = self._made(law.part)  # type: ignore[attr-defined]
        found._know(law)  # type: ignore[arg-type]
        return found

    def _made(self, part: "Part") -> "ParameterisedCircuit":
        """What holds a part of the circuit."""
        return ParameterisedCircuit(*part)

    def _table(self, rows: Any, unseen: str = "error", without: int | None = None) -> Table:
        """Rows of columns that are names only hold codes, which are checked as levels are."""
        if all(isinstance(column, Column) for column in self.circuit.columns):
            return super()._table(rows, unseen, without)
        columns = [column for d, column in enumerate(self.circuit.columns) if d != without]
        rows = known_levels(rows, [c for c in columns if isinstance(c, Column)], unseen)
        values, index = codes_of_rows(columns, rows, "df")
        schema = self._columns_but(without)
        return Table(schema, known_codes(values, schema, index, unseen), pd.Index(index))

    def log_density(
        self,
        df: TableLike,
        per_draw: bool = False,
        cells: bool = True,
        *,
        interval: float | None = None,
        unseen: str = "error",
    ) -> "xr.DataArray":
        """Calculate the log density of new rows, with missing cells summed out.

        See `SPNPosterior.log_density`.

        Parameters
        ----------
        df, per_draw, cells, interval, unseen
            As for a posterior; there is one draw, and so no interval.

        Returns
        -------
        DataArray
            (row,), in nats; ``-inf`` where the density is 0.

        Examples
        --------
        >>> law.log_density(pd.DataFrame({"x": [0.0], "y": [None]})).round(3).values
        array([-1.207])
        """
        return log_density(AskedLaw(self._law), self._table(df, unseen), per_draw, cells, interval=interval)

    def log_probability_of_rows(self, event: EventLike, given: EventLike | None = None) -> "xr.DataArray":
        """Calculate the log of `probability` for many rows in one pass.

        Each row has its own values and intervals.

        Parameters
        ----------
        event, given : mapping, sequence of mappings or str
            As for `probability`. An array of values, or an interval with arrays (n_rows,) as ends, asks for n_rows rows
            at once; missing values among them say nothing, as in a table. An array may also hold intervals and sets,
            as `pandas.cut` makes them; a DataFrame is a mapping of arrays.

        Returns
        -------
        DataArray
            (row,), in nats; ``-inf`` where the event is impossible.

        Raises
        ------
        TypeError, ValueError
            As `probability`; if no array is given, arrays differ in length, or `given` has density zero in a row.

        Examples
        --------
        >>> law.log_probability_of_rows({"x": np.array([0.0, 4.0]), "y": (None, 2.0)}).shape
        (2,)
        """
        from pymc_spn.circuits.laws.circuit_events import log_probability

        logs = log_probability(self._given, event, given)
        if isinstance(logs, float):
            raise ValueError("event or given must hold an array of values or ends; of one event ask log_probability")
        return self._labelled("log_probability", logs, {"row": np.arange(logs.size)}, **self._error(logs[None]))

    def moments(self, df: TableLike, covariance: bool = True) -> "xr.Dataset":
        """Calculate mean and covariance of each row's missing cells, given the others.

        They are exact.

        Binary columns count as 0 and 1, ordinal ones as their numbers. Categorical columns have no moments and hold
        NaN. So do columns whose leaves have none (a Student t of one degree of freedom).

        Parameters
        ----------
        df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
        covariance : bool
            False leaves the covariances out.

        Returns
        -------
        Dataset
            ``mean`` (row, column), which holds the value of observed cells, and ``covariance`` (row, column, other), 0
            for observed cells.

        Raises
        ------
        ValueError, TypeError
            As `log_density`, and if the observed cells of a row have density 0.

        Examples
        --------
        >>> moments = law.moments(pd.DataFrame({"x": [0.0], "y": [None]}))
        >>> sorted(moments)
        ['covariance', 'mean']
        """
        import xarray as xr

        from pymc_spn.circuits.evaluation.completion import moments

        table, names = self._table(df), [column.name for column in self._schema]
        found = moments(self._given, self._given.values(table.values), covariance)
        rows = {"row": row_labels(table.index), "column": names}
        answers = {"mean": self._labelled("mean", found.mean, rows)}
        if covariance:
            answers["covariance"] = self._labelled("covariance", found.covariance, rows | {"other": names})
        return xr.Dataset(answers, attrs=self._attrs())

    def __getstate__(self) -> dict[str, Any]:
        """Without what the first question prepared, but with what is known."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        held = self.__dict__.get("_held_law")
        if held is not None and held[1].is_given and held[0] is self._given:
            state["_known"] = held[1]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays that may be written come out of pickles and deep copies."""
        law = state.get("_known")
        self.__dict__.update({name: held for name, held in state.items() if name != "_known"})
        self._hold(self.log_weights, {name: np.asarray(rows) for name, rows in self.leaf_parameters.items()})
        if law is not None:
            self._know(law)

    def _facts(self) -> Facts:
        return Facts(type(self).__name__, {"circuit": repr(self.circuit)})

    def _listed(self) -> Listed:
        return self.circuit._listed()

    @property
    def parameters(self) -> dict[str, Any]:
        """`log_weights` and `leaf_parameters` by name: ``circuit.with_parameters(**this.parameters)``.

        Examples
        --------
        >>> law.circuit.with_parameters(**law.parameters).mean().values
        array([1., 1.])
        """
        return {"log_weights": self.log_weights, "leaf_parameters": self.leaf_parameters}


type CircuitLike = ParameterisedCircuit | tuple[Circuit, npt.ArrayLike, Mapping[str, npt.ArrayLike]]
"""A circuit that holds its parameters, or circuit, log weights and leaf parameters."""


def operand(argument: str, given: Any) -> tuple[Circuit, Any, Any]:
    """Circuit, log weights and leaf parameters of what holds them.

    Parameters
    ----------
    argument : str
        What an error calls it.
    given : ParameterisedCircuit or tuple of circuit, log_weights and leaf_parameters

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(given, ParameterisedCircuit):
        return given.circuit, given.log_weights, given.leaf_parameters
    if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[0], Circuit):
        raise TypeError(
            f"{argument} must have a circuit, log_weights and leaf_parameters, or be a tuple of these; "
            f"got {type(given).__name__}"
        )
    return given


def checked_operand(argument: str, given: Any) -> tuple[Circuit, np.ndarray, dict[str, np.ndarray]]:
    """`operand` with checked copies of its parameters, an error beginning with the argument.

    Raises
    ------
    TypeError, ValueError
        As `operand`, and if parameters are not valid.
    """
    circuit, log_weights, leaf_parameters = operand(argument, given)
    try:
        parameters = {name: found.copy() for name, found in checked_parameters(circuit, leaf_parameters).items()}
        return circuit, checked_weights(circuit, log_weights).copy(), parameters
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {error}") from None
