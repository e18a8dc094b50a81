"""Leaves over several columns in variational Bayes, against brute force, all states of tiny tables, and circuits."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import digamma, logsumexp, multigammaln

import pymc_spn as ps
from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO
from pymc_spn.gibbs.palette import code_values, complete_palette, with_spread_values
from pymc_spn.networks.recorded_law import RecordedLaw
from pymc_spn.networks.records.fitted_states import FittedStates
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.networks.variational import assignments, coordinate_ascent, joint_kernels
from pymc_spn.networks.variational.active_tree import tree_of_digits
from pymc_spn.networks.variational.assignments import ListSearch
from pymc_spn.networks.variational.fit import fit_of
from pymc_spn.networks.variational.joint_kernels import expect_joints
from pymc_spn.networks.variational.path_kernels import assign_rows
from pymc_spn.networks.variational_posterior import VariationalPosterior
from pymc_spn.numerics import threads
from pymc_spn.tables import Table
from tests.networks.joint_tables import (
    JOINT,
    MASS,
    PRIOR,
    QUESTIONS,
    RATIO,
    ROWS,
    SCALE,
    SHAPE,
    TABLES,
    enumerated,
    table,
)
from tests.reference import Problem, Splits
from tests.reference_variational import Variational, trees_of_row

ALL_EDGES = ListSearch(breadth=99, descent=99, enter=1e-30, leave=1e-30)
GAPS = np.array([[0.3, 0.4], [-1.0, np.nan], [1.2, 0.9], [np.nan, -0.3], [0.1, 0.2]])


class JointVariational(Variational):
    """`Variational` over two columns, whose children with an odd label are normal-inverse-Wishart leaves over both.

    The normal factor of a missing cell is worked out by quadrature: ``filled`` has its mean, variance and entropy by
    row and edge.
    """

    def __init__(self, problem, active, q, filled, cell=(0.0, 0.0)):
        super().__init__(problem, active, q)
        self.filled, self.cell, self.settled = filled, np.diag(cell), False

    @classmethod
    def start(cls, problem, active, q, cell=(0.0, 0.0)):
        """Missing cells are as the prior has them."""
        empty = cls(problem, active, [[] for _ in q], {}, cell)
        return cls(problem, active, q, empty.factors(), cell)

    def after(self, edge):
        """m, k, Psi, v of the posterior of a leaf."""
        k, v, total, square = PRECISION_RATIO, 2 + EXCESS, np.zeros(2), JOINT * (EXCESS - 1.0) * np.eye(2)
        for row, trees in enumerate(self.q):
            for labels, p in trees:
                if labels[0] == edge:
                    x, covariance, _ = self.moments(row, edge)
                    k, v, total = k + p, v + p, total + p * x
                    square = square + p * (np.outer(x, x) + covariance)
        return total / k, k, square - np.outer(total, total) / k, v

    def moments(self, row, edge):
        x, covariance, entropy = self.problem.X[row].copy(), self.cell.copy(), 0.0
        if np.isnan(x).any():
            u = int(np.argmax(np.isnan(x)))
            x[u], covariance[u, u], entropy = self.filled[row, edge]
        return x, covariance, entropy

    def expected_in_leaf(self, edge, x, covariance):
        m, k, psi, v = self.after(edge)
        inverse = v * np.linalg.inv(psi)
        of_determinant = digamma((v - np.arange(2)) / 2).sum() + 2 * math.log(2.0) - math.log(np.linalg.det(psi))
        square = (x - m) @ inverse @ (x - m) + np.trace(inverse @ covariance)
        return 0.5 * (of_determinant - 2 * math.log(2.0 * math.pi) - 2 / k - square)

    def factor(self, row, edge):
        """Log of the integral over the missing cell, and its mean, variance and entropy."""
        x = self.problem.X[row]
        u = int(np.argmax(np.isnan(x)))
        cell = self.cell.copy()
        cell[u, u] = 0.0

        def log_p(y):
            return self.expected_in_leaf(edge, np.where(np.isnan(x), y, x), cell)

        grid = np.linspace(-30.0, 30.0, 2001)
        top = grid[np.argmax([log_p(y) for y in grid])]
        peak = log_p(top)
        ends = {"points": [top], "limit": 500, "epsabs": 1e-13, "epsrel": 1e-12}

        def integral(f):
            return quad(lambda y: math.exp(log_p(y) - peak) * f(y), top - 30.0, top + 30.0, **ends)[0]

        norm = integral(lambda y: 1.0)
        mean = integral(lambda y: y) / norm
        variance = integral(lambda y: (y - mean) ** 2) / norm
        entropy = -integral(lambda y: log_p(y) - peak) / norm + math.log(norm)
        return peak + math.log(norm), mean, variance, entropy

    def factors(self):
        odd = [p[0] for r, p in self.active if r == 0 and p[0] % 2 == 1]
        gapped = np.flatnonzero(np.isnan(self.problem.X).any(axis=1)).tolist()
        return {(row, edge): self.factor(row, edge)[1:] for row in gapped for edge in odd}

    def leaf(self, region, edge_path):
        family, start, (m, rho, a, b) = super().leaf(region, edge_path)
        held = sum(p for _, p in self.held[region.index, edge_path])
        return family, start, (m, rho, a, b + 0.5 * held * self.cell[region.column, region.column])

    def expected_log(self, row, labels):
        total, edge = super().expected_log(row, labels), labels[0]
        for region in self.leaves:
            if region.index in labels:
                _, _, a, b = self.leaf(region, (edge, labels[region.index]))[2]
                total -= 0.5 * a / b * self.cell[region.column, region.column]
        if edge % 2 == 0:
            return total
        if self.settled or not np.isnan(self.problem.X[row]).any():
            x, covariance, entropy = self.moments(row, edge)
            return total + self.expected_in_leaf(edge, x, covariance) + entropy
        return total + self.factor(row, edge)[0]

    def bound(self):
        self.settled = True
        total = super().bound()
        self.settled = False
        return total - sum(self.divergence(p[0]) for r, p in self.active if r == 0 and p[0] % 2 == 1)

    def divergence(self, edge):
        m, k, psi, v = self.after(edge)
        psi0, v0, inverse = JOINT * (EXCESS - 1.0) * np.eye(2), 2 + EXCESS, np.linalg.inv(psi)
        of_mean = PRECISION_RATIO / k - 1.0 + math.log(k / PRECISION_RATIO)
        of_mean += 0.5 * PRECISION_RATIO * v * m @ inverse @ m
        of_matrix = 0.5 * v0 * math.log(np.linalg.det(psi) / np.linalg.det(psi0)) + 0.5 * v * np.trace(inverse @ psi0)
        of_matrix += multigammaln(v0 / 2, 2) - multigammaln(v / 2, 2) - v
        return of_mean + of_matrix + 0.5 * (v - v0) * digamma((v - np.arange(2)) / 2).sum()

    def step(self):
        after = super().step()
        return JointVariational(self.problem, self.active, after.q, self.factors(), np.diag(self.cell))

    def predictive(self, x, region=None, above=()):
        region = self.problem.region_list[0] if region is None else region
        if region.index > 0 or above is None:
            return super().predictive(x, region, above)
        found, rest, _ = self.weights(region, ())
        total = sum(mass * self.new_child(x, c) for c, mass in rest.items())
        for c, (_, mean) in found.items():
            if c % 2 == 1:
                total += mean * student(x, *self.after(c))
            else:
                total += mean * math.prod(super(JointVariational, self).predictive(x, r, (c,)) for r in self.leaves)
        return total

    @property
    def leaves(self):
        return self.problem.region_list[1:]

    def new_child(self, x, kind):
        if kind == 1:
            return student(x, np.zeros(2), PRECISION_RATIO, JOINT * (EXCESS - 1.0) * np.eye(2), 2 + EXCESS)
        return math.prod(super(JointVariational, self).predictive(x, r, None) for r in self.leaves)


def student(x, m, k, psi, v):
    """Predictive density of the observed cells."""
    o = ~np.isnan(x)
    return stats.multivariate_t.pdf(x[o], m[o], psi[np.ix_(o, o)] * (k + 1.0) / (k * (v - 1.0)), v - 1.0)


def schema_of(y):
    frame = Table.from_frame({name: y[:, d] for d, name in enumerate("ab")}, dict.fromkeys("ab", "real"))
    leaves = {name: ps.leaves.Gaussian(mean=0.0, variance=1.0) for name in "ab"}
    palette, _ = complete_palette(frame.columns, frame.values, leaves, 0.0)
    two = (0.0, 0.0)
    return NetworkSchema(
        name="x", structure=ps.circuits.complete_tree(frame.columns), columns=frame.columns,
        palette=tuple(map(tuple, palette)), resolution=two, centre=two, scale=(1.0, 1.0), hyperparameters={},
        joint=("a", "b"),
    )  # fmt: skip


def compiled_of(y, cell=(0.0, 0.0)):
    schema = schema_of(y)
    return schema.structure, with_spread_values(schema.compiled, np.sqrt(12.0 * np.array(cell)))


def ascent(y, seed=0, max_steps=200, tolerance=1e-12, search=ALL_EDGES, cell=(0.0, 0.0)):
    """A run from random digits of which both kinds occur, and the reference on the same edges."""
    structure, compiled = compiled_of(y, cell)
    rng = np.random.default_rng(seed)
    while True:
        digits = np.stack([rng.integers(0, 4, len(y)), *rng.integers(0, 2, (2, len(y)))], axis=1)
        digits[:, 1:][np.isnan(y) | (digits[:, :1] % 2 == 1)] = -1
        kinds, reached = {d % 2 for d in digits[:, 0]}, [(d, r) for d in {*digits[::, 0]} for r in (1, 2) if d % 2 == 0]
        if len(kinds) == 2 and all((digits[digits[:, 0] == d, r] >= 0).any() for d, r in reached):
            break
    state = [{r: int(d) for r, d in enumerate(row) if d >= 0} for row in digits]
    problem = Problem(Splits((((0,), (1,)), ())), "infinite", *MASS, [[("gaussian", PRIOR)]] * 2, y)
    active = {(r, (s[0],) if r == 0 else (s[0], s[r])) for s in state for r in s}
    reference = JointVariational.start(problem, active, [[(labels, 1.0)] for labels in state], cell)
    hyper = np.array(MASS), np.full(2, SCALE), np.full(2, SHAPE), np.full(2, RATIO), np.full(2, JOINT)
    run = coordinate_ascent.ascend(
        structure, compiled, code_values(compiled, y), np.zeros_like(y), 0.0,
        tree_of_digits(structure, compiled, digits.astype(np.int32)), hyper, np.zeros((5, 2), np.bool_),
        np.ones((5, 3)), max_steps, tolerance, search=search, n_batches=1,
    )  # fmt: skip
    return run, reference


def bounds_of(reference, n_steps):
    expected = [reference.bound()]
    for _ in range(n_steps):
        reference = reference.step()
        expected.append(reference.bound())
    return expected


@pytest.mark.parametrize("cell", [(0.0, 0.0), (0.02, 0.0)], ids=["exact", "cells"])
@pytest.mark.parametrize("y", [TABLES["whole"], GAPS], ids=["whole", "gaps"])
def test_every_step_has_the_bound_of_the_brute_force(y, cell):
    run, reference = ascent(y, max_steps=4, cell=cell)  # the next one drops an empty edge
    assert len(trees_of_row(reference.problem, 0, reference.active)) > 1
    np.testing.assert_allclose(run.bounds, bounds_of(reference, run.bounds.size - 1), rtol=0, atol=1e-8)
    assert run.bounds.size >= 4


def leaves_with_known_means(joints):
    """The mistake of a mean that has no uncertainty: the term d / k is lost."""
    expect_joints(joints)
    joints.constant[:] += 1.0 / (PRECISION_RATIO + joints.n_rows)


def gaps_at_the_centre(tree, summaries, joints, y, *others):
    """The mistake of a missing cell that counts as one at the centre of the prior."""
    return assign_rows(tree, summaries, joints, np.nan_to_num(y), *others)


@pytest.mark.parametrize(
    ("place", "name", "mistake"),
    [
        (joint_kernels, "expect_joints", leaves_with_known_means),
        (assignments, "assign_rows", gaps_at_the_centre),
    ],
)
def test_planted_mistakes_leave_the_brute_force(monkeypatch, place, name, mistake):
    monkeypatch.setattr(place, name, mistake)
    run, reference = ascent(GAPS, max_steps=4)
    assert np.abs(run.bounds - bounds_of(reference, run.bounds.size - 1)).max() > 1e-2


@pytest.mark.parametrize("name", ["whole", "gap"])
def test_the_bound_rises_and_stays_below_the_log_evidence(name):
    y = TABLES[name]
    evidence = logsumexp(list(enumerated(y).values()))
    for seed in range(6):
        for search in (ALL_EDGES, coordinate_ascent.USUAL, ListSearch(0, 1, 0.3, 0.2)):
            run, _ = ascent(y, seed, search=search)
            assert run.converged
            assert np.diff(run.bounds).min() > -1e-11
            assert run.bounds[0] <= run.bounds[-1] < evidence


@pytest.mark.parametrize("y", [TABLES["whole"], GAPS], ids=["whole", "gaps"])
def test_the_predictive_is_the_expectation_of_the_brute_force(y):
    run, reference = ascent(y, seed=1, max_steps=3, tolerance=1e-300)
    for _ in range(3):
        reference = reference.step()
    schema = schema_of(y)
    post = VariationalPosterior(RecordedLaw(FittedStates(schema, fit_of([run]))))
    rows = np.array([[0.3, 0.2], [np.nan, 0.5], [0.1, np.nan], [-2.0, 1.0], [40.0, -40.0]])
    expected = [math.log(reference.predictive(x)) for x in rows]
    found = post.log_density(pd.DataFrame(rows, columns=list("ab")))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


# ---- fits of a table
@cache
def posterior():
    return ps.fit_variational(table(), joint_leaves=ps.leaves.MultivariateGaussian(), random_seed=1, progressbar=False)


@cache
def circuit():
    return posterior().as_circuit()


def test_a_fit_rises_and_has_leaves_of_both_kinds():
    assert np.nanmin(np.diff(posterior().trace().values)) > -1e-9
    assert posterior()._states.fit.sums.size > 0
    assert any(name.startswith("multivariate_student_t") for name in circuit().circuit.families)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_the_answer_of_the_circuit(question):
    ours, theirs = (QUESTIONS[question](one) for one in (posterior(), circuit()))
    stated = 5.0 * np.hypot(*(one.attrs["mcse"] for one in (ours, theirs))) if "mcse" in ours.attrs else 0.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8 + stated)


def test_a_stored_fit_has_the_same_answers(tmp_path):
    posterior().save(tmp_path / "fit.nc")
    again = ps.VariationalPosterior.from_idata(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.log_density(ROWS), posterior().log_density(ROWS))
    assert list(again.hyperparameters()["covariance_scale"]["joint_column"]) == ["a", "b", "c"]


def test_threads_give_equal_bits(monkeypatch):
    monkeypatch.setattr(assignments, "ROWS", 10)
    wide = ps.leaves.MultivariateGaussian()
    fits = []
    for n in (1, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n: n)
        fits.append(ps.fit_variational(table(), joint_leaves=wide, restarts=1, random_seed=1, progressbar=False))
    np.testing.assert_array_equal(*(fit.trace() for fit in fits))


def test_leaves_over_several_columns_refuse_what_they_have_not():
    wide = ps.leaves.MultivariateGaussian()
    with pytest.raises(ValueError, match="joint_leaves needs a region of 2 to 64"):
        ps.fit_variational(table(), ps.circuits.complete_tree(list("abcg"), 2), joint_leaves=wide)
