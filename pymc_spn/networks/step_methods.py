"""PyMC step methods for `SPN`: they unpack the point, run a `Chain`, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels; `Chain` is imported when a step is
made.
"""

import logging
from typing import Any, ClassVar, Unpack

import numpy as np
from pymc.step_methods.compound import Competence
from pymc.step_methods.state import dataclass_state
from pytensor import config
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import explicit_graph_inputs

from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.owned_variables import (
    USUAL_ARGUMENTS,
    StepArguments,
    StructureStep,
    StructureStepState,
    Variables,
    asked_option,
    compile_of_the_point,
    model_digest,
    named,
    offer,
    running_sample,
    variable_with_parameters,
)
from pymc_spn.tables.fingerprints import fingerprint

_log = logging.getLogger("pymc")

MAX_RECORD_BYTES = 400e6  # of all chains, while tuning too
SMALL_BYTES, MANY_STATES = 16e6, 400  # of the draws of all chains: more is kept up to so many states, which answers use
EXACT = np.dtype(np.uint16)  # of the recorded exact values in rounded cells
FILLED = np.dtype(np.float32)  # of the recorded missing cells in leaves over several columns
FEW = 8  # rows that are enough to run what has to be compiled


@dataclass_state
class SPNStepState(StructureStepState):
    """With the assignments that are recorded in chunks."""

    n_draws: int
    digits: np.ndarray


