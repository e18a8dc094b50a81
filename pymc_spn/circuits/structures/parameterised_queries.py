"""What a circuit that holds its parameters answers: they are checked and prepared once, not with every question."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pymc_spn.answers.no_interventions import do
from pymc_spn.circuits.structures.circuit_queries import sample_rows
from pymc_spn.tables.inputs import EventLike, TableLike

if TYPE_CHECKING:
    from pymc_spn.circuits.evaluation.completion import Parameterised, RowMoments
    from pymc_spn.maxima.most_probable import MostProbable


class ParameterisedQueries:
    """The questions of `CircuitQueries` without parameters as arguments; what those say about them holds here.

    The first question prepares what all need, which is kept with the object.
    """

    circuit: Any
    log_weights: np.ndarray
    leaf_parameters: dict[str, np.ndarray]
    do = do

    @property
    def _given(self) -> "Parameterised":
        """Circuit and parameters in the forms that the answers need; made anew if an array was exchanged."""
        held = self.log_weights, *self.leaf_parameters.values()
        kept = self.__dict__.get("_prepared")
        if kept is None or len(kept[0]) != len(held) or any(a is not b for a, b in zip(kept[0], held, strict=True)):
            from pymc_spn.circuits.evaluation.completion import Parameterised

            kept = held, Parameterised(self.circuit, self.log_weights, self.leaf_parameters)
            self.__dict__["_prepared"] = kept
        return kept[1]

    def log_density(self, values: TableLike, dtype: npt.DTypeLike = np.float64) -> np.ndarray:
        """Log density of rows, with missing cells summed out; see `Circuit.log_density`.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        dtype : {float64, float32}

        Returns
        -------
        (n_rows,) float64
            In nats; ``-inf`` where the density is 0.

        Raises
        ------
        ValueError, TypeError
            If values do not fit the columns, or parameters contradict `leaf_support` at one of them.
        """
        return self._given.log_density(values, dtype)

    def sample(
        self,
        n: int,
        given: EventLike | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Independent rows from the circuit, also given an event; see `Circuit.sample`.

        Parameters
        ----------
        n : int
            Number of rows, at least 0.
        given : mapping, sequence of mappings or str, optional
        random_seed : int or Generator, optional

        Returns
        -------
        (n, D) float64
            Coded values.

        Raises
        ------
        ValueError, TypeError
            If n is no integer of at least 0, or `given` is no event or has probability zero.
        """
        return sample_rows(self._given, n, random_seed, given)

    def complete(self, values: TableLike, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Rows whose missing cells are drawn given the observed ones; see `Circuit.complete`.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        random_seed : int or Generator, optional

        Returns
        -------
        (n_rows, D) float64

        Raises
        ------
        ValueError, TypeError
            As `log_density`, and if the observed cells of a row have density 0.
        """
        from pymc_spn.circuits.evaluation.completion import complete

        given = self._given
        return complete(given, given.values(values), np.random.default_rng(random_seed))

    def moments(self, values: TableLike, covariance: bool = True) -> "RowMoments":
        """Means and covariances of each row's missing cells given its observed ones; see `Circuit.moments`.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
        covariance : bool
            False leaves the covariances out.

        Returns
        -------
        RowMoments
            ``mean`` (n_rows, D) and ``covariance`` (n_rows, D, D), or empty.

        Raises
        ------
        ValueError, TypeError
            As `complete`.
        """
        from pymc_spn.circuits.evaluation.completion import moments

        given = self._given
        return moments(given, given.values(values), covariance)

    def probability(
        self,
        event: EventLike,
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Probability of an event, or its density in the columns that are at a point; see `Circuit.probability`.

        Parameters
        ----------
        event : mapping, sequence of mappings or str
        given : mapping, sequence of mappings or str, optional
            What is known.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given

        Raises
        ------
        ValueError, TypeError
            If event or given is none, or given has density zero.
        """
        return np.exp(self.log_probability(event, given))

    def log_probability(
        self,
        event: EventLike,
        given: EventLike | None = None,
    ) -> "float | np.ndarray":
        """Log of `probability`, in nats; it does not underflow.

        Parameters
        ----------
        event, given
            As for `probability`.

        Returns
        -------
        float, or (n_rows,) float64 where some array is given
            ``-inf`` where the event is impossible.

        Raises
        ------
        ValueError, TypeError
            As `probability`.
        """
        from pymc_spn.circuits.laws.circuit_events import log_probability

        return log_probability(self._given, event, given)

    def mpe(
        self, values: TableLike, search: bool = True, tolerance: float = 1e-6, max_boxes: int | None = None
    ) -> "MostProbable":
        """Most probable completion of each row, certified where the search finishes; see `Circuit.mpe`.

        Parameters
        ----------
        values : (n_rows, D) float64, or DataFrame
            NaN cells are completed.
        search : bool
            False stops at the first answer.
        tolerance : float
            Gap in nats at which a row is certified.
        max_boxes : int, optional
            Most boxes of the search for each row.

        Returns
        -------
        MostProbable
            Of arrays over rows, ``value`` (n_rows, D) in codes.

        Raises
        ------
        ValueError, TypeError
            As `complete`, or if `tolerance` is not positive and finite or `max_boxes` below 1.
        """
        from pymc_spn.circuits.laws.most_probable_rows import most_probable_rows

        return most_probable_rows(self._given, values, search, tolerance, max_boxes)
