"""What a user says of an Indian chefs process, checked: hyperparameters, observed nodes, base measure; its schema."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.indian_chefs.draw_checks import checked_room
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.records.stored_schema import StoredSchema
from pymc_spn.tables.column import as_name, by_name

SCHEMA, GRAPH, TICKET = "_graph_schema", "_graph", "_log_joint"
HYPERPARAMETERS = ("alpha", "gamma", "phi")
CHEFS = "indian chefs"  # name of the prior


@dataclass(frozen=True)
class GraphSchema(StoredSchema):
    """A graph of unknown size in a model.

    Parameters
    ----------
    name : str
    observed_nodes : tuple of str
    reputations : tuple of float or None
        Of the observed nodes, None where free.
    max_nodes : int
    base : tuple
        Uniform mass, levels and masses of the base measure.
    hyperparameters : dict
        For each ``{"fixed": number}`` or ``{"variable": name}``.
    """

    form: ClassVar[int] = 2
    place: ClassVar[str] = "the schema of a graph"
    marks: ClassVar[dict[str, str]] = {"prior": CHEFS}
    observed_nodes: tuple[str, ...]
    reputations: tuple[float | None, ...]
    max_nodes: int
    base: tuple
    hyperparameters: dict

    @classmethod
    def of_fields(cls, fields: dict[str, Any], place: str) -> "GraphSchema":
        """There is room for the observed nodes."""
        schema = super().of_fields(fields, place)
        checked_room(schema.max_nodes, schema.observed_nodes)
        return schema

    @property
    def fixed_reputations(self) -> np.ndarray:
        """(D,) float64, NaN where free."""
        return np.array([np.nan if r is None else r for r in self.reputations], np.float64)

    @property
    def node_labels(self) -> list[str]:
        """Names of the slots: the observed nodes, then hidden ones by their rank among the hidden."""
        return node_labels(self.observed_nodes, self.max_nodes)


def node_labels(observed_nodes: Sequence[str], max_nodes: int) -> list[str]:
    """Names of nodes, hidden ones as ``hidden_1`` and so on."""
    return [*observed_nodes, *(f"hidden_{h + 1}" for h in range(max_nodes - len(observed_nodes)))]


def check_positive(name: str, value: Any) -> float:
    """A positive finite number.

    Raises
    ------
    TypeError, ValueError
    """
    no_number = TypeError(f"{name} must be a positive number; got {quoted(value)}")
    if isinstance(value, bool | np.bool_ | str):  # which float would read
        raise no_number
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise no_number from None
    if not np.isfinite(number) or number <= 0.0:
        raise ValueError(f"{name} must be positive and finite; got {quoted(value)}")
    return number


def check_nodes(observed_nodes: Any, max_nodes: int | None = None, argument: str = "observed_nodes") -> tuple[str, ...]:
    """Names of the observed nodes.

    Parameters
    ----------
    observed_nodes : sequence of str, or int
    max_nodes : int, optional
    argument : str
        What the first is called in messages.

    Raises
    ------
    TypeError, ValueError
        If there is none, a name is not a string or is repeated, or `max_nodes` is below their number.
    """
    if hasattr(observed_nodes, "tolist"):  # arrays, a pandas index or series, NumPy's numbers
        observed_nodes = observed_nodes.tolist()
    if isinstance(observed_nodes, int) and not isinstance(observed_nodes, bool):
        _refuse_nodes(argument, observed_nodes)
        observed_nodes = [f"x{i + 1}" for i in range(observed_nodes)]
    if isinstance(observed_nodes, str) or not isinstance(observed_nodes, Sequence):
        hint = f"; take list({argument}.columns)" if hasattr(observed_nodes, "columns") else ""
        raise TypeError(f"{argument} must be names or their number; got {quoted(observed_nodes)}{hint}")
    names = tuple(as_name(label) for label in observed_nodes)
    wrong = [n for n in names if not isinstance(n, str)]
    if wrong:
        raise TypeError(f"{argument} must be names, str or int; got {quoted(wrong[0])}")
    if not names:
        raise ValueError(f"{argument} must hold at least one node; a graph without any is empty")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"{argument} must be distinct; {repeated[0]!r} occurs more than once")
    if max_nodes is not None and (isinstance(max_nodes, bool) or not isinstance(max_nodes, int | np.integer)):
        raise TypeError(f"max_nodes must be an integer; got {quoted(max_nodes)}")
    _refuse_nodes("max_nodes", int(max_nodes or 0))
    hidden = sorted(set(names) & set(node_labels((), len(names) + (max_nodes or 0))))
    if hidden:
        raise ValueError(f"{argument} must not have the names of hidden nodes; got {quoted(hidden[0])}")
    if max_nodes is not None and max_nodes < len(names):
        raise ValueError(f"max_nodes must be at least the number of observed nodes, {len(names)}; got {max_nodes}")
    return names


def _refuse_nodes(argument: str, n: int) -> None:
    """Refuse so many nodes if a table over pairs of them needs too much memory."""
    refuse_memory(f"{argument} = {n:,}: a graph", 2 * max(n, 0) ** 2, "take fewer nodes")


def check_base(base: Any) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Uniform mass, levels and masses of the reputations' base measure.

    Parameters
    ----------
    base : None, float or mapping
        None is the uniform measure on [0, 1], a number a point mass there; a mapping gives the masses of levels and,
        under "uniform", that of the uniform part.

    Raises
    ------
    TypeError, ValueError
        If a level lies outside [0, 1], a mass is not positive, or the masses do not sum to 1.
    """
    if base is None:
        return 1.0, (), ()
    if isinstance(base, int | float | np.number) and not isinstance(base, bool):
        base = {float(base): 1.0}
    if not isinstance(base, Mapping):
        raise TypeError(f"base must be None, a reputation, or a mapping from reputations to masses; got {quoted(base)}")
    masses = {}
    for level, mass in base.items():
        if level != "uniform" and not (isinstance(level, int | float | np.number) and 0.0 <= level <= 1.0):
            raise ValueError(f"base must have reputations in [0, 1] or 'uniform' as keys; got {quoted(level)}")
        masses[level if level == "uniform" else float(level)] = check_positive(f"base[{level!r}]", mass)
    if abs(sum(masses.values()) - 1.0) > 1e-9:
        raise ValueError(f"base must have masses that sum to 1; they sum to {sum(masses.values())}")
    uniform = masses.pop("uniform", 0.0)
    levels = tuple(sorted(masses))
    return uniform, levels, tuple(masses[level] for level in levels)


