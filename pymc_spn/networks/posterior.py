"""The posterior of a Bayesian sum-product network: one object, asked often."""

from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from pymc_spn.laws.mixed_law import MixedLaw
from pymc_spn.networks.drawn_circuits import draw_circuits
from pymc_spn.networks.network_posterior import ERROR_ROWS, refuse_pairs
from pymc_spn.networks.partitions import average_togetherness, losses_of_partitions
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.imputed_rows import complete_rows
from pymc_spn.networks.records.record import SAVED, labelled_variables, read_record, write_record
from pymc_spn.networks.records.recorded_states import RecordedStates
from pymc_spn.networks.records.run_weights import FEWEST, by_run, members
from pymc_spn.networks.row_similarity import TrainingRowSimilarity
from pymc_spn.networks.stored_queries import read_draws, read_law, written_law
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.chain_mixing import Mixing, Questions, diagnosis
from pymc_spn.numerics.draw_averages import choose_draws, relative_weights
from pymc_spn.numerics.html_repr import LATER, Facts
from pymc_spn.numerics.marks import SIMULATION
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.fingerprints import data_digest
from pymc_spn.tables.frame_kinds import labelled_frame_of_kind
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import xarray as xr

    from pymc_spn.networks.drawn_circuits import DrawnCircuit


FEWEST_DRAWS = 400  # that answer by default
DRAWS_OF_SIZE = 4  # and for each of the effective size: an average over them has hardly more error than over all

SHOWN_ROWS, SHOWN_WEIGHTS = 20, 4


