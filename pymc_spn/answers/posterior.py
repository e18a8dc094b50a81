"""The posterior of a Bayesian sum-product network: one object, asked often."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.chain_answers import ChainAnswers
from pymc_spn.answers.column_answers import names_of
from pymc_spn.answers.moment_answers import MomentAnswers
from pymc_spn.answers.prediction_answers import PredictionAnswers
from pymc_spn.answers.simulated_answers import SimulatedAnswers
from pymc_spn.answers.stored_queries import read_query
from pymc_spn.events.event_text import as_events
from pymc_spn.events.events import (
    Events,
    both_or_none,
    events_to_json,
    points_of,
)
from pymc_spn.events.unions import both_unions, is_single_event, log_union
from pymc_spn.maxima.most_probable import ModeAnswers
from pymc_spn.networks.records.draw_averages import chain_error, log_average, relative_weights
from pymc_spn.networks.records.record import SAVED, read_record, write_record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.numerics.own_names import own_names
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import as_name
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.answers.posterior_circuit import PosteriorCircuit
    from pymc_spn.answers.union_posterior import UnionPosterior


@own_names
class SPNPosterior(SimulatedAnswers, PredictionAnswers, ModeAnswers, MomentAnswers, ChainAnswers):
    """Answers from the recorded draws of a sum-product network.

    Made by `from_idata`. Every draw is a tractable model, its weights and leaf parameters integrated out; an
    answer is that of the mixture over draws, or with ``per_draw=True`` one for each draw. Answers are
    labelled arrays: the attribute ``exactness`` is about the query given the draws, ``mcse_chain`` is the
    Monte Carlo standard error of the average over draws (or ``mcse_chain_note`` says why there is none),
    ``draws_after_weighting`` the number of draws that still count under a condition (no effective sample size of the
    chains), ``learner`` where the draws come from. Tables have these in their ``attrs``.

    Conditions and events map column names to a value (point evidence), ``(low, high)`` (a closed interval,
    None is unbounded) or a set of values, or are text such as ``"20 <= age < 30 and job == 'nurse'"``; `probability`
    and `condition` also take lists of intervals and unions of events. A condition may be a row with gaps: its missing
    values (NaN, pd.NA) say nothing.

    Many threads may ask one posterior, its marginals and its conditions at once.
    """

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> "SPNPosterior":
        """Read the result of ``pm.sample``, or what `save` wrote.

        Parameters
        ----------
        idata : DataTree or path of a netCDF file
        name : str, optional
            Name of the network in the model, where there are several.

        Returns
        -------
        SPNPosterior
            As it was saved, with its condition, columns and weights of chains.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it holds no sum-product network, or several and no name is given.

        Warns
        -----
        ConvergenceWarning
            If R-hat of the log joint is above 1.1, over two chains of 50 draws or more.
        """
        with reading(idata) as idata:
            states = RecordedStates(read_record(idata, name))
            post, saved = cls(states), idata.attrs.get(SAVED)
            if saved is not None:
                post = cls(states, *read_query(saved, states.schema), states.record.log_weights)
        post._warn_of_chains(stacklevel=2)
        return post

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that `from_idata` needs to one netCDF file.

        Draws, training table and schema are in it, and a condition, a choice of columns and weights of chains, too:
        what is read again gives the same bits.

        Parameters
        ----------
        path : str or path-like
            A file that is there is replaced.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        """
        query = {
            "kept": list(self._kept),
            "evidence": events_to_json(self._evidence),
            "log_weights": data_digest([], self._log_weights) if np.any(self._log_weights) else None,
        }
        save_tree(write_record(self._states.record, json.dumps(query), self._log_weights), path)

    def __repr__(self) -> str:
        record = self._states.record
        given = self._in_words(self._evidence)
        shares = ", ".join(f"{w:.2f}" for w in self.chain_weights.values) if np.any(self._log_weights) else ""
        return (
            f"SPNPosterior({self._schema.name!r}: {self._read_as}, {len(record.chains)} chains of "
            f"{len(record.draws)} draws{' weighed by ' + shares if shares else ''}{', given ' + given if given else ''}"
            f"{f'; {self._mixing}' if self._mixing else ''})"
        )

    # ---- densities and probabilities

    def probability(
        self,
        event: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str,
        given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None = None,
        per_draw: bool = False,
    ) -> "xr.DataArray":
        """Probability of an event, or its density in the columns that are at a point.

        Parameters
        ----------
        event : mapping of column name to value, (low, high), list of intervals or set, sequence of mappings, or str
            Within a mapping all must hold, of a column's list of intervals one. Of a sequence of mappings, one must
            hold: their union, by inclusion and exclusion. In a single mapping a column of levels or counts may have a
            dict from values to likelihoods, 0 for the others (soft evidence); the answer is then the expected
            likelihood. Text is described below.
        given : the same, optional
            What is known; of a sequence one is, without it being known which.
        per_draw : bool
            Whether each draw's own conditional probability is wanted, unweighted.

        Returns
        -------
        DataArray
            A scalar, or (chain, draw).

        Raises
        ------
        TypeError, ValueError
            If a column is unknown or cannot be what is asked, as it cannot be missing, `given` has probability zero,
            a union names a point of a continuous column (a density) or holds likelihoods, these are for a continuous
            column, negative, infinite or all 0, events overlap in more than 10,000 ways, or text cannot be read or
            solved.

        Notes
        -----
        Text is written as for ``DataFrame.query``: ``"x**2 < 4 and (job == 'nurse' or not 20 <= age < 30)"``, with
        ``< <= > >= == !=``, ``in`` and ``not in`` a list, ``and or not`` (or ``& | ~``, every comparison in
        parentheses), names that are no identifiers in backticks. One side of a comparison is an expression in one
        column of numbers, ``+ - * / **``, abs, sqrt, exp, log, log10 and log2, the other a constant; the column stands
        in it once, or it is a polynomial. It is solved for intervals, exact up to rounding. Values are those of NumPy:
        where an expression is undefined a comparison is false and its negation true. For a continuous column
        ``x != 3`` always holds and ``x == 3`` is a point, with a density.
        """
        if event is None:
            raise TypeError("event must map column names to a value, (low, high) or a set, got None")
        asked, known = self._signed_events("event", event), self._signed_evidence(given)
        if len(known) == 1:
            base = self._log_of(known[0][1])
        else:
            base = log_union(((sign, self._log_of(e, check=False)) for sign, e in known), self._log_weights.shape)
            if base.max() == -np.inf:
                self._refuse("given", known[0][1])
        log_weights = base + self._log_weights
        joint = ((sign, self._log_of(e, check=False)) for sign, e in both_unions(asked, known, both_or_none))
        log_joint = log_union(joint, base.shape)
        if per_draw:
            return self._labelled("probability", np.exp(log_joint - base), {}, True)
        answer = float(np.exp(log_average(self._log_weights, log_joint) - log_average(self._log_weights, base)))
        influence = relative_weights(log_weights) * (np.exp(log_joint - base) - answer)
        attrs = chain_error(influence, self._n_chains)
        mark = self._weight_mark(base, any(e for _, e in known))
        return self._labelled("probability", answer, {}, False, **mark, **attrs)

    def log_likelihood(self, df: Any = None) -> "xr.DataTree":
        """Group for ``idata["log_likelihood"]``, from which ``az.loo`` works.

        Without `df`: for each draw and training row the log predictive given the other rows (the row is taken
        out, evaluated and put back), whose reciprocals are the importance weights of leave-one-out. With
        `df`: the log predictive of new rows for each draw.

        Parameters
        ----------
        df : DataFrame, mapping, array or Table, optional
            As for `log_density`.

        Returns
        -------
        DataTree
            One variable of the network's name, (chain, draw, <name>_row) float64, in nats. Training rows without an
            observed cell are left out: they are no data, and Pareto smoothing stops at weights that are all equal.

        Raises
        ------
        ValueError
            If no `df` is given to a condition, a marginal or a posterior with weighted chains.
        """
        import xarray as xr

        rows = f"{self.name}_row"
        if df is None:
            if not self._is_as_sampled:
                raise ValueError(
                    "log_likelihood of training rows needs the posterior as sampled, no condition or marginal"
                )
            record = self._states.record
            seen = ~np.isnan(record.table).all(axis=1)  # az.loo stops at a row that is worth 0 in every draw
            found = self._states.leave_one_out()[:, seen]
            logs = self._labelled("log", found, {rows: record.rows[seen]}, True, **self._cell_mark())
        else:
            logs = self.log_density(df, per_draw=True).rename({"row": rows})
        return xr.DataTree(xr.Dataset({self.name: logs}))

    # ---- derived objects

    def condition(
        self, given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str
    ) -> "SPNPosterior | UnionPosterior":
        """The posterior predictive given some of a row; draws are weighted by the condition's probability.

        Columns fixed at a value leave the object, those in an interval or a set stay.

        Parameters
        ----------
        given : mapping of column name to value, (low, high), list of intervals or set, sequence of mappings, or str
            Of a sequence one holds, of a list of intervals, too: the answer is then a `UnionPosterior`. Text as for
            `probability`.

        Returns
        -------
        SPNPosterior or UnionPosterior

        Raises
        ------
        TypeError
            If it is None or no condition.
        ValueError
            If it names no column or no level, or has probability or density zero under every draw.
        """
        given = as_events("given", given, *self._readable)
        if is_single_event(given):
            known = self._given(given)
            self._log_of(known)
            return self._part(known)
        from pymc_spn.answers.union_posterior import UnionPosterior

        parts = self._exclusive_events(given)
        known_parts = [both for part in parts if (both := both_or_none(self._evidence, part)) is not None]
        if not known_parts:
            raise ValueError(f"given: nothing of it can occur where {self._in_words(self._evidence)}")
        return UnionPosterior([self._part(e) for e in known_parts])

    def _part(self, known: Events) -> "SPNPosterior":
        """The posterior given events, its own evidence among them; columns at a point leave it."""
        kept = [d for d in self._kept if d not in points_of(known)]
        return SPNPosterior(self._states, kept, known, self._log_weights)

    def marginal(self, columns: Sequence[str]) -> "SPNPosterior":
        """The posterior predictive of some columns, the others summed out.

        Parameters
        ----------
        columns : sequence of str
            In any order; the columns keep theirs.

        Returns
        -------
        SPNPosterior
            A condition that was given before still holds, also on columns that are summed out.

        Raises
        ------
        TypeError
            If it is one name and no sequence.
        ValueError
            If one is no column, or there is none.
        """
        names = [c.name for c in self.columns]
        if isinstance(as_name(columns), str):
            raise TypeError(f"columns must be a list of names, got {quoted(columns)}")
        asked = names_of("columns", columns)
        for column in asked:
            if column not in names:
                raise ValueError(f"columns names {column!r}; the columns are {quoted(names)}")
        kept = [d for d, n in zip(self._kept, names, strict=True) if n in asked]
        if not kept:
            raise ValueError("columns must name at least one column, got none")
        return SPNPosterior(self._states, kept, self._evidence, self._log_weights)

    @property
    def chain_weights(self) -> "xr.DataArray":
        """Share (chain,) of each chain in the answers, before any condition; they sum to 1.

        Exact as what the answers are made with; the error of choosing them, by `stacked`, is not known.
        """
        shares = relative_weights(self._log_weights).reshape(self._n_chains, -1).mean(axis=1) / self._n_chains
        chosen = (
            "stacked: the error of these weights is not known" if np.any(self._log_weights) else "equal by definition"
        )
        coords = {"chain": self._states.record.chains}
        return self._labelled("chain_weights", shares, coords, False, mcse_chain_note=f"no mcse_chain: {chosen}")

    def stacked(self) -> "SPNPosterior":
        """The posterior with chains weighed by how well they predict each training row from the others.

        For chains that stay in modes of their own, so that R-hat of the log joint is well above 1: equal weights are
        then an accident of the starts. Stacking takes the weights under which the mean log of the mixture's
        leave-one-out density is largest, by Pareto-smoothed importance sampling within each chain. Answers are those
        of the weighted mixture, which is not the posterior; it predicts better where some chains are better than
        others. ``mcse_chain`` takes the weights as given. Where chains agree the weights hardly matter.

        Raises
        ------
        ValueError
            If there is one chain, or fewer than 30 recorded draws of each, or this is a condition, a marginal or
            already weighted.

        Warns
        -----
        UserWarning
            If leave-one-out is unreliable for more than a twentieth of the rows.

        References
        ----------
        Yao, Vehtari and Gelman (2022), Stacking for non-mixing Bayesian computations: the curse and blessing of
        multimodal posteriors, JMLR 23(79), section 2.
        """
        from pymc_spn.networks.records.chain_weights import FEWEST, stacking_weights

        n_draws = self._states.n_draws // self._n_chains
        if self._n_chains < 2:
            raise ValueError(f"stacked needs at least two chains, this posterior has {self._n_chains}")
        if n_draws < FEWEST:
            raise ValueError(f"stacked needs at least {FEWEST} recorded draws a chain, this posterior has {n_draws}")
        if not self._is_as_sampled:
            raise ValueError("stacked needs the posterior as sampled, no condition, marginal or weights")
        logs = self._states.leave_one_out()
        weights = stacking_weights(logs.reshape(self._n_chains, -1, logs.shape[1]))
        log_weights = np.repeat(np.log(np.maximum(weights, 1e-300)), n_draws)
        return SPNPosterior(self._states, self._kept, self._evidence, log_weights)

    @property
    def _is_as_sampled(self) -> bool:
        whole = len(self._kept) == len(self._schema.columns)
        return whole and not self._evidence and not np.any(self._log_weights)

    def as_circuit(self, max_draws: int | None = None) -> "PosteriorCircuit":
        """The posterior predictive as one explicit circuit, for `CircuitDensity` inside another model.

        Exact over the draws that it holds: all, or `max_draws` of them, taken evenly, or by their weights in a stacked
        posterior; its size grows with their number. Under a condition draws have the weights that it gives them, and
        leaves within intervals are distributions of SciPy, which `CircuitDensity` does not take.

        Parameters
        ----------
        max_draws : int, optional

        Returns
        -------
        PosteriorCircuit

        Raises
        ------
        ValueError
            If `max_draws` is no integer of at least 1.
        """
        from pymc_spn.answers.posterior_circuit import predictive_circuit

        return predictive_circuit(self, [self._evidence], max_draws)