def check_reputations(reputations: Any, names: tuple[str, ...], base: tuple) -> np.ndarray:
    """Reputations (D,) of the observed nodes, NaN where free.

    Raises
    ------
    TypeError, ValueError
        If one lies outside [0, 1], a name is unknown or missing, or no node can ever be a parent of another.
    """
    if isinstance(getattr(reputations, "index", None), Iterable) and list(reputations.index) != [*range(len(names))]:
        reputations = reputations.to_dict()  # a pandas series with labels of its own
    if isinstance(reputations, Mapping):
        reputations = by_name("reputations", reputations)
        unknown = [n for n in reputations if n not in names]
        lacking = [n for n in names if n not in reputations]
        if unknown or lacking:
            raise ValueError(
                f"reputations must name exactly {quoted(list(names))}; unknown {quoted(unknown)}, missing "
                f"{quoted(lacking)}"
            )
        values = [reputations[n] for n in names]
    elif reputations is None or np.ndim(reputations) == 0:
        values = [reputations] * len(names)
    else:
        values = list(reputations)
        if len(values) != len(names):
            raise ValueError(f"reputations must be one number or {len(names)}; got {len(values)}")
    out = np.full(len(names), np.nan)
    for i, value in enumerate(values):
        if value is None:
            continue
        try:
            out[i] = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"reputations must be numbers or None; got {quoted(value)} for {names[i]!r}") from None
        if not 0.0 <= out[i] <= 1.0:
            raise ValueError(f"reputations must lie in [0, 1]; it is {value!r} for {names[i]!r}")
    uniform, levels, _ = base
    support = [0.0, 1.0] if uniform > 0.0 else [levels[0], levels[-1]]
    lowest = np.nanmin(np.append(out, support[0] if np.isnan(out).any() else np.nan))
    highest = np.nanmax(np.append(out, support[1]))
    if lowest >= highest:
        raise ValueError(
            f"reputations leave no structure: all observed nodes are at {lowest:g} or above and no node can stand "
            "above them, so none can have a parent; put them below 1"
        )
    return out


def check_graph(start: Any, names: tuple[str, ...], reputations: np.ndarray, max_nodes: int) -> Any:
    """Parents (n, n) bool and reputations (n,) of a graph that a chain shall start from.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, an edge goes upwards, a hidden node has no child, or a fixed reputation differs.
    """
    if not isinstance(start, tuple) or len(start) != 2:
        raise TypeError(f'start must be "prior", "empty" or a pair (parents, reputations); got {quoted(start)}')
    parents, theta = np.asarray(start[0]), np.asarray(start[1], np.float64)
    n, n_observed = len(theta), len(names)
    if parents.shape != (n, n) or theta.ndim != 1 or not n_observed <= n <= max_nodes:
        raise ValueError(
            f"start must have parents (n, n) and reputations (n,) with {n_observed} <= n <= {max_nodes}; got shapes "
            f"{parents.shape} and {theta.shape}"
        )
    if not np.isin(parents, (0, 1)).all():
        raise ValueError("start must have parents of 0 and 1")
    parents = parents.astype(bool)
    labels = node_labels(names, max_nodes)
    if not ((theta >= 0.0) & (theta <= 1.0)).all():
        bad = int(np.argmin((theta >= 0.0) & (theta <= 1.0)))
        raise ValueError(f"start must have reputations in [0, 1]; it is {theta[bad]} for {labels[bad]!r}")
    for i in range(n_observed):
        if not np.isnan(reputations[i]) and theta[i] != reputations[i]:
            raise ValueError(f"start must leave {names[i]!r} at its reputation {reputations[i]:g}; got {theta[i]}")
    for k, i in np.argwhere(parents):
        if theta[k] <= theta[i]:
            raise ValueError(
                f"start violates its order: parent {labels[k]!r} at {theta[k]:g} is not above {labels[i]!r} at "
                f"{theta[i]:g}"
            )
    for k in range(n_observed, n):
        if not parents[k].any():
            raise ValueError(f"start has hidden node {labels[k]!r} without a child")
    return parents, theta
