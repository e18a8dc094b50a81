"""Chains that go on from recorded draws where a table has grown: which draws, and whether they fit the new model."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor import config

from pymc_spn.leaves.multivariate_gaussian_prior import MultivariateGaussian
from pymc_spn.networks.schema import HYPERPARAMETERS, NetworkSchema
from pymc_spn.numerics.draw_averages import even_choice, relative_weights
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table

if TYPE_CHECKING:
    from pymc_spn.circuits.structures.regions import RegionTree
    from pymc_spn.networks.posterior import SPNPosterior

POSTERIOR = "posterior"  # the start in the schema of a model whose chains begin so
MOST_DRAWS = 16  # of each chain that are kept to choose from
MOST_BYTES = 20e6  # of their assignments, which go to each process


@dataclass(frozen=True, eq=False)
class StoredStart:
    """Recorded states at which chains may begin.

    Parameters
    ----------
    digits : (K, n, R) integers
        Assignments of the first n rows.
    hyperparameters : tuple of five (K, ...) float64
    weight : (K,) float64
        They add up to 1.
    """

    digits: np.ndarray
    hyperparameters: tuple[np.ndarray, ...]
    weight: np.ndarray

    def choose(
        self, rng: np.random.Generator, given: list[np.ndarray], owned: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Digits (n, R) of a state at random, and its hyperparameters where owned (5, ...), elsewhere those given."""
        k = int(rng.choice(self.weight.size, p=self.weight))
        own = zip(owned, self.hyperparameters, given, strict=True)
        return self.digits[k], [np.where(mine[: old.size], stored[k], old) for mine, stored, old in own]


def structure_of_start(start: Any) -> "tuple[RegionTree, bool, MultivariateGaussian | None]":
    """Structure of the posterior at which chains begin, whether it was learned, and its leaves over several columns.

    Raises
    ------
    TypeError, ValueError
        If it is no posterior from sampling, or a condition or a marginal of one.
    """
    from pymc_spn.networks.posterior import SPNPosterior

    if not isinstance(start, SPNPosterior):
        raise TypeError(f'start must be "kmeans", "prior" or an SPNPosterior; got {quoted(start)}')
    start._refuse_condition("start")
    schema = start._first.schema
    joint = MultivariateGaussian(schema.joint) if schema.joint else None
    return replace(schema.structure, columns=schema.columns), schema.learned, joint


def stored_start(post: "SPNPosterior", schema: NetworkSchema, table: Table) -> StoredStart:
    """States of a posterior for chains of a model with the same structure and a table that begins with its rows.

    Raises
    ------
    ValueError
        If structure, columns or leaves are others, drawn cells are part of the states, or the first rows differ.
    """
    record = post._with_all_draws._states.record
    _refuse_other_model(record.schema, schema)
    _refuse_other_rows(record.table, table)
    n_chains, length, n_rows, n_regions = record.digits.shape
    each = record.digits.dtype.itemsize * n_chains * n_rows * n_regions
    # the last draw is always among them
    kept = length - 1 - even_choice(length, int(np.clip(MOST_BYTES // each, 1, MOST_DRAWS)))
    weight = relative_weights(post._with_all_draws._first.chosen).reshape(n_chains, length)[:, kept].ravel()
    return StoredStart(
        np.ascontiguousarray(record.digits[:, kept]).reshape(-1, n_rows, n_regions),
        tuple(record.hyperparameters[k][:, kept].reshape(weight.size, -1) for k in HYPERPARAMETERS),
        weight / weight.sum(),
    )


def start_of_variable(name: str, schema: NetworkSchema, rv: Any) -> StoredStart | None:
    """States at which the chains of an `SPN` begin; None where it starts otherwise.

    Raises
    ------
    ValueError
        If the variable is a copy that has lost them.
    """
    if schema.start != POSTERIOR:
        return None
    found = getattr(rv.tag, "spn_start", None)
    if found is None:
        raise ValueError(
            f"the posterior that {name!r} starts from was lost where the model was copied: make ps.SPN({name!r}, ..., "
            "start=) in the model that is sampled"
        )
    assert isinstance(found, StoredStart)
    return found


def _refuse_other_model(old: NetworkSchema, new: NetworkSchema) -> None:
    """Refuse assignments that mean something else in the new model."""
    for schema in (old, new):
        if schema.missing == "draw":
            raise ValueError('start: a posterior can only be continued with missing="marginal", got missing="draw"')
    names = [[c.name for c in schema.columns] for schema in (old, new)]
    if names[0] != names[1]:
        raise ValueError(f"start: observed must have the posterior's columns {names[0]} in this order, got {names[1]}")
    for field in ("order", "begin", "end", "parent", "n_children", "split"):
        if not np.array_equal(getattr(old.structure, field), getattr(new.structure, field)):
            raise ValueError("start: structure must be that of the posterior; leave it out to take that")
    for old_column, new_column in zip(old.columns, new.columns, strict=True):
        meant = [(c.kind, c.levels) for c in (old_column, new_column)]
        if meant[0] != meant[1]:
            raise ValueError(
                f"start: column {old_column.name!r} must be as in the posterior ({_in_words(*meant[0])}), got "
                f"{_in_words(*meant[1])}; leave structure out to read it so"
            )
    if set(old.joint) != set(new.joint):
        raise ValueError(
            f"start: joint_leaves must be as in the posterior, over {sorted(old.joint)}, got {sorted(new.joint)}"
        )
    for column, *entries in zip(new.columns, old.palette, new.palette, strict=True):
        families = [[e.family for e in each] for each in entries]
        if families[0] != families[1]:
            raise ValueError(
                f"start: leaves of column {column.name!r} must be those of the posterior, {families[0]}, got "
                f"{families[1]}; give leaves= as you did for it"
            )


def _in_words(kind: str, levels: Any) -> str:
    return kind if levels is None else f"{kind} with the levels {quoted(list(levels))}"


def _refuse_other_rows(old: np.ndarray, table: Table) -> None:
    """Refuse a table that does not begin with the rows of the posterior."""
    n = len(old)
    if len(table.values) < n:
        raise ValueError(
            f"start: observed must hold the {n:,} rows of the posterior, and may hold more; got {len(table.values):,}"
        )
    first = table.values[:n]
    same = (old == first) | (old == first.astype(config.floatX)) | (np.isnan(old) & np.isnan(first))
    if not same.all():
        row, d = np.argwhere(~same)[0].tolist()
        raise ValueError(
            f"start: observed must begin with the rows of the posterior in their order, and row "
            f"{table.index[row : row + 1].tolist()[0]!r} (position {row}) has {_cell(first[row, d])} in column "
            f"{table.names[d]!r}, where the posterior has {_cell(old[row, d])}"
        )


def _cell(value: float) -> str:
    return "no value" if np.isnan(value) else f"{value:.15g}"
