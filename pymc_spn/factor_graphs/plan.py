"""A junction tree in flat integer arrays: everything that does not depend on potentials, evidence or rows."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.factor_graphs import elimination, layout
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.read_only_views import read_only_view


class PlanArrays(NamedTuple):
    """What the kernels read; cliques are numbered children first.

    A table is the product of the factors of a clique, a matrix (separator states, own states). Cliques with equal
    factors share one. Messages, own parts and states are groups of eight rows, addressed by the offsets here.
    """

    card: np.ndarray  # (n_variables,) int64
    state_start: np.ndarray  # (n_variables + 1,) first state of each variable in vectors over all states
    own_clique: np.ndarray  # (n_variables,) clique that owns the variable
    own_stride: np.ndarray  # (n_variables,) its stride within the clique's own states
    own_ptr: np.ndarray  # (n_cliques + 1,) own variables of each clique
    own_variables: np.ndarray
    parent: np.ndarray  # (n_cliques,) -1 at roots
    n_rows: np.ndarray  # (n_cliques,) separator states
    n_cols: np.ndarray  # (n_cliques,) own states
    message_start: np.ndarray  # (n_cliques + 1,) first separator state of each clique
    own_start: np.ndarray  # (n_cliques + 1,) first own state of each clique
    table: np.ndarray  # (n_cliques,) number of the clique's table
    child_ptr: np.ndarray  # (n_cliques + 1,) children of each clique, those within its own states first
    n_simple: np.ndarray  # (n_cliques,) how many children lie within its own states
    children: np.ndarray
    map_ptr: np.ndarray  # by place in children
    child_map: np.ndarray  # int32, separator entry for each own state (simple) or table entry (mixed)
    table_start: np.ndarray  # (n_tables + 1,) first entry of each table
    term_ptr: np.ndarray  # (n_tables + 1,) factors of each table
    term_offset: np.ndarray  # where the factor's entries start in the vector of potentials
    term_map_ptr: np.ndarray
    term_map: np.ndarray  # int32, factor entry for each table entry
    constants: np.ndarray  # offsets of the potentials of factors without variables


@dataclass(frozen=True)
class Plan:
    """`PlanArrays` with what reports and queries need besides."""

    arrays: PlanArrays
    order: np.ndarray  # elimination order
    clique_ptr: np.ndarray  # variables of each clique, separator first
    clique_variables: np.ndarray
    n_separator: np.ndarray
    factor_clique: np.ndarray  # (n_factors,) clique that holds the factor, -1 without variables

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", PlanArrays(*map(read_only_view, self.arrays)))

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle is built again: arrays come out of it writable, and kernels would be compiled once more."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self))

    @property
    def n_cliques(self) -> int:
        """Number of maximal cliques."""
        return self.arrays.parent.size

    def variables_of(self, clique: int) -> np.ndarray:
        """Variables of a clique, in the order of its axes."""
        return self.clique_variables[self.clique_ptr[clique] : self.clique_ptr[clique + 1]]


class TooWideError(ValueError):
    """Some clique of the junction tree would need a larger table than allowed."""


class Blocked(Exception):
    """The elimination has no variable left that fits; ``args[0]`` are the variables of the smallest clique."""


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _interaction_graph(card: np.ndarray, scope_ptr: np.ndarray, scope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of each variable: CSR of all pairs that share a factor; one-state variables stand alone."""
    arity = np.diff(scope_ptr)
    codes = [np.empty(0, np.int64)]
    n = card.size
    for k in np.unique(arity[arity > 1]):
        members = scope[scope_ptr[:-1][arity == k][:, None] + np.arange(k)]  # (n_factors of this arity, k)
        for i in range(k):
            for j in range(i + 1, k):
                a, b = members[:, i], members[:, j]
                both = (card[a] > 1) & (card[b] > 1)
                codes.append((np.minimum(a, b) * n + np.maximum(a, b))[both])
    pairs = np.unique(np.concatenate(codes))
    a, b = pairs // max(n, 1), pairs % max(n, 1)
    source, target = np.concatenate([a, b]), np.concatenate([b, a])
    by_source = np.argsort(source, kind="stable")
    return _starts(np.bincount(source, minlength=n)), target[by_source]


