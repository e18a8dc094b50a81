"""One decision tree as arrays in breadth-first order, and its compact record."""

import base64
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_spn.numerics.html_repr import Facts, NotebookRepr
from pymc_spn.tables.stored_arrays import refuse


@dataclass(frozen=True, eq=False, repr=False)
class Tree(NotebookRepr):
    """Decisions of the nodes in breadth-first order.

    Parameters
    ----------
    decisions : (n, 4) int32
        Feature (-1: leaf), low, high, side; see `split_kernels`. Codes are ranks of the training table's values.
    """

    decisions: np.ndarray

    def __post_init__(self) -> None:
        d = np.array(self.decisions, np.int32, order="C")  # a copy: the caller's array stays as it is
        if d.ndim != 2 or d.shape[1] != 4 or len(d) == 0:
            raise ValueError(f"decisions must have shape (nodes, 4) with at least one node, got {d.shape}")
        if len(d) != 1 + 2 * int((d[:, 0] >= 0).sum()):
            raise ValueError(f"decisions must hold one node more than twice its splits, got {len(d)} nodes")
        d.flags.writeable = False
        object.__setattr__(self, "decisions", d)

    def _facts(self) -> Facts:
        n_features = len(np.unique(self.decisions[self.decisions[:, 0] >= 0, 0]))
        facts = {"leaves": f"{self.n_leaves} leaves", "depth": f"depth {self.depth.max()}"}
        return Facts("Tree", facts | {"features": f"splits on {n_features} features"})

    @cached_property
    def children(self) -> np.ndarray:
        """(n, 2) indices of left and right child, -1 for leaves."""
        left = left_children(self.decisions, np.array([0, len(self.decisions)]))
        return np.column_stack([left, np.where(left >= 0, left + 1, -1)])

    @cached_property
    def depth(self) -> np.ndarray:
        """(n,) depth of each node, the root's is 0."""
        return depths(self.children[:, 0], np.zeros(1, np.int64))

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.decisions[:, 0] < 0).sum())

    def encode(self) -> bytes:
        """Printable bytes: one bit a node, then the splits, compressed."""
        split = self.decisions[:, 0] >= 0
        head = np.array([len(split)], np.int32).tobytes()
        body = np.ascontiguousarray(self.decisions[split].T).tobytes()
        return base64.b85encode(zlib.compress(head + np.packbits(split).tobytes() + body, 6))

    @classmethod
    def decode(cls, record: bytes, most_nodes: int) -> "Tree":
        """The tree that `encode` wrote.

        Raises
        ------
        ValueError
            If it is no such record, or one of more than `most_nodes` nodes: it is inflated no further.
        """
        most = 4 + (most_nodes + 7) // 8 + 8 * most_nodes
        try:
            inflate = zlib.decompressobj()
            raw = inflate.decompress(base64.b85decode(record), most + 1)
        except (ValueError, zlib.error) as error:
            refuse("the record of a tree", "be what was written of it", error)
        n = int(np.frombuffer(raw[:4], np.int32)[0]) if len(raw) > 4 else 0
        n_bytes = (n + 7) // 8
        if not (inflate.eof and 1 <= n <= most_nodes and n % 2 and len(raw) == 4 + n_bytes + 8 * (n - 1)):
            refuse("the record of a tree", f"hold an odd number of nodes, at most {most_nodes}", f"{n} nodes")
        split = np.unpackbits(np.frombuffer(raw[4 : 4 + n_bytes], np.uint8), count=n).astype(bool)
        if 2 * np.count_nonzero(split) + 1 != n:
            refuse("the record of a tree", "hold one node more than twice its splits", f"{n} nodes")
        decisions = np.zeros((n, 4), np.int32)
        decisions[:, 0] = -1
        decisions[:, 3] = -1
        decisions[split] = np.frombuffer(raw[4 + n_bytes :], np.int32).reshape(4, -1).T
        return cls(decisions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and np.array_equal(self.decisions, other.decisions)

    def __hash__(self) -> int:
        return hash(self.decisions.tobytes())


def splits_before(decisions: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """(n,) splits before each node in its own tree, of trees that stand one after the other."""
    before = np.cumsum(decisions[:, 0] >= 0) - (decisions[:, 0] >= 0)
    return before - np.repeat(before[begin[:-1]], np.diff(begin))


def left_children(decisions: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """(n,) place of each node's left child, which the right one follows; -1 for leaves."""
    first = np.repeat(begin[:-1], np.diff(begin)) + 1 + 2 * splits_before(decisions, begin)
    return np.where(decisions[:, 0] >= 0, first, -1)


def depths(left: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """(n,) depth of each node, from the places of left children."""
    out, current, level = np.zeros(len(left), np.int64), roots, 0
    while current.size:
        out[current] = level
        inner = left[current[left[current] >= 0]]
        current, level = np.concatenate([inner, inner + 1]), level + 1
    return out