class SPNPosterior(TrainingRowSimilarity):
    """Posterior of a sum-product network, from its recorded draws.

    `from_idata` makes it. Every draw is a tractable model, with its weights and leaf parameters integrated out. An
    answer is that of the mixture over draws, or with ``per_draw=True`` one for each draw. Answers are labelled arrays
    with attributes. ``exactness`` is about the query given the draws. ``mcse_chain`` is the Monte Carlo standard error
    of the average over draws (or ``mcse_chain_note`` says why there is none). ``draws_after_weighting`` is the number
    of draws that still count under a condition (not an effective sample size of the chains). ``learner`` says where the
    draws come from. Tables have these in their ``attrs``.

    Conditions and events map column names to a value (point evidence), ``(low, high)`` (a closed interval,
    None is unbounded), a list of intervals or a set of values. They may also be text such as ``"20 <= age < 30 and job
    == 'nurse'"``. In a sequence of mappings, one holds. A condition may be a row with gaps: its missing values (NaN,
    pd.NA) carry no information. Many threads may ask one posterior, its marginals and its conditions at once.

    Examples
    --------
    >>> post = ps.SPNPosterior.from_idata(idata)
    >>> post.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']
    >>> int(df.isna().sum().sum()), int(post.impute(df, random_seed=1).isna().sum().sum())
    (1, 0)
    """

    @classmethod
    def from_idata(
        cls,
        idata: "xr.DataTree | str | PathLike[str]",
        name: str | None = None,
        max_draws: int | Literal["auto"] | None = "auto",
        weights: Literal["auto", "equal"] = "auto",
    ) -> "SPNPosterior":
        """Read the result of ``pm.sample``, or what `save` wrote.

        Parameters
        ----------
        idata : DataTree or path of a netCDF file
        name : str, optional
            Name of the network in the model, where there are several.
        max_draws : int, "auto" or None
            Number of draws that answer, evenly chosen from each chain; None for all. By default as many as carry
            information: four times the effective size of the log joint, at least 400. A saved posterior keeps the draws
            it had. If not all draws are used, the attribute ``draws`` of answers says how many. Answers for each draw
            (``per_draw=True``), `log_likelihood`, `diagnose`, `stacked` and `save` always take all draws.
        weights : {"auto", "equal"}
            Weights of the runs that make up the chains. "auto" weights them as `stacked` does if they are of
            different kinds. It does so, too, with a warning, if the log density of rows shows that they have not
            converged. Otherwise it weights them equally. A saved posterior keeps its weights.

        Returns
        -------
        SPNPosterior
            As it was saved, with its condition, columns and weights of chains.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it holds no sum-product network, or several and no name is given. If `max_draws` is not an integer of at
            least 1, or `weights` is neither "auto" nor "equal".

        Warns
        -----
        ConvergenceWarning
            If R-hat of the log density of rows, over the runs of the kind that counts most, is above 1.1 or its
            effective size below 50. If these have fewer than 100 recorded draws, that of the log joint.

        Examples
        --------
        >>> post = ps.SPNPosterior.from_idata(idata)
        >>> [column.name for column in post.columns]
        ['age', 'income', 'job']
        """
        if weights not in ("auto", "equal"):
            raise ValueError(f'weights must be "auto" or "equal", got {quoted(weights)}')
        with reading(idata) as tree:
            return cls._of_tree(tree, name, max_draws, weights)

    @classmethod
    def _of_tree(
        cls,
        tree: "xr.DataTree",
        name: str | None = None,
        max_draws: int | Literal["auto"] | None = "auto",
        weights: str = "auto",
    ) -> "SPNPosterior":
        states = RecordedStates(read_record(tree, name))
        states.check_order()
        saved = tree.attrs.get(SAVED)
        post = cls(RecordedLaw(states) if saved is None else read_law(saved, states, states.record.log_weights))
        own = None if saved is None else read_draws(saved)
        post = post._weighted(weights) if saved is None else post
        return post._with(states.some(_draws_of_chain(max_draws, states, None if own else post._mixing, own)))

    def _with(self, states: RecordedStates) -> "SPNPosterior":
        """The same answers from more or fewer draws."""
        if states is self._states:
            return self
        parts = [part.in_states(states) for part in self._law.parts if isinstance(part, RecordedLaw)]
        return self._of(parts[0] if len(parts) == 1 else MixedLaw(parts))

    @cached_property
    def _with_all_draws(self) -> "SPNPosterior":
        return self._with(self._states.whole or self._states)

    def _each_draw(self, per_draw: bool) -> "SPNPosterior":
        return self._drawn_with_all_draws if per_draw and not self._states.is_drawn else self

    @cached_property
    def _drawn_with_all_draws(self) -> "SPNPosterior":
        return self._with(self._with_all_draws._states.drawn)

    @cached_property
    def _drawn(self) -> "SPNPosterior":
        """The same draws, with weights and leaf parameters drawn given each."""
        return self._with(self._states.drawn)

    def _shares_of_draws(self) -> np.ndarray | None:
        chosen = self._first.chosen
        return relative_weights(chosen) if np.any(chosen) else None

    def _fewer_draws(self, n: int) -> "SPNPosterior":
        n = max(n // len(self._law.marks.chains), 1)
        return self._with((self._states.whole or self._states).some(n)) if n < len(self._law.marks.draws) else self

    def _saved(self) -> "xr.DataTree":
        whole = self._with_all_draws
        chosen, n_draws = whole._first.chosen, len(self._law.marks.draws)
        query = written_law(whole._law, n_draws, data_digest([], chosen) if np.any(chosen) else None)
        return write_record(whole._states.record, query, chosen)

    def _facts(self) -> Facts:
        marks, used = self._with_all_draws._law.marks, self._law.marks.used
        shares = np.sort(self.run_weights.values.ravel())[::-1] if np.any(self._first.chosen) else ()
        few = ", ".join(f"{w:.2f}" for w in shares[:SHOWN_WEIGHTS]) + (", ..." if len(shares) > SHOWN_WEIGHTS else "")
        answers = f"answers from {used}" if used else ""
        draws = f"{len(marks.chains)} chains of {len(marks.draws)} draws"
        found = self._with_all_draws._states.found_of_runs
        mixing = found.mixing if found is not None and found.mixing.is_known else self._mixing
        return self._said(
            {"draws": ", ".join(filter(None, (draws, answers))) + (f", runs weighted by {few}" if len(shares) else "")},
            {LATER: str(mixing or "")},
        )

    def _gaps(self) -> np.ndarray:
        return np.isnan(self._states.record.table).sum(axis=0)

    # ---- chains

    @cached_property
    def _mixing(self) -> Mixing | None:
        """Of the log joints of all draws; None where these were not recorded."""
        values = self._states.record.log_joint
        return None if values is None else Mixing.of(self._over_runs(values), units=self._states.record.units)

    def _over_runs(self, values: np.ndarray) -> np.ndarray:
        """Numbers (chain, draw, ...) of all draws as (run, draw, ...), of runs of the kind that counts most."""
        whole = self._with_all_draws._states
        found = by_run(values, whole.record.runs)
        return found if whole.found_of_runs is None else found[whole.found_of_runs.heaviest]

    def _weighted(self, asked: str) -> "SPNPosterior":
        """The posterior, weighted as by `stacked` if runs are of several kinds or, with a warning, not converged."""
        found = self._states.found_of_runs
        if (found is None or not found.mixing.is_known) and self._mixing is not None:
            self._mixing.warn(self.name)
        if found is None or (found.mixing.has_met and not np.ptp(found.kinds)):
            return self
        post, so = self, ""
        if asked == "auto":
            post = self._of_runs(weights := found.weights())
            gain = "{:.2f} +- {:.2f} nats a row".format(*found.gain(weights))
            so = f"answers weight the {found.units} by how well each predicts rows left out: {gain} better than "
            so += 'equal weights (weights="equal")'
        found.mixing.warn(self.name, so)
        return post

    def _of_runs(self, weights: np.ndarray) -> "SPNPosterior":
        """The posterior whose runs have these weights (K,)."""
        log_weights = np.zeros(self._states.n_draws)
        for own, weight in zip(members(self._states.record.runs).values(), weights, strict=True):
            log_weights[own] = np.log(max(weight, 1e-300) / own.size)
        return self._of(RecordedLaw(self._states, chosen=log_weights))

    def diagnose(
        self,
        questions: Questions | None = None,
        df: TableLike | None = None,
        max_rows: int = SHOWN_ROWS,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """Tabulate R-hat and effective size of log joint, rows and any questions.

        Chains can agree in the log joint but not in an answer, and the other way round. So ask here what you report.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives one value for each draw, as in ``{"P(old)": lambda post:
            post.probability("age > 60", per_draw=True)}``. If it has further dimensions, each of their labels has a
            row.
        df : DataFrame of pandas, polars or pyarrow, mapping, array or Table, optional
            Rows whose log density is asked for. By default the training rows.
        max_rows : int
            Number of rows to show, taken evenly. The mean over all rows is always shown.
        progressbar : bool
            Whether to show a progress bar if the answer takes long.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the data were
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat`` over the recorded draws of all chains
            (all draws for the log joint), as in ``az.summary``. NaN where they are not defined: values that never vary
            or are infinite, fewer than four draws, R-hat of a single chain.

        Raises
        ------
        TypeError, ValueError
            If `questions` is not a mapping to functions, an answer does not have one value for each draw, or `max_rows`
            is not an integer of at least 0.

        Notes
        -----
        The chains are diagnosed as they were sampled: neither a condition nor the weights of `stacked`
        weight draws here. Training rows are asked of the posterior as sampled, even if this one is a condition or a
        marginal. Rows of `df` and questions are asked of this one.

        Examples
        --------
        >>> post.diagnose().columns.tolist()
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        with counted("Asking every draw", progressbar):
            found = diagnosis_of_runs(self, questions, df, max_rows)
        return labelled_frame_of_kind(found, self.columns[0].frame, "quantity")

    @property
    def run_weights(self) -> "xr.DataArray":
        """Weight (chain, run) of each run of each chain in the answers.

        Weights are taken before any condition and sum to 1. They are exact in that the answers use them; the error of
        choosing them is not known. Long chains of networks with multivariate leaves are made of up to four runs; other
        chains are one run.

        Examples
        --------
        >>> float(post.run_weights.sum().round(6))
        1.0
        """
        record, chosen = self._states.record, relative_weights(self._first.chosen) / self._states.n_draws
        first = record.runs.min(axis=1)
        shares = np.full((len(record.chains), int((record.runs - first[:, None]).max()) + 1), np.nan)
        for (k, run), own in members(record.runs).items():
            shares[k, run - first[k]] = chosen[own].sum()
        why = "the error of these weights is not known" if np.any(self._first.chosen) else "equal by definition"
        coords = {"chain": record.chains, "run": np.arange(shares.shape[1])}
        return self._labelled("run_weights", shares, coords, False, mcse_chain_note=f"no mcse_chain: {why}")

    def stacked(self) -> "SPNPosterior":
        """Return the posterior with runs weighted by how well they predict left-out rows.

        `from_idata` does so if runs are of different kinds. It also does so if they stay in different modes, so that
        R-hat of the log density of rows over runs of a kind is above 1.1. Equal weights are then an accident of the
        starts. Stacking takes the weights under which the mixture predicts each training row best from the others. Each
        weight has one row's worth of a Dirichlet prior. The weights are those of kinds if the runs of a kind have met,
        else of runs. Answers are those of the weighted mixture, which predicts better if some runs are better than
        others. ``mcse_chain`` takes the weights as given.

        Raises
        ------
        ValueError
            If there is only one run, a run has fewer than four recorded draws, or this is a condition or a marginal.

        Examples
        --------
        >>> float(post.stacked().run_weights.sum().round(6))
        1.0

        References
        ----------
        Yao, Vehtari and Gelman (2022), Stacking for non-mixing Bayesian computations: the curse and blessing of
        multimodal posteriors, JMLR 23(79), section 2.
        """
        if not self._first.is_as_sampled:
            raise ValueError("stacked needs the posterior as sampled, no condition or marginal")
        found = (self._states.whole or self._states).found_of_runs
        if found is None:
            has = f"{self._with_all_draws._states.n_draws} draws of {self.run_weights.size} runs"
            raise ValueError(f"stacked needs two runs of at least {FEWEST} recorded draws; this posterior has {has}")
        return self._of_runs(found.weights())

    # ---- training rows

    def log_likelihood(self, df: TableLike | None = None) -> "xr.DataTree":
        """Return the group ``log_likelihood``, for ``az.loo``.

        Without `df`, it is the log predictive of each training row given the other rows, for each draw (the row is
        taken out, evaluated and put back). Its reciprocals are the importance weights of leave-one-out. With `df`, it
        is the log predictive of new rows for each draw.

        Parameters
        ----------
        df : DataFrame of pandas, polars or pyarrow, mapping, array or Table, optional
            As for `log_density`.

        Returns
        -------
        DataTree
            One variable with the network's name, (chain, draw, <name>_row) float64, in nats. Training rows without an
            observed cell are left out: they hold no data, and Pareto smoothing fails if all weights are equal.

        Raises
        ------
        ValueError
            If no `df` is given to a condition, a marginal or a posterior with weighted chains.

        Examples
        --------
        >>> idata["log_likelihood"] = post.log_likelihood()  # from which az.loo works
        >>> idata["log_likelihood"]["x"].dims
        ('chain', 'draw', 'x_row')
        """
        import xarray as xr

        if df is not None:
            return self._log_likelihood(df)
        if not self._first.is_as_sampled:
            raise ValueError("log_likelihood of training rows needs the posterior as sampled, no condition or marginal")
        self = self._with_all_draws
        record = self._states.record
        seen = ~np.isnan(record.table).all(axis=1)  # az.loo stops at a row that is worth 0 in every draw
        found, rows = self._states.leave_one_out()[:, seen], {f"{self.name}_row": record.rows[seen]}
        logs = self._labelled("log", found, rows, True, **self._cell_mark())
        return xr.DataTree(xr.Dataset({self.name: logs}))

    def posterior_predictive(self, random_seed: int | np.random.Generator | None = None) -> "xr.DataTree":
        """Return the group ``posterior_predictive``: one simulated table for each draw.

        ``az.plot_ppc_dist`` takes it. Choose a column, as in ``coords={"<name>_column": "age"}``: columns have
        different units. `predictive_check` has one column with its observed cells. ``pm.sample_prior_predictive`` gives
        the same for the prior, by exact simulation and with the gaps of the table, and ``az.plot_ppc_dist(idata,
        group="prior_predictive")`` takes it.

        Parameters
        ----------
        random_seed : int, Generator or None

        Returns
        -------
        DataTree
            One variable of the network's name, (chain, draw, <name>_row, <name>_column) float64, in the units of
            ``idata.observed_data``: numbers as they are, levels as codes. Rows have no gaps, even if the table has.

        Raises
        ------
        ValueError
            For a condition, a marginal or a posterior with weighted chains, or if that needs too much memory.

        Examples
        --------
        >>> list(post.posterior_predictive(random_seed=1).dims)[:2]
        ['chain', 'draw']
        """
        return simulated_tables(self, random_seed)

    def predictive_check(self, column: str, random_seed: int | np.random.Generator | None = None) -> "xr.DataTree":
        """Return one column in the form of ArviZ's predictive checks.

        ``az.plot_ppc_dist`` and ``az.plot_loo_pit`` take it.

        Parameters
        ----------
        column : str
        random_seed : int, Generator or None

        Returns
        -------
        DataTree
            With the groups ``posterior_predictive`` (chain, draw, <name>_row), ``observed_data`` (<name>_row) and
            ``log_likelihood`` (chain, draw, <name>_row). Each has one variable of the column's name, over
            the rows in which it is not missing. Levels are codes. The group ``posterior`` has the recorded
            hyperparameters.

        Notes
        -----
        The weights of leave-one-out take the whole row out. The simulated values of a draw still depend on
        the row itself, one of N. This moves PIT values towards the middle by about 1/N.

        Examples
        --------
        >>> sorted(post.predictive_check("age", random_seed=1).children)
        ['log_likelihood', 'observed_data', 'posterior', 'posterior_predictive']
        """
        return check_of_column(self, column, random_seed)

    def co_clustering(self, df: TableLike | None = None) -> "xr.DataArray":
        """Calculate how probably two rows use the same child of the top sum node.

        Parameters
        ----------
        df : DataFrame, optional
            New rows. Each is assigned by itself given a draw. Rows on children without a training row count as apart.
            By default the training rows, whose assignments are part of the draws.

        Returns
        -------
        DataArray
            (row, other), 1 on the diagonal. It is NaN, as is ``mcse_chain``, for training rows without an observed
            cell. It is NaN too for new rows whose density is zero under every draw, which a warning names.

        Raises
        ------
        ValueError
            If the posterior's condition excludes a new row, or so many pairs of rows need too much memory.

        Examples
        --------
        >>> post.co_clustering().dims
        ('row', 'other')
        """
        if df is not None:
            return self._co_clustering(df)
        self._refuse_condition("co_clustering of training rows")
        record, labels = self._states.record, self._states.digits[:, :, 0]
        refuse_pairs(labels.shape[1])
        weight = relative_weights(self._law.log_weights)
        together = average_togetherness(labels, weight / weight.sum())
        empty = labels[0] < 0
        together[empty] = together[:, empty] = np.nan
        each = (labels[:, :, None] == labels[:, None, :]) if labels.shape[1] <= ERROR_ROWS else None
        return self._pairs(together, each, record.rows, {})

    def top_clusters(self) -> "xr.DataArray":
        """Return one clustering of the training rows, by the top sum node.

        It is the recorded draw whose partition is nearest to `co_clustering` in squared distance (Dahl 2006). Clusters
        are numbered by falling size; rows without an observed cell have -1. It shows one state, not an average, and is
        marked so: ``exactness`` is "one draw", and ``chain`` and ``draw`` say which. ``distance`` is how far it is from
        `co_clustering`: the root mean square over pairs of rows with an observed cell.

        Examples
        --------
        >>> post.top_clusters().shape
        (80,)
        """
        self._refuse_condition("top_clusters")
        labels = self._states.digits[:, :, 0]
        weight = relative_weights(self._law.log_weights)
        counted = labels[0] >= 0  # rows without an observed cell are on no child
        loss = losses_of_partitions(labels[:, counted], weight / weight.sum())
        best = labels[int(np.argmin(loss))].astype(np.int64)
        found, count = np.unique(best[best >= 0], return_counts=True)
        rank = {int(k): i for i, k in enumerate(found[np.argsort(-count, kind="stable")])}
        out = np.array([rank.get(int(k), -1) for k in best])
        chain, draw = divmod(int(np.argmin(loss)), len(self._states.record.draws))
        record = self._states.record
        attrs = {
            "exactness": "one draw",
            "mcse_chain_note": "no mcse_chain: one draw, no average",
            "chain": int(record.chains[chain]),
            "draw": int(record.draws[draw]),
            "distance": float(np.sqrt(loss.min()) / max(counted.sum(), 1)),
        }
        return self._labelled("top_clusters", out, {"row": record.rows}, False, **attrs)

    def draw_circuits(self, n: int, random_seed: int | np.random.Generator | None = None) -> "list[DrawnCircuit]":
        """Draw circuits with explicit weights and leaf parameters.

        This is Algorithm 2 of Yokoi and Sato (2024). See `DrawnCircuit` for how it represents unoccupied children.

        Parameters
        ----------
        n : int
            Number of circuits. Draws of the chain are chosen with replacement, by their weights.
        random_seed : int or Generator, optional

        Returns
        -------
        list of DrawnCircuit

        Raises
        ------
        ValueError
            If this is a condition or a marginal, or `n` is not an integer of at least 0.

        Examples
        --------
        >>> drawn = post.draw_circuits(2, random_seed=1)
        >>> drawn[0].predict(df.head(2), "job").values.tolist()
        ['clerk', 'nurse']
        """
        self._refuse_condition("draw_circuits")
        rng = np.random.default_rng(random_seed)
        chosen = choose_draws(self._first.chosen[:, None], checked_count("n", n, bytes_each=1000.0), rng)[:, 0]
        attrs = self._attrs(True, exactness=SIMULATION)
        return [replace(one, attrs=attrs) for one in draw_circuits(self._states, chosen, rng)]


def _draws_of_chain(
    max_draws: int | Literal["auto"] | None, states: RecordedStates, mixing: Mixing | None, saved: int | None
) -> int:
    """How many draws of each chain answer."""
    n_chains, length = len(states.record.chains), len(states.record.draws)
    if max_draws is None:
        return length
    if max_draws == "auto":
        size = np.nan if mixing is None else mixing.size
        if saved is not None or np.isnan(size):
            return length if saved is None else saved
        max_draws = max(FEWEST_DRAWS, int(DRAWS_OF_SIZE * size))
    return -(-checked_count("max_draws", max_draws, least=1) // n_chains)


def diagnosis_of_runs(post: Any, questions: Questions | None, df: Any, max_rows: int) -> pd.DataFrame:
    """The table of `SPNPosterior.diagnose`."""
    import xarray as xr

    n_shown, first = checked_count("max_rows", max_rows), post._first
    record = first.states.record
    if df is None:
        seen = ~np.isnan(record.table).all(axis=1)
        df = Table(first.schema.columns, record.table[seen], pd.Index(record.rows[seen]))
        logs = type(post)(RecordedLaw(first.states)).log_density(df, per_draw=True)
    else:
        logs = post.log_density(df, per_draw=True)
    own: dict[str, xr.DataArray] = {}
    if record.log_joint is not None:
        own["log_joint"] = xr.DataArray(record.log_joint, dims=("chain", "draw"))
    if logs.sizes["row"]:
        own["log_density, mean of rows"] = logs.mean("row")
        shown = np.unique(np.linspace(0, logs.sizes["row"] - 1, min(n_shown, logs.sizes["row"])).round().astype(int))
        own["log_density"] = logs.isel(row=shown)

    def by_runs(values: Any) -> Any:
        if not {"chain", "draw"} <= set(getattr(values, "dims", ())):
            return values
        values = values.transpose("chain", "draw", ...)
        coords = {d: values[d] for d in values.dims[2:]}
        return xr.DataArray(post._over_runs(values.values), dims=values.dims, coords=coords)

    return diagnosis(post, questions, {name: by_runs(values) for name, values in own.items()}, by_runs)


def simulated_tables(post: Any, random_seed: Any) -> "xr.DataTree":
    """The group of `SPNPosterior.posterior_predictive`."""
    import xarray as xr

    if not post._first.is_as_sampled:
        raise ValueError("posterior_predictive needs the posterior as sampled, no condition, marginal or weights")
    whole = post._with_all_draws
    states, n_draws, record = whole._first.states, whole._law.n_circuits, whole._states.record
    n_rows, n_columns = record.table.shape
    refuse_memory("posterior_predictive", 40.0 * n_draws * n_rows * n_columns, "sample(n) draws fewer rows")
    chosen = np.repeat(np.arange(n_draws), n_rows)[:, None]
    nothing, events = np.full((1, n_columns), np.nan), whole._first.evidence
    rows = complete_rows(states, nothing, events, chosen, np.random.default_rng(random_seed))
    labels = {f"{post.name}_row": record.rows, f"{post.name}_column": [column.name for column in post.columns]}
    rows = rows.reshape(n_draws, n_rows, n_columns)
    return xr.DataTree(xr.Dataset({post.name: whole._labelled(post.name, rows, labels, True, exactness=SIMULATION)}))


def check_of_column(post: Any, column: str, random_seed: Any) -> "xr.DataTree":
    """The tree of `SPNPosterior.predictive_check`."""
    import xarray as xr

    d, row = post._number("column", column), f"{post.name}_row"
    name = post.columns[d].name
    drawn = simulated_tables(post, random_seed).to_dataset()[post.name].isel({f"{post.name}_column": d}, drop=True)
    cells = xr.DataArray(post._states.record.table[:, d], {row: drawn[row]}, [row])
    seen = np.flatnonzero(~np.isnan(cells.values))
    logs = post.log_likelihood()[post.name]
    groups: dict[str, Any] = {
        "posterior_predictive": drawn.isel({row: seen}),
        "observed_data": cells.isel({row: seen}),
        "log_likelihood": logs.sel({row: drawn[row].values[seen]}),
    }
    tree = xr.DataTree.from_dict({key: xr.Dataset({name: values}) for key, values in groups.items()})
    # from which ArviZ finds effective sizes
    tree["posterior"] = xr.DataTree(labelled_variables(post._with_all_draws._states.record))
    return tree
