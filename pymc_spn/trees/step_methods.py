"""PyMC step methods for `DecisionTree`: they unpack the point, run a kernel, and pack the point.

This module is imported with the package, so it loads neither Numba nor kernels.
"""

from typing import Any, ClassVar, Unpack

import numpy as np
from pymc.step_methods.state import dataclass_state

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.kept_data import kept_data
from pymc_spn.steps.owned_variables import (
    StepArguments,
    StructureStep,
    StructureStepState,
    Variables,
    asked_option,
    compile_of_the_point,
    model_digest,
    named,
    offer,
    variable_with_parameters,
)
from pymc_spn.tables.fingerprints import fingerprint
from pymc_spn.trees.schema import RECORD, SCHEMA, TICKET, TreeSchema, described


@dataclass_state
class TreeStepState(StructureStepState):
    """With the tree that the next draw retains."""

    decisions: np.ndarray


class ParticleGibbsTreeStep(StructureStep):
    """Sample one `DecisionTree` by particle Gibbs, given the hyperparameters.

    ``pm.sample`` picks it by itself; NUTS samples hyperparameters that are variables. Each draw is one run of
    conditional sequential Monte Carlo with multinomial resampling, which leaves the posterior unchanged whatever the
    number of particles.

    Parameters
    ----------
    vars : list of variables, optional
        The ``<name>_log_joint`` of the trees; all of them by default.
    particles : int
        At least two; few particles move rarely.
    proposal : {"optimal", "prior", "empirical"}
    expansion : {"node", "layer"}
    ess_threshold : float
        Share of the particles below which they are resampled.

    Examples
    --------
    >>> with pm.Model():
    ...     tree = ps.DecisionTree("tree", X)
    ...     response = ps.TreeResponse("y", tree, observed=y)
    ...     tree_idata = pm.sample(step=ps.steps.ParticleGibbsTreeStep(particles=20), **few)

    References
    ----------
    Andrieu, Doucet and Holenstein (2010), Particle Markov chain Monte Carlo methods, section 2.4.3,
    doi:10.1111/j.1467-9868.2009.00736.x.
    """

    name = "particle_gibbs_tree"
    _state_class = TreeStepState
    _shown: ClassVar[dict[str, tuple[str, str]]] = {"leaves": ("Leaves", "")}
    _likelihood = "and take that of ps.TreePosterior.from_idata(idata).log_likelihood()"
    _made_by = "ps.DecisionTree"

    def __init__(
        self,
        vars: Variables = None,
        *,
        particles: int = 10,
        proposal: str = "optimal",
        expansion: str = "node",
        ess_threshold: float = 0.5,
        **made_by: Unpack[StepArguments],
    ) -> None:
        from pymc_spn.trees.fit import EXPANSIONS, PROPOSALS

        if not isinstance(particles, int | np.integer) or particles < 2:
            raise ValueError(
                f"particles must be an integer of at least 2, the retained tree is one; got {quoted(particles)}"
            )
        if not 0.0 <= ess_threshold <= 1.0:
            raise ValueError(f"ess_threshold must lie in [0, 1], a share of the particles; got {quoted(ess_threshold)}")
        self.particles, self.threshold = int(particles), float(ess_threshold)
        self.proposal = PROPOSALS[asked_option("proposal", proposal, PROPOSALS)]
        self.expansion = EXPANSIONS[asked_option("expansion", expansion, EXPANSIONS)]
        self._make(vars, made_by)

    @classmethod
    def _owner(cls, rv):
        return getattr(rv.tag, "tree_owner", None)

    def _set_up(self, model: Any, compile_kwargs: Any) -> dict[str, Any]:
        from pymc_spn.trees.draws import TreeDraws
        from pymc_spn.trees.features import Features
        from pymc_spn.trees.leaves import family_from_json

        kept = kept_data(model, f"{self.structure}{SCHEMA}")
        if kept is None:
            raise ValueError(f"the tree {self.structure!r} has no response; observe it with ps.TreeResponse")
        self.schema = schema = TreeSchema.from_vector(kept)
        rv, (_, rules, parameters, *state) = variable_with_parameters(schema.response, model)
        self.state = state[:4]  # found through the variable: a copied model has its own
        mask = model[schema.missing_name].get_value() if schema.missing_name else None
        values = schema.values(model[schema.x_name].get_value(), mask)
        y = np.asarray(model.rvs_to_values[rv].eval(), np.float64)
        if len(y) != len(values):
            raise ValueError(
                f"X and observed must have the same length: {schema.x_name!r} has {len(values)} rows and "
                f"{schema.response!r} {len(y)}; set both with pm.set_data"
            )
        self.fingerprint = fingerprint(model_digest(model), *described(schema, values, y))
        numbers = {k: s.get("fixed", 1.0) for k, s in schema.parameters.items()}
        # a leaf under some parameters, until the first draw
        self.draws = TreeDraws(
            name="tree",
            features=Features(schema.column_objects, values, schema.splits, np.asarray(schema.weights)),
            y=y,
            family=family_from_json(schema.family, numbers),
            decisions=np.array([[-1, 0, 0, -1]], np.int32),
            begin=np.array([0, 1]),
            weights=np.ones(1),
            group=np.zeros(1, np.int64),
            draw=np.zeros(1, np.int64),
            parameters=np.array([list(numbers.values())]),
            rules=np.array([[0.5, 0.0]]),
            max_depth=-1 if schema.max_depth is None else schema.max_depth,
            min_size=schema.min_size,
        )
        self.value_names = [v.name for v in model.value_vars]
        outputs = model.replace_rvs_by_values([rules, parameters])
        self.hyperparameters = compile_of_the_point(model, outputs, compile_kwargs)
        self.decisions = np.empty((0, 4), np.int32)
        numbers = {"leaves": np.int32, "depth": np.int32, "moved": np.bool_, "log_evidence": np.float64}
        return {self.structure + RECORD: object} | named(self.structure, numbers)

    def _reset(self, tune, draws):
        self.decisions = np.empty((0, 4), np.int32)
        self.options = self.draws.features.scratch(self.draws.response.n_statistics)
        self._publish(self.draws, 0.0)

    def _publish(self, draws, ticket):
        """Hands a tree's statistics to the log density."""
        from pymc_spn.trees.state import log_density_state

        for shared, value in zip(self.state, log_density_state(draws, ticket), strict=True):
            shared.set_value(value, borrow=True)

    def _draw(self, point: dict[str, np.ndarray]) -> dict[str, Any]:
        from pymc_spn.trees.features import make_rules
        from pymc_spn.trees.leaves import make_leaf_prior

        rules, numbers = (np.array(v) for v in self.hyperparameters(*[point[n] for n in self.value_names]))
        if not 0.0 < rules[0] < 1.0:
            raise ValueError(
                f"alpha_s of {self.structure!r} must lie in (0, 1), its variable is {rules[0]}; give it such a prior"
            )
        compiled = make_rules(rules[0], rules[1], self.schema.max_depth, self.schema.min_size)
        leaf = make_leaf_prior(self.draws.family, numbers, self.draws.y)
        decisions, log_evidence = self._tree_given(compiled, leaf)
        moved = not np.array_equal(decisions, self.decisions)
        self.decisions = decisions
        draws = self.draws.only(decisions, numbers, rules)
        log_joint = float(draws.log_joint[0])
        self._publish(draws, log_joint)
        point[self.structure + TICKET] = np.asarray(log_joint)
        tree = draws.tree(0)
        said = {"leaves": tree.n_leaves, "depth": int(draws.depth.max()), "moved": moved}
        record = {self.structure + RECORD: b"" if self.tune else tree.encode()}
        return record | named(self.structure, said | {"log_evidence": log_evidence})

    def _tree_given(self, rules, leaf):
        from pymc_spn.trees.fit import log_mean
        from pymc_spn.trees.particle_kernels import pick_particle, run_particles
        from pymc_spn.trees.resampling import MULTINOMIAL

        log_weight, decisions, begin = run_particles(
            self.rng,
            self.draws.features.codes,
            self.draws.response,
            leaf,
            rules,
            self.particles,
            self.proposal,
            self.expansion,
            MULTINOMIAL,
            self.threshold,
            self.decisions,
            self.options,
            np.zeros(4, np.int64),
        )
        m = pick_particle(self.rng, log_weight)
        return decisions[begin[m] : begin[m + 1]].copy(), log_mean(log_weight)


offer(ParticleGibbsTreeStep)