def make_plan(card: np.ndarray, scope_ptr: np.ndarray, scope: np.ndarray, offset: np.ndarray, max_table: int) -> Plan:
    """Plan the exact inference of a graph.

    Parameters
    ----------
    card : (n_variables,) int64
        State counts.
    scope_ptr, scope : (n_factors + 1,) and int64
        Variables of each factor in the order of its axes.
    offset : (n_factors,) int64
        Where each factor's entries start in the vector of potentials.
    max_table : int
        Largest clique table, in entries.

    Raises
    ------
    Blocked
        If min-fill meets a clique above the limit.
    """
    n = card.size
    log_card = np.log2(card)
    limit = np.log2(max_table)
    ptr, adjacency = _interaction_graph(card, scope_ptr, scope)
    order, later_ptr, later, blocking = elimination.eliminate(ptr, adjacency, log_card, limit, int(limit))
    if blocking.size:
        raise Blocked(blocking)
    clique_of, position, parent, separator_step = elimination.join_cliques(order, later_ptr, later)
    n_cliques = parent.size
    ptr, variables, n_separator, own_stride, n_cols = layout.clique_variables(
        clique_of, position, order, separator_step, later_ptr, later, card
    )
    clique = np.repeat(np.arange(n_cliques), np.diff(ptr))
    is_own = clique_of[variables] == clique
    shared, of_child = variables[~is_own], clique[~is_own]
    n_rows = np.ones(n_cliques, np.int64)
    np.multiply.at(n_rows, of_child, card[shared])
    is_mixed = np.zeros(n_cliques, bool)  # the separator holds a variable that the parent does not own
    is_mixed[of_child[clique_of[shared] != parent[of_child]]] = True

    has_parent = np.flatnonzero(parent >= 0)
    children = has_parent[np.lexsort((has_parent, is_mixed[has_parent], parent[has_parent]))]
    n_entries = n_rows * n_cols
    host = parent[children]
    map_sizes = np.where(is_mixed[children], n_entries[host], n_cols[host])
    _refuse_tables(float(n_entries.max()), map_sizes.sum(dtype=np.float64))
    map_ptr = _starts(map_sizes)
    begin = ptr[host] + np.where(is_mixed[children], 0, n_separator[host])
    separators = ptr[children], ptr[children] + n_separator[children]
    child_map = layout.axis_maps(begin, ptr[host + 1], *separators, variables, variables, card, map_ptr)

    arity = np.diff(scope_ptr)
    n_factors = arity.size
    factor_clique = np.full(n_factors, -1)
    filled = arity > 0
    if np.any(filled):
        # A one-state variable stands alone in the graph and holds no axis: it must not decide where a factor goes.
        wide = np.where(card[scope] > 1, position[scope], n + position[scope])
        first = np.minimum.reduceat(wide, scope_ptr[:-1][filled])
        factor_clique[filled] = clique_of[order[first % n]]
    hosted = np.flatnonzero(filled)
    factors = hosted[np.argsort(factor_clique[hosted], kind="stable")]
    factor_ptr = _starts(np.bincount(factor_clique[hosted], minlength=n_cliques))
    wide_ptr, wide_scope = _without_single_states(card, scope_ptr, scope)

    sig_ptr, sig, hashes = layout.table_signatures(
        ptr, variables, n_separator, card, factor_ptr, factors, wide_ptr, wide_scope, offset
    )
    first = layout.share_tables(sig_ptr, sig, hashes, np.argsort(hashes, kind="stable"))
    leaders, table = np.unique(first, return_inverse=True)
    terms_of = np.diff(factor_ptr)[leaders]
    term_ptr = _starts(terms_of)
    term_factor = factors[np.repeat(factor_ptr[leaders] - term_ptr[:-1], terms_of) + np.arange(term_ptr[-1])]
    map_sizes = np.repeat(n_entries[leaders], terms_of)
    n_mapped = map_sizes.sum(dtype=np.float64) + float(map_ptr[-1])
    _refuse_tables(n_entries[leaders].sum(dtype=np.float64), n_mapped)
    term_map_ptr = _starts(map_sizes)
    holder = np.repeat(leaders, terms_of)
    scopes = wide_ptr[term_factor], wide_ptr[term_factor + 1]
    term_map = layout.axis_maps(ptr[holder], ptr[holder + 1], *scopes, variables, wide_scope, card, term_map_ptr)
    arrays = PlanArrays(
        card=card,
        state_start=_starts(card),
        own_clique=clique_of,
        own_stride=own_stride,
        own_ptr=_starts(np.bincount(clique_of, minlength=n_cliques)),
        own_variables=variables[is_own],
        parent=parent,
        n_rows=n_rows,
        n_cols=n_cols,
        message_start=_starts(n_rows),
        own_start=_starts(n_cols),
        table=table.astype(np.int64),
        child_ptr=_starts(np.bincount(host, minlength=n_cliques)),
        n_simple=np.bincount(host[~is_mixed[children]], minlength=n_cliques).astype(np.int64),
        children=children,
        map_ptr=map_ptr,
        child_map=child_map,
        table_start=_starts(n_entries[leaders]),
        term_ptr=term_ptr,
        term_offset=offset[term_factor],
        term_map_ptr=term_map_ptr,
        term_map=term_map,
        constants=offset[~filled],
    )
    return Plan(arrays, order, ptr, variables, n_separator, factor_clique)


def _refuse_tables(n_entries: float, n_mapped: float) -> None:
    """Refuse tables of so many entries, and their products, with maps of so many numbers, if memory is too small."""
    advice = "lower max_table, or cut edges between variables"
    refuse_memory("the junction tree", 16.0 * n_entries + 4.0 * n_mapped, advice)


def _without_single_states(card: np.ndarray, scope_ptr: np.ndarray, scope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept = card[scope] > 1
    owner = np.repeat(np.arange(scope_ptr.size - 1), np.diff(scope_ptr))
    return _starts(np.bincount(owner[kept], minlength=scope_ptr.size - 1)), scope[kept]