class TopDownSPNStep(StructureStep):
    """Collapsed top-down sampler of the assignments of one `SPN`.

    It also samples the hyperparameters that the `SPN` owns. ``pm.sample`` picks it by itself. Several `SPN` in one
    model get one step each.

    Parameters
    ----------
    vars : list of variables, optional
        Variables of `SPN`; all of them by default.
    kernel : {"exact", "published"}
        ``exact``: collapsed Gibbs, no rejection. If there are multivariate leaves, it divides a chain into up to
        four runs. There is one run for each 250 sweeps of tuning, each from a k-means start of its own. There are as
        many blocks of draws, and each continues one of the runs. There is one run if ``start`` is not "kmeans",
        cells are drawn (``missing="draw"``), or hyperparameters depend on other variables of the model.
        ``published``: Algorithm 1 of the paper with a state at every sum node.
    sweeps : int
        Sweeps for each draw.
    record_every : int, optional
        Assignments are recorded at every draw of this spacing, and at least once a chain. By default all are recorded
        if they fit into 16 MB, else 400 of all chains together, about as many as answers use. With those of the tuning
        they fit into 400 MB. If you create the step before ``pm.sample``, it assumes four chains of 1000 draws and 1000
        of tuning.

    Examples
    --------
    >>> with pm.Model():
    ...     x = ps.SPN("x", observed=df)
    ...     drawn = pm.sample(step=ps.steps.TopDownSPNStep(sweeps=2), **few)

    References
    ----------
    Yokoi and Sato (2024), equations 8 to 13 and Algorithm 1.
    """

    name = "spn"
    _likelihood = "and take that of ps.SPNPosterior.from_idata(idata).log_likelihood()"
    _state_class = SPNStepState
    _shown: ClassVar[dict[str, tuple[str, str]]] = {"log_joint": ("Log joint", ":,.1f"), "moved": ("Moved", ":0.2f")}
    _made_by = "ps.SPN"
    kernels: ClassVar[tuple[str, ...]] = ("exact", "published")

    def __init__(
        self,
        vars: Variables = None,
        *,
        kernel: str | None = None,
        sweeps: int = 1,
        record_every: int | None = None,
        **made_by: Unpack[StepArguments],
    ) -> None:
        self.kernel = asked_option("kernel", self.kernels[0] if kernel is None else kernel, self.kernels)
        self.sweeps = checked_count("sweeps", sweeps, 1)
        self.asked_records = None if record_every is None else checked_count("record_every", record_every, 1)
        self._make(vars, made_by)

    @classmethod
    def _owner(cls, rv):
        return getattr(rv.tag, "spn_owner", None)

    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        from pymc_spn.gibbs.chain import Chain
        from pymc_spn.networks.hyperparameter_inputs import PRIORS
        from pymc_spn.networks.records.record import chunk_length, chunks_per_state, digits_dtype, n_filled_cells
        from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
        from pymc_spn.networks.stored_starts import start_of_variable
        from pymc_spn.networks.sweep_costs import MANY_ROWS, said_of_costs, some_rows

        kernel, record_every = self.kernel, self.asked_records
        rv, parameters = variable_with_parameters(self.structure, model)
        self.state = parameters[6]  # found through the variable: a copied model has its own
        _refuse_other_data(self.structure, model.rvs_to_values[rv], parameters[11].get_value())
        schema = NetworkSchema.from_vector(rv.owner.op.schema)
        self.stored = start_of_variable(self.structure, schema, rv)
        table = self._draw_cells(schema, parameters[11].get_value(), model, kernel, compile_kwargs)
        self.fingerprint = fingerprint(model_digest(model), rv.owner.op.schema, "")
        self.chain = Chain(schema, table, kernel, _rounded_sweeps(schema, table, kernel))
        self.first_state = self.chain.statistics_of_one_cluster()
        self.value_names = [v.name for v in model.value_vars]
        # a few exponentials a draw: NumPy takes 40 microseconds, Numba 6 and most of a second to compile them
        kwargs = {"mode": Mode("py", "fast_run"), **(compile_kwargs or {})}
        self.parameters = compile_of_the_point(model, model.replace_rvs_by_values(parameters[:5]), kwargs)
        self.ticket = f"{self.structure}_log_joint"
        self._own(schema, model, HYPERPARAMETERS, PRIORS)
        # a run begins again with the hyperparameters of the first: others must not move what they depend on
        own = {name for name, *_ in self.own_values.values()}
        moving = explicit_graph_inputs(model.replace_rvs_by_values(parameters[:5]))
        others = {v.name for v in moving if v in model.value_vars} - own
        self.may_divide = not others and self.cells is None
        cells = len(self.chain.values) * schema.structure.n_regions
        exact = len(self.chain.values) * schema.rounded_columns.size
        n_filled = n_filled_cells(schema, table)
        dtype = digits_dtype(schema.structure, schema.compiled, len(self.chain.values))
        run = running_sample()
        asked = record_every or thinning(
            cells * dtype.itemsize + exact * EXACT.itemsize + n_filled * FILLED.itemsize, run or USUAL_ARGUMENTS
        )
        self.chunk = chunk_length(cells, asked)
        self.record_every = chunks_per_state(cells, self.chunk)
        self.is_thinned_unasked = record_every is None
        if record_every is None and self.record_every > 1:
            records = f", {run.draws // self.record_every} in each chain" if run else ""
            _log.info(
                f"{self.structure}: one draw in {self.record_every} is recorded with its assignments{records}. "
                "pm.sample(spn={'record_every': 1}) records all"
            )
        self.exact_chunk = chunk_length(exact, self.record_every)
        self.filled_chunk = chunk_length(n_filled, self.record_every)
        numbers: dict[str, Any] = {
            "digits": np.dtype((dtype, (self.chunk,))),
            "log_joint": np.float64,
            "moved": np.float64,
            "occupied_nodes": np.int32,
            "occupied_leaves": np.int32,
            "run": np.int16,
        }
        if self.cells is not None:
            numbers["cells_accepted"] = np.float64
        if self.chain.rounding is not None:
            numbers["exact"] = np.dtype((EXACT, (self.exact_chunk,)))
        if n_filled:
            numbers["filled"] = np.dtype((FILLED, (self.filled_chunk,)))
        self.digits_dtype = dtype
        self._started(schema, table[:FEW], kernel)()
        if len(table) >= MANY_ROWS:
            sweep = self._started(schema, some_rows(table), kernel)
            size = sum(np.dtype(dtype).itemsize for dtype in numbers.values())
            _log.info(said_of_costs(self.structure, len(table), sweep, self.sweeps, run or USUAL_ARGUMENTS, size))
        self.n_draws, self.n_sweeps = 0, (0, 0)
        self.digits, self.exact, self.filled = np.zeros((0, 0), dtype), np.zeros((0, 0), EXACT), np.zeros(0, FILLED)
        return named(self.structure, numbers)

    def _draw_cells(self, schema, table, model, kernel, compile_kwargs):
        """Moves of the missing cells where they are a variable, and the log density of what else depends on them.

        Returns the table of the chain, with these cells where they start.
        """
        self.cells, self.log_rest = None, None
        if schema.missing != "draw":
            return table
        from pymc_spn.networks.records.cell_moves import CellMoves

        variable = model[f"{self.structure}_missing"]
        value = model.rvs_to_values.get(variable)
        if value is None or variable in model.observed_RVs:
            raise ValueError(
                f"'{self.structure}_missing' is held fixed, as by pm.do or pm.observe; to fix cells give them in the "
                f"observed of ps.SPN({self.structure!r}, ...)"
            )
        if value not in self.vars:
            raise ValueError(
                f"vars must hold '{self.structure}_missing': only the step of {self.structure!r} can move its cells"
            )
        if kernel != "exact":
            raise ValueError(
                'kernel must be "exact" with missing="draw": the states of others belong to one table; '
                f"got {quoted(kernel)}"
            )
        rows, columns = np.nonzero(np.isnan(table))
        self.cells = CellMoves(schema, rows, columns)
        own = {self.structure, variable.name, f"{self.structure}_log_joint"}
        others = [v for v in model.basic_RVs + model.potentials if v.name not in own]
        terms = model.logp(vars=others, sum=False) if others else []
        terms = [t.sum() for t in terms if value in set(explicit_graph_inputs([t]))]
        if terms:
            self.log_rest = compile_of_the_point(model, sum(terms), compile_kwargs)
        completed = np.array(table)
        completed[rows, columns] = variable.owner.op.dist_params(variable.owner)[0].eval()
        return completed

    def _started(self, schema, rows, kernel):
        """What sweeps a chain of some rows; what that compiles or loads, the processes of chains have then."""
        from pymc_spn.gibbs.chain import Chain

        rng = np.random.default_rng(0)
        chain = Chain(schema, rows, kernel, _rounded_sweeps(schema, rows, kernel))
        chain.start(rng, [np.full(2, 2.0), *np.full((4, len(schema.columns)), 2.0)])

        def sweep():
            chain.sweep(rng)
            chain.update_hyperparameters(rng, self.owned, self.priors)
            chain.sampler.digits(self.digits_dtype)
            return chain

        return sweep

    def _own(self, schema, model, groups, priors):
        """Which hyperparameters this step moves, and by which prior."""
        from pymc_spn.gibbs.hyperparameters import LOG_NORMAL_ABOVE_ONE

        size = max(2, len(schema.columns))
        self.owned = np.zeros((len(groups), size), np.bool_)
        self.priors = np.array([priors[g] for g in groups])
        self.own_values = {}  # group -> (value variable, places in the vector, what is taken off before the log)
        for i, group in enumerate(groups):
            name = f"{self.structure}_{group}"
            value = next((v for v in self.vars if model.values_to_rvs[v].name == name), None)
            if value is not None:
                places = schema.places_of(group)
                self.owned[i, places] = True
                self.own_values[i] = (value.name, places, float(priors[group][0] == LOG_NORMAL_ABOVE_ONE))

    def _reset(self, tune, draws):
        if self.is_thinned_unasked and 0 < draws < self.record_every:
            raise ValueError(
                f"{self.structure}: this step records one state in {self.record_every} draws, but there will be only "
                f"{draws} draws. Make the step with record_every={draws} or less, or let pm.sample make it"
            )
        self.n_draws = 0
        self.n_sweeps = (tune * self.sweeps, draws * self.sweeps) if self.may_divide else (0, 0)
        self.digits = np.zeros((0, 0), self.digits_dtype)
        self.state.set_value(self.first_state, borrow=False)

    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        chain = self.chain
        given = [np.array(x) for x in self.parameters(*[point[n] for n in self.value_names])]
        missing = self._install_cells(point)
        if self.begun:
            chain.set_hyperparameters(given)
        elif self.stored is not None:
            digits, given = self.stored.choose(self.rng, given, self.owned)
            chain.start_at(self.rng, given, digits)
        else:
            chain.start(self.rng, given, *self.n_sweeps)
        if not self.tune:
            chain.settle()
        moved = accepted = 0.0
        for _ in range(self.sweeps):
            moved = chain.sweep(self.rng)
            if self.cells is not None:
                missing, accepted = self.cells.sweep(self.rng, chain.sampler, missing, self._rest(point))
                point[f"{self.structure}_missing"] = missing
            given = chain.update_hyperparameters(self.rng, self.owned, self.priors)
            for group, (name, places, floor) in self.own_values.items():
                point[name] = np.log(given[group][places] - floor).astype(point[name].dtype)  # of PyTensor's floatX
        state = np.concatenate([chain.sampler.statistics(), missing])
        self.missing = missing
        self.state.set_value(state, borrow=True)
        point[self.ticket] = np.asarray(state[0])
        if not self.begun or (not self.tune and self.n_draws % self.record_every == 0):
            self.digits = chain.sampler.digits(self.digits_dtype)
            if chain.rounding is not None:
                self.exact = chain.rounding.cells.codes(chain.sampler)
            if self.filled_chunk:
                self.filled = chain.sampler.filled[chain.sampler.filled_at].astype(FILLED)
        numbers: dict[str, Any] = {
            "digits": self._chunk(self.digits, self.chunk),
            "log_joint": state[0],
            "moved": moved,
            "occupied_nodes": int(state[1]),
            "occupied_leaves": int(state[3]),
            "run": 0 if chain.runs is None else chain.runs.present,
        }
        if self.cells is not None:
            numbers["cells_accepted"] = accepted
        if chain.rounding is not None:
            numbers["exact"] = self._chunk(self.exact, self.exact_chunk)
        if self.filled_chunk:
            numbers["filled"] = self._chunk(self.filled, self.filled_chunk)
        self.n_draws += not self.tune
        return named(self.structure, numbers)

    def _install_cells(self, point):
        """The missing cells of the point, put into the table where the chain does not have them yet."""
        if self.cells is None:
            return np.zeros(0)
        from pymc_spn.networks.missing_cells import refuse_impossible

        missing, cells = np.array(point[f"{self.structure}_missing"]), self.cells
        if not self.begun or not np.array_equal(missing, self.missing):
            refuse_impossible(self.chain.schema, cells.columns, missing)
            self.chain.set_cells(cells.rows, cells.columns, missing)
            cells.n_sweeps = 0
            if self.begun:
                self.chain.sampler.compact()
        return missing

    def _rest(self, point):
        """Log density of the rest of the model as a function of the missing cells alone."""
        if self.log_rest is None:
            return None
        values = [point[n] for n in self.value_names]
        place = self.value_names.index(f"{self.structure}_missing")

        def log_rest(missing):
            values[place] = missing
            log_p = float(self.log_rest(*values))
            return -np.inf if np.isnan(log_p) else log_p

        return log_rest

    def _chunk(self, state, length):
        """This draw's part of what is recorded of a state."""
        out = np.zeros(length, state.dtype)
        begin = (self.n_draws % self.record_every) * length
        part = state.ravel()[begin : begin + length]
        out[: part.size] = part
        return out


