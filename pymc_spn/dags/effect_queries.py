"""What an order posterior answers about interventions: linear effects, and one variable when another is set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags.labelled_answers import Given, Level, Seed, count
from pymc_spn.dags.sampled_queries import SampledQueries
from pymc_spn.dags.set_values import read_setting

if TYPE_CHECKING:
    import xarray as xr


class EffectQueries(SampledQueries):
    """Queries of `OrderSPN` about interventions: linear effects of BGe scores; else what follows from a setting."""

    # ---- linear effects

    def causal_effects(
        self, given: Given | None = None, max_gigabytes: float = 8.0, progressbar: bool = True
    ) -> "xr.DataArray":
        """Exact posterior mean of every total causal effect.

        The change of the effect's mean, in its units, when the cause is set one unit higher. Needs BGe scores.

        Parameters
        ----------
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        max_gigabytes : float
            Refused if the mean coefficients of all parent sets would need more memory.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (cause, effect) float64, in units of the effect per unit of the cause; one on the diagonal.

        Raises
        ------
        ValueError
            If the scores are not BGe, or more memory would be needed; as for `edge_probabilities`.

        Examples
        --------
        >>> effects = dags.causal_effects()
        >>> effects.dims
        ('cause', 'effect')
        """
        from pymc_spn.dags.causal_effects import mean_effects

        with self._under(given, progressbar) as asked:
            coords = {"cause": self.names, "effect": self.names}
            return asked._asked("causal_effect", mean_effects(asked, max_gigabytes), coords)

    def sample_effects(
        self, draws: int, given: Given | None = None, random_seed: Seed = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Posterior draws of all total causal effects: graph, then coefficients given it.

        Parameters
        ----------
        draws : int
            At least 1.
        given : mapping with keys "present" and "absent", optional
            As for `edge_probabilities`.
        random_seed : int, Generator or None
            The same seed gives the same draws.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (draw, cause, effect) float64, in units of the effect per unit of the cause. It is one on the diagonal, and
            zero where no path leads from the cause to the effect.

        Raises
        ------
        ValueError
            If the scores are not BGe.

        Examples
        --------
        >>> dags.sample_effects(5, random_seed=1).dims
        ('draw', 'cause', 'effect')
        """
        from pymc_spn.dags.causal_effects import draw_effects

        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            values = draw_effects(asked, count("draws", draws, bytes_each=9.0 * self.scores.d**2), rng)
            coords = {"draw": range(len(values)), "cause": self.names, "effect": self.names}
            return asked._answer("causal_effect", values, coords, "exact simulation")

    # ---- when a variable is set

    def probabilities_when_set(
        self,
        effect: str,
        cause: str,
        versus: Level | None = None,
        draws: int = 1_000,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Posterior mean of P(effect | do(cause)): probabilities of an effect with levels when another variable is set.

        Needs BDeu or `ConditionalGaussian` scores. An average over drawn graphs. In each of them the answer is exact:
        the conditional probabilities are integrated out.

        Parameters
        ----------
        effect, cause : str
            In a conditional Gaussian network a numeric cause changes no probability of levels.
        versus : level or number, optional
            Give differences from the probabilities when the cause is set to this value: risk differences.
        draws, given, random_seed, progressbar
            As in `sample`.
        at : sequence of float, optional
            Values that a numeric cause is set to. A cause with levels is set to each of them.

        Returns
        -------
        DataArray
            (set_to, level) float64: values of the cause by levels of the effect, with ``mcse`` of the same shape.

        Raises
        ------
        ValueError
            If the scores are others, the effect is numeric, or the two are one variable. If `versus` is not a level of
            the cause, or `at` does not fit the cause. As in `sample`.

        Examples
        --------
        >>> mixed = ps.DagPosterior.from_data(full[["job"]].assign(old=full["age"] > 45), ps.BDeu())
        >>> mixed.probabilities_when_set("job", "old", draws=50, random_seed=1).dims
        ('set_to', 'level')
        """
        return self._mean_when_set(
            "probability_when_set", effect, cause, versus, draws, given, random_seed, at, progressbar
        )

    def mean_when_set(
        self,
        effect: str,
        cause: str,
        versus: Level | None = None,
        draws: int = 1_000,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Posterior mean of E(effect | do(cause)): the mean of a numeric effect when another variable is set.

        Needs `ConditionalGaussian` scores. An average over drawn graphs. In each of them the answer is exact:
        probabilities, intercepts, coefficients and variances are integrated out.

        Parameters
        ----------
        effect, cause : str
        versus : level or number, optional
            Give differences from the mean when the cause is set to this value.
        draws, given, random_seed, progressbar
            As in `sample`.
        at : sequence of float, optional
            Values that a numeric cause is set to, in which the mean is linear. A cause with levels is set to each of
            them.

        Returns
        -------
        DataArray
            (set_to,) float64 in units of the effect, with ``mcse`` of the same shape.

        Raises
        ------
        ValueError
            If the scores are others, the effect has levels; as `probabilities_when_set`.

        Examples
        --------
        >>> import numpy as np, pandas as pd, pymc_spn as ps
        >>> rng = np.random.default_rng(0)
        >>> drug = rng.integers(2, size=300)
        >>> df = pd.DataFrame({"drug": pd.Categorical(drug), "pain": 5.0 - 2.0 * drug + rng.normal(size=300)})
        >>> post = ps.DagPosterior.from_data(df, ps.ConditionalGaussian())
        >>> post.mean_when_set("pain", "drug", versus=0, random_seed=1).values.round()
        array([ 0., -2.])
        """
        return self._mean_when_set("mean_when_set", effect, cause, versus, draws, given, random_seed, at, progressbar)

    def sample_when_set(
        self,
        effect: str,
        cause: str,
        draws: int,
        versus: Level | None = None,
        given: Given | None = None,
        random_seed: Seed = None,
        at: Sequence[float] | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Posterior draws of what `probabilities_when_set` or `mean_when_set` averages: graph, then its parameters.

        Parameters
        ----------
        effect, cause, versus, at
            As there.
        draws, given, random_seed, progressbar
            As in `sample`.

        Returns
        -------
        DataArray
            (draw, set_to, level) float64 where the effect has levels, else (draw, set_to) in its units.

        Raises
        ------
        ValueError
            As `probabilities_when_set`, but any effect will do.

        Examples
        --------
        >>> mixed = ps.DagPosterior.from_data(full, ps.ConditionalGaussian(), standardize=True)
        >>> mixed.sample_when_set("income", "job", draws=5, random_seed=1).dims
        ('draw', 'set_to')
        """
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            setting = read_setting(self.scores, effect, cause, versus, at)
            drawn = setting.answers(asked.sample(draws, None, rng).values, rng)
            dims = {"draw": range(len(drawn)), **setting.coords}
            return asked._answer(setting.name, drawn, dims, "exact simulation", **setting.marks)

    def _mean_when_set(
        self,
        name: str,
        effect: str,
        cause: str,
        versus: Level | None,
        draws: int,
        given: Given | None,
        random_seed: Seed,
        at: Sequence[float] | None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Average over graphs of what is exact in each."""
        with self._under(given, progressbar) as asked:
            rng = np.random.default_rng(random_seed)
            setting = read_setting(self.scores, effect, cause, versus, at, name)

            def of_graphs(post: Any, n: int) -> np.ndarray:
                return setting.answers(post.sample(n, None, rng).values, None)

            drawn = of_graphs(asked, count("draws", draws, 2))
            mean = drawn.mean(axis=0)
            mcse = asked._errors(mean, lambda post: of_graphs(post, asked._n_of_part(draws)).mean(axis=0)) or {
                "mcse": drawn.std(axis=0, ddof=1) / np.sqrt(draws)
            }
            return asked._answer(
                name, mean, setting.coords, "monte-carlo", given_graph="exact", **mcse, **setting.marks
            )
