"""What questions about graphs and orders ask of the posterior that answers them."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from pymc_spn.dags.labelled_answers import Evidence, Given
from pymc_spn.dags.local_scores import LocalScores
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.records.posterior_of_draws import StoredPosterior

if TYPE_CHECKING:
    import xarray as xr

ASKING = "Asking the posterior over graphs"  # what its bar says


class OrderQueries(StoredPosterior):
    """Contract of `OrderSPN` and of averages over several."""

    scores: LocalScores
    evidence: Evidence
    kind: str  # of an `OrderSPN`

    @property
    def names(self) -> tuple[str, ...]:
        """The variables.

        Examples
        --------
        >>> dags.names
        ('age', 'income', 'debt')
        """
        return self.scores.names

    @contextmanager
    def _under(self, given: Given | None, progressbar: bool) -> Iterator[Self]:
        """The posterior under what is given, with a bar for what it is asked."""
        with counted(ASKING, progressbar):
            yield self._given(given)

    @property
    @abstractmethod
    def _log_total(self) -> float:
        """Log probability of the evidence on the support, up to a constant of the posterior."""

    @property
    @abstractmethod
    def _limits(self) -> dict[str, Any]:
        """What every answer says of the posterior that it belongs to."""

    @abstractmethod
    def _with(self, evidence: Evidence) -> Self:
        """The same posterior under other evidence."""

    @abstractmethod
    def _given(self, given: Given | None) -> Self:
        """The same posterior under more evidence, which must be possible."""

    @abstractmethod
    def _answer(
        self, name: str, values: Any, coords: Mapping[str, Sequence[Any]], exactness: str = "exact", **attrs: Any
    ) -> "xr.DataArray":
        """A labelled answer with its marks."""

    @abstractmethod
    def _asked(
        self, name: str, ask: Callable[[Any], Any], coords: Mapping[str, Sequence[Any]], **attrs: Any
    ) -> "xr.DataArray":
        """The answer to a question that an `OrderSPN` answers, with its standard errors where it has any."""

    @abstractmethod
    def _value(self, ask: Callable[[Any], Any]) -> Any:
        """The answer alone."""

    @abstractmethod
    def _errors(self, found: Any, ask: Callable[[Any], Any]) -> dict[str, Any]:
        """Standard errors of an answer that was found."""

    @abstractmethod
    def _ratio_errors(self, told: Self, value: float) -> dict[str, Any]:
        """As `_errors`, of the probability of what `told` knows beyond this."""

    def _log_weight(self, order: list[int]) -> float:
        """Log weight of one order with all its graphs, of an `OrderSPN`; -inf off the support."""
        raise NotImplementedError

    def _n_of_part(self, draws: int) -> int:
        """How many of so many draws each part has, of posteriors that have parts."""
        raise NotImplementedError

    def _scalar(self, name: str, value: float) -> "xr.DataArray":
        return self._answer(name, value, {})
