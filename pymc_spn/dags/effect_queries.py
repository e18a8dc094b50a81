"""What an order posterior answers about interventions: linear effects, and laws of one variable when another is set."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.labelled_answers import Given, Seed, count
from pymc_spn.numerics.quoted_values import quoted

if TYPE_CHECKING:
    import xarray as xr


class EffectQueries:
    """Queries of `OrderSPN` about interventions: linear ones of BGe scores, laws of levels of BDeu scores."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    # ---- linear effects

    def causal_effects(self, given: Given | None = None, max_gigabytes: float = 8.0) -> "xr.DataArray":
        """Exact posterior mean of every total causal effect.

        The change of the effect's mean, in its units, when the cause is set one unit higher. Needs BGe scores.

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        max_gigabytes : float
            Refused if the mean coefficients of all parent sets would need more memory.

        Returns
        -------
        DataArray
            (cause, effect) float64, in units of the effect per unit of the cause; one on the diagonal.

        Raises
        ------
        ValueError
            If the scores are not BGe, or more memory would be needed; as for `edge_probabilities`.
        """
        from pymc_spn.dags.causal_effects import mean_effects

        asked = self._given(given)
        coords = {"cause": self.names, "effect": self.names}
        return asked._asked("causal_effect", mean_effects(asked, max_gigabytes), coords)

    def sample_effects(self, draws: int, given: Given | None = None, random_seed: Seed = None) -> "xr.DataArray":
        """Posterior draws of all total causal effects: graph, then coefficients given it.

        Parameters
        ----------
        draws : int
            At least 1.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        random_seed : int, Generator or None
            The same seed gives the same draws.

        Returns
        -------
        DataArray
            (draw, cause, effect) float64, in units of the effect per unit of the cause; one on the diagonal, and zero
            where no path leads from the cause to the effect.

        Raises
        ------
        ValueError
            If the scores are not BGe.
        """
        from pymc_spn.dags.causal_effects import draw_effects

        asked = self._given(given)
        rng = np.random.default_rng(random_seed)
        values = draw_effects(asked, count("draws", draws, bytes_each=9.0 * self.scores.d**2), rng)
        coords = {"draw": range(len(values)), "cause": self.names, "effect": self.names}
        return asked._answer("causal_effect", values, coords, "exact simulation")

    # ---- levels

    def probabilities_when_set(
        self,
        effect: str,
        cause: str,
        versus: Any = None,
        draws: int = 1_000,
        given: Given | None = None,
        random_seed: Seed = None,
    ) -> "xr.DataArray":
        """Posterior mean of P(effect | do(cause)): the law of one variable when another is set. Needs BDeu scores.

        An average over drawn graphs, in each of which the conditional probabilities are integrated out exactly.

        Parameters
        ----------
        effect, cause : str
        versus : level of the cause, optional
            Give differences from the law when the cause is set to this level: risk differences.
        draws, given, random_seed
            As in `sample`.

        Returns
        -------
        DataArray
            (set_to, level) float64: levels of the cause by levels of the effect, with ``mcse`` of the same shape.

        Raises
        ------
        ValueError
            If the scores are not BDeu, the two are one variable, or `versus` is no level of the cause; as in `sample`.
        """
        from pymc_spn.dags.level_effects import laws_when_set

        asked, rng = self._given(given), np.random.default_rng(random_seed)
        counts, (x, y), base, coords = self._setting(cause, effect, versus)

        def laws(post: Any, n: int) -> np.ndarray:
            drawn = laws_when_set(post.sample(n, None, rng).values, counts, x, y, None)
            return drawn if base is None else drawn - drawn[:, base, None]

        drawn = laws(asked, count("draws", draws, 2))
        mean = drawn.mean(axis=0)
        mcse = asked._errors(mean, lambda post: laws(post, asked._n_of_part(draws)).mean(axis=0)) or {
            "mcse": drawn.std(axis=0, ddof=1) / np.sqrt(draws)
        }
        marks = {"cause": self.names[x], "effect": self.names[y]}
        return asked._answer("probability_when_set", mean, coords, "monte-carlo", **mcse, **marks)

    def sample_when_set(
        self,
        effect: str,
        cause: str,
        draws: int,
        versus: Any = None,
        given: Given | None = None,
        random_seed: Seed = None,
    ) -> "xr.DataArray":
        """Posterior draws of P(effect | do(cause)): graph, then conditional probabilities given it.

        Parameters
        ----------
        effect, cause, versus
            As in `probabilities_when_set`.
        draws, given, random_seed
            As in `sample`.

        Returns
        -------
        DataArray
            (draw, set_to, level) float64.

        Raises
        ------
        ValueError
            As `probabilities_when_set`.
        """
        from pymc_spn.dags.level_effects import laws_when_set

        asked, rng = self._given(given), np.random.default_rng(random_seed)
        counts, (x, y), base, coords = self._setting(cause, effect, versus)
        drawn = laws_when_set(asked.sample(draws, None, rng).values, counts, x, y, rng)
        if base is not None:
            drawn = drawn - drawn[:, base, None]
        marks = {"cause": self.names[x], "effect": self.names[y]}
        dims = {"draw": range(len(drawn)), **coords}
        return asked._answer("probability_when_set", drawn, dims, "exact simulation", **marks)

    def _setting(self, cause: str, effect: str, versus: Any) -> tuple[Any, tuple[int, int], int | None, dict[str, Any]]:
        """Counts, numbers of cause and effect, number of the level to compare with, and labels of an answer."""
        counts = self.scores.counts
        if counts is None:
            raise ValueError(f"laws under interventions need BDeu scores, these are {self.scores.score!r}")
        x, y = self.scores.position(cause), self.scores.position(effect)
        if x == y:
            raise ValueError(f"effect must be another variable than the cause, got {effect!r} twice")
        levels = list(counts.levels[x])
        if versus is not None and versus not in levels:
            raise ValueError(f"versus must be a level of {cause!r}, {quoted(levels)}; got {quoted(versus)}")
        base = None if versus is None else levels.index(versus)
        return counts, (x, y), base, {"set_to": levels, "level": list(counts.levels[y])}
