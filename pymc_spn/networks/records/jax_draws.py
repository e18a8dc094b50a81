"""Log predictives of many rows under recorded draws, as functions that JAX compiles.

All in logs, layer by layer (`draw_layers`), with one array operation for all draws and rows of a block. In float32 a
difference of a value and the centre of a leaf loses the digits that count. So both are given as two numbers, one for
what the other cannot hold.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FAR = 1e9  # of a standardised distance, beyond which its square may be too large for float32 and 1 is nothing beside it


class TwoNumbers(NamedTuple):
    """Numbers as a sum: rounded ones, and what is left of them."""

    high: Any
    low: Any

    @classmethod
    def of(cls, x: np.ndarray, dtype: Any) -> "TwoNumbers":
        """Split numbers of float64."""
        high = x.astype(dtype)
        return cls(high, (x - high).astype(dtype))


class ValueLeaves(NamedTuple):
    """Leaves (L,) of one column that are evaluated at each row; see `leaf_kernels` for their formula.

    Parameters
    ----------
    source : (L,) int32
        Row of the values: those of the columns, behind them their logs.
    column : (L,) int32
    log_scale, power, root : (L,)
        ``root`` is that of the curvature.
    centre : TwoNumbers (L,)
    slope : (L,) or None
        None where there is none.
    is_of_logs : (L,) bool or None
    """

    source: Any
    column: Any
    log_scale: Any
    power: Any
    root: Any
    centre: TwoNumbers
    slope: Any
    is_of_logs: Any


class JaxLayer(NamedTuple):
    """A `PaddedLayer` with what its leaves are evaluated from.

    Parameters
    ----------
    product, sums
        As there.
    by_value : ValueLeaves
    table_at, table_column : (T,) int32
        Where the table of each leaf by table begins, and its column.
    joint : (Q,) int32
        Rows of the logs of leaves over several columns.
    """

    product: Any
    sums: Any
    by_value: ValueLeaves
    table_at: Any
    table_column: Any
    joint: Any


class JaxRows(NamedTuple):
    """Rows (M,) as the leaves see them.

    Parameters
    ----------
    values : TwoNumbers (2 D, M)
        In coded units, behind them the logs of positive ones.
    above : (D, M)
        Values plus the offset of the column.
    code : (D, M) int32
        As of `BlockRows`.
    """

    values: TwoNumbers
    above: Any
    code: Any


class JointRows(NamedTuple):
    """Rows of a region's leaves over several columns, in chunks of rows with the same gaps.

    Parameters
    ----------
    factor : (G, J, d, d)
        Inverse of the Cholesky factor of the scale of what is observed, in each set of gaps and for each leaf, divided
        by the root of the degrees of freedom; 0 in columns that are missing.
    constant, power : (G, J)
    centre : TwoNumbers (J, d)
    gaps : (T,) int32
        Set of gaps of each chunk.
    values : TwoNumbers (T, d, B)
    known : (J, H)
        Logs of other rows, worked out elsewhere.
    position : (M,) int32
        Where each row stands among those of the chunks and these.
    which : (K,) int32
        Leaves whose logs were all worked out elsewhere; J and more are none.
    whole : (K, M)
    """

    factor: Any
    constant: Any
    power: Any
    centre: TwoNumbers
    gaps: Any
    values: TwoNumbers
    known: Any
    position: Any
    which: Any
    whole: Any


@jax.jit
def log_predictives(layers: list[JaxLayer], roots: Any, rows: JaxRows, events: Any, table: Any, joints: Any) -> Any:
    """Log predictives (S, M) in coded units.

    Parameters
    ----------
    layers : list of JaxLayer
        The deepest first.
    roots : (S,) int32
        Positions of the roots in the last one.
    rows : JaxRows
    events : list of (L,)
        Log probability of what is known of its column in each leaf by value of a layer.
    table : (V,)
        Tables of log values.
    joints : tuple of (J, M)
        Logs of the leaves over several columns, region by region.
    """
    joint: Any = jnp.concatenate(joints) if joints else None
    below: Any = None
    for layer, event in zip(layers, events, strict=True):
        children = []
        if layer.product.size:
            parts = jnp.where(layer.product[:, :, None] >= 0, below[layer.product], 0.0)
            children.append(parts.sum(axis=1))
        if layer.by_value.source.size:
            children.append(logs_by_value(layer.by_value, rows, event))
        if layer.table_at.size:
            children.append(table[layer.table_at[:, None] + rows.code[layer.table_column]])
        if layer.joint.size:
            children.append(joint[layer.joint])
        below = layer_sums(layer, jnp.concatenate(children))
    return below[roots]


def layer_sums(layer: JaxLayer, children: Any) -> Any:
    """Logs (N, M) of a layer's sum nodes from those of their children (C, M)."""
    found = []
    for child, log_weight in layer.sums:
        terms = children[child] + log_weight[:, :, None]  # (n, K, M)
        top = terms.max(axis=1)
        found.append(top if child.shape[1] == 1 else top + jnp.log(jnp.exp(terms - top[:, None]).sum(axis=1)))
    return jnp.concatenate(found)


def logs_by_value(leaves: ValueLeaves, rows: JaxRows, event: Any) -> Any:
    """Log densities (L, M) of leaves in rows; of what is known of a column where it has no point."""
    high, low = (x[leaves.source] for x in rows.values)
    z = ((high - leaves.centre.high[:, None]) + (low - leaves.centre.low[:, None])) * leaves.root[:, None]
    if leaves.slope is None:
        log = log_of_1_plus_square(jnp.abs(z), 1.0, z * z)
    else:
        log = log_of_1_plus_square(jnp.abs(z), 1.0, z * z + rows.above[leaves.column] * leaves.slope[:, None])
    out = leaves.log_scale[:, None] - leaves.power[:, None] * log
    if leaves.is_of_logs is not None:
        out -= jnp.where(leaves.is_of_logs[:, None], high, 0.0)
    code = rows.code[leaves.column]
    return jnp.where(code == 0, out, jnp.where(code == -1, 0.0, event[:, None]))


def log_of_1_plus_square(size: Any, relative: Any, square: Any) -> Any:
    """log(1 + square) of a square that is size² times ``relative``, also where it is too large a number."""
    is_far = size > FAR
    near = jnp.log1p(jnp.where(is_far, 0.0, square))
    return jnp.where(is_far, 2.0 * jnp.log(jnp.where(is_far, size, 1.0)) + jnp.log(relative), near)


@jax.jit
def logs_of_joints(rows: JointRows) -> Any:
    """Logs (J, M) of a region's leaves over several columns."""

    def of_chunk(chunk: Any) -> Any:
        gaps, (high, low) = chunk
        away = (high - rows.centre.high[:, :, None]) + (low - rows.centre.low[:, :, None])  # (J, d, B)
        z = jnp.matmul(rows.factor[gaps], away, precision=jax.lax.Precision.HIGHEST)
        size = jnp.abs(z).max(axis=1)
        shape = z / jnp.maximum(size, 1.0)[:, None]
        log = log_of_1_plus_square(size, (shape * shape).sum(axis=1), (z * z).sum(axis=1))
        return rows.constant[gaps][:, None] - rows.power[gaps][:, None] * log

    found = jax.lax.map(of_chunk, (rows.gaps, rows.values))  # (T, J, B)
    found = jnp.moveaxis(found, 0, 1).reshape(found.shape[1], -1)
    out = jnp.concatenate([found, rows.known], axis=1)[:, rows.position]
    return out.at[rows.which].set(rows.whole, mode="drop")