class BottomUpSPNStep(TopDownSPNStep):
    """Uncollapsed blocked Gibbs sampler of the whole network.

    It draws weights, leaf parameters, then all rows bottom-up. This is the sampler of Vergari et al. (2019) and Trapp
    et al. (2019), with which `TopDownSPNStep` is compared; finite width only. Parameters are those of `TopDownSPNStep`
    without ``kernel``. It is written in NumPy: compare it sweep by sweep, not by the clock.

    Examples
    --------
    >>> structure = ps.circuits.complete_tree(["x", "y"], n_children=2)
    >>> with pm.Model():
    ...     x = ps.SPN("x", structure, observed=rows)
    ...     drawn = pm.sample(step=ps.steps.BottomUpSPNStep(), **few)
    """

    name = "spn_bottom_up"
    kernels = ("bottom_up",)

    @staticmethod
    def competence(var: Variable, has_grad: bool) -> Competence:
        """Return that ``pm.sample`` never picks it by itself."""
        return Competence.INCOMPATIBLE


def _rounded_sweeps(schema, table, kernel):
    """Sweeps over trees and exact values where values are rounded."""
    if not schema.rounded:
        return None
    from pymc_spn.networks.records.rounded_cells import RoundedCells, RoundedSweeps

    sweeps = RoundedSweeps(RoundedCells(schema, table), kernel)
    if sweeps.has_masses.any() and not sweeps.may_integrate:
        whole = [schema.columns[d].name for d in sweeps.cells.columns[sweeps.has_masses]]
        raise ValueError(
            f'kernel must be "exact" where whole numbers are treated as rounded (rounded: {quoted(whole)}); '
            f"got {quoted(kernel)}"
        )
    return sweeps


def _refuse_other_data(name, observed, table):
    """The schema, the palette and the rows of the state are those of the table that the network was made with."""
    rounded = table.astype(config.floatX)  # PyMC does so to observed values
    present = observed.eval(mode="FAST_COMPILE")  # of one value: nothing to compile
    if not any(np.array_equal(present, values, equal_nan=True) for values in (table, rounded)):
        raise ValueError(
            f"the data of {name!r} were replaced, as by pm.observe, and its network was made with others: put "
            f"ps.SPN({name!r}, ..., observed=) with the new data into a model of its own"
        )


def thinning(n_bytes, run):
    """Draws from one recorded state, of so many bytes, to the next: at least one of each chain is recorded."""
    n_states = run.draws * run.chains
    usual = min(int(np.ceil(n_bytes * n_states / SMALL_BYTES)), n_states // MANY_STATES)
    needed = n_bytes * (run.draws + run.tune) * run.chains
    return max(1, min(max(usual, int(np.ceil(needed / MAX_RECORD_BYTES))), run.draws))


offer(TopDownSPNStep)
