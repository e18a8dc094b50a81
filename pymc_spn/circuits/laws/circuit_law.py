"""An explicit circuit with its parameters as a tractable law, given what is known of a row."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised, complete, moments
from pymc_spn.circuits.evaluation.wide_leaves import family_of_leaf
from pymc_spn.circuits.laws.circuit_columns import CircuitColumn
from pymc_spn.circuits.laws.circuit_events import (
    ColumnEvent,
    ColumnEvents,
    as_column_event,
    densities_of,
    log_mass,
    masses_of,
)
from pymc_spn.circuits.laws.circuit_events import intersect as intersect_columns
from pymc_spn.circuits.laws.circuit_parts import Part, part_of
from pymc_spn.circuits.laws.circuit_rows import ExplicitLeavesInRows
from pymc_spn.circuits.laws.event_draws import draw_within
from pymc_spn.circuits.laws.most_probable_rows import best_trees_of, levels_of
from pymc_spn.events.events import Event, Events, describe, intersect, points_of, spread_of
from pymc_spn.laws.column_of_rows import ColumnOfRows
from pymc_spn.laws.law import BestTrees, Completed, Integral, Law, Marks
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.leaves.scipy_leaves import SCIPY
from pymc_spn.maxima.row_boxes import RowBox
from pymc_spn.tables import Column

QUADRATURE = 1e-10  # relative error of moments of leaves within intervals


class CircuitLaw(Law):
    """One circuit.

    Parameters
    ----------
    whole : Parameterised
    columns : tuple of Column
        Of the whole circuit.
    marks : Marks
    kept : sequence of int, optional
        Columns of the circuit that are those of the law, by default all.
    evidence : dict, optional
        Points and events that are known, by column of the circuit.
    grid : dict, optional
        Width and a point of the grid on which a table records a column, by its name.
    """

    is_weighted = False
    takes_likelihoods = True

    def __init__(
        self,
        whole: Parameterised,
        columns: tuple[Column, ...],
        marks: Marks,
        kept: Sequence[int] | None = None,
        evidence: Events | None = None,
        grid: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.whole, self.schema, self.marks, self.grid = whole, columns, marks, grid or {}
        self.kept = tuple(range(len(columns))) if kept is None else tuple(kept)
        self.evidence = evidence or {}
        self.columns = tuple(columns[d] for d in self.kept)
        self.is_density = ~masses_of(whole.circuit)[list(self.kept)]
        own = [self.grid.get(column.name, (0.0, 0.0)) for column in self.columns]
        self.resolution, self.grid_points = np.array(own, np.float64).reshape(-1, 2).T
        self._columns: dict[int, CircuitColumn] = {}

    @property
    def has_density(self) -> np.ndarray:
        """See `Law`: leaves of one column may be of both kinds."""
        return densities_of(self.whole.circuit)[list(self.kept)]

    def __getstate__(self) -> dict[str, Any]:
        """What the law is made of, without what answers prepared."""
        return {
            "whole": self.whole,
            "columns": self.schema,
            "marks": self.marks,
            "kept": self.kept,
            "evidence": self.evidence,
            "grid": self.grid,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)

    def _changed(self) -> Self:
        """A copy that shares what is prepared."""
        law = object.__new__(type(self))
        law.__dict__.update(self.__dict__)
        return law

    def marked(self, marks: Marks) -> Self:
        """The law with other marks."""
        law = self._changed()
        law.marks = marks
        return law

    def reduced(self) -> "CircuitLaw":
        """The same law of a smaller circuit: without columns at a value, and those that are summed out and free."""
        spread = spread_of(self.evidence)
        held = sorted({*self.kept, *spread})
        if len(held) == len(self.schema):
            return self
        base, number = self._with(held, {**points_of(self.evidence)}), {d: k for k, d in enumerate(held)}
        kept, known = [number[d] for d in self.kept], {number[d]: event for d, event in spread.items()}
        return CircuitLaw(base.inner, base.columns, self.marks, kept, known, self.grid)

    @property
    def is_given(self) -> bool:
        """Whether something excludes values of the columns."""
        return any(self.known(d) is not None for d in range(len(self.columns)))

    def _with(self, kept: Sequence[int], evidence: Events) -> "CircuitLaw":
        return CircuitLaw(self.whole, self.schema, self.marks, kept, evidence, self.grid)

    @cached_property
    def part(self) -> Part:
        """The law as a circuit of its own."""
        whole = self.whole
        if not self.evidence and len(self.kept) == len(self.schema):
            return Part(whole.circuit, whole.log_weights, whole.parameters)
        return part_of(whole, _column_events(self.evidence), list(self.kept))

    @cached_property
    def inner(self) -> Parameterised:
        """`part` in the forms that passes need."""
        return self.whole if self.part.circuit is self.whole.circuit else Parameterised(*self.part)

    @cached_property
    def log_weights(self) -> np.ndarray:
        """See `Law`."""
        return log_mass(self.whole, _column_events(self.evidence)) if self.evidence else np.zeros(1)

    def known(self, d: int) -> Event | None:
        """See `Law`."""
        return spread_of(self.evidence).get(self.kept[d])

    def in_words(self) -> str:
        """See `Law`."""
        return ", ".join(f"{self.schema[d].name!r} {describe(self.schema[d], e)}" for d, e in self.evidence.items())

    def is_same(self, other: Law) -> bool:
        """See `Law`."""
        return isinstance(other, CircuitLaw) and other.whole is self.whole

    # ---- new laws

    def given(self, event: Events) -> "CircuitLaw":
        """See `Law`."""
        known, clash = intersect(self.evidence, self._of_circuit(event))
        law = self if clash is not None else self._with([d for d in self.kept if d not in points_of(known)], known)
        if clash is not None or law.log_weights[0] == -np.inf:
            self.refuse("given", event)
        return law

    def of(self, columns: Sequence[int]) -> "CircuitLaw":
        """See `Law`."""
        return self._with([self.kept[d] for d in columns], self.evidence)

    def fewer(self, n: int) -> "CircuitLaw":
        """See `Law`."""
        return self

    def mixed(self, parts: "Sequence[Law]") -> "CircuitLaw":
        """See `Law`: one circuit, a sum over those of the parts."""
        from pymc_spn.circuits.laws.circuit_unions import CircuitUnion

        return CircuitUnion([part for part in parts if isinstance(part, CircuitLaw)])

    @cached_property
    def is_wide(self) -> bool:
        """Whether some leaves are over several columns.

        They have a law given values and of any cells that are missing, and seldom one within an interval or over some
        of their columns. Such a circuit is asked for whole rows.
        """
        return bool(self.whole.circuit.further_columns)

    def _whole_rows(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, D) of the whole circuit, with the values that are known."""
        out = np.full((len(rows), len(self.schema)), np.nan)
        out[:, list(self.kept)] = rows
        for d, value in points_of(self.evidence).items():
            out[:, d] = value
        return out

    def _of_circuit(self, event: Events) -> Events:
        return {self.kept[d]: e for d, e in event.items()}

    # ---- densities and probabilities

    def log_density(self, rows: np.ndarray, cells: bool = False) -> np.ndarray:
        """See `Law`."""
        if not self.is_wide:
            return self.inner.log_density(rows)[None]
        whole = self._whole_rows(rows)
        spread = _column_events(spread_of(self.evidence))
        if not spread:
            return (self.whole.log_density(whole) - self.log_weights)[None]
        at_values = {
            d: ColumnEvent(whole[:, d], None) for d in range(len(self.schema)) if not np.isnan(whole[:, d]).all()
        }
        return (log_mass(self.whole, intersect_columns(spread, at_values), len(whole)) - self.log_weights)[None]

    def log_event(self, event: Events) -> np.ndarray:
        """See `Law`."""
        if not event:
            return np.zeros(1)
        both, clash = intersect(self.evidence, self._of_circuit(event))
        return (
            np.full(1, -np.inf) if clash is not None else log_mass(self.whole, _column_events(both)) - self.log_weights
        )

    def event_tolerance(self, event: Events) -> float:
        """See `Law`: of boxes over several columns of one leaf as its family says."""
        asked = set(spread_of(intersect(self.evidence, self._of_circuit(event))[0]))
        circuit = self.whole.circuit
        together = [v for v in circuit.further_columns if len(asked & set(circuit.columns_of(v))) > 1]
        return max((family_of_leaf(self.whole, v)[0].box_tolerance for v in together), default=0.0)

    # ---- columns

    def column(self, d: int) -> CircuitColumn:
        """See `Law`."""
        if d not in self._columns:
            if self.is_wide:
                part = part_of(self.whole, _column_events(self.evidence), [self.kept[d]])
            else:
                part = self.part if len(self.kept) == 1 else part_of(self.inner, {}, [d])
            self._columns[d] = CircuitColumn(part)
        return self._columns[d]

    def column_of_rows(self, d: int, rows: np.ndarray) -> ColumnOfRows:
        """See `Law`."""
        if self.is_wide and not spread_of(self.evidence):
            return ColumnOfRows([ExplicitLeavesInRows(self.whole, self.kept[d], self._whole_rows(rows))])
        return ColumnOfRows([ExplicitLeavesInRows(self.inner, d, rows)])

    def moments(self, columns: Sequence[int], covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """See `Law`."""
        own, row = list(columns), np.full((1, len(self.kept)), np.nan)
        if self.is_wide and not spread_of(self.evidence):
            found, own = moments(self.whole, self._whole_rows(row), covariance), [self.kept[d] for d in own]
        else:
            found = moments(self.inner, row, covariance)
        return found.mean[:, own], found.covariance[:, own][:, :, own] if covariance else np.zeros((1, 0, 0))

    def moment_tolerance(self, columns: Sequence[int]) -> float:
        """See `Law`: of leaves within intervals they are by quadrature."""
        is_whole = self.is_wide and not spread_of(self.evidence)
        circuit, places = (self.whole.circuit, self.kept) if is_whole else (self.part.circuit, range(len(self.kept)))
        own = [circuit.leaf_column[circuit.leaves_of(f)] for f in circuit.families if f in SCIPY]
        return QUADRATURE if any(np.isin([places[d] for d in columns], found).any() for found in own) else 0.0

    # ---- integrals

    def entropy_of_column(self, d: int) -> Integral:
        """See `Law`."""
        return self.column(d).entropy()

    def divergence_of_column(self, d: int, other: Law, e: int) -> tuple[Integral, np.ndarray]:
        """See `Law`."""
        return self.column(d).divergence(other.column(e)), np.zeros(other.n_circuits)

    # ---- rows

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """See `Law`."""
        if not self.evidence:
            return complete(self.inner, np.full((n, len(self.kept)), np.nan), rng)
        return draw_within(self.whole, n, _column_events(self.evidence), rng)[:, list(self.kept)]

    def complete(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Completed:
        """See `Law`."""
        values = np.tile(rows, (n, 1, 1))
        impossible = np.isneginf(self.log_density(rows)[0])
        some = ~impossible
        flat = values[:, some].reshape(-1, rows.shape[1])
        if self.is_wide and not spread_of(self.evidence):
            filled = complete(self.whole, self._whole_rows(flat), rng)[:, list(self.kept)]
        else:
            filled = complete(self.inner, flat, rng)
        values[:, some] = filled.reshape(n, int(some.sum()), rows.shape[1])
        return Completed(values, impossible, 1.0)

    # ---- the densest row

    @property
    def n_levels(self) -> np.ndarray:
        """See `Law`."""
        return levels_of(self.whole)[list(self.kept)]

    @property
    def grows_at_zero(self) -> np.ndarray:
        """See `Law`: columns with log-Student t leaves."""
        circuit, out = self.whole.circuit, np.zeros(len(self.schema), np.bool_)
        for name in circuit.families:
            if name in EXPLICIT and EXPLICIT[name].grows_at_zero:
                out[circuit.leaf_column[circuit.leaves_of(name)]] = True
        return out[list(self.kept)]

    @cached_property
    def _searched(self) -> "CircuitLaw":
        """The law over the columns of a search and those at points, given what is summed out and likelihoods alone.

        Where nothing is, points stay in the rows, and no new circuit is made. Intervals of asked columns do not change
        which of their rows is the densest, but leaves within them have no kernels.
        """
        known = spread_of(self.evidence).items()
        summed_out = {d: e for d, e in known if d not in self.kept or isinstance(e, Likelihood)}
        if summed_out:
            return self._with(self.kept, summed_out | points_of(self.evidence))
        return self._with(sorted({*self.kept, *points_of(self.evidence)}), {})

    @cached_property
    def _log_known(self) -> float:
        """Log density of the points that stay in the rows of `_searched`, and probability of the intervals."""
        base, row = self._searched, self._searched_rows(np.full((1, len(self.kept)), np.nan))
        if any(d in base.kept and d not in base.evidence for d in spread_of(self.evidence)):
            return float(self.log_weights[0] - base.log_weights[0])
        return 0.0 if np.isnan(row).all() else float(base.inner.log_density(row)[0])

    def _searched_rows(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the columns of `_searched`."""
        base, points = self._searched, points_of(self.evidence)
        out = np.array([[points.get(d, np.nan) if d not in base.evidence else np.nan for d in base.kept]])
        out = np.repeat(out, len(rows), axis=0)
        out[:, [base.kept.index(d) for d in self.kept]] = rows
        return out

    def best_trees(self, box: RowBox) -> BestTrees:
        """See `Law`."""
        base = self._searched
        row = self._searched_rows(np.full((1, len(self.kept)), np.nan))[0]
        within = [box.of_column(self.kept.index(d)) if d in self.kept else None for d in base.kept]
        found, own = best_trees_of(base.inner, row, within), [base.kept.index(d) for d in self.kept]
        return BestTrees(found.rows[:, own], [found.places[d] for d in own], found.upper_bound - self._log_known)

    def log_of_completions(self, rows: np.ndarray) -> np.ndarray:
        """See `Law`."""
        return self._searched.inner.log_density(self._searched_rows(rows)) - self._log_known

    # ---- refusals

    def refuse(self, where: str, event: Events) -> NoReturn:
        """See `Law`."""
        new = self._of_circuit(event)
        clash = intersect(self.evidence, new)[1]
        if clash is not None:
            raise ValueError(
                f"{where}: column {self.schema[clash].name!r} cannot be {describe(self.schema[clash], new[clash])}: "
                f"the circuit is conditioned on it being {describe(self.schema[clash], self.evidence[clash])}"
            )
        super().refuse(where, event)


def _column_events(events: Events) -> ColumnEvents:
    return {d: as_column_event(event) for d, event in events.items()}


def labelled_columns(given: Parameterised) -> tuple[Column, ...]:
    """Schema of the columns; of one that is a name only by its leaves, levels being the codes."""
    columns = given.circuit.columns
    return tuple(c if isinstance(c, Column) else _by_leaves(given, d, c) for d, c in enumerate(columns))


def _by_leaves(given: Parameterised, d: int, name: str) -> Column:
    circuit = given.circuit
    own = circuit.leaf_family[circuit.leaves[circuit.leaf_column[circuit.leaves] == d]]
    families = {circuit.families[f] for f in np.unique(own)} & set(EXPLICIT)
    n_levels = [given.parameters["categorical"].shape[1]] if "categorical" in families else []
    for node in circuit.further_columns:
        if d in circuit.columns_of(node):
            family, of_leaf = family_of_leaf(given, node)
            nothing = np.full((1, family.n_columns), np.nan)
            law, of_column = family.column_of_rows(of_leaf, nothing, circuit.columns_of(node).index(d))
            families.add(law.name)
            n_levels += [of_column.shape[1]] if law.name == "categorical" else []
    if families == {"bernoulli"}:
        return Column(name, "binary", (0, 1), "int64")
    if families <= {"bernoulli", "categorical"}:
        return Column(name, "categorical", tuple(range(max(2, *n_levels))), "int64")
    return Column(name, "real", None, "float64")
