"""Questions to a circuit with its parameters whose answer is a circuit, or a labelled number with its exactness."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name
from pymc_spn.tables.inputs import EventLike

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.circuits.structures.parameterised import CircuitLike, ParameterisedCircuit
    from pymc_spn.laws.circuit_information import Answer, Law

type Given = EventLike | None
SIMULATED = 10_000


class CircuitAnswers:
    """Marginal and conditioned circuits, distribution functions, entropy, mutual information and divergence.

    What is known (``given=``) has the forms of `CircuitQueries.probability`, without arrays: values, intervals, sets,
    lists of intervals, likelihoods, a sequence of such events of which one holds, or text. The attribute ``exactness``
    of an answer is "exact", "numerical", "bound" or "monte-carlo". Of the second and third ``tolerance`` is measured:
    what halving all panels changes, and an allowance for mass beyond them and between neighbouring numbers. Of the last
    ``mcse`` is its standard error; of an entropy ``left_out`` counts rows that rounding has moved to an end, where the
    density is zero.
    """

    circuit: Any

    def marginal(self, columns: str | Sequence[str]) -> "ParameterisedCircuit":
        """The law of some columns as a circuit of its own; the others are summed out, and their nodes left out.

        Parameters
        ----------
        columns : str or list of str
            The answer has them in the order of the circuit.

        Returns
        -------
        ParameterisedCircuit
            Exact. Sums and products that one child is left of are that child.

        Raises
        ------
        TypeError, ValueError
            If columns are no names, there is none, or one is unknown.
        """
        return self._part(None, self._names("columns", columns))

    def condition(self, given: Given) -> "ParameterisedCircuit":
        """The law given an event as a circuit of its own; columns at a value leave it.

        Weights are multiplied by the probabilities of the event below their edges, and a leaf is its own law within the
        column's event: levels keep their family, uniform leaves too, others become distributions of SciPy
        (`CircuitQueries` says what these answer), of a list of intervals a sum of them. Given a union the answer is
        a mixture over events that exclude each other.

        Parameters
        ----------
        given : mapping, sequence of mappings or str
            See `CircuitAnswers`.

        Returns
        -------
        ParameterisedCircuit
            Exact; means and variances of leaves within intervals are by quadrature, to ten digits.

        Raises
        ------
        TypeError, ValueError
            As `CircuitQueries.probability`, for arrays of values, if the event has density zero or no column is left.
        """
        if given is None:
            raise TypeError("given must map column names to a value, (low, high) or a set, or be text, got None")
        return self._part(given, None)

    def cdf(self, x: npt.ArrayLike, column: str, given: Given = None) -> "xr.DataArray":
        """P(column <= x given what is known) at one or several values, of a column of numbers; binary ones count.

        Parameters
        ----------
        x : float or sequence of float
        column : str
        given : mapping, sequence of mappings or str, optional

        Returns
        -------
        DataArray
            Over ``x``; exact.

        Raises
        ------
        TypeError, ValueError
            If the column is unknown, has levels without an order or is given at a value, or x are no numbers.
        """
        from pymc_spn.numerics.asked_numbers import checked_points

        points = checked_points(x)
        law, origin = self._column(column, given)
        found = law.cdf(points.ravel() - origin).reshape(points.shape)
        return self._marked("cdf", found, {"x": points} if points.ndim else {}, exactness="exact")

    def quantile(self, q: npt.ArrayLike, column: str, given: Given = None) -> "xr.DataArray":
        """Quantiles of a column of numbers given what is known: the smallest x with P(column <= x) >= q.

        Parameters
        ----------
        q : float or sequence of float
            Between 0 and 1. At 1 it is where the distribution function is 1 to rounding.
        column : str
        given : mapping, sequence of mappings or str, optional

        Returns
        -------
        DataArray
            Over ``quantile``; by brackets to the last digit of the distribution function, exact for counts.

        Raises
        ------
        TypeError, ValueError
            As `cdf`, and if q is not within 0 and 1.
        """
        from pymc_spn.numerics.asked_numbers import checked_levels

        levels, (law, origin) = checked_levels(q), self._column(column, given)
        found = law.quantile(levels.ravel()).reshape(levels.shape) + origin
        mark = {"exactness": "numerical", "tolerance": 0.0} if law.is_density else {"exactness": "exact"}
        return self._marked("quantile", found, {"quantile": levels} if levels.ndim else {}, **mark)

    def entropy(
        self,
        columns: str | Sequence[str] | None = None,
        given: Given = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Entropy in nats: of masses in discrete columns, differential in others.

        Parameters
        ----------
        columns : str or list of str, optional
            By default all that are not given at a value.
        given : mapping, sequence of mappings or str, optional
        method : {"auto", "enumeration", "quadrature", "bounds", "monte-carlo"}
            Enumeration where all columns have levels (up to 20,000 combinations), quadrature for one column, else
            bounds; Monte Carlo on request, with `n` simulated rows.
        n : int
        random_seed : int or Generator, optional

        Returns
        -------
        DataArray
            A scalar, or with bounds ("lower", "upper") along ``bound``. Where the children of every sum exclude each
            other (cutset networks, Chow-Liu trees, histograms) the bounds meet, and the answer is a scalar whatever the
            number of columns.

        Raises
        ------
        TypeError, ValueError
            If a column is unknown or given at a value, the method is unknown or not for these columns, n is no integer
            of at least 2, or a column of counts has more of them than are summed.

        Notes
        -----
        The bounds are those of Kolchinsky and Tracey (2017) for mixtures, passed through products, as for a posterior;
        the upper one is at most the sum of the single columns' entropies less mutual informations along a tree.
        """
        from pymc_spn.laws.circuit_information import entropy

        _check_n(n)
        found = entropy(self._law(columns, given), method, int(n), random_seed)
        return self._answer("entropy", found)

    def mutual_information(
        self,
        first: str | Sequence[str],
        second: str | Sequence[str],
        given: Given = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Mutual information in nats of two columns, or of two groups of columns.

        Parameters
        ----------
        first, second : str or list of str
            Without a common column. For events see `event_information`.
        given : mapping, sequence of mappings or str, optional
        method : {"auto", "enumeration", "quadrature", "monte-carlo"}
            Enumeration where all columns have levels, quadrature (or sums over counts) for two single columns, else
            Monte Carlo with `n` simulated rows.
        n : int
        random_seed : int or Generator, optional

        Returns
        -------
        DataArray
            A scalar.

        Raises
        ------
        TypeError, ValueError
            As `entropy`, and if a column is in both groups or one has none.
        """
        from pymc_spn.laws.circuit_information import mutual_information

        _check_n(n)
        groups = [self._names(argument, names) for argument, names in (("first", first), ("second", second))]
        for name in groups[0]:
            if name in groups[1]:
                raise ValueError(f"first and second must differ, both name {name!r}")
        law = self._law([*groups[0], *groups[1]], given)
        return self._answer("mutual_information", mutual_information(law, groups, method, int(n), random_seed))

    def event_information(self, first: EventLike, second: EventLike, given: Given = None) -> "xr.DataArray":
        """Mutual information in nats of whether one event and whether another one holds; exact.

        Parameters
        ----------
        first, second : mapping, sequence of mappings or str
            Events in the forms of `CircuitQueries.probability`, without points of densities.
        given : mapping, sequence of mappings or str, optional

        Returns
        -------
        DataArray
            A scalar, from four probabilities.

        Raises
        ------
        TypeError, ValueError
            As `CircuitQueries.probability`; if an event is a point of a density or soft evidence.
        """
        from pymc_spn.events.event_information import circuit_event_information

        law = self._given if given is None else self._law(None, given).given
        found = circuit_event_information(law, first, second)
        return self._marked("mutual_information", found, {}, exactness="exact")

    def dependence(self, given: Given = None) -> "xr.DataArray":
        """Mutual information in nats of every pair of columns.

        Parameters
        ----------
        given : mapping, sequence of mappings or str, optional

        Returns
        -------
        DataArray
            (column, other), NaN on the diagonal: a continuous column has infinite information about itself.

        Raises
        ------
        TypeError, ValueError
            As `entropy`, and with fewer than two columns that are not given at a value.
        """
        from pymc_spn.laws.circuit_information import dependence

        law = self._law(None, given)
        if len(law.names) < 2:
            raise ValueError("dependence needs at least two columns that are not known")
        found = dependence(law)
        names = list(law.names)
        return self._marked("mutual_information", found.value, {"column": names, "other": names}, **found.attrs)

    def kl(
        self,
        other: "CircuitLike",
        columns: str | Sequence[str] | None = None,
        method: str = "auto",
        n: int = SIMULATED,
        random_seed: int | np.random.Generator | None = None,
    ) -> "xr.DataArray":
        """Kullback-Leibler divergence in nats of another circuit from this one, KL(this || other).

        Parameters
        ----------
        other : ParameterisedCircuit or tuple of circuit, log_weights and leaf_parameters
            With the same columns, in any order, or at least those asked for.
        columns : str or list of str, optional
            By default all of this circuit.
        method : {"auto", "enumeration", "quadrature", "bounds", "monte-carlo"}
            As for `entropy`. The lower bound is the largest divergence of one column, the upper one goes by pairs of
            nodes that divide the columns alike, of two sets of parameters of one circuit also by the chain rule; where
            there are no such pairs it is infinite, and the default is Monte Carlo.
        n : int
        random_seed : int or Generator, optional

        Returns
        -------
        DataArray
            A scalar, or ("lower", "upper") along ``bound``; infinite where the other excludes what this does not.

        Raises
        ------
        TypeError, ValueError
            As `entropy`, and if the other is no circuit with parameters or lacks a column, or one has masses here and
            densities there.
        """
        from pymc_spn.circuits.evaluation.completion import Parameterised
        from pymc_spn.circuits.structures.parameterised import checked_operand
        from pymc_spn.events.circuit_events import masses_of
        from pymc_spn.laws.circuit_information import Law, kl
        from pymc_spn.laws.circuit_parts import conditioned

        _check_n(n)
        law = self._law(columns, None)
        theirs = Parameterised(*checked_operand("other", other))
        own, others = (
            {
                name: (column, bool(is_mass))
                for name, column, is_mass in zip(c.names, c.columns, masses_of(c), strict=True)
            }
            for c in (self.circuit, theirs.circuit)
        )
        for name in law.names:
            if name not in others:
                raise ValueError(f"other must have the column {name!r}; its columns are {quoted(list(others))}")
            (column, is_mass), (their_column, is_their_mass) = own[name], others[name]
            if is_mass != is_their_mass:
                raise ValueError(f"other must have masses in the column {name!r} where this circuit has, or densities")
            levels, their_levels = (getattr(c, "levels", None) for c in (column, their_column))
            if not isinstance(column, str) and not isinstance(their_column, str) and levels != their_levels:
                raise ValueError(
                    f"other must have the levels {levels} in the column {name!r}, in this order; got {their_levels}"
                )
        return self._answer("kl", kl(law, Law(conditioned(theirs, None, list(law.names))), method, int(n), random_seed))

    # ---- below the surface

    _given: Any  # of `ParameterisedQueries`

    @property
    def _marks(self) -> dict[str, Any]:
        """What the attributes of every answer say besides."""
        return {}

    def _made(self, part: Any) -> "ParameterisedCircuit":
        """A part as a circuit with its parameters."""
        from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit

        return ParameterisedCircuit(*part)

    def _marked(self, name: str, values: Any, coords: dict[str, Any], **attrs: Any) -> "xr.DataArray":
        import xarray as xr

        return xr.DataArray(values, coords, list(coords), name, self._marks | attrs)

    def _answer(self, name: str, found: "Answer") -> "xr.DataArray":
        coords: dict[str, Any] = {"bound": ["lower", "upper"]} if np.ndim(found.value) else {}
        return self._marked(name, found.value, coords, **found.attrs)

    def _names(self, argument: str, columns: Any) -> list[str]:
        from pymc_spn.answers.asked_law import names_of

        names = list(dict.fromkeys(names_of(argument, columns)))
        if not names:
            raise ValueError(f"{argument} must name at least one column, got none")
        for name in names:
            if name not in self.circuit.names:
                raise ValueError(
                    f"{argument} names column {name!r}; the columns are {quoted(list(self.circuit.names))}"
                )
        return names

    def _part(self, given: Given, columns: list[str] | None) -> "ParameterisedCircuit":
        from pymc_spn.laws.circuit_parts import conditioned

        return self._made(conditioned(self._given, given, columns))

    def _law(self, columns: Any, given: Given) -> "Law":
        from pymc_spn.laws.circuit_information import Law
        from pymc_spn.laws.circuit_parts import conditioned

        names = None if columns is None else self._names("columns", columns)
        return Law(conditioned(self._given, given, names))

    def _column(self, column: Any, given: Given) -> tuple[Any, float]:
        """Law of a column of numbers, by codes, and what these lack of the numbers."""
        if not isinstance(as_name(column), str):
            raise TypeError(f"column must be a name, got {quoted(column)}")
        (name,) = self._names("column", column)
        law = self._law(name, given).column(name)
        schema = self.circuit.columns[list(self.circuit.names).index(name)]
        if getattr(schema, "kind", "") == "ordinal":
            return law, schema.origin
        if any(leaves.family == "categorical" for leaves in law.leaves):
            raise ValueError(f"column {column!r} has levels without an order; ask for their probabilities")
        return law, 0.0


def _check_n(n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise ValueError(f"n must be an integer of at least 2, got {quoted(n)}")
